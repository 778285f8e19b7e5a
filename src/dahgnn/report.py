"""Tables and pictures from run lines and results; nothing is trained here."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dahgnn.files import replacing

_COLUMNS = ("Method", "Test accuracy, %", "Validation, %", "Epochs", "Seconds")


def markdown_table(lines: Iterable[Mapping[str, Any]]) -> str:
    """Return one row a method, mean ± standard deviation over its run lines, in order of appearance.

    Examples
    --------
    >>> metrics = {"test_accuracy": 0.9, "validation_accuracy": 0.8}
    >>> print(markdown_table([{"method": "HGNN", "metrics": metrics, "epochs": 120, "seconds": 3.21}]))
    | Method | Test accuracy, % | Validation, % | Epochs | Seconds |
    | --- | ---: | ---: | ---: | ---: |
    | HGNN | 90.00 | 80.00 | 120 | 3.2 |
    """
    methods: dict[str, list[Mapping[str, Any]]] = {}
    for line in lines:
        methods.setdefault(line["method"], []).append(line)
    rows = [_COLUMNS, ("---", *["---:"] * (len(_COLUMNS) - 1))]
    rows += [_row(method, group) for method, group in methods.items()]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _row(method: str, lines: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    return (
        method,
        _spread([100 * line["metrics"]["test_accuracy"] for line in lines]),
        _spread([100 * line["metrics"]["validation_accuracy"] for line in lines]),
        "–" if lines[0]["epochs"] is None else f"{statistics.mean(line['epochs'] for line in lines):.0f}",
        f"{statistics.mean(line['seconds'] for line in lines):.1f}",
    )


def _spread(values: Sequence[float]) -> str:
    """Write mean ± standard deviation, or the value alone if there is one."""
    mean = f"{statistics.mean(values):.2f}"
    return mean if len(values) == 1 else f"{mean} ± {statistics.stdev(values):.2f}"


def tsne(embedding: Tensor, *, seed: int) -> Tensor:
    """Lay an embedding (n, d) out in the plane, (n, 2) (van der Maaten and Hinton, 2008; openTSNE)."""
    from openTSNE import TSNE

    layout = TSNE(n_jobs=torch.get_num_threads(), random_state=seed).fit(embedding.numpy())
    return torch.from_numpy(layout.__array__())


def draw_embedding(
    path: Path, layout: Tensor, labels: Tensor, predictions: Tensor, test: Tensor, *, title: str
) -> None:
    """Draw a layout coloured by class, with the wrong predictions among the test nodes marked.

    Parameters
    ----------
    path : Path
        Of the picture; the ending chooses the format, PNG without one.
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
