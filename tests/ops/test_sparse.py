"""Operations on incidences against plain loops, in value and in gradient."""

import pytest
import torch
from oracles import HYPERGRAPHS, LEAKY_SLOPE, assert_close, gradients, normal

from dahgnn import Hypergraph
from dahgnn.kernels.incidence import Incidence
from dahgnn.ops import sparse as ops

NAMES = ("uniform", "ragged", "isolated", "all nodes")
WAYS = ("to_hyperedges", "to_nodes")


@pytest.fixture(params=[(name, way) for name in NAMES for way in WAYS], ids=" ".join)
def incidence(request):
    name, way = request.param
    return getattr(HYPERGRAPHS[name](), way)


def pairs(incidence):
    """(source, target) of each incidence, from the forward order alone."""
    offsets, indices = incidence.forward.offsets.tolist(), incidence.forward.indices.tolist()
    return [
        (indices[position], target)
        for target in range(len(offsets) - 1)
        for position in range(offsets[target], offsets[target + 1])
    ]


def positions_of(incidence, target):
    return [position for position, (_, owner) in enumerate(pairs(incidence)) if owner == target]


def n_sources(incidence):
    return len(incidence.backward)


def n_targets(incidence):
    return len(incidence.forward)


def leaf(*shape, seed=0):
    return normal(*shape, seed=seed).requires_grad_()


def check(function, expected, *leaves):
    """Compare with a loop; then the gradient with finite differences and with the loop's."""
    actual = function(*leaves)
    assert_close(actual, expected)
    assert torch.autograd.gradcheck(function, leaves)
    assert_close(gradients([actual], leaves), gradients([expected], leaves))


def test_to_hyperedges_and_to_nodes_join_members():
    hypergraph = Hypergraph.from_hyperedges([[2, 0], [1, 2, 3]], n_nodes=5, cover_isolated=False)
    assert pairs(hypergraph.to_hyperedges) == [(0, 0), (2, 0), (1, 1), (2, 1), (3, 1)]
    assert pairs(hypergraph.to_nodes) == [(0, 0), (1, 1), (0, 2), (1, 2), (1, 3)]


def test_owners_are_targets_and_positions_lead_back_from_sources(incidence):
    joined = pairs(incidence)
    assert incidence.owners.tolist() == [target for _, target in joined]
    assert incidence.forward.owners().tolist() == incidence.owners.tolist()
    backward = zip(incidence.backward.owners().tolist(), incidence.backward.indices.tolist(), strict=True)
    assert list(backward) == [joined[position] for position in incidence.positions]


def test_gather_gives_each_incidence_its_source(incidence):
    values = leaf(n_sources(incidence), 2, 3)
    expected = torch.stack([values[source] for source, _ in pairs(incidence)])
    check(lambda values: ops.gather(values, incidence), expected, values)


def test_spread_gives_each_incidence_its_target(incidence):
    values = leaf(n_targets(incidence), 2)
    expected = torch.stack([values[target] for _, target in pairs(incidence)])
    check(lambda values: ops.spread(values, incidence), expected, values)


def test_segment_sum_adds_the_incidences_of_each_target(incidence):
    values = leaf(len(incidence.owners), 2)
    expected = torch.stack(
        [values[positions_of(incidence, target)].sum(0) for target in range(n_targets(incidence))]
    )
    check(lambda values: ops.segment_sum(values, incidence), expected, values)


@pytest.mark.parametrize("width", [(3,), (2, 3)])
def test_gather_sum_adds_the_sources_of_each_target(incidence, width):
    values = leaf(n_sources(incidence), *width)
    expected = torch.stack(
        [
            sum((values[source] for source, owner in pairs(incidence) if owner == target), torch.zeros(width))
            for target in range(n_targets(incidence))
        ]
    )
    check(lambda values: ops.gather_sum(values, incidence), expected, values)


