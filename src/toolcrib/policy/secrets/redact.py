"""Remove secrets from texts: `redact(text)` returns the same object if there are none.

RE2 looks in one pass for what a text must have for each pattern; only the patterns whose part is there are tried. RE2
releases the interpreter's lock for each search, which costs more than searching a short text. So a short text is first
tested for any part with pydantic's regular expressions, which keep the lock.
"""

from __future__ import annotations

import functools
import importlib
import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, quote_plus

from ...core.errors import ConfigError
from ...core.text import lazy_regex, one_line
from .dumps import DUMPS, in_dump
from .patterns import CONTEXTS, TOKENS, Span, is_key_body, mask, private_keys

if TYPE_CHECKING:
    from ..regexes import UserPattern

MIN_SECRET = 8
"""Minimum length of a granted value: a shorter one occurs in many texts by chance."""
_LONG_LINE, _LONG_WORD = 20, 12
_MIN_TEXT = 8  # shorter texts are not checked: `a://b:c@d`
_SHORT = 1_000  # characters; for longer texts RE2 alone is faster
_ROUNDS = 4
# A character as its number: in a URL, in the texts of programming languages (also in a text in a text), in HTML.
_ESCAPED = lazy_regex(
    r"%[0-9A-Fa-f]{2}|\\{1,8}+(?:x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|u\{[0-9A-Fa-f]{1,6}\}|U[0-9A-Fa-f]{8}|[0-3][0-7]{2})"
    r"|&#(?:[xX][0-9A-Fa-f]{1,6}|[0-9]{1,7});"
)
# What a terminal does not show: colours (`grep --color` puts them into a match) and characters without a width.
_UNSEEN_WIDE = "\u00ad\u034f\u061c\u180e\u200b\u200c\u200d\u200e\u200f\u2060\u2061\u2062\u2063\u2064\ufe0e\ufe0f\ufeff"
_UNSEEN = lazy_regex(rf"\x1b\[[0-9;?:]*[@-~]|[\0\x08{_UNSEEN_WIDE}]|\r(?!\n)")
# What ends a word of a shell, or begins a command in it.
_SIGN = lazy_regex(r"[\s\0-\x20;&|<>(){}`'\"\\\x7f-\x9f]")
# The words of a file of credentials (JSON, YAML, netrc), but not the names of its entries.
_WORDS = lazy_regex(r"""[^\s"'`,;<>()\[\]{}=]++(?:={1,2}(?![^\s"'`,;]))?+(?!["']?\s*[:=])""")
_BREAK = lazy_regex(r"\r?\n[ \t]{0,8}")
# What `read_file`, grep, `cat -n` and diff print before each line: `12| `, `a.py:12:`, `a.py-12-`, `  12<tab>`, `+`.
_BEFORE_LINE = r"(?:[ \t]{0,8}+\d{1,9}+(?:[:\-\t]|\| ?)|[^\n]{1,255}?[:\-]\d{1,9}+[:\-]|[-+<>|#] ?)"
_BREAK_AND_MARGIN = lazy_regex(rf"\r?\n{_BEFORE_LINE}?+[ \t]{{0,8}}")
_MARGIN = lazy_regex(rf"^(?:{_BEFORE_LINE}| )", re.MULTILINE)
_LINE_BEFORE = 24  # characters before a bare `***` that identify it

_FINDERS: tuple[tuple[str, Callable[[str], list[Span]]], ...] = (
    *((pattern.looks, pattern.spans) for pattern in (*TOKENS, *CONTEXTS)),
    ("IVATE KEY", private_keys),
)
"""Functions that find one kind of secret, each with an expression that every text with one matches."""
_ESCAPES = len(_FINDERS) + len(DUMPS)
_SIGNS = _ESCAPES + 1
_LOOKS = (
    *(looks for looks, _ in _FINDERS),
    *(kind.looks for kind in DUMPS),
    r"%[0-9A-Fa-f]{2}|\\(?:x[0-9A-Fa-f]{2}|u[0-9A-Fa-f{]|U[0-9A-Fa-f]{8}|[0-3][0-7]{2})|&#(?:[xX][0-9A-Fa-f]|[0-9])",
    r"\x1b\[|[\x00\x08]|\r(?:[^\n]|$)",
)
"""For each finder and each kind of dump, then for `_ESCAPED` and `_UNSEEN`: an expression that a text matches in which
something may be found. RE2 and Rust's engine read them alike."""


