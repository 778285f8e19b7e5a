from collections import Counter

import numpy as np
import torch

from dahgnn.report import large_page
from dahgnn.report.large_page import choose_page_rows
from dahgnn.tables.coded_labels import CodedLabels


def labels(codes):
    return CodedLabels(torch.tensor(codes, dtype=torch.int32), ("a", "b"), Counter())


def test_the_page_has_labelled_rows_and_others_from_everywhere(monkeypatch):
    monkeypatch.setattr(large_page, "PAGE_ROWS", 100)
    codes = np.full(10_000, -1)
    codes[[7, 5003, 9999]] = [0, 1, 0]
    rows = choose_page_rows(labels(codes), np.array([], dtype=np.int64))
    assert {7, 5003, 9999} <= set(rows.tolist())
    assert len(rows) <= 100
    assert np.all(np.diff(rows) > 0)
    assert np.diff(rows).max() <= 10_000 // 97 + 2


def test_of_many_labelled_rows_half_a_page_is_taken_but_doubtful_ones_are_there(monkeypatch):
    monkeypatch.setattr(large_page, "PAGE_ROWS", 100)
    rows = choose_page_rows(labels(np.arange(10_000) % 2), np.array([13, 17]))
    assert {13, 17} <= set(rows.tolist())
    assert 90 <= len(rows) <= 102


def test_a_table_that_fits_is_shown_whole():
    rows = choose_page_rows(labels(np.arange(50) % 3 - 1), np.array([], dtype=np.int64))
    assert rows.tolist() == list(range(50))
