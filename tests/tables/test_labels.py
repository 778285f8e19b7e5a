from collections import Counter

import pytest

from dahgnn.tables.labels import check_labels, understand_labels
from dahgnn.tables.missing import Missing


def understand(*cells, is_array=False, missing=()):
    return understand_labels(Counter(cells), "y", Missing(missing), is_array=is_array)


def test_each_different_cell_has_a_meaning_and_counts():
    meanings, notes = understand("a", "a ", None, "", "b", "?", "a", missing=["?"])
    assert meanings == {"a": "a", "a ": "a", None: None, "": None, "b": "b", "?": None}
    assert notes == ["4 of 7 rows are labelled in 'y', with 2 classes: 'a' (3), 'b' (1)."]


def test_whole_numbers_lose_their_point_if_all_are_whole():
    assert understand("1.0", "2", None)[0] == {"1.0": "1", "2": "2", None: None}
    assert understand("1.0", "2.5")[0] == {"1.0": "1.0", "2.5": "2.5"}


@pytest.mark.parametrize(
    ("cells", "is_array", "unlabelled"),
    [
        (("-1", "0", "1"), False, True),
        (("-1", "1"), False, False),
        (("-1", "1"), True, True),
        (("-1", "0", "1", None), False, False),
    ],
)
def test_minus_one_is_a_class_or_none(cells, is_array, unlabelled):
    meanings, notes = understand(*cells, is_array=is_array)
    assert (meanings["-1"] is None) == unlabelled
    assert any("was taken for unlabelled, in 1 rows" in note for note in notes) == unlabelled


def test_one_class_and_no_label_are_refused():
    with pytest.raises(ValueError, match="Got one class alone, 'a'"):
        check_labels(["a", None, "a"], "y")
    with pytest.raises(ValueError, match="Got no label at all"):
        check_labels([], "y")
    check_labels(["a", "b"], "y")
