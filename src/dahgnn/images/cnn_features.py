"""Features of images from the 13-layer CNN: extracted once, kept in one file with their origin."""

from __future__ import annotations

import contextlib
import copy
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dahgnn.checks import as_features, as_labels, bad_value, check_choice, check_device
from dahgnn.environment import describe_device, installed_versions
from dahgnn.files.tensors import read_tensors, tensors_digest, write_tensors
from dahgnn.images.cnn import CNN13, CONFIGS, CNNConfig, check_images, pooled_features
from dahgnn.images.cnn_training import (
    CNNEpoch,
    TrainedCNN,
    forget_checkpoint,
    images_digest,
    train_cnn,
)
from dahgnn.images.datasets import Dataset, Images
from dahgnn.images.published import PUBLISHED

_FEATURES = "dahgnn-features"
_CNN = "dahgnn-cnn"


@dataclass(frozen=True, kw_only=True)
class FeaturesHeader:
    """Where the features in a file come from.

    Attributes
    ----------
    dataset, part : str
        Such as "cifar10", "test".
    n_images, images_digest : int, str
        Number and content of the images that the features describe.
    training_digest : str
        Content of the images that the CNN was trained on.
    cnn_digest, cnn_test_accuracy : str, float
        The CNN's weights, and the share of the test images that it classifies correctly by itself.
    config : dict
        The settings of the CNN, see `CNNConfig`.
    versions, device : dict
        The versions of packages, and the device that the features were computed on.
    seconds : float
        Training and extraction took.
    files : dict
        The SHA-256 of each file that the images were read from; earlier versions did not say it.
    """

    dataset: str
    part: str
    n_images: int
    images_digest: str
    training_digest: str
    cnn_digest: str
    cnn_test_accuracy: float
    config: dict[str, Any]
    versions: dict[str, str]
    device: dict[str, Any]
    seconds: float
    files: dict[str, str] = field(default_factory=dict)


def features_path(folder: str | os.PathLike[str], name: str) -> Path:
    """Return where the features of a dataset lie in the cache folder."""
    return Path(folder) / "features" / f"{name}.safetensors"


def extract(
    trained: TrainedCNN, images: Images, *, device: torch.device | str = "cpu", batch_size: int = 256
) -> Tensor:
    """Return the 128 pooled features of each image as it is, (n, 128) of float32 on the CPU."""
    where = check_device(device, "extract")
    expected = len(trained.network.mean)
    if images.pixels.dim() != 4 or images.pixels.shape[1] != expected:
        got = f"shape {tuple(images.pixels.shape)}"
        raise bad_value("images", "extract", f"(n, channels = {expected}, height, width)", got)
    network = copy.deepcopy(trained.network).to(where)
    return pooled_features(network, images.pixels, batch_size=batch_size).cpu()


def make_features(
    name: str,
    train: Images,
    test: Images,
    folder: str | os.PathLike[str],
    config: CNNConfig | None = None,
    *,
    device: torch.device | str = "cpu",
    callback: Callable[[CNNEpoch], None] | None = None,
) -> Path:
    """Train the CNN on the training images and keep its features of the test images.

    What is there already is not made again: a file of features of the same images and config, the weights
    of a finished training, the checkpoint of one that was killed.

    Parameters
    ----------
    name : {"cifar10", "svhn"}
        The dataset, which both parts must be of.
    train, test : Images
        Its two parts. Nothing is chosen by the labels of the test images.
    folder : path
        The cache folder; gets ``features/<name>.safetensors``, ``features/<name>-cnn.safetensors`` and,
        while training, ``features/<name>-cnn-checkpoint.safetensors``.
    config : CNNConfig, optional
        The settings of the CNN; by default those of the dataset in ``CONFIGS``.
    device : torch.device or str
        The device to train on.
    callback : callable, optional
        As in `train_cnn`; never called if nothing is to be trained.

    Returns
    -------
    Path
        The file of features.

    Raises
    ------
    ValueError
        If images and config do not fit, or a checkpoint is of another training.
    """
    check_choice("name", name, tuple(CONFIGS), "make_features")
    for part, images in (("train", train), ("test", test)):
        if images.name != name:
            raise bad_value(part, "make_features", f"images of '{name}'", f"'{images.name}'")
    settings = config if config is not None else CONFIGS[name]
    where = check_device(device, "make_features")
    check_images(train, test, settings)
    path = features_path(folder, name)
    wanted = (images_digest(test), images_digest(train), asdict(settings))
    if _is_there(path, name, wanted):
        return path
    trained = _trained(train, test, path, settings, wanted[1], where, callback)
    files = {**train.files, **test.files}
    return _save_extracted(path, name, test, trained, wanted, where, files)


