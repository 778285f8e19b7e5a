"""Nearest neighbours: the one seam between whoever needs them and whatever finds them.

A search is built over the features once, and asked as often as needed: `NeighborSearch.among` gives the
neighbours of the points themselves, `NeighborSearch.query` those of other rows. A new way to find them is one
entry of `SEARCHES`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from dahgnn.checks import as_features, check_choice
from dahgnn.graph.approximate import ApproximateSearch
from dahgnn.graph.choice import choose_search
from dahgnn.graph.nearest import ExactSearch, Neighbors, NeighborSearch, knn, nearest

__all__ = ["SEARCHES", "ExactSearch", "NeighborSearch", "Neighbors", "build_search", "knn", "nearest"]


def _build_exact(features: object, recall: float = 1.0, seed: int = 0) -> ExactSearch:  # noqa: ARG001
    """Build the exact search, which finds all neighbours whatever the recall and the seed."""
    return ExactSearch(features)


SEARCHES: Mapping[str, Callable[..., NeighborSearch]] = {
    "exact": _build_exact,
    "ivf": partial(ApproximateSearch, "ivf"),
    "hnsw": partial(ApproximateSearch, "hnsw"),
}


def build_search(
    features: object, backend: str = "exact", *, recall: float = 0.95, seed: int = 0
) -> NeighborSearch:
    """Build a search over features (n, d) by the name of a backend.

    Parameters
    ----------
    features : array, (n, d)
        One row a point.
    backend : {"exact", "ivf", "hnsw", "auto"}
        All points, or one of FAISS's indexes, which need the extra 'large'; "auto" chooses by the number of
        rows and columns and by the device.
    recall : float
        Share of the true neighbours that an approximate search has to find, see `ApproximateSearch`.
    seed : int
        The same seed gives the same index.

    Examples
    --------
    >>> search = build_search([[0.0], [1.0], [3.0]])
    >>> search.among(1).indices.tolist(), search.query([[2.9]], 2).indices.tolist()
    ([[1], [0], [1]], [[2, 1]])
    """
    check_choice("backend", backend, ("auto", *SEARCHES), "build_search")
    if backend == "auto":
        points = as_features(features, "build_search")
        backend = choose_search(len(points), points.shape[1], points.device)
    return SEARCHES[backend](features, recall=recall, seed=seed)
