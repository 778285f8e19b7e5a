"""The labelling application over HTTP: requests in, actions and answers out.

Paths from a page never reach the file system: rows are numbers, assets are looked up by name among those of
the package, and where results go was said when the program started.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from dahgnn.explorer import answers
from dahgnn.explorer.events import Event, NothingToUndoError
from dahgnn.explorer.export import as_csv, as_parquet
from dahgnn.explorer.journal import ConflictError
from dahgnn.explorer.journal_file import JournalError
from dahgnn.explorer.pictures import as_png
from dahgnn.explorer.project import Project
from dahgnn.explorer.requests import BadRequestError, Body
from dahgnn.explorer.security import HEADERS, MOST_BYTES, Gate, Message, Receive, Scope, Send, text_headers
from dahgnn.explorer.session import WAYS, Action
from dahgnn.report.html import clean_values, environment

_TYPES = {".js": "text/javascript", ".css": "text/css"}
# What the page shares with the pages of reports.
_SHARED = ("map", "page", "elements")
# Pictures are asked for in pixels a side, between these.
_SIDES = (16, 1024)
_NO_COOKIE = (
    "This browser may not see the project. Open the address that the program printed; it works once, and "
    "Enter in the terminal prints another."
)

Answer = dict[str, Any]


def make_app(project: Project, gate: Gate) -> Guard:
    """Return the application, behind its gate."""
    pages = Pages(project)
    routes = [
        Route("/", pages.page),
        Route("/favicon.ico", lambda _: Response(status_code=204)),
        Route("/assets/{name}", pages.asset),
        Route("/api/events", pages.events),
        Route("/api/map/places", pages.places),
        Route("/api/map/rows", pages.map_rows),
        Route("/api/rows/{row:int}/picture", pages.picture),
        Route("/api/export.csv", pages.export_csv),
        Route("/api/export.parquet", pages.export_parquet),
        *(Route(path, _answering(act)) for path, act in pages.gets.items()),
        *(Route(path, _answering(act, posts=True), methods=["POST"]) for path, act in pages.posts.items()),
    ]
    return Guard(Starlette(routes=routes), gate)


class Guard:
    """Let a request pass only if the gate does, and give every answer the headers that protect it."""

    def __init__(self, app: Starlette, gate: Gate) -> None:
        self._app, self._gate = app, gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)  # type: ignore[arg-type]
            return

        async def protected(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
                message = {**message, "headers": [*message.get("headers", []), *added]}
            await send(message)

        answer = self._answer(scope)
        await (answer or self._app)(scope, receive, protected)  # type: ignore[arg-type]

    def _answer(self, scope: Scope) -> Response | None:
        """Return the answer to a request that may not pass, or that brings a token."""
        headers = text_headers(scope)
        refusal = self._gate.refuse(headers, scope["method"])
        if refusal is not None:
            return JSONResponse({"error": refusal[1]}, refusal[0])
        request = Request(scope)
        if scope["path"] == "/" and "token" in request.query_params:
            cookie = self._gate.redeem(request.query_params["token"])
            if cookie is not None:
                return RedirectResponse("/", 303, {"Set-Cookie": cookie})
        if not self._gate.knows(headers):
            if scope["path"] == "/":
                return PlainTextResponse(_NO_COOKIE + "\n", 401)
            return JSONResponse({"error": _NO_COOKIE}, 401)
        if "token" in request.query_params:
            return RedirectResponse("/", 303)  # it was used before, by this browser
        return None


def _answering(act: Callable[[Request, Body], Answer], *, posts: bool = False) -> Callable[..., Any]:
    """Return an endpoint that answers in JSON, and turns what goes wrong into a status and a sentence."""

    async def endpoint(request: Request) -> Response:
        try:
            body = Body(await _content(request) if posts else {})
            answer = await run_in_threadpool(act, request, body)
        except BadRequestError as error:
            return JSONResponse({"error": str(error)}, error.status)
        except ConflictError as error:
            return JSONResponse(clean_values(act.__self__.conflict(error)), 409)  # type: ignore[attr-defined]
        except NothingToUndoError as error:
            return JSONResponse({"error": str(error)}, 404)
        except JournalError as error:
            return JSONResponse({"error": str(error)}, 507)
        except OSError as error:
            reason = error.strerror or str(error)
            return JSONResponse(clean_values({"error": f"It could not be written ({reason})."}), 507)
        except ValueError as error:
            return JSONResponse(clean_values({"error": str(error)}), 422)
        return JSONResponse(clean_values(answer))

    return endpoint


async def _content(request: Request) -> dict[str, Any]:
    """Return the JSON object that a request holds, and read no more than is allowed."""
    content = bytearray()
    try:
        async for chunk in request.stream():
            content += chunk
            if len(content) > MOST_BYTES:
                raise BadRequestError(f"What is sent must have at most {MOST_BYTES:,} bytes.", 413)
        found = json.loads(content)
    except (ValueError, RecursionError, ClientDisconnect) as error:
        raise BadRequestError("What is sent must be JSON.", 400) from error
    if not isinstance(found, dict):
        raise BadRequestError("What is sent must be a JSON object.", 400)
    return found


@cache
def _assets() -> Mapping[str, bytes]:
    """Return the scripts and styles of the page, by name."""
    own = resources.files("dahgnn.explorer").joinpath("assets").iterdir()
    shared = resources.files("dahgnn.report").joinpath("assets").iterdir()
    files = [*own, *(file for file in shared if file.name.startswith(_SHARED))]
    return {file.name: file.read_bytes() for file in files if file.is_file()}


class Pages:
    """What the server answers, by path."""

    def __init__(self, project: Project) -> None:
        self._project, self._session = project, project.session
        self.gets: Mapping[str, Callable[[Request, Body], Answer]] = {
            "/api/start": self.start,
            "/api/rows/{row:int}/card": self.card,
            "/api/rows/{row:int}/why": self.why,
            "/api/rows/{row:int}/tip": self.tip,
            "/api/doubtful": self.doubtful,
            "/api/changed": self.changed,
            "/api/find": self.find,
        }
        self.posts: Mapping[str, Callable[[Request, Body], Answer]] = {
            "/api/next": self.next,
            "/api/label": self.label,
            "/api/skip": self.skip,
            "/api/keep": self.keep,
            "/api/undo": self.undo,
            "/api/sheet": self.sheet,
            "/api/train": self.train,
            "/api/export-fit": self.export_fit,
        }

    # --- The page itself, and large answers ---

    def page(self, _: Request) -> Response:
        """Return the page."""
        template = environment("dahgnn.explorer").get_template("label_page.html")
        return Response(template.render(title=self._session.rows.path.resolve().name), media_type="text/html")

    def asset(self, request: Request) -> Response:
        """Return a script or style of the package."""
        name = request.path_params["name"]
        content, kind = _assets().get(name), _TYPES.get("." + name.rpartition(".")[2])
        if content is None or kind is None:
            return JSONResponse({"error": "There is no such file."}, 404)
        return Response(content, media_type=kind)

    async def events(self, _: Request) -> Response:
        """Return the stream of what happens."""
        return StreamingResponse(self._session.broadcast.listen(), media_type="text/event-stream")

    def places(self, _: Request) -> Response:
        """Return where rows stand on the map: all x, then all y, as float32."""
        return Response(self._project.places.astype("<f4").T.tobytes(), media_type="application/octet-stream")

    def map_rows(self, _: Request) -> Response:
        """Return what is known of all rows."""
        return Response(answers.map_rows(self._session), media_type="application/octet-stream")

    def picture(self, request: Request) -> Response:
        """Return the picture of a row as PNG."""
        pictures, row = self._session.rows.pictures, request.path_params["row"]
        text = request.query_params.get("side", "320")
        side = min(max(int(text), _SIDES[0]), _SIDES[1]) if text.isdecimal() and len(text) < 6 else 320
        if pictures is None or not pictures.has(row):
            return JSONResponse({"error": "This row has no picture."}, 404)
        try:
            content = as_png(pictures.pixels(row, side))
        except ValueError as error:
            return JSONResponse(clean_values({"error": str(error)}), 404)
        return Response(content, media_type="image/png")

    def export_csv(self, _: Request) -> Response:
        """Return the labels of all rows as CSV."""
        return self._download(as_csv(answers.exported(self._session)), "text/csv; charset=utf-8", ".csv")

    def export_parquet(self, _: Request) -> Response:
        """Return the labels of all rows as Parquet."""
        content = as_parquet(answers.exported(self._session))
        return self._download(content, "application/vnd.apache.parquet", ".parquet")

    def _download(self, content: bytes, kind: str, ending: str) -> Response:
        named = {"Content-Disposition": f'attachment; filename="labels{ending}"'}
        return Response(content, headers=named, media_type=kind)

    # --- What is asked ---

    def start(self, _: Request, __: Body) -> Answer:
        """Return what a window needs to begin."""
        return answers.start(self._session, self._project.describe())

    def card(self, request: Request, _: Body) -> Answer:
        """Return the card of a row that somebody chose."""
        return answers.card(self._session, self._row(request), "map")

    def why(self, request: Request, _: Body) -> Answer:
        """Return what is behind the guess of a row."""
        return answers.why(self._session, self._row(request))

    def tip(self, request: Request, _: Body) -> Answer:
        """Return what is shown at the pointer."""
        return answers.tip(self._session, self._row(request))

    def doubtful(self, _: Request, __: Body) -> Answer:
        """Return doubtful labels."""
        return answers.doubtful(self._session)

    def changed(self, _: Request, __: Body) -> Answer:
        """Return the rows whose class has changed."""
        return answers.changed(self._session)

    def find(self, request: Request, _: Body) -> Answer:
        """Return the row of an id."""
        row = answers.find(self._session, request.query_params.get("id", ""))
        if row is None:
            raise BadRequestError("No row has this id.", 404)
        return {"row": row}

    def sheet(self, _: Request, body: Body) -> Answer:
        """Return what is inside a loop."""
        return answers.sheet(self._session, np.array(self._rows(body)))

    def _row(self, request: Request) -> int:
        row = int(request.path_params["row"])
        if not 0 <= row < len(self._session.rows):
            raise BadRequestError("There is no such row.", 404)
        return row

    def _rows(self, body: Body) -> list[int]:
        return body.numbers("rows", below=len(self._session.rows))

    # --- What is done ---

    def next(self, _: Request, body: Body) -> Answer:
        """Hand out the next rows."""
        have = body.numbers("have", below=len(self._session.rows), least=0, most=20)
        found = self._session.next_rows(body.text("window"), have, body.number("count", 1, 5))
        cards = [answers.card(self._session, row, way) for row, way in found]
        return {"cards": cards, "left": len(self._session.rows) - self._session.labels.n_labelled}

    def label(self, _: Request, body: Body) -> Answer:
        """Label rows."""
        session = self._session
        label = None if body.is_null("label") else body.text("label", longest=10_000)
        known = len(session.labels.classes)
        event = session.label(self._action(body), label)
        told = self._tell(event)
        return {
            "event": event.number,
            "version": told["version"],
            "classes": told["classes"],
            "labelled": told["labelled"],
            "new_class": len(told["classes"]) > known,
        }

    def skip(self, _: Request, body: Body) -> Answer:
        """Skip a row."""
        event = self._session.skip(self._action(body, one=True))
        return {"event": event.number, "version": self._session.state.version}

    def keep(self, _: Request, body: Body) -> Answer:
        """Keep a doubtful label."""
        event = self._session.keep(self._action(body, one=True))
        return {"event": event.number, "version": self._tell(event)["version"]}

    def undo(self, _: Request, body: Body) -> Answer:
        """Take an action back."""
        number = None if body.is_null("event") else body.number("event", 1, 2**62)
        event = self._session.undo(body.text("window"), body.text("key"), number)
        told = self._tell(event)
        return {
            "event": event.number,
            "undone": event.undoes,
            **{name: told[name] for name in ("version", "rows", "labels", "labelled", "classes")},
        }

    def _action(self, body: Body, *, one: bool = False) -> Action:
        way = body.text("way", default="")
        if way and way not in WAYS:
            raise BadRequestError(f"The field 'way' must be one of {', '.join(WAYS)}.")
        rows = [body.number("row", 0, len(self._session.rows) - 1)] if one else self._rows(body)
        return Action(
            window=body.text("window"),
            key=body.text("key"),
            rows=rows,
            way=way,
            seen=body.number("seen", 0, 2**62),
        )

    def _tell(self, event: Event) -> Answer:
        with self._session.lock:
            told = answers.told_of_event(self._session, event)
        self._session.broadcast.publish("label", told)
        return told

    def conflict(self, error: ConflictError) -> Answer:
        """Return what a window is told whose rows were changed by another one."""
        session = self._session
        with session.lock:
            rows = [session.rows.numbers[name] for name in error.rows[:100]]
            found = [
                {
                    "row": row,
                    "id": session.rows.ids[row],
                    "label": session.labels.of(row),
                    "event": session.state.last_event(session.rows.ids[row]),
                }
                for row in rows
            ]
            return {"error": str(error), "conflicts": found, "version": session.state.version}

    def train(self, _: Request, __: Body) -> Answer:
        """Train now."""
        if not self._session.can_train():
            raise BadRequestError("Labels of two classes are needed before a model can be trained.", 409)
        self._session.trainer.ask()
        return {"training": self._session.training()}

    def export_fit(self, _: Request, __: Body) -> Answer:
        """Write the folder of a fit."""
        if not self._session.can_train():
            raise BadRequestError("Labels of two classes are needed before there is a fit.", 409)
        return {"folder": str(self._project.folder), "files": self._project.write_fit()}
