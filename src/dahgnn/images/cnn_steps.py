"""The steps of the CNN's training: batches, augmentation, descent and the average of the weights.

All randomness comes from the seed and the number of the step, so that a checkpoint needs no state of a
generator.
"""

from __future__ import annotations

import copy
import hashlib
import math

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.optim.sgd import sgd

from dahgnn.images.cnn import CNN13, CNNConfig, augment, channel_statistics, draw_augmentation, recalibrate


def rate_at(step: int, steps: int, config: CNNConfig) -> float:
    """Return the learning rate of an update, counted from 0.

    Examples
    --------
    >>> config = CNNConfig(learning_rate=1.0, warm_up=0.5)
    >>> [round(rate_at(step, 8, config), 3) for step in range(8)]
    [0.25, 0.5, 0.75, 1.0, 1.0, 0.854, 0.5, 0.146]
    """
    rising = round(config.warm_up * steps)
    if step < rising:
        return config.learning_rate * (step + 1) / rising
    return config.learning_rate * 0.5 * (1 + math.cos(math.pi * (step - rising) / (steps - rising)))


class CNNSteps:
    """The network, its average, its momentum, and the step that they have reached."""

    def __init__(
        self, pixels: Tensor, labels: Tensor, n_classes: int, config: CNNConfig, device: torch.device
    ) -> None:
        self.config, self.device = config, device
        self.pixels, self.labels = pixels.to(device), labels.to(device)
        self.batch_size = min(config.batch_size, len(labels))
        self.batches = len(labels) // self.batch_size
        self.steps = config.epochs * self.batches
        self.generator = torch.Generator(device)
        self._make_network(n_classes)
        self.step = 0
        self.loss = torch.zeros((), dtype=torch.float64, device=device)  # sum over the epoch so far
        self.ordered = -1

    def _make_network(self, n_classes: int) -> None:
        config = self.config
        # Drawn on the CPU, so that every device starts from the same weights.
        generator = torch.Generator().manual_seed(_seed(config.seed, "weights", 0))
        network = CNN13(
            n_classes,
            self.pixels.shape[1],
            width=config.width,
            dropout=config.dropout,
            generator=generator,
        )
        network.mean, network.deviation = channel_statistics(self.pixels.cpu())
        self.network = network.to(self.device)
        # Tensor cores and the CPU's convolutions want the channels of a pixel side by side.
        self.network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.average = copy.deepcopy(self.network).eval().requires_grad_(False)
        self.parameters = dict(self.network.named_parameters())
        self.momentum = {name: torch.zeros_like(weight) for name, weight in self.parameters.items()}
        self.colour = (network.mean * 255).round().to(torch.uint8)

    def update(self) -> None:
        """Do one step on the next batch."""
        batch = self._next_batch()
        self.generator.manual_seed(_seed(self.config.seed, "step", self.step))
        images = self._images(batch)
        self.network.train()
        mixed = self.device.type == "cuda" and self.config.precision == "bfloat16"
        with torch.autocast(self.device.type, torch.bfloat16, enabled=mixed):
            logits = self.network(images, self.generator)
        loss = cross_entropy(logits.float(), self.labels[batch], label_smoothing=self.config.label_smoothing)
        gradients = torch.autograd.grad(loss, list(self.parameters.values()))
        self._descend(list(gradients))
        self._update_average()
        self.loss += loss.detach()
        self.step += 1

    def _next_batch(self) -> Tensor:
        """Return the indices of the step's images; each epoch has an order of its own."""
        epoch, batch = divmod(self.step, self.batches)
        if epoch != self.ordered:
            generator = torch.Generator().manual_seed(_seed(self.config.seed, "order", epoch))
            self.order = torch.randperm(len(self.labels), generator=generator).to(self.device)
            self.ordered = epoch
        return self.order[batch * self.batch_size : (batch + 1) * self.batch_size]

    def _images(self, batch: Tensor) -> Tensor:
        pixels = self.pixels[batch]
        count, _, height, width = pixels.shape
        drawn = draw_augmentation(count, height, width, self.config, self.generator)
        images: Tensor = self.network.normalise(augment(pixels, drawn, self.config, self.colour))
        return images.contiguous(memory_format=torch.channels_last)

    @torch.no_grad()
    def _descend(self, gradients: list[Tensor]) -> None:
        # Not torch's optimizer but the function it calls: all that it remembers lies open for the checkpoint.
        sgd(
            list(self.parameters.values()), gradients, list(self.momentum.values()),
            foreach=self.device.type == "cuda",
            lr=rate_at(self.step, self.steps, self.config), momentum=self.config.momentum,
            weight_decay=self.config.weight_decay, dampening=0, nesterov=self.config.momentum > 0,
            maximize=False,
        )  # fmt: skip

    @torch.no_grad()
    def _update_average(self) -> None:
        # The first updates count less, or the average would long remember the random start.
        decay = min(self.config.averaging, (1 + self.step) / (10 + self.step))
        current = self.network.state_dict()
        for name, averaged in self.average.state_dict().items():
            if averaged.is_floating_point():
                averaged.lerp_(current[name], 1 - decay)
            else:
                averaged.copy_(current[name])

    def result(self) -> CNN13:
        """Return the network that the training gives as it stands."""
        network = copy.deepcopy(self.average)
        if self.config.recalibrate:
            generator = torch.Generator().manual_seed(_seed(self.config.seed, "recalibration", 0))
            order = torch.randperm(len(self.labels), generator=generator).to(self.device)
            recalibrate(network, self.pixels[order])
        return network

    def tensors(self) -> dict[str, Tensor]:
        """Return all that a checkpoint holds, by name; the tensors are the training's own."""
        parts = {
            "network": self.network.state_dict(),
            "average": self.average.state_dict(),
            "momentum": self.momentum,
        }
        named = {f"{part}.{name}": tensor for part, state in parts.items() for name, tensor in state.items()}
        return named | {"loss": self.loss}


def _seed(seed: int, purpose: str, number: int) -> int:
    """Return a seed of its own for each purpose and number."""
    content = hashlib.sha256(f"{seed} {purpose} {number}".encode()).digest()
    return int.from_bytes(content[:8], "little") >> 1