def _save_extracted(
    path: Path,
    name: str,
    test: Images,
    trained: TrainedCNN,
    wanted: tuple[str, str, dict[str, Any]],
    where: torch.device,
    files: dict[str, str],
) -> Path:
    """Extract the features of the test images and write them with their origin."""
    start = time.perf_counter()
    features = extract(trained, test, device=where)
    # Of these very images: the network may have been tested on others when it was trained.
    correct = trained.network.classifier(features).argmax(1) == test.labels.cpu()
    header = FeaturesHeader(
        dataset=name,
        part="test",
        n_images=len(test.labels),
        images_digest=wanted[0],
        training_digest=wanted[1],
        cnn_digest=trained.digest,
        cnn_test_accuracy=correct.double().mean().item(),
        config=wanted[2],
        versions=dict(installed_versions()),
        device=describe_device(where),
        seconds=round(trained.seconds + time.perf_counter() - start, 3),
        files=files,
    )
    save_features(path, Dataset(name, features, test.labels.cpu()), header)
    return path


def _is_there(path: Path, name: str, wanted: tuple[str, str, dict[str, Any]]) -> bool:
    """Tell whether the file holds the features of these images by this config; if damaged, it does not."""
    if not path.is_file():
        return False
    try:
        header, _ = _read_features(path, name)
    except ValueError:
        return False
    return (header.images_digest, header.training_digest, header.config) == wanted


def _trained(
    train: Images,
    test: Images,
    path: Path,
    config: CNNConfig,
    digest: str,
    device: torch.device,
    callback: Callable[[CNNEpoch], None] | None,
) -> TrainedCNN:
    """Return the network beside the features, trained if need be."""
    weights = path.with_name(f"{path.stem}-cnn.safetensors")
    checkpoint = path.with_name(f"{path.stem}-cnn-checkpoint.safetensors")
    if weights.is_file():
        with contextlib.suppress(ValueError):  # damaged weights are made again
            found = load_cnn(weights)
            if (found.images_digest, found.config) == (digest, config):
                forget_checkpoint(checkpoint, digest, config)
                return found
    trained = train_cnn(train, config, test=test, device=device, checkpoint=checkpoint, callback=callback)
    save_cnn(trained, weights)
    checkpoint.unlink(missing_ok=True)
    return trained


def save_features(path: str | os.PathLike[str], dataset: Dataset, header: FeaturesHeader) -> None:
    """Write features, labels and their origin, whole or not at all.

    Raises
    ------
    ValueError
        If header and dataset disagree, or a feature is not finite.
    """
    rows = as_features(dataset.features, "save_features")
    labels = as_labels(dataset.labels, "save_features", n_nodes=len(rows))
    if header.dataset != dataset.name:
        raise bad_value("header", "save_features", f"that of '{dataset.name}'", f"'{header.dataset}'")
    if header.n_images != len(rows):
        raise bad_value("header", "save_features", f"that of {len(rows)} images", header.n_images)
    tensors = {"features": rows.to(torch.float32), "labels": labels}
    write_tensors(path, _FEATURES, asdict(header) | {"digest": tensors_digest(tensors)}, tensors)


def load_features(path: str | os.PathLike[str], name: str) -> Dataset:
    """Read the features of a dataset from the file that `make_features` wrote.

    Raises
    ------
    FileNotFoundError, ValueError
        If the file is missing, cut, damaged, without a header or of another dataset; the message says how
        to make it again.
    """
    header, tensors = _read_features(path, name)
    return Dataset(header.dataset, tensors["features"], tensors["labels"])


def read_header(path: str | os.PathLike[str], name: str) -> FeaturesHeader:
    """Read where the features in a file come from; raises as `load_features`."""
    return _read_features(path, name)[0]


