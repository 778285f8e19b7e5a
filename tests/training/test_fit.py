import gc
import logging
import resource
import signal
from pathlib import Path

import pytest
import torch
from torch import nn

from dahgnn import (
    DAHGNN,
    HGNN,
    FitRequest,
    Hypergraph,
    ModelConfig,
    Split,
    TrainingConfig,
    fit,
    fit_many,
    fit_request,
    split_per_class,
)
from dahgnn.baselines.graph_networks import GAT, GCN
from dahgnn.images.datasets import load_embedded_digits, load_mnist
from dahgnn.ops.dropout import Mask, keeps
from dahgnn.threads import threads_for
from dahgnn.training.fit import accuracy, average, call_with_weights
from dahgnn.training.splits import sample_per_class

NEEDS_CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
QUICK = TrainingConfig(max_epochs=30, patience=10, learning_rate=0.02)


def small_model(seed: int = 0, kind: type = DAHGNN, **settings) -> nn.Module:
    generator = torch.Generator().manual_seed(seed)
    if issubclass(kind, DAHGNN):
        return kind(6, 3, ModelConfig(hidden=16, **settings), generator=generator)
    return kind(6, 3, hidden=16, generator=generator, **settings)


@pytest.fixture
def task(blobs, blob_hypergraph, blob_split):
    features, labels = blobs
    return features, blob_hypergraph, labels, blob_split


def fit_with(model, features, hypergraph, labels, split, **more):
    """Fit one model quickly, with what only a request takes."""
    (result,) = fit_request(FitRequest([model], features, hypergraph, labels, [split], QUICK, **more))
    return result


@pytest.mark.parametrize("kind", [DAHGNN, HGNN])
def test_a_fit_learns_the_blobs(task, kind):
    _, _, labels, split = task
    result = fit(small_model(kind=kind), *task, TrainingConfig(learning_rate=0.02))
    assert result.accuracy(labels, split.test) > 0.95
    assert result.history[0].validation_loss > result.history[result.best_epoch].validation_loss


def train_pass(model, features, hypergraph, updates, seed):
    """The logits of training: HGNN drops the units that seed and updates say, DA-HGNN none."""
    if isinstance(model, DAHGNN):
        return model.train()(features, hypergraph)
    hidden = model.convolution1(features, hypergraph)[0].relu()
    kept = keeps(
        Mask(torch.tensor([seed]), torch.tensor([updates - 1]), 0, model.dropout), *hidden.shape
    ).squeeze(1)
    return model.convolution2(hidden * kept / (1 - model.dropout), hypergraph)[0]


def reference_fit(model, features, hypergraph, labels, split, config, seed):
    """The plain loop of section 4.2: update, evaluate, keep the best, stop by patience."""
    optimizer = torch.optim.Adam(
        model.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay
    )
    best_loss, best_epoch, best_logits = float("inf"), None, None
    for epoch in range(config.max_epochs + 1):
        if epoch > 0:
            logits = train_pass(model, features, hypergraph, epoch - 1, seed)
            loss = nn.functional.cross_entropy(logits[split.train], labels[split.train])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if epoch % config.decay_every == 0:
                for group in optimizer.param_groups:
                    group["lr"] *= config.decay
        model.eval()
        with torch.no_grad():
            logits = model(features, hypergraph)
        loss = nn.functional.cross_entropy(logits[split.validation], labels[split.validation]).item()
        if loss < best_loss:
            best_loss, best_epoch, best_logits = loss, epoch, logits
        if epoch - best_epoch >= config.patience:
            break
    return best_epoch, epoch, best_logits


@pytest.mark.parametrize("kind", [DAHGNN, HGNN])
@pytest.mark.parametrize(
    "config",
    [
        TrainingConfig(max_epochs=60, patience=5, learning_rate=0.05, decay_every=20),
        TrainingConfig(max_epochs=17, patience=100, learning_rate=0.01, decay_every=5, weight_decay=1e-2),
    ],
)
def test_the_loop_equals_the_plain_one(task, kind, config):
    features, *rest = task
    best_epoch, last_epoch, logits = reference_fit(
        small_model(kind=kind).double(), features.double(), *rest, config, seed=3
    )
    result = fit(small_model(kind=kind).double(), *task, config, seed=3)
    assert (result.best_epoch, len(result.history) - 1) == (best_epoch, last_epoch)
    torch.testing.assert_close(result.embedding, logits, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", [DAHGNN, HGNN])
def test_a_seed_repeats_bit_for_bit(task, kind):
    first, again = (fit(small_model(kind=kind), *task, QUICK, seed=5) for _ in range(2))
    assert torch.equal(first.embedding, again.embedding)
    losses = [
        [(epoch.train_loss, epoch.validation_loss) for epoch in result.history] for result in (first, again)
    ]
    assert losses[0] == losses[1]


def test_the_seed_matters_where_there_is_dropout(task):
    first, other = (fit(small_model(kind=HGNN), *task, QUICK, seed=seed) for seed in (0, 1))
    assert not torch.equal(first.embedding, other.embedding)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=NEEDS_CUDA)])
