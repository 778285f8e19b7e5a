"""Why a row got its label, and which rows to label next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from dahgnn.checks import bad_value, check_count
from dahgnn.graph.hypergraph import Hypergraph
from dahgnn.kernels.incidence import Segments
from dahgnn.nn.messages import Trace

if TYPE_CHECKING:
    from dahgnn.classifier.estimator import DAHGNNClassifier


@dataclass(frozen=True, kw_only=True)
class RowAttention:
    """A row and how much of the attention it has, between 0 and 1."""

    row: int
    weight: float


@dataclass(frozen=True, kw_only=True)
class HyperedgeAttention:
    """A hyperedge that a row is in, and how much of the row's attention it has in the last layer.

    Attributes
    ----------
    hyperedge, centre : int, int or None
        Its number, and the row that it was built around.
    weight : float
        Its share of the row's attention; those of all the row's hyperedges sum to one.
    members : tuple of RowAttention
        Its rows and their shares of its own attention, the greatest first; they sum to one.
    """

    hyperedge: int
    centre: int | None
    weight: float
    members: tuple[RowAttention, ...]


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """Where the label of a row comes from.

    Attributes
    ----------
    row : int
        Which.
    hyperedges : tuple of HyperedgeAttention
        Those the row is in, the greatest share first.
    labelled : tuple of RowAttention
        Labelled rows from which attention reached the row through both layers, the greatest share first.
        The rest of that attention, up to one, comes from unlabelled rows.
    """

    row: int
    hyperedges: tuple[HyperedgeAttention, ...]
    labelled: tuple[RowAttention, ...]


def explain(classifier: DAHGNNClassifier, row: int) -> Explanation:
    """Say which hyperedges and labelled rows carried most attention to a fitted row.

    Attention coefficients are means over heads and networks. That of a row through both layers is the sum
    over all ways of messages from it, each the product of its coefficients (Abnar and Zuidema, 2020, call it
    rollout). It tells where messages of the two attention layers came from, not what the label would be
    without them; the convolution before them, and a shortcut from there to the logits, have no attention and
    are left out.

    Parameters
    ----------
    classifier : DAHGNNClassifier
        Fitted.
    row : int
        The number of a fitted row.
    """
    traces = traces_of(classifier)
    hypergraph, n = classifier.hypergraph_, classifier.hypergraph_.n_nodes
    if not isinstance(row, int | np.integer) or not 0 <= row < n:
        raise bad_value("row", "explain", f"between 0 and {n - 1}", row)
    last = [second for _, second in traces]
    to_hyperedges, to_nodes = attention_to_hyperedges(last, hypergraph), attention_to_nodes(last, hypergraph)
    of_row = slice(*hypergraph.by_node.offsets[row : row + 2].tolist())
    numbers, weights = hypergraph.by_node.indices[of_row].tolist(), to_nodes[of_row].tolist()
    hyperedges = tuple(
        _hyperedge(hypergraph, number, weight, to_hyperedges)
        for weight, number in sorted(zip(weights, numbers, strict=True), key=lambda pair: (-pair[0], pair[1]))
    )
    reached = np.mean([_rollout(row, [second, first], hypergraph) for first, second in traces], 0)
    known = classifier.labelled_indices_
    order = known[np.argsort(-reached[known], kind="stable")]
    labelled = tuple(
        RowAttention(row=int(each), weight=float(reached[each])) for each in order if reached[each] > 0
    )
    return Explanation(row=row, hyperedges=hyperedges, labelled=labelled)


def traces_of(classifier: DAHGNNClassifier) -> list[tuple[Trace, Trace]]:
    """Return what passed among the fitted rows in the two attention layers of each network."""
    check_is_fitted(classifier, "ensemble_")
    return [(induction.first, induction.second) for induction in classifier.ensemble_.inductions]


def attention_to_hyperedges(traces: Sequence[Trace], hypergraph: Hypergraph) -> Tensor:
    """Return the attention of each hyperedge to its nodes, the mean of heads and networks, (t,)."""
    found = [trace.to_hyperedges.coefficients(hypergraph.to_hyperedges).mean(1) for trace in traces]
    return torch.stack(found).mean(0)


def attention_to_nodes(traces: Sequence[Trace], hypergraph: Hypergraph) -> Tensor:
    """Return the attention of each node to its hyperedges, the mean of heads and networks, (t,)."""
    found = [trace.to_nodes.coefficients(hypergraph.to_nodes).mean(1) for trace in traces]
    return torch.stack(found).mean(0)


def _hyperedge(hypergraph: Hypergraph, number: int, weight: float, attention: Tensor) -> HyperedgeAttention:
    part = slice(*hypergraph.by_hyperedge.offsets[number : number + 2].tolist())
    members = zip(hypergraph.by_hyperedge.indices[part].tolist(), attention[part].tolist(), strict=True)
    return HyperedgeAttention(
        hyperedge=number,
        centre=None if hypergraph.centres is None else int(hypergraph.centres[number]),
        weight=weight,
        members=tuple(
            RowAttention(row=row, weight=share)
            for row, share in sorted(members, key=lambda member: (-member[1], member[0]))
        ),
    )


def _rollout(row: int, traces: list[Trace], hypergraph: Hypergraph) -> NDArray[Any]:
    """Return how much attention of one row each row has in the end, (n,)."""
    reached = torch.zeros(hypergraph.n_nodes, dtype=torch.float64)
    reached[row] = 1
    for trace in traces:
        for incidence, attention, count in (
            (hypergraph.to_nodes, attention_to_nodes([trace], hypergraph), hypergraph.n_hyperedges),
            (hypergraph.to_hyperedges, attention_to_hyperedges([trace], hypergraph), hypergraph.n_nodes),
        ):
            flow = reached[incidence.owners] * attention.double()
            reached = torch.zeros(count, dtype=torch.float64).index_add_(0, incidence.forward.indices, flow)
    return reached.numpy()


def suggest(classifier: DAHGNNClassifier, count: int) -> NDArray[np.int64]:
    """Choose rows whose labels would help most: uncertain ones, in dense places, apart from each other.

    Each choice is the unlabelled row of the greatest (1 − margin) · density, where the margin is the
    difference of its two greatest probabilities. Its neighbours, and the rows whose neighbour it is, are then
    left out until nobody else is left.

    Parameters
    ----------
    classifier : DAHGNNClassifier
        Fitted.
    count : int
        Rows to choose; fewer are given where fewer are unlabelled.

    Returns
    -------
    array of int, (count,)
        The most useful first.
    """
    check_count("count", count, "suggest")
    check_is_fitted(classifier, "ensemble_")
    scores = usefulness(classifier.label_distributions_, classifier.density_)
    free = np.ones(len(scores), dtype=bool)
    free[classifier.labelled_indices_] = False
    near = free.copy()
    ways = classifier.hypergraph_.neighbourhood("centre")
    order = np.argsort(-scores, kind="stable")
    chosen: list[int] = []
    while len(chosen) < min(count, int(free.sum())):
        for row in order:
            if near[row] and len(chosen) < count:
                chosen.append(int(row))
                near[row] = False
                near[neighbours_of(row, ways)] = False
        # All that are left stand near a chosen one: another round takes them.
        near = free.copy()
        near[chosen] = False
    return np.array(chosen, dtype=np.int64)


def usefulness(distributions: NDArray[Any], density: NDArray[Any]) -> NDArray[Any]:
    """Return (1 − margin) · density of each row, (n,): how much its label would help.

    Parameters
    ----------
    distributions, density : array, (n, c), (n,)
        The probabilities of its classes, and how similar it is to its neighbours.
    """
    return np.asarray((1 - margins(distributions)) * density)


def neighbours_of(row: int, ways: tuple[Segments, Segments]) -> NDArray[np.int64]:
    """Return the neighbours of a row, and the rows whose neighbour it is.

    Parameters
    ----------
    row : int
        Its number.
    ways : tuple of Segments
        Both, as `Hypergraph.neighbourhood` returns them.
    """
    parts = []
    for segments in ways:
        first, last = segments.offsets[row : row + 2].tolist()
        parts.append(segments.indices[first:last].numpy())
    return np.concatenate(parts)


def margins(probabilities: NDArray[Any]) -> NDArray[Any]:
    """Return by how much the greatest probability of a row exceeds the second, (n,)."""
    highest = np.partition(probabilities, -2, axis=1)[:, -2:]
    return np.asarray(highest[:, 1] - highest[:, 0])
