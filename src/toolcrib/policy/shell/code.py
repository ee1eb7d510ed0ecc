"""Find the evident effects of code for an interpreter: Python by its syntax tree, other languages by patterns.

This module never proves code harmless; it only finds evident harm. Text that is known only at run time is a NUL.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator

from .effects import SHELL_ONLY, Effect
from .parts import Word
from .sorting import literal
from .table.codepatterns import FETCH, HIDES, PATH_METHODS, PATTERNS, PYTHON_CALLS, REVERSE

MAX_CODE = 64 * 1024


def effects_of_code(language: str, text: str) -> list[Effect]:
    """Return the evident effects of a program text."""
    if len(text) > MAX_CODE:
        return [Effect("execute", None, "runs code that is too long to look through", "shell:unknown-code")]
    if language == "python":
        return list(_python(text))
    return list(_by_pattern(language, text))


def _word(text: str) -> Word:
    if "\0" not in text:
        return literal(text)
    parts: list[str | None] = []
    for index, piece in enumerate(text.split("\0")):
        if index:
            parts.append(None)
        if piece or not index:
            parts.append(piece)
    return Word(tuple(parts), text)


def _run(text: str) -> Iterator[Effect]:
    """Yield the effect of a command line that code gives to a shell."""
    if SHELL_ONLY.fullmatch(text.strip()):
        yield Effect("spawn-shell")
    yield Effect("shell", _word(text), "runs a command from inside other code")


# --- Python


def _python(text: str) -> Iterator[Effect]:
    try:
        tree = ast.parse(text.replace("\0", "_unknown_"))
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        yield from _by_pattern("python", text)
        return
    names: dict[str, str] = {}
    modules: set[str] = set()
    known: dict[str, ast.expr] = {}
    calls: list[ast.Call] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                modules.add(alias.name)
                names[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom):
            modules.add(node.module or "")
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            known[node.targets[0].id] = node.value
        elif isinstance(node, ast.Call):
            calls.append(node)
    yield from _Python(names, known, text).effects(calls)
    yield from _shape(text, modules | {name.partition(".")[0] for name in names.values()})


def _shape(text: str, modules: set[str]) -> Iterator[Effect]:
    """Yield the effects that a program's parts have only together."""
    if "socket" in text and re.search(r"dup2|subprocess|pty|/bin/(?:ba|da|z)?sh", text):
        yield Effect("reverse-shell")
    if re.search(r"while\s+(?:1|True)\s*:\s*(?:\n\s*)?os\.fork|os\.fork\(\)\s*(?:for|while)", text):
        yield Effect("bomb", None, "makes processes without end", "shell:fork-bomb")
    if re.search(r"\b(?:exec|eval|compile)\s*\(", text):
        if FETCH.search(text):
            yield Effect("remote-code")
        elif HIDES.search(text):
            yield Effect("hidden-code")
    if modules & {
        "socket",
        "urllib",
        "requests",
        "httpx",
        "http",
        "ftplib",
        "smtplib",
        "telnetlib",
        "aiohttp",
        "paramiko",
        "xmlrpc",
    }:
        yield Effect("network")
    for url in re.findall(r"https?://[^\s'\"]+", text):
        yield Effect("network", url)


