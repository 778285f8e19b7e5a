"""Shards: each is done, whoever dies meanwhile, and nobody stays behind."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from pickle import PicklingError

import pytest
import torch
from shard_work import Squares, refuse

from dahgnn.files.scratch import Scratch
from dahgnn.graph.sharded import find_neighbours_in_shards
from dahgnn.shards import _sharing_data, run_shards, spread

TESTS = str(Path(__file__).parent)
# Workers of a cluster import what they are to do, as they would on another machine.
IMPORTABLE = os.pathsep.join([TESTS, *filter(None, [os.environ.get("PYTHONPATH")])])
EIGHT = {number: number**2 for number in range(8)}


# A Ray cluster takes long to start on a busy machine, and its processes may outlive a test.
WITH_RAY = pytest.mark.skipif(
    os.environ.get("DAHGNN_TEST_RAY") != "1", reason="needs a quiet machine: DAHGNN_TEST_RAY=1"
)


def test_one_job_is_a_loop_in_this_process(tmp_path):
    work, heard = Squares(tmp_path), []
    run_shards(work, range(8), progress=lambda *news: heard.append(news[:2]))
    assert work.results() == EIGHT
    assert work.workers() == {os.getpid()}
    assert heard == [(done, 8) for done in range(9)]


def test_processes_give_the_same(tmp_path):
    work, heard = Squares(tmp_path, seconds=0.05), []
    run_shards(work, range(8), jobs=2, progress=lambda *news: heard.append(news[:2]))
    assert work.results() == EIGHT
    assert len(work.workers() - {os.getpid()}) == 2
    assert heard == [(done, 8) for done in range(9)]


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_second_start_goes_on_where_the_first_one_stopped(tmp_path, jobs):
    work, heard = Squares(tmp_path), []
    run_shards(work, range(3))
    run_shards(work, range(8), jobs=jobs, is_done=work.is_done, progress=lambda *news: heard.append(news[:2]))
    assert work.results() == EIGHT
    assert set(work.tries().values()) == {1}
    assert heard == [(done, 8) for done in range(3, 9)]


@pytest.mark.parametrize("knows", [True, False])
def test_the_shards_of_a_killed_process_are_done_by_another(tmp_path, knows, caplog):
    work, heard = Squares(tmp_path, seconds=0.02, deadly={3: 1}), []
    is_done = work.is_done if knows else None
    run_shards(work, range(8), jobs=2, is_done=is_done, progress=lambda *news: heard.append(news[:2]))
    assert work.results() == EIGHT
    assert work.tries()[3] == 2
    assert heard[-1] == (8, 8)
    assert "A worker died" in caplog.text


def test_what_kills_always_ends_in_a_sentence_and_the_rest_is_done(tmp_path):
    work = Squares(tmp_path, deadly={1: 99})
    with pytest.raises(OSError, match="Workers must live until their work is done. Got 3 that were ended"):
        run_shards(work, range(6), jobs=2, is_done=work.is_done)
    assert work.results() == {number: number**2 for number in range(6) if number != 1}
    assert work.tries()[1] < 20


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_error_of_the_work_goes_up(jobs):
    with pytest.raises(ValueError, match="no "):
        run_shards(refuse, range(4), jobs=jobs)


def test_results_come_with_their_places():
    calls = [(number, 2) for number in range(5)]
    for jobs in (1, 2):
        assert sorted(spread(pow, calls, jobs=jobs)) == [(number, number**2) for number in range(5)]
    assert list(spread(pow, [], jobs=2)) == []


def test_an_iterator_that_is_closed_ends_what_runs(tmp_path):
    work = Squares(tmp_path, seconds=0.1)
    started = spread(work, [(number,) for number in range(50)], jobs=2)
    next(started)
    started.close()
    time.sleep(0.3)
    before = work.tries()
    time.sleep(0.3)
    assert work.tries() == before
    assert len(before) < 20


def test_wrong_words_are_refused_before_anything():
    with pytest.raises(
        ValueError, match="'backend' parameter of run_shards must be one of .*Did you mean 'ray'"
    ):
        run_shards(refuse, [], backend="rays")
    with pytest.raises(ValueError, match="'jobs' parameter of run_shards must be at least 1. Got 0"):
        run_shards(refuse, [], jobs=0)


@pytest.mark.parametrize(("backend", "package"), [("ray", "ray"), ("dask", "distributed")])
def test_a_package_that_is_missing_is_named_with_its_extra(monkeypatch, backend, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        ModuleNotFoundError, match=f"{package} is not installed. It comes with dahgnn's extra 'cluster'"
    ):
        run_shards(refuse, range(4), jobs=2, backend=backend)


def test_data_that_cannot_be_shared_are_said():
    with pytest.raises(OSError, match="could not be shared with other processes"), _sharing_data():
        raise PicklingError


def start(folder: Path, backend: str = "processes") -> subprocess.Popen:
    """Start many shards in a process of its own, which hears Ctrl-C also in the background."""
    script = f"""
        import signal
        from pathlib import Path
        from shard_work import Squares
        from dahgnn.shards import run_shards
        if __name__ == "__main__":
            signal.signal(signal.SIGINT, signal.default_int_handler)
            run_shards(Squares(Path({str(folder)!r}), seconds=0.2), range(400), jobs=2, backend={backend!r})
    """
    (folder / "script.py").write_text(textwrap.dedent(script))
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    command = [sys.executable, str(folder / "script.py")]
    env = os.environ | {"PYTHONPATH": IMPORTABLE}
    return subprocess.Popen(command, **pipes, text=True, start_new_session=True, env=env)


def wait_until(condition, seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not come"
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("backend", "how"),
    [
        ("processes", signal.SIGKILL),
        ("processes", signal.SIGINT),
        ("dask", signal.SIGINT),
        pytest.param("ray", signal.SIGINT, marks=[pytest.mark.slow, WITH_RAY]),
    ],
)
def test_no_process_stays_behind(tmp_path, backend, how):
    process, work = start(tmp_path, backend), Squares(tmp_path)
    wait_until(lambda: len(work.results()) > 2)
    # The interruption of a terminal reaches all processes of this machine.
    (os.killpg if how == signal.SIGINT else os.kill)(process.pid, how)
    _, complaint = process.communicate(timeout=60)  # until all have closed what they print to
    assert process.returncode == -how
    wait_until(lambda: not any(Path(f"/proc/{worker}").exists() for worker in work.workers()))
    assert "LokyProcess" not in complaint
    assert len(work.results()) < 100
    for number, result in work.results().items():
        assert result == number**2


def test_a_dask_worker_that_dies_is_replaced(tmp_path):
    work, heard = Squares(tmp_path, seconds=0.02, deadly={3: 1}), []
    run_shards(work, range(8), jobs=2, backend="dask", progress=lambda *news: heard.append(news[:2]))
    assert work.results() == EIGHT
    assert work.tries()[3] == 2
    assert heard == [(done, 8) for done in range(9)]
    assert os.getpid() not in work.workers()


def test_without_a_number_all_workers_of_a_cluster_work_and_here_one_process(tmp_path):
    """Who names a cluster wants it: nothing is done in this process."""
    from distributed import Client, LocalCluster

    for backend in ("processes", "dask"):
        (tmp_path / backend).mkdir()
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        pids = set(client.run(os.getpid).values())
        work = Squares(tmp_path / "dask", seconds=0.1)
        run_shards(work, range(8), backend="dask")
    assert work.results() == EIGHT
    assert work.workers() == pids
    here = Squares(tmp_path / "processes")
    run_shards(here, range(8))
    assert here.workers() == {os.getpid()}


def test_a_dask_cluster_that_is_there_is_used_and_left(tmp_path):
    from distributed import Client, LocalCluster

    work = Squares(tmp_path, seconds=0.1)
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        pids = list(client.run(os.getpid).values())
        killer = threading.Thread(
            target=lambda: (wait_until(lambda: len(work.results()) > 2), os.kill(pids[0], signal.SIGKILL))
        )
        killer.start()
        run_shards(work, range(16), jobs=2, backend="dask", is_done=work.is_done)
        killer.join()
        assert client.status == "running"
    assert work.results() == {number: number**2 for number in range(16)}
    assert set(pids) & work.workers()


def test_what_kills_every_dask_worker_ends_in_a_sentence(tmp_path):
    work = Squares(tmp_path, deadly={1: 99})
    with pytest.raises(OSError, match="Got 4 that were ended from outside"):
        run_shards(work, range(6), jobs=2, backend="dask")
    assert 1 not in work.results()


@pytest.fixture
def two_nodes(monkeypatch):
    """A Ray cluster of two nodes with a processor each, which the driver has not joined yet."""
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("PYTHONPATH", IMPORTABLE)
    import ray
    from ray.cluster_utils import Cluster

    small = {"num_cpus": 1, "object_store_memory": 80 << 20}
    cluster = Cluster(initialize_head=True, head_node_args=small | {"include_dashboard": False})
    try:
        cluster.add_node(**small)
        monkeypatch.setenv("RAY_ADDRESS", cluster.address)
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


def written(folder: Path) -> dict[str, tuple[int, int]]:
    """Return which file each shard is, and when it was written: one that is written again is another."""
    return {
        path.name: (status.st_ino, status.st_mtime_ns)
        for path in folder.glob("shard-*")
        for status in [path.stat()]
    }


@pytest.mark.slow
@WITH_RAY
def test_shards_of_a_ray_worker_or_node_that_dies_are_done_by_others(tmp_path, two_nodes):
    """First a worker is killed, then a node while neighbours are searched: the same comes as on one process."""
    import ray

    work = Squares(tmp_path / "squares", seconds=0.05, deadly={3: 1})
    work.folder.mkdir()
    run_shards(work, range(12), jobs=None, backend="ray", is_done=work.is_done)
    assert work.results() == {number: number**2 for number in range(12)}
    assert os.getpid() not in work.workers()
    assert not ray.is_initialized()  # it was joined for the work alone

    features = torch.randn(20_000, 32, generator=torch.Generator().manual_seed(0))
    options = {"search": "exact", "rows": 500, "scratch": Scratch()}
    (node,) = two_nodes.worker_nodes
    done_at_death = {}

    def kill() -> None:
        wait_until(lambda: len(list(tmp_path.glob("graph/shard-*"))) > 4)
        two_nodes.remove_node(node, allow_graceful=False)
        done_at_death.update(written(tmp_path / "graph"))

    killer = threading.Thread(target=kill)
    killer.start()
    there = find_neighbours_in_shards(
        features, 5, **options, folder=tmp_path / "graph", jobs=2, backend="ray"
    )
    killer.join()
    here = find_neighbours_in_shards(features, 5, **options)
    assert torch.equal(there.found.indices, here.found.indices)
    assert torch.equal(there.found.distances, here.found.distances)
    files = written(tmp_path / "graph")
    assert len(files) == 40
    assert 4 < len(done_at_death) < 40
    # What was done is not done again.
    assert {name: files[name] for name in done_at_death} == done_at_death
