"""Why a row got its label, as text for a terminal."""

from __future__ import annotations

import numpy as np

from dahgnn.classifier.explanation import Explanation
from dahgnn.classifier.stacking import SMALLEST_SHARE, say_combination
from dahgnn.cli.display import printable
from dahgnn.report.fitted_folder import FittedFolder


def describe(explanation: Explanation, fitted: FittedFolder, most: int = 5) -> str:
    """Write an explanation as text, with at most so many labelled rows and so many hyperedges."""
    names = [printable(name) for name in fitted.ids]
    row = explanation.row
    lines = [f"Row {names[row]}: {_ranking(fitted, row)}."]
    if fitted.labels[row] is not None:
        lines.append(f"Its given label is {printable(fitted.labels[row])}.")
    lines.append(_part_of_networks(fitted))
    total = sum(share.weight for share in explanation.labelled)
    lines.append(f"\nLabelled rows that its attention came from (all of them: {100 * total:.1f} %):")
    lines += [
        f"  {100 * share.weight:5.2f} %  {names[share.row]}: {printable(fitted.labels[share.row])}"
        for share in explanation.labelled[:most]
    ] or ["  none: no labelled row is within reach of two layers."]
    lines.append("\nHyperedges that it listened to in the last layer, and who spoke most in each:")
    for hyperedge in explanation.hyperedges[:most]:
        centre = "" if hyperedge.centre is None else f" around {names[hyperedge.centre]}"
        called = fitted.name_hyperedge(hyperedge.hyperedge)
        centre = centre if called is None else f" {printable(called)}"
        members = ", ".join(
            f"{names[share.row]} ({_label_in_words(fitted, share.row)}) {100 * share.weight:.0f} %"
            for share in hyperedge.members[:4]
        )
        lines.append(f"  {100 * hyperedge.weight:5.2f} %  hyperedge{centre}: {members}")
    return "\n".join(lines)


def _part_of_networks(fitted: FittedFolder) -> str:
    """Say whom the labels come from: an explanation tells of the networks, which may have no part in them."""
    shares = fitted.classifier.combination_
    rest = "The rest tells of the networks alone."
    if shares.get("networks", 0) < SMALLEST_SHARE:
        rest = "The networks, of which the rest tells, had no part in them."
    return f"Labels come from {say_combination(shares)}. {rest}"


def _ranking(fitted: FittedFolder, row: int) -> str:
    """Return the three likeliest classes of a row with their probabilities."""
    probabilities = fitted.classifier.label_distributions_[row]
    classes = fitted.classifier.classes_
    return ", ".join(
        f"{printable(classes[place])} {100 * probabilities[place]:.1f} %"
        for place in np.argsort(-probabilities)[:3]
    )


def _label_in_words(fitted: FittedFolder, row: int) -> str:
    """Return the given label of a row, or say which one is predicted."""
    given = fitted.labels[row]
    return printable(given if given is not None else f"predicted {fitted.classifier.transduction_[row]}")
