"""The GPU kernels of the training loop against torch: loss, gradient, record, Adam, dropout."""

import pytest
import torch
from message_cases import DEVICE, needs_kernels

from dahgnn.kernels.gpu.training import Adam, Labels, Record, dropout
from dahgnn.ops.dropout import Mask, keeps

pytestmark = needs_kernels


def draw(*shape, seed, dtype=torch.float32):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


def draw_parts(counts, classes, n):
    """For each run, nodes and labels of training and of validation."""
    generator = torch.Generator().manual_seed(0)
    parts = []
    for train, validation in counts:
        nodes = torch.randperm(n, generator=generator)[: train + validation]
        labels = torch.randint(0, classes, (len(nodes),), generator=generator)
        both = zip(nodes.split([train, validation]), labels.split([train, validation]), strict=True)
        parts.append([(some.to(DEVICE), theirs.to(DEVICE)) for some, theirs in both])
    return parts


COUNTS = [(1, 1), (63, 65), (64, 128), (200, 31)]


@pytest.mark.parametrize("classes", [2, 3, 10, 17])
@pytest.mark.parametrize("runs", [1, 4])
def test_scores_and_their_gradient(runs, classes):
    parts = draw_parts(COUNTS[-runs:], classes, n=300)
    logits = (5 * draw(300, runs, classes, seed=1)).requires_grad_()
    labels = Labels(parts, logits.shape, logits.dtype)
    labels.score(logits, logits)
    record = Record(labels, patience=5, max_epochs=10, rows=3)
    record.add()
    for run, of_run in enumerate(parts):
        losses = [torch.nn.functional.cross_entropy(logits[nodes, run], theirs) for nodes, theirs in of_run]
        correct = [(logits[nodes, run].argmax(1) == theirs).float().mean() for nodes, theirs in of_run]
        torch.testing.assert_close(record.history[0, run], torch.stack([*losses, *correct]).detach())
    mean = [
        torch.nn.functional.cross_entropy(logits[nodes, run], y) for run, ((nodes, y), _) in enumerate(parts)
    ]
    (expected,) = torch.autograd.grad(sum(mean), logits)
    torch.testing.assert_close(labels.gradient, expected, rtol=1e-5, atol=1e-7)


def test_evaluation_scores_and_training_has_the_gradient():
    parts = draw_parts([(20, 30)], 3, n=60)
    evaluated, trained = draw(60, 1, 3, seed=1), draw(60, 1, 3, seed=2).requires_grad_()
    labels = Labels(parts, evaluated.shape, evaluated.dtype)
    labels.score(evaluated, trained)
    (nodes, theirs), _ = parts[0]
    loss = torch.nn.functional.cross_entropy(trained[nodes, 0], theirs)
    torch.testing.assert_close(labels.gradient, torch.autograd.grad(loss, trained)[0])
    expected = torch.nn.functional.cross_entropy(evaluated[nodes, 0], theirs, reduction="sum")
    torch.testing.assert_close(labels.partial[:1, 0].sum(), expected)


def play(losses, patience, max_epochs):
    """Record epochs of given validation losses for each run; return the record."""
    runs = len(losses)
    node, label = (
        torch.zeros(1, dtype=torch.int64, device=DEVICE),
        torch.zeros(1, dtype=torch.int64, device=DEVICE),
    )
    labels = Labels([[(node, label), (node + 1, label)]] * runs, (4, runs, 2), torch.float32)
    record = Record(labels, patience=patience, max_epochs=max_epochs, rows=20)
    for values in zip(*losses, strict=True):
        for run, loss in enumerate(values):
            labels.partial[2 * run] = 0.5
            labels.partial[2 * run + 1, 0] = loss
        record.add()
    return record


def test_each_run_stops_by_itself():
    falling, rising = [9.0, 8, 7, 6, 5, 4], [1.0, 2, 3, 4, 5, 6]
    broken = [3.0, 2, float("nan"), 1, 1, 1]
    record = play([falling, rising, broken], patience=3, max_epochs=4)
    assert record.running.tolist() == [0, 0, 0]
    assert record.last_epoch.tolist() == [4, 3, 2]
    assert record.best_epoch.tolist() == [4, 0, 1]
    assert record.epoch.tolist() == [5, 5, 5]
    record.reset()
    assert record.running.tolist() == [1, 1, 1]
    assert record.epoch.tolist() == [-1, -1, -1]


