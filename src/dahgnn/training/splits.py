"""Seeded splits into labelled, validation and test nodes, a fixed number per class."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import torch
from torch import Tensor

from dahgnn.checks import ANY, as_indices, as_labels, bad_value, check_count, check_seed


@dataclass(frozen=True, eq=False, init=False)
class Split:
    """Disjoint node indices; nodes in none of the three parts only lend their features.

    Parameters
    ----------
    train, validation, test : array of int
        Nodes whose labels train the network, choose the epoch, and measure the result.

    Examples
    --------
    >>> Split(train=[0, 3], validation=[1], test=[2, 4]).digest
    '4ab75ae0a2ca8f16'
    """

    train: Tensor
    validation: Tensor
    test: Tensor

    def __init__(self, train: object, validation: object, test: object) -> None:
        for name, nodes in (("train", train), ("validation", validation), ("test", test)):
            part = as_indices(nodes, name, "Split", below=ANY)
            object.__setattr__(self, name, part.cpu().sort().values)
        every, counts = torch.cat([self.train, self.validation, self.test]).unique(return_counts=True)
        if bool((counts > 1).any()):
            twice = int(every[counts > 1][0])
            raise ValueError(f"The parts of a Split must be disjoint. Got node {twice} more than once.")

    @property
    def digest(self) -> str:
        """Name the split by its content, so that two results can be seen to share it."""
        content = hashlib.sha256()
        for part in (self.train, self.validation, self.test):
            content.update(f"{len(part)}:".encode() + part.numpy().astype("<i8").tobytes())
        return content.hexdigest()[:16]


def sample_per_class(labels: object, count: int, *, seed: int) -> Tensor:
    """Draw ``count`` nodes of each class without replacement.

    Parameters
    ----------
    labels : array of int, (n,)
        Classes 0, 1, …; −1 marks nodes of unknown class, which are never drawn.
    count : int
        Nodes of each class.
    seed : int
        Makes the draw repeatable.

    Returns
    -------
    Tensor, (classes · count,)
        Node indices in ascending order.
    """
    check_count("count", count, "sample_per_class")
    check_seed(seed, "sample_per_class")
    return _draw(as_labels(labels, "sample_per_class"), (count,), seed, "sample_per_class")[0]


def split_per_class(labels: object, *, train: int, validation: int, seed: int) -> Split:
    """Split nodes as the paper does: so many a class to train, so many to validate, the rest to test.

    Parameters
    ----------
    labels : array of int, (n,)
        Classes 0, 1, …; −1 marks nodes of unknown class, which fall in no part.
    train, validation : int
        Nodes of each class in these parts.
    seed : int
        Makes the split repeatable.

    Examples
    --------
    >>> split = split_per_class([0, 0, 0, 1, 1, 1], train=1, validation=1, seed=0)
    >>> len(split.train), len(split.validation), len(split.test)
    (2, 2, 2)
    """
    check_count("train", train, "split_per_class")
    check_count("validation", validation, "split_per_class")
    check_seed(seed, "split_per_class")
    known = as_labels(labels, "split_per_class").cpu()
    first, second = _draw(known, (train, validation), seed, "split_per_class")
    rest = known >= 0
    rest[first] = False
    rest[second] = False
    return Split(train=first, validation=second, test=rest.nonzero().squeeze(1))


def _draw(labels: Tensor, counts: tuple[int, ...], seed: int, owner: str) -> list[Tensor]:
    """Draw disjoint parts, ``counts[j]`` nodes of each class in part j."""
    generator = torch.Generator().manual_seed(seed)
    parts: list[list[Tensor]] = [[] for _ in counts]
    for label in range(int(labels.max()) + 1):
        members = (labels.cpu() == label).nonzero().squeeze(1)
        if len(members) < sum(counts):
            expected = f"such that every class has at least {sum(counts)} nodes"
            raise bad_value("labels", owner, expected, f"{len(members)} nodes of class {label}")
        shuffled = members[torch.randperm(len(members), generator=generator)]
        for part, chosen in zip(parts, shuffled.split([*counts, len(members) - sum(counts)]), strict=False):
            part.append(chosen)
    if not parts[0]:
        raise bad_value("labels", owner, "known for some nodes", "-1 for all of them")
    return [torch.cat(part).sort().values for part in parts]


def check_split(
    split: Split, labels: Tensor, n_classes: int, owner: str, *, needs_validation: bool = True
) -> None:
    """Refuse a split that nothing can be learned from.

    Raises
    ------
    ValueError
        If a node is out of range, training or validation nodes are missing or without a label between
        0 and n_classes - 1, or a class has no training node.
    """
    for name in ("train", "validation", "test"):
        nodes = getattr(split, name)
        if len(nodes) == 0 and (name == "train" or (name == "validation" and needs_validation)):
            raise bad_value("split", owner, f"one with {name} nodes", "none")
        if len(nodes) and int(nodes[-1]) >= len(labels):
            expected = f"one of nodes between 0 and n_nodes - 1 = {len(labels) - 1}"
            raise bad_value("split", owner, expected, f"{name} node {int(nodes[-1])}")
    for name in ("train", "validation"):
        wrong = [int(label) for label in labels[getattr(split, name)].unique() if not 0 <= label < n_classes]
        if wrong:
            expected = f"between 0 and n_classes - 1 = {n_classes - 1} at all {name} nodes"
            raise bad_value("labels", owner, expected, wrong[0])
    missing = sorted(set(range(n_classes)) - set(labels[split.train].tolist()))
    if missing:
        expected = f"such that each of the {n_classes} classes has a labelled node"
        raise bad_value("split", owner, expected, f"none of class {', '.join(map(str, missing))}")
