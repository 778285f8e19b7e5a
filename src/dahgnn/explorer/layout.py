"""Where rows stand on the map: principal components at once, and t-SNE when it is done.

Places come from the features alone, so that the map stays as it is while labels come in.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dahgnn.progress import Progress
from dahgnn.report.projection import tsne

Array = NDArray[Any]

# t-SNE is for rows that are a crowd, and few enough that it ends while somebody labels.
_FEWEST_BY_TSNE, _MOST_BY_TSNE = 100, 100_000
# Maps and the queue see so many leading directions: noise in the others takes time and tells nothing.
_DIRECTIONS = 50
# The directions are found from so many rows.
_SAMPLE = 20_000
MAPS = ("auto", "tsne", "pca")


def leading_directions(features: Tensor, *, seed: int = 0) -> Tensor:
    """Return features (n, d) along their leading directions, the first first: (n, 50), or fewer columns."""
    from sklearn.utils.extmath import randomized_svd

    sample = features
    if len(features) > _SAMPLE:
        generator = torch.Generator().manual_seed(seed)
        sample = features[torch.randperm(len(features), generator=generator)[:_SAMPLE]]
    mean = sample.mean(0)
    count = min(_DIRECTIONS, *sample.shape)
    _, _, axes = randomized_svd((sample - mean).numpy(), count, random_state=seed)
    return (features - mean) @ torch.from_numpy(axes.T.copy())


def place_by_components(directions: Tensor) -> Array:
    """Place rows by the first two directions, (n, 2) of float32."""
    placed = directions[:, :2].float().numpy()
    return np.pad(placed, ((0, 0), (0, 2 - placed.shape[1])))


def wants_tsne(kind: str, n: int) -> bool:
    """Whether rows get a t-SNE map after the first one; ``kind`` is one of `MAPS`."""
    return kind == "tsne" or (kind == "auto" and _FEWEST_BY_TSNE <= n <= _MOST_BY_TSNE)


def place_by_tsne(directions: Tensor, progress: Progress | None = None) -> Array | None:
    """Place rows by t-SNE of their leading directions, (n, 2); None where all are alike."""
    placed = tsne(directions, seed=0, progress=progress).float().numpy()
    return placed if np.isfinite(placed).all() else None


def layout_digest(directions: Tensor) -> str:
    """Return what tells the rows of a layout from others; it is the same on every machine, nearly always."""
    return hashlib.sha256(directions.float().numpy().round(3).tobytes()).hexdigest()
