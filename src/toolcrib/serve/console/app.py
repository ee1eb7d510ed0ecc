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
from ...core.errors import ConfigError, ToolcribError, ToolNotFoundError, UnknownName
from ...core.output import ToolOutput
from ...core.threads import shared_threads
from ...record.connection import Where
from ...record.rows import ApprovalRow
from ...record.state import StateFolder
from .access import FORM, PERSON, FormRefused, read_form
from .acts import SentForm
from .calls import OpenJournal, call_page, calls_page, export_calls, read_call, read_calls, undo_call
from .health import health_page, read_limits
from .inbox import answer_request, answer_several, count_waiting, inbox_page, read_inbox, read_request
from .jobs import OpenJobs, act_on_job, job_page, jobs_page, read_job, read_jobs
from .live import RecordWatch
from .page import Frame, page, refused
from .rules import Build, Untrusted, act_on_rules, read_rules, rules_page
from .schedules import OpenSchedules, act_on_schedule, read_schedules, schedules_page
from .servers import Open, act_on_server, read_servers, servers_page
from .sessions import act_on_session, read_session, read_sessions, session_page, sessions_page
from .tool import call_tool, read_tool, tool_page

STATIC = {"console.css": "text/css", "console.js": "text/javascript", "icon.svg": "image/svg+xml"}


def no_jobs() -> Any:
    """Raise UnknownName: there is no room for jobs."""
    raise UnknownName("this installation has no jobs")


