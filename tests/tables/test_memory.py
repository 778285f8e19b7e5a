import pytest

from dahgnn.tables import memory
from dahgnn.tables.memory import available_memory, check_memory, most_unpacked


def test_the_system_says_what_there_is():
    assert 2**20 < available_memory() < 2**50


def test_a_limit_of_the_group_counts(monkeypatch):
    numbers = {"/sys/fs/cgroup/memory.max": 5000, "/sys/fs/cgroup/memory.current": 2000}
    monkeypatch.setattr(memory, "_number", numbers.get)
    assert available_memory() == 3000
    numbers["/sys/fs/cgroup/memory.current"] = 6000
    assert available_memory() == 0
    numbers["/sys/fs/cgroup/memory.max"] = None
    assert available_memory() > 2**20


def test_systems_without_proc_say_their_size(monkeypatch):
    monkeypatch.setattr(memory, "_proc_available", lambda: None)
    monkeypatch.setattr(memory, "_physical", lambda: 12345)
    monkeypatch.setattr(memory, "_number", lambda path: None)
    assert available_memory() == 12345


def test_what_does_not_fit_is_refused(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 3 * 2**30)
    check_memory("The array 'X'", 2**30)
    with pytest.raises(
        ValueError, match=r"The array 'X' must fit into memory 3 times: there are 3.0 GiB. Got 1.1 GiB"
    ):
        check_memory("The array 'X'", int(1.1 * 2**30))


def test_a_file_unpacks_to_so_many_times_its_size_unless_it_is_small(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 2**30)
    assert most_unpacked(1) == 2**26
    assert most_unpacked(2**20) == 200 * 2**20
    assert most_unpacked(2**30) == 2**30
