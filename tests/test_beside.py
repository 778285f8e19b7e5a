"""Work beside other work: at once on a CPU, in a thread and on a stream of its own on a CUDA device."""

import threading
import time
from contextvars import ContextVar

import pytest
import torch

from dahgnn.kernels.gpu.capture import capture
from dahgnn.threads import beside, threads_for

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
CPU, CUDA = torch.device("cpu"), torch.device("cuda")
word = ContextVar("word", default="nothing")


def test_a_cpu_works_when_it_is_asked():
    done = []
    with beside(CPU, lambda: done.append(threading.current_thread()) or 7) as result:
        assert done == []
        assert result() == 7
    assert done == [threading.current_thread()]


@needs_cuda
def test_a_cuda_device_works_meanwhile_with_what_was_there_before():
    numbers, began = torch.arange(1000, device=CUDA).double(), threading.Event()
    token = word.set("something")

    def work():
        began.set()
        return torch.cuda.current_stream() != torch.cuda.default_stream(), word.get(), numbers @ numbers

    with beside(CUDA, work) as result:
        assert began.wait(60)
        other_stream, heard, product = result()
    word.reset(token)
    assert (other_stream, heard) == (True, "something")
    assert float(product) == sum(number**2 for number in range(1000))


@needs_cuda
@pytest.mark.parametrize("threads", [1, 3, 2])
def test_the_thread_has_as_many_threads_of_torch_as_the_caller(threads):
    with threads_for(0, threads), beside(CUDA, torch.get_num_threads) as result:
        assert result() == threads


@needs_cuda
def test_captures_wait_for_each_other():
    numbers, under_way = torch.zeros(3, device=CUDA), threading.Lock()

    def work():
        assert under_way.acquire(blocking=False)
        numbers.add_(1)
        time.sleep(0.002)
        under_way.release()

    def record():
        return [capture(work, passes=1) for _ in range(20)]

    with beside(CUDA, record) as result:
        assert len(record() + result()) == 40


@needs_cuda
def test_both_may_capture_and_ask_for_memory_at_a_time():
    def count_up(size):
        numbers = torch.zeros(size, device=CUDA)
        for _ in range(20):
            graph = capture(lambda: numbers.add_(1), passes=1)
            graph.replay()
            torch.empty(size + 10**6, device=CUDA).fill_(1).sum().item()
        return numbers.unique().tolist()

    with beside(CUDA, lambda: count_up(3)) as result:
        assert count_up(5) == [40.0]  # twenty passes and as many replays
        assert result() == [40.0]


@needs_cuda
def test_what_fails_is_told_and_is_waited_for():
    ended = threading.Event()

    def fail():
        ended.set()
        raise ValueError("bad rows")

    with pytest.raises(ValueError, match="bad rows"), beside(CUDA, fail) as result:
        result()
    with pytest.raises(KeyError), beside(CUDA, ended.set):
        raise KeyError
    assert ended.is_set()
