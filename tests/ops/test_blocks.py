"""Sums in blocks: those of all at once, however they are cut."""

import pytest
import torch
from oracles import HYPERGRAPHS, assert_close, normal

from dahgnn.kernels.incidence import Segments
from dahgnn.ops.backend import using
from dahgnn.ops.blocks import blocks_of, row_blocks, sum_blocks
from dahgnn.ops.sparse import gather_sum


@pytest.mark.parametrize("name", ["ragged", "isolated", "all nodes", "weighted incidences"])
@pytest.mark.parametrize("most", [1, 4, 1000])
@pytest.mark.parametrize("backend", ["auto", "reference"])
@pytest.mark.parametrize("scaled", [True, False])
def test_sums_are_those_of_all_at_once(name, most, backend, scaled):
    hypergraph = HYPERGRAPHS[name]()
    n, m = hypergraph.n_nodes, hypergraph.n_hyperedges
    values, scales = normal(n, 5), (normal(n, seed=1), normal(m, seed=2)) if scaled else (None, None)
    weights, sums = hypergraph.incidence_weights, torch.empty(m, 5, dtype=torch.float64)
    with using(backend):
        sum_blocks(values, hypergraph.by_hyperedge, *scales, weights, sums.__setitem__, most)
        expected = gather_sum(values, hypergraph.to_hyperedges, *scales, weights=weights)
    assert_close(sums, expected)


def test_blocks_are_bounded_by_incidences_and_rows():
    segments = Segments(torch.tensor([0, 0, 0, 0, 0, 7, 8, 9]), torch.arange(9))
    blocks = list(blocks_of(segments, 3))
    assert [(each.rows.start, each.rows.stop) for each in blocks] == [(0, 3), (3, 4), (4, 5), (5, 7)]
    assert [each.segments.indices.tolist() for each in blocks] == [[], [], list(range(7)), [7, 8]]
    assert all(each.segments.offsets[0] == 0 for each in blocks)


def test_rows_are_cut_without_a_rest():
    assert [(rows.start, rows.stop) for rows in row_blocks(7, 3)] == [(0, 3), (3, 6), (6, 7)]
    assert list(row_blocks(0, 3)) == []