def test_the_global_random_state_is_left_alone(task, device):
    states = [torch.random.get_rng_state, *([torch.cuda.get_rng_state] if torch.cuda.is_available() else [])]
    before = [state() for state in states]
    fit_with(small_model(kind=HGNN), *task, device=device)
    assert all(torch.equal(old, state()) for old, state in zip(before, states, strict=True))


def test_the_best_weights_are_restored(task):
    features, hypergraph, labels, split = task
    model = small_model()
    result = fit(model, *task, TrainingConfig(learning_rate=0.1, patience=20))
    assert result.stopped == "patience"
    assert result.best_epoch == len(result.history) - 21
    with threads_for(hypergraph.n_nodes):  # as in the fit: more threads round otherwise
        logits = model.eval()(features, hypergraph)
    assert torch.equal(logits.detach(), result.embedding)
    loss = nn.functional.cross_entropy(logits[split.validation], labels[split.validation]).item()
    assert loss == pytest.approx(min(epoch.validation_loss for epoch in result.history), abs=1e-6)


def test_the_result_is_consistent(task):
    result = fit(small_model(), *task, QUICK)
    torch.testing.assert_close(result.probabilities, result.embedding.softmax(1))
    assert torch.equal(result.predictions, result.probabilities.argmax(1))
    assert [epoch.epoch for epoch in result.history] == list(range(len(result.history)))
    assert 0 < result.history[-1].seconds <= result.seconds


def test_test_labels_are_never_read(task):
    features, hypergraph, labels, split = task
    hidden = labels.clone()
    hidden[split.test] = -1
    known = fit(small_model(), features, hypergraph, labels, split, QUICK)
    unknown = fit(small_model(), features, hypergraph, hidden, split, QUICK)
    assert torch.equal(known.embedding, unknown.embedding)


def test_the_callback_sees_every_epoch(task):
    seen = []
    result = fit(small_model(), *task, QUICK, callback=seen.append)
    assert tuple(seen) == result.history


@pytest.mark.parametrize("how", ["exception", "signal"])
def test_an_interruption_gives_the_best_so_far(task, how, caplog):
    def interrupt(epoch):
        if epoch.epoch == 12:
            if how == "exception":
                raise KeyboardInterrupt
            signal.raise_signal(signal.SIGINT)

    with caplog.at_level(logging.WARNING):
        result = fit(small_model(), *task, callback=interrupt)
    assert result.stopped == "interrupted"
    assert len(result.history) == 13
    assert result.best_epoch <= 12
    assert "interrupted" in caplog.text
    whole = fit(small_model(), *task, TrainingConfig(max_epochs=12))
    assert torch.equal(result.embedding, whole.embedding)


def test_an_interruption_before_anything_is_known_goes_on(task):
    class Interrupting(nn.Module):
        in_features, n_classes = 6, 3

        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(1))

        def forward(self, *_):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(Interrupting(), *task)


def test_a_training_that_diverges_gives_the_best_so_far(task, caplog):
    with caplog.at_level(logging.WARNING):
        result = fit(small_model(final_activation=False), *task, TrainingConfig(learning_rate=1e30))
    assert result.stopped == "diverged"
    assert result.embedding.isfinite().all()
    assert "diverged" in caplog.text


def test_a_network_that_starts_with_no_finite_loss_is_refused(task):
    model = small_model()
    nn.init.constant_(model.attention2.weight, float("nan"))
    with pytest.raises(ValueError, match="untrained network must be finite.*Scale the features"):
        fit(model, *task)


def test_a_module_of_the_user_is_trained(task):
    class Linear(nn.Linear):
        n_classes = 3

        def forward(self, features, hypergraph):
            return super().forward(features)

    _, _, labels, split = task
    result = fit(Linear(6, 3), *task, TrainingConfig(learning_rate=0.05))
    assert result.accuracy(labels, split.test) > 0.9


