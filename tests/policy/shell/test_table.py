"""The table of programs is well formed: every option, operand and kind in it is one that the judgement knows."""

from __future__ import annotations

from collections.abc import Iterator

from toolcrib.policy.shell.kinds import KINDS, PATH_KINDS
from toolcrib.policy.shell.table import lookup, names
from toolcrib.policy.shell.table.spec import Program, parse_operands, parse_options

ROLES = {
    *PATH_KINDS, *KINDS, "text", "maybe", "maybelist", "remote", "remotewrite", "host", "url", "program", "exec",
    "shell", "data", "names", "gitsetting", "aptsetting", "volume", "mount-option", "hostspace", "hostnet", "security",
}  # fmt: skip


def entries(name: str, program: Program) -> Iterator[tuple[str, Program]]:
    yield name, program
    for below, entry in (program.subs or {}).items():
        yield from entries(f"{name} {below}", entry)


def test_entries_are_well_formed() -> None:
    for name in names():
        check_entry(name)


def check_entry(name: str) -> None:
    program = lookup(name)
    assert program is not None
    for where, entry in entries(name, program):
        first, rest, last = parse_operands(entry.operands)
        assert {*first, *last, *([rest] if rest else [])} <= ROLES, where
        for option in parse_options(entry.options).values():
            assert option.role in ROLES, where
            assert not option.effect or option.effect in KINDS, (where, option)
            assert not option.operands or option.operands in ROLES, where
        assert set(entry.does) <= set(KINDS), where
