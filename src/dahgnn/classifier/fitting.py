"""From features and some labels to a fitted ensemble: neighbours, networks, experts, their combination."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from dahgnn.classifier.ensemble import (
    Combined,
    Ensemble,
    Evaluation,
    equal_rows,
    mean_distributions,
    mean_logits,
)
from dahgnn.classifier.judgement import (
    Estimate,
    claim_accuracy,
    count_held_out,
    estimate_accuracy,
    judge_held_out,
    without_weights,
)
from dahgnn.classifier.known import Known
from dahgnn.classifier.labels import join_copies, split_labels
from dahgnn.classifier.opinions import Opinions, balance
from dahgnn.classifier.self_training import learn_again
from dahgnn.classifier.stacking import Candidate, learn_stack
from dahgnn.classifier.stages import Trained, TrainingStage, train_in_stages
from dahgnn.classifier.startup import await_device
from dahgnn.classifier.surroundings import Surroundings
from dahgnn.classifier.workplace import Workplace
from dahgnn.config import TrainingConfig
from dahgnn.graph.scaling import Scaling
from dahgnn.kernels.cpu.memory import release_memory
from dahgnn.nn.model import DAHGNN
from dahgnn.threads import beside, workers_for
from dahgnn.training.batches import BatchRoom
from dahgnn.training.checkpoints import Checkpoints, KeptRoom
from dahgnn.training.run import Labelled
from dahgnn.training.sampling import Sampling
from dahgnn.training.splits import Split
from dahgnn.training.updates import Classroom, Room, Update

Array = NDArray[Any]

# Rows up to which a GPU has room for the experts beside the networks.
_MOST_ROWS_BESIDE = 1 << 17


@dataclass(frozen=True, eq=False, kw_only=True)
class GivenRows:
    """The rows of a fit, scaled, and what is known of their classes.

    Attributes
    ----------
    scaling : Scaling
        The scaling that was applied to the features.
    features : Tensor, (n, d + 1)
        The rows, scaled, with a column of ones.
    classes : array, (c,)
        The labels that occur.
    labels : Tensor of int64, (n,)
        Numbers of the classes, −1 where the label is not known.
    weights : array, (n,), or None
        How much each row counts, if not all the same.
    class_prior : array, (c,), or None
        The part of all rows that each class has, if that is known.
    rows : array, (n, d)
        The rows as they came, for another scaling.
    """

    scaling: Scaling
    features: Tensor
    classes: Array
    labels: Tensor
    weights: Array | None
    class_prior: Array | None
    rows: Array

    def split(
        self, validation: float | ArrayLike, count: int, generator: np.random.RandomState
    ) -> list[Split]:
        """Draw which labelled rows each of some networks does not see."""
        together = join_copies(self.groups, self.labels.numpy())
        return split_labels(self.labels, self.classes, validation, count, generator, together)

    @cached_property
    def groups(self) -> Array:
        """A number for each row, the same for equal rows, (n,)."""
        return equal_rows(self.features)


@dataclass(frozen=True, eq=False, kw_only=True)
class Fit:
    """What a fit gives besides the ensemble.

    Attributes
    ----------
    ensemble : Ensemble
        For new rows.
    history : list of TrainingStage
        How the training of the networks went.
    epochs : int
        How many epochs the kept networks were trained.
    interrupted : bool
        Whether Ctrl-C ended the training.
    held_out : array of int, (h,)
        Rows whose labels somebody has not seen.
    held_out_distributions : array, (h, c)
        What is said of them by those, each label also unseen by the combination that says it.
    estimate : Estimate or None
        How many of the unlabelled rows are right, if enough labels are held out to tell.
    """

    ensemble: Ensemble
    history: list[TrainingStage]
    epochs: int
    interrupted: bool
    held_out: Array
    held_out_distributions: Array
    estimate: Estimate | None


@dataclass(frozen=True, eq=False, kw_only=True)
class Fitter:
    """What a fit starts from.

    Parameters
    ----------
    given : GivenRows
        The rows and their labels.
    surroundings : Surroundings
        Who is near whom among the rows.
    training : TrainingConfig
        The schedule of the networks.
    device : torch.device
        Where the networks are trained.
    merge_equal : bool
        Whether rows of equal features get the same; not where a hypergraph of the user's own tells them
        apart.
    refit : bool
        Whether held-out labels are learned from in the end, by those who come after the networks.
    workplace : Workplace
        Where the fit works.
    """

    given: GivenRows
    surroundings: Surroundings
    training: TrainingConfig
    device: torch.device
    merge_equal: bool
    workplace: Workplace
    refit: bool = True

    def run(
        self,
        networks: list[DAHGNN],
        splits: Sequence[Split],
        seeds: Sequence[int],
        listen: Callable[[int, Update], None],
    ) -> Fit:
        """Train the networks, each without the held-out rows of its split, and combine them with experts."""
        networks, trained, density, opinions = self._ask_everybody(networks, splits, seeds, listen)
        known = opinions.known
        learn_again(opinions)
        candidates = opinions.candidates
        held = [opinions.held_out(candidate) for candidate in candidates]
        places = np.concatenate([np.empty(0, np.int64), *known.held_places])
        combined, distributions = self._combine(opinions, candidates, held, places)
        around = self.surroundings
        ensemble = Ensemble(
            scaling=self.given.scaling,
            features=self.given.features,
            hypergraph=around.hypergraph.to("cpu"),
            k=around.k,
            radius=around.radius,
            scales=around.scales,
            networks=tuple(networks),
            combined=combined,
            fitted=self._merge(
                Evaluation(distributions, mean_logits(trained.logits, self.workplace.scratch), density)
            ),
        )
        judged = judge_held_out(candidates, held, known, places, combined.stack, combined.factors)
        without = [
            combined.finish([opinions.without(fold, each) for each in combined.stack.candidates])
            for fold in range(len(known.folds) if known.refit else 0)
        ]
        # Who knows the shares of the classes has them in the distributions already.
        weighted = self.given.weights is not None and self.given.class_prior is None
        likely = without_weights(distributions, known) if weighted else distributions
        claim = claim_accuracy(distributions[opinions.sample], without, likely[opinions.sample])
        return Fit(
            ensemble=ensemble,
            history=trained.history,
            epochs=trained.epochs,
            interrupted=trained.interrupted,
            held_out=judged.rows,
            held_out_distributions=judged.said,
            estimate=estimate_accuracy(known, judged, likely, claim),
        )

    def _ask_everybody(
        self,
        networks: list[DAHGNN],
        splits: Sequence[Split],
        seeds: Sequence[int],
        listen: Callable[[int, Update], None],
    ) -> tuple[list[DAHGNN], Trained, Array, Opinions]:
        """Train the networks, and let the experts learn meanwhile where there is room for both.

        Returns
        -------
        networks : list of DAHGNN
            Those that were trained, on the CPU; they are fewer after Ctrl-C.
        trained : Trained
            How it went.
        density : array, (n,)
            The density of the rows.
        opinions : Opinions
            What networks and experts say.
        """
        await_device(self.device)
        n_classes = networks[0].n_classes
        known, unseen_by = self._known(splits, n_classes)
        ask = partial(
            Opinions, self._features[:, :-1], graphs=self.surroundings.graphs, scratch=self.workplace.scratch
        )
        few = len(self.given.features) <= _MOST_ROWS_BESIDE and not self.workplace.plan.batch
        work = partial(ask, known)
        with beside(self.device, work) if few else nullcontext(work) as experts:
            trained, density = self._train(networks, splits, seeds, listen)
            if self.workplace.plan.on_disk:
                release_memory()
            kept = len(trained.logits)
            networks = [network.cpu().eval() for network in networks[:kept]]
            opinions = experts() if kept == len(splits) else None
        if opinions is None:  # nobody else asks the experts any more
            known, unseen_by = self._known(splits[:kept], n_classes)
            opinions = ask(known)
        groups = [*unseen_by, range(kept)]
        opinions.hear_networks(mean_distributions(trained.logits, groups, self.workplace.scratch))
        return networks, trained, density, opinions

    def _train(
        self,
        networks: list[DAHGNN],
        splits: Sequence[Split],
        seeds: Sequence[int],
        listen: Callable[[int, Update], None],
    ) -> tuple[Trained, Array]:
        """Return the training, and the density of the rows: the mean of the networks."""
        room = self._room()
        with torch.inference_mode(False), torch.enable_grad():
            trainings = [
                room.enter(network, self._labelled(split.train), seed)
                for network, split, seed in zip(networks, splits, seeds, strict=True)
            ]
            # Processes that train together do the same in the same order.
            alone = self.device.type == "cpu" and self.workplace.world.size == 1
            workers = workers_for(len(self.given.features), len(networks)) if alone else 1
            trained = train_in_stages(
                networks, trainings, splits, self.given.labels, self.training.max_epochs, listen, workers
            )
        densities = [room.measure_density(network) for network in networks[: len(trained.logits)]]
        return trained, np.mean([each.double().numpy() for each in densities], 0)

    def _room(self) -> Room:
        """Return what the networks share: all rows at once, or batches of them."""
        hypergraph, place = self.surroundings.hypergraph, self.workplace
        batch = place.plan.batch
        if not batch:
            return Classroom(self._features, hypergraph, self.training, self.device)
        sampling = Sampling(batch=batch, prefetch=1)  # each that is prepared has to be in memory
        room = BatchRoom(
            self.given.features,
            hypergraph,
            self.training,
            self.device,
            sampling=sampling,
            scratch=place.scratch,
            world=place.world,
        )
        if place.folder is None:
            return room
        identity = {"training": asdict(self.training), "batch": batch, "updates": sampling.updates}
        folder = place.folder / "checkpoints"
        return KeptRoom(room, Checkpoints(folder=folder, identity=identity, world=place.world, replace=True))

    @cached_property
    def _features(self) -> Tensor:
        """The rows on the device, (n, d + 1)."""
        return self.given.features.to(self.device)

    def _labelled(self, rows: Tensor) -> Labelled:
        weights = None if self.given.weights is None else torch.from_numpy(self.given.weights)[rows]
        return Labelled(rows, self.given.labels[rows], weights)

    def _known(self, splits: Sequence[Split], n_classes: int) -> tuple[Known, list[list[int]]]:
        """Return the labels in folds, and which networks have not seen each fold."""
        rows = torch.nonzero(self.given.labels >= 0).flatten().numpy()
        weights = np.ones(len(rows)) if self.given.weights is None else self.given.weights[rows]
        by_held: dict[bytes, list[int]] = {}
        for number in range(len(splits)):
            by_held.setdefault(splits[number].validation.numpy().tobytes(), []).append(number)
        numbers = [each for held, each in by_held.items() if held]
        known = Known(
            rows=rows,
            labels=self.given.labels.numpy()[rows],
            weights=weights / weights.mean(),  # only proportions count, as in the networks' loss
            n_classes=n_classes,
            folds=[splits[each[0]].validation.numpy() for each in numbers],
            refit=self.refit,
        )
        return known, numbers

    def _combine(
        self, opinions: Opinions, candidates: list[Candidate], held: list[Array], places: Array
    ) -> tuple[Combined, Array]:
        """Return how the candidates are combined, and what follows for the fitted rows, (n, c)."""
        known = opinions.known
        stack = learn_stack(candidates, held, known.labels[places], count_held_out(known, places))
        opinion = {candidate: opinions.of(candidate) for candidate in stack.candidates}
        experts = {candidate.expert for candidate in stack.candidates}
        combined = Combined(
            stack=stack,
            models={name: model for name, model in opinions.models.items() if name in experts},
            fitted={each: value for each, value in opinion.items() if each.strength < np.inf},
            potentials={name: each for name, each in opinions.potentials.items() if name in experts},
        )
        mixed = combined.finish(list(opinion.values()), self.workplace.scratch)
        if self.given.class_prior is not None:
            combined = replace(combined, factors=balance(mixed, self.given.class_prior))
            mixed = combined.finish(list(opinion.values()), self.workplace.scratch)
        return combined, mixed

    def _merge(self, fitted: Evaluation) -> Evaluation:
        """Give equal rows the same, where nothing but their number tells them apart."""
        return fitted.averaged(self.given.groups) if self.merge_equal else fitted
