"""Find the host files that a sandboxed command may read: a minimal root, and the files that its tools need.

Besides the system folders these are the folders in PATH, and the prefixes of the interpreters that PATH or a virtual
environment of the workspace link to (pyenv, uv, nvm and conda put them into the home directory). The rest of the home
directory is never readable. A link in the workspace is trusted only if its target looks like an installed interpreter,
because a command can write such links itself.
"""

from __future__ import annotations

import contextlib
import functools
import glob
import os
import pwd
import stat
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from ..programs import beneath, within_any
from ..real_path import real_path
from ..sensitive_names import sensitive_among

SYSTEM_FOLDERS = ("/usr", "/opt", "/nix/store", "/gnu/store")
SYSTEM_LINKS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
# Bind mounts cost 0.13 ms each (bubblewrap reads mountinfo for every one), copies of small files almost nothing.
_ETC_FILES = ("ld.so.cache", "ld.so.conf", "ld.so.preload", "passwd", "group", "nsswitch.conf", "hosts")
_ETC_FOLDERS = (
    "alternatives", "ld.so.conf.d", "ssl", "ca-certificates", "pki/tls/certs", "pki/ca-trust/extracted",
)  # fmt: skip
_ETC_SECRETS = ("/etc/ssl/private",)  # readable where the owner of the sandbox is root

# Folders of version managers, relative to home, that are bound as a whole when PATH or a link leads into them:
# their launchers look for files next to themselves. None of them holds credentials (`uv auth` has a folder beside).
TOOL_HOMES = (
    ".pyenv", ".rbenv", ".nodenv", ".goenv", ".asdf", ".volta", ".rustup", ".nvm", ".sdkman", ".bun", ".deno",
    ".fnm", ".ghcup", ".juliaup", ".linuxbrew",
    ".local/share/uv/tools", ".local/share/uv/python", ".local/share/mise", ".local/share/rtx", ".local/share/pnpm",
    ".local/share/fnm", ".local/share/pipx", ".local/pipx", ".proto",
)  # fmt: skip
# rustup's proxies run the toolchains in the other folder, and uv's tools the interpreters
_RELATED = {".cargo/bin": ".rustup", ".local/share/uv/tools": ".local/share/uv/python"}

_REPOSITORY = frozenset({".git", ".hg", ".jj", ".svn"})
_OF_PROGRAMS = frozenset({"bin", "lib", "lib64", "libexec", "pyvenv.cfg"})
VENV_NAMES = (".venv", "venv", "env")
_MAX_HOPS = 8
_MAX_LINKS = 500
_SHOWING = frozenset({"--bind", "--bind-try", "--ro-bind", "--ro-bind-try", "--symlink"})  # a source and a target
_KNOWN_SECONDS = 10.0  # how long the link targets of PATH are remembered


def system_arguments() -> list[str]:
    """Return bubblewrap's arguments for the part of the root that every command sees."""
    arguments: list[str] = []
    for folder in SYSTEM_FOLDERS:
        if os.path.isdir(folder):
            arguments += ["--ro-bind", folder, folder]
    for link in SYSTEM_LINKS:
        if os.path.islink(link):
            arguments += ["--symlink", os.readlink(link), link]
        elif os.path.isdir(link):
            arguments += ["--ro-bind", link, link]
    arguments += ["--perms", "0755", "--dir", "/etc"]
    for path, is_dir in _etc():
        if is_dir:
            arguments += ["--ro-bind-try", path, path]
    zone = real_path("/etc/localtime")
    if zone.startswith("/usr/") and os.path.isfile(zone):
        arguments += ["--symlink", zone, "/etc/localtime"]
    elif os.path.exists(zone):
        arguments += ["--ro-bind-try", "/etc/localtime", "/etc/localtime"]
    return arguments


def system_paths() -> list[str]:
    """Return the same part of the root as plain paths, for a sandbox that has rules instead of mounts."""
    found = [*SYSTEM_FOLDERS, *(link for link in SYSTEM_LINKS if not os.path.islink(link)), "/etc/localtime"]
    return [path for path in (*found, *(path for path, _ in _etc())) if os.path.exists(path)]