def test_a_run_is_better_only_while_it_runs():
    record = play([[3.0, 2.0], [1.0, 2.0]], patience=5, max_epochs=9)
    assert record.better.tolist() == [1, 0]
    record = play([[3.0, 2.0], [1.0, 0.5]], patience=5, max_epochs=1)
    assert record.better.tolist() == [1, 1]
    record = play([[3.0, 2.0, 1.0]], patience=5, max_epochs=1)
    assert record.better.tolist() == [0]


@pytest.mark.parametrize("weight_decay", [0.0, 0.01])
@pytest.mark.parametrize("runs", [1, 3])
def test_adam_is_that_of_torch(runs, weight_decay):
    first = {"a": draw(runs, 33, 40, seed=1), "b": draw(runs, 5, seed=2)}
    theirs = [weight.clone().requires_grad_() for weight in first.values()]
    adam = torch.optim.Adam(theirs, lr=0.01, weight_decay=weight_decay)
    schedule = torch.optim.lr_scheduler.StepLR(adam, 3, 0.5)
    ours = Adam(first, rate=0.01, decay=0.5, decay_every=3, weight_decay=weight_decay)
    record = play([[1.0]] * runs, patience=5, max_epochs=50)
    record.epoch.fill_(-1)
    assert all(weight.requires_grad and weight.is_leaf for weight in ours.weights.values())
    kept = {}
    for step in range(10):
        gradients = []
        for number, weight in enumerate(theirs):
            weight.grad = draw(*weight.shape, seed=10 * step + number) * (weight.detach() + 1)
            gradients.append(weight.grad.clone())
        record.epoch += 1
        record.better.zero_()
        if step == 6:
            record.better[-1] = 1
            kept = {name: weight.detach().clone() for name, weight in ours.weights.items()}
        adam.step()
        schedule.step()
        ours.step(gradients, record)
    for name, weight in zip(first, theirs, strict=True):
        torch.testing.assert_close(ours.weights[name], weight, rtol=1e-5, atol=1e-6)
        assert torch.equal(ours.best[name][-1], kept[name][-1])
        assert torch.equal(ours.best[name][:-1], first[name][:-1])
    ours.reset()
    assert all(torch.equal(ours.weights[name], weight) for name, weight in first.items())


@pytest.mark.parametrize("shape", [(1, 1, 1), (500, 2, 40), (77, 3, 5), (1030, 1, 64)])
@pytest.mark.parametrize("rate", [0.0, 0.25, 0.5, 0.9])
def test_dropout_drops_what_its_plain_twin_drops(shape, rate):
    values = draw(*shape, seed=1)
    seeds = torch.arange(3, 3 + shape[1], device=DEVICE)
    epochs = torch.arange(-1, shape[1] - 1, device=DEVICE)
    result = dropout(values, seeds, epochs, 2, rate)
    kept = keeps(Mask(seeds.cpu(), epochs.cpu(), 2, rate), shape[0], shape[2]).to(DEVICE)
    torch.testing.assert_close(result, values * kept / (1 - rate))


@pytest.mark.parametrize("shape", [(1, 1, 1), (77, 3, 5), (1030, 1, 64)])
def test_some_of_many_rows_lose_what_they_lose_among_all(shape):
    rows, runs, units = shape
    seeds, epochs = torch.arange(3, 3 + runs, device=DEVICE), torch.arange(runs, device=DEVICE)
    whole = torch.arange(5 * rows) + (1 << 33)  # also beyond what 32 bits of places hold
    numbers = whole[torch.randperm(5 * rows, generator=torch.Generator().manual_seed(0))[:rows]]
    values = draw(*shape, seed=1)
    found = dropout(values, seeds, epochs, 2, 0.4, numbers.to(DEVICE))
    kept = keeps(Mask(seeds.cpu(), epochs.cpu(), 2, 0.4, numbers), rows, units).to(DEVICE)
    torch.testing.assert_close(found, values * kept / 0.6)
