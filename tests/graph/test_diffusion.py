import numpy as np
import pytest
import torch
from file_backed import is_in
from scipy.sparse import block_diag, csr_array

from dahgnn.files.scratch import Scratch
from dahgnn.graph import diffusion
from dahgnn.graph.diffusion import Given, SimilarityGraph
from dahgnn.graph.neighbours import Neighbors, knn


def some_graph(n: int = 40, seed: int = 0) -> SimilarityGraph:
    points = torch.randn(n, 3, generator=torch.Generator().manual_seed(seed))
    return SimilarityGraph.from_neighbors(knn(points, 5))


def dense(graph: SimilarityGraph) -> tuple[np.ndarray, np.ndarray]:
    """W and L = D − W."""
    weights = graph.similarities.toarray()
    return weights, np.diag(weights.sum(1)) - weights


LABELLED = np.array([3, 17, 20, 31])
TARGETS = np.eye(3)[[0, 1, 2, 1]]


def test_similarities_are_those_of_calder_et_al():
    neighbors = Neighbors(
        torch.tensor([[1, 2], [0, 2], [1, 0]]), torch.tensor([[1.0, 2.0], [1.0, 1.5], [1.5, 2.0]])
    )
    weights = SimilarityGraph.from_neighbors(neighbors).similarities.toarray()
    one_to_two, two_to_one = np.exp(-4 * 1.0), np.exp(-4 * (1.5 / 2) ** 2)
    assert weights[1, 2] == weights[2, 1] == pytest.approx((one_to_two + two_to_one) / 2)
    assert weights[0, 1] == pytest.approx((np.exp(-1) + np.exp(-4 * (1 / 1.5) ** 2)) / 2)
    assert weights.diagonal().tolist() == [0, 0, 0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("pairs", [1 << 22, 7])
def test_similarities_and_their_spread_are_those_of_a_dense_matrix(dtype, pairs, monkeypatch):
    monkeypatch.setattr("dahgnn.graph.similarities._PAIRS", pairs)
    monkeypatch.setattr("dahgnn.graph.diffusion._AT_ONCE", pairs)
    generator = torch.Generator().manual_seed(0)
    # Rows that name a node twice, or themselves, and nodes that nobody names.
    indices = torch.randint(0, 30, (50, 4), generator=generator)
    neighbors = Neighbors(indices, torch.rand(50, 4, generator=generator).sort(1).values)
    directed = np.zeros((50, 50))
    for i in range(50):
        farthest = float(neighbors.distances[i].max())
        for j, distance in zip(indices[i].tolist(), neighbors.distances[i].tolist(), strict=True):
            directed[i, j] += (i != j) * np.exp(-4 * (distance / farthest) ** 2)
    expected = (directed + directed.T) / 2
    graph = SimilarityGraph.from_neighbors(neighbors, dtype=dtype)
    tolerance = 1e-6 if dtype == torch.float32 else 1e-12
    np.testing.assert_allclose(graph.similarities.toarray(), expected, rtol=tolerance)
    assert graph.similarities.data.dtype == (np.float32 if dtype == torch.float32 else np.float64)
    degrees = expected.sum(1)
    np.testing.assert_allclose(graph.degrees, np.where(degrees > 0, degrees, 1), rtol=tolerance)
    roots = 1 / np.sqrt(graph.degrees)
    spread = graph._spread(torch.eye(50, dtype=dtype).unsqueeze(2)).squeeze(2)
    np.testing.assert_allclose(spread, roots[:, None] * expected * roots, rtol=2 * tolerance)


def test_without_a_prior_every_free_node_is_the_mean_of_its_neighbours():
    graph = some_graph()
    values = graph.smooth(LABELLED, TARGETS)
    weights, laplacian = dense(graph)
    free = np.setdiff1d(np.arange(40), LABELLED)
    expected = np.linalg.solve(laplacian[np.ix_(free, free)], weights[np.ix_(free, LABELLED)] @ TARGETS)
    np.testing.assert_allclose(values[free], expected, atol=1e-4)
    np.testing.assert_array_equal(values[LABELLED], TARGETS)
    np.testing.assert_allclose(values.sum(1), 1)


@pytest.mark.parametrize("strength", [0.05, 1.0, 30.0])
def test_smoothing_solves_its_system(strength):
    graph = some_graph()
    prior = np.random.default_rng(0).dirichlet(np.ones(3), 40)
    values = graph.smooth(LABELLED, TARGETS, prior, strength)
    weights, laplacian = dense(graph)
    degrees = np.diag(weights.sum(1))
    free = np.setdiff1d(np.arange(40), LABELLED)
    system = (laplacian + strength * degrees)[np.ix_(free, free)]
    right = weights[np.ix_(free, LABELLED)] @ TARGETS + strength * (degrees @ prior)[free]
    np.testing.assert_allclose(values[free], np.linalg.solve(system, right), atol=1e-4)


def test_a_strong_prior_stays_as_it_is():
    graph = some_graph()
    prior = np.random.default_rng(0).dirichlet(np.ones(3), 40)
    free = np.setdiff1d(np.arange(40), LABELLED)
    np.testing.assert_allclose(graph.smooth(LABELLED, TARGETS, prior, 1e6)[free], prior[free], atol=1e-4)


def test_poisson_learning_solves_its_system():
    graph = some_graph()
    weights, laplacian = dense(graph)
    for damping in (0.01, 0.3):
        right = np.zeros((40, 3))
        right[LABELLED] = TARGETS - TARGETS.mean(0)
        expected = np.linalg.solve(laplacian + damping * np.diag(weights.sum(1)), right)
        found = graph.spread_poisson(LABELLED, TARGETS, damping)
        np.testing.assert_allclose(found, expected, atol=1e-3 * np.abs(expected).max())


def some_problems() -> list[Given]:
    """Sets of labelled nodes that differ in number, classes and weights, one of them of a single node."""
    weights = np.array([0.5, 3.0, 1.0, 2.0])
    others = np.array([0, 3, 8, 39, 12])
    return [
        Given(LABELLED, TARGETS),
        Given(LABELLED, TARGETS, weights),
        Given(others, np.eye(3)[[2, 2, 0, 1, 0]]),
        Given(LABELLED[1:2], TARGETS[1:2]),
        Given(others, np.random.default_rng(1).dirichlet(np.ones(3), 5), np.arange(1.0, 6)),
    ]


def some_priors(count: int) -> np.ndarray:
    return np.random.default_rng(0).dirichlet(np.ones(3), (40, count))


def in_single(graph: SimilarityGraph) -> SimilarityGraph:
    return SimilarityGraph.from_matrix(graph.similarities, dtype=torch.float32)


@pytest.fixture(params=[None, 80, 1])
def _some_at_a_time(request, monkeypatch):
    """All problems at a time, or one at a time with two of its classes, or with one."""
    if request.param is not None:
        monkeypatch.setattr(diffusion, "_MOST_NUMBERS", request.param)


@pytest.mark.usefixtures("_some_at_a_time")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("strength", [0.05, 1.0, 30.0])
def test_smoothing_several_problems_solves_each_of_their_systems(strength, dtype):
    graph = SimilarityGraph.from_matrix(some_graph().similarities, dtype=dtype)
    given = some_problems()
    priors = some_priors(len(given))
    found = graph.smooth_all(given, torch.from_numpy(priors), strength)
    assert found.shape == (40, 5, 3)
    assert found.dtype == dtype
    weights, laplacian = dense(graph)
    degrees = np.diag(weights.sum(1))
    for problem, (nodes, values, _) in enumerate(given):
        free = np.setdiff1d(np.arange(40), nodes)
        system = (laplacian + strength * degrees)[np.ix_(free, free)]
        right = weights[np.ix_(free, nodes)] @ values + strength * (degrees @ priors[:, problem])[free]
        np.testing.assert_allclose(found[free, problem], np.linalg.solve(system, right), atol=1e-4)
        np.testing.assert_allclose(found[nodes, problem], values, rtol=1e-6)


@pytest.mark.usefixtures("_some_at_a_time")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("damping", [0.01, 0.3])
def test_poisson_learning_of_several_problems_solves_each_of_their_systems(damping, dtype):
    graph = SimilarityGraph.from_matrix(some_graph().similarities, dtype=dtype)
    given = some_problems()
    found = graph.spread_poisson_all(given, damping)
    assert found.shape == (40, 5, 3)
    assert found.dtype == dtype
    weights, laplacian = dense(graph)
    for problem, (nodes, values, counts) in enumerate(given):
        counts = np.ones(len(nodes)) if counts is None else counts
        right = np.zeros((40, 3))
        right[nodes] = counts[:, None] * (values - np.average(values, 0, counts))
        expected = np.linalg.solve(laplacian + damping * np.diag(weights.sum(1)), right)
        np.testing.assert_allclose(found[:, problem], expected, atol=1e-3 * np.abs(expected).max())
    assert not found[:, 3].any()  # a single label is its own mean


@pytest.mark.usefixtures("_some_at_a_time")
@pytest.mark.parametrize("pairs", [1 << 22, 7])
def test_neither_an_order_nor_files_change_what_comes(pairs, tmp_path, monkeypatch):
    monkeypatch.setattr("dahgnn.graph.similarities._PAIRS", pairs)
    monkeypatch.setattr("dahgnn.graph.diffusion._AT_ONCE", pairs)
    plain, given = some_graph(), some_problems()
    order = torch.randperm(40, generator=torch.Generator().manual_seed(0)).to(torch.int32)
    priors = torch.from_numpy(some_priors(len(given)))
    with Scratch(tmp_path, large=1) as scratch:
        ordered = SimilarityGraph.from_matrix(plain.similarities, order=order, scratch=scratch)
        for strength, those in ((0.0, None), (0.1, priors)):
            found = ordered.smooth_all(given, those, strength)
            torch.testing.assert_close(found, plain.smooth_all(given, those, strength))
            assert is_in(found, tmp_path)  # it streams to the disk
        torch.testing.assert_close(ordered.spread_poisson_all(given), plain.spread_poisson_all(given))
        matrix = ordered._spread(torch.eye(40, dtype=torch.float64).unsqueeze(2)).squeeze(2)
        there = plain._spread(torch.eye(40, dtype=torch.float64).unsqueeze(2)).squeeze(2)
        assert torch.equal(matrix, there[order.long()][:, order.long()])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("strength", [0.0, 0.1, 3.0])
def test_problems_at_a_time_are_those_alone(strength):
    graph, given = some_graph(), some_problems()
    priors = some_priors(len(given)) if strength else None
    together = graph.smooth_all(given, None if priors is None else torch.from_numpy(priors), strength)
    spread = graph.spread_poisson_all(given)
    for problem, (nodes, values, weights) in enumerate(given):
        prior = None if priors is None else priors[:, problem]
        alone = graph.smooth(nodes, values, prior, strength)
        # A problem takes as many steps as the slowest one, so that it is the same up to the tolerance.
        np.testing.assert_allclose(together[:, problem], alone, atol=1e-4)
        alone = graph.spread_poisson(nodes, values, weights=weights)
        np.testing.assert_allclose(spread[:, problem], alone, atol=1e-4 * np.abs(alone).max())
    assert (together[:, 0] - together[:, 2]).abs().max() > 0.1
    assert (spread[:, 0] - spread[:, 1]).abs().max() > 0.1 * spread[:, 0].abs().max()


@pytest.mark.parametrize("strength", [0.0, 0.1])
def test_single_precision_is_near_double(strength):
    exact, given = some_graph(200), some_problems()
    priors = torch.from_numpy(np.random.default_rng(0).dirichlet(np.ones(3), (200, 5))) if strength else None
    single = in_single(exact)
    found, expected = (graph.smooth_all(given, priors, strength) for graph in (single, exact))
    assert (found.dtype, expected.dtype) == (torch.float32, torch.float64)
    np.testing.assert_allclose(found, expected, atol=3e-4)
    np.testing.assert_allclose(found.sum(2), 1, rtol=1e-5)
    found, expected = (graph.spread_poisson_all(given) for graph in (single, exact))
    np.testing.assert_allclose(found, expected, atol=1e-3 * expected.abs().max())
    # What a single problem gives is of double precision whatever it was computed in.
    assert (
        single.smooth(LABELLED, TARGETS).dtype == single.spread_poisson(LABELLED, TARGETS).dtype == np.float64
    )


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_cuda_device_solves_systems_of_several_shapes_in_turn():
    graph = some_graph()
    where = {"device": torch.device("cuda"), "dtype": torch.float64}
    there = SimilarityGraph.from_matrix(graph.similarities, **where)
    problems, few = some_problems(), some_problems()[:1]
    for given in (problems, few, problems, few[:1]):
        priors = torch.from_numpy(some_priors(len(given)))
        for strength in (0.1, 2.0):
            expected = graph.smooth_all(given, priors, strength)
            found = there.smooth_all(given, priors.to("cuda"), strength).cpu()
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(
            there.spread_poisson_all(given).cpu(), graph.spread_poisson_all(given), rtol=1e-3, atol=1e-3
        )


def test_a_node_that_is_given_twice_flows_twice():
    graph = some_graph()
    twice = graph.spread_poisson(np.r_[LABELLED, 3], np.vstack([TARGETS, TARGETS[:1]]))
    heavy = graph.spread_poisson(LABELLED, TARGETS, weights=np.array([2.0, 1, 1, 1]))
    np.testing.assert_allclose(twice, heavy, atol=1e-4 * np.abs(heavy).max())


def test_a_component_without_a_label_gets_its_prior_or_nothing():
    part = some_graph(20)
    graph = SimilarityGraph.from_matrix(csr_array(block_diag([part.similarities, part.similarities])))
    labelled, targets = np.array([1, 2]), np.eye(2)
    np.testing.assert_allclose(graph.smooth(labelled, targets)[20:], 0.5)
    prior = np.tile([0.9, 0.1], (40, 1))
    np.testing.assert_allclose(graph.smooth(labelled, targets, prior, 0.1)[20:], prior[20:], atol=1e-4)
    np.testing.assert_allclose(graph.spread_poisson(labelled, targets)[20:], 0, atol=1e-12)


def test_equal_points_and_isolated_nodes_are_no_trouble():
    graph = SimilarityGraph.from_neighbors(knn(torch.ones(12, 2), 3))
    values = graph.smooth(np.array([0, 5]), np.eye(2))
    assert np.isfinite(values).all()
    alone = SimilarityGraph.from_matrix(csr_array((3, 3)))
    np.testing.assert_allclose(alone.smooth(np.array([0]), np.eye(2)[:1])[1:], 0.5)
    assert np.isfinite(alone.spread_poisson(np.array([0]), np.eye(2)[:1])).all()


def test_the_numbering_makes_no_difference():
    points = torch.randn(40, 3, generator=torch.Generator().manual_seed(3))
    order = np.random.default_rng(1).permutation(40)
    places = np.argsort(order)
    first = SimilarityGraph.from_neighbors(knn(points, 5)).smooth(LABELLED, TARGETS)
    second = SimilarityGraph.from_neighbors(knn(points[order], 5)).smooth(places[LABELLED], TARGETS)
    np.testing.assert_allclose(second, first[order], atol=1e-4)


@pytest.mark.filterwarnings("ignore")
def test_laplace_and_poisson_learning_are_those_of_graphlearning():
    graphlearning = pytest.importorskip("graphlearning")
    graph = some_graph(200)
    labelled = np.arange(0, 200, 20)
    classes = np.arange(len(labelled)) % 3
    weights = csr_array(graph.similarities)
    theirs = graphlearning.ssl.laplace(weights).fit(labelled, classes)
    np.testing.assert_allclose(graph.smooth(labelled, np.eye(3)[classes]), theirs, atol=1e-4)
    theirs = graphlearning.ssl.poisson(weights).fit(labelled, classes)
    ours = graph.spread_poisson(labelled, np.eye(3)[classes], damping=1e-8)
    ours -= graph.degrees @ ours / graph.degrees.sum()
    np.testing.assert_allclose(ours, theirs, atol=1e-3 * np.abs(theirs).max())


# Some rows of what graphlearning 1.7.5 gives for the ring below.
THEIR_LAPLACE = {
    1: [0.33159, 0.45945, 0.20896],
    5: [0.18330, 0.39840, 0.41830],
    8: [0.24990, 0.52998, 0.22013],
    11: [0.37788, 0.47857, 0.14355],
}
THEIR_POISSON = {
    0: [0.15967, -0.09674, -0.06294],
    1: [0.01730, -0.01068, -0.00664],
    5: [-0.02055, -0.02050, 0.04104],
    10: [-0.03465, 0.08595, -0.05133],
}


def test_laplace_and_poisson_learning_gave_this_in_graphlearning():
    weights = np.zeros((12, 12))
    for node in range(12):  # a ring with chords
        for step, weight in ((1, 1.0), (3, 0.5), (5, 0.25)):
            other = (node + step) % 12
            weights[node, other] += weight * (1 + node / 12)
            weights[other, node] = weights[node, other]
    graph = SimilarityGraph.from_matrix(csr_array((weights + weights.T) / 2))
    labelled, targets = np.array([0, 3, 4, 10]), np.eye(3)[[0, 1, 2, 1]]
    smooth = graph.smooth(labelled, targets)
    spread = graph.spread_poisson(labelled, targets, damping=1e-8)
    spread -= graph.degrees @ spread / graph.degrees.sum()
    np.testing.assert_allclose(smooth[list(THEIR_LAPLACE)], list(THEIR_LAPLACE.values()), atol=2e-5)
    np.testing.assert_allclose(spread[list(THEIR_POISSON)], list(THEIR_POISSON.values()), atol=2e-4)
