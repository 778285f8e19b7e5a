"""Approximate neighbours: most of the true ones, found in a fraction of the time that all of them take.

FAISS names candidates, which are measured exactly. How many of the true neighbours are found, the recall, is
measured on a sample, and the effort is raised until it is what was asked for. A search for the same rows with
the same seed finds the same neighbours.
"""

from __future__ import annotations

import logging

import torch
from torch import Tensor

from dahgnn.checks import (
    as_features,
    bad_value,
    check_choice,
    check_count,
    check_neighbours,
    check_number,
    check_seed,
)
from dahgnn.graph.candidates import MeasuredSearch
from dahgnn.graph.copies import first_copies, hash_rows
from dahgnn.graph.exact import exact_scale
from dahgnn.graph.faiss_index import KINDS, FaissIndex
from dahgnn.graph.nearest import Neighbors
from dahgnn.graph.recall import Sample, SearchReport, raise_effort
from dahgnn.kernels.cpu.memory import release_memory

logger = logging.getLogger(__name__)

# Copies of a row that an index holds at the least; more where more neighbours are asked for.
_COPIES = 64
# Distances a row from which on lists are too slow, and links are tried: nothing that they need in addition,
# which is about a thousand distances a row, with memory read at random, then counts.
_MANY_DISTANCES = 16_384
# Distances that an exact search measures in the time of one that FAISS does in its lists: as the product of
# two matrices it is so much faster (measured on two cores, see `dahgnn.graph.choice`).
_AS_FAST = 30


class ApproximateSearch:
    """A search in one of FAISS's indexes; it fulfils `NeighborSearch`.

    The index is built when the search is first asked. The effort is chosen for each number of neighbours.

    Parameters
    ----------
    kind : {"ivf", "hnsw"}
        See `dahgnn.graph.faiss_index`. Where "hnsw" cannot find enough, "ivf" takes its place.
    features : array, (n, d)
        One row a point.
    recall : float
        Share of the true neighbours that are found at the least, in a sample.
    seed : int
        The same seed gives the same neighbours.

    Raises
    ------
    ModuleNotFoundError
        If FAISS is not installed.
    """

    def __init__(self, kind: str, features: object, *, recall: float = 0.95, seed: int = 0) -> None:
        owner = type(self).__name__
        check_choice("kind", kind, KINDS, owner)
        check_number("recall", recall, owner, low=0, high=1, open_low=True)
        check_seed(seed, owner)
        given = as_features(features, owner)
        self.kind, self.recall, self.seed, self.device = kind, recall, seed, given.device
        self.points = given.cpu().contiguous()
        self._scale = exact_scale(self.points, owner)
        self._index: FaissIndex | None = None
        self._copies = 0
        self._tuned: dict[int, tuple[MeasuredSearch, SearchReport]] = {}

    @property
    def n_points(self) -> int:
        """How many points there are."""
        return len(self.points)

    def among(self, k: int) -> Neighbors:
        """Find the k nearest other points of every point, (n_points, k)."""
        check_neighbours(k, self.n_points, "ApproximateSearch.among")
        return self._search(k).of_points(torch.arange(self.n_points), k).to(self.device)

    def query(self, rows: object, k: int) -> Neighbors:
        """Find the k nearest points of every row, (q, k)."""
        owner = "ApproximateSearch.query"
        queries = as_features(rows, owner, "rows").cpu()
        if queries.shape[1] != self.points.shape[1]:
            expected = f"of as many columns as the points, {self.points.shape[1]}"
            raise bad_value("rows", owner, expected, f"{queries.shape[1]}")
        check_count("k", k, owner)
        if k > self.n_points:
            raise bad_value("k", owner, f"at most the number of points, {self.n_points}", k)
        return self._search(k).of_rows(queries, k).to(self.device)

    def report(self, k: int) -> SearchReport:
        """Return how the k nearest are found, and how many of the true ones these are."""
        self._search(k)
        return self._tuned[k][1]

    def _search(self, k: int) -> MeasuredSearch:
        """Return the index with the effort that k neighbours need."""
        if k not in self._tuned:
            if self._index is None or k >= self._copies:
                self._copies, self._tuned = max(_COPIES, k + 1), {}
                self._index = build_index(self.kind, self.points, self._copies, self.seed)
            search, report = self._tune(self._index, k)
            if report.recall < self.recall and self.kind != "ivf":
                _say_too_few(report, self.recall)
                self.kind, self._index, self._tuned = "ivf", None, {}
                del search  # memory need not have room for both indexes
                return self._search(k)
            _check_reached(report, self.recall)
            self._tuned[k] = search, report
        return self._tuned[k][0]

    def _tune(self, index: FaissIndex, k: int) -> tuple[MeasuredSearch, SearchReport]:
        search = MeasuredSearch(index, self.points, self._scale, index.highest_effort)
        if self.n_points == 1:
            return search, SearchReport(backend=index.kind, k=k, settings=index.describe(search.effort))
        # A row among the points has one neighbour less than another row may have.
        sample = Sample.draw(self.points, min(k, self.n_points - 1), self.seed)
        return raise_effort(search, sample, self.recall)


