"""Say whether the host may start a command of the settings (a hook's, a secret's, a server's), and as which program.

These commands run outside the sandbox. A program that is named without a path is looked up where no tool can put
another one (`boundary/programs.py`). What a command runs or loads in a folder that tools may write has a fingerprint,
stored at its first start. A change asks a person before the next start: `accept` stores the new one.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from ..boundary.host_file import HostFile, both_names, new_modules_of
from ..boundary.own_files import read_regular
from ..boundary.programs import host_environment, look_up
from ..boundary.real_path import real_path
from ..boundary.scripts import Loaded, fingerprint, host_files_of, loaded_by, modules_of, started_with
from ..core.dataclass import dataclass
from ..core.errors import ToolError
from ..record.state import write_private

_MAX_BYTES = 4 << 20
_SHOWN = 8
_ABSENT = "absent"  # as in a fingerprint
_CACHE = "PYTHONPYCACHEPREFIX"
"""Lets Python keep and look for compiled modules elsewhere: next to a module, a command could make one."""
_SAFE_PATH = "PYTHONSAFEPATH"
"""Lets Python (3.11 on) look for no modules in the folder of a script, nor in the current one."""


class StartRefused(ToolError):
    """A command was not started, because what it runs has changed since it was trusted."""


@dataclass(frozen=True, slots=True)
class DeclaredStart:
    """A command of the settings that the host starts. `who` names it for people; `remedy` accepts a change.
    `variables` are those of its own that make a program load something; `path` is its PATH, if another. `everywhere`:
    it starts in whatever workspace is opened, so what is there is not trusted at the first start."""

    who: str
    words: tuple[str, ...]
    cwd: Path
    remedy: str = "toolcrib trust"
    variables: tuple[str, ...] = ()
    path: str | None = None
    everywhere: bool = False


def of_hook(command: Sequence[str]) -> DeclaredStart:
    """Return the start of a hook's command, in the current folder."""
    return DeclaredStart(f"the hook {os.path.basename(command[0])}", tuple(command), Path.cwd())


def of_secret(where: str, command: Sequence[str]) -> DeclaredStart:
    """Return the start of the command that prints a secret; `where` is its setting."""
    return DeclaredStart(where, tuple(command), Path.cwd())


@dataclass(frozen=True, slots=True)
class StartDoubt:
    """What changed in the files of a command since it was trusted, and the digest of their present state."""

    text: str
    digest: str


