"""What the page is told, as values that JSON can hold, or as bytes for large arrays.

Nothing here changes anything. Text is the text of the data as it is; the server cleans it on its way out.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dahgnn.classifier.explanation import HyperedgeAttention
from dahgnn.explorer.events import Event
from dahgnn.explorer.labels import WHO
from dahgnn.explorer.session import Session

Array = NDArray[Any]

# How much of each a page is told at a time.
MOST_LIKELY, MOST_LABELLED, MOST_HYPEREDGES, MOST_MEMBERS = 5, 8, 3, 11
MOST_RECENT, MOST_DOUBTFUL, MOST_SAMPLED, MOST_CHANGED = 10, 200, 60, 100
# Windows fetch the whole map again rather than hear of more rows at a time.
MOST_TOLD = 2_000


def start(session: Session, extra: dict[str, Any]) -> dict[str, Any]:
    """Return what a window needs to begin."""
    rows = session.rows
    with session.lock:
        return {
            "title": rows.path.resolve().name,
            "n": len(rows),
            "version": session.state.version,
            "classes": list(session.labels.classes),
            "columns": len(rows.shown.cells),
            "pictures": rows.pictures is not None,
            "texts": list(rows.texts),
            "notes": list(rows.table.notes),
            "labelled": session.labels.n_labelled,
            "given": sum(label is not None for label in rows.given),
            "model": session.describe_model() or None,
            "training": session.training(),
            "progress": session.progress(),
            "recent": recent(session),
            **extra,
        }


def card(session: Session, row: int, way: str) -> dict[str, Any]:
    """Return all that a card shows of a row at once."""
    rows, model = session.rows, session.model
    with session.lock:
        name = rows.ids[row]
        label = session.labels.of(row)
        event = session.state.last_event(name)
        who = WHO[session.labels.who[row]]
    return {
        "row": row,
        "id": name,
        "way": way,
        "picture": has_picture(session, row),
        "texts": rows.long_texts(row),
        "cells": rows.cells(row),
        "columns": len(rows.shown.cells),
        "label": label,
        "by": who,
        "event": event,
        "likely": None if model is None else model.likely(row, MOST_LIKELY),
        "model": None if model is None else model.number,
        "hidden": way == "audit",
    }


def tip(session: Session, row: int) -> dict[str, Any]:
    """Return the little that is shown beside a pointer."""
    return brief(session, row) | {"cells": session.rows.cells(row, 6)}


def brief(session: Session, row: int) -> dict[str, Any]:
    """Return a row's id, label and likeliest class."""
    model = session.model
    return {
        "row": row,
        "id": session.rows.ids[row],
        "label": session.labels.of(row),
        "predicted": None if model is None else model.guess(row),
        "probability": None if model is None else float(model.confidence[row]),
        "picture": has_picture(session, row),
    }


def has_picture(session: Session, row: int) -> bool:
    """Whether a row has a picture."""
    pictures = session.rows.pictures
    return pictures is not None and pictures.has(row)


def why(session: Session, row: int) -> dict[str, Any]:
    """Return the labelled rows and hyperedges behind what the model says of a row."""
    model = session.model
    if model is None:
        return {"model": None}
    found = model.explain(row)
    # The labels that it learned from; people may have changed or undone some of them since.
    labelled = [
        brief(session, each.row) | {"label": model.labels[each.row], "weight": each.weight}
        for each in found.labelled[:MOST_LABELLED]
    ]
    told = sum(each.weight for each in found.labelled)
    return {
        "model": model.number,
        "labelled": labelled,
        "rest": max(0.0, 1.0 - told),
        "hyperedges": [_hyperedge(session, each) for each in found.hyperedges[:MOST_HYPEREDGES]],
    }


def _hyperedge(session: Session, each: HyperedgeAttention) -> dict[str, Any]:
    members = each.members[:MOST_MEMBERS]
    return {
        "weight": each.weight,
        "centre": each.centre,
        "members": [brief(session, member.row) | {"weight": member.weight} for member in members],
    }


def recent(session: Session) -> list[dict[str, Any]]:
    """Return the last labels that people gave, the newest first."""
    found: list[dict[str, Any]] = []
    for event in session.state.recent():
        if len(found) == MOST_RECENT:
            break
        if event.kind == "label":
            found.append(_recent(session, event))
    return found


def _recent(session: Session, event: Event) -> dict[str, Any]:
    row = next((session.rows.numbers[name] for name in event.rows if name in session.rows.numbers), None)
    return {
        "event": event.number,
        "row": row,
        "count": len(event.rows),
        "id": event.rows[0],
        "label": event.label,
        "before": None if row is None else session.labels.before(row, event.number),
        "way": event.way,
        "window": event.window,
        "picture": row is not None and has_picture(session, row),
    }


def doubtful(session: Session) -> dict[str, Any]:
    """Return the labels that those contradict who have not seen them, the clearest first."""
    model = session.model
    if model is None:
        return {"model": None, "rows": [], "count": 0}
    with session.lock:
        found = []
        for each in model.doubtful:
            name, label = session.rows.ids[each.row], session.labels.of(each.row)
            if label == each.given and session.state.kept.get(name) != label:
                found.append(
                    brief(session, each.row)
                    | {
                        "by": WHO[session.labels.who[each.row]],
                        "opinion": each.opinion,
                        "probability": each.probability,
                        "given_probability": each.given_probability,
                    }
                )
    return {"model": model.number, "rows": found[:MOST_DOUBTFUL], "count": len(found)}


