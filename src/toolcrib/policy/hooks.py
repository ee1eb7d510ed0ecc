"""Run hooks from the configuration: log, notify, ask or block, by tool, category, channel and arguments.

`block` and `ask` are steps 1 and 2 of how verdicts combine; `log` and `notify` report calls that have ended, and change
nothing. Every text that a hook reports is already redacted.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..boundary.descriptors import closing_fd
from ..core.context import ToolContext
from ..core.errors import ToolcribError
from ..core.events import CallFinished, EventStream, Notice
from ..core.finish import for_person
from ..core.text import matches
from ..core.tool import Tool, encode
from ..core.verdict import Judgement, all_of
from .copied import strings
from .regexes import compile_pattern
from .settings import HookRule
from .starts import Starts, of_hook

log = logging.getLogger("toolcrib.hooks")

MAX_SEARCHED = 100_000
"""Characters of the arguments that a pattern is searched in. Longer arguments count as a match: fail closed."""
MAX_TOLD = 2_000
NOTIFY_SECONDS = 30.0

DANGEROUS_TOOLS = ("delete_file", "exec")
DANGEROUS_PATTERNS = (r"rm -rf", r"\bsudo\b", r"drop table")
"""The lists of Nanobot's SafetyHook (https://github.com/HKUDS/nanobot): `DANGEROUS_TOOLS` and `DANGEROUS_PATTERNS`."""


def safety_hook(
    tools: Sequence[str] = DANGEROUS_TOOLS, patterns: Sequence[str] = DANGEROUS_PATTERNS
) -> tuple[HookRule, ...]:
    """Return the hooks of Nanobot's SafetyHook: dangerous patterns are refused first, then every call of a dangerous
    tool asks."""
    names = tuple(tools)
    blocks = (HookRule("block", names, pattern=(each,), message=f"the safety hook refuses {each}") for each in patterns)
    return *blocks, HookRule("ask", names, message="the safety hook asks before this tool")


def _single(hook: HookRule) -> Iterator[HookRule]:
    """Yield a hook for each pattern of a hook; for a preset its hooks."""
    if hook.preset == "safety":
        yield from safety_hook(hook.tools or DANGEROUS_TOOLS, hook.pattern or DANGEROUS_PATTERNS)
    elif hook.pattern:
        yield from (replace(hook, pattern=(pattern,)) for pattern in hook.pattern)
    else:
        yield hook


def _is_for(rule: HookRule, names: Iterable[str], category: str, *channels: str | None) -> bool:
    """Return whether the hook applies to calls of such a tool from one of these channels."""
    if rule.categories and category not in rule.categories:
        return False
    if rule.channels and not matches((each or "" for each in channels), rule.channels):
        return False
    return not rule.tools or matches(names, rule.tools)


def _has(rule: HookRule, arguments: str) -> bool:
    """Return whether the pattern matches the arguments."""
    if not rule.pattern:
        return True
    return len(arguments) > MAX_SEARCHED or compile_pattern(rule.pattern[0], ignore_case=True).search(arguments)


