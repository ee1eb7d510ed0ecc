"""Expand words as the shell would: braces, tildes, parameters, splitting, quote removal, in bash's order.

Text that is known exactly becomes text; everything else is a part None. Wrong text would be worse than none, so every
rule that is not computed exactly gives None.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Literal, Protocol

from .braces import MAX_WORDS, braces
from .grammar import parse_text
from .lexer import ACTIVE, NAME
from .parameters import computed, default, stored
from .parts import Word
from .state import DEFAULT_IFS, UNKNOWN, Array, State, Value, known
from .tree import Arith, Extglob, Item, Lit, Param, Piece, Proc, Raw, Subst
from .unsure import Unsure

MAX_VALUE = 10_000  # characters; a longer value counts as unknown
_TILDE_IN_VALUE = re.compile(r"(^|:)~(?=/|:|\Z)")
_TILDE = re.compile(r"~(?=/|\Z)")
_ARGUMENT_TILDE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_ODD_TILDE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\+|\[).*[=:]~", re.DOTALL)  # like an assignment; not computed
_NUMBER = re.compile(r"-?[0-9]+")
_CHANGES = re.compile(r"\+\+|--|(?<![=!<>])=(?!=)|<<=|>>=")


class Runner(Protocol):
    """The reader of the commands inside words."""

    state: State
    tokens: set[int]
    """Substitutions (by the identity of their bodies) whose output is a single name or number."""

    def substitute(self, body: tuple[Item, ...]) -> Value:
        """Read a command substitution; return its output as far as it is known."""
        ...

    def assigned(self, name: str) -> None:
        """Note that an expansion assigns a variable."""
        ...

    def process(self, body: tuple[Item, ...], write: bool) -> None:
        """Read a process substitution."""
        ...


class _WordField:
    """One argument while it is being built."""

    __slots__ = ("glob", "many", "parts", "present")

    def __init__(self) -> None:
        self.parts: list[tuple[str | None, bool]] = []  # text, and whether it was quoted
        self.present = False
        self.many = False
        self.glob = False

    def add(self, text: str | None, quoted: bool) -> None:
        if text or text is None or quoted:
            self.parts.append((text, quoted))
            self.present = True

    @property
    def uncertain(self) -> bool:
        return any(text is None for text, _ in self.parts)

    def word(self, source: str, origin: Literal["", "listed", "token"] = "") -> Word:
        unquoted = "".join("\0" if text is None else text for text, quoted in self.parts if not quoted)
        glob = self.glob or _is_pattern(unquoted)
        parts: list[str | None] = []
        for text, quoted in self.parts:
            if text is not None and glob and quoted:
                text = re.sub(r"[\\*?\[\]]", r"\\\g<0>", text)
            if text is not None and parts and parts[-1] is not None:
                parts[-1] += text
            elif text is not None or not parts or parts[-1] is not None:
                parts.append(text)
        if sum(len(part or "") for part in parts) > MAX_VALUE:
            parts = [None]
        if len(parts) > 1:
            parts = [part for part in parts if part != ""]
        return Word(tuple(parts) or ("",), source, glob, self.many, origin)


def _is_pattern(text: str) -> bool:
    """Return whether unquoted text contains a pattern for file names."""
    return "*" in text or "?" in text or 0 <= text.find("[") < text.rfind("]")


def arguments(raws: tuple[Raw, ...], runner: Runner) -> list[Word]:
    """Return the arguments that words become. Raises `Unsure` if they are too many or cannot be expanded."""
    words: list[Word] = []
    for raw in raws:
        text = raw.plain if raw.plain is not None else _literal(raw.pieces)
        if text is not None:
            words.append(Word((text,), raw.source))
        else:
            words.extend(expand(raw, runner))
        if len(words) > MAX_WORDS:
            raise Unsure("a command has too many words", raw.source, "shell:size")
    return words


def _literal(pieces: tuple[Piece, ...]) -> str | None:
    """Return the text of a word that has nothing to expand, only quotes to remove; else None."""
    text = ""
    for piece in pieces:
        if type(piece) is not Lit or not (piece.quoted or ACTIVE.search(piece.text) is None):
            return None
        text += piece.text
    return text if pieces and len(text) <= MAX_VALUE else None


def expand(raw: Raw, runner: Runner) -> Iterator[Word]:
    """Yield the arguments that one word becomes: none, one or several."""
    words = braces(raw.pieces)
    for pieces in words:
        found = fields(pieces, runner, braced=pieces is not raw.pieces)
        origin = _origin(pieces, runner) if any(field.uncertain for field in found) else ""
        pattern = _pattern(pieces, runner) if origin == "listed" and len(found) == 1 else ""
        for field in found:
            word = field.word(raw.source, origin)
            yield replace(word, parts=(pattern,), glob=True) if pattern else word


def _pattern(pieces: tuple[Piece, ...], runner: Runner) -> str:
    """Return the pattern that a word matches if the word is only the name of a file that was found."""
    names = [piece.name for piece in pieces if isinstance(piece, Param)]
    if len(names) != 1 or any(isinstance(piece, Lit) and piece.text for piece in pieces):
        return ""
    found = runner.state.listed(names[0])
    return found.pattern if found is not None else ""


def _origin(pieces: tuple[Piece, ...], runner: Runner) -> Literal["", "listed", "token"]:
    """Return the origin of a word that is not known: the name of a file that was found, or a single name or number."""
    origin: Literal["", "listed", "token"] = ""
    for piece in pieces:
        if isinstance(piece, Lit):
            continue
        if isinstance(piece, Param) and not piece.prefix and not piece.op and piece.subscript is None:
            if runner.state.listed(piece.name) is not None:
                origin = "listed"
            elif known(runner.state.get(piece.name)) is None:
                return ""
        elif isinstance(piece, Subst) and id(piece.body) in runner.tokens:
            origin = origin or "token"
        else:
            return ""
    return origin


def target(raw: Raw, runner: Runner) -> Word:
    """Return the file name of a redirection. Several names or none are an error in bash, and unknown here."""
    if raw.plain is not None:
        return Word((raw.plain,), raw.source)
    words = list(expand(raw, runner))
    return words[0] if len(words) == 1 else Word(UNKNOWN, raw.source)


def single(pieces: tuple[Piece, ...], runner: Runner, assignment: bool = False) -> Value:
    """Return the value of pieces that are not split: assignments, here-documents, patterns, subscripts."""
    parts: list[str | None] = []
    last = len(pieces) - 1
    for index, piece in enumerate(pieces):
        if isinstance(piece, Lit):
            if assignment and not piece.quoted and "~" in piece.text:
                parts.extend(_value_tildes(piece.text, index == 0, index == last, runner.state))
            else:
                parts.append(piece.text)
        elif isinstance(piece, Proc):
            runner.process(piece.body, piece.write)
            parts.extend(("/dev/fd/", None))
        elif isinstance(piece, Extglob):
            single(piece.pieces, runner)
            parts.append(None)
        else:
            value, _ = evaluate(piece, runner)
            parts.extend(value)
    return merge(parts)


def merge(parts: list[str | None]) -> Value:
    """Join neighbouring parts of the same kind."""
    if sum(len(part or "") for part in parts) > MAX_VALUE:
        return UNKNOWN
    if None not in parts:
        return ("".join(part for part in parts if part is not None),)
    merged: list[str | None] = []
    for part in parts:
        if part is None:
            if not merged or merged[-1] is not None:
                merged.append(None)
        elif merged and merged[-1] is not None:
            merged[-1] += part
        elif part:
            merged.append(part)
    return tuple(merged)


def _value_tildes(text: str, first: bool, last: bool, state: State) -> list[str | None]:
    """Expand the tildes at the start of an assigned value and after its colons; return the parts."""
    if not first and text.startswith("~"):
        return [None]
    home = known(state.get("HOME"))
    rest = _TILDE_IN_VALUE.sub(r"\1", text)
    if re.search(r"(^|:)~", rest) or home is None or (not last and re.search(r"(^|:)~\Z", text)):
        return [None]
    return [_TILDE_IN_VALUE.sub(lambda match: match.group(1) + home, text)]


def fields(pieces: tuple[Piece, ...], runner: Runner, braced: bool = False) -> list[_WordField]:
    """Return the arguments that brace-free pieces become; `braced` pieces are the result of brace expansion."""
    if runner.state.arguments == () and len(pieces) == 2 and _no_arguments(*pieces):
        return []
    out: list[_WordField] = []
    current = _WordField()
    # A dollar sign that begins no expansion sometimes keeps bash 5.2 from splitting its word.
    odd = any(isinstance(piece, Lit) and piece.quoted and piece.text == "$" for piece in pieces)
    for index, piece in enumerate(pieces):
        if isinstance(piece, Lit):
            if index == 0 and not piece.quoted and "~" in piece.text:
                if braced and _ARGUMENT_TILDE.match(piece.text):
                    current.add(None, True)
                else:
                    _add_tilde(piece.text, len(pieces) == 1, current, runner.state)
            elif index and not piece.quoted and "~" in piece.text and _value_goes_on(pieces[0], piece.text):
                current.add(None, True)
            else:
                current.add(piece.text, piece.quoted)
        elif isinstance(piece, Proc):
            runner.process(piece.body, piece.write)
            current.add("/dev/fd/", True)
            current.add(None, True)
        elif isinstance(piece, Extglob):
            single(piece.pieces, runner)
            current.add(None, False)
            current.glob = True
        elif isinstance(piece, Param) and piece.name in "@*" and not piece.prefix and not piece.op:
            current = _list(runner.state.arguments, piece, out, current, runner.state)
        elif isinstance(piece, Param) and _whole_array(piece):
            current = _list(_array(piece, runner.state), piece, out, current, runner.state)
        else:
            value, whole = evaluate(piece, runner)
            if piece.quoted:
                for part in value:
                    current.add(part, True)
                current.add("", True)
            elif whole:
                for part in value:
                    current.add(part, True)
            else:
                current = _split(value, out, current, None if odd else runner.state.ifs())
    if current.present:
        out.append(current)
    return out


def _no_arguments(quote: Piece, piece: Piece) -> bool:
    """Return whether this is `"$@"` alone: without positional parameters it is not a word at all."""
    quoted = isinstance(quote, Lit) and quote.quoted and not quote.text
    alone = isinstance(piece, Param) and piece.quoted and piece.name == "@" and not piece.prefix and not piece.op
    return quoted and alone


def _value_goes_on(first: Piece, text: str) -> bool:
    """Return whether a tilde in later text of a word may be expanded because the word looks like an assignment."""
    like = isinstance(first, Lit) and not first.quoted and re.match(r"[A-Za-z_][A-Za-z0-9_]*[=+\[]", first.text)
    return bool(like) and (text.startswith("~") or ":~" in text)


def _add_tilde(text: str, whole: bool, field: _WordField, state: State) -> None:
    """Add a word's first literal with its tilde expanded."""
    argument = _ARGUMENT_TILDE.match(text)
    if argument:
        field.add(argument.group(), False)
        text = text[argument.end() :]
        for part in _value_tildes(text, True, whole, state):
            field.add(part, True)
        return
    if not text.startswith("~") or (not whole and "/" not in text):
        field.add(None if _ODD_TILDE.match(text) else text, False)
        return
    home = known(state.get("HOME"))
    match = _TILDE.match(text)
    if match is None or home is None:
        field.add(None, True)
        slash = text.find("/")
        field.add(text[slash:] if slash > 0 else "", False)
        return
    field.add(home, True)
    field.add(text[1:], False)


