"""Steps that are one kernel on the CPU, against the same steps one by one: values, gradients, odd shapes."""

import pytest
import torch
from oracles import HYPERGRAPHS, assert_close, gradients, normal
from torch.nn.functional import elu

from dahgnn.kernels.cpu import launch
from dahgnn.kernels.incidence import Segments
from dahgnn.kernels.protocol import Mask
from dahgnn.ops import fused
from dahgnn.ops.backend import using
from dahgnn.ops.dropout import drop_units
from dahgnn.ops.fused import Factor, activated_products, attend_rows, similarity_to
from dahgnn.ops.sparse import similarity_sum, unit_rows

needs_kernels = pytest.mark.skipif(launch.library() is None, reason="the CPU kernels are not built")

TOLERANCE = {torch.float32: 2e-4, torch.float64: 1e-11}
SHAPES = [
    (1, 1, 1, 1),
    (7, 1, 5, 3),
    (300, 3, 8, 1),
    (127, 1, 64, 32),
    (129, 2, 33, 7),
    (300, 1, 32, 10),
    (70, 1, 64, 4),
]


def mask_of(groups, rate=0.4):
    return Mask(torch.arange(3, 3 + groups), torch.full((groups,), 6), 1, rate)


def some_of(rows):
    """Return about a third of the rows, in no order."""
    return torch.randperm(rows, generator=torch.Generator().manual_seed(0))[: -(-rows // 3)]


def one_by_one(rows, factors, activation, mask):
    """Compute what `activated_products` says it does in its own words."""
    active = elu(rows) if activation else rows
    active = active if mask is None else drop_units(active, mask)
    picked = [active if some is None else active[some] for _, some in factors]
    return [torch.einsum("ngi,gio->ngo", each, f.weights) for each, f in zip(picked, factors, strict=True)]


def compare(shape, dtype, activation, dropping):
    rows, groups, inner, outer = shape
    mask = mask_of(groups) if dropping else None
    leaves = [normal(rows, groups, inner, seed=1), normal(groups, inner, outer, seed=2)]
    leaves.append(normal(groups, inner, 3, seed=3))
    # Zeros and large numbers, where an ELU has its corner and its ends.
    leaves[0].view(-1)[::5] = 0
    leaves[0].view(-1)[::7] *= 40
    results = []
    for backend, precision in (("reference", torch.float64), ("kernel", dtype)):
        values, first, second = (leaf.to(precision).requires_grad_() for leaf in leaves)
        factors = [Factor(second, some_of(rows)), Factor(first)]
        with using(backend):
            if backend == "reference":
                products = one_by_one(values, factors, activation, mask)
            else:
                products = activated_products(values, factors, activation=activation, mask=mask)
        total = sum((each * normal(*each.shape, seed=4).to(precision)).sum() for each in products)
        results.append((*products, *torch.autograd.grad(total, (values, first, second))))
    for expected, actual in zip(*results, strict=True):
        scale = max(1.0, expected.abs().max().item())
        assert (actual - expected).abs().max().item() <= TOLERANCE[dtype] * scale


@needs_kernels
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("activation", [False, True])
@pytest.mark.parametrize("dropping", [False, True])
def test_the_kernel_gives_what_the_steps_give(shape, dtype, activation, dropping):
    compare(shape, dtype, activation, dropping)


@needs_kernels
@pytest.mark.parametrize("level", [0, 1, 2])
def test_every_instruction_set_gives_the_same(level):
    library = launch.library()
    before = library.dahgnn_level(-1)
    try:
        library.dahgnn_level(level)
        for dtype in TOLERANCE:
            for shape in SHAPES:
                compare(shape, dtype, activation=True, dropping=True)
    finally:
        library.dahgnn_level(before)


def test_the_reference_chooses_and_drops_too():
    rows, weights, some = normal(20, 2, 6), normal(2, 6, 3, seed=1), torch.tensor([4, 0, 19])
    factors = [Factor(weights), Factor(weights, some)]
    with using("reference"):
        products = activated_products(rows, factors, activation=True, mask=mask_of(2))
    assert_close(products[0], one_by_one(rows, factors, True, mask_of(2))[0])
    assert_close(products[1], products[0][some])


@pytest.mark.parametrize("backend", ["reference", "auto"])
def test_chosen_rows_may_lie_apart_in_memory(backend):
    rows, weights, some = normal(20, 1, 6), normal(1, 6, 3, seed=1), torch.arange(10).view(5, 2)[:, 0]
    with using(backend):
        (product,) = activated_products(rows, [Factor(weights, some)], activation=False, mask=None)
    assert_close(product, rows[some] @ weights[0])


@pytest.mark.parametrize("backend", ["reference", "auto"])
def test_everything_may_fall(backend):
    with using(backend):
        (product,) = activated_products(
            normal(9, 1, 4), [Factor(normal(1, 4, 2))], activation=True, mask=mask_of(1, rate=1.0)
        )
    assert not product.any()


@needs_kernels
def test_a_product_that_nobody_uses_gets_no_gradient():
    rows, used, unused = (
        each.requires_grad_() for each in (normal(9, 1, 4), normal(1, 4, 2), normal(1, 4, 3))
    )
    _, product = activated_products(
        rows, [Factor(unused), Factor(used, torch.tensor([2, 5]))], activation=False, mask=None
    )
    product.sum().backward()
    assert unused.grad is None
    assert rows.grad[[2, 5]].any(-1).all()
    assert not rows.grad[[0, 1, 3, 4, 6, 7, 8]].any()


@needs_kernels
def test_the_number_of_threads_never_changes_a_bit():
    rows, weights, mask = normal(40_000, 1, 16).float(), normal(1, 16, 10).float(), mask_of(1)
    gradient = normal(40_000, 1, 10, seed=5).float()
    threads, results = torch.get_num_threads(), []
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            product = launch.activated_product(rows, weights, True, mask, None)
            both = launch.activated_product_backward(gradient, rows, weights, True, mask, None, None)
            results.append((product, *both))
    finally:
        torch.set_num_threads(threads)
    for other in results[1:]:
        assert all(torch.equal(one, two) for one, two in zip(results[0], other, strict=True))


@needs_kernels
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("inner", [5, 64])
def test_some_of_many_rows_pass_as_they_do_among_all(dtype, inner):
    numbers = torch.tensor([40, 7, 299, 0, 8])
    rows, weights = normal(300, 1, inner).to(dtype), normal(1, inner, 4, seed=1).to(dtype)
    mask = mask_of(1)
    results = []
    for given, dropping in ((rows, mask), (rows[numbers], mask._replace(numbers=numbers))):
        leaf = given.clone().requires_grad_()
        (product,) = activated_products(leaf, [Factor(weights)], activation=True, mask=dropping)
        (slope,) = torch.autograd.grad(product.square().sum(), leaf)
        results.append((product, slope))
    for whole, some in zip(*results, strict=True):
        torch.testing.assert_close(some, whole[numbers])


@needs_kernels
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize(("heads", "units"), [(1, 1), (1, 10), (4, 8), (5, 3), (2, 10)])
@pytest.mark.parametrize("name", ["uniform", "isolated", "more hyperedges than nodes", "all nodes"])
@pytest.mark.parametrize("biased", [True, False])
def test_one_direction_of_a_layer_is_that_of_its_twin(dtype, heads, units, name, biased):
    hypergraph = HYPERGRAPHS[name]()
    for incidence, sources, targets in (
        (hypergraph.to_hyperedges, hypergraph.n_nodes, hypergraph.n_hyperedges),
        (hypergraph.to_nodes, hypergraph.n_hyperedges, hypergraph.n_nodes),
    ):
        drawn = normal(sources, heads, units), normal(heads, units, seed=1), normal(targets, heads, seed=2)
        bias = normal(sources, heads, seed=3) if biased else None
        results = []
        for backend, precision in (("reference", torch.float64), ("kernel", dtype)):
            leaves = [each.to(precision).requires_grad_() for each in drawn]
            with using(backend):
                given = None if bias is None else bias.to(precision)
                sums = attend_rows(*leaves, given, incidence)
            results.append([sums, *gradients([sums], leaves)])
        for expected, actual in zip(*results, strict=True):
            assert actual.dtype == dtype
            tolerance = TOLERANCE[dtype]
            torch.testing.assert_close(actual.double(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("backend", ["auto", "reference"])
@pytest.mark.parametrize("delta", [-1.0, 0.2, 1.0])
@pytest.mark.parametrize(("heads", "units"), [(1, 10), (4, 8), (3, 5)])
@pytest.mark.parametrize("rows_at_once", [1 << 16, 5])
def test_the_first_rows_are_as_similar_as_among_all(backend, delta, heads, units, rows_at_once, monkeypatch):
    monkeypatch.setattr(fused, "_ROWS_AT_ONCE", rows_at_once)
    hypergraph = HYPERGRAPHS["centred"]()
    near, converse = hypergraph.neighbourhood("shared")
    rows = normal(hypergraph.n_nodes, heads, units)
    rows[2] = 0
    expected = similarity_sum(unit_rows(rows), delta, near, converse)
    some = Segments(near.offsets[:4], near.indices[: int(near.offsets[3])])
    with using(backend):
        assert_close(similarity_to(rows, delta, near), expected)
        assert_close(similarity_to(rows, delta, some), expected[:3])


@needs_kernels
@pytest.mark.parametrize("active", [(), (3,), (0, 7, 2999), tuple(range(0, 3000, 2)), tuple(range(3000))])
def test_rows_without_a_gradient_may_be_left_out(active):
    values, weights = normal(3000, 2, 6), normal(2, 6, 3, seed=1)
    given = torch.zeros(3000, 2, 3, dtype=values.dtype)
    given[list(active)] = normal(len(active), 2, 3, seed=2)
    results = []
    for backend in ("reference", "auto"):
        rows, weight = (each.clone().requires_grad_() for each in (values, weights))
        with using(backend):
            (product,) = activated_products(rows, [Factor(weight)], activation=True, mask=mask_of(2))
            results.append(torch.autograd.grad(product, (rows, weight), given))
    for expected, actual in zip(*results, strict=True):
        assert_close(actual, expected)
