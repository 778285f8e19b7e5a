"""The part ``train``: one network of the default on rows in a file, by batches and all at once.

Neighbours are random rows of the same block of 1,000, so that nothing is searched. With several processes the
same batch is divided among them by torchrun.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dahgnn.classifier.plan import free_memory
from dahgnn.config import PRESETS
from dahgnn.distributed import gather, join_world, own_device
from dahgnn.files.scratch import Scratch
from dahgnn.graph.hypergraph import Hypergraph
from dahgnn.graph.large_hypergraph import hypergraph_from_neighbors
from dahgnn.kernels.gpu.programs import varying_sizes
from dahgnn.nn.model import DAHGNN
from dahgnn.ops.backend import using
from dahgnn.training.batches import BatchRoom, BatchUpdates
from dahgnn.training.run import Labelled
from dahgnn.training.sampling import Sampling
from dahgnn.training.updates import Classroom, Update
from scale.graph_part import K
from scale.rows import CLASSES, block_neighbours, hide_classes, open_rows
from scale.watch import Watch

_PRESET = PRESETS["default"]
# Bytes of a row while messages pass over the whole hypergraph, see `dahgnn.classifier.plan`.
_A_ROW_AT_ONCE = 3200
# Batches whose reach is counted.
_COUNTED = 3


def measure_train(spec: dict[str, Any], work: Path, watch: Watch) -> dict[str, Any]:
    """Train a network for some epochs.

    Parameters
    ----------
    spec : dict
        "n", "d", "labels", "epochs", "batch" (0 is all rows at once), "threads" and "device".
    work : Path
        Where rows are kept, and large arrays meanwhile.
    watch : Watch
        Measures phases.
    """
    if not spec["batch"] and spec["device"] == "cpu" and spec["n"] * _A_ROW_AT_ONCE > free_memory():
        return {"problem": "all rows at once need more memory than is free", "skipped": True}
    torch.set_num_threads(spec["threads"])
    with join_world(spec["device"]) as world, Scratch(work) as scratch:
        rows, classes = open_rows(work, spec["n"], spec["d"])
        device = own_device(spec["device"])
        with watch.phase("hypergraph"):
            hypergraph = _join(block_neighbours(len(rows), K, scratch), scratch, device, spec["batch"])
        some = torch.from_numpy(hide_classes(classes, spec["labels"], seed=0))
        nodes = torch.nonzero(some >= 0).flatten()
        generator = torch.Generator().manual_seed(0)
        network = DAHGNN(spec["d"], CLASSES, _PRESET.model, generator=generator)
        features = torch.from_numpy(rows)
        if spec["batch"]:
            # Targets a second are counted over epochs that have every labelled row.
            sampling = Sampling(batch=spec["batch"], updates=len(nodes))
            room: Any = BatchRoom(
                features,
                hypergraph,
                _PRESET.training,
                device,
                sampling=sampling,
                scratch=scratch,
                world=world,
            )
        else:
            room = Classroom(features, hypergraph, _PRESET.training, device)
        with watch.phase("propagate"):
            where = "cpu" if spec["batch"] else device
            updates = room.enter(network, Labelled(nodes.to(where), some[nodes].to(where)), seed=0)
        found = _train(updates, len(nodes), spec["epochs"], device, watch)
        if isinstance(updates, BatchUpdates):
            found |= _reach(updates, nodes, hypergraph, spec["batch"])
        memory = gather(world, watch.most)
        peak = torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None
        if isinstance(updates, BatchUpdates):  # afterwards, as it trains on, and takes memory of its own
            found |= _steps(updates, world.size, device)
        return found | {
            "anonymous_of_all": sum(each[0] for each in memory),
            "resident_of_all": sum(each[1] for each in memory),
            "processes": world.size,
            "weights": sum(weight.numel() for weight in network.parameters()),
            "memory_on_device": peak,
        }


def _join(neighbours: Tensor, scratch: Scratch, device: torch.device, batch: int) -> Hypergraph:
    """Return the hypergraph: on the CPU for batches, and else where all of it is needed, which is faster."""
    if not batch and device.type == "cuda":
        return Hypergraph.from_neighbors(neighbours.to(device))
    return hypergraph_from_neighbors(neighbours, scratch)


def _train(updates: Any, count: int, epochs: int, device: torch.device, watch: Watch) -> dict[str, Any]:
    """Train for an epoch that does not count, which compiles and reads, for some that do, and evaluate."""
    losses: list[float] = []

    def hear(update: Update) -> None:
        losses.append(update.train_loss)

    with watch.phase("first epoch"):
        updates.advance(1, hear)
    with watch.phase("epochs"):
        start = time.perf_counter()
        updates.advance(epochs, hear)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        seconds = time.perf_counter() - start
    with watch.phase("evaluate"):
        updates.evaluate()
    return {
        "seconds": seconds,
        "seconds_an_epoch": seconds / epochs,
        "targets_a_second": count * epochs / seconds,
        "losses": losses,
        "seconds_evaluate": watch.phases["evaluate"].seconds,
        "seconds_propagate": watch.phases["propagate"].seconds,
    }


def _reach(updates: BatchUpdates, nodes: Tensor, hypergraph: Hypergraph, batch: int) -> dict[str, Any]:
    """Return how many nodes a batch reaches in the mean."""
    fan_out = tuple(updates.room.sampling.fan_out)
    reached = []
    for step in range(_COUNTED):
        drawn = np.random.default_rng(step).permutation(len(nodes))[:batch]
        targets = nodes[torch.from_numpy(np.sort(drawn))]
        reached.append(len(updates.sampler.around(targets, fan_out, step)[0].nodes))
    mean = float(np.mean(reached))
    return {
        "nodes_a_batch": mean,
        "share_of_nodes": mean / hypergraph.n_nodes,
        "updates_an_epoch": updates.updates_an_epoch,
    }


def _steps(updates: BatchUpdates, processes: int, device: torch.device) -> dict[str, Any]:
    """Return the seconds that a thread takes to prepare a batch, and the device to update by it.

    A GPU does so by kernels and by plain PyTorch. The least of some counts: the first ones compile.
    """
    if processes > 1:
        return {}
    prepare = [_seconds_of(lambda step=step: updates.prepare(step), device) for step in range(_COUNTED)]
    found = {"seconds_prepare": min(prepare), "workers": updates.workers}
    ways = {"auto": "seconds_update"}
    if device.type == "cuda":
        ways["reference"] = "seconds_update_plain"
    batch = updates.prepare(0)
    for backend, name in ways.items():
        with using(backend), varying_sizes():
            found[name] = min(_seconds_of(lambda: updates.update(batch), device) for _ in range(1 + _COUNTED))
    return found


def _seconds_of(work: Callable[[], object], device: torch.device) -> float:
    start = time.perf_counter()
    work()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - start
