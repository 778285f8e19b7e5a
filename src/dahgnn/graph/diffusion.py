"""Labels that spread over a graph of similarities: Laplace learning, Poisson learning, smoothing.

With W the similarities, D their sums and L = D − W, all of it is one kind of system, ((1 + λ) D − W) u = b,
which conjugate gradients solve for all classes, and for several sets of labels, at a time.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dahgnn.files.scratch import IN_MEMORY, Scratch
from dahgnn.graph.conjugate_gradients import CapturedSolver, can_capture, solve
from dahgnn.graph.neighbours import Neighbors
from dahgnn.graph.similarities import (
    directed_similarities,
    numpy_type,
    reordered,
    scaled,
    stored,
    sums_of_rows,
)
from dahgnn.kernels.cpu.memory import kept_memory
from dahgnn.ops.matrices import MANY_ROWS, sparse_product
from dahgnn.threads import threads_for

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Array = NDArray[np.float64]

CPU = torch.device("cpu")
# Rows, or numbers of them, that are looked at at a time.
_AT_ONCE = 1 << 22
# Share of the degrees that is added to Poisson learning's Laplacian. It makes the system positive, so that a
# component without a label is no special case, and keeps far labels from counting as much as near ones.
POISSON_DAMPING = 0.01
# Numbers of a vector of unknowns at the most, of which conjugate gradients hold five.
_MOST_NUMBERS = 1 << 26


class Given(NamedTuple):
    """Nodes whose values are known.

    Attributes
    ----------
    nodes : array of int, (l,)
        Their numbers.
    values : array, (l, c)
        What they have: rows of probabilities.
    weights : array, (l,), or None
        How much each counts in Poisson learning; one by default.
    """

    nodes: NDArray[np.int64]
    values: Array
    weights: Array | None = None


@dataclass(frozen=True, eq=False)
class SimilarityGraph:
    """How similar nodes are: a symmetric matrix of non-negative numbers.

    Attributes
    ----------
    similarities : csr_array, (n, n)
        The matrix W.
    degrees : array, (n,)
        The sums of its rows, D; one for a node that is similar to nobody.
    device, dtype
        Where and how precisely systems are solved.
    scratch : Scratch
        Where large matrices are.
    order : Tensor of int, (n,), or None
        The numbers of the nodes, similar ones near each other. Systems are solved in this order: where nodes
        are many, what a product with W reads is then often in a cache. None is as they come.
    """

    similarities: csr_array
    degrees: Array
    device: torch.device = CPU
    dtype: torch.dtype = torch.float64
    scratch: Scratch = IN_MEMORY
    order: Tensor | None = None

    @classmethod
    def from_neighbors(cls, neighbors: Neighbors, **where: Any) -> SimilarityGraph:
        """Weigh neighbours by exp(−4 d² / d_k²), d_k being the distance to the k-th, and symmetrise.

        These are the weights of Calder et al. (2020). A row that is among its own neighbours is not similar
        to itself: it would count in its degree and tell nothing.
        """
        directed = directed_similarities(neighbors, numpy_type(where.get("dtype", torch.float64)))
        both = directed + directed.T
        both.data /= 2
        return cls.from_matrix(both, **where)

    @classmethod
    def from_matrix(cls, similarities: csr_array, **where: Any) -> SimilarityGraph:
        """Take a symmetric sparse matrix of non-negative numbers."""
        degrees = sums_of_rows(similarities)
        kept = stored(similarities, where.get("scratch", IN_MEMORY))
        return cls(kept, np.where(degrees > 0, degrees, 1), **where)

    def __len__(self) -> int:
        return len(self.degrees)

    def average(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the mean of each node's neighbours by their similarity, D⁻¹W v, (n, d); zero for a loner."""
        return np.asarray((self.similarities @ values) / self.degrees[:, None])

    def smooth(
        self, labelled: NDArray[np.int64], targets: Array, prior: Array | None = None, strength: float = 0.0
    ) -> Array:
        """Make a prior smooth over the graph, with the labelled nodes fixed: (L + λD) u = λ D p.

        A strength λ of zero is Laplace learning (Zhu et al., 2003): every other node is the mean of those
        that it is similar to. A large one leaves the prior as it is.

        Parameters
        ----------
        labelled : array of int, (l,)
            Nodes whose values are fixed.
        targets : array, (l, c)
            Their values.
        prior : array, (n, c), optional
            What every node tends to; needed unless the strength is zero.
        strength : float
            λ, how much the prior counts against the neighbours.

        Returns
        -------
        array, (n, c)
            Rows of probabilities if targets and prior are. A node that is connected to no labelled one gets
            the same for all classes if there is no prior.
        """
        priors = None if prior is None else torch.from_numpy(np.asarray(prior)[:, None])
        found = self.smooth_all([Given(labelled, targets)], priors, strength)
        return np.asarray(found[:, 0].cpu().double().numpy())

    def smooth_all(self, given: Sequence[Given], priors: Tensor | None, strength: float) -> Tensor:
        """Do as `smooth` does for several sets of labelled nodes at a time.

        Parameters
        ----------
        given : sequence of Given
            The labelled nodes of each problem.
        priors : Tensor, (n, problems, c), or None
            What every node tends to in each.
        strength : float
            λ.

        Returns
        -------
        Tensor, (n, problems, c)
        """
        found: Tensor | None = None
        for own, problems, classes in self._divided(given):
            places, fixed = self._places(own), self._tensor(np.concatenate([each.values for each in own]))
            known = self._zeros(own)
            known[places] = fixed * self._roots[places[0], 0]
            # With v = D^(1/2) u and S = D^(-1/2) W D^(-1/2), zero at fixed nodes: ((1 + λ) − S) v = right.
            right = self._spread(known)
            del known
            if priors is not None:
                self._add_priors(right, priors[:, problems, classes], strength)
            right[places] = 0
            solved = self._solve(right, strength, places).div_(self._roots)
            solved[places] = fixed
            found = self._put(found, given, solved, problems, classes)
        assert found is not None  # noqa: S101, there is a problem
        return _as_probabilities(found)

    def spread_poisson(
        self,
        labelled: NDArray[np.int64],
        targets: Array,
        damping: float = POISSON_DAMPING,
        weights: Array | None = None,
    ) -> Array:
        """Let labels be sources that flow over the graph (Poisson learning, Calder et al., 2020).

        Solves (L + εD) u = Σ_j (y_j − ȳ) δ_j over the labelled nodes j. Unlike Laplace learning it says
        something far from all labels, so that it is the better one if there are very few.

        Parameters
        ----------
        labelled, targets
            As for `smooth`; the targets are rows of probabilities.
        damping : float
            ε. Zero is Poisson learning as it was published, up to a constant in each component.
        weights : array, (l,), optional
            How much each labelled node counts; one by default.

        Returns
        -------
        array, (n, c)
            The potential of each class; the greatest is the label. Its size has no meaning.
        """
        found = self.spread_poisson_all([Given(labelled, targets, weights)], damping)
        return np.asarray(found[:, 0].cpu().double().numpy())

    def spread_poisson_all(self, given: Sequence[Given], damping: float = POISSON_DAMPING) -> Tensor:
        """Do as `spread_poisson` does for several sets of labelled nodes, (n, problems, c)."""
        flows = []
        for nodes, values, weights in given:
            counts = np.ones(len(nodes)) if weights is None else weights
            flows.append(Given(nodes, counts[:, None] * (values - counts @ values / counts.sum())))
        found: Tensor | None = None
        for own, problems, classes in self._divided(flows):
            right = self._zeros(own)
            sources = self._tensor(np.concatenate([each.values for each in own]))
            right.index_put_(self._places(own), sources, accumulate=True)
            solved = self._solve(right.div_(self._roots), damping).div_(self._roots)
            found = self._put(found, given, solved, problems, classes)
        assert found is not None  # noqa: S101, there is a problem
        return found

    def _add_priors(self, right: Tensor, priors: Tensor, strength: float) -> None:
        """Add λ D^(1/2) p to the right-hand sides, some rows at a time: (n, problems, c) all of them."""
        step = max(1, _AT_ONCE // max(1, right[0].numel()))
        for start in range(0, len(right), step):
            rows = slice(start, start + step)
            there = priors[rows if self._nodes is None else self._nodes[rows].to(priors.device)]
            right[rows] += strength * self._roots[rows] * there.to(self.device, self.dtype)

    def _put(
        self, found: Tensor | None, given: Sequence[Given], solved: Tensor, problems: slice, classes: slice
    ) -> Tensor:
        """Put the solutions of some problems among those of all; what is all of them is not copied."""
        whole, nodes = slice(None), self._nodes
        if problems == whole and classes == whole and nodes is None:
            return solved
        if found is None:
            shape = (len(self), len(given), given[0].values.shape[1])
            on_cpu = self.device.type == "cpu"  # no file can stand in for the memory of a GPU
            found = self.scratch.empty(shape, self.dtype) if on_cpu else solved.new_empty(shape)
        if nodes is None:
            found[:, problems, classes] = solved
            return found
        for start in range(0, len(nodes), _AT_ONCE):
            found[nodes[start : start + _AT_ONCE], problems, classes] = solved[start : start + _AT_ONCE]
        return found

    def _divided(self, given: Sequence[Given]) -> Iterator[tuple[Sequence[Given], slice, slice]]:
        """Yield problems, and which of them and of their classes these are, as many as memory has room for.

        They do not depend on each other, and where all fit they share each pass over the graph.
        """
        n_classes = given[0].values.shape[1]
        if len(self) * len(given) * n_classes <= _MOST_NUMBERS:
            yield given, slice(None), slice(None)
            return
        step = min(n_classes, max(1, _MOST_NUMBERS // len(self)))
        for number, each in enumerate(given):
            for start in range(0, n_classes, step):
                classes = slice(start, start + step)
                one = each._replace(values=each.values[:, classes])
                yield [one], slice(number, number + 1), classes

    def _solve(self, right: Tensor, strength: float, fixed: tuple[Tensor, Tensor] | None = None) -> Tensor:
        """Solve ((1 + λ) − S) v = right, with S zero where a node is fixed; what was right is lost."""
        if can_capture(right):
            return self._solver_for(right).solve(right, strength, fixed)

        def multiply(vectors: Tensor, room: Tensor) -> Tensor:
            spread = self._spread(vectors)
            if fixed is not None:
                spread[fixed] = 0
            return torch.sub(torch.mul(vectors, 1 + strength, out=room), spread, out=spread)

        # Many small steps have one thread: several would wait for each other.
        with threads_for(len(self) if len(self) >= MANY_ROWS else 0), kept_memory():
            return solve(multiply, right)

    def _solver_for(self, right: Tensor) -> CapturedSolver:
        """Return what solves systems of this shape; a capture takes as long as some of these."""
        kept = self._solvers.get(right.shape)
        if kept is None:
            kept = CapturedSolver(self._spread, right)
            self._solvers.clear()  # those of a fit have one shape, and each holds memory
            self._solvers[right.shape] = kept
        return kept

    @cached_property
    def _solvers(self) -> dict[torch.Size, CapturedSolver]:
        """What solved the last systems on a CUDA device, by their shape."""
        return {}

    def _places(self, given: Sequence[Given]) -> tuple[Tensor, Tensor]:
        """Return the rows of the nodes of all problems, one behind the other, and the problem of each."""
        nodes = torch.as_tensor(np.concatenate([each.nodes for each in given]))
        problems = np.repeat(np.arange(len(given)), [len(each.nodes) for each in given])
        rows = nodes if self._rows is None else self._rows[nodes]
        return rows.to(self.device), torch.as_tensor(problems, device=self.device)

    def _tensor(self, values: Array) -> Tensor:
        return torch.as_tensor(values, device=self.device, dtype=self.dtype)

    def _zeros(self, given: Sequence[Given]) -> Tensor:
        shape = (len(self), len(given), given[0].values.shape[1])
        return torch.zeros(shape, device=self.device, dtype=self.dtype)

    @cached_property
    def _nodes(self) -> Tensor | None:
        """The node of each row of the vectors, (n,), on the device; None if these are as they come."""
        return None if self.order is None else self.order.to(self.device, torch.int64)

    @cached_property
    def _rows(self) -> Tensor | None:
        """The row of each node, (n,), on the CPU."""
        if self.order is None:
            return None
        rows = torch.empty_like(self.order)
        rows[self.order.long()] = torch.arange(len(rows), dtype=rows.dtype)
        return rows

    @cached_property
    def _roots(self) -> Tensor:
        """D^(1/2), (n, 1, 1), in the order of the rows."""
        degrees = self.degrees if self.order is None else self.degrees[self.order.numpy()]
        return torch.from_numpy(np.sqrt(degrees)).to(self.device, self.dtype)[:, None, None]

    @cached_property
    def _spread(self) -> Callable[[Tensor], Tensor]:
        """What multiplies vectors (n, problems, c) with S = D^(-1/2) W D^(-1/2), in the order of the rows."""
        matrix = scaled(self.similarities, 1 / np.sqrt(self.degrees), numpy_type(self.dtype))
        if self.order is not None and self._rows is not None:
            matrix = stored(reordered(matrix, self.order.numpy(), self._rows.numpy()), self.scratch)
        else:  # the places are those of the similarities
            matrix.data = self.scratch.store(torch.from_numpy(matrix.data)).numpy()
        if self.device.type == "cpu":
            return lambda vectors: sparse_product(matrix, vectors.flatten(1)).view_as(vectors)
        with warnings.catch_warnings():  # torch calls such matrices a beta
            warnings.filterwarnings("ignore", "Sparse (CSR|invariant)", UserWarning)
            there = torch.sparse_csr_tensor(
                torch.from_numpy(matrix.indptr.astype(np.int64)),
                torch.from_numpy(matrix.indices.astype(np.int64)),
                torch.from_numpy(matrix.data),
                matrix.shape,
                device=self.device,
            )
        return lambda vectors: (there @ vectors.flatten(1)).view_as(vectors)


def _as_probabilities(values: Tensor) -> Tensor:
    """Make rows sum to one, in place; a row without anything positive is the same for all classes."""
    values.clamp_min_(0)
    total = values.sum(-1, keepdim=True)
    values.div_(torch.where(total > 0, total, 1))
    return values.masked_fill_(total <= 0, 1 / values.shape[-1])
