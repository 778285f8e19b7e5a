"""The plain loop; `test_fit` holds it against a loop of its own."""

import signal
import subprocess
import sys

import pytest
import torch
from torch import nn

from dahgnn import TrainingConfig
from dahgnn.training.plain_loop import Adam, PlainLoop
from dahgnn.training.run import Labelled, Parts, Run


def make_run(model):
    nodes = torch.arange(4)
    part = Labelled(nodes, nodes % 2)
    return Run(3, model, Parts(part, part), 0, None)


def test_several_updates_an_epoch_share_its_rate():
    weight = nn.Parameter(torch.zeros(1))
    config = TrainingConfig(learning_rate=0.1, decay=0.5, decay_every=2)
    optimizer, before, sizes = Adam([weight], config, updates_an_epoch=4), 0.0, []
    for _ in range(9):
        weight.grad = torch.ones(1)
        optimizer.step()
        sizes.append(before - weight.item())
        before = weight.item()
    # Under a constant gradient each step of Adam is of the size of the rate.
    assert sizes == pytest.approx([0.1 / 2] * 8 + [0.05 / 2], rel=1e-4)


class Bias(nn.Module):
    in_features, n_classes = 1, 2

    def __init__(self) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(4, 2))

    def forward(self, features, hypergraph):
        return self.logits


def test_the_loop_follows_the_rate_of_the_schedule():
    run = make_run(Bias())
    config = TrainingConfig(max_epochs=4, learning_rate=0.1, decay=0.5, decay_every=2, patience=50)
    assert PlainLoop(run, (torch.zeros(4, 1), None), config, None).train() == "max_epochs"
    # Adam's first steps are of the size of the rate: two of 0.1, two of 0.05.
    assert run.model.logits.abs().max().item() == pytest.approx(0.3, abs=0.01)
    assert len(run.history) == 5


def test_the_loop_ignores_gradients_of_before_and_weights_without_one():
    config = TrainingConfig(max_epochs=3)
    plain, other = Bias(), Bias()
    other.unused = nn.Parameter(torch.ones(2))
    other.logits.grad = torch.full((4, 2), 7.0)
    for model in (plain, other):
        PlainLoop(make_run(model), (torch.zeros(4, 1), None), config, None).train()
    assert torch.equal(plain.logits, other.logits)
    assert torch.equal(other.unused, torch.ones(2))


def test_a_fit_does_not_import_a_compiler():
    """An optimizer of torch would, for a second."""
    code = """
import sys, torch
from dahgnn import HGNN, Hypergraph, TrainingConfig, fit, split_per_class
features, labels = torch.rand(20, 3), torch.arange(20) % 2
split = split_per_class(labels, train=3, validation=3, seed=0)
hypergraph = Hypergraph.from_features(features, k=3)
fit(HGNN(3, 2), features, hypergraph, labels, split, TrainingConfig(max_epochs=2))
print("torch._dynamo" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_folded_network_gets_its_share_of_units_dropped():
    asked = []

    def folded(weights, drop):
        kept = drop(torch.ones(2000, 1, 1), 0.25, 0)
        asked.append(kept.mean().item())
        assert kept.unique().tolist() == pytest.approx([0, 4 / 3])
        assert not drop(torch.ones(3, 1, 1), 1.0, 0).any()
        logits = weights["logits"].transpose(0, 1)
        return logits, logits

    config = TrainingConfig(max_epochs=3)
    PlainLoop(make_run(Bias()), (torch.zeros(4, 1), None), config, folded).train()
    assert len(set(asked)) == 4  # others each time
    assert sum(asked) / 4 == pytest.approx(1, abs=0.05)


def test_logits_of_another_shape_are_refused():
    loop = PlainLoop(make_run(Bias()), (torch.zeros(5, 1), None), TrainingConfig(), None)
    with pytest.raises(ValueError, match=r"logits of shape \(5, 2\). Got logits of shape \(4, 2\)"):
        loop.train()


def press_ctrl_c() -> None:
    signal.raise_signal(signal.SIGINT)


def test_an_interrupt_while_the_best_weights_are_kept_is_heard_afterwards():
    class Pressing(Bias):
        def state_dict(self, *arguments, **settings):
            if len(run.history) == 2:
                press_ctrl_c()
            return super().state_dict(*arguments, **settings)

    run = make_run(Pressing())
    config = TrainingConfig(max_epochs=9, learning_rate=0.1)
    assert PlainLoop(run, (torch.zeros(4, 1), None), config, None).train() == "interrupted"
    assert [epoch.best_epoch for epoch in run.history] == [0, 1]
    assert torch.equal(run.best["logits"], run.model.logits)
