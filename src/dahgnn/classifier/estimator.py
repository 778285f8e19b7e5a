"""A scikit-learn classifier: labels for the rest of a table, and for new rows."""

from __future__ import annotations

import contextlib
import logging
import tempfile
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score
from sklearn.utils import Tags, check_consistent_length
from sklearn.utils.validation import check_is_fitted

from dahgnn.checks import bad_value
from dahgnn.classifier.attributes import keeping_last_fit
from dahgnn.classifier.decision import describe_decision
from dahgnn.classifier.ensemble import Ensemble, Evaluation
from dahgnn.classifier.fitting import Fit, GivenRows
from dahgnn.classifier.given import Adopted
from dahgnn.classifier.labels import (
    encode_labels,
    known_labels,
    number_labels,
)
from dahgnn.classifier.parameters import Parameters
from dahgnn.classifier.rows import MappedFile, read_rows
from dahgnn.classifier.startup import starting_device
from dahgnn.classifier.surroundings import (
    Surroundings,
    find_surroundings,
)
from dahgnn.classifier.task import LabelledTable, Task, begin
from dahgnn.classifier.verbosity import telling
from dahgnn.classifier.workplace import Workplace
from dahgnn.config import PRESETS, ModelConfig, ResourceConfig, TrainingConfig
from dahgnn.files.scratch import make_folder
from dahgnn.graph.hypergraph import Hypergraph
from dahgnn.graph.neighbours import Neighbors
from dahgnn.graph.scaling import choose_scaling
from dahgnn.nn.model import DAHGNN
from dahgnn.progress import Progress
from dahgnn.threads import threads_for
from dahgnn.training.updates import Update
from dahgnn.world import ALONE

logger = logging.getLogger(__name__)

Array = NDArray[Any]

_PRESET = PRESETS["default"]
# Why a training may have ended.
STOPPED = ("held_out", "nothing_held_out", "max_epochs", "interrupted")