class Redactor:
    """Recognizes the secrets of one toolbox: known formats, and the granted values.

    `patterns` are further regular expressions (if one has a group `s`, only the group is the secret); `allow` are texts
    that only look like secrets. Values can be granted at any time and from any thread.
    """

    def __init__(self, *, patterns: Iterable[str] = (), allow: Iterable[str] = ()) -> None:
        self.allow = frozenset(allow)
        self.own = tuple(_own(number, expression) for number, expression in enumerate(patterns))
        self.values: tuple[Value, ...] = ()

    def use(self, other: Redactor) -> None:
        """Use the patterns and exceptions of another one from now on. Values that were granted stay hidden."""
        self.allow, self.own = other.allow, other.own

    def grant(self, name: str, value: str) -> None:
        """Hide this value in all texts from now on. Raises ConfigError for a value that is too short to be
        recognized."""
        if len(value) < MIN_SECRET:
            raise ConfigError(
                f"secrets.{name}: the value has {len(value)} characters; a secret needs at least {MIN_SECRET}, because "
                "it is removed from every text, and shorter values are in many texts by chance"
            )
        if not any(known.value == value for known in self.values):
            self.values = (*self.values, Value(name, value))

    def redact(self, text: str) -> str:
        """Return the text without secrets; the same object if there are none. Never raises."""
        if len(text) < _MIN_TEXT:
            return text
        for _ in range(_ROUNDS):  # repeat, in case a mask and the text next to it look like a secret
            found = self.spans(text)
            if not found:
                break
            text = replaced(text, found)
        return text

    def hides_more(self, text: str, paths: bool = False) -> bool:
        """Return whether a mask would hide more than a secret: signs that a shell, a script or a URL obeys; with
        `paths` also a `/`.

        A model may put what it does where a secret is expected: `http://me:;rm${IFS}-rf${IFS}src;@host/`,
        `rm -r 'Authorization: Bearer link/../src'`. Files of the person have keys with a `/`, so `paths` is for
        what a model wrote.
        """
        for _ in range(_ROUNDS):
            found = self.spans(text)
            if any(_obeyed(text, span, paths) for span in found):
                return True
            if not found:
                break
            text = replaced(text, found)
        return False

    def clears(self, data: bytes) -> bool:
        """Return whether bytes certainly hold no secret. It is for long ones, and costs less than `spans`."""
        return data.isascii() and not (self.values or self.own or _set().Match(data))

    def spans(self, text: str, *, dumps: bool = True) -> list[Span]:
        """Return the secrets in a text, in order, without nested ones. Without `dumps` numbers are not decoded: that is
        slow, and text that is only stored is searched again when it is read."""
        seen = _seen(text)
        found = self._plain_spans(text, seen, dumps=dumps)
        if _ESCAPES in seen:
            found += self._spans_behind(text, _ESCAPED, _unescaped)
        if _SIGNS in seen or (not text.isascii() and any(sign in text for sign in _UNSEEN_WIDE)):
            found += self._spans_behind(text, _UNSEEN, lambda _: "")
        if dumps and any(len(_FINDERS) <= number < _ESCAPES for number in seen):
            found += self._spans_behind(text, _MARGIN, lambda _: "", dumps=True)
        return _merged(found) if len(found) > 1 else found

    def _spans_behind(
        self, text: str, pattern: re.Pattern[str], plain: Callable[[str], str], *, dumps: bool = False
    ) -> list[Span]:
        """Return the secrets in which something that matches the pattern stands, and hides them.

        A hostile text has millions of matches, so nothing is kept of them: they are gone through again for the places
        of secrets.
        """
        whole = pattern.sub(lambda escape: plain(escape[0]), text)
        hidden = self._plain_spans(whole, _seen(whole), dumps=dumps)
        if not hidden:
            return []
        places = _places(sorted({at for span in hidden for at in (span.start, span.end)}), text, pattern, plain)
        found = (Span(places[span.start], places[span.end], span.mask) for span in hidden)
        of_both = zip(found, hidden, strict=True)
        return [span for span, bare in of_both if dumps or span.end - span.start > bare.end - bare.start]

    def _plain_spans(self, text: str, seen: Sequence[int], *, dumps: bool = True) -> list[Span]:
        if not (seen or self.values or self.own):
            return []
        found = self._values_in(text)
        if self.values and "\n" in text:
            found += [span for gap in (_BREAK, _BREAK_AND_MARGIN) for span in self._broken(text, gap)]
        granted = len(found)
        for number in seen:
            if number < len(_FINDERS):
                found += _FINDERS[number][1](text)
            elif number < _ESCAPES and dumps:
                kind = DUMPS[number - len(_FINDERS)]
                found += in_dump(kind, text, lambda decoded: self._plain_spans(decoded, _seen(decoded), dumps=False))
        for pattern in self.own:
            found += _own_spans(pattern, text)
        if self.allow:
            others = (span for span in found[granted:] if text[span.start : span.end] not in self.allow)
            found = [*found[:granted], *others]
        return found

    def _values_in(self, text: str) -> list[Span]:
        return [span for value in self.values for span in value.spans(text)]

    def _broken(self, text: str, gap: re.Pattern[str]) -> list[Span]:
        """Return the granted values in a text in which something that matches `gap` stands."""
        found = self._values_in(gap.sub("", text))
        if not found:
            return []
        places = _places(sorted({at for span in found for at in (span.start, span.end - 1)}), text, gap, lambda _: "")
        whole = [Span(places[span.start], places[span.end - 1] + 1, span.mask) for span in found]
        return [span for span, bare in zip(whole, found, strict=True) if span.end - span.start > bare.end - bare.start]

    def lost_by(self, current: str, new: str) -> str | None:
        """Return why writing `new` over `current` would destroy a secret: its mask is in `new`. None if it would not.

        A model that was only shown the mask may write it. A mask that is in `current` itself is ordinary text.
        """
        if not may_be_masked(new):
            return None
        for span in self.spans(current):
            shown = span.mask
            if not shown.strip("\\n* "):  # `***` alone could be anything: compare the beginning of its line too
                line = current[: span.start].rpartition("\n")[2][-_LINE_BEFORE:]
                shown = f"{line}{shown}".strip()
            if shown in new and shown not in current:
                return (
                    f"{one_line(shown)!r} is in the text, but the file has a secret in its place: that is how "
                    "secrets are shown, and writing it would destroy this one. Leave its line alone; change the other "
                    "lines with edit_file"
                )
        return None


