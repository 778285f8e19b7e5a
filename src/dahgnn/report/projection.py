"""Lay an embedding out in the plane, and draw its picture."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from dahgnn.files.atomic import replacing
from dahgnn.progress import Progress

# The layout of more rows would take minutes.
MOST_BY_TSNE = 20_000


def tsne(embedding: Tensor, *, seed: int, progress: Progress | None = None) -> Tensor:
    """Lay an embedding (n, d) out in the plane, (n, 2) (van der Maaten and Hinton, 2008; openTSNE).

    Of more than `MOST_BY_TSNE` rows a sample is laid out, and openTSNE places each of the others at the
    median of its nearest rows in the sample.

    Parameters
    ----------
    embedding : Tensor, (n, d)
        The rows.
    seed : int
        Makes the layout repeatable.
    progress : Progress, optional
        Hears every so many steps how far the layout is.
    """
    from openTSNE import TSNE

    n = len(embedding)
    order = torch.arange(n)
    if n > MOST_BY_TSNE:
        order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    sample, others = order[:MOST_BY_TSNE], order[MOST_BY_TSNE:]
    # Its default, or what fewer rows allow.
    perplexity = min(30, (len(sample) - 1) / 3)
    model = TSNE(perplexity=perplexity, n_jobs=torch.get_num_threads(), random_state=seed)
    if progress is not None:
        steps = model.early_exaggeration_iter + model.n_iter
        model.callbacks = _tell_steps(progress, steps, model.callbacks_every_iters)
    fitted = model.fit(embedding[sample].numpy())
    layout = torch.empty(n, 2, dtype=torch.float64)
    layout[sample] = torch.from_numpy(fitted.__array__())
    if len(others):
        placed = fitted.prepare_partial(embedding[others].numpy(), initialization="median")
        layout[others] = torch.from_numpy(placed.__array__())
    return layout


def _tell_steps(progress: Progress, steps: int, every: int) -> Callable[[int, float, object], None]:
    """Return a callback for openTSNE, which begins to count anew in each phase of its optimisation."""
    calls = itertools.count(1)

    def tell(iteration: int, error: float, embedding: object) -> None:  # noqa: ARG001
        done = min(next(calls) * every, steps)
        progress(done, steps, f"step {done} of {steps}")

    return tell


def draw_embedding(
    path: Path, layout: Tensor, labels: Tensor, predictions: Tensor, test: Tensor, *, title: str
) -> None:
    """Draw a layout coloured by class, with the wrong predictions among the test nodes marked.

    Parameters
    ----------
    path : Path
        Where the picture goes; the ending chooses the format, PNG without one.
    layout : Tensor, (n, 2)
        Where each node stands.
    labels, predictions : Tensor of int64, (n,)
        True and predicted classes.
    test : Tensor of int64
        The test nodes.
    title : str
        States the figures.
    """
    from matplotlib import colormaps
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 8), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    colours = colormaps["tab10"]
    for label in labels.unique().tolist():
        points = layout[labels == label]
        axes.scatter(
            points[:, 0], points[:, 1], s=7, color=colours(label % 10), linewidths=0, label=str(label)
        )
    wrong = test[predictions[test] != labels[test]]
    label = f"wrong ({len(wrong)})"
    axes.scatter(
        layout[wrong, 0], layout[wrong, 1], s=34, marker="x", color="black", linewidths=0.9, label=label
    )
    axes.set_title(title)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_aspect("equal", "datalim")
    axes.legend(title="class", loc="center left", bbox_to_anchor=(1, 0.5), frameon=False, markerscale=2)
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=150, format=path.suffix.removeprefix(".") or "png")
