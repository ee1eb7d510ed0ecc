"""Finds tools by what they do: an index of the words in their names, descriptions and parameters.

A word counts by how rare it is (BM25's idf) and by where it is: in the name most, less the longer the name or text
is. A tool's score is the sum over the words of the question. Words are stripped of their endings, and one that everyday
language uses for another finds that, too, at a discount. Rare words choose the candidates, common ones only order them.

SQLite's FTS5 was tried first: over 10,000 tools its `bm25()` took 10 to 100 times as long, as it walks all the hits of
each word again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from math import log, sqrt
from typing import TYPE_CHECKING, Any, cast

from .text import lazy_regex

if TYPE_CHECKING:
    from .tool import Tool

# --- words

_SILENT = (
    "a about all an and any are as at be been but by can could do does for from give had has have how i if in into is "
    "it its let like make me my need of on one or our please should so some than that the their them then there these "
    "they this those to tool tools up us use using want was we were what when where which who whose why will with "
    "would you your"
)
_STOP = frozenset(_SILENT.split())
_KINSHIP = (
    "delete remove erase drop discard trash unlink forget", "create new add make open start", "list show enumerate",
    "search find query lookup locate grep", "get fetch read retrieve download load view see print",
    "write save store put set", "edit change modify update alter patch replace", "send post publish submit",
    "run execute invoke launch trigger dispatch", "copy duplicate clone", "move rename relocate",
    "picture image photo", "url link address page website web", "person user member people account",
    "bug issue ticket", "comment reply note", "undo revert reset restore unstage",
    "stop cancel abort end kill close", "time clock hour", "sum plus addition total add", "compress zip gzip archive",
    "environment variable", "difference diff compare change", "history log", "content text",
    "tag label", "key token secret credential", "team group", "size big large", "information metadata detail",
    "star favorite like", "login authentication", "access allow permit permission", "branch checkout switch",
    "remember store save observation",
)  # fmt: skip
_SHORT = {
    "repo": "repository", "repos": "repository", "org": "organization", "orgs": "organization", "dir": "directory",
    "dirs": "directory", "folder": "directory", "folders": "directory", "env": "environment", "vars": "variable",
    "var": "variable", "info": "information", "auth": "authentication", "db": "database", "img": "image",
    "msg": "message", "config": "configuration", "pr": "pull", "prs": "pull", "hook": "webhook", "hooks": "webhook",
    "organisation": "organization", "temp": "temporary", "doc": "document", "docs": "document", "calc": "calculate",
    "diff": "difference", "num": "number", "app": "application", "apps": "application", "admin": "administrator",
}  # fmt: skip
"""Words with the same meaning: for both, the second is indexed."""

_WORD = lazy_regex(r"[^\W_]+")
_APART = bytes(code if chr(code).isalnum() else 32 for code in range(256))
_CAMEL = lazy_regex(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


@functools.cache
def _kinship() -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for group in _KINSHIP:
        stems = {stem(word) for word in group.split()}
        for word in stems:
            found.setdefault(word, set()).update(stems - {word})
    return {word: frozenset(others) for word, others in found.items()}


def kin(word: str) -> frozenset[str]:
    """Stems of the synonyms of a word."""
    return _kinship().get(word, frozenset())


def stem(word: str) -> str:
    """An English word without the ending of its plural, its past or its -ing: `issues`, `creating`, `copies`."""
    word = _SHORT.get(word, word)
    if len(word) < 4 or not word.isascii() or not word.isalpha():
        return word
    if word.endswith("ies"):
        return word[:-3] + "y"
    if word.endswith("s") and word[-2] not in "su":
        word = word[:-2] if word.endswith(("ches", "shes", "xes", "sses", "zes")) else word[:-1]
    for ending in ("ing", "ed"):
        base = word.removesuffix(ending)
        if base is not word and len(base) > 2 and not {*base}.isdisjoint("aeiouy"):
            word = base[:-1] if base[-1] == base[-2] and base[-1] not in "lsz" else base
            break
    return word[:-1] if len(word) > 3 and word[-1] == "e" else word


def split(text: str) -> list[str]:
    """The words of a text in lower case: letters and digits in a row. For ASCII five times as quick as the pattern."""
    text = text.lower()
    return text.encode().translate(_APART).decode().split() if text.isascii() else _WORD.findall(text)


def spoken(name: str) -> str:
    """Names as words: `createIssue` is "create Issue"; other characters separate words anyway."""
    return name if name.islower() else _CAMEL.sub(" ", name)


def asked(query: str) -> list[str]:
    """Return the words of a question without stop words, each once; all words if only stop words are left."""
    given = split(spoken(query[:2_000]))
    telling = [word for word in given if word not in _STOP]
    return list(dict.fromkeys(stem(word) for word in telling or given))


# --- index

MAX_CANDIDATES = 2_000
"""Most tools that are ranked: those with the rarest words of the question."""
MAX_WORDS = 16
"""Most words of a question that are used: the rarest."""
MAX_TEXT = 300
"""Characters of a description that are indexed: its start says what a tool does."""
KIN = 0.5
"""The weight of a synonym."""
NAME, SUMMARY, TEXT, PARAMETERS = 2.0, 2.5, 0.6, 0.2
"""The weight of a word in each field; the summary is the first sentence of the description."""

_SENTENCE = lazy_regex(r"[.!?:;](?=\s)|\n")


class _Field:
    """The tools that have each word, by number, in order.

    Most words are those of one tool. They have no list: ten thousand lists would start garbage collections, which take
    as long as the index itself.
    """

    def __init__(self, worth: float) -> None:
        self.worth = worth
        self._places: dict[str, int | list[int]] = {}
        self.lengths: list[float] = []  # of each tool's text here, as its root

    def add(self, number: int, words: set[str]) -> None:
        """Add the next tool's words."""
        self.lengths.append(sqrt(len(words) + 2))
        for word in words:
            known = self._places.setdefault(word, number)
            if isinstance(known, list):
                known.append(number)
            elif known != number:
                self._places[word] = [known, number]

    def places(self, word: str) -> list[int]:
        """Return the numbers of the tools that have a word."""
        found = self._places.get(word, [])
        return found if isinstance(found, list) else [found]


