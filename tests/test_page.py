import json

import pytest
from report_cases import HOSTILE, Reader, make_line, make_spec

from dahgnn.page import write_report

FILES = ["report.md", "report.tex", "report.csv", "report.html"]


def write_html(folder):
    return next(path for path in write_report(folder) if path.suffix == ".html")


def history(last, top):
    epochs = list(range(0, last + 1, 10))
    return {
        "epoch": epochs,
        "train_loss": [2 - 0.01 * epoch for epoch in epochs],
        "validation_loss": [None if epoch == 0 else 1.0 for epoch in epochs],
        "validation_accuracy": [top] * len(epochs),
    }


def make_folder(folder, lines, spec):
    folder.mkdir(exist_ok=True)
    (folder / "spec.json").write_text(json.dumps(spec))
    (folder / "runs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


@pytest.fixture
def lines():
    ours = [
        make_line("ours", run, value, history=history(40 + 20 * run, value))
        for run, value in enumerate((0.90, 0.91, 0.92))
    ]
    return ours + [
        make_line("other", run, value, epochs=None) for run, value in enumerate((0.89, 0.91, 0.90))
    ]


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


def test_the_page_loads_nothing_and_leads_nowhere_else(tmp_path, lines):
    text = write_html(make_folder(tmp_path, lines, make_spec())).read_text(encoding="utf-8")
    reader = Reader(text)
    assert reader.addresses()
    assert all(address.startswith("#") for address in reader.addresses())
    targets = {a["id"] for _, a in reader.elements if "id" in a}
    assert {address[1:] for address in reader.addresses()} <= targets
    assert text.count("plotly.js v") == 1
    assert "@import" not in text[: text.index("<body>")]


def test_charts_hold_means_bands_and_printed_numbers(tmp_path, lines):
    data = Reader(write_html(make_folder(tmp_path, lines, make_spec())).read_text(encoding="utf-8")).data()
    band, ours, printed, *_ = data["figures"]["labels-0"]["data"]
    assert ours["x"] == [20]
    assert ours["y"] == pytest.approx([91])
    assert band["y"] == pytest.approx([92, 90])
    assert band["legendgroup"] == ours["legendgroup"] != printed["legendgroup"]
    assert (printed["y"], printed["line"]["dash"]) == ([90], "dash")
    assert data["figures"]["pairs-0"]["data"][0]["y"] == pytest.approx([1])
    times = data["figures"]["times-all"]
    assert times["layout"]["xaxis"]["type"] == "log"
    assert times["data"][0]["x"] == [2, 2]


def test_a_method_aside_begins_hidden(tmp_path, lines):
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


def test_curves_are_medians_over_the_runs_that_still_train(tmp_path, lines):
    data = Reader(write_html(make_folder(tmp_path, lines, make_spec())).read_text(encoding="utf-8")).data()
    assert list(data["curves"]) == ["0/0/20"]
    curve = data["curves"]["0/0/20"]
    middle = dict(zip(curve["epoch"], curve["validation_accuracy"][1], strict=True))
    assert middle[0] == 0.91  # runs 0, 1, 2
    assert middle[next(epoch for epoch in curve["epoch"] if 40 < epoch <= 60)] == pytest.approx(
        0.915
    )  # 1 and 2
    assert middle[80] == 0.92
    low, _, high = (dict(zip(curve["epoch"], row, strict=True)) for row in curve["validation_accuracy"])
    assert (low[0], high[0]) == (0.905, 0.915)
    assert dict(zip(curve["epoch"], curve["train_loss"][1], strict=True))[80] == pytest.approx(1.2)
    assert curve["validation_loss"][1][0] is None


def test_confusion_matrices_are_sums_over_runs(tmp_path, lines):
    data = Reader(write_html(make_folder(tmp_path, lines, make_spec())).read_text(encoding="utf-8")).data()
    assert data["confusions"] == {"0/0/20": [[27, 3], [0, 30]], "0/1/20": [[27, 3], [0, 30]]}


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
