"""Which way a fit goes, and what it is expected to need."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from dahgnn.classifier import plan as module
from dahgnn.classifier.plan import free_memory, make_plan
from dahgnn.config import ResourceConfig

CPU = torch.device("cpu")
GIB = 1 << 30


def plan(n, *, d=64, n_classes=5, device=CPU, labels=1000, known=None, **resources):
    return make_plan(n, d, n_classes, 10, ResourceConfig(**resources), device, 1, labels, known)


def test_few_rows_are_compared_with_each_other_at_once_in_memory():
    chosen = plan(10_000, memory=8)
    assert (chosen.search, chosen.batch, chosen.on_disk, chosen.disk) == ("exact", 0, False, 0)
    assert not chosen.is_large
    assert not chosen.scratch().is_on_disk


def test_many_rows_go_to_the_disk_and_in_batches(tmp_path):
    pytest.importorskip("faiss")
    chosen = plan(5_000_000, memory=8, folder=str(tmp_path))
    assert (chosen.search, chosen.batch, chosen.on_disk) == ("ivf", module.BATCH, True)
    assert chosen.memory < 8 * GIB < chosen.disk
    assert chosen.scratch().folder == tmp_path
    words = " ".join(chosen.describe())
    assert "5,000,000 rows of 64 columns" in words
    assert "FAISS's inverted lists" in words
    assert f"in batches of {module.BATCH} labelled rows" in words
    assert str(tmp_path) in words


def test_more_memory_takes_less_from_the_disk():
    ways = [plan(2_000_000, memory=memory) for memory in (5, 11, 60)]
    assert [way.on_disk for way in ways] == [True, True, False]
    assert [way.batch for way in ways] == [module.BATCH, 0, 0]
    assert [way.memory <= way.budget for way in ways] == [True, True, True]


def test_what_the_user_says_is_done():
    chosen = plan(10_000, memory=8, search="hnsw", batch=64, folder="there")
    assert (chosen.search, chosen.batch, chosen.folder) == ("hnsw", 64, Path("there"))
    assert chosen.is_large
    assert plan(5_000_000, memory=8, search="exact", batch=0).batch == 0


def test_memory_that_not_even_the_leanest_way_can_do_with_is_refused():
    with pytest.raises(
        ValueError, match=r"'memory' parameter of ResourceConfig must be at least .* GiB here"
    ):
        plan(5_000_000, memory=1)


def test_the_time_grows_with_the_rows(monkeypatch):
    monkeypatch.setattr(module, "_speed", lambda: 2.1e11)
    seconds = [plan(n, memory=100).seconds for n in (10_000, 100_000, 1_000_000, 10_000_000)]
    assert seconds == sorted(seconds)
    monkeypatch.setattr(module, "_speed", lambda: 1e10)
    assert plan(10_000, memory=100).seconds > seconds[0]


def test_each_search_has_a_time_of_its_own(monkeypatch):
    monkeypatch.setattr(module, "_speed", lambda: 2.1e11)
    for number, search in enumerate(("exact", "ivf", "hnsw")):
        monkeypatch.setattr(module, f"{search}_seconds", lambda *_, seconds=1000 * number: seconds)
    seconds = [plan(1000, search=search).seconds for search in ("exact", "ivf", "hnsw")]
    assert seconds == pytest.approx([seconds[0], seconds[0] + 1000, seconds[0] + 2000])


def test_what_is_given_is_not_searched_for():
    pytest.importorskip("faiss")
    searched = plan(1_000_000, memory=60, jobs=2)
    given = plan(1_000_000, memory=60, jobs=2, known="neighbors")
    assert (searched.search, given.search) == ("ivf", "given")
    assert given.seconds == pytest.approx(searched.seconds - module.ivf_seconds(1_000_000, 64), rel=1e-6)
    assert searched.memory - given.memory == 10**6 * (4 * 64 + 150) + 2 * 300 * 2**20  # index and workers
    assert "columns: neighbours as given; networks" in given.describe()[0]
    beside = plan(5000, memory=60, search="ivf", known="hypergraph")
    assert beside.search == "exact"
    assert "neighbours by an exact search" in beside.describe()[0]


def test_files_are_what_does_not_stay_in_memory(tmp_path):
    said = plan(20_000, memory=0.66, batch=16, folder=str(tmp_path / "new"))
    assert said.on_disk
    assert said.disk < 200 * 2**20
    assert f"are files in {tmp_path / 'new'}, where " in said.describe()[-1]
    assert said.describe()[-1].endswith(" are free.")
    assert not (tmp_path / "new").exists()


def test_the_time_of_batches_grows_with_the_labels_up_to_a_bound(monkeypatch):
    monkeypatch.setattr(module, "_speed", lambda: 2.1e11)
    monkeypatch.setattr(module, "choose_search", lambda *_: "exact")
    monkeypatch.setattr(module, "exact_seconds", lambda *_: 0.0)
    few, some, many, more = (
        plan(5_000_000, memory=8, labels=labels).seconds for labels in (1000, 2000, 4096, 10**6)
    )
    # Twice and four times as many updates of 1.3 s each: 196 took 246 s.
    assert some - few == pytest.approx(28 * 8 * 1.3, rel=0.1)
    assert many - few == pytest.approx(28 * 24 * 1.3, rel=0.1)
    assert more == many
    at_once = [plan(1_000_000, memory=60, labels=labels).seconds for labels in (1000, 10**6)]
    assert at_once[0] == at_once[1]


def test_measured_fits_took_about_as_long_as_is_expected(monkeypatch):
    """The figures are those of docs/notes/scale.md."""
    pytest.importorskip("faiss")
    monkeypatch.setattr(module, "_speed", lambda: 2.1e11)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    for n, memory, seconds in (
        (100_000, 50, 10.7),
        (300_000, 50, 34),
        (1_000_000, 50, 133),
        (1_000_000, 4, 252),
        (5_000_000, 8, 1177),
    ):
        expected = plan(n, n_classes=10, memory=memory).seconds
        assert expected == pytest.approx(seconds, rel=0.3), n


def test_measured_fits_needed_no_more_memory_than_is_expected():
    """The figures are those of docs/notes/scale.md."""
    pytest.importorskip("faiss")
    for n, memory, gib in ((1_000_000, 50, 4.65), (1_000_000, 4, 2.92), (5_000_000, 8, 4.88)):
        expected = plan(n, n_classes=10, memory=memory).memory / 2**30
        assert gib <= expected < 1.6 * gib, n


def test_a_gpu_takes_less_time_than_the_cpu_for_the_same_updates(monkeypatch):
    monkeypatch.setattr(module, "_speed", lambda: 2.1e11)
    for batch in (0, 256):
        monkeypatch.setattr(module, "exact_seconds", lambda *_: 0.0)
        here, there = (
            plan(100_000, memory=60, device=torch.device(device), search="exact", batch=batch).seconds
            for device in ("cpu", "cuda")
        )
        assert there < here


def test_free_memory_is_that_of_the_machine_or_of_its_container(tmp_path, monkeypatch):
    physical = module.os.sysconf("SC_PAGE_SIZE") * module.os.sysconf("SC_PHYS_PAGES")
    assert 0 < free_memory() <= physical
    files = {
        "/proc/meminfo": "MemTotal: 16000 kB\nMemAvailable: 8000 kB\n",
        "/proc/self/cgroup": "4:memory:/box\n0::/\n",
        "/sys/fs/cgroup/memory/box/memory.limit_in_bytes": "4096000",
        "/sys/fs/cgroup/memory/box/memory.usage_in_bytes": "3096000",
        "/sys/fs/cgroup/memory/box/memory.stat": "total_cache 1000\n",
    }
    monkeypatch.setattr(module, "_read", lambda path: files.get(str(path), ""))
    assert free_memory() == 1_001_000
    files["/sys/fs/cgroup/memory/box/memory.limit_in_bytes"] = str(2**63)
    assert free_memory() == 8000 * 1024
    files |= {
        "/proc/self/cgroup": "0::/box\n",
        "/sys/fs/cgroup/box/memory.max": "500",
        "/sys/fs/cgroup/box/memory.current": "200",
    }
    assert free_memory() == 300
    files["/sys/fs/cgroup/box/memory.max"] = "max"
    assert free_memory() == 8000 * 1024


def test_processes_of_a_machine_divide_what_is_free(monkeypatch):
    monkeypatch.setattr(module, "free_memory", lambda: 40 * GIB)
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    assert plan(1000).budget == 28 * GIB
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert plan(1000).budget == 7 * GIB
    assert plan(1000, memory=5).budget == 5 * GIB  # what is said, each of them has


def test_processes_that_search_here_need_memory(monkeypatch):
    monkeypatch.setattr(module, "choose_search", lambda *_: "ivf")
    alone = plan(1_000_000, memory=60)
    assert plan(1_000_000, memory=60, jobs=8).memory - alone.memory == 8 * 300 * 2**20
    assert (
        plan(100_000, memory=60, jobs=8).memory - plan(100_000, memory=60).memory == 2 * 300 * 2**20
    )  # two shards
    assert plan(1_000_000, memory=60, jobs=8, backend="ray").memory == alone.memory
    with pytest.raises(ValueError, match="Allow more, search with fewer jobs, or fit to fewer rows"):
        plan(1_000_000, memory=5, jobs=20)
    monkeypatch.setattr(module, "free_memory", lambda: 5 * GIB)
    on_disk = [plan(1_000_000, jobs=jobs) for jobs in (1, 2, 20)]
    assert [way.on_disk for way in on_disk] == [True] * 3
    assert on_disk[0].memory == on_disk[1].memory < on_disk[2].memory
    assert len({way.disk for way in on_disk}) == 1
    monkeypatch.setattr(module, "choose_search", lambda *_: "exact")
    assert plan(100_000, memory=60, jobs=8).memory == plan(100_000, memory=60).memory


def test_an_index_with_links_needs_more_memory_than_lists():
    pytest.importorskip("faiss")
    needed = {
        search: plan(1_000_000, memory=60, search=search).memory
        for search in ("auto", "ivf", "hnsw", "exact")
    }
    assert needed["auto"] == needed["hnsw"] == needed["ivf"] + 150 * 1_000_000
    assert needed["ivf"] == needed["exact"] + 4 * 64 * 1_000_000


def test_a_plan_says_where_only_if_there_are_files():
    chosen = plan(200_000, memory=50)
    assert chosen.is_large
    assert len(chosen.describe()) == 2
    assert len(replace(chosen, on_disk=True).describe()) == 3


def test_a_gpu_without_room_for_all_rows_at_once_gets_batches(monkeypatch):
    free = {"bytes": 140 * GIB}
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free["bytes"], 140 * GIB))
    monkeypatch.setattr(module, "choose_search", lambda *_: "exact")
    gpu = torch.device("cuda")
    assert plan(10_000_000, device=gpu, memory=16).batch == 0
    # All rows at once are in the memory of the GPU, and not in that of the machine.
    assert (
        plan(10_000_000, device=gpu, memory=16, batch=0).memory < plan(10_000_000, memory=60, batch=0).memory
    )
    free["bytes"] = 24 * GIB
    chosen = plan(10_000_000, device=gpu, memory=16)
    assert chosen.batch == module.BATCH
    assert plan(1_000_000, device=gpu, memory=16).batch == 0
    assert plan(10_000_000, device=gpu, memory=16, batch=0).batch == 0
    assert plan(10_000_000, device=gpu, memory=200).batch == module.BATCH
