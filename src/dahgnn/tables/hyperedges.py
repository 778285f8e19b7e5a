"""Read the hyperedges that a user has of the rows of a table: a table of pairs, or a HIF file.

**A table of pairs** is a file of any format that tables have, of two or three columns: the id of a row, the
name of a hyperedge that it is in, and perhaps the weight of the pair. The column that is called as that of
the table's ids has the ids, else the first. **HIF** (`dahgnn.graph.interchange.hif`) is a JSON file with
"incidences"; its nodes are called by the ids, and all its weights count.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dahgnn.checks import did_you_mean
from dahgnn.files.json_files import read_json
from dahgnn.graph.assembly import WEIGHTS
from dahgnn.graph.hypergraph import Hypergraph
from dahgnn.graph.interchange.hif import read_hif
from dahgnn.graph.names import Names
from dahgnn.tables.cells import as_texts, classify
from dahgnn.tables.formats import find_format
from dahgnn.tables.messages import listed, quoted
from dahgnn.tables.missing import Missing
from dahgnn.tables.sources import Reading, Source, Wanted

# So many ids are looked through for one that is spelled alike.
_MOST_SPELLED = 10_000


class GivenHyperedges(NamedTuple):
    """A hypergraph of the rows of a table, and sentences on what was understood of it."""

    hypergraph: Hypergraph
    notes: tuple[str, ...]


class _Named(NamedTuple):
    """Pairs by name: the id of a row, its hyperedge and the pair's weight, and where messages say it is."""

    ids: Sequence[str]
    hyperedges: Sequence[str]
    weights: np.ndarray | None
    places: Sequence[str]
    of_hyperedges: Mapping[str, float]
    notes: tuple[str, ...]


def read_hyperedges(
    path: str | os.PathLike[str],
    ids: Sequence[str],
    *,
    id_column: str | None = None,
    reading: Reading | None = None,
) -> GivenHyperedges:
    """Read hyperedges of rows that have ids.

    Parameters
    ----------
    path : path
        A table of pairs, or a HIF file.
    ids : sequence of str, n
        The ids of the rows, which become the nodes in this order.
    id_column : str, optional
        What the table calls its column of ids.
    reading : Reading, optional
        How the table was read, of which the encoding holds for a table of pairs, too.

    Raises
    ------
    OSError
        If there is no such file, or it cannot be read.
    ValueError
        If it holds something else; if it names a row that is not there, or joins none with another.
    """
    path = Path(path)
    content = read_json(path) if path.name.lower().endswith(".json") else None
    if isinstance(content, dict) and ("incidences" in content or path.name.lower().endswith(".hif.json")):
        pairs = _from_hif(path, content)
    else:
        pairs = _from_table(path, ids, id_column, reading or Reading())
    numbers = {name: number for number, name in enumerate(ids)}
    _check_known(path, pairs, numbers, id_column)
    hypergraph = _build(pairs, numbers, ids)
    sizes = hypergraph.by_hyperedge.offsets.diff()
    if int(sizes.max()) < 2:
        raise ValueError(f"The hyperedges of {path} must join rows. Got one row alone in each.")
    hypergraph.neighbourhood("centre")  # too many pairs are refused here, before the fit
    return GivenHyperedges(hypergraph, (*pairs.notes, *_notes(path, pairs, len(ids))))


def _from_hif(path: Path, content: Mapping[str, Any]) -> _Named:
    found = read_hif(content, undirect=True, what=f"The file {path}")
    notes = []
    directions = any("direction" in each for each in content["incidences"])
    if content.get("network-type") == "directed" or directions:
        notes.append(f"{path.name} is directed: heads and tails count alike.")
    if found.names is not None and found.names.labels is not None:
        notes.append(f"The labels of nodes in {path.name} are not read: those of the table count.")
    nodes, edges = (_as_ids(path, each) for each in (found.node_names, found.hyperedge_names))
    return _Named(
        ids=[nodes[node] for node in found.node.tolist()],
        hyperedges=[edges[edge] for edge in found.hyperedge.tolist()],
        weights=found.arguments()["incidence_weights"],
        places=["its incidences"] * len(found.node),
        of_hyperedges=dict(zip(edges, found.weights.tolist(), strict=True))
        if found.weights is not None
        else {},
        notes=tuple(notes),
    )


def _as_ids(path: Path, names: Sequence[object]) -> list[str]:
    """Return names as text, as ids are; 1 and "1" are two names that become one."""
    texts = [str(name) for name in names]
    twice = [text for text, count in Counter(texts).items() if count > 1]
    if twice:
        raise ValueError(
            f"The names of {path} must differ as text, as the ids of rows do. Got {listed(twice)} both as "
            "text and as a number."
        )
    return texts


def _from_table(path: Path, ids: Sequence[str], id_column: str | None, reading: Reading) -> _Named:
    chosen = find_format(path)
    if chosen.roles != "columns":
        raise ValueError(
            f"The hyperedges of {path} must be a table of pairs, or HIF. Got arrays or pictures."
        )
    plain = Reading(encoding=reading.encoding if "encoding" in chosen.options else None)
    columns = _columns(path, chosen.read(path, Wanted(reading=plain)), ids, id_column)
    # Once more, now that it is known which cells stay text: 007 is an id, and no 7.
    source = chosen.read(path, Wanted(texts=tuple(columns[:2]), reading=plain))
    texts = [_texts(path, source, name) for name in columns[:2]]
    weights = _weights(path, source, columns[2]) if len(columns) == 3 else None
    held = f", with weights in {quoted(columns[2])}" if weights is not None else ""
    note = (
        f"{path.name} has ids of rows in {quoted(columns[0])} and hyperedges in {quoted(columns[1])}{held}."
    )
    places = [source.at(row) for row in range(source.n_rows)]
    return _Named(texts[0], texts[1], weights, places, {}, (note, *source.notes))


