"""What long work tells whoever watches it.

Work that takes long gets an `Observer`. It opens a phase for each thing that it does, and may tell within
the phase how far it is. The command line shows this on a terminal, a test records it, `SilentObserver`
ignores it. The functions ``tell_…`` translate what fits and downloads report into the words of a phase.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Protocol


class Progress(Protocol):
    """What a phase hears of the work that is done in it."""

    def __call__(
        self, done: float, total: float, text: str = "", *, seconds_left: float | None = None
    ) -> None:
        """Tell how far the phase is.

        Parameters
        ----------
        done, total : float
            How much of the work is done, and how much there is in all, in any unit. The first call of a phase
            may start above zero, when earlier work is continued.
        text : str
            A few words for a reader, as "3 of 10".
        seconds_left : float, optional
            How long the rest will take. By default the observer estimates it from the speed so far.
        """


class Observer(Protocol):
    """Whoever wants to see the progress of long work."""

    def phase(self, name: str) -> AbstractContextManager[Progress]:
        """Enter a phase, which lasts until the block ends; the block may tell its progress."""

    def note(self, text: str) -> None:
        """Receive a sentence that a user should read."""


class SilentObserver:
    """An observer that shows nothing."""

    @contextmanager
    def phase(self, name: str) -> Iterator[Progress]:  # noqa: ARG002
        """Enter a phase that nobody sees."""
        yield _ignore

    def note(self, text: str) -> None:
        """Ignore a sentence."""


def _ignore(done: float, total: float, text: str = "", *, seconds_left: float | None = None) -> None:
    """Ignore what a phase is told."""


class EpochNumbers(Protocol):
    """What this module reads of an epoch of a network; `dahgnn.training` describes it whole."""

    @property
    def epoch(self) -> int:
        """The number of updates so far."""

    @property
    def train_loss(self) -> float:
        """The mean cross-entropy of the nodes that train."""


class CNNEpochNumbers(Protocol):
    """What this module reads of an epoch of the CNN; `dahgnn.images` describes it whole."""

    @property
    def epoch(self) -> int:
        """The number of finished epochs."""

    @property
    def epochs(self) -> int:
        """The number of all epochs."""

    @property
    def loss(self) -> float | None:
        """The mean training loss of the epoch; None before the first has ended."""

    @property
    def test_accuracy(self) -> float | None:
        """The share of test images classified correctly; None where it was not measured."""

    @property
    def seconds_left(self) -> float:
        """The time that the rest of the training is expected to take."""


def tell_ensemble_epochs(
    progress: Progress, max_epochs: int, networks: int
) -> Callable[[int, EpochNumbers], None]:
    """Return a callback for networks that are trained in turns, each for some epochs more than before.

    The training may end long before ``max_epochs``, so that the time left is what it takes at most.
    """
    last = [0] * networks

    def tell(network: int, epoch: EpochNumbers) -> None:
        last[network] = epoch.epoch
        words = f"network {network + 1} of {networks}  epoch {epoch.epoch:3d} of at most {max_epochs}"
        progress(sum(last), networks * max_epochs, f"{words}  loss {epoch.train_loss:.3f}")

    return tell


def tell_shards(progress: Progress) -> Progress:
    """Return what hears of the shards of a search for neighbours, which comes before the epochs."""

    def tell(done: float, total: float, text: str = "", *, seconds_left: float | None = None) -> None:
        words = text or f"{done:,.0f} of {total:,.0f}"
        progress(0, 1, f"neighbours: {words}", seconds_left=seconds_left)

    return tell


def tell_cnn_epochs(progress: Progress) -> Callable[[CNNEpochNumbers], None]:
    """Return a callback for the epochs of the CNN, which knows from its start how long it will take."""

    def tell(epoch: CNNEpochNumbers) -> None:
        parts = []
        if epoch.loss is not None:
            parts.append(f"epoch {epoch.epoch} of {epoch.epochs}  loss {epoch.loss:.3f}")
        if epoch.test_accuracy is not None:
            parts.append(f"{100 * epoch.test_accuracy:.2f} %")
        progress(epoch.epoch, epoch.epochs, "  ".join(parts), seconds_left=epoch.seconds_left)

    return tell


def tell_fits(progress: Progress) -> Callable[[int, int, str], None]:
    """Return a callback for many fits: how many are done, how many there are, and the name of the last."""

    def tell(done: int, total: int, last: str) -> None:
        progress(done, total, f"{done:,} of {total:,}  {last}".rstrip())

    return tell


@contextmanager
def tell_downloads(observer: Observer) -> Iterator[Callable[[str, int, int], None]]:
    """Yield a callback for the bytes of downloads: file, bytes received, and size; each file is a phase."""
    with ExitStack() as phases:
        known: dict[str, Progress] = {}

        def tell(file: str, received: int, size: int) -> None:
            if file not in known:
                known[file] = phases.enter_context(observer.phase(f"Download {file}"))
            known[file](received, size, f"{received / 2**20:.1f} of {size / 2**20:.1f} MiB")

        yield tell
