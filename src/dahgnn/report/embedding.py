"""Show embeddings side by side: as a picture for paper, and as a page with the image of each point."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dahgnn.checks import as_indices, as_labels, bad_type, bad_value
from dahgnn.files.atomic import replacing
from dahgnn.report.html import colour, render_page
from dahgnn.report.image_sheets import image_sheet

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# More points than this make a page that no phone opens.
MOST_POINTS = 10_000


@dataclass(frozen=True, kw_only=True, eq=False)
class Panel:
    """The embedding of one method, and what the method predicts.

    Parameters
    ----------
    title : str
        The name of the method.
    layout : Tensor, (n, 2)
        Where each node stands, from `dahgnn.report.projection.tsne`.
    predictions : Tensor of int64, (n,)
        The predicted class of each node.
    test : Tensor of int64
        The nodes that the accuracy counts, and among which the wrong ones are marked.
    """

    title: str
    layout: Tensor
    predictions: Tensor
    test: Tensor

    def wrong(self, labels: Tensor) -> Tensor:
        """Return the test nodes whose prediction is not their label."""
        return self.test[self.predictions[self.test] != labels[self.test]]

    def accuracy(self, labels: Tensor) -> str:
        """Say how many of the test nodes are right."""
        right = 1 - len(self.wrong(labels)) / len(self.test)
        return f"{100 * right:.2f} % of {len(self.test):,} test nodes correct"


def draw_pair(
    path: Path, panels: Sequence[Panel], labels: Tensor, *, classes: Sequence[str] | None = None
) -> None:
    """Draw embeddings side by side with one legend, the wrong test nodes marked.

    Parameters
    ----------
    path : Path
        Where the picture goes; the ending chooses the format (png, pdf, svg), PNG without one.
    panels : sequence of Panel
        From left to right.
    labels : Tensor of int64, (n,)
        The true class of each node.
    classes : sequence of str, optional
        Names of the classes; their numbers by default.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    names = _check(panels, labels, classes, "draw_pair")
    figure = Figure(figsize=(6.2 * len(panels), 6.9), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for panel, place in zip(panels, axes, strict=True):
        _draw_panel(place, panel, labels, names)
    handles, texts = axes[0].get_legend_handles_labels()
    rows = 1 + sum(len(text) + 6 for text in texts) // (75 * len(panels))
    columns = math.ceil(len(texts) / rows)
    figure.legend(handles, texts, loc="outside lower center", ncols=columns, frameon=False, markerscale=2)
    form = path.suffix.removeprefix(".") or "png"
    with replacing(path) as temporary:
        # A date in the file would make each drawing differ from the last.
        figure.savefig(temporary, dpi=200, format=form, metadata=_undated(form))


def _undated(form: str) -> dict[str, None]:
    return {"pdf": {"CreationDate": None}, "svg": {"Date": None}}.get(form, {})


def _draw_panel(axes: Axes, panel: Panel, labels: Tensor, names: Mapping[int, str]) -> None:
    for label, name in names.items():
        points = panel.layout[labels == label]
        # A dollar sign would start a formula.
        text = name.replace("$", r"\$")
        axes.scatter(points[:, 0], points[:, 1], s=5, color=colour(label), linewidths=0, label=text)
    wrong = panel.layout[panel.wrong(labels)]
    axes.scatter(
        wrong[:, 0], wrong[:, 1], s=22, facecolors="none", edgecolors="black", linewidths=0.6, label="wrong"
    )
    title = textwrap.fill(panel.title, 60) + "\n" + panel.accuracy(labels)
    axes.set_title(title.replace("$", r"\$"), fontsize=11)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_aspect("equal", "datalim")


def interactive_embedding(
    path: Path,
    panels: Sequence[Panel],
    labels: Tensor,
    images: Tensor,
    *,
    classes: Sequence[str] | None = None,
    title: str = "Learned embeddings",
) -> None:
    """Write one HTML file with the embeddings as maps; a point under the pointer shows its image.

    Parameters
    ----------
    path : Path
        Where the page goes; it needs no other file and no network.
    panels : sequence of Panel
        Shown side by side, or below each other on a phone.
    labels : Tensor of int64, (n,)
        True classes; at most 10,000 nodes.
    images : Tensor of uint8, (n, 1 or 3, height, width)
        The picture of each node, grey or in colour.
    classes : sequence of str, optional
        Names of the classes; their numbers by default.
    title : str
        The heading of the page.
    """
    names = _check(panels, labels, classes, "interactive_embedding")
    if len(labels) > MOST_POINTS:
        remedy = "Show a sample of them."
        raise bad_value(
            "labels", "interactive_embedding", f"at most {MOST_POINTS:,}", f"{len(labels):,}", remedy
        )
    _check_images(images, len(labels))
    columns = math.ceil(math.sqrt(len(images)))
    text = render_page(
        "embedding.html",
        {
            "n_nodes": len(labels),
            "names": names,
            "headings": [f"{panel.title}: {panel.accuracy(labels)}" for panel in panels],
        },
        title=title,
        data={
            "panels": [_places(panel, labels) for panel in panels],
            "labels": labels.tolist(),
            "names": {str(label): name for label, name in names.items()},
            "colours": {str(label): colour(label) for label in names},
            "sprite": image_sheet(_with_channels_last(images), columns),
            "columns": columns,
            "size": [images.shape[3], images.shape[2]],
        },
        assets=("map.css", "map_index.js", "map_painters.js", "map_view.js", "map.js", "embedding.js"),
    )
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="")


