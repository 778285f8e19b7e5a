"""Small data that many tests share."""

import os
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
from browsers import launching
from hypothesis import settings

from dahgnn import Hypergraph, Split, split_per_class
from dahgnn.images.published import PUBLISHED

# The machine may be busy: no example fails for being slow.
settings.register_profile("dahgnn", deadline=None, derandomize=True)
settings.load_profile("dahgnn")

# A shell that starts the tests in the background has Ctrl-C ignored, and programs that they start inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def published_files(monkeypatch):
    """Let a test enter small files among the published ones of a dataset, for itself alone."""
    for name, digests in list(PUBLISHED.items()):
        monkeypatch.setitem(PUBLISHED, name, digests)


@pytest.fixture(scope="session")
def blobs() -> tuple[torch.Tensor, torch.Tensor]:
    """Three classes of 40 points in six dimensions, apart but not trivially so."""
    generator = torch.Generator().manual_seed(7)
    labels = torch.arange(120) % 3
    centres = 2.5 * torch.randn(3, 6, generator=generator)
    return centres[labels] + torch.randn(120, 6, generator=generator), labels


@pytest.fixture(scope="session")
def blob_hypergraph(blobs) -> Hypergraph:
    return Hypergraph.from_features(blobs[0], k=5)


@pytest.fixture(scope="session")
def blob_split(blobs) -> Split:
    return split_per_class(blobs[1], train=5, validation=8, seed=0)


@pytest.fixture(scope="session")
def mnist_folder() -> Path:
    """The four official files, in the folder that DAHGNN_TEST_MNIST names."""
    if "DAHGNN_TEST_MNIST" not in os.environ:
        pytest.skip("DAHGNN_TEST_MNIST names no folder")
    return Path(os.environ["DAHGNN_TEST_MNIST"])


@pytest.fixture
def write(tmp_path):
    """Write a file of text or bytes."""

    def write(content, name="data.csv", encoding="utf-8"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode(encoding))
        return path

    return write


@pytest.fixture
def pack(tmp_path):
    """Write arrays to an NPZ file."""

    def pack(name="data.npz", **arrays):
        np.savez(tmp_path / name, **arrays)
        return tmp_path / name

    return pack


@pytest.fixture
def store(tmp_path):
    """Write columns to a Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    def store(columns, name="data.parquet"):
        pq.write_table(pa.table(columns), tmp_path / name)
        return tmp_path / name

    return store


@pytest.fixture(scope="module")
def launch():
    """Start Chromium: ``launch("webgl2")`` or ``launch("2d")``; skipped where it is missing."""
    yield from launching()
