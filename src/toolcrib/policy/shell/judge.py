"""Judge whether a shell command may run: the strictest judgement of its parts, with one reason (spec 6.0, 6.3)."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from ...core.text import clip, one_line
from ...core.verdict import Judgement
from .effects import SHELL_ONLY, Effect, effects_of, program_name
from .endless import endless, may_be_endless
from .flow import FETCHERS, ORIGINS, SWEEPING, swept, tainted
from .hosts import is_metadata
from .kinds import KINDS, PATH_KINDS
from .parts import Command, CommandPlace, Script, Word
from .paths import Finding
from .paths import find as find_path
from .paths import judge as judge_path
from .reading import read_script
from .sent import LINKERS, carried_off, through_links
from .table import lookup
from .table.spec import Program

log = logging.getLogger(__name__)

MAX_DEPTH = 5  # the largest depth of command lines inside command lines
_SHOWN = 80
_FINDERS = (("find",), ("gfind",), ("fd",), ("fdfind",))
# A command's changes in the workspace: if they are held back, there is no need to ask before it runs.
_HELD = frozenset(f"shell:{kind}" for kind in PATH_KINDS if kind not in ("read", "list", "send", "link"))
_RANK = {"allow": 0, "ask": 1, "deny": 2}

# Positional parameters: usually a command line has none, and they expand to nothing (`r$@m -rf /` becomes `rm -rf /`).
_ARGUMENTS = re.compile(r"\$(?:[@*1-9]|\{[@*1-9]+\})")
ALLOWED = Judgement("allow", "it only reads inside the workspace, prints or inspects", "shell:read-only")


def judge_command(command: str, place: CommandPlace) -> Judgement:
    """Return the judgement of a command line. Never raises: a command that cannot be judged is denied with a reason."""
    return _judge_text(command, place, 0)


def _judge_text(command: str, place: CommandPlace, depth: int) -> Judgement:
    try:
        found = _judge_script(read_script(command, place.cwd, place.home), place, depth)
        if found.verdict == "ask" and _ARGUMENTS.search(command):
            bare = _judge_script(read_script(command, place.cwd, place.home, True), place, depth)
            return bare if bare.verdict == "deny" else found
        return found
    except RecursionError:
        return Judgement("deny", "the command is nested too deeply to be judged", "shell:too-deep")
    except Exception as error:
        log.exception("a command could not be judged")
        return Judgement(
            "deny", f"the judgement of this command failed: {type(error).__name__}: {error}", "shell:failed"
        )


def judge_script(script: Script, place: CommandPlace) -> Judgement:
    """Return the judgement of a script that was read: the strictest of its parts. It says which part that was."""
    return _judge_script(script, place, 0)


def _judge_script(script: Script, place: CommandPlace, depth: int) -> Judgement:
    best: Judgement | None = None
    unknown = True
    for found in _judgements(script, place, depth):
        if found.verdict == "deny":
            return found
        if place.held and found.rule in _HELD and not found.unknown:  # a person will see what it does
            found = replace(found, unknown=True)
        unknown = unknown and found.unknown
        if best is None or (best.unknown and not found.unknown):
            best = found
    if best is None:
        return ALLOWED
    return best if best.unknown == unknown else replace(best, unknown=unknown)


def _judgements(script: Script, place: CommandPlace, depth: int) -> Iterator[Judgement]:
    """Yield every judgement against a script; denials for its structure come first."""
    for problem in script.problems:
        yield Judgement(problem.verdict, problem.reason, problem.rule, unknown=problem.verdict == "ask")
    wrapped: set[str] = set()
    for command in script.commands:
        wrapped.update(command.via)
    programs: set[str | None] = set()
    for command in script.commands:
        name = program_name(command) if command.words else None
        programs.add(name)
        yield from _of_command(command, name, place, wrapped, depth)
    for command, roots in () if programs.isdisjoint(SWEEPING) else swept(script):
        for root in roots:
            finding = judge_path("delete", root, command.cwd, place)
            if finding is not None and finding.verdict == "deny" and finding.rule != "shell:delete-workspace":
                yield _say(command, finding)
    for command, effect in () if programs.isdisjoint(LINKERS) else through_links(script, place):
        yield from (found for found in _of_effect(command, effect, place, depth) if found.verdict == "deny")
    for command in () if programs.isdisjoint(FETCHERS) else carried_off(script, place):
        yield _say(command, Finding("deny", "shell:exfiltration", KINDS["exfiltration"].phrase))
    for command, said in endless(script) if may_be_endless(script, programs) else ():
        yield _say(command, Finding("ask", "shell:endless", said, True))
    for command, kind, reason in () if programs.isdisjoint(ORIGINS) else tainted(script):
        yield _say(command, Finding(KINDS[kind].verdict, f"shell:{kind}", reason or KINDS[kind].phrase))


def _of_command(
    command: Command, name: str | None, place: CommandPlace, wrapped: set[str], depth: int
) -> Iterator[Judgement]:
    effects = effects_of(command)
    for effect in effects:
        yield from _of_effect(command, effect, place, depth)
    if command.words:
        known = lookup(name) if name else None
        if command.cwd is None or not _inside(command.cwd, place):
            yield from _of_place(command, known, place)
        if known is not None and known.wrapper and name not in wrapped and command.name not in wrapped:
            yield from _of_wrapper(command, known)


def _inside(cwd: str, place: CommandPlace) -> bool:
    root = place.workspace
    return cwd == root or (cwd.startswith(f"{root}/") and "/.." not in cwd)


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
        found = command.via[-1:] in _FINDERS
        finding = judge_path(effect.kind, target, effect.cwd or command.cwd, place, found=found)
        if finding is not None:
            yield _say(command, finding)
        return
    kind = KINDS[effect.kind]
    if effect.kind == "network" and effect.target is not None and _is_metadata(effect.target):
        kind = KINDS["metadata"]
        effect = replace(effect, kind="metadata", reason="", rule="")
    rule = effect.rule or f"shell:{effect.kind}"
    yield _say(command, Finding(kind.verdict, rule, effect.reason or kind.phrase, kind.unknown))


def _is_metadata(target: Word | str) -> bool:
    text = target if isinstance(target, str) else "".join(part or "" for part in target.parts)
    return is_metadata(text)


def _of_nested(command: Command, effect: Effect, place: CommandPlace, depth: int) -> Iterator[Judgement]:
    """Judge a command line inside a program's own language. The best verdict for it is "ask"."""
    target = effect.target
    text = target.text if isinstance(target, Word) else target
    phrase = effect.reason or "runs a command from inside another program"
    if text is not None and SHELL_ONLY.fullmatch(text.strip()):
        yield _say(command, Finding("deny", "shell:spawn-shell", "starts a shell from inside another program"))
    if text is not None and depth < MAX_DEPTH:
        inner = replace(place, cwd=effect.cwd or command.cwd or place.cwd)
        found = _judge_text(text, inner, depth + 1)
        if found.verdict != "allow":
            yield found
    elif text is not None:
        yield _say(command, Finding("deny", "shell:too-deep", "is nested too deeply to be judged"))
    yield _say(command, Finding("ask", "shell:unknown-code", phrase, True))


