"""Bring a hypergraph of your own: papers that are cited together.

Each paper has a topic and the words it uses, which say little. Papers that a later paper cites together make
a hyperedge, which says more. If the environment variable DAHGNN_TEST_HYPERGRAPHS names a folder that holds
cocitation_cora.npz, the papers are those of Cora instead of invented ones.
"""

import os
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array
from sklearn.metrics import accuracy_score

from dahgnn import DAHGNNClassifier, Hypergraph
from dahgnn.training.splits import sample_per_class

Papers = tuple[np.ndarray | csr_array, np.ndarray, np.ndarray, np.ndarray]


def invent_papers(n_papers: int, n_hyperedges: int, n_topics: int = 4, n_words: int = 200) -> Papers:
    """Return words (n, d), topics (n,), and the pairs of a paper and a hyperedge that it is in, (t,) each."""
    generator = np.random.default_rng(0)
    topics = generator.integers(n_topics, size=n_papers)
    chances = 0.04 + 0.06 * (np.arange(n_words) % n_topics == topics[:, None])
    words = generator.random((n_papers, n_words)) < chances
    papers = []
    for _ in range(n_hyperedges):
        # Nine of ten cited papers share the topic of the one that cites them.
        weights = np.where(topics == generator.integers(n_topics), 0.9 * (n_topics - 1), 0.1)
        papers.append(generator.choice(n_papers, size=4, replace=False, p=weights / weights.sum()))
    return words.astype(float), topics, np.concatenate(papers), np.arange(n_hyperedges).repeat(4)


def read_papers(path: Path) -> Papers:
    """Return the same from a file."""
    with np.load(path) as file:
        parts = file["feature_data"], file["feature_indices"], file["feature_indptr"]
        words = csr_array(parts, shape=file["feature_shape"])
        return words, file["labels"].astype(int), file["node"], file["hyperedge"]


cora = Path(os.environ.get("DAHGNN_TEST_HYPERGRAPHS", "")) / "cocitation_cora.npz"
X, y, papers, hyperedges = read_papers(cora) if cora.is_file() else invent_papers(600, 500)
labelled = sample_per_class(y, 20, seed=0)
partly = np.full_like(y, -1)
partly[labelled] = y[labelled]
rest = partly == -1

hypergraph = Hypergraph.from_incidence(papers, hyperedges, n_nodes=len(y), n_hyperedges=max(hyperedges) + 1)
cited = DAHGNNClassifier(random_state=0).fit(X, partly, hypergraph=hypergraph)
near = DAHGNNClassifier(random_state=0).fit(X, partly)

print(hypergraph)
print(cited.decision_.partition("; labels")[0])
by_citation, by_words = (accuracy_score(y[rest], each.transduction_[rest]) for each in (cited, near))
print(f"Accuracy of {rest.sum()} papers: {by_citation:.1%} by citations, {by_words:.1%} by neighbours")
