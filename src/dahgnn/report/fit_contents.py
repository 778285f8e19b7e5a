"""What the page of a fit shows, gathered from the table and the fitted classifier."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dahgnn._version import __version__
from dahgnn.classifier.estimator import DAHGNNClassifier
from dahgnn.classifier.explanation import attention_to_hyperedges, attention_to_nodes, traces_of
from dahgnn.graph.hypergraph import Hypergraph
from dahgnn.progress import Progress
from dahgnn.report.assessment import held_out_opinions
from dahgnn.report.fit_view import FitView
from dahgnn.report.projection import MOST_BY_TSNE, tsne
from dahgnn.report.row_images import row_images
from dahgnn.tables.cells import as_texts
from dahgnn.tables.sources import Source
from dahgnn.tables.table import Table

# The ways to place rows on the map; "auto" is t-SNE from so many rows on, as fewer are no crowd. "none" is a
# page without a map.
MAPS = ("auto", "tsne", "pca", "none")
_FEWEST_FOR_TSNE = 100
# The page shows so many columns of each row, and so many cells in all.
_MOST_COLUMNS, _MOST_CELLS = 12, 500_000
# It shows so many members of a hyperedge that a user gave.
_MOST_MEMBERS = 64
# What ended a training, in words.
_ENDS = {
    "held_out": "held-out labels",
    "nothing_held_out": "its usual length, as no label could be held out",
    "max_epochs": "the limit on epochs",
    "interrupted": "an interruption",
}
Array = NDArray[Any]


def gather_view(
    title: str,
    table: Table,
    classifier: DAHGNNClassifier,
    metrics: dict[str, Any],
    kind: str,
    progress: Progress | None = None,
) -> FitView:
    """Gather what the page shows; ``kind`` is one of `MAPS`, and ``progress`` hears how far the map is."""
    names = [str(name) for name in classifier.classes_]
    places = {name: place for place, name in enumerate(names)}
    position, projection = _position(classifier, kind, progress)
    members, attention = _own_hyperedges(classifier)
    images = row_images(table.source)
    return FitView(
        title=title,
        ids=table.ids,
        classes=names,
        probabilities=classifier.label_distributions_,
        given=np.array([-1 if label is None else places[label] for label in table.labels or ()]),
        held_out=classifier.held_out_indices_,
        held_out_probabilities=held_out_opinions(classifier),
        density=classifier.density_,
        position=position,
        members=members,
        attention=attention,
        history=classifier.history_,
        best_epochs=[classifier.best_epoch_] * len(classifier.networks_),
        estimate=estimate_of(metrics),
        assessment=metrics.get("assessment"),
        facts=say_facts(classifier, metrics),
        notes=table.notes,
        details=None if images is not None else _details(table.source),
        n_columns=len(table.source.cells),
        images=images,
        projection=projection,
    )


def estimate_of(metrics: Mapping[str, Any]) -> tuple[float, float, float] | None:
    """Return the accuracy that is expected, and the ends of its interval."""
    found = metrics["estimate"]
    return None if found is None else (found["accuracy"], found["low"], found["high"])


def say_facts(classifier: DAHGNNClassifier, metrics: Mapping[str, Any]) -> dict[str, str]:
    """Say how the fit was made."""
    count, epochs = metrics["networks"], metrics["epochs"]
    trained = f"{epochs} epochs" if count == 1 else f"{count} networks, up to {epochs} epochs"
    k = str(classifier.k_)
    around = {"Neighbours of a row (k)": k}
    if metrics.get("hyperedges") is not None:
        around = {
            "Hyperedges": f"{metrics['hyperedges']['file']}; of a row the page shows the one that it attends "
            f"to most, with at most {_MOST_MEMBERS} members",
            "Neighbours of a new row (k)": k,
        }
    return {
        "Fit": f"{metrics['seconds']:.1f} s, {trained}, ended by {_ENDS[metrics['stopped']]}",
        "Decided from the data": metrics["decision"],
        "Features": f"{metrics['features']:,}",
        **around,
        "Seed": str(classifier.random_state),
        "Version": f"dahgnn {__version__}",
        "SHA-256 of the file": metrics.get("sha256") or "–",
        "Command": metrics.get("command") or "–",
    }


def _position(
    classifier: DAHGNNClassifier, kind: str, progress: Progress | None = None
) -> tuple[Array | None, str | None]:
    """Place the rows on a map by their hidden units, of which similar rows have similar ones."""
    if kind == "none":
        return None, None
    hidden = torch.cat([first.to_nodes.sums.flatten(1) for first, _ in traces_of(classifier)], 1)
    return place_rows(hidden, kind, progress)


def place_rows(hidden: Tensor, kind: str, progress: Progress | None = None) -> tuple[Array, str]:
    """Place rows on a map, (n, 2), by numbers that are similar for similar rows, and say how.

    Parameters
    ----------
    hidden : Tensor, (n, h)
        The numbers of each row.
    kind : {"auto", "tsne", "pca"}
        How to place them.
    progress : Progress, optional
        Hears how far the map is.
    """
    if kind == "tsne" or (kind == "auto" and len(hidden) >= _FEWEST_FOR_TSNE):
        placed = tsne(hidden, seed=0, progress=progress).numpy()
        if np.isfinite(placed).all():  # rows that are all alike have no such map
            return placed, "t-SNE" if len(hidden) <= MOST_BY_TSNE else f"t-SNE of {MOST_BY_TSNE:,} of them"
    centred = hidden - hidden.mean(0)
    _, _, axes = torch.pca_lowrank(centred, q=min(2, *hidden.shape), center=False)
    placed = (centred @ axes).numpy()
    return np.pad(placed, ((0, 0), (0, 2 - placed.shape[1]))), "principal components"


def _own_hyperedges(classifier: DAHGNNClassifier) -> tuple[Array, Array]:
    """Return the members of a hyperedge of each row, the row first, and their weights.

    It is the one centred at the row. Where not each row has one, as among hyperedges that a user gave, it is
    the one that the row attends to most, with as many members as the page shows, of most attention.
    """
    hypergraph = classifier.hypergraph_
    last = [second for _, second in traces_of(classifier)]
    attention = attention_to_hyperedges(last, hypergraph).numpy()
    offsets, nodes = hypergraph.by_hyperedge.offsets.numpy(), hypergraph.by_hyperedge.indices.numpy()
    size = int(np.diff(offsets).max())
    if _is_centred_at_each_node(hypergraph):
        chosen = np.argsort(hypergraph.centres.numpy())  # type: ignore[union-attr]
    else:
        chosen = _most_attended(attention_to_nodes(last, hypergraph).numpy(), hypergraph)
        size = min(size, _MOST_MEMBERS)
    members, weights = np.full((len(chosen), size), -1, dtype=np.int64), np.zeros((len(chosen), size))
    for row, number in enumerate(chosen):
        part = slice(offsets[number], offsets[number + 1])
        found, share = nodes[part], attention[part]
        # The row first, then by attention where not all of them have a place, else as they stand.
        order = np.lexsort((-share if len(found) > size else found, found != row))[:size]
        members[row, : len(order)] = found[order]
        weights[row, : len(order)] = share[order] / share[order].sum()
    return members, weights


def _is_centred_at_each_node(hypergraph: Hypergraph) -> bool:
    """Tell whether each node is the centre of one hyperedge, as in a hypergraph of nearest neighbours."""
    centres = hypergraph.centres
    return centres is not None and bool(np.array_equal(np.sort(centres), np.arange(hypergraph.n_nodes)))


def _most_attended(attention: Array, hypergraph: Hypergraph) -> Array:
    """Return the hyperedge that each node attends to most, (n,), for attention (t,) in the order of nodes."""
    owners = hypergraph.by_node.owners().numpy()
    order = np.lexsort((hypergraph.by_node.indices.numpy(), -attention, owners))
    first = np.concatenate([[True], owners[1:] != owners[:-1]])
    return np.asarray(hypergraph.by_node.indices.numpy()[order[first]])


def _details(source: Source) -> list[dict[str, str]] | None:
    """Return the first cells of each row as they were read; those of an array have no names."""
    if source.is_array:
        return None
    count = max(1, min(_MOST_COLUMNS, _MOST_CELLS // source.n_rows))
    names = [
        name for name, cells in source.cells.items() if isinstance(cells, np.ndarray) and cells.ndim == 1
    ][:count]
    texts = [as_texts(source.cells[name], name) for name in names]
    return [
        {name: "–" if cell is None else cell for name, cell in zip(names, cells, strict=True)}
        for cells in zip(*texts, strict=True)
    ]
