"""A labelling project on a real server, in a thread, and a client that speaks HTTP to it."""

import http.client
import json
import threading
import time
import uuid
from contextlib import contextmanager

import numpy as np
import uvicorn

from dahgnn.explorer.project import LabelOptions, open_project
from dahgnn.explorer.run import Place, listening
from dahgnn.explorer.security import Gate, allowed_hosts
from dahgnn.explorer.server import make_app
from dahgnn.progress import SilentObserver
from dahgnn.report.fit_folder import FitOptions

WORDS = ("apple", "pear", "plum")


def write_blobs(path, n=60, given=(), seed=0, named=True):
    """Write a table of three kinds of fruit that lie apart, and return what each row is."""
    generator = np.random.default_rng(seed)
    kinds = np.arange(n) % 3
    points = 4 * np.eye(3)[kinds] + generator.normal(size=(n, 3))
    lines = ["name,a,b,c,fruit"]
    for row, (kind, point) in enumerate(zip(kinds, points, strict=True)):
        label = WORDS[kind] if row in given else ""
        lines.append(f"row-{row}," + ",".join(f"{value:.4f}" for value in point) + f",{label}")
    path.write_text("\n".join(lines) + "\n")
    return [WORDS[kind] for kind in kinds]


def options(**fit):
    """Return options that make fits quick."""
    return LabelOptions(fit=FitOptions(**{"label": "fruit", "id": "name", "networks": 1, "map": "pca"} | fit))


class Client:
    """What a browser would send, without one."""

    def __init__(self, project, gate):
        self.project, self.gate, self.port = project, gate, gate.port
        self.cookie = gate.redeem(gate.new_token()).split(";")[0]
        self.window = "w1"
        self.before_end = []  # what is to be done while the server still answers

    @property
    def origin(self):
        """Where the server is."""
        return f"http://127.0.0.1:{self.port}"

    def address(self):
        """Return an address that a browser may open once."""
        return f"{self.origin}/?token={self.gate.new_token()}"

    def ask(self, method, path, body=None, *, cookie=True, **headers):
        """Return the status, the headers and the content of an answer."""
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        if cookie:
            headers["Cookie"] = self.cookie
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        if method == "POST":
            headers.setdefault("Content-Type", "application/json")
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body=body, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def get(self, path):
        """Return what JSON holds that must come."""
        status, _, content = self.ask("GET", path)
        assert status == 200, content
        return json.loads(content)

    def post(self, path, status=200, **body):
        """Send an action, with a key and a window unless they are said."""
        body = {"window": self.window, "key": uuid.uuid4().hex} | body
        found, _, content = self.ask("POST", path, body)
        assert found == status, content
        return json.loads(content)

    def label(self, rows, label, status=200, **more):
        """Label rows, knowing all that happened so far."""
        seen = self.project.session.state.version
        return self.post(
            "/api/label", status, **({"rows": rows, "label": label, "way": "map", "seen": seen} | more)
        )

    def wait_for_model(self, event=None):
        """Wait until a model knows all labels so far, and return it."""
        session = self.project.session
        event = session.state.version if event is None else event
        end = time.monotonic() + 60
        while session.model is None or session.model.event < event or session.trainer.state.running:
            assert time.monotonic() < end, session.training()
            time.sleep(0.02)
        return session.model


@contextmanager
def served(path, chosen=None, port=0):
    """Yield a client of a project that is served from a thread."""
    project = open_project(path, chosen or options(), SilentObserver())
    with listening(Place(port=port)) as socket:
        port = socket.getsockname()[1]
        gate = Gate(port, allowed_hosts("127.0.0.1", port))
        config = uvicorn.Config(
            make_app(project, gate), log_level="warning", lifespan="off", timeout_graceful_shutdown=1
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [socket]}, daemon=True)
        project.start()
        thread.start()
        while not server.started:
            time.sleep(0.01)
        client = Client(project, gate)
        try:
            yield client
            for act in client.before_end:
                act()
        finally:
            project.session.broadcast.close()
            server.should_exit = True
            thread.join()
            project.stop()
