"""What all cases start from, made once: two fits that must not be mixed, an experiment, features."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from hostile.children import Ended, run_child
from hostile.results import FIT
from hostile.sheets import LABEL, NEW, OLD, csv_text, marked_sheet, sound_sheet

SPEC = """\
name = "small"
title = "A small experiment"
runs = 2
labels = [3]
validation = 2
k = 4
comparisons = [["ours", "plain"]]

[dataset.mine]
file = "table.csv"
label = "colour"

[method.plain]
kind = "HGNN"
model = { hidden = 8 }
training = { max_epochs = 3 }

[method.laplace]
kind = "LaplaceLearning"

[method.ours]
kind = "DAHGNN"
ours = true
preset = "paper"
model = { hidden = 8 }
training = { max_epochs = 3 }
"""
# The runs of the spec above: two of each method.
N_RUNS = 6


def prepare(folder: Path) -> None:
    """Fill a folder with sound results; what a later version writes otherwise is taken as it is."""
    for mark in (OLD, NEW):
        (folder / f"{mark}.csv").write_text(csv_text(marked_sheet(mark)), encoding="utf-8")
        _sound(folder, "fit", f"{mark}.csv", "--label", LABEL, "--out", mark, *FIT)
        _sound(folder, "predict", mark, f"{mark}.csv", "--out", f"{mark}-again.csv")
    write_experiment(folder)
    _sound(folder, "reproduce", "spec.toml", "--out", "runs", "--jobs", "1", "--data", "data")
    _sound(folder, "features", "cifar10", "--data", "data", before=use_small_images)


def write_experiment(folder: Path) -> None:
    """Write a spec with its table."""
    (folder / "spec.toml").write_text(SPEC, encoding="utf-8")
    sheet = sound_sheet(np.random.default_rng(3), rows=36, labelled=36)
    (folder / "table.csv").write_text(csv_text(sheet), encoding="utf-8")


def _sound(folder: Path, *words: str, before: Callable[[], object] | None = None) -> Ended:
    """Run a command that must succeed."""

    def work() -> int:
        from dahgnn.cli.commands import main

        if before is not None:
            before()
        return main(list(words))

    ended = run_child(work, folder, patience=300)
    if ended.status != 0:
        raise RuntimeError(f"dahgnn {' '.join(words)} failed on sound input: {ended.said}")
    return ended


def serve_nobody() -> None:
    """Let ``dahgnn label`` end as soon as it would wait for a browser; for a child."""
    import uvicorn

    uvicorn.Server.run = lambda *_, **__: None  # type: ignore[method-assign]


def use_small_images() -> None:
    """Let ``dahgnn features`` train a tiny CNN on a few striped images instead of CIFAR-10; for a child."""
    import torch

    from dahgnn.images import preparation
    from dahgnn.images.cnn import CNNConfig
    from dahgnn.images.datasets import Images

    def striped(n: int, seed: int) -> Images:
        generator = torch.Generator().manual_seed(seed)
        labels = torch.arange(n) % 3
        row, column = torch.meshgrid(torch.arange(16) // 2 % 2, torch.arange(16) // 2 % 2, indexing="ij")
        patterns = torch.stack([row, column, row ^ column]).float()
        pixels = 255 * (
            0.35 * patterns[labels][:, None] + 0.65 * torch.rand(n, 3, 16, 16, generator=generator)
        )
        return Images("cifar10", pixels.to(torch.uint8), labels)

    parts = {"train": striped(32, 0), "test": striped(12, 5)}
    small = CNNConfig(epochs=2, batch_size=16, width=0.0625, learning_rate=0.05, padding=1, cutout=3)
    changed: Any = preparation  # the names below are its own imports, and final to a type checker
    changed.fetch = lambda *_, **__: None
    changed.load_images = lambda _, __, part: parts[part]
    changed.CONFIGS = {"cifar10": small}


def copied(ready: Path, name: str, folder: Path) -> Path:
    """Copy something that was prepared into the folder of a case."""
    source, target = ready / name, folder / name
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copy(source, target)
    return target
