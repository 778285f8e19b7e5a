"""Programs that tests start by torchrun: ``torchrun … torchrun_programs.py NAME FOLDER …``; results go to the folder."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import torch

from dahgnn import DAHGNNClassifier
from dahgnn.classifier import plan
from dahgnn.cli.commands import main
from dahgnn.config import ModelConfig, ResourceConfig, TrainingConfig
from dahgnn.distributed import (
    EndedElsewhereError,
    check_same,
    do_first,
    failing_together,
    gather,
    join_world,
    make_for_all,
    share,
)
from dahgnn.files.scratch import Scratch
from dahgnn.files.tensors import tensors_digest
from dahgnn.graph.hypergraph import Hypergraph
from dahgnn.graph.neighbours import knn
from dahgnn.nn.model import DAHGNN
from dahgnn.progress import tell_ensemble_epochs
from dahgnn.report import large_fit
from dahgnn.tables import large_tables
from dahgnn.training.batches import BatchRoom
from dahgnn.training.checkpoints import Checkpoints, KeptRoom
from dahgnn.training.run import Labelled
from dahgnn.training.sampling import Sampling
from dahgnn.world import ALONE, World

EVERYTHING = ((None, None), (None, None))
EPOCHS = 6


def small_data(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(90) % 3
    centres = 2.5 * torch.randn(3, 6, generator=generator)
    return centres[labels] + torch.randn(90, 6, generator=generator), labels


def train(folder: Path, world: World = ALONE, at_epoch=lambda epoch: None, epochs: int = EPOCHS):
    """Train in two stages with checkpoints, and return the losses and the weights of the network."""
    features, labels = small_data()
    check_same(world, tensors_digest({"features": features, "labels": labels}), "rows")
    hypergraph = Hypergraph.from_features(features, k=5)
    network = DAHGNN(6, 3, ModelConfig(hidden=8, dropout=0.3), generator=torch.Generator().manual_seed(1))
    config = TrainingConfig(learning_rate=0.003)
    # Sixteen rows an update: eight in each of two processes, so that some update has an odd number.
    sampling = Sampling(batch=16, fan_out=EVERYTHING, prefetch=1)
    room = BatchRoom(features, hypergraph, config, torch.device("cpu"), sampling=sampling, world=world)
    checkpoints = Checkpoints(folder=folder / "checkpoints", identity={"rows": "small"}, world=world)
    nodes = torch.arange(41)
    updates = KeptRoom(room, checkpoints).enter(network, Labelled(nodes, labels[nodes]), 0)
    losses: list[float] = []

    def hear(update) -> None:
        losses.append(update.train_loss)
        at_epoch(update.epoch)

    for stage in (2, epochs - 2):
        updates.advance(stage, hear)
    return losses, {name: weight.detach() for name, weight in network.state_dict().items()}


def write(folder: Path, name: str, value: object) -> None:
    (folder / f"{name}.json").write_text(json.dumps(value))


def fail_together(world: World) -> dict[str, str]:
    """Fail in both processes, and then in the second one only."""
    found = {}
    for first in (0, 1):
        try:
            with failing_together(world):
                if world.rank >= first:
                    raise ValueError(f"wrong in {world.rank}")
        except (ValueError, EndedElsewhereError) as error:
            found[f"together {first}"] = f"{type(error).__name__}: {error}"
    return found


def make_together(world: World, folder: Path) -> dict[str, object]:
    """Make a tensor in a file and one in memory, to which each process writes its number."""
    found: dict[str, object] = {}
    for large in (1, 1 << 20):
        scratch = Scratch(folder / "work", large=large)
        made = make_for_all(world, scratch, lambda room: room.empty((2, 3)).fill_(7.0 + world.rank))
        world.barrier()
        made[world.rank] = world.rank
        world.barrier()
        found[f"made {large}"] = made.tolist()
        found[f"kept {large}"] = len(list((folder / "work").iterdir()))
    return found


def run_basics(folder: Path) -> None:
    """Do what a world can do, then disagree, then leave one process behind."""
    with join_world(seconds=20) as world:
        rank = world.rank
        found: dict[str, object] = {"size": world.size, "gathered": gather(world, rank * 10)}
        found["shared"] = share(world, {"from": rank})
        tensors = [torch.full((2, 3), float(rank)), torch.tensor(10.0 * rank, dtype=torch.float64)]
        world.average_(tensors, weight=3.0 if rank else 1.0)
        found["mean"] = [tensor.tolist() for tensor in tensors]
        garbage = torch.tensor([float("nan")]) if rank else torch.tensor([5.0])
        world.average_([garbage], weight=0.0 if rank else 2.0)
        found["one_counts"] = garbage.tolist()
        minimum, maximum = torch.tensor([[float(rank), -float(rank)]]), torch.tensor([float(rank)])
        world.combine_(minimum, maximum)
        found["range"] = [minimum.tolist(), maximum.tolist()]
        found["first"] = do_first(world, lambda: f"by {rank}")
        try:
            do_first(world, lambda: 1 // 0)
        except (ZeroDivisionError, EndedElsewhereError) as error:
            found["failed"] = [type(error).__name__, str(error)]
        check_same(world, "equal", "rows")
        try:
            check_same(world, f"digest-{rank}", "rows")
        except ValueError as error:
            found["disagree"] = str(error)
        found |= fail_together(world) | make_together(world, folder)
        if rank == 1:
            write(folder, "rank-1", found)
            os._exit(0)
        try:
            for _ in range(3):
                world.average_([torch.ones(1)], 1.0)
        except OSError as error:
            found["left"] = str(error)
        write(folder, "rank-0", found)


def run_train(folder: Path) -> None:
    with join_world(seconds=60) as world:
        losses, weights = train(folder, world)
        write(folder, f"train-{world.rank}", [losses, tensors_digest(weights)])


def classify(folder: Path, at_epoch=lambda epoch: None, neighbors=None) -> list:
    """Fit a classifier to rows of which a quarter is labelled, and return its epochs and what it says of rows."""
    features, labels = small_data()
    known = torch.where(torch.arange(len(labels)) % 4 == 0, labels, -1)
    epochs: list[int] = []

    def hear(_, update) -> None:
        epochs.append(update.epoch)
        at_epoch(update.epoch)

    classifier = DAHGNNClassifier(
        model=ModelConfig(hidden=8, heads=1, units=4, activation=True, shortcut=True),
        training=TrainingConfig(max_epochs=EPOCHS),
        networks=1,
        random_state=0,
        resources=ResourceConfig(batch=16, folder=str(folder)),
    )
    classifier.fit(features.numpy(), known.numpy(), neighbors=neighbors, callback=hear)
    return [epochs, classifier.label_distributions_.tolist()]


def run_classifier(folder: Path) -> None:
    """Fit a classifier together; the second process kills itself after the third epoch of the first try."""
    with join_world() as world:
        rank = world.rank

    def maybe_die(epoch: int) -> None:
        if epoch == 3 and rank == 1 and not (folder / "killed").exists():
            (folder / "killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)

    write(folder, f"classifier-{rank}", classify(folder / "work", maybe_die))


def run_neighbors(folder: Path) -> None:
    """Fit a classifier to neighbours of which the second process has another one."""
    with join_world() as world:
        rank = world.rank
        neighbors = knn(small_data()[0], 5).indices
        neighbors[7, 0] += rank
        try:
            classify(folder / "work", neighbors=neighbors)
        except ValueError as error:
            write(folder, f"neighbors-{rank}", [type(error).__name__, str(error)])


def run_killed(folder: Path) -> None:
    """Train as `run_train` does; a process kills itself after the fourth epoch of the first try."""
    with join_world(seconds=60) as world:

        def maybe_die(epoch: int) -> None:
            if epoch == 4 and world.rank == 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
                os.kill(os.getpid(), signal.SIGKILL)

        losses, weights = train(folder, world, maybe_die)
        restarts = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
        write(folder, f"killed-{world.rank}", [losses, tensors_digest(weights), restarts])


def run_fit(folder: Path) -> None:
    """Run `dahgnn fit` as if its table were large and memory full.

    The process that DAHGNN_TEST_KILLED names kills itself in the first try.
    """
    large_tables.LARGE_ROWS = 100
    plan._SHARE = 0.0
    Scratch.__init__.__kwdefaults__["large"] = 1
    rank, killed = os.environ.get("RANK", "0"), Path("killed")

    def tell(*given):
        hear = tell_ensemble_epochs(*given)

        def maybe_die(network, epoch) -> None:
            if epoch.epoch == 3 and rank == os.environ.get("DAHGNN_TEST_KILLED") and not killed.exists():
                killed.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            hear(network, epoch)

        return maybe_die

    large_fit.tell_ensemble_epochs = tell
    os.chdir(folder)
    sys.exit(main(["fit", *(word.replace("RANK", rank) for word in sys.argv[3:])]))


if __name__ == "__main__":
    torch.set_num_threads(1)
    programs = {
        "basics": run_basics,
        "train": run_train,
        "killed": run_killed,
        "fit": run_fit,
        "neighbors": run_neighbors,
    }
    programs[sys.argv[1]](Path(sys.argv[2]))
