"""Look up what a program reads, writes, executes and connects to. The data is in families, loaded on first use."""

from __future__ import annotations

from functools import lru_cache

from .spec import Program, spread


@lru_cache(maxsize=1)
def _table() -> dict[str, Program]:
    from . import archives, containers, files, git, interpreters, network, packages, shell, system, text

    table: dict[str, Program] = {}
    for family in (files, text, archives, shell, system, network, git, packages, containers, interpreters):
        for name, entry in spread(family.PROGRAMS).items():
            if name in table:
                raise ValueError(f"{name} is in the table twice")
            table[name] = entry
    return table


def lookup(name: str) -> Program | None:
    """Return what is known of a program with this plain name, or None."""
    found = _table().get(name)
    if (found is None and name[-1:].isdigit()) or "." in name:
        return _versioned(name)
    return found


def _versioned(name: str) -> Program | None:
    """Return the program without its version or kind: `python3.12`, `gcc-13`, `mkfs.ext4`."""
    table = _table()
    found = table.get(name)
    if found is not None:
        return found
    plain = name.rstrip("0123456789.").rstrip("-")
    return table.get(plain) or table.get(name.partition(".")[0] + ".*")


def names() -> list[str]:
    """Return the names of all programs in the table."""
    return sorted(_table())
