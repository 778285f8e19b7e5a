"""Hypergraphs of PyTorch Geometric, by its own class."""

import pytest
import torch
from interchange_cases import assert_same, build, lists, named

from dahgnn.graph.interchange.registry import export_hypergraph, import_hypergraph

data_module = pytest.importorskip("torch_geometric.data.hypergraph_data")


def test_everything_comes_back():
    first = build(weights=True, incidence_weights=True)
    data = export_hypergraph(first, "pyg")
    assert isinstance(data, data_module.HyperGraphData)
    assert data.validate()
    assert data.edge_index.tolist() == [[0, 1, 2, 2, 4, 4, 0, 1, 2], [0, 0, 0, 1, 1, 2, 3, 3, 3]]
    assert data.hyperedge_weight.tolist() == [2, 0.5, 1, 4]
    assert_same(import_hypergraph(data, "pyg", cover_isolated=False), first)


def test_trailing_hyperedges_without_a_node_are_counted():
    data = data_module.HyperGraphData(edge_index=torch.tensor([[0, 1, 2], [0, 0, 3]]), num_nodes=3)
    assert int(data.num_edges) == 4
    data.hyperedge_weight = torch.tensor([1.0, 2, 3, 4, 5, 6])
    hypergraph = import_hypergraph(data, "pyg")
    assert lists(hypergraph) == [[0, 1], [2]]
    assert hypergraph.weights.tolist() == [1, 4]
    assert hypergraph.names.hyperedges == (0, 3)
    assert hypergraph.names.empty == (1, 2, 4, 5)
    again = export_hypergraph(hypergraph, "pyg")
    assert again.num_hyperedges == 6  # the empty ones behind the others
    assert import_hypergraph(again, "pyg").names.empty == (2, 3, 4, 5)


def test_trailing_isolated_nodes_stay_where_there_are_as_many_hyperedges():
    index = torch.tensor([[0, 1, 0], [0, 1, 2]])
    by_features = data_module.HyperGraphData(x=torch.ones(3, 2), edge_index=index)
    by_number = data_module.HyperGraphData(edge_index=index, num_nodes=3)
    for data in (by_features, by_number):
        assert int(data.num_nodes) == 2  # PyG forgets the last
        assert import_hypergraph(data, "pyg").n_nodes == 3


def test_names_are_lost_but_for_the_order():
    first = build(names=named())
    again = import_hypergraph(export_hypergraph(first, "pyg"), "pyg", cover_isolated=False)
    assert lists(again) == lists(first)
    assert again.names is None


@pytest.mark.parametrize(
    ("index", "others", "words"),
    [
        (None, {}, "with an edge_index of shape .* Got none"),
        (torch.ones(3, 2, dtype=torch.int64), {}, r"Got shape \(3, 2\)"),
        (torch.tensor([[0, -1], [0, 0]]), {}, "edge_index, nodes.* Got -1"),
        (torch.tensor([[0, 1], [0, 0]]), {"hyperedge_weight": torch.ones(2, 2)}, "shape"),
        (torch.tensor([[0, 1], [0, 5]]), {"hyperedge_weight": torch.ones(2)}, "hyperedge_weight of length 6. Got length 2"),
    ],
)  # fmt: skip
def test_bad_data_are_refused(index, others, words):
    with pytest.raises(ValueError, match=words):
        import_hypergraph(data_module.HyperGraphData(edge_index=index, **others), "pyg")
    with pytest.raises(TypeError, match="a HyperGraphData of torch_geometric. Got Data"):
        import_hypergraph(data_module.Data(), "pyg")
