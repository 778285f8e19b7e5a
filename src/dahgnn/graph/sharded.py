"""Neighbours of very many rows, a shard of the rows at a time.

The features may be in a file, and so is all that is found: memory holds an index of the rows, and a shard.
With a folder that stays, a search that was ended goes on where it was.

By local scale it takes two passes: the first finds each row's nearest by plain distance, of which its scale μ
is the mean; the second, when μ of all rows is known, chooses among them, see `dahgnn.graph.local_scale`.
"""

from __future__ import annotations

import logging
import shutil
import uuid
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from dahgnn.checks import (
    as_features,
    check_choice,
    check_count,
    check_device,
    check_neighbours,
    check_number,
    check_seed,
)
from dahgnn.config import SEARCH_NAMES
from dahgnn.files.scratch import Scratch
from dahgnn.graph.approximate import build_tuned
from dahgnn.graph.candidates import MeasuredSearch
from dahgnn.graph.choice import choose_search
from dahgnn.graph.copies import digest_of_rows, hash_rows
from dahgnn.graph.faiss_index import FaissIndex
from dahgnn.graph.local_scale import (
    METRICS,
    bounded_scales,
    choose_by_scale,
    count_candidates,
    mean_distances,
)
from dahgnn.graph.nearest import Neighbors, knn, nearest, others
from dahgnn.graph.recall import SearchReport
from dahgnn.graph.search_folder import Chosen, Plan, SearchFolder
from dahgnn.kernels.cpu.memory import release_memory
from dahgnn.progress import Progress
from dahgnn.shards import is_done_here, run_shards

logger = logging.getLogger(__name__)

# Rows of a shard. With 50 candidates each it is a file of 20 MB.
ROWS_OF_A_SHARD = 50_000


class FoundInShards(NamedTuple):
    """What `find_neighbours_in_shards` returns.

    Attributes
    ----------
    found : Neighbors, (n, k)
        The neighbours by the metric.
    plain : Neighbors, (n, k), or None
        Those by plain distance, if the metric is another.
    scales : Tensor, (n,), or None
        μ of each row, if the metric is local scale.
    report : SearchReport
        How they were found.
    order : Tensor of int32 or int64, (n,), or None
        The numbers of all rows, near ones near each other, if the search knows such an order.
    """

    found: Neighbors
    plain: Neighbors | None
    scales: Tensor | None
    report: SearchReport
    order: Tensor | None = None


def find_neighbours_in_shards(
    features: object,
    k: int,
    metric: str = "local-scale",
    *,
    search: str = "auto",
    recall: float = 0.95,
    scratch: Scratch,
    folder: Path | str | None = None,
    jobs: int | None = None,
    backend: str = "processes",
    device: torch.device | str = "cpu",
    seed: int = 0,
    rows: int = ROWS_OF_A_SHARD,
    progress: Progress | None = None,
) -> FoundInShards:
    """Find the neighbours of very many rows.

    Parameters
    ----------
    features : Tensor, (n, d)
        One row a node; it may be in a file.
    k : int
        Neighbours of a row, the row itself not counted.
    metric : {"local-scale", "euclidean"}
        By what they are chosen.
    search : {"auto", "exact", "ivf", "hnsw"}
        What finds them, see `ResourceConfig`.
    recall : float
        Share of the true neighbours by plain distance that are found at the least, in a sample.
    scratch : Scratch
        Gives room for what is returned.
    folder : path, optional
        Where the search is kept. A second call with the same rows and settings does what is missing there.
        By default it is a folder of the scratch, which goes with it.
    jobs, backend : int or None, {"processes", "ray", "dask"}
        See `run_shards`. Workers on other machines need a folder that they can reach.
    device : torch.device or str
        Where an exact search compares rows.
    seed : int
        The same seed gives the same neighbours.
    rows : int
        Rows of a shard.
    progress : Progress, optional
        Told how many shards are done.

    Raises
    ------
    ValueError
        If the folder keeps a search of other rows or with other settings, if the rows change meanwhile, or if
        the recall cannot be reached.
    OSError
        If the disk is full. The shards that are done stay.
    """
    owner = "find_neighbours_in_shards"
    points = as_features(features, owner).cpu().contiguous()
    n, d = points.shape
    check_neighbours(k, n, owner)
    check_choice("metric", metric, tuple(METRICS), owner)
    check_choice("search", search, SEARCH_NAMES, owner)
    check_number("recall", recall, owner, low=0, high=1, open_low=True)
    check_seed(seed, owner)
    check_count("rows", rows, owner)
    where = check_device(device, owner)
    plan = Plan(
        rows=digest_of_rows(points, hash_rows(points)),
        n_rows=n,
        n_columns=d,
        neighbours=count_candidates(k, n) if metric == "local-scale" else k,
        shard=rows,
        search=search,
        recall=float(recall),
        seed=int(seed),
    )
    path = scratch.subfolder(f"neighbours-{uuid.uuid4().hex}") if folder is None else Path(folder)
    files, elsewhere = SearchFolder(path, plan), not is_done_here(jobs, backend)
    try:
        chosen = _choose(files, points, where)
        work = _ShardSearch(files, chosen, str(where), None if elsewhere else points)
        if elsewhere:
            files.write_features(points)
        run_shards(
            work, files.missing(), jobs=jobs, backend=backend, is_done=files.is_whole, progress=progress
        )
        _check_unchanged(points, plan)
        order = _open_index(path, plan).order if chosen.effort else None
        collect = _choose_by_scale if metric == "local-scale" else _collect
        return collect(files, k, scratch, chosen.report, order)
    finally:
        _open_index.cache_clear()
        if folder is None:
            shutil.rmtree(path, ignore_errors=True)


