import gzip
import struct

import numpy as np
import pytest
import torch

from dahgnn.datasets import Dataset, load_embedded_digits, load_mnist


def idx(array: np.ndarray, kind: int = 8) -> bytes:
    return bytes([0, 0, kind, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


@pytest.fixture
def folder(tmp_path):
    """A whole MNIST of twelve images, six of them for training."""
    rng = np.random.default_rng(0)
    for part in ("train", "t10k"):
        images = rng.integers(0, 256, (6, 28, 28), dtype=np.uint8)
        labels = np.arange(6, dtype=np.uint8)
        (tmp_path / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(images)))
        (tmp_path / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(labels)))
    return tmp_path


def test_mnist_is_read_as_written(folder):
    for part, name in (("train", "train"), ("test", "t10k")):
        mnist = load_mnist(folder, part)
        raw = gzip.decompress((folder / f"{name}-images-idx3-ubyte.gz").read_bytes())[16:]
        assert (mnist.features * 255).round().to(torch.uint8).flatten().tolist() == list(raw)
        assert mnist.features.dtype == torch.float32
        assert mnist.labels.tolist() == list(range(6))
        assert mnist.n_classes == 6


def cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def unzipped(content: bytes) -> bytes:
    return gzip.decompress(content)


def flipped(content: bytes) -> bytes:
    middle = len(content) // 2
    return (
        content[:middle]
        + bytes(255 - byte for byte in content[middle : middle + 40])
        + content[middle + 40 :]
    )


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (cut, "is cut or damaged"),
        (flipped, "is (cut or damaged|not a gzip file)"),
        (unzipped, "is not a gzip file"),
        (lambda _: b"", "is not an IDX file"),
        (lambda _: gzip.compress(b"\0\0\x08\x03\0\0"), "is cut or damaged"),
        (lambda _: gzip.compress(idx(np.zeros((6, 28, 28), np.uint8))[:-1]), "does not hold the 4704 values"),
        (
            lambda _: gzip.compress(idx(np.zeros((6, 28, 28), np.uint8)) + b"x"),
            "does not hold the 4704 values",
        ),
        (
            lambda _: gzip.compress(idx(np.zeros((6, 28, 28), np.uint8), kind=9)),
            "is not an IDX file of unsigned",
        ),
        (
            lambda _: gzip.compress(idx(np.zeros(6, np.uint8))),
            "is not an IDX file of unsigned bytes in 3 dim",
        ),
        (lambda _: gzip.compress(idx(np.zeros((6, 9, 28), np.uint8))), r"holds images of \(9, 28\) pixels"),
    ],
)
def test_a_bad_images_file_is_named_with_the_way_out(folder, spoil, words):
    path = folder / "train-images-idx3-ubyte.gz"
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(
        ValueError, match=f"train-images-idx3-ubyte.gz {words}.*Replace it by the official file"
    ):
        load_mnist(folder)


def test_unequal_lengths_are_refused(folder):
    (folder / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(np.zeros(5, np.uint8))))
    with pytest.raises(ValueError, match="train-labels-idx1-ubyte.gz has 5 labels for the 6 images"):
        load_mnist(folder)


def test_a_label_that_is_no_digit_is_refused(folder):
    (folder / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(np.full(6, 10, np.uint8))))
    with pytest.raises(ValueError, match="train-labels-idx1-ubyte.gz holds the label 10"):
        load_mnist(folder)


def test_a_missing_file_is_named(folder):
    (folder / "train-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(FileNotFoundError, match=r"train-labels-idx1-ubyte.gz\. Put the official file there"):
        load_mnist(folder)


def test_an_unknown_part_is_refused(folder):
    with pytest.raises(ValueError, match="one of 'train', 'test'"):
        load_mnist(folder, "tests")


def test_the_official_files(mnist_folder):
    mnist = load_mnist(mnist_folder)
    assert mnist.features.shape == (60000, 784)
    assert mnist.labels.bincount().tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    # Mean and deviation of the training pixels, as published everywhere.
    assert mnist.features.mean().item() == pytest.approx(0.1307, abs=1e-4)
    assert mnist.features.std().item() == pytest.approx(0.3081, abs=1e-4)


def test_the_embedded_digits():
    digits = load_embedded_digits()
    assert digits.features.shape == (5000, 784)
    assert digits.labels.bincount().tolist() == [500] * 10
    assert (digits.features.min(), digits.features.max()) == (0, 1)


def test_a_subset_keeps_rows_and_labels_together():
    dataset = Dataset("three", torch.eye(3), torch.tensor([0, 1, 2]))
    chosen = dataset.subset([2, 0])
    assert chosen.labels.tolist() == chosen.features.argmax(1).tolist() == [2, 0]
    with pytest.raises(ValueError, match="n - 1 = 2. Got 3"):
        dataset.subset([3])