def test_a_subclass_with_dropout_is_evaluated_without_it(task):
    class Dropping(DAHGNN):
        def forward(self, features, hypergraph):
            return super().forward(nn.functional.dropout(features, 0.5, self.training), hypergraph)

    features, hypergraph, labels, split = task
    model = Dropping(6, 3, ModelConfig(hidden=16), generator=torch.Generator().manual_seed(0))
    result = fit(model, *task, QUICK)
    loss = nn.functional.cross_entropy(
        model(features, hypergraph)[split.validation], labels[split.validation]
    )
    assert loss.item() == pytest.approx(result.history[result.best_epoch].validation_loss, abs=1e-6)


def test_a_module_that_does_not_state_its_sizes_is_refused(task):
    with pytest.raises(
        TypeError, match="a module with 'in_features' and 'n_classes'. Got Linear without 'n_classes'"
    ):
        fit(nn.Linear(6, 3), *task)


def test_features_of_zeros_teach_nothing_and_break_nothing(task):
    features, hypergraph, labels, split = task
    result = fit(small_model(), torch.zeros_like(features), hypergraph, labels, split, QUICK)
    assert (result.embedding == 0).all()


def test_double_precision_is_kept(task):
    assert fit(small_model().double(), *task, QUICK).embedding.dtype == torch.float64


def with_labels(task, **changes):
    features, hypergraph, labels, split = task
    labels = labels.clone()
    for part, label in changes.items():
        labels[getattr(split, part)[0]] = label
    return features, hypergraph, labels, split


def with_split(task, **changes):
    features, hypergraph, labels, split = task
    parts = {name: getattr(split, name) for name in ("train", "validation", "test")} | changes
    return features, hypergraph, labels, Split(**parts)


def with_features(task, row):
    features, *rest = task
    features = features.clone()
    features[4, 2] = row
    return features, *rest


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda task: with_labels(task, train=3), "between 0 and n_classes - 1 = 2 at all train nodes. Got 3"),
        (lambda task: with_labels(task, validation=-1), "at all validation nodes. Got -1"),
        (lambda task: with_split(task, train=[]), "one with train nodes. Got none"),
        (lambda task: with_split(task, train=task[3].train[task[2][task[3].train] == 0]), "each of the 3 classes has a labelled node. Got none of class 1, 2"),
        (lambda task: with_split(task, test=[120]), "between 0 and n_nodes - 1 = 119. Got test node 120"),
        (lambda task: with_features(task, float("nan")), "'features' parameter of fit must be finite"),
        (lambda task: with_features(task, float("inf")), "finite"),
        (lambda task: (task[0][:, :5], *task[1:]), r"\(n_nodes, in_features\) = \(120, 6\). Got shape \(120, 5\)"),
        (lambda task: (task[0][:-1], *task[1:]), r"Got shape \(119, 6\)"),
        (lambda task: (task[0][0], *task[1:]), "two-dimensional"),
        (lambda task: (*task[:2], task[2][:-1], task[3]), "of length n_nodes = 120. Got length 119"),
    ],
)  # fmt: skip
def test_bad_input_is_refused(task, change, words):
    with pytest.raises(ValueError, match=words):
        fit(small_model(), *change(task))


@pytest.mark.parametrize(
    ("position", "wrong", "words"),
    [
        (0, None, "'model' parameter of fit must be a Module. Got NoneType"),
        (2, [[0, 1]], "'hypergraph' parameter of fit must be a Hypergraph. Got list"),
        (4, {"train": [0]}, "'split' parameter of fit must be a Split. Got dict"),
        (5, {}, "'config' parameter of fit must be a TrainingConfig. Got dict"),
    ],
)
def test_wrong_objects_are_refused(task, position, wrong, words):
    arguments = [small_model(), *task, QUICK]
    arguments[position] = wrong
    with pytest.raises(TypeError, match=words):
        fit(*arguments)


def test_logits_of_another_shape_are_refused(task):
    model = small_model()
    model.n_classes = 2
    features, hypergraph, labels, split = task
    with pytest.raises(ValueError, match=r"logits of shape \(120, 2\). Got logits of shape \(120, 3\)"):
        fit(model, features, hypergraph, labels.clamp(max=1), split)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_the_mode_of_the_caller_does_not_matter(task, mode):
    model = small_model()
    with mode():
        result = fit(model, *task, QUICK)
    assert torch.equal(result.embedding, fit(small_model(), *task, QUICK).embedding)


