"""Find what a repository's own settings would make git run.

git reads the settings of the repository that it finds from its folder upwards, and some of them name programs that even
`git status` runs (git-config(1)). A tool can bury a repository in the workspace. Inside a sandbox that harms nothing;
without one, git asks there.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator
from pathlib import Path

from ...boundary.git_index import linked_folders
from ...boundary.git_settings import holds_password, of_person
from ...core.text import lazy_regex
from .parts import Command, CommandPlace

_MAX_BYTES = 1 << 20
_MAX_MODULES = 200
# Keys whose values git runs, or that name further settings. git-lfs has its own filters in many repositories.
_KEYS = (
    "fsmonitor|pager|editor|sshcommand|hookspath|askpass|gitproxy|textconv|external|command|driver|helper|program"
    "|difffilter|packobjectshook|cmd|path|uploadpack|receivepack|vcs|defaultkeycommand|tool|guitool"
    r"|(?:clean|smudge|process)(?!\s*=\s*git-lfs\s)"
)
_NAMES_PROGRAM = lazy_regex(
    rf"^\s*(?:\[.*\]\s*)?(?P<key>{_KEYS})\s*(?:=|$)|^\s*\[\s*(?P<section>alias|include|includeif|pager)\b",
    re.IGNORECASE | re.MULTILINE,
)
_HOOKS = ("post-index-change",)  # the only hook of a command that reads: `git status` writes the index
_FOLDER_OPTIONS = ("-C", "--git-dir", "--work-tree")


def runs_by_settings(command: Command, place: CommandPlace) -> str | None:
    """Return what the repository of a git command would run by its own settings; None if nothing."""
    pending = list(_folders(command, place))
    for number, folder in enumerate(pending):  # it grows
        for repository in itertools.islice(_repository_of(folder, place.workspace), 1):
            for config in _settings(repository):
                try:
                    text = config.read_bytes()[:_MAX_BYTES].decode("utf-8", "replace")
                except OSError:
                    continue
                if (found := _NAMES_PROGRAM.search(text)) is not None:
                    return f"{found['key'] or found['section']} in {os.path.relpath(config, place.workspace)}"
            for hook in _HOOKS:
                if os.path.lexists(path := repository / "hooks" / hook):
                    return os.path.relpath(path, place.workspace)
            top = next((each for each in (Path(folder), *Path(folder).parents) if (each / ".git").exists()), folder)
            pending += [each for each in linked_folders(str(top)) if each not in pending]
            if number > _MAX_MODULES:
                return f"one of many repositories that {os.path.relpath(repository, place.workspace)} names"
    return None


def shows_password(command: Command, place: CommandPlace) -> str | None:
    """Return the file with settings that holds a password, if a git command may print it."""
    if not any(word.text in ("remote", "config") for word in command.args):
        return None
    own = (repo for folder in _folders(command, place) for repo in _repository_of(folder, place.workspace))
    paths = [str(path) for repository in own for path in _settings(repository)]
    return next(filter(holds_password, [*paths, *of_person({"HOME": place.home})]), None)


_SECTION = lazy_regex(r'^\s*\[\s*(?P<name>[\w.-]+)(?:\s+"(?P<of>[^"\\]*)")?\s*\]', re.MULTILINE)
_VALUE = lazy_regex(r"^\s*(?P<key>url|pushurl)\s*=\s*(?P<value>[^\s#;\"]+)\s*$", re.IGNORECASE | re.MULTILINE)
_REWRITES = lazy_regex(r"^\s*(?:\[.*\]\s*)?(?:push)?insteadof\s*=|\[\s*include", re.IGNORECASE | re.MULTILINE)


def remote_of(command: Command, name: str, place: CommandPlace) -> str | None:
    """Return the address of a remote that the repository of a git command names; None if it is not certain."""
    *_, folder = _folders(command, place)
    for repository in _repository_of(folder, place.workspace):
        try:
            text = (repository / "config").read_bytes()[:_MAX_BYTES].decode("utf-8", "replace")
        except OSError:
            return None
        if _REWRITES.search(text):
            return None
        heads = [*_SECTION.finditer(text)]
        values: dict[str, str] = {}
        for head, after in zip(heads, [*(each.start() for each in heads[1:]), len(text)], strict=True):
            if head["name"].lower() == "remote" and head["of"] == name:
                found = {each["key"].lower(): each["value"] for each in _VALUE.finditer(text[head.end() : after])}
                if values.keys() & found.keys():
                    return None
                values |= found
        pushes = any(word.text == "push" for word in command.args)
        return values.get("pushurl" if pushes and "pushurl" in values else "url")
    return None


def _folders(command: Command, place: CommandPlace) -> Iterator[str]:
    at = command.cwd or place.cwd
    yield at
    args = [word.text or "" for word in command.args]
    for number, text in enumerate(args):
        name, _, value = text.partition("=")
        if name in _FOLDER_OPTIONS:
            given = value or (args[number + 1] if number + 1 < len(args) else "")
            at = os.path.normpath(os.path.join(at, given)) if name == "-C" else at
            yield os.path.normpath(os.path.join(at, given))


def _repository_of(folder: str, root: str) -> Iterator[Path]:
    """Yield the folders with settings of the repository that git finds from a folder, up to the workspace."""
    at = Path(folder)
    while at == Path(root) or str(at).startswith(f"{root}/"):
        for place in (at / ".git", at):
            if place.is_file():
                try:
                    text = place.read_text("utf-8", "replace")[:4096]
                except OSError:
                    return
                place = Path(os.path.normpath(at / text.partition("gitdir:")[2].strip()))
                yield place
                return
            head = place / "HEAD"  # it may be a link to a file that is not there yet
            if (head.is_file() or head.is_symlink()) and any(
                map(os.path.lexists, (place / "objects", place / "commondir"))
            ):
                yield place
                return
        at = at.parent


def _settings(repository: Path) -> Iterator[Path]:
    """Yield the files with settings of a repository, of its submodules and worktrees."""
    yield from (repository / name for name in ("config", "config.worktree"))
    try:
        common = (repository / "commondir").read_text("utf-8", "replace")[:4096].strip()
        yield Path(os.path.normpath(repository / common)) / "config"
    except OSError:
        pass
    pending = [repository / "modules"]
    for number, folder in enumerate(pending):
        if number > _MAX_MODULES:
            return
        try:
            inside = [Path(entry.path) for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
        except OSError:
            continue
        for each in inside:
            if (each / "HEAD").exists():
                yield each / "config"
                pending.append(each / "modules")
            else:
                pending.append(each)