def _columns(path: Path, source: Source, ids: Sequence[str], id_column: str | None) -> list[str]:
    """Return the names of the columns of ids, hyperedges and perhaps weights."""
    names = list(source.cells)
    if source.is_array or len(names) not in (2, 3):
        raise ValueError(
            f"The file {path} must have two columns, the ids of rows and the names of their hyperedges, and "
            f"perhaps a third with weights. Got {len(names):,}: {listed(names)}."
        )
    if names[0] in set(ids) and source.lines is not None:
        raise ValueError(
            f"The first line of {path} must name its columns. Got {quoted(names[0])}, which is the id of a "
            "row. Write a line such as row,hyperedge above it."
        )
    if id_column in names[1:]:
        names.remove(id_column)
        names.insert(0, id_column)
    return names


def _texts(path: Path, source: Source, name: str) -> list[str]:
    texts = as_texts(source.cells[name], name)
    for row, text in enumerate(texts):
        if text is None or not text.strip():
            raise ValueError(
                f"The cells in '{name}' of {path} must all be there. Got none in {source.at(row)}. "
                "Correct it, or leave the pair out."
            )
    return [str(text) for text in texts]


def _weights(path: Path, source: Source, name: str) -> np.ndarray:
    kind, values = classify(source, name, Missing())
    low, high = WEIGHTS
    if kind not in ("number", "flag"):
        raise ValueError(f"The weights in '{name}' of {path} must be numbers. Got {kind}s.")
    wrong = np.flatnonzero(~((values >= low) & (values <= high)))
    if len(wrong):
        got = "none" if np.isnan(values[wrong[0]]) else f"{values[wrong[0]]:g}"
        raise ValueError(
            f"The weights in '{name}' of {path} must be between {low:g} and {high:g}. "
            f"Got {got} in {source.at(wrong[0])}."
        )
    return values


def _check_known(path: Path, pairs: _Named, numbers: Mapping[str, int], id_column: str | None) -> None:
    if not pairs.ids:
        raise ValueError(f"The file {path} must have a pair of a row and a hyperedge. Got none.")
    unknown = list(dict.fromkeys(name for name in pairs.ids if name not in numbers))
    if not unknown:
        return
    place = next(place for name, place in zip(pairs.ids, pairs.places, strict=True) if name == unknown[0])
    rest = f", and {_counted(len(unknown) - 1, 'other id')} that no row has" if len(unknown) > 1 else ""
    hint = _hint(unknown[0], pairs, numbers, id_column)
    raise ValueError(
        f"The rows that {path} names must be those of the table. Got {quoted(unknown[0])} in {place}{rest}. "
        f"{hint}"
    )


def _hint(unknown: str, pairs: _Named, numbers: Mapping[str, int], id_column: str | None) -> str:
    if all(name in numbers for name in pairs.hyperedges):
        return "The other column has ids: exchange the two."
    if id_column is None:
        return "Rows are named by their numbers, from 0 on, unless --id names the column of their ids."
    ids: Iterable[str] = list(numbers)[:_MOST_SPELLED]
    return did_you_mean(unknown, ids) or "Leave out pairs of rows that the table does not have."


def _build(pairs: _Named, numbers: Mapping[str, int], ids: Sequence[str]) -> Hypergraph:
    names = list(dict.fromkeys(pairs.hyperedges))
    places = {name: number for number, name in enumerate(names)}
    weights = [pairs.of_hyperedges.get(name, 1.0) for name in names] if pairs.of_hyperedges else None
    return Hypergraph.from_incidence(
        np.array([numbers[name] for name in pairs.ids], dtype=np.int64),
        np.array([places[name] for name in pairs.hyperedges], dtype=np.int64),
        n_nodes=len(ids),
        n_hyperedges=len(names),
        weights=weights,
        incidence_weights=pairs.weights,
        names=Names(ids, names),
    )


def _notes(path: Path, pairs: _Named, n_rows: int) -> list[str]:
    """Say how many hyperedges there are, and what is odd about them."""
    different = set(zip(pairs.ids, pairs.hyperedges, strict=True))
    sizes = Counter(hyperedge for _, hyperedge in different)
    least, most = min(sizes.values()), max(sizes.values())
    span = f"{least:,}" if least == most else f"{least:,} to {most:,}"
    notes = [f"{path.name} has {_counted(len(sizes), 'hyperedge')} of {span} rows."]
    repeated = len(pairs.ids) - len(different)
    if repeated:
        last = ", with the last weight" if pairs.weights is not None else ""
        notes.append(f"{_counted(repeated, 'pair')} of {path.name} came before: each counts once{last}.")
    single = sum(size == 1 for size in sizes.values())
    if single:
        notes.append(f"{path.name} has {_counted(single, 'hyperedge')} of one row alone, joined with none.")
    outside = n_rows - len(set(pairs.ids))
    if outside:
        notes.append(f"{outside:,} of {n_rows:,} rows are in no hyperedge of {path.name}.")
    return notes


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
