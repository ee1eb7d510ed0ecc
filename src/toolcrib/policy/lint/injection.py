"""Find hidden instructions in descriptions: text that makes a model act without its user's knowledge.

"Tool poisoning" (Invariant Labs, April 2025) hides orders in descriptions that people do not read: send files, misuse
other tools, say nothing about it. Patterns cannot find all of it; a person should read every match before the tool is
offered. The level `error` is only for text that occurs in none of the 1,275 real tools in the tests.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator

from ...core.tool import Tool
from .finding import Level, LintFinding, excerpt, texts_of


def _pattern(level: Level, said: str, *parts: str) -> tuple[Level, re.Pattern[str], str]:
    return level, re.compile("".join(parts), re.IGNORECASE), said


_PATTERNS = (
    _pattern(
        "error", "tells the model to drop its instructions",
        r"\b(ignore|disregard|forget|override)\b.{0,40}\b(previous|prior|above|earlier|other|all|your|system)\b",
        r".{0,30}\b(instructions?|prompts?|rules?|guidelines?|polic(?:y|ies))\b",
    ),
    _pattern(
        "error", "tells the model to keep something from its user",
        r"\b(do not|don'?t|never|without)\b.{0,30}\b(tell(?:ing)?|mention(?:ing)?|inform(?:ing)?|notify(?:ing)?",
        r"|show(?:ing)?|reveal(?:ing)?|let(?:ting)?)\b.{0,30}\b(user|human|person|anyone|anybody|know)\b",
    ),
    _pattern(
        "error", "has a tag that plays another voice",
        r"<\s*(?:/\s*)?(important|system|instructions?|secret|hidden|critical|admin|assistant|user|human)\s*(?:/\s*)?>",
    ),
    _pattern(
        "error", "names a file with keys or settings of its reader",
        r"(?:^|[\s(\"'`=:])(?:~|\$HOME|/root|/home/\w+|%USERPROFILE%)[/\\]",
        r"(?:\.ssh|\.aws|\.gnupg|\.config|\.cursor|\.claude|\.kube|\.netrc|\.npmrc|\.docker|\.env)\b",
    ),
    _pattern(
        "error", "names a file with keys or settings",
        r"\bid_(?:rsa|ed25519|ecdsa)\b|/etc/(?:passwd|shadow)\b|\bmcp\.json\b",
    ),
    _pattern(
        "error", "asks for the conversation itself",
        r"\b(system|developer) (prompt|message)\b.{0,60}\b(pass|send|include|provide|copy|as|in|into)\b",
        r"|\b(pass|send|include|provide|copy)\b.{0,60}\b(system|developer) (prompt|message)\b",
        r"|\b(entire|full|whole|complete) (conversation|chat|context|history)\b",
    ),
    _pattern(
        "warning", "gives orders about other tools",
        r"\b(before|after|prior to|whenever|every time|each time)\b.{0,40}\b(us(?:e|ing)|call(?:ing)?|invok(?:e|ing)",
        r"|run(?:ning)?)\b.{0,30}\b(any|other|another|all|every)\b.{0,20}\btools?\b",
    ),
    _pattern(
        "warning", "gives orders to the model",
        r"\b(you|the (?:assistant|model|agent|llm|ai)) (must|have to|need to|are required to)\b",
        r".{0,60}\b(first|always|also)\b",
    ),
    _pattern("warning", "has a passage that renderers hide", r"<!--|\[//\]: #|display\s*:\s*none"),
    _pattern("warning", "has a long coded passage", r"[A-Za-z0-9+/]{200,}={0,2}"),
    _pattern("warning", "has a passage moved out of sight by blanks", r"\S[ \t]{80,}\S|(?<!\n)\n{12,}\S"),
)  # fmt: skip
MAX_TEXT = 50_000
"""Characters of one text that are checked; a longer text is itself a finding."""
_REMEDY = "read it; if it is not meant for you, do not offer this tool"


def check_injection(tool: Tool, names: Iterable[str] = ()) -> Iterator[LintFinding]:
    """Yield suspicious text anywhere in the texts of a tool that a model reads. `names`: the names of tools from other
    sources."""
    others = [name for name in names if len(name) > 6 and ("_" in name or "-" in name)]
    told: set[str] = set()
    for where, text in texts_of(tool):
        for finding in _text(tool.name, where, text, others):
            if finding.text not in told:
                told.add(finding.text)
                yield finding


def _text(tool: str, where: str, text: str, others: list[str]) -> Iterator[LintFinding]:
    yield from _invisible(tool, where, text)
    if len(text) > MAX_TEXT:
        yield LintFinding(tool, "warning", "injection", f"{where} is {len(text):,} characters long", _REMEDY)
        text = text[:MAX_TEXT]
    plain = unicodedata.normalize("NFKC", text)
    for level, pattern, said in _PATTERNS:
        found = pattern.search(plain)
        if found is not None:
            yield LintFinding(tool, level, "injection", f"{where} {said}: {excerpt(plain, *found.span())}", _REMEDY)
    folded = plain.casefold()
    for name in others:
        at = folded.find(name.casefold())
        if at >= 0:
            shown = excerpt(plain, at, at + len(name))
            text_ = f"{where} speaks of a tool from elsewhere, {name}: {shown}"
            yield LintFinding(tool, "warning", "shadowing", text_, _REMEDY)


def _invisible(tool: str, where: str, text: str) -> Iterator[LintFinding]:
    for at, sign in enumerate(text[:MAX_TEXT]):
        if sign.isascii():
            if sign.isprintable() or sign in "\t\n\r":
                continue
        elif not _hides(sign):
            continue
        code = f"U+{ord(sign):04X}"
        shown = excerpt(text, at, at + 1)
        yield LintFinding(tool, "error", "invisible", f"{where} holds an invisible sign, {code}: {shown}", _REMEDY)
        return


_JOINERS = "\u200c\u200d\ufe0e\ufe0f\u00ad"
"""Invisible signs that many languages and emoji need."""


def _hides(sign: str) -> bool:
    """Return whether a sign is a format or private sign: bidirectional controls, zero-width spaces, tags (U+E0000)."""
    return unicodedata.category(sign) in ("Cf", "Co", "Cn", "Cc") and sign not in _JOINERS and sign != "\u0085"
