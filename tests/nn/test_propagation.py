"""Features behind the convolution, in blocks and in files."""

import pytest
import torch
from file_backed import is_in
from oracles import HYPERGRAPHS, SQUARE, assert_close, convolution, normal

from dahgnn.files.scratch import Scratch
from dahgnn.nn import propagation
from dahgnn.nn.propagation import propagate


@pytest.mark.parametrize("name", HYPERGRAPHS)
@pytest.mark.parametrize("kind", ["typed", "printed"])
def test_rows_times_the_weight_are_the_convolution(name, kind, tmp_path):
    hypergraph = HYPERGRAPHS[name]()
    if kind == "printed" and name not in SQUARE:
        pytest.skip("it needs as many hyperedges as nodes")
    features, theta = normal(hypergraph.n_nodes, 4), normal(4, 3, seed=1)
    with Scratch(tmp_path, large=1) as scratch:
        found = propagate(features, hypergraph, scratch, printed=kind == "printed")
        assert is_in(found.nodes, tmp_path)
        assert is_in(found.hyperedges, tmp_path)
    nodes, hyperedges = convolution(features, theta, hypergraph, kind)
    assert_close(found.nodes @ found.weight(theta), nodes)
    assert_close(found.hyperedges @ found.weight(theta), hyperedges)


def test_leading_directions_leave_out_little(monkeypatch):
    monkeypatch.setattr(propagation, "BLOCK", 16 * 5)
    hypergraph = HYPERGRAPHS["uniform"]()
    features = normal(12, 3) @ normal(3, 40, seed=1) + 1e-3 * normal(12, 40, seed=2)
    whole = propagate(features, hypergraph, Scratch(), printed=False)
    fewer = propagate(features, hypergraph, Scratch(), printed=False, leave_out=0.01)
    theta = normal(40, 2, seed=3)
    assert fewer.nodes.shape == (12, 16)
    for name in ("nodes", "hyperedges"):
        rows, expected = getattr(fewer, name) @ fewer.weight(theta), getattr(whole, name) @ theta
        assert (rows - expected).norm() < 0.02 * expected.norm()
    torch.testing.assert_close(
        fewer.directions.T @ fewer.directions, torch.eye(16, dtype=torch.float64), atol=1e-10, rtol=0
    )