def _etc() -> Iterator[tuple[str, bool]]:
    """Yield what every command sees of /etc, if it is there, and whether it is a folder. A folder with secrets is seen
    entry by entry, without these."""
    yield from ((f"/etc/{name}", False) for name in _ETC_FILES)
    for folder in (f"/etc/{name}" for name in _ETC_FOLDERS):
        secrets = [path for path in _ETC_SECRETS if path.startswith(f"{folder}/")]
        if not secrets:
            yield folder, True
        elif os.path.isdir(folder):
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.path in secrets or (entry.is_symlink() and _leads_to(entry.path, secrets)):
                        continue
                    if entry.is_dir() or entry.is_file():
                        yield entry.path, entry.is_dir()


def _leads_to(link: str, folders: Iterable[str]) -> bool:
    return any(beneath(real_path(link), real_path(folder)) for folder in folders)


def open_system_files(granted: Iterable[str] = ()) -> list[tuple[int, str]]:
    """Open small files of /etc that every command sees, for bubblewrap's `--file`, but for those that are granted: a
    copy would be written into the file itself."""
    found: list[tuple[int, str]] = []
    for path, is_dir in _etc():
        with contextlib.suppress(OSError):
            if not is_dir and not within_any(path, granted):
                found.append((os.open(path, os.O_RDONLY | os.O_CLOEXEC), path))
    return found


# Parts of /proc that describe the machine, not a process, and that root may write to without any capability, or
# that only root may read. Docker masks or protects the same.
_KERNEL_FOLDERS = ("acpi", "asound", "bus", "driver", "dynamic_debug", "fs", "irq", "pressure", "scsi")
_CHECKED_BY_CAPABILITY = ("kcore", "kmsg")
_FIRST_PROCESS = "/proc/1"


@functools.cache
def kernel_arguments(root: bool) -> tuple[str, ...]:
    """Return bubblewrap's arguments that protect the machine's data in a new /proc, and bubblewrap itself there: who
    could write the memory of its first process could let it outlive all that should end it.

    If we are root, all of it is read-only: sysctl files check the owner, not capabilities, so a sandboxed command could
    set kernel.core_pattern to a program that the kernel then runs outside. Else /proc/sys alone: bwrap protects it only
    if the folder itself is writable, which it is not.
    """
    arguments = ["--tmpfs", _FIRST_PROCESS, "--remount-ro", _FIRST_PROCESS]
    arguments += [] if root else ["--ro-bind", "/proc/sys", "/proc/sys"]
    for name in _KERNEL_FOLDERS if root else ("pressure",):
        if os.path.isdir(f"/proc/{name}"):
            arguments += ["--tmpfs", f"/proc/{name}", "--remount-ro", f"/proc/{name}"]
    if not root:
        return tuple(arguments)
    with os.scandir("/proc") as entries:
        for entry in sorted(entries, key=lambda e: e.name):
            mode = entry.stat(follow_symlinks=False).st_mode if not entry.name.isdigit() else 0
            if not stat.S_ISREG(mode) or entry.name in _CHECKED_BY_CAPABILITY:
                continue
            if not mode & stat.S_IROTH:
                arguments += ["--ro-bind", "/dev/null", entry.path]
    return (*arguments, "--remount-ro", "/proc")  # modes of files there are those of the whole machine


def bind_arguments(binds: Mapping[str, str]) -> list[str]:
    """Return bubblewrap's arguments for binds (target → source), outer folders first."""
    arguments: list[str] = []
    for target in sorted(binds, key=lambda t: (t.count("/"), t)):
        arguments += ["--ro-bind-try", binds[target], target]
    return arguments


def alias_arguments(names: Mapping[str, str], arguments: Sequence[str]) -> list[str]:
    """Return bubblewrap's arguments for links (name → where it leads), but for those that lie in what other arguments
    show, or around it. Under another name than this, what is withheld or protected in a folder would be open."""
    shown = [target for _, target in _named(arguments)]
    made: list[str] = []
    for name in sorted(names, key=len):
        if not within_any(name, (*shown, *made)) and not any(beneath(each, name) for each in shown):
            made.append(name)
    return [each for name in made for each in ("--symlink", names[name], name)]


def shown_by(arguments: Sequence[str], paths: Sequence[Path]) -> list[Path]:
    """Return those paths where bubblewrap's arguments show something of the host: at the path, above it or in it."""
    shown = ("/etc/", "/proc/", "/dev/", *{f"{each.rstrip('/')}/" for both in _named(arguments) for each in both})
    names = ((path, f"{path}/") for path in paths)
    return [path for path, name in names if name.startswith(shown) or any(each.startswith(name) for each in shown)]


