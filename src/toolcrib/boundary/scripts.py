"""Find the files in writable folders that a command of the settings runs or loads, and their fingerprint.

A server's command is `python server.py`, `node dist/main.js`, `uv run tool.py`, `./notify.sh`. What it loads cannot be
known in full without running it. Taken together here are: each word that is a file or folder there, also within the
text of `bash -c` and in variables that make a program load something; a module after `-m`; for a script all files of
its folder, or, if that is the top folder of the workspace, the modules there that it imports; what JavaScript imports
from other folders, the archives that a manifest of Java names, and the scripts that a shell script or a file of
settings names; a module with a package or an attribute (`srv.app:app`); and what launchers look for first
(`launchers.py`). Where Python looks in the top folder for every module, a new one there counts, whatever its name.
Installed packages are not in the fingerprint (there are too many), but protected, too. docs/security.md says what is
left out.
"""

from __future__ import annotations

import glob
import hashlib
import itertools
import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ..core.dataclass import dataclass
from ..core.text import lazy_regex
from .descriptors import unreadable
from .host_file import STARRED, HostFile, both_names, modules_in, new_modules_of, shadows_of
from .launchers import (
    DOCKERFILE,
    INSTALLED,
    MAKEFILES,
    NOT_ABOVE,
    SIGNS,
    WITH_COMMANDS,
    kept_in_home_by,
    looked_for_by,
    named_after,
)
from .own_files import read_regular
from .programs import beneath, within_any, without_dots
from .real_path import real_path
from .script_imports import (
    JS,
    LEFT_OUT,
    MAX_BYTES,
    MAX_FILES,
    MAX_TOTAL,
    files_in,
    first_line,
    folders_searched_by,
    imported_by,
    is_python,
    is_run_by,
    modules_named,
    text_of,
)

