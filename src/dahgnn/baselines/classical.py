"""Methods without a network to compare with: they take features, labels and a split."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from dahgnn.baselines.registry import register_function
from dahgnn.checks import as_features, as_labels, bad_value, check_neighbours, check_number
from dahgnn.graph.diffusion import SimilarityGraph
from dahgnn.graph.hypergraph import Hypergraph
from dahgnn.graph.neighbours import Neighbors, build_search
from dahgnn.training.splits import Split, check_split

if TYPE_CHECKING:
    from scipy.sparse import csr_array

# What the validation nodes choose from: clamping factors, and inverse strengths of the penalty.
_ALPHAS = (0.2, 0.5, 0.8, 0.95, 0.99)
_STRENGTHS = (0.01, 0.1, 1.0, 10.0)
# Scikit-learn's defaults, which are taken where there are no validation nodes.
_DEFAULT_ALPHA, _DEFAULT_STRENGTH = 0.2, 1.0
# Of labels on a hypergraph where there are no validation nodes.
_HYPERGRAPH_ALPHA = 0.8

# Poisson learning as published has no damping; this much makes its system solvable.
_NO_DAMPING = 1e-6


@register_function("LabelSpreading")
def label_spreading(
    features: object, labels: object, split: Split, *, k: int = 10, neighbors: Neighbors | None = None
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
    neighbors : Neighbors, optional
        The nearest others of each node, if they are known; at least k − 1.

    Returns
    -------
    probabilities : Tensor, (n, c)
        The probability of each class at each node.
    chosen : dict
        The clamping factor "alpha" with the best validation accuracy.
    """
    from scipy.sparse import csr_matrix
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.semi_supervised import LabelSpreading

    rows, known = _check(features, labels, split, "label_spreading")
    check_neighbours(k, len(rows), "label_spreading")
    given = torch.full_like(known, -1)
    given[split.train] = known[split.train]
    # The graph of kernel="knn", built once for all: the node itself and its k − 1 nearest others.
    others = _neighbors(rows, max(1, k - 1), neighbors).indices.cpu().numpy()[:, : k - 1]
    members = np.column_stack([np.arange(len(rows)), others])
    places = np.arange(0, members.size + 1, members.shape[1])
    graph = csr_matrix((np.ones(members.size), members.ravel(), places), shape=(len(rows), len(rows)))

    def spread(alpha: float) -> Tensor:
        spreading = LabelSpreading(kernel=lambda *_: graph, alpha=alpha, max_iter=1000)
        with warnings.catch_warnings():  # the largest alpha may end a hair's breadth before its tolerance
            warnings.simplefilter("ignore", ConvergenceWarning)
            spreading.fit(rows, given.numpy())
        return torch.from_numpy(spreading.label_distributions_).float()

    alphas = _ALPHAS if len(split.validation) else (_DEFAULT_ALPHA,)
    probabilities, alpha = _best(((spread(alpha), alpha) for alpha in alphas), known, split)
    return probabilities, {"alpha": alpha}