def _named(arguments: Sequence[str]) -> list[tuple[str, str]]:
    """Return the sources and targets of what bubblewrap's arguments show."""
    return [(arguments[at + 1], arguments[at + 2]) for at, option in enumerate(arguments) if option in _SHOWING]


class ReadableRoots:
    """A collection of binds for one home and workspace."""

    def __init__(self, home: Path, workspace: Path) -> None:
        self.home = str(home)
        self.workspace = str(workspace)
        self.binds: dict[str, str] = {}  # target → source
        self._open = {"/", "/home", "/root", "/tmp", "/var", "/etc", self.home, f"{self.home}/.local"}  # noqa: S108
        self._open |= {str(p) for p in (*home.parents, *workspace.parents)}
        # A PATH may name version managers of the account where HOME was set to another folder (CI, sudo).
        self._homes = tuple(dict.fromkeys((self.home, _account_home())))
        self._open |= {*self._homes, *(f"{each}/.local" for each in self._homes)}

    def add_path(self, path: str) -> list[str]:
        """Make the folders of a PATH visible, with the files that they need. Return the folders that will exist."""
        kept: list[str] = []
        for entry in path.split(os.pathsep):
            folder = os.path.normpath(entry) if entry else ""
            if not os.path.isabs(folder) or folder in kept or not os.path.isdir(folder):
                continue
            if self._within_workspace(folder):
                kept.append(folder)
                continue
            if folder in self._open or folder in (self.home, self.workspace):
                continue  # this would open a whole home directory
            kept.append(folder)
            if not self._visible(folder):
                self._add_folder(folder)
            if not folder.startswith(("/usr/bin", "/usr/sbin", "/bin", "/sbin")):
                for target in _links(folder):
                    self._add_target(target)
        return kept

    def add_environments(self, folders: Iterable[str]) -> None:
        """Make the interpreters visible that virtual environments in these workspace folders link to."""
        for folder in folders:
            for name in VENV_NAMES:
                for interpreter in ("python", "python3"):
                    link = f"{folder}/{name}/bin/{interpreter}"
                    if os.path.islink(link) and os.path.isfile(f"{folder}/{name}/pyvenv.cfg"):
                        self._add_interpreter(link)

    # --- PATH comes from the user: its folders are bound ---------------------------------------------------

    def _add_folder(self, folder: str) -> None:
        bound = self._tool_home(folder) or folder
        self._bind(bound)
        for home in self._homes:
            relative = os.path.relpath(bound, home)
            if relative in _RELATED:
                self._bind(f"{home}/{_RELATED[relative]}")
        if bound != folder:
            return
        prefix = os.path.dirname(folder)
        if os.path.basename(folder) == "bin" and self._is_prefix(prefix):
            self._bind_installation(prefix)
            self._add_interpreter(f"{folder}/python")

    def _add_target(self, target: str) -> None:
        """Bind the target of a link in a folder of PATH: its installation, or else that one file."""
        if self._visible(target) or self._within_workspace(target):
            return
        real = real_path(target)
        folder = os.path.dirname(real)
        if self._tool_home(folder) is not None:
            self._add_folder(folder)
        elif os.path.basename(folder) == "bin" and self._is_prefix(os.path.dirname(folder)):
            self._bind_installation(os.path.dirname(folder))
            self._add_interpreter(f"{folder}/python")
        elif os.path.isfile(real):
            self._bind(real)
        if not self._visible(target):  # reached through another link: put the file at the path of that link
            self.binds[target] = real

    def _tool_home(self, folder: str) -> str | None:
        """Return the version manager's folder that contains a folder."""
        for home in self._homes:
            for name in TOOL_HOMES:
                if folder == f"{home}/{name}" or folder.startswith(f"{home}/{name}/"):
                    return f"{home}/{name}"
        return None

    def _is_prefix(self, folder: str) -> bool:
        return folder not in self._open and (os.path.isdir(f"{folder}/lib") or os.path.isfile(f"{folder}/pyvenv.cfg"))

    # --- the workspace is not trusted: only real interpreters are bound -----------------------------------

    def _add_interpreter(self, link: str) -> None:
        """Follow a `bin/python` link by link, and make each installation on the way visible under its own name."""
        for hop in _hops(link):
            prefix = os.path.dirname(os.path.dirname(hop))
            if self._within_workspace(hop) or self._visible(hop):
                continue
            real = real_path(prefix)
            if _is_python(real) and not {real, prefix} & self._open:
                self._bind(real)
                self.binds.setdefault(prefix, real)
            elif os.path.isfile(f"{prefix}/pyvenv.cfg") and _is_environment(real) and prefix not in self._open:
                self._bind_installation(real)

    # --- helpers ------------------------------------------------------------------------------------------

    def _bind(self, path: str) -> None:
        if path not in self._open and not self._visible(path) and not self._within_workspace(path):
            self.binds[path] = real_path(path)

    def _bind_installation(self, prefix: str) -> None:
        """Bind an installation; if it is a person's project, or holds secrets, only its folders for programs."""
        try:
            names = os.listdir(prefix)
        except OSError:
            return
        if _REPOSITORY.isdisjoint(names) and not sensitive_among(prefix, names):
            self._bind(prefix)
            return
        for name in _OF_PROGRAMS.intersection(names):
            if not os.path.islink(f"{prefix}/{name}"):
                self._bind(f"{prefix}/{name}")

    def _within_workspace(self, path: str) -> bool:
        return path == self.workspace or path.startswith(self.workspace + "/")

    def _visible(self, path: str) -> bool:
        parents = [path, *(str(p) for p in Path(path).parents)]
        return any(p in self.binds or p in SYSTEM_FOLDERS or p in SYSTEM_LINKS for p in parents)


