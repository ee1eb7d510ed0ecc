"""Which command lines need no typer? Those of a plain command without mistakes: read here, and run at once.

Options are declared once, in the functions' annotations, where typer reads them, too; here a stand-in takes its place.
Whatever is not plainly right (an unknown option, a missing argument, --help, completion) is left to typer, which has
the words for it. Loading typer and what it reads values with takes 0.15 s of CPU.
"""

from __future__ import annotations

import functools
import os
import re
import types
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, get_args, get_origin

from .options import Options, Single, guarded, parameters_of, say_version, shared

PLAIN = frozenset({"call", "check", "list", "serve"})
"""Commands whose modules import no typer."""
_HARMLESS = frozenset({"autocompletion", "help", "metavar", "min"})
_INTEGER = re.compile(r"[0-9]{1,9}")


class _Unsure(Exception):
    """This is for typer to read."""


class _Declared:
    """What an annotation says of an option or argument."""

    def __init__(self, *flags: str, **more: Any) -> None:
        self.flags, self.more = flags, more


class _Option(_Declared):
    pass


class _Argument(_Declared):
    pass


class _StandIn:
    """What `typer` is in an annotation that is evaluated here."""

    Option, Argument = _Option, _Argument


@dataclass(frozen=True, slots=True)
class _Parameter:
    name: str
    kind: type
    many: bool
    flags: tuple[str, ...]
    """Empty for an argument."""
    required: bool
    least: int | None

    def value(self, text: str) -> Any:
        if self.kind is str:
            return text
        if self.kind is not int or not _INTEGER.fullmatch(text):
            raise _Unsure
        if self.least is not None and int(text) < self.least:
            raise _Unsure
        return int(text)


def run_plain(argv: Sequence[str]) -> int | None:
    """Run a command line and return its exit code; None if it is for typer to read, and nothing was done."""
    if os.name == "nt" or "_TOOLCRIB_COMPLETE" in os.environ:
        return None
    if list(argv) == ["--version"]:
        say_version()
        return 0
    try:
        work = _read(argv)
    except _Unsure:
        return None
    return guarded(work)


def _read(argv: Sequence[str]) -> functools.partial[int | None]:
    common = _declared(shared)
    before, rest = _values([p for p in common if p.name != "json"], argv, to_command=True)
    name = rest[0] if rest else ""
    if name not in PLAIN:
        raise _Unsure
    command: Single = import_module(f".{name}", __package__).app
    taken = [p for p in common if p.name not in command.without]
    own = _declared(command.fn, skip=1)
    found, _ = _values([*own, *taken], rest[1:])
    later = {p.name: found.pop(p.name) for p in taken if p.name in found}
    return functools.partial(command.fn, Options(**before).then(**later), **found)


def _declared(fn: Any, skip: int = 0) -> list[_Parameter]:
    """What a command's function takes, beside its first `skip` parameters."""
    found: list[_Parameter] = []
    for each in parameters_of(fn, _StandIn)[skip:]:
        annotation, declared = get_args(each.annotation)
        kinds = [kind for kind in _kinds(annotation) if kind is not type(None)]
        many = get_origin(kinds[0]) is list
        kind = get_args(kinds[0])[0] if many else kinds[0]
        if len(kinds) != 1 or kind not in (str, int, bool) or not declared.more.keys() <= _HARMLESS:
            raise _Unsure
        is_option = isinstance(declared, _Option)
        flags = (declared.flags or (f"--{each.name.replace('_', '-')}",)) if is_option else ()
        if kind is bool and (not declared.flags or any("/" in flag for flag in flags)):
            raise _Unsure  # typer makes two flags of it
        required = each.default is each.empty
        found.append(_Parameter(each.name, kind, many, flags, required, declared.more.get("min")))
    return found


def _kinds(annotation: Any) -> Iterable[Any]:
    return get_args(annotation) if isinstance(annotation, types.UnionType) else (annotation,)


def _values(
    parameters: Sequence[_Parameter], argv: Sequence[str], *, to_command: bool = False
) -> tuple[dict[str, Any], list[str]]:
    """The values that are given, by name, and what stands after the options; `to_command` ends at the first word."""
    by_flag = {flag: p for p in parameters for flag in p.flags}
    given: dict[str, Any] = {}
    words: list[str] = []
    rest = list(argv)
    while rest:
        text = rest.pop(0)
        if text == "--" or len(text) < 2 or text[0] != "-":
            if text == "--":
                words, rest = [*words, *rest], []
            else:
                words.append(text)
            if to_command:
                break
            continue
        flag, equals, value = text.partition("=")
        parameter = by_flag.get(flag)
        if parameter is None or (equals and not flag.startswith("--")):
            raise _Unsure
        if parameter.kind is bool:
            if equals:
                raise _Unsure
            given[parameter.name] = True
            continue
        if not equals:
            if not rest or (rest[0][:1] == "-" and rest[0] != "-"):
                raise _Unsure
            value = rest.pop(0)
        if parameter.many:
            given.setdefault(parameter.name, []).append(parameter.value(value))
        else:
            given[parameter.name] = parameter.value(value)
    if to_command:
        return given, [*words, *rest]
    arguments = [p for p in parameters if not p.flags]
    for place, parameter in enumerate(arguments):
        if parameter.many:
            if place != len(arguments) - 1:
                raise _Unsure
            if words:
                given[parameter.name] = [parameter.value(word) for word in words]
            words = []
        elif words:
            given[parameter.name] = parameter.value(words.pop(0))
        elif parameter.required:
            raise _Unsure
    if words or any(p.required and p.name not in given for p in parameters):
        raise _Unsure
    return given, []
