"""Running extremes: what lies outside counts at once, and the rest is forgotten within an epoch."""

import torch

from dahgnn.nn.sampled import no_extremes
from dahgnn.training.ranges import Ranges, move


def ranges(**settings):
    return Ranges((2, 1), torch.device("cpu"), torch.float64, **settings)


def column(*numbers):
    return torch.tensor(numbers, dtype=torch.float64).unsqueeze(1)


def test_the_first_batch_counts_as_it_is():
    seen = column(1.0, 4.0, 2.0)
    assert torch.equal(ranges().of_batch(0.1)[1](0, seen), seen)


def test_a_batch_that_is_an_epoch_counts_alone():
    found = ranges()
    (_, see) = found.of_batch(1.0)
    see(1, column(-9.0, 9.0, 9.0))
    seen = column(1.0, 4.0, 2.0)
    assert torch.equal(see(1, seen), seen)


def test_ends_shrink_by_the_share_of_an_epoch_and_widen_at_once():
    running = column(0.0, 10.0, 5.0)
    seen = column(2.0, 11.0, 1.0)
    torch.testing.assert_close(move(running, seen, 0.25), column(0.5, 11.0, 4.0))
    torch.testing.assert_close(move(running, column(-3.0, 2.0, -1.0), 0.25), column(-3.0, 8.0, 3.5))


def test_nobody_moves_nothing():
    running = column(0.0, 10.0, 5.0)
    assert torch.equal(move(running, no_extremes(running[0]), 0.5), running)
    nobody = no_extremes(running[0])
    assert torch.equal(move(nobody, nobody, 0.5), nobody)


class Other:
    """A world in which another process has seen other ends."""

    rank, size = 0, 2

    def __init__(self):
        self.calls = 0

    def combine_(self, minimum, maximum):
        self.calls += 1
        minimum.clamp_(max=-7.0)
        maximum.clamp_(min=7.0)


def test_processes_count_together():
    world = Other()
    found = ranges(world=world)
    seen = column(1.0, 9.0, 2.0)
    torch.testing.assert_close(found.of_batch(0.5)[1](0, seen), column(-7.0, 9.0, 7.0))
    assert torch.equal(seen, column(1.0, 9.0, 2.0))
    found.miss_batch(0.5)
    assert world.calls == 5
