"""Find out what substitutions and pipes print, if that is certain."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .output import output
from .parts import Command, Stdin, Word
from .tree import Group, Item, Node, PipedCommands, Simple

if TYPE_CHECKING:
    from .reader import Reader


def describe_output(reader: Reader, body: tuple[Item, ...], found: tuple[Command, ...]) -> None:
    """Note what else is known of a substitution's output: it is names of files, or a single word."""
    node = body[0].node
    last = node.commands[-1] if isinstance(node, PipedCommands) else node
    if not isinstance(last, Simple) or not found or found[-1].source != last.source or found[-1].via != reader.via:
        return
    if (found[-1].name or "") in reader.state.functions:
        return
    from .listing import listed, prints_token

    if prints_token(found[-1]):
        reader.tokens.add(id(body))
    elif (names := listed(Stdin(None, found[-1:]))) is not None:
        reader.listings[id(body)] = names


def produced(reader: Reader, node: Node, found: tuple[Command, ...]) -> str | None:
    """Return the exact output of a simple command, or of a pipeline's last one, if it is known; else None."""
    if isinstance(node, Group) and not node.redirects:
        return together(reader, node, found)
    last = node.commands[-1] if isinstance(node, PipedCommands) else node
    if not isinstance(last, Simple) or not found or not last.words or (last.redirects and not last.redirects[0].body):
        return None
    command = found[-1]
    if command.via != reader.via or command.source != last.source or (command.name or "") in reader.state.functions:
        return None
    return output(command)


def together(reader: Reader, node: Group, found: tuple[Command, ...]) -> str | None:
    """Return the exact output of a group of simple commands, if it is known; else None."""
    if len(found) != len(node.body):
        return None
    texts = [
        produced(reader, item.node, (command,)) if isinstance(item.node, Simple) and not item.background else None
        for item, command in zip(node.body, found, strict=True)
    ]
    return None if None in texts else "".join(text for text in texts if text is not None)


def as_word(text: str | None) -> Word | None:
    """Return a word for known text."""
    return None if text is None else Word((text,))
