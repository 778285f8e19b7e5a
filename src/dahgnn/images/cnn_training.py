"""Training of the 13-layer CNN, with checkpoints that survive a kill.

All randomness comes from the seed and the number of the step, so that a checkpoint needs no state of a
generator. On the CPU the same seed and number of threads give the same weights bit for bit, also over a kill
and a new start. On a CUDA device cuDNN picks its algorithms by measuring, and some of them sum in any order:
there two trainings agree in accuracy, not in bits.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from dahgnn.checks import bad_value, check_count, check_device, check_number
from dahgnn.files.tensors import read_tensors, tensors_digest, write_tensors
from dahgnn.images.cnn import CNN13, CNNConfig, accuracy_on, check_images
from dahgnn.images.cnn_steps import CNNSteps
from dahgnn.images.datasets import Images

_CHECKPOINT = "dahgnn-cnn-checkpoint"


@dataclass(frozen=True, kw_only=True)
class CNNEpoch:
    """Where the training of a CNN stands.

    Attributes
    ----------
    epoch, epochs : int
        Finished epochs (at the first report those before this start), and all of them.
    loss : float or None
        Mean training loss of the epoch; None at the first report.
    test_accuracy : float or None
        Of the network that the training would give now, where it was measured. Nothing is chosen by it.
    images_per_second : float or None
        The speed of the epoch.
    seconds, seconds_left : float
        Spent so far, earlier starts included, and expected.
    """

    epoch: int
    epochs: int
    loss: float | None
    test_accuracy: float | None
    images_per_second: float | None
    seconds: float
    seconds_left: float


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainedCNN:
    """A trained network and where it comes from.

    Attributes
    ----------
    network : CNN13
        The averaged network, on the CPU, ready to evaluate.
    config : CNNConfig
        How it was trained.
    dataset, images_digest : str
        The name of the dataset, and a name of the content of its training images.
    test_accuracy : float or None
        Share of the test images that the network classifies correctly, if there were any.
    seconds : float
        The training took, over all starts.
    """

    network: CNN13
    config: CNNConfig
    dataset: str
    images_digest: str
    test_accuracy: float | None
    seconds: float

    @property
    def digest(self) -> str:
        """Name the weights by their content."""
        return tensors_digest(self.network.state_dict())


def train_cnn(
    images: Images,
    config: CNNConfig,
    *,
    test: Images | None = None,
    device: torch.device | str = "cpu",
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_seconds: float = 30.0,
    evaluate_every: int = 10,
    callback: Callable[[CNNEpoch], None] | None = None,
) -> TrainedCNN:
    """Train the CNN on labelled images, from where a checkpoint stands if there is one.

    Parameters
    ----------
    images : Images
        The training images; every class from 0 on must be among them.
    config : CNNConfig
        The network and its training.
    test : Images, optional
        Images to report the accuracy on; nothing is chosen by it.
    device : torch.device or str
        The device to train on.
    checkpoint : path, optional
        Is replaced whole about every ``checkpoint_seconds``, and at the end. After a kill at any moment the
        same call continues from it.
    checkpoint_seconds : float
        The time between two checkpoints; 0 writes one after each update.
    evaluate_every : int
        Epochs between two measurements on the test images; the last epoch is always measured.
    callback : callable, optional
        Called with a `CNNEpoch` at the start, with the expected time, and after each epoch.

    Raises
    ------
    ValueError
        If images and config do not fit, the checkpoint is damaged or of another training, or the loss is
        not finite.
    """
    where = check_device(device, "train_cnn")
    check_images(images, test, config)
    check_number("checkpoint_seconds", checkpoint_seconds, "train_cnn", low=0)
    check_count("evaluate_every", evaluate_every, "train_cnn")
    training = CNNSteps(images.pixels, images.labels, images.n_classes, config, where)
    run = _Run(training, images_digest(images), Path(checkpoint) if checkpoint is not None else None)
    run.resume()
    if callback is not None:
        share = 1 - training.step / training.steps
        callback(run.report(share * estimate_seconds(images, config, device=where) if share else 0.0))
    network, accuracy = run.finish(test, checkpoint_seconds, evaluate_every, callback)
    network.cpu().to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    return TrainedCNN(
        network=network,
        config=config,
        dataset=images.name,
        images_digest=run.digest,
        test_accuracy=accuracy,
        seconds=run.seconds,
    )


def estimate_seconds(images: Images, config: CNNConfig, *, device: torch.device | str = "cpu") -> float:
    """Measure a few updates and return how long the whole training will take."""
    where = check_device(device, "estimate_seconds")
    check_images(images, None, config)
    cuda = where.type == "cuda"
    # A full batch takes the CPU half a minute, and a small one tells as much.
    size = min(len(images.labels), config.batch_size if cuda else 32)
    warm_up, repeats = (5, 10) if cuda else (1, 2)
    small = dataclasses.replace(config, batch_size=size, epochs=warm_up + repeats)
    training = CNNSteps(images.pixels[:size], images.labels[:size], images.n_classes, small, where)
    with _measured_algorithms(where):
        # The first are slow: algorithms are chosen, memory is taken.
        for _ in range(warm_up):
            training.update()
        training.loss.item()
        start = time.perf_counter()
        for _ in range(repeats):
            training.update()
        training.loss.item()  # waits for the device
    seconds = (time.perf_counter() - start) / (repeats * size)
    return seconds * len(images.labels) * config.epochs


class _Run:
    """A training with its clock and its checkpoint."""

    def __init__(self, training: CNNSteps, digest: str, checkpoint: Path | None) -> None:
        self.training, self.digest, self.checkpoint = training, digest, checkpoint
        self.before = 0.0  # seconds of earlier starts
        self.first = 0  # step of this start
        self.start = self.begun = time.perf_counter()  # of all, and of the steps

    @property
    def seconds(self) -> float:
        """Time spent, earlier starts included."""
        return self.before + time.perf_counter() - self.start

    @property
    def seconds_left(self) -> float:
        """What the steps that remain take at the pace of this start."""
        done = self.training.step - self.first
        return (self.training.steps - self.training.step) * (time.perf_counter() - self.begun) / max(done, 1)

    def epochs(self, checkpoint_seconds: float) -> Iterator[tuple[float, float]]:
        """Train to the end, and yield the mean loss and the images a second of each epoch."""
        training = self.training
        self.begun = saved = begun = time.perf_counter()
        first = training.step
        while training.step < training.steps:
            training.update()
            ended = training.step % training.batches == 0
            result = None
            if ended:
                loss = training.loss.item() / training.batches  # waits for the device
                images = (training.step - first) * training.batch_size
                result = loss, images / (time.perf_counter() - begun)
            due = training.step == training.steps or time.perf_counter() - saved >= checkpoint_seconds
            if ended or due:
                self._check_finite()
            if ended:
                training.loss.zero_()
            if due:
                self.save()
                saved = time.perf_counter()
            if result is not None:
                yield result
                begun, first = time.perf_counter(), training.step

    def finish(
        self,
        test: Images | None,
        checkpoint_seconds: float,
        evaluate_every: int,
        callback: Callable[[CNNEpoch], None] | None,
    ) -> tuple[CNN13, float | None]:
        """Train to the end, and return the network with its accuracy on the test images, if there are any."""
        training = self.training
        network = accuracy = None
        with _measured_algorithms(training.device):
            for loss, speed in self.epochs(checkpoint_seconds):
                epoch = training.step // training.batches
                measured = None
                if test is not None and (epoch % evaluate_every == 0 or epoch == training.config.epochs):
                    network = training.result()
                    measured = accuracy = accuracy_on(network, test)
                if callback is not None:
                    callback(self.report(self.seconds_left, loss, speed, measured))
        if network is None:  # nothing to test on, or the checkpoint was the end
            network = training.result()
            accuracy = accuracy_on(network, test) if test is not None else None
        return network, accuracy

    def report(
        self,
        left: float,
        loss: float | None = None,
        speed: float | None = None,
        accuracy: float | None = None,
    ) -> CNNEpoch:
        """Say where the training stands."""
        return CNNEpoch(
            epoch=self.training.step // self.training.batches,
            epochs=self.training.config.epochs,
            loss=loss,
            test_accuracy=accuracy,
            images_per_second=speed,
            seconds=self.seconds,
            seconds_left=left,
        )

    def _check_finite(self) -> None:
        """Refuse to go on, and to replace a good checkpoint, when the weights are lost."""
        if not math.isfinite(self.training.loss.item()):
            rate = self.training.config.learning_rate
            raise bad_value(
                "learning_rate", "CNNConfig", "such that the loss stays finite", rate, "Lower it."
            )

    def save(self) -> None:
        """Write the checkpoint, if there is to be one."""
        if self.checkpoint is not None:
            header = {
                "step": self.training.step,
                "seconds": self.seconds,
                "config": asdict(self.training.config),
                "images_digest": self.digest,
            }
            write_tensors(self.checkpoint, _CHECKPOINT, header, self.training.tensors())

    def resume(self) -> None:
        """Go to where the checkpoint stands, if there is one."""
        if self.checkpoint is None or not self.checkpoint.exists():
            return
        remedy = "Remove it to train from the start."
        header, tensors = read_tensors(self.checkpoint, _CHECKPOINT, remedy)
        self._check_origin(header)
        mine = self.training.tensors()
        shapes = {name: tensor.shape for name, tensor in mine.items()}
        if shapes != {name: tensor.shape for name, tensor in tensors.items()}:
            raise ValueError(f"The file {self.checkpoint} does not hold a training of this network. {remedy}")
        with torch.no_grad():
            for name, tensor in mine.items():
                tensor.copy_(tensors[name])
        try:
            self.training.step, self.before = int(header["step"]), float(header["seconds"])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"The header of the file {self.checkpoint} is damaged. {remedy}") from error
        self.first = self.training.step

    def _check_origin(self, header: Mapping[str, Any]) -> None:
        """Refuse the checkpoint of another training."""
        remedy = "Train as it was begun to continue it, or remove it to train from the start."
        if header.get("images_digest") != self.digest:
            raise ValueError(f"The checkpoint {self.checkpoint} is of a training on other images. {remedy}")
        theirs, mine = header.get("config"), asdict(self.training.config)
        if not isinstance(theirs, dict):
            theirs = {}
        different = [name for name in mine.keys() | theirs.keys() if mine.get(name) != theirs.get(name)]
        if different:
            pairs = [f"{name} = {theirs.get(name)}, not {mine.get(name)}" for name in sorted(different)]
            raise ValueError(
                f"The checkpoint {self.checkpoint} is of a training with {'; '.join(pairs)}. {remedy}"
            )


def forget_checkpoint(path: Path, digest: str, config: CNNConfig) -> None:
    """Remove the checkpoint of a training that is done, if a kill left it; that of another training stays."""
    with contextlib.suppress(FileNotFoundError, ValueError):
        header, _ = read_tensors(path, _CHECKPOINT, "")
        if (header.get("images_digest"), header.get("config")) == (digest, asdict(config)):
            path.unlink()


def images_digest(images: Images) -> str:
    """Name images and their labels by their content."""
    return tensors_digest({"pixels": images.pixels, "labels": images.labels})


@contextlib.contextmanager
def _measured_algorithms(device: torch.device) -> Iterator[None]:
    """Let cuDNN measure which algorithm is fastest: the batches all have one shape."""
    if device.type != "cuda":
        yield
        return
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = True
    try:
        with torch.cuda.device(device):
            yield
    finally:
        torch.backends.cudnn.benchmark = before
