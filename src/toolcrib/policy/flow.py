"""Control information flow: ask a person before a call uses values from an untrusted result (spec 6.9).

Results carry labels, which are joined over a session. If the destination or a value of a sink occurs in an untrusted
result of its session, a person is asked, and the question names that result. Values that the model paraphrased, or read
in an image, cannot be found this way: `strict` asks for every sink after anything untrusted was read.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import Any, Literal, cast
from urllib.parse import unquote

from ..core.context import ToolContext
from ..core.dataclass import dataclass
from ..core.errors import ConfigError
from ..core.output import LABELS, Labels, ResourceBlock, TextBlock, ToolOutput
from ..core.text import clip
from ..core.tool import Tool, ToolCategory
from ..core.verdict import Judgement
from .plain import plain_line

FlowPolicy = Literal["off", "said", "default", "strict"]
FLOW_POLICIES: tuple[FlowPolicy, ...] = ("off", "said", "default", "strict")

MAX_SESSIONS = 1_000
MAX_CHARS = 2 * 2**20
"""Characters of untrusted text that are stored for a session. Above this limit every sink of the session asks."""
MAX_CHARS_IN_ALL = 8 * MAX_CHARS
"""The same for all sessions together, about 200 MB. Above it the least recently used session keeps its labels alone."""
RESULT_CHARS = 128
"""Characters that each result counts in addition to its text, because more than the text is stored."""
WORDS = 6
"""Words in a row that must also occur in an untrusted result to count as copied from it. They are looked up at every
third word, so that eight copied words are always found."""
MAX_RUNS = 100
"""Runs of words that are looked up in one call: about 20 ms in the largest session. A text with more runs asks."""

_C = ToolCategory
_UNTRUSTED = frozenset({_C.NETWORK_READ, _C.NETWORK_WRITE})
_PRIVATE = frozenset({_C.FILESYSTEM_READ, _C.FILESYSTEM_WRITE, _C.SHELL, _C.MEMORY, _C.HARDWARE, _C.MESSAGING})
_SINKS = frozenset({_C.NETWORK_WRITE, _C.MESSAGING, _C.DESTRUCTIVE})

_TOKEN = re.compile(r"[^\s\"'`<>()\[\]{},;|]+")
_TRIM = ".:!?"
_WORD = re.compile(r"\w+")
_ADDRESS = re.compile(r".@.|://|[\w-]\.[a-z]{2,}|^~?/.{3,}|/.*/")
LONG_TOKEN = 20
"""A word of this length is a key or a digest."""
DESTINATIONS = frozenset(
    {"address", "bcc", "cc", "channel", "chat", "chat_id", "dest", "destination", "domain", "email", "endpoint", "host",
     "hostname", "owner", "path", "paths", "phone", "project", "recipient", "recipients", "repo", "repository",
     "server", "target", "to", "uri", "url", "user", "user_id", "username", "webhook"}
)  # fmt: skip
"""Parameters that are destinations: their values are looked for even if they are short or common."""


def default_labels(tool: Tool) -> Labels:
    """Return the default labels of a tool's results: by category and hints, never by name.

    A hint can make a result untrusted; only a tool's own code or the operator can make a result trusted.
    """
    category = ToolCategory(tool.category)
    untrusted = category in _UNTRUSTED or tool.open_world is True
    return LABELS[untrusted, category in _PRIVATE]


@dataclass(frozen=True, slots=True)
class _ReadResult:
    """An untrusted result: its name in a question, its text, its tokens, and its words without punctuation."""

    shown: str
    text: str
    tokens: frozenset[str]
    plain: str
    words: frozenset[str]


@dataclass(slots=True)
class _ReadSession:
    labels: Labels = LABELS[False, False]
    sources: list[_ReadResult] = field(default_factory=list[_ReadResult])
    known: set[bytes] = field(default_factory=set[bytes])
    size: int = 0
    full: bool = False
    said: list[_ReadResult] = field(default_factory=list[_ReadResult])
    endorsed: set[str] = field(default_factory=set[str])


class LabelFlow:
    """Remembers what each session read, and asks before a call sends those values to a sink.

    `reaches_out(tool, arguments, ctx)` says whether a shell call could send something to the network, `brings_in(tool,
    arguments)` whether its output came from there. Calls without a session share one. Memory is limited: of the least
    recently used sessions, only the fact that they read something untrusted is stored.
    """

    def __init__(
        self,
        policy: FlowPolicy = "default",
        reaches_out: Callable[[Tool, Mapping[str, Any], ToolContext], bool] | None = None,
        brings_in: Callable[[Tool, Mapping[str, Any]], bool] | None = None,
    ) -> None:
        if policy not in FLOW_POLICIES:
            raise ConfigError(f"unknown labels.policy {policy!r}; known: {', '.join(FLOW_POLICIES)}")
        self.policy = policy
        self._reaches_out = reaches_out
        self._brings_in = brings_in
        self._sessions: OrderedDict[str | None, _ReadSession] = OrderedDict()
        self._forgotten: set[str | None] = set()
        self.size = 0
        """Characters that are stored for all sessions together."""
        self._defaults: dict[Tool, Labels] = {}

    # --- after a call

    def label(self, tool: Tool, arguments: Mapping[str, Any], output: ToolOutput, ctx: ToolContext) -> Labels:
        """Return the labels of a result, before it is truncated, and remember the result for its session."""
        labels = output.labels
        if labels is None:
            labels = self._defaults.get(tool) or self._default(tool, arguments)
        session = self._sessions.get(ctx.session_id) or self._session(ctx.session_id)
        if session.labels is not labels:
            session.labels = session.labels.join(labels)
        if labels.integrity == "untrusted" and self.policy != "off":
            self._remember(session, tool, arguments, output)
            self._sessions.move_to_end(ctx.session_id)
            while self.size > MAX_CHARS_IN_ALL:
                self._drop_oldest()
        return labels

    def _default(self, tool: Tool, arguments: Mapping[str, Any]) -> Labels:
        labels = default_labels(tool)
        if tool.category != _C.SHELL or self._brings_in is None:
            self._defaults[tool] = labels
        elif self._brings_in(tool, arguments):  # differs from command to command
            return labels.join(LABELS[True, False])
        return labels

    def _remember(self, session: _ReadSession, tool: Tool, arguments: Mapping[str, Any], output: ToolOutput) -> None:
        if session.full:
            return
        text, shown = "\n".join(_texts_of(output)), _shown(tool, arguments)
        digest = hashlib.blake2b(f"{shown}\0{text}".encode("utf-8", "surrogatepass"), digest_size=16).digest()
        if digest in session.known:  # the same result again, for example from polling
            return
        size = len(text) + RESULT_CHARS
        if session.size + size > MAX_CHARS:
            session.full = True
            return
        session.size += size
        self.size += size
        session.known.add(digest)
        source = _source(shown, text)
        if source.tokens:
            session.sources.append(source)

    def _session(self, session_id: str | None) -> _ReadSession:
        session = self._sessions[session_id] = _ReadSession()
        if session_id in self._forgotten:
            session.labels, session.full = LABELS[True, True], True
        if len(self._sessions) > MAX_SESSIONS:
            self._drop_oldest()
        return session

    def _drop_oldest(self) -> None:
        oldest, dropped = self._sessions.popitem(last=False)
        self.size -= dropped.size
        if dropped.labels.integrity == "untrusted":
            self._forgotten.add(oldest)

    # --- information from the host

    def trust(self, text: str, session_id: str | None = None) -> None:
        """Mark a text as written by the user: with policy `said`, its values count as theirs wherever else they
        occur."""
        session = self._sessions.get(session_id) or self._session(session_id)
        session.said.append(_source("the user", text))

    def inherit(self, labels: Labels, session_id: str | None) -> None:
        """Note the labels of what a session has read in another process. The texts are not known here: after untrusted
        ones every sink of a session that this process does not know asks."""
        known = self._sessions.get(session_id)
        session = known or self._session(session_id)
        session.labels = session.labels.join(labels)
        if known is None and labels.integrity == "untrusted":
            session.full = True

    def endorse(self, tool: Tool, arguments: Mapping[str, Any], session_id: str | None) -> None:
        """Mark a call as approved by a person: its values are not asked about again in this session."""
        session = self._sessions.get(session_id)
        if session is not None:
            session.endorsed.update(_folded(value) for _, value in strings(arguments))

    def labels_of(self, session_id: str | None) -> Labels:
        """Return the join of the labels of everything that a session read."""
        session = self._sessions.get(session_id)
        if session is not None:
            return session.labels
        return LABELS[True, True] if session_id in self._forgotten else LABELS[False, False]

    def forget(self, session_id: str | None) -> None:
        """End a session: forget what it read."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self.size -= session.size
        self._forgotten.discard(session_id)

    # --- before a call

    def watches(self, tool: Tool) -> bool:
        """Return whether calls of this tool may ever be asked about."""
        return self.policy != "off" and (tool.category in _SINKS or tool.category == _C.SHELL)

    def question(self, tool: Tool, arguments: Mapping[str, Any], ctx: ToolContext) -> Judgement | None:
        """Return why a person should be asked about this call, or None."""
        if not self.watches(tool):
            return None
        session_id = ctx.session_id
        session = self._sessions.get(session_id)
        if session is None:
            if session_id not in self._forgotten:
                return None
            session = self._session(session_id)
        if session.labels.integrity != "untrusted":
            return None
        if tool.category == _C.SHELL and self._reaches_out and not self._reaches_out(tool, arguments, ctx):
            return None
        if self.policy == "strict":
            source = session.sources[-1].shown if session.sources else "an earlier result"
            return _ask("strict", f"this session has read untrusted content ({source}), and {_why_sink(tool)}")
        checked = {name: value for name, value in arguments.items() if name not in tool.opaque_parameters}
        for name, value in strings(checked):
            if _folded(value) in session.endorsed:
                continue
            found = _found(value, session.sources, name in DESTINATIONS)
            if found is None:
                continue
            source, part = found
            if self.policy == "said" and any(_stands_in(part, said) for said in session.said):
                continue
            return _ask(self.policy, f"{_quoted(part)} is in the result of {source.shown}, which is untrusted, "
                        f"and {_why_sink(tool)}")  # fmt: skip
        if session.full:
            text = f"this session has read more untrusted content than can be searched, and {_why_sink(tool)}"
            return _ask("full", text)
        return None


