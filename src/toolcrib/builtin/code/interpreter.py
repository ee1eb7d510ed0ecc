"""What an interpreter says of the script that it runs. It has no files, network, clock waits or imports of its own:
everything that a script does goes through `ScriptCall`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ...core.dataclass import dataclass

MAX_CALLS = 500  # of one script; an interpreter refuses more at once
TOO_MANY = f"a script may make {MAX_CALLS} calls"
MAX_SIZE = 16 << 20
"""Characters of the arguments of all calls that wait, and of the value of a script."""
MAX_VALUES = 100_000
"""How many values these may have. Each of a call's is looked at several times, and no other call goes on meanwhile."""
TOO_LARGE = f"it is larger than {MAX_SIZE >> 20} MB as text, or has more than {MAX_VALUES:,} values"


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


def size_of(value: Any) -> int:
    """Return about how many characters a value would have as text; it stops to count above `MAX_SIZE`. Each value in it
    counts as a part of that, so that there cannot be more than `MAX_VALUES`.

    What is in a value several times counts each time: three lines of a script make a value that takes little memory in
    its process, and terabytes as text.
    """
    size, waiting = 0, [value]
    while waiting and size <= MAX_SIZE:
        item = waiting.pop()
        size += MAX_SIZE // MAX_VALUES
        if isinstance(item, str | bytes):
            size += len(item)
        elif isinstance(item, int):
            size += item.bit_length() // 3
        inside: Any = ()
        if isinstance(item, dict):
            held = cast("dict[Any, Any]", item)
            inside = (*held.keys(), *held.values())
        elif isinstance(item, list | tuple | set | frozenset):
            inside = cast("list[Any]", item)
        if len(waiting) + len(inside) > MAX_VALUES:
            return MAX_SIZE + 1
        waiting.extend(inside)
    return size
