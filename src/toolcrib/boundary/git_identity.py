"""Whose name and e-mail do commits of a command in a sandbox have?

A sandbox hides the person's git configuration, which may hold credentials and name programs. These two values of it are
read here, and nothing else; git itself is not run. The repository's own values stay above them, as in git.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from fnmatch import translate
from pathlib import Path

_MAX_BYTES = 1 << 20
_MAX_DEPTH = 10  # of files that include others, as in git
_MAX_VALUE = 200
_SECTION = re.compile(r'\s*\[\s*([\w.-]+)(?:\s+"((?:[^"\\]|\\.)*)")?\s*\]')
_ENTRY = re.compile(r"\s*([A-Za-z][\w-]*)\s*=\s*(.*)")
_VALUE = re.compile(r'"((?:[^"\\]|\\.)*)"|\\(.)|([#;].*)|([^"\\#;]+)')


def git_identity(cwd: Path, host: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variables with which git writes the person's name and e-mail into commits made in a folder.

    A value is left out if the repository has one of its own, or if the host's environment does.
    """
    host = os.environ if host is None else host
    home = host.get("HOME") or os.path.expanduser("~")
    config = host.get("XDG_CONFIG_HOME") or f"{home}/.config"
    repository = _repository(cwd)
    found: dict[str, str] = {}
    for path in (f"{config}/git/config", f"{home}/.gitconfig"):
        found |= _user(Path(path), home, repository)
    own = _user(repository / "config", home, repository) if repository is not None else {}
    return {
        f"GIT_{who}_{key.upper()}": value
        for key, value in found.items()
        if key not in own
        for who in ("AUTHOR", "COMMITTER")
        if f"GIT_{who}_{key.upper()}" not in host
    }


def _repository(cwd: Path) -> Path | None:
    """Return the folder with the settings of the repository around a folder."""
    for folder in (cwd, *cwd.parents):
        git = folder / ".git"
        if git.is_dir():
            return git
        if pointer := re.match(r"gitdir: ([^\n]+)", _text(git)):
            inner = folder / pointer[1]
            return inner / (_text(inner / "commondir").strip() or ".")
    return None


def _user(path: Path, home: str, repository: Path | None, above: tuple[Path, ...] = ()) -> dict[str, str]:
    """Return `name` and `email` of a file and of those that it includes. `above` are the files that include it."""
    found: dict[str, str] = {}
    if path in above or len(above) > _MAX_DEPTH:
        return found
    for section, condition, key, value in _entries(_text(path)):
        if section == "user" and not condition and key in ("name", "email"):
            plain = "".join(c for c in value if c.isprintable()).strip()[:_MAX_VALUE]
            found |= {key: plain} if plain else {}
        elif key == "path" and (
            section == "include" or (section == "includeif" and _holds(condition, path, repository, home))
        ):
            found |= _user(path.parent / _expanded(value, home), home, repository, (*above, path))
    return found


def _holds(condition: str, path: Path, repository: Path | None, home: str) -> bool:
    """Return whether `gitdir:PATTERN` names the repository. Other conditions do not hold."""
    kind, _, pattern = condition.partition(":")
    if repository is None or kind not in ("gitdir", "gitdir/i"):
        return False
    pattern = _expanded(pattern, home)
    if pattern.startswith("./"):
        pattern = f"{path.parent}{pattern[1:]}"
    elif not pattern.startswith("/"):
        pattern = f"**/{pattern}"
    pattern = f"{pattern}**" if pattern.endswith("/") else pattern
    flags = re.IGNORECASE if kind == "gitdir/i" else 0
    places = {os.path.abspath(repository), os.path.realpath(repository)}
    return any(re.match(translate(pattern), place, flags) for place in places)


def _expanded(path: str, home: str) -> str:
    return f"{home}{path[1:]}" if path.startswith("~/") else path


def _entries(text: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield section, subsection, key and value of each entry (git-config(1), "Syntax")."""
    section = sub = ""
    for line in text.replace("\\\n", "").splitlines():
        if header := _SECTION.match(line):
            section, sub = header[1].lower(), re.sub(r"\\(.)", r"\1", header[2] or "")
            line = line[header.end() :]
        if entry := _ENTRY.match(line):
            parts = [
                re.sub(r"\\(.)", r"\1", part[1]) if part[1] is not None else part[2] or part[4] or ""
                for part in _VALUE.finditer(entry[2])
            ]
            yield section, sub, entry[1].lower(), "".join(parts).strip()


def _text(path: Path) -> str:
    """Return the text of a plain file; "" if there is none, or if it is too large."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    with open(fd, "rb") as file:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_size > _MAX_BYTES:
            return ""
        return file.read(_MAX_BYTES).decode("utf-8", "replace")
