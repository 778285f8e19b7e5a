import math

import numpy as np
import pytest

from dahgnn.tables.missing import Missing, suspects


def test_empty_cells_alone_are_unlabelled():
    cells = ["a ", "", "  ", None, "NA", "nan", "None", "?", "-"]
    assert Missing().in_labels(cells) == ["a", None, None, None, "NA", "nan", "None", "?", "-"]
    assert Missing(["?", " NA "]).in_labels(cells) == ["a", None, None, None, None, "nan", "None", None, "-"]


def test_words_for_missing_are_so_in_features():
    cells = ["a ", "", "NA", "nan", "None", None, "?", " ? "]
    assert Missing().in_features(cells) == ["a ", None, None, None, None, None, "?", " ? "]
    assert Missing(["?"]).in_features(cells) == ["a ", None, None, None, None, None, None, None]


@pytest.mark.parametrize("word", ["-999", "-999.0", "-9.99e2"])
def test_a_number_stands_for_its_value(word):
    missing = Missing([word, "x"])
    assert missing.in_features(["-999", "-999.00", "999", "x"]) == [None, None, "999", None]
    values = missing.in_numbers(np.array([-999.0, 999.0, np.nan]))
    assert values.tolist()[1] == 999
    assert [math.isnan(value) for value in values] == [True, False, True]


def test_nothing_is_missing_by_itself_among_numbers():
    values = np.array([-999.0, -1.0])
    assert Missing(["x"]).in_numbers(values) is values


def test_suspects_are_named_with_their_count_and_the_option():
    assert suspects({"None": 42, "Some": 14, "N/A": 1, "Unknown": 2}) == [
        "The label 'None' (42 rows) is a class. If it means unlabelled, say --missing None.",
        "The label 'N/A' (1 row) is a class. If it means unlabelled, say --missing N/A.",
        "The label 'Unknown' (2 rows) is a class. If it means unlabelled, say --missing Unknown.",
    ]
