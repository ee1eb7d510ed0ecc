"""Reads a command line with argparse. The parameters of a command's function are its options and arguments.

Each parameter is annotated with an `Option` or an `Argument`, or it is a dataclass whose fields are: options that
several commands share. A `Literal` type lists the values that are allowed. An option whose type is a list may be
repeated; of any other option the last value counts.
Options may stand before and after the words they belong to. After `--` every word is an argument.
"""

from __future__ import annotations

import argparse
import inspect
import re
import shutil
import sys
import textwrap
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NoReturn, Union, get_args, get_origin

from ..core.dataclass import dataclass
from ..core.empty import EMPTY
from ..core.text import lazy_regex
from .exit_codes import Usage

Complete = Callable[[str], Iterable[str]]
_NEGATIVE = lazy_regex(r"-\d+|-\d*\.\d+")
_HELP = ("-h", "--help")


class Argument:
    """A word on the command line, known by its place. `complete` gives the words that a shell may offer, `minimum` is
    for numbers."""

    def __init__(
        self,
        metavar: str = "",
        *,
        help: str = "",  # noqa: A002
        complete: Complete | None = None,
        minimum: int | None = None,
    ) -> None:
        self.metavar, self.help, self.complete, self.minimum = metavar, help, complete, minimum


_NAMES = frozenset({"DIR", "FILE", "CALL-ID"})
"""What names a thing. An empty word, as from a variable that is not set, does not mean the default."""


class Option(Argument):
    """An option, known by its flags."""

    def __init__(
        self,
        *flags: str,
        help: str,  # noqa: A002
        metavar: str = "",
        complete: Complete | None = None,
        minimum: int | None = None,
    ) -> None:
        super().__init__(metavar, help=help, complete=complete, minimum=minimum)
        self.flags = flags


@dataclass(frozen=True, slots=True)
class CommandParameter:
    """One option or argument of a command. `section` is the part of the help page that lists it."""

    name: str
    mark: Argument
    kind: type
    choices: tuple[str, ...]
    repeated: bool
    default: Any
    section: str

    @property
    def required(self) -> bool:
        """Whether a command line without it is wrong."""
        return self.default is inspect.Parameter.empty

    @property
    def flags(self) -> tuple[str, ...]:
        """The flags of an option; empty for an argument."""
        return self.mark.flags or (f"--{self.name.replace('_', '-')}",) if isinstance(self.mark, Option) else ()

    @property
    def metavar(self) -> str:
        """What the help page shows in place of the value."""
        return self.mark.metavar or "|".join(self.choices) or self.name.upper()

    def offers(self, start: str) -> Iterable[str]:
        """The values that a shell may offer."""
        return self.mark.complete(start) if self.mark.complete else self.choices

    def value(self, text: str) -> Any:
        """The value that a word gives. Raises argparse.ArgumentTypeError."""
        if self.choices and text not in self.choices:
            meant = did_you_mean(text, self.choices)
            raise argparse.ArgumentTypeError(f"it can be {one_of(self.choices)}, not {text!r}{meant}")
        if self.kind is not int:
            if not text and self.metavar in _NAMES:
                raise argparse.ArgumentTypeError("it is empty")
            return text
        minimum = self.mark.minimum
        if not re.fullmatch(r"-?[0-9]{1,9}", text):
            why = "is too large" if text.isdecimal() else "is not a whole number"
            raise argparse.ArgumentTypeError(f"{text!r} {why}")
        if minimum is not None and int(text) < minimum:
            raise argparse.ArgumentTypeError(f"the smallest value is {minimum}")
        return int(text)


@dataclass(frozen=True, slots=True)
class CliCommand:
    """A command: the function that does it, which may be a coroutine function and returns an exit code or None; and the
    shared options that have no meaning for it."""

    run: Callable[..., Any]
    without: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """What the help page says of it."""
        return inspect.getdoc(self.run) or ""


@dataclass(frozen=True, slots=True)
class CommandGroup:
    """Several commands under one name. `run` is what happens where none of them is named."""

    run: Callable[..., Any]
    text: str
    summaries: Mapping[str, str]
    load: Callable[[str], CliCommand | CommandGroup]
    otherwise: str = ""
    """The command that is meant where the first word names none."""
    without: tuple[str, ...] = ()
    epilog: str = ""


def group(run: Callable[..., Any], text: str, commands: Mapping[str, CliCommand], otherwise: str = "") -> CommandGroup:
    """A group of commands that are loaded already."""
    summaries = {name: " ".join(command.text.partition("\n\n")[0].split()) for name, command in commands.items()}
    return CommandGroup(run, text, summaries, commands.__getitem__, otherwise)


