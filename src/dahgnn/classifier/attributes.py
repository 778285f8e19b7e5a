"""What a fit leaves on an estimator: all of it, or what the last one left."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def keeping_last_fit(estimator: object) -> Iterator[None]:
    """Restore all attributes if the block fails or is interrupted, which leaves the last fit whole."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise
