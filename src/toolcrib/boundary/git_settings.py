"""Read the settings of git around a folder, and find the files of a workspace that they make git run or obey.

Toolcrib never starts git, but a person does. Settings name hooks folders, further settings, and programs
(git-config(1)). Where these lie in a workspace, a tool that changed them would run what it likes with the person's
rights. Any value counts that names a file, unless its key is known to name data. Conditions of `includeIf` are taken to
hold.
"""

from __future__ import annotations

import functools
import os
import re
import shlex
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from ..core.dataclass import dataclass
from ..core.errors import ConfigError
from ..core.text import lazy_regex
from .descriptors import unreadable
from .host_file import HostFile, both_names
from .own_files import read_regular
from .programs import beneath, places_followed, without_dots
from .protected_names import WITHIN_REPOSITORY
from .scripts import SCRIPTS, host_files_of, loaded_by

_MAX_BYTES = 4 << 20
_MAX_FOLDERS = 500  # that are searched for the settings of submodules
_MAX_NAMING = 128 << 10  # characters of the different values in a workspace that may name files, and 64 for each
_SECTION = lazy_regex(r'\s*\[\s*([\w.-]+)(?:\s+"((?:[^"\\]|\\.)*)")?\s*\]')
_ENTRY = lazy_regex(r"\s*([A-Za-z][\w-]*)\s*=\s*(.*)")
_VALUE = lazy_regex(r'"((?:[^"\\]|\\.)*)"|\\(.)|([#;].*)|([^"\\#;]+)')

_INCLUDED = "git reads settings from it, which can name programs that git runs outside the sandbox, as you"
_FOLDERS = {
    "core.hookspath": "git runs the hooks in it outside the sandbox, as you",
    "init.templatedir": "git copies hooks from it into new repositories, and runs them outside the sandbox, as you",
}
_RUNS = "git runs or obeys it outside the sandbox, as you"
# Keys whose values name data, or are texts. So do all that end with "file".
_DATA = frozenset({
    "url", "pushurl", "fetch", "push", "merge", "remote", "description", "template", "worktree", "skiplist",
    "directory", "name", "email", "signingkey",
})  # fmt: skip
_SIGNS = lazy_regex(r"[|&;<>()$`*?\[#\n]")  # with one of them, git gives the value to a shell
_PLAIN = lazy_regex(r"[\w.-]*")  # a program on PATH, a number, a yes or no
_PASSWORD = lazy_regex(
    r"://[^\s/@:]*:[^\s/@]+@|://[^\s/@:]{16,}@|\bextraheader\s*=|\b\w*(?:pass(?:word)?|token)\s*=", re.IGNORECASE
)
_BETWEEN = lazy_regex(r"[^\w./~@+-]+")


@dataclass(frozen=True, slots=True)
class GitSetting:
    """One entry of a file with settings. Section and key are in lower case."""

    section: str
    sub: str
    key: str
    value: str

    @property
    def name(self) -> str:
        return ".".join(part for part in (self.section, self.sub, self.key) if part)


def repositories(folder: str, seen: set[str] | None = None) -> Iterator[tuple[str, str]]:
    """Yield the repositories around a folder, the innermost first: the folder where git runs what settings name, and
    the repository itself. It ends at a folder that was `seen`, and adds the others."""
    seen = set() if seen is None else seen
    while folder not in seen:
        seen.add(folder)
        git = f"{folder.rstrip('/')}/.git"
        try:
            is_folder = stat.S_ISDIR(os.stat(git).st_mode)
        except OSError:
            if os.path.lexists(f"{folder}/HEAD") and os.path.isfile(f"{folder}/config"):
                yield folder, folder
        else:
            if is_folder:
                yield folder, git
            elif pointer := re.match(r"gitdir: ([^\n]+)", text_of(git)):
                yield folder, without_dots(os.path.join(folder, pointer[1]))
        folder = os.path.dirname(folder)


def shared(git: str) -> str:
    """Return the folder in which a repository has its settings: that of a linked worktree is in another one."""
    common = text_of(f"{git}/commondir").strip()
    return without_dots(os.path.join(git, common)) if common else git


def runs_hooks(folder: str) -> bool:
    """Return whether git may run hooks for the repository around a folder."""
    git = shared(next(repositories(folder), ("", ""))[1])
    files = (f"{git}/config", f"{git}/config.worktree", "/etc/gitconfig", *of_person(os.environ))
    if any(each.name == "core.hookspath" for file in files for _, each in _with_included(file)):
        return True
    try:
        return any(not name.endswith(".sample") for name in os.listdir(f"{git}/hooks"))
    except OSError:
        return False


def of_person(host: Mapping[str, str]) -> tuple[str, ...]:
    """Return the files with the person's own settings, the first of which counts least."""
    if "GIT_CONFIG_GLOBAL" in host:
        return (host["GIT_CONFIG_GLOBAL"],)
    home = host.get("HOME") or os.path.expanduser("~")
    return f"{host.get('XDG_CONFIG_HOME') or f'{home}/.config'}/git/config", f"{home}/.gitconfig"


def entries(path: str) -> tuple[GitSetting, ...]:
    """Return the settings in a file (git-config(1), "Syntax"); none if it cannot be read."""
    return _read(path)[0]


def _read(path: str) -> tuple[tuple[GitSetting, ...], tuple[GitSetting, ...]]:
    """Return the settings in a file, and those of them whose values may name files that git runs or obeys."""
    try:
        status = os.stat(path)
    except OSError:
        return (), ()
    return _read_once(path, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


@functools.lru_cache(1_000)
def _read_once(path: str, *_state: int) -> tuple[tuple[GitSetting, ...], tuple[GitSetting, ...]]:
    found = tuple(_parsed(text_of(path)))
    return found, tuple(filter(_may_name, found))


def _may_name(setting: GitSetting) -> bool:
    if _includes(setting) or setting.name in _FOLDERS:
        return True
    if setting.section == "alias" and not setting.value.startswith(("!", "-")):
        return False  # a command of git
    return not (setting.key in _DATA or setting.key.endswith("file") or _PLAIN.fullmatch(setting.value))


def _parsed(text: str) -> Iterator[GitSetting]:
    section = sub = ""
    for line in text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\\\n", "").split("\n"):
        while header := _SECTION.match(line):
            section, sub = header[1].lower(), re.sub(r"\\(.)", r"\1", header[2] or "")
            line = line[header.end() :]
        if entry := _ENTRY.match(line):
            parts = [
                re.sub(r"\\(.)", r"\1", part[1]) if part[1] is not None else part[2] or part[4] or ""
                for part in _VALUE.finditer(entry[2])
            ]
            yield GitSetting(section, sub, entry[1].lower(), "".join(parts).strip())


def text_of(path: str | Path) -> str:
    """Return the text of a plain file, each line up to a NUL, which ends a name for git; "" if there is none. Raises
    ConfigError if it is too large: git would read it, and run what it names."""
    text = b""
    with unreadable:
        text = read_regular(path, _MAX_BYTES) or b""
    if len(text) > _MAX_BYTES:
        raise ConfigError(f"{path} is larger than {_MAX_BYTES:,} bytes, so what git runs here is not known; shorten it")
    return os.fsdecode(re.sub(rb"\0[^\n]*", b"", text) if b"\0" in text else text)


def holds_password(path: str | Path) -> bool:
    """Return whether a file with settings of git holds a password: in an address, or in a header that git sends."""
    try:
        return _PASSWORD.search(text_of(path)) is not None
    except ConfigError:
        return True


def named_by_git(root: str, folders: Iterable[str]) -> list[HostFile]:
    """Return what git runs or obeys beneath `root` (its real path), because the settings of a repository around one of
    these folders name it, or the person's own settings do. What is not there yet counts, too. Raises ConfigError if
    they name too much to look at."""
    found: dict[str, HostFile] = {}
    seen: set[str] = set()
    judged: set[tuple[str, str, str, str, str]] = set()
    naming = 0
    own = ("/etc/gitconfig", *of_person(os.environ))
    for top, git in (each for folder in folders for each in repositories(folder, seen)):
        for at, files in _with_submodules(top, git):
            for file, each in (pair for path in (*files, *own) for pair in _with_included(path)):
                setting = (file, at, each.section, each.key, each.value)
                if setting in judged:
                    continue
                judged.add(setting)
                naming += len(each.value) + 64 if beneath(file, root) else 0
                if naming > _MAX_NAMING:
                    raise ConfigError(f"{file} names too much for git to run, so what it runs is not known; shorten it")
                for named in _named(each, file, at, root):
                    why = f"{named.reason} ({each.name} in {file.removeprefix(f'{root}/')})"
                    for path in [named.path] if named.place else both_names([named.path]):
                        if path != root and beneath(path, root):
                            found.setdefault(path, HostFile(path, why, named.many, named.known, place=named.place))
    return list(found.values())


def _with_submodules(top: str, git: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the folder where git runs what settings name, and the files with the settings, of a repository and of its
    submodules."""
    common = shared(git)
    yield _tree(common) or top, [f"{common}/config", f"{git}/config.worktree"]
    pending = [f"{common}/modules"]
    for folder in pending:  # it grows
        passed = WITHIN_REPOSITORY if os.path.lexists(f"{folder}/HEAD") else ()
        if passed:
            yield _tree(folder) or folder, [f"{folder}/config", f"{folder}/config.worktree"]
        if len(pending) < _MAX_FOLDERS:
            with unreadable, os.scandir(folder) as inside:
                pending += [
                    each.path for each in inside if each.name not in passed and each.is_dir(follow_symlinks=False)
                ]
        elif passed:
            pending.append(f"{folder}/modules")


def _tree(git: str) -> str | None:
    """Return the folder that the settings of a repository name as its tree of files."""
    named = [each.value for each in entries(f"{git}/config") if each.name == "core.worktree"]
    return without_dots(os.path.join(git, named[-1])) if named else None


def _with_included(path: str) -> Iterator[tuple[str, GitSetting]]:
    """Yield what may name files in a file of settings and in all that it includes, each with its file."""
    files, known = [path], {path}
    # The list grows. Each file is read once: through files that include each other there are very many ways.
    for file in files:
        for each in _read(file)[1]:
            yield file, each
            if _includes(each) and (beside := _beside(file, each.value)) not in known:
                known.add(beside)
                files.append(beside)


def _includes(setting: GitSetting) -> bool:
    return setting.key == "path" and setting.section in ("include", "includeif")


def _beside(path: str, name: str) -> str:
    """Return the path that a file with settings names: it is seen from that file."""
    return _from(os.path.dirname(path), name)


def _from(folder: str, name: str) -> str:
    """Return the path that a value of the type "pathname" means."""
    return without_dots(_as_written(folder, name))


def _as_written(folder: str, name: str) -> str:
    return os.path.join(folder, os.path.expanduser(name.removeprefix(":(optional)")))


def _named(setting: GitSetting, file: str, top: str, root: str) -> Iterator[HostFile]:
    """Yield what the value of a setting names, with what it means."""
    why = _FOLDERS.get(setting.name)
    if _includes(setting):
        yield HostFile(_beside(file, setting.value), _INCLUDED)
    elif why is not None:
        folder = _from(top, setting.value)
        # The hooks that husky makes in its folder `_` run those of the same names above it.
        whole = os.path.dirname(folder) if os.path.basename(folder) == "_" else folder
        yield HostFile(whole, why)
        for at in {whole, folder}:
            with unreadable, os.scandir(at) as inside:
                yield from (HostFile(each.path, why) for each in inside if each.is_symlink())
    else:
        yield from _run_by(setting, top, root)
        return
    written = _as_written(os.path.dirname(file) if why is None else top, setting.value)
    places = (each for each in places_followed(written) if not beneath(file, each))
    yield from (HostFile(each, why or _INCLUDED, place=True) for each in places)


def _run_by(setting: GitSetting, top: str, root: str) -> Iterator[HostFile]:
    """Yield what a command that a setting may hold runs or loads, as with commands of our own settings."""
    text = setting.value.removeprefix("!")
    names = [name for name in _BETWEEN.split(text) if name]
    if setting.section == "alias":  # a person types it, so that only the files count that it names
        paths = (_from(top, name) for name in names)
        yield from (HostFile(path, _RUNS) for path in paths if path.endswith(SCRIPTS) or os.path.isfile(path))
        return
    try:
        words = shlex.split(text)
    except ValueError:
        words = []
    if not words or "=" in words[0] or _SIGNS.search(text):
        words = ["sh", "-c", text]
    found = list(host_files_of(loaded_by(words, top, [root]), _RUNS))
    plain = {os.path.join(top, name) for name in names if "/" not in name}
    for each in found:
        # A word like `test` or `auth` seldom means the folder of that name, except if something in it is named, too.
        inside = any(other is not each and beneath(other.path, each.path) for other in found)
        if each.many or inside or each.path not in plain or not os.path.isdir(each.path):
            yield each