def test_a_negative_seed_is_refused(task):
    with pytest.raises(ValueError, match="'seed' parameter of fit must be at least 0"):
        fit(small_model(), *task, seed=-1)


def test_accuracy_counts_the_named_nodes():
    predictions = torch.tensor([0, 1, 1, 0])
    assert accuracy(predictions, [0, 1, 0, -1], torch.tensor([0, 2])) == 0.5
    with pytest.raises(ValueError, match="known at all these nodes. Got -1"):
        accuracy(predictions, [0, 1, 0, -1], [0, 3])
    with pytest.raises(ValueError, match="n_nodes - 1 = 3. Got 4"):
        accuracy(predictions, [0, 1, 0, -1], [4])
    with pytest.raises(ValueError, match="non-empty"):
        accuracy(predictions, [0, 1, 0, 0], torch.tensor([], dtype=torch.int64))


@NEEDS_CUDA
@pytest.mark.parametrize("kind", [DAHGNN, HGNN])
def test_a_cuda_fit_agrees_with_the_cpu(task, kind):
    settings = {"dropout": 0.0} if kind is HGNN else {}
    on_cpu, on_cuda = (
        fit_with(small_model(kind=kind, **settings).double(), *task, device=device)
        for device in ("cpu", "cuda")
    )
    torch.testing.assert_close(on_cpu.embedding, on_cuda.embedding, rtol=1e-6, atol=1e-6)
    assert on_cpu.best_epoch == on_cuda.best_epoch
    assert len(on_cpu.history) == len(on_cuda.history)


@pytest.fixture
def splits(blobs):
    return [split_per_class(blobs[1], train=5, validation=8, seed=seed) for seed in range(3)]


DEVICES = ["cpu", pytest.param("cuda", marks=NEEDS_CUDA)]
# In single precision rounding grows with the epochs, and a similarity may cross its threshold.
GENTLE = TrainingConfig(max_epochs=15, learning_rate=0.002)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", [DAHGNN, HGNN])
def test_runs_together_are_the_runs_alone(task, splits, kind, device):
    features, hypergraph, labels, _ = task
    config = TrainingConfig(max_epochs=200, patience=5, learning_rate=0.05, weight_decay=1e-3)
    alone = [
        fit(
            small_model(seed, kind).double(),
            features,
            hypergraph.to(device),
            labels,
            split,
            config,
            seed=seed,
        )
        for seed, split in enumerate(splits)
    ]
    models = [small_model(seed, kind).double() for seed in range(3)]
    together = fit_many(models, features, hypergraph.to(device), labels, splits, config)
    assert len({len(result.history) for result in alone}) > 1  # they stop at different epochs
    for model, first, second in zip(models, together, alone, strict=True):
        assert (first.stopped, first.best_epoch) == (second.stopped, second.best_epoch)
        assert [epoch.epoch for epoch in first.history] == [epoch.epoch for epoch in second.history]
        for name in ("train_loss", "validation_loss", "train_accuracy", "validation_accuracy"):
            assert [getattr(epoch, name) for epoch in first.history] == pytest.approx(
                [getattr(epoch, name) for epoch in second.history], abs=1e-9
            )
        torch.testing.assert_close(first.embedding, second.embedding, rtol=0, atol=1e-8)
        output = model(features.double().to(device), hypergraph.to(device)).cpu()
        torch.testing.assert_close(output, first.embedding)


