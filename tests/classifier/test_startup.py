"""What a device needs is started once, beside other work."""

import threading
import time

import pytest
import torch

from dahgnn.classifier import startup
from dahgnn.classifier.startup import await_device, starting_device


@pytest.fixture(autouse=True)
def fresh():
    startup._starting.cache_clear()
    yield
    startup._starting.cache_clear()


def test_a_cpu_needs_nothing(monkeypatch):
    started = []
    monkeypatch.setattr(startup, "_start", started.append)
    with starting_device(torch.device("cpu")):
        await_device(torch.device("cpu"))
    assert started == []


def test_a_device_is_started_once(monkeypatch):
    started = []
    monkeypatch.setattr(startup, "_start", started.append)
    for _ in range(3):
        with starting_device(torch.device("cuda")):
            pass
    assert started == [torch.device("cuda")]


def test_the_start_ends_with_the_block_also_after_an_error(monkeypatch):
    ended = threading.Event()
    monkeypatch.setattr(startup, "_start", lambda _: (time.sleep(0.05), ended.set()))
    with pytest.raises(ValueError, match="bad rows"), starting_device(torch.device("cuda")):
        assert not ended.is_set()
        raise ValueError("bad rows")
    assert ended.is_set()


def test_who_waits_has_it_started(monkeypatch):
    started = []
    monkeypatch.setattr(startup, "_start", started.append)
    await_device(torch.device("cuda", 1))
    assert started == [torch.device("cuda", 1)]


def test_what_fails_is_left_to_whoever_needs_it(monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("no such device")

    monkeypatch.setattr(startup.torch, "eye", fail)
    monkeypatch.setattr(startup.torch.cuda, "device", lambda _: torch.no_grad())
    assert startup._start(torch.device("cuda")) is None


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_cuda_device_starts():
    with starting_device(torch.device("cuda")):
        pass
    assert not startup._starting(torch.device("cuda")).is_alive()
