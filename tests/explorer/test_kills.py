"""`dahgnn label` itself, killed at random moments while labels come in over HTTP."""

import contextlib
import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import uuid

import pytest
from label_server import WORDS, write_blobs

from dahgnn.explorer.journal import Journal
from dahgnn.explorer.rows import read_rows_to_label

# The program, started by fork: what it imports, which takes seconds, is there at once. Each line of its input
# starts it once; it says the number of the process, then what the program says.
FORKING = """
import os, sys
import dahgnn.classifier.estimator, dahgnn.explorer.run, sklearn.cluster
from dahgnn.cli.commands import main

for line in sys.stdin:
    process = os.fork()
    if process == 0:
        os.close(0)
        os._exit(main(sys.argv[1:]))
    print("process", process, flush=True)
    os.waitpid(process, 0)
    print("ended", flush=True)
"""


class Program:
    """`dahgnn label` of a table, that can be started and killed again and again."""

    def __init__(self, path, port):
        self._words = ["label", str(path), "--label", "fruit", "--id", "name", "--port", str(port)]
        self._words.append("--no-browser")
        self.port, self.process, self._cookie = port, 0, ""
        self._forking = subprocess.Popen(
            [sys.executable, "-c", FORKING, *self._words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def start(self):
        """Start it, and take the address that it prints."""
        self._forking.stdin.write("\n")
        self._forking.stdin.flush()
        self.process = int(self._line("process "))
        token = self._line("Open ").partition("token=")[2]
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        with contextlib.closing(connection):
            connection.request("GET", f"/?token={token}")
            answer = connection.getresponse()
            assert answer.status == 303
            self._cookie = answer.headers["Set-Cookie"].split(";")[0]

    def _line(self, begins):
        """Return what follows in the next line that begins so."""
        for line in self._forking.stdout:
            if line.startswith(begins):
                return line.removeprefix(begins).strip()
        raise AssertionError(f"the program ended before it said '{begins}'")

    def kill(self):
        """Kill it, as a power cut would."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process, signal.SIGKILL)

    def ended(self):
        """Wait until it is gone."""
        self._line("ended")
        self.process = 0

    @contextlib.contextmanager
    def connected(self):
        """Yield a function that sends an action and returns the number of its event."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        headers = {"Cookie": self._cookie, "Content-Type": "application/json"}

        def send(body):
            connection.request("POST", "/api/label", body=json.dumps(body), headers=headers)
            answer = connection.getresponse()
            content = answer.read()
            assert answer.status == 200, content
            return json.loads(content)["event"]

        with contextlib.closing(connection):
            yield send

    def close(self):
        """End everything."""
        if self.process:
            self.kill()
        self._forking.kill()
        self._forking.communicate(timeout=30)


@pytest.fixture
def program(tmp_path):
    write_blobs(tmp_path / "fruit.csv", given=(0, 1, 2))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    made = Program(tmp_path / "fruit.csv", port)
    patience = after(200, made.close)  # a program that hangs ends nothing else
    yield made
    patience.cancel()
    made.close()


def after(seconds, act):
    """Do something later, beside what goes on; return what can take that back."""
    timer = threading.Timer(seconds, act)
    timer.daemon = True
    timer.start()
    return timer


def label_until_killed(program, generator, sent, told):
    """Label as fast as answers come, until the program is killed at a random moment.

    ``sent`` gets all actions by key, and ``told`` the numbers of the events that were acknowledged.
    """
    with program.connected() as send:
        for key in [key for key in sent if key not in told]:  # a page sends again what nobody answered
            told[key] = send(sent[key])
        after(generator.uniform(0, 0.3), program.kill)
        with contextlib.suppress(http.client.HTTPException, OSError):
            while True:
                key = uuid.uuid4().hex
                body = {"rows": [generator.randrange(60)], "label": generator.choice(WORDS), "way": "map"}
                sent[key] = body | {"window": "w", "key": key, "seen": max(told.values(), default=0)}
                told[key] = send(sent[key])


ALL = pytest.param(
    50,
    marks=[
        pytest.mark.slow,
        pytest.mark.skipif("DAHGNN_TEST_KILLS" not in os.environ, reason="DAHGNN_TEST_KILLS is not set"),
    ],
)


@pytest.mark.parametrize("kills", [10, ALL])
def test_after_kills_no_acknowledged_label_is_lost_and_none_is_doubled(program, tmp_path, kills):
    generator, sent, told, unanswered = random.Random(0), {}, {}, 0
    for _ in range(kills):
        program.start()
        label_until_killed(program, generator, sent, told)
        program.ended()
        unanswered += len(sent) - len(told)
    lost = {key for key in sent if key not in told}
    identity = read_rows_to_label(tmp_path / "fruit.csv", label="fruit", id="name").identity
    with Journal.open(tmp_path / "fruit.csv.labels.sqlite", identity) as journal:
        events = {event.key: event for event in journal.events()}
        assert len(events) == len(journal.events()) == journal.state().version
    assert len(told) > kills
    assert unanswered  # some were on their way
    assert told.keys() <= events.keys() <= told.keys() | lost
    for key, event in events.items():
        assert told.get(key, event.number) == event.number
        body = sent[key]
        assert (event.rows, event.label) == ((f"row-{body['rows'][0]}",), body["label"])
