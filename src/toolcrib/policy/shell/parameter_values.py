"""Compute `${name}` and its operators, if they are simple enough to be certain."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from ...core.text import lazy_regex
from .lexer import NAME
from .shell_state import UNKNOWN, Array, State, Value, known
from .tree import Lit, Param

SECRET_NAME = lazy_regex(
    r"KEY|TOKEN|SECRET|PASS|CRED|AUTH|COOKIE|BEARER|SESSION|WEBHOOK|PRIVATE|SIGNING|CONNECTION|PROXY|_PWD\Z|UR[IL]S?\Z"
    r"|(?:\A|_)(?:PAT|JWT|PIN|OTP|TOTP|SAS|DSN|CONN|SALT|SEED|PW|MNEMONIC|WALLET|LICENSE|CERT)(?:\Z|_)",
    re.IGNORECASE,
)  # an address may hold a password
"""What the name of an environment variable contains if it may hold a secret."""


def stored(name: str, subscript: Value | None, state: State) -> Value | None:
    """Return the value of a variable, an element or a positional parameter; None if it may be unset."""
    if name.isdigit():
        index = int(name)
        if index == 0:
            return None if state.arg0 is None else (state.arg0,)
        items = state.arguments
        return None if items is None else items[index - 1] if index <= len(items) else ("",)
    if name == "#" and state.arguments is not None:
        return (str(len(state.arguments)),)
    if not NAME.fullmatch(name):
        return None
    value = state.get(name)
    if isinstance(value, Array):
        index = 0 if subscript is None else _index(known(subscript), len(value.items))
        return value.items[index] if index is not None and value.items else None
    return value if subscript is None else None


def _index(text: str | None, length: int) -> int | None:
    """Return a literal subscript inside the array, or None."""
    return int(text) if text is not None and text.isascii() and text.isdigit() and int(text) < length else None


def default(piece: Param, argument: Value) -> Value:
    """Return the word after `:-` and similar operators; unknown if quotes in it would decide how it splits."""
    text = known(argument)
    mixed = not piece.quoted and any(isinstance(inner, Lit) and inner.quoted for inner in piece.arg)
    if text is None or (mixed and re.search(r"[\s*?\[\\]", text)) or (not piece.quoted and "~" in text):
        return UNKNOWN
    return argument if text or not mixed else UNKNOWN


def computed(op: str, text: str, other: str) -> Value:
    """Apply an operator (prefix, suffix, substring, case, replacement) to known text, with plain arguments."""
    if op == ":":
        match = re.fullmatch(r" *([0-9]{1,6}|-[0-9]{1,6})(?: *: *([0-9]{1,6}))? *", other)
        if match is None or other.startswith("-"):
            return UNKNOWN
        start = int(match.group(1))
        if start < 0:
            if -start > len(text):
                return ("",)
            start += len(text)
        return (text[start:] if match.group(2) is None else text[start : start + int(match.group(2))],)
    if op in ("^^", ",,", "^", ",") and not other:
        changed = text.upper() if "^" in op else text.lower()
        return (changed if len(op) == 2 else changed[:1] + text[1:],)
    if op in ("#", "##", "%", "%%") and re.fullmatch(r"[\w*?/.,:@ -]*[*?][\w*?/.,:@ -]*", other):
        return (_stripped(op, text, other),)
    if re.search(r"[*?\[\\(&~]", other):
        return UNKNOWN
    if op in ("#", "##"):
        return (text.removeprefix(other),)
    if op in ("%", "%%"):
        return (text.removesuffix(other),)
    if op in ("/", "//") and "/" in other and not other.startswith(("/", "#", "%")):
        old, new = other.split("/", 1)
        return (text.replace(old, new, 1 if op == "/" else -1),)
    return UNKNOWN


def _stripped(op: str, text: str, pattern: str) -> str:
    """Remove the shortest (`#`, `%`) or longest (`##`, `%%`) start or end that matches a pattern of * and ?."""
    ends = range(len(text) + 1)
    cuts = ends if op in ("#", "%%") else reversed(ends)
    for cut in cuts:
        part = text[:cut] if op[0] == "#" else text[cut:]
        if fnmatchcase(part, pattern):
            return text[cut:] if op[0] == "#" else text[:cut]
    return text
