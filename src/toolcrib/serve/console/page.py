"""Lays out a page: the head, the views, what was said, and the parts that several views have."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterable, Mapping
from typing import Any, cast
from urllib.parse import urlencode

from ...builtin.diffs import changed_words
from ...core.dataclass import dataclass
from ...core.errors import ConfigError
from ...core.wings import has_wing
from ...policy.preview import fit, visible
from .html import Child, Markup, el, prose

MAX_ARGUMENTS = 100_000
_NAMES = {"inbox": "Inbox", "calls": "Calls", "sessions": "Sessions", "jobs": "Jobs", "schedules": "Schedules",
          "rules": "Rules", "servers": "Servers", "health": "Health"}  # fmt: skip
_WINGS = {"sessions": "agent", "jobs": "jobs", "schedules": "jobs"}
VIEWS = {view: name for view, name in _NAMES.items() if has_wing(_WINGS.get(view, "console"))}
"""The views of this installation by their addresses, which are all in one folder: links are names."""
LIVE = frozenset({"inbox", "calls", "sessions", "jobs", "schedules"})
"""Those of which more than the number of waiting calls is kept up to date."""


@dataclass(frozen=True, slots=True)
class Frame:
    """What every page has: the view, the secret of its forms, how many calls wait, and what an answer led to."""

    here: str
    form: str
    waiting: int = 0
    said: str = ""


def page(frame: Frame, title: str, *body: Child) -> str:
    """Return a page. Elements with `data-live` are kept up to date by the script."""
    count = f" ({frame.waiting})" if frame.waiting else ""
    links = [
        el("li", el("a", name, count if view == "inbox" else "", href=view,
                    aria_current="page" if view == frame.here else None))
        for view, name in VIEWS.items()
    ]  # fmt: skip
    return _document(
        f"{title}{count}",
        el("a", "Skip to the content", href="#main", class_="skip"),
        el(
            "header",
            el("strong", "Toolcrib"),
            el("nav", el("ul", *links, id="views", data_live=True), aria_label="Views"),
            el("p", "You may look here, and not answer or change anything.") if not frame.form else None,
            el("button", "Notify me of new ones", type="button", id="notify", hidden=True),
            el("p", "not connected: this page may be old", id="gone", hidden=True),
        ),
        el("main", el("h1", title), el("p", frame.said, id="said", role="status"), *body, id="main", tabindex=-1),
        el("footer", el("details", el("summary", "Keys"), el("p", KEYS), id="keys")),
        again="" if frame.here in LIVE else "views?" + urlencode({"here": frame.here, "title": title}),
        waiting=frame.waiting,
    )


KEYS = "j and k: next and previous call. a: approve once. d: deny, after a reason. x: choose, to answer several. \
?: this line. A key counts only for the call that has the focus."


def refused(title: str, text: str, *, inbox: bool = True) -> str:
    """Return a page for somebody who may not see more; with a link to the inbox if there is one at this address."""
    back = el("p", el("a", "To the inbox", href="inbox")) if inbox else None
    return _document(title, el("main", el("h1", title), el("p", text), back))


def entrance() -> str:
    """Return the page that takes a link from the terminal. The script sends it at once."""
    return _document(
        "Toolcrib console",
        el(
            "main",
            el("h1", "Toolcrib console"),
            el("p", "Open the link that `toolcrib console` printed at the terminal. It works once."),
            el(
                "form",
                el("label", "The part of the link after #: ", el("input", name="link", autocomplete="off")),
                el("button", "Open"),
                method="post", action="enter", id="enter",
            ),
        ),
    )  # fmt: skip


def _document(title: str, *body: Child, again: str | None = None, waiting: int = 0) -> str:
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("title", f"{title} - Toolcrib"),
        el("link", rel="icon", href="icon.svg"),
        el("link", rel="stylesheet", href="console.css"),
        el("script", type="module", src="console.js"),
    )
    return "<!doctype html>" + el("html", head, el("body", *body, data_again=again, data_waiting=waiting), lang="en")


def live(ident: str, *children: Child, name: str) -> Markup:
    """Return a part of a page that is kept up to date. Of its children, those with the id and the version of before
    stay as they are: opened, and with what somebody types in them."""
    return el("section", *children, id=ident, data_live=True, aria_label=name)


def form(frame: Frame, action: str, *children: Child, **hidden: str) -> Markup:
    """Return a form that posts, with the secret of this browser's forms; nothing for a browser that may only look."""
    if not frame.form:
        return Markup()
    fields = [el("input", type="hidden", name=name, value=value) for name, value in hidden.items()]
    secret = el("input", type="hidden", name="form", value=frame.form)
    return el("form", secret, *fields, *children, method="post", action=action)


