"""Pairs in both orders and their weights, against plain Python."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from dahgnn.graph.assembly import as_incidence_weights, sort_both_ways, with_ones

pair_lists = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), min_size=1, max_size=20)


@given(pairs=pair_lists)
def test_pairs_stand_once_in_both_orders(pairs):
    row, column = torch.tensor(pairs).T
    both = sort_both_ways(row, column, 4, 5)
    by_row = list(zip(both.by_row.owners().tolist(), both.by_row.indices.tolist(), strict=True))
    by_column = list(zip(both.by_column.indices.tolist(), both.by_column.owners().tolist(), strict=True))
    assert by_row == sorted(set(pairs))
    assert by_column == sorted(set(pairs), key=lambda pair: pair[::-1])
    assert [by_row[place] for place in both.positions] == by_column
    assert len(both.by_row) == 4
    assert len(both.by_column) == 5


@given(pairs=pair_lists)
def test_the_last_weight_of_a_pair_counts(pairs):
    row, column = torch.tensor(pairs).T
    found = as_incidence_weights(range(1, len(pairs) + 1), row, column, 5)
    last = dict(zip(pairs, range(1, len(pairs) + 1), strict=True))
    assert found.tolist() == [last[pair] for pair in sorted(last)]


def test_no_weights_stay_none():
    assert as_incidence_weights(None, torch.tensor([0]), torch.tensor([0]), 1) is None
    assert with_ones(None, 3) is None
    assert with_ones(torch.tensor([2.0]), 2).tolist() == [2, 1, 1]
