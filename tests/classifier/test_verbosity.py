"""What a fit tells while it runs."""

import logging

import pytest

from dahgnn.classifier import verbosity
from dahgnn.classifier.verbosity import Teller, telling
from dahgnn.training.updates import Update


def epoch(number):
    return Update(epoch=number, train_loss=0.5)


@pytest.fixture
def clock(monkeypatch):
    """A clock that a test sets."""
    now = [100.0]
    monkeypatch.setattr(verbosity.time, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def quiet():
    """A logger whose lines nobody takes, out of reach of those of pytest."""
    return logging.Manager(logging.RootLogger(logging.WARNING)).getLogger("quiet")


@pytest.mark.parametrize(("verbose", "lines"), [(0, 0), (1, 1), (2, 1), (True, 1), (False, 0)])
def test_as_much_is_told_as_is_asked_for(caplog, verbose, lines):
    with caplog.at_level(logging.INFO):
        Teller(logging.getLogger("dahgnn.test"), verbose)("Found %d of %s", 3, "them")
    assert [record.getMessage() for record in caplog.records] == ["Found 3 of them"] * lines


def test_epochs_are_told_by_the_clock(caplog, clock):
    heard = []
    hear = Teller(logging.getLogger("dahgnn.test"), 1).listen(lambda *news: heard.append(news))
    with caplog.at_level(logging.INFO):
        for second in range(12):
            clock[0] = 100.0 + second
            hear(1, epoch(second))
    said = [record.getMessage() for record in caplog.records]
    assert said == [f"Network 2, epoch {second}: loss 0.5000" for second in (0, 5, 10)]
    assert [(number, each.epoch) for number, each in heard] == [(1, second) for second in range(12)]


@pytest.mark.parametrize(("verbose", "lines"), [(0, 0), (2, 7)])
def test_none_or_all_epochs_are_told(caplog, clock, verbose, lines):
    hear = Teller(logging.getLogger("dahgnn.test"), verbose).listen(None)
    with caplog.at_level(logging.INFO):
        for number in range(7):
            hear(0, epoch(number))
    assert len(caplog.records) == lines


def test_lines_go_to_the_standard_error_if_nobody_else_has_them(quiet, capsys):
    with telling(quiet, 1) as tell:
        tell("Hello %s", "you")
    assert capsys.readouterr().err == "Hello you\n"
    assert quiet.handlers == []
    assert quiet.level == logging.NOTSET


def test_lines_are_not_told_twice(quiet, capsys):
    seen = []
    handler = logging.Handler()
    handler.emit = lambda record: seen.append(record.getMessage())
    quiet.addHandler(handler)
    with telling(quiet, 1) as tell:
        tell("Hello")
    assert (seen, capsys.readouterr().err) == (["Hello"], "")
    assert quiet.handlers == [handler]


def test_nothing_changes_if_nothing_is_to_be_told(quiet, capsys):
    with telling(quiet, 0) as tell:
        assert quiet.level == logging.NOTSET
        tell("Hello")
    assert capsys.readouterr().err == ""


def test_an_error_leaves_the_logger_as_it_was(quiet):
    with pytest.raises(RuntimeError, match="enough"), telling(quiet, 2):
        raise RuntimeError("enough")
    assert quiet.handlers == []
    assert quiet.level == logging.NOTSET
