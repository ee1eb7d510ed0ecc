"""Reads the arguments of a call: `key=value`, `key=@file`, `key=-`, `key:=JSON`, a value alone."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Sequence
from typing import Any, TypeGuard, cast

from ..boundary.own_files import read_file
from ..core.near import near
from ..core.registry import ToolRegistry
from ..core.text import lazy_regex
from ..core.tool import Tool
from .exit_codes import Usage

MAX_INPUT = 64 * 2**20  # bytes; as much as a call spills

ALONE = ""
"""The key of a value that was given without one, until the tool is known."""
_PAIR = lazy_regex(r"([^=:\s]+)(:=|=)(.*)", re.DOTALL)  # a key has no blanks: `git log --format=%an` is a value

_VARIABLE_FIRST = lazy_regex(r"[A-Za-z_]\w*=\S*\s")


def read_arguments(pairs: Sequence[str], text: str | None) -> dict[str, Any] | str:
    """The arguments of a call. Values stay text; the tool's schema decides their types. Raises Usage.

    `named` gives the value under the key ALONE its name.
    """
    if text is not None:
        if pairs:
            raise Usage("arguments come either as key=value or as --args, not both")
        return read_input("--args", text[1:]) if text[:1] == "@" else read_input("--args", "-") if text == "-" else text
    found: dict[str, Any] = {}
    stdin_used = False
    for pair in pairs:
        match = _PAIR.fullmatch(pair)
        if match is None and (ALONE in found or pair.startswith(("=", ":="))):
            raise Usage(f"{pair!r}: {_WRITTEN}; one value alone is enough where a tool needs no other")
        key, sign, given = match.groups() if match is not None else (ALONE, "=", pair)
        value: Any = given
        if sign == ":=":
            try:
                value = json.loads(given)
            except (ValueError, RecursionError) as error:
                raise Usage(f"{key}:= takes JSON: {error}") from None
        elif given == "-":
            if stdin_used:
                raise Usage("only one argument can come from stdin")
            stdin_used = True
            value = read_input(key, "-")
        elif given.startswith("@@"):  # a value that begins with @
            value = given[1:]
        elif given.startswith("@"):
            value = read_input(key, given[1:])
        if key in found:  # repeated: a list
            before = found[key]
            value = [*cast("list[Any]", before), value] if isinstance(before, list) else [before, value]
        found[key] = value
    return found


_WRITTEN = "arguments are written key=value (key=@file, key=- for stdin, key:=JSON)"


def named(
    arguments: dict[str, Any] | str, name: str, registry: ToolRegistry, words: Sequence[str]
) -> dict[str, Any] | str:
    """The arguments, with the value that was given alone under the one parameter that the tool needs. Raises Usage if
    it needs none or several. Those of an unknown tool stay as they are. `words` are what `read_arguments` has read."""
    tool = None if isinstance(arguments, str) else registry.find(name)
    if isinstance(arguments, str) or tool is None:
        return arguments
    if tool.command_argument is not None:
        arguments = _with_command(arguments, tool, tool.command_argument, words)
    if ALONE not in arguments:
        return arguments
    needed: list[str] = list(tool.schema.get("required", ()))
    alone = arguments[ALONE]
    if _is_arguments(alone, tool):
        raise Usage(f"{alone!r} is all arguments as JSON: write --args {shlex.quote(alone)}")
    if len(needed) == 1 and needed[0] not in arguments:
        return {needed[0] if key == ALONE else key: value for key, value in arguments.items()}
    takes = needed or list(tool.schema.get("properties", ()))
    known = f"{', '.join(takes)}, for example {takes[0]}={shlex.quote(str(alone))}" if takes else "nothing"
    raise Usage(f"{alone!r}: {_WRITTEN}; {name} {'needs' if needed else 'takes'} {known}")


def _is_arguments(text: object, tool: Tool) -> TypeGuard[str]:
    """Whether a text is a JSON object, and each of its keys a parameter of the tool."""
    if not isinstance(text, str) or not text.lstrip().startswith("{"):
        return False
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return bool(value) and set(value) <= {*tool.schema.get("properties", ()), *tool.aliases}


def _with_command(arguments: dict[str, Any], tool: Tool, command: str, words: Sequence[str]) -> dict[str, Any]:
    """The arguments, with a command that begins with a variable (`FOO=1 make`) as the value alone. It was read as
    key=value, but the tool has no such parameter, nor one like it."""
    if command in arguments or ALONE in arguments:
        return arguments
    known = [*tool.schema.get("properties", ()), *tool.aliases]
    odd = [key for key in arguments if key.isupper() or not near(key, known)]
    typed = [word for word in words if _VARIABLE_FIRST.match(word) and word.startswith(f"{odd[0]}=")] if odd else []
    if (len(odd), len(typed)) != (1, 1):
        return arguments
    return {ALONE if key in odd else key: typed[0] if key in odd else value for key, value in arguments.items()}


def json_object(text: str, name: str = "that") -> dict[str, Any]:
    """The arguments that a person typed, as the value of an option. Raises Usage if they are not a JSON object."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Usage(f"{name} is not JSON ({error})") from None
    if not isinstance(value, dict):
        raise Usage("the arguments must be a JSON object")
    return cast("dict[str, Any]", value)


def read_input(key: str, name: str) -> str:
    """The text of a file, or of stdin for `-`, which is the value of `key`. Raises Usage."""
    where = f"{key}: " if key != ALONE else ""
    if not name:
        raise Usage(f"{where}@ needs the name of a file; a value that begins with @ is written @@")
    if name == "-" and sys.__stdin__ is None:  # Python's note of it: by now /dev/null has taken its place
        raise Usage(f"{where}stdin is closed; give it a file (< FILE), or nothing (< /dev/null)")
    try:
        if name == "-":
            raw = sys.stdin.buffer.read(MAX_INPUT + 1)
        else:
            raw = read_file(name, MAX_INPUT)
    except OSError as error:
        raise Usage(f"{where}{name}: {error.strerror}") from None
    if len(raw) > MAX_INPUT:
        raise Usage(f"{where}more than {MAX_INPUT:,} bytes")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise Usage(f"{where}{'stdin' if name == '-' else name} is not UTF-8 text") from None


def address_of(text: str, default: int) -> tuple[str, int]:
    """Return host and port of an option --http; it may lack one of them. Raises Usage."""
    host, found, port = text.rpartition(":")
    if not found:
        host, port = ("127.0.0.1", text) if text.isdigit() else (text, str(default))
    if not port.isdigit() or int(port) > 65535:
        raise Usage(f"--http {text}: should be HOST:PORT, like 127.0.0.1:{default}")
    return host.strip("[]") or "127.0.0.1", int(port)
