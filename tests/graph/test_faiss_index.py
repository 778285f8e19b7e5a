import re
import sys

import numpy as np
import pytest
import torch
from clustered_rows import clustered

from dahgnn.graph.faiss_index import KINDS, FaissIndex, Preparation


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_builds_the_same_index(kind, tmp_path):
    points = clustered(3000)
    contents = []
    for number, (seed, threads) in enumerate([(3, 2), (3, 1), (4, 2)]):
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        folder = tmp_path / str(number)
        folder.mkdir()
        FaissIndex.build(kind, points, None, seed).write(folder)
        torch.set_num_threads(before)
        contents.append((folder / "index.faiss").read_bytes())
    assert contents[0] == contents[1] != contents[2]


@pytest.mark.parametrize("kind", KINDS)
def test_an_index_in_a_file_finds_the_same(kind, tmp_path):
    points = clustered(2000)
    kept = torch.arange(0, 2000, 2)
    index = FaissIndex.build(kind, points, kept, 0)
    index.write(tmp_path)
    opened = FaissIndex.open(tmp_path)
    assert (opened.kind, opened.highest_effort) == (kind, index.highest_effort)
    found = index.candidates(points[:50], 20, 16)
    assert torch.equal(opened.candidates(points[:50], 20, 16), found)
    assert set(found.unique().tolist()) <= {-1, *kept.tolist()}


def test_lists_give_an_order_in_which_near_points_are_near_each_other(tmp_path):
    points = clustered(2000)
    for kept in (None, torch.arange(0, 2000, 2)):
        index = FaissIndex.build("ivf", points, kept, 0)
        order = index.order.long()
        assert torch.equal(order.sort().values, torch.arange(2000))
        own = points[order[: 2000 if kept is None else 1000]]
        if kept is not None:  # what the index does not hold comes last
            assert bool((order[:1000] % 2 == 0).all())
        apart = (own[1:] - own[:-1]).norm(dim=1).mean()
        assert apart < 0.7 * (points[1:] - points[:-1]).norm(dim=1).mean()
        index.write(tmp_path)
        assert torch.equal(FaissIndex.open(tmp_path).order, index.order)
    assert FaissIndex.build("hnsw", points, None, 0).order is None


@pytest.mark.parametrize("kind", KINDS)
def test_the_highest_effort_finds_the_nearest(kind):
    points = clustered(500)
    index = FaissIndex.build(kind, points, None, 0)
    found = index.candidates(points, 5, index.highest_effort)
    expected = torch.cdist(points.double(), points.double()).argsort(1)[:, :5]
    assert (found == expected).double().mean() > 0.999


@pytest.mark.parametrize("kind", KINDS)
def test_where_there_are_no_more_is_minus_one(kind):
    index = FaissIndex.build(kind, torch.arange(4.0).unsqueeze(1), None, 0)
    assert index.candidates(torch.zeros(1, 1), 6, 6).tolist() == [[0, 1, 2, 3, -1, -1]]


@pytest.mark.parametrize("name", ["index.faiss", "index.safetensors"])
def test_a_cut_file_is_noticed(name, tmp_path):
    FaissIndex.build("ivf", clustered(500), None, 0).write(tmp_path)
    path = tmp_path / name
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match="Remove the folder"):
        FaissIndex.open(tmp_path)


def test_a_folder_that_cannot_be_written_says_so(tmp_path, monkeypatch):
    import faiss

    def fail(*_: object) -> None:
        raise RuntimeError("Error: write error: No space left on device")

    monkeypatch.setattr(faiss, "write_index", fail)
    with pytest.raises(OSError, match=r"written to .* \(No space left on device\)\. .*name another folder"):
        FaissIndex.build("ivf", clustered(100), None, 0).write(tmp_path)
    assert not list(tmp_path.iterdir())


def test_without_faiss_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'dahgnn\[large\]'.*search='exact'"):
        FaissIndex.build("ivf", torch.ones(3, 2), None, 0)


@pytest.mark.parametrize(
    "error",
    [
        ImportError("libblas.so.3: cannot open shared object file.\nMore of it", name="faiss"),
        ModuleNotFoundError("No module named 'numpy.distutils'", name="numpy.distutils"),
    ],
)
def test_a_faiss_that_is_broken_says_so(monkeypatch, error):
    """What FAISS itself lacks is not what the user lacks: it is installed."""
    monkeypatch.delitem(sys.modules, "faiss", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Breaking(error), *sys.meta_path])
    reason = re.escape(str(error).splitlines()[0].rstrip("."))
    words = rf"FAISS is installed, but cannot be loaded \({reason}\)\. .*--force-reinstall.*search='exact'"
    with pytest.raises(ImportError, match=words) as caught:
        FaissIndex.build("ivf", torch.ones(3, 2), None, 0)
    assert not isinstance(caught.value, ModuleNotFoundError)


class Breaking:
    """Lets the import of FAISS end with an error."""

    def __init__(self, error):
        self.error = error

    def find_spec(self, name, *_):
        if name == "faiss":
            raise self.error


def test_a_preparation_keeps_distances_up_to_a_power_of_two():
    points = 1e9 + 1e3 * torch.randn(40, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    points = torch.cat([points, torch.ones(40, 1)], 1)  # the last column is part of no distance
    prepared = Preparation.of(points)
    rows = prepared.apply(points)
    assert rows.shape == (40, 3)
    assert rows.dtype == np.float32
    assert 0.5 <= np.abs(rows).max() <= 1
    differences = torch.from_numpy(rows).double()[:, None] - torch.from_numpy(rows)
    expected = (points[:, None, :3] - points[:, :3]) * prepared.scale
    torch.testing.assert_close(differences, expected, rtol=0, atol=1e-6)


def test_equal_rows_are_prepared_as_zeros():
    assert not Preparation.of(torch.full((5, 3), 7.0)).apply(torch.full((2, 3), 7.0)).any()
