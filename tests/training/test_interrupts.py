"""Ctrl-C is collected where Python would raise it anywhere."""

import signal
import threading

import pytest

from dahgnn.training.interrupts import collect_interrupts


def press_ctrl_c() -> None:
    signal.raise_signal(signal.SIGINT)


def test_ctrl_c_is_collected_once():
    with collect_interrupts() as interrupts:
        press_ctrl_c()
        assert len(interrupts) == 1
        with pytest.raises(KeyboardInterrupt):
            press_ctrl_c()
    assert len(interrupts) == 1
    with pytest.raises(KeyboardInterrupt):
        press_ctrl_c()


def test_a_handler_of_somebody_else_stays():
    heard = []
    before = signal.signal(signal.SIGINT, lambda *_: heard.append(1))
    try:
        with collect_interrupts() as interrupts:
            press_ctrl_c()
        assert heard == [1]
        assert not interrupts
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_leave_the_handler_alone():
    def collect() -> None:
        with collect_interrupts():
            handlers.append(signal.getsignal(signal.SIGINT))

    handlers: list[object] = []
    thread = threading.Thread(target=collect)
    thread.start()
    thread.join()
    assert handlers == [signal.default_int_handler]