class Starts:
    """The commands that a toolbox's host starts. `writable` are the folders that its tools may write; `store` is a
    private folder for the fingerprints. Without it, changes are not noticed. `everywhere` are commands that start in
    whatever workspace is opened."""

    def __init__(
        self,
        writable: Iterable[str | Path] = (),
        store: Path | None = None,
        everywhere: frozenset[tuple[str, ...]] = frozenset(),
    ) -> None:
        self.writable, self._everywhere = tuple(writable), everywhere
        self._store = store
        self._held: dict[DeclaredStart, frozenset[str]] = {}

    def command(self, words: Sequence[str], cwd: Path | None = None, path: str | None = None) -> list[str]:
        """Return the command with the absolute path of its program. `path` is instead of this process's PATH.

        Raises ToolError if there is no program that the host may run.
        """
        name = os.path.expanduser(words[0])
        if os.path.dirname(name):
            return [os.path.join(cwd or os.getcwd(), name), *words[1:]]
        doubts: list[str] = []
        for found, why in look_up(name, self.writable, path, shims=True):
            if why is None:
                return [found, *words[1:]]
            doubts.append(f"{found} is not run: {why}")
        searched = os.environ.get("PATH", os.defpath) if path is None else path
        raise ToolError("; ".join(doubts) or f"there is no program {name!r} on its PATH ({searched})")

    def named_by(self, words: Sequence[str]) -> str | None:
        """Return the first file that a command of the environment would run or load where tools may write, if there is
        one."""
        loaded = loaded_by(words, Path.cwd(), self.writable)
        return next(iter((*loaded.hashed, *loaded.kept, *loaded.modules)), None)

    def environment(self, environ: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the environment of such a command."""
        return host_environment(self.writable, environ)

    def checked(self, start: DeclaredStart) -> tuple[list[str], dict[str, str]]:
        """Return the command to start, and its environment. Raises ToolError if it must not start, ConfigError or
        OSError if that cannot be known."""
        return self.command(start.words), {**self.environment(), **self.check(start, safe_path=True)}

    def check(self, start: DeclaredStart, *, safe_path: bool = False) -> dict[str, str]:
        """Store the fingerprint at the first start, and return variables for the environment. Raises StartRefused if it
        is another one now, or if a command that still runs may have made what is not in it; ConfigError or OSError if
        it cannot be stored. `safe_path`: where a script imports nothing of the top folder that it lies in, Python does
        not look there; else nothing starts while a command runs that could make a module there."""
        if self._store is None:
            return {}
        loaded = self._loaded(start)
        now, known = _state_of(loaded), self._known(start)
        if (doubt := self._doubt(start, known, now)) is not None:
            raise StartRefused(f"{doubt.text}. `{start.remedy}` shows the change, and asks")
        unseen = both_names(loaded.kept) if known is not None else [each.path for each in host_files_of(loaded, "")]
        if made := self.made(start, unseen):
            raise StartRefused(f"{made}. End that one first: exec_session lists and ends those in the background")
        if known is None:
            self._keep(start, now)
        compiled = any(path.endswith(".pyc") for path in loaded.shadows)
        variables = {_CACHE: str(self._store.parent / "pycache")} if compiled else {}
        if not safe_path or not loaded.modules:
            return variables
        if not _imports_beside(start, loaded):
            return {**variables, _SAFE_PATH: "1"}
        new = [each.path for folder in loaded.modules for each in new_modules_of(folder, "")]
        if made := self.made(start, new, could=True):
            raise StartRefused(
                f"{made}. End that one first (exec_session lists and ends those in the background), or put the script "
                "into a folder of its own"
            )
        return variables

    def doubt(self, start: DeclaredStart) -> StartDoubt | None:
        """Return what changed since the command was trusted; None if nothing did, or if it was never started."""
        known = None if self._store is None else self._known(start)
        return None if self._store is None else self._doubt(start, known, self._now(start))

    def _doubt(
        self, start: DeclaredStart, known: Mapping[str, str] | None, now: Mapping[str, str]
    ) -> StartDoubt | None:
        """Return what differs from what is known. If nothing is known, it is trusted, but not in whatever workspace is
        opened, unless the command names that one."""
        meant = any(str(root) in word for root in self.writable for word in start.words)
        everywhere = start.everywhere or (start.words in self._everywhere and not meant)
        return None if known is None and not everywhere else _said(start, known, now)

    def accept(self, start: DeclaredStart, digest: str) -> bool:
        """Trust the present state, if it is the one with this digest: a person saw that one. Return whether it is.

        Raises ConfigError or OSError if it cannot be stored.
        """
        now = self._now(start)
        if _digest(now) != digest:
            return False
        self._keep(start, now)
        return True

    def host_files(self, starts: Iterable[DeclaredStart]) -> tuple[HostFile, ...]:
        """Return the files of these commands that tools may write: they ask before they change one."""
        found: dict[str, HostFile] = {}
        for start in starts:
            loaded = self._loaded(start)
            reason = f"{start.who} runs or loads it outside the sandbox, as you"
            files = tuple(host_files_of(loaded, reason))
            self._held[start] = frozenset(each.path for each in files)
            for each in files:
                found.setdefault(each.path, each)
        return tuple(found.values())

    def made(self, start: DeclaredStart, paths: Collection[str] | None = None, *, could: bool = False) -> str | None:
        """Return that it could load what a command that still runs may have made, of all its files or of these.
        `could`: or may make before it is loaded."""
        from ..boundary.sandbox.running_commands import made_now  # only starts need it

        found = made_now(self._held.get(start, ()) if paths is None else paths, could=could)
        made = [path for path in found if "__pycache__" not in path]  # not loaded (`_CACHE`)
        shown = ", ".join(os.path.relpath(path, start.cwd) for path in made[:_SHOWN])
        how = "which a command that still runs could make now" if could else "new since a command began that still runs"
        return f"{start.who} would load {shown}, {how}" if made else None

    def _loaded(self, start: DeclaredStart) -> Loaded:
        return started_with([*start.words, *start.variables], start.cwd, self.writable)

    def _now(self, start: DeclaredStart) -> dict[str, str]:
        return _state_of(self._loaded(start))

    def _path(self, start: DeclaredStart) -> Path:
        assert self._store is not None
        text = json.dumps([start.who, [*start.words, *start.variables], str(start.cwd)])
        return self._store / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.json"

    def _known(self, start: DeclaredStart) -> dict[str, str] | None:
        """Return the stored fingerprint; {} if it cannot be read, so that a start asks."""
        try:
            data = read_regular(self._path(start), _MAX_BYTES)
        except FileNotFoundError:
            return None
        except OSError:
            return {}
        try:
            files = json.loads(data or b"")["files"]
            return {str(path): str(digest) for path, digest in files.items()}
        except (ValueError, KeyError, TypeError, AttributeError):
            return {}

    def _keep(self, start: DeclaredStart, now: Mapping[str, str]) -> None:
        write_private(self._path(start), json.dumps({"version": 1, "who": start.who, "files": now}))


def _state_of(loaded: Loaded) -> dict[str, str]:
    return modules_of(loaded) | fingerprint(loaded)


def _imports_beside(start: DeclaredStart, loaded: Loaded) -> bool:
    """Return whether a command imports modules that are in a folder in which Python looks for every module."""
    named = {real_path(os.path.join(start.cwd, word)) for word in start.words if "\0" not in word}
    shadows = (path for each in loaded.shadows for path in HostFile(each, "", True).there())
    found = {path for path in (*loaded.hashed, *shadows) if os.path.dirname(path) in loaded.modules} - named
    return any(os.path.isdir(path) or (path.endswith((".py", ".so")) and os.path.lexists(path)) for path in found)


def _digest(files: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(sorted(files.items())).encode()).hexdigest()


def _said(start: DeclaredStart, known: Mapping[str, str] | None, now: Mapping[str, str]) -> StartDoubt | None:
    """Return what differs from what is known; None if nothing does."""
    before = known or dict[str, str]()
    pairs = ((path, before.get(path, _ABSENT), now.get(path, _ABSENT)) for path in sorted({*before, *now}))
    changed = [(path, was, what) for path, was, what in pairs if was != what]
    if not changed:
        return None
    named = [
        f"{os.path.relpath(path, start.cwd)} ({'new' if was == _ABSENT else 'gone' if what == _ABSENT else 'changed'})"
        for path, was, what in changed[:_SHOWN]
    ]
    more = f" and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else ""
    why = "of this workspace, where it was never started" if known is None else "that changed since you trusted them"
    text = f"{start.who} loads files outside the sandbox, with your rights, {why}: {', '.join(named)}{more}"
    return StartDoubt(text, _digest(now))
