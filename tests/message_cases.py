"""Ragged hypergraphs, and the reference of the fused layer on them, for the tests of its kernels."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from oracles import normal
from torch import Tensor

from dahgnn.config import AttentionConfig
from dahgnn.kernels.gpu import launch as gpu_kernels
from dahgnn.kernels.incidence import Incidence, Segments
from dahgnn.kernels.protocol import MessageSettings, Vectors
from dahgnn.nn.density import rounding
from dahgnn.nn.messages import trace
from dahgnn.ops.backend import using
from dahgnn.ops.sparse import NEGATIVE_SLOPE

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cpu" if INTERPRETED or not torch.cuda.is_available() else "cuda"
needs_kernels = pytest.mark.skipif(
    not gpu_kernels.supports(torch.empty(0, device=DEVICE)),
    reason="there is neither a GPU with Triton nor TRITON_INTERPRET=1",
)
needs_gpu = pytest.mark.skipif(DEVICE != "cuda", reason="there is no GPU with Triton")

# The sizes of the hyperedges, and the number of nodes.
SHAPES = {
    "uniform": ([11] * 7, 13),
    "one node": ([1], 1),
    "one hyperedge": ([5], 9),
    "empty segments": ([0, 3, 0, 0, 1, 40, 2, 0], 6),
    "one long segment": ([2, 303, 0, 5], 50),
    "ragged": ([1, 2, 3, 4, 5, 15, 16, 17, 31, 33, 65, 129], 17),
    "short and long": ([1, 3, 0, 7, 70], 9),
    "a hub among nodes": ([1] * 150, 1),
    "many members on average": ([50, 0, 180], 4),
}
WIDTHS = [
    (1, 1),
    (1, 10),
    (2, 3),
    (3, 16),
    (5, 8),
    (7, 5),
    (8, 1),
    (8, 64),
    (1, 64),
    (13, 17),
    (40, 8),
    (10, 10),
]
CASES = [(shape, 4, 8) for shape in SHAPES] + [("short and long", *width) for width in WIDTHS]


@dataclass(frozen=True)
class Paths:
    """What the layer asks of a hypergraph."""

    to_hyperedges: Incidence
    to_nodes: Incidence
    neighbours: Segments

    def neighbourhood(self, _: str) -> tuple[Segments, Segments]:
        return self.neighbours, self.neighbours


def attention(delta: float | None, **switches: Any) -> AttentionConfig:
    """Return the switches of a layer with this threshold of the density; None leaves the density out."""
    if delta is None:
        return AttentionConfig(density=False, **switches)
    return AttentionConfig(delta=delta, **switches)


def offsets_of(lengths: Tensor) -> Tensor:
    return torch.cat([torch.zeros(1, dtype=torch.long), lengths.cumsum(0)])


def make_paths(shape: str) -> Paths:
    sizes, n_nodes = SHAPES[shape]
    sizes = torch.tensor(sizes)
    generator = torch.Generator().manual_seed(len(sizes))
    owners = torch.arange(len(sizes)).repeat_interleave(sizes)
    nodes = torch.randint(n_nodes, (len(owners),), generator=generator)
    order = nodes.argsort(stable=True)
    by_hyperedge = Segments(offsets_of(sizes), nodes).to(DEVICE)
    degrees = torch.bincount(nodes, minlength=n_nodes)
    by_node = Segments(offsets_of(degrees), owners[order]).to(DEVICE)
    # No neighbours, one, and every now and then so many that their sum is one of the long ones.
    lengths = torch.arange(n_nodes) * 7 % 19 + 70 * (torch.arange(n_nodes) % 13 == 5)
    near = torch.randint(n_nodes, (int(lengths.sum()),), generator=generator)
    return Paths(
        Incidence(by_hyperedge, by_node, owners.to(DEVICE), order.to(DEVICE)),
        Incidence(by_node, by_hyperedge, nodes[order].to(DEVICE), order.argsort().to(DEVICE)),
        Segments(offsets_of(lengths), near).to(DEVICE),
    )


@dataclass
class Case:
    """Inputs of the layer, and what to do."""

    paths: Paths
    inputs: list[Tensor]  # wx, e_term, and the three vectors
    gradients: tuple[Tensor, Tensor | None]
    delta: float | None = 0.15
    activation: bool = True

    @property
    def settings(self) -> MessageSettings:
        return MessageSettings(
            slope=NEGATIVE_SLOPE,
            delta=self.delta,
            tolerance=rounding(self.inputs[0].dtype),
            activation=self.activation,
        )

    def forward(self) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
        wx, e_term, *vectors = self.inputs
        neighbours = None if self.delta is None else self.paths.neighbours
        return gpu_kernels.messages_forward(
            wx, e_term, Vectors(*vectors), self.paths.to_hyperedges, self.paths.to_nodes, neighbours,
            self.settings,
        )  # fmt: skip

    def backward(self) -> list[Tensor]:
        wx, e_term, *vectors = self.inputs
        wx_gradient, e_gradient, vector_gradients = gpu_kernels.messages_backward(
            *self.gradients, wx, e_term, Vectors(*vectors), *self.forward(),
            self.paths.to_hyperedges, self.paths.to_nodes, self.settings,
        )  # fmt: skip
        return [wx_gradient, e_gradient, *vector_gradients]

    def reference(self) -> tuple[list[Tensor], list[Tensor]]:
        """Results and gradients in float64: far more exact than what they are compared with."""
        leaves = [tensor.double().detach().requires_grad_() for tensor in self.inputs]
        config = attention(self.delta, neighbourhood="shared", final_activation=self.activation)
        with using("reference"):
            traced = trace(leaves[0], leaves[1], Vectors(*leaves[2:]), self.paths, config)
        results = traced.to_nodes.sums, traced.to_hyperedges.sums
        wanted = [
            (result, given.double())
            for result, given in zip(results, self.gradients, strict=True)
            if given is not None
        ]
        gradients = torch.autograd.grad([each for each, _ in wanted], leaves, [each for _, each in wanted])
        return [result.detach() for result in results], list(gradients)


def make_case(
    shape: str, heads: int, units: int, dtype: torch.dtype = torch.float32, **settings: Any
) -> Case:
    paths = make_paths(shape)
    n, m = len(paths.to_nodes.forward), len(paths.to_hyperedges.forward)
    sizes = [(n, heads, units), (m, heads), (2, heads, 2 * units), (n, heads, units), (m, heads, units)]
    drawn = [normal(*size, seed=seed).to(DEVICE, dtype) for seed, size in enumerate(sizes)]
    wx, e_term, (alpha_x, alpha_e), *gradients = drawn
    if n > 5:
        wx[3] = 0
    # As the layer has them: halves of longer vectors.
    vectors = [alpha_x[:, :units], alpha_e[:, units:], alpha_e[:, :units]]
    return Case(paths, [wx, e_term, *vectors], tuple(gradients), **settings)


def assert_near(actual: Tensor, expected: Tensor) -> None:
    """Compare by the type's precision, relative to the largest number."""
    scale = expected.abs().max().item() if expected.numel() else 0.0
    tolerance = 1e-5 if actual.dtype == torch.float32 else 1e-12
    assert actual.dtype in (torch.float32, torch.float64)
    torch.testing.assert_close(
        actual.double(), expected.double(), rtol=tolerance, atol=tolerance * max(scale, 1)
    )


def check(case: Case) -> None:
    """Compare the results and all gradients with the reference."""
    results, gradients = case.reference()
    for actual, expected in zip(case.forward()[:2], results, strict=True):
        assert_near(actual, expected)
    for actual, expected in zip(case.backward(), gradients, strict=True):
        assert_near(actual, expected)
