"""Record where settings came from, and which settings of an untrusted file were ignored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ..core.empty import EMPTY
from ..core.text import clip, one_line
from .hide import hidden

if TYPE_CHECKING:
    from ..policy.rules.grammar import Rule
    from .files import ConfigFile


@dataclass(frozen=True, slots=True)
class Ignored:
    """A setting of an untrusted file that was ignored, fully or in part: its dotted key and the proposed value."""

    key: str
    value: Any

    def __str__(self) -> str:
        shown: Any = hidden(self.value, self.key.rsplit(".", 1)[-1])
        text = ", ".join(map(str, cast("list[Any]", shown))) if isinstance(shown, list) else str(shown)
        entry = cast("Mapping[str, Any]", shown) if isinstance(shown, Mapping) else EMPTY
        if "command" in entry:
            words: list[Any] = [entry["command"], *(entry.get("args") or [])]
            return one_line(f"{self.key} (runs `{' '.join(map(str, words))}`)")
        if "url" in entry:
            return one_line(f"{self.key} ({entry['url']})")
        return one_line(f"{self.key} = {clip(text, 200)}")


@dataclass(frozen=True, slots=True)
class Origin:
    """Where merged settings came from, and the warnings from reading them."""

    sources: Mapping[str, str] = EMPTY
    """The source of each value that is not a default, by dotted key."""
    warnings: tuple[str, ...] = ()
    """Warnings; each is shown to a person once."""
    ignored: tuple[Ignored, ...] = ()
    """Settings of untrusted files that were ignored."""
    trusted: bool = True
    """Whether every file that was read is trusted."""
    files: tuple[Path, ...] = ()
    """The files that were read, the one with the lowest priority first."""
    project: ConfigFile | None = None
    """The project file, trusted or not; None if it does not exist."""
    rules: tuple[Rule, ...] | None = None
    """The active rules of every layer, each with its origin. None for settings that were made in code."""
    imported: tuple[ConfigFile, ...] = ()
    """Files inside the workspace from which rules or servers were imported, trusted or not."""


MADE_IN_CODE = Origin()