def _whole_array(piece: Param) -> bool:
    """Return whether this is `${name[@]}` or `${name[*]}`."""
    inner = piece.subscript
    return (
        inner is not None
        and not piece.prefix
        and not piece.op
        and len(inner) == 1
        and isinstance(inner[0], Lit)
        and inner[0].text in ("@", "*")
    )


def _array(piece: Param, state: State) -> tuple[Value, ...] | None:
    """Return an array's elements, if they are known."""
    value = state.get(piece.name)
    if isinstance(value, Array):
        return value.items
    return None


def _list(
    items: tuple[Value, ...] | None, piece: Param, out: list[_WordField], current: _WordField, state: State
) -> _WordField:
    """Add `"$@"`, `"${a[@]}"` and the unquoted forms; return the field that is open afterwards."""
    star = piece.name == "*" if piece.subscript is None else _star(piece)
    if items is None or star:
        if star and piece.quoted:
            current.add(None, True)
            return current
        current.add(None, True)
        current.many = True
        return current
    for index, item in enumerate(items):
        if index:
            if current.present:
                out.append(current)
            current = _WordField()
        if piece.quoted:
            current.add("", True)
            for part in item:
                current.add(part, True)
        else:
            current = _split(item, out, current, state.ifs())
    return current


def _star(piece: Param) -> bool:
    """Return whether an array's subscript is `*`."""
    inner = piece.subscript[0] if piece.subscript else None
    return isinstance(inner, Lit) and inner.text == "*"


