import json

import pytest
from report_cases import HOSTILE, Reader, make_line, make_spec, make_trained_lines

from dahgnn.report.experiment_page import write_report

FILES = ["report.md", "report.tex", "report.csv", "report.html"]


def write_html(folder):
    return next(path for path in write_report(folder) if path.suffix == ".html")


def make_folder(folder, lines, spec):
    folder.mkdir(exist_ok=True)
    (folder / "spec.json").write_text(json.dumps(spec))
    (folder / "runs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


@pytest.fixture
def lines():
    return make_trained_lines()


def hostile_spec():
    spec = make_spec(title=HOSTILE, name="table2")
    spec["methods"][0]["title"] = HOSTILE
    spec["datasets"][0] |= {"title": HOSTILE, "classes": [HOSTILE, "b"]}
    return spec


def test_the_report_is_four_files(tmp_path, lines):
    folder = make_folder(tmp_path / "run", lines, make_spec())
    assert [path.name for path in write_report(folder)] == FILES
    assert sorted(path.name for path in folder.iterdir()) == sorted([*FILES, "runs.jsonl", "spec.json"])
    assert "91.00 ± 1.00" in (folder / "report.md").read_text(encoding="utf-8")


def test_the_page_shows_the_tables(tmp_path, lines):
    reader = Reader(write_html(make_folder(tmp_path, lines, make_spec())).read_text(encoding="utf-8"))
    for text in (
        "91.00 ± 1.00",
        "90.00 ± 0.50",
        "+1.00 ≈",
        "1 of 1 cells",
        "Wilcoxon p",
        "3 of at least 5 pairs",
    ):
        assert text in reader.text
    for text in ("6 of 6", "12.0 s", "CPU x86_64, 2 threads", "dahgnn 0.1.0", "2026-01-03T00:00:00+00:00"):
        assert text in reader.text
    bold = [tag for tag, _ in reader.elements if tag == "b"]
    assert len(bold) == 3 + 1  # three facts, one best cell


def test_foreign_text_stays_text(tmp_path, lines):
    for line in lines:
        line["versions"] = {HOSTILE: HOSTILE}
        line["device"] = {"type": "cuda", "name": HOSTILE}
    folder = make_folder(tmp_path, lines, hostile_spec())
    (folder / "spec.json").write_text(json.dumps(hostile_spec()))
    reader = Reader(write_html(folder).read_text(encoding="utf-8"))
    tags = [tag for tag, _ in reader.elements]
    assert "img" not in tags
    assert tags.count("script") == 3
    assert reader.text.count(HOSTILE) > 10
    assert "alert" not in reader.scripts[2]
    # Plotly reads elements in its texts, so these are escaped once more.
    assert "<" not in "".join(find_texts(reader.data()["figures"])).replace("<br>", "")
    assert "<" not in "".join(find_texts([reader.data()["classes"], reader.data()["methods"]]))


def find_texts(value):
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return [text for part in inner for text in find_texts(part)]


def test_no_name_turns_the_direction_of_the_text(tmp_path, lines):
    spec = make_spec(title="Table \u202e2")
    spec["methods"][0]["title"] = "Ours \u2067"
    spec["datasets"][0] |= {"title": "M\u202dNIST", "classes": ["a\u202e", "b"]}
    folder = make_folder(tmp_path, lines, spec)
    for path in write_report(folder):
        text = path.read_text(encoding="utf-8")
        assert not [
            letter for letter in text if "\u202a" <= letter <= "\u202e" or "\u2066" <= letter <= "\u2069"
        ]
    data = Reader(write_html(folder).read_text(encoding="utf-8")).data()
    assert (data["titles"][0], data["classes"][0][0]) == ("Ours [U+2067]", "a[U+202E]")


def test_the_page_loads_nothing_and_leads_nowhere_else(tmp_path, lines):
    text = write_html(make_folder(tmp_path, lines, make_spec())).read_text(encoding="utf-8")
    reader = Reader(text)
    assert reader.addresses()
    assert all(address.startswith("#") for address in reader.addresses())
    targets = {a["id"] for _, a in reader.elements if "id" in a}
    assert {address[1:] for address in reader.addresses()} <= targets
    assert text.count("plotly.js v") == 1
    assert "@import" not in text[: text.index("<body>")]


def test_a_method_that_an_older_spec_puts_aside_begins_hidden(tmp_path, lines):
    methods = [
        {"name": "ours", "title": "Ours", "ours": True},
        {"name": "other", "title": "Other", "aside": True},
    ]
    text = write_html(make_folder(tmp_path, lines, make_spec(methods=methods))).read_text(encoding="utf-8")
    traces = Reader(text).data()["figures"]["labels-0"]["data"]
    assert {trace["legendgroup"]: trace.get("visible", True) for trace in traces} == {
        "ours-0": True, "paper-0": True, "ours-1": False
    }  # fmt: skip
    pressed = {a["data-group"]: a["aria-pressed"] for _, a in Reader(text).elements if "data-group" in a}
    assert (pressed["ours-0"], pressed["ours-1"]) == ("true", "false")


def test_rows_of_methods_that_are_hidden_at_first_and_details_are_folded(tmp_path, lines):
    spec = make_spec()
    spec["methods"][1]["hidden_at_first"] = True
    text = write_html(make_folder(tmp_path, lines, spec)).read_text(encoding="utf-8")
    reader = Reader(text)
    kinds = [a.get("class") for tag, a in reader.elements if tag == "tr"]
    assert kinds.count("folded") == 1
    assert kinds.count("lesser") == 2  # what the paper prints of ours, and the difference
    assert "Show all 2 methods" in reader.text
    assert text.count("<details>") == text.count("</details>") == 4  # curves, matrices, tests and times
    assert '<option value="0" selected>Ours' in text
    spec["methods"][1]["hidden_at_first"] = False
    assert "Show all" not in write_html(make_folder(tmp_path, lines, spec)).read_text(encoding="utf-8")


def test_a_menu_begins_with_a_method_that_has_a_chart(tmp_path, lines):
    for ours, other in zip(lines[:3], lines[3:], strict=True):
        ours["history"], other["history"] = None, ours["history"]
    text = write_html(make_folder(tmp_path, lines, make_spec())).read_text(encoding="utf-8")
    menu = text[text.index('id="curve-method"') :]
    assert '<option value="1" selected>' in menu[: menu.index("</select>")]


def test_sections_without_content_are_left_out(tmp_path):
    line = make_line(confusion=None)
    text = write_html(make_folder(tmp_path, [line], make_spec(comparisons=[]))).read_text(encoding="utf-8")
    ids = {a.get("id") for _, a in Reader(text).elements}
    assert ids >= {"accuracy", "times"}
    assert not ids & {"curves", "confusion", "ablation", "curve-dataset"}


def test_a_report_of_few_runs_names_what_is_missing(tmp_path, lines):
    spec = make_spec()
    spec["datasets"].append({"name": "svhn", "title": "SVHN"})
    write_report(make_folder(tmp_path, lines[:1], spec))
    assert "No runs yet: SVHN." in Reader((tmp_path / "report.html").read_text(encoding="utf-8")).text
    assert "1 of 12 runs. No runs yet: SVHN." in (tmp_path / "report.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("content", [None, "", '{"cut'])
def test_without_run_lines_the_way_out_is_named(tmp_path, content):
    (tmp_path / "spec.json").write_text(json.dumps(make_spec()))
    if content is not None:
        (tmp_path / "runs.jsonl").write_text(content)
    with pytest.raises(ValueError, match=r"must hold at least one run line .* 'dahgnn reproduce'"):
        write_report(tmp_path)
    assert not list(tmp_path.glob("report.*"))


def test_lines_of_another_experiment_are_refused(tmp_path, lines):
    with pytest.raises(ValueError, match="Line 1 of .* must be of experiment 'table3'. Got 'table2'"):
        write_report(make_folder(tmp_path, lines, make_spec(name="table3")))


def test_the_same_lines_give_the_same_bytes_in_any_order(tmp_path, lines):
    first = write_report(make_folder(tmp_path / "a", lines, hostile_spec()))
    second = write_report(make_folder(tmp_path / "b", lines[::-1], hostile_spec()))
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()
