"""A fit from the rows as a user gives them to a fitted ensemble, step by step."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from torch import Tensor

from dahgnn.classifier.fitting import Fit, Fitter, GivenRows
from dahgnn.classifier.given import Adopted, adopt_hypergraph
from dahgnn.classifier.labels import encode_class_prior, weigh_rows
from dahgnn.classifier.parameters import Parameters
from dahgnn.classifier.plan import Plan
from dahgnn.classifier.surroundings import (
    Surroundings,
    check_hypergraph,
    check_surroundings,
    digest_of_given,
    find_surroundings,
)
from dahgnn.classifier.verbosity import Teller
from dahgnn.classifier.workplace import Workplace, work_folder
from dahgnn.distributed import check_same, join_world, make_for_all, share
from dahgnn.files.scratch import Scratch
from dahgnn.graph.hypergraph import Hypergraph
from dahgnn.graph.neighbours import Neighbors
from dahgnn.graph.scaling import choose_scaling
from dahgnn.kernels.cpu.memory import release_memory
from dahgnn.nn.model import DAHGNN
from dahgnn.progress import Progress
from dahgnn.training.splits import Split
from dahgnn.training.updates import Update
from dahgnn.world import World

Array = NDArray[Any]


@dataclass(frozen=True, eq=False, kw_only=True)
class LabelledTable:
    """What a user gives a fit.

    Attributes
    ----------
    rows : array, (n, d)
        The features.
    classes : array, (c,)
        The labels that occur.
    labels : Tensor of int64, (n,)
        Numbers of the classes, −1 where the label is not known.
    sample_weight : array, (n,), or None
        How much each row counts.
    neighbors, hypergraph
        Who is near whom, if that is known; see `DAHGNNClassifier.fit`.
    """

    rows: Array
    classes: Array
    labels: Tensor
    sample_weight: ArrayLike | None
    neighbors: Surroundings | Neighbors | ArrayLike | None
    hypergraph: Hypergraph | None

    @property
    def known(self) -> str | None:
        """Which of both is known, if any."""
        if self.hypergraph is not None:
            return "hypergraph"
        return None if self.neighbors is None else "neighbors"


@dataclass(frozen=True, eq=False, kw_only=True)
class Task:
    """A fit that has begun: its rows are scaled, and it is decided which way it goes.

    Attributes
    ----------
    parameters : Parameters
        What is asked for.
    table : LabelledTable
        What is given.
    given : GivenRows
        The same, scaled and checked.
    plan : Plan
        Which way the fit goes.
    settings : str
        A name of the labels and all that changes the fit.
    scratch : Scratch
        Where large arrays are.
    world : World
        The processes that train together.
    generator : RandomState
        The source of all that is random, in the order of the steps.
    """

    parameters: Parameters
    table: LabelledTable
    given: GivenRows
    plan: Plan
    settings: str
    scratch: Scratch
    world: World
    generator: np.random.RandomState

    @contextlib.contextmanager
    def work(self, progress: Progress | None) -> Iterator[Workplace]:
        """Yield where the fit works. A long one keeps in a folder what it has done."""
        plan, table, folder = self.plan, self.table, None
        with contextlib.ExitStack() as stack:
            if plan.is_large or self.world.size > 1:
                digest = digest_of_given(self.given.features, table.neighbors, table.hypergraph)
                check_same(self.world, digest, "rows and hyperedges")
            if plan.is_large:
                kept = work_folder(plan.folder, f"{digest} {self.settings}", self.world)
                folder = stack.enter_context(kept)
            yield Workplace(
                plan=plan, scratch=self.scratch, folder=folder, world=self.world, progress=progress
            )

    def split(self) -> list[Split]:
        """Draw which labelled rows each network does not see."""
        count = self.parameters.count_networks(len(self.table.rows))
        return self.given.split(self.parameters.values["validation"], count, self.generator)

    def surround(self, splits: Sequence[Split], workplace: Workplace) -> Adopted:
        """Find out who is near whom."""
        given, table, parameters = self.given, self.table, self.parameters
        n, metric = len(table.rows), parameters.values["metric"]
        if isinstance(table.neighbors, Surroundings):
            check_surroundings(table.neighbors, table.hypergraph, n)
            adopted = Adopted(given=given, surroundings=table.neighbors)
        elif table.hypergraph is None:
            found = find_surroundings(given.features, self.plan.k, metric, table.neighbors, workplace)
            adopted = Adopted(given=given, surroundings=found)
        else:
            check_hypergraph(table.hypergraph, table.neighbors, n)
            adopted = adopt_hypergraph(
                given,
                table.hypergraph,
                splits,
                parameters.count_neighbours(n),
                metric,
                parameters.device,
                choose_scale=parameters.values["scale"] == "auto",
            )
        if self.plan.on_disk:
            release_memory()
        return adopted

    def train(
        self,
        adopted: Adopted,
        splits: Sequence[Split],
        workplace: Workplace,
        last: Sequence[DAHGNN] | None,
        listen: Callable[[int, Update], None],
    ) -> Fit:
        """Train a network for each split, and combine them with the experts.

        Parameters
        ----------
        adopted : Adopted
            The rows and who is near whom.
        splits : sequence of Split
            Which labels each network does not see.
        workplace : Workplace
            Where the fit works.
        last : sequence of DAHGNN, optional
            Networks to go on with, if they are of the same kind.
        listen : callable
            Hears of each epoch.
        """
        fitter = Fitter(
            given=adopted.given,
            surroundings=adopted.surroundings,
            training=self.parameters.training,
            device=self.parameters.device,
            merge_equal=adopted.surroundings.searched,
            refit=self.parameters.refit,
            workplace=workplace,
        )
        networks = self._make_networks(adopted.given.features.shape[1], len(splits), last)
        seeds = self.generator.randint(2**31, size=len(splits)).tolist()
        return fitter.run(networks, splits, seeds, listen)

    def _make_networks(self, width: int, count: int, last: Sequence[DAHGNN] | None) -> list[DAHGNN]:
        """Make the networks, or take the last ones."""
        model, n_classes = self.parameters.model, len(self.table.classes)
        seeds = self.generator.randint(2**31, size=count).tolist()
        wanted = {"in_features": width, "n_classes": n_classes, **asdict(model)}
        if last is not None and len(last) == count and last[0].settings == wanted:
            return copy.deepcopy(list(last))  # a fit that fails leaves the last one whole
        return [
            DAHGNN(width, n_classes, model, generator=torch.Generator().manual_seed(seed)) for seed in seeds
        ]


@contextlib.contextmanager
def begin(parameters: Parameters, table: LabelledTable, tell: Teller) -> Iterator[Task]:
    """Decide which way a fit goes, and scale its rows."""
    with contextlib.ExitStack() as stack:
        world = stack.enter_context(join_world(parameters.device))
        generator = share(world, check_random_state(parameters.values["random_state"]))
        (n, d), labels = table.rows.shape, int((table.labels >= 0).sum())
        plan = parameters.plan(n, d, len(table.classes), labels, world, table.known)
        settings = parameters.digest(table.labels, table.sample_weight, plan)
        check_same(world, settings, "labels and settings")
        for sentence in plan.describe() if plan.is_large else ():
            tell("%s", sentence)
        scratch = stack.enter_context(plan.scratch())
        yield Task(
            parameters=parameters,
            table=table,
            given=_scale(parameters, table, scratch, world),
            plan=plan,
            settings=settings,
            scratch=scratch,
            world=world,
            generator=generator,
        )


def _scale(parameters: Parameters, table: LabelledTable, scratch: Scratch, world: World) -> GivenRows:
    """Scale the rows, and put all that is known of them together."""
    values, rows = parameters.values, table.rows
    weights = weigh_rows(table.sample_weight, values["class_weight"], table.classes, table.labels)
    scaling = choose_scaling(rows, values["scale"])
    return GivenRows(
        scaling=scaling,
        features=make_for_all(world, scratch, lambda room: scaling.apply(rows, room)),
        classes=table.classes,
        labels=table.labels,
        weights=weights,
        class_prior=encode_class_prior(values["class_prior"], table.classes),
        rows=rows,
    )
