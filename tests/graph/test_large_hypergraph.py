import pytest
import torch

from dahgnn.files.scratch import Scratch
from dahgnn.graph.hypergraph import Hypergraph
from dahgnn.graph.large_hypergraph import hypergraph_from_neighbors
from dahgnn.graph.nearest import Neighbors, knn


def assert_same(hypergraph, expected):
    for part in ("by_hyperedge", "by_node"):
        mine, theirs = getattr(hypergraph, part), getattr(expected, part)
        for name in ("offsets", "indices"):
            assert torch.equal(getattr(mine, name), getattr(theirs, name))
            assert getattr(mine, name).dtype == torch.int64
    assert torch.equal(hypergraph.positions, expected.positions)
    assert torch.equal(hypergraph.centres, expected.centres)


@pytest.mark.parametrize("incidences", [1, 7, 100, 1 << 23])
@pytest.mark.parametrize("seed", [0, 1])
def test_blocks_build_the_same_hypergraph(incidences, seed, tmp_path):
    # Rows that name a node twice, or themselves, and nodes that no row names.
    rows = torch.randint(0, 30, (57, 5), generator=torch.Generator().manual_seed(seed))
    with Scratch(tmp_path, large=1) as scratch:
        assert_same(
            hypergraph_from_neighbors(rows, scratch, incidences=incidences), Hypergraph.from_neighbors(rows)
        )


def test_a_node_in_every_hyperedge():
    rows = torch.zeros(500, 1, dtype=torch.int64)
    with Scratch() as scratch:
        assert_same(hypergraph_from_neighbors(rows, scratch, incidences=64), Hypergraph.from_neighbors(rows))


def test_neighbors_are_taken_as_they_are():
    found = knn(torch.randn(40, 3, generator=torch.Generator().manual_seed(0)), 4)
    with Scratch() as scratch:
        assert_same(hypergraph_from_neighbors(found, scratch), Hypergraph.from_neighbors(found))


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        ([[1], [2]], "n_nodes - 1 = 1. Got 2"),
        ([1, 0], r"\(n, k\). Got shape \(2,\)"),
        ([[1], [-1]], "Got -1"),
    ],
)
def test_what_is_no_neighbour_is_refused(rows, error):
    indices = torch.tensor(rows)
    with Scratch() as scratch, pytest.raises(ValueError, match=error):
        hypergraph_from_neighbors(Neighbors(indices, indices.float()), scratch)