@pytest.mark.parametrize("device", DEVICES)
def test_runs_together_in_single_precision(task, splits, device):
    features, hypergraph, labels, _ = task
    models = [small_model(seed) for seed in range(3)]
    together = fit_many(models, features, hypergraph.to(device), labels, splits, GENTLE)
    for seed, (split, result) in enumerate(zip(splits, together, strict=True)):
        alone = fit(small_model(seed), features, hypergraph.to(device), labels, split, GENTLE)
        torch.testing.assert_close(result.embedding, alone.embedding, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("device", DEVICES)
def test_the_callback_hears_every_epoch_of_every_run(task, splits, device):
    heard = []
    features, hypergraph, labels, _ = task
    models = [small_model(seed) for seed in range(3)]
    results = fit_many(
        models,
        features,
        hypergraph.to(device),
        labels,
        splits,
        QUICK,
        callback=lambda *news: heard.append(news),
    )
    for run, result in enumerate(results):
        assert [epoch for number, epoch in heard if number == run] == list(result.history)


@pytest.mark.parametrize("device", DEVICES)
def test_more_runs_than_fit_at_once_take_turns(task, splits, device, monkeypatch):
    features, hypergraph, labels, _ = task
    models = [[small_model(seed) for seed in range(3)] for _ in range(2)]
    inputs = features, hypergraph.to(device), labels, splits, GENTLE
    expected = fit_many(models[0], *inputs)
    monkeypatch.setattr("dahgnn.training.fit._ROWS_AT_ONCE", 2 * len(labels))
    for first, second in zip(expected, fit_many(models[1], *inputs), strict=True):
        torch.testing.assert_close(first.embedding, second.embedding, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("device", DEVICES)
def test_a_run_of_wild_numbers_leaves_the_others_alone(task, splits, device):
    features, hypergraph, labels, _ = task
    models = [small_model(seed, final_activation=False) for seed in range(3)]
    with torch.no_grad():
        models[1].attention2.weight *= 1e30
    results = fit_many(models, features, hypergraph.to(device), labels, splits, GENTLE)
    assert results[1].history[0].train_loss > 1e20
    for seed in (0, 2):
        model = small_model(seed, final_activation=False)
        alone = fit(model, features, hypergraph.to(device), labels, splits[seed], GENTLE)
        torch.testing.assert_close(results[seed].embedding, alone.embedding, rtol=1e-3, atol=1e-3)


def test_an_interruption_keeps_what_is_there(task, splits):
    features, hypergraph, labels, _ = task

    def interrupt(run, epoch):
        if (run, epoch.epoch) == (1, 7):
            raise KeyboardInterrupt

    models = [small_model(seed) for seed in range(3)]
    results = fit_many(models, features, hypergraph, labels, splits, QUICK, callback=interrupt)
    assert [result.stopped for result in results] == ["max_epochs", "interrupted"]
    assert len(results[1].history) == 8


@pytest.mark.parametrize(
    ("models", "change", "message"),
    [
        ([], {}, "'models' parameter of fit_many must be non-empty"),
        ([DAHGNN(6, 3), HGNN(6, 3)], {}, "must be of one class. Got DAHGNN and HGNN"),
        ([DAHGNN(6, 3), DAHGNN(6, 3, ModelConfig(heads=2))], {}, "must be of the same settings"),
        ([small_model()] * 2, {}, "must be different objects"),
        ([DAHGNN(6, 3), DAHGNN(6, 3)], {"seeds": [1]}, "'seeds' .* must be one for each of 2 models. Got 1"),
        ([DAHGNN(6, 3)], {}, "'splits' .* must be one for each of 1 models. Got 2"),
    ],
)
def test_runs_that_do_not_belong_together_are_refused(task, splits, models, change, message):
    features, hypergraph, labels, _ = task
    few = splits[: 2 if models else 0]
    with pytest.raises(ValueError, match=message):
        fit_many([*models[:1], *models[1:]], features, hypergraph, labels, few, QUICK, **change)


class Linear(nn.Module):
    """A module of one's own, with dropout from torch's own generator."""

    in_features, n_classes = 6, 3

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 3)
        nn.init.normal_(self.layer.weight, generator=torch.Generator().manual_seed(seed))
        nn.init.zeros_(self.layer.bias)

    def forward(self, features, hypergraph):
        return nn.functional.dropout(self.layer(features), 0.2, self.training)


def test_modules_of_ones_own_take_turns(task, splits):
    features, hypergraph, labels, _ = task
    inputs = features, hypergraph, labels
    together = fit_many([Linear(seed) for seed in range(3)], *inputs, splits, QUICK)
    for seed, (split, result) in enumerate(zip(splits, together, strict=True)):
        assert torch.equal(result.embedding, fit(Linear(seed), *inputs, split, QUICK, seed=seed).embedding)


def test_without_validation_nodes_the_training_loss_chooses(task):
    features, hypergraph, labels, split = task
    alone = Split(train=split.train, validation=[], test=split.test)
    result = fit(small_model(), features, hypergraph, labels, alone, QUICK)
    losses = [epoch.train_loss for epoch in result.history]
    assert losses == [epoch.validation_loss for epoch in result.history]
    assert result.best_epoch == losses.index(min(losses))


def test_weights_count_as_repetitions_do(task):
    """A node of weight zero is as good as unlabelled, and one of weight two as two of them."""
    features, hypergraph, labels, split = task
    some = Split(train=split.train[2:], validation=split.validation, test=split.test)
    weights = torch.ones(len(labels), dtype=torch.float64)
    weights[split.train[:2]] = 0
    weighted, expected = (
        fit_with(small_model(), features, hypergraph, labels, part, weights=each)
        for part, each in ((split, weights), (some, None))
    )
    torch.testing.assert_close(weighted.embedding, expected.embedding, rtol=1e-4, atol=1e-5)
    weights[split.train[2:]] = 7.0  # of all training nodes that count, so that nothing changes
    again = fit_with(small_model(), *task, weights=weights)
    torch.testing.assert_close(again.embedding, expected.embedding, rtol=1e-4, atol=1e-5)
    weights[split.train[2:4]] = 70.0
    other = fit_with(small_model(), *task, weights=weights)
    assert (other.embedding - expected.embedding).abs().max() > 1e-2


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, 2.0], "of shape"),
        (float("nan"), "finite and at least 0"),
        (-1.0, "finite and at least 0"),
        (0.0, "positive at some of the nodes"),
    ],
)
def test_wrong_weights_are_refused(task, weights, message):
    if isinstance(weights, float):
        weights = torch.full((len(task[0]),), weights)
    with pytest.raises(ValueError, match=f"'weights' parameter of FitRequest must be {message}"):
        fit_with(small_model(), *task, weights=weights)


