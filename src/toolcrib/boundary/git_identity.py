"""Whose name and e-mail do commits of a command in a sandbox have?

A sandbox hides the person's git configuration, which may hold credentials and name programs. These two values of it are
read here, and nothing else; git itself is not run. The repository's own values stay above them, as in git.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from fnmatch import translate
from pathlib import Path

from .git_settings import entries, of_person, repositories, shared
from .real_path import real_path

_MAX_DEPTH = 10  # of files that include others, as in git
_MAX_VALUE = 200


def git_identity(cwd: Path, host: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variables with which git writes the person's name and e-mail into commits made in a folder.

    A value is left out if the repository has one of its own, or if the host's environment does.
    """
    host = os.environ if host is None else host
    home = host.get("HOME") or os.path.expanduser("~")
    git = next((git for _, git in repositories(str(cwd))), None)
    repository = None if git is None else Path(shared(git))
    found: dict[str, str] = {}
    for path in of_person(host):
        found |= _user(Path(path), home, repository)
    own = _user(repository / "config", home, repository) if repository is not None else {}
    return {
        f"GIT_{who}_{key.upper()}": value
        for key, value in found.items()
        if key not in own
        for who in ("AUTHOR", "COMMITTER")
        if f"GIT_{who}_{key.upper()}" not in host
    }


def _user(
    path: Path, home: str, repository: Path | None, known: dict[Path, dict[str, str]] | None = None, depth: int = 0
) -> dict[str, str]:
    """Return `name` and `email` of a file and of those that it includes. `known`: what was found in files before."""
    known = {} if known is None else known
    if path in known or depth > _MAX_DEPTH:
        return known.get(path, {})
    found = known[path] = {}
    for each in entries(str(path)):
        section, condition, key = each.section, each.sub, each.key
        if section == "user" and not condition and key in ("name", "email"):
            plain = "".join(c for c in each.value if c.isprintable()).strip()[:_MAX_VALUE]
            found |= {key: plain} if plain else {}
        elif key == "path" and (
            section == "include" or (section == "includeif" and _holds(condition, path, repository, home))
        ):
            found |= _user(path.parent / _expanded(each.value, home), home, repository, known, depth + 1)
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
    places = {os.path.abspath(repository), real_path(repository)}
    return any(re.match(translate(pattern), place, flags) for place in places)


def _expanded(path: str, home: str) -> str:
    return f"{home}{path[1:]}" if path.startswith("~/") else path
