"""The compiled kernels against their twins, the plain PyTorch: values, gradients, odd shapes."""

import logging
import subprocess
import sys

import pytest
import torch
from message_cases import attention
from oracles import normal

from dahgnn import DAHGNN, Hypergraph
from dahgnn.kernels.cpu import launch as cpu_kernels
from dahgnn.kernels.protocol import Vectors
from dahgnn.nn.messages import pass_messages
from dahgnn.ops.backend import using
from dahgnn.ops.propagated import PropagatedFeatures
from dahgnn.ops.sparse import gather_sum, grouped_product

pytestmark = pytest.mark.skipif(cpu_kernels.library() is None, reason="the kernels were not built")

TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-11}
SHAPES = [
    (1, 1),
    (1, 8),
    (1, 10),
    (2, 3),
    (3, 8),
    (4, 8),
    (4, 5),
    (4, 10),
    (8, 7),
    (5, 64),
    (1, 64),
    (40, 8),
    (10, 10),
]


def ragged(n_nodes: int, n_hyperedges: int, seed: int) -> Hypergraph:
    """Hyperedges of one to seven nodes, one of a thousand, and nodes in none of them."""
    generator = torch.Generator().manual_seed(seed)
    sizes = torch.randint(1, 8, (n_hyperedges,), generator=generator)
    lists = [torch.randint(0, n_nodes, (int(size),), generator=generator) for size in sizes]
    lists.append(torch.arange(min(1000, n_nodes - 1)))
    centres = [int(each[0]) for each in lists]
    return Hypergraph.from_hyperedges(lists, n_nodes=n_nodes, centres=centres, cover_isolated=False)


HYPERGRAPHS = {
    "one node": lambda: Hypergraph.from_hyperedges([[0]], n_nodes=1),
    "uniform": lambda: Hypergraph.from_neighbors(
        torch.randint(0, 301, (301, 10), generator=torch.Generator().manual_seed(0))
    ),
    "ragged": lambda: ragged(1203, 700, seed=1),
}


@pytest.fixture(params=HYPERGRAPHS)
def hypergraph(request):
    return HYPERGRAPHS[request.param]()


def make_inputs(hypergraph, heads, units):
    """WX, terms of hyperedges, and attention vectors, in float64."""
    wx = normal(hypergraph.n_nodes, heads, units, seed=1)
    wx[2::5] = 0
    vectors = [normal(heads, units, seed=seed) for seed in (3, 4, 5)]
    return [wx, normal(hypergraph.n_hyperedges, heads, seed=2), *vectors]


def compute(inputs, gradients, hypergraph, backend, delta, **switches):
    """Return nodes, hyperedges and the gradients of all inputs."""
    wx, e_term, *vectors = leaves = [each.detach().requires_grad_() for each in inputs]
    config = attention(delta, **switches)
    results = pass_messages(wx, e_term, Vectors(*vectors), hypergraph, config, backend=backend)
    wanted = [(result, given) for result, given in zip(results, gradients, strict=True) if given is not None]
    found = torch.autograd.grad([each for each, _ in wanted], leaves, [each for _, each in wanted])
    return [result.detach() for result in results] + list(found)


def assert_near(actual, expected, dtype):
    for first, second in zip(actual, expected, strict=True):
        scale = max(1.0, float(second.abs().max()))
        assert first.dtype == dtype
        torch.testing.assert_close(
            first.double(), second, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype] * scale
        )


def check(hypergraph, inputs, gradients, dtype, **settings):
    """Compare with the reference in double precision."""
    expected = compute(inputs, gradients, hypergraph, "reference", **settings)
    inputs, gradients = (
        [None if each is None else each.to(dtype) for each in group] for group in (inputs, gradients)
    )
    assert_near(compute(inputs, gradients, hypergraph, "kernel", **settings), expected, dtype)


def make_gradients(hypergraph, heads, units):
    gradients = [
        normal(count, heads, units, seed=6) for count in (hypergraph.n_nodes, hypergraph.n_hyperedges)
    ]
    gradients[0][::3] = 0  # rows without a gradient are passed over
    return gradients


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize(("heads", "units"), SHAPES)
def test_a_layer_is_that_of_the_reference(hypergraph, heads, units, dtype):
    # In single precision some cosine would lie so near any threshold that its rounding decides; those of one
    # unit are -1, 0 and 1.
    delta = 0.4 if dtype == torch.float64 or units == 1 else -1.0
    gradients = make_gradients(hypergraph, heads, units)
    check(hypergraph, make_inputs(hypergraph, heads, units), gradients, dtype, delta=delta)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("delta", [None, -1.0, 1.0])
