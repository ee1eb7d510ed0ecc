"""Define the notation in which the table describes a program's options and operands, and the objects it becomes.

A row is `names | operands | options | kinds and flags`; `git > log show | …` describes sub-commands. Operands are roles
in order: `"read*"` is any number of files that are read, `"text read*"` a pattern and then files, `"read* write"`
sources and a destination. Options are words of the form

    -n=          takes a value that is only text        -o=write     takes a value with a role
    -lat         three flags                            --rm!delete  a flag with an effect of that kind
    -i@write     a flag that gives the operands a role  -i?          may have a value attached (-O?=program: a role)
    -e=text*     may be given several times             -#           a number (`-20`)

Roles are kinds of effect on a path (`read`, `list`, `write`, `create`, `delete`, `move`, `modify`, `link`), `text`
(nothing), `name` (no assignment), `send` (a file that is sent away), `maybe` (a path only if it looks like one), `rev`
(a path or a revision of git), `packed` (a file that is read, perhaps with a suffix), `exec` (a file of code, or a
program that is run), `shell` (a command line), `program` (one that replaces another one), `format` (one of git's),
`host`, `url` and `remote` (`host:path` or a local path).

A *closed* row lists the harmless options of a program that only reads and prints: with these, and only these, it is
allowed. An *open* row is of a program about which a person or a sandbox decides anyway; it says only what makes its use
known harm. Values of options that it does not list count by the option's name (`roles.of_options`). `@name` in the last
field is the function that judges a use where operands and options alone do not say what it does; `options@name` adds
what the given options say, and `roles@name` what options and operands say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache

from ....core.dataclass import dataclass
from ....core.text import lazy_regex
from ..parts import Command, Effect, Word

Handler = Callable[["SortedWords"], Iterable[Effect]]
"""Yields the effects of a parsed call, if operands and options alone do not decide them."""


@dataclass(frozen=True, slots=True)
class ProgramOption:
    """One option: whether it takes a value, the value's role, a kind of effect, the operands' new role."""

    takes: bool = False
    role: str = "text"
    effect: str = ""
    operands: str = ""
    attached: bool = False
    repeats: bool = False


@dataclass(frozen=True, slots=True)
class Program:
    """The description of a program, or of one of its sub-commands, in the notation above.

    `does` are kinds of effect that every use has. With `subs` the first operand names a sub-command; the entry "" is
    for a call without one, "*" for any other. The flag `single` marks programs whose long options have one dash (find,
    openssl). A `harmful` program has options with which the name of a file in the workspace could do harm. A `wrapper`
    runs the words after its options and `skips` words more (`+1` in a row), unless one of `stops` is given. `anything`
    marks a program for which no word is an option that matters. After an operand an option is one more operand for many
    programs (of BSD, with musl): its value may be read. `ordered` marks those that would then do more than read,
    `permutes` those that find their options anywhere. `otherwise` (`!kind` in a row) is the kind of what a closed
    program does besides.
    """

    operands: str = "text*"
    options: str = ""
    does: tuple[str, ...] = ()
    subs: Mapping[str, Program] | None = None
    handler: Handler | None = None
    closed: bool = False
    single: bool = False
    harmful: bool = False
    wrapper: bool = False
    anything: bool = False
    ordered: bool = False
    permutes: bool = False
    otherwise: str = ""
    skips: int = 0
    stops: tuple[str, ...] = ()


@dataclass(slots=True, unsafe_hash=True)
class GivenOption:
    """A given option: its name in the table, what it does, and its value."""

    name: str
    option: ProgramOption
    value: Word | None


@dataclass(slots=True, unsafe_hash=True)
class SortedWords:
    """A program's words, sorted. `unsure` says that a word known only at run time could be an option.

    `unlisted` are options that the table does not list, `odd` the values that may belong to them, with their names.
    `rest` is the number of the first operand among the words if the program stops there; after an option that is not
    listed it may be one of `doubtful`, too.
    """

    name: str
    program: Program
    command: Command
    options: tuple[GivenOption, ...] = ()
    operands: tuple[Word, ...] = ()
    unsure: bool = False
    unlisted: tuple[str, ...] = ()
    odd: tuple[tuple[str, Word], ...] = ()
    above: SortedWords | None = None
    rest: int = 0
    doubtful: tuple[int, ...] = ()

    def has(self, *names: str) -> bool:
        """Return whether one of these options was given, listed or not."""
        return any(given.name in names for given in self.options) or any(name in names for name in self.unlisted)

    def values(self, *names: str) -> list[Word]:
        """Return the values given to these options."""
        return [given.value for given in self.options if given.name in names and given.value is not None]

    def texts(self) -> list[str | None]:
        """Return the operands as far as they are known."""
        return [word.text for word in self.operands]


def rows(text: str, table: dict[str, Program], handlers: Mapping[str, Handler], *, closed: bool) -> None:
    """Add the programs of some rows to a table. Raises ValueError if a use is described twice.

    `handlers` are the functions that rows name. The open row of a program with closed sub-commands is for all other
    sub-commands.
    """
    for line in text.replace("\\\n", " ").splitlines():
        names, operands, options, kinds = (*(field.strip() for field in line.split("|")), "", "", "")[:4]
        above, colon, below = names.partition(" > ")
        does = kinds.split()
        entry = Program(
            operands or "text*", options,
            tuple(kind for kind in does if kind not in _MARKS and kind.replace("-", "").isalpha()),
            handler=next((handlers[kind] for kind in does if "@" in kind), None),
            closed=closed, single="single" in does, harmful="harmful" in does, wrapper="wrapper" in does,
            anything="anything" in does, ordered="ordered" in does, permutes="permutes" in does,
            otherwise="".join(kind[1:] for kind in does if kind[0] == "!"),
            skips=sum(int(kind) for kind in does if kind[0] == "+"),
            stops=tuple(word[1:] for word in does if word[0] == "="),
        )  # fmt: skip
        for name in above.split():
            over = table.get(name)
            subs = below.split() if colon else ["*"] if over is not None else []
            if not subs:
                table[name] = entry
                continue
            over = over or Program(closed=True)
            found = dict(over.subs or {})
            for sub in subs:
                if sub in found or (not over.subs and not colon):
                    raise ValueError(f"{name} {sub} is in the table twice")
                found["" if sub == "-" else sub] = entry
            table[name] = replace(over, subs=found, options=over.options if colon else entry.options)


_MARKS = ("single", "harmful", "wrapper", "anything", "ordered", "permutes")
_OPTION = lazy_regex(
    r"(?P<name>--?(?:[^\s=!@?]+|[@?]))(?P<attached>\?)?(?P<role>=[a-z-]*)?(?P<repeats>\*)?(?P<effect>![a-z-]+)?(?P<operands>@[a-z]+)?"
)
_FLAGS = lazy_regex(r"-[A-Za-z0-9]{2,}")


@cache
def parse_options(text: str, single: bool = False) -> dict[str, ProgramOption]:
    """Return the options of a program by name. Raises ValueError if the text is not in the notation."""
    found: dict[str, ProgramOption] = {}
    for token in text.split():
        if not single and _FLAGS.fullmatch(token):
            found.update((f"-{letter}", ProgramOption()) for letter in token[1:])
            continue
        match = _OPTION.fullmatch(token)
        if match is None:
            raise ValueError(f"not an option of the table: {token}")
        role = match["role"]
        found[match["name"]] = ProgramOption(
            takes=role is not None and match["attached"] is None,
            role=(role or "=")[1:] or "text",
            effect=(match["effect"] or "!")[1:],
            operands=(match["operands"] or "@")[1:],
            attached=match["attached"] is not None,
            repeats=match["repeats"] is not None,
        )
    return found


@cache
def parse_operands(text: str) -> tuple[tuple[str, ...], str | None, tuple[str, ...]]:
    """Return the roles of the first operands, the role of all between (or None), and the roles of the last ones."""
    roles = text.split()
    for index, role in enumerate(roles):
        if role.endswith("*"):
            return tuple(roles[:index]), role[:-1], tuple(roles[index + 1 :])
    return tuple(roles), None, ()
