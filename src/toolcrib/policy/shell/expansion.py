"""Compute the values of expansions: parameters, arithmetic, command substitutions, without splitting them into words.

Text that is known exactly becomes text; everything else is a part None.
"""

from __future__ import annotations

import re
from itertools import groupby

from ...core.text import lazy_regex
from .lexer import NAME
from .script_walk import ScriptWalk
from .shell_state import NUMBER, OUTER, SECRET_NAME, UNKNOWN, State, Value, is_number, known
from .tree import Arith, Lit, Param, Piece, Proc, Subst, Unsure

MAX_VALUE = 10_000  # characters; a longer value counts as unknown
_DEFAULTS = frozenset({":-", ":=", ":?", "-", "=", "?"})  # what all shells have, as the next ones
_COMMON = _DEFAULTS | {":+", "+", "#", "##", "%", "%%"}
_PLAIN_ARGUMENT = lazy_regex(r"[\w ./:@,*?+|=;&-]*")
# Arithmetic that never fails. A number that may be negative is \x01 in it, another one or what was in parentheses \x00.
_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_OPERAND = rf"(?:(?<![-+])[-!~] ?)?(?:{_NAME}|0[0-7]*|[1-9][0-9]*|(?<![-+])\x01|\x00)"
_FIXED = r"[1-9][0-9]*(?![\w#])"
_SUM = rf"{_OPERAND}(?: ?(?:(?:&&|\|\||<<|>>|[<>=!]=|[-+*&|^<>]) ?{_OPERAND}|(?:\*\*|[/%]) ?{_FIXED}))*"
_STEP = (
    rf"(?:(?:{_NAME} ?(?:<<|>>|[-+*&|^])?= ?)?{_SUM}|{_NAME} ?[/%]= ?{_FIXED}|{_NAME} ?(?:\+\+|--)|(?:\+\+|--){_NAME})"
)
_STEPS = rf"{_STEP}(?: ?, ?{_STEP})*"
_CERTAIN = lazy_regex(rf" ?(?:{_STEPS})?(?: ?; ?(?:{_STEPS})?)* ?")
_INNER = lazy_regex(rf"\( ?{_STEPS} ?\)")
_MAX_INNER = 20  # parentheses in parentheses
_CHANGES = lazy_regex(r"\+\+|--|(?<![=!<>])=(?!=)|<<=|>>=")


def single(pieces: tuple[Piece, ...], reader: ScriptWalk, assignment: bool = False) -> Value:
    """Return the value of pieces that are not split: assignments, here-documents, patterns, subscripts."""
    if len(pieces) == 1 and isinstance(pieces[0], Arith | Param):
        return evaluate(pieces[0], reader)[0]
    parts: list[str | None] = []
    last = len(pieces) - 1
    for index, piece in enumerate(pieces):
        if isinstance(piece, Lit):
            if assignment and not piece.quoted and "~" in piece.text:
                parts.extend(value_tildes(piece.text, index == 0, index == last, reader.state))
            else:
                parts.append(piece.text)
        elif isinstance(piece, Proc):
            reader.process(piece.body, piece.write)
            parts.extend(("/dev/fd/", None))
        else:
            value, _ = evaluate(piece, reader)
            parts.extend(value)
    return merge(parts)


def merge(parts: list[str | None]) -> Value:
    """Join neighbouring parts of the same kind."""
    if sum(len(part or "") for part in parts) > MAX_VALUE:
        return UNKNOWN
    if None not in parts:
        return ("".join(part for part in parts if part is not None),)
    runs = (None if gap else "".join(filter(None, run)) for gap, run in groupby(parts, lambda part: part is None))
    return tuple(run for run in runs if run != "")


def value_tildes(text: str, first: bool, last: bool, state: State) -> list[str | None]:
    """Expand the tilde at the start of an assigned value; one after a colon makes the value unknown."""
    home = known(state.get("HOME"))
    if not first or home is None or ":~" in text or not re.match(r"~/|~\Z" if last else "~/", text):
        return [None if text.startswith("~") or ":~" in text else text]
    return [f"{home}{text[1:]}"]


def evaluate(piece: Piece, reader: ScriptWalk) -> tuple[Value, bool]:
    """Return the value of an expansion, and whether it is one word even unquoted (a number)."""
    if isinstance(piece, Subst):
        return reader.substitute(piece.body), False
    if isinstance(piece, Arith):
        arithmetic(piece.pieces, reader)
        return NUMBER, True
    if isinstance(piece, Param):
        return parameter(piece, reader)
    raise TypeError(f"{type(piece).__name__} has no value")


def arithmetic(pieces: tuple[Piece, ...], reader: ScriptWalk, *, slices: bool = False) -> None:
    """Read the commands that an expression runs, and forget the variables that it assigns.

    Text in a variable is evaluated, too, and can run something: only numbers are harmless. `slices`: it is `${x:1:2}`,
    about which there is a question anyway.
    """
    value = merge([part for piece in pieces for part in _operand(piece, reader)])
    text = " ".join(part or "" for part in value)
    state = reader.state
    if not slices and not _is_certain(text, state):
        said = "it computes what may fail: then the rest of the line is skipped, and variables stay as they were"
        reader.problem(Unsure(said, text, "shell:arithmetic"))
    changes = _CHANGES.search(text) is not None
    for name in set(NAME.findall(text)):
        runs_later(known(state.get(name)), reader)
        first = re.search(rf"\b{name}\b\s*(=(?!=))?", text)
        if not is_number(state.get(name)) and (first is None or not first[1]):
            evaluates(reader, name)
        if changes:
            state.vars[name] = NUMBER
            reader.assigned(name)
    if None in value or "[" in text:
        evaluates(reader, text)


