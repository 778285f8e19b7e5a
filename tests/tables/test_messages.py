import time
from pathlib import Path

import pytest

from dahgnn.tables.messages import Problems, combined_error, counted, joined, listed, no_column, quoted


def test_long_cells_and_long_lists_are_cut():
    assert quoted("x" * 60) == f"'{'x' * 60}'"
    assert quoted("x" * 61) == f"'{'x' * 60}…'"
    assert joined(list("abcdef")) == "a, b, c, d, e, f"
    assert joined(list("abcdefg")) == "a, b, c, d, e, f, g"
    assert joined(list("abcdefgh")) == "a, b, c, d, e, f and 2 more"


def test_columns_are_counted_in_the_right_number():
    assert counted(["a"]) == "1 column ('a') was"
    assert counted(["a", "b"]) == "2 columns ('a', 'b') were"
    assert listed(["a", "b"]) == "'a', 'b'"


def test_a_missing_column_suggests_the_nearest_or_lists_all():
    path = Path("a.csv")
    assert "column 'knd' for --label. Got none of that name. Did you mean 'kind'?" in str(
        no_column(path, "knd", ["kind", "size"], "for --label")
    )
    assert str(no_column(path, "q", ["kind", "size"], "for --id")).endswith("It has 'kind', 'size'.")


def test_a_hundred_thousand_problems_take_no_time():
    problems = Problems()
    start = time.process_time()
    for number in range(100_000):
        problems.add(ValueError(f"The column '{number}' is wrong."))
    assert time.process_time() - start < 5  # a search among all before takes minutes
    assert len(problems.sentences) == 100_000


def test_problems_are_gathered_and_said_at_once():
    problems = Problems()
    for number in range(22):
        with problems.gathered():
            raise ValueError(f"Problem {number}.")
    problems.add(ValueError("Problem 3."))
    with problems.gathered():
        pass
    message = str(combined_error(Path("a.csv"), problems.sentences))
    lines = message.splitlines()
    assert lines[:2] == ["The file a.csv has 22 problems.", "- Problem 0."]
    assert lines[20:] == ["- Problem 19.", "- and 2 more like these"]
    assert str(combined_error(Path("a.csv"), ["Problem 0."])) == "Problem 0."
    with pytest.raises(OSError, match="the disk"), problems.gathered():
        raise OSError("the disk")
