"""`toolcrib mcp`: list, test, add, import, remove and accept MCP servers, and log in to them."""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from ..config.files import read_config_file
from ..config.foreign_servers import foreign_servers
from ..config.hide import MASK, is_secret_name
from ..config.load import is_ourselves
from ..core.errors import ConfigError, ToolcribError
from ..core.text import one_line
from ..core.wings import absent, has_wing
from ..policy.plain import plain
from ..sources.mcp.config import ServerConfig, server_config
from ..sources.mcp.upstream import ServerStatus
from . import show
from .exit_codes import Usage, of_success
from .options import Options
from .reader import Argument, CliCommand, Option, group
from .servers_file import START_QUESTION, check_name, warn_if_missing, with_server, without_server
from .settings_file import changing, own_file, shown, write

if TYPE_CHECKING:
    from ..sources.mcp.oauth import BrowserLogin
    from ..toolbox import Toolbox

Name = Annotated[str, Argument(metavar="NAME", help="The name of the server.")]
LOGIN_SECONDS = 360.0
NO_SERVERS = "No MCP servers are configured. See `toolcrib mcp add --help`."


def listed(options: Options) -> None:
    """List the configured servers and the number of their tools, if known. No server is started."""
    with options.build(builtin=False) as box:
        servers = [_clean(box, status) for status in box.mcp.servers.values()]
        _say_what_changed(box, box.mcp.servers)
    if options.json:
        show.out_json([asdict(status) for status in servers])
        return
    show.columns([_row(status) for status in servers], ("bold", None, "dim", None), none=NO_SERVERS)


async def tested(
    options: Options,
    names: Annotated[list[str] | None, Argument(metavar="NAME", help="The servers to test. Default: all.")] = None,
) -> int:
    """Connect to servers now, and list their tools. Exit code 1 if a server fails."""
    found = await _reload(options, names or [])
    if options.json:
        show.out_json([{**asdict(status), "names": tools} for status, tools in found])
    elif not found:
        show.say(NO_SERVERS, "dim")
    else:
        for status, tools in found:
            show.columns([_row(status)], ("bold", None, "dim", None))
            for fault in status.faults:
                show.warn(f"{status.name}: {fault}")
            for tool in tools:
                show.out(f"  {tool}")
    return of_success(not any(status.error for status, _ in found))


async def _reload(options: Options, names: list[str]) -> list[tuple[ServerStatus, list[str]]]:
    box = options.build()  # with our own tools: the first tool gets the name
    try:
        for name in names:
            box.mcp.tools(name)  # raises for an unknown name, and names the servers
        enabled = [name for name, status in box.mcp.servers.items() if status.state != "disabled"]
        wanted = names or enabled
        await asyncio.gather(*(box.mcp.reload(name) for name in wanted))
        found = box.mcp.servers
        _say_what_changed(box, wanted)
        clean = box.redactor.redact
        return [(_clean(box, found[name]), [clean(tool.name) for tool in box.mcp.tools(name)]) for name in wanted]
    finally:
        await box.aclose()


def _say_what_changed(box: Toolbox, names: Iterable[str]) -> None:
    for name in names:
        doubted = [] if box.mcp.servers[name].state == "disabled" else box.mcp.doubted(name)
        if doubted:
            tools = ", ".join(box.redactor.redact(tool.name) for tool in doubted)
            show.warn(f"new or changed since {name} was accepted: {tools}; `toolcrib mcp accept {name}` shows how")


def added(
    options: Options,
    name: Name,
    target: Annotated[
        list[str], Argument(metavar="COMMAND [ARG…] | URL", help="A program with its arguments (after --), or a URL.")
    ],
    env: Annotated[list[str] | None, Option(metavar="KEY=VALUE", help="A variable for a program.")] = None,
    header: Annotated[list[str] | None, Option(metavar="KEY=VALUE", help="A header for a URL.")] = None,
    transport: Annotated[str | None, Option(help="stdio, http or sse.")] = None,
    category: Annotated[str | None, Option(help="The category of its tools.")] = None,
    trust: Annotated[bool, Option("--trust", help="Trust its hints about tools and results.")] = False,
) -> None:
    """Add a server to your own configuration. Refer to secrets by name: --env 'TOKEN=${secret:github}'."""
    check_name(name)
    is_url = len(target) == 1 and target[0].startswith(("http://", "https://"))
    if not is_url and "://" in target[0]:
        raise Usage(f"{one_line(target[0])}: should be a program, or one URL with http:// or https://")
    entry: dict[str, Any] = {"url": target[0]} if is_url else {"command": target[0]}
    if not is_url and target[1:]:
        entry["args"] = target[1:]
    if env if is_url else header:
        raise Usage("--env is for a program, not for a URL" if is_url else "--header is for a URL, not for a program")
    for key, pairs in (("env", env), ("headers", header)):
        if pairs:
            entry[key] = dict(map(_pair, pairs))
    more = {"transport": transport, "category": category, "trust": "hints" if trust else None}
    entry.update({key: value for key, value in more.items() if value is not None})
    server_config(name, entry)
    words = [word for word in target if word != target[0] or "/" in word]
    here = [word for word in words if not Path(word).is_absolute() and Path(word).is_file()]
    if here and not is_url and not options.config:
        show.warn(
            f"the server starts in the folder of each workspace, and this one alone has {' and '.join(here)}. Write "
            f"the whole path: {', '.join(str(Path(word).absolute()) for word in here)}"
        )
    _put(options, {name: entry})
    if here and not is_url:
        _accept_here(options, name)


