"""What candidates say of fitted rows, with and without a fold."""

import numpy as np
import pytest
import torch
from scipy.special import softmax

from dahgnn.classifier import logistic
from dahgnn.classifier import opinions as module
from dahgnn.classifier.around import learn_around
from dahgnn.classifier.experts import LabelledRows
from dahgnn.classifier.known import Known
from dahgnn.classifier.opinions import (
    FEATURE_EXPERTS,
    Graphs,
    Opinions,
    balance,
    potential_distributions,
    smooth_new,
    usual_potential,
)
from dahgnn.classifier.stacking import CANDIDATES, Candidate
from dahgnn.graph.diffusion import SimilarityGraph
from dahgnn.graph.local_scale import LocalScale
from dahgnn.graph.neighbours import build_search
from dahgnn.graph.similarities import similarities_of

N, CLASSES = 60, 3
# Those that there are without a given hypergraph.
USUAL = [candidate for candidate in CANDIDATES if candidate.expert != "around"]
# What rounding and the tolerance of the solvers may change in a probability.
CLOSE = 2e-4


@pytest.fixture(scope="module")
def table():
    generator = np.random.default_rng(0)
    labels = np.arange(N) % CLASSES
    features = 2 * generator.normal(size=(CLASSES, 4))[labels] + generator.normal(size=(N, 4))
    return torch.tensor(features, dtype=torch.float32), labels


@pytest.fixture(scope="module")
def graphs(table):
    """Of neighbours by local scale, and by plain distance, in single precision as a fit has them."""
    both = LocalScale(build_search(table[0])).among_both(5)
    return Graphs(*(SimilarityGraph.from_neighbors(each, dtype=torch.float32) for each in both))


FOLDS = ((0, 1, 2, 9), (3, 4, 5, 9))


def know(labels, folds=FOLDS, count=24, weights=None, refit=True):
    rows = np.arange(count)
    weights = np.ones(count) if weights is None else weights
    return Known(rows, labels[:count], weights, CLASSES, [np.array(fold) for fold in folds], refit)


def say(count):
    """Distributions of networks, which a test may choose as it likes."""
    generator = np.random.default_rng(1)
    return [generator.dirichlet(np.ones(CLASSES), N) for _ in range(count)]


def hear(features, known, said, graphs):
    """What all experts and the networks say."""
    opinions = Opinions(features, known, graphs)
    opinions.hear_networks(said)
    return opinions


def alone(name):
    """The candidate that is an expert's opinion as it is."""
    return next(each for each in CANDIDATES if each.expert == name and each.strength == np.inf)


@pytest.fixture
def fixed_settings(monkeypatch):
    """Take the same settings whatever the labels are: their choice is one for all folds."""
    monkeypatch.setattr(type(FEATURE_EXPERTS["linear"]), "choose", lambda *_: 3.0)
    monkeypatch.setattr(type(FEATURE_EXPERTS["kernel"]), "choose", lambda *_: (0.1, 0.1))


@pytest.fixture
def precise(monkeypatch):
    """Let the linear model find its optimum, so that two ways to it can be compared."""
    monkeypatch.setattr(logistic, "_STEPS", 300)
    monkeypatch.setattr(logistic, "_GRADIENT", 5e-6)


@pytest.mark.usefixtures("fixed_settings")
@pytest.mark.parametrize("refit", [True, False])
def test_nobody_sees_the_labels_of_a_fold(table, graphs, refit):
    features, labels = table
    said = say(3)
    before = hear(features, know(labels, refit=refit), said, graphs)
    assert before.candidates == USUAL
    start = 0
    for fold in map(list, FOLDS):
        flipped = labels.copy()
        flipped[fold] = (flipped[fold] + 1) % CLASSES
        after = hear(features, know(flipped, refit=refit), said, graphs)
        own = np.zeros(8, bool)
        own[start : start + len(fold)] = True
        start += len(fold)
        for candidate in before.candidates:
            change = np.abs(after.held_out(candidate) - before.held_out(candidate))
            assert change[own].max() < CLOSE, candidate
            # Others learn from these labels, unless the folds judge alone.
            everywhere = np.abs(after.of(candidate) - before.of(candidate)).max()
            if refit and candidate != alone("networks"):
                assert change[~own].max() > 50 * CLOSE, candidate
                assert everywhere > 50 * CLOSE, candidate
            else:
                assert max(change.max(), everywhere) < CLOSE, candidate