class DAHGNNClassifier(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    ClassifierMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """Density-aware hypergraph neural networks for partly labelled data.

    `fit` takes all rows, labelled or not, and joins each with its nearest neighbours in a hypergraph, where
    "near" counts how dense the place is. Networks, each a `DAHGNN`, are trained on it. Beside them stand a
    linear model, a kernel model, decision trees if there are not many columns, and labels that spread over
    the neighbours by themselves. If there are not many labels, a further kernel model learns from what all
    of them say together, too. Labels that each of them has not seen decide how much it counts. New rows
    attach to the fitted ones.

    Parameters
    ----------
    k : int
        Neighbours of a row, at most a quarter of the rows: a hyperedge of all of them would tell nothing.
    metric : {"local-scale", "euclidean"}
        By what neighbours are chosen: by a distance that counts how dense both places are
        (`dahgnn.graph.local_scale`), or by the plain one.
    model : ModelConfig, optional
        The networks; by default those of the preset "default".
    training : TrainingConfig, optional
        Their training; likewise. It ends at ``max_epochs``, or when labels that were held out tell, after 4,
        12, 36 … epochs, that more would not help; where nothing is held out, after 12. ``patience`` is not
        used.
    networks : int or "auto"
        How many there are. "auto" is five up to 20,000 rows, and one beyond.
    validation : float or array of int
        Labelled rows that are held out from the networks: a share of each class, another one for each
        network, so that five times a fifth is every row once, but in classes with fewer than five. A class
        with one labelled row keeps it. Or an array of rows, which nobody learns from: their labels judge
        alone, how long the networks train and how much each expert counts. With 0 nothing is held out: then
        nobody can tell which expert is right, and Poisson learning and the linear model decide.
    scale : {"auto", "columns", "whole", "words", "categories", "none"}
        Columns of mean 0 and the same deviation, or the table as a whole, as pixels and embeddings need it,
        or tf-idf in place of counts of words, or a column for each category in place of each column of at
        most 30 whole numbers, or neither. All but the last give rows the same length in the mean. "auto"
        takes "categories" where such numbers are codes: in tables of at least six such columns, if rows of
        neighbouring numbers are as unlike, in all other columns, as rows of any two numbers
        (`dahgnn.graph.categories`). Else it takes "columns"
        where a few of them have nearly all of the variance, as in tables whose units differ, and else
        "whole". The scale is kept and applied to new rows; a code that no fitted row had is no category.
    class_prior : mapping or array, (c,), optional
        How many of the rows each class has, if that is known: shares by class, or in the order of
        ``classes_``. Probabilities then have these shares in the mean. With few labels it is worth several
        points.
    class_weight : dict, "balanced" or None
        How much the rows of a class count, as elsewhere in scikit-learn. Probabilities are bent towards a
        class that counts more; ``estimate_`` takes that into account.
    warm_start : bool
        Whether `fit` goes on from the weights of the last one, if there are as many columns and networks,
        and the same classes and settings, as then. Held-out rows are drawn anew, and the weights may know
        their labels: what is said of them is too good then.
    random_state : int, RandomState or None
        The source of held-out rows, first weights and dropout.
    n_jobs : int or None
        Threads; None is torch's number, or one for few rows; -1 means all cores.
    device : str
        "auto" is a CUDA device if there is one; else "cpu", "cuda", "cuda:1" and so on.
    verbose : int
        1 logs each part of the work and an epoch every five seconds, 2 each epoch.
    resources : ResourceConfig, optional
        What the fit may use, and which way it goes where there are very many rows: exact or approximate
        neighbours, all rows at once or in batches. By default it finds its way by itself.

    Attributes
    ----------
    classes_ : array, (c,)
        The labels that occur.
    transduction_ : array, (n,)
        The predicted label of each fitted row.
    label_distributions_ : array, (n, c)
        The probabilities of its classes.
    combination_ : dict of str to float
        How much each expert counts: "networks", "linear", "kernel" and "trees" (models of the features
        alone), "self-trained" (a kernel model that also learns from what all others say together),
        "poisson" and "laplace" (labels that spread over the neighbours by themselves),
        "plain-poisson" (likewise, over neighbours by plain distance), and "around" (a linear model of what
        surrounds a row in a given hypergraph).
    decision_ : str
        What was decided from the data, in a line: how columns are scaled and which ones hold codes, what
        becomes of a given hypergraph, how many neighbours were found, by which distance and how, how networks
        trained and whether they count, how many labels were held out, and whom labels come from.
    embedding_ : array, (n, c)
        The last output of the networks, before the softmax: their mean.
    density_ : array, (n,)
        How similar a row is to its neighbours in the first attention layer: (3), the mean of heads and
        networks, at most k.
    history_ : list of dict
        Losses and accuracies of each network after each stage.
    best_epoch_, n_iter_ : int
        Epochs of the stage whose weights are kept, and of the last one.
    stopped_ : {"held_out", "nothing_held_out", "max_epochs", "interrupted"}
        Why the training ended: held-out labels told that more would not help, there were none to tell,
        there were as many epochs as it may have, or Ctrl-C.
    labelled_indices_ : array of int
        Rows with a label.
    held_out_indices_ : array of int, (h,)
        Labelled rows that were held out by some network.
    held_out_distributions_ : array, (h, c)
        Their probabilities by everybody who has not seen their labels: what accuracy can be judged by.
    estimate_ : Estimate or None
        How many of the unlabelled rows are right, with an interval of 95 % confidence, as far as held-out
        labels tell; None with fewer than six of them, or if classes of which none is held out may have more
        than a tenth of the rows.
    k_ : int
        Neighbours that were used.
    plan_ : Plan
        Which way the fit went, and what it was expected to need.
    search_ : SearchReport or None
        What found the neighbours, and which share of the true ones these are, measured on a sample; None
        where they, or a hypergraph, were given.
    networks_ : list of DAHGNN
        The trained networks, on the CPU.
    hypergraph_ : Hypergraph
        The hypergraph of the fitted rows.
    ensemble_ : Ensemble
        All that new rows need, as one value.
    n_features_in_, feature_names_in_
        As in all estimators.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> partly = y.copy()
    >>> partly[np.arange(len(y)) % 5 != 0] = -1  # four of five are unknown
    >>> classifier = DAHGNNClassifier(random_state=0).fit(X, partly)
    >>> bool(classifier.score(X, y) > 0.9)
    True
    """

    def __init__(
        self,
        k: int = 10,
        *,
        metric: str = "local-scale",
        model: ModelConfig | None = None,
        training: TrainingConfig | None = None,
        networks: int | str = "auto",
        validation: float | ArrayLike = 0.2,
        scale: str = _PRESET.scale,
        class_prior: Mapping[Any, float] | ArrayLike | None = None,
        class_weight: dict[Any, float] | str | None = None,
        warm_start: bool = False,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        device: str = "auto",
        verbose: int = 0,
        resources: ResourceConfig | None = None,
    ) -> None:
        self.k = k
        self.metric = metric
        self.model = model
        self.training = training
        self.networks = networks
        self.validation = validation
        self.scale = scale
        self.class_prior = class_prior
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.device = device
        self.verbose = verbose
        self.resources = resources

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        neighbors: Surroundings | Neighbors | ArrayLike | None = None,
        hypergraph: Hypergraph | None = None,
        callback: Callable[[int, Update], None] | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Learn from some labels.

        Ctrl-C ends the training of the networks with a warning; the classifier is then fitted all the same.
        Before and after that it ends the fit. A fit that fails or is ended so leaves the last one whole. On a
        GPU the experts learn while the networks train, and either end waits until they have.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame, (n, d)
            One row a thing, labelled or not; finite numbers.
        y : array, (n,)
            Labels of any type that has a hash: numbers, words, flags, dates, fractions, members of an Enum.
            Unlabelled is −1 among numbers, and None or NaN among any.
        sample_weight : array, (n,), optional
            How much a labelled row counts: in the loss, for the experts and in their combination.
        neighbors : Surroundings, Neighbors or array of int, (n, k), optional
            Nearest rows that are known already; what `surroundings` returned for the same rows gives the
            same fit as a new search does.
        hypergraph : Hypergraph, optional
            Of n nodes, in place of one of nearest neighbours. Labels spread from row to row by the hyperedges
            that they share, and a linear model of a row's surroundings is one more expert. Held-out labels
            decide whether the k nearest neighbours are added as hyperedges, for nobody, for rows that share
            a hyperedge with nobody, or for all; and with ``scale="auto"``, where columns count words,
            whether these count by tf-idf. ``decision_`` says what was decided. New rows attach to their
            nearest neighbours, as always.
        callback : callable, optional
            Called with the number of the network and an `Update` after each epoch; on a CUDA device after
            some. Networks that train side by side call it from their threads, one at a time.
        progress : Progress, optional
            Told how many shards of a search among very many rows are done.
        """
        parameters = Parameters.of(self)
        with contextlib.ExitStack() as stack:
            stack.enter_context(keeping_last_fit(self))
            stack.enter_context(torch.inference_mode(False))  # whose tensors cannot be trained
            stack.enter_context(starting_device(parameters.device))
            file = MappedFile(X)
            rows = read_rows(self, X, reset=True)
            classes, labels = encode_labels(y, len(rows))
            stack.enter_context(threads_for(len(rows), parameters.threads))
            tell = stack.enter_context(telling(logger, self.verbose))
            table = LabelledTable(
                rows=rows,
                classes=classes,
                labels=labels,
                sample_weight=sample_weight,
                neighbors=neighbors,
                hypergraph=hypergraph,
            )
            task = stack.enter_context(begin(parameters, table, tell))
            file.check_unchanged()
            workplace = stack.enter_context(task.work(progress))
            splits = task.split()
            tell("Find the neighbours of %d rows", len(rows))
            adopted = task.surround(splits, workplace)
            fit = task.train(adopted, splits, workplace, self._last_networks(classes), tell.listen(callback))
            self._keep_fit(task, adopted, fit)
            tell("%s", self.decision_)
        if fit.interrupted:
            warnings.warn("Training interrupted by user.", ConvergenceWarning, stacklevel=2)
        return self

    def surroundings(self, X: ArrayLike, neighbors: Neighbors | ArrayLike | None = None) -> Surroundings:
        """Find who is near whom among the rows, for many fits to the same rows with other labels.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame, (n, d)
            The rows, as for `fit`.
        neighbors : Neighbors or array of int, (n, k), optional
            Nearest rows that are known already.

        Returns
        -------
        Surroundings
            `fit` takes it as ``neighbors``.
        """
        parameters = Parameters.of(self)
        rows = read_rows(self, X, reset=True)
        with threads_for(len(rows), parameters.threads):
            known = None if neighbors is None else "neighbors"
            plan = parameters.plan(len(rows), rows.shape[1], 2, 0, ALONE, known)  # nobody trains
            make_folder(plan.folder)
            with (
                plan.scratch() as scratch,
                tempfile.TemporaryDirectory(prefix=".dahgnn-", dir=plan.folder) as folder,
            ):
                features = choose_scaling(rows, self.scale).apply(rows, scratch)
                workplace = Workplace(plan=plan, scratch=scratch, folder=Path(folder))
                return find_surroundings(features, plan.k, self.metric, neighbors, workplace)

    def _last_networks(self, classes: Array) -> list[DAHGNN] | None:
        """Return the networks that a warm start goes on with, if there are any of the same classes."""
        if not (self.warm_start and hasattr(self, "networks_") and np.array_equal(self.classes_, classes)):
            return None
        return self.networks_

    def _keep_fit(self, task: Task, adopted: Adopted, fit: Fit) -> None:
        """Keep all that a fit has given."""
        self.plan_, self.search_ = task.plan, adopted.surroundings.report
        self._describe(adopted.given, fit, task.parameters.training.max_epochs)
        self._keep(fit.ensemble)
        self.decision_ = describe_decision(task, adopted, fit, self.combination_)

    def _describe(self, given: GivenRows, fit: Fit, max_epochs: int) -> None:
        """Keep which rows were labelled, how the training went, and what is said of held-out rows."""
        self.classes_ = given.classes
        self.labelled_indices_ = torch.nonzero(given.labels >= 0).flatten().numpy()
        self.history_ = [asdict(stage) for stage in fit.history]
        self.best_epoch_, self.n_iter_ = fit.epochs, fit.history[-1].epoch
        if fit.interrupted:
            self.stopped_ = "interrupted"
        elif fit.epochs < self.n_iter_:
            self.stopped_ = "held_out"
        else:
            self.stopped_ = "max_epochs" if self.n_iter_ == max_epochs else "nothing_held_out"
        self.held_out_indices_, self.held_out_distributions_ = fit.held_out, fit.held_out_distributions
        self.estimate_ = fit.estimate

    def _keep(self, ensemble: Ensemble) -> None:
        """Keep what new rows need, and what follows for the fitted ones."""
        self.ensemble_ = ensemble
        self.k_, self.hypergraph_, self.networks_ = ensemble.k, ensemble.hypergraph, list(ensemble.networks)
        self.label_distributions_, self.embedding_, self.density_ = ensemble.fitted
        self.transduction_ = self.classes_[self.label_distributions_.argmax(1)]
        stack = ensemble.combined.stack
        self.combination_ = {
            name: stack.weight_share(name) for name in dict.fromkeys(each.expert for each in stack.candidates)
        }

    def predict(self, X: ArrayLike) -> Array:
        """Return the label of each row; of a fitted row it is that of ``transduction_``.

        Fitted rows with equal features, which a hypergraph of one's own may tell apart, have one label here.
        """
        distributions = self.evaluate(X).distributions
        return np.asarray(self.classes_[distributions.argmax(1)])

    def predict_proba(self, X: ArrayLike) -> Array:
        """Return the probabilities of the classes, (m, c)."""
        return self.evaluate(X).distributions

    def predict_log_proba(self, X: ArrayLike) -> Array:
        """Return the logarithms of the probabilities, (m, c); that of 0 is −∞."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))

    def transform(self, X: ArrayLike) -> Array:
        """Return the embedding, (m, c): the last output, the mean of the networks."""
        return self.evaluate(X).embedding

    def evaluate(self, X: ArrayLike) -> Evaluation:
        """Return probabilities, embedding and density of rows at once."""
        check_is_fitted(self, "ensemble_")
        rows = read_rows(self, X, reset=False)
        with threads_for(len(rows), Parameters.of(self).threads):
            return self.ensemble_.evaluate(rows)

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy; rows without a label are left out, so that a search can hold out any rows."""
        labels, known = known_labels(y)
        check_consistent_length(X, known)
        if not known.any():
            raise bad_value("y", "score", "labelled at some rows", "none")
        weight = None if sample_weight is None else np.asarray(sample_weight)[known]
        predicted = self.predict(X)[known]
        if predicted.dtype.kind == "O":  # which scikit-learn cannot compare
            labels, predicted = (number_labels(each, self.classes_) for each in (labels, predicted))
        return float(accuracy_score(labels, predicted, sample_weight=weight))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    @property
    def _n_features_out(self) -> int:
        return len(self.classes_)
