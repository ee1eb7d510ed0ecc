"""Makes HTML. Every text is escaped here, and every character that a page would not show is written out.

A browser shows `א > ב` as `ב < א`. So words that are written from right to left are kept apart, each in its place.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TypeAlias

from ...core.text import lazy_regex
from ...policy.plain import plain, plain_line

_RIGHT_TO_LEFT = lazy_regex("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefe\U00010800-\U00010fff\U0001e800-\U0001efff]+")
"""The blocks of Unicode with the letters of Hebrew, Arabic and others, and with what belongs to them."""
TEXT_ONLY = frozenset({"option", "textarea", "title"})
VOID = frozenset({"br", "input", "link", "meta"})


class Markup(str):
    """HTML that is complete. Only this file makes it."""

    __slots__ = ()


Child: TypeAlias = "Markup | str | float | Iterable[Child] | None"
"""What may be in an element. A text is escaped; None is nothing."""


def join(*children: Child) -> Markup:
    """Return the children one after the other."""
    return Markup("".join(map(_child, children)))


def prose(text: str) -> Markup:
    """Return a text for people who read it, and do not answer for each of its parts: in the order of its script."""
    return Markup(escape(plain(text)))


def el(tag: str, *children: Child, **attributes: str | int | bool | None) -> Markup:
    """Return an element. `class_` is the attribute `class`, `data_id` is `data-id`; True is an attribute without a
    value, None and False are left out."""
    given = "".join(
        f" {name.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{escape(plain_line(str(value)))}"')
        for name, value in attributes.items()
        if value is not None and value is not False
    )
    if tag in VOID:
        return Markup(f"<{tag}{given}>")
    inner = "".join(prose(str(each)) for each in children) if tag in TEXT_ONLY else join(*children)
    return Markup(f"<{tag}{given}>{inner}</{tag}>")


def _child(child: Child) -> str:
    if isinstance(child, Markup):
        return child
    if child is None:
        return ""
    if isinstance(child, str):
        return _RIGHT_TO_LEFT.sub(r"<bdi>\g<0></bdi>", prose(child))
    return str(child) if isinstance(child, int | float) else join(*child)
