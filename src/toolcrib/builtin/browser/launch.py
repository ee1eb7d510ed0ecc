"""Finds, starts and ends a Chromium: its switches, its environment, its processes.

The browser itself gets a proxy address where no server answers, so its own background requests fail. The requests of
pages go through the proxy of their session (`browser_session`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...boundary.descriptors import closing_fd
from ...boundary.own_files import lock_file
from ...boundary.programs import doubt, find_program, look_up, search_path
from ...core.dataclass import dataclass
from ...core.errors import ToolError
from ...core.extras import how_to_add
from ..settings import BrowserSettings

if TYPE_CHECKING:
    from playwright.async_api import Browser, Playwright

log = logging.getLogger(__name__)

PROGRAMS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome", "microsoft-edge")
INSTALL = "apt-get install chromium, or name one by the setting tools.browser.executable_path"
LAUNCH_SECONDS = 60.0
LOCK = "in-use"
CLOSE_SECONDS = 10.0
_REAP_SECONDS = 1.0
NOWHERE = "http://127.0.0.1:1"  # tcpmux: a privileged port that no program has used for decades
# https://peter.sh/experiments/chromium-command-line-switches/; Playwright adds about forty switches for automation:
# no component updates, no sync, no first run, no background networking, no extensions.
SWITCHES = (
    # Chromium 150 obeys only the second; older versions, and other browsers with this engine, know the first
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--disable-quic",
    "--dns-prefetch-disable",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-domain-reliability",
    "--disable-client-side-phishing-detection",
    "--disable-sync",
    "--disable-breakpad",
    "--no-first-run",
    "--no-pings",
    "--no-service-autorun",
    # the browser's own resolver finds no names: the proxy resolves them
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
)
# Chromium starts these for addresses of other programs (`mailto:`), for some of them without asking anybody
_OPENERS = ("xdg-open", "xdg-email", "xdg-mime", "xdg-settings", "gio", "gnome-open", "kde-open", "exo-open")
# The environment of the driver that is being started; a program's own use of Playwright has none.
_small: ContextVar[dict[str, str] | None] = ContextVar("environment of a driver", default=None)
# The environment variables that a browser needs to draw text. They hold no secrets.
_KEPT = ("LANG", "LANGUAGE", "TZ", "FONTCONFIG_PATH", "FONTCONFIG_FILE")


def find_browser(executable: Path | None = None, writable: Iterable[str | Path] = ()) -> Path | None:
    """Return the Chromium to start: the configured one, else the first on PATH. None if none can be started. A program
    that tools could replace, because it lies in a `writable` folder, is not started."""
    names = PROGRAMS if executable is None else (str(executable.absolute()),)
    roots = tuple(writable)
    found = next(filter(None, (find_program(name, roots) for name in names)), None)
    return None if found is None else Path(found)


def missing(settings: BrowserSettings, writable: Iterable[str | Path] = ()) -> str | None:
    """Return why the browser tools cannot be available, or None if they can. Does not import or start anything."""
    roots = tuple(writable)
    if not settings.enabled:
        return "disabled by tools.browser.enabled"
    absent = [name for name in ("playwright", "h11") if find_spec(name) is None]
    if absent:
        chromium = "" if find_browser(settings.executable_path, roots) else f", and {INSTALL}"
        return f"needs {', '.join(absent)}: {how_to_add('browser')}{chromium}"
    if find_browser(settings.executable_path, roots) is None:
        if settings.executable_path is not None:
            why = next((why for _, why in look_up(str(settings.executable_path.absolute()), roots)), None)
            if why is not None:
                return f"tools.browser.executable_path: {settings.executable_path} is not run: {why}"
            return f"tools.browser.executable_path: {settings.executable_path} is not a program that can be run"
        return f"no Chromium is installed: {INSTALL}"
    return None


def needs_no_sandbox() -> bool:
    """Return whether Chromium's own sandbox must be off: as root, Chromium refuses to start with it."""
    return hasattr(os, "geteuid") and os.geteuid() == 0