@register_function("HypergraphSpreading")
def hypergraph_spreading(
    features: object, labels: object, split: Split, *, hypergraph: Hypergraph | None = None
) -> tuple[Tensor, dict[str, Any]]:
    """Spread labels over a given hypergraph (Zhou et al., 2006).

    Solves (I − αΘ) u = (1 − α) y with Θ = D_v^(-1/2) H W D_e^(-1) Hᵀ D_v^(-1/2). What no labelled node is
    connected to has the same probability for all classes.

    Parameters
    ----------
    features, labels, split
        As for `label_spreading`; of the features only their number is used. Without validation nodes alpha
        is 0.8.
    hypergraph : Hypergraph
        That the dataset comes as.

    Returns
    -------
    probabilities : Tensor, (n, c)
        The probability of each class at each node.
    chosen : dict
        The "alpha" with the best validation accuracy.
    """
    from scipy.sparse import eye_array
    from scipy.sparse.linalg import splu

    known = _check(features, labels, split, "hypergraph_spreading")[1]
    if hypergraph is None:
        remedy = "LabelSpreading is for all others."
        raise bad_value("hypergraph", "hypergraph_spreading", "that of the dataset", "none", remedy)
    operator = _hypergraph_operator(hypergraph.to("cpu"))
    start = np.zeros((len(known), _count_classes(known)))
    start[split.train.numpy()] = _targets(known, split)

    def spread(alpha: float) -> Tensor:
        values = splu((eye_array(len(known)) - alpha * operator).tocsc()).solve((1 - alpha) * start)
        total = values.sum(1, keepdims=True)
        even = np.full_like(values, 1 / values.shape[1])
        return torch.from_numpy(np.divide(values, total, out=even, where=total > 1e-12)).float()

    alphas = _ALPHAS if len(split.validation) else (_HYPERGRAPH_ALPHA,)
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
    features: object, labels: object, split: Split, *, k: int = 10, neighbors: Neighbors | None = None
) -> tuple[Tensor, dict[str, Any]]:
    """Extend the labels to the harmonic function on the graph of neighbours (Zhu et al., 2003).

    Edges weigh exp(−4 d² / d_k²), d_k being the distance to the k-th neighbour, symmetrised (Calder et al.,
    2020). Nodes that no labelled one is connected to get the same probability for all classes.

    Parameters
    ----------
    features, labels, split, k, neighbors
        As for `label_spreading`; the validation nodes are not used.

    Returns
    -------
    probabilities : Tensor, (n, c)
        The probability of each class at each node.
    chosen : dict
        Empty: there is nothing to choose.
    """
    rows, known = _check(features, labels, split, "laplace_learning")
    graph = SimilarityGraph.from_neighbors(_neighbors(rows, k, neighbors))
    values = graph.smooth(split.train.numpy(), _targets(known, split))
    return torch.from_numpy(values).float(), {}


@register_function("PoissonLearning")
def poisson_learning(
    features: object,
    labels: object,
    split: Split,
    *,
    k: int = 10,
    neighbors: Neighbors | None = None,
    damping: float = _NO_DAMPING,
) -> tuple[Tensor, dict[str, Any]]:
    """Let labels be sources that flow over the graph of neighbours (Calder et al., 2020).

    Parameters
    ----------
    features, labels, split, k, neighbors
        As for `laplace_learning`, with the same edges.
    damping : float
        See `SimilarityGraph.spread_poisson`; by default none to speak of, as published.

    Returns
    -------
    probabilities : Tensor, (n, c)
        The softmax of the potentials, whose order alone has a meaning.
    chosen : dict
        Empty: there is nothing to choose.
    """
    check_number("damping", damping, "poisson_learning", low=0, open_low=True)
    rows, known = _check(features, labels, split, "poisson_learning")
    graph = SimilarityGraph.from_neighbors(_neighbors(rows, k, neighbors))
    potentials = graph.spread_poisson(split.train.numpy(), _targets(known, split), damping)
    return torch.from_numpy(potentials).softmax(1).float(), {}


def _hypergraph_operator(hypergraph: Hypergraph) -> csr_array:
    """Return D_v^(-1/2) H W D_e^(-1) Hᵀ D_v^(-1/2), (n, n)."""
    from scipy.sparse import csr_array, diags_array

    members, owners = hypergraph.by_hyperedge.indices.numpy(), hypergraph.by_hyperedge.owners().numpy()
    shape = (hypergraph.n_nodes, hypergraph.n_hyperedges)
    incidence = csr_array((np.ones(len(members)), (members, owners)), shape=shape)
    node, hyperedge, weighted = (each.numpy() for each in hypergraph.degree_scales(torch.float64))
    scaled = diags_array(node) @ incidence
    return csr_array(scaled @ diags_array(hyperedge * weighted) @ scaled.T)


def _neighbors(rows: np.ndarray[Any, Any], k: int, given: Neighbors | None) -> Neighbors:
    return build_search(rows).among(k) if given is None else given


def _targets(known: Tensor, split: Split) -> np.ndarray[Any, Any]:
    """Return one in the column of each training node's class, and zero elsewhere."""
    return np.asarray(np.eye(_count_classes(known))[known[split.train].numpy()])


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
