"""Why a row got its label, and which rows to label next."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from dahgnn import DAHGNNClassifier, Hypergraph
from dahgnn.classifier.explanation import (
    attention_to_hyperedges,
    attention_to_nodes,
    explain,
    margins,
    suggest,
    traces_of,
)
from dahgnn.config import PRESETS

QUICK = {"training": replace(PRESETS["default"].training, max_epochs=16), "networks": 2, "random_state": 0}


@pytest.fixture(scope="module")
def fitted():
    generator = np.random.default_rng(0)
    labels = np.arange(90) % 3
    features = 3 * generator.normal(size=(3, 4))[labels] + generator.normal(size=(90, 4))
    given = np.where(np.arange(90) < 24, labels, -1)
    return DAHGNNClassifier(k=5, **QUICK).fit(features, given)


def dense(trace, hypergraph):
    """The two attention matrices, hyperedges × nodes and nodes × hyperedges, entry by entry."""
    n, m = hypergraph.n_nodes, hypergraph.n_hyperedges
    there, back = torch.zeros(m, n, dtype=torch.float64), torch.zeros(n, m, dtype=torch.float64)
    for matrix, incidence, attention in (
        (there, hypergraph.to_hyperedges, attention_to_hyperedges),
        (back, hypergraph.to_nodes, attention_to_nodes),
    ):
        coefficients = attention([trace], hypergraph).double()
        for place, (target, source) in enumerate(
            zip(incidence.owners, incidence.forward.indices, strict=True)
        ):
            matrix[target, source] = coefficients[place]
    return there, back


@pytest.mark.parametrize("row", [0, 41, 89])
def test_shares_are_those_of_the_attention_matrices(fitted, row):
    hypergraph = fitted.hypergraph_
    networks = [[dense(trace, hypergraph) for trace in pair] for pair in traces_of(fitted)]
    explanation = explain(fitted, row)
    there, back = (sum(second[way] for _, second in networks) / len(networks) for way in (0, 1))
    assert [share.hyperedge for share in explanation.hyperedges] == sorted(
        hypergraph.hyperedges_of(row).tolist(), key=lambda e: (-float(back[row, e]), e)
    )
    for share in explanation.hyperedges:
        assert share.weight == pytest.approx(float(back[row, share.hyperedge]), rel=1e-5)
        assert share.centre == int(hypergraph.centres[share.hyperedge])
        assert {member.row for member in share.members} == set(hypergraph.members(share.hyperedge).tolist())
        assert sum(member.weight for member in share.members) == pytest.approx(1, rel=1e-5)
        for member in share.members:
            assert member.weight == pytest.approx(float(there[share.hyperedge, member.row]), rel=1e-5)
    assert sum(share.weight for share in explanation.hyperedges) == pytest.approx(1, rel=1e-5)
    ways = [second[1] @ second[0] @ first[1] @ first[0] for first, second in networks]
    rollout = (sum(ways) / len(ways))[row]
    assert float(rollout.sum()) == pytest.approx(1, rel=1e-5)
    known = set(range(24))
    expected = {node: float(rollout[node]) for node in known if rollout[node] > 0}
    assert {share.row: share.weight for share in explanation.labelled} == pytest.approx(expected, rel=1e-4)
    weights = [share.weight for share in explanation.labelled]
    assert weights == sorted(weights, reverse=True)


def test_labelled_rows_that_speak_are_mostly_of_the_predicted_class(fitted):
    agree = []
    for row in range(30, 60):
        share = explain(fitted, row).labelled[0]
        agree.append(fitted.transduction_[share.row] == fitted.transduction_[row])
    assert np.mean(agree) > 0.8


@pytest.mark.parametrize("row", [-1, 90])
def test_other_rows_are_refused(fitted, row):
    with pytest.raises(ValueError, match=f"'row' parameter of explain must be between 0 and 89. Got {row}"):
        explain(fitted, row)


def test_a_hypergraph_without_centres_is_explained():
    generator = np.random.default_rng(0)
    features, labels = generator.normal(size=(30, 3)), np.arange(30) % 2
    hypergraph = Hypergraph.from_hyperedges([range(i, i + 6) for i in range(0, 30, 3) if i < 25], n_nodes=30)
    classifier = DAHGNNClassifier(**QUICK).fit(features, labels, hypergraph=hypergraph)
    assert all(share.centre is None for share in explain(classifier, 7).hyperedges)
    assert len(suggest(classifier, 5)) == 0  # all have labels


def test_suggestions_are_unlabelled_different_and_apart(fitted):
    rows = suggest(fitted, 6)
    assert len(set(rows.tolist())) == 6
    assert (rows >= 24).all()
    forward, _ = fitted.hypergraph_.neighbourhood("centre")
    for row in rows:
        near = forward.indices[forward.offsets[row] : forward.offsets[row + 1]].tolist()
        assert not set(near) & set(rows.tolist())
    scores = (1 - margins(fitted.label_distributions_)) * fitted.density_
    assert rows[0] == 24 + np.argmax(scores[24:])


def test_no_more_are_suggested_than_there_are(fitted):
    everybody = suggest(fitted, 1000)
    assert sorted(everybody.tolist()) == list(range(24, 90))
    assert suggest(fitted, 6).tolist() == everybody[:6].tolist()
    with pytest.raises(ValueError, match="'count' parameter of suggest"):
        suggest(fitted, 0)


def test_margins():
    np.testing.assert_allclose(margins(np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]])), [0.2, 0.7])
