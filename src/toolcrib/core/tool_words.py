"""English words for the search of tools: stop words, synonyms, endings."""

from __future__ import annotations

import functools
import re

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

_WORD = re.compile(r"[^\W_]+")
_APART = bytes(code if chr(code).isalnum() else 32 for code in range(256))
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


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