def read(
    command: CliCommand | CommandGroup, path: str, words: Sequence[str], before: Mapping[str, Any] = EMPTY
) -> Callable[[], int | None]:
    """The work that a command line asks for. `before` has the values of options that stand before the command's name.
    Raises Usage, with the command's name and a hint at its help."""
    parameters = parameters_of(command)
    parser = _Parser(command, path, parameters)
    given, rest = parser.options(words)
    if given.pop("help", False):
        return partial(print_help, command, path)
    values = {**before, **given}
    if isinstance(command, CommandGroup) and rest:
        name, *rest = rest
        alone = not rest or rest[0].startswith("-")
        if name not in command.summaries and command.otherwise and alone:
            name, rest = command.otherwise, [name, *rest]
        if name not in command.summaries:
            known = f"; there are: {', '.join(command.summaries)}"
            if "call" in command.summaries:
                known = f"; `{path} call {name}` calls a tool"
            meant = did_you_mean(name, [*command.summaries, *parser.flags])
            parser.error(f"there is no command {name!r}{meant or known}")
        return read(command.load(name), f"{path} {name}", rest, values)
    values |= parser.arguments(rest)
    for name in before.keys() - {p.name for p in parameters}:
        if name not in command.without or name == "json":
            parser.error(f"--{name.replace('_', '-')} has no meaning for this command")
    return partial(_do, command.run, values)


class _Parser(argparse.ArgumentParser):
    """One command's parser. argparse reads the options, and the arguments are taken from what it leaves."""

    def __init__(
        self,
        command: CliCommand | CommandGroup,
        path: str,
        parameters: Sequence[CommandParameter],
        *,
        for_help: bool = False,
    ) -> None:
        page: dict[str, Any] = {}
        if for_help:
            page = {
                "usage": _usage(command, path, parameters), "description": _paragraphs(command.text),
                "epilog": _epilog(command), "formatter_class": _formatter,
            }  # fmt: skip
        super().__init__(prog=path, add_help=False, allow_abbrev=False, argument_default=argparse.SUPPRESS, **page)
        self._words = [p for p in parameters if not p.flags]
        self.flags = [flag for p in parameters for flag in p.flags]
        self._wanted = {"/".join(p.flags): p.metavar for p in parameters}
        if for_help:
            section = self.add_argument_group("Arguments")
            for each in self._words:
                section.add_argument(each.name, metavar=each.metavar, help=_help(each))
        names = ["", *dict.fromkeys(p.section for p in reversed(parameters) if p.section)]
        sections = {name: self.add_argument_group(name or "Options") for name in names}
        sections[""].add_argument(*_HELP, dest="help", action="store_true", help="Show this page and exit.")
        for each in parameters:
            if each.flags:
                shown = _help(each) if for_help else None
                sections[each.section].add_argument(*each.flags, dest=each.name, help=shown, **_action(each))
        self._leaves_rest = isinstance(command, CommandGroup)
        if self._leaves_rest and not for_help:
            self.add_argument("rest", nargs=argparse.PARSER).required = False

    def options(self, words: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
        """The values of the options, and the words that are left. Raises Usage."""
        words = list(words)
        end = words.index("--") if "--" in words and not self._leaves_rest else len(words)
        found, left = self.parse_known_args(words[:end])
        for word in left:
            if word.startswith("-") and word != "-" and not _NEGATIVE.fullmatch(word):
                meant = did_you_mean(word, self.flags)
                before = words[words.index(word) - 1] if word != words[0] else "-"
                if not meant and word[1] != "-" and before in left and not before.startswith("-"):
                    meant = f"; what belongs together is quoted: '{before} {word}'"
                self.error(f"there is no option {word.partition('=')[0]}{meant}")
        values = vars(found)
        return values, values.pop("rest", [*left, *words[end + 1 :]])

    def arguments(self, words: Sequence[str]) -> dict[str, Any]:
        """The values of the arguments. Raises Usage."""
        given: dict[str, Any] = {}
        rest = list(words)
        for each in self._words:
            taken = rest[:] if each.repeated else rest[:1]
            if each.required and not any(word.strip() for word in taken):
                self.error(f"{each.metavar} is {'empty' if taken else 'missing'}")
            if not taken:
                break
            del rest[: len(taken)]
            try:
                values = [each.value(word) for word in taken]
            except argparse.ArgumentTypeError as error:
                self.error(f"{each.metavar}: {error}")
            given[each.name] = values if each.repeated else values[0]
        if rest:
            self.error(f"unexpected argument {rest[0]!r}")
        return given

    def error(self, message: str) -> NoReturn:
        """Raise Usage."""
        text = message.removeprefix("argument ")
        flag, _, fault = text.partition(": ")
        if fault == "expected one argument":
            text = f"{flag} needs a value, {self._wanted[flag]} (one that starts with - is written with =)"
        raise Usage(f"{text}\nTry `{self.prog} --help`.")


# --- what a function declares


def parameters_of(command: CliCommand | CommandGroup) -> list[CommandParameter]:
    """The options and arguments of a command."""
    return [p for p in _parameters(command.run, "") if not p.section or p.name not in command.without]


def _declared(fn: Callable[..., Any]) -> Iterable[inspect.Parameter]:
    return inspect.signature(fn, eval_str=True).parameters.values()


def _parameters(fn: Callable[..., Any], section: str) -> list[CommandParameter]:
    found: list[CommandParameter] = []
    for each in _declared(fn):
        if isinstance(each.annotation, type):  # a dataclass of options
            found += _parameters(each.annotation, (inspect.getdoc(each.annotation) or "").rstrip("."))
            continue
        annotation, mark = get_args(each.annotation)
        kinds = get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)
        (kind,) = (kind for kind in kinds if kind is not types.NoneType)
        repeated, choices = get_origin(kind) is list, get_args(kind) if get_origin(kind) is Literal else ()
        kind = get_args(kind)[0] if repeated else str if choices else kind
        found.append(CommandParameter(each.name, mark, kind, choices, repeated, each.default, section))
    return found


