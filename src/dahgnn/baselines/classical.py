"""Methods without a network to compare with: they take features, labels and a split."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from dahgnn.baselines.registry import register_function
from dahgnn.checks import as_features, as_labels, check_neighbours
from dahgnn.graph.neighbours import knn
from dahgnn.training.splits import Split, check_split

if TYPE_CHECKING:
    from scipy.sparse import csr_array

logger = logging.getLogger(__name__)

# What the validation nodes choose from: clamping factors, and inverse strengths of the penalty.
_ALPHAS = (0.2, 0.5, 0.8, 0.95, 0.99)
_STRENGTHS = (0.01, 0.1, 1.0, 10.0)
# Scikit-learn's defaults, which are taken where there are no validation nodes.
_DEFAULT_ALPHA, _DEFAULT_STRENGTH = 0.2, 1.0

# Residual at which the harmonic function counts as found, relative to the right-hand side.
_TOLERANCE = 1e-6


@register_function("LabelSpreading")
def label_spreading(
    features: object, labels: object, split: Split, *, k: int = 10
) -> tuple[Tensor, dict[str, Any]]:
    """Spread labels over the graph of k nearest neighbours (Zhou et al., 2004; scikit-learn's).

    Parameters
    ----------
    features : array, (n, d)
        One row a node.
    labels : array of int, (n,)
        Read at the training and validation nodes alone, but that the largest tells the number of classes.
    split : Split
        Its training nodes are the labelled ones; its validation nodes choose alpha. Without validation
        nodes alpha is scikit-learn's default, 0.2.
    k : int
        Neighbours as scikit-learn counts them: the node itself and k − 1 others.

    Returns
    -------
    probabilities : Tensor, (n, c)
        The probability of each class at each node.
    chosen : dict
        The clamping factor "alpha" with the best validation accuracy.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neighbors import kneighbors_graph
    from sklearn.semi_supervised import LabelSpreading

    rows, known = _check(features, labels, split, "label_spreading")
    check_neighbours(k, len(rows), "label_spreading")
    given = torch.full_like(known, -1)
    given[split.train] = known[split.train]
    # The graph of kernel="knn", built once for all: the node itself and its k − 1 nearest others.
    graph = kneighbors_graph(rows, k, include_self=True)

    def spread(alpha: float) -> Tensor:
        spreading = LabelSpreading(kernel=lambda *_: graph, alpha=alpha, max_iter=1000)
        with warnings.catch_warnings():  # the largest alpha may end a hair's breadth before its tolerance
            warnings.simplefilter("ignore", ConvergenceWarning)
            spreading.fit(rows, given.numpy())
        return torch.from_numpy(spreading.label_distributions_).float()

    alphas = _ALPHAS if len(split.validation) else (_DEFAULT_ALPHA,)
    probabilities, alpha = _best(((spread(alpha), alpha) for alpha in alphas), known, split)
    return probabilities, {"alpha": alpha}


@register_function("LogisticRegression")
def logistic_regression(features: object, labels: object, split: Split) -> tuple[Tensor, dict[str, Any]]:
    """Classify by the features alone, with a penalty (scikit-learn's).

    Parameters
    ----------
    features, labels, split
        As for `label_spreading`; the validation nodes choose the penalty. Without validation nodes it is
        scikit-learn's default, 1.

    Returns
    -------
    probabilities : Tensor, (n, c)
        The probability of each class at each node.
    chosen : dict
        The inverse strength "C" of the penalty with the best validation accuracy.
    """
    from sklearn.linear_model import LogisticRegression

    rows, known = _check(features, labels, split, "logistic_regression")

    def classify(strength: float) -> Tensor:
        regression = LogisticRegression(C=strength, max_iter=2000)
        regression.fit(rows[split.train], known[split.train].numpy())
        return torch.from_numpy(regression.predict_proba(rows)).float()

    strengths = _STRENGTHS if len(split.validation) else (_DEFAULT_STRENGTH,)
    probabilities, strength = _best(((classify(each), each) for each in strengths), known, split)
    return probabilities, {"C": strength}


@register_function("LaplaceLearning")
def laplace_learning(
    features: object, labels: object, split: Split, *, k: int = 10
) -> tuple[Tensor, dict[str, Any]]:
    """Extend the labels to the harmonic function on the graph of neighbours (Zhu et al., 2003).

    Edges weigh exp(−4 d² / d_k²), d_k being the distance to the k-th neighbour, symmetrised (Calder et al.,
    2020). The sparse system is solved by conjugate gradients. Nodes that no labelled one is connected to get
    the same probability for all classes.

    Parameters
    ----------
    features, labels, split, k
        As for `label_spreading`; the validation nodes are not used.

    Returns
    -------
    probabilities : Tensor, (n, c)
        The probability of each class at each node.
    chosen : dict
        Empty: there is nothing to choose.
    """
    from scipy.sparse.linalg import LinearOperator, cg

    rows, known = _check(features, labels, split, "laplace_learning")
    graph = _similarity_graph(rows, k)
    labelled = split.train.numpy()
    free = np.setdiff1d(np.arange(len(rows)), labelled)
    n_classes = _count_classes(known)
    values = np.full((len(rows), n_classes), 1 / n_classes)
    values[labelled] = np.eye(n_classes)[known[split.train].numpy()]
    degrees = np.asarray(graph.sum(axis=1)).ravel()
    inside, towards = graph[free][:, free], graph[free][:, labelled]
    # Scaled by the degrees, so that the diagonal is one and an isolated node stays where it is.
    inverse = 1 / np.sqrt(np.where(degrees[free] > 0, degrees[free], 1))

    def multiply(vector: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        vector = vector.ravel()
        result: np.ndarray[Any, Any] = vector - inverse * (inside @ (inverse * vector))
        return result

    system = LinearOperator((len(free), len(free)), matvec=multiply, dtype=np.float64)
    for label in range(n_classes):
        right = inverse * (towards @ values[labelled, label])
        solution, failed = cg(system, right, rtol=_TOLERANCE, atol=0.0, maxiter=10 * len(free))
        if failed:
            logger.warning("Laplace learning of class %d did not converge.", label)
        values[free, label] = inverse * solution
    values = np.clip(values, 0, None)
    total = values.sum(axis=1, keepdims=True)
    values = np.where(total > 0, values / np.where(total > 0, total, 1), 1 / n_classes)
    return torch.from_numpy(values).float(), {}


def _similarity_graph(rows: np.ndarray[Any, Any], k: int) -> csr_array:
    """Return the symmetric matrix of similarities of neighbours, (n, n)."""
    from scipy.sparse import csr_array

    neighbours = knn(rows, k)
    distances = neighbours.distances.double().numpy()
    farthest = np.where(distances[:, -1:] > 0, distances[:, -1:], 1)
    weights = np.exp(-4 * (distances / farthest) ** 2).ravel()
    owners = np.repeat(np.arange(len(rows)), k)
    graph = csr_array((weights, (owners, neighbours.indices.numpy().ravel())), shape=(len(rows), len(rows)))
    return (graph + graph.T) / 2


def _check(features: object, labels: object, split: Split, owner: str) -> tuple[np.ndarray[Any, Any], Tensor]:
    """Return the features as an array and the labels, or say what is wrong."""
    rows = as_features(features, owner).cpu().numpy()
    known = as_labels(labels, owner, n_nodes=len(rows)).cpu()
    check_split(split, known, _count_classes(known), owner, needs_validation=False)
    return rows, known


def _count_classes(known: Tensor) -> int:
    return max(2, int(known.max()) + 1)


def _best(candidates: Iterable[tuple[Tensor, float]], known: Tensor, split: Split) -> tuple[Tensor, float]:
    """Return the probabilities and the setting with the best validation accuracy, of equals the first.

    A single candidate needs no validation nodes.
    """
    nodes = split.validation

    def accuracy(candidate: tuple[Tensor, float]) -> float:
        return float((candidate[0][nodes].argmax(1) == known[nodes]).double().mean())

    return max(candidates, key=accuracy)