@dataclass(frozen=True, slots=True)
class Chromium:
    """A running browser. `leader` is its first process, the leader of its process group (None if not found).

    `lock` is a descriptor whose lock shows that the folder is in use.
    """

    playwright: Playwright
    browser: Browser
    folder: Path
    leader: int | None
    lock: int

    @property
    def downloads(self) -> Path:
        """The folder in which Chromium stores files that pages send."""
        return self.folder / "downloads"

    async def close(self) -> None:
        """Kill the browser with all its processes, and delete its files. Its pages cannot make it wait."""
        await _end(self.playwright, self.leader, self.folder, self.lock)


async def launch(settings: BrowserSettings, folder: Path, writable: Iterable[str | Path] = ()) -> Chromium:
    """Create `folder`, and start Chromium with a new profile in it. Raises ToolError, with advice, if that fails."""
    roots = tuple(writable)
    path = find_browser(settings.executable_path, roots)
    if path is None:
        raise ToolError(f"no Chromium was found: {INSTALL}")
    environment = _environment(folder, roots)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = lock_file(folder / "new")
    (folder / "new").rename(folder / LOCK)  # another start would delete a folder with a lock that nobody holds
    playwright = None
    try:
        for name in ("downloads", "home", "bin"):
            (folder / name).mkdir(mode=0o700)
        for name in _OPENERS:
            (folder / "bin" / name).symlink_to(find_program("false", roots) or "/bin/false")
        playwright = await _driver(folder, environment, roots)
        browser = await playwright.chromium.launch(
            executable_path=str(path),
            args=list(SWITCHES),
            chromium_sandbox=not needs_no_sandbox(),
            proxy={"server": NOWHERE, "bypass": "<-loopback>"},
            env=dict(environment),
            downloads_path=str(folder / "downloads"),
            handle_sigint=False,
            handle_sigterm=False,
            handle_sighup=False,
            timeout=LAUNCH_SECONDS * 1000,
        )
    except BaseException as error:  # a cancelled call must not leave files or processes, either
        await _end(playwright, None, folder, lock)
        if playwright is None or not isinstance(error, Exception):
            raise
        raise ToolError(_why(path, str(error))) from None
    return Chromium(playwright, browser, folder, leader_of(folder), lock)


async def _driver(folder: Path, environment: Mapping[str, str], writable: Iterable[str | Path]) -> Playwright:
    """Start Playwright's driver (a Node.js program) with the same small environment and temporary files in `folder`.
    Raises ToolError if it is one that tools may replace."""
    from playwright.async_api import async_playwright

    node = os.environ.get("PLAYWRIGHT_NODEJS_PATH")
    if node and (why := doubt(node, writable)) is not None:
        raise ToolError(f"PLAYWRIGHT_NODEJS_PATH names a program that is not run: {why}")
    _patch_driver()
    before = _small.set({**environment, "TMPDIR": str(folder)})
    starting = asyncio.ensure_future(async_playwright().start())  # takes the variable along
    _small.reset(before)
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:  # Playwright would leave a driver whose start is cancelled
        with contextlib.suppress(Exception):
            async with asyncio.timeout(CLOSE_SECONDS):
                await (await starting).stop()
        raise


@cache
def _patch_driver() -> None:
    """Make Playwright ask us for the environment of a driver."""
    from playwright._impl import transport  # a private name that may change: then the driver gets all variables

    module: Any = transport
    usual: Callable[[], dict[str, str]] | None = getattr(module, "get_driver_env", None)
    if usual is None:
        return

    def environment() -> dict[str, str]:
        small, whole = _small.get(), usual()
        return whole if small is None else {**small, **{k: v for k, v in whole.items() if k.startswith("PW_")}}

    module.get_driver_env = environment


