"""Labels that spread over a graph of similarities: Laplace learning, Poisson learning, smoothing.

With W the similarities, D their sums and L = D − W, all of it is one kind of system, ((1 + λ) D − W) u = b,
which conjugate gradients solve for all classes at a time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dahgnn.graph.neighbours import Neighbors

logger = logging.getLogger(__name__)

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Array = NDArray[np.float64]

# Residual at which a solution counts as found, relative to the right-hand side.
_TOLERANCE = 1e-5
# Steps at the most. The systems that need so many are those without a prior, whose labels are far away.
_MOST_STEPS = 2000
# Share of the degrees that is added to Poisson learning's Laplacian. It makes the system positive, so that a
# component without a label is no special case, and keeps far labels from counting as much as near ones.
POISSON_DAMPING = 0.01


def similarities_of(neighbors: Neighbors) -> Array:
    """Return exp(−4 d² / d_k²), how similar each row is to its neighbours, (n, k); d_k is the greatest."""
    distances = neighbors.distances.double().cpu().numpy()
    farthest = distances.max(axis=1, keepdims=True)
    return np.asarray(np.exp(-4 * (distances / np.where(farthest > 0, farthest, 1)) ** 2))


@dataclass(frozen=True, eq=False)
class SimilarityGraph:
    """How similar nodes are: a symmetric matrix of non-negative numbers.

    Attributes
    ----------
    similarities : csr_array, (n, n)
        The matrix W.
    degrees : array, (n,)
        The sums of its rows, D; one for a node that is similar to nobody.
    """

    similarities: csr_array
    degrees: Array

    @classmethod
    def from_neighbors(cls, neighbors: Neighbors) -> SimilarityGraph:
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
        return cls.from_matrix((directed + directed.T) / 2)

    @classmethod
    def from_matrix(cls, similarities: csr_array) -> SimilarityGraph:
        """Take a symmetric sparse matrix of non-negative numbers."""
        degrees = np.asarray(similarities.sum(axis=1)).ravel()
        return cls(similarities, np.where(degrees > 0, degrees, 1))

    def __len__(self) -> int:
        return len(self.degrees)

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
        free = np.ones(len(self))
        free[labelled] = 0
        root = np.sqrt(self.degrees)
        fixed = np.zeros((len(self), targets.shape[1]))
        fixed[labelled] = targets
        right = self.similarities @ fixed
        if prior is not None:
            right += strength * self.degrees[:, None] * prior
        scale = (free / root)[:, None]

        def multiply(vectors: Array) -> Array:
            product: Array = (1 + strength) * vectors - scale * (self.similarities @ (scale * vectors))
            return product

        solution = scale * _solve(multiply, scale * right)
        return _as_probabilities(fixed + solution)

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
        root = np.sqrt(self.degrees)[:, None]
        right = np.zeros((len(self), targets.shape[1]))
        counts = np.ones(len(labelled)) if weights is None else weights
        mean = counts @ targets / counts.sum()
        np.add.at(right, labelled, counts[:, None] * (targets - mean))

        def multiply(vectors: Array) -> Array:
            product: Array = (1 + damping) * vectors - (self.similarities @ (vectors / root)) / root
            return product

        return _solve(multiply, right / root) / root


def _solve(multiply: Callable[[Array], Array], right: Array) -> Array:
    """Solve a positive system for several right-hand sides at a time, (n, c), by conjugate gradients.

    SciPy's takes one at a time, and reads the sparse matrix for each of them anew.
    """
    solution, residual = np.zeros_like(right), right.copy()
    direction = residual.copy()
    squares = np.einsum("ij,ij->j", residual, residual)
    enough = _TOLERANCE**2 * squares
    for _ in range(_MOST_STEPS):
        if (squares <= enough).all():
            break
        product = multiply(direction)
        curvature = np.einsum("ij,ij->j", direction, product)
        step = np.divide(squares, curvature, out=np.zeros_like(squares), where=curvature > 0)
        solution += step * direction
        residual -= step * product
        before, squares = squares, np.einsum("ij,ij->j", residual, residual)
        direction *= np.divide(squares, before, out=np.zeros_like(squares), where=before > 0)
        direction += residual
    else:
        logger.warning("Conjugate gradients ended after %d steps, short of their tolerance.", _MOST_STEPS)
    return solution


def _as_probabilities(values: Array) -> Array:
    """Make rows sum to one; a row without anything positive is the same for all classes."""
    values = np.clip(values, 0, None)
    total = values.sum(axis=1, keepdims=True)
    uniform: Any = 1 / values.shape[1]
    return np.where(total > 0, values / np.where(total > 0, total, 1), uniform)
