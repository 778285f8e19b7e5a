"""Training by replays of a captured epoch, against the plain loop on the same device."""

import copy
import gc
import signal

import pytest
import torch
from torch.nn.functional import cross_entropy

from dahgnn import DAHGNN, HGNN, FitRequest, ModelConfig, TrainingConfig, fit, fit_request
from dahgnn.baselines.graph_networks import GAT, GCN
from dahgnn.training.cuda_loop import GraphLoop, _KnownGradient

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


def small_model(kind: type = DAHGNN, **settings) -> torch.nn.Module:
    generator = torch.Generator().manual_seed(0)
    if kind is DAHGNN:
        return DAHGNN(6, 3, ModelConfig(hidden=16, **settings), generator=generator)
    return kind(6, 3, hidden=16, generator=generator, **settings)


def press_ctrl_c() -> None:
    signal.raise_signal(signal.SIGINT)


def raise_interrupt() -> None:
    raise KeyboardInterrupt


@pytest.fixture
def task(blobs, blob_hypergraph, blob_split):
    features, labels = blobs
    return features, blob_hypergraph.to("cuda"), labels, blob_split


def fit_either_way(model, task, config, *, capture):
    """Fit by replays of a captured epoch, or epoch by epoch."""
    features, hypergraph, labels, split = task
    request = FitRequest([model], features, hypergraph, labels, [split], config, capture=capture)
    return fit_request(request)[0]


def test_a_known_gradient_goes_on_down():
    weights, gradient = torch.randn(4, 1, 3, requires_grad=True), torch.randn(4, 1, 3)
    (found,) = torch.autograd.grad(_KnownGradient.apply(3 * weights, gradient), [weights])
    torch.testing.assert_close(found, 3 * gradient)


NETWORKS = [(DAHGNN, {}), (DAHGNN, {"activation": True, "shortcut": True}), (HGNN, {"dropout": 0.0})]


@needs_cuda
@pytest.mark.parametrize(("kind", "settings"), NETWORKS, ids=["DAHGNN", "more", "HGNN"])
@pytest.mark.parametrize(
    "config",
    [
        TrainingConfig(max_epochs=30, patience=10, learning_rate=0.02),
        TrainingConfig(max_epochs=300, patience=7, learning_rate=0.05, decay_every=50, weight_decay=0.01),
        TrainingConfig(max_epochs=1, learning_rate=0.05),
        TrainingConfig(max_epochs=41, patience=200, weight_decay=0.01),
    ],
)
def test_a_captured_fit_is_the_plain_one(task, kind, settings, config):
    plain, captured, again = (
        fit_either_way(small_model(kind=kind, **settings).double(), task, config, capture=capture)
        for capture in (False, True, True)
    )
    assert captured.stopped == plain.stopped
    assert captured.best_epoch == plain.best_epoch
    assert len(captured.history) == len(plain.history)
    torch.testing.assert_close(captured.embedding, plain.embedding, rtol=1e-9, atol=1e-9)
    assert torch.equal(captured.embedding, again.embedding)


@needs_cuda
@pytest.mark.parametrize(
    "switch",
    [
        {"density_gradient": True},
        {"density_gradient": True, "neighbourhood": "shared"},
        {"neighbourhood": "shared"},
        {"convolution": "printed"},
        {"final_activation": False},
        {"density": False},
    ],
    ids=str,
)
def test_a_captured_fit_is_the_plain_one_with_each_switch(task, switch):
    config = TrainingConfig(max_epochs=15, learning_rate=0.01)
    plain, captured = (
        fit_either_way(small_model(**switch).double(), task, config, capture=capture)
        for capture in (False, True)
    )
    assert captured.best_epoch == plain.best_epoch
    torch.testing.assert_close(captured.embedding, plain.embedding, rtol=1e-8, atol=1e-8)


@needs_cuda
def test_blocks_of_pairs_are_captured(task, monkeypatch):
    config, model = TrainingConfig(max_epochs=15, learning_rate=0.01), small_model(density_gradient=True)
    whole = fit(copy.deepcopy(model).double(), *task, config)
    monkeypatch.setattr("dahgnn.ops.sparse._BLOCK", 2**12)  # a hundred pairs each
    in_blocks = fit(copy.deepcopy(model).double(), *task, config)
    torch.testing.assert_close(in_blocks.embedding, whole.embedding, rtol=1e-8, atol=1e-8)


@needs_cuda
@pytest.mark.parametrize("kind", [DAHGNN, HGNN])
def test_a_captured_fit_is_the_plain_one_in_single_precision(task, kind):
    # Rounding grows with the epochs, and a similarity may cross its threshold: few and small steps.
    config = TrainingConfig(max_epochs=20, learning_rate=0.002)
    settings = {"dropout": 0.0} if kind is HGNN else {}
    plain, captured = (
        fit_either_way(small_model(kind=kind, **settings), task, config, capture=capture)
        for capture in (False, True)
    )
    losses = [[epoch.validation_loss for epoch in result.history] for result in (plain, captured)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)


