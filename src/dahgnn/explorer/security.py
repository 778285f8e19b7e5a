"""Who may talk to the labelling application: one person, in a browser on this machine.

The address that a person opens holds a token, which works once: the browser gets a cookie for it, which no
script can read and no other site can send. Every request, whatever it asks for, must name a host from a list
(so that a name that somebody points at this machine reaches nothing), must not come from another site, and
must have that cookie. Bodies are JSON, and bounded.
"""

from __future__ import annotations

import hmac
import secrets
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}
# A loop around a million rows names each of them.
MOST_BYTES = 16 * 2**20
_HTTP = 80
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_ALLOWED_SITES = ("same-origin", "none")

Scope = dict[str, Any]
Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


@dataclass(eq=False)
class Gate:
    """What a browser must show, and the tokens that are still good.

    Parameters
    ----------
    port : int
        The port of the server. It is in the name of the cookie, as browsers send a cookie to all ports.
    hosts : tuple of str
        The names, with the port, by which the server may be called.
    """

    port: int
    hosts: tuple[str, ...]
    _secret: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    _tokens: set[str] = field(default_factory=set, repr=False)

    @property
    def cookie_name(self) -> str:
        """The name of the cookie."""
        return f"dahgnn-{self.port}"

    def new_token(self) -> str:
        """Return a token that works once."""
        token = secrets.token_urlsafe(24)
        self._tokens.add(token)
        return token

    def redeem(self, token: str) -> str | None:
        """Return the header that sets the cookie, or None if the token is not good."""
        found = [each for each in self._tokens if hmac.compare_digest(each.encode(), token.encode())]
        if not found:
            return None
        self._tokens.discard(found[0])
        return f"{self.cookie_name}={self._secret}; Path=/; HttpOnly; SameSite=Strict"

    def refuse(self, headers: Mapping[str, str], method: str) -> tuple[int, str] | None:
        """Return the status and the sentence by which a request is refused, or None if it may pass so far."""
        if headers.get("host", "").lower() not in self.hosts:
            return 421, "This server is not called by that name."
        if headers.get("sec-fetch-site", "none") not in _ALLOWED_SITES:
            return 403, "Another site may not ask this."
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in {f"http://{host}" for host in self.hosts}:
            return 403, "Another site may not ask this."
        if method not in ("GET", "HEAD", "POST"):
            return 405, "Only GET and POST are understood."
        if method == "POST" and not headers.get("content-type", "").lower().startswith("application/json"):
            return 415, "What is sent must be JSON."
        if _length(headers) > MOST_BYTES:
            return 413, f"What is sent must have at most {MOST_BYTES:,} bytes."
        return None

    def knows(self, headers: Mapping[str, str]) -> bool:
        """Whether a request has the cookie."""
        for part in headers.get("cookie", "").split(";"):
            name, _, value = part.strip().partition("=")
            if name == self.cookie_name and hmac.compare_digest(value.encode(), self._secret.encode()):
                return True
        return False


def _length(headers: Mapping[str, str]) -> int:
    text = headers.get("content-length", "0")
    return int(text) if text.isdecimal() else MOST_BYTES + 1


def allowed_hosts(host: str, port: int) -> tuple[str, ...]:
    """Return the names by which a server that listens at ``host`` may be called, with its port."""
    names: Iterable[str] = _LOOPBACK
    if not is_loopback(host):
        names = (*_LOOPBACK, in_address(host), socket.gethostname(), socket.getfqdn(), *_addresses())
    allowed = [f"{name.lower()}:{port}" for name in names]
    if port == _HTTP:  # which browsers do not name
        allowed += [name.lower() for name in names]
    return tuple(dict.fromkeys(allowed))


def in_address(host: str) -> str:
    """Return a host as it stands in an address: one of IPv6 is in brackets."""
    return f"[{host}]" if ":" in host else host


def outward_address() -> str | None:
    """Return the address of this machine that others reach, if it has one; nothing is sent to find it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # an address that nobody has
        except OSError:
            return None
        return str(probe.getsockname()[0])


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a host."""
    return host in ("127.0.0.1", "localhost", "::1")


def _addresses() -> list[str]:
    try:
        found = [str(at[0]) for *_, at in socket.getaddrinfo(socket.gethostname(), None)]
    except OSError:
        found = []
    outward = outward_address()
    return [in_address(address) for address in (*found, *([outward] if outward else []))]


def text_headers(scope: Scope) -> dict[str, str]:
    """Return the headers of a request; of several of one name the last."""
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