class Hooks:
    """The hooks of one toolbox: `judge` is called before a call, `listen` receives its end. `starts` finds their
    programs."""

    def __init__(
        self, rules: Iterable[HookRule], events: EventStream | None = None, starts: Starts | None = None
    ) -> None:
        self._starts = starts or Starts()
        single = [each for rule in rules for each in _single(rule)]
        self._before = tuple(rule for rule in single if rule.action in ("ask", "block"))
        self._after = tuple(rule for rule in single if rule.action in ("log", "notify"))
        self._events = events
        self._lock = threading.Lock()
        for rule in self._after:
            if rule.file is not None:  # what is there is protected from commands
                with contextlib.suppress(OSError):
                    os.close(_opened(rule.file))
        self._names: dict[str, frozenset[str]] = {}  # names of the tools that were judged: events contain only one name

    def touches(self, tool: Tool) -> bool:
        """Return whether a call of this tool could be refused or asked about."""
        names = self._names_of(tool)
        return any(_is_for(replace(rule, channels=()), names, str(tool.category)) for rule in self._before)

    def judge(self, tool: Tool, arguments: Mapping[str, Any], ctx: ToolContext) -> Judgement | None:
        """Return the judgement of the strictest hook that refuses or asks, or None."""
        asks: list[Judgement] = []
        text: str | None = None
        names = self._names_of(tool)
        for number, rule in enumerate(self._before, 1):
            if not _is_for(rule, names, str(tool.category), ctx.channel, ctx.made_in):
                continue
            if rule.pattern and text is None:
                text = _searched(arguments)
            if not _has(rule, text or ""):
                continue
            why = rule.message or _why(rule, tool)
            if rule.action == "block":
                return Judgement("deny", why, "hook:block")
            asks.append(Judgement("ask", why, f"hook:ask:{number}"))  # the number: one approval per hook
        return all_of(asks)

    def _names_of(self, tool: Tool) -> frozenset[str]:
        names = self._names[tool.name] = tool.refused_as
        return names

    def listen(self, event: Any) -> None:
        """Handle an event: run the log and notify hooks for a call that has ended."""
        if type(event) is not CallFinished:
            return
        outcome = "finished"
        if event.output.is_error:
            outcome = "denied" if event.verdict in ("deny", "ask") else "failed"
        for rule in self._after:
            if (
                outcome in rule.when
                and _is_for(
                    rule, self._names.get(event.tool, {event.tool}), event.category, event.channel, event.made_in
                )
                and _has(rule, event.arguments)
            ):
                self._tell(rule, event, outcome)

    def _tell(self, rule: HookRule, event: CallFinished, outcome: str) -> None:
        message = rule.message or f"{event.tool} {outcome}"
        told = _told(event, message, outcome)
        if rule.file is not None:
            self._write(rule.file, told)
        if rule.command:
            given = (self._starts, rule.command, told)
            threading.Thread(target=_start, args=given, name="toolcrib-notify", daemon=True).start()
        if rule.action == "notify":
            notice = Notice(event.call_id, event.tool, message, event.session_id, event.channel, time.time())
            if self._events is not None:
                self._events.emit(notice)
        elif rule.file is None and not rule.command:
            log.info("%s: %s %s", message, event.tool, event.arguments[:MAX_TOLD])

    def _write(self, path: Path, told: Mapping[str, Any]) -> None:
        line = json.dumps(told, ensure_ascii=True) + "\n"
        try:
            with self._lock, closing_fd(_opened(path)) as fd:
                os.write(fd, line.encode())
        except OSError as error:
            log.warning("the hook's file %s cannot be written: %s", path, error.strerror)


def _opened(path: Path) -> int:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK  # a FIFO that nobody reads
    return os.open(path, flags, 0o600)


_TOLD = ("time", "call_id", "tool", "category", "channel", "verdict", "rule", "approver", "duration")


def _told(event: CallFinished, message: str, outcome: str) -> dict[str, Any]:
    return {
        "message": message,
        "outcome": outcome,
        **{name: getattr(event, name) for name in _TOLD},
        "arguments": event.arguments[:MAX_TOLD],
        "session": event.session_id,
        "error": for_person(event.output)[:500] if event.output.is_error else None,
        "labels": event.labels.wire if event.labels else None,
    }


def _start(starts: Starts, command: Sequence[str], told: Mapping[str, Any]) -> None:
    """Run a program that notifies a person. If it fails, the error is only logged."""
    try:
        argv, env = starts.checked(of_hook(command))
        done = subprocess.run(
            argv, input=json.dumps(told).encode(), timeout=NOTIFY_SECONDS, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, check=False, start_new_session=True, env=env,
        )  # fmt: skip
        if done.returncode:
            text = done.stderr.decode("utf-8", "replace").strip()[:500]
            log.warning("the hook's command %s ended with %d: %s", command[0], done.returncode, text)
    except (OSError, ToolcribError, subprocess.TimeoutExpired) as error:
        log.warning("the hook's command %s could not be run: %s", command[0], error)


def _why(rule: HookRule, tool: Tool) -> str:
    what = f"{rule.pattern[0]!r} in its arguments" if rule.pattern else f"every call of {tool.name}"
    return f"a hook {'refuses' if rule.action == 'block' else 'asks about'} {what}"


def _searched(arguments: Mapping[str, Any]) -> str:
    """Return the arguments as JSON, and their strings unescaped too: JSON escapes must not hide text from a pattern."""
    return "\n".join([encode(arguments), *(text for _, text in strings(arguments))])