@pytest.mark.parametrize("activation", [True, False])
@pytest.mark.parametrize("given", [(True, False), (True, True), (False, True)])
@pytest.mark.parametrize(("heads", "units"), [(4, 8), (1, 10), (3, 5)])
def test_a_layer_in_each_setting(heads, units, delta, activation, given, dtype):
    hypergraph = HYPERGRAPHS["ragged"]()
    gradients = [
        each if wanted else None
        for each, wanted in zip(make_gradients(hypergraph, heads, units), given, strict=True)
    ]
    inputs = make_inputs(hypergraph, heads, units)
    if not given[0]:  # then the vectors of the way back reach nothing
        expected, actual = (
            compute_hyperedges(inputs, gradients[1], hypergraph, backend, dtype, delta)
            for backend in ("reference", "kernel")
        )
        assert_near(actual, expected, dtype)
    else:
        check(hypergraph, inputs, gradients, dtype, delta=delta, final_activation=activation)


def compute_hyperedges(inputs, gradient, hypergraph, backend, dtype, delta):
    dtype = torch.float64 if backend == "reference" else dtype
    leaves = [each.to(dtype).requires_grad_() for each in inputs]
    vectors = Vectors(*leaves[2:])
    _, hyperedges = pass_messages(*leaves[:2], vectors, hypergraph, attention(delta), backend=backend)
    return torch.autograd.grad(hyperedges, leaves[:3], gradient.to(dtype))


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize(("heads", "units"), [(4, 8), (1, 10), (3, 5)])
@pytest.mark.parametrize("step", [40, 1000])
def test_few_rows_have_a_gradient(step, heads, units, dtype):
    # So few that the targets with a gradient are picked out: of the nodes, and with the larger step of the
    # hyperedges too.
    hypergraph = HYPERGRAPHS["uniform"]()
    gradient = torch.zeros(hypergraph.n_nodes, heads, units, dtype=torch.float64)
    gradient[7::step] = normal(*gradient[7::step].shape, seed=6)
    check(hypergraph, make_inputs(hypergraph, heads, units), [gradient, None], dtype, delta=-1.0)


@pytest.mark.parametrize("shift", [-100.0, 100.0])
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_scores_all_below_or_above_zero(shift, dtype):
    hypergraph = HYPERGRAPHS["uniform"]()
    inputs = make_inputs(hypergraph, 4, 8)
    inputs[1] = inputs[1] + shift
    check(hypergraph, inputs, make_gradients(hypergraph, 4, 8), dtype, delta=-1.0)


def test_equal_densities_change_nothing():
    hypergraph = HYPERGRAPHS["uniform"]()
    inputs = make_inputs(hypergraph, 4, 8)
    inputs[0] = inputs[0][:1].abs().expand(301, 4, 8) * torch.linspace(0.1, 9, 301)[:, None, None]
    hypergraph = Hypergraph.from_neighbors((torch.arange(301)[:, None] + torch.arange(1, 6)) % 301)
    gradients = make_gradients(hypergraph, 4, 8)
    inputs, gradients = ([each.float() for each in group] for group in (inputs, gradients))
    first, second = (compute(inputs, gradients, hypergraph, "kernel", delta=delta) for delta in (0.4, None))
    for one, other in zip(first, second, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize(("heads", "units"), [(4, 8), (1, 10), (3, 5)])
@pytest.mark.parametrize("exponent", [-100, -70, 65])
def test_the_density_does_not_see_the_length_of_rows(exponent, heads, units):
    hypergraph = HYPERGRAPHS["uniform"]()
    wx, e_term, *vectors = (each.float() for each in make_inputs(hypergraph, heads, units))
    results = []
    for factor in (2.0**-20, 2.0**exponent):
        # Powers of two leave the scores as they are; so small, a row is its own ELU, where it is positive.
        scaled = Vectors(*(each / factor for each in vectors))
        nodes, hyperedges = pass_messages(
            wx * factor, e_term, scaled, hypergraph, attention(-1.0), backend="kernel"
        )
        results.append([(each / factor).clamp_min(0) for each in (nodes, hyperedges)])
    if exponent > 0:  # then the ELU makes nothing of the hyperedges' negative units, and the nodes see it
        results = [[hyperedges] for _, hyperedges in results]
    for first, second in zip(*results, strict=True):
        torch.testing.assert_close(second, first, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("heads", "units"), [(4, 8), (1, 10), (3, 5)])
def test_no_cosine_is_greater_than_one(heads, units):
    hypergraph = HYPERGRAPHS["uniform"]()
    wx, e_term, *vectors = (each.float() for each in make_inputs(hypergraph, heads, units))
    lengths = normal(301, seed=7).float().clamp_min(0)  # rows of one direction, and of none
    wx = wx[:1] * lengths[:, None, None]
    first, second = (
        pass_messages(wx, e_term, Vectors(*vectors), hypergraph, attention(delta), backend="kernel")
        for delta in (1.0, None)
    )
    assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))


