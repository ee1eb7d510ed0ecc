"""Expand `{a,b}` and `{1..5}` into words, as bash 5.2 does (braces.c)."""

from __future__ import annotations

import re
from itertools import pairwise

from ...core.text import lazy_regex
from .tree import Lit, Param, Piece, Unsure

MAX_WORDS = 2000  # the largest number of words that braces may make
MAX_BRACES = 500  # in one word; for each, its partner is looked for
_SEQUENCE = lazy_regex(r"(-?[0-9]{1,9})\.\.(-?[0-9]{1,9})")


def braces(pieces: tuple[Piece, ...]) -> list[tuple[Piece, ...]]:
    """Return the words of a brace expansion; only `pieces` if there is none. Raises `Unsure` if there are too many."""
    if not any(isinstance(piece, Lit) and not piece.quoted and "{" in piece.text for piece in pieces):
        return [pieces]
    atoms: list[str | Piece] = []
    for piece in pieces:
        if isinstance(piece, Lit) and not piece.quoted:
            atoms.extend(piece.text)
        else:
            atoms.append(piece)
    if atoms.count("{") > MAX_BRACES:
        raise Unsure("it has too many braces", rule="shell:size")
    expanded = _braces(atoms, 0)
    if expanded[0] is not atoms:
        for word in expanded:
            _check_names(word)
    return [_join(word) for word in expanded]


def _check_names(word: list[str | Piece]) -> None:
    """Raise `Unsure` if braces put letters after a `$name` or a single dollar sign: bash expands the resulting text."""
    for piece, after in pairwise([*word, ""]):
        lone = isinstance(piece, Lit) and piece.quoted and piece.text == "$"
        letter = isinstance(after, str) and (after == "_" or after.isalnum())
        if lone or (letter and isinstance(piece, Param) and piece.bare):
            raise Unsure("braces make the name of a variable")


def _braces(atoms: list[str | Piece], depth: int) -> list[list[str | Piece]]:
    """Expand braces in a list of characters and opaque pieces, the leftmost brace first."""
    if depth > 40:
        raise Unsure("braces are nested too deeply", rule="shell:nesting")
    for at, atom in enumerate(atoms):
        if atom != "{":
            continue
        found = _alternatives(atoms, at)
        if found is None:
            continue
        alternatives, end = found
        tails = _braces(atoms[end + 1 :], depth + 1)
        heads = [word for alternative in alternatives for word in alternative]
        if len(heads) * len(tails) > MAX_WORDS:
            raise Unsure("braces make too many words", rule="shell:size")
        return [atoms[:at] + head + tail for head in heads for tail in tails]
    return [atoms]


def _alternatives(atoms: list[str | Piece], at: int) -> tuple[list[list[list[str | Piece]]], int] | None:
    """Return the expanded text between the brace at `at` and its partner, and the partner's index.

    Returns None if nothing is expanded. Raises `Unsure` if bash's result is not certain.
    """
    level, commas = 0, list[int]()
    for index in range(at, len(atoms)):
        atom = atoms[index]
        if atom == "{":
            level += 1
        elif atom == "," and level == 1:
            commas.append(index)
        elif atom == "}":
            level -= 1
            if level == 0:
                if commas:
                    bounds = [at, *commas, index]
                    inner = [atoms[a + 1 : b] for a, b in pairwise(bounds)]
                    return [_braces(word, 1) for word in inner], index
                text = "".join(atom if isinstance(atom, str) else "{" for atom in atoms[at + 1 : index])
                return ([_sequence(text)], index) if ".." in text else None
    return None


def _sequence(text: str) -> list[list[str | Piece]]:
    """Return the words of `{1..5}`. Raises `Unsure` if there are too many, and for a range with steps or between other
    signs."""
    match = _SEQUENCE.fullmatch(text)
    if match is None:
        raise Unsure("braces hold a range that is not read", text, "shell:rare")
    low, high = match.groups()
    start, end = int(low), int(high)
    if abs(end - start) > MAX_WORDS:
        raise Unsure("braces make too many words", rule="shell:size")
    numbers = range(start, end + 1) if start <= end else range(start, end - 1, -1)
    padded = any(re.match(r"-?0[0-9]", text) for text in (low, high))
    width = max(len(low), len(high)) if padded else 0
    return [list(f"{number:0{width}d}") for number in numbers]


def _join(atoms: list[str | Piece]) -> tuple[Piece, ...]:
    """Turn atoms into pieces again; runs of characters are joined."""
    pieces: list[Piece] = []
    for atom in atoms:
        last = pieces[-1] if pieces else None
        if not isinstance(atom, str):
            pieces.append(atom)
        elif isinstance(last, Lit) and not last.quoted:
            last.text += atom
        else:
            pieces.append(Lit(atom, False))
    return tuple(pieces)
