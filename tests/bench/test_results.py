"""The table, the lines and the picture of what was measured."""

import json

from bench_lines import FIT_LINE, LINE

from dahgnn.bench import results
from dahgnn.bench.contenders import DEFAULT_FLOOR, METHODS


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


def test_fits_are_told_from_epochs():
    assert results.is_fit(FIT_LINE)
    assert not results.is_fit(LINE)


def test_a_row_of_fits_has_a_cell_for_each_column():
    problem = FIT_LINE | {"problem": "out of memory", "seconds": None, "accuracy": None, "new_accuracy": None}
    assert results.fit_table_row(FIT_LINE) == (
        "| 1,000 | DAHGNNClassifier, ours | 6.00 | 0.500 | 95.2 | 94.1 | 1.00 | 3.00 |"
    )
    assert results.fit_table_row(problem) == "| 1,000 | DAHGNNClassifier, ours | out of memory | | | | | |"
    cells = {results.fit_table_row(line).count("|") for line in (FIT_LINE, problem)}
    assert cells == {row.count("|") for row in results.FIT_TABLE_HEAD.splitlines()}


def test_a_line_of_fits_without_the_accuracy_on_new_rows_stays_readable():
    earlier = {name: value for name, value in FIT_LINE.items() if name != "new_accuracy"}
    assert results.fit_table_row(earlier) == (
        "| 1,000 | DAHGNNClassifier, ours | 6.00 | 0.500 | 95.2 | – | 1.00 | 3.00 |"
    )


def test_the_notes_of_fits_say_what_they_were_given():
    notes = results.fit_table_notes([FIT_LINE, FIT_LINE | {"networks": 1, "others": 1.31}])
    assert notes.startswith("2 CPU threads; torch 2.11; random data. Medians of 3 fits in turn")
    assert "20 labels a class" in notes
    assert "800 at the most" in notes
    assert "1 or 5 networks of 42 epochs" in notes
    assert notes.endswith("Other processes kept up to 1.3 cores busy meanwhile.")


def test_the_notes_explain_the_default_network_where_it_is():
    default = METHODS["default"].name
    assert default not in results.table_notes([LINE])
    assert f"{default}: updates without an evaluation" in results.table_notes([LINE | {"method": default}])


def test_both_floors_are_drawn(tmp_path):
    lines = [LINE, LINE | {"method": DEFAULT_FLOOR, "milliseconds": 4.0}]
    results.draw_costs(tmp_path / "costs.png", lines)
    assert (tmp_path / "costs.png").read_bytes().startswith(b"\x89PNG")
