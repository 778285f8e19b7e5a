"""Train a network by batches: some labelled nodes at a time, and what reaches them.

Features and hypergraph may be file-backed and larger than memory. `docs/notes/minibatch.md` says what a batch
computes, and when that is what `Classroom` computes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from dahgnn.checks import bad_value
from dahgnn.config import TrainingConfig
from dahgnn.files.scratch import Scratch
from dahgnn.graph.density_neighbours import FewNeighbours, Neighbourhoods
from dahgnn.graph.hypergraph import Hypergraph
from dahgnn.graph.reach import Reach, Sampler
from dahgnn.kernels.cpu.memory import kept_memory
from dahgnn.kernels.gpu.programs import varying_sizes
from dahgnn.nn.inference import infer, infer_density
from dahgnn.nn.model import DAHGNN
from dahgnn.nn.propagation import Propagated, propagate
from dahgnn.ops.dropout import CounterDropout
from dahgnn.threads import FEW_ROWS, make_ahead, one_thread, threads_for
from dahgnn.training.interrupts import collect_interrupts
from dahgnn.training.plain_loop import Adam, cross_entropy_of
from dahgnn.training.ranges import Ranges
from dahgnn.training.run import Labelled
from dahgnn.training.sampling import Sampling
from dahgnn.training.updates import LEAVE_OUT, Update
from dahgnn.world import ALONE, World


class BatchRoom:
    """What all networks of a fit share that are trained by batches; it has the face of `Classroom`.

    Parameters
    ----------
    features : Tensor, (n, d)
        Each row is a node's. It stays where it is, on the CPU, and may be file-backed.
    hypergraph : Hypergraph
        The hypergraph of the same nodes, on the CPU; its tensors may be file-backed.
    config : TrainingConfig
        The schedule, of which ``patience`` plays no part. An epoch has each labelled node once, or
        as many as `Sampling.updates` allows.
    device : torch.device
        Where to train.
    sampling : Sampling
        How large the batches are, and how much is looked at around them.
    scratch : Scratch, optional
        Where large arrays get room; by default in memory.
    world : World
        The processes that train together.
    """

    def __init__(
        self,
        features: Tensor,
        hypergraph: Hypergraph,
        config: TrainingConfig,
        device: torch.device,
        *,
        sampling: Sampling,
        scratch: Scratch | None = None,
        world: World = ALONE,
    ) -> None:
        self.features, self.hypergraph = features, hypergraph
        self.config, self.device, self.sampling, self.world = config, device, sampling, world
        self.scratch = Scratch() if scratch is None else scratch
        self._propagated: Propagated | None = None
        self._few: FewNeighbours | None = None

    def enter(self, network: DAHGNN, labelled: Labelled, seed: int) -> BatchUpdates:
        """Return the training of a network, which moves to the device.

        Parameters
        ----------
        network : DAHGNN
            Of the same settings as those that entered before.
        labelled : Labelled
            The nodes that train.
        seed : int
            The seed of dropout, of the order of the nodes, and of what is sampled.
        """
        if network.config.density and network.config.density_gradient:
            remedy = "Train with all rows at once, or set density_gradient=False."
            raise bad_value("density_gradient", "BatchRoom", "False", "True", remedy)
        network.to(self.device)
        if self._propagated is None:  # it depends on the settings of a network alone
            printed = network.config.convolution == "printed"
            propagated = propagate(
                self.features, self.hypergraph, self.scratch, printed=printed, leave_out=LEAVE_OUT
            )
            directions = propagated.directions
            on_device = None if directions is None else directions.to(self.device)
            self._propagated = replace(propagated, directions=on_device)
        return BatchUpdates(self, network, self._propagated, labelled, seed)

    def sampler(self, network: DAHGNN, seed: int) -> Sampler:
        """Return what finds the parts of the hypergraph that batches see."""
        kind, most = network.config.neighbourhood, self.sampling.neighbours
        if not network.config.density:
            return Sampler(self.hypergraph, None, seed)
        if self._few is None and most is not None:
            self._few = FewNeighbours(Neighbourhoods(self.hypergraph, kind), most, self.scratch)
        return Sampler(self.hypergraph, kind, seed, self._few)

    def measure_density(self, network: DAHGNN) -> Tensor:
        """Return the density of all nodes in the first attention layer of a network, (n,), on the CPU."""
        return infer_density(network, self.features, self.hypergraph, self.scratch)


@dataclass(frozen=True, eq=False)
class _Batch:
    """What an update needs.

    Attributes
    ----------
    reaches : list of Reach
        Who sends to whom in both layers; empty if this process has no node of the batch.
    nodes, hyperedges : Tensor, (v, s), (h, s)
        The propagated features of the first reach.
    labelled : Labelled
        The labelled nodes, as places among the targets.
    weight : float
        How much this part counts among those of all processes.
    share : float
        How much of an epoch the whole batch is.
    """

    reaches: list[Reach]
    nodes: Tensor
    hyperedges: Tensor
    labelled: Labelled
    weight: float
    share: float

    def to(self, device: torch.device) -> _Batch:
        """Return the same on the device that trains; from pinned memory the host does not wait for it."""
        return self if device.type == "cpu" else self._map(lambda each: each.to(device, non_blocking=True))

    def pinned(self) -> _Batch:
        """Return the same in memory that a GPU reads by itself, with all that its kernels ask of segments."""
        for reach in self.reaches:
            reach.measure()
        return self._map(Tensor.pin_memory)

    def _map(self, move: Callable[[Tensor], Tensor]) -> _Batch:
        nodes, labels, weights = self.labelled
        return _Batch(
            [reach.map(move) for reach in self.reaches],
            move(self.nodes),
            move(self.hyperedges),
            Labelled(move(nodes), move(labels), None if weights is None else move(weights)),
            self.weight,
            self.share,
        )


class BatchUpdates:
    """A network in training, batch by batch."""

    def __init__(
        self, room: BatchRoom, network: DAHGNN, propagated: Propagated, labelled: Labelled, seed: int
    ) -> None:
        self.room, self.network, self.propagated, self.seed = room, network, propagated, seed
        self.labelled = _counting(labelled)
        self.updates_an_epoch = room.sampling.count_updates(len(self.labelled.nodes))
        self.optimizer = Adam(list(network.parameters()), room.config, self.updates_an_epoch)
        config, weight = network.config, network.attention1.weight
        self.ranges = Ranges((config.heads, 1), room.device, weight.dtype, room.world)
        self.sampler = room.sampler(network, seed)
        self._samplers = [self.sampler]  # those that no thread uses now
        self.workers = room.sampling.count_workers(room.device)
        self.seeds = torch.tensor([seed], device=room.device)
        # The sum of the losses of this epoch, each by its share; and the last whole epoch's. They are on the
        # device: to ask for a loss after each update would have the host wait for it.
        self.losses = torch.zeros(2, dtype=weight.dtype, device=room.device)

    @property
    def epoch(self) -> int:
        """How many epochs are done."""
        return self.optimizer.done // self.updates_an_epoch

    def begin(self, epochs: int) -> None:
        """Start nothing: the host prepares the batches."""

    def advance(self, epochs: int, callback: Callable[[Update], None]) -> Update:
        """Train for so many epochs more, or to the end of one that was interrupted.

        Ctrl-C ends it early, perhaps within an epoch; before the very first update it goes on up.
        """
        steps = range(self.optimizer.done, (self.epoch + epochs) * self.updates_an_epoch)
        depth = self.room.sampling.prefetch
        if depth > 0:
            depth = max(depth, self.workers)
        prepared = make_ahead(self.prepare, steps, depth, self.workers)
        try:
            # The number of threads is restored here: those that prepare may have left another one behind.
            with threads_for(FEW_ROWS), kept_memory(), varying_sizes(), closing(prepared):
                for batch in prepared:
                    with collect_interrupts() as interrupts:  # an update is done whole or not at all
                        self.update(batch)
                    if interrupts:
                        raise interrupts[0]
                    if self.optimizer.done % self.updates_an_epoch == 0:
                        callback(self._last())
        except KeyboardInterrupt:
            if self.optimizer.done == 0:
                raise
            return replace(self._last(), interrupted=True)
        return self._last()

    def _last(self) -> Update:
        """Return what is known of the network now."""
        running, whole = self.losses.tolist()
        done = self.optimizer.done / self.updates_an_epoch
        return Update(epoch=self.epoch, train_loss=whole if done >= 1 else running / max(done, 1e-9))

    def prepare(self, step: int) -> _Batch:
        """Return what an update needs, ready for the device; several threads may do so at a time."""
        # Several threads have one core each.
        with one_thread() if self.workers > 1 else nullcontext():
            batch = self._find(step)
            return batch.pinned() if self.room.device.type == "cuda" else batch

    @contextmanager
    def _borrow_sampler(self) -> Iterator[Sampler]:
        """Yield a sampler that no other thread uses meanwhile."""
        try:
            sampler = self._samplers.pop()
        except IndexError:
            sampler = self.sampler.another()
        try:
            yield sampler
        finally:
            self._samplers.append(sampler)

    def _find(self, step: int) -> _Batch:
        """Return what an update needs, which follows from its number alone."""
        world, whole = self.room.world, self._draw(step)
        part = whole.tensor_split(world.size)[world.rank]
        weights = self.labelled.weights
        weight = float(len(part) if weights is None else weights[part].double().sum())
        weights = None if weights is None else weights[part].to(self.propagated.nodes.dtype)
        targets, places = self.labelled.nodes[part].unique(return_inverse=True)
        labelled = Labelled(places, self.labelled.labels[part], weights)
        reaches: list[Reach] = []
        nodes = hyperedges = self.propagated.nodes.new_empty(0, 0)
        if weight > 0:
            with self._borrow_sampler() as sampler:
                reaches = sampler.around(targets, tuple(self.room.sampling.fan_out), step)
            nodes = self.propagated.nodes.index_select(0, reaches[0].nodes)
            hyperedges = self.propagated.hyperedges.index_select(0, reaches[0].hyperedges)
        start = step - step % self.updates_an_epoch
        drawn = self._drawn_before(start + self.updates_an_epoch) - self._drawn_before(start)
        return _Batch(reaches, nodes, hyperedges, labelled, weight, len(whole) / drawn)

    def _draw(self, step: int) -> Tensor:
        """Return the places of the labelled nodes of an update, in all processes together."""
        count, size = len(self.labelled.nodes), self.room.sampling.batch
        # In each turn, which is an epoch where the labelled nodes are few, every one is drawn once.
        turn, place = divmod(step, self.room.sampling.count_batches(count))
        order = np.random.default_rng([self.seed, turn]).permutation(count)
        return torch.from_numpy(order[place * size : (place + 1) * size])

    def _drawn_before(self, step: int) -> int:
        """Return how many labelled nodes all updates before this one have drawn; one may be several times."""
        count, size = len(self.labelled.nodes), self.room.sampling.batch
        turn, place = divmod(step, self.room.sampling.count_batches(count))
        return turn * count + min(place * size, count)

    def update(self, batch: _Batch) -> None:
        """Update the weights by what was prepared for the next step."""
        loss = self._differentiate(batch.to(self.room.device))
        gradients = [weight.grad for weight in self.optimizer.weights if weight.grad is not None]
        self.room.world.average_([*gradients, loss], batch.weight)
        self.optimizer.step()
        self.losses[0] += loss * batch.share
        if self.optimizer.done % self.updates_an_epoch == 0:
            self.losses = torch.stack([torch.zeros_like(self.losses[0]), self.losses[0]])

    def _differentiate(self, batch: _Batch) -> Tensor:
        """Leave the gradients of this process's part of a batch at the weights, and return its loss."""
        if not batch.reaches:
            if self.network.config.density:
                self.ranges.miss_batch(batch.share)
            for weight in self.optimizer.weights:
                weight.grad = torch.zeros_like(weight.data)
            return torch.zeros_like(self.losses[0])
        behind = torch.full_like(self.seeds, self.optimizer.done - 1)  # nothing that the host would wait for
        below, above = batch.reaches
        numbers = below.nodes, below.hyperedges, above.nodes, above.hyperedges
        theta = self.propagated.weight(self.network.convolution.weight)
        logits = self.network.attend_sampled(
            (batch.nodes @ theta, batch.hyperedges @ theta),
            batch.reaches,
            CounterDropout(self.seeds, behind, numbers),
            self.ranges.of_batch(batch.share),
        )
        loss = cross_entropy_of(logits, batch.labelled)
        loss.backward()
        return loss.detach()

    def evaluate(self) -> Tensor:
        """Return what the network says of all nodes, of which none is left out."""
        return infer(self.network, self.room.features, self.room.hypergraph, self.room.scratch)

    def state(self) -> dict[str, Tensor]:
        """Return all that `restore` needs to go on as if nothing had happened, on the CPU."""
        optimizer = self.optimizer
        state = {f"weight.{name}": value for name, value in self.network.state_dict().items()}
        for name, values in (
            ("mean", optimizer.means),
            ("square", optimizer.squares),
            ("step", optimizer.steps),
        ):
            state |= {f"{name}.{number}": value for number, value in enumerate(values)}
        state |= {f"range.{number}": value for number, value in enumerate(self.ranges.layers)}
        state["done"] = torch.tensor(optimizer.done)
        state["losses"] = self.losses
        return {name: value.detach().cpu().clone() for name, value in state.items()}

    @torch.no_grad()
    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state that a training of the same kind had.

        Raises
        ------
        ValueError
            If it is that of another kind.
        """
        own = self.state()
        shapes, given = ({name: value.shape for name, value in each.items()} for each in (own, state))
        if shapes != given:
            wrong = sorted(
                name for name in shapes.keys() | given.keys() if shapes.get(name) != given.get(name)
            )
            raise bad_value(
                "state", "restore", "that of a training of the same kind", f"another '{wrong[0]}'"
            )
        optimizer = self.optimizer
        prefix = "weight."
        self.network.load_state_dict(
            {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
        )
        parts = (("mean", optimizer.means), ("square", optimizer.squares), ("step", optimizer.steps))
        for name, values in (*parts, ("range", self.ranges.layers)):
            for number, value in enumerate(values):
                value.copy_(state[f"{name}.{number}"])
        optimizer.done = int(state["done"])
        self.losses = state["losses"].to(self.losses)


def _counting(labelled: Labelled) -> Labelled:
    """Return the labelled nodes that count at all, on the CPU."""
    nodes, labels, weights = (None if each is None else each.cpu() for each in labelled)
    assert nodes is not None and labels is not None  # noqa: S101, PT018, weights alone may be missing
    if weights is None:
        return Labelled(nodes, labels)
    counts = weights > 0
    return Labelled(nodes[counts], labels[counts], weights[counts])
