"""The addresses of the console, and what each shows."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from importlib.resources import files
from secrets import token_hex
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route

from ...boundary.sandbox.spec import DoctorFinding
from ...core.dataclass import dataclass
from ...core.errors import ConfigError, ToolcribError
from ...core.threads import shared_threads
from ...record.connection import Where
from ...record.rows import ApprovalRow
from ...record.state import StateFolder
from .access import FORM, PERSON, FormRefused, read_form
from .calls import OpenJournal, call_page, calls_page, export_calls, read_call, read_calls, undo_call
from .health import health_page, read_limits
from .inbox import answer_request, answer_several, count_waiting, inbox_page, read_inbox
from .jobs import OpenJobs, act_on_job, job_page, jobs_page, read_job, read_jobs, send_by_worker
from .live import RecordWatch
from .page import VIEWS, Frame, page, refused
from .rules import Build, Untrusted, act_on_rules, read_rules, rules_page
from .schedules import OpenSchedules, act_on_schedule, read_schedules, schedules_page
from .servers import Open, act_on_server, read_servers, servers_page
from .sessions import act_on_session, read_session, read_sessions, session_page, sessions_page
from .tool import call_tool, read_tool, tool_page

STATIC = {"console.css": "text/css", "console.js": "text/javascript", "icon.svg": "image/svg+xml"}


def no_jobs() -> Any:
    """Raise ConfigError: there is no room for jobs."""
    raise ConfigError("this installation has no jobs")


@dataclass(frozen=True, slots=True)
class ConsoleSources:
    """What the console shows, as functions that read it. They may block.

    `records` are all records with calls that may wait, `state` is the folder of this workspace, and `journal` opens its
    list of changes. `build` makes a toolbox of the workspace to look at, `open` one to call tools. `findings` are those
    of `toolcrib doctor`.
    `continue_with` returns the command with which an answered request goes on. `jobs` and `schedules` open those of the
    workspace. `untrusted` reads the files that a person may trust.
    """

    records: Callable[[], Sequence[Where]]
    state: Callable[[], StateFolder]
    journal: OpenJournal
    build: Build
    open: Open
    findings: Callable[[], Iterable[DoctorFinding]] = list
    continue_with: Callable[[ApprovalRow], str | None] = lambda row: None
    jobs: OpenJobs = no_jobs
    schedules: OpenSchedules = no_jobs
    untrusted: Untrusted = list

    def record(self) -> Where:
        """Return the record of this workspace."""
        return self.state().record


class ConsoleViews:
    """The pages."""

    def __init__(self, sources: ConsoleSources, watch: RecordWatch) -> None:
        self._sources, self._watch = sources, watch
        self._session = f"console-{token_hex(4)}"

    def app(self) -> Starlette:
        """Return the application; all addresses are below one folder."""
        routes = [
            Route("/", self.start),
            Route("/inbox", self.inbox),
            Route("/answer", self.answer, methods=["POST"]),
            Route("/answers", self.answers, methods=["POST"]),
            Route("/calls", self.calls),
            Route("/call", self.call),
            Route("/export", self.export),
            Route("/undo", self.undo, methods=["POST"]),
            Route("/sessions", self.sessions),
            Route("/session", self.session, methods=["GET", "POST"]),
            Route("/jobs", self.jobs),
            Route("/job", self.job, methods=["GET", "POST"]),
            Route("/schedules", self.schedules),
            Route("/schedule", self.schedule, methods=["POST"]),
            Route("/rules", self.rules, methods=["GET", "POST"]),
            Route("/servers", self.servers),
            Route("/server", self.server, methods=["POST"]),
            Route("/tool", self.tool, methods=["GET", "POST"]),
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
        return await self._answered(request, answer_request)

    async def answers(self, request: Request) -> Response:
        """Answer several calls, and show what waits then."""
        return await self._answered(request, answer_several)

    async def _answered(self, request: Request, do: Callable[..., str]) -> Response:
        given, sources = await read_form(request), self._sources
        said = await shared_threads.run(
            lambda: do(given, sources.records(), sources.continue_with, request.scope[PERSON])
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
        given = dict(request.query_params) if ident is None else {"id": ident}
        sources = self._sources
        return await self._shown(
            request, "calls",
            lambda frame: call_page(read_call(sources.state(), sources.build, sources.journal, given), frame), said,
        )  # fmt: skip

    async def export(self, request: Request) -> Response:
        """Send the calls of a list as lines of JSON."""
        lines = await shared_threads.run(export_calls, self._sources.record(), dict(request.query_params))
        headers = {"Content-Disposition": "attachment; filename=calls.jsonl"}
        return StreamingResponse(lines, media_type="application/jsonl", headers=headers)

    async def undo(self, request: Request) -> Response:
        """Take back what a call changed."""
        ident = (await read_form(request)).get("id", "")
        record = self._sources.record()
        said = await shared_threads.run(undo_call, record, self._sources.journal, ident, request.scope[PERSON])
        return await self.call(request, said, ident)

    async def sessions(self, request: Request) -> Response:
        """Show the sessions of the agent."""
        return await self._shown(
            request, "sessions", lambda frame: sessions_page(read_sessions(self._sources.state()), frame)
        )

    async def session(self, request: Request) -> Response:
        """Show one session, after doing what a form says."""
        given, said, sources = dict(request.query_params), "", self._sources
        if request.method == "POST":
            given = await read_form(request)
            who = sources.record(), request.scope[PERSON]
            if given.get("act") == "work":
                said = await _said(send_by_worker, given, sources.jobs, sources.build, *who)
            else:
                said = await _said(act_on_session, given, sources.state(), *who)
        return await self._shown(
            request, "sessions", lambda frame: session_page(read_session(sources.state(), given), frame), said
        )

    async def jobs(self, request: Request) -> Response:
        """Show the jobs."""
        found = await read_jobs(self._sources.jobs)
        return await self._shown(request, "jobs", lambda frame: jobs_page(found, frame))

    async def job(self, request: Request) -> Response:
        """Show one job, after doing what a form says."""
        given, said, sources = dict(request.query_params), "", self._sources
        if request.method == "POST":
            given = await read_form(request)
            said = await _said(act_on_job, given, sources.jobs, sources.record(), request.scope[PERSON])
        found = await read_job(sources.jobs, given.get("id", ""))
        return await self._shown(request, "jobs", lambda frame: job_page(found, frame), said)

    async def schedules(self, request: Request, said: str = "") -> Response:
        """Show the schedules."""
        return await self._shown(
            request, "schedules", lambda frame: schedules_page(read_schedules(self._sources.schedules), frame), said
        )

    async def schedule(self, request: Request) -> Response:
        """Do what a form says with a schedule, and show all."""
        given, sources = await read_form(request), self._sources
        said = await _said(act_on_schedule, given, sources.schedules, sources.record(), request.scope[PERSON])
        return await self.schedules(request, said)

    async def rules(self, request: Request) -> Response:
        """Show the rules and try one, after doing what a form says."""
        given, said, sources = dict(request.query_params), "", self._sources
        if request.method == "POST":
            form, given = await read_form(request), {}
            who = sources.record(), request.scope[PERSON]
            said = await _said(act_on_rules, form, sources.build, sources.untrusted, *who)

        def show(frame: Frame) -> str:
            return rules_page(read_rules(sources.build, sources.record(), sources.untrusted, given), frame)

        return await self._shown(request, "rules", show, said)

    async def servers(self, request: Request, said: str = "") -> Response:
        """Show the MCP servers and plugins."""
        sources = self._sources
        return await self._shown(
            request, "servers", lambda frame: servers_page(read_servers(sources.build, sources.record()), frame), said
        )

    async def server(self, request: Request) -> Response:
        """Do what a form says with a server, and show all."""
        given, sources = await read_form(request), self._sources
        who = sources.record(), request.scope[PERSON]
        return await self.servers(request, await _said(act_on_server, given, sources.build, sources.open, *who))

    async def tool(self, request: Request) -> Response:
        """Show a tool, after calling it as a form says."""
        given, said, output, sources = dict(request.query_params), "", None, self._sources
        if request.method == "POST":
            given, person = await read_form(request), request.scope[PERSON]
            session = f"{self._session}-{sha256(person.encode()).hexdigest()[:6]}"
            try:
                output = await call_tool(given, sources.open, session, sources.record(), person)
            except ToolcribError as error:
                said = f"Nothing was done: {error}."
        return await self._shown(
            request, "servers", lambda frame: tool_page(read_tool(sources.build, given, output), frame), said
        )

    async def health(self, request: Request) -> Response:
        """Show what works on this machine."""
        sources = self._sources
        return await self._shown(
            request, "health", lambda frame: health_page(sources.findings(), read_limits(sources.build), frame)
        )

    async def views(self, request: Request) -> Response:
        """Show the views alone: for pages of which nothing else is kept up to date."""
        here = request.query_params.get("here", "")
        return await self._shown(request, here, lambda frame: page(frame, VIEWS.get(here, "Toolcrib")))

    async def events(self, request: Request) -> Response:
        """Say when something has changed."""
        if self._watch.is_full:
            return HTMLResponse(refused("Refused", "Too many pages are open."), 503)
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
        sources = self._sources
        return await self._shown(
            request, "inbox", lambda frame: inbox_page(read_inbox(sources.records(), sources.record()), frame), said
        )

    async def _shown(self, request: Request, view: str, show: Callable[[Frame], str], said: str = "") -> Response:
        """Make a page, in a thread."""

        def work() -> str:
            waiting = count_waiting(self._sources.records())
            return show(Frame(view, request.scope[FORM], waiting, said))

        return HTMLResponse(await shared_threads.run(work))


async def _said(act: Callable[..., Any], given: Mapping[str, str], *values: Any) -> str:
    """Do what a form says, in a thread if that blocks, and return what to say of it."""
    try:
        if inspect.iscoroutinefunction(act):
            return await act(given, *values)
        return await shared_threads.run(act, given, *values)
    except ToolcribError as error:
        return f"Nothing was done: {error}."
