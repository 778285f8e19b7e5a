"""Processes that train together, started by the real torchrun."""

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest
import torch
from torchrun_programs import train

from dahgnn.distributed import (
    _own_names,
    check_same,
    do_first,
    gather,
    join_world,
    own_device,
    share,
    speaking,
)
from dahgnn.files.tensors import tensors_digest
from dahgnn.progress import SilentObserver
from dahgnn.world import ALONE

TESTS = Path(__file__).parent


def torchrun(program: str, folder: Path, *options: str) -> subprocess.CompletedProcess:
    """Run a program of `torchrun_programs` in two processes of one thread each."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += [*options, str(TESTS / "torchrun_programs.py"), program, str(folder)]
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=240)


def read(folder: Path, name: str) -> object:
    return json.loads((folder / f"{name}.json").read_text())


def clear(monkeypatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)


def test_outside_of_torchrun_one_process_is_alone(monkeypatch):
    clear(monkeypatch)
    with join_world() as world:
        assert world is ALONE
        assert gather(world, 3) == [3]
        assert share(world, "x") == "x"
        assert do_first(world, lambda: 7) == 7
        check_same(world, "digest", "rows")


def test_one_process_of_torchrun_is_alone(monkeypatch):
    clear(monkeypatch)
    for name, value in (
        ("RANK", "0"),
        ("WORLD_SIZE", "1"),
        ("MASTER_ADDR", "localhost"),
        ("MASTER_PORT", "1"),
    ):
        monkeypatch.setenv(name, value)
    with join_world() as world:
        assert world is ALONE


def test_half_an_environment_is_refused(monkeypatch):
    clear(monkeypatch)
    monkeypatch.setenv("WORLD_SIZE", "2")
    words = "must have RANK, .* Got no RANK, MASTER_ADDR, MASTER_PORT. Start"
    with pytest.raises(ValueError, match=words), join_world():
        pass


def test_processes_that_do_not_come_are_not_waited_for_forever(monkeypatch):
    clear(monkeypatch)
    for name, value in (
        ("RANK", "1"),
        ("WORLD_SIZE", "2"),
        ("MASTER_ADDR", "127.0.0.1"),
        ("MASTER_PORT", "9"),
    ):
        monkeypatch.setenv(name, value)
    words = "All 2 processes must meet at 127.0.0.1:9 within 1 s. Process 1 met"
    with pytest.raises(OSError, match=words), join_world(seconds=1):
        pass


@pytest.mark.parametrize("met", ['["ended"]', "[]"], ids=["as many", "fewer"])
def test_processes_that_start_again_meet_under_a_name_of_their_own(met):
    """The store still has the name of an earlier start, and what the ended processes wrote under it."""
    store, wait = torch.distributed.HashStore(), timedelta(seconds=20)
    store.set("start", "earlier")
    store.set("earlier/1", "ended")
    store.set("earlier/met", met)
    with ThreadPoolExecutor(2) as threads:
        second = threads.submit(_own_names, store, 1, 2, wait)
        time.sleep(0.3)
        assert not second.done()
        first = _own_names(store, 0, 2, wait)
        first.set("key", "value")
        assert second.result().get("key") == b"value"
    assert not store.check(["key", "earlier/key"])


def test_a_first_process_that_does_not_come_again_is_not_waited_for_forever():
    store = torch.distributed.HashStore()
    store.set("start", "earlier")
    with pytest.raises(RuntimeError, match="the first process has not come"):
        _own_names(store, 1, 2, timedelta(seconds=0.3))


def test_a_time_that_is_none_is_refused():
    with pytest.raises(ValueError, match="'seconds' parameter of join_world"), join_world(seconds=0):
        pass


def test_each_process_of_a_machine_has_a_gpu_of_its_own(monkeypatch):
    clear(monkeypatch)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert own_device("cuda") == torch.device("cuda")
    for rank, number in ((0, 0), (1, 1), (2, 0)):
        monkeypatch.setenv("LOCAL_RANK", str(rank))
        assert own_device("cuda") == torch.device("cuda", number)
    assert own_device("cuda:1") == torch.device("cuda:1")
    assert own_device("cpu") == torch.device("cpu")


def test_only_the_first_process_speaks():
    class Second:
        rank, size = 1, 2

    observer = SilentObserver()
    assert speaking(ALONE, observer) is observer
    assert speaking(Second(), observer) is not observer


@pytest.mark.slow
def test_two_processes_do_what_a_world_does(tmp_path):
    done = torchrun("basics", tmp_path)
    assert done.returncode == 0, done.stderr
    first, second = read(tmp_path, "rank-0"), read(tmp_path, "rank-1")
    left = first.pop("left")
    assert "All 2 processes must take part in every step, each within 20 s. Process 0 got no answer" in left
    ended, error = (each.pop("failed") for each in (second, first))
    assert error[0] == "ZeroDivisionError"
    assert ended == ["EndedElsewhereError", f"ZeroDivisionError: {error[1]}"]
    for name, made in (("made 1", [[0.0] * 3, [1.0] * 3]), ("made 1048576", None)):
        # A file is one for all, and what is small each has for itself.
        rows = [each.pop(name) for each in (first, second)]
        assert rows == ([made] * 2 if made else [[[0.0] * 3, [7.0] * 3], [[7.0] * 3, [1.0] * 3]])
    assert first.pop("together 0") == "ValueError: wrong in 0"
    assert second.pop("together 0") == "EndedElsewhereError: wrong in 0"
    alone = first.pop("together 1")
    assert alone == "ValueError: Process 1 must have what process 0 has. It says: wrong in 1"
    assert second.pop("together 1") == "EndedElsewhereError: wrong in 1"
    assert first == second
    assert first == {
        "kept 1": 0,
        "kept 1048576": 0,
        "size": 2,
        "gathered": [0, 10],
        "shared": {"from": 0},
        "mean": [[[0.75] * 3] * 2, 7.5],  # one counts once, the other three times
        "one_counts": [5.0],
        "range": [[[0.0, -1.0]], [1.0]],
        "first": "by 0",
        "disagree": "All processes must have the same rows. Got digest-0 in process 0 and digest-1 in process 1. "
        "Give all of them the same files and options.",
    }


@pytest.mark.slow
def test_other_neighbours_in_one_process_end_a_fit_in_all(tmp_path):
    done = torchrun("neighbors", tmp_path)
    assert done.returncode == 0, done.stderr
    first, second = (read(tmp_path, f"neighbors-{rank}") for rank in (0, 1))
    assert first == second
    assert first[0] == "DisagreementError"
    assert first[1].startswith("All processes must have the same rows and hyperedges. Got ")
    assert list((tmp_path).glob("work/*")) == []


@pytest.mark.slow
def test_two_processes_learn_what_one_does_also_if_one_is_killed(tmp_path):
    alone_losses, _ = train(tmp_path / "alone")
    for program in ("train", "killed"):
        (tmp_path / program).mkdir()
        done = torchrun(program, tmp_path / program, "--max-restarts", "1")
        assert done.returncode == 0, done.stderr
    (losses, digest), other = (read(tmp_path / "train", f"train-{rank}") for rank in (0, 1))
    assert other == [losses, digest]
    torch.testing.assert_close(torch.tensor(losses), torch.tensor(alone_losses), rtol=1e-5, atol=1e-6)
    assert len(losses) == 6
    for rank in (0, 1):
        again, again_digest, restarts = read(tmp_path / "killed", f"killed-{rank}")
        assert restarts == 1
        assert again_digest == digest  # bit by bit
        # The first stage is as it was kept, and the second goes on after the epoch of its last checkpoint.
        assert again == losses[-len(again) :]
        assert len(again) in (2, 3)


def test_a_digest_names_the_weights(tmp_path):
    """The digest by which the tests compare weights tells apart what differs in one bit."""
    _, weights = train(tmp_path)
    changed = {name: weight.clone() for name, weight in weights.items()}
    next(iter(changed.values())).view(-1)[0] += 1e-6
    assert tensors_digest(weights) != tensors_digest(changed)
