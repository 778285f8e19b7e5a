"""The steps of the CNN's training; what they lead to is in test_cnn_training."""

import itertools
from dataclasses import replace

import pytest
import torch
from small_images import SMALL, striped_images

from dahgnn.images.cnn import CNNConfig
from dahgnn.images.cnn_steps import CNNSteps, rate_at


def test_the_rate_rises_and_falls():
    config = CNNConfig(learning_rate=0.4, warm_up=0.1)
    rates = [rate_at(step, 1000, config) for step in range(1000)]
    assert rates[:3] == pytest.approx([0.004, 0.008, 0.012])
    assert max(rates) == rates[99] == rates[100] == 0.4
    assert rates[550] == pytest.approx(0.2)
    assert all(later < earlier for earlier, later in itertools.pairwise(rates[100:]))
    assert 0 < rates[-1] < 1e-5
    assert rate_at(0, 10, replace(config, warm_up=0.0)) == 0.4
    assert rate_at(9, 10, replace(config, warm_up=1.0)) == 0.4


def make_steps(**changes):
    images = striped_images(40, seed=0)
    config = replace(SMALL, **changes)
    return CNNSteps(images.pixels, images.labels, images.n_classes, config, torch.device("cpu"))


def test_an_epoch_takes_each_image_once_and_the_next_in_another_order():
    steps = make_steps(batch_size=20)
    orders = []
    for _ in range(2):
        epoch = []
        for _ in range(steps.batches):
            epoch += steps._next_batch().tolist()
            steps.step += 1
        orders.append(epoch)
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(40))
    assert orders[0] != orders[1]


def test_a_step_depends_on_the_seed_and_its_number_alone():
    one, other = make_steps(), make_steps()
    one.update()
    torch.manual_seed(5)
    other.generator.manual_seed(7)
    other.update()
    for name, tensor in one.tensors().items():
        assert torch.equal(tensor, other.tensors()[name]), name
