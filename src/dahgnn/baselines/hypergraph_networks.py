"""Networks to compare with on a given hypergraph: of PyG's and of DHG's layers, and one without a layer."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, relu

from dahgnn.baselines.graph_networks import TwoLayers
from dahgnn.baselines.registry import register_network
from dahgnn.graph.hypergraph import Hypergraph
from dahgnn.nn.hgnn import check_network


class _OnHypergraph(TwoLayers):
    """Two layers with a ReLU and dropout between them, as `HGNN` has them."""

    def _structure(self, hypergraph: Hypergraph) -> tuple[Any, ...]:  # noqa: ARG002
        """Return what the layers take besides the features."""
        return ()

    def forward(self, features: Tensor, hypergraph: Hypergraph) -> Tensor:
        """Return the logits, (n, n_classes), for features (n, in_features)."""
        structure = self._structure(hypergraph)
        hidden = dropout(relu(self.layer1(features, *structure)), self.dropout, self.training)
        logits: Tensor = self.layer2(hidden, *structure)
        return logits


def _check(in_features: int, n_classes: int, hidden: int, share: float, owner: str) -> dict[str, Any]:
    check_network(in_features, n_classes, hidden, share, owner)
    return {"in_features": in_features, "n_classes": n_classes, "hidden": hidden, "dropout": share}


class MLP(_OnHypergraph):
    """A perceptron with one hidden layer, which sees a node's own features and no hypergraph.

    Parameters
    ----------
    in_features, n_classes : int
        Length of a feature vector, and number of classes.
    hidden : int
        Units of the hidden layer.
    dropout : float
        Share of hidden units dropped while training.
    generator : torch.Generator, optional
        Source of the initial weights.
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        *,
        hidden: int = 64,
        dropout: float = 0.5,
        generator: torch.Generator | None = None,
    ) -> None:
        settings = _check(in_features, n_classes, hidden, dropout, "MLP")
        super().__init__((nn.Linear(in_features, hidden), nn.Linear(hidden, n_classes)), settings, generator)


class PyGHypergraph(_OnHypergraph):
    """Two hypergraph convolutions of PyG, `HypergraphConv` without attention (Bai et al., 2021).

    Parameters
    ----------
    in_features, n_classes, hidden, dropout, generator
        As for `MLP`.
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        *,
        hidden: int = 64,
        dropout: float = 0.5,
        generator: torch.Generator | None = None,
    ) -> None:
        from torch_geometric.nn import HypergraphConv

        settings = _check(in_features, n_classes, hidden, dropout, "PyGHypergraph")
        layers = HypergraphConv(in_features, hidden), HypergraphConv(hidden, n_classes)
        super().__init__(layers, settings, generator)

    def _structure(self, hypergraph: Hypergraph) -> tuple[Any, ...]:
        pairs = torch.stack([hypergraph.by_hyperedge.indices, hypergraph.by_hyperedge.owners()])
        if hypergraph.weights is None:
            return (pairs,)
        return pairs, hypergraph.weights.to(torch.get_default_dtype())


class _HGNNPlusLayer(nn.Module):
    """DHG's `HGNNPConv`, without its activation and dropout: a product, then DHG's own message passing.

    It is spelt out so that a network, and with it a spec, can be read where DHG is not installed.
    """

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.theta = nn.Linear(in_features, out_features)

    def forward(self, features: Tensor, theirs: Any) -> Tensor:
        passed: Tensor = theirs.v2v(self.theta(features), aggr="mean")
        return passed


class DHGHypergraph(_OnHypergraph):
    """Two layers of DHG, those of HGNN+ (Gao et al., 2022).

    Parameters
    ----------
    in_features, n_classes, hidden, dropout, generator
        As for `MLP`.
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        *,
        hidden: int = 64,
        dropout: float = 0.5,
        generator: torch.Generator | None = None,
    ) -> None:
        settings = _check(in_features, n_classes, hidden, dropout, "DHGHypergraph")
        layers = _HGNNPlusLayer(in_features, hidden), _HGNNPlusLayer(hidden, n_classes)
        super().__init__(layers, settings, generator)

    def _structure(self, hypergraph: Hypergraph) -> tuple[Any, ...]:
        if hypergraph not in _of_dhg:
            from dhg import Hypergraph as DHGsHypergraph

            members = [each.tolist() for each in _lists(hypergraph)]
            weights = None if hypergraph.weights is None else hypergraph.weights.tolist()
            # DHG merges equal hyperedges; "sum" lets the one that stays count for all of them.
            theirs = DHGsHypergraph(hypergraph.n_nodes, members, weights, merge_op="sum")
            _of_dhg[hypergraph] = theirs.to(hypergraph.device)
        return (_of_dhg[hypergraph],)


# DHG's form of the hypergraphs that are in use.
_of_dhg: WeakKeyDictionary[Hypergraph, Any] = WeakKeyDictionary()


def _lists(hypergraph: Hypergraph) -> tuple[Tensor, ...]:
    lists: tuple[Tensor, ...] = hypergraph.by_hyperedge.indices.cpu().split(
        hypergraph.hyperedge_degrees.tolist()
    )
    return lists


register_network(MLP)
register_network(PyGHypergraph)
register_network(DHGHypergraph)
