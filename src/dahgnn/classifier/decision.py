"""What a fit decided from the data, in a line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dahgnn.classifier.fitting import Fit
from dahgnn.classifier.given import Adopted
from dahgnn.classifier.stacking import SMALLEST_SHARE, say_combination
from dahgnn.classifier.task import Task


def describe_decision(task: Task, adopted: Adopted, fit: Fit, shares: Mapping[str, float]) -> str:
    """Return how columns are scaled, who is near whom, how networks trained, and who decides on labels.

    Parameters
    ----------
    task, adopted, fit
        What the fit started from, who is near whom, and what came of it.
    shares : mapping of str to float
        How much each expert counts.
    """
    labelled = int((adopted.given.labels >= 0).sum())
    count = len(fit.ensemble.networks)
    parts = [
        adopted.given.scaling.describe(),
        adopted.decision,
        adopted.surroundings.describe(),
        say_networks(task.plan.describe_training(count), count, shares),
        say_held_out(
            len(fit.held_out),
            labelled,
            refit=task.parameters.refit,
            wanted=_is_wanted(task.parameters.values["validation"]),
        ),
        f"labels come from {say_combination(shares)}",
    ]
    text = "; ".join(part for part in parts if part)
    return text[:1].upper() + text[1:]


def say_networks(training: str, count: int, shares: Mapping[str, float]) -> str:
    """Say how networks trained, and whether nobody asks them for labels.

    Examples
    --------
    >>> say_networks("5 networks trained", 5, {"linear": 1.0})
    '5 networks trained, without a weight of their own in the labels'
    """
    if shares.get("networks", 0.0) >= SMALLEST_SHARE:
        return training
    return f"{training}, without a weight of {'its' if count == 1 else 'their'} own in the labels"


def say_held_out(held: int, labelled: int, *, refit: bool, wanted: bool) -> str:
    """Say how many labels were held out.

    Parameters
    ----------
    held, labelled : int
        How many labels were held out, and how many there are.
    refit : bool
        Whether they were learned from in the end.
    wanted : bool
        Whether the user let labels be held out.

    Examples
    --------
    >>> say_held_out(0, 3, refit=True, wanted=True)
    'no label could be held out'
    >>> say_held_out(40, 50, refit=True, wanted=True)
    '40 of 50 labels were held out'
    """
    if held == 0:
        return "no label could be held out" if wanted else "no label was held out"
    if not refit:
        return f"{held:,} of {labelled:,} labels were held out, and judge alone"
    return (
        "each label was held out in turn"
        if held == labelled
        else f"{held:,} of {labelled:,} labels were held out"
    )


def _is_wanted(validation: Any) -> bool:
    return np.ndim(validation) > 0 or validation != 0