def build_index(kind: str, points: Tensor, copies: int, seed: int) -> FaissIndex:
    """Build an index over points (n, d) with so many copies of each row at the most."""
    kept = first_copies(points, hash_rows(points), copies)
    return FaissIndex.build(kind, points, kept, seed)


def build_tuned(
    wanted: str, points: Tensor, k: int, recall: float, seed: int
) -> tuple[MeasuredSearch | None, SearchReport]:
    """Build the search that finds the k nearest others of all points (n, d).

    Parameters
    ----------
    wanted : {"auto", "ivf", "hnsw"}
        The kind of the index. "auto" is "ivf", and "hnsw" where lists would have to look at very many rows.
        Where that is not enough either, it may be the exact search. "ivf", which can look at all rows, takes
        the place of an "hnsw" that finds too few.
    points, k, recall, seed
        As for `ApproximateSearch`.

    Returns
    -------
    MeasuredSearch or None, SearchReport
        None is an exact search.
    """
    scale, copies = exact_scale(points, "ApproximateSearch"), max(_COPIES, k + 1)
    sample = Sample.draw(points, k, seed)

    def tuned(kind: str) -> tuple[MeasuredSearch, SearchReport]:
        index = build_index(kind, points, copies, seed)
        return raise_effort(MeasuredSearch(index, points, scale, 1), sample, recall)

    search, report = tuned("ivf" if wanted == "auto" else wanted)
    if report.recall < recall and wanted == "hnsw":
        _say_too_few(report, recall)
        del search  # memory need not have room for both indexes
        release_memory()
        search, report = tuned("ivf")
    if wanted != "auto":
        _check_reached(report, recall)
        return search, report
    effort, distances = search.effort, search.index.distances(search.effort)
    if distances <= min(_MANY_DISTANCES, len(points) / _AS_FAST):
        return search, report
    del search
    release_memory()
    search, its_report = tuned("hnsw")
    if its_report.recall >= recall:
        return search, its_report
    del search
    release_memory()
    if distances > len(points) / _AS_FAST:
        return None, SearchReport(backend="exact", k=k)
    # The same rows and the same seed give the same lists.
    return MeasuredSearch(build_index("ivf", points, copies, seed), points, scale, effort), report


def _say_too_few(report: SearchReport, recall: float) -> None:
    logger.warning(
        "'%s' finds %.3f of the %d nearest, and not %g as was asked for: 'ivf' takes its place.",
        report.backend,
        report.recall,
        report.k,
        recall,
    )


def _check_reached(report: SearchReport, recall: float) -> None:
    """Refuse a search that finds too few, and tell of one that finds enough."""
    if report.recall < recall:
        remedy = "Ask for a lower one, or for search='exact'."
        expected = f"within reach of '{report.backend}', at most {report.recall:.3f}"
        raise bad_value("recall", "ApproximateSearch", expected, recall, remedy)
    logger.info("The search for neighbours is %s.", report.describe())