def _check(
    panels: Sequence[Panel], labels: Tensor, classes: Sequence[str] | None, owner: str
) -> dict[int, str]:
    """Refuse panels that do not fit the labels, and return the name of each class that occurs."""
    n = len(as_labels(labels, owner))
    if not panels:
        raise bad_value("panels", owner, "at least one panel", "none")
    for panel in panels:
        if panel.layout.shape != (n, 2):
            raise bad_value("layout", "Panel", f"of shape ({n}, 2)", tuple(panel.layout.shape))
        if panel.predictions.shape != (n,):
            raise bad_value("predictions", "Panel", f"of shape ({n},)", tuple(panel.predictions.shape))
        if not len(as_indices(panel.test, "test", "Panel", below=n)):
            raise bad_value("test", "Panel", "at least one node", "none")
    found = torch.cat([labels, *(panel.predictions for panel in panels)]).unique().tolist()
    if classes is not None and found[-1] >= len(classes):
        raise bad_value("classes", owner, f"at least {found[-1] + 1} names", len(classes))
    return {label: classes[label] if classes is not None and label >= 0 else str(label) for label in found}


def _check_images(images: Tensor, n: int) -> None:
    if images.dtype != torch.uint8:
        raise bad_type("images", "interactive_embedding", "of torch.uint8", images.dtype)
    if images.dim() != 4 or len(images) != n or images.shape[1] not in (1, 3):
        expected = f"of shape ({n}, 1 or 3, height, width)"
        raise bad_value("images", "interactive_embedding", expected, tuple(images.shape))


def _with_channels_last(images: Tensor) -> NDArray[Any]:
    """Return images (n, height, width), or (n, height, width, 3) if they have colours."""
    pixels = images.permute(0, 2, 3, 1).numpy()
    return np.asarray(pixels[..., 0] if pixels.shape[3] == 1 else pixels)


def _places(panel: Panel, labels: Tensor) -> dict[str, Any]:
    """Return where the nodes of a panel stand, to a hundredth, finer than any screen shows a t-SNE."""
    x, y = ([round(value, 2) for value in panel.layout[:, axis].tolist()] for axis in (0, 1))
    return {
        "title": panel.title,
        "x": x,
        "y": y,
        "predictions": panel.predictions.tolist(),
        "wrong": panel.wrong(labels).tolist(),
    }