class KnownRoots:
    """The files that the commands of one workspace need for their tools."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self._lock = threading.Lock()
        self._last: tuple[float, str, ReadableRoots, list[str]] | None = None

    def look(self, cwd: Path, path: str) -> tuple[dict[str, str], list[str]]:
        """Return the binds (target → source) for a command in this folder with this PATH, and the PATH that remains."""
        now = time.monotonic()
        with self._lock:
            if self._last is None or self._last[1] != path or now - self._last[0] > _KNOWN_SECONDS:
                roots = ReadableRoots(Path(os.path.expanduser("~")), self._workspace)
                self._last = now, path, roots, roots.add_path(path)
            _, _, roots, kept = self._last
            own, folder, folders = str(self._workspace), str(cwd), list[str]()
            while beneath(folder, own):
                folders.append(folder)
                folder = os.path.dirname(folder) if folder != own else ""
            roots.add_environments(folders)
            return dict(roots.binds), list(kept)


def _account_home() -> str:
    """Return the home directory of this account in the system's list of users, or "/" if it has none."""
    with contextlib.suppress(KeyError):
        return os.path.normpath(pwd.getpwuid(os.getuid()).pw_dir or "/")
    return "/"


def _links(folder: str) -> Iterator[str]:
    """Yield the targets of the links in a folder, one hop, as absolute paths."""
    try:
        with os.scandir(folder) as entries:
            links = [entry.path for entry in entries if entry.is_symlink()][:_MAX_LINKS]
    except OSError:
        return
    for link in links:
        try:
            target = os.path.normpath(os.path.join(folder, os.readlink(link)))
            if os.path.dirname(target) != folder and os.path.isfile(target):
                yield target
        except OSError:
            continue


def _hops(link: str) -> Iterator[str]:
    """Yield every path on the way of a link; the last one is not a link."""
    path = os.path.normpath(link)
    for _ in range(_MAX_HOPS):
        yield path
        try:
            path = os.path.normpath(os.path.join(os.path.dirname(path), os.readlink(path)))
        except OSError:
            return


def _is_python(prefix: str) -> bool:
    """Return whether a folder is a Python installation: it has an executable and the standard library's landmark."""
    landmark = glob.glob(f"{glob.escape(prefix)}/lib*/p*3*/os.py")  # python3.12, pypy3.10
    programs = (os.path.join(prefix, "bin", name) for name in ("python3", "python", "pypy3"))
    return bool(landmark) and any(_is_program(program) for program in programs)


def _is_environment(folder: str) -> bool:
    return bool(glob.glob(f"{glob.escape(folder)}/lib/p*3*/site-packages"))


def _is_program(path: str) -> bool:
    try:
        status = os.stat(path)
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and bool(status.st_mode & 0o111)
