"""`toolcrib serve`: the tools as an MCP server, over stdio or HTTP."""

from __future__ import annotations

import sys
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING, Annotated, Any

from ..core.wings import absent, has_wing
from ..serve.defaults import DEFAULT_PORT
from . import show
from .arguments import address_of
from .exit_codes import Usage
from .options import CassetteOptions
from .own_tools import OwnToolOptions, own_tools, reload_on_change
from .reader import Argument, CliCommand, Option

if TYPE_CHECKING:
    from ..config import Settings
    from ..toolbox import Toolbox
    from .options import Options


def serve(
    options: OwnToolOptions,
    cassette: CassetteOptions,
    file: Annotated[
        str | None, Argument(metavar="FILE.py", help="Serve the tools of this file, and not Toolcrib's own.")
    ] = None,
    dev: Annotated[bool, Option("--dev", help="Load the file again whenever it changes.")] = False,
    http: Annotated[
        str | None, Option("--http", metavar="HOST:PORT", help="Serve streamable HTTP at /mcp instead of stdio.")
    ] = None,
    token: Annotated[
        str | None,
        Option(metavar="TOKEN", help="The bearer token for HTTP; TOOLCRIB_HTTP_TOKEN is safer. Default: a new one."),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        Option(metavar="HOST[:PORT]", help="Another host name by which HTTP clients may address this server."),
    ] = None,
    all_tools: Annotated[
        bool,
        Option("--all-tools", help="List every tool. Default: only a search, if there are more than tools.list_limit."),
    ] = False,
    new_token: Annotated[
        str | None,
        Option("--new-token", metavar="NAME", help="Print a new token for one HTTP client and its settings, and end."),
    ] = None,
) -> None:
    """Serve the tools to MCP clients. `toolcrib install` sets up a client."""
    import asyncio

    if not has_wing("http") and (http is not None or new_token is not None):
        raise Usage(f"there is no server for HTTP: {absent('http')}")
    if new_token is not None:
        _print_token(new_token)
        return
    own, rest = own_tools([file] if file else [], options.module)
    if rest:
        raise Usage(f"{file!r} is no Python file: your own tools are served as FILE.py, FILE.py:name or -m MODULE")
    if dev and not own.named:
        raise Usage("--dev is for a FILE.py or a MODULE of your own")
    if http is None and (token or allow_host):
        raise Usage("--token and --allow-host are for --http")
    host, port = address_of(http, DEFAULT_PORT) if http is not None else ("", 0)
    if http is None and sys.stdin.isatty():
        show.say("Speaking MCP on stdin and stdout; a client starts this. End with Ctrl-D.", "dim")

    def reload() -> Settings:
        return options.settings(quiet=True)

    async def work() -> None:
        from ..boundary.process_tree import claim_process, hide_argument
        from ..boundary.spawner import end_at_once_on_signals
        from ..builtin.ask_user import AskUserTool
        from ..serve import serve_http, serve_stdio

        claim_process()
        hide_argument(token or "")
        opening: dict[str, Any] = {**cassette.opening(), "start_servers": False}  # the gateway starts them
        async with own.open(options, **opening) as box:
            cassette.insert(box)
            watch = asyncio.create_task(reload_on_change(own, box)) if dev else None
            if own.with_builtin(options) and box.settings.tools.has(AskUserTool.name):
                box.registry.register(AskUserTool(), on_conflict="keep")
            # a schedule runs later, with the limits of the settings: it is not for callers with limits of their own
            if all(token.monitoring for token in box.settings.serve.tokens):
                own.complete(options, box)
            if all_tools:
                box.exposure.show_all()
            try:
                if http is None:
                    await serve_stdio(box, reload=reload)
                else:
                    async with _console(options, box):
                        await serve_http(
                            box, host, port, token=token, allow_hosts=allow_host or (),
                            started=lambda url: show.say(f"Serving MCP at {url}"), reload=reload,
                        )  # fmt: skip
            finally:
                if watch is not None:
                    watch.cancel()
                end_at_once_on_signals()  # the servers have not ended yet

    asyncio.run(work())  # the server handles signals itself


def _console(options: Options, box: Toolbox) -> AbstractAsyncContextManager[None]:
    """Return what opens the console next to the server, where there is one."""
    if not has_wing("console"):
        return nullcontext()
    from .console import console_beside

    return console_beside(options, box)


def _print_token(name: str) -> None:
    """Print a new token once, and the table of settings that has its hash. It is stored nowhere."""
    from ..config import make_settings
    from ..core.homes import config_home
    from ..serve.http import digest_of, new_token

    token = new_token()
    entry = {"name": name, "hash": digest_of(token.encode())}
    make_settings({"serve": {"tokens": [entry]}})
    print(
        f"The token of {name}, shown only now. Its client sends it with each request:\n\n"
        f"    Authorization: Bearer {token}\n\n"
        f"Add this to your own configuration ({config_home() / 'config.toml'}):\n\n"
        f'    [[serve.tokens]]\n    name = "{name}"\n    hash = "{entry["hash"]}"\n\n'
        "A token may also have: mode, tools, rules = {deny = […], ask = […], allow = […]}, expires."
    )


COMMAND = CliCommand(serve, without=("json",))
