"""Find secrets in the texts of programs that print bytes as numbers: xxd, hexdump, od, and lists of numbers.

Each kind of such a text is recognized by an expression that RE2 looks for together with those of keys. Then its numbers
are decoded, one run after the other: addresses, and the columns that show the bytes as characters, are left out. What
holds a secret is masked, with the column beside it.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ...core.text import lazy_regex
from .patterns import Span


class Dump(NamedTuple):
    """One kind of dump. `looks` is in every text with printable bytes in this form, for RE2; `run` finds the numbers,
    in the group `run` or `xxd`, and what is skipped between them."""

    looks: str
    run: str
    decode: Callable[[str], str]


_PAIR, _NUMBER = "[2-7][0-9A-Fa-f]", "[0-9a-fA-F]"
# An address, or the characters beside the numbers.
_SKIPPED = (
    rf"^(?:{_NUMBER}{{5,7}}(?=[ \t])|{_NUMBER}{{8,16}}(?=[ ]{{2}}))|(?<=[ ])(?:\|[^\n]{{1,16}}\||>[^\n]{{1,64}}<)$"
)
# What may be between two numbers: in a row, and also from the end of a line to the next one.
_LINE = rf"(?:[|>][^\n]{{0,64}})?\r?\n(?:{_NUMBER}{{5,16}})?[ \t]*"
_NEXT = rf"(?:[ :,'\"\t]{{1,4}}|[ :,'\"\t]{{0,4}}{_LINE})"
_NEXT_DECIMAL = rf"(?:[ ,]+|[ ,]*{_LINE})"
_XXD = rf"^{_NUMBER}{{5,16}}:[ ](?P<xxd>[0-9a-fA-F ]{{2,512}}?)(?:[ ]{{2}}[^\n]*|$)"
_HEX = (
    rf"(?<![0-9A-Za-z])(?P<run>(?:(?:0x{_NUMBER}(?!{_NUMBER})|(?:0x|\\x)?(?:{_NUMBER}{{2}})++)(?![0-9A-Za-z])"
    r"[ ,:'\"\t]{0,8})++)"
)
_OCTAL_NUMBER = r"(?:[0-3][0-7]{2}|[01][0-7]{5})(?![0-9])"
_OCTAL = rf"(?<![0-9])(?P<run>(?:{_OCTAL_NUMBER}[ \t]{{0,4}})++)"
_DECIMAL = r"(?<![0-9])(?P<run>(?:[0-9]{1,3}(?![0-9])[ ,\t]{0,4})++)"
_DECIMAL_PAIR = r"(?<![0-9])(?P<run>(?:[0-9]{1,5}(?![0-9])[ \t]{0,8})++)"
_CELLS = r"^(?:[0-9a-f]{6,16})?(?P<run>(?:[ ]{3}[!-~]|[ ]{2}[!-~]{2}|[ ][!-~]{3}|[ ]{4})++)[ ]*$"
_BESIDE = lazy_regex(r" {0,64}[|>][^\n]*")


def in_dump(kind: Dump, text: str, find: Callable[[str], list[Span]]) -> list[Span]:
    """Return the secrets in the numbers of a text; `find` returns those in a plain text.

    A text may have millions of runs, so nothing is kept of them: they are gone through again for the places of secrets.
    """
    decoded = "".join(kind.decode(run) for _, run in _runs(kind, text))
    spans = find(decoded) if decoded else []
    wanted = sorted({at for span in spans for at in (span.start, span.end - 1)}, reverse=True)
    places: dict[int, tuple[int, int]] = {}
    end = 0  # of a run in the decoded text
    for place, run in _runs(kind, text) if spans else ():
        end += len(kind.decode(run))
        while wanted and wanted[-1] < end:
            places[wanted.pop()] = place
        if not wanted:
            break
    found: list[Span] = []
    for span in spans:
        first, last = places[span.start], places[span.end - 1]
        beside = _BESIDE.match(text, last[1])
        found.append(Span(first[0], last[1] if beside is None else beside.end(), span.mask))
    return found


def _runs(kind: Dump, text: str) -> Iterator[tuple[tuple[int, int], str]]:
    """Yield the place of each run of numbers, and the run."""
    for match in re.compile(kind.run, re.MULTILINE).finditer(text):
        if run := match["run"] or (match["xxd"] if "xxd" in match.re.groupindex else None):
            yield match.span(), run


_REST = str.maketrans("", "", " ,:'\"\txX\\")


def _bytes(run: str) -> bytes:
    if "0x" in run:
        run = re.sub(r"0x(?=[0-9a-fA-F](?![0-9a-fA-F]))", "0", run).replace("0x", "")
    digits = run.translate(_REST)
    return bytes.fromhex(digits[: len(digits) // 2 * 2])  # the line may be cut within a number


def _big(run: str) -> str:
    return _bytes(run).decode("latin-1")


def _little(run: str) -> str:
    """Decode numbers of several bytes, of which the last byte comes first; "" for others."""
    first = re.search("[0-9a-fA-F]{2,}", run)
    kind = {4: "H", 8: "I", 16: "Q"}.get(len(first[0]) if first else 0)
    if kind is None:
        return ""
    data = _bytes(run)
    words = array(kind, data + bytes(-len(data) % array(kind).itemsize))
    words.byteswap()
    return words.tobytes().decode("latin-1")


def _octal(run: str) -> str:
    data = bytearray()
    for word in re.finditer(_OCTAL_NUMBER, run):  # CPython 3.11.2 puts the beginning of a further number into a run
        data += int(word[0], 8).to_bytes(len(word[0]) // 3, "little")
    return data.decode("latin-1")


def _decimal(run: str) -> str:
    if (one := run.strip(" ,\t")).isdecimal():  # a number on each line: there may be very many
        return chr(min(int(one), 255))
    return "".join(chr(min(int(number[0]), 255)) for number in re.finditer("[0-9]+", run))


def _decimal_pair(run: str) -> str:
    numbers = (min(int(number[0]), 65_535) for number in re.finditer("[0-9]+", run))
    return b"".join(number.to_bytes(2, "little") for number in numbers).decode("latin-1")


def _cells(run: str) -> str:
    cells = (run[at : at + 4].strip(" ") for at in range(0, len(run), 4))
    return "".join(cell if len(cell) == 1 else " " for cell in cells)


DUMPS = (
    Dump(
        rf"(?:{_PAIR}{_NEXT}(?:0x)?){{7}}|(?:(?:{_PAIR}){{2}} {{1,4}}){{4}}|(?:(?:{_PAIR}){{4}} ){{2}}"
        rf"|(?:{_PAIR}){{16}}",
        f"{_XXD}|{_SKIPPED}|{_HEX}", _big,
    ),
    Dump(
        rf"(?:(?:{_PAIR}){{2}} {{1,4}}){{4}}|(?:(?:{_PAIR}){{4}} ){{2}}|(?:{_PAIR}){{8}} +(?:{_PAIR}){{2}}",
        f"{_XXD}|{_SKIPPED}|{_HEX}", _little,
    ),
    Dump(r"(?:(?:1[0-7]|0[4-7])[0-7] +){7}|(?: +[01][0-7]{5}){4}", f"{_SKIPPED}|{_OCTAL}", _octal),
    Dump(
        rf"(?:(?:0?[3-9][0-9]|1[01][0-9]|12[0-6]){_NEXT_DECIMAL}){{8}}", f"{_SKIPPED}|{_DECIMAL}", _decimal
    ),
    Dump(r"(?: +(?:0?[89][0-9]{3}|[12][0-9]{4}|3[0-2][0-9]{3})){4}", f"{_SKIPPED}|{_DECIMAL_PAIR}", _decimal_pair),
    Dump(r"(?:   [!-~]){7}", _CELLS, _cells),
)  # fmt: skip
