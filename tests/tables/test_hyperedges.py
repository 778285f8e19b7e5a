"""Hyperedges that a user has: tables of pairs and HIF, sound and not."""

import json

import numpy as np
import pytest

from dahgnn.tables.hyperedges import read_hyperedges
from dahgnn.tables.sources import Reading

pytest.importorskip("pandas")

IDS = ["007", "b", "c", "d"]


def lists(given):
    hypergraph = given.hypergraph
    return [hypergraph.members(j).tolist() for j in range(hypergraph.n_hyperedges)]


def hif(write, *pairs, name="g.json", **others):
    entries = [dict(zip(("node", "edge", "weight"), pair, strict=False)) for pair in pairs]
    return write(json.dumps({"incidences": entries} | others), name)


def test_a_table_of_pairs_is_read(write):
    given = read_hyperedges(write("paper,cites\n007,x\nb,x\nb,1.50\nc,1.50\n"), IDS)
    assert lists(given) == [[0, 1], [1, 2], [3]]  # the last row gets one for itself
    assert given.hypergraph.names.hyperedges == ("x", "1.50")
    assert given.hypergraph.names.nodes == tuple(IDS)
    assert given.hypergraph.incidence_weights is None
    assert given.notes == (
        "data.csv has ids of rows in 'paper' and hyperedges in 'cites'.",
        "data.csv has 2 hyperedges of 2 rows.",
        "1 of 4 rows are in no hyperedge of data.csv.",
    )


def test_a_third_column_has_weights(write):
    given = read_hyperedges(write("p;g;w\nb;x;0,5\n007;x;2,0\n", "a.csv"), IDS)
    assert given.hypergraph.incidence_weights.tolist()[:2] == [2, 0.5]
    assert "with weights in 'w'" in given.notes[0]


@pytest.mark.parametrize("ending", [".parquet", ".json", ".jsonl", ".xlsx", ".tsv", ".csv.gz"])
def test_every_format_of_tables_will_do(tmp_path, ending):
    hostile_sheets = pytest.importorskip("hostile.sheets")
    path = tmp_path / f"pairs{ending}"
    hostile_sheets.write_pairs([("007", "x", 1.0), ("b", "x", 0.5), ("c", "7", 2.0)], path, ending)
    given = read_hyperedges(path, IDS)
    assert lists(given) == [[0, 1], [2], [3]]
    assert given.hypergraph.names.hyperedges == ("x", "7")
    assert given.hypergraph.incidence_weights.tolist() == [1, 0.5, 2, 1]


def test_the_column_of_ids_is_known_by_its_name(write):
    given = read_hyperedges(write("group,id\nx,b\nx,c\n"), IDS, id_column="id")
    assert lists(given)[0] == [1, 2]


def test_rows_without_ids_go_by_their_numbers(write):
    assert lists(read_hyperedges(write("row,group\n0,x\n2,x\n"), ["0", "1", "2"])) == [[0, 2], [1]]


def test_the_encoding_of_the_table_holds(write):
    path = write("id,é\nb,ü\nc,ü\n", encoding="cp1252")
    given = read_hyperedges(path, IDS, reading=Reading(encoding="cp1252", delimiter=";"))
    assert given.hypergraph.names.hyperedges == ("ü",)


def test_what_is_odd_is_said(write):
    path = write("id,group,w\nb,x,1\nc,x,1\nb,x,3\nd,y,1\nb,x,4\n")
    given = read_hyperedges(path, IDS)
    assert lists(given) == [[1, 2], [3], [0]]
    assert given.hypergraph.incidence_weights.tolist() == [4, 1, 1, 1]
    assert given.notes[1:] == (
        "data.csv has 2 hyperedges of 1 to 2 rows.",
        "2 pairs of data.csv came before: each counts once, with the last weight.",
        "data.csv has 1 hyperedge of one row alone, joined with none.",
        "1 of 4 rows are in no hyperedge of data.csv.",
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("id,group\nx9,x\nb,x\n", "The rows that .*data.csv names must be those of the table. Got 'x9' in line 2 of the file. Leave out pairs"),
        ("id,group\nb,x\ncc,x\nq,x\n", "Got 'cc' in line 3 of the file, and 1 other id that no row has. Did you mean 'c'"),
        ("group,row\nx,b\nx,c\n", "Got 'x' in line 2 of the file. The other column has ids: exchange the two"),
        ("id,group\nb,\n", "The cells in 'group' of .*data.csv must all be there. Got none in line 2 of the file"),
        ("id,group\n ,x\n", "The cells in 'id' .* Got none in line 2"),
        ("id,group\n", "must have at least one row of data. Got a header alone"),
        ("id,group\nb,x\nc,y\n", "The hyperedges of .*data.csv must join rows. Got one row alone in each"),
        ("b,x\nc,x\n", "The first line of .*data.csv must name its columns. Got 'b', which is the id of a row"),
        ("id\nb\n", "must have two columns, .* Got 1: 'id'"),
        ("id,group,w,v\nb,x,1,1\n", "perhaps a third with weights. Got 4: 'id', 'group', 'w', 'v'"),
        ("id,group,w\nb,x,heavy\nc,x,1\n", "The weights in 'w' of .* must be numbers. Got text"),
        ("id,group,w\nb,x,1\nc,x,0\n", "The weights in 'w' .* must be between 1e-15 and 1e.15. Got 0 in line 3"),
        ("id,group,w\nb,x,1\nc,x,\n", "Got none in line 3"),
        ("", "must have content. Got an empty file"),
    ],
)  # fmt: skip
def test_bad_tables_of_pairs_are_refused(write, text, words):
    with pytest.raises(ValueError, match=words):
        read_hyperedges(write(text), IDS, id_column="paper")