def _accept_here(options: Options, name: str) -> None:
    """Trust the files of a server in this workspace, which the person has just named."""
    with contextlib.suppress(ToolcribError), options.build(options.settings(quiet=True)) as box:
        if (files := box.mcp.changed_files(name)) is not None:
            box.mcp.accept_files(name, files)


def imported(
    options: Options, file: Annotated[str, Argument(metavar="FILE", help="A file such as .mcp.json.")]
) -> None:
    """Show the servers in another program's file, and add them to your own after a yes. Toolcrib itself is left out."""
    found = foreign_servers(read_config_file(Path(file).expanduser()))
    for warning in found.warnings:
        show.warn(warning)
    servers = {name: entry for name, entry in found.entries.items() if not is_ourselves(entry)}
    if not servers:
        which = " that can be used" if found.warnings else " but Toolcrib itself" if found.entries else ""
        raise Usage(f"{file} has no MCP servers{which}")
    _put(options, servers)


def _put(options: Options, servers: Mapping[str, Any]) -> None:
    path, before = own_file(options.config)
    text = _with_servers(path, before, servers)
    show.say(f"To {shown(path)}:", "bold")
    for line in text[len(before) :].strip("\n").splitlines() if text.startswith(before) else text.splitlines():
        show.say(f"+ {_masked(line, servers)}", "green")
    options.confirm(START_QUESTION, "nothing was written")
    with changing(path):
        write(path, _with_servers(path, own_file(options.config)[1], servers))
    for entry in servers.values():
        warn_if_missing(entry.get("command"), entry.get("env") or {})
    show.say(f"Added {', '.join(servers)}. `toolcrib mcp test` connects.")


def _with_servers(path: Path, text: str, servers: Mapping[str, Any]) -> str:
    """The file with these servers, too. Raises Usage."""
    for name, entry in servers.items():
        try:
            text = with_server(text, path.suffix, name, entry)
        except ConfigError as error:
            raise Usage(f"{path}: {error}") from None
    return text


def _masked(line: str, servers: Mapping[str, Any]) -> str:
    """A line of the new text, with secrets masked."""
    for entry in servers.values():
        for part in ("env", "headers"):
            for key, value in cast("dict[str, Any]", entry.get(part) or {}).items():
                if is_secret_name(key) and isinstance(value, str) and value and "${" not in value:
                    line = line.replace(value, MASK)
    return line


def removed(options: Options, name: Name) -> None:
    """Remove a server from your own configuration."""
    path = own_file(options.config)[0]
    with changing(path):
        try:
            write(path, without_server(own_file(options.config)[1], path.suffix, name))
        except ConfigError as error:
            raise Usage(f"{path}: {error}") from None
    show.say(f"Removed {name} from {shown(path)}.")


def accepted(options: Options, name: Name) -> None:
    """Show how a server's tools have changed since they were accepted, and accept the changes after a yes."""
    with options.build() as box:
        changed = box.mcp.changed_files(name)
        if changed is not None:
            show.out(f"{plain(changed.text)}.", "bold")
            options.confirm("Start it as it is now?", "nothing was accepted, and it is not started")
            if not box.mcp.accept_files(name, changed):
                raise Usage(f"the files of {name} have changed again; look at them, and try once more")
            show.say(f"Accepted: {name} starts as it is now.")
        doubted = box.mcp.doubted(name)
        if not doubted:
            listed = box.mcp.servers[name].cached and changed is None  # else it may list others when it starts
            unknown = f"The tools of {name} are not known yet: `toolcrib mcp test {name}` lists them."
            show.say(f"The tools of {name} have not changed since they were accepted." if listed else unknown)
            return
        for tool in doubted:
            before, clean = box.mcp.accepted(name, tool), box.redactor.redact
            _show_change(clean(tool.name), before and clean(before), clean(tool.description))
            listed = tool.listed
            rest = {
                "title": listed.title,
                "parameters": listed.schema,
                "result": listed.output_schema,
                "hints": listed.hints,
            }
            show.out("  the rest of what a model reads, as it is now:")
            for key, value in rest.items():
                if value:
                    show.out(f"  {key}: {clean(json.dumps(value, default=dict))}")
        question = f"Accept {len(doubted)} tools of {name} as they are now?"
        options.confirm(question, "nothing was accepted, and these tools ask until it is")
        box.mcp.accept(name)
        show.say(f"Accepted. `toolcrib lint {doubted[0].name}` looks for injected instructions in such texts.")