def _call(fn: Callable[..., Any], values: Mapping[str, Any]) -> Any:
    """Call a command's function, or build a dataclass of options, with those of the values that it declares."""
    given: dict[str, Any] = {}
    for each in _declared(fn):
        if isinstance(each.annotation, type):
            given[each.name] = _call(each.annotation, values)
        elif each.name in values:
            given[each.name] = values[each.name]
    return fn(**given)


def _do(fn: Callable[..., Any], values: Mapping[str, Any]) -> int | None:
    """Run a command's function to its end."""
    found = _call(fn, values)
    if inspect.iscoroutine(found):
        from .main_loop import run

        return run(found)
    return found


def _action(parameter: CommandParameter) -> dict[str, Any]:
    if parameter.kind is bool:
        return {"action": "store_true"}
    action = "append" if parameter.repeated else "store"
    return {"action": action, "type": parameter.value, "metavar": parameter.metavar}


# --- words for people


def one_of(choices: Iterable[str]) -> str:
    """The choices in words: `a, b or c`."""
    *most, last = choices
    return f"{', '.join(most)} or {last}" if most else last


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of an error message that names the likeliest word; empty where none is like it."""
    from ..core.near import near

    meant = near(word.partition("=")[0], known)
    return f"; did you mean {meant[0]}?" if meant else ""


def print_help(command: CliCommand | CommandGroup, path: str) -> None:
    """Print a command's help page."""
    _Parser(command, path, parameters_of(command), for_help=True).print_help(sys.stdout)


def _usage(command: CliCommand | CommandGroup, path: str, parameters: Iterable[CommandParameter]) -> str:
    words = [f"{p.metavar} ..." if p.repeated else p.metavar for p in parameters if not p.flags]
    required = [p.required for p in parameters if not p.flags]
    shown = [word if must else f"[{word}]" for word, must in zip(words, required, strict=True)]
    if isinstance(command, CommandGroup):
        shown = [f"[{command.otherwise and 'ID | '}COMMAND ...]"]
    return " ".join((path, "[OPTIONS]", *shown)).replace("%", "%%")  # argparse formats it


def _help(parameter: CommandParameter) -> str:
    default = parameter.default
    shown = f" Default: {default}." if default and isinstance(default, str | int) else ""
    again = " May be repeated." if parameter.repeated and parameter.flags else ""
    return f"{parameter.mark.help}{again}{shown}".replace("%", "%%")


def _paragraphs(text: str) -> str:
    return "\n\n".join(textwrap.fill(part, _width()) for part in text.split("\n\n"))


def _width() -> int:
    """The width of a help page: that of the terminal, but no wider than a person reads well."""
    return min(shutil.get_terminal_size().columns, 102) - 2


def _formatter(prog: str) -> argparse.HelpFormatter:
    return argparse.RawDescriptionHelpFormatter(prog, max_help_position=30, width=_width())


def _epilog(command: CliCommand | CommandGroup) -> str:
    if not isinstance(command, CommandGroup):
        return ""
    width = max(map(len, command.summaries))
    indent = " " * (width + 4)
    lines = [
        textwrap.fill(f"  {name.ljust(width)}  {summary}", _width(), subsequent_indent=indent)
        for name, summary in command.summaries.items()
    ]
    end = f"\n\n{_paragraphs(command.epilog)}" if command.epilog else ""
    return "\n".join(("Commands:", *lines)) + end
