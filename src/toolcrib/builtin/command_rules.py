"""Judges the command lines of `exec`, by the syntax tree of the command and by the patterns of `tools.exec`."""

from __future__ import annotations

import functools
import math
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..boundary.host_file import HostFile
from ..boundary.host_files import ENVIRONMENT, RULE_HOST_FILES, host_files_in, own_data_in
from ..boundary.programs import within_any
from ..boundary.protected_names import RULE_PROTECTED
from ..boundary.real_path import real_path
from ..boundary.sandbox import Profile, Sandbox, SandboxSettings
from ..boundary.sandbox.spec import HostOpener, LazySandbox, Lift, works
from ..core.dataclass import dataclass
from ..core.errors import ConfigError, SandboxUnavailable
from ..core.verdict import Judgement
from .settings import ExecSettings

if TYPE_CHECKING:
    from ..policy.regexes import UserPattern
    from ..policy.shell.parts import CommandPlace

DEFAULT_SECONDS = math.ceil(ExecSettings().timeout)
MAX_SECONDS = 600

MAX_MATCHED = 4_000  # characters; a longer command is refused if patterns must judge it


@dataclass(frozen=True, slots=True)
class CommandRules:
    """The settings for commands: the sandbox's profile, granted folders, and the section `tools.exec`.

    `deny` patterns are searched in the command, unchanged and in lower case. If there are `allow` patterns, every
    simple command of the line must match one of them in full; such a line is not checked against `deny`. The syntax
    tree's denials hold in both cases. `timeout` is the default time limit of a command, in seconds. `host_files` are
    files that the host runs, besides our own environment.
    """

    profile: Profile = "workspace-write"
    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    deny: tuple[UserPattern, ...] = ()
    allow: tuple[UserPattern, ...] = ()
    restrict_to_workspace: bool = False
    timeout: int = DEFAULT_SECONDS
    host_files: tuple[HostFile, ...] = ()
    working_dir: str | None = None

    @classmethod
    def of(cls, sandbox: SandboxSettings, settings: ExecSettings) -> CommandRules:
        """Make the rules from the sections `sandbox` and `tools.exec`. Raises ConfigError if a pattern is wrong."""
        return cls(
            profile="unrestricted" if sandbox.backend == "none" else sandbox.profile,
            readable=tuple(map(real_path, sandbox.read_roots)),
            writable=tuple(map(real_path, sandbox.write_roots)),
            deny=patterns("tools.exec.deny_patterns", denied_patterns(settings)),
            allow=patterns("tools.exec.allow_patterns", settings.allow_patterns),
            restrict_to_workspace=settings.restrict_to_workspace,
            timeout=min(MAX_SECONDS, math.ceil(settings.timeout)),
            host_files=sandbox.host_files,
            working_dir=settings.working_dir,
        )


_NANOBOT = (
    r"\brm\s+-[rf]{1,2}\b", r"\bdel\s+/[fq]\b", r"\brmdir\s+/s\b", r"(?:^|[;&|]\s*)format\b",
    r"\b(mkfs|diskpart)\b", r"\bdd\s+if=", r">\s*/dev/sd", r"\b(shutdown|reboot|poweroff)\b", r":\(\)\s*\{.*\};\s*:",
)  # fmt: skip
_NANOBOT_NET = ("rm -rf /", "format", "dd if=", "shutdown", "reboot", "mkfs")
"""What the two refuse by default: the first as patterns, the second as texts."""


def denied_patterns(settings: ExecSettings) -> list[str]:
    """Return everything that `tools.exec` refuses, as patterns."""
    texts = [*settings.additional_denied_patterns, *(_NANOBOT_NET if "nanobot_net" in settings.deny_presets else ())]
    preset = _NANOBOT if "nanobot" in settings.deny_presets else ()
    return [*settings.deny_patterns, *preset, *(f"(?i){re.escape(text)}" for text in texts)]


def patterns(setting: str, texts: Iterable[str]) -> tuple[UserPattern, ...]:
    """Compile the patterns of a setting. Raises ConfigError, with the setting and the pattern, if one is wrong."""
    found: list[UserPattern] = []
    for text in texts:
        from ..policy.regexes import compile_pattern

        try:
            found.append(compile_pattern(text))
        except ValueError as error:
            raise ConfigError(f"{setting}: {error}") from None
    return tuple(found)


_STAYS = "in the sandbox a yes lets it do so only with sandbox.allow_protected; a file tool needs no such grant"


