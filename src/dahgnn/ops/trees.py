"""What decision trees say of rows: the mean of the leaves to which these come."""

from __future__ import annotations

import torch
from torch import Tensor

from dahgnn.kernels.protocol import Forest
from dahgnn.ops.backend import trees_kernel_for


def tree_means(rows: Tensor, forest: Forest) -> Tensor:
    """Return what the trees of each part say in the mean, (n, parts, c) of float64.

    Parameters
    ----------
    rows : Tensor of float32, (n, d)
        On the CPU.
    forest : Forest
        The trees.
    """
    kernel = trees_kernel_for(rows)
    if kernel is not None:
        return kernel(rows, forest)
    parts, trees = forest.roots.shape
    means = torch.zeros(len(rows), parts, forest.distributions.shape[1], dtype=torch.float64)
    for part, roots in enumerate(forest.roots.tolist()):
        for root in roots:
            means[:, part] += forest.distributions[_find_leaves(rows, forest, root)]
    return means.div_(trees)


def _find_leaves(rows: Tensor, forest: Forest, root: int) -> Tensor:
    """Return the leaf of a tree that each row comes to, (n,)."""
    nodes = torch.full((len(rows),), root)
    under_way = torch.arange(len(rows))
    while True:
        here = nodes[under_way]
        inner = forest.columns[here] >= 0
        under_way, here = under_way[inner], here[inner]
        if len(under_way) == 0:
            return nodes
        above = rows[under_way, forest.columns[here]] > forest.thresholds[here]
        nodes[under_way] = forest.children[here, above.long()]
