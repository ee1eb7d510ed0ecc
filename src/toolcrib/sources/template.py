"""Command templates: each `{{name}}` becomes one argument, whatever its value contains.

Values never become part of the command's text: the shell gets the template with `"${1}"` for each placeholder, and
the values as its positional parameters. So a value cannot be read as code, even if this module and the shell read
the template differently. One risk is left: a value could be *evaluated* later (`eval`, arithmetic, a program's
name). Templates that do so are refused when they are loaded. Placeholders inside quotes are refused too.
"""

from __future__ import annotations

import dataclasses
import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from ..core.dataclass import dataclass
from ..core.errors import ToolDefinitionError, ToolError
from ..core.text import lazy_regex
from ..policy.shell import tree
from ..policy.shell.command_flow import SHELLS
from ..policy.shell.grammar import parse
from ..policy.shell.parts import Command, Word
from ..policy.shell.reading import read_script
from .parameters import PLACEHOLDER

# Linux allows 128 KiB in one argument (MAX_ARG_STRLEN), including the closing NUL.
MAX_ARGUMENT_BYTES = 128 * 1024 - 1

# Builtins that evaluate their arguments: as code, as the name or subscript of a variable, or as arithmetic.
_EVALUATE = frozenset(
    {
        ".", "alias", "bind", "compgen", "complete", "coproc", "declare", "enable", "eval", "export", "getopts", "let",
        "local", "mapfile", "read", "readarray", "readonly", "source", "trap", "typeset", "unset", "wait",
    }
)  # fmt: skip
_TESTS = frozenset({"test", "["})
_NAMES_VARIABLE = frozenset({"-v", "-R"})  # tests of a variable, which evaluate its subscript
_KEPT = "is stored in a variable, which could be evaluated later; use it where it is needed"
_REDIRECTS = frozenset({"<", ">", ">>", ">|", "<>", "<<<"})
_OWN_PARAMETERS = lazy_regex(r"[0-9]+|[@*#]")


@dataclass(frozen=True, slots=True)
class CommandTemplate:
    """A checked template.

    `names` are its parameters, in order of first use. `script` is the text that the shell gets.
    """

    text: str
    names: tuple[str, ...]
    script: str

    def arguments(self, values: Mapping[str, Any]) -> list[str]:
        """Return the script's positional parameters. Raises ToolError if a value cannot be an argument."""
        return [argument(name, values) for name in self.names]

    def bound(self, values: Mapping[str, Any]) -> str:
        """Return the command line with each value quoted, for a judge or a reader.

        Raises ToolError if a value cannot be an argument.
        """
        return PLACEHOLDER.sub(lambda found: shlex.quote(argument(found[1], values)), self.text)


def command_template(text: str) -> CommandTemplate:
    """Check a template. Raises ToolDefinitionError if it has no end, such as an open quote, or if a placeholder is in a
    forbidden place; the text names it."""
    if not text.strip():
        raise ToolDefinitionError("the command is empty")
    if "\0" in text:
        raise ToolDefinitionError("the command contains a NUL character")
    names = tuple(dict.fromkeys(PLACEHOLDER.findall(text)))
    items, unsure = parse((marks := _Marks(text)).marked)
    if unsure is not None and (names or _is_unfinished(unsure)):
        raise ToolDefinitionError(f"the command cannot be read as shell: {unsure.reason}")
    if names:
        _check_places(marks, items)
    script = PLACEHOLDER.sub(lambda found: f'"${{{names.index(found[1]) + 1}}}"', text)
    return CommandTemplate(text, names, script)