def _split(value: Value, out: list[_WordField], current: _WordField, ifs: str | None) -> _WordField:
    """Add an unquoted value, split into words; return the field that is open afterwards."""
    for part in value:
        if part is None or ifs is None or "\\" in part:
            current.add(None, False)
            current.many = True
        elif not ifs:
            current.add(part, False)
        else:
            current = _split_text(part, out, current, ifs)
    return current


def _split_text(text: str, out: list[_WordField], current: _WordField, ifs: str) -> _WordField:
    """Add unquoted known text, split at the characters of IFS; return the field that is open afterwards."""
    space = "".join(char for char in ifs if char in DEFAULT_IFS)
    other = "".join(char for char in ifs if char not in DEFAULT_IFS)
    blank = f"[{re.escape(space)}]" if space else "(?!)"
    hard = f"[{re.escape(other)}]" if other else "(?!)"
    at = 0
    for match in re.finditer(f"{blank}*({hard}){blank}*|{blank}+", text):
        current.add(text[at : match.start()], False)
        if current.present or match.group(1) is not None:
            out.append(current)
            current.present = True
            current = _WordField()
        at = match.end()
    current.add(text[at:], False)
    return current


# Values


def evaluate(piece: Piece, runner: Runner) -> tuple[Value, bool]:
    """Return the value of an expansion, and whether it is one word even unquoted (a number)."""
    if isinstance(piece, Subst):
        return runner.substitute(piece.body), False
    if isinstance(piece, Arith):
        arithmetic(piece.pieces, runner)
        return UNKNOWN, True
    if isinstance(piece, Param):
        return parameter(piece, runner)
    raise TypeError(f"{type(piece).__name__} has no value")


