import logging
import sys

import pytest
import torch

from dahgnn.graph.choice import choose_search, exact_seconds, hnsw_seconds, ivf_seconds


def test_few_rows_are_compared_and_many_are_not():
    pytest.importorskip("faiss")
    assert choose_search(10_000, 64) == "exact"
    assert choose_search(70_000, 784) == "exact"  # measured: 10.4 s against 10.0 s
    assert choose_search(300_000, 64) == "ivf"  # measured: 27.7 s against 10.2 s
    assert choose_search(5_000_000, 64) == "ivf"


@pytest.mark.parametrize("wanted", ["exact", "ivf", "hnsw"])
def test_what_is_asked_for_is_taken(wanted):
    assert choose_search(10, 2, wanted=wanted) == choose_search(10**7, 2, wanted=wanted) == wanted


def test_without_faiss_all_rows_are_compared_and_the_log_says_so(monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "faiss", None)
    with caplog.at_level(logging.WARNING):
        assert choose_search(300_000, 64) == "exact"
        assert not caplog.messages
        assert choose_search(5_000_000, 64) == "exact"
    assert "pip install 'dahgnn[large]'" in caplog.text


def test_estimates_grow_as_the_work_does():
    assert exact_seconds(2000, 8) == pytest.approx(4 * exact_seconds(1000, 8))
    assert ivf_seconds(10**6, 64) > 5 * ivf_seconds(2 * 10**5, 64)
    assert exact_seconds(10**6, 64, "cuda") < exact_seconds(10**6, 64)


def test_estimates_are_near_what_was_measured(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    assert exact_seconds(70_000, 784) == pytest.approx(10.4, rel=0.05)
    assert exact_seconds(300_000, 64) == pytest.approx(27.7, rel=0.1)
    assert ivf_seconds(70_000, 784) == pytest.approx(10.0, rel=0.1)
    assert ivf_seconds(300_000, 64) == pytest.approx(8.9, rel=0.25)
    assert ivf_seconds(1_000_000, 64, probes=18) == pytest.approx(38.5, rel=0.1)
    assert ivf_seconds(5_000_000, 64) == pytest.approx(393, rel=0.1)
    assert exact_seconds(70_000, 784, "cuda") == pytest.approx(0.23, rel=0.05)
    assert hnsw_seconds(70_000, 784, width=32) == pytest.approx(30, rel=0.05)
    assert hnsw_seconds(300_000, 64) == pytest.approx(29, rel=0.05)


@pytest.mark.parametrize(("times", "expected"), [(1.9, "exact"), (2.1, "ivf")])
def test_an_exact_search_may_take_twice_as_long_as_lists(monkeypatch, times, expected):
    pytest.importorskip("faiss")
    monkeypatch.setattr("dahgnn.graph.choice.exact_seconds", lambda *_: times)
    monkeypatch.setattr("dahgnn.graph.choice.ivf_seconds", lambda *_: 1.0)
    assert choose_search(300_000, 64) == expected


def test_links_are_made_by_one_thread_and_walked_along_by_all(monkeypatch):
    seconds = []
    for threads in (1, 2, 1000):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        seconds.append(hnsw_seconds(10**5, 64))
    assert seconds[0] > seconds[1] > seconds[2] > 0.4 * seconds[0]
    assert hnsw_seconds(10**5, 64, width=32) < seconds[2] * 1.001


@pytest.mark.parametrize(("free", "expected"), [(1 << 40, "exact"), (1 << 20, "ivf")])
def test_a_gpu_needs_room(monkeypatch, free, expected):
    pytest.importorskip("faiss")
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (free, free))
    assert choose_search(10**6, 64, "cuda") == expected


def test_an_unknown_search_is_refused():
    with pytest.raises(ValueError, match="Did you mean 'hnsw'"):
        choose_search(10, 2, wanted="hsnw")
