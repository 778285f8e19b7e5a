import functools
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from clustered_rows import clustered

from dahgnn.classifier.surroundings import find_neighbors
from dahgnn.files.scratch import Scratch
from dahgnn.graph import sharded
from dahgnn.graph.nearest import knn
from dahgnn.graph.search_folder import SearchFolder
from dahgnn.graph.sharded import find_neighbours_in_shards

CPU = torch.device("cpu")
POINTS = clustered(1200)


@pytest.fixture
def scratch(tmp_path):
    with Scratch(tmp_path / "scratch", large=1) as room:
        yield room


@pytest.fixture
def searched(monkeypatch):
    """The numbers of the shards that are searched."""
    numbers = []
    write = SearchFolder.write_shard

    def count(self, number, found):
        numbers.append(number)
        write(self, number, found)

    monkeypatch.setattr(SearchFolder, "write_shard", count)
    return numbers


def assert_same(first, second):
    for mine, theirs in ((first[0], second[0]), (first[1], second[1])):
        if theirs is None:
            assert mine is None
            continue
        assert torch.equal(mine.indices, theirs.indices)
        assert torch.equal(mine.distances, theirs.distances)
    assert first[2] is second[2] is None or torch.equal(first[2], second[2])


@pytest.mark.parametrize("metric", ["local-scale", "euclidean"])
@pytest.mark.parametrize("rows", [250, 1200, 5000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_an_exact_search_finds_what_a_fit_of_few_rows_does(metric, rows, dtype, scratch):
    points = POINTS.to(dtype)
    found = find_neighbours_in_shards(points, 6, metric, search="exact", scratch=scratch, rows=rows)
    assert_same(found, find_neighbors(points, 6, metric, CPU))
    assert found.report.backend == "exact"


@pytest.mark.parametrize("search", ["ivf", "hnsw"])
def test_an_approximate_search_finds_as_many_as_were_asked_for(search, scratch):
    found = find_neighbours_in_shards(POINTS, 10, search=search, recall=0.9, scratch=scratch, rows=400)
    exact = knn(POINTS, 10)
    assert (found.plain.distances <= exact.distances[:, -1:]).double().mean() >= 0.9
    assert (found.report.backend, found.report.k) == (search, 50)
    again = find_neighbours_in_shards(POINTS, 10, search=search, recall=0.9, scratch=scratch, rows=400)
    assert_same(found, again)
    other = find_neighbours_in_shards(POINTS, 10, search=search, recall=0.9, scratch=scratch, rows=77)
    assert_same(found, other)  # shards change nothing
    assert not [path for path in scratch._made().iterdir() if path.is_dir()]


@pytest.mark.parametrize("search", ["exact", "ivf"])
def test_processes_find_the_same(search, scratch):
    find = functools.partial(find_neighbours_in_shards, POINTS, 5, search=search, scratch=scratch, rows=400)
    assert_same(find(jobs=2), find())


def test_features_may_be_in_a_file(tmp_path, scratch):
    np.save(tmp_path / "features.npy", POINTS.numpy())
    mapped = torch.from_numpy(np.load(tmp_path / "features.npy", mmap_mode="c"))
    found = find_neighbours_in_shards(mapped, 5, search="ivf", scratch=scratch)
    assert_same(found, find_neighbours_in_shards(POINTS, 5, search="ivf", scratch=scratch))


@pytest.mark.parametrize("search", ["exact", "ivf"])
def test_a_second_call_does_what_is_missing(search, tmp_path, scratch, searched, monkeypatch):
    arguments = {"search": search, "scratch": scratch, "rows": 250}
    expected = find_neighbours_in_shards(POINTS, 5, **arguments)
    assert searched == [0, 1, 2, 3, 4]
    searched.clear()
    work = sharded._ShardSearch.__call__

    def end_at_two(self, number):
        if number == 2:
            raise KeyboardInterrupt
        work(self, number)

    find = functools.partial(find_neighbours_in_shards, POINTS, 5, folder=tmp_path / "kept", **arguments)
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(sharded._ShardSearch, "__call__", end_at_two)
        find()
    assert searched == [0, 1]
    with monkeypatch.context() as patched:  # the index is there
        patched.setattr(sharded, "build_tuned", None)
        assert_same(find(), expected)
    assert searched == [0, 1, 2, 3, 4]
    # A cut shard is done again, and it alone.
    path = tmp_path / "kept" / "shard-00003.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    assert_same(find(), expected)
    assert searched[5:] == [3]


def test_a_cut_index_is_built_again(tmp_path, scratch, caplog):
    find = functools.partial(
        find_neighbours_in_shards, POINTS, 5, search="ivf", scratch=scratch, folder=tmp_path / "kept"
    )
    expected = find()
    index = tmp_path / "kept" / "index.faiss"
    whole = index.read_bytes()
    index.write_bytes(whole[:1000])
    assert_same(find(), expected)
    assert index.read_bytes() == whole
    assert "built anew" in caplog.text


def test_other_rows_and_settings_are_refused(tmp_path, scratch):
    find = functools.partial(
        find_neighbours_in_shards, k=5, search="ivf", scratch=scratch, folder=tmp_path / "kept"
    )
    find(POINTS)
    changed = POINTS.clone()
    changed[777, 3] += 0.001
    with pytest.raises(ValueError, match="same rows with the same settings. Got one of other rows"):
        find(changed)
    with pytest.raises(ValueError, match="Got one with seed = 0. Remove the folder"):
        find(POINTS, seed=1)


def test_rows_that_change_meanwhile_are_noticed(scratch, monkeypatch):
    points = POINTS.clone()

    def change(*_, **__):
        points[5, 5] = 9

    monkeypatch.setattr(sharded, "run_shards", change)
    with pytest.raises(ValueError, match="must stay the same while neighbours are searched"):
        find_neighbours_in_shards(points, 5, search="exact", scratch=scratch)


def test_a_full_disk_leaves_the_shards_that_are_done(tmp_path):
    # A limit on the size of files is a disk that is full at that size: the index of these rows is larger.
    code = """
import resource, sys, torch
from clustered_rows import clustered
from dahgnn.files.scratch import Scratch
from dahgnn.graph.sharded import find_neighbours_in_shards
limit = int(sys.argv[1])
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
with Scratch() as scratch:
    try:
        find_neighbours_in_shards(
            clustered(1200), 10, search=sys.argv[2], scratch=scratch, rows=250, folder=sys.argv[3]
        )
    except OSError as error:
        print(error)
"""
    folder = tmp_path / "kept"
    paths = os.pathsep.join(sys.path)

    def run(limit, search):
        command = [sys.executable, "-c", code, str(limit), search, str(folder)]
        environment = os.environ | {"PYTHONPATH": paths}
        return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout

    assert "index of the neighbours cannot be written" in run(20_000, "ivf")
    assert not list(folder.iterdir())
    assert "shard-00000.safetensors cannot be written" in run(20_000, "exact")
    assert [path.name for path in folder.iterdir()] == ["search.json"]
    assert run(0, "exact") == ""


def test_auto_compares_few_rows(scratch):
    assert find_neighbours_in_shards(POINTS, 5, scratch=scratch).report.backend == "exact"


@pytest.mark.parametrize("search", ["exact", "ivf", "hnsw"])
def test_equal_rows_one_column_and_every_row_a_neighbour(search, scratch):
    find = functools.partial(find_neighbours_in_shards, search=search, scratch=scratch, rows=4)
    equal = find(torch.ones(9, 3), 2)
    assert equal.found.indices[[0, 5]].tolist() == [[1, 2], [0, 1]]
    assert equal.scales.tolist() == [1.0] * 9
    line = torch.arange(6.0).square().unsqueeze(1)
    assert_same(find(line, 5), find_neighbors(line, 5, "local-scale", CPU))


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"k": 1200}, "n_nodes - 1 = 1199. Got 1200"),
        ({"metric": "cosine"}, "'metric'"),
        ({"search": "ivff"}, "Did you mean 'ivf'"),
        ({"recall": 0}, "'recall'"),
        ({"rows": 0}, "'rows'"),
        ({"features": torch.full((3, 2), torch.nan)}, "finite"),
    ],
)
def test_wrong_values_are_refused(arguments, error, scratch):
    with pytest.raises(ValueError, match=error):
        find_neighbours_in_shards(**{"features": POINTS, "k": 5, "scratch": scratch} | arguments)


def test_without_faiss_the_error_says_what_to_install(scratch, monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(ModuleNotFoundError, match="search='exact'"):
        find_neighbours_in_shards(POINTS, 5, search="ivf", scratch=scratch)
    assert find_neighbours_in_shards(POINTS, 5, scratch=scratch).report.backend == "exact"