@functools.lru_cache(4096)
def _unescaped(escape: str) -> str:
    """Return the character that an escape means; "" for one that is not seen (every second one of UTF-16)."""
    if escape[0] == "&":
        number = int(escape[3:-1], 16) if escape[2] in "xX" else int(escape[2:-1])
    else:
        digits = escape.lstrip("\\%").lstrip("xuU{").rstrip("}")
        number = int(digits, 8 if escape[0] == "\\" and escape.lstrip("\\")[0].isdigit() else 16)
    meant = chr(min(number, 0x10FFFF))
    return "" if _UNSEEN.fullmatch(meant) else meant


def _places(wanted: Sequence[int], text: str, pattern: re.Pattern[str], plain: Callable[[str], str]) -> dict[int, int]:
    """Return the positions in a text of positions in its decoded form, which are given in their order."""
    places: dict[int, int] = {}
    begin = decoded = 0  # where the stretch before the next escape begins in the text, and in the decoded one
    escapes = pattern.finditer(text)
    escape = next(escapes, None)
    for at in wanted:
        while escape is not None and (there := decoded + escape.start() - begin) <= at:
            if at < there + len(plain(escape[0])):  # within it: it counts as one character
                break
            decoded, begin = there + len(plain(escape[0])), escape.end()
            escape = next(escapes, None)
        places[at] = begin + at - decoded
    return places


def may_be_masked(text: str) -> bool:
    """Return whether a text may hold a mask. This quick check comes before a file is read and searched."""
    return "***" in text or "[secret:" in text


def replaced(text: str, spans: Iterable[Span]) -> str:
    """Return the text with masks in place of the secrets."""
    parts: list[str] = []
    position = 0
    for start, end, shown in spans:
        parts += text[position:start], shown
        position = end
    return "".join([*parts, text[position:]])


def _seen(text: str) -> Sequence[int]:
    """Return the numbers of those `_looks` that a text has."""
    if len(text) < _SHORT and text.isascii() and not _has_any()(text):
        return ()
    return _set().Match(text.encode("ascii", "replace")) or ()


@functools.cache
def _set() -> Any:
    """Return an RE2 set. Its `Match` takes bytes and returns numbers."""
    looks = importlib.import_module("re2").Set.SearchSet()
    for look in _LOOKS:
        looks.Add(look)
    looks.Compile()
    return looks


@functools.cache
def _has_any() -> Callable[[str], bool]:
    """Return a function that returns whether a text in ASCII has any of them. (For text that is not valid Unicode it
    returns False.)"""
    from pydantic_core import SchemaValidator

    # Without Unicode, where a negated class has thousands of states, it takes a quarter of the time to compile.
    ascii_only = "(?-u)" + "|".join(_LOOKS).replace(r"[^\n]", r"[\x00-\x09\x0b-\x7f]")
    return SchemaValidator({"type": "str", "pattern": ascii_only, "strict": True}).isinstance_python


def _merged(spans: list[Span]) -> list[Span]:
    """Return the spans in order. Overlapping spans become one, with the mask of the first; granted values come before
    patterns."""
    merged: list[Span] = []
    for span in sorted(spans, key=lambda each: (each.start, -each.end)):
        if merged and span.start < merged[-1].end:
            last = merged[-1]
            merged[-1] = Span(last.start, max(last.end, span.end), last.mask)
        else:
            merged.append(span)
    return merged


