"""Makes HTML. Every text is escaped here, and every character that a page would not show is written out."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TypeAlias

from ...policy.plain import plain, plain_line

VOID = frozenset({"br", "input", "link", "meta"})


class Markup(str):
    """HTML that is complete. Only `el` and `join` make it."""

    __slots__ = ()


Child: TypeAlias = "Markup | str | float | Iterable[Child] | None"
"""What may be in an element. A text is escaped; None is nothing."""


def join(*children: Child) -> Markup:
    """Return the children one after the other."""
    return Markup("".join(map(_child, children)))


def el(tag: str, *children: Child, **attributes: str | int | bool | None) -> Markup:
    """Return an element. `class_` is the attribute `class`, `data_id` is `data-id`; True is an attribute without a
    value, None and False are left out."""
    given = "".join(
        f" {name.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{escape(plain_line(str(value)))}"')
        for name, value in attributes.items()
        if value is not None and value is not False
    )
    return Markup(f"<{tag}{given}>" if tag in VOID else f"<{tag}{given}>{join(*children)}</{tag}>")


def _child(child: Child) -> str:
    if isinstance(child, Markup):
        return child
    if child is None:
        return ""
    if isinstance(child, str):
        return escape(plain(child))
    return str(child) if isinstance(child, int | float) else join(*child)
