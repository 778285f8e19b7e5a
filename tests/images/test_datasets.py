import gzip
import hashlib
import io
import os
import pickle
import re
import struct
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from rights import plain_user
from scipy.io import savemat
from small_images import publish_files, write_cifar10

from dahgnn.images.datasets import (
    PARTS,
    TITLES,
    Dataset,
    Images,
    load_embedded_digits,
    load_images,
    load_mnist,
)
from dahgnn.images.published import PUBLISHED


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
    publish_files("mnist", tmp_path)
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


def test_a_file_without_images_is_refused(folder):
    (folder / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(np.zeros((0, 28, 28), np.uint8))))
    (folder / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(np.zeros(0, np.uint8))))
    with pytest.raises(ValueError, match="train-labels-idx1-ubyte.gz holds no images"):
        load_mnist(folder)


def test_an_unknown_part_is_refused(folder):
    with pytest.raises(ValueError, match="one of 'train', 'test'"):
        load_mnist(folder, "tests")
    with pytest.raises(ValueError, match="'part' parameter of load_images must be one of 'train', 'test'"):
        load_images("mnist", folder.parent, "tests")


def test_an_unknown_dataset_is_refused(tmp_path):
    with pytest.raises(ValueError, match="one of 'mnist', 'cifar10', 'svhn'. Got 'cifar'. Did you mean"):
        load_images("cifar", tmp_path, "train")


def test_images_and_features_of_mnist_agree(tmp_path, folder):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mnist").symlink_to(folder)
    images = load_images("mnist", tmp_path / "data", "test")
    assert (images.name, tuple(images.pixels.shape), images.pixels.dtype) == (
        "mnist",
        (6, 1, 28, 28),
        torch.uint8,
    )
    features = load_mnist(folder, "test")
    assert features.name == "MNIST"
    assert torch.equal(images.as_features().features, features.features)
    assert torch.equal(images.labels, features.labels)
    images.pixels[0] = 7  # what came from a file can still be changed


def test_another_dataset_under_the_same_names_is_refused(folder):
    path = folder / "train-labels-idx1-ubyte.gz"
    right = hashlib.sha256(path.read_bytes()).hexdigest()
    path.write_bytes(gzip.compress(idx(np.arange(6, dtype=np.uint8)[::-1].copy())))
    wrong = hashlib.sha256(path.read_bytes()).hexdigest()
    expected = (
        f"The MNIST file {path} is not the published one: its SHA-256 must be {right}. Got {wrong}. "
        "Replace it by the official file of that name. Data of your own need a name of their own"
    )
    with pytest.raises(ValueError, match=re.escape(expected)):
        load_mnist(folder)
    assert load_mnist(folder, "test").labels.tolist() == list(range(6))  # whose files are as they were


def test_whoever_says_so_may_read_other_files(folder):
    digests = dict(PUBLISHED["mnist"])
    PUBLISHED["mnist"] = {}
    with pytest.raises(ValueError, match="must be that of a file which the dataset has"):
        load_mnist(folder)
    assert load_mnist(folder, digests=digests).n_classes == 6
    (folder.parent / "data").mkdir()
    (folder.parent / "data" / "mnist").symlink_to(folder)
    images = load_images("mnist", folder.parent / "data", "test", digests=digests)
    assert images.files == {name: digest for name, digest in digests.items() if name.startswith("t10k")}
    assert images.subset([0]).files == images.files


def test_cifar10_is_read_as_written(tmp_path):
    _, written = write_cifar10(tmp_path)
    for part, names in (("train", list(written)[:5]), ("test", ["test_batch"])):
        images = load_images("cifar10", tmp_path, part)
        assert np.array_equal(images.pixels.numpy(), np.concatenate([written[name][0] for name in names]))
        assert images.labels.tolist() == [int(label) for name in names for label in written[name][1]]
        assert (images.name, images.labels.dtype) == ("cifar10", torch.int64)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda content: content[:-1], "is cut or no such file: its 12291 bytes are not whole images"),
        (lambda content: content[: 2 * 3073], "holds 2 images, but data_batch_1.bin holds 4"),
        (lambda content: content * 2501, "is longer than the 30730000 bytes of 10000 images"),
        (
            lambda content: content[:3073] + b"\x0a" + content[3074:],
            "holds the label 10, which is not between 0",
        ),
        (lambda _: b"", "holds no images"),
        (lambda _: pickle.dumps({"data": [1, 2]}), "is cut or no such file"),
    ],
)
def test_a_bad_cifar10_file_is_named_with_the_way_out(tmp_path, spoil, words):
    folder, _ = write_cifar10(tmp_path)
    path = folder / "data_batch_3.bin"
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(
        ValueError, match=f"The CIFAR-10 file .*data_batch_3.bin {words}.*Replace it by the official file"
    ):
        load_images("cifar10", tmp_path, "train")


