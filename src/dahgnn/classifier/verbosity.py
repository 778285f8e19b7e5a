"""What a fit tells while it runs: lines of a logger, by the clock."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dahgnn.training.updates import Update

# Between two epochs that are logged.
_SECONDS_A_LINE = 5


class Teller:
    """Log what happens, as much as is asked for.

    Parameters
    ----------
    logger : logging.Logger
        Gets lines of the level INFO.
    verbose : int
        0 for nothing, 1 for each part of the work and an epoch every five seconds, 2 for each epoch.
    """

    def __init__(self, logger: logging.Logger, verbose: int) -> None:
        self.logger, self.verbose = logger, verbose
        self._last = -math.inf

    def __call__(self, message: str, *values: object) -> None:
        """Log a line, if anything is to be told."""
        if self.verbose:
            self.logger.info(message, *values)

    def listen(self, callback: Callable[[int, Update], None] | None) -> Callable[[int, Update], None]:
        """Return what hears of the epochs of the networks, and passes them on."""

        def hear(network: int, epoch: Update) -> None:
            now = time.monotonic()
            if self.verbose > 1 or (self.verbose and now - self._last >= _SECONDS_A_LINE):
                self._last = now
                self("Network %d, epoch %d: loss %.4f", network + 1, epoch.epoch, epoch.train_loss)
            if callback is not None:
                callback(network, epoch)

        return hear


@contextmanager
def telling(logger: logging.Logger, verbose: int) -> Iterator[Teller]:
    """Show the lines of a logger within the block, on the standard error if nobody else does."""
    handler = None
    level = logger.level
    if verbose and not logger.isEnabledFor(logging.INFO):
        logger.setLevel(logging.INFO)
    if verbose and not logger.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(message)s"))
        logger.addHandler(handler)
    try:
        yield Teller(logger, verbose)
    finally:
        logger.setLevel(level)
        if handler is not None:
            logger.removeHandler(handler)