def test_extreme_scores_stay_finite():
    hypergraph = HYPERGRAPHS["uniform"]()
    inputs = make_inputs(hypergraph, 4, 8)
    inputs[1] = 1e4 * inputs[1]
    inputs[2] = 1e3 * inputs[2]
    inputs = [each.float() for each in inputs]
    gradients = [each.float() for each in make_gradients(hypergraph, 4, 8)]
    for result in compute(inputs, gradients, hypergraph, "kernel", delta=0.4):
        assert result.isfinite().all()


def test_input_need_not_be_contiguous():
    hypergraph = HYPERGRAPHS["uniform"]()
    inputs = [each.float() for each in make_inputs(hypergraph, 4, 8)]
    gradients = [each.float() for each in make_gradients(hypergraph, 4, 8)]
    views = [each.transpose(0, -1).contiguous().transpose(0, -1) for each in inputs]
    expanded = [torch.ones(1).expand_as(each) for each in gradients]
    ones = [torch.ones_like(each) for each in gradients]
    assert not any(each.is_contiguous() for each in views)
    first = compute(inputs, ones, hypergraph, "kernel", delta=-1.0)
    second = compute(views, expanded, hypergraph, "kernel", delta=-1.0)
    assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("width", [1, 4, 7, 10, 32, 33, 64, 130])
@pytest.mark.parametrize("scaled", [True, False])
def test_sums_over_segments(hypergraph, width, scaled, dtype):
    for incidence in (hypergraph.to_hyperedges, hypergraph.to_nodes):
        sources, targets = len(incidence.backward), len(incidence.forward)
        scales = (normal(sources, seed=1), normal(targets, seed=2)) if scaled else (None, None)
        results = {}
        for backend, precision in (("reference", torch.float64), ("kernel", dtype)):
            values = normal(sources, width, seed=3).to(precision).requires_grad_()
            factors = (None if each is None else each.to(precision) for each in scales)
            sums = gather_sum(values, incidence, *factors, backend=backend)
            weight = normal(targets, width, seed=4).to(precision)
            results[backend] = sums.detach(), *torch.autograd.grad(sums, values, weight)
        assert_near(results["kernel"], results["reference"], dtype)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize(
    ("groups", "inner", "outer"),
    [
        (1, 32, 10),
        (1, 32, 1),
        (4, 8, 1),
        (40, 8, 1),
        (10, 32, 10),
        (3, 5, 7),
        (1, 1, 1),
        (2, 128, 10),
        (1, 64, 33),
    ],
)
@pytest.mark.parametrize("rows", [1, 127, 300])
def test_grouped_products(rows, groups, inner, outer, dtype):
    leaves = [normal(rows, groups, inner, seed=1), normal(groups, inner, outer, seed=2)]
    weight = normal(rows, groups, outer, seed=3)
    results = {}
    for backend, precision in (("reference", torch.float64), ("kernel", dtype)):
        inputs = [leaf.to(precision).requires_grad_() for leaf in leaves]
        output = grouped_product(*inputs, backend=backend)
        results[backend] = output.detach(), *torch.autograd.grad(output, inputs, weight.to(precision))
    assert_near(results["kernel"], results["reference"], dtype)


@pytest.mark.parametrize("rows", [1, 11, 12, 13, 127, 1100])
@pytest.mark.parametrize("inner", [1, 5, 700, 1024, 1025, 2500])
@pytest.mark.parametrize("columns", [32, 64])
def test_the_fixed_product_equals_torch(rows, inner, columns):
    matrix, weight = normal(rows, inner, seed=1).float(), normal(inner, columns, seed=2).float()
    weight.requires_grad_()
    gradient = normal(rows, columns, seed=3).float()
    product = PropagatedFeatures(matrix, lambda part: part) @ weight
    (actual,) = torch.autograd.grad((product * gradient).sum(), weight)
    near = {"rtol": 1e-5, "atol": 2e-5 * max(rows, inner) ** 0.5}
    torch.testing.assert_close(product, (matrix.double() @ weight.double()).float(), **near)
    torch.testing.assert_close(actual, (matrix.T.double() @ gradient.double()).float(), **near)


