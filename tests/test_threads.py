"""Threads for a block, pieces of work side by side, and what was before behind them."""

import itertools
import os
import signal
import threading
import time

import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from dahgnn import DAHGNN, ModelConfig, TrainingConfig, fit
from dahgnn.ops.backend import kernels_for, using
from dahgnn.threads import (
    FEW_ROWS,
    FEW_ROWS_A_PIECE,
    _blas_libraries,
    make_ahead,
    one_blas_thread,
    one_thread,
    side_by_side,
    threads_beside,
    threads_for,
    workers_for,
)


@pytest.fixture(autouse=True)
def three_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("rows", "wanted", "expected"),
    [(FEW_ROWS - 1, None, 1), (FEW_ROWS, None, 3), (FEW_ROWS - 1, 2, 2), (FEW_ROWS, 2, 2)],
)
def test_few_rows_have_one_thread_unless_more_are_wanted(rows, wanted, expected):
    with threads_for(rows, wanted):
        assert torch.get_num_threads() == expected
    assert torch.get_num_threads() == 3


@pytest.mark.parametrize(
    ("rows", "wanted", "expected"),
    [
        (FEW_ROWS_A_PIECE - 1, None, 1),
        (FEW_ROWS_A_PIECE, None, 3),
        (FEW_ROWS, None, 3),
        (FEW_ROWS_A_PIECE, 1, 1),
        (FEW_ROWS_A_PIECE - 1, 2, 2),
        (FEW_ROWS_A_PIECE, 2, 2),
    ],
)
def test_pieces_are_done_side_by_side_on_fewer_rows_than_operations_are_shared_on(rows, wanted, expected):
    with threads_for(rows, wanted):
        assert workers_for(rows, 5) == expected
        assert workers_for(rows, 1) == 1
        with one_thread():
            assert workers_for(rows, 5) == (1 if rows < FEW_ROWS_A_PIECE else expected)
    assert workers_for(rows, 5) == 3


def test_the_threads_are_back_after_an_error():
    with pytest.raises(KeyboardInterrupt), threads_for(1):
        raise KeyboardInterrupt
    assert torch.get_num_threads() == 3


def test_a_small_fit_has_one_thread(blobs, blob_hypergraph, blob_split):
    seen = []
    model = DAHGNN(6, 3, ModelConfig(hidden=16), generator=torch.Generator().manual_seed(0))
    inputs = blobs[0], blob_hypergraph, blobs[1], blob_split
    fit(
        model, *inputs, TrainingConfig(max_epochs=2), callback=lambda *_: seen.append(torch.get_num_threads())
    )
    assert set(seen) == {1}
    assert torch.get_num_threads() == 3


def test_a_function_of_small_steps_has_one_thread_each_time():
    @one_thread()
    def count(deeper):
        assert torch.get_num_threads() == 1
        return 1 + count(deeper - 1) if deeper else 1

    assert [count(0), count(2)] == [1, 3]
    assert torch.get_num_threads() == 3
    with one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 3


def nobody():
    """Stands for what is called on Ctrl-C where there is none."""
    raise AssertionError("Nobody pressed Ctrl-C.")


@pytest.mark.parametrize("workers", [1, 2, 3, 7])
def test_results_come_in_the_order_of_the_pieces(workers):
    assert side_by_side(lambda number: number**2, 5, workers, nobody) == [0, 1, 4, 9, 16]


def test_results_come_in_order_even_if_the_last_piece_is_done_first():
    done = [threading.Event() for _ in range(4)]
    done[3].set()
    ended = []

    def work(number):
        assert done[number + 1].wait(30)
        ended.append(number)
        done[number].set()
        return number

    assert side_by_side(work, 3, 3, nobody) == [0, 1, 2]
    assert ended == [2, 1, 0]


@pytest.mark.parametrize(
    ("threads", "workers", "share"), [(3, 2, 1), (4, 2, 2), (5, 2, 2), (6, 3, 2), (1, 2, 1), (2, 3, 1)]
)
def test_each_piece_has_its_share_of_the_threads(threads, workers, share):
    torch.set_num_threads(threads)
    together, before = threading.Barrier(workers), threading.active_count()

    def work(_):
        together.wait(30)  # all are under way
        here = torch.get_num_threads(), threading.current_thread()
        together.wait(30)
        return here

    counts, places = zip(*side_by_side(work, 2 * workers, workers, nobody), strict=True)
    assert set(counts) == {share}
    assert len(set(places)) == workers
    assert threading.current_thread() not in places
    assert torch.get_num_threads() == threads
    assert threading.active_count() == before


