import pytest

from dahgnn.cli import display as display_module
from dahgnn.cli.display import Display, printable


@pytest.fixture
def clock(monkeypatch):
    """A clock that a test sets forward."""

    class Clock:
        now = 1000.0

    for name in ("perf_counter", "monotonic"):
        monkeypatch.setattr(display_module.time, name, lambda: Clock.now)
    return Clock


def test_a_file_gets_a_line_at_the_start_every_so_often_and_at_the_end(clock, capsys):
    with Display() as display, display.phase("Work") as progress:
        for done in range(1, 8):
            progress(done, 10, f"{done} of 10")
            clock.now += 10
    assert capsys.readouterr().err.splitlines() == [
        "Work: 1 of 10",
        "Work: 4 of 10  60 s left",
        "Work: 7 of 10  30 s left",
        "Work: 7 of 10  70 s",
    ]


def test_the_time_left_counts_from_where_earlier_work_ended(clock, capsys):
    with Display() as display, display.phase("Work") as progress:
        progress(90, 100)
        clock.now += 30
        progress(91, 100)
    assert capsys.readouterr().err.splitlines() == ["Work", "Work: 4 min left", "Work: 30 s"]


def test_who_knows_the_time_left_is_believed(capsys):
    with Display() as display, display.phase("Work") as progress:
        progress(1, 2, "half", seconds_left=7200)
    assert "Work: half  2.0 h left" in capsys.readouterr().err


def test_a_phase_that_tells_nothing_says_how_long_it_took(clock, capsys):
    with Display() as display, display.phase("[/bold] Read"):
        clock.now += 1.25
    assert capsys.readouterr().err == "[/bold] Read: 1.2 s\n"


def test_notes_steer_no_terminal(capsys):
    with Display() as display:
        display.note("a\x1b[2Jb [bold]c[/bold]")
    assert capsys.readouterr().err == "a\N{REPLACEMENT CHARACTER}[2Jb [bold]c[/bold]\n"


def test_what_can_be_printed_stays():
    assert printable("Ünïcode 7 %") == "Ünïcode 7 %"
    assert printable("\u202e\u2066\u200f\u200b") == 4 * "\N{REPLACEMENT CHARACTER}"
    assert printable("r\r\n7") == "r\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}7"