def argument(name: str, values: Mapping[str, Any]) -> str:
    """Return one value as the text of an argument: strings unchanged, others as JSON.

    Raises ToolError if that is not possible.
    """
    if name not in values:
        raise ToolError(f"{name} is missing, and the command needs it")
    value = values[name]
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if "\0" in text:
        raise ToolError(f"{name} contains a NUL character, which no argument of a command can hold. Remove it.")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise ToolError(f"{name} contains half of a surrogate pair, which is not text. Remove it.") from None
    if size > MAX_ARGUMENT_BYTES:
        raise ToolError(f"{name} has {size:,} bytes; the system takes {MAX_ARGUMENT_BYTES:,} in one argument.")
    return text


# --- allowed places of placeholders


def _is_unfinished(unsure: tree.Unsure) -> bool:
    """Return whether every shell would refuse the text, because something in it has no end."""
    return unsure.rule == "shell:syntax" and (not unsure.source or unsure.reason.startswith("a quote is not closed"))


def _check_places(marks: _Marks, items: tuple[tree.Item, ...]) -> None:
    places = _Places(marks)
    places.walk(items)
    for index, name in enumerate(marks.names):
        if index not in places.good:
            why = places.bad.get(index) or (
                "is inside quotes, a substitution, a comment or the like. Make it a separate word, "
                "without quotes: each value is passed as one argument, whatever it holds"
            )
            raise ToolDefinitionError(f"{{{{{name}}}}} {why}")
    _check_programs(marks)


def _check_programs(marks: _Marks) -> None:
    """Check that no value names the program to run, as an operand of `env`, `xargs`, `sh -c` or a similar program.

    Raises ToolDefinitionError if one does.
    """
    script = read_script(marks.marked, "/", "/")
    for command in script.commands:
        for index in marks.found(_text(command.words[:1])):
            runner = command.via[-1] if command.via else "the shell"
            raise ToolDefinitionError(
                f"{{{{{marks.names[index]}}}}} is where {runner} takes a command, so its value would decide what "
                "runs. Name the program in the template"
            )
        for index in _run_by_a_shell(command, marks):
            raise ToolDefinitionError(
                f"{{{{{marks.names[index]}}}}} is what {command.name} would run, so its value would say what runs"
            )


def _run_by_a_shell(command: Command, marks: _Marks) -> list[int]:
    """Return the marks that a shell would run as its script, or ssh as a command line of the remote shell."""
    name = command.program
    operands = [word for word in command.args if not _text((word,)).startswith("-")]
    if name == "ssh":
        return marks.found(" ".join(_text((word,)) for word in operands[1:]))
    return marks.found(_text(operands[:1])) if name in SHELLS else []


def _text(words: Sequence[Word]) -> str:
    return " ".join("".join(part or "" for part in word.parts) for word in words)


class _Marks:
    """The template with a unique word in place of each placeholder."""

    def __init__(self, text: str) -> None:
        self.word = "zq"
        while self.word in text:
            self.word += "q"
        self.names: list[str] = []
        self.marked = PLACEHOLDER.sub(self._mark, text)
        self._pattern = re.compile(rf"{self.word}([0-9]+)z")

    def _mark(self, found: re.Match[str]) -> str:
        self.names.append(found[1])
        return f"{self.word}{len(self.names) - 1}z"

    def found(self, text: str) -> list[int]:
        """Return the placeholders whose marks are in a text."""
        return [int(number) for number in self._pattern.findall(text)]


