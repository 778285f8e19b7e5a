"""Tell all open windows what happens, from any thread, as server-sent events."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from typing import Any

from dahgnn.report.html import clean_values

# A comment is sent after so many seconds of silence, so that nobody in between takes the connection for dead.
_SILENCE = 15.0
# A window that has not heard so many events is gone, or asleep: it asks for everything when it is back.
_MOST_WAITING = 1_000
_RETRY = "retry: 1000\n\n"


class Broadcast:
    """Events for all that listen."""

    def __init__(self) -> None:
        self._listeners: dict[asyncio.Queue[str | None], asyncio.AbstractEventLoop] = {}
        self._lock = threading.Lock()
        self._closed = False

    def publish(self, kind: str, content: dict[str, Any]) -> None:
        """Send an event to all windows; callable from any thread."""
        text = f"event: {kind}\ndata: {json.dumps(clean_values(content), allow_nan=False)}\n\n"
        self._send(text)

    def close(self) -> None:
        """End all streams."""
        self._closed = True
        self._send(None)

    def _send(self, text: str | None) -> None:
        with self._lock:
            listeners = list(self._listeners.items())
        for queue, loop in listeners:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._put, queue, text)

    def _put(self, queue: asyncio.Queue[str | None], text: str | None) -> None:
        if queue.qsize() >= _MOST_WAITING:
            text = None
            self._forget(queue)
        queue.put_nowait(text)

    def _forget(self, queue: asyncio.Queue[str | None]) -> None:
        with self._lock:
            self._listeners.pop(queue, None)

    async def listen(self) -> AsyncIterator[str]:
        """Yield the text of events from now on, until the window or the server goes."""
        queue: asyncio.Queue[str | None] = asyncio.Queue()
        with self._lock:
            self._listeners[queue] = asyncio.get_running_loop()
        try:
            yield _RETRY
            while not self._closed:
                try:
                    text = await asyncio.wait_for(queue.get(), _SILENCE)
                except TimeoutError:
                    yield ": still here\n\n"
                    continue
                if text is None:
                    return
                yield text
        finally:
            self._forget(queue)