def _read_features(path: str | os.PathLike[str], name: str) -> tuple[FeaturesHeader, dict[str, Tensor]]:
    remedy = f"Make it again with `dahgnn features {name}`."
    content, tensors = read_tensors(path, _FEATURES, remedy)
    digest = content.pop("digest", None)
    try:
        header = FeaturesHeader(**content)
    except TypeError as error:
        raise ValueError(f"The header of the file {path} is incomplete ({error}). {remedy}") from error
    accuracy = header.cnn_test_accuracy
    if not isinstance(accuracy, float) or not 0 <= accuracy <= 1:
        raise ValueError(f"The header of the file {path} must have an accuracy. Got {accuracy!r}. {remedy}")
    if header.part != "test":
        raise ValueError(f"The file {path} must hold features of test images. Got '{header.part}'. {remedy}")
    if header.dataset != name:
        raise ValueError(f"The file {path} must hold features of '{name}'. Got '{header.dataset}'. {remedy}")
    _check_content(path, header, tensors, remedy)
    _check_origin(path, header, remedy)
    if digest != tensors_digest(tensors):
        raise ValueError(f"The values in the file {path} are not those that were written. {remedy}")
    return header, tensors


def _check_origin(path: str | os.PathLike[str], header: FeaturesHeader, remedy: str) -> None:
    """Refuse features of images that are not the published ones, where the file says of which they are."""
    if not isinstance(header.files, dict):
        raise ValueError(f"The header of the file {path} must have a table of files. {remedy}")
    for file, digest in header.files.items():
        if PUBLISHED.get(header.dataset, {}).get(file) != digest:
            raise ValueError(
                f"The features in the file {path} were made of a file {file} that is not the published one "
                f"(SHA-256 {digest}). {remedy}"
            )


def _check_content(
    path: str | os.PathLike[str], header: FeaturesHeader, tensors: dict[str, Tensor], remedy: str
) -> None:
    """Refuse tensors that are no features with labels."""
    if tensors.keys() != {"features", "labels"}:
        raise ValueError(f"The file {path} must hold features and labels. Got {sorted(tensors)}. {remedy}")
    features, labels = tensors["features"], tensors["labels"]
    if features.dim() != 2 or labels.shape != features.shape[:1] or len(labels) != header.n_images:
        got = f"shapes {tuple(features.shape)} and {tuple(labels.shape)}"
        raise ValueError(f"The file {path} must hold {header.n_images} rows and labels. Got {got}. {remedy}")
    if features.dtype != torch.float32 or labels.dtype != torch.int64:
        got = f"{features.dtype} and {labels.dtype}"
        raise ValueError(f"The file {path} must hold float32 and int64. Got {got}. {remedy}")
    if not bool(torch.isfinite(features).all()):
        raise ValueError(f"The features in the file {path} must be finite. Got NaN or infinity. {remedy}")


def save_cnn(trained: TrainedCNN, path: str | os.PathLike[str]) -> None:
    """Write a trained CNN, whole or not at all."""
    header = {
        "dataset": trained.dataset,
        "images_digest": trained.images_digest,
        "config": asdict(trained.config),
        "test_accuracy": trained.test_accuracy,
        "seconds": trained.seconds,
        "digest": trained.digest,
    }
    write_tensors(path, _CNN, header, trained.network.state_dict())


def load_cnn(path: str | os.PathLike[str]) -> TrainedCNN:
    """Read a CNN that `save_cnn` wrote.

    Raises
    ------
    FileNotFoundError, ValueError
        If the file is missing, cut, damaged or of another kind.
    """
    remedy = "Make it again with `dahgnn features`."
    header, weights = read_tensors(path, _CNN, remedy)
    try:
        config = CNNConfig(**header["config"])
        # The shapes tell the numbers of classes and channels, so that no header can ask for more memory.
        network = CNN13(
            len(weights["classifier.bias"]), len(weights["mean"]), width=config.width, dropout=config.dropout
        )
        network.load_state_dict(weights)
        trained = TrainedCNN(
            network=network.eval().requires_grad_(False),
            config=config,
            dataset=str(header["dataset"]),
            images_digest=str(header["images_digest"]),
            test_accuracy=header["test_accuracy"],
            seconds=float(header["seconds"]),
        )
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"The file {path} does not hold a CNN ({reason}). {remedy}") from error
    if header.get("digest") != trained.digest:
        raise ValueError(f"The weights in the file {path} are not those that were written. {remedy}")
    return trained
