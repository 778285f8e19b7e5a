"""A view of a fit that the tests of its page share."""

import math

import numpy as np

from dahgnn.report.fit_view import FitView

NONE_HELD_OUT = {"held_out": np.zeros(0, dtype=int), "held_out_probabilities": np.zeros((0, 0))}


def make_view(n=60, c=3, k=4, seed=0, **changes):
    generator = np.random.default_rng(seed)
    probabilities = generator.dirichlet(np.ones(c), size=n)
    labelled = np.arange(n) % 3 > 0
    held_out = np.flatnonzero(np.arange(n) % 3 == 2)
    k = min(k, n - 1)
    values = {
        "title": "A fit",
        "ids": [f"row-{i}" for i in range(n)],
        "classes": [f"class {i}" for i in range(c)],
        "probabilities": probabilities,
        "given": np.where(labelled, generator.integers(c, size=n), -1),
        "held_out": held_out,
        "held_out_probabilities": generator.dirichlet(np.ones(c), size=len(held_out)),
        "density": generator.gamma(2, size=n),
        "position": generator.normal(size=(n, 2)),
        "members": (np.arange(n)[:, None] + np.arange(k + 1)) % n,
        "attention": generator.dirichlet(np.ones(k + 1), size=n),
        "history": [
            {
                "network": number,
                "epoch": e,
                "train_loss": (2 + number) / (e + 1),
                "validation_loss": math.nan if e == 0 else 1.0,
                "train_accuracy": 0.5,
            }
            for number in range(2)
            for e in range(5 - number)
        ],
        "best_epochs": [3, 2],
        "facts": {"seed": "0"},
    }
    return FitView(**(values | changes))
