"""An expert for tables: decision trees, which care for the order of a column's numbers alone.

Where a column has a long tail, or numbers that stand for categories, distances tell little. Trees ask one
column at a time whether it is above a threshold (extremely randomised trees: Geurts et al., 2006).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dahgnn.checks import bad_value
from dahgnn.classifier.experts import LabelledRows
from dahgnn.kernels.protocol import Forest
from dahgnn.ops.trees import tree_means

Array = NDArray[Any]

# Trees of a forest, and labelled rows that they learn from at the most.
_TREES, _MOST_ROWS = 50, 5000
# Columns up to which trees are grown: among more, such as pixels, none of them tells much by itself.
_MOST_COLUMNS = 100


# Of the arrays of trees, those that do not hold whole numbers.
_KINDS = {"thresholds": torch.float64, "distributions": torch.float64}


@dataclass(frozen=True, eq=False)
class TreesModel:
    """Decision trees, their nodes one after the other.

    Attributes
    ----------
    columns : array of int, (nodes,)
        The column that each node asks for, −1 at a leaf.
    thresholds : array, (nodes,)
        A row goes left if it is not above.
    children : array of int, (nodes, 2)
        The nodes to the left and to the right, which stand further behind; −1 at a leaf.
    distributions : array, (nodes, c)
        The shares of the classes at each node.
    roots : array of int, (parts, trees)
        The first node of each tree.
    """

    columns: Array
    thresholds: Array
    children: Array
    distributions: Array
    roots: Array

    def predict(self, features: Tensor) -> Tensor:
        """Return the probabilities of rows (q, d), (q, parts, c): the mean over the trees."""
        rows = features.cpu().float()  # as scikit-learn compares them
        most = int(self.columns.max())
        if most >= rows.shape[1]:
            raise bad_value("features", "trees", f"of {most + 1} columns or more", f"{rows.shape[1]}")
        return tree_means(rows, self._forest).to(features)

    @cached_property
    def _forest(self) -> Forest:
        """The trees as the kernel takes them."""
        arrays = {name: torch.from_numpy(each) for name, each in self.as_arrays().items()}
        return Forest(**{name: each.to(_KINDS.get(name, torch.int64)) for name, each in arrays.items()})

    def last(self) -> TreesModel:
        """Return the trees of the last part alone, whose nodes stand behind all others."""
        start = int(self.roots[-1, 0])
        children = self.children[start:]
        return TreesModel(
            columns=self.columns[start:],
            thresholds=self.thresholds[start:],
            children=np.where(children < 0, -1, children - start),
            distributions=self.distributions[start:],
            roots=self.roots[-1:] - start,
        )

    def as_arrays(self) -> dict[str, Array]:
        """Return the five arrays."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


class TreesExpert:
    """A forest of randomised decision trees (scikit-learn's)."""

    def suits(self, rows: LabelledRows, /) -> bool:
        """Tell whether there are few enough columns."""
        return bool(rows.features.shape[1] <= _MOST_COLUMNS)

    def choose(self, rows: LabelledRows) -> None:
        """Choose nothing: trees have no settings that matter."""

    def fit(self, rows: LabelledRows, parts: Sequence[Array], settings: None) -> TreesModel:
        """Grow trees for each part."""
        del settings
        chosen = rows.sample(_MOST_ROWS)
        features = np.ascontiguousarray(rows.features.cpu().numpy(), dtype=np.float32)
        trees = []
        for part in parts:
            own = np.intersect1d(part, chosen)
            trees += _grow(features[own], rows.targets[own], rows.weights[own])
        starts = np.cumsum([0, *(tree.node_count for tree in trees)])
        children = []
        for tree, start in zip(trees, starts[:-1], strict=True):
            both = np.column_stack([tree.children_left, tree.children_right])
            children.append(np.where(both < 0, -1, both + start))
        return TreesModel(
            columns=np.maximum(np.concatenate([tree.feature for tree in trees]), -1).astype(np.int64),
            thresholds=np.concatenate([tree.threshold for tree in trees]),
            children=np.concatenate(children).astype(np.int64),
            distributions=np.concatenate([tree.value[:, :, 0] for tree in trees]),
            roots=starts[:-1].astype(np.int64).reshape(len(parts), _TREES),
        )

    def from_arrays(self, arrays: Mapping[str, Array]) -> TreesModel:
        """Make a model of its arrays; trees that lead back or nowhere are refused."""
        model = TreesModel(**{name: arrays[name] for name in TreesModel.__dataclass_fields__})
        _check_shapes(model)
        nodes, inner = np.arange(len(model.columns)), model.columns >= 0
        ahead = model.children[inner]
        if not ((ahead > nodes[inner, None]) & (ahead < len(nodes))).all():
            raise ValueError("The children of a tree's node must stand behind it. Got others.")
        if not ((model.roots >= 0) & (model.roots < len(nodes))).all():
            raise ValueError("The roots must be nodes. Got others.")
        return model


def _grow(features: Array, targets: Array, weights: Array) -> list[Any]:
    """Grow trees for rows (l, d) of float32 with distributions (l, c), and return scikit-learn's of them.

    A tree of several regressions splits by the sum of their variances, which is the Gini impurity if exactly
    one of the targets is one. Unlike a classifier it does not look for the classes anew in each of the trees.
    """
    from sklearn import config_context
    from sklearn.tree import ExtraTreeRegressor

    seeds = np.random.RandomState(0).randint(np.iinfo(np.int32).max, size=_TREES)
    counts = None if (weights == 1).all() else weights
    with config_context(skip_parameter_validation=True):
        grown = [ExtraTreeRegressor(max_features="sqrt", random_state=int(seed)) for seed in seeds]
        return [tree.fit(features, targets, counts, check_input=False).tree_ for tree in grown]


def _check_shapes(model: TreesModel) -> None:
    """Refuse arrays of other lengths or kinds, and leaves without a distribution."""
    n = len(model.columns)
    whole = (model.columns, model.children, model.roots)
    if (
        model.children.shape != (n, 2)
        or model.thresholds.shape != (n,)
        or len(model.distributions) != n
        or model.roots.ndim != 2
        or model.roots.size == 0
        or not all(np.issubdtype(each.dtype, np.integer) for each in whole)
    ):
        raise ValueError("The arrays of trees must fit each other. Got others.")
    sums = model.distributions.sum(1)
    if not (model.distributions >= 0).all() or not np.allclose(sums, 1):
        raise ValueError("The nodes of trees must hold distributions. Got others.")
