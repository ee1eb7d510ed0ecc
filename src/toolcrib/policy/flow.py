"""Control information flow: ask a person before a call uses values from an untrusted result.

Results carry labels, which are joined over a session. If the destination or a value of a sink occurs in an untrusted
result of its session, a person is asked, and the question names that result. A tool that destroys asks after anything
untrusted was read. Values that the model paraphrased, or read in an image, cannot be found this way: `strict` asks for
every sink after anything untrusted was read.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from dataclasses import field, replace
from itertools import islice
from secrets import token_hex
from typing import Any, Literal

from ..core.context import ToolContext
from ..core.dataclass import dataclass
from ..core.errors import ConfigError
from ..core.output import LABELS, Labels, ToolOutput
from ..core.recent import Recent
from ..core.text import clip
from ..core.tool import Tool, ToolCategory
from ..core.verdict import Judgement
from .copied import ReadText, folded, found, is_destination, occurs, strings, texts_of
from .plain import plain_line

FlowPolicy = Literal["off", "destinations", "said", "default", "strict"]
FLOW_POLICIES: tuple[FlowPolicy, ...] = ("off", "destinations", "said", "default", "strict")

MAX_SESSIONS = 1_000
MAX_CHARS = 2 * 2**20
"""Characters of untrusted text that are stored for a session. Above this limit every sink of the session asks."""
MAX_TRUSTED = MAX_CHARS // 4
"""Characters of trusted text that are stored for a session, with `destinations`."""
MAX_CHARS_IN_ALL = 8 * MAX_CHARS
"""The same for all sessions together, about 200 MB. Above it the least recently used session keeps its labels alone."""
MAX_ENDORSED = 10_000
"""How many approved values of a session are remembered, as digests. The oldest are asked about again."""
RESULT_CHARS = 128
"""Characters that each result counts in addition to its text, because more than the text is stored."""
MAX_KNOWN = MAX_CHARS // RESULT_CHARS
"""How many calls of a session are known by their ids. After as many different results its texts are not all stored."""
_C = ToolCategory
_UNTRUSTED = frozenset({_C.NETWORK_READ, _C.NETWORK_WRITE})
_PRIVATE = frozenset({_C.FILESYSTEM_READ, _C.FILESYSTEM_WRITE, _C.SHELL, _C.MEMORY, _C.HARDWARE, _C.MESSAGING})
_SINKS = frozenset({_C.NETWORK_WRITE, _C.MESSAGING, _C.DESTRUCTIVE})


def default_labels(tool: Tool) -> Labels:
    """Return the default labels of a tool's results: by category and hints, never by name.

    A hint can make a result untrusted; only a tool's own code or the operator can make a result trusted.
    """
    category = ToolCategory(tool.category)
    untrusted = category in _UNTRUSTED or tool.open_world is True
    return LABELS[untrusted, category in _PRIVATE]


@dataclass(slots=True)
class _ReadSession:
    labels: Labels = LABELS[False, False]
    given_untrusted: bool = False
    """Whether the session that gave it its task has read anything untrusted: that does not label its own results."""
    sources: dict[bytes, ReadText] = field(default_factory=dict[bytes, ReadText])
    """By the digest of the result."""
    size: int = 0
    full: bool = False
    said: list[ReadText] = field(default_factory=list[ReadText])
    trusted: dict[str, None] = field(default_factory=dict[str, None])
    trusted_size: int = 0
    endorsed: Recent[bytes, None] = field(default_factory=lambda: Recent[bytes, None](MAX_ENDORSED))
    known: Recent[str, None] = field(default_factory=lambda: Recent[str, None](MAX_KNOWN))
    """The ids of the calls whose untrusted results were noted here."""


class LabelFlow:
    """Remembers what each session read, and asks before a call sends those values to a sink.

    `reaches_out(tool, arguments, ctx)` says whether a shell call could send something to the network, `brings_in(tool,
    arguments)` whether its output came from there, or is a stored output that did. Calls without a session share one.
    Memory is limited: of the least recently used sessions, only the fact that they read something untrusted is stored.
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
        self.process = token_hex(4)
        """A name for what is known here: other processes do not know these texts."""
        self._reaches_out = reaches_out
        self._brings_in = brings_in
        self._sessions: OrderedDict[str | None, _ReadSession] = OrderedDict()
        self._forgotten: set[str | None] = set()
        self.size = 0
        """Characters that are stored for all sessions together."""
        self._defaults: dict[Tool, tuple[Labels, bool]] = {}
        """The labels of each tool's results, and whether single results may also come from the network."""

    # --- after a call

    def label(self, tool: Tool, arguments: Mapping[str, Any], output: ToolOutput, ctx: ToolContext) -> Labels:
        """Return the labels of a result, before it is truncated, and remember the result for its session."""
        labels = output.labels or self.expected(tool, arguments)
        session = self._sessions.get(ctx.session_id) or self._session(ctx.session_id)
        if session.labels is not labels:
            session.labels = session.labels.join(labels)
        if labels.integrity == "untrusted" and self.policy != "off":
            if ctx.call_id is not None:
                session.known[ctx.call_id] = None
            self._remember(session, tool, arguments, output)
        elif labels.integrity == "trusted" and self.policy == "destinations":
            self._note_trusted(session, output)
        else:
            return labels
        self._sessions.move_to_end(ctx.session_id)
        while self.size > MAX_CHARS_IN_ALL:
            self._drop_oldest()
        return labels

    def expected(self, tool: Tool, arguments: Mapping[str, Any]) -> Labels:
        """Return the labels of a call's result if it does not set them."""
        labels, varies = self._defaults.get(tool) or self._default(tool)
        if varies and self._brings_in is not None and self._brings_in(tool, arguments):
            labels = labels.join(LABELS[True, False])
        return labels

    def _default(self, tool: Tool) -> tuple[Labels, bool]:
        found = self._defaults[tool] = default_labels(tool), tool.category in (_C.SHELL, _C.FILESYSTEM_READ)
        return found

    def _remember(self, session: _ReadSession, tool: Tool, arguments: Mapping[str, Any], output: ToolOutput) -> None:
        if session.full:
            return
        text, shown = "\n".join(texts_of(output)), _shown(tool, arguments)
        if len(text) > MAX_CHARS:  # to fold 60 MB of words would take 1 GB
            session.full = True
            return
        digest = _digest(f"{shown}\0{text}")
        if digest in session.sources:  # the same result again, for example from polling
            return
        asked = folded("\n".join(value for _, value in strings(arguments))) if self.policy == "destinations" else ""
        self._store(session, digest, ReadText(shown, folded(text), asked, len(session.trusted)))

    def _store(self, session: _ReadSession, digest: bytes, source: ReadText) -> None:
        size = len(source.text) + len(source.asked) + RESULT_CHARS
        if session.size + size > MAX_CHARS:
            session.full = True
            return
        session.size += size
        self.size += size
        session.sources[digest] = source

    def _note_trusted(self, session: _ReadSession, output: ToolOutput) -> None:
        text = "\n".join(texts_of(output))
        size = len(text) + RESULT_CHARS
        # what is not stored is not known, so it asks
        if text and text not in session.trusted and session.trusted_size + size <= MAX_TRUSTED:
            session.trusted[text] = None
            session.trusted_size += size
            self.size += size

    def _session(self, session_id: str | None) -> _ReadSession:
        session = self._sessions[session_id] = _ReadSession()
        if session_id in self._forgotten:
            session.labels, session.full = LABELS[True, True], True
        if len(self._sessions) > MAX_SESSIONS:
            self._drop_oldest()
        return session

    def _drop_oldest(self) -> None:
        oldest, dropped = self._sessions.popitem(last=False)
        self.size -= dropped.size + dropped.trusted_size
        if dropped.labels.integrity == "untrusted" or dropped.given_untrusted:
            self._forgotten.add(oldest)

    # --- information from the host

    def trust(self, text: str, session_id: str | None = None) -> None:
        """Mark a text as written by the user: with policy `said`, its values count as theirs wherever else they
        occur."""
        session = self._sessions.get(session_id) or self._session(session_id)
        said = ReadText("the user", folded(text))
        if said not in session.said:
            session.said.append(said)

    def inherit(self, labels: Labels, session_id: str | None, *, elsewhere: bool = False) -> None:
        """Note the labels of what a session has read in another process. The texts are not known here: after untrusted
        ones every sink of a session that this process does not know asks, and with `elsewhere` of any session."""
        known = self._sessions.get(session_id)
        session = known or self._session(session_id)
        session.labels = session.labels.join(labels)
        if (known is None or elsewhere) and labels.integrity == "untrusted":
            session.full = True

    def knows(self, call_ids: Collection[str], session_id: str | None) -> bool:
        """Return whether the untrusted results of all these calls of a session were noted here."""
        session = self._sessions.get(session_id)
        return not call_ids if session is None else session.known.keys() >= set(call_ids)

    def share(self, giver: str | None, taker: str | None) -> None:
        """Note that one session gives another its task: the other counts as having read the same. So does what the user
        said; approvals do not. The texts are stored once."""
        given = self._sessions.get(giver)
        if given is None:
            if giver in self._forgotten:
                self.inherit(LABELS[True, True], taker, elsewhere=True)
            return
        session = self._sessions.get(taker)
        if session is None:
            session = self._session(taker)
            session.said, session.trusted, session.sources = list(given.said), dict(given.trusted), dict(given.sources)
        else:  # what it had before these is not known
            for digest, source in given.sources.items():
                if digest not in session.sources:
                    self._store(session, digest, replace(source, before=0))
        session.given_untrusted |= given.given_untrusted or given.labels.integrity == "untrusted"
        session.full = session.full or given.full

    def endorse(self, tool: Tool, arguments: Mapping[str, Any], session_id: str | None) -> None:
        """Mark a call as approved by a person: its values are not asked about again in this session, in the same
        parameters of the same tool."""
        session = self._sessions.get(session_id)
        if session is not None:
            for name, value in strings(arguments):
                session.endorsed[_digest(_value(tool, name, value))] = None
            session.endorsed[_digest(_call(tool, arguments))] = None

    def labels_of(self, session_id: str | None) -> Labels:
        """Return the join of the labels of everything that a session read."""
        session = self._sessions.get(session_id)
        if session is not None:
            return session.labels
        return LABELS[True, True] if session_id in self._forgotten else LABELS[False, False]

    def labels_of_work(self, session_id: str | None) -> Labels:
        """Return the labels of work that a session leaves for later: also of what the giver of its task had read."""
        session, labels = self._sessions.get(session_id), self.labels_of(session_id)
        return labels.join(LABELS[True, False]) if session is not None and session.given_untrusted else labels

    def forget(self, session_id: str | None) -> None:
        """End a session: forget what it read."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self.size -= session.size + session.trusted_size
        self._forgotten.discard(session_id)

    # --- before a call

    def watches(self, tool: Tool) -> bool:
        """Return whether calls of this tool may ever be asked about."""
        sink = tool.category in _SINKS or tool.category == _C.SHELL or bool(tool.kept_parameters)
        return sink and self.policy != "off"

    def question(self, tool: Tool, arguments: Mapping[str, Any], ctx: ToolContext) -> Judgement | None:
        """Return why a person should be asked about this call, or None."""
        if not self.watches(tool):
            return None
        if kept := tool.kept_parameters:
            arguments = {name: value for name, value in arguments.items() if name in kept and value is not None}
            if not arguments:
                return None
        session_id = ctx.session_id
        session = self._sessions.get(session_id)
        if session is None:
            if session_id not in self._forgotten:
                return None
            session = self._session(session_id)
        if session.labels.integrity != "untrusted" and not session.given_untrusted:
            return None
        if tool.category == _C.SHELL and self._reaches_out and not self._reaches_out(tool, arguments, ctx):
            return None
        destroys = tool.category == _C.DESTRUCTIVE and _digest(_call(tool, arguments)) not in session.endorsed
        if destroys or self.policy == "strict":
            latest = next(reversed(session.sources.values()), None)
            source = latest.shown if latest is not None else "an earlier result"
            rule = "destructive" if destroys else "strict"
            return _ask(rule, f"this session has read untrusted content ({source}), and {_why_sink(tool)}")
        sources = list(session.sources.values())
        checked = {name: value for name, value in arguments.items() if name not in tool.opaque_parameters}
        for name, value in strings(checked):
            if _digest(_value(tool, name, value)) in session.endorsed:
                continue
            read = _as_shell_reads(value) if name == tool.command_argument else ""
            for text in filter(None, (value, read)):
                for source, part in found(text, sources, is_destination(name), self.policy == "destinations"):
                    if not self._is_known(part, source, session):
                        return _ask(self.policy, f"{_quoted(part)} is in the result of {source.shown}, which is "
                                    f"untrusted, and {_why_sink(tool)}")  # fmt: skip
        if session.full:
            text = f"this session has read more untrusted content than can be searched, and {_why_sink(tool)}"
            return _ask("full", text)
        return None

    def _is_known(self, part: str, source: ReadText, session: _ReadSession) -> bool:
        """Return whether the user said this, or, with `destinations`, whether the session had it before that source:
        in a trusted result, or in the arguments of the source's own call."""
        if self.policy in ("said", "destinations") and any(
            part in said.tokens or occurs(part, said.text) for said in session.said
        ):
            return True
        if self.policy != "destinations":
            return False
        earlier = islice(session.trusted, source.before)
        return occurs(part, source.asked) or any(occurs(part, folded(text)) for text in earlier)


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _value(tool: Tool, name: str, value: str) -> str:
    """Return a name for a value of one parameter: a yes to an address in a text is none to a message to it."""
    return f"{tool.name}\0{name}\0{folded(value)}"


