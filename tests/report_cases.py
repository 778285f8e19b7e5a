"""Run lines, a specification and a reader of HTML that the tests of the report share."""

import json
from html.parser import HTMLParser

from dahgnn.experiments.consistency import IDENTITY, identity_key

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"'&{{ 7 * 7 }}{% raw %}--><!--"


def make_line(method="ours", run=0, accuracy=0.9, **changes):
    """A line that agrees with itself, unless the changes say otherwise."""
    wrong = round(1000 * (1 - accuracy))
    line = {
        "experiment": "table2",
        "dataset": "mnist",
        "data": "all digits",
        "method": method,
        "labels": 20,
        "run": run,
        "seed": run,
        "split": {
            "digest": f"split-{run}-{changes.get('labels', 20)}",
            "train": changes.get("labels", 20),
            "validation": 10,
            "test": 1000,
        },
        "settings": {},
        "metrics": {"train_accuracy": 1.0, "validation_accuracy": 0.8, "test_accuracy": accuracy},
        "confusion": [
            [500 - min(wrong, 500), min(wrong, 500)],
            [max(wrong, 500) - 500, 1000 - max(wrong, 500)],
        ],
        "history": None,
        "epochs": 100,
        "seconds": 2.0,
        "finished": f"2026-01-0{run % 9 + 1}T00:00:00+00:00",
        "device": {"type": "cpu", "threads": 2, "machine": "x86_64"},
        "versions": {"dahgnn": "0.1.0"},
    }
    whole = line | changes
    identity = {name: whole.get(name) for name in IDENTITY} | {"split": line["split"]["digest"]}
    return {"key": identity_key(identity)} | whole


def make_spec(**changes):
    spec = {
        "name": "table2",
        "title": "Table 2",
        "runs": 3,
        "labels": [10],
        "datasets": [{"name": "mnist", "title": "MNIST"}],
        "methods": [
            {"name": "ours", "title": "Ours", "ours": True},
            {"name": "other", "title": "Other", "ours": False},
        ],
        "published": {"mnist": {"ours": {"20": [90.0, 0.5]}}},
        "comparisons": [["ours", "other"]],
    }
    return spec | changes


OURS = (0.90, 0.91, 0.92)
OTHER = (0.89, 0.91, 0.90)


def make_lines():
    return [make_line("ours", run, value) for run, value in enumerate(OURS)] + [
        make_line("other", run, value, epochs=None) for run, value in enumerate(OTHER)
    ]


class Reader(HTMLParser):
    """Collects elements, the content of scripts and the text, as a browser would see them."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.scripts, self.text = [], [], ""
        self.inside = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        self.inside = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag):
        self.inside = None

    def handle_data(self, text):
        if self.inside == "script":
            self.scripts[-1] += text
        elif self.inside != "style":
            self.text += text

    def data(self):
        place = [
            i
            for i, (_, a) in enumerate(e for e in self.elements if e[0] == "script")
            if a.get("id") == "data"
        ]
        return json.loads(self.scripts[place[0]])

    def addresses(self):
        """Return all that the elements could load or lead to."""
        names = ("src", "href", "action", "srcset", "poster", "background", "formaction", "data")
        return [a[name] for _, a in self.elements for name in names if name in a]


def make_history(last, top):
    epochs = list(range(0, last + 1, 10))
    return {
        "epoch": epochs,
        "train_loss": [2 - 0.01 * epoch for epoch in epochs],
        "validation_loss": [None if epoch == 0 else 1.0 for epoch in epochs],
        "validation_accuracy": [top] * len(epochs),
    }


def make_trained_lines():
    """Three runs of each method; of ours with learning curves of 40, 60 and 80 epochs."""
    ours = [
        make_line("ours", run, value, history=make_history(40 + 20 * run, value))
        for run, value in enumerate((0.90, 0.91, 0.92))
    ]
    return ours + [
        make_line("other", run, value, epochs=None) for run, value in enumerate((0.89, 0.91, 0.90))
    ]
