"""The 13-layer CNN, the augmentation of its images, and its features."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from dahgnn.checks import (
    bad_type,
    bad_value,
    check_choice,
    check_count,
    check_flag,
    check_in_range,
    check_number,
    check_seed,
)
from dahgnn.config import PRECISIONS
from dahgnn.images.datasets import Images

N_FEATURES = 128

# A mirrored digit is another sign, or none.
_DIGITS = ("mnist", "svhn")
_SMALLEST_SIDE = 12  # leaves 3 × 3 for the convolution without padding
_EVALUATED = 256  # images at a time; the result depends on it only by rounding


@dataclass(frozen=True, kw_only=True)
class CNNConfig:
    """The CNN and its training: SGD with Nesterov momentum, a rate that rises and then falls as a cosine.

    Parameters
    ----------
    epochs, batch_size : int
        Passes over the training images, and images an update; a last batch that is not full is left out.
    learning_rate, warm_up : float
        The highest rate, and the share of all updates in which it rises to it from zero.
    momentum, weight_decay : float
        The settings of SGD; all weights decay.
    label_smoothing : float
        Share of each target that is spread over all classes.
    padding : int
        Images are shifted by up to so many pixels each way; what comes in is mirrored at the border.
    flip : bool
        Whether half of the images are mirrored left to right; refused for digits.
    cutout : int
        Side of the square that is covered with the mean colour; 0 for none.
    dropout : float
        Share of units dropped after each pool.
    averaging : float
        Decay, an update, of the moving average of weights and batch statistics that is the result.
    recalibrate : bool
        Whether the batch statistics of the result are measured anew, see `recalibrate`.
    width : float
        Factor of the channels of all convolutions but the last, which has 128.
    precision : {"float32", "bfloat16"}
        Of the training on a CUDA device. On the CPU, and for features anywhere, it is float32.
    seed : int
        The source of the weights, of the order of the images, of their augmentation and of dropout.
    """

    epochs: int = 120
    batch_size: int = 512
    learning_rate: float = 0.3
    warm_up: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 5e-4
    label_smoothing: float = 0.1
    padding: int = 4
    flip: bool = False
    cutout: int = 12
    dropout: float = 0.5
    averaging: float = 0.998
    recalibrate: bool = True
    width: float = 1.0
    precision: str = "bfloat16"
    seed: int = 0

    def __post_init__(self) -> None:
        owner = type(self).__name__
        check_count("epochs", self.epochs, owner)
        check_count("batch_size", self.batch_size, owner, low=2)  # one image has no batch statistics
        check_count("padding", self.padding, owner, low=0)
        check_count("cutout", self.cutout, owner, low=0)
        check_number("learning_rate", self.learning_rate, owner, low=0, open_low=True)
        check_number("weight_decay", self.weight_decay, owner, low=0)
        check_number("width", self.width, owner, low=0, high=8, open_low=True)
        for name in ("warm_up", "momentum", "label_smoothing", "dropout", "averaging"):
            check_number(name, getattr(self, name), owner, low=0, high=1)
        check_flag("flip", self.flip, owner)
        check_flag("recalibrate", self.recalibrate, owner)
        check_choice("precision", self.precision, PRECISIONS, owner)
        check_seed(self.seed, owner)


CONFIGS: Mapping[str, CNNConfig] = {
    "cifar10": CNNConfig(flip=True),
    # Digits stand in the middle of the picture, and others beside them: shift less, cover less.
    "svhn": CNNConfig(epochs=70, padding=2, cutout=8),
}


class CNN13(nn.Module):
    """The 13-layer CNN (Laine and Aila, ICLR 2017), with 128 pooled features.

    Parameters
    ----------
    n_classes, channels : int
        Number of classes, and of an image's channels.
    width, dropout : float
        As in `CNNConfig`.
    generator : torch.Generator, optional
        Source of the initial weights.

    Examples
    --------
    >>> network = CNN13(width=0.0625).eval()
    >>> images = network.normalise(torch.zeros(5, 3, 32, 32, dtype=torch.uint8))
    >>> network(images).shape, network.features(images).shape
    (torch.Size([5, 10]), torch.Size([5, 128]))
    """

    mean: Tensor
    deviation: Tensor

    def __init__(
        self,
        n_classes: int = 10,
        channels: int = 3,
        *,
        width: float = CNNConfig.width,
        dropout: float = CNNConfig.dropout,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        check_count("n_classes", n_classes, "CNN13", low=2)
        check_count("channels", channels, "CNN13")
        small, middle, large = (max(1, round(width * units)) for units in (128, 256, 512))
        self.dropout = dropout
        self.block1 = _convolutions(channels, (small, 3), (small, 3), (small, 3))
        self.block2 = _convolutions(small, (middle, 3), (middle, 3), (middle, 3))
        self.block3 = _convolutions(middle, (large, 3), (middle, 1), (N_FEATURES, 1), padded=False)
        self.pool = nn.MaxPool2d(2)
        self.classifier = nn.utils.skip_init(nn.Linear, N_FEATURES, n_classes)
        self.register_buffer("mean", torch.full((channels,), 0.5))
        self.register_buffer("deviation", torch.full((channels,), 0.25))
        self._initialise(generator)

    def _initialise(self, generator: torch.Generator | None) -> None:
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, a=0.1, generator=generator)
        nn.init.xavier_uniform_(self.classifier.weight, generator=generator)
        nn.init.zeros_(self.classifier.bias)

    def normalise(self, pixels: Tensor) -> Tensor:
        """Return images of bytes as float32 with the training set's mean 0 and deviation 1 a channel."""
        mean, deviation = (value[:, None, None] for value in (self.mean, self.deviation))
        return (pixels.float() / 255 - mean) / deviation

    def features(self, images: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Return the pooled features, (n, 128), of normalised images (n, channels, height, width).

        The generator draws the units to drop while training.
        """
        hidden = self._drop(self.pool(self.block1(images)), generator)
        hidden = self._drop(self.pool(self.block2(hidden)), generator)
        pooled: Tensor = self.block3(hidden).float().mean((2, 3))
        return pooled

    def forward(self, images: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Return the logits, (n, n_classes), of normalised images; see `features`."""
        logits: Tensor = self.classifier(self.features(images, generator))
        return logits

    def _drop(self, hidden: Tensor, generator: torch.Generator | None) -> Tensor:
        if not self.training or self.dropout == 0:
            return hidden
        kept = torch.empty_like(hidden).bernoulli_(1 - self.dropout, generator=generator)
        return hidden * kept / (1 - self.dropout) if self.dropout < 1 else hidden * 0


def _convolutions(channels: int, *layers: tuple[int, int], padded: bool = True) -> nn.Sequential:
    """Return convolutions of (units, side), each with batch normalisation and LeakyReLU."""
    block = nn.Sequential()
    for units, side in layers:
        padding = side // 2 if padded else 0
        # No bias: the batch normalisation would take it away.
        block.append(nn.utils.skip_init(nn.Conv2d, channels, units, side, padding=padding, bias=False))
        block.append(nn.BatchNorm2d(units))
        block.append(nn.LeakyReLU(0.1, inplace=True))
        channels = units
    return block


class Augmentation(NamedTuple):
    """What happens to each of n images: where it is cut out, whether it is mirrored, what is covered.

    ``top`` and ``left`` are in the padded image, ``cover_top`` and ``cover_left`` in the finished one.
    """

    top: Tensor
    left: Tensor
    mirrored: Tensor
    cover_top: Tensor
    cover_left: Tensor


def draw_augmentation(
    count: int, height: int, width: int, config: CNNConfig, generator: torch.Generator
) -> Augmentation:
    """Draw what `augment` does to so many images, on the generator's device."""

    def draw(choices: int) -> Tensor:
        return torch.randint(choices, (count,), generator=generator, device=generator.device)

    return Augmentation(
        top=draw(2 * config.padding + 1),
        left=draw(2 * config.padding + 1),
        mirrored=draw(2).bool() & config.flip,
        cover_top=draw(height - config.cutout + 1),
        cover_left=draw(width - config.cutout + 1),
    )


def augment(pixels: Tensor, drawn: Augmentation, config: CNNConfig, colour: Tensor) -> Tensor:
    """Shift, mirror and cover images on their device.

    Parameters
    ----------
    pixels : Tensor of uint8, (n, channels, height, width)
        The images.
    drawn : Augmentation
        What happens to each.
    config : CNNConfig
        Has the padding and the side of the covered square.
    colour : Tensor of uint8, (channels,)
        Covers the square.
    """
    count, channels, height, width = pixels.shape
    rows, covered_rows = _source(drawn.top, drawn.cover_top, height, config)
    columns, covered_columns = _source(drawn.left, drawn.cover_left, width, config)
    columns = torch.where(drawn.mirrored[:, None], columns.flip(1), columns)
    image = torch.arange(count, device=pixels.device)[:, None, None, None]
    channel = torch.arange(channels, device=pixels.device)[:, None, None]
    moved = pixels[image, channel, rows[:, None, :, None], columns[:, None, None, :]]
    covered = covered_rows[:, None, :, None] & covered_columns[:, None, None, :]
    return torch.where(covered, colour[:, None, None], moved)


def _source(start: Tensor, cover: Tensor, side: int, config: CNNConfig) -> tuple[Tensor, Tensor]:
    """Return which row (or column) each new one is, and whether it crosses the covered square: (n, side)."""
    places = torch.arange(side, device=start.device)
    padded = (places + start[:, None] - config.padding).abs()  # mirrored at the first row,
    source = side - 1 - (side - 1 - padded).abs()  # and at the last
    return source, (places >= cover[:, None]) & (places < cover[:, None] + config.cutout)


def channel_statistics(pixels: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and deviation of each channel of images of bytes, as shares of 255."""
    # Counting the 256 values is exact, and needs no second copy of the images in floating point.
    values = torch.arange(256, dtype=torch.float64) / 255
    shares = torch.stack([torch.bincount(channel.flatten(), minlength=256) for channel in pixels.unbind(1)])
    shares = shares.double() / shares.sum(1, keepdim=True)
    mean = shares @ values
    deviation = (shares * (values - mean[:, None]) ** 2).sum(1).sqrt()
    # A channel of one value has no deviation to divide by.
    return mean.float(), deviation.clamp(min=1 / 255).float()


@torch.no_grad()
def recalibrate(network: CNN13, pixels: Tensor, *, batch_size: int = _EVALUATED) -> None:
    """Measure the batch statistics of a network anew, on plain images of bytes in random order.

    Training sees them with dropout and covered squares, which give another variance than the plain images
    that the network is used on (Li et al., CVPR 2019); the narrower the network, the more this costs.
    """
    network.eval()  # without dropout
    normalisations = [module for module in network.modules() if isinstance(module, nn.BatchNorm2d)]
    momentum = [module.momentum for module in normalisations]
    for module in normalisations:
        module.reset_running_stats()
        module.momentum = None  # the mean over all batches
        module.train()
    size = min(batch_size, len(pixels))
    for number in range(len(pixels) // size):
        part = pixels[number * size : (number + 1) * size]
        network.features(network.normalise(part.to(network.mean.device)))
    for module, before in zip(normalisations, momentum, strict=True):
        module.momentum = before
    network.eval()


@torch.no_grad()
def pooled_features(network: CNN13, pixels: Tensor, *, batch_size: int = _EVALUATED) -> Tensor:
    """Return the features (n, 128) of plain images of bytes, on the device of the network."""
    network.eval()
    parts = [
        network.features(network.normalise(part.to(network.mean.device))) for part in pixels.split(batch_size)
    ]
    return torch.cat(parts)


@torch.no_grad()
def accuracy_on(network: CNN13, images: Images) -> float:
    """Return the share of the images that the network classifies correctly."""
    logits = network.classifier(pooled_features(network, images.pixels))
    correct: Tensor = logits.argmax(1).cpu() == images.labels.cpu()
    return correct.double().mean().item()


def check_images(images: Images, test: Images | None, config: CNNConfig) -> None:
    """Refuse images that the network cannot be trained or tested on."""
    _check_pixels(images, "images")
    if len(images.labels) < 2:
        raise bad_value("images", "train_cnn", "two or more", len(images.labels))
    if config.flip and images.name in _DIGITS:
        raise bad_value("flip", "train_cnn", f"False for {images.name}", True, "A mirrored digit is none.")
    side = min(images.pixels.shape[2:])
    for name, limit in (("padding", side - 1), ("cutout", side)):
        if getattr(config, name) > limit:
            expected = f"at most {limit} for images of {side} pixels"
            raise bad_value(name, "train_cnn", expected, getattr(config, name))
    missing = sorted(set(range(images.n_classes)) - set(images.labels.unique().tolist()))
    if missing or images.n_classes == 1:
        expected = "such that every class from 0 on, and two or more, is among them"
        raise bad_value("images", "train_cnn", expected, f"none of class {missing[0] if missing else 1}")
    if test is not None:
        _check_test(images, test)


def _check_test(images: Images, test: Images) -> None:
    _check_pixels(test, "test")
    expected, got = tuple(images.pixels.shape[1:]), tuple(test.pixels.shape[1:])
    if expected != got:
        raise bad_value("test", "train_cnn", f"images of shape {expected} like those of training", got)
    classes = images.n_classes
    check_in_range(test.labels, "test", "train_cnn", below=classes, what="n_classes")


def _check_pixels(images: Images, name: str) -> None:
    pixels, labels = images.pixels, images.labels
    if pixels.dtype != torch.uint8:
        raise bad_type(name, "train_cnn", "images of uint8", pixels.dtype)
    if pixels.dim() != 4 or len(pixels) == 0 or min(pixels.shape[2:]) < _SMALLEST_SIDE:
        expected = f"images (n, channels, height, width) of {_SMALLEST_SIDE} pixels or more each way"
        raise bad_value(name, "train_cnn", expected, f"shape {tuple(pixels.shape)}")
    if labels.shape != pixels.shape[:1]:
        expected = f"images with {len(pixels)} labels"
        raise bad_value(name, "train_cnn", expected, f"labels of shape {tuple(labels.shape)}")
    if int(labels.min()) < 0:
        raise bad_value(name, "train_cnn", "images with labels of at least 0", int(labels.min()))
