"""An expert for tables: decision trees, which care for the order of a column's numbers alone.

Where a column has a long tail, or numbers that stand for categories, distances tell little. Trees ask one
column at a time whether it is above a threshold (random forests: Breiman, 2001).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dahgnn.classifier.experts import LabelledRows

Array = NDArray[Any]

# Trees of a forest, and labelled rows that they learn from at the most.
_TREES, _MOST_ROWS = 50, 5000
# Columns up to which trees are grown: among more, such as pixels, none of them tells much by itself.
_MOST_COLUMNS = 100


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
    roots : array of int, (trees,)
        The first node of each tree.
    """

    columns: Array
    thresholds: Array
    children: Array
    distributions: Array
    roots: Array

    def predict(self, features: Array) -> Array:
        """Return the probabilities of rows (q, d), (q, c): the mean over the trees."""
        rows = features.astype(np.float32)  # as scikit-learn compares them
        total = np.zeros((len(rows), self.distributions.shape[1]))
        for root in self.roots:
            total += self.distributions[self._leaves(rows, int(root))]
        return total / len(self.roots)

    def _leaves(self, rows: Array, root: int) -> Array:
        """Return the leaf that each row comes to, (q,)."""
        nodes = np.full(len(rows), root)
        under_way = np.arange(len(rows))
        while True:
            here = nodes[under_way]
            inner = self.columns[here] >= 0
            under_way, here = under_way[inner], here[inner]
            if len(under_way) == 0:
                return nodes
            right = rows[under_way, self.columns[here]] > self.thresholds[here]
            nodes[under_way] = self.children[here, right.astype(np.int64)]

    def as_arrays(self) -> dict[str, Array]:
        """Return the five arrays."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


class TreesExpert:
    """A forest of decision trees (scikit-learn's)."""

    def suits(self, rows: LabelledRows, /) -> bool:
        """Tell whether there are few enough columns."""
        return bool(rows.features.shape[1] <= _MOST_COLUMNS)

    def choose(self, rows: LabelledRows) -> None:
        """Choose nothing: trees have no settings that matter."""

    def fit(self, rows: LabelledRows, settings: None) -> TreesModel:
        """Fit a model."""
        del settings
        from sklearn.ensemble import RandomForestClassifier

        rows = rows.sample(_MOST_ROWS)
        forest = RandomForestClassifier(_TREES, random_state=0)
        forest.fit(rows.features, rows.labels, sample_weight=rows.weights)
        trees = [each.tree_ for each in forest.estimators_]
        starts = np.cumsum([0, *(tree.node_count for tree in trees)])
        children = []
        for tree, start in zip(trees, starts[:-1], strict=True):
            both = np.column_stack([tree.children_left, tree.children_right])
            children.append(np.where(both < 0, -1, both + start))
        distributions = np.zeros((starts[-1], rows.n_classes))
        distributions[:, forest.classes_] = np.concatenate([tree.value[:, 0, :] for tree in trees])
        return TreesModel(
            columns=np.maximum(np.concatenate([tree.feature for tree in trees]), -1).astype(np.int64),
            thresholds=np.concatenate([tree.threshold for tree in trees]),
            children=np.concatenate(children).astype(np.int64),
            distributions=distributions,
            roots=starts[:-1].astype(np.int64),
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


def _check_shapes(model: TreesModel) -> None:
    """Refuse arrays of other lengths or kinds, and leaves without a distribution."""
    n = len(model.columns)
    whole = (model.columns, model.children, model.roots)
    if (
        model.children.shape != (n, 2)
        or model.thresholds.shape != (n,)
        or len(model.distributions) != n
        or len(model.roots) == 0
        or not all(np.issubdtype(each.dtype, np.integer) for each in whole)
    ):
        raise ValueError("The arrays of trees must fit each other. Got others.")
    sums = model.distributions.sum(1)
    if not (model.distributions >= 0).all() or not np.allclose(sums, 1):
        raise ValueError("The nodes of trees must hold distributions. Got others.")
