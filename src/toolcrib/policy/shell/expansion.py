"""Compute the values of expansions: parameters, arithmetic, command substitutions, without splitting them into words.

Text that is known exactly becomes text; everything else is a part None.
"""

from __future__ import annotations

import re
from itertools import groupby

from ...core.text import lazy_regex
from .grammar import parse_text
from .lexer import NAME
from .parameter_values import SECRET_NAME, computed, default, stored
from .script_walk import ScriptWalk
from .shell_state import NUMBER, OUTER, UNKNOWN, Array, State, Value, is_number, known
from .tree import Arith, Lit, Param, Piece, Proc, Subst
from .unsure import Unsure

MAX_VALUE = 10_000  # characters; a longer value counts as unknown
_NUMBER = lazy_regex(r"-?[0-9]+")
_SIGNS = lazy_regex(r"[^\w .,:@=+-]")  # what a pattern, or a replacement, may give a meaning
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


def arithmetic(pieces: tuple[Piece, ...], reader: ScriptWalk) -> None:
    """Read the commands that an expression runs, and forget the variables that it assigns.

    Text in a variable is evaluated, too, and can run something: only numbers are harmless.
    """
    value = merge([part for piece in pieces for part in _operand(piece, reader)])
    text = " ".join(part or "" for part in value)
    state = reader.state
    changes = _CHANGES.search(text) is not None
    for name in set(NAME.findall(text)):
        current = known(state.get(name))
        if current is not None and not _NUMBER.fullmatch(current):
            expression(current, reader)
            state.forget()
        first = re.search(rf"\b{name}\b\s*(=(?!=))?", text)
        if not is_number(state.get(name)) and (first is None or not first[1]):
            evaluates(reader, name)
        if changes:
            state.vars[name] = NUMBER
            reader.assigned(name)
    if None in value or "[" in text:
        evaluates(reader, text)


def _operand(piece: Piece, reader: ScriptWalk) -> Value:
    """Return the value of a part of an expression; one that is certainly a number is 0."""
    value = single((piece,), reader)
    number = value == NUMBER or (isinstance(piece, Param) and (piece.prefix == "#" or piece.name in "#?$"))
    return ("0",) if number else value


def evaluates(reader: ScriptWalk, what: str) -> None:
    """Note that text that is not known to be a number is evaluated as arithmetic."""
    said = "it computes with text that is not known to be a number, and that bash would evaluate"
    reader.problem(Unsure(said, what, "shell:arithmetic"))


def other_shell(reader: ScriptWalk, what: str) -> None:
    """Note what bash and zsh understand differently. The shells of Toolcrib are bash and sh; another agent's may be
    zsh, which counts the elements of an array from 1, and `$name` as all of them."""
    reader.problem(Unsure(f"bash and zsh read `{what}` in different ways", what, "shell:other-shell"))


def indexed(pieces: tuple[Piece, ...], reader: ScriptWalk) -> Value:
    """Return a subscript's value; one that is not `@`, `*` or a number is evaluated."""
    value = single(pieces, reader)
    if known(value) not in ("@", "*"):
        arithmetic(pieces, reader)
    return value


def expression(text: str, reader: ScriptWalk) -> None:
    """Read the substitutions in text that bash evaluates as an arithmetic expression or a subscript."""
    if "$" in text or "`" in text:
        single(parse_text(text), reader)


def runs_later(text: str) -> bool:
    """Return whether text contains a subscript that runs something when bash evaluates it (`a[$(cmd)]`)."""
    return 0 <= text.find("[") < max(text.rfind("$("), text.rfind("`"))


def parameter(piece: Param, reader: ScriptWalk) -> tuple[Value, bool]:
    """Return the value of `$name` or `${name…}`, and whether it is always one word.

    Raises `Unsure` if it runs text in a variable, or an indirect name is not a name.
    """
    state = reader.state
    name = piece.name
    if piece.op and piece.zsh:
        other_shell(reader, f"${{{name}{piece.op}…{piece.zsh}…}}")
    elif piece.zsh:
        sign = name == "$" and piece.zsh[0] not in "[:"
        other_shell(reader, f"${piece.zsh}…" if sign else f"${name}{piece.zsh}")
        if sign or name == '"':
            return ("$" if sign else "",), True
    subscript = indexed(piece.subscript, reader) if piece.subscript is not None else None
    argument = single(piece.arg, reader) if piece.op else ("",)
    if piece.op == "@" and known(argument) not in ("Q", "E", "A", "K", "a", "k", "U", "u", "L"):
        raise Unsure("an expansion runs what a variable holds", name)
    if piece.op == ":":
        arithmetic(piece.arg, reader)
    value = stored(name, subscript, state)
    items = state.get(name)
    many = isinstance(items, Array) and len(items.items) > 1 and not all(map(is_number, items.items))
    if many and known(subscript) not in ("@", "*"):
        other_shell(reader, f"${name}")
    if piece.prefix != "#" and piece.op not in (":+", "+"):
        uses(reader, name)
    if piece.prefix == "!":
        target = known(value) if not piece.op and piece.subscript is None else None
        if target is not None and not NAME.fullmatch(target):
            raise Unsure("a variable is named by odd text", target)
        uses(reader, target)
        return (stored(target, None, state) if target is not None else None) or UNKNOWN, False
    if piece.prefix == "#":
        text = known(value)
        return ((str(len(text)),), True) if text is not None and not piece.op else (UNKNOWN, True)
    if not piece.op:
        return (value, value == NUMBER) if value is not None else (UNKNOWN, name in "#?$")
    return _operated(piece, value, argument, reader), False


def uses(reader: ScriptWalk, name: str | None) -> None:
    """Note a variable of the environment that may hold a secret, whatever is done with it: errors show it, too."""
    if name is None or (reader.state.vars.get(name, OUTER) == OUTER and SECRET_NAME.search(name)):
        said = "it uses a variable of the environment that may hold a secret"
        reader.problem(Unsure(said, name or "", "shell:environment"))


def _operated(piece: Param, value: Value | None, argument: Value, reader: ScriptWalk) -> Value:
    """Return the value after an operator of `${name…}`, if it is simple enough to be certain."""
    state = reader.state
    op, text, other = piece.op, known(value), known(argument)
    if op in (":=", "=") and not text:
        state.vars[piece.name] = UNKNOWN
        reader.assigned(piece.name)
    if text is None or (text == "" and ":" not in op and op in "-=?+"):
        return UNKNOWN
    if op in (":-", ":=", ":?", "-", "=", "?"):
        return (text,) if text else default(piece, argument)
    if op in (":+", "+"):
        return default(piece, argument) if text else ("",)
    if other is None or not text.isascii() or piece.subscript is not None or len(text) * len(other) > 1_000_000:
        return UNKNOWN
    plain = len(piece.arg) == 1 and isinstance(piece.arg[0], Lit) and piece.arg[0].quoted == piece.quoted
    if not plain and _SIGNS.search(other):  # `*` and `/` mean themselves in quotes, in zsh also in a value
        return UNKNOWN
    return computed(op, text, other)