def _obeyed(text: str, span: Span, paths: bool) -> bool:
    """Return whether something could obey what a mask hides, or with `paths` find a file by it. A granted value is
    the person's own."""
    hidden = text[span.start : span.end]
    if span.mask.startswith(("\n", "\\n")):
        return not is_key_body(hidden)
    if paths and "/" in hidden and not span.mask.startswith("[secret:"):
        return True
    if text.startswith("@", span.end) and any(sign in hidden for sign in "?#@"):
        return True  # the address has, for some programs, another host than the one that is shown
    return _SIGN.search(hidden) is not None


def _own(number: int, expression: str) -> UserPattern:
    from ..regexes import compile_pattern

    try:
        found = compile_pattern(expression, ascii_only=True)
    except ValueError as error:
        raise ConfigError(f"redact.patterns[{number}]: {error}") from None
    if found.search(""):
        raise ConfigError(f"redact.patterns[{number}]: it matches where nothing is, and would mask everything")
    return found


def _own_spans(pattern: UserPattern, text: str) -> list[Span]:
    return [Span(start, end, mask(text[start:end])) for start, end in pattern.spans(text, "s") if start < end]


# --- granted values


class Value:
    """One granted value, with the name it was granted under."""

    def __init__(self, name: str, value: str) -> None:
        self.name, self.value = name, value
        self.mask = f"[secret:{name}]"
        self.forms = tuple(sorted(forms(value), key=len, reverse=True))

    def spans(self, text: str) -> list[Span]:
        """Return the positions of any form of it."""
        found: list[Span] = []
        for form in self.forms:
            at = text.find(form)
            while at >= 0:
                found.append(Span(at, at + len(form), self.mask))
                at = text.find(form, at + len(form))
        if "\\" in text and len(self._bare) >= MIN_SECRET and self._bare in text.replace("\\", ""):
            found += [Span(*match.span(), self.mask) for match in self._quoted.finditer(text)]
        return found

    @functools.cached_property
    def _bare(self) -> str:
        return self.value.replace("\\", "")

    @functools.cached_property
    def _quoted(self) -> re.Pattern[str]:
        """It with backslashes before signs: for a shell, in Markdown, in a regular expression."""
        return re.compile(r"\\{0,8}".join(map(re.escape, self._bare)))


def forms(value: str) -> set[str]:
    """Return the forms in which a value may be written. For a value with several lines, also its long lines and words:
    it is seldom shown as a whole, because numbers or signs come before its lines."""
    import html

    raw = value.encode("utf-8", "surrogateescape")
    found = {
        value, quote(value), quote(value, safe=""), quote_plus(value), html.escape(value),
        html.escape(value, quote=False),
        raw.decode("latin-1"),  # as the bytes of `%C3%A9` and of a dump are read
        repr(value)[1:-1], raw.hex(), raw.hex().upper(), value.replace("'", "'\"'\"'"), value.replace("'", "'\\''"),
    }  # fmt: skip
    found |= {re.sub(r"%[0-9A-F]{2}", lambda m: m[0].lower(), each) for each in (quote(value), quote(value, safe=""))}
    for ascii_only in (True, False):
        once = json.dumps(value, ensure_ascii=ascii_only)[1:-1]
        found |= {once, once.replace("/", "\\/"), json.dumps(once, ensure_ascii=ascii_only)[1:-1]}
    found |= _base64(raw)
    lines = [line.strip() for line in value.splitlines()]
    if len(lines) > 1:
        for line in lines:
            if len(line) >= _LONG_LINE and " " not in line:
                found |= {line, *_base64(line.encode("utf-8", "surrogateescape"))}
        words = _WORDS.findall(value.replace("\\n", "\n"))  # a key in JSON
        found |= {word for word in words if len(word) >= _LONG_WORD and _is_mixed(word)}
    return {form for form in found if len(form) >= MIN_SECRET}


def _is_mixed(word: str) -> bool:
    """Return whether a word is no ordinary one: it has two of digits, small letters and capitals. Addresses do not
    count, nor the names of entries."""
    kinds = [any(map(kind, word)) for kind in (str.isdigit, str.islower, str.isupper)]
    return sum(kinds) > 1 and "://" not in word and not word.endswith(":")


def _base64(raw: bytes) -> set[str]:
    """Return the part of the base64 text that does not depend on the bytes before and after, for each of three
    offsets."""
    found: set[str] = set()
    for offset in range(3):
        encoded = b64encode(bytes(offset) + raw).decode()
        core = encoded[-(-8 * offset // 6) : 8 * (offset + len(raw)) // 6]
        found |= {core, core.replace("+", "-").replace("/", "_")}
    return found