def _show_change(name: str, before: str | None, now: str) -> None:
    show.out(name, "bold")
    if before is None:
        show.out("  new:")
    elif before == now:
        show.out("  the description is the same; its parameters, title or hints have changed:")
    for line in difflib.ndiff(plain(before or "").splitlines(), plain(now).splitlines()):  # no line ends but \n
        if not line.startswith("?"):
            show.out(f"  {line}", {"+": "green", "-": "red"}.get(line[0]))


async def logged_in(options: Options, name: Name) -> None:
    """Log in to a server in the browser. The token is stored in a file that only you can read."""
    status = await _login(options, name)
    show.say(f"Logged in to {name}: {status.tools} tools.")


async def _login(options: Options, name: str) -> ServerStatus:
    settings = options.settings()
    if name not in settings.mcp_servers:
        raise Usage(f"there is no MCP server {name!r}; configured: {', '.join(settings.mcp_servers) or 'none'}")
    if settings.mcp_servers[name].url is None:
        raise Usage(f"{name} is a program on this machine; it has no login in the browser")
    only = replace(settings, mcp_servers={})
    doors: list[BrowserLogin] = []

    def door(config: ServerConfig) -> BrowserLogin:
        from ..sources.mcp.oauth import BrowserLogin

        doors.append(BrowserLogin(config, show.say, settings.sandbox.writable(settings.workspace)))
        return doors[-1]

    box = await options.open(only, builtin=False)
    try:
        return await box.mcp.login(replace(settings.mcp_servers[name], name=name), door, LOGIN_SECONDS)
    finally:
        for each in doors:
            each.close()
        await box.aclose()


def logged_out(options: Options, name: Name) -> None:
    """Delete the token of a server."""
    if not has_wing("oauth"):
        raise Usage(absent("oauth"))
    from ..sources.mcp.oauth.provider import TokenFile  # imports the MCP SDK, which takes a second

    settings = options.settings(quiet=True)
    if name not in settings.mcp_servers or settings.mcp_servers[name].url is None:
        raise Usage(f"there is no MCP server {name!r} with a url")
    folder = options.state().path.parent / "mcp" / "tokens"
    config = replace(settings.mcp_servers[name], name=name).expanded(os.environ)
    there = TokenFile(folder, config.url or "", lambda key, value: None).forget(config)
    show.say(f"Logged out of {name}." if there else f"There was no login to {name}.")


def _pair(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise Usage(f"{text!r}: should be KEY=VALUE")
    return key, value


def _clean(box: Toolbox, status: ServerStatus) -> ServerStatus:
    """Return a status without secrets: a server may say what it was given."""
    said = status.where, status.server or "", status.error or "", *status.faults
    where, server, error, *faults = map(box.redactor.redact, said)
    return replace(status, where=where, server=server or None, error=error or None, faults=tuple(faults))


def _row(status: ServerStatus) -> list[str]:
    known = f"{status.tools} tools" if status.tools or status.cached or status.state == "connected" else ""
    said = status.error or (status.server or "")
    idle = "known" if status.cached else "not asked yet"
    state = idle if status.state == "idle" else status.state
    return [status.name, f"{state}{', ' if known else ''}{known}", f"{status.transport} {status.where}", said]


COMMAND = group(
    listed,
    "The configured MCP servers. Without a command: list them.",
    {
        "list": CliCommand(listed),
        "test": CliCommand(tested),
        "add": CliCommand(added, without=("json", "mode")),
        "import": CliCommand(imported, without=("json", "mode")),
        "remove": CliCommand(removed, without=("json", "mode")),
        "accept": CliCommand(accepted, without=("json", "mode")),
        "login": CliCommand(logged_in, without=("json", "yes")),
        "logout": CliCommand(logged_out, without=("json", "yes", "mode")),
    },
)
