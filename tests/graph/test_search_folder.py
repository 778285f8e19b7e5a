import errno
import resource

import pytest
import torch

from dahgnn.graph.nearest import Neighbors
from dahgnn.graph.recall import SearchReport
from dahgnn.graph.search_folder import Chosen, Plan, SearchFolder

PLAN = {
    "rows": "abc",
    "n_rows": 7,
    "n_columns": 2,
    "neighbours": 2,
    "shard": 3,
    "search": "ivf",
    "recall": 0.9,
    "seed": 0,
}


def some_neighbors(count):
    indices = torch.arange(2 * count).view(count, 2)
    return Neighbors(indices, indices.float())


def test_shards_cover_the_rows():
    plan = Plan(**PLAN)
    assert [plan.numbers(shard).tolist() for shard in range(plan.n_shards)] == [[0, 1, 2], [3, 4, 5], [6]]


def test_what_is_kept_comes_back(tmp_path):
    files = SearchFolder(tmp_path, Plan(**PLAN))
    assert files.read_choice() is None
    report = SearchReport(backend="ivf", k=2, recall=0.97, sampled=7, settings={"probes": 3})
    files.write_choice(Chosen(report, 3, 0.5))
    assert files.read_choice() == Chosen(report, 3, 0.5)
    found = some_neighbors(3)
    files.write_shard(1, found)
    assert torch.equal(files.read_shard(1).indices, found.indices)
    assert torch.equal(files.read_shard(1).distances, found.distances)
    assert files.missing() == [0, 2]


@pytest.mark.parametrize("name", ["rows", "seed", "recall", "neighbours"])
def test_another_search_is_refused(tmp_path, name):
    SearchFolder(tmp_path, Plan(**PLAN)).write_choice(Chosen(SearchReport(backend="exact", k=2)))
    other = SearchFolder(tmp_path, Plan(**PLAN | {name: "xyz" if name == "rows" else 1}))
    expected = "one of other rows, 7 of 2 numbers" if name == "rows" else f"one with {name} = {PLAN[name]}"
    with pytest.raises(ValueError, match=f"Got {expected}. Remove the folder, or name another one."):
        other.read_choice()


def test_a_file_of_something_else_is_refused(tmp_path):
    (tmp_path / "search.json").write_text('{"plan": 3}')
    with pytest.raises(ValueError, match="is no search"):
        SearchFolder(tmp_path, Plan(**PLAN)).read_choice()


def test_a_cut_or_strange_shard_counts_as_missing(tmp_path):
    files = SearchFolder(tmp_path, Plan(**PLAN))
    for number, count in enumerate((3, 3, 1)):
        files.write_shard(number, some_neighbors(count))
    assert files.missing() == []
    path = tmp_path / "shard-00001.safetensors"
    path.write_bytes(path.read_bytes()[:-3])
    SearchFolder(tmp_path, Plan(**PLAN | {"rows": "xyz"})).write_shard(2, some_neighbors(1))
    assert files.missing() == [1, 2]


def test_features_stay_in_a_file(tmp_path):
    files, features = SearchFolder(tmp_path, Plan(**PLAN)), torch.arange(14.0).view(7, 2)
    files.write_features(features)
    assert torch.equal(files.open_features(), features)
    before = (tmp_path / "features.npy").stat().st_mtime_ns
    files.write_features(features)
    assert (tmp_path / "features.npy").stat().st_mtime_ns == before


def test_features_that_do_not_fit_on_the_disk_say_which_file_and_why(tmp_path):
    files, (most, hard) = SearchFolder(tmp_path, Plan(**PLAN)), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, hard))
    try:
        with pytest.raises(OSError, match=r"File too large: '.*features.npy'") as caught:
            files.write_features(torch.ones(60, 60))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    assert caught.value.errno == errno.EFBIG
    assert list(tmp_path.iterdir()) == []
