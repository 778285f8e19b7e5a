"""One labelling project while it is open: its labels, its queue, its models, and what people do.

Every action is written to the journal before anything else changes, and only then answered. All state changes
under one lock; fits run beside it, in the trainer's thread.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dahgnn.classifier.estimator import DAHGNNClassifier
from dahgnn.classifier.explanation import usefulness
from dahgnn.classifier.stages import count_networks
from dahgnn.classifier.surroundings import Surroundings
from dahgnn.config import PRESETS
from dahgnn.explorer.audit import (
    Change,
    ChangeWindow,
    describe_progress,
    estimate_accuracy,
    more_labels_help,
)
from dahgnn.explorer.broadcast import Broadcast
from dahgnn.explorer.events import Event, NewEvent
from dahgnn.explorer.journal import Journal
from dahgnn.explorer.labels import MOST_CLASSES, Labels
from dahgnn.explorer.model import Model, fit_model
from dahgnn.explorer.queue import Queue
from dahgnn.explorer.rows import Rows
from dahgnn.explorer.trainer import Trainer, Training
from dahgnn.progress import Progress, tell_ensemble_epochs

Array = NDArray[Any]

# How rows come to be labelled: by the queue, which chose them in one of these ways, or as a person likes.
QUEUE_WAYS = ("diverse", "uncertain", "random", "audit")
WAYS = (*QUEUE_WAYS, "map", "loop", "doubtful", "recent", "find")
# A label is at most so long.
_LONGEST_LABEL = 200
# A window that has been silent for so many seconds no longer keeps its rows from others.
_LEASE = 90.0
# A page draws how the accuracy grew over so many models.
_MOST_MODELS = 200
# Of more rows nobody asks what was predicted when they were labelled at once.
_MOST_PREDICTED = 1_000


@dataclass(frozen=True, kw_only=True)
class Action:
    """What a window asks to be done to rows.

    Parameters
    ----------
    window, key : str
        Which window it is, and a name for this one action: sent again, it is done once.
    rows : sequence of int
        The numbers of the rows.
    way : str
        How they came to be seen.
    seen : int or None
        The last event that the window knows of.
    """

    window: str
    key: str
    rows: Sequence[int]
    way: str = ""
    seen: int | None = None


@dataclass
class _Lease:
    """The rows that a window holds, with the way they were chosen, and when it was last heard."""

    rows: dict[int, str] = field(default_factory=dict)
    heard: float = 0.0


class Session:
    """The state of a project, and the actions on it.

    Parameters
    ----------
    rows : Rows
        What is labelled.
    journal : Journal
        Where actions are kept.
    surroundings : Surroundings
        Who is near whom among the rows.
    make_classifier : callable
        Returns a classifier that is not fitted.
    broadcast : Broadcast
        Tells the windows.
    queue : Queue
        Chooses rows.
    """

    def __init__(
        self,
        rows: Rows,
        journal: Journal,
        surroundings: Surroundings,
        make_classifier: Callable[[], DAHGNNClassifier],
        broadcast: Broadcast,
        queue: Queue,
    ) -> None:
        self.rows, self.journal, self.broadcast = rows, journal, broadcast
        self.lock = threading.RLock()
        # One fit at a time, also where a folder is exported: fits set what belongs to the whole process, such
        # as the number of threads.
        self.fitting = threading.Lock()
        self.state = journal.state()
        self.labels = Labels(rows, self.state)
        self.model: Model | None = None
        self._history: list[dict[str, Any]] = []
        self._changes = ChangeWindow()
        self._change: Change | None = None
        self._scores: Array | None = None
        self.trainer = Trainer(self._train, self._tell_training)
        self._surroundings, self._make_classifier = surroundings, make_classifier
        self._queue = queue
        self._leases: dict[str, _Lease] = {}
        standing = list(self.state.recent())
        self._handed_out = sum(event.way in QUEUE_WAYS for event in standing)
        # The numbers of the events that changed labels.
        self._relabelled = [event.number for event in reversed(standing) if event.kind == "label"]
        if rows.fitted is not None:
            self._take_over(rows.fitted.classifier)

    # --- Models ---

    def start(self) -> None:
        """Begin to train in the background, with what is known already."""
        self.trainer.start()
        if self.can_train() and (self.model is None or self.waiting):
            self.trainer.ask()

    def stop(self) -> None:
        """End the training, and close the journal."""
        self.trainer.stop()
        self.broadcast.close()
        with self.lock:
            self.journal.close()

    def can_train(self) -> bool:
        """Whether there are labels of two classes."""
        return len(np.unique(self.labels.places[self.labels.places >= 0])) > 1

    @property
    def waiting(self) -> int:
        """How many changes of labels the last model has not seen."""
        with self.lock:
            since = 0 if self.model is None else self.model.event
            return len(self._relabelled) - bisect_right(self._relabelled, since)

    def training(self) -> dict[str, Any]:
        """Return how far the training is, as a page hears it."""
        return self.trainer.state.as_dict() | {"waiting": self.waiting}

    def _take_over(self, classifier: DAHGNNClassifier) -> None:
        """Begin with a classifier that was fitted before."""
        labels = np.array(self.rows.given, dtype=object)
        self._set_model(
            Model(number=1, event=0, classifier=classifier, labels=labels, seconds=0.0, finished=time.time())
        )

    def _set_model(self, model: Model) -> None:
        """Go on with a new model."""
        said = model.classifier
        self.model, self._scores = model, usefulness(said.label_distributions_, said.density_)
        shared = np.array([self.labels.place(name) for name in model.classes])
        self._change = self._changes.add(model.n_labelled, shared[model.predicted])
        estimate = estimate_accuracy(self.audits())
        self._history.append(
            {
                "labels": model.n_labelled,
                "accuracy": estimate and estimate.accuracy,
                "low": estimate and estimate.low,
                "high": estimate and estimate.high,
                "audits": estimate.n if estimate else 0,
                "changed": len(model.changed) / len(self.rows),
            }
        )

    def _train(self, progress: Progress) -> None:
        with self.lock:
            if not self.can_train():
                return
            labels, event, last = self.labels.texts(), self.state.version, self.model
        classifier = self._make_classifier()
        networks = count_networks(classifier.networks, len(self.rows))
        callback = tell_ensemble_epochs(progress, PRESETS["default"].training.max_epochs, networks)
        with self.fitting:
            model = fit_model(
                classifier,
                self.rows.table.features,
                labels,
                self._surroundings,
                event=event,
                last=last,
                callback=callback,
            )
        with self.lock:
            self._set_model(model)
        self.broadcast.publish("model", self.describe_model() | {"progress": self.progress()})

    def _tell_training(self, _: Training) -> None:
        self.broadcast.publish("training", self.training())

    def describe_model(self) -> dict[str, Any]:
        """Return what a page says of the last model; nothing if there is none."""
        model = self.model
        if model is None:
            return {}
        return {
            "number": model.number,
            "event": model.event,
            "labels": model.n_labelled,
            "seconds": round(model.seconds, 3),
            "finished": model.finished,
            "changed": len(model.changed),
            "says": model.says,
        }

    # --- How right it is ---

    def audits(self) -> list[bool]:
        """Return of each audit row whether somebody who has not seen its label was right."""
        found = []
        for name, event in self.state.audits.items():
            row = self.rows.numbers.get(name)
            if row is None:
                continue
            opinion = self.model.opinions.get(row) if self.model is not None else None
            if opinion is None and event.predicted:
                opinion = event.predicted[event.rows.index(name)]
            if opinion is not None:
                found.append(opinion == event.label)
        return found

    def progress(self) -> dict[str, Any]:
        """Return how right the labels are, how that grew, and whether more labels help."""
        with self.lock:
            audits = self.audits()
            estimate = estimate_accuracy(audits)
            return {
                "labelled": self.labels.n_labelled,
                "audits": len(audits),
                "accuracy": estimate and estimate.accuracy,
                "low": estimate and estimate.low,
                "high": estimate and estimate.high,
                "says": describe_progress(len(audits), estimate, self._change),
                "helps": more_labels_help(self._change),
                "history": self._history[-_MOST_MODELS:],
            }

    # --- The queue ---

    def next_rows(self, window: str, have: Sequence[int], count: int) -> list[tuple[int, str]]:
        """Return the next rows for a window, with the way each was chosen.

        The window keeps those that it has, and loses all others that it was given before.
        """
        with self.lock:
            lease = self._leases.setdefault(window, _Lease())
            lease.heard = time.monotonic()
            lease.rows = {row: lease.rows.get(row, "map") for row in have}
            self._forget_silent_windows()
            found = []
            for _ in range(count):
                chosen = self._choose()
                if chosen is None:
                    break
                lease.rows[chosen[0]] = chosen[1]
                found.append(chosen)
            return found

    def _choose(self) -> tuple[int, str] | None:
        labelled = self.labels.places >= 0
        held = [row for lease in self._leases.values() for row in lease.rows]
        # A window may still name a row whose label has just come; that one is counted already.
        waiting = sum(not labelled[row] for row in held)
        skipped = [self.rows.numbers[name] for name in self.state.skipped if name in self.rows.numbers]
        return self._queue.next(
            labelled,
            self._mask(skipped),
            self._mask(held),
            self._scores,
            self._handed_out + waiting,
            list(self.counts().values()),
        )

    def _mask(self, rows: Sequence[int]) -> NDArray[np.bool_]:
        mask = np.zeros(len(self.rows), dtype=np.bool_)
        mask[list(rows)] = True
        return mask

    def _forget_silent_windows(self) -> None:
        now = time.monotonic()
        self._leases = {name: each for name, each in self._leases.items() if now - each.heard < _LEASE}

    # --- Actions ---

    def label(self, action: Action, label: str | None) -> Event:
        """Give rows a label, or take theirs away; it is on the disk when this returns."""
        with self.lock:
            return self._write(action, "label", None if label is None else self._checked(label))

    def skip(self, action: Action) -> Event:
        """Put rows at the end of the queue."""
        with self.lock:
            return self._write(action, "skip")

    def keep(self, action: Action) -> Event:
        """Say that the labels of rows are right, although they look doubtful."""
        with self.lock:
            (row,) = action.rows
            return self._write(action, "keep", self.labels.of(row))

    def undo(self, window: str, key: str, number: int | None) -> Event:
        """Take an action back: that of a number, or the last one of the window."""
        with self.lock:
            known = self.state.version
            event = self.journal.undo(key=key, window=window, event=number)
            self._follow(event, known)
            return event

    def _checked(self, label: str) -> str:
        label = self.labels.named(label.strip())
        if label in self.labels.classes:
            return label
        if not 1 <= len(label) <= _LONGEST_LABEL or "\0" in label:
            raise ValueError(f"A label must have 1 to {_LONGEST_LABEL} characters, none of them NUL.")
        if len(self.labels.classes) >= MOST_CLASSES:
            raise ValueError(f"There may be at most {MOST_CLASSES:,} classes.")
        return label

    def _write(self, action: Action, kind: str, label: str | None = None) -> Event:
        ids = [self.rows.ids[row] for row in action.rows]
        model = self.model
        told = model is not None and len(ids) <= _MOST_PREDICTED
        known = self.state.version
        event = self.journal.write(
            NewEvent(
                key=action.key,
                window=action.window,
                kind=kind,
                rows=ids,
                label=label,
                way=action.way,
                seen=action.seen,
                predicted=[model.guess(row) for row in action.rows] if model and told else (),
                probability=[float(model.confidence[row]) for row in action.rows] if model and told else (),
                model=model.number if model and told else None,
            )
        )
        self._follow(event, known)
        return event

    def _follow(self, event: Event, known: int) -> None:
        """Bring everything up to date with an event, unless it was there before (the window asked twice)."""
        if event.number <= known:
            return
        self.labels.update(event.rows)
        for lease in self._leases.values():
            for name in event.rows if len(event.rows) <= len(lease.rows) + 1 else ():
                lease.rows.pop(self.rows.numbers.get(name, -1), None)
        self._handed_out += event.way in QUEUE_WAYS
        relabels = event.kind == "label" or (
            event.undoes is not None and self.state.event(event.undoes).kind == "label"
        )
        if relabels:
            self._relabelled.append(event.number)
        if relabels and self.can_train():
            self.trainer.ask()

    def counts(self) -> Counter[str]:
        """Return how many rows have each label."""
        known = self.labels.places[self.labels.places >= 0]
        counts = np.bincount(known, minlength=len(self.labels.classes)).tolist()
        return Counter(dict(zip(self.labels.classes, counts, strict=True)))