class CommandJudge:
    """Judges command lines in one workspace. `sandbox` and `reading` are called for each judgement without `bare`;
    `reading` returns the sandbox of commands that only read."""

    def __init__(
        self, workspace: str, rules: CommandRules, sandbox: Callable[[], Sandbox], reading: Callable[[], Sandbox],
        undo_covers: Callable[[str], bool] | None = None,
    ) -> None:  # fmt: skip
        self.workspace, self.rules, self._undo_covers = workspace, rules, undo_covers
        self._sandbox, self._reading = sandbox, reading
        self._home = os.path.expanduser("~")
        roots = (workspace, *rules.writable)
        folders = [folder or "." for folder in os.environ.get("PATH", "").split(os.pathsep)]
        real = ((folder, real_path(folder)) for folder in dict.fromkeys(folders))
        self._program_folders = tuple(each for each, at in real if not os.path.isabs(each) or within_any(at, roots))

    def judge(
        self, command: str, cwd: str, *, bare: bool = False, held: bool = False, typed: bool = False, sh: bool = False
    ) -> Judgement:
        """Judge a command in a folder. `bare`: without grants, sandbox and settings.

        `held`: a person sees the changes of the command before they are applied. `typed`: a running shell gets it as
        its input. `sh`: this shell may read it.
        """
        from ..policy.shell.judge import changes_only_repositories, judge_command
        from ..policy.shell.parts import CommandPlace

        if bare:
            return judge_command(command, CommandPlace(self.workspace, cwd, self._home), typed=typed)
        rules = self.rules
        place = self._place(cwd, held)
        found = judge_command(command, place, typed=typed, sh=sh)
        if found.wall == "read" and not place.walled:
            found = replace(found, wall=None)
        asks = found.verdict == "ask" and found.rule == RULE_PROTECTED and place.contained and not held
        if asks and not changes_only_repositories(command, place):
            found = replace(found, reason=f"{found.reason} ({_STAYS})")
        if found.verdict == "deny" or not (rules.deny or rules.allow or rules.restrict_to_workspace):
            return found
        return self._by_settings(command, place) or found

    def brings_in(self, command: str) -> bool:
        """Return whether what a command prints may come from the network."""
        from ..policy.shell.judge import brings_in

        return brings_in(command, self.workspace)

    def with_hosts(self, found: Judgement, command: str, cwd: str) -> Judgement:
        """Return the judgement of a command with the hosts that a person's yes would open to it; it is allowed if it
        only fetches from domains that the settings allow."""
        try:
            sandbox = self._sandbox()
        except SandboxUnavailable:
            return found
        if found.verdict != "ask" or not sandbox.active:  # without a sandbox a command has the network anyway
            return found
        from ..boundary.network.settings import RULE_DOMAIN
        from ..boundary.proxy.domains import admits
        from ..policy.shell.kinds import RULE_FETCH
        from ..policy.shell.reached import reached

        to = reached(command, self._place(cwd))
        if not (to.hosts or to.unnamed):
            return found
        if not (isinstance(sandbox, HostOpener) and sandbox.opens_hosts):
            none = "its sandbox has no network, and a yes does not change that"
            return found if found.unknown else replace(found, reason=f"{found.reason} ({none})")
        closed = tuple(each for each in to.hosts if not admits(sandbox.domains, each))
        for each in closed:
            if why := sandbox.refusal(each):
                reason = f"{found.reason} ({each} stays closed, and a yes does not change that: {why})"
                return found if found.unknown else replace(found, reason=reason)
        if to.only and not closed:
            return Judgement("allow", "it only fetches from allowed domains", RULE_DOMAIN)
        if to.unnamed and not found.unknown:
            what = "another host" if to.hosts else "a host"
            none = f"it reaches {what} that cannot be read from the command, and a yes does not open that one"
            found = replace(found, reason=f"{found.reason} ({none})")
        return replace(found, hosts=closed, rule=RULE_FETCH if to.only else found.rule)

    def named_hosts(self, command: str, cwd: str) -> tuple[str, ...]:
        """Return the hosts that a command line names, each as `host:port`."""
        from ..policy.shell.reached import reached

        return reached(command, self._place(cwd)).hosts

    def lift(self, command: str, cwd: str) -> Lift | None:
        """Return what a command may change because its question, which no mode answers, was about that.

        `.git` only for a line of git alone: other programs in it could put hooks there. So could hooks that run: they
        do not (`command_runner.py`), but those before a push, which may refuse it.
        """
        from ..boundary.git_settings import runs_hooks
        from ..policy.shell.judge import changes_only_repositories

        rule = self.judge(command, cwd).rule
        if rule == RULE_HOST_FILES:
            return self._host_files_meant(command, cwd)
        if rule == RULE_PROTECTED and changes_only_repositories(command, self._place(cwd)):
            return None if re.search(r"\bpush\b", command) and runs_hooks(cwd) else ".git"
        return None

    def _host_files_meant(self, command: str, cwd: str) -> frozenset[str]:
        """Return the paths of the files that the host runs and that the question was about: those for which this line
        asks, with the others of the same server, hook or environment, and what lies in an environment. What a program
        in the line does besides was not in the question, nor is a file that something else runs, too."""
        from ..policy.shell.judge import judge_command

        place = self._place(cwd)
        files = place.host_files()
        together = {ENVIRONMENT, *(each.reason for each in self.rules.host_files)}
        groups: dict[tuple[str, str], list[HostFile]] = {}
        for each in files:
            groups.setdefault((each.reason, "" if each.reason in together else each.path), []).append(each)

        def meant(some: Sequence[list[HostFile]]) -> list[HostFile]:
            given = tuple(each for group in some for each in group)
            if judge_command(command, replace(place, host_files=lambda: given)).rule != RULE_HOST_FILES:
                return []
            half = len(some) // 2
            return [*meant(some[:half]), *meant(some[half:])] if half else [*given]

        found = meant([*groups.values()])
        installed = [each.path for each in found if each.reason == ENVIRONMENT or each.path.endswith("/node_modules")]
        opened = {*found, *(each for each in files if within_any(each.path, installed))}
        return frozenset(each.path for each in opened) - {each.path for each in files if each not in opened}

    def _place(self, cwd: str, held: bool = False) -> CommandPlace:
        from ..policy.shell.parts import CommandPlace

        rules = self.rules
        contained, scratch = self._containment()
        return CommandPlace(
            self.workspace, cwd, self._home, rules.profile, rules.readable, rules.writable,
            scratch, contained, held, functools.cache(lambda: self._host_files(cwd)), True, self._program_folders,
            self._is_walled(), self._undo_covers,
        )  # fmt: skip

    def _host_files(self, cwd: str) -> tuple[HostFile, ...]:
        files, roots = self.rules.host_files, (self.workspace, *self.rules.writable)
        return tuple(each for root in roots for each in (*host_files_in(root, files, (cwd,)), *own_data_in(root)))

    def _containment(self) -> tuple[bool, tuple[str, ...]]:
        """Return whether a sandbox confines commands, and the folders that are new and empty in it."""
        try:
            sandbox = self._sandbox()
        except SandboxUnavailable:  # the sandbox may be installed later; until then, commands are refused
            return False, ()
        return sandbox.active, sandbox.fresh_folders if sandbox.active else ()

    def _is_walled(self) -> bool:
        """Return whether a command that is allowed because it only reads can do nothing else."""
        return works(LazySandbox.of(self._reading))

    def _by_settings(self, command: str, place: CommandPlace) -> Judgement | None:
        """Return the judgement by the patterns and the restriction to the workspace; None if they allow the command."""
        from ..policy.shell.leaving import leaves_workspace
        from ..policy.shell.reading import read_script

        rules = self.rules
        if (rules.deny or rules.allow) and len(command) > MAX_MATCHED:
            text = f"it is longer than {MAX_MATCHED:,} characters, too long for the patterns of tools.exec"
            return Judgement("deny", text, "exec:patterns")
        script = read_script(command, place.cwd, place.home)
        if rules.allow:
            stranger = _stranger([c.source for c in script.commands if not c.via], rules.allow)
            if script.problems or stranger is not None:
                shown = command if stranger is None else stranger
                text = f"`{shown[:80]}` matches none of tools.exec.allow_patterns"
                return Judgement("deny", text, "exec:allow_patterns")
        else:
            for pattern in rules.deny:
                if pattern.search(command.lower()) or pattern.search(command):
                    text = f"it matches {pattern.text!r} (tools.exec.deny_patterns)"
                    return Judgement("deny", text, "exec:deny_patterns")
        return leaves_workspace(script, place) if rules.restrict_to_workspace else None


def warm_judgement() -> None:
    """Load the data for the first judgement in advance: the parser's modules and the table of programs."""
    from ..policy.shell.judge import judge_command
    from ..policy.shell.parts import CommandPlace

    judge_command("ls", CommandPlace("/", "/", "/"))


def _stranger(segments: list[str], allow: tuple[UserPattern, ...]) -> str | None:
    """Return the first segment that no pattern matches in full, or None."""
    for segment in segments:
        if not any(pattern.fullmatch(segment) or pattern.fullmatch(segment.lower()) for pattern in allow):
            return segment
    return None if segments else ""


def runs_a_shell(command: str) -> bool:
    """Return whether a command runs a shell that reads commands from the input of the command, or may."""
    from ..policy.shell.command_flow import SHELLS
    from ..policy.shell.reading import read_script
    from ..policy.shell.wrappers.unfold import unfold

    script = read_script(command, "/", "/")
    for each in script.commands:
        if not each.words or each.given is not None:
            continue
        if each.name is None or (each.program in SHELLS and all((word.text or "x")[:1] in "-+" for word in each.args)):
            return True
        if any(inner.reads or (inner.script and inner.script.text is None) for inner in unfold(each.words)):
            return True
    return bool(script.problems)
