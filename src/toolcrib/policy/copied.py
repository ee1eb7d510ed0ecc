"""Find what a value has in common with texts that were read: the whole value, addresses and keys, runs of words."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, cast
from urllib.parse import unquote

from ..core.dataclass import dataclass
from ..core.json_values import as_object
from ..core.output import WIRE_META, ResourceBlock, TextBlock, ToolOutput
from ..core.text import lazy_regex

WORDS = 6
"""Words in a row that must also occur in an untrusted result to count as copied from it. They are looked up at every
third word, so that eight copied words are always found."""
MAX_RUNS = 100
"""Runs of words that are looked up in one call: about 20 ms in the largest session. A text with more runs asks."""

_TOKEN = lazy_regex(r"[^\s\"'`<>()\[\]{},;|]+")
_TRIM = ".:!?"
_WORD = lazy_regex(r"\w+")
_ADDRESS = lazy_regex(
    r".@.|://|[\w-]\.[a-z]{2,}|^~?/.{3,}|/.*/"
    r"|^\d{1,3}(?:\.\d{1,3}){3}$|^[0-9a-f:]*::[0-9a-f:.]*$|^[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){7}$"
)
LONG_TOKEN = 20
"""A word of this length is a key or a digest."""
DESTINATIONS = frozenset(
    {"address", "bcc", "cc", "channel", "chat", "dest", "destination", "domain", "email", "endpoint", "host",
     "hostname", "owner", "path", "paths", "phone", "project", "recipient", "recipients", "repo", "repository",
     "server", "target", "to", "uri", "url", "user", "username", "webhook"}
)  # fmt: skip
_ID = lazy_regex(r"(?:^|_)ids?$")


def is_destination(parameter: str) -> bool:
    """Return whether a parameter is a destination or an id: also its short or common values are looked for."""
    return parameter in DESTINATIONS or _ID.search(parameter) is not None


@dataclass(frozen=True)
class ReadText:
    """A result: its name in a question, and its folded text; what its call asked for, and how many trusted results were
    read before it. The rest is made when a value is first looked for: most results are never compared."""

    shown: str
    text: str
    asked: str = ""
    before: int = 0

    @cached_property
    def tokens(self) -> frozenset[str]:
        """Its words, addresses and paths."""
        return _tokens(self.text)

    @cached_property
    def plain(self) -> str:
        """Its words without punctuation, with a blank before and after each."""
        return f" {' '.join(_WORD.findall(self.text))} "

    @cached_property
    def words(self) -> frozenset[str]:
        return frozenset(self.plain.split())


def found(value: str, sources: list[ReadText], destination: bool, narrow: bool) -> Iterator[tuple[ReadText, str]]:
    """Yield the value, each distinctive token of it and each run of its words that is in a source, with the first such
    source. `narrow`: without runs of words, and without numbers inside a longer text."""
    text = folded(value)
    if not text:
        return
    telling = _is_address if narrow else _is_telling
    parts = [text] if _says_something(text) or (destination and len(text) > 2) else []
    tokens = {each for token in _tokens(text) for each in (token, *_above(token))}
    parts += [token for token in sorted(tokens) if telling(token) and token != text]
    for part in parts:
        for source in sources:
            if part in source.tokens or (part is text and occurs(text, source.text)):
                yield source, part
                break
    left = 0 if narrow else MAX_RUNS
    for words in _runs(text) if left else ():
        run = " ".join(words)
        for source in sources:
            if source.words.issuperset(words):
                left -= 1
                if f" {run} " in source.plain or left == 0:
                    yield source, run
                    break
        if left <= 0:
            return


def occurs(text: str, whole: str) -> bool:
    """Return whether the text occurs there as a whole word, not as a part of a longer word."""
    start = whole.find(text)
    while start >= 0:
        before = whole[start - 1 : start]
        after = whole[start + len(text) : start + len(text) + 1]
        if not ((before.isalnum() and text[0].isalnum()) or (after.isalnum() and text[-1].isalnum())):
            return True
        start = whole.find(text, start + 1)
    return False


def _says_something(text: str) -> bool:
    """Return whether a whole value is more than a common word or a small number."""
    return _is_telling(text) or (len(text) >= 12 and not text.replace(".", "").isdigit())


def _is_telling(token: str) -> bool:
    """Return whether a word alone is distinctive: an address, a path, an id, a key."""
    return _is_address(token) or (len(token) >= 5 and sum(map(str.isdigit, token)) >= 4)


def _is_address(token: str) -> bool:
    """Return whether a word alone is an address, a path or a key."""
    return len(token) >= 5 and (len(token) >= LONG_TOKEN or _ADDRESS.search(token) is not None)


_UNSEEN = lazy_regex("[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff]")


def folded(text: str) -> str:
    """Return the text in the form for comparison: lower case, single blanks, plain letters for wide ones, no invisible
    signs."""
    if not text.isascii():  # a model that reads `evil.ex<soft hyphen>ample` writes it without the hyphen
        text = unicodedata.normalize("NFKC", _UNSEEN.sub("", text)).replace("。", ".")  # a dot in the name of a host
    return " ".join(text.casefold().split())


_SCHEME = lazy_regex(r"[a-z][a-z0-9+-]*:(?!\d)")
_HOST = lazy_regex(r"/*(?:[^/?#@\\]*@)?([\w-]+(?:\.[\w-]+)+)\.?(?=[/?#\\:]|\Z)")
_SUBDOMAIN = lazy_regex(r"[\w-]+(?:\.[\w-]+)+\.[a-z]{2,}")
_PARTS = lazy_regex(r"[=&?#]")


def _tokens(text: str) -> frozenset[str]:
    """Return words, addresses and paths; for a URL or e-mail address the host too; and the parts between `=`, `&` and
    `?`."""
    if "%" in text and (decoded := unquote(text)) != text:
        text = f"{text} {folded(decoded)}"
    found: set[str] = set()
    for match in _TOKEN.finditer(text):
        token = match.group().strip(_TRIM)
        if not token:
            continue
        found.add(token)
        pieces = [token]
        if "=" in token or "?" in token:
            pieces += [piece for part in _PARTS.split(token) if (piece := part.strip(_TRIM))]
            found.update(pieces)
        for piece in pieces:
            if "." in piece:
                host = _HOST.match(piece, scheme.end() if (scheme := _SCHEME.match(piece)) else 0)
                if host is not None:
                    found.add(host[1])
    return frozenset(found)


def _above(token: str) -> Iterator[str]:
    """Yield the domains above a host: who has one of them has its subdomains, too."""
    if _SUBDOMAIN.fullmatch(token):
        labels = token.split(".")
        yield from (".".join(labels[number:]) for number in range(1, len(labels) - 1))


def _runs(text: str) -> Iterator[list[str]]:
    words = _WORD.findall(text)
    for start in range(0, len(words) - WORDS + 1, WORDS // 2):
        yield words[start : start + WORDS]


def strings(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield every string in the arguments, including keys of maps, and numbers as text; each with its parameter's
    name."""
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, Mapping):
        for key, item in cast("Mapping[Any, Any]", value).items():
            if name:  # in a map, the model also writes the keys
                yield name, str(key)
            yield from strings(item, str(key).casefold())
    elif isinstance(value, list | tuple):
        for item in cast("list[Any]", value):
            yield from strings(item, name)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield name, str(value)


def texts_of(output: ToolOutput) -> Iterator[str]:
    """Yield all texts of an output. The model of an MCP client may read each of them, such as the name of a link."""
    yield output.for_llm
    for block in output.content:
        if isinstance(block, TextBlock):
            yield block.text
        else:
            yield block.mime_type or ""
        if isinstance(block, ResourceBlock):
            yield from (block.uri, block.name or "", block.text or "", _text_in(block))
        for key, value in block.extra.items():
            if key == "annotations":  # the others of them are not free texts
                value = as_object(value).get("lastModified")
            yield from (text for _, text in strings(value, key))
    yield from (text for _, text in strings([output.data, output.meta.get(WIRE_META)], "result"))


def _text_in(block: ResourceBlock) -> str:
    says_text = (block.mime_type or "").lower().startswith("text/")
    try:
        return (block.data or b"").decode(errors="replace" if says_text else "strict")
    except UnicodeDecodeError:
        return ""
