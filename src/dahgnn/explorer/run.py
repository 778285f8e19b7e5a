"""Serve a project to a browser on this machine, until Ctrl-C."""

from __future__ import annotations

import contextlib
import select
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType

import uvicorn

from dahgnn.checks import bad_value
from dahgnn.explorer.project import Project
from dahgnn.explorer.security import Gate, allowed_hosts, in_address, is_loopback, outward_address
from dahgnn.explorer.server import make_app


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where to listen.

    Parameters
    ----------
    host : str
        An address of this machine. Others than loopback let other machines in.
    port : int
        0 is any that is free.
    known_risk : bool
        Whether the user knows what another host than loopback means.
    """

    host: str = "127.0.0.1"
    port: int = 0
    known_risk: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.port < 2**16:
            raise bad_value("port", "label", f"between 0 and {2**16 - 1}", self.port)
        if not is_loopback(self.host) and not self.known_risk:
            raise ValueError(
                f"With --host {self.host} other machines can reach the project, and whoever listens in "
                "between sees all of it: nothing is encrypted. If you know that, say so with --i-know. "
                "Safer is a tunnel: ssh -L PORT:127.0.0.1:PORT this-machine."
            )


def serve(project: Project, place: Place, tell: Callable[[str], None], *, browser: bool = True) -> None:
    """Serve until Ctrl-C or SIGTERM.

    Parameters
    ----------
    project : Project
        Open, and not started.
    place : Place
        Where to listen.
    tell : callable
        Hears the address that a person is to open, and what else there is to say.
    browser : bool
        Whether to open a browser there.
    """
    with listening(place) as sockets:
        port = sockets.getsockname()[1]
        gate = Gate(port, allowed_hosts(place.host, port))
        server = _Server(
            project,
            uvicorn.Config(
                make_app(project, gate),
                log_level="warning",
                access_log=False,
                server_header=False,
                date_header=False,
                timeout_graceful_shutdown=2,
                ws="none",
                lifespan="off",
            ),
        )
        everywhere = place.host in ("0.0.0.0", "::")  # noqa: S104, whoever asks for it says that he knows
        name = in_address((outward_address() or "127.0.0.1") if everywhere else place.host)

        def address() -> str:
            return f"http://{name}:{port}/?token={gate.new_token()}"

        project.start()
        try:
            _invite(address(), tell, browser=browser)
            another = _answering_enter(lambda: tell(f"Another address, which works once: {address()}"))
            with another, contextlib.suppress(KeyboardInterrupt):  # which is how one ends, and no mishap
                server.run(sockets=[sockets])
        finally:
            project.stop()


class _Server(uvicorn.Server):
    """A server that ends the streams of events when it is told to end: it would wait for them else."""

    def __init__(self, project: Project, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._project = project

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to end."""
        self._project.session.broadcast.close()
        super().handle_exit(sig, frame)


@contextlib.contextmanager
def listening(place: Place) -> Iterator[socket.socket]:
    """Yield a socket that listens, or say why it cannot."""
    kind = socket.AF_INET6 if ":" in place.host else socket.AF_INET
    with socket.socket(kind, socket.SOCK_STREAM) as made:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind((place.host, place.port))
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise OSError(
                f"Nothing can listen at {place.host}:{place.port} ({reason}). Choose another place."
            ) from error
        made.listen(128)
        yield made


def _invite(address: str, tell: Callable[[str], None], *, browser: bool) -> None:
    tell(f"Open {address}")
    tell("The address works once. Enter prints another, and Ctrl-C ends; all labels are kept.")
    if browser:
        threading.Thread(target=_open, args=(address,), daemon=True).start()


def _open(address: str) -> None:
    with contextlib.suppress(Exception):  # there is an address to open by hand
        webbrowser.open(address)


@contextlib.contextmanager
def _answering_enter(act: Callable[[], None]) -> Iterator[None]:
    """Do something at each line of the terminal within the block."""
    ended = threading.Event()

    def listen() -> None:
        while not ended.is_set():
            ready, _, _ = select.select([sys.stdin], [], [], 0.5)
            if ready:
                if not sys.stdin.readline():
                    return
                act()

    if sys.stdin is not None and sys.stdin.isatty():
        threading.Thread(target=listen, name="terminal", daemon=True).start()
    try:
        yield
    finally:
        ended.set()
