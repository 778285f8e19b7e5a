"""What is read of a spec.json: nothing that would end in a traceback, or reach a table without being checked."""

import copy
import json
import math
import shutil
from pathlib import Path

import pytest
from report_cases import make_spec

from dahgnn.experiments.lines import read_lines
from dahgnn.experiments.spec import load_spec
from dahgnn.experiments.spec_file import NEEDED, read_spec
from dahgnn.report.experiment_page import page
from dahgnn.report.summary import summarise
from dahgnn.report.tables import csv_text, latex, markdown

RECORD = Path(__file__).parents[2] / "records" / "2026-11-16_table3"
ODD = (
    None, True, False, 0, -1, 1.5, 10**12, math.nan, math.inf, "", " ", "7", "\ud800", "a\x00b", [], [[]], [1, 1], {},
    {"a": 1}, "x" * 10_000,
)  # fmt: skip


def write(path, content):
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def test_a_missing_or_wrong_specification_says_so(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"must hold the specification .* 'dahgnn reproduce'"):
        read_spec(tmp_path / "spec.json")
    (tmp_path / "spec.json").write_text('{"name": "a"}')
    with pytest.raises(ValueError, match="Got none of datasets, labels, methods, runs, title"):
        read_spec(tmp_path / "spec.json")


def test_what_a_spec_becomes_is_read_as_it_is(tmp_path):
    for name in ("table3", "few"):
        whole = json.loads(json.dumps(load_spec(name).as_json()))
        assert read_spec(write(tmp_path / "spec.json", whole)) == whole


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "must be a JSON object"),
        ("[]", "must have datasets, labels, methods, name, runs, title"),
        ("[" * 100_000, "must be a JSON object"),
        ("1" * 5000, "must be a JSON object"),
        ('{"name": "a", "name": "b"}', "must be a JSON object. Got the key 'name' twice"),
        ('{"name": NaN}', "Got NaN, which is no number of JSON"),
        ("\ufeff{}", "must be a JSON object"),
    ],
    ids=range(7),
)
def test_what_is_no_json_is_said(tmp_path, content, words):
    with pytest.raises(ValueError, match=words):
        read_spec(write(tmp_path / "spec.json", content))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"runs": "3"},
            "'runs' must be a whole number from 1 to 100000. Got '3'. 'dahgnn reproduce' writes it",
        ),
        ({"labels": [10, True]}, r"'labels\[1\]' must be a whole number from 1 to 100000. Got True"),
        ({"labels": list(range(1, 2000))}, "'labels' must be a list of 1 to 1000 counts. Got '1999 of them'"),
        ({"labels": [10, 10]}, "'labels' must be a list of different counts"),
        ({"title": "\ud800"}, "'title' must be a text of whole characters"),
        (
            {"datasets": [{"name": "a", "classes": [1]}]},
            r"'datasets\[0\].classes\[0\]' must be a text. Got 1",
        ),
        (
            {"datasets": [{"name": "a"}, {"name": "a"}]},
            r"'datasets\[1\].name' must be a name that no other has",
        ),
        ({"datasets": []}, "'datasets' must be a list that is not empty"),
        ({"methods": [{"name": "a", "ours": 1}]}, r"'methods\[0\].ours' must be true or false. Got 1"),
        ({"comparisons": [["ours", "othr"]]}, r"'comparisons\[0\]' must be of its methods. .*mean 'other'\?"),
        ({"comparisons": [["ours"]]}, r"'comparisons\[0\]' must be a pair of methods"),
        (
            {"published": {"minst": {}}},
            "'published' must be of its datasets. Got 'minst'. Did you mean 'mnist'",
        ),
        ({"published": {"mnist": {"ours": {"x": [1, 2]}}}}, "must be by numbers of labelled nodes. Got 'x'"),
        (
            {"published": {"mnist": {"ours": {"20": [900, 2]}}}},
            r"'published.mnist.ours.20' must be \[mean, dev",
        ),
    ],
)
def test_the_place_of_what_is_wrong_is_named(tmp_path, changes, words):
    path = write(tmp_path / "spec.json", make_spec(**changes))
    with pytest.raises(ValueError, match=words) as refused:
        read_spec(path)
    assert str(refused.value).startswith(f"In {path}, ")


def places(value, path=()):
    """Every place in a spec, but for the settings of methods, of which the report says nothing."""
    if path:
        yield path
    if "settings" in path:
        return
    for key, inner in (
        value.items() if isinstance(value, dict) else enumerate(value if isinstance(value, list) else ())
    ):
        yield from places(inner, (*path, key))


def changed(spec, path, new):
    """A copy in which one place has another value; without one it is taken out."""
    whole = copy.deepcopy(spec)
    holder = whole
    for key in path[:-1]:
        holder = holder[key]
    if new is places:
        del holder[path[-1]]
    else:
        holder[path[-1]] = new
    return whole


def test_no_change_of_a_real_spec_ends_in_a_traceback(tmp_path):
    spec = json.loads((RECORD / "spec.json").read_text(encoding="utf-8"))
    lines = [line for line in read_lines(RECORD / "runs.jsonl") if line["run"] < 2 and line["labels"] == 500]
    messages, drawn = set(), 0
    for path in places(spec):
        for new in (places, *ODD):
            file = write(tmp_path / "spec.json", changed(spec, path, new))
            try:
                found = read_spec(file)
                summary = summarise(lines, found)
            except ValueError as error:
                messages.add(str(error))
                continue
            for text in (markdown(summary), latex(summary), csv_text(summary)):
                text.encode()
            if drawn % 40 == 0:
                page(lines, found, summary).encode()
            drawn += 1
    assert len(messages) > 500
    assert drawn > 50
    assert max(map(len, messages)) < 1000
    assert not [message for message in messages if "codec" in message]


def test_what_is_left_out_is_needed_or_has_a_default(tmp_path):
    shutil.copy(RECORD / "spec.json", tmp_path)
    spec = json.loads((tmp_path / "spec.json").read_text(encoding="utf-8"))
    for name in spec:
        file = write(tmp_path / "spec.json", changed(spec, (name,), places))
        if name in NEEDED:
            with pytest.raises(ValueError, match=f"Got none of {name}"):
                read_spec(file)
        else:
            assert read_spec(file).keys() == spec.keys() - {name}
