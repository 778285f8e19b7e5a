"""The formats that hypergraphs are exchanged in, by name. No library is imported before it is used."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dahgnn.checks import bad_type, check_choice, check_flag
from dahgnn.graph.hypergraph import Hypergraph
from dahgnn.graph.interchange.dhg_hypergraph import read_dhg, write_dhg
from dahgnn.graph.interchange.hif import read_hif, write_hif
from dahgnn.graph.interchange.hypergraphx_hypergraph import read_hypergraphx, write_hypergraphx
from dahgnn.graph.interchange.hypernetx_hypergraph import read_hypernetx, write_hypernetx
from dahgnn.graph.interchange.networkx_graph import read_networkx, write_networkx
from dahgnn.graph.interchange.pair_tables import read_arrow, read_pandas, write_arrow, write_pandas
from dahgnn.graph.interchange.pairs import Pairs
from dahgnn.graph.interchange.pyg_data import read_pyg, write_pyg
from dahgnn.graph.interchange.scipy_matrix import read_scipy, write_scipy
from dahgnn.graph.interchange.xgi_hypergraph import read_xgi, write_xgi
from dahgnn.graph.names import Name


@dataclass(frozen=True)
class Interchange:
    """A format: how it is read and written, and what of a hypergraph it has no place for.

    Parameters
    ----------
    read, write : callable
        From a source to `Pairs`, and back.
    loses : tuple of str
        Keys of `LOSSES`.
    """

    read: Callable[[Any], Pairs]
    write: Callable[[Pairs], Any]
    loses: tuple[str, ...] = ()


INTERCHANGES: Mapping[str, Interchange] = {
    "hif": Interchange(read_hif, write_hif),
    "pyg": Interchange(read_pyg, write_pyg),
    "dhg": Interchange(read_dhg, write_dhg, ("incidence weights", "equal hyperedges", "empty hyperedges")),
    "xgi": Interchange(read_xgi, write_xgi, ("incidence weights",)),
    "hypernetx": Interchange(read_hypernetx, write_hypernetx, ("isolated nodes", "empty hyperedges")),
    "hypergraphx": Interchange(read_hypergraphx, write_hypergraphx, ("equal hyperedges", "empty hyperedges")),
    "scipy": Interchange(read_scipy, write_scipy, ("hyperedge weights",)),
    "networkx": Interchange(read_networkx, write_networkx),
    "pandas": Interchange(read_pandas, write_pandas, ("isolated nodes", "empty hyperedges")),
    "arrow": Interchange(read_arrow, write_arrow, ("isolated nodes", "empty hyperedges")),
}

# What a format may have no place for, and whether a hypergraph has it.
LOSSES: Mapping[str, Callable[[Pairs], bool]] = {
    "hyperedge weights": lambda pairs: pairs.weights is not None,
    "incidence weights": lambda pairs: pairs.incidence_weights is not None,
    "equal hyperedges": lambda pairs: len(set(map(tuple, pairs.members()))) < pairs.n_hyperedges,
    "empty hyperedges": lambda pairs: pairs.names is not None and len(pairs.names.empty) > 0,
    "isolated nodes": lambda pairs: len(np.unique(pairs.node)) < pairs.n_nodes,
}


def import_hypergraph(
    source: Any, kind: str, *, nodes: Iterable[Name] | None = None, cover_isolated: bool = True
) -> Hypergraph:
    """Turn a hypergraph of another library, or a table of pairs, into a `Hypergraph`.

    What is lost or changed on the way, the docstring of the format's module says, such as
    `dahgnn.graph.interchange.pyg_data`. Names are kept in ``names``.

    Parameters
    ----------
    source : object
        A hypergraph or table of theirs; for "hif" a path or the content of a file.
    kind : {"hif", "pyg", "dhg", "xgi", "hypernetx", "hypergraphx", "scipy", "networkx", "pandas", "arrow"}
        What the source is.
    nodes : iterable, optional
        The names of all nodes in the order in which they are to be numbered, such as that of the rows of a
        table. Those that the source does not name are in no hyperedge.
    cover_isolated : bool
        As in `Hypergraph.from_incidence`.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> import_hypergraph(csr_array([[1, 0], [1, 1], [0, 1]]), "scipy")
    Hypergraph(n_nodes=3, n_hyperedges=2, n_incidences=4)
    """
    check_choice("kind", kind, tuple(INTERCHANGES), "import_hypergraph")
    pairs = INTERCHANGES[kind].read(source)
    if nodes is not None:
        pairs = pairs.with_nodes(nodes, "import_hypergraph")
    return Hypergraph.from_incidence(**pairs.arguments(), cover_isolated=cover_isolated)


def export_hypergraph(hypergraph: Hypergraph, kind: str, *, lossy: bool = False) -> Any:
    """Turn a `Hypergraph` into that of another library, or into a table of pairs.

    Parameters
    ----------
    hypergraph : Hypergraph
        On any device. Nodes and hyperedges get its ``names``, where the format has any, else their numbers.
        Hyperedges without a name, where others have one, cover isolated nodes and are left out.
    kind : str
        As in `import_hypergraph`.
    lossy : bool
        Whether what the format has no place for is left out: weights, equal hyperedges, nodes that are in no
        hyperedge. Else such a hypergraph is refused. Centres are kept by "hif" alone.

    Examples
    --------
    >>> hypergraph = Hypergraph.from_hyperedges([[0, 1], [1, 2]], n_nodes=3)
    >>> export_hypergraph(hypergraph, "scipy").toarray().tolist()
    [[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]
    """
    owner = "export_hypergraph"
    if not isinstance(hypergraph, Hypergraph):
        raise bad_type("hypergraph", owner, "a Hypergraph", type(hypergraph).__name__)
    check_choice("kind", kind, tuple(INTERCHANGES), owner)
    check_flag("lossy", lossy, owner)
    pairs = hypergraph.to_pairs()
    lost = [name for name in INTERCHANGES[kind].loses if LOSSES[name](pairs)]
    if lost and not lossy:
        raise ValueError(
            f"The format '{kind}' has no place for {' and '.join(lost)}. Got a hypergraph that has them. "
            "Choose another, such as 'hif', or say lossy=True to do without."
        )
    return INTERCHANGES[kind].write(pairs)
