import base64
import hashlib
import json
import re
from pathlib import Path

import numpy as np
import pytest
from jinja2 import UndefinedError
from report_cases import HOSTILE, Reader

import dahgnn.report
from dahgnn.report.html import COLOURS, chart_text, clean_text, colour, data_block, environment, render_page


def test_a_data_block_holds_any_text_and_ends_no_element():
    for value in (HOSTILE, {HOSTILE: [HOSTILE, 1.5, None]}, "\u2028\u2029ä"):
        text = data_block(value)
        assert json.loads(text) == value
        assert "<" not in text
        assert text.isascii()


def test_a_data_block_has_no_numbers_that_json_lacks():
    with pytest.raises(ValueError, match="JSON"):
        data_block(float("nan"))


def linear(hexadecimal):
    """Return the light of the three parts of a colour, as the definition of sRGB has it."""
    parts = np.array([int(hexadecimal[start : start + 2], 16) for start in (1, 3, 5)]) / 255
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def oklab(hexadecimal):
    cones = [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
    axes = [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
    return np.array(axes) @ np.cbrt(np.array(cones) @ linear(hexadecimal))


def test_the_colours_of_24_classes_can_be_told_apart_on_white_and_on_black():
    places = np.stack([oklab(each) for each in COLOURS])
    apart = np.linalg.norm(places[:, None] - places, axis=2)[np.triu_indices(24, 1)]
    assert len(COLOURS) == 24
    assert apart.min() > 0.09
    assert np.hypot(places[:, 1], places[:, 2]).min() > 0.07  # none is grey
    light = np.array([linear(each) @ [0.2126, 0.7152, 0.0722] for each in COLOURS])
    dark = linear("#1c1f25") @ [0.2126, 0.7152, 0.0722]
    assert (1.05 / (light + 0.05)).min() > 2.5
    assert ((light + 0.05) / (dark + 0.05)).min() > 2.5


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\u202eb", "a[U+202E]b"),
        ("\u200e\u200f\u2066x\u2069", "[U+200E][U+200F][U+2066]x[U+2069]"),
        ("pay\u200bment\ufeff", "pay[U+200B]ment[U+FEFF]"),
        ("x\u200dy", "x[U+200D]y"),
        ("می\u200c\u200cخواهم", "می\u200c[U+200C]خواهم"),
        ("a\nb\x1b[2J", "a␊b␛[2J"),
        ("\x9b\u2028\u3164", "[U+009B][U+2028][U+3164]"),
        ("half \ud800", "half [U+D800]"),
    ],
)
def test_characters_that_act_or_hide_are_shown(text, shown):
    assert clean_text(text) == shown
    page = render(
        PAGE.replace("BODY", '<p title="{{ text }}">{{ text }}</p>'), title=text, data=[text], text=text
    )
    reader = Reader(page)
    assert reader.text.count(shown) == 2
    assert reader.data() == [shown]
    assert chart_text(text) == shown


@pytest.mark.parametrize("text", ["Ünï 7\u00a0%", "می\u200cخواهم", "👩\u200d🔬", "עברית", ""])
def test_other_text_stays_as_it_is(text):
    assert clean_text(text) == text


def test_text_of_charts_is_shown_as_it_is():
    assert chart_text("<b>&</b>") == "&lt;b&gt;&amp;&lt;/b&gt;"


def render(source, assets=(), title="A page", data=None, plotly=False, **context):
    template = environment().from_string(source)
    return render_page(template, context, title=title, data=data or {}, assets=assets, plotly=plotly)


PAGE = '{% extends "page.html" %}{% import "parts.html" as parts %}{% block body %}BODY{% endblock %}'


@pytest.mark.parametrize("text", [HOSTILE, "{{ 7 * 7 }}", "{% for %}", "'\"&<"])
def test_a_template_shows_text_as_it_is(text):
    reader = Reader(
        render(PAGE.replace("BODY", '<p title="{{ text }}">{{ text }}</p>'), title=text, text=text)
    )
    tags = [tag for tag, _ in reader.elements]
    assert tags[-3:] == ["p", "script", "script"]
    assert next(a for tag, a in reader.elements if tag == "p") == {"title": text}
    assert reader.text.count(text) == 2