def _operand(piece: Piece, reader: ScriptWalk) -> Value:
    """Return the value of a part of an expression; for one that is certainly a number its sign in `_CERTAIN`."""
    value = single((piece,), reader)
    if isinstance(piece, Param) and (piece.prefix == "#" or piece.name in "#?$"):
        return ("\x00",)
    return ("\x01",) if value == NUMBER else value


def _is_certain(text: str, state: State) -> bool:
    """Return whether an expression never fails: no division by what may be 0, no number like 08, nothing odd."""
    text = re.sub(r"\s+", " ", text)
    for _ in range(_MAX_INNER):
        text, count = _INNER.subn("\x00", text)
        if not count:
            break
    values = (known(state.get(name)) for name in NAME.findall(text))
    plain = all(value is None or re.fullmatch(r"\s*-?(?:0|[1-9][0-9]*)\s*", value, re.ASCII) for value in values)
    return plain and _CERTAIN.fullmatch(text) is not None


def evaluates(reader: ScriptWalk, what: str) -> None:
    """Note that text that is not known to be a number is evaluated as arithmetic."""
    said = "it computes with text that is not known to be a number, and that bash would evaluate"
    reader.problem(Unsure(said, what, "shell:arithmetic"))


def other_shell(reader: ScriptWalk, what: str) -> None:
    """Note what bash and zsh understand differently. The shells of Toolcrib are bash and sh; another agent's may be
    zsh, which counts the elements of an array from 1, and `$name` as all of them."""
    reader.problem(Unsure(f"bash and zsh read `{what}` in different ways", what, "shell:other-shell"))


def other_time(reader: ScriptWalk, what: str) -> None:
    """Note commands that the shell runs between others, or when a folder changes: they may set any variable."""
    reader.problem(
        Unsure("it runs commands between others, which may change what these mean", what, "shell:other-time")
    )


def indexed(name: str, pieces: tuple[Piece, ...], reader: ScriptWalk) -> None:
    """Read a subscript: shells evaluate it, and count elements from 0 or 1."""
    other_shell(reader, f"{name}[…]")
    single(pieces, reader)


def runs_later(text: str | None, reader: ScriptWalk) -> None:
    """Note text with a subscript that runs something when bash evaluates it (`a[$(cmd)]`). What it runs is not read."""
    if text is not None and 0 <= text.find("[") < max(text.rfind("$("), text.rfind("`")):
        reader.problem(Unsure("it holds text that runs something when it is evaluated", text, "shell:evaluated"))


def parameter(piece: Param, reader: ScriptWalk) -> tuple[Value, bool]:
    """Return the value of `$name` or `${name…}`, and whether it is always one word. Behind an operator it is unknown.

    Raises `Unsure` if it runs text in a variable.
    """
    name, op = piece.name, piece.op
    if piece.zsh:
        sign = name == "$" and piece.zsh[0] not in "[:"
        other_shell(reader, f"${piece.zsh}…" if sign else f"${name}{piece.zsh}")
        if sign or name == '"':
            return ("$" if sign else "",), True
    value = reader.state.parameter(name)
    if piece.subscript is not None:
        indexed(name, piece.subscript, reader)
    if op:
        argument = known(single(piece.arg, reader))
        if op == "@" and argument not in ("Q", "E", "A", "K", "a", "k", "U", "u", "L"):
            raise Unsure("an expansion runs what a variable holds", name)
        if op == ":":
            arithmetic(piece.arg, reader, slices=True)
        if op not in _COMMON or not _is_plain(piece.arg) or name in ("@", "*"):
            other_shell(reader, f"${{{piece.prefix}{name}{op}…}}")
        if op in (":=", "=") and not known(value):
            reader.state.vars[name] = UNKNOWN
            reader.assigned(name)
    if piece.prefix != "#" and op not in (":+", "+"):
        uses(reader, name)
    if piece.prefix == "!":
        other_shell(reader, f"${{!{name}…}}")
        uses(reader, None)
    if op in _DEFAULTS and known(value) and piece.subscript is None:
        return value or UNKNOWN, False
    if op or piece.prefix or piece.subscript is not None:
        return UNKNOWN, piece.prefix == "#"
    return (value, value == NUMBER) if value is not None else (UNKNOWN, name in "#?$")


def is_operated(piece: Piece) -> bool:
    """Return whether this is an expansion whose value is not computed: with a subscript, or most operators."""
    return isinstance(piece, Param) and bool(
        piece.prefix or piece.subscript is not None or (piece.op and piece.op not in _DEFAULTS)
    )


def _is_plain(argument: tuple[Piece, ...]) -> bool:
    """Return whether the text behind an operator has one meaning in all shells, and nothing in it is expanded."""
    return len(argument) < 2 and all(
        isinstance(each, Lit) and _PLAIN_ARGUMENT.fullmatch(each.text) for each in argument
    )


def uses(reader: ScriptWalk, name: str | None) -> None:
    """Note a variable of the environment that may hold a secret, whatever is done with it: errors show it, too."""
    if name is None or (reader.state.vars.get(name, OUTER) == OUTER and SECRET_NAME.search(name)):
        said = "it uses a variable of the environment that may hold a secret"
        reader.problem(Unsure(said, name or "", "shell:environment"))