_MAX_COMMANDS = 60_000  # bytes of a script for a shell that are read as commands are
_JS_INTERNAL = lazy_regex(r"""(?:from|import|require)\s*(?:\(\s*)?["']#""")  # a name that package.json explains
_JS_PACKAGE = lazy_regex(r"""(?:from|import|require)\s*(?:\(\s*)?["'][^./"'\n]""")  # package.json may take the name
_MAKE_INCLUDE = lazy_regex(r"^[ \t]*[-s]?include[ \t]+(.+)$", re.MULTILINE)
_SHELL = (".sh", ".bash", ".zsh", ".ksh", ".fish")
SCRIPTS = (".py", *JS, *_SHELL, ".rb", ".pl", ".php", ".lua")
_PYTHON = lazy_regex(r"(?:python|pypy|uv)[\d.]*")
_FROM_HERE = lazy_regex(r"-[A-Za-z]*[mc].*|--module|\.")  # options and operands that make Python look in this folder
_HERE = lazy_regex(r"\$\{(?:OLD)?PWD\}|\$(?:OLD)?PWD\b|\$\(pwd\)|`pwd`|~[+-](?=/)")
_BEHIND_UNKNOWN = lazy_regex(r"(?:\$\w+|[)}`\"'])(/[^\s;&|<>()\"'`$={},]+)")  # "${PWD%/}/a", "$(git rev-parse …)"/a
_ENDS = (".py", *JS[:3], ".json", ".node", *JS[3:], ".class", ".lua")  # that a program adds to a name
_NAME = lazy_regex(r"\w+(?:\.\w+)*")
_SETTINGS = (".json", ".jsonc", ".yaml", ".yml", ".toml")
_MODULE = lazy_regex(r"(?:(?<![\w./:-])|(?<=-[A-Za-z]))([^\W\d]\w*(?:\.[^\W\d]\w*)*)(:[^\W\d])?")  # `srv.app`, `a:b`
_FOLDERS = lazy_regex(
    r"\w*(?:PATH|LIB|PREFIX|BASE)=(.*)"
)  # a variable with folders, also with those that are not there yet
_CLASS_PATH = lazy_regex(r"^Class-Path:(.*)$", re.MULTILINE | re.IGNORECASE)
_SAID = lazy_regex(r"(?:^|(?<=\s))#.*|\b(?:echo|printf)\b[^;&|\n]*", re.MULTILINE)  # in a script for a shell
_CD = lazy_regex(r"""\bcd[ \t]+["']?([^\s;&|<>()"'`$\\,]+)""")
_RUN_ENDS = ("", *_ENDS, "/index.js", "/__main__.py")
_RUN = lazy_regex(  # the operand of an interpreter, a module, and what a shell reads: `node dist`, `-m a.b`, `. ./env`
    r"""(?:\b(?:node|bun|tsx|ts-node|deno\s+run|(?:python|pypy)[\d.]*|perl|ruby|php|lua|source)(?:[ \t]+-[^\s;&|]*)*"""
    r"""|(?:^|[\s"'])-m|(?:^|[;&|\n"'])[ \t]*\.)[ \t]+["']?([^\s;&|<>()"'`$\\,]+)""",
)
_WORD_IN_TEXT = lazy_regex(r"[^\s;&|<>()\"'`$={},]+")
# Names that Python looks for in the folder of a script.
_ALWAYS = ("sitecustomize.py", "usercustomize.py")


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a command runs or loads in writable folders, as absolute paths. `hashed` files are in its fingerprint, and
    so are extension modules in `shadows`, which would be loaded instead (a star in the last name); `kept`, and compiled
    code in `shadows`, are protected only. `modules` are folders in which Python looks for every module by its name: a
    new one counts, whatever its name. `own` are places with a star, of files that are named after the program."""

    hashed: tuple[str, ...]
    kept: tuple[str, ...] = ()
    shadows: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    own: tuple[str, ...] = ()


def loaded_by(words: Sequence[str], cwd: str | Path, writable: Iterable[str | Path]) -> Loaded:
    """Return what a command that starts in `cwd` runs or loads in writable folders."""
    roots = {real_path(each) for each in writable}
    folder = real_path(cwd)
    if tuple(words[1:3]) == ("-P", "-m"):  # Python looks for no module here
        words = (words[0], *words[4:])
    words = ["." if word and path_in(folder, word[:4096]) == folder else word for word in words]
    names = looked_for_by(words)
    hashed: dict[str, None] = {}
    kept: dict[str, None] = {}
    for named in _named(words, folder):
        if not (within_any(named, roots) or within_any(real_path(named), roots)):
            continue
        environment = _environment_of(named)
        if environment is not None:
            kept[environment] = None
            continue
        hashed[named] = None
        real = real_path(named)
        if os.path.isfile(real):
            hashed.update(dict.fromkeys([real, *_beside(real, roots, folder)]))
        elif real not in (folder, *roots) and within_any(real, roots):
            hashed[real] = None  # where a link to a folder leads
        for path, seen_from in _read_by(names, real, folder):
            hashed.update(dict.fromkeys(_commands_in(path, seen_from, roots, names)))
    told = [*words, *(_SAID.sub("", text_of(path, _MAX_COMMANDS)) for path in hashed if _is_shell(path))]
    all_told = [*told, *map(first_line, hashed)]
    names = looked_for_by(all_told)
    for path in kept_in_home_by(all_told):
        if within_any(path, roots) or within_any(real_path(path), roots):
            kept[path] = None
    for path, name, at in dict.fromkeys(_looked_for(names, folder, tuple(hashed), roots)):
        (kept if name in INSTALLED else hashed)[path] = None
        if name in WITH_COMMANDS:
            hashed.update(dict.fromkeys(_commands_in(path, at, roots, names)))
    for path, environment in [(path, found) for path in hashed if (found := _environment_of(path))]:
        kept[environment] = hashed.pop(path)
    for jar in [path for path in hashed if path.endswith(".jar")]:
        hashed.update(dict.fromkeys(_on_class_path(jar, roots)))
    for script in [path for path in hashed if path.endswith(JS)]:
        kept.update(dict.fromkeys(_packages_of(script, roots)))
        if _JS_PACKAGE.search(text := text_of(script)):
            hashed.update(dict.fromkeys(_explained(script, folder, roots, _JS_INTERNAL.search(text) is not None)))
    modules = {os.path.dirname(path) for path in hashed if is_python(path)} & roots
    if _looks_here(told, folder) and within_any(folder, roots):
        (modules.add if folder in roots else hashed.setdefault)(folder)
        if os.path.isfile(main := os.path.join(folder, "__main__.py")):
            hashed[main] = None
        seeds = [path for named in hashed for path in (files_in(named) if os.path.isdir(named) else [named])]
        for script in [path for path in seeds[:MAX_FILES] if is_python(path)]:
            hashed.update(dict.fromkeys(imported_by(script, folder)))
        for path in (path for word in words for path in modules_named(re.sub("[\"']", "\n", word), folder)):
            hashed[path] = None
            hashed.update(dict.fromkeys(imported_by(path, folder)))
    shadows = [path for path in hashed if path.endswith(STARRED)]
    rest = tuple(path for path in hashed if path not in shadows)
    return Loaded(rest, tuple(kept), tuple(shadows), tuple(sorted(modules)))


def started_with(words: Sequence[str], cwd: str | Path, writable: Iterable[str | Path]) -> Loaded:
    """Return what a command of the settings runs or loads: also what is named after its programs, in the folder where
    it starts and in those above. They may write that themselves: it is not in the fingerprint."""
    roots, folder = [real_path(each) for each in writable], real_path(cwd)
    loaded = loaded_by(words, folder, roots)
    above = [at for at in (folder, *map(str, Path(folder).parents)) if within_any(at, roots)]
    places = [os.path.join(at, name) for at in above for name in sorted(named_after(words))]
    own = tuple(each for each in places if "*" in each)
    there = [path for each in places for path in HostFile(each, "", each in own).there()]
    return replace(loaded, kept=tuple(dict.fromkeys([*loaded.kept, *there])), own=own)


def fingerprint(loaded: Loaded) -> dict[str, str]:
    """Return a digest for each file; a folder counts with all files in it. A file that is not there has "absent"."""
    found: dict[str, str] = {}
    left = MAX_TOTAL
    shadows = (
        path for each in loaded.shadows for path in sorted(HostFile(each, "", True).there()) if path.endswith(".so")
    )
    for path in (*loaded.hashed, *shadows):
        files = files_in(path) if os.path.isdir(path) and not os.path.islink(path) else [path]
        for each in files:
            if each not in found:
                found[each] = _digest(each, len(found) < MAX_FILES and left > 0)
                left -= _size(each)
    return found


def modules_of(loaded: Loaded) -> dict[str, str]:
    """Return a mark for each module in the folders in which Python looks for every module."""
    return {path: "module" for folder in loaded.modules for path in modules_in(folder)}


def host_files_of(loaded: Loaded, reason: str) -> Iterator[HostFile]:
    """Yield what is protected because a command runs or loads it. `reason` says what a change would mean."""
    yield from (HostFile(path, reason) for path in both_names((*loaded.hashed, *loaded.kept)))
    yield from (HostFile(path, reason, True) for path in loaded.shadows)
    yield from (HostFile(path, reason, True, frozenset(loaded.kept)) for path in loaded.own)
    for folder in loaded.modules:
        yield from new_modules_of(folder, reason)


def _named(words: Sequence[str], folder: str) -> Iterator[str]:
    """Yield the absolute path of each word that is one, or the value of an option, and of a module after -m. A program
    may add an ending to a name."""
    for number, word in enumerate(words):
        if "\0" in word or len(word) > 65_536:
            continue
        if number == 0 and not os.path.dirname(word) and not SIGNS.search(word):
            continue  # a program on PATH
        if number == 0 and path_in(folder, word) != folder:
            yield path_in(folder, word)
        if variable := _FOLDERS.fullmatch(word):
            paths = (path_in(folder, text) for text in variable[1].split(os.pathsep) if text and len(text) <= 4096)
            yield from (path for path in paths if path != folder and not os.path.lexists(path))
        texts = {text for text in (word, word.partition("=")[2]) if len(text) <= 4096}
        if SIGNS.search(word) or _HERE.search(
            word
        ):  # the text of `bash -c` or `python -c`, a variable with several folders
            texts |= {text for text in SIGNS.split(_HERE.sub(".", word)) if len(text) <= 4096}
            behind = (f".{text}" for text in _BEHIND_UNKNOWN.findall(word) if len(text) <= 4096)
            texts |= {text for text in behind if os.path.lexists(path_in(folder, text))}
        texts |= {text[2:] for text in texts if text[:1] == "-" != text[1:2]} | {
            text[1:] for text in texts if text[:1] == "@"
        }
        yield from (path for text in sorted(texts) if text for path in _meant(text, folder))
    after = [text for word in words for text in SIGNS.split(word)]
    after = after[after.index("-m") + 1 :] if "-m" in after else []
    modules = [os.path.join(folder, *name.split(".")) for name in after if len(name) < 4096 and _NAME.fullmatch(name)]
    for module in (*modules, *_modules_with_dots(words, folder)):
        yield from (path for path in (module, f"{module}.py") if path != folder and os.path.lexists(path))
        for above in itertools.takewhile(lambda above: above != folder, map(str, Path(module).parents)):
            yield from [f"{above}/__init__.py"] if os.path.isdir(above) else []
        if os.path.dirname(module) == folder and os.path.lexists(f"{module}.py"):
            yield from shadows_of(module)


def _modules_with_dots(words: Sequence[str], folder: str) -> Iterator[str]:
    """Yield the paths, without an ending, of modules that are named with a package or an attribute."""
    for word in words:
        for name, attribute in _MODULE.findall(word) if len(word) <= 65_536 else ():
            path = os.path.join(folder, *name.split("."))
            if (attribute or "." in name) and any(map(os.path.isfile, (f"{path}.py", f"{path}/__init__.py"))):
                yield path


def _meant(text: str, folder: str) -> Iterator[str]:
    """Yield the paths that a word may mean: a path that is there, one with the ending that a program adds, or, if a
    part of it is only known later, all that it could be."""
    if "$" in text or any(sign in text for sign in "*?["):
        above = path_in(folder, os.path.dirname(re.split(r"[$*?\[]", text)[0]))
        if above != folder and os.path.isdir(above) and "$" not in text[:1]:
            yield above
        yield from (os.path.normpath(each) for each in itertools.islice(glob.iglob(path_in(folder, text)), MAX_FILES))
        return
    path = path_in(folder, text)
    if path == folder:
        return
    if os.path.lexists(path):
        yield path
        return
    for with_end in (path + end for end in _ENDS):
        if os.path.isfile(with_end):
            yield from (path, with_end)  # the first must not appear: it would be taken
    if path.endswith(SCRIPTS) and not text.startswith("-"):
        yield path  # it must not appear


def path_in(folder: str, text: str) -> str:
    return without_dots(os.path.join(folder, os.path.expanduser(text)))


def _looks_here(words: Sequence[str], folder: str) -> bool:
    """Return whether a command makes Python look for all modules in the folder where it starts."""
    if next(_modules_with_dots(words, folder), None):
        return True
    texts = [text for word in words for text in (SIGNS.split(_HERE.sub(".", word)) if SIGNS.search(word) else [word])]
    python = False
    for text in texts:
        if python and (_FROM_HERE.fullmatch(text) or (text and path_in(folder, text) == folder)):
            return True
        if _PYTHON.fullmatch(os.path.basename(text)):
            python = True
        elif os.path.isfile(path_in(folder, text)):
            python = False  # a script: Python looks in its folder
    paths = [path for word in words if word.startswith("PYTHONPATH=") for path in word[11:].split(os.pathsep)]
    return any(path_in(folder, path) == folder for path in paths)


def _explained(script: str, cwd: str, roots: Iterable[str], internal: bool) -> Iterator[str]:
    """Yield the settings of the packages that a script of JavaScript is in: one with the `name` of a package takes its
    place. With `internal` names, also the scripts that they name."""
    for folder in map(str, Path(script).parents):
        if within_any(folder, roots):
            path = os.path.join(folder, "package.json")
            yield path
            for named in _code_named(path, folder, roots) if internal else ():
                yield from _beside(named, roots, cwd)


def _environment_of(path: str) -> str | None:
    """Return the virtual environment whose program a path is, if it is one."""
    prefix = os.path.dirname(os.path.dirname(path))
    return prefix if os.path.isfile(os.path.join(prefix, "pyvenv.cfg")) else None


def _looked_for(
    names: frozenset[str], folder: str, named: Iterable[str], roots: Collection[str]
) -> Iterator[tuple[str, str, str]]:
    """Yield where launchers look for files with these names, the name, and the folder: the one where they start, those
    of settings and of JavaScript that are named, and those above."""
    own = {folder, *(os.path.dirname(path) for path in named if os.path.basename(path) in names or _is_settings(path))}
    for at in sorted(own | {os.path.dirname(path) for path in named if names and path.endswith(JS)}):
        for place in (at, *map(str, Path(at).parents)):
            if within_any(place, roots):
                found = (name for name in names if name not in NOT_ABOVE or place in own)
                yield from ((os.path.join(place, name), name, place) for name in sorted(found))


def _is_settings(path: str) -> bool:
    return path.endswith(_SETTINGS) and os.path.isfile(path)


def _on_class_path(jar: str, roots: Iterable[str]) -> Iterator[str]:
    """Yield the archives and folders that Java loads because the manifest of an archive names them."""
    import zipfile  # few commands need it
    import zlib
    from urllib.parse import unquote

    pending = [jar]
    for each in filter(os.path.isfile, pending):  # it grows
        try:
            with zipfile.ZipFile(each) as archive, archive.open("META-INF/MANIFEST.MF") as file:
                text = re.sub(r"\r?\n ", "", file.read(MAX_BYTES).decode("utf-8", "replace"))
        except (OSError, KeyError, ValueError, RuntimeError, EOFError, zipfile.BadZipFile, zlib.error):
            continue
        for name in (name for line in _CLASS_PATH.findall(text) for name in line.split()):
            path = os.path.normpath(os.path.join(os.path.dirname(each), unquote(name.removeprefix("file:"))))
            if "\0" not in path and any(beneath(path, root) and path != root for root in roots):
                yield path
                pending += [path] if path not in pending and len(pending) < MAX_FILES else []


def _beside(script: str, roots: Iterable[str], cwd: str) -> Iterator[str]:
    """Yield what a script loads, and what those load that a script for a shell names."""
    scripts = [script] if _is_script(script) else []
    for each in scripts:  # it grows
        if len(scripts) < MAX_FILES and _is_shell(each):
            named = {path for at in {cwd, os.path.dirname(each)} for path in _code_named(each, at, roots)}
            scripts += sorted(named.difference(scripts))
    for each in scripts:
        yield each
        yield from () if os.path.isdir(each) or _environment_of(each) else _loaded_with(each, roots)


def _loaded_with(script: str, roots: Iterable[str]) -> Iterator[str]:
    """Yield the folder of a script, or only what it imports if the folder is the top of a workspace. JavaScript imports
    from other folders, too."""
    folder = os.path.dirname(script)
    whole = folder not in roots and not any(beneath(root, folder) for root in roots)
    if whole:
        yield folder
        yield from _behind_links(folder, roots)
    elif is_python(script):
        yield from (os.path.join(folder, name) for name in _ALWAYS)
    if not whole or not is_python(script):
        found = imported_by(script, folder)
        yield from (path for path in found if within_any(path, roots) and path not in roots)
    for path in folders_searched_by(script):
        if any(beneath(root, path) for root in roots):
            yield from modules_named(text_of(script), path)
        elif within_any(path, roots):
            yield path


def _behind_links(folder: str, roots: Iterable[str]) -> Iterator[str]:
    """Yield what links in a folder, and in those behind them, lead to elsewhere in writable folders."""
    pending, outer, roots = [folder], [folder], set(roots)
    for at in itertools.islice(pending, MAX_FILES):  # it grows
        with unreadable, os.scandir(at) as inside:
            for entry in inside:
                if entry.is_symlink():
                    real = real_path(entry.path)
                    if within_any(real, roots) and real not in roots and not within_any(real, outer):
                        outer.append(real)
                        pending.append(real)
                        yield real
                elif entry.is_dir(follow_symlinks=False) and entry.name not in LEFT_OUT:
                    pending.append(entry.path)


def _read_by(names: Iterable[str], named: str, folder: str) -> Iterator[tuple[str, str]]:
    """Yield the files with commands that a launcher reads because of a word (`make -f FILE`, `npm --prefix FOLDER`,
    any settings), and the folders from which what they name is seen."""
    read = [name for name in names if name in WITH_COMMANDS]
    if os.path.isdir(named):
        yield from ((os.path.join(named, name), named) for name in read)
    elif read or _is_settings(named):
        yield named, folder
        if _is_settings(named) and os.path.dirname(named) != folder:
            yield named, os.path.dirname(named)


def _commands_in(path: str, folder: str, roots: Collection[str], names: frozenset[str]) -> Iterator[str]:
    """Yield what a file with commands brings: what a Makefile includes, the scripts that are named, and what
    containers are built from."""
    included = dict.fromkeys(_included(path, folder)) if not names.isdisjoint(MAKEFILES) else {}
    yield from included
    for each in (path, *included):
        for script in _code_named(each, folder, roots):
            yield script
            yield from _beside(script, roots, folder)
    if DOCKERFILE in names and _is_settings(path):
        words = [word.partition(":")[0] for word in dict.fromkeys(_WORD_IN_TEXT.findall(text_of(path)))]
        paths = [path_in(folder, word) for word in words if word and len(word) < 4096]
        contexts = [each for each in paths if os.path.isdir(each) and within_any(each, roots)]
        yield from (os.path.join(each, DOCKERFILE) for each in contexts)
        for at in dict.fromkeys([folder, *contexts]):
            files = (path_in(at, word) for word in words if word and len(word) < 4096)
            yield from (each for each in files if os.path.isfile(each) and within_any(each, roots))


def _included(path: str, folder: str) -> Iterator[str]:
    """Yield what a Makefile includes, also what is not there yet, and what that includes."""
    pending = [path]
    for each in pending:  # it grows
        for line in _MAKE_INCLUDE.findall(text_of(each)):
            found = [found for word in line.split() for found in (path_in(folder, word), *_meant(word, folder))]
            yield from found
            pending += [more for more in found if more not in pending and len(pending) < MAX_FILES]


def _code_named(path: str, folder: str, roots: Iterable[str]) -> Iterator[str]:
    """Yield the code that a text (of a shell script, a Makefile, package.json) names, seen from a folder."""
    text = _SAID.sub("", text_of(path)) if (shell := _is_shell(path)) else text_of(path)
    behind = (f".{found}" for found in _BEHIND_UNKNOWN.findall(text))  # "$(dirname "$0")/lib/a.sh"
    words = (part for word in _WORD_IN_TEXT.findall(text) for part in (word, word.lstrip("@+-"), *word.split(":")))
    found = {word for word in (*words, *behind) if len(word) < 4096}
    named = {os.path.normpath(os.path.join(folder, word)): _is_code for word in found}
    if shell:
        named |= {
            at: os.path.isdir
            for word in _CD.findall(text[:_MAX_COMMANDS])
            if (at := path_in(folder, word[:4096])) not in roots
        }
    for word in (word for word in _RUN.findall(text[:_MAX_COMMANDS]) if len(word) < 4096):
        paths = (os.path.join(folder, name) for name in (word, word.replace(".", "/")))
        named.update((os.path.normpath(each + end), os.path.isfile) for each in paths for end in _RUN_ENDS)
    yield from (each for each, counts in named.items() if within_any(each, roots) and counts(each))


def _is_code(path: str) -> bool:
    return os.path.isfile(path) and (_is_script(path) or os.access(path, os.X_OK))


def _is_script(path: str) -> bool:
    return path.endswith(SCRIPTS) or is_run_by(path, b"")


def _is_shell(path: str) -> bool:
    return path.endswith(_SHELL) or is_run_by(path, b"sh")


def _packages_of(script: str, roots: Iterable[str]) -> Iterator[str]:
    """Yield the folders in which node looks for the packages of a script, also those that are not there yet."""
    folders = [each for each in map(str, Path(script).parents) if within_any(each, roots)]
    yield from (os.path.join(folder, "node_modules") for folder in reversed(folders))


def _size(path: str) -> int:
    """Return how many bytes of a file are read for its digest."""
    try:
        size = os.path.getsize(path)
    except OSError:
        return 0
    return size if size <= MAX_BYTES else 0


def _digest(path: str, content: bool) -> str:
    try:
        status = os.stat(path)
        if not os.path.isfile(path):
            return "folder" if os.path.isdir(path) else "special"
        mode = "x" if status.st_mode & 0o111 else "-"
        if not content or status.st_size > MAX_BYTES:
            return f"{mode}{status.st_size}:{status.st_mtime_ns}:{status.st_ctime_ns}:{status.st_ino}"
        return mode + hashlib.sha256(read_regular(path, MAX_BYTES) or b"").hexdigest()
    except FileNotFoundError:
        return "absent"
    except OSError as error:
        return f"unreadable: {error.errno}"