def test_an_unknown_row_without_ids_says_how_rows_are_called(write):
    with pytest.raises(ValueError, match="Rows are named by their numbers, from 0 on, unless --id names"):
        read_hyperedges(write("row,group\nb,x\n0,x\n"), ["0", "1"])


def test_what_is_no_table_of_pairs_is_refused(tmp_path):
    with pytest.raises(ValueError, match="must end in one of .csv"):
        read_hyperedges(tmp_path / "pairs.txt", IDS)
    with pytest.raises(FileNotFoundError, match="There is no file"):
        read_hyperedges(tmp_path / "none.csv", IDS)
    np.save(tmp_path / "pairs.npy", np.eye(2))
    with pytest.raises(ValueError, match="must be a table of pairs, or HIF. Got arrays or pictures"):
        read_hyperedges(tmp_path / "pairs.npy", IDS)
    np.savez(tmp_path / "pairs.npz", X=np.eye(3))
    with pytest.raises(ValueError, match="must have two columns"):
        read_hyperedges(tmp_path / "pairs.npz", IDS)
    (tmp_path / "folder").mkdir()
    with pytest.raises(ValueError, match="must be a table of pairs"):
        read_hyperedges(tmp_path / "folder", IDS)


def test_hif_is_read_with_all_its_weights(write):
    path = hif(write, ("b", "x", 2.0), ("007", "x"), ("c", 5), ("b", 5), edges=[{"edge": 5, "weight": 3}])
    given = read_hyperedges(path, IDS)
    assert lists(given) == [[0, 1], [1, 2], [3]]
    assert given.hypergraph.names.hyperedges == ("x", "5") or given.hypergraph.names.hyperedges == ("5", "x")
    by_name = dict(zip(given.hypergraph.names.hyperedges, given.hypergraph.weights.tolist(), strict=False))
    assert by_name == {"x": 1, "5": 3}
    assert given.hypergraph.incidence_weights.tolist() == [1, 2, 1, 1, 1]


def test_nodes_of_hif_may_be_numbers(write):
    assert lists(read_hyperedges(hif(write, (0, "x"), (2, "x")), ["0", "1", "2"])) == [[0, 2], [1]]
    with pytest.raises(ValueError, match="must differ as text, .* Got '0' both as text and as a number"):
        read_hyperedges(hif(write, (0, "x"), ("0", "x")), ["0", "1"])


def test_nodes_of_hif_that_are_in_no_hyperedge_need_no_row(write):
    path = hif(write, ("b", "x"), ("c", "x"), nodes=[{"node": "elsewhere"}])
    assert lists(read_hyperedges(path, IDS))[0] == [1, 2]


def test_a_note_says_what_of_hif_does_not_count(write):
    pairs = [{"edge": "x", "node": "b", "direction": "head"}, {"edge": "x", "node": "c"}]
    content = {"incidences": pairs, "nodes": [{"node": "b", "attrs": {"label": "red"}}]}
    given = read_hyperedges(write(json.dumps(content), "g.hif.json"), IDS)
    assert given.notes[:2] == (
        "g.hif.json is directed: heads and tails count alike.",
        "The labels of nodes in g.hif.json are not read: those of the table count.",
    )


@pytest.mark.parametrize(
    ("content", "name", "words"),
    [
        ({"incidences": [{"edge": 1}]}, "g.json", r"g.json must be HIF .* incidences\[0\] is an object with 'node'"),
        ({"incidence": []}, "g.hif.json", "an object with 'incidences'"),
        ({"incidences": [{"edge": 1, "node": "q"}]}, "g.json", "Got 'q' in its incidences"),
        ({"incidences": [], "nodes": [{"node": "b"}]}, "g.json", "must have a pair of a row and a hyperedge. Got none"),
        ([1, 2], "g.json", "Every row of the file .* must be a JSON object"),
    ],
)  # fmt: skip
def test_bad_hif_is_refused(write, content, name, words):
    with pytest.raises(ValueError, match=words):
        read_hyperedges(write(json.dumps(content), name), IDS, id_column="id")
    with pytest.raises(ValueError, match="must be JSON. Got an error in line 1"):
        read_hyperedges(write('{"incidences": [', name), IDS)


def test_too_many_pairs_of_neighbours_are_refused_before_the_fit(write, monkeypatch):
    monkeypatch.setattr("dahgnn.graph.neighbourhoods._MOST_PAIRS", 3)
    with pytest.raises(ValueError, match="leave out the largest ones"):
        read_hyperedges(write("id,group\nb,x\nc,x\nd,x\n"), IDS)
