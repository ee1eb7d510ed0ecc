"""Find what one command reads, writes, executes and connects to, by the table of programs.

`effects_of` looks a program up, sorts its words into options and operands, and says what each of them means. It does
not know the workspace: `judge` weighs the effects. Information-flow labels and previews read them, too.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from ...core.text import lazy_regex
from .parts import Command, Effect, Redirect, Word
from .roles import PATHISH, of_options, of_unsure, only_reads, plain
from .sorting import sort_words
from .table import lookup
from .table.closed import PRINTS, VERSIONS
from .table.interpreters import READ_SHELLS
from .table.loading_variables import assignment
from .table.program_spec import Program, SortedWords


def effects_of(command: Command) -> tuple[Effect, ...]:
    """Return everything one command does, as far as the table knows. Something unknown is an effect, too."""
    found: list[Effect] = list(_of_redirects(command.redirects)) if command.redirects else []
    if command.assigns:
        own = command.name in ("read", "mapfile", "readarray")  # these builtins sort their words in a different way
        for name, value in command.assigns:
            if name == "IFS" and own:
                continue
            found += assignment(name, value, exported=bool(command.words))
            if value.glob and not command.words:
                found.append(Effect("list", value))
    if command.words:
        found += _of_program(command)
        if not _RUNNING.isdisjoint(each.kind for each in found):
            found += _of_own_command(command)
        for word in command.words:
            if word.glob and (
                PATHISH.match(word.start) or word.source[:1] == "~"
            ):  # bash lists the folder, whatever the program does later
                found.append(Effect("list", word))
            elif word.glob and "/" in word.start and None not in word.parts:  # a link may lead out of the workspace
                folder = word.start.rpartition("/")[0]
                found.append(Effect("list", Word((folder,), folder, not {*folder}.isdisjoint("*?["))))
    return tuple(found)


def _of_redirects(redirects: Iterable[Redirect]) -> Iterator[Effect]:
    for redirect in redirects:
        if redirect.op in ("<<", "<<<") or redirect.target is None:
            continue
        target = redirect.target
        if redirect.op in (">&", "<&") and re.fullmatch(r"\d*-?", target.text or "x"):
            continue
        if target.start.startswith(("/dev/tcp/", "/dev/udp/")):
            yield Effect("reverse-shell", target, f"opens a connection through {target.start}", "shell:dev-tcp")
        else:
            kinds = {"<": ("read",), "<&": ("read",), "<>": ("read", "write")}.get(redirect.op, ("write",))
            yield from (Effect(kind, target) for kind in kinds)


def _of_program(command: Command) -> Iterable[Effect]:
    name = command.program
    if name is None:
        if command.name is None:
            return [Effect("unknown", command.words[0], "names its program only when it runs", "shell:unknown-program")]
        script = Effect("execute", command.words[0], f"runs {command.name}, whose code is not known", "shell:script")
        named = command.name.rpartition("/")[2]  # in a path with `..` it may be a known one
        known = lookup(named) if named == "toolcrib" or ".." in command.name.split("/") else None
        return [script, *(of_words(named, known, command.args, command) if known is not None else ())]
    known = lookup(name)
    if known is None:
        unknown = Effect("unknown", command.words[0], "is a program that is not known here", "shell:unknown-program")
        return [unknown, *of_words(name, _OTHER, command.args, command)]
    found = of_words(name, known, command.args, command)
    if not known.closed and name not in _OPENING:
        found = [replace(each, kind="create") if _is_device(each) else each for each in found]
    for at, word in enumerate(command.args if name.startswith(("python", "pypy")) else ()):
        option = _MODULE.fullmatch(command.words[at].text or "")
        named = word if option is not None and not option[1] else _MODULE.fullmatch(word.text or "")
        module = ((named.text if isinstance(named, Word) else named[1]) if named is not None else None) or ""
        module = module.removesuffix(".__main__")
        program = lookup(module) if module in _MODULES else None
        if program is not None:
            return [*found, *of_words(module, program, command.args[at + 1 :], command)]
    return found


def _of_own_command(command: Command) -> Iterator[Effect]:
    """Yield what answers for the person in `uv run toolcrib trust`: other programs may run what their words name."""
    for at, word in enumerate(command.args):
        known = lookup("toolcrib") if _OURS.fullmatch(word.text or "") else None
        rest = command.args[at + 1 :]
        rest = rest[1:] if rest and rest[0].text == "--" else rest
        if known is not None and not all(
            each.start.startswith("-") for each in rest
        ):  # not `conda install toolcrib -y`
            yield from (each for each in of_words("toolcrib", known, rest, command) if each.kind == "person")


_RUNNING = frozenset({"unknown", "execute", "install", "fetch-and-run", "check", "container"})
_OURS = lazy_regex(r"(?:.*[/#])?toolcrib(?:@.*|\.\w+)?")
_OPENING = frozenset({"tee", "dd", "curl", "wget"})  # others can put a new file in the place of what is there


def _is_device(effect: Effect) -> bool:
    target = effect.target.start if isinstance(effect.target, Word) else ""
    return effect.kind == "write" and posixpath.normpath(f"/{target.lstrip('/')}").startswith("/dev/")


_MODULE = lazy_regex(r"-[A-Za-z]*?m(.*)")
_MODULES = ("pip", "toolcrib")
"""What `python -m` runs as the program of this name."""
_HELP = ("--help", "--version")
_OTHER = Program("maybe*")


def of_words(
    name: str, known: Program, words: Sequence[Word], command: Command, above: SortedWords | None = None
) -> Iterable[Effect]:
    """Return the effects of a program with these words; sub-commands are followed."""
    said = words[0].text if len(words) == 1 and above is None else None
    if said in _HELP and ((known.closed and known.subs is None) or _plain_name(name) in VERSIONS):
        return []
    if said in PRINTS.get(_plain_name(name), ()):
        return []
    call = sort_words(name, known, words, command, above)
    if known.subs is None:
        if known.handler is None:
            return plain(call)
        found = [*known.handler(call), *of_unsure(call)]
        reads = only_reads(known, found) and name not in READ_SHELLS  # what a shell runs is read by itself
        return [*found, Effect("unknown")] if reads else found
    found = list(known.handler(call) if known.handler is not None else of_options(call))
    if not call.operands:
        below = known.subs.get("")
        if below is None and known.closed and not call.unlisted:
            return found
        below = below or known.subs.get("*")
        return [*found, *(of_words(name, below, (), command, call) if below else [])]
    text = call.operands[0].text
    below = known.subs.get(text) if text else None
    rest = call.operands[1:]
    if below is None:
        below, rest = known.subs.get("*"), call.operands
    if below is None:
        said = f"is a use of {name} that is not known here"
        unknown = Effect("unknown", call.operands[0], said, "shell:unknown-use")
        return [*found, unknown, *of_words(f"{name} {text}", _OTHER, rest, command)]
    return [*found, *of_words(f"{name} {text}", below, rest, command, call)]


def _plain_name(name: str) -> str:
    return name if name in VERSIONS else re.sub(r"(?<![\d.-])[\d.-]+\Z|(?<=mkfs)\..*", "", name)