class _Places:
    """Walks the tree and notes which marks are in places where a value is exactly one argument."""

    def __init__(self, marks: _Marks) -> None:
        self._marks = marks
        self.good: set[int] = set()
        self.bad: dict[int, str] = {}

    def walk(self, node: object) -> None:
        """Visit statements. Marks in parts that are not visited stay unknown, and are refused."""
        if isinstance(node, tuple):
            for each in cast("tuple[object, ...]", node):
                self.walk(each)
        elif isinstance(node, tree.Simple):
            self._simple(node)
        elif isinstance(node, tree.Function):
            self._refuse(node, "is in a function, where $1 means something else")
        elif isinstance(node, (tree.Condition, tree.Arithmetic, tree.ArithFor)):
            self._refuse(node, "is where bash does arithmetic, which can run code. Use [ … ] instead")
        elif isinstance(node, tree.For):
            self._refuse(node.words or (), _KEPT)
            self.walk(node.body)
            self._redirects(node.redirects)
        elif isinstance(node, tree.Case):
            self._word(node.subject)
            for _, body in node.items:
                self.walk(body)
        elif isinstance(node, (tree.Item, tree.PipedCommands, tree.AndOr, tree.Group, tree.If, tree.While)):
            for field in dataclasses.fields(node):
                inner = getattr(node, field.name)
                if field.name == "redirects":
                    self._redirects(inner)
                else:
                    self.walk(inner)

    def _simple(self, node: tree.Simple) -> None:
        for word in node.words:
            self._own_parameters(word)
        name = node.words[0].source if node.words else None
        why = self._evaluates(name, node.words)
        for index, word in enumerate(node.words):
            if index == 0:
                self._refuse(word, "is where a program's name is expected, so its value would decide what runs")
            elif why:
                self._refuse(word, why)
            else:
                self._word(word)
        for assign in node.assigns:
            if assign.subscript is None and assign.array is None and node.words:
                self._word(assign.value)
            else:
                self._refuse(assign, _KEPT)
        self._redirects(node.redirects)

    def _evaluates(self, name: str | None, words: tuple[tree.Raw, ...]) -> str:
        sources = [word.source for word in words[1:]]
        names_variable = name == "printf" and (sources[:1] == ["-v"] or self._marks.found(" ".join(sources[:1])))
        if name in _EVALUATE or names_variable:  # a format could be -v
            return f"is an argument of {name}, which would evaluate it"
        if name in _TESTS and not self._is_plain_test(sources):
            return f"is in a {name} whose meaning could change with it. Use one test for each comparison"
        return ""

    def _is_plain_test(self, sources: list[str]) -> bool:
        """Whether a test is one comparison with a fixed operator from the template (test(1) counts its operands)."""
        operands = [source for source in sources if source != "]"]
        if operands[:1] == ["!"]:
            del operands[0]
        if len(operands) == 2:
            return not self._marks.found(operands[0]) and operands[0] not in _NAMES_VARIABLE
        return len(operands) < 2 or (len(operands) == 3 and not self._marks.found(operands[1]))

    def _own_parameters(self, word: tree.Raw) -> None:
        """Refuse `set`, `shift` and the template's own `$1`, which would change the position of values.

        Raises ToolDefinitionError.
        """
        if word.plain in ("set", "shift"):
            raise ToolDefinitionError(f"{word.plain} changes $1, $2 …, which hold the values of a template")
        for piece in _pieces(word):
            if isinstance(piece, tree.Param) and _OWN_PARAMETERS.fullmatch(piece.name):
                raise ToolDefinitionError(f"${piece.name} holds a value of the template. Use its {{{{name}}}}")

    def _redirects(self, redirects: tuple[tree.Redir, ...]) -> None:
        for redirect in redirects:
            if redirect.op in _REDIRECTS and redirect.body is None:
                self._word(redirect.target)

    def _word(self, word: tree.Raw) -> None:
        for piece in word.pieces:
            if isinstance(piece, tree.Lit) and not piece.quoted:
                self.good.update(self._marks.found(piece.text))

    def _refuse(self, node: object, why: str) -> None:
        for piece in _pieces(node):
            if isinstance(piece, tree.Lit):
                for index in self._marks.found(piece.text):
                    self.bad.setdefault(index, why)


def _pieces(node: object) -> Iterator[object]:
    """Yield everything below a node of the tree, including the node."""
    if isinstance(node, tuple):
        for each in cast("tuple[object, ...]", node):
            yield from _pieces(each)
    elif dataclasses.is_dataclass(node) and not isinstance(node, type):
        yield node
        for field in dataclasses.fields(node):
            yield from _pieces(getattr(node, field.name))
