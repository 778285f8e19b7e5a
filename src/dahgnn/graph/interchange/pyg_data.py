"""PyTorch Geometric: ``torch_geometric.data.hypergraph_data.HyperGraphData``.

Its ``edge_index`` has the pairs. Weights are where PyG's layers and ours look for them, in
``hyperedge_weight`` (m,); those of incidences are in ``incidence_weight`` (t,), which no layer of PyG reads.

Traps: ``num_edges`` is the greatest number plus one, so that trailing hyperedges without a node are lost; we
keep how many there are as ``num_hyperedges``, and read that, the length of ``hyperedge_weight`` and that of
``edge_attr``. Where there are as many nodes as hyperedges, PyG's ``num_nodes`` forgets trailing nodes that
are in no hyperedge; we read those of ``x`` or of ``num_nodes`` as it was given. Names are lost. ``x`` and
``y`` are left to you.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from dahgnn.checks import as_indices, as_tensor, bad_value
from dahgnn.graph.interchange.libraries import check_source, library
from dahgnn.graph.interchange.pairs import Array, Pairs, without_empty

_OWNER = "import_hypergraph"


def read_pyg(data: Any) -> Pairs:
    """Read a ``HyperGraphData``."""
    kind = library("torch_geometric.data.hypergraph_data").HyperGraphData
    check_source(data, kind, "a HyperGraphData of torch_geometric")
    index = data.edge_index
    if not isinstance(index, Tensor) or index.dim() != 2 or len(index) != 2:
        got = "none" if index is None else f"shape {tuple(index.shape)}"
        raise bad_value("source", _OWNER, "data with an edge_index of shape (2, t)", got)
    node, hyperedge = (_numbers(row, name) for row, name in zip(index, ("nodes", "hyperedges"), strict=True))
    pairs = Pairs(
        node=node,
        hyperedge=hyperedge,
        n_nodes=max(_count(data, ("x",), "num_nodes"), int(node.max(initial=-1)) + 1),
        n_hyperedges=max(
            _count(data, ("hyperedge_weight", "edge_attr"), "num_hyperedges"),
            int(hyperedge.max(initial=-1)) + 1,
        ),
        weights=_weights(data, "hyperedge_weight"),
        incidence_weights=_weights(data, "incidence_weight"),
    )
    if pairs.weights is not None and len(pairs.weights) != pairs.n_hyperedges:
        expected = f"data with a hyperedge_weight of length {pairs.n_hyperedges}"
        raise bad_value("source", _OWNER, expected, f"length {len(pairs.weights)}")
    return without_empty(pairs)


def _numbers(row: Tensor, what: str) -> Array:
    return as_indices(row, f"source.edge_index, {what}", _OWNER, below=2**62).cpu().numpy()


def _count(data: Any, lengths: tuple[str, ...], number: str) -> int:
    """Return the greatest of what a data object says of how many there are."""
    stored = data.to_dict()
    found = [len(stored[name]) for name in lengths if isinstance(stored.get(name), Tensor)]
    return max([0, *found, int(stored.get(number) or 0)])


def _weights(data: Any, name: str) -> Array | None:
    if data.get(name) is None:
        return None
    weights = as_tensor(data[name], f"source.{name}", _OWNER)
    if weights.dim() != 1:
        raise bad_value(f"source.{name}", _OWNER, "one-dimensional", f"shape {tuple(weights.shape)}")
    return weights.double().cpu().numpy()


def write_pyg(pairs: Pairs) -> Any:
    """Make a ``HyperGraphData``."""
    empty = 0 if pairs.names is None else len(pairs.names.empty)
    data = library("torch_geometric.data.hypergraph_data").HyperGraphData(
        edge_index=torch.from_numpy(np.stack([pairs.node, pairs.hyperedge])), num_nodes=pairs.n_nodes
    )
    data.num_hyperedges = pairs.n_hyperedges + empty
    if pairs.weights is not None:
        data.hyperedge_weight = torch.from_numpy(np.pad(pairs.weights, (0, empty), constant_values=1)).float()
    if pairs.incidence_weights is not None:
        data.incidence_weight = torch.from_numpy(pairs.incidence_weights).float()
    return data