@pytest.mark.parametrize("width", [(), (3,), (2, 4)], ids=str)
def test_gather_sum_weighs_each_incidence(incidence, width):
    values, scales = leaf(n_sources(incidence), *width), normal(n_targets(incidence), seed=3)
    weights = normal(len(incidence.owners), seed=2)
    expected = torch.stack(
        [
            scale
            * sum(
                (
                    weights[place] * values[pairs(incidence)[place][0]]
                    for place in positions_of(incidence, target)
                ),
                torch.zeros(width, dtype=torch.float64),
            )
            for target, scale in enumerate(scales)
        ]
    )
    check(lambda values: ops.gather_sum(values, incidence, None, scales, weights=weights), expected, values)


def test_attention_scores_are_leaky_sums(incidence):
    source, target = leaf(n_sources(incidence), 2), leaf(n_targets(incidence), 2, seed=1)
    sums = torch.stack([source[i] + target[k] for i, k in pairs(incidence)])
    assert bool((sums < 0).any())
    expected = torch.maximum(sums, LEAKY_SLOPE * sums)
    check(lambda source, target: ops.attention_scores(source, target, incidence), expected, source, target)


def test_segment_softmax_normalises_each_target_and_head(incidence):
    scores = leaf(len(incidence.owners), 3)
    owners = torch.tensor([target for _, target in pairs(incidence)])
    rows = [
        scores[position].exp() / scores[owners == owners[position]].exp().sum(0)
        for position in range(len(scores))
    ]
    check(lambda scores: ops.segment_softmax(scores, incidence), torch.stack(rows), scores)


def test_segment_softmax_sums_to_one_per_target(incidence):
    coefficients = ops.segment_softmax(10 * normal(len(incidence.owners), 3), incidence)
    sums = ops.segment_sum(coefficients, incidence)
    sizes = incidence.forward.offsets.diff()
    assert_close(sums, (sizes > 0).double()[:, None].expand(-1, 3))


@pytest.mark.parametrize("shift", [-1000.0, 1000.0])
def test_segment_softmax_bears_large_scores(incidence, shift):
    scores = normal(len(incidence.owners), 2)
    shifted = ops.segment_softmax(scores + shift, incidence)
    assert torch.isfinite(shifted).all()
    torch.testing.assert_close(shifted, ops.segment_softmax(scores, incidence))


def test_weighted_sum_weighs_each_head_by_itself(incidence):
    values = leaf(n_sources(incidence), 2, 3)
    coefficients = leaf(len(incidence.owners), 2, seed=1)
    sums = [torch.zeros(2, 3, dtype=torch.float64) for _ in range(n_targets(incidence))]
    for coefficient, (source, target) in zip(coefficients, pairs(incidence), strict=True):
        sums[target] = sums[target] + coefficient[:, None] * values[source]
    check(
        lambda values, coefficients: ops.weighted_sum(values, coefficients, incidence),
        torch.stack(sums),
        values,
        coefficients,
    )


def test_empty_segments_give_zeros():
    hypergraph = Hypergraph.from_hyperedges([[1, 2]], n_nodes=5, cover_isolated=False)
    summed = ops.gather_sum(torch.ones(1, 2), hypergraph.to_nodes)
    assert summed.tolist() == [[0, 0], [1, 1], [1, 1], [0, 0], [0, 0]]


def similarity_loop(directions, delta, forward):
    offsets, indices = forward.offsets.tolist(), forward.indices.tolist()
    rows = []
    for node, row in enumerate(directions):
        products = [(row * directions[other]).sum(-1) for other in indices[offsets[node] : offsets[node + 1]]]
        counted = [torch.where(product > delta, product, 0.0) for product in products]
        rows.append(sum(counted, torch.zeros(directions.shape[1], dtype=torch.float64)))
    return torch.stack(rows)


