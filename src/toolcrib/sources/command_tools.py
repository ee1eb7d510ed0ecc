"""Command tools, of the configuration and of plugins: a command line with `{{parameter}}`s, run as `exec` does.

The command is judged, previewed, run in the sandbox and answered.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..boundary.programs import check_grant
from ..boundary.real_path import real_path
from ..builtin.command_runner import CommandRunner, Ran
from ..builtin.transcript import NO_UNDO, exit_code
from ..core.context import ToolContext
from ..core.dataclass import dataclass
from ..core.errors import ConfigError, ToolDefinitionError, ToolError
from ..core.output import LABELS, ToolOutput
from ..core.text import lazy_regex
from ..core.tool import Tool
from ..core.verdict import Judgement
from .parameters import check_names, parameter_schema
from .settings import CustomToolSettings
from .template import CommandTemplate, command_template

GRACE_SECONDS = 5.0  # between the command's time limit and the call's
MAX_CHARACTERS = 50_000  # of one stream; the rest is spilled
_NAME = lazy_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")

RunnerFor = Callable[[tuple[Path, ...]], CommandRunner]
"""Returns the runner whose sandbox also shows these paths to commands, read-only."""

JudgeCommand = Callable[..., Judgement]
"""`judge(command, cwd, read, bare=False)` judges a command line in a folder as `exec` does.

