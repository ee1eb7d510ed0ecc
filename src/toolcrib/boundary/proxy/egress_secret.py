"""A secret that a command has as a placeholder: its proxy has the value (`egress`)."""

from __future__ import annotations

from dataclasses import field

from ...core.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class EgressSecret:
    """A secret that a command has as a placeholder. `hosts` may get its value, each as `host:port`. `forms` are the
    texts that an answer may show it as."""

    name: str
    placeholder: str
    value: str = field(repr=False)
    hosts: tuple[str, ...]
    forms: tuple[str, ...] = field(repr=False)