class ToolIndex:
    """The words of a fixed set of tools. A search changes nothing, so any thread may search."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        self._tools = list(tools)
        self._fields = tuple(_Field(worth) for worth in (NAME, SUMMARY, TEXT, PARAMETERS))
        stem_of = functools.cache(stem)
        for n, tool in enumerate(self._tools):
            for field, text in zip(self._fields, _texts(tool), strict=True):
                field.add(n, set(map(stem_of, split(text))))

    def search(self, query: str, limit: int, hides: Callable[[Tool], bool] | None = None) -> list[tuple[Tool, float]]:
        """Return the tools that match best and their scores, best first, without those for which `hides` is true."""
        scores: dict[int, float] = {}
        covered: dict[int, float] = {}
        groups = [group for word in asked(query) if (group := self._known(word))]
        groups = sorted(groups, key=lambda group: group[0])[:MAX_WORDS]
        total = sum(self._rarity(count) for count, _ in groups)
        for count, forms in groups:
            rarity = self._rarity(count)
            for n, score in self._scored(count, forms, scores).items():
                scores[n] = scores.get(n, 0.0) + score
                covered[n] = covered.get(n, 0.0) + rarity
        for n, share in covered.items():  # a tool with all the words beats one with many of the same
            scores[n] *= share / total
        named = query.strip().casefold()
        found: list[tuple[Tool, float]] = []
        for n in sorted(scores, key=lambda n: (self._tools[n].name.casefold() != named, -scores[n], n)):
            if hides is None or not hides(self._tools[n]):
                found.append((self._tools[n], scores[n]))
                if len(found) >= limit:
                    break
        return found

    def _rarity(self, count: int) -> float:
        return log(1 + len(self._tools) * len(self._fields) / count)

    def _known(self, word: str) -> tuple[int, list[tuple[str, float]]] | None:
        """In how many places a word and its synonyms occur, and the weight of each."""
        forms = [(word, 1.0), *((other, KIN) for other in kin(word))]
        counts = [sum(len(field.places(form)) for field in self._fields) for form, _ in forms]
        known = [form for form, count in zip(forms, counts, strict=True) if count]
        return (sum(counts), known) if known else None

    def _scored(self, count: int, forms: list[tuple[str, float]], scores: dict[int, float]) -> dict[int, float]:
        """Add the scores of one word; once there are enough candidates, only for those."""
        closed = bool(scores) and len(scores) + count > MAX_CANDIDATES
        best: dict[int, float] = {}
        for form, weight in forms:
            own: dict[int, float] = {}
            for field in self._fields:
                places = field.places(form)
                if not places:
                    continue
                worth = weight * field.worth * log(1 + len(self._tools) / len(places))
                for n in scores.keys() & places if closed else places:
                    own[n] = own.get(n, 0.0) + worth / field.lengths[n]
            for n, score in own.items():
                if score > best.get(n, 0.0):
                    best[n] = score
        if not scores and len(best) > MAX_CANDIDATES:
            best = {n: best[n] for n in sorted(best, key=best.__getitem__)[-MAX_CANDIDATES:]}
        return best


def _texts(tool: Tool) -> tuple[str, str, str, str]:
    properties: Any = tool.schema.get("properties")
    names = " ".join(map(str, cast("dict[str, Any]", properties))) if isinstance(properties, dict) else ""
    described = tool.description[:MAX_TEXT]
    end = _SENTENCE.search(described)
    summary, rest = (described, "") if end is None else (described[: end.start()], described[end.end() :])
    if tool.title:
        summary = f"{tool.title} {summary}"
    return spoken(tool.name), summary, rest, spoken(names)