def _call(tool: Tool, arguments: Mapping[str, Any]) -> str:
    """Return a name for one call of a tool that destroys, which no value can have."""
    return f"{tool.name}\0{json.dumps(dict(arguments), sort_keys=True, default=str)}"


def _as_shell_reads(command: str) -> str:
    """Return the words of a command line without quotes, with what its variables and braces stand for."""
    from .shell.reading import read_script  # only commands need it

    parts = read_script(command, "/", "/").commands
    words = (word for part in parts for word in (*part.words, *(value for _, value in part.assigns)))
    return " ".join(word.text for word in words if word.text)


def _ask(rule: str, reason: str) -> Judgement:
    return Judgement("ask", reason, f"labels:{rule}")


def _why_sink(tool: Tool) -> str:
    if tool.kept_parameters:
        return f"{tool.name} keeps it for later sessions"
    return {
        _C.DESTRUCTIVE: f"{tool.name} destroys",
        _C.MESSAGING: f"{tool.name} sends messages",
        _C.SHELL: f"{tool.name} can reach the network",
    }.get(ToolCategory(tool.category), f"{tool.name} sends data out")


def _quoted(text: str) -> str:
    return f'"{clip(plain_line(text), 80)}"'


def _shown(tool: Tool, arguments: Mapping[str, Any]) -> str:
    """Return a call as a question shows it: `web_fetch https://…`."""
    for key in ("url", "query", "path", "command"):
        value = arguments.get(key)
        if isinstance(value, str):
            return f"{tool.name} {clip(plain_line(value), 121)}"
    return tool.name