def test_one_at_a_time_is_done_by_the_caller_with_all_threads():
    def work(number):
        return number, torch.get_num_threads(), threading.current_thread()

    here = threading.current_thread()
    assert side_by_side(work, 2, 1, nobody) == [(0, 3, here), (1, 3, here)]


@pytest.mark.parametrize("failing", [0, 1])
def test_an_error_comes_up_when_all_pieces_have_ended(failing):
    ended, failed = [], threading.Event()

    def work(number):
        if number == failing:
            failed.set()
            raise ValueError(f"piece {number}")
        assert failed.wait(30)
        time.sleep(0.05)
        ended.append(number)

    with pytest.raises(ValueError, match=f"^piece {failing}$"):
        side_by_side(work, 2, 2, nobody)
    assert ended == [1 - failing]
    assert torch.get_num_threads() == 3


def test_ctrl_c_is_told_and_the_pieces_end_by_themselves():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background
    told, together = threading.Event(), threading.Barrier(2)

    def work(number):
        together.wait(30)
        if number == 1:
            time.sleep(0.2)  # until the caller waits
            os.kill(os.getpid(), signal.SIGINT)
        return number, told.wait(30)

    try:
        assert side_by_side(work, 2, 2, told.set) == [(0, True), (1, True)]
    except KeyboardInterrupt:  # which would end pytest
        pytest.fail("It goes on up.")
    finally:
        signal.signal(signal.SIGINT, before)
    assert torch.get_num_threads() == 3


def test_a_piece_that_interrupts_itself_ends_the_work():
    def work(number):
        if number:
            raise KeyboardInterrupt
        return number

    with pytest.raises(KeyboardInterrupt):
        side_by_side(work, 2, 2, nobody)
    assert torch.get_num_threads() == 3


def test_blas_has_one_thread_in_the_block_and_what_it_had_behind_it():
    def threads():
        # Others may bring a library of their own after the first call, as FAISS does.
        known = {each.filepath for each in _blas_libraries().lib_controllers}
        return {
            each["num_threads"]
            for each in threadpool_info()
            if each["user_api"] == "blas" and each["filepath"] in known
        }

    import scipy.optimize  # noqa: F401, with the library of SciPy

    with threadpool_limits(2, user_api="blas"):
        with one_blas_thread():
            assert threads() == {1}
        assert threads() == {2}


def test_pieces_have_the_context_of_the_caller():
    with using("reference"):
        assert side_by_side(lambda _: kernels_for(torch.zeros(1)), 2, 2, nobody) == [None, None]


@pytest.mark.parametrize("depth", [0, 1, 3, 50])
@pytest.mark.parametrize("workers", [1, 4])
def test_all_come_in_order(depth, workers):
    def make(number):
        time.sleep(0.002 * (number % 3))  # later ones are done earlier
        return -number

    assert list(make_ahead(make, range(9), depth, workers)) == [-number for number in range(9)]


def test_no_more_are_made_than_may_be_ahead():
    made, enough = [], threading.Event()

    def make(number):
        made.append(number)
        if number == 3:
            enough.set()
        return number

    ahead = make_ahead(make, itertools.count(), 3)
    assert next(ahead) == 0
    assert enough.wait(10)
    ahead.close()
    assert made == [0, 1, 2, 3]


def test_several_are_made_at_a_time():
    both = threading.Barrier(2, timeout=10)

    def make(number):
        both.wait()
        return number

    assert list(make_ahead(make, range(4), 2, workers=2)) == [0, 1, 2, 3]


def test_an_error_comes_in_its_turn():
    def make(number):
        if number == 2:
            raise ValueError("no such batch")
        return number

    ahead = make_ahead(make, range(5), 2)
    assert [next(ahead), next(ahead)] == [0, 1]
    with pytest.raises(ValueError, match="no such batch"):
        next(ahead)


def test_a_gpu_has_as_many_threads_beside_it_as_are_worth_it(monkeypatch):
    monkeypatch.setattr("joblib.cpu_count", lambda: 12)
    cpu, cuda = torch.device("cpu"), torch.device("cuda")
    assert (threads_beside(cpu), threads_beside(cuda)) == (1, 8)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert threads_beside(cuda) == 3
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "40")
    assert threads_beside(cuda) == 1