@pytest.mark.parametrize("rate", [0.0, 0.5])
@pytest.mark.parametrize("kind", [GCN, GAT])
def test_a_network_called_with_weights_gives_what_it_gives_alone(task, kind, rate):
    """What a captured epoch is made of."""
    features, hypergraph, *_ = task
    model = kind(features.shape[1], 3, dropout=rate, generator=torch.Generator().manual_seed(0))
    weights = {name: weight.detach().unsqueeze(0) for name, weight in model.named_parameters()}
    for weight in weights.values():
        weight.requires_grad_()
    torch.manual_seed(0)
    evaluated, trained = call_with_weights(model, (features, hypergraph))(weights, None)
    torch.manual_seed(0)
    expected = model.train()(features, hypergraph)
    assert torch.equal(trained.squeeze(1), expected)
    assert torch.equal(evaluated.squeeze(1), model.eval()(features, hypergraph))
    gradients = torch.autograd.grad(trained.sum(), list(weights.values()))
    for one, other in zip(gradients, torch.autograd.grad(expected.sum(), model.parameters()), strict=True):
        assert torch.equal(one.squeeze(0), other)


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
def test_a_thousand_fits_do_not_grow(task, device):
    """Memory after a thousand fits is that after the first hundred, the host's and the device's."""

    def used() -> tuple[int, int]:
        gc.collect()
        resident = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
        return resident, torch.cuda.memory_reserved() if device == "cuda" else 0

    if not Path("/proc/self/statm").exists():
        pytest.skip("there is no /proc")
    config = TrainingConfig(max_epochs=3)
    features, hypergraph, labels, split = task
    inputs = features, hypergraph.to(device), labels, split
    sizes = []
    for number in range(1000):
        fit(small_model(number, kind=(DAHGNN, HGNN)[number % 2]), *inputs, config)
        if number in (99, 999):
            sizes.append(used())
    assert sizes[1][0] - sizes[0][0] < 8 * 2**20
    assert sizes[1][1] == sizes[0][1]


@pytest.mark.slow
def test_the_preset_paper_learns_the_embedded_digits():
    digits = load_embedded_digits()
    hypergraph = Hypergraph.from_features(digits.features)
    accuracies = []
    for seed in range(3):
        split = split_per_class(digits.labels, train=50, validation=100, seed=seed)
        model = DAHGNN(784, 10, generator=torch.Generator().manual_seed(seed))
        result = fit(model, digits.features, hypergraph, digits.labels, split)
        accuracies.append(result.accuracy(digits.labels, split.test))
    assert sum(accuracies) / 3 >= 0.90


@pytest.mark.slow
def test_the_preset_paper_learns_mnist_in_a_gibibyte(mnist_folder):
    images = load_mnist(mnist_folder)
    mnist = images.subset(sample_per_class(images.labels, 1000, seed=0))
    del images
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    split = split_per_class(mnist.labels, train=100, validation=100, seed=0)
    hypergraph = Hypergraph.from_features(mnist.features)
    model = DAHGNN(784, 10, generator=torch.Generator().manual_seed(0))
    result = fit(model, mnist.features, hypergraph, mnist.labels, split)
    assert result.accuracy(mnist.labels, split.test) > 0.91
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**20  # KiB


def test_an_average_needs_something():
    with pytest.raises(ValueError, match="'results' parameter of average must be non-empty"):
        average([])
