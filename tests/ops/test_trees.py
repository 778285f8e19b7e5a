"""Rows through decision trees: the kernel beside its twin, and the twin beside a walk row by row."""

import pytest
import torch

from dahgnn.kernels.cpu import launch as cpu_kernels
from dahgnn.kernels.protocol import Forest
from dahgnn.ops.backend import using
from dahgnn.ops.trees import tree_means

built = pytest.mark.skipif(cpu_kernels.library() is None, reason="the kernels were not built")


def make_forest(columns: int, parts: int, trees: int, classes: int, nodes: int = 31) -> Forest:
    """Random trees: a node's children are two of the next few, or it is a leaf."""
    generator = torch.Generator().manual_seed(nodes * trees + classes)
    count = parts * trees * nodes
    place = torch.arange(count) % nodes
    left = place + 1 + torch.randint(3, (count,), generator=generator)
    right = place + 1 + torch.randint(6, (count,), generator=generator)
    leaf = (torch.maximum(left, right) >= nodes) | (torch.rand(count, generator=generator) < 0.1)
    start = torch.arange(count) - place
    said = torch.rand(count, classes, generator=generator, dtype=torch.float64)
    return Forest(
        columns=torch.randint(columns, (count,), generator=generator).masked_fill(leaf, -1),
        thresholds=torch.randn(count, generator=generator, dtype=torch.float64),
        children=torch.stack([start + left, start + right], 1).masked_fill(leaf[:, None], -1),
        distributions=said / said.sum(1, keepdim=True),
        roots=(nodes * torch.arange(parts * trees)).reshape(parts, trees),
    )


def walk(row: list[float], forest: Forest, node: int) -> int:
    while forest.columns[node] >= 0:
        above = row[int(forest.columns[node])] > float(forest.thresholds[node])
        node = int(forest.children[node, int(above)])
    return node


def test_the_twin_takes_each_row_to_its_leaves():
    forest = make_forest(3, parts=2, trees=4, classes=3)
    rows = torch.randn(20, 3, generator=torch.Generator().manual_seed(0))
    with using("reference"):
        said = tree_means(rows, forest)
    for row, means in zip(rows.tolist(), said, strict=True):
        for roots, mean in zip(forest.roots.tolist(), means, strict=True):
            leaves = [forest.distributions[walk(row, forest, root)] for root in roots]
            torch.testing.assert_close(mean, torch.stack(leaves).mean(0))


@built
@pytest.mark.parametrize(
    ("rows", "columns", "parts", "trees", "classes"),
    [(0, 2, 1, 1, 2), (1, 1, 1, 1, 1), (7, 5, 2, 3, 2), (513, 6, 6, 5, 10), (3000, 4, 1, 50, 3)],
)
def test_the_kernel_gives_the_bits_of_its_twin(rows, columns, parts, trees, classes):
    forest = make_forest(columns, parts, trees, classes)
    features = torch.randn(rows, 2 * columns, generator=torch.Generator().manual_seed(rows))[:, ::2]
    with using("reference"):
        expected = tree_means(features, forest)
    with using("kernel"):
        assert torch.equal(tree_means(features, forest), expected)


@built
def test_what_is_on_a_threshold_or_no_number_goes_left():
    forest = Forest(
        columns=torch.tensor([0, -1, -1]),
        thresholds=torch.tensor([0.5, 0, 0], dtype=torch.float64),
        children=torch.tensor([[1, 2], [-1, -1], [-1, -1]]),
        distributions=torch.tensor([[0.5, 0.5], [1, 0], [0, 1]], dtype=torch.float64),
        roots=torch.tensor([[0]]),
    )
    rows = torch.tensor([[0.5], [0.5000001], [float("nan")], [float("inf")], [-float("inf")]])
    expected = torch.tensor([1.0, 0, 1, 0, 1], dtype=torch.float64)
    for backend in ("kernel", "reference"):
        with using(backend):
            assert torch.equal(tree_means(rows, forest)[:, 0, 0], expected)
