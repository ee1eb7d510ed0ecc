"""Find what a script sends to another machine, and what it changes through links that it makes itself."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import replace

from .command_flow import FETCHERS, feeders
from .effects import effects_of
from .kinds import PATH_KINDS
from .parts import Command, CommandPlace, Effect, Script, Word
from .shell_state import join_path
from .spots import find

LINKERS = frozenset({"ln", "link", "cp"})
_LOCAL = frozenset({"links", "host", "dig", "nslookup"})


def carried_off(script: Script, place: CommandPlace) -> Iterator[Command]:
    """Yield commands that send their input from a pipe, if it is the environment or lies outside the workspace."""
    for command in script.commands:
        if command.program not in FETCHERS - _LOCAL:
            continue
        sources = list(feeders(command))
        sources += [other for other in script.commands if _in_words(other, command)]
        if any(_tells(source, place) for source in sources if source is not command):
            yield command


def _in_words(inner: Command, outer: Command) -> bool:
    """Return whether a command is in a substitution of another command's words."""
    return bool(inner.source) and any(
        ("$(" in word.source or "`" in word.source) and inner.source in word.source for word in outer.args
    )


def _tells(command: Command, place: CommandPlace) -> bool:
    """Return whether a command prints the environment, or files from outside the workspace."""
    for effect in effects_of(command):
        if "shell:environment" in (effect.rule, f"shell:{effect.kind}") or (
            effect.kind == "unknown" and "environment" in effect.reason
        ):
            return True
        if effect.kind == "read" and isinstance(effect.target, Word):
            spot = find(effect.target, effect.cwd or command.cwd, place)
            if spot.where == "outside" and not spot.path.startswith("/dev/"):
                return True
    return False


def through_links(script: Script, place: CommandPlace) -> Iterator[tuple[Command, Effect]]:
    """Yield effects on paths below a link that the script made before, with the link's target as the path."""
    links: dict[str, str] = {}
    for command in script.commands:
        if links:
            for effect in effects_of(command):
                target = effect.target
                if effect.kind in PATH_KINDS and effect.kind != "link" and isinstance(target, Word):
                    there = _beyond(target, effect.cwd or command.cwd, links, effect.kind, place)
                    if there is not None:
                        yield command, replace(effect, target=there)
        if command.program in LINKERS:
            links.update(_made(command, place))


def _made(command: Command, place: CommandPlace) -> Iterator[tuple[str, str]]:
    words = [word for word in command.args if not word.start.startswith("-")]
    if command.program == "cp" and not any(
        word.text in ("-s", "-l", "--symbolic-link", "--link") for word in command.args
    ):
        return
    if len(words) != 2 or command.cwd is None:
        return
    to, at = words[0].text, words[1].text
    if not to or not at:
        return
    link = _absolute(at, command.cwd, place.home)
    yield link, _absolute(to, posixpath.dirname(link) if not to.startswith("/") else "/", place.home)
    yield f"{link.rstrip('/')}/{posixpath.basename(to.rstrip('/'))}", _absolute(to, command.cwd, place.home)


def _absolute(text: str, folder: str, home: str) -> str:
    return join_path(folder, f"{home}{text[1:]}" if text == "~" or text.startswith("~/") else text) or "/"


def _beyond(word: Word, cwd: str | None, links: dict[str, str], kind: str, place: CommandPlace) -> Word | None:
    start = word.start
    if not start or cwd is None:
        return None
    full = _absolute(start, cwd, place.home) + ("/" if start.endswith("/") and len(start) > 1 else "")
    for link, target in links.items():
        if full == link and kind in ("delete", "move") and not start.endswith("/"):
            continue  # the link itself is deleted or moved, not its target
        if full == link or full.startswith(f"{link}/"):
            return replace(word, parts=(f"{target.rstrip('/')}{full[len(link) :]}", *word.parts[1:]), source="")
    return None
