"""Define the tree of a shell script: statements and the pieces of words, as `grammar` reads them, before expansion.

The classes are not frozen: a reading builds thousands of objects a second, and only this package sees them.
"""

from __future__ import annotations

from typing import TypeAlias

from ...core.dataclass import dataclass


class Unsure(Exception):
    """The error for a text that cannot be read with certainty. `rule` names the kind, `source` the place."""

    def __init__(self, reason: str, source: str = "", rule: str = "shell:syntax") -> None:
        super().__init__(reason)
        self.reason = reason
        self.source = source
        self.rule = rule


# Pieces of a word.


@dataclass(slots=True)
class Lit:
    """Literal text; unquoted text may still hold braces, a tilde or a glob."""

    text: str
    quoted: bool


@dataclass(slots=True)
class Param:
    """`$name` or `${name…}`; `prefix` is `#` (length) or `!` (indirect), `arg` the text after the operator."""

    name: str
    quoted: bool
    prefix: str = ""
    subscript: tuple[Piece, ...] | None = None
    op: str = ""
    arg: tuple[Piece, ...] = ()
    bare: bool = False  # without braces, so that letters after it would make its name longer
    zsh: str = ""  # what zsh reads as a part of it, and bash as text


@dataclass(slots=True)
class Subst:
    """`$(…)` or backticks."""

    body: tuple[Item, ...]
    quoted: bool


@dataclass(slots=True)
class Arith:
    """`$((…))`."""

    pieces: tuple[Piece, ...]
    quoted: bool


@dataclass(slots=True)
class Proc:
    """`<(…)` or `>(…)`."""

    body: tuple[Item, ...]
    write: bool


Piece: TypeAlias = Lit | Param | Subst | Arith | Proc


@dataclass(slots=True)
class Raw:
    """A word as it is written. `plain` is its text if nothing in it is special to the shell, else None."""

    source: str
    pieces: tuple[Piece, ...]
    plain: str | None = None


@dataclass(slots=True)
class Assign:
    """`name=value`, `name+=value`, `name[subscript]=value`, `name=(array)`."""

    name: str
    append: bool
    value: Raw
    subscript: tuple[Piece, ...] | None = None
    array: tuple[Raw, ...] | None = None


@dataclass(slots=True)
class Redir:
    """A redirection; a here-document's `body` is set when its lines have been read."""

    op: str
    fd: int | None
    target: Raw
    body: tuple[Piece, ...] | None = None


# Commands.


@dataclass(slots=True, kw_only=True)
class Node:
    """A command. `redirects` are those of a compound command."""

    redirects: tuple[Redir, ...] = ()


@dataclass(slots=True)
class Simple(Node):
    assigns: tuple[Assign, ...]
    words: tuple[Raw, ...]
    source: str


@dataclass(slots=True)
class PipedCommands(Node):
    """Commands joined by `|`; if there is only one, it is negated by `!`."""

    commands: tuple[Node, ...]


@dataclass(slots=True)
class AndOr(Node):
    """`first op node op node …`, left to right."""

    first: Node
    rest: tuple[tuple[str, Node], ...]


@dataclass(slots=True)
class Item:
    """A statement of a list, and whether `&` ended it."""

    node: Node
    background: bool = False


@dataclass(slots=True)
class Group(Node):
    body: tuple[Item, ...]
    subshell: bool


@dataclass(slots=True)
class If(Node):
    clauses: tuple[tuple[tuple[Item, ...], tuple[Item, ...]], ...]
    otherwise: tuple[Item, ...]


@dataclass(slots=True)
class While(Node):
    condition: tuple[Item, ...]
    body: tuple[Item, ...]
    until: bool = False


@dataclass(slots=True)
class For(Node):
    name: str
    words: tuple[Raw, ...]
    body: tuple[Item, ...]


@dataclass(slots=True)
class ArithFor(Node):
    pieces: tuple[Piece, ...]
    body: tuple[Item, ...]


@dataclass(slots=True)
class Case(Node):
    subject: Raw
    items: tuple[tuple[tuple[Raw, ...], tuple[Item, ...]], ...]


@dataclass(slots=True)
class Function(Node):
    name: str
    body: Node
    source: str


@dataclass(slots=True)
class Condition(Node):
    """`[[ … ]]`."""

    words: tuple[Raw, ...]


@dataclass(slots=True)
class Arithmetic(Node):
    """`(( … ))`."""

    pieces: tuple[Piece, ...]