def changed(session: Session) -> dict[str, Any]:
    """Return the rows whose likeliest class is another than that of the model before."""
    model = session.model
    if model is None:
        return {"model": None, "rows": [], "count": 0}
    listed = list(zip(model.changed.tolist(), model.before.tolist(), strict=True))[:MOST_CHANGED]
    rows = [
        {
            "row": row,
            "id": session.rows.ids[row],
            "before": before,
            "after": model.guess(row),
            "picture": has_picture(session, row),
        }
        for row, before in listed
    ]
    return {"model": model.number, "rows": rows, "count": len(model.changed)}


def sheet(session: Session, rows: Array) -> dict[str, Any]:
    """Return what is inside a loop, with a sample spread over it, to look at before it is labelled."""
    with session.lock:
        places, model = session.labels.places[rows], session.model
    names: Counter[str] = Counter()
    known = places[places >= 0]
    for place, count in zip(*np.unique(known, return_counts=True), strict=True):
        names[session.labels.classes[place]] += int(count)
    if model is not None:
        guessed = model.predicted[rows[places < 0]]
        for place, count in zip(*np.unique(guessed, return_counts=True), strict=True):
            names[model.classes[place]] += int(count)
    steps = np.linspace(0, len(rows) - 1, min(MOST_SAMPLED, len(rows))).round().astype(int)
    return {
        "count": len(rows),
        "labelled": len(known),
        "counts": names.most_common(),
        "sample": [_sampled(session, int(row)) for row in rows[steps]],
    }


def _sampled(session: Session, row: int) -> dict[str, Any]:
    texts = session.rows.long_texts(row)
    words = texts[0][1] if texts else ", ".join(text for _, text in session.rows.cells(row, 4))
    return brief(session, row) | {"text": words[:160]}


def find(session: Session, wanted: str) -> int | None:
    """Return the row of an id, or the first whose id begins so."""
    numbers = session.rows.numbers
    for name in (wanted, wanted.strip()):
        if name in numbers:
            return numbers[name]
    wanted = wanted.strip()
    begins = (row for row, name in enumerate(session.rows.ids) if name.startswith(wanted))
    return next(begins, None) if wanted else None


def told_of_event(session: Session, event: Event) -> dict[str, Any]:
    """Return what all windows hear of a label, undo or keep."""
    rows = [session.rows.numbers[name] for name in event.rows if name in session.rows.numbers]
    return {
        "rows": rows if len(rows) <= MOST_TOLD else None,
        "labels": [session.labels.of(row) for row in rows] if len(rows) <= MOST_TOLD else None,
        "label": event.label,
        "kind": event.kind,
        "window": event.window,
        "event": event.number,
        "version": session.state.version,
        "labelled": session.labels.n_labelled,
        "classes": list(session.labels.classes),
        "recent": recent(session),
    }


def map_rows(session: Session) -> bytes:
    """Return the label, the likeliest class, its probability and the density of all rows as bytes.

    A head of four int32 (rows, version of the journal, number of the model, number of classes) is followed by
    int16 places of labels, uint8 who gave them, int16 places of the likeliest classes, uint8 probabilities
    (255 is 1) and float32 densities; each array begins at a multiple of four bytes.
    """
    with session.lock:
        labels, model = session.labels, session.model
        places, who, version = labels.places.copy(), labels.who.copy(), session.state.version
        names = model.classes if model is not None else ()
        of_model = np.array([labels.place(name) for name in names], dtype=np.int16)
        n_classes = len(labels.classes)
    n = len(places)
    predicted, sure = np.full(n, -1, np.int16), np.zeros(n, np.uint8)
    density = np.full(n, np.nan, np.float32)
    if model is not None:
        predicted = of_model[model.predicted]
        sure = np.rint(255 * model.confidence).astype(np.uint8)
        density = model.classifier.density_.astype(np.float32)
    head = np.array([n, version, 0 if model is None else model.number, n_classes], dtype=np.int32)
    return b"".join(_padded(each) for each in (head, places, who, predicted, sure, density))


def _padded(values: Array) -> bytes:
    content = np.ascontiguousarray(values.astype(values.dtype.newbyteorder("<"), copy=False)).tobytes()
    return content + bytes(-len(content) % 4)


def exported(session: Session) -> dict[str, list[Any]]:
    """Return the columns of an export: each row's id, label, who gave it, its probability and the time.

    A row that nobody has labelled has the likeliest class by the last model. Times are in UTC.
    """
    with session.lock:
        texts, who, model = session.labels.texts(), session.labels.who.copy(), session.model
        times = {name: event.time for name, event in session.state.label_events()}
    columns: dict[str, list[Any]] = {name: [] for name in ("id", "label", "by", "probability", "time")}
    guessed = None if model is None else np.array(model.classes, dtype=object)[model.predicted]
    finished = None if model is None else _utc(model.finished)
    for row, name in enumerate(session.rows.ids):
        by, label, share = WHO[who[row]], texts[row], None
        when = _utc(times.get(name)) if by == "person" else None
        if by is None and model is not None and guessed is not None:
            by, label, share, when = "model", guessed[row], float(model.confidence[row]), finished
        for column, value in zip(columns.values(), (name, label, by, share, when), strict=True):
            column.append(value)
    return columns


def _utc(when: float | None) -> str | None:
    return None if when is None else time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(when))