class _Python:
    """The calls of a Python program, by the dotted names they resolve to."""

    def __init__(self, names: dict[str, str], known: dict[str, ast.expr], text: str) -> None:
        self.names, self.known, self.text = names, known, text

    def effects(self, calls: list[ast.Call]) -> Iterator[Effect]:
        for call in calls:
            name = self.dotted(call.func)
            if name is None:
                if isinstance(call.func, ast.Attribute):
                    yield from self._method(call, call.func)
                continue
            if name in ("open", "io.open", "os.open", "codecs.open"):
                yield from self._open(call)
                continue
            role = PYTHON_CALLS.get(name)
            if role is None and isinstance(call.func, ast.Attribute):
                yield from self._method(call, call.func)
            elif role is not None:
                yield from self._known_call(call, role)

    def dotted(self, node: ast.expr) -> str | None:
        """Return the full dotted name: `sp.run` as `subprocess.run`, `__import__("os").system` as `os.system`."""
        if isinstance(node, ast.Name):
            return self.names.get(node.id, node.id)
        if isinstance(node, ast.Attribute):
            base = self.dotted(node.value)
            return None if base is None else f"{base}.{node.attr}"
        if isinstance(node, ast.Call):
            inner = self.dotted(node.func)
            if inner in ("__import__", "importlib.import_module") and node.args:
                return self.text_of(node.args[0])
            if inner == "getattr" and len(node.args) > 1:
                base, attribute = self.dotted(node.args[0]), self.text_of(node.args[1])
                return f"{base}.{attribute}" if base and attribute else None
            return inner if inner in ("pathlib.Path", "Path") else None
        return None

    def text_of(self, node: ast.expr | None, depth: int = 0) -> str | None:
        """Return a string as far as it is known: literals, names bound to them, sums, joins, `/` of paths.

        A part that is not known is a NUL.
        """
        if depth > 8 or node is None:
            return None
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
            return node.value if isinstance(node.value, str) else node.value.decode("utf-8", "replace")
        if isinstance(node, ast.Name) and node.id in self.known:
            return self.text_of(self.known[node.id], depth + 1)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            left, right = self.text_of(node.left, depth + 1), self.text_of(node.right, depth + 1)
            return None if left is None and right is None else (left or "\0") + (right or "\0")
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            left, right = self.text_of(node.left, depth + 1), self.text_of(node.right, depth + 1)
            return None if left is None else f"{left}/{right or chr(0)}"
        if isinstance(node, ast.JoinedStr):
            return "".join(self.text_of(v, depth + 1) or "\0" for v in node.values)
        if isinstance(node, ast.Call):
            return self._text_of_call(node, depth)
        return None

    def _text_of_call(self, node: ast.Call, depth: int) -> str | None:
        name = self.dotted(node.func) or ""
        if name in ("pathlib.Path", "Path", "str", "pathlib.PosixPath", "os.fspath"):
            return "/".join(self.text_of(arg, depth + 1) or "\0" for arg in node.args) or "."
        if name in ("os.path.join", "posixpath.join"):
            return "/".join(self.text_of(arg, depth + 1) or "\0" for arg in node.args)
        if name in ("os.path.expanduser", "os.path.expandvars", "os.path.abspath") and node.args:
            text = self.text_of(node.args[0], depth + 1)
            return text.replace("$HOME", "~", 1) if text else None
        if name in ("pathlib.Path.home", "Path.home"):
            return "~"
        if isinstance(node.func, ast.Attribute) and node.func.attr == "joinpath":
            base = self.text_of(node.func.value, depth + 1)
            return (
                None if base is None else "/".join([base, *(self.text_of(arg, depth + 1) or "\0" for arg in node.args)])
            )
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("expanduser", "resolve", "absolute"):
            return self.text_of(node.func.value, depth + 1)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "join" and node.args:
            return self.command_of(node.args[0], self.text_of(node.func.value, depth + 1) or " ")
        return None

    def command_of(self, node: ast.expr, joiner: str | None = None) -> str | None:
        """Return a command line: a string, or a list of arguments."""
        if isinstance(node, ast.Name) and node.id in self.known:
            node = self.known[node.id]
        if isinstance(node, ast.List | ast.Tuple):
            parts = [self.text_of(item) for item in node.elts]
            if joiner is not None:
                return joiner.join(part if part is not None else "\0" for part in parts)
            return " ".join("\0" if part is None else shlex.quote(part) for part in parts)
        return self.text_of(node)

    def _known_call(self, call: ast.Call, role: str) -> Iterator[Effect]:
        first = (
            call.args[0]
            if call.args
            else next((k.value for k in call.keywords if k.arg in ("args", "path", "cmd")), None)
        )
        if role == "shell":
            text = self.command_of(first) if first is not None else None
            if text is not None:
                yield from _run(text)
        elif role == "exec":
            text = self.text_of(first) if first is not None else None
            if text and re.search(r"(?:^|/)(?:ba|da|z|k|c)?sh$", text):
                yield Effect("spawn-shell")
        elif role in ("spawn-shell", "setuid"):
            yield Effect(role)
        elif role == "kill":
            number = self._number(first)
            if number in (-1, 1, 0):
                yield Effect("kill-all")
            else:
                yield Effect("process")
        elif role == "both":
            yield from self._path("move", first)
            yield from self._path("write", call.args[1] if len(call.args) > 1 else None)
        elif role == "copy":
            yield from self._path("read", first)
            yield from self._path("write", call.args[1] if len(call.args) > 1 else None)
        else:
            yield from self._path(role, first)

    @staticmethod
    def _number(node: ast.expr | None) -> int | None:
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
            return -node.operand.value if isinstance(node.operand.value, int) else None
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            return node.value
        return None

    def _path(self, kind: str, node: ast.expr | None) -> Iterator[Effect]:
        text = self.text_of(node)
        if text is not None:
            yield Effect(kind, _word(text))
        elif kind == "delete":
            yield Effect("delete", Word((None,)))

    def _open(self, call: ast.Call) -> Iterator[Effect]:
        mode = call.args[1] if len(call.args) > 1 else next((k.value for k in call.keywords if k.arg == "mode"), None)
        text = self.text_of(mode) if mode is not None else "r"
        changes = text is None or any(letter in text for letter in "wax+")
        yield from self._path("write" if changes else "read", call.args[0] if call.args else None)

    def _method(self, call: ast.Call, func: ast.Attribute) -> Iterator[Effect]:
        """Yield the effects of the methods of paths, by name. The object must be a path that is known."""
        kind = PATH_METHODS.get(func.attr)
        if kind is None or (func.attr == "replace" and not isinstance(func.value, ast.Call)):
            return
        text = self.text_of(func.value)
        if text is not None:
            yield Effect(kind, _word(text))


