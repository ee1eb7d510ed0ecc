"""The addresses of the console, and what each shows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib.resources import files

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route

from ...boundary.sandbox.spec import DoctorFinding
from ...core.dataclass import dataclass
from ...core.errors import ToolcribError
from ...core.threads import shared_threads
from ...record.connection import Where
from ...record.rows import ApprovalRow
from ...record.state import StateFolder
from .access import FORM, PERSON, FormRefused, read_form
from .calls import OpenJournal, call_page, calls_page, read_call, read_calls, undo_call
from .inbox import answer_request, inbox_page, read_inbox
from .live import RecordWatch
from .machine import health_page, read_servers, servers_page
from .page import VIEWS, Frame, page, refused
from .rules import Build, read_rules, rules_page

STATIC = {"console.css": "text/css", "console.js": "text/javascript", "icon.svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True)
class ConsoleSources:
    """What the console shows, as functions that read it. They may block.

    `records` are all records with calls that may wait, `state` is the folder of this workspace, and `journal` opens its
    list of changes. `build` makes a toolbox of the workspace to look at, `findings` are those of `toolcrib doctor`.
    `continue_with` returns the command with which an answered request goes on.
    """

    records: Callable[[], Sequence[Where]]
    state: Callable[[], StateFolder]
    journal: OpenJournal
    build: Build
    findings: Callable[[], Iterable[DoctorFinding]] = list
    continue_with: Callable[[ApprovalRow], str | None] = lambda row: None

    def record(self) -> Where:
        """Return the record of this workspace."""
        return self.state().record


class ConsoleViews:
    """The pages."""

    def __init__(self, sources: ConsoleSources, watch: RecordWatch) -> None:
        self._sources, self._watch = sources, watch

    def app(self) -> Starlette:
        """Return the application; all addresses are below one folder."""
        routes = [
            Route("/", self.start),
            Route("/inbox", self.inbox),
            Route("/answer", self.answer, methods=["POST"]),
            Route("/calls", self.calls),
            Route("/call", self.call),
            Route("/undo", self.undo, methods=["POST"]),
            Route("/rules", self.rules),
            Route("/servers", self.servers),
            Route("/health", self.health),
            Route("/views", self.views),
            Route("/events", self.events),
            *(Route(f"/{name}", self.static) for name in STATIC),
        ]
        return Starlette(
            routes=[Mount("/{place}", routes=routes)],
            exception_handlers={FormRefused: self.refuse, ToolcribError: self.fail},
        )

    async def start(self, request: Request) -> Response:
        """Lead to the inbox."""
        return RedirectResponse("inbox", 303)

    async def inbox(self, request: Request) -> Response:
        """Show what waits."""
        return await self._inbox(request)

    async def answer(self, request: Request) -> Response:
        """Answer a call that waits, and show what waits then."""
        given = await read_form(request)
        said = await shared_threads.run(
            lambda: answer_request(given, self._sources.records(), self._sources.continue_with, request.scope[PERSON])
        )
        return await self._inbox(request, said)

    async def calls(self, request: Request) -> Response:
        """Show a page of calls."""
        given = dict(request.query_params)
        return await self._shown(
            request, "calls", lambda frame: calls_page(read_calls(self._sources.record(), given), frame)
        )

    async def call(self, request: Request, said: str = "", ident: str | None = None) -> Response:
        """Show one call."""
        wanted = request.query_params.get("id", "") if ident is None else ident
        return await self._shown(
            request, "calls",
            lambda frame: call_page(read_call(self._sources.record(), self._sources.journal, wanted), frame), said,
        )  # fmt: skip

    async def undo(self, request: Request) -> Response:
        """Take back what a call changed."""
        ident = (await read_form(request)).get("id", "")
        record = self._sources.record()
        said = await shared_threads.run(undo_call, record, self._sources.journal, ident, request.scope[PERSON])
        return await self.call(request, said, ident)

    async def rules(self, request: Request) -> Response:
        """Show the rules, and try one."""
        given, sources = dict(request.query_params), self._sources
        return await self._shown(
            request, "rules", lambda frame: rules_page(read_rules(sources.build, sources.record(), given), frame)
        )

    async def servers(self, request: Request) -> Response:
        """Show the MCP servers."""
        return await self._shown(
            request, "servers", lambda frame: servers_page(read_servers(self._sources.build), frame)
        )

    async def health(self, request: Request) -> Response:
        """Show what works on this machine."""
        return await self._shown(request, "health", lambda frame: health_page(self._sources.findings(), frame))

    async def views(self, request: Request) -> Response:
        """Show the views alone: for pages of which nothing else is kept up to date."""
        here = request.query_params.get("here", "")
        return await self._shown(request, here, lambda frame: page(frame, VIEWS.get(here, "Toolcrib")))

    async def events(self, request: Request) -> Response:
        """Say when something has changed."""
        return StreamingResponse(self._watch.events(), media_type="text/event-stream")

    async def static(self, request: Request) -> Response:
        """Send the script, the style or the icon."""
        name = request.url.path.rpartition("/")[2]
        return Response(files("toolcrib.serve.console").joinpath("static", name).read_bytes(), media_type=STATIC[name])

    async def refuse(self, request: Request, error: Exception) -> Response:
        """Answer a form that is not ours."""
        return HTMLResponse(refused("Refused", str(error)), 403)

    async def fail(self, request: Request, error: Exception) -> Response:
        """Answer where something cannot be read."""
        return HTMLResponse(refused("This cannot be shown", str(error)), 500)

    async def _inbox(self, request: Request, said: str = "") -> Response:
        return await self._shown(
            request, "inbox", lambda frame: inbox_page(read_inbox(self._sources.records()), frame), said
        )

    async def _shown(self, request: Request, view: str, show: Callable[[Frame], str], said: str = "") -> Response:
        """Make a page, in a thread."""

        def work() -> str:
            waiting = len(read_inbox(self._sources.records(), answered_too=False).waiting)
            return show(Frame(view, request.scope[FORM], waiting, said))

        return HTMLResponse(await shared_threads.run(work))
