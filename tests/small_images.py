"""Small images to train on and to read: what the tests of several modules share."""

import numpy as np
import torch

from dahgnn.images.cnn import CNNConfig
from dahgnn.images.datasets import Images
from dahgnn.images.published import PUBLISHED, file_digests

SMALL = CNNConfig(epochs=3, batch_size=16, width=0.0625, learning_rate=0.05, padding=1, cutout=3)


def striped_images(n: int, seed: int) -> Images:
    """Three classes of 16 × 16 pixels under noise: stripes across, stripes down, a chequered board."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(n) % 3
    row, column = torch.meshgrid(torch.arange(16) // 2 % 2, torch.arange(16) // 2 % 2, indexing="ij")
    patterns = torch.stack([row, column, row ^ column]).float()
    noise = torch.rand(n, 3, 16, 16, generator=generator)
    pixels = 255 * (0.35 * patterns[labels][:, None] + 0.65 * noise)
    return Images("cifar10", pixels.to(torch.uint8), labels)


TRAIN, TEST = striped_images(40, seed=0), striped_images(15, seed=5)


def write_cifar10(data, records=4):
    """A whole CIFAR-10 of so many images a file. Return the official pixels, (n, channel, row, column)."""
    rng = np.random.default_rng(1)
    folder = data / "cifar10" / "cifar-10-batches-bin"
    folder.mkdir(parents=True)
    written = {}
    for name in (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"):
        labels = rng.integers(0, 10, records, dtype=np.uint8)
        pixels = rng.integers(0, 256, (records, 3, 32, 32), dtype=np.uint8)
        written[name] = pixels, labels
        rows = [bytes([label]) + image.tobytes() for label, image in zip(labels, pixels, strict=True)]
        (folder / f"{name}.bin").write_bytes(b"".join(rows))
    publish_files("cifar10", data / "cifar10")
    return folder, written


def publish_files(name, folder):
    """Enter the files in the folder of a dataset among the published ones, until the test ends."""
    files = [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]
    PUBLISHED[name] = file_digests(folder, files)
