"""From features and some labels to a fitted ensemble: neighbours, networks, experts, their combination."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from dahgnn.checks import as_tensor, bad_type, bad_value, check_in_range
from dahgnn.classifier.ensemble import Combined, Ensemble, Evaluation, equal_rows, network_shares
from dahgnn.classifier.judgement import Estimate, count_held_out, estimate_accuracy, judge_held_out
from dahgnn.classifier.opinions import Known, Opinions, balance
from dahgnn.classifier.stacking import Candidate, learn_stack
from dahgnn.classifier.stages import Trained, TrainingStage, train_in_stages
from dahgnn.config import TrainingConfig
from dahgnn.graph.diffusion import SimilarityGraph
from dahgnn.graph.hypergraph import Hypergraph
from dahgnn.graph.local_scale import METRICS, LocalScale
from dahgnn.graph.neighbours import Neighbors, build_search
from dahgnn.graph.scaling import Scaling
from dahgnn.nn.model import DAHGNN
from dahgnn.training.run import Labelled
from dahgnn.training.splits import Split
from dahgnn.training.updates import Classroom, Update

Array = NDArray[Any]


@dataclass(frozen=True, eq=False, kw_only=True)
class Surroundings:
    """Who is near whom among the fitted rows.

    Attributes
    ----------
    hypergraph : Hypergraph
        That the networks see.
    graph : SimilarityGraph or None
        That labels spread over; None for a hypergraph of the user's own, which has no distances.
    k : int
        Neighbours that a new row gets.
    radius, scales : Tensor, (n,), or None
        As in `Ensemble`.
    """

    hypergraph: Hypergraph
    graph: SimilarityGraph | None
    k: int
    radius: Tensor | None
    scales: Tensor | None


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


def find_surroundings(
    features: Tensor, k: int, metric: str, given: Neighbors | ArrayLike | None, device: torch.device
) -> Surroundings:
    """Find neighbours, or take given ones, and build the hypergraph and the graph of them.

    Parameters
    ----------
    features : Tensor, (n, d + 1)
        Scaled.
    k : int
        Neighbours of a row.
    metric : {"local-scale", "euclidean"}
        The distance by which they are chosen.
    given : Neighbors or array of int, (n, k), optional
        Known neighbours; then they are not chosen.
    device : torch.device
        Where to search.
    """
    scales = None
    if given is not None:
        found = measure_neighbors(given, features)
    else:
        search = METRICS[metric](build_search(features.to(device)))
        found = search.among(k).to("cpu")
        scales = search.scales.cpu() if isinstance(search, LocalScale) else None
    hypergraph = Hypergraph.from_neighbors(found)
    if int(hypergraph.hyperedge_degrees.max()) < 2:
        raise bad_value("neighbors", "fit", "other rows", "each row alone")
    return Surroundings(
        hypergraph=hypergraph,
        graph=SimilarityGraph.from_neighbors(found),
        k=int(hypergraph.hyperedge_degrees.max()) - 1,
        radius=found.distances.amax(1),
        scales=scales,
    )


def measure_neighbors(neighbors: Neighbors | ArrayLike, features: Tensor) -> Neighbors:
    """Return known neighbours and how far they are, which decides what hyperedges a new row joins."""
    given = neighbors.indices if isinstance(neighbors, Neighbors) else neighbors
    indices = as_tensor(given, "neighbors", "fit").cpu()
    if indices.dim() != 2 or len(indices) != len(features) or indices.shape[1] == 0:
        raise bad_value("neighbors", "fit", f"of {len(features)} rows", f"shape {tuple(indices.shape)}")
    check_in_range(indices, "neighbors", "fit", below=len(features), what="n_nodes")
    indices = indices.to(torch.int64)
    exact = features.double()
    distances = [(exact - exact[column]).norm(dim=1) for column in indices.T]
    return Neighbors(indices, torch.stack(distances, 1).to(features.dtype))


def check_hypergraph(hypergraph: object, neighbors: object, n: int) -> None:
    """Refuse a hypergraph of other nodes, or one beside neighbours."""
    if neighbors is not None:
        raise ValueError("Give 'neighbors' or 'hypergraph', not both.")
    if not isinstance(hypergraph, Hypergraph):
        raise bad_type("hypergraph", "fit", "a Hypergraph", type(hypergraph).__name__)
    if hypergraph.n_nodes != n:
        raise bad_value("hypergraph", "fit", f"of {n} nodes", f"{hypergraph.n_nodes}")


@dataclass(frozen=True, eq=False, kw_only=True)
class Fitter:
    """What a fit starts from.

    Parameters
    ----------
    scaling : Scaling
        That was applied to the features.
    features : Tensor, (n, d + 1)
        The rows, scaled, with a column of ones.
    labels : Tensor of int64, (n,)
        Numbers of the classes, −1 where the label is not known.
    weights : array, (n,), or None
        How much each row counts, if not all the same.
    surroundings : Surroundings
        See there.
    training : TrainingConfig
        The schedule of the networks.
    class_shares : array, (c,), or None
        How many of all rows each class has, if that is known.
    device : torch.device
        Where the networks are trained.
    merge_equal : bool
        Whether rows of equal features get the same; not where a hypergraph of the user's own tells them
        apart.
    """

    scaling: Scaling
    features: Tensor
    labels: Tensor
    weights: Array | None
    surroundings: Surroundings
    training: TrainingConfig
    class_shares: Array | None
    device: torch.device
    merge_equal: bool

    def run(
        self,
        networks: list[DAHGNN],
        splits: Sequence[Split],
        seeds: Sequence[int],
        listen: Callable[[int, Update], None],
    ) -> Fit:
        """Train the networks, each without the held-out rows of its split, and combine them with experts."""
        trained = self._train(networks, splits, seeds, listen)
        networks = [network.cpu().eval() for network in networks[: len(trained.logits)]]
        known, by_fold = self._known(splits[: len(networks)], len(networks), networks[0].n_classes)
        shares = [network_shares([trained.logits[number] for number in numbers]) for numbers in by_fold]
        opinions = Opinions(
            self.features[:, :-1].numpy(),
            known,
            [*shares, network_shares(trained.logits)],
            self.surroundings.graph,
        )
        candidates = opinions.candidates
        held = [opinions.held_out(candidate) for candidate in candidates]
        places = np.concatenate([np.empty(0, np.int64), *known.held_places])
        combined, distributions = self._combine(opinions, candidates, held, places)
        around = self.surroundings
        ensemble = Ensemble(
            scaling=self.scaling,
            features=self.features,
            hypergraph=around.hypergraph.to("cpu"),
            k=around.k,
            radius=around.radius,
            scales=around.scales,
            networks=tuple(networks),
            combined=combined,
            fitted=Evaluation(distributions, _mean_logits(trained), np.zeros(len(distributions))),
        )
        rows, judged = judge_held_out(candidates, held, known, places, combined.factors)
        return Fit(
            ensemble=replace(ensemble, fitted=self._evaluate_fitted(ensemble)),
            history=trained.history,
            epochs=trained.epochs,
            interrupted=trained.interrupted,
            held_out=rows,
            held_out_distributions=judged,
            estimate=estimate_accuracy(known, rows, judged, distributions, around.graph),
        )

    def _train(
        self,
        networks: list[DAHGNN],
        splits: Sequence[Split],
        seeds: Sequence[int],
        listen: Callable[[int, Update], None],
    ) -> Trained:
        room = Classroom(self.features, self.surroundings.hypergraph, self.training, self.device)
        with torch.inference_mode(False), torch.enable_grad():
            trainings = [
                room.enter(network, self._labelled(split.train), seed)
                for network, split, seed in zip(networks, splits, seeds, strict=True)
            ]
            return train_in_stages(networks, trainings, splits, self.labels, self.training.max_epochs, listen)

    def _labelled(self, rows: Tensor) -> Labelled:
        weights = None if self.weights is None else torch.from_numpy(self.weights)[rows]
        return Labelled(rows, self.labels[rows], weights)

    def _known(self, splits: Sequence[Split], count: int, n_classes: int) -> tuple[Known, list[list[int]]]:
        """Return the labels in folds, and which networks have not seen each fold."""
        rows = torch.nonzero(self.labels >= 0).flatten().numpy()
        weights = np.ones(len(rows)) if self.weights is None else self.weights[rows]
        by_held: dict[bytes, list[int]] = {}
        for number in range(count):
            by_held.setdefault(splits[number].validation.numpy().tobytes(), []).append(number)
        numbers = [each for held, each in by_held.items() if held]
        known = Known(
            rows=rows,
            labels=self.labels.numpy()[rows],
            weights=weights / weights.mean(),  # only proportions count, as in the networks' loss
            n_classes=n_classes,
            folds=[splits[each[0]].validation.numpy() for each in numbers],
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
            potentials=opinions.potentials if "poisson" in experts else None,
        )
        mixed = combined.finish(list(opinion.values()))
        if self.class_shares is not None:
            combined = replace(combined, factors=balance(mixed, self.class_shares))
            mixed = combined.finish(list(opinion.values()))
        return combined, mixed

    def _evaluate_fitted(self, ensemble: Ensemble) -> Evaluation:
        density = np.mean([each.density().double().numpy() for each in ensemble.inductions], 0)
        fitted = Evaluation(ensemble.fitted.distributions, ensemble.fitted.embedding, density)
        return fitted.averaged(equal_rows(self.features)) if self.merge_equal else fitted


def _mean_logits(trained: Trained) -> Array:
    return torch.stack([each.double() for each in trained.logits]).mean(0).numpy()
