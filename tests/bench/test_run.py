"""What a measurement leaves in files, also when it ends early."""

import json
import sys

import pytest
from bench_lines import FIT_LINE, LINE

from dahgnn.bench.measure import BenchConfig
from dahgnn.bench.run import run_bench


def test_each_line_is_in_the_file_before_it_is_told(tmp_path, monkeypatch):
    out = tmp_path / "a.jsonl"
    lines = [LINE | {"nodes": nodes} for nodes in (1000, 2000)]
    monkeypatch.setattr("dahgnn.bench.measure.compare", lambda _: iter(lines))
    told = []
    for line in run_bench(BenchConfig(), out=out):
        told.append(line)
        assert [json.loads(written) for written in out.read_text().splitlines()] == told
    assert told == lines


def test_the_picture_is_drawn_of_all_lines_at_the_end(tmp_path, monkeypatch):
    plot, drawn = tmp_path / "a.png", []
    monkeypatch.setattr("dahgnn.bench.measure.compare", lambda _: iter([LINE, LINE]))
    monkeypatch.setattr("dahgnn.bench.run.draw_costs", lambda *given: drawn.append(given))
    for _ in run_bench(BenchConfig(), plot=plot):
        assert not drawn
    assert drawn == [(plot, [LINE, LINE])]


def test_a_picture_needs_matplotlib_before_anything_is_measured(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr("dahgnn.bench.measure.compare", lambda _: pytest.fail("measured"))
    with pytest.raises(ModuleNotFoundError):
        next(run_bench(BenchConfig(), plot=tmp_path / "a.png"))


def test_fits_follow_the_epochs_in_the_same_file_but_not_in_the_picture(tmp_path, monkeypatch):
    out, plot, drawn = tmp_path / "a.jsonl", tmp_path / "a.png", []
    monkeypatch.setattr("dahgnn.bench.measure.compare", lambda _: iter([LINE]))
    monkeypatch.setattr("dahgnn.bench.measure_fits.compare_fits", lambda _: iter([FIT_LINE]))
    monkeypatch.setattr("dahgnn.bench.run.draw_costs", lambda *given: drawn.append(given))
    assert list(run_bench(BenchConfig(fits=2), out=out, plot=plot)) == [LINE, FIT_LINE]
    assert [json.loads(written) for written in out.read_text().splitlines()] == [LINE, FIT_LINE]
    assert drawn == [(plot, [LINE])]


def test_without_fits_none_are_timed(monkeypatch):
    monkeypatch.setattr("dahgnn.bench.measure.compare", lambda _: iter([LINE]))
    monkeypatch.setattr("dahgnn.bench.measure_fits.compare_fits", lambda _: pytest.fail("fitted"))
    assert list(run_bench(BenchConfig())) == [LINE]
