"""Judge package managers and build tools: by the first operand they look, run the project's code, or install."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ....core.text import lazy_regex
from ..parts import Effect, Word
from ..roles import of_operands, plain
from .program_spec import SortedWords
from .wordlist import words

_RUNS = words(
    """
    run run-script test t start stop restart rebuild build b check c r bench doc fmt fix metadata clippy compile exec
    verify package deps info list ls show version help tree why bin root outdated lint dev vet generate tool env which
    whoami doctor rustc nextest report lock init new venv config explain graph format html xml --version
    """
)
_LOOKS = words("list ls show version help tree why info outdated env freeze check metadata root bin")


def by_verb(call: SortedWords) -> Iterator[Effect]:
    """Yield what the first operand of a package manager means: the project's own code, or an installation."""
    verb = call.operands[0].text if call.operands else ""
    rest = call.texts()[1:]
    looks = verb in _LOOKS or (verb == "pip" and rest[:1] and rest[0] in _LOOKS)
    if looks and not (verb in ("config", "env") and (rest or call.has("-w", "-u"))):
        yield Effect("check")
    elif verb in ("config", "env", "set") and (call.has("-w", "-u") or rest[:1] in (["set"], ["delete"], ["edit"])):
        yield Effect("persist")
    elif not call.operands and call.name not in ("pnpm", "yarn", "bun"):
        yield Effect("check")
    elif verb not in _RUNS:
        yield Effect("install")
        yield Effect("network")
        yield from of_operands(call.operands[1:], "maybe*")
    else:
        yield Effect("execute", None, "runs the project's own code or settings", "shell:project-code")


_DECIDES = words("trust undo console install")
_MAY_DECIDE = words("approvals rules config mcp changes schedule")
_SHOWS = words("list show path test try suggest next")


def own_command(call: SortedWords) -> Iterator[Effect]:
    """toolcrib: what a person says by it is not for a tool to say."""
    first, verb = (*call.texts(), "", "")[:2]
    speaks = first == "sessions" and verb in ("answer", "steer", "resume")
    if speaks or first in _DECIDES or (first in _MAY_DECIDE and verb and verb not in _SHOWS):
        yield Effect("person")
    yield Effect("unknown", None, "runs Toolcrib, which can call tools", "shell:unknown-program")


def npx(call: SortedWords) -> Iterator[Effect]:
    """npx runs a program that the project has installed; another one it fetches first."""
    named = call.operands[0] if call.operands and not call.has("-p", "--package", "-c", "--call") else Word((None,))
    yield Effect("fetch-and-run", named)


def make(call: SortedWords) -> Iterator[Effect]:
    for word in (*call.operands, *call.values("--eval", "-E")):
        text = word.text or ""
        if re.match(r"SHELL\s*=", text):
            yield Effect("hijack", word, "makes make run another shell")
        for code in re.findall(r"(?:\$\(shell |^\s*\w*:\s*;?\s*|;|\t)([^)\n]*)", text):
            if code.strip() and ("$(" in text or word not in call.operands):
                yield Effect("shell", code.lstrip("-@ "))


_FIXES = lazy_regex(r"-(?:w|i|a|A|e?i)|--(?:fix|write|in-place|fix-only|autofix|autocorrect|init|generate|add).*")


def checks(call: SortedWords) -> Iterator[Effect]:
    """Linters and formatters that only report; their settings in the workspace can name code."""
    found = list(plain(call))
    fixes = any(_FIXES.fullmatch(word.text or "--fix") for word in call.command.args if word.start.startswith("-"))
    formats = call.name in _FORMATTERS and not any(
        "check" in (w.text or "") or "diff" in w.start for w in call.command.args
    )
    yield from (each for each in found if each.kind != "execute" or fixes or formats)
    yield Effect("check")


_FORMATTERS = ("black", "isort")
