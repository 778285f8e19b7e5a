"""Labels that spread over a graph of similarities: Laplace learning, Poisson learning, smoothing.

With W the similarities, D their sums and L = D − W, all of it is one kind of system, ((1 + λ) D − W) u = b,
which conjugate gradients solve for all classes, and for several sets of labels, at a time.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dahgnn.graph.neighbours import Neighbors
from dahgnn.threads import one_thread

logger = logging.getLogger(__name__)

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Array = NDArray[np.float64]

CPU = torch.device("cpu")
# Residual at which a solution counts as found, relative to the right-hand side.
_TOLERANCE = 1e-5
# Steps at the most. The systems that need so many are those without a prior, whose labels are far away.
_MOST_STEPS = 2000
# Steps after which a GPU is asked whether it is enough: the host waits for the answer.
_STEPS_A_LOOK = 6
# Share of the degrees that is added to Poisson learning's Laplacian. It makes the system positive, so that a
# component without a label is no special case, and keeps far labels from counting as much as near ones.
POISSON_DAMPING = 0.01


def similarities_of(neighbors: Neighbors) -> Array:
    """Return exp(−4 d² / d_k²), how similar each row is to its neighbours, (n, k); d_k is the greatest."""
    distances = neighbors.distances.double().cpu().numpy()
    farthest = distances.max(axis=1, keepdims=True)
    return np.asarray(np.exp(-4 * (distances / np.where(farthest > 0, farthest, 1)) ** 2))


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
    """

    similarities: csr_array
    degrees: Array
    device: torch.device = CPU
    dtype: torch.dtype = torch.float64

    @classmethod
    def from_neighbors(cls, neighbors: Neighbors, **where: Any) -> SimilarityGraph:
        """Weigh neighbours by exp(−4 d² / d_k²), d_k being the distance to the k-th, and symmetrise.

        These are the weights of Calder et al. (2020). A row that is among its own neighbours is not similar
        to itself: it would count in its degree and tell nothing.
        """
        from scipy.sparse import csr_array

        weights = similarities_of(neighbors)
        n, k = weights.shape
        owners = np.repeat(np.arange(n), k)
        there = neighbors.indices.cpu().numpy().ravel()
        others = owners != there
        directed = csr_array((weights.ravel()[others], (owners[others], there[others])), shape=(n, n))
        return cls.from_matrix((directed + directed.T) / 2, **where)

    @classmethod
    def from_matrix(cls, similarities: csr_array, **where: Any) -> SimilarityGraph:
        """Take a symmetric sparse matrix of non-negative numbers."""
        degrees = np.asarray(similarities.sum(axis=1)).ravel()
        return cls(similarities, np.where(degrees > 0, degrees, 1), **where)

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
        fixed = self._zeros(given)
        free = torch.ones_like(fixed[..., :1])
        places = self._places(given)
        fixed[places] = self._tensor(np.concatenate([each.values for each in given]))
        free[places] = 0
        # With v = D^(1/2) u and S = D^(-1/2) W D^(-1/2), zero at the fixed nodes: ((1 + λ) − S) v = right.
        right = self._spread(self._roots * fixed)
        if priors is not None:
            right += strength * self._roots * priors.to(self.device, self.dtype)
        right *= free

        def multiply(vectors: Tensor) -> Tensor:
            return (1 + strength) * vectors - free * self._spread(vectors)

        return _as_probabilities(fixed + _solve(multiply, right) / self._roots)

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
            flows.append(counts[:, None] * (values - counts @ values / counts.sum()))
        right = self._zeros(given)
        right.index_put_(self._places(given), self._tensor(np.concatenate(flows)), accumulate=True)

        def multiply(vectors: Tensor) -> Tensor:
            return (1 + damping) * vectors - self._spread(vectors)

        return _solve(multiply, right / self._roots) / self._roots

    def _places(self, given: Sequence[Given]) -> tuple[Tensor, Tensor]:
        """Return the nodes of all problems, one behind the other, and the problem of each."""
        nodes = np.concatenate([each.nodes for each in given])
        problems = np.repeat(np.arange(len(given)), [len(each.nodes) for each in given])
        return torch.as_tensor(nodes, device=self.device), torch.as_tensor(problems, device=self.device)

    def _tensor(self, values: Array) -> Tensor:
        return torch.as_tensor(values, device=self.device, dtype=self.dtype)

    def _zeros(self, given: Sequence[Given]) -> Tensor:
        shape = (len(self), len(given), given[0].values.shape[1])
        return torch.zeros(shape, device=self.device, dtype=self.dtype)

    @cached_property
    def _roots(self) -> Tensor:
        """D^(1/2), (n, 1, 1)."""
        return torch.from_numpy(np.sqrt(self.degrees)).to(self.device, self.dtype)[:, None, None]

    @cached_property
    def _spread(self) -> Callable[[Tensor], Tensor]:
        """What multiplies vectors (n, problems, c) with S = D^(-1/2) W D^(-1/2)."""
        from scipy.sparse import diags_array

        inverse = diags_array(1 / np.sqrt(self.degrees))
        matrix = (inverse @ self.similarities @ inverse).tocsr()
        matrix.data = matrix.data.astype(np.float64 if self.dtype == torch.float64 else np.float32)
        if self.device.type == "cpu":  # scipy's product is there on every machine, and as fast as torch's
            return lambda vectors: torch.from_numpy(matrix @ vectors.flatten(1).numpy()).view_as(vectors)
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


@one_thread()
def _solve(multiply: Callable[[Tensor], Tensor], right: Tensor) -> Tensor:
    """Solve a positive system for many right-hand sides at a time, (n, problems, c), by conjugate gradients.

    SciPy's takes one at a time, and reads the sparse matrix for each of them anew.
    """
    solution, residual = torch.zeros_like(right), right.clone()
    direction = residual.clone()
    squares = (residual * residual).sum(0)
    enough = _TOLERANCE**2 * squares
    look_every = _STEPS_A_LOOK if right.is_cuda else 1
    for number in range(_MOST_STEPS):
        if number % look_every == 0 and bool((squares <= enough).all()):
            break
        product = multiply(direction)
        curvature = (direction * product).sum(0)
        step = torch.where(curvature > 0, squares / curvature, 0)
        solution.addcmul_(direction, step)
        residual.addcmul_(product, step, value=-1)
        before, squares = squares, (residual * residual).sum(0)
        direction.mul_(torch.where(before > 0, squares / before, 0)).add_(residual)
    else:
        logger.warning("Conjugate gradients ended after %d steps, short of their tolerance.", _MOST_STEPS)
    return solution


def _as_probabilities(values: Tensor) -> Tensor:
    """Make rows sum to one; a row without anything positive is the same for all classes."""
    values = values.clamp_min(0)
    total = values.sum(-1, keepdim=True)
    return torch.where(total > 0, values / torch.where(total > 0, total, 1), 1 / values.shape[-1])