def sure() -> Markup:
    """Return the second confirmation of a form that changes rules or trust."""
    return el("label", "Type yes ", el("input", name="sure", autocomplete="off", size=5))


def check_sure(given: Mapping[str, str], to: str) -> None:
    """Raise ConfigError if a form lacks that confirmation."""
    if given.get("sure", "").strip().lower() != "yes":
        raise ConfigError(f"{to}, type yes")


def link(text: Child, view: str, query: Mapping[str, str], *, item: bool = False) -> Markup:
    """Return a link to a view. The keys go from item to item."""
    return el("a", text, href=f"{view}?{urlencode(query, errors='replace')}", data_item=item)


def choice(name: str, known: Iterable[str], chosen: str) -> Markup:
    """Return a list to choose from; "" is any."""
    options = [el("option", each or "any", value=each, selected=each == chosen) for each in known]
    return el("label", name.capitalize(), el("select", *options, name=name))


def facts(found: Mapping[str, Child]) -> Markup:
    """Return what is known of a thing; what is empty is left out."""
    return el("dl", *(el("div", el("dt", name), el("dd", value)) for name, value in found.items() if value))


def number_of(text: str | None, most: int) -> int:
    """Return the number that an address has, at most this; this also for anything else."""
    return min(int(text), most) if text and text.isdecimal() and len(text) < 16 else most


def one_line(text: str) -> str:
    """Return a text in which line ends are written out."""
    return text.replace("\n", "\\n")


def folded(summary: Child, *children: Child, **attributes: str | int | bool | None) -> Markup:
    """Return what a person opens to read it."""
    return el("details", el("summary", summary), *children, **attributes)


def exact(text: str, *, diff: bool = True) -> Markup:
    """Return a text as it is, a line for each of its lines, all of it: what a person answers for is not scrolled away.
    If it is a diff, changed words are marked."""
    lines = visible(text).split("\n")
    marks = changed_words(lines) if diff else [()] * len(lines)
    return el("pre", *(_line(line, found) for line, found in zip(lines, marks, strict=True)))


def told(text: str) -> Markup:
    """Return what a model or a person wrote to the other."""
    return el("pre", prose(visible(fit(text, MAX_ARGUMENTS))))


def _line(line: str, marks: Iterable[tuple[int, int]]) -> Markup:
    kind = {"+": "added", "-": "removed"}.get(line[:1])
    parts: list[Child] = []
    at = 0
    for begin, end in marks if kind else ():
        parts += line[at:begin], el("mark", line[begin:end])
        at = end
    return el("span", *parts, line[at:], "\n", class_=kind)


def as_json(value: object) -> str:
    """Return data as text, a line for each part."""
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def read_arguments(given: Mapping[str, str]) -> dict[str, Any]:
    """Return the arguments that a form has as JSON. Raises ConfigError."""
    try:
        found: Any = json.loads(given.get("arguments", ""))
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"the arguments are not JSON: {error}") from None
    if not isinstance(found, dict):
        raise ConfigError("the arguments should be a JSON object, in braces")
    return cast("dict[str, Any]", found)


def arguments_of(text: str) -> str:
    """Return stored arguments, a line for each, cut in the middle if they are endless."""
    with contextlib.suppress(ValueError):  # cut off, or withheld
        text = as_json(json.loads(text))
    return fit(text, MAX_ARGUMENTS)


def clock(when: float) -> Markup:
    """Return a moment in local time."""
    return el("time", time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(when)))