@pytest.mark.parametrize("delta", [-0.5, 0.0, 0.3])
@pytest.mark.parametrize("kind", ["centre", "shared"])
@pytest.mark.parametrize("name", [*NAMES, "centred"])
def test_similarity_sum_adds_products_over_delta(name, kind, delta):
    hypergraph = HYPERGRAPHS[name]()
    forward, backward = hypergraph.neighbourhood(kind)
    directions = leaf(hypergraph.n_nodes, 2, 3)
    check(
        lambda directions: ops.similarity_sum(directions, delta, forward, backward),
        similarity_loop(directions, delta, forward),
        directions,
    )


@pytest.mark.parametrize("block", [1, 20, 50])
@pytest.mark.parametrize("name", NAMES)
def test_similarity_sum_does_not_depend_on_blocks(monkeypatch, name, block):
    hypergraph = HYPERGRAPHS[name]()
    forward, backward = hypergraph.neighbourhood("shared")
    directions = leaf(hypergraph.n_nodes, 2, 3)
    whole = ops.similarity_sum(directions, 0.3, forward, backward)
    whole_gradient = gradients([whole], [directions])
    monkeypatch.setattr(ops, "_BLOCK", block)
    cut = ops.similarity_sum(directions, 0.3, forward, backward)
    assert_close(cut, whole)
    assert_close(gradients([cut], [directions]), whole_gradient)


@pytest.mark.parametrize("most", [0, 1, 4, 1000])
@pytest.mark.parametrize("name", NAMES)
def test_blocks_cover_the_segments_in_order_within_the_limit(name, most):
    segments = HYPERGRAPHS[name]().neighbourhood("shared")[0]
    blocks = list(ops._blocks(segments, most))
    covered = [segment for start, stop, _ in blocks for segment in range(start, stop)]
    assert covered == list(range(len(segments)))
    for start, stop, pairs in blocks:
        first, last = segments.offsets[[start, stop]].tolist()
        assert pairs.indices(len(segments.indices))[:2] == (first, last)
        assert last - first <= most or stop - start == 1


def test_a_gradient_needs_a_backward_order(incidence):
    forward_only = Incidence.forward_only(incidence.forward, incidence.owners)
    values = leaf(n_sources(incidence), 2)
    for function in (ops.gather, ops.gather_sum):
        with pytest.raises(ValueError, match="there is no backward order"):
            function(values, forward_only)
        expected = function(values, incidence)
        assert_close(function(values.detach(), forward_only), expected)
        with torch.no_grad():
            assert_close(function(values, forward_only), expected)


def test_results_repeat_bit_for_bit(incidence):
    values = normal(n_sources(incidence), 4).float()
    first = ops.gather_sum(values, incidence)
    assert all(torch.equal(ops.gather_sum(values, incidence), first) for _ in range(5))


@pytest.mark.parametrize("scaled", [True, False])
def test_gather_sum_is_a_product_with_diagonal_matrices_around(incidence, scaled):
    sources, targets = len(incidence.backward), len(incidence.forward)
    dense = torch.zeros(targets, sources, dtype=torch.float64)
    dense[incidence.owners, incidence.forward.indices] = 1
    scales = (normal(sources, seed=1), normal(targets, seed=2)) if scaled else (None, None)
    if scaled:
        dense = scales[1][:, None] * dense * scales[0]
    values = normal(sources, 2, 3, seed=3).requires_grad_()
    expected = torch.einsum("ts,shu->thu", dense, values)
    actual = ops.gather_sum(values, incidence, *scales)
    assert_close(actual, expected)
    weight = normal(*actual.shape, seed=4)
    assert_close(*(torch.autograd.grad((each * weight).sum(), values)[0] for each in (actual, expected)))


@pytest.mark.parametrize(("groups", "inner"), [(1, 5), (1, 100), (3, 4)])
def test_grouped_product_multiplies_each_group_by_itself(groups, inner):
    rows, weights = normal(7, groups, inner), normal(groups, inner, 2, seed=1)
    for backend in ("reference", "auto"):
        product = ops.grouped_product(rows, weights, backend=backend)
        for group in range(groups):
            assert_close(product[:, group], rows[:, group] @ weights[group])
