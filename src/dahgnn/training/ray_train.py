"""Training on the workers of a Ray cluster, by Ray Train."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dahgnn.checks import check_count, check_flag
from dahgnn.workers import import_for_clusters, joined_ray


def train_on_ray(
    work: Callable[[], None],
    workers: int,
    *,
    folder: str | os.PathLike[str],
    gpu: bool = False,
    restarts: int = 3,
) -> None:
    """Run the same function on several workers, where `join_world` finds the others.

    Parameters
    ----------
    work : callable
        What each worker does, as a process of torchrun would. It can be pickled. After a worker has died all
        begin it again, so that it goes on from its checkpoints.
    workers : int
        How many there are, each with a processor.
    folder : path
        Where Ray keeps what it knows of the run. All machines can reach it.
    gpu : bool
        Whether each has a GPU as well.
    restarts : int
        How often they begin again.

    Raises
    ------
    OSError
        If they fail more often; the error of the work is its cause.
    """
    check_count("workers", workers, "train_on_ray")
    check_count("restarts", restarts, "train_on_ray", low=0)
    check_flag("gpu", gpu, "train_on_ray")
    train = import_for_clusters("ray.train")
    torch_trainer = import_for_clusters("ray.train.torch").TorchTrainer
    with joined_ray(workers):
        trainer = torch_trainer(
            _Work(work),
            scaling_config=train.ScalingConfig(
                num_workers=workers,
                use_gpu=gpu,
                resources_per_worker={"CPU": 1, **({"GPU": 1} if gpu else {})},
            ),
            run_config=train.RunConfig(
                name="dahgnn",
                storage_path=str(Path(folder).resolve()),
                failure_config=train.FailureConfig(max_failures=restarts),
            ),
        )
        try:
            trainer.fit()
        except RuntimeError as error:
            raise OSError(f"The training on {workers} workers of Ray has failed: {error}") from error


class _Work:
    """A function without an argument as one that takes the settings of Ray Train."""

    def __init__(self, work: Callable[[], None]) -> None:
        self.work = work

    def __call__(self, settings: Any = None) -> None:  # noqa: ARG002
        self.work()