def _of_code(command: Command, effect: Effect, place: CommandPlace, depth: int) -> Iterator[Judgement]:
    from .code import effects_of_code

    language, text = effect.code or ("", "")
    for found in effects_of_code(language, text):
        yield from _of_effect(command, found, place, depth)
    yield _say(command, Finding("ask", "shell:unknown-code", effect.reason or f"runs {language} code", True))


def _say(command: Command, finding: Finding) -> Judgement:
    """Return a finding as a sentence that begins with the command."""
    return Judgement(finding.verdict, f"`{shown(command)}` {finding.phrase}", finding.rule, finding.unknown)


def shown(command: Command) -> str:
    """Return a command on one line, short enough for a sentence."""
    text = command.source or " ".join(word.source or word.text or "…" for word in command.words)
    return clip(one_line(text).replace("`", "'"), _SHOWN)


def leaves_workspace(script: Script, place: CommandPlace) -> Judgement | None:
    """Return a denial for the first path outside the workspace (setting `restrict_to_workspace`): reads count, too."""
    for command in script.commands:
        for effect, word in _path_words(command):
            spot = find_path(word, effect.cwd or command.cwd, place) if effect else find_path(word, command.cwd, place)
            if spot.where == "outside":
                phrase = f"names {spot.path}, outside the workspace (tools.exec.restrict_to_workspace)"
                return _say(command, Finding("deny", "exec:restrict_to_workspace", phrase))
    return None


def _path_words(command: Command) -> Iterator[tuple[Effect | None, Word]]:
    for effect in effects_of(command):
        if effect.kind in PATH_KINDS and isinstance(effect.target, Word):
            yield effect, effect.target
    for word in command.args:
        if word.start.startswith(("/", "~", "../", "file:")) or word.text == "..":
            yield None, word
        elif "=" in word.start:
            value = word.start.partition("=")[2]
            if value.startswith(("/", "~", "../", "file:")):
                yield None, replace(word, parts=(value, *word.parts[1:]))


def all_effects(script: Script) -> Iterable[tuple[Command, Effect]]:
    """Yield every effect of every command, for labels and previews."""
    for command in script.commands:
        for effect in effects_of(command):
            yield command, effect