def mat(compress=True, **arrays):
    buffer = io.BytesIO()
    savemat(buffer, arrays, do_compression=compress)
    return buffer.getvalue()


SVHN_PIXELS = np.random.default_rng(2).integers(0, 256, (32, 32, 3, 5), dtype=np.uint8)
SVHN_LABELS = np.array([[10], [1], [9], [10], [4]], np.uint8)


def write_svhn(data):
    folder = data / "svhn"
    folder.mkdir(parents=True)
    (folder / "train_32x32.mat").write_bytes(mat(X=SVHN_PIXELS, y=SVHN_LABELS))
    (folder / "test_32x32.mat").write_bytes(mat(X=SVHN_PIXELS[..., :2], y=SVHN_LABELS[:2]))
    publish_files("svhn", folder)
    return folder


@pytest.mark.parametrize("kind", [np.uint8, np.float64])  # MATLAB writes double unless told
@pytest.mark.parametrize("compress", [True, False])
def test_svhn_is_read_as_written(tmp_path, kind, compress):
    folder = write_svhn(tmp_path)
    (folder / "train_32x32.mat").write_bytes(mat(compress, X=SVHN_PIXELS, y=SVHN_LABELS.astype(kind), z="x"))
    publish_files("svhn", folder)
    images = load_images("svhn", tmp_path, "train")
    assert (images.name, images.pixels.dtype) == ("svhn", torch.uint8)
    for image in range(5):
        for channel in range(3):
            assert images.pixels[image, channel].tolist() == SVHN_PIXELS[:, :, channel, image].tolist()
    assert images.labels.tolist() == [0, 1, 9, 0, 4]
    assert len(load_images("svhn", tmp_path, "test").labels) == 2


WHOLE_MAT = mat(X=SVHN_PIXELS, y=SVHN_LABELS)
PLAIN_MAT = mat(compress=False, X=SVHN_PIXELS, y=SVHN_LABELS)


def objects(shape):
    return np.full(shape, "x", dtype=object)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is cut, damaged or not a .mat file"),
        (b"no .mat at all" * 99, "is cut, damaged or not a .mat file"),
        (b"MATLAB 7.3 MAT-file".ljust(124) + b"\0\2IM" + b"\x89HDF" * 9, "is cut, damaged or not a .mat"),
        (WHOLE_MAT[:100], "is cut, damaged or not a .mat file"),
        (WHOLE_MAT[:9000], "is cut"),
        (WHOLE_MAT[:-1], "is cut"),
        (WHOLE_MAT + b"more", "is cut, damaged or not a .mat file"),
        (PLAIN_MAT[:9000], "is cut or another file: it lacks the array y"),
        (PLAIN_MAT[:-4], "is cut"),
        (WHOLE_MAT[:5000] + bytes(40) + WHOLE_MAT[5040:], "is cut, damaged"),
        (mat(y=SVHN_LABELS), r"is cut or another file: it lacks the array X, \(32, 32, 3, n\) of uint8"),
        (mat(X=SVHN_PIXELS), "is cut or another file: it lacks the array y"),
        (mat(X=SVHN_PIXELS.astype(float), y=SVHN_LABELS), "holds an X of double and shape"),
        (mat(X=SVHN_PIXELS[:31], y=SVHN_LABELS), r"holds an X of uint8 and shape \(31, 32, 3, 5\) instead"),
        (mat(X=SVHN_PIXELS.transpose(3, 0, 1, 2), y=SVHN_LABELS), "holds an X of uint8 and shape"),
        (mat(X=SVHN_PIXELS[..., 0], y=SVHN_LABELS), "holds an X of uint8 and shape"),
        (mat(X=objects((32, 32, 3, 5)), y=SVHN_LABELS), "holds an X of cell and shape"),
        (mat(X=SVHN_PIXELS, y=objects((5, 1))), "holds a y of cell and shape"),
        (mat(X=SVHN_PIXELS, y={"a": 1}), "holds a y of struct and shape"),
        (mat(X=SVHN_PIXELS, y="12345"), "holds a y of char and shape"),
        (mat(X=SVHN_PIXELS, y=SVHN_LABELS.T), r"holds a y of uint8 and shape \(1, 5\) for the 5 images"),
        (mat(X=SVHN_PIXELS, y=SVHN_LABELS[:4]), r"holds a y of uint8 and shape \(4, 1\) for the 5 images"),
        (mat(X=SVHN_PIXELS, y=SVHN_LABELS % 10), "holds the label 0, which is not between 1 and 10"),
        (mat(X=SVHN_PIXELS, y=SVHN_LABELS + 1), "holds the label 11, which is not between 1 and 10"),
        (mat(X=SVHN_PIXELS, y=SVHN_LABELS / 2), "holds the label 0.5, which is not between 1 and 10"),
        (mat(X=SVHN_PIXELS, y=SVHN_LABELS * np.nan), "holds the label nan"),
        (mat(X=SVHN_PIXELS[..., :0], y=SVHN_LABELS[:0]), "holds no images"),
    ],
)
def test_a_bad_svhn_file_is_named_with_the_way_out(tmp_path, content, words):
    (write_svhn(tmp_path) / "train_32x32.mat").write_bytes(content)
    with pytest.raises(
        ValueError, match=f"The SVHN file .*train_32x32.mat {words}.*Replace it by the official"
    ):
        load_images("svhn", tmp_path, "train")


