"""Judge whether a shell command may run: the strictest judgement of its parts, with one reason."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Literal

from ...boundary.hidden_entries import homes_in
from ...boundary.host_files import ENVIRONMENT, RULE_HOST_FILES
from ...boundary.protected_names import RULE_PROTECTED, holds_protected
from ...core.errors import ConfigError
from ...core.text import clip, lazy_regex, one_line
from ...core.verdict import Judgement
from ..preview import cut_reason
from .command_flow import FETCHERS, ORIGINS, SWEEPING, swept, tainted
from .effects import effects_of
from .hosts import is_metadata
from .kinds import KINDS, PATH_KINDS
from .parts import Command, CommandPlace, Effect, Script, Word
from .paths import Finding, behind_link, links_out, odd_names
from .paths import judge as judge_path
from .planted import chosen_program, planted_program
from .reading import read_script, shifting
from .repository import beyond_command, folder_is_unknown, shows_password
from .roles import SHELL_ONLY
from .sent import LINKERS, carried_off, through_links
from .spots import find as find_path
from .spots import is_below
from .table import lookup
from .table.program_spec import Program
from .table.wordlist import words
from .wrappers.shells import source

log = logging.getLogger(__name__)

MAX_DEPTH = 5  # the largest depth of command lines inside command lines
_SHOWN = 80
_FINDERS = (("find",), ("gfind",), ("fd",), ("fdfind",))
# A command's changes in the workspace: if they are held back, there is no need to ask before it runs.
_HELD = frozenset(f"shell:{kind}" for kind in PATH_KINDS if kind not in ("read", "list", "send", "link"))
# Questions that a wall answers in which a command can only read: it prints what it may see, or fails.
_READING = words(
    "shell:unknown-option shell:unknown-use shell:unknown-path shell:arithmetic shell:check shell:named shell:variable "
    "shell:environment shell:other-shell shell:other-time"
)
# What the judgement does not compute, and a person has to look at, in a sandbox too.
_UNREAD = words("shell:pattern shell:computed-name shell:evaluated shell:rare")
# The shell's own commands, for which only its own variables count.
_IN_SHELL = words("export declare typeset local readonly echo printf cd test [ : true false set unset read")
_PLACERS = ("which", "command", "type")  # they print where a program is
# They set modes or times, which Landlock's wall refuses.
_SETTERS = frozenset({"touch", "chmod", "chown", "chgrp", "install", "tar", "bsdtar", "unzip", "rsync"})
# What a sandbox with processes and a network of its own makes harmless.
_APART = frozenset({"process", "serve", "editor"})
_FOLLOW = frozenset({"diff", "sdiff", "zdiff"})  # they read what the links in two folders lead to
# They change a Python environment: with these the project's own is installed into.
_INSTALLERS = lazy_regex(
    r"(?:pip|python)[\d.]*|uv|poetry|pdm|pipenv|hatch|rye|(?:micro)?(?:mamba|conda)|easy_install|(?P<node>npm|pnpm|yarn|bun)"
)
_INSTALLING = words("install uninstall add remove sync")
_INSTALLING_NODE = _INSTALLING | words("i ci rm un update up upgrade dedupe prune link rebuild")

# Positional parameters: usually a command line has none, and they expand to nothing (`r$@m -rf /` becomes `rm -rf /`).
_ARGUMENTS = lazy_regex(r"\$(?:[@*1-9]|\{[@*1-9]+\})")
_ADDRESS = lazy_regex(r"(?!file:)\w+://|pkcs11:|org\.openssl\.", re.IGNORECASE)
_ENDLESS = frozenset({"dev/zero", "dev/full", "dev/urandom", "dev/random"})
ALLOWED = Judgement("allow", "it only reads inside the workspace, prints or inspects", "shell:read-only", wall="read")


def judge_command(
    command: str, place: CommandPlace, depth: int = 0, *, typed: bool = False, sh: bool = False
) -> Judgement:
    """Return the judgement of a command line. Never raises: a command that cannot be judged is denied with a reason.

    `typed`: a running shell gets it as its input. `sh`: this shell may read it."""
    try:
        found = judge_script(read_script(command, place.cwd, place.home, typed=typed, sh=sh), place, depth)
        if found.verdict == "ask" and _ARGUMENTS.search(command):
            bare = judge_script(read_script(command, place.cwd, place.home, True, typed, sh), place, depth)
            return bare if bare.verdict == "deny" else found
        return found
    except RecursionError:
        return Judgement("deny", "the command is nested too deeply to be judged", "shell:too-deep")
    except ConfigError as error:  # what the host runs here is not known
        return Judgement("deny", str(error), "shell:failed")
    except Exception as error:
        log.exception("a command could not be judged")
        said = f"the judgement of this command failed: {type(error).__name__}: {error}"
        return Judgement("deny", said, "shell:failed")


def changes_only_repositories(command: str, place: CommandPlace) -> bool:
    """Return whether a command line runs nothing but git and commands that read, and nothing that cannot be judged."""
    script = read_script(command, place.cwd, place.home)
    if script.problems or not {found.rule for found in judgements(script, place, 0)} <= _OF_GIT:
        return False
    return all(each.program == "git" or judge_script(Script((each,)), place).wall == "read" for each in script.commands)


_OF_GIT = {RULE_PROTECTED, "shell:create", "shell:change", "shell:git-change", "shell:network"}


def judge_script(script: Script, place: CommandPlace, depth: int = 0) -> Judgement:
    """Return the judgement of a script that was read: the strictest of its parts. It says which part that was, and
    names all like it, because a yes for the session is for what it says."""
    best: Judgement | None = None
    asking: dict[str, str] = {}
    unknown = True
    for found in judgements(script, place, depth):
        if found.verdict == "deny":
            return found
        if place.walled and not place.contained and found.rule in _READING and found.unknown:
            continue
        if found.rule == "shell:variable" and all(c.name in _IN_SHELL for c in script.commands if c.words):
            continue
        if place.held and found.rule in _HELD and not found.unknown:  # a person will see what it does
            found = replace(found, unknown=True)
        unknown = unknown and found.unknown
        if not found.unknown:
            asking[found.reason] = found.rule or ""
        if best is None or (best.unknown and not found.unknown) or (found.insists and not best.insists):
            best = found
    if best is None and place.on_disk and not _is_walled(place) and (shifts := shifting(script)) is not None:
        phrase = f"{shifts[1]}; without a sandbox around it only a plain line runs unasked"
        return _say(shifts[0], Finding("ask", "shell:shifting", phrase, True))
    if best is None:
        return ALLOWED
    alike = [reason for reason, rule in asking.items() if rule == best.rule]
    if len(alike) > 1 and best.reason in alike:
        command = f"{alike[0].partition('` ')[0]}` "
        said = "; ".join([alike[0], *(each.removeprefix(command) for each in alike[1:])])
        best = replace(best, reason=cut_reason(said))
    return best if best.unknown == unknown else replace(best, unknown=unknown)


def judgements(script: Script, place: CommandPlace, depth: int) -> Iterator[Judgement]:
    """Yield every judgement against a script; denials for its structure come first."""
    for problem in script.problems:  # without a sandbox a person looks at what we cannot read
        answered = place.contained or not place.walled or problem.rule in _READING
        answered = answered and problem.rule not in _UNREAD
        yield Judgement(problem.verdict, problem.reason, problem.rule, unknown=problem.verdict == "ask" and answered)
    wrapped = {name for command in script.commands for name in command.via}
    programs = {command.program for command in script.commands}
    sought = {word.text or "" for each in script.commands if each.program in _PLACERS for word in each.args}
    for command in script.commands:
        yield from _of_command(command, command.program, place, wrapped, depth, sought)
    for command, kind, roots in () if programs.isdisjoint(SWEEPING) else swept(script):
        for root in roots:
            finding = judge_path(kind, root, command.cwd, place)
            harm = finding is not None and finding.verdict == "deny" and finding.rule != "shell:delete-workspace"
            if finding is not None and (harm or kind == "read"):
                yield _say(command, finding)
    if place.on_disk and not _is_walled(place):
        from .walked import secrets_walked

        yield from (_say(command, finding) for command, finding in secrets_walked(script, place))
    for command, effect in () if programs.isdisjoint(LINKERS) else through_links(script, place):
        yield from (found for found in _of_effect(command, effect, place, depth) if found.verdict == "deny")
    for command in () if programs.isdisjoint(FETCHERS) else carried_off(script, place):
        yield _say(command, Finding("deny", "shell:exfiltration", KINDS["exfiltration"].phrase))
    for command, kind, reason in () if programs.isdisjoint(ORIGINS) else tainted(script):
        yield _say(command, Finding(KINDS[kind].verdict, f"shell:{kind}", reason or KINDS[kind].phrase))


def _is_walled(place: CommandPlace) -> bool:
    return place.walled or place.contained


def _of_command(
    command: Command, name: str | None, place: CommandPlace, wrapped: set[str], depth: int, sought: set[str]
) -> Iterator[Judgement]:
    effects = effects_of(command)
    if installs := _installs(command, effects):
        for own in place.host_files():
            if own.reason == ENVIRONMENT if installs == "python" else own.path.endswith("/node_modules"):
                phrase = f"may install or remove packages in {own.path}: {own.reason}"
                yield _say(command, Finding("ask", RULE_HOST_FILES, phrase))
    if place.program_folders and not place.contained and (planted := planted_program(command, place, sought)):
        phrase = f"would run {planted}, a program of the workspace, and no sandbox is around it"
        yield _say(command, Finding("ask", "shell:workspace-program", phrase))
    if name and place.on_disk and not _is_walled(place) and (at := chosen_program(name, command, place)):
        phrase = f"runs or loads what {at} names in the workspace, and no sandbox is around it"
        yield _say(command, Finding("ask", "shell:workspace-program", phrase))
    if name == "git" and place.on_disk and not place.contained:
        if folder_is_unknown(command):
            phrase = "works in a repository that is known only when it runs"
            yield _say(command, Finding("ask", "shell:unknown-path", phrase, True))
        elif beyond := beyond_command(command, place):
            yield _say(command, Finding("ask", "shell:git-settings", f"{beyond}, and no sandbox is around it"))
    if place.on_disk and not _is_walled(place) and command.cwd is not None:
        if name == "git" and (told := shows_password(command, place)):
            yield _say(command, Finding("ask", "shell:environment", f"may show the password in {told}", True))
        for word in command.args:
            goes = name in ("cd", "chdir", "pushd")
            odd = odd_names(word, command.cwd) if word.glob else behind_link(word, command.cwd) if goes else None
            if odd is not None:
                yield _say(command, odd)
    for effect in effects:
        if place.walled and not place.contained and _fails_behind_wall(name, command, effect, place):
            phrase = "makes or moves a file next to `.git` and the like, or sets modes or times: here that takes a yes"
            yield _say(command, Finding("ask", "shell:beyond-wall", phrase))
        yield from _of_effect(command, effect, place, depth)
    if command.words:
        known = lookup(name) if name else None
        if command.cwd is None or not is_below(command.cwd, place.workspace):
            yield from _of_place(command, known, place)
        if name in ("source", ".") and (command.given is None or not any(source(command.words, None))):
            wrapped = set()  # another one was read, but not this one
        if known is not None and known.wrapper and name not in wrapped and command.name not in wrapped:
            yield from _of_wrapper(command, known)


def _fails_behind_wall(name: str | None, command: Command, effect: Effect, place: CommandPlace) -> bool:
    """Return whether a change in the workspace is refused where a command runs behind a wall of Landlock: next to a
    protected name nothing can be made, moved or removed, and no modes and times can be set."""
    if effect.kind == "modify" or (effect.kind == "change" and name == "git"):
        return True
    if effect.kind not in ("write", "create", "move") or not isinstance(effect.target, Word):
        return False
    if name in _SETTERS:
        return True
    spot = find_path(effect.target, effect.cwd or command.cwd, place)
    if not place.on_disk or spot.where != "workspace":
        return False
    folder = spot.path if spot.below else os.path.dirname(spot.path)
    return (effect.kind == "move" or not os.path.lexists(spot.path)) and _holds_protected(folder, place)


def _holds_protected(folder: str, place: CommandPlace) -> bool:
    if holds_protected(folder) or folder in homes_in(place.workspace):
        return True
    return any(os.path.dirname(each.path) == folder for each in place.host_files())


def _installs(command: Command, effects: Iterable[Effect]) -> Literal["python", "node"] | None:
    """Return whose packages a command changes, also if its program is named by a path into an environment."""
    found = _INSTALLERS.fullmatch((command.name or "").rpartition("/")[2])
    if found is None:
        return None
    verbs = _INSTALLING_NODE if found["node"] else _INSTALLING
    if any(effect.kind == "install" for effect in effects) or any(word.text in verbs for word in command.args):
        return "node" if found["node"] else "python"
    return None


def _of_place(command: Command, known: Program | None, place: CommandPlace) -> Iterator[Judgement]:
    """Yield the listing of another directory: a program that runs there looks at it, unless it only prints."""
    if known is not None and known.operands == "text*" and known.subs is None and known.handler is None:
        return
    finding = judge_path("list", Word((".",)), command.cwd, place)
    if finding is not None:
        yield _say(command, finding)


def _of_wrapper(command: Command, known: Program) -> Iterator[Judgement]:
    """Ask about a program that runs its operands. It is harmless only if they were read, too; here they were not."""
    if any(word.text in known.stops for word in command.args[:1]):
        return
    if any(not (word.text or "").startswith("-") for word in command.args):
        yield _say(command, Finding("ask", "shell:unknown-code", "runs a program that cannot be read off it", True))


def _of_effect(command: Command, effect: Effect, place: CommandPlace, depth: int) -> Iterator[Judgement]:
    if effect.kind == "shell":
        yield from _of_nested(command, effect, place, depth)
        return
    if effect.code is not None:
        yield from _of_code(command, effect, place, depth)
        return
    if effect.kind in PATH_KINDS:
        target = effect.target if isinstance(effect.target, Word) else Word((effect.target,))
        if effect.kind == "read" and (target.text or "").strip("/") in _ENDLESS and command.name not in ("head", "dd"):
            yield _say(command, Finding("ask", "shell:endless", "reads a device that has no end", True))
        if effect.kind == "read" and _ADDRESS.match(target.start):  # `openssl x509 -in http://…`
            yield _say(command, Finding("ask", "shell:network", KINDS["network"].phrase))
        found = command.via[-1:] in _FINDERS
        finding = judge_path(effect.kind, target, effect.cwd or command.cwd, place, found=found)
        if finding is None and effect.kind == "read" and command.name in _FOLLOW and place.on_disk:
            spot = find_path(target, effect.cwd or command.cwd, place)
            if not _is_walled(place) and spot.where != "stream" and os.path.isdir(spot.path):
                finding = links_out(spot.path, place)
        if finding is not None and finding.rule == "shell:delete" and command.name == "truncate":
            finding = finding._replace(unknown=_can_be_undone(target, effect.cwd or command.cwd, place))
        if finding is not None:
            yield _say(command, finding)
        return
    kind = KINDS[effect.kind]
    if effect.kind == "network" and effect.target is not None:
        parts = effect.target.parts if isinstance(effect.target, Word) else (effect.target,)
        if is_metadata("".join(part or "" for part in parts)):
            kind, effect = KINDS["metadata"], replace(effect, kind="metadata", reason="", rule="")
    if effect.kind == "fetch-and-run" and _is_installed(effect.target, command, place):
        kind, effect = KINDS["execute"], replace(effect, kind="execute", reason="runs a program of the project")
    if effect.kind in _APART and place.contained and place.scratch:
        kind = kind._replace(unknown=True)
    rule = effect.rule or f"shell:{effect.kind}"
    found = _say(command, Finding(kind.verdict, rule, effect.reason or kind.phrase, kind.unknown))
    yield replace(found, insists=True) if rule == RULE_PROTECTED and place.contained else found


def _can_be_undone(target: Word, cwd: str | None, place: CommandPlace) -> bool:
    spot = find_path(target, cwd, place)
    return place.undo_covers is not None and not spot.below and place.undo_covers(spot.path)


def _is_installed(program: Word | str | None, command: Command, place: CommandPlace) -> bool:
    """Return whether npx would run a program that the project has installed."""
    name = program.text if isinstance(program, Word) else program
    folder = command.cwd or place.cwd
    if not place.on_disk or not name or not re.fullmatch(r"[\w.-]+", name) or not is_below(folder, place.workspace):
        return False
    return os.path.lexists(f"{folder}/node_modules/.bin/{name}")


def _of_nested(command: Command, effect: Effect, place: CommandPlace, depth: int) -> Iterator[Judgement]:
    """Judge a command line inside a program's own language. The best verdict for it is "ask"."""
    target = effect.target
    text = target.text if isinstance(target, Word) else target
    phrase = effect.reason or "runs a command from inside another program"
    if text is not None and SHELL_ONLY.fullmatch(text.strip()):
        yield _say(command, Finding("deny", "shell:spawn-shell", "starts a shell from inside another program"))
    if text is not None and depth < MAX_DEPTH:
        inner = replace(place, cwd=effect.cwd or command.cwd or place.cwd)
        found = judge_command(text, inner, depth + 1)
        if found.verdict != "allow":
            yield found
    elif text is not None:
        yield _say(command, Finding("deny", "shell:too-deep", "is nested too deeply to be judged"))
    yield _say(command, Finding("ask", "shell:unknown-code", phrase, True))