# --- other languages


def _awk(text: str) -> Iterator[Effect]:
    """Find redirections and pipes of print. They look like comparisons; inside brackets they are comparisons."""
    plain = re.sub(r'"(?:[^"\\\n]|\\.)*"', '""', text)
    plain = re.sub(r"(?<=[~(,!&|{;\s])/(?:[^/\\\n]|\\.)*/", "//", f" {plain}")
    if re.search(r"\bgetline\b[^;}\n]*<", plain) or re.search(r"\bARG[VC]\b", plain):
        yield Effect("unknown", None, "chooses files to read from inside awk", "shell:unknown-path")
    before = None
    while before != plain:
        before, plain = plain, re.sub(r"\([^()]*\)", "", plain)
    if re.search(r"\bprintf?\b[^;}\n]*>", plain):
        yield Effect("change", None, "writes to files from awk", "shell:write")
    if re.search(r"(?<!\|)\|&?(?!\|)", plain):
        yield Effect("execute", None, "runs commands from awk", "shell:unknown-code")
    if re.search(r"\bsystem\b|@\s*\w+", plain):
        yield Effect("execute", None, "runs commands from awk", "shell:unknown-code")


def _by_pattern(language: str, text: str) -> Iterator[Effect]:
    if language == "awk":
        yield from _awk(text)
    for pattern, role in PATTERNS.get(language, ()):
        for match in pattern.finditer(text):
            target = next((group for group in match.groups()[::-1] if group), "") if match.groups() else ""
            target = re.sub(r"\\([\"'\\])", r"\1", target)
            if role == "shell":
                yield from _run(target) if target else ()
            elif role in ("read", "write", "delete", "move", "modify", "create"):
                yield Effect(role, _word(target))
            else:
                yield Effect(role)
    if language == "awk":
        return
    if REVERSE.search(text) and re.search(r"/bin/(?:ba|da|z)?sh|exec|spawn|popen", text):
        yield Effect("reverse-shell")
    if re.search(r"\beval\b|\bexec\b|new Function|loadstring|\bload\b", text):
        if FETCH.search(text):
            yield Effect("remote-code")
        elif HIDES.search(text):
            yield Effect("hidden-code")
    if re.search(r"\bfork\b", text) and re.search(r"\bwhile\b|\bloop\b|for\s*\(\s*;\s*;", text):
        yield Effect("bomb", None, "makes processes without end", "shell:fork-bomb")
    for url in re.findall(r"https?://[^\s'\"]+", text):
        yield Effect("network", url)
