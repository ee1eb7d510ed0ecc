"""`toolcrib console`: a page in the browser where calls that wait are answered."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncGenerator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from ..core.wings import has_wing
from ..record.approvals import local_records
from .approvals import records_here
from .arguments import address_of
from .doctor import findings
from .exit_codes import Usage
from .options import Options, RecordOptions
from .reader import CliCommand, Option
from .trust import untrusted
from .undo import open_journal

if TYPE_CHECKING:
    from ..config.serve_settings import ConsoleSettings
    from ..record.rows import ApprovalRow
    from ..serve.console import ConsoleSources, NewLink
    from ..toolbox import Toolbox

PORT = 8809


def console(
    options: RecordOptions,
    http: Annotated[
        str, Option("--http", metavar="HOST:PORT", help="Listen here, on this machine only.")
    ] = "127.0.0.1:8809",
) -> None:
    """Open the console: a page in the browser that shows what waits, and takes answers.

    It prints a link that works once. Whoever opens the link may answer for you. With serve.console.proxy it prints no
    link: the proxy says who people are.
    """
    settings = options.settings(quiet=True).serve.console
    _check_terminal(settings)
    host, port = address_of(http, PORT)
    from ..serve.console import serve_console

    started = partial(say_link, bool(settings.proxy))
    asyncio.run(serve_console(_sources(options), host, port, started=started, settings=settings))


@contextlib.asynccontextmanager
async def console_beside(options: Options, box: Toolbox) -> AsyncGenerator[None]:
    """Open the console that the settings want next to a server, within this block. It shows the servers as they are in
    its toolbox, and calls tools there."""
    settings = box.settings.serve.console
    if not settings.http:
        yield
        return
    _check_terminal(settings, beside=True)
    from ..serve.console import opened_console

    record_options = RecordOptions(options.workspace, options.config, options.mode, options.yes, options.json)
    here = lambda: contextlib.nullcontext(box)  # noqa: E731
    sources = replace(_sources(record_options), build=here, open=here, has_servers=True)
    host, port = address_of(settings.http, PORT)
    started = partial(say_link, bool(settings.proxy))
    async with opened_console(sources, host, port, started=started, settings=settings):
        yield


def _check_terminal(settings: ConsoleSettings, *, beside: bool = False) -> None:
    if not settings.proxy and not sys.stderr.isatty():
        text = "the console prints its link at a terminal only: in a file, a tool could read it. Start it at one"
        without = "; `toolcrib config unset serve.console.http` leaves it out here" if beside else ""
        raise Usage(f"{text}, or set serve.console.proxy, which needs no link{without}")


def _sources(options: RecordOptions) -> ConsoleSources:
    from ..serve.console import ConsoleSources

    here = records_here(options)
    return ConsoleSources(
        records=lambda: list(dict.fromkeys([*here, *local_records()])),
        state=options.state,
        journal=lambda: open_journal(options),
        build=lambda: options.build(options.settings(quiet=True)),
        open=lambda: options.open(options.settings(quiet=True), start_servers=False, warm_up=False),
        findings=lambda: findings(options),
        continue_with=lambda row: _goes_on(options, row),
        untrusted=lambda: untrusted(options),
        **_jobs(options),
    )


def say_link(proxied: bool, new_link: NewLink) -> None:
    """Print a link, and another one for each Enter; with a proxy, the address."""
    if proxied:
        print(f"The console is at {new_link()}", file=sys.stderr)
        return
    print("Open this link in your browser. It works once, for ten minutes:", file=sys.stderr)
    print(f"\n    {new_link()}\n", file=sys.stderr)
    print("Enter prints another link; r and Enter prints one with which nobody can answer.", file=sys.stderr)
    print("If your browser does not find it: write 127.0.0.1 in place of the name before the port.", file=sys.stderr)

    def entered() -> None:
        if line := sys.stdin.readline():
            print(f"    {new_link(read_only=line.strip() == 'r')}\n", file=sys.stderr)
        else:
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())

    if sys.stdin.isatty():
        with contextlib.suppress(NotImplementedError):  # Windows
            asyncio.get_running_loop().add_reader(sys.stdin.fileno(), entered)


def _jobs(options: RecordOptions) -> dict[str, Any]:
    """Return what opens the jobs and schedules, where there are any."""
    if not has_wing("jobs"):
        return {}
    from .jobs.jobs import opened_jobs
    from .jobs.schedule import opened_schedules

    return {"jobs": partial(opened_jobs, options), "schedules": partial(opened_schedules, options),
            "engine": lambda: options.settings(quiet=True).jobs.engine}  # fmt: skip


def _goes_on(options: RecordOptions, row: ApprovalRow) -> str | None:
    if not has_wing("agent"):
        return None
    from .agent.sessions import go_on

    return go_on(options, row)


COMMAND = CliCommand(console, without=("json", "yes"))