def _of_code(command: Command, effect: Effect, place: CommandPlace, depth: int) -> Iterator[Judgement]:
    from .inline_code import effects_of_code

    language, text = effect.code or ("", "")
    for found in effects_of_code(language, text):
        yield from _of_effect(command, found, place, depth)
    yield _say(command, Finding("ask", "shell:unknown-code", effect.reason or f"runs {language} code", True))


def _say(command: Command, finding: Finding) -> Judgement:
    """Return a finding as a sentence that begins with the command."""
    name = shown(command)
    text = f"{f'`{name}`' if name else 'a part of the line'} {finding.phrase}"
    return Judgement(finding.verdict, text, finding.rule, finding.unknown, finding.rule == RULE_HOST_FILES)


def shown(command: Command) -> str:
    """Return a command on one line, short enough for a sentence."""
    text = command.source or " ".join(word.source or word.text or "…" for word in command.words)
    return clip(one_line(text).replace("`", "'"), _SHOWN)


def brings_in(command: str, root: str) -> bool:
    """Return whether what a command prints may come from the network, by its text. A part that was not read may."""
    script = read_script(command, root, os.path.expanduser("~"))
    kinds = {effect.kind for each in script.commands for effect in effects_of(each)}
    return not kinds.isdisjoint(("network", "container")) or any(each.rule in _UNREAD for each in script.problems)
