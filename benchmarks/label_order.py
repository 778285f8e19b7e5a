"""Measure what the order in which `dahgnn label` asks for rows is worth, beside rows drawn at random.

An oracle labels 100 rows; after every fifth a classifier is fitted anew. The data are scikit-learn's digits,
or those of an NPZ file with arrays ``features`` (n, d) and ``labels`` (n,), of which each repetition draws
2,000 rows. Prints a Markdown table of the accuracy on all rows, where labelled ones count as right.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path

import numpy as np

from dahgnn import DAHGNNClassifier, Hypergraph
from dahgnn.classifier.explanation import usefulness
from dahgnn.environment import describe_environment
from dahgnn.explorer.queue import Queue
from dahgnn.graph.scaling import choose_scaling

LABELS, FIT_EVERY, ROWS = 100, 5, 2_000
SHOWN = (20, 50, 100)


def main() -> None:
    """Run, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, metavar="FILE.npz", help="other data than the digits")
    parser.add_argument("--seeds", type=int, default=5, metavar="N", help="repetitions (%(default)s)")
    parser.add_argument("--out", type=Path, metavar="FILE.jsonl", help="append each result there")
    options = parser.parse_args()
    lines = []
    for seed in range(options.seeds):
        features, labels = draw_data(options.data, seed)
        for order in ("queue", "random"):
            for count, accuracy in label(features, labels, order, seed):
                line = {"data": str(options.data or "digits"), "order": order, "seed": seed}
                lines.append(line | {"labels": count, "n": len(labels), "accuracy": accuracy})
                if options.out:
                    with options.out.open("a") as file:
                        file.write(json.dumps(lines[-1] | describe_environment("cpu")) + "\n")
    print(table(lines))


def draw_data(path, seed):
    """Return features (n, d) and labels (n,)."""
    if path is None:
        from sklearn.datasets import load_digits

        return load_digits(return_X_y=True)
    with np.load(path) as arrays:
        features, labels = arrays["features"].astype(np.float32), arrays["labels"].astype(np.int64)
    rows = np.random.default_rng(seed).permutation(len(labels))[:ROWS]
    return features[rows], labels[rows]


def label(features, labels, order, seed):
    """Yield the number of labels and the accuracy after each fit."""
    scaled = choose_scaling(features, "auto").apply(features)[:, :-1]
    queue = Queue(scaled, Hypergraph.from_features(scaled, k=10).neighbourhood("centre"), seed=seed)
    generator = np.random.default_rng(seed)
    known, none, scores = np.zeros(len(labels), dtype=bool), np.zeros(len(labels), dtype=bool), None
    for count in range(1, LABELS + 1):
        if order == "random":
            row = generator.choice(np.flatnonzero(~known))
        else:
            row, _ = queue.next(known, none, none, scores, count - 1, np.bincount(labels[known]))
        known[row] = True
        if count % FIT_EVERY == 0 and len(set(labels[known])) > 1:
            classifier = DAHGNNClassifier(random_state=seed)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # nearly as many classes as labels, at first
                classifier.fit(features, np.where(known, labels, -1))
            scores = usefulness(classifier.label_distributions_, classifier.density_)
            yield count, float(np.where(known, True, classifier.transduction_ == labels).mean())


def table(lines) -> str:
    """Write mean ± standard deviation by order and number of labels, in percent."""
    rows = [
        "| order | " + " | ".join(f"{count} labels" for count in SHOWN) + " |",
        "| --- |" + " ---: |" * len(SHOWN),
    ]
    for order in ("queue", "random"):
        cells = []
        for count in SHOWN:
            values = [
                100 * line["accuracy"] for line in lines if (line["order"], line["labels"]) == (order, count)
            ]
            cells.append(f"{np.mean(values):.1f} ± {np.std(values, ddof=len(values) > 1):.1f}")
        rows.append(f"| {order} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


if __name__ == "__main__":
    main()
