"""Find what a repository makes git run or read, by its settings and by its form.

git reads the settings of the repository that it finds from its folder upwards, and some of them name programs that even
`git status` runs (git-config(1)). Links, alternates and settings can also make it read files outside. A tool or a
stranger can bury a repository in the workspace. Inside a sandbox that harms nothing; without one, git asks there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from ...boundary.descriptors import unreadable
from ...boundary.git_index import is_too_large, leading_out, linked_folders, names_anything
from ...boundary.git_settings import entries, holds_password, of_person, text_of
from ...boundary.protected_names import WITHIN_REPOSITORY
from ...boundary.real_path import real_path
from ...core.errors import ConfigError
from ...core.text import lazy_regex
from .parts import Command, CommandPlace
from .roles import CHECKS_SIGNATURES
from .spots import is_below

_MAX_BYTES = 1 << 20
_MAX_MODULES = 200
_MAX_ENTRIES = 5_000  # of a repository, in which a link that leads outside is searched
# Keys whose values git runs, or that name further settings. git-lfs has its own filters in many repositories.
_KEYS = (
    "fsmonitor|pager|editor|sshcommand|hookspath|askpass|gitproxy|textconv|external|command|driver|helper|program"
    "|difffilter|packobjectshook|cmd|path|uploadpack|receivepack|vcs|defaultkeycommand|tool|guitool"
    "|alternaterefscommand|allow"  # protocol.ext.allow: addresses may be commands
    "|showsignature"  # gpgsm fetches what a certificate names
    r"|(?:clean|smudge|process)(?!\s*=\s*git-lfs (?:clean|smudge|filter-process)(?: --skip)?(?: -- %f)?\s*$)"
)
_NAMES_PROGRAM = lazy_regex(
    rf"^[^\S\n]*(?:\[.*\][^\S\n]*)?(?:(?P<key>{_KEYS})\s*(?:=|$)|\[\s*(?P<section>alias|include|includeif|pager)\b)",
    re.IGNORECASE | re.MULTILINE,
)
_HOOKS = ("post-index-change",)  # the only hook of a command that reads: `git status` writes the index
_PLACES = ("--git-dir", "--work-tree")
_VALUED = frozenset({"-C", "-c", "--namespace", "--super-prefix", "--config-env", "--attr-source", *_PLACES})
# What is in these folders of a repository is not printed.
_UNREAD = frozenset({"refs", "logs", "hooks", "lfs", "annex", "modules"})
_OBJECTS = lazy_regex(r".*/objects/[0-9a-f]{2}", re.DOTALL)
# A name of a file that git reads by further rules: quotes, escapes, `%(prefix)`, `:(optional)`.
_ODD_FILE = lazy_regex(
    r"^(?>[^\S\n]*(?:\[.*?\][^\S\n]*)?(?P<key>worktree|\w*file|skiplist)\s*=)[^\n]*(?:[\"\\]|[%:]\()",
    re.IGNORECASE | re.MULTILINE,
)
_CERTAIN_HEAD = lazy_regex(r"ref: refs/|[0-9a-f]{40}(?:[0-9a-f]{24})?\s*\Z")


def beyond_command(command: Command, place: CommandPlace) -> str | None:
    """Return what a git command would do because of its repository, that its words do not say; None if nothing."""
    roots = (place.workspace, *place.writable, *place.readable)
    pending = [real_path(folder) for folder in _folders(command, place)]
    for number, folder in enumerate(pending):  # it grows
        for top, git in _repositories_of(folder):
            try:
                tree, asked = _beyond(top, git, roots)
            except ConfigError as error:
                return f"works in a repository that cannot be judged: {error}"
            if asked is not None:
                return asked.replace(f"{place.workspace}/", "")
            pending += [each for each in linked_folders(tree, git) if each not in pending]
            if number > _MAX_MODULES or names_anything(tree) or is_too_large(git):
                return f"works in one of many repositories that {os.path.relpath(git, place.workspace)} names"
    return None


def _beyond(top: str, git: str, roots: tuple[str, ...]) -> tuple[str, str | None]:
    """Return the tree of files of a repository, and the question about it, if there is one."""
    common, tree = _common(git), top
    own = not _inside(git, roots)  # the person's, if it is above the workspace, or knows this folder
    if own and _inside(top, roots) and not _knows(git, top):
        return tree, f"works in {git}, a repository outside the workspace that {top}/.git names"
    if not own and (leads := _leads_out(git, common, roots)) is not None:
        return tree, leads
    for config in _settings(git, common):
        text = text_of(config).removeprefix("\ufeff")
        if (found := _NAMES_PROGRAM.search(text)) is not None:
            named = found["key"] or found["section"]
            return tree, f"would run what the repository's own settings name ({named} in {config})"
        if not own and (found := _ODD_FILE.search(text)) is not None:
            return tree, f"would read a file whose name cannot be judged ({found['key']} in {config})"
        for each in entries(str(config)) if not own else ():
            if each.key in ("promisor", "partialclone", "partialclonefilter") and top != roots[0]:
                return tree, f"would fetch what is missing there from the network ({each.key} in {config})"
            if each.name == "diff.submodule" and each.value != "short":  # also to fetch what is missing there
                return tree, f"would run git in each repository that a commit names ({each.name} in {config})"
            if CHECKS_SIGNATURES.search(each.value) and each.section in ("pretty", "format", "branch", "tag"):
                return tree, f"would check signatures, for which gpg reaches the network ({each.name} in {config})"
            if each.key == "worktree" or each.key.endswith("file") or each.key == "skiplist":
                base = os.path.dirname(config) if each.key == "worktree" else top
                path = real_path(os.path.join(base, os.path.expanduser(each.value)))
                if not _inside(path, roots):
                    return tree, f"would read {path}, outside the workspace ({each.key} in {config})"
                if each.key == "worktree" and os.path.dirname(config) == git:
                    tree = path
    if not own and (name := leading_out(tree, git, lambda path: _inside(path, roots))) is not None:
        return tree, f"would read {name}, outside its folder ({git}/index)"
    for hook in _HOOKS:
        for folder in (git, common):
            if os.path.lexists(path := f"{folder}/hooks/{hook}"):
                return tree, f"would run {path}"
    return tree, None


def _common(git: str) -> str:
    """Return the folder that a repository shares with its worktrees: git takes each byte of its name."""
    name = text_of(f"{git}/commondir").rstrip("\r\n")
    return real_path(os.path.join(git, name)) if name else git


def _knows(git: str, top: str) -> bool:
    """Return whether a repository elsewhere says itself that this folder is its worktree, or its submodule."""
    back = text_of(f"{git}/gitdir").rstrip("\r\n")
    if back and real_path(os.path.join(git, back)) == real_path(f"{top}/.git"):
        return True
    trees = (each.value for each in entries(f"{git}/config") if each.name == "core.worktree")
    return any(real_path(os.path.join(git, each)) == top for each in trees)


def _leads_out(git: str, common: str, roots: tuple[str, ...]) -> str | None:
    """Return the question about a repository in the workspace that makes git read what lies outside."""
    if not _inside(common, roots):
        return f"would read {common}, outside the workspace ({git}/commondir)"
    if os.path.lexists(listed := f"{common}/objects/info/alternates"):  # it may name another one that has its own
        return f"would read the objects of another repository ({listed})"
    pending, seen = [git, common], 0
    for folder in pending:  # it grows
        entries_of: list[os.DirEntry[str]] = []
        with unreadable:
            entries_of = list(os.scandir(folder))
        seen += len(entries_of)
        if seen > _MAX_ENTRIES:
            return f"works in {git}, which holds too much to look for links that lead outside"
        for entry in entries_of:
            if entry.is_symlink():
                if not _inside(real_path(entry.path), roots):
                    return f"would follow the link {entry.path}, which leads outside the workspace"
                continue
            unread = _OBJECTS.fullmatch(entry.path) or (folder in (git, common) and entry.name in _UNREAD)
            if not unread and entry.is_dir(follow_symlinks=False):
                pending.append(entry.path)
    return None


def _inside(path: str, roots: tuple[str, ...]) -> bool:
    return any(is_below(path, root) for root in roots)


def shows_password(command: Command, place: CommandPlace) -> str | None:
    """Return the file with settings that holds a password, if a git command may print it."""
    if not any(word.text in ("remote", "config") or ":remotename" in word.start for word in command.args):
        return None
    folders = map(real_path, _folders(command, place))
    own = (git for folder in folders for _, git in _repositories_of(folder))
    paths = [str(path) for git in own for path in _settings(git, _common(git))]
    return next(filter(holds_password, [*paths, *of_person({"HOME": place.home})]), None)


def remote_of(command: Command, name: str, place: CommandPlace) -> str | None:
    """Return the address of a remote that the repository of a git command names; None if it is not certain."""
    *_, folder = _folders(command, place)
    for _, git in _repositories_of(real_path(folder)):
        found = entries(f"{git}/config")
        if any(each.section.startswith("include") or each.key.endswith("insteadof") for each in found):
            return None
        pushed = [each.value for each in found if each.name == f"remote.{name}.pushurl"]
        urls = [each.value for each in found if each.name == f"remote.{name}.url"]
        urls = pushed if pushed and any(word.text == "push" for word in command.args) else urls
        return urls[0] if len(urls) == 1 else None
    return None


def folder_is_unknown(command: Command) -> bool:
    """Return whether the folder of a git command is a pattern, or known only when it runs."""
    return any(value is None for name, value in _placed(command) if name == "-C" or name in _PLACES)


def _placed(command: Command) -> Iterator[tuple[str, str | None]]:
    """Yield the options before the sub-command, with their values: None is one that is not known."""
    words = iter(command.args)
    for word in words:
        name, equals, value = word.start.partition("=")
        if not name.startswith("-"):
            return
        if equals and name != "-C":
            yield name, value if word.text is not None else None
        elif name in _VALUED:
            yield name, next((each.text for each in words), "")


def _folders(command: Command, place: CommandPlace) -> Iterator[str]:
    """Yield the folders from which git looks for its repository. They are not normalised: git follows links first."""
    at = command.cwd or place.cwd
    given = list(_placed(command))
    for name, value in given:
        at = os.path.join(at, value or "") if name == "-C" else at
    yield at
    yield from (os.path.join(at, value or "") for name, value in given if name in _PLACES)


def _repositories_of(folder: str) -> Iterator[tuple[str, str]]:
    """Yield the repositories that git may find from a folder upwards: the folder with it, and the repository itself.
    The last one is a repository for certain: a folder that only looks like one may hide another above it."""
    at, above = folder, ""
    while at != above:
        if os.path.isfile(f"{at}/.git"):
            named = text_of(f"{at}/.git").removeprefix("gitdir: ").rstrip("\r\n")
            yield at, real_path(os.path.join(at, named))
            return
        for place in (f"{at}/.git", at):
            # HEAD may be a link to a file that is not there yet
            if os.path.lexists(f"{place}/HEAD") and any(
                os.path.lexists(f"{place}/{name}") for name in ("objects", "commondir")
            ):
                yield at, real_path(place)
                if _is_certain(place):
                    return
        at, above = os.path.dirname(at), at


def _is_certain(git: str) -> bool:
    head, parts = f"{git}/HEAD", [f"{_common(git)}/{name}" for name in ("objects", "refs")]
    entered = all(os.path.isdir(each) and os.access(each, os.X_OK) for each in parts)
    return entered and not os.path.islink(head) and bool(_CERTAIN_HEAD.match(text_of(head)))


def _settings(git: str, common: str) -> Iterator[Path]:
    """Yield the files with settings of a repository, of its submodules and worktrees."""
    yield from dict.fromkeys(Path(folder, name) for folder in (git, common) for name in ("config", "config.worktree"))
    pending = [Path(common, "modules")]
    for number, folder in enumerate(pending):
        if number > _MAX_MODULES:
            return
        if is_one := os.path.lexists(folder / "HEAD"):
            yield folder / "config"
        with unreadable, os.scandir(folder) as inside:
            names = [entry.name for entry in inside if entry.is_dir(follow_symlinks=False)]
            pending += [folder / name for name in names if not (is_one and name in WITHIN_REPOSITORY)]