@needs_cuda
def test_bfloat16_rounds_the_features_alone(task):
    config = TrainingConfig(max_epochs=20, learning_rate=0.01)
    rounded = TrainingConfig(max_epochs=20, learning_rate=0.01, precision="bfloat16")
    exact, near = (fit(small_model(), *task, each) for each in (config, rounded))
    assert not torch.equal(exact.embedding, near.embedding)
    torch.testing.assert_close(exact.embedding, near.embedding, rtol=0.1, atol=0.1)


@needs_cuda
@pytest.mark.parametrize(
    ("kind", "settings"), [(HGNN, {}), (DAHGNN, {"dropout": 0.5, "activation": True, "shortcut": True})]
)
def test_a_captured_fit_with_dropout_learns(task, kind, settings):
    _, _, labels, split = task
    model = small_model(kind=kind, **settings)
    result = fit(model, *task, TrainingConfig(learning_rate=0.02))
    assert result.accuracy(labels, split.test) > 0.95


@needs_cuda
@pytest.mark.parametrize("interrupt", [press_ctrl_c, raise_interrupt])
def test_an_interrupted_captured_fit_gives_the_best_so_far(task, interrupt):
    features, hypergraph, labels, split = task
    told = []

    def listen(epoch):
        told.append(epoch)
        if epoch.epoch == 25:
            interrupt()

    model = small_model()
    result = fit(model, *task, TrainingConfig(max_epochs=1000, patience=1000), callback=listen)
    assert result.stopped == "interrupted"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    # What is noted is what the weights have seen.
    assert 26 <= len(told) < len(result.history) < 1000
    losses = [epoch.validation_loss for epoch in result.history]
    assert result.best_epoch == losses.index(min(losses))
    with torch.no_grad():
        logits = model(features.cuda(), hypergraph).cpu()
    loss = cross_entropy(logits[split.validation], labels[split.validation])
    assert loss.item() == pytest.approx(min(losses), rel=1e-4)


@needs_cuda
def test_a_captured_fit_that_diverges_gives_the_best_so_far(task):
    result = fit(small_model(final_activation=False), *task, TrainingConfig(learning_rate=1e30))
    assert result.stopped == "diverged"
    assert result.embedding.isfinite().all()


@needs_cuda
def test_an_interrupt_before_the_first_epoch_leaves_the_weights(task, monkeypatch):
    monkeypatch.setattr(
        GraphLoop, "_capture", lambda loop, **_: (loop._epoch(), loop._epoch(), raise_interrupt())
    )
    model = small_model()
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    with pytest.raises(KeyboardInterrupt):
        fit(model, *task)
    for name, weight in model.state_dict().items():
        assert torch.equal(weight.cpu(), before[name])


@needs_cuda
def test_a_frozen_weight_stays(task):
    model = small_model()
    model.convolution.weight.requires_grad_(False)
    before = model.convolution.weight.clone()
    fit(model, *task, TrainingConfig(max_epochs=5))
    assert torch.equal(model.convolution.weight.cpu(), before)


@needs_cuda
def test_fits_leave_no_memory_behind(task):
    for _ in range(3):
        fit(small_model(), *task, TrainingConfig(max_epochs=2))
    gc.collect()
    before = torch.cuda.memory_allocated()
    for _ in range(5):
        fit(small_model(), *task, TrainingConfig(max_epochs=2))
    gc.collect()
    assert torch.cuda.memory_allocated() <= before


@needs_cuda
@pytest.mark.parametrize("kind", [GCN, GAT])
def test_networks_of_pyg_are_captured_as_they_are(task, kind):
    """Their sums have no fixed order there, hence the tolerance."""
    both = []
    for capture in (True, False):
        model = kind(6, 3, dropout=0.0, generator=torch.Generator().manual_seed(0))
        both.append(fit_either_way(model, task, TrainingConfig(max_epochs=20), capture=capture))
    captured, plain = both
    assert captured.best_epoch == plain.best_epoch
    for one, other in zip(captured.history, plain.history, strict=True):
        assert one.train_loss == pytest.approx(other.train_loss, rel=1e-3, abs=1e-4)
    torch.testing.assert_close(captured.embedding, plain.embedding, rtol=1e-2, atol=1e-3)


@needs_cuda
@pytest.mark.parametrize("kind", [GCN, GAT])
def test_dropout_of_a_captured_network_is_of_its_seed(task, kind):
    def losses(seed):
        model = kind(6, 3, dropout=0.5, generator=torch.Generator().manual_seed(0))
        result = fit(model, *task, TrainingConfig(max_epochs=20), seed=seed)
        return [epoch.train_loss for epoch in result.history]

    assert losses(0) == pytest.approx(losses(0), rel=1e-3)
    assert losses(0) != pytest.approx(losses(1), rel=1e-3)
