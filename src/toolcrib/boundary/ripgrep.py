"""Find ripgrep (a configured path, then PATH, then the packaged binary) and build its command lines."""

from __future__ import annotations

import difflib
import functools
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Literal

from ..core.dataclass import dataclass
from ..core.errors import ConfigError
from .filename_globs import GlobMatcher
from .programs import doubt, host_environment, look_up, packaged

OLDEST = (13, 0)  # Debian 12's, the oldest version that was tried
MAX_LINE = 500  # bytes of a line that are shown
_NAME = "rg.exe" if sys.platform == "win32" else "rg"

Origin = Literal["configured", "PATH", "packaged"]


Mode = Literal["names", "files", "lines", "count"]


@dataclass(frozen=True, slots=True)
class Query:
    """A query: the text to search for beneath a directory, or in stdin.

    `include` and `exclude` are glob patterns relative to the directory (see globs.normalize). With `require_git` a
    .gitignore counts only in its repository, and not in one below it, as for ripgrep by itself; with `no_ignore_dot` an
    .ignore does not count, as for git. `in_order` searches in
    the order of paths, which is slower. All modes answer with records: NUL ends a path; in `names` and `files` a record
    is the path alone, in `count` a number and a line feed follow, in `lines` `LINE:COLUMN:text` for a match or
    `LINE-text` for context.
    """

    mode: Mode
    pattern: str = ""
    fixed_strings: bool = False
    ignore_case: bool = False
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    type: str | None = None
    context: int = 0
    hidden: bool = False
    no_ignore: bool = False
    no_ignore_dot: bool = False
    require_git: bool = False
    in_order: bool = False
    stdin: bool = False

    def filter_text(self) -> str:
        """Return the patterns to include as an ignore file. Unlike `--glob` it does not disable .gitignore."""
        if not self.include or self.no_ignore:
            return ""
        rules = ["*", "!*/", *(f"!/{pattern}" for pattern in self.include)]
        if not self.hidden:
            rules.append(".*")  # `!*/` would include hidden directories
        return "\n".join(rules) + "\n"


def arguments(query: Query, filter_file: str | None = None) -> list[str]:
    """Return ripgrep's arguments for a query; `filter_file` is a file with the text of `query.filter_text()`.

    ripgrep may return more than the query asks for: rules like `!*.log` in a .gitignore come before the filter, and
    `--type` and `--glob` include hidden files. `is_meant` removes the others.
    """
    found = ["--no-config", "--no-messages", "--color=never", "--null", "--no-ignore-global"]
    if not query.require_git:
        found.append("--no-require-git")
    if query.hidden:
        found.append("--hidden")
    if query.no_ignore:
        found.append("--no-ignore")
    if query.no_ignore_dot:
        found.append("--no-ignore-dot")
    if query.in_order:
        found.append("--sort=path")
    if query.type:
        found.append(f"--type={query.type}")
    if filter_file:
        found.append(f"--ignore-file={filter_file}")
    if query.no_ignore:
        found += [f"--glob=/{pattern}" for pattern in query.include]
    found += [f"--glob=!/{pattern}" for pattern in (*query.exclude, "**/.git")]
    if query.mode == "names":
        return [*found, "--files"]
    if query.mode == "files":
        found.append("--files-with-matches")
    elif query.mode == "count":
        found += ["--count", "--with-filename"]
    else:
        found += ["--line-number", "--column", "--no-heading", "--with-filename"]
        found += [f"--max-columns={MAX_LINE}", "--max-columns-preview", f"--context={query.context}"]
        found.append("--no-context-separator")
    if query.fixed_strings:
        found.append("--fixed-strings")
    found.append("--ignore-case" if query.ignore_case else "--case-sensitive")
    return [*found, f"--regexp={query.pattern}", "--", "-" if query.stdin else "."]


def is_meant(query: Query) -> Callable[[str], bool] | None:
    """Return a check for the paths in the results: whether the query asks for them; None if it asks for all."""
    match = GlobMatcher(query.include).match if query.include and not query.no_ignore else None
    if query.hidden:
        return match
    return lambda path: "/." not in path and not path.startswith(".") and (match is None or match(path))


@dataclass(frozen=True, slots=True)
class Ripgrep:
    """A ripgrep that runs here."""

    path: str
    version: tuple[int, ...]
    origin: Origin


def find_ripgrep(configured: str | None = None, *, writable: Iterable[str | Path] = ()) -> Ripgrep | None:
    """Return the first usable ripgrep, or None.

    A program that tools could replace is skipped: `writable` are the folders that they may write. Raises ConfigError
    if a configured path does not work; it is never skipped.
    """
    roots = tuple(writable)
    if configured:
        if (why := doubt(os.path.expanduser(configured), roots)) is not None:
            raise ConfigError(f"tools.ripgrep: {configured} is not run: {why}. Name one that only you can change.")
        version = _version(os.path.expanduser(configured))
        if version < OLDEST:
            found = f"is version {'.'.join(map(str, version))}" if version else "does not run"
            raise ConfigError(
                f"tools.ripgrep: {configured} {found}; ripgrep {OLDEST[0]} or newer is needed. "
                "Leave the setting out to use the one on PATH or the packaged one."
            )
        return Ripgrep(os.path.expanduser(configured), version, "configured")
    candidates: list[tuple[Origin, Iterator[str]]] = [("PATH", _on_path(roots)), ("packaged", packaged(_NAME))]
    for origin, paths in candidates:
        for path in paths:
            version = _version(path)
            if version >= OLDEST:
                return Ripgrep(path, version, origin)
    return None


_TYPES = 5  # names of file types that are suggested


def file_types(ripgrep: Ripgrep, like: str) -> list[str]:
    """Return the names of file types that ripgrep knows, the closest to a given name first."""
    try:
        done = subprocess.run(
            [ripgrep.path, "--no-config", "--type-list"], capture_output=True, text=True, timeout=10,
            env=host_environment(),
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return []
    types = dict(line.split(": ", 1) for line in done.stdout.splitlines() if ": " in line)
    by_suffix = [name for name, globs in types.items() if f"*.{like}" in globs.split(", ")]
    return list(dict.fromkeys([*by_suffix, *difflib.get_close_matches(like, types, _TYPES, 0.5)]))[:_TYPES]


def _on_path(writable: Iterable[str | Path]) -> Iterator[str]:
    return (path for path, why in look_up(_NAME, writable) if why is None)


@functools.cache
def _version(path: str) -> tuple[int, ...]:
    try:
        done = subprocess.run(
            [path, "--version"], capture_output=True, timeout=10, stdin=subprocess.DEVNULL, env=host_environment()
        )
    except (OSError, subprocess.SubprocessError):
        return ()
    found = re.match(rb"ripgrep (\d+)\.(\d+)(?:\.(\d+))?", done.stdout)
    return tuple(int(part or 0) for part in found.groups()) if found else ()
