"""Find what a script loads by its own text: the modules that it imports, in the languages that servers are written in.
`scripts.py` asks for what a command of the settings loads."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator
from pathlib import Path

from ..core.text import lazy_regex
from .host_file import shadows_of
from .own_files import beginning_of
from .read_tree import folders_below

MAX_FILES = 2_000  # files of one command whose content is hashed; of the rest only size and times are
MAX_BYTES = 4 << 20  # the same for one file
MAX_TOTAL = 256 << 20  # the same for all files of one command, in bytes
_MAX_LINES = 200  # in which a script says where it looks
LEFT_OUT = frozenset({"__pycache__", ".git", "node_modules", ".venv", "venv", ".mypy_cache", ".pytest_cache"})
JS = (".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".jsx", ".tsx")
_JS_ENDS = ("", ".js", ".json", ".node", "/index.js", *JS[1:])  # in the order in which node looks for them
_JS_IMPORT = lazy_regex(
    r"""(?:from|import|require)\s*(?:\(\s*)?(?:/\*[^*]*\*/\s*)?["'`](\.{1,2}(?:/[^"'`\n?#]*)?)["'`?#]"""
)
_JS_PATH = lazy_regex(r"""["'`](\.{1,2}/[^"'`\n?#]{1,1000})["'`?#]""")
_JS_BESIDE = lazy_regex(r"""\b__dirname\s*[+,]\s*["'`]/?([^"'`\n]+)["'`]""")
_MAIN = lazy_regex(r'"main"\s*:\s*"([^"\n]+)"')
_PYTHON_IMPORT = lazy_regex(
    r"(?:^|[;:])[ \t\f]*(?:from[ \t]+([.\w]+)[ \t]+import[ \t]+([\w, \t(]+)|import[ \t]+([\w., \t]+))", re.MULTILINE
)
_PYTHON_NAMED = lazy_regex(r"""\b(?:import_module|__import__)\s*\(\s*["']([\w.]+)["']""")
_CONTINUED = lazy_regex(r"\\\r?\n")
_OTHERS = (".rb", ".pl", ".pm", ".php", ".lua")
_REQUIRED = lazy_regex(r"^.*\b(?:require|include|load|use|do)(?:_\w+|file)?\b.*$", re.MULTILINE)
_QUOTED = lazy_regex(r"""["']([^"'\n]{1,1000})["']""")
_SEARCHED = lazy_regex(r"^.*(?:\bsys\.path\b|\buse[ \t]+lib\b|\bLOAD_PATH\b|\$:).*$", re.MULTILINE)
_OWN_FOLDER = lazy_regex(r"^(?:\$[\w:]+|#\{[^}]*\})?/*")


def imported_by(script: str, folder: str) -> Iterator[str]:
    """Yield what a script, or a package, imports by name, and what that imports: files and packages, also those that
    are not there yet. Python's modules are those of `folder`."""
    seen, pending = {script}, _python_files(script) if os.path.isdir(script) else [script]
    python = os.path.isdir(script) or is_python(script)
    while pending and len(seen) < MAX_FILES:
        for path in _imports(pending.pop(), folder):
            if path not in seen:
                seen.add(path)
                yield path
                if os.path.isfile(path):
                    pending.append(path)
                elif python and os.path.isdir(path):
                    pending += _python_files(path)


def _python_files(folder: str) -> list[str]:
    return [each for each in itertools.islice(files_in(folder), MAX_FILES) if each.endswith(".py")]


def _imports(script: str, folder: str) -> Iterator[str]:
    """Yield the files and packages that a script imports from its folder, also those that are not there yet."""
    text, at = text_of(script), os.path.dirname(script)
    if is_python(script):
        yield from modules_named(text, folder)
    elif script.endswith(_OTHERS) or (is_run_by(script, b"") and not script.endswith(JS)):
        yield from _required(text, at)
    for name in () if script.endswith((".py", *_OTHERS)) else _JS_IMPORT.findall(text):
        yield from _js_module(os.path.normpath(os.path.join(at, name)), name.strip("./") != "")
    for name in (*_JS_PATH.findall(text), *_found(_JS_BESIDE, text, "__dirname")) if script.endswith(JS) else ():
        path = os.path.normpath(os.path.join(at, name))  # `fork("./a.js")`, `__dirname + "/a"`
        yield from (each for each in (path, f"{path}.js") if each.endswith(JS) and os.path.isfile(each))


def _found(pattern: re.Pattern[str], text: str, *signs: str) -> list[str]:
    """Return what a slow pattern finds, if one of these is in the text."""
    return pattern.findall(text)[:_MAX_LINES] if any(sign in text for sign in signs) else []


def _js_module(path: str, itself: bool) -> Iterator[str]:
    """Yield what node, or a compiler, may take for a path. What is not there must not appear: node would take it before
    the next ones. `itself`: a folder with all in it."""
    for end in _JS_ENDS:
        if end or itself:
            yield path + end
        if os.path.isfile(path + end):
            break
    typed = re.sub(r"\.([cm]?)js$", r".\1ts", path)
    if os.path.isfile(typed):
        yield typed
    if os.path.isdir(path):
        yield f"{path}/package.json"
        for main in _MAIN.findall(text_of(f"{path}/package.json")):
            whole = os.path.normpath(os.path.join(path, main))
            yield next((each for each in (whole + end for end in _JS_ENDS) if os.path.isfile(each)), whole)


def _required(text: str, folder: str) -> Iterator[str]:
    """Yield the files that a script of Ruby, Perl, PHP or Lua names where it loads something. Packages in `vendor` are
    left out."""
    for name in (name for line in _REQUIRED.findall(text) for name in _QUOTED.findall(line)):
        paths = (os.path.join(folder, each) for each in (name.lstrip("/"), name.replace(".", "/")))
        found = (os.path.normpath(path + end) for path in paths for end in ("", *_OTHERS))
        yield from (each for each in found if "/vendor/" not in each and os.path.isfile(each))


def folders_searched_by(script: str) -> Iterator[str]:
    """Yield the folders that a script adds to those in which it looks for modules (`sys.path`, `use lib`): those that
    it names, next to it or above, or one above it."""
    at = Path(script).parent
    for line in _found(_SEARCHED, text_of(script), "sys.path", "LOAD_PATH", "$:", " lib "):
        names = [_OWN_FOLDER.sub("", name) for name in _QUOTED.findall(line)]
        for base in (at, *at.parents[:2]):
            paths = [os.path.normpath(os.path.join(base, *each)) for each in (*zip(names, strict=True), names) if each]
            yield from (path for path in paths if os.path.isdir(path))
        ups = line.count("dirname") + line.count("parent")
        yield from map(str, [at, *at.parents][max(ups - 1, 0) : ups] if not names else ())


def modules_named(text: str, folder: str) -> Iterator[str]:
    """Yield what a text of Python imports by name from a folder."""
    for top in sorted(_names_imported(text)):
        path = os.path.join(folder, top)
        yield f"{path}.py"  # if it is not there, it must not appear: it would take the place of a module elsewhere
        yield from shadows_of(path)


def names_imported_by(module: str) -> set[str]:
    """Return the names of what the file of a module, or a package, imports."""
    files = _python_files(module) if os.path.isdir(module) else [module]
    return {name for file in files for name in _names_imported(text_of(file))}


def _names_imported(text: str) -> set[str]:
    text = _CONTINUED.sub(" ", text).replace("\r", "\n")
    names = set(_found(_PYTHON_NAMED, text, "import_module", "__import__"))
    for module, imported, modules in _PYTHON_IMPORT.findall(text):
        names.update([module.lstrip("."), *re.findall(r"\w+", imported if module.strip(".") == "" else "")])
        names.update(each.split(" as ")[0].strip() for each in modules.split(","))
    return {name.split(".")[0] for name in names if name}


def is_python(path: str) -> bool:
    return path.endswith(".py") or is_run_by(path, b"python")


def is_run_by(path: str, program: bytes) -> bool:
    """Return whether the first line of a file names a program that runs it, one with this in its name."""
    first = _first_line(path)
    return bool(first) and program in first


def first_line(path: str) -> str:
    """Return the first line of a file if it names the program that runs it, else ""."""
    return _first_line(path).decode("utf-8", "replace")


def _first_line(path: str) -> bytes:
    first = beginning_of(path, 200).partition(b"\n")[0]
    return first.removeprefix(b"#!") if first.startswith(b"#!") else b""


def text_of(path: str, most: int = MAX_BYTES) -> str:
    """Return the text of a file, or its beginning, with another sign for NUL, which no path may have; "" if it cannot
    be read."""
    return beginning_of(path, most).replace(b"\0", b"\1").decode("utf-8", "replace")


def files_in(folder: str) -> Iterator[str]:
    for at, folders, names in folders_below(folder):
        folders[:] = sorted(name for name in folders if name not in LEFT_OUT)
        yield from (os.path.join(at, name) for name in sorted(names))
