"""pandas and Arrow: a table of pairs, with the columns "node" and "hyperedge".

Further columns are "weight", that of the incidence, and "hyperedge_weight", which says the same in each row
of a hyperedge. Others are refused, so that no weight is overlooked for its name.

Traps: what is in no pair has no row: nodes that are in no hyperedge, and hyperedges without a node, are lost.
`import_hypergraph` takes all ``nodes`` in their order, which also brings the rows of a table of features into
line with the nodes. A row that comes twice counts once, with its last weight.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dahgnn.checks import bad_value, did_you_mean
from dahgnn.graph.interchange.collecting import Collector
from dahgnn.graph.interchange.libraries import check_source, library
from dahgnn.graph.interchange.pairs import Pairs

_OWNER = "import_hypergraph"
_COLUMNS = ("node", "hyperedge", "weight", "hyperedge_weight")


def read_pandas(source: Any) -> Pairs:
    """Read a ``pandas.DataFrame``."""
    frames = library("pandas")
    check_source(source, frames.DataFrame, "a pandas.DataFrame")
    _check_columns([str(name) for name in source.columns])
    columns = {}
    for name in source.columns:
        missing = source[name].isna().tolist()
        values = source[name].tolist()
        columns[name] = [None if gap else value for value, gap in zip(values, missing, strict=True)]
    return _collect(columns)


def read_arrow(source: Any) -> Pairs:
    """Read a ``pyarrow.Table``."""
    check_source(source, library("pyarrow").Table, "a pyarrow.Table")
    _check_columns(source.column_names)
    return _collect(source.to_pydict())


def write_pandas(pairs: Pairs) -> Any:
    """Make a ``pandas.DataFrame``."""
    return library("pandas").DataFrame(_as_columns(pairs))


def write_arrow(pairs: Pairs) -> Any:
    """Make a ``pyarrow.Table``."""
    return library("pyarrow").table(_as_columns(pairs))


def _check_columns(names: Sequence[str]) -> None:
    for name in ("node", "hyperedge"):
        if names.count(name) != 1:
            got = f"{', '.join(map(repr, names)) or 'none'}"
            raise bad_value("source", _OWNER, f"a table with one column '{name}'", got, "Rename its columns.")
    for name in names:
        if name not in _COLUMNS or names.count(name) > 1:
            expected = f"a table of {', '.join(map(repr, _COLUMNS))}, each once"
            raise bad_value("source", _OWNER, expected, repr(name), did_you_mean(name, _COLUMNS))


def _collect(columns: Mapping[str, Sequence[Any]]) -> Pairs:
    found = Collector()
    count = len(columns["node"])
    weights = columns.get("weight", [None] * count)
    of_hyperedges = columns.get("hyperedge_weight", [None] * count)
    said: dict[Any, float] = {}
    rows = zip(columns["node"], columns["hyperedge"], weights, of_hyperedges, strict=True)
    for row, (node, hyperedge, weight, of_hyperedge) in enumerate(rows):
        for name, value in (("node", node), ("hyperedge", hyperedge)):
            if value is None or value == "":
                raise bad_value("source", _OWNER, f"a table without gaps in '{name}'", f"one in row {row}")
        if of_hyperedge is not None and said.setdefault(hyperedge, of_hyperedge) != of_hyperedge:
            expected = "a table that says one weight of a hyperedge"
            got = f"{said[hyperedge]} and {of_hyperedge} of {hyperedge!r}"
            raise bad_value("source", _OWNER, expected, got)
        found.add_hyperedge(hyperedge, weight=of_hyperedge)
        found.add_pair(node, hyperedge, weight)
    if not found.n_nodes:
        raise bad_value("source", _OWNER, "a table with a row", "none")
    return found.pairs()


def _as_columns(pairs: Pairs) -> dict[str, Any]:
    nodes, edges = pairs.node_names, pairs.hyperedge_names
    columns: dict[str, Any] = {
        "node": [nodes[each] for each in pairs.node.tolist()],
        "hyperedge": [edges[each] for each in pairs.hyperedge.tolist()],
    }
    if pairs.incidence_weights is not None:
        columns["weight"] = pairs.incidence_weights
    if pairs.weights is not None:
        columns["hyperedge_weight"] = pairs.weights[pairs.hyperedge]
    return columns