def test_there_is_a_product_of_our_own_for_four_heads_of_eight():
    assert cpu_kernels.supports_product(torch.rand(20, 5), 32)


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize(("heads", "units"), [(4, 8), (1, 10), (3, 5)])
def test_every_instruction_set_gives_the_same(level, heads, units):
    hypergraph = HYPERGRAPHS["ragged"]()
    try:
        cpu_kernels.library().dahgnn_level(level)
        for dtype in TOLERANCE:
            inputs = make_inputs(hypergraph, heads, units)
            check(hypergraph, inputs, make_gradients(hypergraph, heads, units), dtype, delta=-1.0)
        test_grouped_products(300, 1, 32, 10, torch.float32)
        test_the_fixed_product_equals_torch(127, 1025, 32)
    finally:
        cpu_kernels.library().dahgnn_level(2)


@pytest.mark.parametrize(("heads", "units"), [(4, 8), (1, 10), (3, 5)])
def test_the_number_of_threads_never_changes_a_bit(heads, units):
    # Many blocks of rows, and many times: threads that step on each other do so by chance.
    neighbours = torch.randint(0, 5000, (5000, 5), generator=torch.Generator().manual_seed(0))
    hypergraph = Hypergraph.from_neighbors(neighbours)
    inputs = [each.float() for each in make_inputs(hypergraph, heads, units)]
    gradients = [each.float() for each in make_gradients(hypergraph, heads, units)]
    rows, weights = normal(5000, heads, 20, seed=8).float(), normal(heads, 20, units, seed=9).float()

    def everything():
        products = cpu_kernels.grouped_product(rows, weights)
        return [
            *compute(inputs, gradients, hypergraph, "kernel", delta=0.4),
            gather_sum(inputs[0], hypergraph.to_hyperedges, backend="kernel"),
            products,
            *cpu_kernels.grouped_product_backward(products, rows, weights),
            cpu_kernels.product(rows[:, 0].contiguous(), normal(20, 32, seed=1).float()),
        ]

    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        expected = everything()
        for count in (2, 3, 4) * 5:
            torch.set_num_threads(count)
            assert all(torch.equal(one, other) for one, other in zip(expected, everything(), strict=True))
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize(("heads", "units"), [(4, 8), (1, 10)])
def test_more_rows_than_caches_hold_are_passed_as_few_are(heads, units):
    # Vectors of 512 bits write past the caches, the shorter ones do not.
    near = torch.randint(0, 300_000, (300_000, 1), generator=torch.Generator().manual_seed(0))
    hypergraph = Hypergraph.from_neighbors(near)
    inputs = [each.float() for each in make_inputs(hypergraph, heads, units)]
    gradients = [each.float() for each in make_gradients(hypergraph, heads, units)]
    results = []
    try:
        for level in (1, 2):
            cpu_kernels.library().dahgnn_level(level)
            results.append(compute(inputs, gradients, hypergraph, "kernel", delta=0.4))
    finally:
        cpu_kernels.library().dahgnn_level(2)
    for expected, actual in zip(*results, strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-3 * expected.abs().max().item())


def test_kernels_can_be_demanded_or_forbidden():
    hypergraph = HYPERGRAPHS["uniform"]()
    values = torch.zeros(hypergraph.n_nodes, 1, dtype=torch.float16)
    with pytest.raises(ValueError, match="There must be a kernel for torch.float16 on cpu"):
        gather_sum(values, hypergraph.to_hyperedges, backend="kernel")
    with pytest.raises(ValueError, match="Did you mean 'reference'"), using("referenc"):
        pass


def test_without_the_library_the_reference_computes_and_says_so_once(caplog):
    code = """
import logging, torch
from dahgnn.kernels.cpu import launch as cpu_kernels
cpu_kernels.library = lambda: None
from dahgnn import DAHGNN, Hypergraph
logging.basicConfig(format="%(message)s")
features = torch.rand(20, 3, generator=torch.Generator().manual_seed(0))
hypergraph = Hypergraph.from_features(features, k=3)
model = DAHGNN(3, 2, generator=torch.Generator().manual_seed(0))
for _ in range(3):
    print(model(features, hypergraph).sum().item())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.count("plain PyTorch computes") == 1
    features = torch.rand(20, 3, generator=torch.Generator().manual_seed(0))
    hypergraph = Hypergraph.from_features(features, k=3)
    model = DAHGNN(3, 2, generator=torch.Generator().manual_seed(0))
    assert float(done.stdout.split()[0]) == pytest.approx(model(features, hypergraph).sum().item(), abs=1e-4)
    assert caplog.records == [] or logging.WARNING not in {record.levelno for record in caplog.records}
