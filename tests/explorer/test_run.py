"""The program that serves a project, as a user starts it."""

import os
import re
import signal
import subprocess
import sys
import urllib.request

import pytest
from label_server import write_blobs

from dahgnn.explorer.run import Place, listening


def test_other_machines_are_let_in_only_by_who_knows_what_that_means():
    with pytest.raises(ValueError, match=r"nothing is encrypted.*--i-know"):
        Place(host="192.0.2.1")
    assert Place(host="192.0.2.1", known_risk=True).host == "192.0.2.1"
    with pytest.raises(ValueError, match="'port' parameter of label must be between 0 and 65535"):
        Place(port=70_000)


def test_a_port_that_is_taken_is_told():
    with listening(Place()) as taken:
        port = taken.getsockname()[1]
        with (
            pytest.raises(OSError, match=f"Nothing can listen at 127.0.0.1:{port}"),
            listening(Place(port=port)),
        ):
            pass


@pytest.fixture
def program(tmp_path):
    """A real process, and the address that it prints."""
    pytest.importorskip("openTSNE")
    write_blobs(tmp_path / "fruit.csv", n=30, given=(0, 1, 2))
    command = [sys.executable, "-m", "dahgnn", "label", "fruit.csv", "--label", "fruit", "--no-browser"]
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    address = re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", process.stdout.readline()).group()
    yield process, address
    process.kill()
    process.wait()
    process.stdout.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_person_opens_the_address_and_ends_it(program, number):
    process, address = program
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    with opener.open(address, timeout=60) as page:
        assert b"<title>fruit.csv" in page.read()
    with opener.open(address.split("?")[0] + "api/start", timeout=60) as start:
        assert b'"n":30' in start.read()
    process.send_signal(number)
    rest = process.stdout.read()
    assert process.wait(60) == 0
    assert "All labels are kept." in rest
