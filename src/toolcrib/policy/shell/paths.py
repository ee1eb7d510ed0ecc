"""Judge what a command may do at the place where a word points: read, list, change, delete.

A path that is only partly known (`src/$x`, `*.py`) is judged by everything it could be.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import NamedTuple

from ...boundary.descriptors import unreadable
from ...boundary.git_settings import holds_password
from ...boundary.hidden_entries import hidden_at
from ...boundary.host_files import RULE_HOST_FILES
from ...boundary.protected_names import protected_below, protected_by
from ...boundary.real_path import real_path
from ...boundary.sandbox.found_files import secrets_below
from ...boundary.sandbox.protected_search import MAX_LENGTH
from ...boundary.sensitive_names import sensitive_by
from ...core.text import clip, lazy_regex, one_line
from ...core.verdict import Verdict
from .kinds import PATH_KINDS
from .parts import CommandPlace, Word
from .spots import Spot, find, is_below, loose, selected, where_is
from .table import places


class Finding(NamedTuple):
    """The result against one path or effect. Allowed ones give None."""

    verdict: Verdict
    rule: str
    phrase: str
    unknown: bool = False


_SECRET = lazy_regex("|".join(f"(?:{pattern})" for pattern in places.SECRET_PATHS), re.IGNORECASE | re.DOTALL)
_SECRET_DIRECTORY = lazy_regex("/(?:" + "|".join(map(re.escape, places.SECRET_DIRECTORIES)) + ")(?:/|$)", re.IGNORECASE)
_SOCKET = lazy_regex(places.SOCKETS)
_PERSISTENT_AT_HOME = lazy_regex("/(?:" + "|".join(map(re.escape, places.PERSISTENT_AT_HOME)) + ")(?:/|$)")
_INPUT = lazy_regex(r"/dev/stdin|/(?:dev|proc/self)/fd/(?![12]\Z)\d+")
_MAX_ENTRIES = 5_000  # in which a link out of the workspace, or an odd name, is searched
_PATTERN = lazy_regex(r"([*?\[])")


def judge(kind: str, word: Word, cwd: str | None, place: CommandPlace, *, found: bool = False) -> Finding | None:
    """Return the finding against doing this at the place a word points to, or None."""
    spot = find(word, cwd, place, found=found)
    linked = "" if found and None in word.parts else spot.pattern  # of `{}/x`, `{}` may be a link itself
    if kind == "delete" and spot.where == "unknown" and not found:
        evident = _evident_deletion(word, cwd)
        if evident is not None:
            return evident
    if kind == "list":
        return _judge_list(spot, linked, place)
    if kind in ("read", "send"):
        if kind == "send" and spot.where == "outside":
            return Finding("deny", "shell:exfiltration", f"sends {_shown(spot)}, outside the workspace, away")
        return _judge_read(spot, linked, place)
    return _judge_change(kind, spot, place)


_VARIABLE = lazy_regex(r"\"?\$\{?\w+\}?\"?/")
_EVERYTHING = (("/",), ("/*",), ("/.*",), ("/..",))


def _evident_deletion(word: Word, cwd: str | None) -> Finding | None:
    """Judge deletions that are harmful although the path is not known: in an unknown folder, and `$UNSET/*`.

    Commands run with few environment variables: a variable that the script did not set is probably empty.
    """
    if cwd is None and word.start[:1] not in ("/", "~", ""):
        return Finding("deny", "shell:delete-unknown", "deletes files in a directory that cannot be known beforehand")
    if word.parts[:1] == (None,) and word.parts[1:] in _EVERYTHING and _VARIABLE.match(word.source):
        return Finding("deny", "shell:delete-outside", "deletes everything where the variable is empty")
    return None


def _judge_list(spot: Spot, linked: str, place: CommandPlace) -> Finding | None:
    if spot.where == "unknown":
        return Finding("ask", "shell:unknown-path", "looks at a path that cannot be known beforehand", True)
    if spot.where == "outside":
        return Finding("ask", "shell:read-outside", f"looks at {spot.path}, outside the workspace", True)
    if (spot.pattern or spot.below) and place.on_disk and not (place.walled or place.contained):
        return links_out(spot.path, place, linked)
    return None


def _judge_read(spot: Spot, linked: str, place: CommandPlace) -> Finding | None:
    if spot.where == "stream":
        return None
    why = secret(spot)
    if why is not None:
        return Finding("deny", "shell:read-secret", f"reads {_shown(spot)}: {why}")
    if spot.path.startswith("/dev/"):
        return Finding("deny", "shell:device", f"reads the device {spot.path}")
    if spot.where == "unknown":
        return Finding("ask", "shell:unknown-path", "reads a path that cannot be known beforehand", True)
    if spot.pattern.rpartition("/")[2][:1] == "." and spot.where != "outside":
        return Finding("ask", "shell:read-hidden", f"reads {_shown(spot)}, which can take in files with secrets")
    if spot.where == "outside":
        if _holds_secrets(spot, place):
            return Finding("ask", "shell:read-outside", f"reads {_shown(spot)}, where secrets may lie")
        return Finding("ask", "shell:read-outside", f"reads {_shown(spot)}, outside the workspace", True)
    if place.on_disk and not (place.walled or place.contained):
        try:
            told = next(filter(holds_password, _git_settings(spot)), None)
        except TimeoutError:
            said = "takes in more folders than can be searched for passwords first"
            return Finding("ask", "shell:environment", said, True)
        if told is not None:
            return Finding("ask", "shell:environment", f"may show the password in {told}", True)
        if spot.below:
            return links_out(spot.path, place, linked)
    return None


def _git_settings(spot: Spot) -> Iterator[str]:
    """Yield the settings of the repositories whose `.git` a path or a pattern goes into."""
    above, inside, _ = f"{spot.path}/{spot.pattern}/".partition("/.git/")
    if inside:
        at = min(len(above), len(spot.path))
        yield from selected(above[:at], f"{above[at:].lstrip('/')}/.git/config".lstrip("/"), time.monotonic() + 1)


def links_out(folder: str, place: CommandPlace, pattern: str = "") -> Finding | None:
    """Return the question about what a program would read that follows the links in a folder: those that a pattern
    selects (what they lead to, `walked` knows), or else all below it."""
    pending, seen, pattern = [folder], 0, loose(pattern)
    walks = not pattern or "**" in pattern
    deep = walks or "/" in pattern
    while pending:
        entries: list[os.DirEntry[str]] = []
        at = pending.pop()
        with unreadable:
            entries = list(os.scandir(at))
        seen += len(entries)
        if seen > _MAX_ENTRIES or len(os.fsencode(at)) > MAX_LENGTH:
            said = f"may follow links in {folder}, which holds too much to look for them"
            return Finding("ask", "shell:links", said, True)
        for entry in entries:
            if entry.is_symlink():
                if deep or fnmatchcase(entry.name, pattern):
                    real = real_path(entry.path)
                    out = where_is(real, place) == "outside"
                    if out or (walks and _leads_to_secrets(real)):
                        to = "outside" if out else "to secrets"
                        return Finding(
                            "ask", "shell:links", f"may follow the link {entry.path}, which leads {to}", True
                        )
            elif deep and entry.name != ".git" and entry.is_dir(follow_symlinks=False):
                pending.append(entry.path)
    return None


def _leads_to_secrets(path: str) -> bool:
    try:
        return _secret_path(path) is not None or any(secrets_below(path, time.monotonic() + 1))
    except TimeoutError:
        return True


def behind_link(word: Word, cwd: str) -> Finding | None:
    """Return the question about a folder that a shell goes to, if it is not there by name: then the shell follows the
    links before a `..`, and is in another one."""
    path = os.path.join(cwd, word.text or "")
    if ".." not in path.split("/") or os.path.isdir(os.path.normpath(path)) or not os.path.isdir(path):
        return None
    return Finding("ask", "shell:links", f"goes to {real_path(path)}, because of a link before `..`", True)


def odd_names(word: Word, cwd: str) -> Finding | None:
    """Return the question about a pattern for file names, if a name that it may select says more to the program: it
    begins like an option, or it becomes several words or a pattern, as the unquoted variable of a loop."""
    if not _PATTERN.search(word.start):
        said = "takes the names of files in a folder that is known only when it runs"
        return Finding("ask", "shell:unknown-option", said, True)
    fixed, _, rest = _PATTERN.split(word.start, maxsplit=1)
    folder, _, _ = fixed.rpartition("/")
    name = "" if fixed else _named(cwd, re.compile(r"[-+]"), False)
    if not name and word.splits:
        hidden = "/." in f"/{word.start}"
        odd = re.compile(r"(?s).*[\s*?\[\\]" if hidden else r"(?s)(?!\.).*[\s*?\[\\]")
        name = _named(os.path.join(cwd, folder), odd, "/" in rest, hidden)
    said = f"takes the names of files, and {clip(one_line(name), 80)!r} is one that says more than that to a program"
    return Finding("ask", "shell:unknown-option", said, True) if name else None


def _named(folder: str, pattern: re.Pattern[str], deep: bool, hidden: bool = False) -> str:
    """Return a name in a folder, or below it, that begins with a pattern; of a folder that holds too much, its path."""
    pending, seen = [folder], 0
    while pending:
        with unreadable, os.scandir(pending.pop()) as entries:
            for entry in entries:
                seen += 1
                if pattern.match(entry.name):
                    return entry.name
                if deep and (hidden or entry.name[0] != ".") and entry.is_dir():
                    pending.append(entry.path)
        if seen > _MAX_ENTRIES and pending:
            return folder
    return ""


def _holds_secrets(spot: Spot, place: CommandPlace) -> bool:
    return not place.contained and spot.path in ("/", place.home, "/etc", "/root")


def _shown(spot: Spot) -> str:
    path = spot.path or "something"
    if spot.pattern:
        return f"{path.rstrip('/')}/{spot.pattern}"
    return f"something in {path}" if spot.below else path


@lru_cache(maxsize=4096)
def _secret_path(path: str) -> str | None:
    found = sensitive_by(path)
    if found is not None:
        return found.reason
    if _SECRET_DIRECTORY.search(path):
        return "secrets are kept in that folder"
    if _SECRET.fullmatch(path):
        return "it holds secrets"
    return "it is the container daemon's socket" if _SOCKET.fullmatch(path) else None


def secret(spot: Spot) -> str | None:
    """Return the reason why the file at this place is a secret, or None."""
    if not spot.path:
        return None
    if spot.pattern:
        return _secret_pattern(spot)
    return _secret_path(spot.path)


_KNOWN_SECRETS = (
    *("/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/root/.ssh/id_rsa", "/proc/self/environ"),
    *(f"/home/user/{name}" for name in (".ssh/id_rsa", ".ssh/id_ed25519", ".aws/credentials", ".netrc", ".pgpass")),
)


def _matches(pattern: str, path: str) -> bool:
    """Return whether a pattern matches a path, name by name; a home directory may have any name."""
    ours, theirs = pattern.split("/"), path.split("/")
    if len(ours) != len(theirs):
        return False
    home = theirs[1:2] == ["home"]
    return all(fnmatchcase(b, a) or (home and at == 2) for at, (a, b) in enumerate(zip(ours, theirs, strict=True)))


def _secret_pattern(spot: Spot) -> str | None:
    """Return why a pattern is secret. Its own text must select such files; a pattern that matches everything is not."""
    folder = spot.path.rstrip("/")
    letters = len(re.sub(r"\[[^\]]*\]|[*?./]", "", spot.pattern)) if "/" in spot.pattern else 0
    if letters >= 4 and any(_matches(f"{folder}/{spot.pattern}", known) for known in _KNOWN_SECRETS):
        return "the pattern selects files that hold secrets"
    if _SECRET_DIRECTORY.search(f"{folder}/"):
        return "secrets are kept in that folder"
    last = spot.pattern.rsplit("/", 1)[-1]
    for guess in {re.sub(r"[*?]", with_, spot.pattern) for with_ in ("", "x")}:
        if "[" not in guess and _secret_path(f"{folder}/{guess}"):
            return "the pattern selects files that hold secrets"
    if len(re.sub(r"\[[^\]]*\]|[*?.]", "", last)) >= 2 or (last.startswith(".") and last not in (".*", ".[!.]*")):
        for sample in places.SECRET_SAMPLES:
            if fnmatchcase(sample, last) and _secret_path(f"{folder}/{sample}") and not last.startswith("*"):
                return "the pattern selects files that hold secrets"
    first = spot.pattern.split("/", 1)[0]
    if first != spot.pattern and first.startswith("."):
        for name in (".ssh", ".aws", ".gnupg", ".kube", ".config", ".docker"):
            if fnmatchcase(name, first):
                return "the pattern selects folders that hold secrets"
    return None


def _judge_change(kind: str, spot: Spot, place: CommandPlace) -> Finding | None:
    verb = PATH_KINDS[kind]
    if spot.where == "stream":
        if _INPUT.fullmatch(spot.path) and kind in ("write", "create"):  # it may be a file that is open for reading
            return Finding("ask", f"shell:{kind}-unknown", f"{verb} what {spot.path} leads to", True)
        if kind == "create" and spot.path not in ("", "/dev/fd"):
            return Finding("ask", "shell:device", f"may put a file in the place of {spot.path}", True)
        plain = kind in ("write", "create") or not spot.path
        return None if plain else Finding("deny", "shell:device", f"{verb} {spot.path}")
    if kind == "link":
        return _judge_link(spot)
    if spot.where == "unknown":
        return _judge_unknown_change(kind, place)
    if spot.where == "scratch":
        return Finding("ask", f"shell:{kind}-scratch", f"{verb} {_shown(spot)}, which ends with the command", True)
    if spot.where in ("outside", "readable"):
        return _judge_outside(kind, spot, place)
    if place.profile == "read-only":
        return Finding("deny", "shell:read-only", f"{verb} {_shown(spot)}, and this profile is read-only")
    if spot.where == "root" and kind in ("delete", "move", "modify", "write"):
        if kind in ("delete", "move"):
            return Finding("deny", "shell:delete-workspace", f"{verb} the workspace itself ({spot.path})")
        return Finding("ask", f"shell:{kind}", f"{verb} the workspace itself", kind == "write")
    return _judge_inside(kind, spot, place)


def _judge_link(spot: Spot) -> Finding | None:
    why = secret(spot)
    if why is not None:
        return Finding("deny", "shell:link-secret", f"makes a link to {_shown(spot)}: {why}")
    if spot.where == "unknown":
        return Finding("ask", "shell:link-unknown", "makes a link to a path that cannot be known")
    if spot.where == "outside":
        return Finding("ask", "shell:link-outside", f"makes a link to {_shown(spot)}, outside the workspace")
    return None


def _judge_unknown_change(kind: str, place: CommandPlace) -> Finding:
    verb = PATH_KINDS[kind]
    if place.profile == "read-only":
        return Finding("deny", "shell:read-only", f"{verb} something, and this profile is read-only")
    phrase = f"{verb} something that cannot be known beforehand"
    return Finding("ask", f"shell:{kind}-unknown", phrase, kind in ("write", "create"))


def _judge_outside(kind: str, spot: Spot, place: CommandPlace) -> Finding:
    verb, shown = PATH_KINDS[kind], _shown(spot)
    if is_persistent(spot.path, place.home):
        return Finding("deny", "shell:persist", f"{verb} {shown}, which other programs run or obey")
    if place.profile == "unrestricted" and not _catastrophic(spot, place):
        return Finding("ask", f"shell:{kind}-outside", f"{verb} {shown}, outside the workspace")
    return Finding("deny", f"shell:{kind}-outside", f"{verb} {shown}, outside the workspace")


def is_persistent(path: str, home: str) -> bool:
    """Return whether a file in the home directory makes something run later: start files, units, hooks."""
    return is_below(path, home) and _PERSISTENT_AT_HOME.match(path[len(home) :]) is not None


def _catastrophic(spot: Spot, place: CommandPlace) -> bool:
    """Return whether the loss of this place would destroy the machine or the home directory."""
    path = spot.path
    if path == "/" or is_below(place.home, path) or is_below(place.workspace, path):
        return True
    if any(is_below(path, root) for root in places.SHARED_ROOTS):
        return False
    return any(is_below(path, root) for root in places.SYSTEM_ROOTS) or path.count("/") == 1


def _judge_inside(kind: str, spot: Spot, place: CommandPlace) -> Finding:
    verb, shown = PATH_KINDS[kind], _shown(spot)
    root = next((r for r in (place.workspace, *place.writable) if is_below(spot.path, r)), place.workspace)
    whole = f"{spot.path}/{spot.pattern}".rstrip("/")
    relative = whole[len(root) :].strip("/")
    if re.search(r"(?:^|/)\.git/hooks(?:/|$)", relative, re.IGNORECASE) and kind in ("write", "create", "modify"):
        return Finding("deny", "shell:persist", f"{verb} {shown}: git runs what is in it")
    moves = kind in ("delete", "move", "modify")
    for each in place.host_files():
        if each.covers(spot.path) or (moves and each.is_touched_by(spot.path)):
            return Finding("ask", RULE_HOST_FILES, f"{verb} {shown}: {each.reason}")
    protected = protected_by(relative) if relative else None
    if protected is not None and protected.name == ".git":
        protected = None if kind in ("write", "create") else protected
    if protected is None and moves and relative:
        protected = protected_below(relative)
    protected = protected or hidden_at(root, whole, whole=moves)
    if protected is not None:
        return Finding("ask", "shell:protected", f"{verb} {shown}: {protected.reason}")
    return Finding("ask", f"shell:{kind}", f"{verb} {shown}", kind in ("write", "create", "move", "modify"))