def _ask(rule: str, reason: str) -> Judgement:
    return Judgement("ask", reason, f"labels:{rule}")


def _why_sink(tool: Tool) -> str:
    return {
        _C.DESTRUCTIVE: f"{tool.name} destroys",
        _C.MESSAGING: f"{tool.name} sends messages",
        _C.SHELL: f"{tool.name} can reach the network",
    }.get(ToolCategory(tool.category), f"{tool.name} sends data out")


def _quoted(text: str) -> str:
    return f'"{clip(plain_line(text), 80)}"'


# --- finding a value in a text


def _found(value: str, sources: list[_ReadResult], destination: bool) -> tuple[_ReadResult, str] | None:
    """Return the first source that contains this value, a distinctive token of it, or a run of its words; and the text
    found."""
    text = _folded(value)
    if not text:
        return None
    whole = _says_something(text) or (destination and len(text) > 2)
    tokens = [token for token in _tokens(text) if _is_telling(token)]
    runs = list(_runs(text))
    left = MAX_RUNS
    for source in sources:
        if whole and _stands_in(text, source):
            return source, text
        for token in tokens:
            if token in source.tokens:
                return source, token
        for words in runs:
            if not source.words.issuperset(words):
                continue
            run = " ".join(words)
            left -= 1
            if f" {run} " in source.plain or left == 0:
                return source, run
    return None


