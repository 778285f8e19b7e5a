"""A scikit-learn classifier: labels for the rest of a table, and for new rows."""

from __future__ import annotations

import contextlib
import copy
import logging
import math
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, fields, replace
from functools import partial
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.metrics import accuracy_score
from sklearn.utils import Tags, check_consistent_length, check_random_state
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
from torch import Tensor

from dahgnn.checks import (
    as_tensor,
    bad_type,
    bad_value,
    check_count,
    check_device,
    check_flag,
    check_in_range,
    check_number,
)
from dahgnn.classifier.calibration import best_temperature
from dahgnn.classifier.labels import encode_labels, hold_out, known_labels
from dahgnn.config import PRESETS, ModelConfig, TrainingConfig
from dahgnn.graph.hypergraph import Hypergraph
from dahgnn.graph.neighbours import Neighbors, knn, nearest
from dahgnn.graph.scaling import Scaling, choose_scaling
from dahgnn.nn.induction import Induction
from dahgnn.nn.messages import Trace
from dahgnn.nn.model import DAHGNN
from dahgnn.threads import threads_for
from dahgnn.training.fit import REASONS, FitResult, average, fit
from dahgnn.training.run import Epoch
from dahgnn.training.splits import Split

logger = logging.getLogger(__name__)

Array = NDArray[Any]

_PRESET = PRESETS["few-labels"]
_MODEL, _TRAINING = _PRESET.model, _PRESET.training
# Rows of a prediction at a time.
_BATCH = 4096
# A sparse table becomes a dense one of at most so many numbers, 4 GiB.
_MOST_NUMBERS = 1 << 30
# A quarter of what float32 can hold, so that differences stay in its range.
_LARGEST = float(np.finfo(np.float32).max) / 4
# A row is a fitted one if it is this near, by its length: float32 and float64 of the same numbers are.
_ROUNDING = 1e-6
# Between two epochs that are logged.
_SECONDS_A_LINE = 5
# What scikit-learn keeps of the columns of a fit.
_OF_COLUMNS = ("n_features_in_", "feature_names_in_")
# Up to so many rows "auto" takes several networks: some minutes on two cores.
_ROWS_FOR_SEVERAL = 20_000
# Held-out rows that a temperature can be found with.
_FEWEST_FOR_TEMPERATURE = 50


