"""Inference layer by layer: what the forward pass gives, whatever the blocks and wherever the arrays are."""

import pytest
import torch
from file_backed import is_in
from oracles import HYPERGRAPHS, SQUARE, normal

from dahgnn import DAHGNN, Hypergraph, ModelConfig
from dahgnn.files.scratch import Scratch
from dahgnn.nn.induction import Induction
from dahgnn.nn.inference import infer, infer_density
from dahgnn.ops.backend import using

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
SETTINGS = {
    "paper": ModelConfig(hidden=6, heads=2, units=3),
    "ours": ModelConfig(hidden=6, heads=2, units=4, delta=0.0, activation=True, dropout=0.5, shortcut=True),
    "shared, plain end": ModelConfig(
        hidden=6, heads=3, units=2, neighbourhood="shared", final_activation=False
    ),
    "no density": ModelConfig(hidden=6, density=False),
    "printed": ModelConfig(hidden=6, convolution="printed"),
}


def network_for(config, width=4, seed=1):
    return DAHGNN(width, 3, config, generator=torch.Generator().manual_seed(seed)).double()


@pytest.mark.parametrize("name", HYPERGRAPHS)
@pytest.mark.parametrize("settings", SETTINGS)
def test_logits_are_those_of_the_forward_pass(name, settings):
    if settings == "printed" and name not in SQUARE:
        pytest.skip("it needs as many hyperedges as nodes")
    hypergraph, network = HYPERGRAPHS[name](), network_for(SETTINGS[settings])
    features = normal(hypergraph.n_nodes, 4)
    expected = network.eval()(features, hypergraph).detach()
    found = infer(network, features, hypergraph, block=7)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("settings", ["paper", "shared, plain end"])
@pytest.mark.parametrize("backend", ["auto", "reference"])
@pytest.mark.parametrize("block", [1, 1 << 20])
def test_neither_the_blocks_nor_the_backend_make_a_difference(settings, backend, block):
    hypergraph, network = HYPERGRAPHS["centred"](), network_for(SETTINGS[settings])
    features = normal(hypergraph.n_nodes, 4)
    expected = network.eval()(features, hypergraph).detach()
    with using(backend):
        found = infer(network, features, hypergraph, block=block)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("settings", SETTINGS)
def test_threads_that_prepare_blocks_make_no_difference(settings, monkeypatch):
    hypergraph, network = HYPERGRAPHS["uniform"](), network_for(SETTINGS[settings])
    features = normal(12, 4)
    expected = infer(network, features, hypergraph, block=7), infer_density(network, features, hypergraph)
    threads = torch.get_num_threads()
    monkeypatch.setattr("dahgnn.nn.inference.threads_beside", lambda _: 3)
    found = (
        infer(network, features, hypergraph, block=7),
        infer_density(network, features, hypergraph, block=7),
    )
    assert torch.equal(found[0], expected[0])
    torch.testing.assert_close(found[1], expected[1])
    assert torch.get_num_threads() == threads


def test_a_network_in_training_says_what_it_says_in_evaluation():
    hypergraph, network = HYPERGRAPHS["uniform"](), network_for(SETTINGS["ours"])
    features = normal(12, 4)
    expected = network.eval()(features, hypergraph).detach()
    torch.testing.assert_close(infer(network.train(), features, hypergraph), expected)
    assert network.training


def test_arrays_are_in_files_and_removed(tmp_path):
    hypergraph, network = HYPERGRAPHS["uniform"](), network_for(SETTINGS["ours"])
    features = normal(12, 4)
    with Scratch(tmp_path, large=1) as scratch:
        found = infer(network, scratch.store(features), hypergraph, scratch)
        assert is_in(found, tmp_path)
    assert list(tmp_path.iterdir()) == []
    torch.testing.assert_close(found, network.eval()(features, hypergraph).detach())


@pytest.mark.parametrize("settings", ["ours", "shared, plain end", "no density"])
def test_the_density_is_that_of_the_first_attention_layer(settings):
    hypergraph, network = HYPERGRAPHS["uniform"](), network_for(SETTINGS[settings])
    features = normal(12, 4)
    expected = Induction(network, features, hypergraph).density()
    torch.testing.assert_close(infer_density(network, features, hypergraph, block=5), expected)


def test_a_node_in_many_hyperedges_is_a_block_of_its_own():
    count = 5_000
    pairs = torch.stack([torch.zeros(count, dtype=torch.int64), torch.arange(1, count + 1)], 1)
    hypergraph = Hypergraph.from_incidence(
        pairs.flatten(),
        torch.arange(count).repeat_interleave(2),
        n_nodes=count + 1,
        n_hyperedges=count,
        centres=pairs[:, 1],
    )
    network, features = network_for(SETTINGS["ours"]), normal(count + 1, 4)
    expected = network.eval()(features, hypergraph).detach()
    torch.testing.assert_close(infer(network, features, hypergraph, block=400), expected)


def test_features_of_another_shape_are_refused():
    with pytest.raises(ValueError, match=r"must be of shape \(12, 4\)"):
        infer(network_for(SETTINGS["ours"]), normal(11, 4), HYPERGRAPHS["uniform"]())


@needs_cuda
@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("name", ["uniform", "centred", "isolated, covered"])
@pytest.mark.parametrize("backend", ["auto", "reference"])
@pytest.mark.parametrize("block", [7, 1 << 20])
def test_a_cuda_device_says_what_the_cpu_says(settings, name, backend, block):
    if settings == "printed" and name not in SQUARE:
        pytest.skip("it needs as many hyperedges as nodes")
    hypergraph, network = HYPERGRAPHS[name](), network_for(SETTINGS[settings])
    features = normal(hypergraph.n_nodes, 4)
    expected = network.eval()(features, hypergraph).detach(), infer_density(network, features, hypergraph)
    with using(backend):
        network.to("cuda")
        found = (
            infer(network, features, hypergraph, block=block),
            infer_density(network, features, hypergraph),
        )
    for actual, other in zip(found, expected, strict=True):
        assert actual.device.type == "cpu"
        torch.testing.assert_close(actual, other, rtol=1e-9, atol=1e-9)
