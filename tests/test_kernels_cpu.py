"""Each compiled kernel against its twin, the plain PyTorch of `ops`: values, gradients, odd shapes."""

import logging
import subprocess
import sys

import pytest
import torch

from dahgnn import DAHGNN, Hypergraph, kernels_cpu, ops
from dahgnn.ops import FixedMatrix, attend, head_products, highest_score, similarity_sum

pytestmark = pytest.mark.skipif(kernels_cpu.library() is None, reason="the kernels were not built")

TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-12}
SHAPES = [(1, 1), (1, 10), (2, 3), (3, 8), (4, 8), (4, 5), (8, 7), (5, 64), (40, 8)]


def ragged(n_nodes: int, n_hyperedges: int, seed: int) -> Hypergraph:
    """Hyperedges of one to seven nodes, one of a thousand, and nodes in none of them."""
    generator = torch.Generator().manual_seed(seed)
    sizes = torch.randint(1, 8, (n_hyperedges,), generator=generator)
    lists = [torch.randint(0, n_nodes, (int(size),), generator=generator) for size in sizes]
    lists.append(torch.arange(min(1000, n_nodes - 1)))
    return Hypergraph.from_hyperedges(lists, n_nodes=n_nodes, cover_isolated=False)


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


def draw(*shape, dtype, seed):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize(("heads", "units"), SHAPES)
@pytest.mark.parametrize("direction", ["to_hyperedges", "to_nodes"])
def test_attention_equals_the_reference(hypergraph, heads, units, direction, dtype):
    incidence = getattr(hypergraph, direction)
    sources, targets = len(incidence.backward), len(incidence.forward)
    leaves = [
        draw(sources, heads, units, dtype=dtype, seed=1),
        draw(sources, heads, dtype=dtype, seed=2),
        draw(targets, heads, dtype=dtype, seed=3),
    ]
    bias = draw(sources, heads, dtype=dtype, seed=4).abs() if units % 2 == 0 else None
    weight = draw(targets, heads, units, dtype=dtype, seed=5)
    weight[::3] = 0  # rows without a gradient are passed over
    results = {}
    for backend in ("reference", "kernel"):
        inputs = [leaf.clone().requires_grad_() for leaf in leaves]
        output = attend(*inputs, bias, incidence, activation=units != 3, backend=backend)
        results[backend] = [output.detach(), *torch.autograd.grad((output * weight).sum(), inputs)]
    for expected, actual in zip(results["reference"], results["kernel"], strict=True):
        torch.testing.assert_close(actual, expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("heads", [1, 4, 7])
def test_the_highest_score_equals_the_reference(hypergraph, heads, dtype):
    incidence = hypergraph.to_hyperedges
    source = draw(hypergraph.n_nodes, heads, dtype=dtype, seed=1)
    target = draw(hypergraph.n_hyperedges, heads, dtype=dtype, seed=2)
    for shift in (0, -100):
        expected = highest_score(source + shift, target, incidence, backend="reference")
        torch.testing.assert_close(
            highest_score(source + shift, target, incidence, backend="kernel"), expected
        )


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize(("heads", "units"), SHAPES)
@pytest.mark.parametrize("delta", [-1, 0.0, 0.4, 1])
def test_the_density_equals_the_reference(hypergraph, heads, units, delta, dtype):
    directions = torch.nn.functional.normalize(
        draw(hypergraph.n_nodes, heads, units, dtype=dtype, seed=1), dim=-1
    )
    directions[::4] = 0
    neighbours = hypergraph.neighbourhood("centre")
    expected = similarity_sum(directions, delta, *neighbours, backend="reference")
    actual = similarity_sum(directions, delta, *neighbours, backend="kernel")
    # A thousand similarities are summed in another order, and one in many thousands lies so near the
    # threshold that its rounding decides.
    wrong = (actual - expected).abs() > 20 * TOLERANCE[dtype] * (1 + expected.abs())
    assert wrong.double().mean() < 0.001


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize(("heads", "units"), SHAPES)
@pytest.mark.parametrize(("nodes", "count"), [(1, 1), (127, 2), (300, 3)])
def test_head_products_equal_the_reference(nodes, count, heads, units, dtype):
    leaves = [draw(nodes, heads, units, dtype=dtype, seed=1), draw(count, heads, units, dtype=dtype, seed=2)]
    weight = draw(count, nodes, heads, dtype=dtype, seed=3)
    results = {}
    for backend in ("reference", "kernel"):
        inputs = [leaf.clone().requires_grad_() for leaf in leaves]
        output = head_products(*inputs, backend=backend)
        results[backend] = [output.detach(), *torch.autograd.grad((output * weight).sum(), inputs)]
    for expected, actual in zip(results["reference"], results["kernel"], strict=True):
        torch.testing.assert_close(actual, expected, rtol=10 * TOLERANCE[dtype], atol=10 * TOLERANCE[dtype])


@pytest.mark.parametrize("rows", [1, 11, 12, 13, 127, 400])
@pytest.mark.parametrize("inner", [1, 5, 511, 512, 700])
def test_the_fixed_product_equals_torch(rows, inner):
    matrix, weight = (
        draw(rows, inner, dtype=torch.float32, seed=1),
        draw(inner, 32, dtype=torch.float32, seed=2),
    )
    assert kernels_cpu.supports_product(matrix, 32)
    weight.requires_grad_()
    gradient = draw(rows, 32, dtype=torch.float32, seed=3)
    product = FixedMatrix(matrix) @ weight
    (actual,) = torch.autograd.grad((product * gradient).sum(), weight)
    torch.testing.assert_close(product, (matrix.double() @ weight.double()).float(), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(actual, (matrix.T.double() @ gradient.double()).float(), rtol=1e-4, atol=1e-4)


def test_input_need_not_be_contiguous():
    hypergraph = HYPERGRAPHS["uniform"]()
    incidence, n = hypergraph.to_hyperedges, hypergraph.n_nodes
    values = draw(8, 4, n, dtype=torch.float32, seed=1).permute(2, 1, 0)
    source, target = (
        draw(4, n, dtype=torch.float32, seed=2).T,
        draw(n, 8, dtype=torch.float32, seed=3)[:, ::2],
    )
    results = [
        attend(values, source, target, None, incidence, backend=name) for name in ("reference", "kernel")
    ]
    torch.testing.assert_close(*results)


def test_extreme_scores_stay_finite():
    hypergraph = HYPERGRAPHS["uniform"]()
    values = draw(hypergraph.n_nodes, 4, 8, dtype=torch.float32, seed=1)
    source = 1e4 * draw(hypergraph.n_nodes, 4, dtype=torch.float32, seed=2)
    results = [
        attend(values, source, source, None, hypergraph.to_hyperedges, backend=name)
        for name in ("reference", "kernel")
    ]
    torch.testing.assert_close(*results)


@pytest.mark.parametrize("level", [0, 1, 2])
def test_every_instruction_set_gives_the_same(level):
    hypergraph = HYPERGRAPHS["ragged"]()
    features = draw(hypergraph.n_nodes, 40, dtype=torch.float32, seed=1)
    model = DAHGNN(40, 3, hidden=16, generator=torch.Generator().manual_seed(0))
    with ops.using("reference"):
        expected = model(features, hypergraph)
    try:
        kernels_cpu.library().dahgnn_level(level)
        actual = model(features, hypergraph)
    finally:
        kernels_cpu.library().dahgnn_level(2)
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)


def test_the_number_of_threads_never_changes_a_bit():
    hypergraph = HYPERGRAPHS["ragged"]()
    features = draw(hypergraph.n_nodes, 40, dtype=torch.float32, seed=1)
    model = DAHGNN(40, 3, hidden=16, generator=torch.Generator().manual_seed(0))
    incidence = hypergraph.to_nodes
    values = draw(hypergraph.n_hyperedges, 4, 8, dtype=torch.float32, seed=1)
    shares = [
        draw(len(part), 4, dtype=torch.float32, seed=2) for part in (incidence.backward, incidence.forward)
    ]
    threads, results = torch.get_num_threads(), []
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            results.append(attend(values, *shares, None, incidence, backend="kernel"))
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(results[0], other) for other in results)
    assert torch.equal(model(features, hypergraph), model(features, hypergraph))


def test_kernels_can_be_demanded_or_forbidden(caplog):
    hypergraph = HYPERGRAPHS["uniform"]()
    values = torch.zeros(hypergraph.n_nodes, 1, 1, dtype=torch.float16)
    shares = torch.zeros(hypergraph.n_nodes, 1, dtype=torch.float16)
    with pytest.raises(ValueError, match="There must be a kernel for torch.float16 on cpu"):
        attend(values, shares, shares, None, hypergraph.to_hyperedges, backend="kernel")
    with pytest.raises(ValueError, match="Did you mean 'reference'"), ops.using("referenc"):
        pass


def test_without_the_library_the_reference_computes_and_says_so_once(caplog):
    code = """
import logging, torch
from dahgnn import kernels_cpu
kernels_cpu.library = lambda: None
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
