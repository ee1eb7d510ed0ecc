"""What an interpreter says of the script that it runs. It has no files, network, clock waits or imports of its own:
everything that a script does goes through `ScriptCall`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...core.dataclass import dataclass

MAX_CALLS = 500  # of one script; an interpreter refuses more at once
TOO_MANY = f"a script may make {MAX_CALLS} calls"


@dataclass(frozen=True, slots=True)
class ScriptCall:
    """One call that a script makes: the function's name and its arguments."""

    name: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ScriptWaiting:
    """All parts of the script wait for calls. `asked` are the new ones, by number; `pending` all that wait."""

    asked: Mapping[int, ScriptCall]
    pending: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ScriptEnded:
    """The script has ended with the value of its last expression."""

    value: Any


@dataclass(frozen=True, slots=True)
class ScriptFailed:
    """The script ended by an error, or was not run: `text` is what a programmer needs. `unchecked`: it never ran."""

    text: str
    unchecked: bool = False


Step = ScriptWaiting | ScriptEnded | ScriptFailed