def _stands_in(text: str, source: _ReadResult) -> bool:
    """Return whether the text occurs there as a whole word, not as a part of a longer word."""
    if text in source.tokens:
        return True
    start = source.text.find(text)
    while start >= 0:
        before = source.text[start - 1 : start]
        after = source.text[start + len(text) : start + len(text) + 1]
        if not ((before.isalnum() and text[0].isalnum()) or (after.isalnum() and text[-1].isalnum())):
            return True
        start = source.text.find(text, start + 1)
    return False


def _says_something(text: str) -> bool:
    """Return whether a whole value is more than a common word or a small number."""
    return _is_telling(text) or (len(text) >= 12 and not text.replace(".", "").isdigit())


def _is_telling(token: str) -> bool:
    """Return whether a word alone is distinctive: an address, a path, an id, a key."""
    if len(token) < 5:
        return False
    return len(token) >= LONG_TOKEN or _ADDRESS.search(token) is not None or sum(map(str.isdigit, token)) >= 4


_UNSEEN = re.compile("[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff]")


def _folded(text: str) -> str:
    """Return the text in the form for comparison: lower case, single blanks, plain letters for wide ones, no invisible
    signs."""
    if not text.isascii():  # a model that reads `evil.ex<soft hyphen>ample` writes it without the hyphen
        text = unicodedata.normalize("NFKC", _UNSEEN.sub("", text))
    return " ".join(text.casefold().split())


_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:(?!\d)")
_HOST = re.compile(r"/*(?:[^/?#@\\]*@)?([\w-]+(?:\.[\w-]+)+)\.?(?::\d*)?(?=[/?#\\]|\Z)")
_PARTS = re.compile(r"[=&?#]")


def _tokens(text: str) -> frozenset[str]:
    """Return words, addresses and paths; for a URL or e-mail address the host too; and the parts between `=`, `&` and
    `?`."""
    if "%" in text and (decoded := unquote(text)) != text:
        text = f"{text} {_folded(decoded)}"
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


def _runs(text: str) -> Iterator[list[str]]:
    words = _WORD.findall(text)
    for start in range(0, len(words) - WORDS + 1, WORDS // 2):
        yield words[start : start + WORDS]


def _source(shown: str, text: str) -> _ReadResult:
    folded = _folded(text)
    words = _WORD.findall(folded)
    return _ReadResult(shown, folded, _tokens(folded), f" {' '.join(words)} ", frozenset(words))


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


def _texts_of(output: ToolOutput) -> Iterator[str]:
    yield output.for_llm
    for block in output.content:
        if isinstance(block, TextBlock) or (isinstance(block, ResourceBlock) and block.text is not None):
            yield block.text or ""
        if isinstance(block, ResourceBlock):
            yield block.uri
        for key, value in block.extra.items():  # a client's model may read a link's description
            if key != "annotations":
                yield from (text for _, text in strings(value))
    if output.data is not None:
        yield from (text for _, text in strings(output.data))


def _shown(tool: Tool, arguments: Mapping[str, Any]) -> str:
    """Return a call as a question shows it: `web_fetch https://…`."""
    for key in ("url", "query", "path", "command"):
        value = arguments.get(key)
        if isinstance(value, str):
            return f"{tool.name} {clip(plain_line(value), 121)}"
    return tool.name
