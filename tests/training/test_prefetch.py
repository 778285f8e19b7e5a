"""What is made ahead comes in order, and its errors come where it would."""

import itertools
import threading
import time

import pytest

from dahgnn.training.prefetch import make_ahead


@pytest.mark.parametrize("depth", [0, 1, 3, 50])
@pytest.mark.parametrize("workers", [1, 4])
def test_all_come_in_order(depth, workers):
    def make(number):
        time.sleep(0.002 * (number % 3))  # later ones are done earlier
        return -number

    assert list(make_ahead(make, range(9), depth, workers)) == [-number for number in range(9)]


def test_no_more_are_made_than_may_be_ahead():
    made, enough = [], threading.Event()

    def make(number):
        made.append(number)
        if number == 3:
            enough.set()
        return number

    ahead = make_ahead(make, itertools.count(), 3)
    assert next(ahead) == 0
    assert enough.wait(10)
    ahead.close()
    assert made == [0, 1, 2, 3]


def test_several_are_made_at_a_time():
    both = threading.Barrier(2, timeout=10)

    def make(number):
        both.wait()
        return number

    assert list(make_ahead(make, range(4), 2, workers=2)) == [0, 1, 2, 3]


def test_an_error_comes_in_its_turn():
    def make(number):
        if number == 2:
            raise ValueError("no such batch")
        return number

    ahead = make_ahead(make, range(5), 2)
    assert [next(ahead), next(ahead)] == [0, 1]
    with pytest.raises(ValueError, match="no such batch"):
        next(ahead)