@dataclass(frozen=True, slots=True)
class ConsoleSources:
    """What the console shows, as functions that read it. They may block.

    `records` are all records with calls that may wait, `state` is the folder of this workspace, and `journal` opens its
    list of changes. `build` makes a toolbox of the workspace to look at, `open` one to call tools. `findings` are those
    of `toolcrib doctor`.
    `continue_with` returns the command with which an answered request goes on. `jobs` and `schedules` open those of the
    workspace; `engine` is the setting `jobs.engine`. `untrusted` reads the files that a person may trust. `has_servers`
    says whether this process has the servers that others use.
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
    engine: Callable[[], str] = lambda: "dbos"
    untrusted: Untrusted = list
    has_servers: bool = False

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
        both = ["GET", "POST"]
        routes = [
            Route("/", self.start),
            Route("/inbox", self.inbox),
            Route("/answer", self.inbox, methods=["POST"]),
            Route("/answers", self.inbox, methods=["POST"]),
            Route("/calls", self.calls),
            Route("/call", self.call),
            Route("/undo", self.call, methods=["POST"]),
            Route("/export", self.export),
            Route("/sessions", self.sessions),
            Route("/session", self.session, methods=both),
            Route("/jobs", self.jobs),
            Route("/job", self.job, methods=both),
            Route("/schedules", self.schedules),
            Route("/schedule", self.schedules, methods=["POST"]),
            Route("/rules", self.rules, methods=both),
            Route("/servers", self.servers),
            Route("/server", self.servers, methods=["POST"]),
            Route("/tool", self.tool, methods=both),
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
        """Show what waits, after answering it as a form says."""
        sources = self._sources
        act = answer_several if request.url.path.endswith("/answers") else answer_request
        given, said = await self._done(request, act, sources.records(), sources.continue_with)

        def show(frame: Frame) -> str:
            every, here = sources.records(), sources.record()
            if (ident := given.get("id")) and not said:
                return inbox_page(read_request(every, here, sources.build, ident), frame)
            return inbox_page(read_inbox(every, here, given.get("after", "")), frame)

        return await self._shown(request, "inbox", show, said)

    async def calls(self, request: Request) -> Response:
        """Show a page of calls."""
        given, record = dict(request.query_params), self._sources.record()
        return await self._shown(request, "calls", lambda frame: calls_page(read_calls(record, given), frame))

    async def call(self, request: Request) -> Response:
        """Show one call, after taking back what it changed."""
        sources = self._sources
        given, said = await self._done(request, undo_call, sources.journal)

        def show(frame: Frame) -> str:
            return call_page(read_call(sources.state(), sources.build, sources.journal, given), frame)

        return await self._shown(request, "calls", show, said)

    async def export(self, request: Request) -> Response:
        """Send the calls of a list as lines of JSON."""
        lines = await shared_threads.run(export_calls, self._sources.record(), dict(request.query_params))
        headers = {"Content-Disposition": "attachment; filename=calls.jsonl"}
        return StreamingResponse(lines, media_type="application/jsonl", headers=headers)

    async def sessions(self, request: Request) -> Response:
        """Show the sessions of the agent."""
        state = self._sources.state()
        return await self._shown(request, "sessions", lambda frame: sessions_page(read_sessions(state), frame))

    async def session(self, request: Request) -> Response:
        """Show one session, after doing what a form says."""
        sources, state = self._sources, self._sources.state()
        given, said = await self._done(request, act_on_session, state, sources.jobs, sources.engine(), sources.build)
        return await self._shown(
            request, "sessions", lambda frame: session_page(read_session(state, given), frame), said
        )

    async def jobs(self, request: Request) -> Response:
        """Show the jobs."""
        found = await read_jobs(self._sources.jobs)
        return await self._shown(request, "jobs", lambda frame: jobs_page(found, self._sources.engine(), frame))

    async def job(self, request: Request) -> Response:
        """Show one job, after doing what a form says."""
        sources = self._sources
        given, said = await self._done(request, act_on_job, sources.jobs)
        found = await read_job(sources.jobs, sources.state(), given.get("id", ""))
        return await self._shown(request, "jobs", lambda frame: job_page(found, frame), said)

    async def schedules(self, request: Request) -> Response:
        """Show the schedules, after doing what a form says."""
        sources = self._sources
        _, said = await self._done(request, act_on_schedule, sources.schedules, sources.engine())

        def shown(frame: Frame) -> str:
            return schedules_page(read_schedules(sources.schedules), sources.engine(), frame)

        return await self._shown(request, "schedules", shown, said)

    async def rules(self, request: Request) -> Response:
        """Show the rules and try one, after doing what a form says."""
        sources = self._sources
        given, said = await self._done(request, act_on_rules, sources.build, sources.untrusted)

        def show(frame: Frame) -> str:
            tried: Mapping[str, str] = {} if said else given
            return rules_page(read_rules(sources.build, sources.record(), sources.untrusted, tried), frame)

        return await self._shown(request, "rules", show, said)

    async def servers(self, request: Request) -> Response:
        """Show the MCP servers and plugins, after doing what a form says."""
        sources = self._sources
        _, said = await self._done(request, act_on_server, sources.build, sources.open)

        def show(frame: Frame) -> str:
            return servers_page(read_servers(sources.build, sources.record(), live=sources.has_servers), frame)

        return await self._shown(request, "servers", show, said)

    async def tool(self, request: Request) -> Response:
        """Show a tool, after calling it as a form says."""
        sources = self._sources
        session = f"{self._session}-{sha256(request.scope[PERSON].encode()).hexdigest()[:32]}"
        given, done = await self._done(request, call_tool, sources.open, session)
        output, said = (done, "") if isinstance(done, ToolOutput) else (None, done)
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
        here, title = (request.query_params.get(each, "") for each in ("here", "title"))
        return await self._shown(request, here, lambda frame: page(frame, title))

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
        """Answer where something cannot be read, or is not there."""
        if isinstance(error, UnknownName | ToolNotFoundError):
            return HTMLResponse(refused("Not found", str(error)), 404)
        return HTMLResponse(refused("This cannot be shown", str(error)), 400 if isinstance(error, ConfigError) else 500)

    async def _done(self, request: Request, act: Callable[..., Any], *values: Any) -> tuple[Mapping[str, str], Any]:
        """Do what a form says, in a thread if that blocks. Return the form, or else what the address has, and what came
        of it: as a rule what to say. Raises UnknownName and ToolNotFoundError."""
        if request.method != "POST":
            return request.query_params, ""
        given = await read_form(request)
        sent = SentForm(given, request.scope[PERSON], self._sources.record)
        try:
            if inspect.iscoroutinefunction(act):
                return given, await act(sent, *values)
            return given, await shared_threads.run(act, sent, *values)
        except (UnknownName, ToolNotFoundError):
            raise
        except ToolcribError as error:
            return given, f"Nothing was done: {error}."

    async def _shown(self, request: Request, view: str, show: Callable[[Frame], str], said: str = "") -> Response:
        """Make a page, in a thread."""

        def work() -> str:
            waiting = count_waiting(self._sources.records())
            return show(Frame(view, request.scope[FORM], waiting, said))

        return HTMLResponse(await shared_threads.run(work))