FIRST_FILES = {
    "mnist": "mnist/train-images-idx3-ubyte.gz",
    "cifar10": "cifar10/cifar-10-batches-bin/data_batch_1.bin",
    "svhn": "svhn/train_32x32.mat",
}


@pytest.mark.parametrize("name", TITLES)
def test_a_missing_file_is_named_with_its_place(tmp_path, name):
    expected = (
        rf"{TITLES[name]} needs the file .*/{FIRST_FILES[name]}\. Put the official file there, or get it"
    )
    with pytest.raises(FileNotFoundError, match=expected + ("" if name != "cifar10" else ".*binary version")):
        load_images(name, tmp_path, "train")


@pytest.mark.parametrize("name", TITLES)
def test_a_folder_in_place_of_a_file_is_named(tmp_path, name):
    (tmp_path / FIRST_FILES[name]).mkdir(parents=True)
    with pytest.raises(IsADirectoryError, match=f"needs the file .*/{FIRST_FILES[name]}. Got a folder. Put"):
        load_images(name, tmp_path, "train")


@pytest.mark.skipif(os.name != "posix", reason="other rights elsewhere")
@pytest.mark.parametrize("name", TITLES)
def test_a_file_that_must_not_be_read_is_named(name):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / FIRST_FILES[name]
        path.parent.mkdir(parents=True)
        path.touch()
        path.chmod(0)
        Path(folder).chmod(0o755)
        expected = rf"{FIRST_FILES[name]} cannot be read \(Permission denied\). Let your user read it"
        with plain_user(), pytest.raises(PermissionError, match=expected):
            load_images(name, folder, "train")


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


def test_a_subset_of_images_keeps_pixels_and_labels_together():
    pixels = torch.arange(3, dtype=torch.uint8)[:, None, None, None].expand(3, 2, 4, 4)
    images = Images("svhn", pixels, torch.tensor([0, 1, 2]))
    assert images.n_classes == 3
    chosen = images.subset([2, 0])
    assert (chosen.name, chosen.labels.tolist(), chosen.pixels[:, 0, 0, 0].tolist()) == (
        "svhn",
        [2, 0],
        [2, 0],
    )
    with pytest.raises(ValueError, match="n - 1 = 2. Got 3"):
        images.subset([3])


def test_features_are_rows_of_channel_height_width():
    pixels = torch.arange(24, dtype=torch.uint8).reshape(2, 3, 2, 2)
    dataset = Images("cifar10", pixels, torch.tensor([1, 0])).as_features()
    assert (dataset.name, dataset.features.dtype) == ("cifar10", torch.float32)
    assert torch.equal(dataset.features, torch.arange(24).reshape(2, 12) / 255)
    assert dataset.labels.tolist() == [1, 0]


@pytest.fixture
def data_folder():
    """All official files, in the folder that DAHGNN_TEST_DATA names."""
    if "DAHGNN_TEST_DATA" not in os.environ:
        pytest.skip("DAHGNN_TEST_DATA names no folder")
    return Path(os.environ["DAHGNN_TEST_DATA"])


# Images a class, and the mean of each channel of the training images as published everywhere.
OFFICIAL = {
    "mnist": (
        [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949],
        [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009],
        [0.1307],
    ),
    "cifar10": ([5000] * 10, [1000] * 10, [0.4914, 0.4822, 0.4465]),
    "svhn": (
        [4948, 13861, 10585, 8497, 7458, 6882, 5727, 5595, 5045, 4659],
        [1744, 5099, 4149, 2882, 2523, 2384, 1977, 2019, 1660, 1595],
        [0.4377, 0.4438, 0.4728],
    ),
}


@pytest.mark.parametrize("name", TITLES)
def test_the_official_images(data_folder, name):
    *counts, means = OFFICIAL[name]
    if name == "svhn":  # a copy of the same images that was written by other software does as well
        publish_files(name, data_folder / name)
    for part, count in zip(PARTS, counts, strict=True):
        images = load_images(name, data_folder, part)
        assert images.labels.bincount().tolist() == count
        assert images.pixels.is_contiguous()
        if part == "train":
            sums = images.pixels.sum((0, 2, 3), dtype=torch.float64)
            channel = images.pixels[:, 0].numel()
            assert (sums / channel / 255).tolist() == pytest.approx(means, abs=1e-4)
