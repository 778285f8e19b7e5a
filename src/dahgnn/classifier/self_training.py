"""A kernel model that also learns from what the combination says of rows without a label.

The combination of all other experts names the classes of some of these rows, and the model learns from them
beside the labels (self-training: Yarowsky, 1995). For each fold it learns from names by a combination that
has not seen the fold's labels, so that held-out labels tell whether this pays.

What the model says of a row that it learns from is said without that row's name. Otherwise it would repeat
the combination there, and held-out rows, from which it does not learn, would be judged more severely than
those that it is for. For ridge regression this needs no further fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dahgnn.classifier.experts import LEAST_RIDGE, KernelModel, as_distributions, gaussian_kernel
from dahgnn.classifier.judgement import learn_without
from dahgnn.classifier.known import Known
from dahgnn.classifier.opinions import Opinions, predict_in_blocks
from dahgnn.classifier.stacking import SELF_TRAINED, Stack

Array = NDArray[Any]

# Rows whose classes are named at the most, and labels beyond which names add next to nothing.
_MOST_NAMED, _MOST_LABELS = 1000, 1000


class Lesson(NamedTuple):
    """What the model learns from, by part of the labels.

    Attributes
    ----------
    features : Tensor, (l + s, d)
        The labelled rows, then the named ones.
    targets : Tensor, (parts, l + s, c)
        One in the column of a row's class, and zero elsewhere.
    seen : Tensor of bool, (parts, l + s)
        Which rows each part learns from: all but the labels of its fold.
    weights : array, (l + s,)
        How much each row counts.
    """

    features: Tensor
    targets: Tensor
    seen: Tensor
    weights: Array


def learn_again(opinions: Opinions) -> None:
    """Let a kernel model learn from the opinions that there are, and add its own to them.

    It does nothing where no label is held out, which could tell whether it pays, or where labels are many.
    """
    known, count = opinions.known, min(len(opinions.sample), _MOST_NAMED)
    own = known.seen()
    if not (known.folds and count) or len(own) > _MOST_LABELS:
        return
    places = np.sort(np.random.default_rng(0).permutation(len(opinions.sample))[:count])
    rows = opinions.sample[places]
    names = [
        stack.combine([opinions.without(part, each)[places] for each in stack.candidates]).argmax(1)
        for part, stack in enumerate(_learn_stacks(opinions))
    ]
    model, left_out = fit_kernel(_prepare(opinions.features, known, rows, names), opinions.settings["kernel"])
    said = predict_in_blocks(model, opinions.features, opinions.scratch)
    said[torch.from_numpy(rows).to(said.device)] = left_out[len(own) :]
    opinions.add(SELF_TRAINED, model.last(), said)


def _learn_stacks(opinions: Opinions) -> list[Stack]:
    """Return a combination for each part of the labels, which has not seen those of its fold.

    Where there is one fold, nobody else could teach the weights of its combination, which are few.
    """
    known, candidates = opinions.known, opinions.candidates
    held = [opinions.held_out(candidate) for candidate in candidates]
    whole = learn_without(candidates, held, known)
    if len(known.parts) < 3:
        return [whole] * len(known.parts)
    return [*(learn_without(candidates, held, known, places, whole) for places in known.held_places), whole]


def _prepare(features: Tensor, known: Known, rows: Array, names: Sequence[Array]) -> Lesson:
    """Put labelled and named rows together; all names count as much as all labels, but none more than one."""
    own, device = known.seen(), features.device
    classes = np.stack([np.concatenate([known.labels[own], each]) for each in names])
    seen = np.ones(classes.shape, dtype=bool)
    for part, places in enumerate(known.parts):
        seen[part, : len(own)] = np.isin(own, places)
    each_name = np.full(len(rows), min(1.0, len(own) / len(rows)))
    everybody = torch.from_numpy(np.concatenate([known.rows[own], rows])).to(device)
    return Lesson(
        features[everybody],
        torch.from_numpy(np.eye(known.n_classes)[classes]).to(device),
        torch.from_numpy(seen).to(device),
        np.concatenate([known.weights[own], each_name]),
    )


def fit_kernel(lesson: Lesson, settings: tuple[float, float]) -> tuple[KernelModel, Tensor]:
    """Fit kernel ridge regression to each part of a lesson.

    Parts differ in a few rows alone. So the system of all rows is inverted once, and the rows that a part has
    not seen are taken out of the inverse.

    Parameters
    ----------
    lesson : Lesson
        The rows.
    settings : (float, float)
        Width and ridge, as `KernelExpert.choose` returns them.

    Returns
    -------
    model : KernelModel
        Of all parts.
    left_out : Tensor, (l + s, parts, c)
        What a model of all other rows says of each row.
    """
    width, ridge = settings
    kernel = gaussian_kernel(lesson.features, lesson.features, width).double()
    ridges = np.maximum(ridge / np.maximum(lesson.weights, 1e-6), LEAST_RIDGE)
    kernel += torch.from_numpy(ridges).to(kernel.device).diag()
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(kernel))
    coefficients, scores, intercepts = [], [], []
    for targets, seen in zip(lesson.targets, lesson.seen, strict=True):
        mean = targets[seen].mean(0)
        solved, left_out = _solve_part(inverse, (targets - mean) * seen[:, None], ~seen)
        coefficients.append(solved)
        scores.append(left_out + mean)
        intercepts.append(mean)
    model = KernelModel(
        lesson.features,
        torch.stack(coefficients, 1).to(lesson.features),
        torch.stack(intercepts).to(lesson.features),
        width,
    )
    return model, as_distributions(torch.stack(scores, 1)).to(lesson.features)


def _solve_part(inverse: Tensor, targets: Tensor, unseen: Tensor) -> tuple[Tensor, Tensor]:
    """Solve the system without the unseen rows, whose targets are zero.

    Returns
    -------
    solved : Tensor, (l + s, c)
        Coefficients, zero at the unseen rows.
    left_out : Tensor, (l + s, c)
        What the coefficients would say of each seen row if it were not among them.
    """
    columns = inverse[:, unseen]
    root = torch.linalg.cholesky(columns[unseen])
    removed = torch.linalg.solve_triangular(root, columns.T, upper=False)  # (unseen, l + s)
    solved = inverse @ targets - removed.T @ (removed @ targets)
    diagonal = inverse.diagonal() - removed.square().sum(0)
    solved[unseen], diagonal[unseen] = 0, 1
    return solved, targets - solved / diagonal[:, None]
