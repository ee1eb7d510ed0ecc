"""Expand words as the shell would: braces, tildes, values, splitting, quote removal, in bash's order.

Text that is known exactly becomes text; everything else is a part None. Wrong text would be worse than none, so every
rule that is not computed exactly gives None.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...core.text import lazy_regex
from .braces import MAX_WORDS, braces
from .expansion import MAX_VALUE, evaluate, merge, other_shell, uses, value_tildes
from .lexer import ACTIVE
from .parts import Word
from .script_walk import ScriptWalk
from .shell_state import UNKNOWN, LoopPattern, State, Value, known
from .tree import Lit, Param, Piece, Proc, Raw, Unsure

_BLANKS = lazy_regex(r"[ \t\n]+")
_SPLITTING = frozenset(" \t\n*?[")
_TILDE = lazy_regex(r"~(?=/|\Z)")
_ARGUMENT_TILDE = lazy_regex(r"[A-Za-z_][A-Za-z0-9_]*=")
_ODD_TILDE = lazy_regex(r"[A-Za-z_][A-Za-z0-9_]*(?:\+|\[).*[=:]~", re.DOTALL)  # like an assignment; not computed


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

    def word(self, source: str) -> Word:
        unquoted = "".join("\0" if text is None else text for text, quoted in self.parts if not quoted)
        glob = self.glob or _is_pattern(unquoted)
        parts = [
            re.sub(r"[\\*?\[\]]", r"\\\g<0>", text) if text and glob and quoted else text for text, quoted in self.parts
        ]
        return Word(merge(parts), source, glob, self.many)


def _is_pattern(text: str) -> bool:
    """Return whether unquoted text contains a pattern for file names."""
    return "*" in text or "?" in text or 0 <= text.find("[") < text.rfind("]")


def arguments(raws: tuple[Raw, ...], reader: ScriptWalk) -> list[Word]:
    """Return the arguments that words become. Raises `Unsure` if they are too many or cannot be expanded."""
    words: list[Word] = []
    for raw in raws:
        text = raw.plain if raw.plain is not None else _literal(raw.pieces)
        if text is not None:
            words.append(Word((text,), raw.source))
        else:
            words.extend(expand(raw, reader))
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


def expand(raw: Raw, reader: ScriptWalk) -> Iterator[Word]:
    """Yield the arguments that one word becomes: none, one or several."""
    words = braces(raw.pieces)
    if reader.posix and words != [raw.pieces]:
        raise Unsure("`sh` does not expand braces", raw.source, "shell:dialect")
    for pieces in words:
        pattern = _pattern(pieces, reader.state)
        if pattern is not None:
            yield Word((pattern.text,), raw.source, glob=True)
            continue
        braced = pieces is not raw.pieces
        found = fields(pieces, reader, braced=braced)
        if braced and len(found) != 1:  # zsh keeps an empty word, and lists the elements of an array in another order
            other_shell(reader, raw.source)
        for field in found:
            yield field.word(raw.source)


def _pattern(pieces: tuple[Piece, ...], state: State) -> LoopPattern | None:
    """Return the pattern that a word matches if the word is only a variable of a loop over file names."""
    rest = [piece for piece in pieces if not isinstance(piece, Lit) or piece.text]
    if len(rest) != 1 or not isinstance(rest[0], Param) or rest[0].prefix or rest[0].op or rest[0].subscript:
        return None
    found = state.vars.get(rest[0].name)
    return found if isinstance(found, LoopPattern) and (rest[0].quoted or state.splits_at_blanks) else None


def file_word(raw: Raw, reader: ScriptWalk) -> Word:
    """Return the file name of a redirection. Several names or none are an error in bash, and unknown here."""
    if raw.plain is not None:
        return Word((raw.plain,), raw.source)
    words = list(expand(raw, reader))
    return words[0] if len(words) == 1 else Word(UNKNOWN, raw.source)


def fields(pieces: tuple[Piece, ...], reader: ScriptWalk, braced: bool = False) -> list[_WordField]:
    """Return the arguments that brace-free pieces become; `braced` pieces are the result of brace expansion."""
    if reader.state.arguments == () and len(pieces) == 2 and _no_arguments(*pieces):
        return []
    out: list[_WordField] = []
    current = _WordField()
    # A dollar sign that begins no expansion sometimes keeps bash 5.2 from splitting its word.
    odd = any(isinstance(piece, Lit) and piece.quoted and piece.text == "$" for piece in pieces)
    for index, piece in enumerate(pieces):
        if isinstance(piece, Lit):
            if index == 0 and not piece.quoted and "~" in piece.text:
                like = _ARGUMENT_TILDE.match(piece.text)
                if like and reader.posix:
                    reader.problem(Unsure("`sh` does not expand this tilde", piece.text, "shell:dialect"))
                if braced and like:
                    current.add(None, True)
                else:
                    _add_tilde(piece.text, len(pieces) == 1, current, reader.state)
            elif (
                index
                and not piece.quoted
                and "~" in piece.text
                and (_value_goes_on(pieces[0], piece.text) or not any(text for text, _ in current.parts))
            ):  # zsh expands a tilde after an empty value
                current.add(None, True)
            else:
                current.add(piece.text, piece.quoted)
        elif isinstance(piece, Proc):
            reader.process(piece.body, piece.write)
            current.add("/dev/fd/", True)
            current.add(None, True)
        elif isinstance(piece, Param) and _all_of(piece):
            if piece.subscript is not None:
                other_shell(reader, f"${{{piece.name}[…]}}")
            uses(reader, piece.name)
            current = _list(piece, out, current, reader)
        else:
            value, whole = evaluate(piece, reader)
            if piece.quoted or whole:
                for part in (*value, ""):
                    current.add(part, True)
            else:
                _splits_here(piece, value, reader)
                current = _split(value, out, current, not odd and reader.state.splits_at_blanks)
    if current.present:
        out.append(current)
    return out


def _no_arguments(quote: Piece, piece: Piece) -> bool:
    """Return whether this is `"$@"` alone: without positional parameters it is not a word at all."""
    quoted = isinstance(quote, Lit) and quote.quoted and not quote.text
    alone = isinstance(piece, Param) and piece.quoted and piece.name == "@" and _all_of(piece) == "@"
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
        for part in value_tildes(text, True, whole, state):
            field.add(part, True)
        return
    if not text.startswith("~") or (not whole and "/" not in text):
        odd = text.startswith("~") or _ODD_TILDE.match(text)  # zsh goes on with the name behind a quote
        field.add(None if odd else text, False)
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


def _all_of(piece: Param) -> str:
    """Return the sign of `$@`, `$*`, `${name[@]}` and `${name[*]}`; "" for another parameter."""
    if piece.prefix or piece.op:
        return ""
    inner = piece.subscript or (Lit(piece.name, False),)
    text = inner[0].text if len(inner) == 1 and isinstance(inner[0], Lit) else ""
    return text if text in ("@", "*") else ""


def _list(piece: Param, out: list[_WordField], current: _WordField, reader: ScriptWalk) -> _WordField:
    """Add `"$@"`, `"${a[@]}"` and the unquoted forms; return the field that is open afterwards."""
    star, state = _all_of(piece) == "*", reader.state
    items = state.arguments if piece.name in ("@", "*") else None
    if items is None or star:
        current.add(None, True)
        current.many = current.many or not (star and piece.quoted)
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
            _splits_here(piece, item, reader)
            current = _split(item, out, current, state.splits_at_blanks)
    return current


def _splits_here(piece: Piece, value: Value, reader: ScriptWalk) -> None:
    """Note an unquoted variable whose text bash takes for several words or for a pattern: zsh does not."""
    if isinstance(piece, Param) and any(part and not _SPLITTING.isdisjoint(part) for part in value):
        other_shell(reader, f"${piece.name}")


def _split(value: Value, out: list[_WordField], current: _WordField, at_blanks: bool) -> _WordField:
    """Add an unquoted value, split into words; return the field that is open afterwards."""
    for part in value:
        if part is None or not at_blanks or "\\" in part:
            current.add(None, False)
            current.many = True
            continue
        for index, text in enumerate(_BLANKS.split(part)):
            if index and current.present:
                out.append(current)
                current = _WordField()
            current.add(text, False)
    return current
