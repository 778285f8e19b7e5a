"""Who is near whom among the rows of a fit: neighbours that are searched for or given, and what follows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from dahgnn.checks import as_tensor, bad_type, bad_value, check_in_range
from dahgnn.classifier.opinions import Graphs
from dahgnn.classifier.workplace import Workplace
from dahgnn.distributed import do_first
from dahgnn.files.tensors import tensors_digest
from dahgnn.graph.copies import digest_of_rows, hash_rows
from dahgnn.graph.diffusion import SimilarityGraph
from dahgnn.graph.hypergraph import Hypergraph
from dahgnn.graph.large_hypergraph import hypergraph_from_neighbors
from dahgnn.graph.local_scale import METRICS, LocalScale
from dahgnn.graph.neighbours import Neighbors, build_search
from dahgnn.graph.recall import SearchReport
from dahgnn.graph.sharded import FoundInShards, find_neighbours_in_shards

Array = NDArray[Any]

# What the distances are called in sentences.
_METRIC_TITLES = {"local-scale": "local scale", "euclidean": "plain distance"}
# Rows whose given neighbours are measured at a time.
_ROWS_AT_ONCE = 1 << 16


@dataclass(frozen=True, eq=False, kw_only=True)
class Surroundings:
    """Who is near whom among the fitted rows.

    Attributes
    ----------
    hypergraph : Hypergraph
        That the networks see.
    graphs : Graphs
        That labels spread over.
    k : int
        Neighbours that a new row gets.
    radius, scales : Tensor, (n,), or None
        As in `Ensemble`.
    searched : bool
        Whether neighbours were searched for, by features alone, and not given.
    report : SearchReport or None
        How they were found, and how many of the true ones these are; None where they were not searched for.
    metric : {"local-scale", "euclidean"} or None
        The distance by which they were chosen; None where they were not.
    """

    hypergraph: Hypergraph
    graphs: Graphs
    k: int
    radius: Tensor | None
    scales: Tensor | None
    searched: bool = False
    report: SearchReport | None = None
    metric: str | None = None

    def describe(self) -> str:
        """Say where neighbours come from, as part of a sentence; nothing of a given hypergraph."""
        if self.report is None or self.metric is None:
            return "" if self.graphs.around else "neighbours are as given"
        verb = "comes" if self.k == 1 else "come"
        return f"{say_nearest(self.k, self.metric)} {verb} from {self.report.describe()}"


def say_nearest(k: int, metric: str) -> str:
    """Say how many neighbours there are, and by which distance they were chosen.

    Examples
    --------
    >>> say_nearest(10, "local-scale"), say_nearest(1, "euclidean")
    ('the 10 nearest neighbours by local scale', 'the nearest neighbour by plain distance')
    """
    count = "nearest neighbour" if k == 1 else f"{k} nearest neighbours"
    return f"the {count} by {_METRIC_TITLES[metric]}"


def find_surroundings(
    features: Tensor,
    k: int,
    metric: str,
    given: Neighbors | ArrayLike | None,
    workplace: Workplace,
) -> Surroundings:
    """Find neighbours, or take given ones, and build the hypergraph and the graph of them.

    Parameters
    ----------
    features : Tensor, (n, d + 1)
        Scaled.
    k : int
        Neighbours of a row.
    metric : {"local-scale", "euclidean"}
        The distance by which they are chosen.
    given : Neighbors or array of int, (n, k), optional
        Known neighbours; then they are not chosen.
    workplace : Workplace
        What finds them, and where.
    """
    plan, scratch = workplace.plan, workplace.scratch
    plain: Neighbors | None
    scales: Tensor | None
    report: SearchReport | None
    order: Tensor | None = None
    if given is not None:
        found, plain, scales, report = measure_neighbors(given, features), None, None, None
    elif plan.search == "exact" and not plan.on_disk:
        found, plain, scales = find_neighbors(features, k, metric, plan.device)
        report = SearchReport(backend="exact", k=k)
    else:
        found, plain, scales, report, order = _find_in_shards(features, k, metric, workplace)
    hypergraph = hypergraph_from_neighbors(found, scratch)
    if int(hypergraph.hyperedge_degrees.max()) < 2:
        raise bad_value("neighbors", "fit", "other rows", "each row alone")
    build_graph = partial(
        SimilarityGraph.from_neighbors,
        device=plan.device,
        dtype=torch.float32,
        scratch=scratch,
        order=order,
    )
    return Surroundings(
        hypergraph=hypergraph,
        graphs=Graphs(build_graph(found), None if plain is None else build_graph(plain)),
        k=int(hypergraph.hyperedge_degrees.max()) - 1,
        radius=found.distances.amax(1),
        scales=scales,
        searched=given is None,
        report=report,
        metric=None if given is not None else metric,
    )


def _find_in_shards(features: Tensor, k: int, metric: str, workplace: Workplace) -> FoundInShards:
    """Find the neighbours of very many rows, as the plan says; the first process does, for all."""
    plan, folder = workplace.plan, workplace.folder
    chosen = plan.resources
    # Which of FAISS's indexes is the faster one is measured, unless somebody has said which.
    kind = plan.search if plan.search == "exact" else chosen.search
    if folder is not None:
        folder /= f"neighbours-{k}-{metric}-{kind}-{chosen.recall:g}"

    def search() -> FoundInShards:
        return find_neighbours_in_shards(
            features,
            k,
            metric,
            search=kind,
            recall=chosen.recall,
            scratch=workplace.scratch,
            folder=folder,
            jobs=chosen.jobs,
            backend=chosen.backend,
            device=plan.device,
            progress=workplace.progress,
        )

    found: list[FoundInShards] = []
    do_first(workplace.world, lambda: found.append(search()))
    return found[0] if found else search()  # what the first process has written is read by the others


def find_neighbors(
    features: Tensor, k: int, metric: str, device: torch.device
) -> tuple[Neighbors, Neighbors | None, Tensor | None]:
    """Return the neighbours by a metric, and by local scale those by plain distance and μ, (n,), as well."""
    search = METRICS[metric](build_search(features.to(device)))
    if not isinstance(search, LocalScale):
        return search.among(k).to("cpu"), None, None
    found, plain = search.among_both(k)
    return found.to("cpu"), plain, search.scales.cpu()


def measure_neighbors(neighbors: Neighbors | ArrayLike, features: Tensor) -> Neighbors:
    """Return known neighbours, nearest first, and how far they are.

    The distances decide what hyperedges a new row joins, and how similar neighbours are.
    """
    given = neighbors.indices if isinstance(neighbors, Neighbors) else neighbors
    indices = as_tensor(given, "neighbors", "fit").cpu()
    if indices.dim() != 2 or len(indices) != len(features) or indices.shape[1] == 0:
        raise bad_value("neighbors", "fit", f"of {len(features)} rows", f"shape {tuple(indices.shape)}")
    check_in_range(indices, "neighbors", "fit", below=len(features), what="n_nodes")
    indices = indices.to(torch.int64)
    distances = features.new_empty(indices.shape)
    for start in range(0, len(features), _ROWS_AT_ONCE):
        block = slice(start, start + _ROWS_AT_ONCE)
        here = features[block].double()
        for place, column in enumerate(indices[block].T):
            distances[block, place] = (here - features[column].double()).norm(dim=1).to(distances)
    nearest_first = distances.sort(dim=1, stable=True)
    return Neighbors(indices.gather(1, nearest_first.indices), nearest_first.values)


def check_surroundings(surroundings: Surroundings, hypergraph: object, n: int) -> None:
    """Refuse what was found for other rows, or a hypergraph beside it."""
    _check_one(surroundings, hypergraph)
    if surroundings.hypergraph.n_nodes != n:
        raise bad_value("neighbors", "fit", f"of {n} rows", f"{surroundings.hypergraph.n_nodes}")


def _check_one(neighbors: object, hypergraph: object) -> None:
    if neighbors is not None and hypergraph is not None:
        raise ValueError("Give 'neighbors' or 'hypergraph', not both.")


def check_hypergraph(hypergraph: object, neighbors: object, n: int) -> None:
    """Refuse a hypergraph of other nodes, or one beside neighbours."""
    _check_one(neighbors, hypergraph)
    if not isinstance(hypergraph, Hypergraph):
        raise bad_type("hypergraph", "fit", "a Hypergraph", type(hypergraph).__name__)
    if hypergraph.n_nodes != n:
        raise bad_value("hypergraph", "fit", f"of {n} nodes", f"{hypergraph.n_nodes}")


def digest_of_given(
    features: Tensor,
    neighbors: Surroundings | Neighbors | ArrayLike | None,
    hypergraph: Hypergraph | None,
) -> str:
    """Name the rows (n, d) of a fit and what the user says of who is near whom: 32 hexadecimal digits."""
    around: dict[str, Tensor] = {}
    known = neighbors.hypergraph if isinstance(neighbors, Surroundings) else hypergraph
    if isinstance(known, Hypergraph):
        optional = {
            "weights": known.weights,
            "incidence_weights": known.incidence_weights,
            "centres": known.centres,
        }
        around = {name: each for name, each in optional.items() if each is not None}
        around |= {"node": known.by_hyperedge.indices, "hyperedge": known.by_hyperedge.owners()}
    elif neighbors is not None and not isinstance(neighbors, Surroundings):
        # A tensor has something else that is called ``indices``.
        indices = neighbors.indices if isinstance(neighbors, Neighbors) else neighbors
        around = {"neighbors": as_tensor(indices, "neighbors", "fit")}
    return digest_of_rows(features, hash_rows(features)) + tensors_digest(around)
