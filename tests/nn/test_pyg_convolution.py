"""The layer for users of PyG: against the dense formula in value and gradient, and against PyG's own layer."""

import copy
import gc
import pickle

import oracles
import pytest
import torch
from oracles import assert_same_gradients, normal

from dahgnn import HypergraphConv
from dahgnn.nn import pyg_convolution
from dahgnn.ops.backend import using

INDICES = {
    "two hyperedges": ([[0, 1, 2, 1, 2, 3], [0, 0, 0, 1, 1, 1]], 4, 2),
    "isolated nodes": ([[4, 1, 1], [0, 0, 1]], 6, 2),
    "empty hyperedges": ([[0, 1, 3, 2], [1, 1, 4, 4]], 4, 7),
    "pairs twice": ([[0, 0, 1, 2, 2, 2, 3], [0, 0, 0, 1, 1, 1, 1]], 4, 2),
    "single nodes": ([[0, 1, 1], [0, 1, 2]], 2, 3),
    "nothing": ([[], []], 3, 0),
}


def case(name, seed=0):
    index, n, m = INDICES[name]
    weights = (normal(m, seed=seed + 1).abs() + 0.1).requires_grad_()
    return torch.tensor(index, dtype=torch.int64), normal(n, 5, seed=seed).requires_grad_(), weights, m


def make(bias=True):
    layer = HypergraphConv(5, 3, bias=bias).double()
    if bias:
        torch.nn.init.normal_(layer.bias)
    return layer


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("name", INDICES)
def test_it_is_the_formula(name, bias, weighted):
    index, x, weights, m = case(name)
    layer = make(bias)
    given = weights if weighted else torch.ones(m, dtype=torch.float64)
    expected = oracles.pyg_convolution(x, layer.lin.weight.T, index.T.tolist(), given)
    if bias:
        expected = expected + layer.bias
    actual = layer(x, index, weights if weighted else None, num_edges=m)
    leaves = [x, *layer.parameters(), *([weights] if weighted else [])]
    assert_same_gradients([actual], [expected], leaves)


@pytest.mark.parametrize("name", INDICES)
def test_without_weights_it_is_the_layer_of_pyg(name):
    theirs_module = pytest.importorskip("torch_geometric.nn")
    index, x, _, m = case(name)
    theirs = theirs_module.HypergraphConv(5, 3).double()
    torch.nn.init.normal_(theirs.bias)
    ours = make()
    ours.load_state_dict(theirs.state_dict())
    leaves = [x, ours.lin.weight, ours.bias]
    actual, expected = ours(x, index, num_edges=m), theirs(x, index, num_edges=m)
    oracles.assert_close(actual, expected)
    oracles.assert_close(
        oracles.gradients([actual], leaves),
        oracles.gradients([expected], [x, theirs.lin.weight, theirs.bias]),
    )


def test_kernel_and_reference_agree():
    generator = torch.Generator().manual_seed(0)
    index = torch.stack([torch.randint(0, 300, (2000,), generator=generator), torch.randint(0, 150, (2000,), generator=generator)])  # fmt: skip
    index = torch.unique(index, dim=1)
    x = torch.randn(300, 5, generator=generator, requires_grad=True)
    layer, weights = HypergraphConv(5, 3), torch.rand(150, generator=generator) + 0.5
    found = []
    for backend in ("auto", "reference"):
        with using(backend):
            out = layer(x, index, weights)
            found.append((out, *torch.autograd.grad(out.square().sum(), [x, layer.lin.weight])))
    torch.testing.assert_close(*found, rtol=1e-5, atol=1e-5)


def test_weights_average_so_that_equal_rows_stay(blobs):
    index, _, weights, _ = case("two hyperedges")
    layer = make(bias=False)
    rows = torch.ones(4, 5, dtype=torch.float64)
    oracles.assert_close(layer(rows, index, weights), layer.lin(rows))


def test_the_order_is_remembered_until_the_index_changes(monkeypatch):
    sorts = []
    sort = pyg_convolution._sort
    monkeypatch.setattr(pyg_convolution, "_sort", lambda *given: sorts.append(given) or sort(*given))
    index, x, _, _ = case("two hyperedges")
    layer = make()
    first = layer(x, index)
    assert torch.equal(layer(x, index), first)
    assert len(sorts) == 1
    index[0, 0] = 3
    assert not torch.allclose(layer(x, index), first)
    assert torch.equal(layer(x, index.clone()), layer(x, index))
    assert len(sorts) == 3
    layer(x, index, num_edges=2)
    layer(torch.cat([x, x]), index)
    assert len(sorts) == 5
    alive = len(pyg_convolution._orders)
    del index
    sorts.clear()
    gc.collect()
    assert len(pyg_convolution._orders) < alive


def test_an_index_of_inference_mode_is_sorted_each_time():
    _, x, _, _ = case("two hyperedges")
    layer = make()
    with torch.inference_mode():
        index = torch.tensor(INDICES["two hyperedges"][0])
        first = layer(x, index)
        index[0, 0] = 3
        assert not torch.allclose(layer(x, index), first)


def test_it_can_be_copied_and_saved(tmp_path):
    index, x, _, _ = case("two hyperedges")
    layer = make()
    expected = layer(x, index)
    for again in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):  # noqa: S301, it is our own
        assert torch.equal(again(x, index), expected)
    assert (
        repr(layer)
        == "HypergraphConv(\n  5, 3, bias=True\n  (lin): Linear(in_features=5, out_features=3, bias=False)\n)"
    )


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: HypergraphConv(-1, 3), ValueError, "'in_channels' parameter of HypergraphConv must be at least 1"),
        (lambda: HypergraphConv(5, 3, bias=None), TypeError, "True or False"),
        (lambda: make()(torch.ones(4, 4), torch.zeros(2, 1)), ValueError, r"of shape \(n, 5\). Got shape \(4, 4\)"),
        (lambda: make()(normal(4, 5), [[0], [0]]), TypeError, "'hyperedge_index'.* a tensor. Got list"),
        (lambda: make()(normal(4, 5), torch.zeros(3, 1, dtype=torch.int64)), ValueError, r"of shape \(2, t\)"),
        (lambda: make()(normal(4, 5), torch.tensor([[4], [0]])), ValueError, "n_nodes - 1 = 3. Got 4"),
        (lambda: make()(normal(4, 5), torch.tensor([[0], [3]]), num_edges=3), ValueError, "num_edges - 1 = 2. Got 3"),
        (lambda: make()(normal(4, 5), torch.tensor([[0], [1]]), torch.ones(1)), ValueError, r"of 2 weights. Got shape \(1,\)"),
        (lambda: make()(normal(4, 5), torch.tensor([[0], [1]]), [1, 1]), ValueError, "of 2 weights. Got list"),
        (lambda: make()(normal(4, 5), torch.tensor([[0], [1]]), None, normal(2, 5)), ValueError, "no attention.* use DensityAwareAttention"),
    ],
)  # fmt: skip
def test_bad_input_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()
