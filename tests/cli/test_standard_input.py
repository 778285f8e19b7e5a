import io
import sys
from pathlib import Path

import pytest

from dahgnn.cli.standard_input import received


@pytest.fixture
def pipe(monkeypatch):
    """Put bytes into standard input."""

    def pipe(content):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))

    return pipe


def test_a_path_stays_as_it_is(pipe):
    pipe(b"x")
    with received(Path("a.csv"), None) as path:
        assert path == Path("a.csv")
    assert sys.stdin.buffer.read() == b"x"


@pytest.mark.parametrize("name", ["csv", ".csv", "CSV.GZ"])
def test_standard_input_lies_in_a_file_for_a_while(pipe, name):
    pipe(b"a\n\xff")
    with received(Path("-"), name) as path:
        assert path.read_bytes() == b"a\n\xff"
        assert path.name == f"stdin.{name.lower().removeprefix('.')}"
    assert not path.parent.exists()


def test_the_format_must_be_named_and_known(pipe):
    pipe(b"a\n")
    with (
        pytest.raises(
            ValueError, match="The format of standard input must be named. Got none. Say --format csv"
        ),
        received(Path("-"), None),
    ):
        pass
    with pytest.raises(ValueError, match="must be one of csv, .* Got '../x'"), received(Path("-"), "../x"):
        pass
    assert sys.stdin.buffer.read() == b"a\n"