def arithmetic(pieces: tuple[Piece, ...], runner: Runner) -> None:
    """Read the commands that an expression runs, and forget the variables that it assigns."""
    value = single(pieces, runner)
    text = " ".join(part or "" for part in value)
    state = runner.state
    changes = _CHANGES.search(text) is not None
    for name in set(NAME.findall(text)):
        current = known(state.get(name))
        if current is not None and not _NUMBER.fullmatch(current):
            expression(current, runner)
            state.forget()
        if changes:
            state.vars[name] = UNKNOWN
            runner.assigned(name)


def expression(text: str, runner: Runner) -> None:
    """Read the substitutions in text that bash evaluates as an arithmetic expression or a subscript."""
    if "$" in text or "`" in text:
        single(parse_text(text), runner)


def runs_later(text: str) -> bool:
    """Return whether text contains a subscript that runs something when bash evaluates it (`a[$(cmd)]`)."""
    return 0 <= text.find("[") < max(text.rfind("$("), text.rfind("`"))


def parameter(piece: Param, runner: Runner) -> tuple[Value, bool]:
    """Return the value of `$name` or `${name…}`, and whether it is always one word.

    Raises `Unsure` if it runs text in a variable, or an indirect name is not a name.
    """
    state = runner.state
    name = piece.name
    subscript = single(piece.subscript, runner) if piece.subscript is not None else None
    argument = single(piece.arg, runner) if piece.op else ("",)
    if piece.op == "@" and known(argument) not in ("Q", "E", "A", "K", "a", "k", "U", "u", "L"):
        raise Unsure("an expansion runs what a variable holds", name)
    if piece.op == ":":
        arithmetic(piece.arg, runner)
    value = stored(name, subscript, state)
    if piece.prefix == "!":
        if piece.op or value is None or piece.subscript is not None:
            return UNKNOWN, False
        target_name = known(value)
        if target_name is None:
            return UNKNOWN, False
        if not NAME.fullmatch(target_name):
            raise Unsure("a variable is named by odd text", target_name)
        return stored(target_name, None, state) or UNKNOWN, False
    if piece.prefix == "#":
        text = known(value)
        return ((str(len(text)),), True) if text is not None and not piece.op else (UNKNOWN, True)
    if not piece.op:
        return (value, False) if value is not None else (UNKNOWN, name in "#?$")
    return _operated(piece, value, argument, runner), False


def _operated(piece: Param, value: Value | None, argument: Value, runner: Runner) -> Value:
    """Return the value after an operator of `${name…}`, if it is simple enough to be certain."""
    state = runner.state
    op, text, other = piece.op, known(value), known(argument)
    if op in (":=", "=") and not text:
        state.vars[piece.name] = UNKNOWN
        runner.assigned(piece.name)
    if text is None or (text == "" and ":" not in op and op in "-=?+"):
        return UNKNOWN
    if op in (":-", ":=", ":?", "-", "=", "?"):
        return (text,) if text else default(piece, argument)
    if op in (":+", "+"):
        return default(piece, argument) if text else ("",)
    if other is None or not text.isascii() or piece.subscript is not None or len(text) * len(other) > 1_000_000:
        return UNKNOWN
    return computed(op, text, other)
