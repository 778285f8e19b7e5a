"""A labelling project as a whole: rows, journal, session, map, and where results go."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from dahgnn.checks import bad_value, check_choice
from dahgnn.explorer import layout
from dahgnn.explorer.broadcast import Broadcast
from dahgnn.explorer.export import write_fit
from dahgnn.explorer.journal import Journal
from dahgnn.explorer.journal_file import JournalError
from dahgnn.explorer.queue import Queue
from dahgnn.explorer.rows import Rows, read_rows_to_label
from dahgnn.explorer.session import Session
from dahgnn.explorer.trainer import StoppedError
from dahgnn.graph.scaling import choose_scaling
from dahgnn.progress import Observer, Progress
from dahgnn.report.fit_files import MODEL
from dahgnn.report.fit_options import FitOptions, make_classifier

Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class LabelOptions:
    """What a user may choose.

    Parameters
    ----------
    fit : FitOptions
        How tables are read and classifiers are fitted.
    features, neighbors : Path or None
        NPY files of features (n, d), and of known neighbours (n, k).
    image_shape : tuple of int
        How high and wide images are that the table holds.
    journal, folder : Path or None
        The file that keeps what people do, and the folder of a fit; they have names by default.
    """

    fit: FitOptions = field(default_factory=FitOptions)
    features: Path | None = None
    neighbors: Path | None = None
    image_shape: tuple[int, ...] = ()
    journal: Path | None = None
    folder: Path | None = None


class Project:
    """An open project. `open_project` makes one.

    Attributes
    ----------
    session : Session
        Labels, queue and models.
    folder : Path
        Where the folder of a fit is written.
    places : array of float32, (n, 2)
        Where rows stand on the map.
    """

    def __init__(self, session: Session, directions: Tensor, folder: Path, options: FitOptions) -> None:
        self.session, self.folder = session, folder
        self._directions, self._options = directions, options
        self.places, self.map_kind, self.map_version = layout.place_by_components(directions), "pca", 1
        self._stopping = threading.Event()
        self._mapper = threading.Thread(target=self._improve_map, name="mapper", daemon=True)
        self._exporting = threading.Lock()

    def start(self) -> None:
        """Begin to work in the background."""
        self.session.start()
        self._mapper.start()

    def stop(self) -> None:
        """End all work, and close the journal."""
        self._stopping.set()
        self._mapper.join(10)
        self.session.stop()

    def describe(self) -> dict[str, Any]:
        """Return what a page is told of the project beside the session."""
        return {
            "map": {"version": self.map_version, "kind": self.map_kind},
            "journal": self.session.journal.path.name,
            "fit_folder": str(self.folder),
        }

    def write_fit(self) -> list[str]:
        """Write the folder of a fit, and return the names of its files."""
        if not self._exporting.acquire(blocking=False):
            raise ValueError("The folder is being written already. Wait until that is done.")
        try:
            with self.session.lock:
                labels = self.session.labels.texts().tolist()
            with self.session.fitting:
                return write_fit(self.session.rows, labels, self.folder, self._options, self._observer())
        finally:
            self._exporting.release()

    def _observer(self) -> Observer:
        return _Notices(self.session.broadcast)

    # --- The map ---

    def _improve_map(self) -> None:
        """Place rows better, if that takes long: once, as the journal keeps the places."""
        if not layout.wants_tsne(self._options.map, len(self.places)):
            return
        digest = layout.layout_digest(self._directions)
        kept = self.session.journal.layout("tsne", digest)
        if kept is not None and len(kept) == self.places.nbytes:
            self._set_places(np.frombuffer(kept, np.float32).reshape(-1, 2))
            return
        try:
            found = layout.place_by_tsne(self._directions, self._hear)
        except StoppedError:
            return
        if found is not None:
            self._set_places(found)
            self._keep(digest, found)

    def _hear(self, done: float, total: float, text: str = "", *, seconds_left: float | None = None) -> None:  # noqa: ARG002
        if self._stopping.is_set():
            raise StoppedError

    def _set_places(self, places: Array) -> None:
        self.places, self.map_kind = places, "tsne"
        self.map_version += 1
        self.session.broadcast.publish("map", {"version": self.map_version, "kind": self.map_kind})

    def _keep(self, digest: str, places: Array) -> None:
        try:
            self.session.journal.keep_layout("tsne", digest, places.astype(np.float32).tobytes())
        except JournalError as error:  # the map is there all the same
            self.session.broadcast.publish("notice", {"text": str(error), "bad": True})


class _Notices:
    """An observer that tells the windows."""

    def __init__(self, broadcast: Broadcast) -> None:
        self._broadcast = broadcast

    @contextmanager
    def phase(self, name: str) -> Iterator[Progress]:
        """Tell that a phase begins."""
        self._broadcast.publish("notice", {"text": f"{name} …", "bad": False})
        yield _ignore

    def note(self, text: str) -> None:
        """Tell a sentence."""
        self._broadcast.publish("notice", {"text": text, "bad": False})


def _ignore(done: float, total: float, text: str = "", *, seconds_left: float | None = None) -> None:
    """Ignore how far a phase is."""


def open_project(path: Path, options: LabelOptions, observer: Observer) -> Project:
    """Read what is to be labelled, find neighbours, and open the journal.

    Parameters
    ----------
    path : Path
        A table, a folder of pictures, or the folder of a fit.
    options : LabelOptions
        What the user chose.
    observer : Observer
        Sees the phases, and what was understood.
    """
    check_choice("map", options.fit.map, layout.MAPS, "label")
    with observer.phase(f"Read {path.name}"):
        rows = read_rows_to_label(
            path,
            label=options.fit.label,
            id=options.fit.id,
            choices=options.fit.choices,
            reading=options.fit.reading,
            features=options.features,
            image_shape=options.image_shape,
        )
    for note in rows.table.notes:
        observer.note(note)
    fit = _as_fitted(options.fit, rows)
    journal = Journal.open(options.journal or default_journal(path), rows.identity)
    try:
        with observer.phase(f"Find the neighbours of {len(rows):,} rows"):
            classifier = make_classifier(fit)
            neighbors = None if options.neighbors is None else _read_neighbors(options.neighbors, len(rows))
            around = classifier.surroundings(rows.table.features, neighbors)
        with observer.phase("Prepare the map and the queue"):
            scaled = choose_scaling(rows.table.features, fit.scale).apply(rows.table.features)
            directions = layout.leading_directions(scaled[:, :-1])
            queue = Queue(directions, around.hypergraph.neighbourhood("centre"), seed=fit.seed)
            make = partial(make_classifier, fit)
            session = Session(rows, journal, around, make, Broadcast(), queue)
            return Project(session, directions, options.folder or _default_folder(path), fit)
    except BaseException:
        journal.close()
        raise


def _as_fitted(options: FitOptions, rows: Rows) -> FitOptions:
    """Return the options with what a fit that the rows come from had: further models are made as it was."""
    if rows.fitted is None:
        return options
    names = ("k", "networks", "validation", "scale")
    settings = {name: getattr(rows.fitted.classifier, name) for name in names}
    return replace(options, id=rows.fitted.id, reading=rows.fitted.reading, **settings)


def _read_neighbors(path: Path, n: int) -> Array:
    """Return neighbours (n, k) from an NPY file."""
    try:
        found = np.load(path, allow_pickle=False)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"There is no file {path}.") from error
    except (ValueError, EOFError) as error:
        raise ValueError(f"The file {path} must be an NPY file of whole numbers. Got another.") from error
    if not isinstance(found, np.ndarray) or found.ndim != 2 or found.dtype.kind not in "iu":
        raise bad_value("neighbors", "label", "an array of whole numbers, (n, k)", f"{path.name}")
    if len(found) != n:
        raise bad_value("neighbors", "label", f"of {n:,} rows", f"{len(found):,}")
    return found


def default_journal(path: Path) -> Path:
    """Return the journal beside a table or a folder of pictures, or inside the folder of a fit."""
    whole = path.resolve()
    if (whole / MODEL).exists():
        return whole / "labels.sqlite"
    return whole.with_name(whole.name + ".labels.sqlite")


def _default_folder(path: Path) -> Path:
    return Path("runs") / (path.resolve().name + "-labelled")