class DAHGNNClassifier(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    ClassifierMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """Density-aware hypergraph neural network for partly labelled data.

    `fit` takes all rows, labelled or not, joins each with its nearest neighbours in a hypergraph, and trains
    networks, each a `DAHGNN`, on it. New rows attach to the fitted ones and pass through the trained layers.

    Parameters
    ----------
    k : int
        Neighbours of a row, at most a quarter of the rows: a hyperedge of all of them would tell nothing.
    hidden, heads, units, delta, density, neighbourhood, final_activation, activation, dropout, shortcut
        The network, see `ModelConfig`. The defaults are the preset "few-labels".
    learning_rate, decay, decay_every, weight_decay, max_epochs, patience
        The training, see `TrainingConfig`. It stops when the loss of the held-out rows has not decreased for
        ``patience`` epochs.
    networks : int or "auto"
        How many have their logits averaged, which is more accurate than one and takes so many times as long.
        "auto" is five up to 20,000 rows, and one beyond.
    validation : float, array of int, or None
        Labelled rows that are held out, to choose the epoch: a share of each class, another one for each
        network, so that five times a fifth is every row once, but in classes with fewer than five; or which
        rows. A class with one labelled row keeps it. None holds out nothing, and the training loss decides.
    scale : {"auto", "columns", "whole", "none"}
        Columns of mean 0 and the same deviation, or the table as a whole, as pixels and embeddings need it,
        or neither. The first two give rows the same length in the mean. "auto" takes "columns" where a few
        of them have nearly all of the variance, as in tables whose units differ, and else "whole". The scale
        is kept and applied to new rows.
    calibrate : bool
        Whether probabilities get a temperature that fits the held-out rows (Guo et al., 2017), as far as
        they show that it is not near one; with fewer than 50 it is one. The order of classes stays as it is.
    class_weight : dict, "balanced" or None
        How much the rows of a class count in the loss, as elsewhere in scikit-learn.
    warm_start : bool
        Whether `fit` goes on from the weights of the last one, if there are as many columns and networks,
        and the same classes and settings, as then. Held-out rows are drawn anew, and the weights may know
        their labels: what is said of them is too good then.
    random_state : int, RandomState or None
        Of held-out rows, first weights and dropout.
    n_jobs : int or None
        Threads; None is torch's number, or one for few rows; -1 means all cores.
    device : str
        "auto" is a CUDA device if there is one; else "cpu", "cuda", "cuda:1" and so on.
    verbose : int
        1 logs the stages and an epoch every five seconds, 2 each epoch, to this module's logger.

    Attributes
    ----------
    classes_ : array, (c,)
        The labels that occur.
    transduction_ : array, (n,)
        The predicted label of each fitted row.
    label_distributions_ : array, (n, c)
        The probabilities of its classes.
    embedding_ : array, (n, c)
        The last output, before the softmax: the mean of the networks.
    density_ : array, (n,)
        How similar a row is to its neighbours in the first attention layer: (3), the mean of heads and
        networks, at most k.
    history_ : list of dict
        Losses and accuracies of each epoch of each network, whose number is "network".
    best_epochs_ : list of int
        The epoch of each network whose weights are kept.
    n_iter_ : int
        Epochs of the network that was trained longest.
    stopped_ : {"patience", "max_epochs", "diverged", "interrupted"}
        Why the training ended; of the networks, the last of these that occurs.
    labelled_indices_ : array of int
        Rows with a label.
    held_out_indices_ : array of int, (h,)
        Labelled rows that some network has held out.
    held_out_distributions_ : array, (h, c)
        Their probabilities by the networks that held them out: what accuracy and calibration can be judged
        by, but for the choice of the epoch and the temperature.
    temperature_ : float
        By which the embedding is divided before the softmax.
    k_ : int
        Neighbours that were used.
    networks_ : list of DAHGNN
        The trained networks, on the CPU.
    hypergraph_ : Hypergraph
        Of the fitted rows.
    n_features_in_, feature_names_in_
        As in all estimators.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> partly = y.copy()
    >>> partly[np.arange(len(y)) % 5 != 0] = -1  # four of five are unknown
    >>> classifier = DAHGNNClassifier(random_state=0).fit(X, partly)
    >>> bool(classifier.score(X, y) > 0.85)
    True
    """

    def __init__(
        self,
        k: int = 10,
        *,
        hidden: int = _MODEL.hidden,
        heads: int = _MODEL.heads,
        units: int = _MODEL.units,
        delta: float = _MODEL.delta,
        density: bool = _MODEL.density,
        neighbourhood: str = _MODEL.neighbourhood,
        final_activation: bool = _MODEL.final_activation,
        activation: bool = _MODEL.activation,
        dropout: float = _MODEL.dropout,
        shortcut: bool = _MODEL.shortcut,
        learning_rate: float = _TRAINING.learning_rate,
        decay: float = _TRAINING.decay,
        decay_every: int = _TRAINING.decay_every,
        weight_decay: float = _TRAINING.weight_decay,
        max_epochs: int = _TRAINING.max_epochs,
        patience: int = _TRAINING.patience,
        networks: int | str = "auto",
        validation: float | ArrayLike | None = 0.2,
        scale: str = _PRESET.scale,
        calibrate: bool = True,
        class_weight: dict[Any, float] | str | None = None,
        warm_start: bool = False,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        device: str = "auto",
        verbose: int = 0,
    ) -> None:
        self.k = k
        self.hidden = hidden
        self.heads = heads
        self.units = units
        self.delta = delta
        self.density = density
        self.neighbourhood = neighbourhood
        self.final_activation = final_activation
        self.activation = activation
        self.dropout = dropout
        self.shortcut = shortcut
        self.learning_rate = learning_rate
        self.decay = decay
        self.decay_every = decay_every
        self.weight_decay = weight_decay
        self.max_epochs = max_epochs
        self.patience = patience
        self.networks = networks
        self.validation = validation
        self.scale = scale
        self.calibrate = calibrate
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.device = device
        self.verbose = verbose

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        neighbors: Neighbors | ArrayLike | None = None,
        hypergraph: Hypergraph | None = None,
        callback: Callable[[int, Epoch], None] | None = None,
    ) -> Self:
        """Learn from some labels.

        Ctrl-C ends the training; the exception then comes from a classifier that is fitted, with the best
        weights so far of the networks that there are.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame, (n, d)
            One row a thing, labelled or not; finite numbers.
        y : array, (n,)
            Labels of any type. Unlabelled is −1 among numbers, and None or NaN among others.
        sample_weight : array, (n,), optional
            How much a labelled row counts in the loss.
        neighbors : Neighbors or array of int, (n, k), optional
            Nearest rows that are known already.
        hypergraph : Hypergraph, optional
            Of n nodes, in place of one of nearest neighbours. Then ``k`` is for new rows alone.
        callback : callable, optional
            Called with the number of the network and an `Epoch` after each epoch.
        """
        model, training = self.check_parameters()
        generator = check_random_state(self.random_state)
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._keeping_columns())
            rows = self._rows(X, reset=True)
            classes, encoded = encode_labels(y, len(rows))
            counted = self._weights(sample_weight, classes, encoded)
            count = self.count_networks(len(rows))
            splits = self._splits(encoded, classes, count, generator)
            scaling = choose_scaling(rows, self.scale)
            features = scaling.apply(rows)
            device = self._device()
            stack.enter_context(threads_for(len(rows), self._wanted_threads()))
            self._log("Find the neighbours of %d rows", len(rows))
            graph, radius, k = self._hypergraph(features, neighbors, hypergraph, device)
            networks = self._make_networks(features.shape[1], classes, model, count, generator)
            train = partial(
                fit,
                features=features,
                hypergraph=graph,
                labels=encoded,
                config=training,
                weights=counted,
                device=device,
            )
            results = self._train(train, networks, splits, generator, callback)
            self.classes_, self.k_ = classes, k
            networks = [network.cpu() for network in networks[: len(results)]]  # fewer after Ctrl-C
            self.keep(networks, features, graph.to("cpu"), radius, scaling)
        self.labelled_indices_ = torch.nonzero(encoded >= 0).flatten().numpy()
        self._describe(results)
        self._conclude(results, splits, encoded, by_features=neighbors is None and hypergraph is None)
        if self.stopped_ == "interrupted":
            raise KeyboardInterrupt
        return self

    def _train(
        self,
        train: Callable[..., FitResult],
        networks: list[DAHGNN],
        splits: list[Split],
        generator: np.random.RandomState,
        callback: Callable[[int, Epoch], None] | None,
    ) -> list[FitResult]:
        """Train networks one after the other; after Ctrl-C there are fewer results.

        So on a GPU, too: side by side they need kernels of their own, whose compilation takes longer than
        they do.
        """
        results: list[FitResult] = []
        for number, (network, split) in enumerate(zip(networks, splits, strict=True)):
            seed, listen = int(generator.randint(2**31)), self._listen(number, callback)
            try:
                result = train(network, split=split, seed=seed, callback=listen)
            except KeyboardInterrupt:  # before there was anything of this one
                if not results:
                    raise
                result = replace(results[-1], stopped="interrupted")
            if result.stopped == "interrupted":
                # One that has hardly begun would spoil those that are done.
                return [*results[:-1], replace(results[-1], stopped="interrupted")] if results else [result]
            results.append(result)
            self._log("Network %d ended by %s, best epoch %d", number + 1, result.stopped, result.best_epoch)
        return results

    def _describe(self, results: list[FitResult]) -> None:
        """Keep how the training went."""
        self.history_ = [
            {"network": number, **asdict(epoch)}
            for number, result in enumerate(results)
            for epoch in result.history
        ]
        self.best_epochs_ = [result.best_epoch for result in results]
        self.n_iter_ = max(len(result.history) for result in results) - 1
        self.stopped_ = max((result.stopped for result in results), key=REASONS.index)

    def _conclude(
        self, results: list[FitResult], splits: list[Split], encoded: Tensor, *, by_features: bool
    ) -> None:
        """Keep what follows for the fitted rows; equal ones differ only by a hypergraph of the user's own."""
        groups = self._groups if by_features else np.arange(len(encoded))
        self.embedding_ = _means(average(results).embedding.double().numpy(), groups)
        densities = [induction.density().double().numpy() for induction in self._inductions]
        self.density_ = _means(np.mean(densities, 0)[:, None], groups)[:, 0]
        self.held_out_indices_, logits = _held_out(results, splits, len(self.classes_))
        self.temperature_ = self._temperature(logits, encoded[self.held_out_indices_])
        self.held_out_distributions_ = softmax(logits / self.temperature_, axis=1)
        self.label_distributions_ = softmax(self.embedding_ / self.temperature_, axis=1)
        self.transduction_ = self.classes_[self.embedding_.argmax(1)]

    def predict(self, X: ArrayLike) -> Array:
        """Return the label of each row; of a fitted row it is that of ``transduction_``.

        Fitted rows with equal features, which a hypergraph of one's own may tell apart, have one label here.
        """
        embedding = self._embed(X)
        chosen: Array = self.classes_[embedding.argmax(1)]
        return chosen

    def predict_proba(self, X: ArrayLike) -> Array:
        """Return the probabilities of the classes, (m, c)."""
        embedding = self._embed(X)
        return np.asarray(softmax(embedding / self.temperature_, axis=1))

    def transform(self, X: ArrayLike) -> Array:
        """Return the embedding, (m, c): the last output, the mean of the networks."""
        return self._embed(X)

    def predict_proba_and_density(self, X: ArrayLike) -> tuple[Array, Array]:
        """Return the probabilities of the classes, (m, c), and the density of each row, (m,)."""
        embedding, density = self._evaluate(X)
        return np.asarray(softmax(embedding / self.temperature_, axis=1)), density

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy; rows without a label are left out, so that a search can hold out any rows."""
        labels, known = known_labels(y)
        check_consistent_length(X, known)
        if not known.any():
            raise bad_value("y", "score", "labelled at some rows", "none")
        weight = None if sample_weight is None else np.asarray(sample_weight)[known]
        return float(accuracy_score(labels, self.predict(X)[known], sample_weight=weight))

    def traces(self) -> list[tuple[Trace, Trace]]:
        """Return what passed among the fitted rows in the two attention layers of each network."""
        check_is_fitted(self, "networks_")
        return [(induction.first, induction.second) for induction in self._inductions]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        for name in ("_inductions", "_groups"):  # made anew from the rest
            state.pop(name, None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "networks_" in state:
            self._induce()

    @property
    def _n_features_out(self) -> int:
        return len(self.classes_)

    def check_parameters(self) -> tuple[ModelConfig, TrainingConfig]:
        """Check what can be checked without data, and return the settings of network and training."""
        check_flag("calibrate", self.calibrate, "DAHGNNClassifier")
        check_flag("warm_start", self.warm_start, "DAHGNNClassifier")
        if not isinstance(self.verbose, bool):
            check_count("verbose", self.verbose, "DAHGNNClassifier", low=0)
        check_count("k", self.k, "DAHGNNClassifier")
        self.count_networks(1)
        if self.n_jobs is not None:
            check_count("n_jobs", self.n_jobs, "DAHGNNClassifier", low=-(2**31))
            if self.n_jobs == 0:
                raise bad_value("n_jobs", "DAHGNNClassifier", "a number of threads, or -1 for all cores", 0)
        own = self.get_params(deep=False)
        model, training = (
            {field.name: own[field.name] for field in fields(config) if field.name in own}
            for config in (ModelConfig, TrainingConfig)
        )
        return ModelConfig(**model), TrainingConfig(**training)

    def count_networks(self, n: int) -> int:
        """Return how many networks a fit of n rows has."""
        if isinstance(self.networks, str):
            if self.networks != "auto":
                expected = "a number of networks, or 'auto'"
                raise bad_value("networks", "DAHGNNClassifier", expected, repr(self.networks))
            return _PRESET.networks if n <= _ROWS_FOR_SEVERAL else 1
        check_count("networks", self.networks, "DAHGNNClassifier")
        return int(self.networks)

    def _rows(self, X: ArrayLike, *, reset: bool) -> Array:
        """Return the rows as a dense array of float64 or float32, or say what is wrong."""
        rows = validate_data(
            self,
            X,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            ensure_min_samples=2 if reset else 1,
            reset=reset,
        )
        if issparse(rows):
            if np.prod(rows.shape, dtype=float) > _MOST_NUMBERS:
                expected = f"of at most {_MOST_NUMBERS:,} numbers, zeros included"
                remedy = "Reduce its columns first, with TruncatedSVD say."
                raise bad_value("X", "DAHGNNClassifier", expected, f"shape {rows.shape}", remedy)
            rows = rows.toarray()
        largest = float(np.abs(rows).max())
        if largest > _LARGEST:
            raise bad_value("X", "DAHGNNClassifier", "in the range of float32", f"{largest:g}")
        return np.ascontiguousarray(rows)

    def _splits(
        self, encoded: Tensor, classes: Array, count: int, generator: np.random.RandomState
    ) -> list[Split]:
        """Hold out some labelled rows for each network."""
        owner, known = "DAHGNNClassifier", np.flatnonzero(encoded.numpy() >= 0)
        if self.validation is None:
            return [Split(train=known, validation=[], test=[])] * count
        if np.ndim(self.validation) > 0:
            held = Split(train=[], validation=self.validation, test=[]).validation.numpy()
            if not np.isin(held, known).all():
                raise bad_value("validation", owner, "labelled rows", f"row {held[~np.isin(held, known)][0]}")
            return [self._split(held, known, encoded, classes)] * count
        check_number("validation", self.validation, owner, low=0, high=1, open_low=True)
        share = float(self.validation)  # type: ignore[arg-type]
        parts = hold_out(encoded.numpy(), share, count, generator)
        return [self._split(held, known, encoded, classes) for held in parts]

    def _split(self, held: Array, known: Array, encoded: Tensor, classes: Array) -> Split:
        owner, train = "DAHGNNClassifier", np.setdiff1d(known, held)
        missing = np.setdiff1d(np.arange(len(classes)), encoded[train])
        if len(missing):
            names = ", ".join(map(str, classes[missing]))
            raise bad_value(
                "validation", owner, "such that each class keeps a row to train", f"none of {names}"
            )
        return Split(train=train, validation=held, test=[])

    def _weights(self, sample_weight: ArrayLike | None, classes: Array, encoded: Tensor) -> Array | None:
        """Return how much each row counts, or None if all do alike; a row that does not, loses its label."""
        if sample_weight is None and self.class_weight is None:
            return None
        weights = _check_sample_weight(sample_weight, encoded, dtype=np.float64, ensure_non_negative=True)
        weights = np.array(weights)
        encoded[torch.from_numpy(weights == 0)] = -1
        missing = np.setdiff1d(np.arange(len(classes)), encoded)
        if len(missing):
            expected = "positive at a labelled row of each class"
            names = ", ".join(map(str, classes[missing]))
            raise bad_value("sample_weight", "fit", expected, f"none of {names}")
        if self.class_weight is not None:
            known = encoded.numpy() >= 0
            numbers = encoded.numpy()[known]
            of_class = compute_class_weight(self.class_weight, classes=classes, y=classes[numbers])
            weights[known] *= of_class[numbers]
        return weights

    def _device(self) -> torch.device:
        if self.device == "auto":
            return torch.device("cuda" if torch.cuda.is_available() else "cpu")
        return check_device(self.device, "DAHGNNClassifier")

    def _hypergraph(
        self,
        features: Tensor,
        neighbors: Neighbors | ArrayLike | None,
        hypergraph: Hypergraph | None,
        device: torch.device,
    ) -> tuple[Hypergraph, Tensor | None, int]:
        """Return the hypergraph, how far its members reach, and the neighbours that a new row gets."""
        k = min(int(self.k), max(1, len(features) // 4))
        if hypergraph is not None:
            _check_hypergraph(hypergraph, neighbors, len(features))
            return hypergraph, None, k
        if neighbors is None:
            found = knn(features.to(device), k)
            found = Neighbors(found.indices.cpu(), found.distances.cpu())
        else:
            found = _as_neighbors(neighbors, features)
        graph = Hypergraph.from_neighbors(found)
        return graph, found.distances.amax(1), int(graph.hyperedge_degrees.max()) - 1

    def _make_networks(
        self,
        width: int,
        classes: Array,
        config: ModelConfig,
        count: int,
        generator: np.random.RandomState,
    ) -> list[DAHGNN]:
        """Make the networks, or take those of the last fit."""
        seeds = generator.randint(2**31, size=count).tolist()
        if self.warm_start and hasattr(self, "networks_"):
            wanted = {"in_features": width, "n_classes": len(classes), **asdict(config)}
            same = len(self.networks_) == count and self.networks_[0].settings == wanted
            if same and np.array_equal(self.classes_, classes):
                return copy.deepcopy(self.networks_)  # a fit that fails leaves the last one whole
        return [
            DAHGNN(width, len(classes), config, generator=torch.Generator().manual_seed(seed))
            for seed in seeds
        ]

    def keep(
        self,
        networks: list[DAHGNN],
        features: Tensor,
        hypergraph: Hypergraph,
        radius: Tensor | None,
        scaling: Scaling,
    ) -> None:
        """Keep what new rows need; for `fit` and whoever reads a classifier from a file."""
        self.networks_, self.hypergraph_ = [network.eval() for network in networks], hypergraph
        self._features, self._scaling, self._radius = features, scaling, radius
        self._induce()

    def _induce(self) -> None:
        self._groups = _equal_rows(self._features)
        self._inductions = [
            Induction(network, self._features, self.hypergraph_, self._radius) for network in self.networks_
        ]

    def _embed(self, X: ArrayLike) -> Array:
        return self._evaluate(X)[0]

    @contextlib.contextmanager
    def _keeping_columns(self) -> Iterator[None]:
        """Restore what is known of the columns if the block fails, which leaves the last fit whole."""
        before = {name: vars(self)[name] for name in _OF_COLUMNS if name in vars(self)}
        try:
            yield
        except BaseException:
            for name in _OF_COLUMNS:
                self.__dict__.pop(name, None)
            self.__dict__.update(before)
            raise

    def _wanted_threads(self) -> int | None:
        """Return how many threads ``n_jobs`` asks for; −1 are all cores, −2 all but one."""
        if self.n_jobs is None or self.n_jobs > 0:
            return self.n_jobs
        return max(1, (os.cpu_count() or 1) + 1 + self.n_jobs)

    def _evaluate(self, X: ArrayLike) -> tuple[Array, Array]:
        """Return logits and density of rows; fitted ones, found by their features, have those of the fit."""
        check_is_fitted(self, "networks_")
        features = self._scaling.apply(self._rows(X, reset=False))
        logits, density = np.empty((len(features), len(self.classes_))), np.empty(len(features))
        fitted = _means(np.column_stack([self.embedding_, self.density_]), self._groups)
        with threads_for(len(features), self._wanted_threads()):
            for start in range(0, len(features), _BATCH):
                some = features[start : start + _BATCH]
                found = nearest(some, self._features, min(self.k_, len(self._features)))
                several = [induction.evaluate(some, found) for induction in self._inductions]
                new, dense = (
                    torch.stack(each).double().mean(0).numpy() for each in zip(*several, strict=True)
                )
                equal = (found.distances[:, 0] <= _ROUNDING * some.norm(dim=1)).numpy()
                rows = found.indices[:, 0].numpy()[equal]
                new[equal], dense[equal] = fitted[rows, :-1], fitted[rows, -1]
                logits[start : start + _BATCH], density[start : start + _BATCH] = new, dense
        return logits, density

    def _temperature(self, logits: Array, encoded: Tensor) -> float:
        if not self.calibrate or len(logits) < _FEWEST_FOR_TEMPERATURE:
            return 1.0
        return best_temperature(torch.from_numpy(logits), encoded)

    def _listen(self, number: int, callback: Callable[[int, Epoch], None] | None) -> Callable[[Epoch], None]:
        last = -math.inf

        def hear(epoch: Epoch) -> None:
            nonlocal last
            now = time.monotonic()
            if self.verbose > 1 or (self.verbose and now - last >= _SECONDS_A_LINE):
                last = now
                self._log(
                    "Network %d, epoch %d: loss %.4f, held out %.4f, accuracy %.2f %%",
                    number + 1,
                    epoch.epoch,
                    epoch.train_loss,
                    epoch.validation_loss,
                    100 * epoch.validation_accuracy,
                )
            if callback is not None:
                callback(number, epoch)

        return hear

    def _log(self, message: str, *values: object) -> None:
        if self.verbose:
            logger.warning(message, *values)


def _check_hypergraph(hypergraph: Hypergraph, neighbors: object, n: int) -> None:
    if neighbors is not None:
        raise ValueError("Give 'neighbors' or 'hypergraph', not both.")
    if not isinstance(hypergraph, Hypergraph):
        raise bad_type("hypergraph", "fit", "a Hypergraph", type(hypergraph).__name__)
    if hypergraph.n_nodes != n:
        raise bad_value("hypergraph", "fit", f"of {n} nodes", f"{hypergraph.n_nodes}")


def _as_neighbors(neighbors: Neighbors | ArrayLike, features: Tensor) -> Neighbors:
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


def _held_out(results: list[FitResult], splits: list[Split], n_classes: int) -> tuple[Array, Array]:
    """Return the rows that some network held out, and their logits, the mean of those networks."""
    rows = np.concatenate([split.validation.numpy() for split in splits[: len(results)]])
    logits = [
        result.embedding[split.validation].double().numpy()
        for result, split in zip(results, splits[: len(results)], strict=True)
    ]
    held, places = np.unique(rows, return_inverse=True)
    sums = np.zeros((len(held), n_classes))
    np.add.at(sums, places, np.concatenate(logits))
    return held, sums / np.bincount(places)[:, None]


def _equal_rows(features: Tensor) -> Array:
    """Return a number for each row, the same for equal rows."""
    places: dict[bytes, int] = {}
    return np.array([places.setdefault(row.tobytes(), len(places)) for row in features.numpy()])


def _means(values: Array, groups: Array) -> Array:
    """Give the rows of a group the mean of what they have: nothing but their number tells them apart."""
    counts = np.bincount(groups)
    if len(counts) == len(groups):
        return values
    first = values[np.unique(groups, return_index=True)[1]]
    sums = np.zeros_like(first)
    np.add.at(sums, groups, values - first[groups])  # so that equal values stay what they are
    return np.asarray((first + sums / counts[:, None])[groups])
