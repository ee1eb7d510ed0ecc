"""The table of everything that the host starts or loads outside the sandbox: where in the source, how the program is
found, and why what a tool may write cannot take its place.

A test reads the source: a start that is not in this table fails (`tests/test_starts.py`). `toolcrib doctor` shows it.
"""

from __future__ import annotations

from ..core.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Start:
    """One kind of program. `where` are the functions that start it, as `module:name`. `names` are those by which it is
    looked up on PATH, if it is."""

    name: str
    where: tuple[str, ...]
    why: str
    names: tuple[str, ...] = ()


_FOUND = "absolute path, in no folder that tools or other users may write"
_ENVIRONMENT = "the interpreter and modules of this process, which are protected where tools could write them"
_ENGINE = "boundary.sandbox.docker"

STARTS = (
    Start(
        "bubblewrap",
        (
            "boundary.sandbox.bubblewrap_backend:_version",
            "boundary.sandbox.bubblewrap:BubblewrapSandbox.wrap",
            "boundary.process:Process._spawned.start",
        ),
        f"the system's: {_FOUND}; else the packaged one: {_ENVIRONMENT}",
        ("bwrap",),
    ),
    Start(
        "a command behind Landlock",
        (
            "boundary.sandbox.landlock.landlock_sandbox:LandlockSandbox.wrap",
            "boundary.sandbox.landlock.landlock_sandbox:LandlockSandbox._lean",
        ),
        "started by a thread that has restricted itself already; the shell is /bin/bash",
    ),
    Start(
        "container engine",
        (
            f"{_ENGINE}.container_engine:_say",
            f"{_ENGINE}.docker_sandbox:DockerSandbox.wrap",
            f"{_ENGINE}.docker_sandbox:_Container._quiet",
        ),
        f"{_FOUND}; it gets the variables that find its server, no others",
        ("docker", "podman"),
    ),
    Start(
        "a command without a sandbox",
        (
            "boundary.sandbox:NoSandbox.wrap",
            "boundary.sandbox:select_sandbox",
            "boundary.sandbox.landlock.doors_wall:DoorsWall.wrap",
        ),
        "only with sandbox.backend none or external, after the judgement of its command line; the shell is /bin/bash",
    ),
    Start(
        "the watcher of process groups",
        ("boundary.group_watcher:GroupWatcher.__init__",),
        "/bin/sh with a fixed text, no variables",
    ),
    Start(
        "the sandbox's helper",
        ("boundary.sandbox.namespace_helper:NamespaceHelper._start", "boundary.sandbox.inside_namespaces:main"),
        "the interpreter without its environment (-I -S), its text from memory, no variables",
    ),
    Start(
        "document and page worker",
        ("boundary.worker_process:_Process.__init__", "boundary.worker_process:serve"),
        f"{_ENVIRONMENT}; isolated (-I), no variables",
    ),
    Start(
        "ripgrep",
        ("boundary.ripgrep:_version", "boundary.ripgrep:file_types", "boundary.read_only_run:run_read_only.start"),
        f"{_FOUND}; else the packaged one; else the interpreter (-I -S); under Landlock, without network",
        ("rg",),
    ),
    Start(
        "the interpreter of scripts",
        ("builtin.code.monty:MontyInterpreter.script", "builtin.code.monty:_Checker._begin"),
        f"the packaged one: {_ENVIRONMENT}",
    ),
    Start(
        "browser",
        ("builtin.browser.launch:launch", "builtin.browser.launch:_driver", "cli.doctor:_browser"),
        f"{_FOUND}; its driver is a part of the package playwright: {_ENVIRONMENT}",
        ("chromium", "google-chrome"),
    ),
    Start("secrets' commands", ("policy.secrets.grants:_from_command",), f"named by trusted settings; {_FOUND}"),
    Start("hooks' commands", ("policy.hooks:_start",), f"named by trusted settings; {_FOUND}"),
    Start("MCP servers", ("sources.mcp.connecting:_spawn",), f"named by trusted settings; {_FOUND}"),
    Start(
        "channel plugins",
        ("sources.plugins.channel:Channel.start",),
        "off until enabled; protected where tools could write them; if a hash is set, the bytes that were hashed run "
        "from a sealed copy",
    ),
    Start(
        "Python plugins",
        ("sources.plugins.entrypoints:permitted",),
        f"off until enabled; {_ENVIRONMENT}; a project's own too",
    ),
    Start(
        "a person's own tools",
        ("cli.own_tools:OwnTools._run",),
        "a file or module that the person names on the command line; protected where tools could write it",
    ),
    Start(
        "the person's editor",
        ("cli.editor:in_editor",),
        f"VISUAL or EDITOR; {_FOUND}, nor its script; in a private folder, so that it obeys no file of the workspace",
    ),
    Start(
        "the person's browser",
        ("sources.mcp.oauth.browser_login:_browse",),
        f"BROWSER or the system's opener; {_FOUND}",
        ("xdg-open",),
    ),
    Start("toolcrib hookd", ("cli.hookd:start", "cli.hookd:_accept"), f"this Toolcrib; {_ENVIRONMENT}; isolated (-I)"),
    Start(
        "toolcrib demo",
        ("cli.demo:Demo.play", "cli.demo:Demo.killed_when", "cli.demo:Demo.command"),
        f"this Toolcrib; {_ENVIRONMENT}",
    ),
)
