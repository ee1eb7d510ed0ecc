"""Deny commands that name a path outside the workspace: the setting `tools.exec.restrict_to_workspace`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...core.verdict import Judgement
from .effects import effects_of
from .judge import shown
from .kinds import PATH_KINDS
from .parts import Command, CommandPlace, Effect, Script, Word
from .paths import links_out
from .spots import find as find_path


def leaves_workspace(script: Script, place: CommandPlace) -> Judgement | None:
    """Return a denial for the first path outside the workspace (setting `restrict_to_workspace`): reads count, too."""
    for command in script.commands:
        for effect, word in _path_words(command):
            spot = find_path(word, effect.cwd or command.cwd, place) if effect else find_path(word, command.cwd, place)
            linked = links_out(spot.path, place, spot.pattern) if spot.pattern and place.on_disk else None
            if spot.where == "outside" or linked is not None:
                names = f"names {spot.path}, outside the workspace" if linked is None else linked.phrase
                phrase = f"{names} (tools.exec.restrict_to_workspace)"
                return Judgement("deny", f"`{shown(command)}` {phrase}", "exec:restrict_to_workspace")
    return None


def _path_words(command: Command) -> Iterator[tuple[Effect | None, Word]]:
    for effect in effects_of(command):
        if effect.kind in PATH_KINDS and isinstance(effect.target, Word):
            yield effect, effect.target
    for word in command.args:
        if word.start.startswith(("/", "~", "../", "file:")) or word.text == "..":
            yield None, word
        elif "=" in word.start:
            value = word.start.partition("=")[2]
            if value.startswith(("/", "~", "../", "file:")):
                yield None, replace(word, parts=(value, *word.parts[1:]))