It assumes access to the paths in `read`.
"""


@dataclass(frozen=True, slots=True)
class CommandServices:
    """The services for tools that run programs: the runner, the judge, the shell and the redactor of their output."""

    runner: RunnerFor
    judge: JudgeCommand
    shell: str = "/bin/sh"
    redact: Callable[[str], str] | None = None


@dataclass(frozen=True, slots=True)
class CommandWork:
    """One tool that runs a template. `defaults` replace parameters that a call omits. `assigned` is what its command
    line is judged and shown with: the variables that nobody who is trusted gave."""

    name: str
    template: CommandTemplate
    services: CommandServices
    read: tuple[Path, ...]
    working_dir: str | None
    seconds: float
    env: Mapping[str, str]
    defaults: Mapping[str, Any]
    failed: str
    assigned: str = ""

    @property
    def runner(self) -> CommandRunner:
        """The runner for its commands."""
        return self.services.runner(self.read)

    async def execute(self, args: dict[str, Any], /, ctx: ToolContext) -> ToolOutput:
        """Run it with these values as positional parameters. Raises ToolError if a value or the folder is invalid."""
        values = self.template.arguments({**self.defaults, **args})
        argv = [self.services.shell, "-c", self.template.script, self.name, *values]
        try:
            ran = await self.runner.run(
                argv, asker=self.name, working_dir=self.working_dir, timeout=self.seconds, env=self.env,
                call_id=ctx.call_id, limit=MAX_CHARACTERS,
            )  # fmt: skip
        except ToolError:  # some are OSErrors, too
            raise
        except OSError as error:
            return ToolOutput.error(f"{self.name} could not be started: {error.strerror or error}")
        output = answer(ran, self.seconds, self.failed, self.services.redact)
        return replace(output, labels=LABELS[True, True]) if self._fetches(args) else output

    def _fetches(self, args: Mapping[str, Any]) -> bool:
        """Whether its output came from the network, according to its command line."""
        from ..policy.shell.judge import brings_in

        return brings_in(self._line(args), str(self.runner.workspace.root))

    def _line(self, args: Mapping[str, Any]) -> str:
        """Return the command line with its values. Raises ToolError if a value is invalid."""
        return self.assigned + self.template.bound({**self.defaults, **args})

    def judge(self, args: Mapping[str, Any], ctx: ToolContext) -> Judgement | None:
        """Judge the command line with its values in the same way as `exec`."""
        try:
            command = self._line(args)
        except ToolError as error:
            return Judgement("deny", str(error), "command:value")
        cwd = self.runner.judged_folder(self.working_dir)
        if isinstance(cwd, Judgement):
            return cwd
        bare = bool(ctx.metadata.get("bare"))
        found = self.services.judge(command, cwd, self.read, bare=bare)
        return found if bare or found.verdict == "deny" else self.runner.judged_effects()[0] or found

    def preview(self, args: Mapping[str, Any], ctx: ToolContext) -> str:
        """Return the command line with its values, what it would do, and a hash of the files that it runs."""
        from ..builtin.command_preview import what_it_does
        from ..policy.preview import short

        where, line = f"\n(in {self.working_dir})" if self.working_dir else "", self._line(args)
        cwd = self.runner.judged_folder(self.working_dir)
        does = what_it_does(self.runner.workspace, line, cwd) if isinstance(cwd, str) else ""
        return f"{short(line)}{where}{does}"


def answer(ran: Ran, seconds: float, failed: str, redact: Callable[[str], str] | None) -> ToolOutput:
    """Return the output of a command for a model: what it printed or, if it failed, how and why."""
    result = ran.result
    meta: dict[str, Any] = {"duration": round(result.duration, 4), "sandbox": ran.sandbox.name}
    out, err = (stream.excerpt(MAX_CHARACTERS, redact).text.strip() for stream in (result.stdout, result.stderr))
    notes = [*(["[it did not end when it was killed; something may still be running]"] if not result.reaped else [])]
    notes += ran.notes
    if result.ended_by == "exit" and exit_code(result) == 0:
        meta["exit_code"] = 0
        if ran.sandbox.profile != "read-only" and ran.notes:
            notes.append(NO_UNDO)
        if not out:
            out = f"(no output)\nSTDERR:\n{err}" if err else "(no output)"
        return ToolOutput("\n".join([out, *notes]), meta=meta)
    if result.ended_by == "exit":
        meta["exit_code"] = code = exit_code(result)
        said = "\n".join(filter(None, (err, f"stdout: {out}" if out and err else out)))
        return ToolOutput.error("\n".join([f"{failed} (exit {code}): {said or '(no output)'}", *notes]), meta=meta)
    if result.ended_by == "timeout":
        said = "\n".join(filter(None, (out, f"STDERR:\n{err}" if err else "")))
        until = f" What it printed until then:\n{said}" if said else ""
        text = f"Command timed out after {seconds:g} s; it was ended, and everything it had started.{until}"
        return ToolOutput.error("\n".join([text, *notes]), "timeout", meta=meta)
    return ToolOutput.error("\n".join(["The command was ended before it was done.", *notes]), meta=meta)


def command_tool(
    entry: CustomToolSettings,
    services: CommandServices,
    base: Path,
    *,
    source: str = "command",
    failed: str = "Command failed",
    judge_env: bool = False,
) -> Tool:
    """Return the tool for a command line. Its own judgement decides, for every category; with `judge_env`, of its
    variables, too.

    Relative `read` paths start from `base`. Raises ToolDefinitionError or OSError with the reason if the entry is
    invalid.
    """
    if not _NAME.fullmatch(entry.name):
        raise ToolDefinitionError("a name has letters, digits, _ and -, at most 64, and begins with a letter or _")
    template = command_template(entry.command)
    schema = parameter_schema(entry.parameters)
    given = [base / os.path.expanduser(path) for path in entry.read]
    read = tuple(Path(real_path(path)) for path in given)
    seconds = max(1.0, entry.timeout)
    work = CommandWork(
        entry.name, template, services, read, entry.working_dir, seconds, entry.env,
        check_names(template.names, schema), failed,
        "".join(f"{name}={shlex.quote(value)} " for name, value in entry.env.items()) if judge_env else "",
    )  # fmt: skip
    try:
        for path in given:
            check_grant(path, services.runner(()).workspace.writable)
    except ConfigError as error:
        raise ToolDefinitionError(str(error)) from None
    if entry.working_dir is not None:
        work.runner.place(entry.working_dir)
    tool = Tool.from_schema(
        entry.name,
        entry.description,
        schema,
        work.execute,
        category=entry.category or "shell",
        source=source,
        timeout=seconds + GRACE_SECONDS,
        judge=work.judge,
        preview=work.preview,
        max_output=MAX_CHARACTERS + 2_000,
    )
    tool.prepare()
    return tool