@pytest.mark.usefixtures("fixed_settings")
def test_the_weight_of_a_held_out_row_says_nothing_of_the_others(table, graphs):
    features, labels = table
    heavy = np.where(np.isin(np.arange(24), FOLDS[0]), 9.0, 1.0)
    plain, other = (
        hear(features, know(labels, weights=weights), say(3), graphs) for weights in (None, heavy)
    )
    for candidate in plain.candidates:
        np.testing.assert_allclose(other.held_out(candidate)[:4], plain.held_out(candidate)[:4], atol=CLOSE)
    for name in ("linear", "kernel", "trees"):
        change = np.abs(other.held_out(alone(name)) - plain.held_out(alone(name)))
        assert change[4:].max() > 10 * CLOSE, name
    for name, potentials in plain.potentials.items():
        assert not np.allclose(other.potentials[name], potentials, rtol=1e-2)


def prior_of(candidate, features, known, part, said, graph):
    """What an expert says of all rows by one part of the labels, fitted to nothing else."""
    if candidate.expert == "laplace":
        return None
    if candidate.expert == "networks":
        return said
    rows = LabelledRows(features[known.rows], known.labels, known.n_classes, known.weights)
    if candidate.expert in FEATURE_EXPERTS:
        expert = FEATURE_EXPERTS[candidate.expert]
        some, settings = rows.take(part), expert.choose(rows.take(known.seen()))
        return expert.fit(some, [np.arange(len(some))], settings).predict(features)[:, 0].double().numpy()
    targets = np.eye(CLASSES)[known.labels[part]]
    potentials = graph.spread_poisson(known.rows[part], targets, weights=known.weights[part])
    usual = np.sort(potentials.max(1))[(N - 1) // 2]
    return softmax(module._SHARPNESS * potentials / usual, axis=1)


@pytest.mark.usefixtures("precise")
@pytest.mark.parametrize("refit", [True, False])
def test_a_candidate_is_its_expert_made_smooth_without_the_fold(table, graphs, refit):
    features, labels = table
    known, said = know(labels, weights=np.linspace(0.5, 2, 24), refit=refit), say(3)
    found = hear(features, known, said, graphs)
    assert found.candidates == USUAL
    # Where the folds judge alone, the networks in the end have not seen them, either.
    networks = said if refit else [said[2]] * 3
    for candidate in found.candidates:
        graph = graphs.plain if candidate.expert == "plain-poisson" else graphs.chosen
        by_part = []
        for fold, distributions in zip((0, 1, None), networks, strict=True):
            part = known.seen(fold)
            opinion = prior_of(candidate, features, known, part, distributions, graph)
            if candidate.strength < np.inf:
                targets = np.eye(CLASSES)[known.labels[part]]
                opinion = graph.smooth(known.rows[part], targets, opinion, candidate.strength)
            by_part.append(opinion)
        held = np.concatenate([by_part[number][fold] for number, fold in enumerate(known.folds)])
        assert found.held_out(candidate).dtype == np.float64
        np.testing.assert_allclose(found.held_out(candidate), held, atol=5e-4, err_msg=str(candidate))
        np.testing.assert_allclose(found.of(candidate), by_part[2], atol=5e-4, err_msg=str(candidate))
        np.testing.assert_allclose(found.of(candidate).sum(1), 1, rtol=1e-5)


def test_networks_that_have_not_seen_a_fold_speak_for_it(table, graphs):
    features, labels = table
    known, said = know(labels), say(3)
    found = hear(features, known, said, graphs)
    expected = [distributions[fold] for distributions, fold in zip(said, known.folds, strict=False)]
    np.testing.assert_allclose(found.held_out(alone("networks")), np.concatenate(expected), rtol=1e-6)
    np.testing.assert_allclose(found.of(alone("networks")), said[2], rtol=1e-6)


@pytest.mark.usefixtures("precise")
@pytest.mark.parametrize("name", list(FEATURE_EXPERTS))
def test_a_model_in_the_end_is_the_experts_own(table, graphs, name):
    features, labels = table
    found, expert = hear(features, know(labels), say(3), graphs), FEATURE_EXPERTS[name]
    everybody = LabelledRows(features[:24], labels[:24], CLASSES, np.ones(24))
    own = expert.fit(everybody, [np.arange(24)], expert.choose(everybody)).predict(features)[:, 0]
    np.testing.assert_allclose(found.of(alone(name)), own, atol=CLOSE)
    again = found.models[name].predict(features)
    assert again.shape == (N, 1, CLASSES)
    np.testing.assert_allclose(again[:, 0], found.of(alone(name)), atol=1e-6)


def test_smooth_candidates_fix_the_seen_labels_and_no_others(table, graphs):
    features, labels = table
    for refit in (True, False):
        known = know(labels, refit=refit)
        found = hear(features, known, say(3), graphs)
        for candidate in found.candidates:
            if candidate.strength < np.inf:
                seen = known.rows[known.seen()]
                said = found.of(candidate)
                np.testing.assert_array_equal(said[seen], np.eye(CLASSES)[labels[seen]])
                assert (np.delete(said, seen, 0).max(1) < 1).all()
                assert (found.held_out(candidate).max(1) < 1).all()


@pytest.mark.parametrize("name", ["poisson", "plain-poisson"])
def test_poisson_learning_is_that_of_its_graph(table, graphs, name):
    features, labels = table
    weights = np.linspace(0.5, 2, 24)
    found = hear(features, know(labels, weights=weights), say(3), graphs)
    similarities = (graphs.chosen if name == "poisson" else graphs.plain).similarities.toarray()
    laplacian = np.diag(1.01 * similarities.sum(1)) - similarities
    targets = np.eye(CLASSES)[labels[:24]]
    sources = np.zeros((N, CLASSES))
    sources[:24] = weights[:, None] * (targets - weights @ targets / weights.sum())
    expected = np.linalg.solve(laplacian, sources)
    np.testing.assert_allclose(found.potentials[name], expected, atol=1e-3 * np.abs(expected).max())


def test_the_two_graphs_have_opinions_of_their_own(table, graphs):
    features, labels = table
    found = hear(features, know(labels), say(3), graphs)
    one, other = (found.of(Candidate(name, 0.1)) for name in ("poisson", "plain-poisson"))
    assert np.abs(one - other).max() > 0.01
    chosen = hear(features, know(labels), say(3), Graphs(graphs.chosen))
    absent = ("plain-poisson", "around")
    assert chosen.candidates == [each for each in CANDIDATES if each.expert not in absent]
    assert set(chosen.potentials) == {"poisson"}
    np.testing.assert_array_equal(chosen.of(Candidate("poisson", 0.1)), one)


@pytest.mark.usefixtures("fixed_settings", "precise")
def test_a_sample_tells_what_is_said_without_each_fold(table, graphs):
    features, labels = table
    known = know(labels)
    found = hear(features, known, say(3), graphs)
    assert not np.isin(found.sample, known.rows).any()
    assert len(found.sample) == N - len(known.rows)
    for candidate in found.candidates:
        whole = found.without(len(known.folds), candidate)  # the last part are all labels
        np.testing.assert_array_equal(whole, found.of(candidate)[found.sample])
    seen = known.seen(1)
    fewer = Known(known.rows[seen], known.labels[seen], known.weights[seen], CLASSES, [])
    expected = hear(features, fewer, [say(3)[1]], graphs)
    for candidate in found.candidates:
        there = expected.of(candidate)[found.sample]
        np.testing.assert_allclose(found.without(1, candidate), there, atol=2e-3, err_msg=str(candidate))


def test_a_sample_of_many_rows_is_small(table, graphs, monkeypatch):
    features, labels = table
    monkeypatch.setattr(module, "_SAMPLE", 5 * CLASSES)
    found = hear(features, know(labels), say(3), graphs)
    assert len(set(found.sample)) == 5


def test_without_a_graph_nothing_spreads(table):
    features, labels = table
    found = hear(features, know(labels), say(3), None)
    assert {each.expert for each in found.candidates} == {"networks", "linear", "kernel", "trees"}
    assert all(each.strength == np.inf for each in found.candidates)
    assert found.potentials == {}
    assert all(found.held_out(each).shape == (8, CLASSES) for each in found.candidates)


def test_without_folds_nothing_is_held_out(table, graphs):
    features, labels = table
    found = hear(features, know(labels, folds=()), say(1), graphs)
    for candidate in found.candidates:
        assert found.held_out(candidate).shape == (0, CLASSES)
        assert found.of(candidate).shape == (N, CLASSES)


def test_an_expert_that_the_rows_do_not_suit_says_nothing(table, graphs):
    _, labels = table
    wide = torch.randn(N, 101, generator=torch.Generator().manual_seed(0))
    found = hear(wide, know(labels), say(3), graphs)
    absent = {each.expert for each in CANDIDATES} - {each.expert for each in found.candidates}
    assert absent == {"trees", "around"}
    assert set(found.models) == {"linear", "kernel"}


def test_the_numbers_of_the_labelled_rows_may_have_gaps(table, graphs):
    """Renumbered rows get the same opinions, which `Known.rows` alone can know."""
    features, labels = table
    order = np.random.default_rng(7).permutation(N)
    place = np.argsort(order)
    turned = Graphs(
        *(
            SimilarityGraph.from_matrix(graph.similarities[order][:, order], dtype=torch.float32)
            for graph in graphs[:2]
        )
    )
    rows = np.sort(place[:24])
    folds = [place[list(fold)] for fold in FOLDS]
    known = Known(rows, labels[order][rows], np.ones(24), CLASSES, folds)
    before = hear(features, know(labels), say(3), graphs)
    after = hear(features[order], known, [said[order] for said in say(3)], turned)
    for candidate in before.candidates:
        if candidate.expert not in ("linear", "trees"):  # these draw at random by the order of the rows
            np.testing.assert_allclose(after.held_out(candidate), before.held_out(candidate), atol=5e-4)
            np.testing.assert_allclose(after.of(candidate), before.of(candidate)[order], atol=5e-4)


def test_potentials_become_distributions():
    potentials = torch.tensor([[1.0, -1.0, 0.0], [3.0, 2.0, 2.0], [0.5, 0.0, 0.0]], dtype=torch.float64)
    both = torch.stack([potentials, 7 * potentials], 1)
    assert usual_potential(both).tolist() == [[1.0], [7.0]]
    expected = softmax(module._SHARPNESS * potentials.numpy(), axis=1)
    for part in range(2):  # the unit of a part makes no difference
        np.testing.assert_allclose(potential_distributions(both)[:, part], expected)
    known_size = potential_distributions(both[:1], torch.tensor([[1.0], [14.0]]))
    np.testing.assert_allclose(known_size[:, 0], expected[:1])
    np.testing.assert_allclose(known_size[0, 1], softmax(module._SHARPNESS * potentials[0].numpy() / 2))


def test_potentials_without_a_size_say_nothing():
    nothing = torch.zeros(4, 1, 2)
    assert usual_potential(nothing).tolist() == [[1.0]]
    assert usual_potential(-torch.ones(3, 1, 2)).tolist() == [[1.0]]
    np.testing.assert_allclose(potential_distributions(nothing), np.full((4, 1, 2), 0.5))
    enormous = potential_distributions(torch.tensor([[[1e38, -1e38]]]), torch.ones(1, 1))
    assert enormous.isfinite().all()
    assert enormous[0, 0, 0] > 0.999


@pytest.mark.parametrize("strength", [0.03, 0.1, 1.0])
def test_a_new_row_gets_what_smoothing_would_give_it(table, graphs, strength):
    """The system of `SimilarityGraph.smooth`, with one node more, of which all others are fixed."""
    features, _ = table
    generator = np.random.default_rng(2)
    fitted, new = generator.dirichlet(np.ones(CLASSES), N), generator.normal(size=(7, 4))
    prior = generator.dirichlet(np.ones(CLASSES), 7)
    found = build_search(features).query(new, 5)
    similarities = similarities_of(found)
    given = smooth_new(similarities, fitted[found.indices.numpy()], prior, strength)
    for row in range(7):
        matrix = np.zeros((N + 1, N + 1))
        matrix[:N, :N] = graphs.chosen.similarities.toarray()
        matrix[N, found.indices[row]] = matrix[found.indices[row], N] = similarities[row]
        degrees = matrix.sum(1)
        system = np.diag((1 + strength) * degrees) - matrix
        # The last equation, with the values of the fitted rows known.
        right = strength * degrees[N] * prior[row] - system[N, :N] @ fitted
        np.testing.assert_allclose(given[row], right / system[N, N])
    np.testing.assert_allclose(given.sum(1), 1)


def test_a_new_row_without_anybody_similar_has_its_prior():
    given = smooth_new(np.zeros((1, 2)), np.ones((1, 2, 2)) / 2, np.array([[0.9, 0.1]]), 1e12)
    np.testing.assert_allclose(given, [[0.9, 0.1]])


@pytest.mark.parametrize("shares", [[1, 1, 1], [0.7, 0.2, 0.1], [10, 1, 4]])
def test_balance_reaches_the_shares(shares):
    distributions = np.random.default_rng(0).dirichlet([3.0, 1.0, 0.5], 300)
    factors = balance(distributions, np.array(shares, dtype=float))
    scaled = distributions * factors
    found = (scaled / scaled.sum(1, keepdims=True)).mean(0)
    np.testing.assert_allclose(found, np.array(shares) / sum(shares), atol=1e-4)
    assert (factors > 0).all()


def test_balance_leaves_what_is_balanced():
    distributions = np.random.default_rng(0).dirichlet([3.0, 1.0, 0.5], 300)
    np.testing.assert_allclose(balance(distributions, distributions.mean(0)), 1, atol=1e-6)


def test_surroundings_have_an_opinion_where_that_is_asked_for(table, graphs):
    features, labels = table
    found = hear(features, know(labels), say(3), Graphs(graphs.chosen, around=True))
    asked = learn_around(features, know(labels), graphs.chosen)
    np.testing.assert_array_equal(found.potentials["around"], asked.scores)
    whole = found.of(Candidate("around", np.inf))
    np.testing.assert_array_equal(whole, asked.priors[:, -1].double().numpy())
    held = [asked.priors[list(fold), number].double().numpy() for number, fold in enumerate(FOLDS)]
    np.testing.assert_array_equal(found.held_out(Candidate("around", np.inf)), np.concatenate(held))
    assert np.abs(whole - found.of(Candidate("around", 0.1))).max() > 0.01
