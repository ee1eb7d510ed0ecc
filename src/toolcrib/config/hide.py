"""Mask every value in the settings that is or may be a secret, so that they can be shown."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from ..policy.secrets.redact import Redactor

from ..core.settings import Section, annotations_of
from ..core.text import lazy_regex, without_path_keys

MASK = "***"

_NAME = lazy_regex(
    r"key(?!word)|token|secret|passw|passphrase|pwd|credential|cookie|authorization|bearer", re.IGNORECASE
)
# Limits and lists whose names look like secrets but whose values are not.
_HARMLESS = {"max_tokens"}
# Maps whose values a person wrote for a program: an environment, request headers.
_MAPS = {"env", "headers", "environment"}
# In each, the group is what is shown in front of the secret.
_USERINFO = r"(://)[^/@\s]+(?=@)"
_QUERY = r"(?i)(?<=[?&])((?=[^=&?\s]*(?:key|token|secret|passw|sig))[^=&?\s]++=)[^&\s]+"
_ARGUMENT = lazy_regex(r"(-(?=[\w-]*(?:key|token|secret|passw|auth))[\w-]++)(=|$)", re.IGNORECASE)
_ASSIGNED = r"(?i)((?<![\w-])(?=[\w-]*(?:key|token|secret|passw|auth))[\w-]++[=:]\s*+)[^\s\"';]+"
_SCHEME = r"(?i)\b((?:Bearer|Basic|Token)\s+)\S+"
_LOGIN = r"((?:^|\s)(?:-u\s*|--user[= ]\s*)[^\s:]+:)[^\s\"']+"
_WEBHOOK = r"(hooks\.slack\.com/services/|discord(?:app)?\.com/api/webhooks/)[^\s\"']+"
# Keys of a few issuers, matched from a length far below the real one: it does no harm to hide one setting too many. The
# redactor knows full-length keys, and those of all other issuers.
_KNOWN = (
    r"()\b(?:sk-[\w-]{16,}|gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|xox[abeprs]-[\w-]{10,}"
    r"|(?:AKIA|ASIA)[0-9A-Z]{16}|AIza[\w-]{30,}|[rs]k_(?:live|test)_\w{10,}|npm_\w{20,}|pypi-[\w-]{20,}"
    r"|\d{6,}:[\w-]{30,}|(?<!-)eyJ[\w-]{10,}\.[\w-]+\.[\w-]*)"
)


def is_secret_name(name: str) -> bool:
    """Return whether something with this name is probably a secret."""
    return bool(_NAME.search(name)) and name.lower() not in _HARMLESS


def hidden(value: Any, name: str = "") -> Any:
    """Return a copy with the secrets masked. `name` is the name of the value."""
    if isinstance(value, Mapping):
        items = cast("Mapping[str, Any]", value).items()
        if name.lower() in _MAPS:
            return {key: MASK for key, _ in items}
        return {key: hidden(inner, str(key)) for key, inner in items}
    if isinstance(value, list):
        # `sandbox.env` is a list of names, not of values, and is shown unchanged.
        return _arguments([hidden(item, name) for item in cast("list[Any]", value)])
    if isinstance(value, Path):
        return str(value)
    if value not in (None, "") and not isinstance(value, bool) and is_secret_name(name):
        return MASK
    return hidden_text(value) if isinstance(value, str) else value


def hidden_text(text: str) -> str:
    """Return a text with logins, secret query parameters, `TOKEN=…`, authorization values and known keys masked."""
    for pattern in (_USERINFO, _QUERY, _SCHEME, _LOGIN, _WEBHOOK, _KNOWN):
        text = re.sub(pattern, rf"\1{MASK}", text)
    text = without_path_keys(text)
    for span in reversed(_redactor().spans(text)):
        text = f"{text[: span.start]}{MASK}{text[span.end :]}"
    return re.sub(_ASSIGNED, rf"\1{MASK}", text)


@functools.cache
def _redactor() -> Redactor:
    from ..policy.secrets.redact import Redactor

    return Redactor()


def _arguments(items: list[Any]) -> list[Any]:
    """Return the arguments of a command, with the value after an option like `--token` masked too."""
    shown: list[Any] = []
    follows = False
    for item in items:
        found = _ARGUMENT.match(item) if isinstance(item, str) else None
        shown.append(MASK if follows else f"{found[1]}={MASK}" if found and found[2] else item)
        follows = found is not None and not found[2]
    return shown


def plain(value: Any, *, brief: bool = False) -> Any:
    """Return settings as plain data: tables, lists and the other types that a file can hold; paths become text.

    `brief` leaves out what the entries of maps and lists, such as one MCP server, do not set.
    """
    if isinstance(value, Section):
        return {name: plain(getattr(value, name), brief=brief) for name in annotations_of(type(value))}
    part = _entry if brief else plain
    if isinstance(value, Mapping):
        return {name: part(each) for name, each in cast("Mapping[str, Any]", value).items()}
    return [part(each) for each in cast("tuple[Any, ...]", value)] if isinstance(value, tuple | list) else value


def _entry(value: Any) -> Any:
    if not isinstance(value, Section):
        return plain(value, brief=True)
    fields = value.__dataclass_fields__
    pairs = ((name, getattr(value, name)) for name in annotations_of(type(value)))
    return {name: _entry(each) for name, each in pairs if each not in (fields[name].default, _made(fields[name]))}


def _made(field: dataclasses.Field[Any]) -> Any:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
