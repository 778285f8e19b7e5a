"""Settings of batches, and what is wrong with others."""

import pytest
import torch

from dahgnn.training.sampling import Sampling


def test_lists_become_pairs():
    assert Sampling(fan_out=[[3, None], [None, 4]]).fan_out == ((3, None), (None, 4))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"batch": 0}, "The 'batch' parameter of Sampling must be at least 1. Got 0."),
        ({"batch": 1.5}, "must be an integer"),
        ({"neighbours": 0}, "The 'neighbours' parameter of Sampling must be at least 1. Got 0."),
        ({"workers": 0}, "The 'workers' parameter of Sampling must be at least 1. Got 0."),
        ({"updates": 0}, "The 'updates' parameter of Sampling must be at least 1. Got 0."),
        ({"prefetch": -1}, "The 'prefetch' parameter of Sampling must be at least 0"),
        (
            {"fan_out": ((3, None),)},
            "must be a pair of numbers, or None, for each of the two attention layers",
        ),
        ({"fan_out": 5}, "must be a pair of numbers"),
        ({"fan_out": ((3, 0), (2, 2))}, "The 'fan_out' parameter of Sampling must be at least 1. Got 0."),
    ],
)
def test_wrong_settings_are_refused(settings, message):
    with pytest.raises((TypeError, ValueError), match=message):
        Sampling(**settings)


def test_it_is_said_how_many_threads_prepare_or_the_device_decides():
    cpu = torch.device("cpu")
    assert (Sampling().count_workers(cpu), Sampling(workers=5).count_workers(cpu)) == (1, 5)


@pytest.mark.parametrize(
    ("labelled", "batches", "updates"),
    [(0, 1, 1), (1, 1, 1), (128, 1, 1), (129, 2, 2), (32 * 128, 32, 32), (10**6, 7813, 32)],
)
def test_an_epoch_has_a_bounded_number_of_updates(labelled, batches, updates):
    assert Sampling().count_batches(labelled) == batches
    assert Sampling().count_updates(labelled) == updates
    assert Sampling(updates=10**6).count_updates(labelled) == batches
