"""Training in the background: one fit at a time, none forgotten."""

import threading

from dahgnn.explorer.trainer import Trainer

PATIENCE = 20


def test_what_is_asked_for_meanwhile_is_done_afterwards_once():
    begun, go_on, ended = threading.Semaphore(0), threading.Event(), threading.Event()
    running, most, fits = [0], [0], []

    def train(_):
        running[0] += 1
        most[0] = max(most[0], running[0])
        begun.release()
        assert go_on.wait(PATIENCE)
        running[0] -= 1
        fits.append(len(fits))
        if len(fits) == 2:
            ended.set()

    trainer = Trainer(train, lambda _: None)
    trainer.start()
    trainer.ask()
    assert begun.acquire(timeout=PATIENCE)
    for _ in range(5):
        trainer.ask()
    go_on.set()
    assert ended.wait(PATIENCE)
    trainer.stop()
    assert (fits, most) == ([0, 1], [1])


def test_a_fit_that_fails_is_told_and_the_next_one_runs():
    states, ended = [], threading.Event()

    def train(_):
        if not any(state.error for state in states):
            raise ValueError("no labels")
        ended.set()

    trainer = Trainer(train, states.append)
    trainer.start()
    trainer.ask()
    while not any(state.error for state in list(states)):
        threading.Event().wait(0.01)
    assert states[-1].error == "The training failed: no labels"
    assert not trainer.state.running
    trainer.ask()
    assert ended.wait(PATIENCE)
    trainer.stop()


def test_a_fit_hears_that_the_program_ends():
    begun, heard = threading.Event(), threading.Event()

    def train(progress):
        begun.set()
        try:
            while True:
                progress(1, 2, "epoch")
        except BaseException:
            heard.set()
            raise

    trainer = Trainer(train, lambda _: None)
    trainer.start()
    trainer.ask()
    assert begun.wait(PATIENCE)
    trainer.stop()
    assert heard.is_set()
    assert trainer.state.as_dict() == {"running": True, "share": 0.5, "phase": "epoch", "error": None}