def test_a_template_may_not_ask_for_what_it_was_not_given():
    with pytest.raises(UndefinedError, match="'absent' is undefined"):
        render(PAGE.replace("BODY", "{{ absent }}"))


def test_a_button_of_the_legend_escapes_its_text():
    body = "{{ parts.chip('a-1', text, colour(place), dashed=true) }}"
    reader = Reader(render(PAGE.replace("BODY", body), title="", text=HOSTILE, place=len(COLOURS) + 2))
    tags = [tag for tag, _ in reader.elements]
    place = tags.index("button")
    assert tags[place : place + 3] == ["button", "i", "script"]
    assert reader.text.strip() == HOSTILE
    assert reader.elements[place][1] | {"type": ""} == {
        "type": "", "class": "chip", "data-group": "a-1", "aria-pressed": "true"
    }  # fmt: skip
    assert reader.elements[place + 1][1] == {"class": "dashed", "style": f"--c:{colour(2)}"}


@pytest.mark.parametrize("plotly", [False, True])
def test_the_page_runs_its_own_scripts_and_loads_nothing(plotly):
    assets = ["fit_page.css", "map_index.js", "map_painters.js", "map.js", "fit_page.js"]
    source = PAGE.replace("BODY", "<p>here</p>")
    reader = Reader(render(source, assets, title=HOSTILE, data={"a": HOSTILE}, plotly=plotly))
    tags = [tag for tag, _ in reader.elements]
    assert "img" not in tags
    assert (tags.count("script"), tags.count("style")) == (2 + plotly, 2)
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


def test_modules_become_one_without_their_imports():
    script = Reader(render(PAGE, ["map_index.js", "map_painters.js", "map.js"])).scripts[-1]
    assert "\nimport " not in script
    assert script.index("function indexPoints") < script.index("function createPainter")
    assert script.index("function createPainter") < script.index("function createMap")


ASSETS = Path(dahgnn.report.__file__).parent / "assets"


@pytest.mark.parametrize(
    "names",
    [
        (
            "elements.js",
            "map_index.js",
            "map_painters.js",
            "map_view.js",
            "map.js",
            "map_colours.js",
            "fit_page.js",
        ),
        ("map_index.js", "map_painters.js", "map_view.js", "map.js", "embedding.js"),
        ("charts.js", "experiment_page.js"),
    ],
    ids=lambda names: names[-1],
)
def test_modules_of_a_page_share_no_name_and_come_after_what_they_import(names):
    found, seen = [], {"./page.js"}
    for name in ("page.js", *names):
        source = (ASSETS / name).read_text(encoding="utf-8")
        assert set(re.findall(r"^import .* from '(.*)';$", source, re.M)) <= seen
        seen.add(f"./{name}")
        found += re.findall(r"^(?:export )?(?:const|let|function|class) (\w+)", source, re.M)
        assert not re.search(r"\beval\(|new Function|innerHTML|insertAdjacent|document\.write", source)
    assert len(found) == len(set(found)) > 3


def test_scripts_have_the_same_colours_for_classes():
    source = (ASSETS / "map_colours.js").read_text(encoding="utf-8")
    listed = re.search(r"COLOURS = \[(.*?)\];", source, re.S).group(1)
    assert tuple(re.findall(r"'(#\w+)'", listed)) == COLOURS


def test_the_same_arguments_give_the_same_page():
    assert render(PAGE, data=[1]) == render(PAGE, data=[1])


def test_no_template_switches_the_escape_off():
    templates = environment().list_templates()
    assert {"page.html", "parts.html", "fit_page.html", "experiment_page.html"} <= set(templates)
    for name in templates:
        source = environment().loader.get_source(environment(), name)[0]
        assert "safe" not in source
        assert "autoescape" not in source
