"""The table, the lines and the picture of what was measured."""

import json

from bench_lines import LINE

from dahgnn.bench import results
from dahgnn.bench.contenders import METHODS


def test_the_notes_state_the_speeds():
    notes = results.table_notes([LINE])
    assert "150 GFLOP/s" in notes
    assert "30 GB/s" in notes
    assert "torch 2.11;" in notes
    assert "Other processes" not in notes


def test_the_notes_say_when_others_were_in_the_way():
    lines = [LINE | {"others": others} for others in (0.2, 1.31, None)]
    assert results.table_notes(lines).endswith("Other processes kept up to 1.3 cores busy meanwhile.")


def test_lines_are_written_one_each(tmp_path):
    results.write_lines(tmp_path / "new" / "lines.jsonl", [LINE, LINE])
    assert [json.loads(line) for line in (tmp_path / "new" / "lines.jsonl").read_text().splitlines()] == [
        LINE
    ] * 2


def test_the_picture_leaves_out_what_was_not_measured(tmp_path):
    ours = METHODS["ours"].name
    lines = [LINE, LINE | {"method": ours, "nodes": 2000, "milliseconds": 7.0}]
    lines += [LINE | {"method": ours, "milliseconds": 5.0}, LINE | {"method": "x", "milliseconds": None}]
    assert results._curves(lines) == {"floor": [(1000, 2.0)], ours: [(1000, 5.0), (2000, 7.0)]}
    results.draw_costs(tmp_path / "costs.png", lines)
    assert (tmp_path / "costs.png").read_bytes().startswith(b"\x89PNG")


def test_labels_are_spread_apart():
    placed = results._spread_apart({"a": 4.0, "b": 1.0, "c": 1.1, "d": 1.2}, gap=2.0)
    assert list(placed) == ["a", "b", "c", "d"]
    assert (placed["b"], placed["c"], placed["d"], placed["a"]) == (1.0, 2.0, 4.0, 8.0)


def test_the_device_is_named_in_lines_of_all_versions():
    assert results.table_notes([LINE]).startswith("2 CPU threads; torch 2.11;")
    device = {"type": "cpu", "threads": 2, "machine": "x86_64"}
    assert results.table_notes([LINE | {"device": device}]).startswith("CPU x86_64, 2 threads; torch 2.11;")
