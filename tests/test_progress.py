from contextlib import contextmanager
from types import SimpleNamespace

from dahgnn.progress import (
    SilentObserver,
    tell_cnn_epochs,
    tell_downloads,
    tell_ensemble_epochs,
    tell_fits,
    tell_shards,
)
from dahgnn.training.fit import Epoch


class Recorder:
    """An observer that remembers what it was told."""

    def __init__(self):
        self.told = []

    @contextmanager
    def phase(self, name):
        self.told.append(f"{name} begins")
        yield lambda done, total, text="", *, seconds_left=None: self.told.append(
            (name, done, total, text, seconds_left)
        )
        self.told.append(f"{name} ends")


def calls():
    told = []
    return told, lambda *values, **named: told.append((values, named))


def epoch(number, best):
    return Epoch(
        epoch=number, train_loss=0.1234, validation_loss=0.4561, train_accuracy=1, validation_accuracy=0.912,
        best_epoch=best, seconds=2.0,
    )  # fmt: skip


def test_networks_that_take_turns_count_on():
    told, progress = calls()
    tell = tell_ensemble_epochs(progress, 100, 2)
    for network, number in ((0, 0), (0, 8), (1, 0), (1, 8), (0, 8), (0, 11)):
        tell(network, epoch(number, 0))
    assert [values[:2] for values, _ in told] == [(done, 200) for done in (0, 8, 8, 16, 16, 19)]
    assert told[-1][0][2] == "network 1 of 2  epoch  11 of at most 100  loss 0.123"


def test_shards_come_before_the_epochs():
    told, progress = calls()
    tell_shards(progress)(3, 1000)
    tell_shards(progress)(3, 1000, "shard 3", seconds_left=7.0)
    assert told == [
        ((0, 1, "neighbours: 3 of 1,000"), {"seconds_left": None}),
        ((0, 1, "neighbours: shard 3"), {"seconds_left": 7.0}),
    ]


def test_epochs_of_the_cnn_say_what_was_measured():
    told, progress = calls()
    tell = tell_cnn_epochs(progress)
    tell(SimpleNamespace(epoch=0, epochs=9, loss=None, test_accuracy=None, seconds_left=90.0))
    tell(SimpleNamespace(epoch=1, epochs=9, loss=0.5, test_accuracy=0.25, seconds_left=80.0))
    assert told == [
        ((0, 9, ""), {"seconds_left": 90.0}),
        ((1, 9, "epoch 1 of 9  loss 0.500  25.00 %"), {"seconds_left": 80.0}),
    ]


def test_fits_are_counted():
    told, progress = calls()
    tell_fits(progress)(3, 1000, "mnist")
    assert told == [((3, 1000, "3 of 1,000  mnist"), {})]


def test_each_file_is_a_phase_until_all_downloads_are_done():
    observer = Recorder()
    with tell_downloads(observer) as tell:
        for file, received in (("a", 2**19), ("b", 2**20), ("a", 2**20)):
            tell(file, received, 2**20)
    assert observer.told == [
        "Download a begins",
        ("Download a", 2**19, 2**20, "0.5 of 1.0 MiB", None),
        "Download b begins",
        ("Download b", 2**20, 2**20, "1.0 of 1.0 MiB", None),
        ("Download a", 2**20, 2**20, "1.0 of 1.0 MiB", None),
        "Download b ends",
        "Download a ends",
    ]


def test_a_silent_observer_takes_everything(capfd):
    observer = SilentObserver()
    observer.note("a sentence")
    with observer.phase("work") as progress:
        progress(1, 2, "half", seconds_left=3.0)
    assert capfd.readouterr() == ("", "")