def _choose(files: SearchFolder, points: Tensor, device: torch.device) -> Chosen:
    """Choose how to search, and build the index, unless an earlier call has."""
    before, plan = files.read_choice(), files.plan
    if before is not None and (before.effort == 0 or _has_index(files.path)):
        return before
    kind = choose_search(plan.n_rows, plan.n_columns, device, plan.search)
    search, report = None, SearchReport(backend="exact", k=plan.neighbours)
    if kind != "exact":
        wanted = "auto" if plan.search == "auto" else kind
        search, report = build_tuned(wanted, points, plan.neighbours, plan.recall, plan.seed)
    chosen = Chosen(report) if search is None else Chosen(report, search.effort, search.scale)
    if search is not None:
        search.index.write(files.path)
    files.write_choice(chosen)
    del search  # the index is read from its file from here on
    release_memory()
    return chosen


def _has_index(folder: Path) -> bool:
    try:
        FaissIndex.open(folder)
    except (FileNotFoundError, ValueError) as error:
        logger.warning("The index is built anew: %s", error)
        return False
    return True


@dataclass(frozen=True, eq=False)
class _ShardSearch:
    """The work of a shard: find the neighbours of its rows and write them.

    Attributes
    ----------
    files : SearchFolder
        Where everything is.
    chosen : Chosen
        How to search.
    device : str
        Where an exact search compares rows.
    features : Tensor, (n, d), or None
        The rows, where the work is done in this process; elsewhere they are read from the folder.
    """

    files: SearchFolder
    chosen: Chosen
    device: str
    features: Tensor | None = None

    def __call__(self, number: int) -> None:
        points = self.files.open_features() if self.features is None else self.features
        plan, count = self.files.plan, self.files.plan.neighbours
        numbers = plan.numbers(number)
        if self.chosen.effort:
            index = _open_index(self.files.path, plan)
            numbers = plan.numbers(number, index.order)
            found = MeasuredSearch(index, points, self.chosen.scale, self.chosen.effort).of_points(
                numbers, count
            )
        elif len(numbers) == len(points):  # each distance is computed once for both its ends
            found = knn(points.to(self.device), count).to("cpu")
        else:
            found = others(nearest(points[numbers], points, count + 1, device=self.device), numbers)
        self.files.write_shard(number, found)


@lru_cache(maxsize=1)
def _open_index(folder: Path, plan: Plan) -> FaissIndex:  # noqa: ARG001, another plan has another index
    """Open an index once in each process."""
    return FaissIndex.open(folder)


def _check_unchanged(points: Tensor, plan: Plan) -> None:
    """Refuse what was found if the features, which may be in a file, are not what they were at the start."""
    if digest_of_rows(points, hash_rows(points)) != plan.rows:
        raise ValueError(
            "The features must stay the same while neighbours are searched. Got others at the end than at "
            "the start. Leave the file alone, and search anew."
        )


def _room(plan: Plan, k: int, scratch: Scratch, dtype: torch.dtype) -> Neighbors:
    shape = (plan.n_rows, k)
    return Neighbors(scratch.empty(shape, torch.int64), scratch.empty(shape, dtype))


def _put(room: Neighbors, numbers: Tensor, some: Neighbors) -> None:
    """Copy the neighbours of a shard's rows to their places."""
    room.indices[numbers], room.distances[numbers] = some.indices, some.distances


def _collect(
    files: SearchFolder, k: int, scratch: Scratch, report: SearchReport, order: Tensor | None
) -> FoundInShards:
    """Collect the neighbours of all shards by plain distance."""
    room = _room(files.plan, k, scratch, files.read_shard(0).distances.dtype)
    for number in range(files.plan.n_shards):
        _put(room, files.plan.numbers(number, order), files.read_shard(number).first(k))
    return FoundInShards(room, None, None, report, order)


def _choose_by_scale(
    files: SearchFolder, k: int, scratch: Scratch, report: SearchReport, order: Tensor | None
) -> FoundInShards:
    """Choose the neighbours of all shards by local scale."""
    plan = files.plan
    means = [mean_distances(files.read_shard(number)) for number in range(plan.n_shards)]
    scales = means[0].new_empty(plan.n_rows)
    for number, some in enumerate(means):
        scales[plan.numbers(number, order)] = some
    scales = bounded_scales(scales)
    found, plain = (_room(plan, k, scratch, scales.dtype) for _ in range(2))
    for number in range(plan.n_shards):
        candidates, numbers = files.read_shard(number), plan.numbers(number, order)
        _put(found, numbers, choose_by_scale(candidates, scales[numbers], scales, k))
        _put(plain, numbers, candidates.first(k))
    return FoundInShards(found, plain, scales, report, order)
