"""What becomes of a hypergraph that the user gives: held-out labels decide what is added to it.

Its hyperedges make a graph of who shares hyperedges with whom, which labels spread over. Rows that share one
with nobody can get their nearest neighbours, or all rows can; and where columns count words, rows can be
compared by tf-idf. For each choice labels spread over the graph, and those that were held out tell which is
the best. One choice among six, by all held-out labels, is hardly better on these than on others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dahgnn.classifier.fitting import GivenRows
from dahgnn.classifier.opinions import Graphs, potential_distributions
from dahgnn.classifier.stacking import DOUBT, EXPERT_TITLES, FAVOURITE
from dahgnn.classifier.surroundings import Surroundings, find_neighbors, say_nearest
from dahgnn.graph.diffusion import Given, SimilarityGraph
from dahgnn.graph.hypergraph import Hypergraph
from dahgnn.graph.membership import add_neighbours, share_hyperedges
from dahgnn.graph.scaling import choose_scaling, counts_words
from dahgnn.training.splits import Split

Array = NDArray[Any]

# What is said of who gets a hyperedge of nearest neighbours.
_WORDS = {
    "all": "all rows got {nearest} beside the given hyperedges",
    "lonely": "rows that share no hyperedge got {nearest}",
    "nobody": "no row got {nearest} beside the given hyperedges",
}


@dataclass(frozen=True, eq=False, kw_only=True)
class Adopted:
    """Rows and surroundings that a fit goes on with.

    Attributes
    ----------
    given : GivenRows
        The rows, perhaps scaled anew.
    surroundings : Surroundings
        Who is near whom.
    decision : str
        Who got neighbours, as part of a sentence; empty where no hypergraph was given.
    """

    given: GivenRows
    surroundings: Surroundings
    decision: str = ""


def adopt_hypergraph(
    given: GivenRows,
    hypergraph: Hypergraph,
    splits: Sequence[Split],
    k: int,
    metric: str,
    device: torch.device,
    *,
    choose_scale: bool,
) -> Adopted:
    """Choose what is added to a given hypergraph, by labels that were held out.

    Parameters
    ----------
    given : GivenRows
        The rows and their labels.
    hypergraph : Hypergraph
        Of these rows.
    splits : sequence of Split
        Which labels are held out. Where none is, the first choice is taken: all rows get neighbours, and
        words count by tf-idf.
    k : int
        Neighbours of a row.
    metric : {"local-scale", "euclidean"}
        The distance by which they are chosen.
    device : torch.device
        Where to search, and to spread labels.
    choose_scale : bool
        Whether tf-idf may take the place of counts, where columns count words.
    """
    shared = share_hyperedges(hypergraph)
    lonely = np.flatnonzero(np.asarray(shared.sum(axis=1)).ravel() == 0)
    who = {"all": np.arange(hypergraph.n_nodes), "lonely": lonely, "nobody": lonely[:0]}
    if len(lonely) == 0:
        del who["lonely"]
    best, least = None, np.inf
    for rows in _scaled(given, choose_scale):
        found, _, scales = find_neighbors(rows.features, k, metric, device)
        near = SimilarityGraph.from_neighbors(found)
        # Neighbours count as much as one hyperedge, in the mean.
        similar = near.similarities / near.degrees.mean()
        for added, nodes in who.items():
            joined = (shared + _between(similar, nodes)).tocsr()
            graph = SimilarityGraph.from_matrix(joined, device=device, dtype=torch.float32)
            loss = spreading_loss(graph, rows, splits)
            if loss < least:
                best, least = (rows, found, scales, graph, nodes, _WORDS[added]), loss
    assert best is not None  # noqa: S101, a loss is finite
    rows, found, scales, graph, nodes, decision = best
    around = Surroundings(
        hypergraph=add_neighbours(hypergraph, found, nodes),
        graphs=Graphs(graph, around=True),
        k=k,
        radius=None,
        scales=scales,
    )
    return Adopted(given=rows, surroundings=around, decision=_describe(decision, k, metric))


def _describe(decision: str, k: int, metric: str) -> str:
    """Say who got neighbours, and that labels do not spread over neighbours by plain distance."""
    said = decision.format(nearest=say_nearest(k, metric))
    # By plain distance there would be no such expert without a hypergraph, either.
    if metric != "local-scale":
        return said
    return f"{said}; {EXPERT_TITLES['plain-poisson']} has no part"


def _scaled(given: GivenRows, choose_scale: bool) -> list[GivenRows]:
    """Return the rows by each scale that there is to choose from."""
    if not (choose_scale and counts_words(given.rows)):
        return [given]
    scaling = choose_scaling(given.rows, "words")
    words = replace(given, scaling=scaling, features=scaling.apply(given.rows))
    return [words, given]


def _between(similar: Any, nodes: Array) -> Any:
    """Return the similarities of which one node at the least is among these."""
    from scipy.sparse import diags_array

    chosen = np.zeros(similar.shape[0])
    chosen[nodes] = 1
    own = diags_array(chosen) @ similar
    return own + own.T - own @ diags_array(chosen)


def spreading_loss(graph: SimilarityGraph, given: GivenRows, splits: Sequence[Split]) -> float:
    """Return the mean negative logarithm of the likelihood of held-out labels when the others spread.

    They do by Poisson learning, smoothed, as for the candidate `FAVOURITE`. Without held-out labels it is 0.
    """
    distinct = {split.validation.numpy().tobytes(): split for split in splits if len(split.validation)}
    if not distinct:
        return 0.0
    labels, n_classes = given.labels.numpy(), len(given.classes)
    weights = np.ones(len(labels)) if given.weights is None else given.weights
    parts = []
    for split in distinct.values():
        rows = split.train.numpy()
        parts.append(Given(rows, np.eye(n_classes)[labels[rows]], weights[rows]))
    priors = potential_distributions(graph.spread_poisson_all(parts))
    said = graph.smooth_all(parts, priors, FAVOURITE.strength).double().cpu().numpy()
    losses, counts = [], []
    for number, split in enumerate(distinct.values()):
        rows = split.validation.numpy()
        likelihood = (1 - DOUBT) * said[rows, number, labels[rows]] + DOUBT / n_classes
        losses.append(-np.log(likelihood))
        counts.append(weights[rows])
    total = np.concatenate(counts)
    return float(total @ np.concatenate(losses) / total.sum()) if total.sum() > 0 else 0.0
