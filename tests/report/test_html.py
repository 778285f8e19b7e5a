import base64
import hashlib
import json

import pytest
from report_cases import HOSTILE, Reader

from dahgnn.report.html import COLOURS, chart_text, chip, colour, data_block, document


def test_a_data_block_holds_any_text_and_ends_no_element():
    for value in (HOSTILE, {HOSTILE: [HOSTILE, 1.5, None]}, "\u2028\u2029ä"):
        text = data_block(value)
        assert json.loads(text) == value
        assert "<" not in text
        assert text.isascii()


def test_a_data_block_has_no_numbers_that_json_lacks():
    with pytest.raises(ValueError, match="JSON"):
        data_block(float("nan"))


def test_text_of_charts_is_shown_as_it_is():
    assert chart_text("<b>&</b>") == "&lt;b&gt;&amp;&lt;/b&gt;"


def test_a_button_of_the_legend_escapes_its_text():
    reader = Reader(chip("a-1", HOSTILE, colour(len(COLOURS) + 2), dashed=True))
    assert [tag for tag, _ in reader.elements] == ["button", "i"]
    assert reader.text == HOSTILE
    assert reader.elements[1][1] == {"class": "dashed", "style": f"--c:{colour(2)}"}


def test_the_document_runs_its_own_scripts_and_loads_nothing():
    text = document(title=HOSTILE, body="<p>here</p>", data={"a": HOSTILE}, code="draw();")
    reader = Reader(text)
    tags = [tag for tag, _ in reader.elements]
    assert "img" not in tags
    assert tags.count("script") == 3
    assert reader.data() == {"a": HOSTILE}
    assert HOSTILE in reader.text  # the title
    assert reader.addresses() == []
    policy = next(
        a["content"] for _, a in reader.elements if a.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-eval" not in policy
    for script in reader.scripts[1:]:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy


def test_webgl_is_the_one_reason_to_compile_code():
    assert "'unsafe-eval'" in document(title="", body="", data={}, code="", webgl=True)[:600]


def test_the_same_arguments_give_the_same_document():
    first, second = (document(title="a", body="b", data=[1], code="c();") for _ in range(2))
    assert first == second