async def _end(playwright: Playwright | None, leader: int | None, folder: Path, lock: int) -> None:
    """End a browser, its driver and all their processes, and delete their files."""
    if leader is not None:
        with contextlib.suppress(OSError):
            os.killpg(leader, signal.SIGKILL)
        _remove_sockets(folder)
    if playwright is not None:
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await playwright.stop()
        except Exception as error:
            log.debug("closing the browser's driver: %s", error)
    await asyncio.to_thread(_end_rest, folder)  # what the driver started meanwhile, and a driver that hangs
    if leader is not None:
        await asyncio.to_thread(_reap, leader)
    await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
    os.close(lock)


def _environment(folder: Path, writable: Iterable[str | Path]) -> Mapping[str, str]:
    home = folder / "home"
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    kept |= {name: value for name, value in os.environ.items() if name.startswith("LC_")}
    kept.setdefault("LANG", "C.UTF-8")
    kept["PATH"] = os.pathsep.join([str(folder / "bin"), search_path(writable)])
    return {**kept, "HOME": str(home), "XDG_CONFIG_HOME": str(home), "XDG_CACHE_HOME": str(home)}


def _why(path: Path, said: str) -> str:
    """Return the reason why Chromium did not start, for the model and the person."""
    if "sandbox" in said.lower() and "no usable sandbox" in said.lower():
        return (
            f"{path} cannot make its sandbox here (no user namespaces): allow them (sysctl "
            "kernel.unprivileged_userns_clone=1, or kernel.apparmor_restrict_unprivileged_userns=0)"
        )
    line = next((line.strip() for line in said.splitlines() if "error" in line.lower()), said.strip().splitlines()[0])
    return f"{path} could not be started: {line[:300]}; `{path} --version` should print a version"


def dead_profiles(folder: Path, *, remove: bool = True) -> list[str]:
    """Return the unused profiles in `folder`, whose locks no process holds: of browsers whose Toolcrib process was
    killed. With `remove`, also delete them. Raises ImportError on a system without file locks."""
    found: list[str] = []
    for lock in sorted(folder.glob(f"*/{LOCK}")):
        try:
            held = lock_file(lock, wait=False)
        except OSError:  # it has just been deleted
            continue
        if held is None:  # in use
            continue
        with closing_fd(held):
            found.append(lock.parent.name)
            if remove:
                _end_rest(lock.parent)
                shutil.rmtree(lock.parent, ignore_errors=True)
    return found


# --- processes


def leader_of(folder: Path) -> int | None:
    """Return the leader of the process group of the browser with a profile in `folder`, or None."""
    for pid in _pids():
        if _runs_in(pid, folder) and _group(pid) == pid:
            return pid
    return None


def _end_rest(folder: Path) -> None:
    """Kill each process that names the folder of a browser, and remove its sockets."""
    _remove_sockets(folder)
    for pid in _pids():
        if _runs_in(pid, folder):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)


def _remove_sockets(folder: Path) -> None:
    """Remove what Chromium makes outside its profile in `folder`, and leaves when it is killed: a folder with a socket
    beneath /tmp, where paths are short."""
    for link in folder.glob("*/SingletonSocket"):
        with contextlib.suppress(OSError):
            socket = link.readlink()
            if socket.name == link.name:
                for name in (link.name, "SingletonCookie"):
                    (socket.parent / name).unlink(missing_ok=True)
                socket.parent.rmdir()


def _reap(leader: int) -> None:
    """Wait for processes of the group that became our children, so that they do not remain as zombies.

    They become our children if this process is the subreaper.
    """
    until = time.monotonic() + _REAP_SECONDS
    with contextlib.suppress(ChildProcessError):
        while time.monotonic() < until:
            if os.waitpid(-leader, os.WNOHANG)[0] == 0:
                time.sleep(0.01)


def _pids() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]
    except OSError:  # no /proc: no processes can be found
        return []


def _group(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except OSError:
        return -1


def _runs_in(pid: int, folder: Path) -> bool:
    """Return whether an option or a variable of a process names a path in the folder."""
    for name in ("cmdline", "environ"):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/{name}", "rb") as file:
            if b"=" + os.fsencode(folder) + b"/" in file.read():
                return True
    return False
