"""Binary plugins: the program runs once per call, reads one JSON-RPC line, and its last line is the answer."""

from __future__ import annotations

import asyncio
import errno
import json
import os
from collections.abc import Callable, Mapping
from typing import Any, cast

from ...boundary.capture import Capture
from ...builtin.command_runner import Ran
from ...builtin.transcript import exit_code
from ...core.context import ToolContext
from ...core.dataclass import dataclass
from ...core.errors import ToolError
from ...core.output import ToolOutput
from ...core.text import clip
from ...core.threads import shared_threads
from ...core.tool import Tool
from ...core.verdict import Judgement
from ..command_tools import GRACE_SECONDS, CommandServices
from ..parameters import parameter_schema
from .manifest import Manifest, PluginTool
from .program import PinnedProgram

MAX_ANSWER = 4_000_000  # characters of stdout that are read; the text for a model is limited later
MAX_MESSAGE = 4_000  # characters of an error's text
MAX_RAW = 200  # characters of an invalid answer
_BUSY_PAUSES = (0.025, 0.05)  # while another process still writes the program (ETXTBSY)
_HAS_PROC = os.path.isdir("/proc/self/fd")
_FORM = '{"result": {"output": "…"}} or {"error": {"code": 1, "message": "…"}}'


@dataclass(frozen=True, slots=True)
class BinaryWork:
    """One tool of a binary plugin."""

    plugin: str
    tool: PluginTool
    program: PinnedProgram
    services: CommandServices
    seconds: float
    env: Mapping[str, str]
    is_shell: bool

    async def execute(self, args: dict[str, Any], /, ctx: ToolContext) -> ToolOutput:
        """Run the program for one call. Raises ToolError if the program is refused."""
        try:
            ran = await self._run(request(self.tool.name, args), ctx)
        except ToolError:  # some are OSErrors, too
            raise
        except OSError as error:
            return ToolOutput.error(f"{self.program.place} could not be started: {error.strerror or error}")
        output = reply(ran, self.tool.name, self.seconds, self.services.redact)
        if not ran.notes:
            return output
        text = "\n".join([output.for_llm, *ran.notes])
        return ToolOutput(text, is_error=output.is_error, error_kind=output.error_kind, meta=output.meta)

    async def _run(self, line: bytes, ctx: ToolContext) -> Ran:
        runner = self.services.runner((self.program.folder,))
        sandbox = runner.sandbox.known or await shared_threads.run(runner.sandbox)
        pinned = self.program.sha256 is not None
        if pinned and (sandbox.name == "docker" or not _HAS_PROC):  # no descriptor can be passed to it
            raise ToolError(unpinnable(self.plugin, self.program, sandbox.name))
        for pause in (*_BUSY_PAUSES, None):
            fd = self.program.open()
            program, fds = f"/proc/self/fd/{fd}", [fd]
            if not pinned:  # by its descriptor the program could change the file, whatever the sandbox mounts
                os.close(fd)
                program, fds = str(self.program.place), []
            try:
                return await runner.run(
                    [program], asker=self.tool.name, working_dir=self.tool.working_dir, timeout=self.seconds,
                    env=self.env, call_id=ctx.call_id, limit=MAX_ANSWER, input=line, fds=fds, spill=False,
                )  # fmt: skip
            except OSError as error:
                if error.errno != errno.ETXTBSY or pause is None:
                    raise
                await asyncio.sleep(pause)
        raise AssertionError("the last try returns or raises")

    def judge(self, args: Mapping[str, Any], ctx: ToolContext) -> Judgement | None:
        """Judge a call as "ask": the effects of a program are not known.

        If its category is not shell, the category counts, unless its changes should be reviewed and cannot be.
        """
        runner = self.services.runner((self.program.folder,))
        if not ctx.metadata.get("bare") and (direct := runner.judged_effects()[0]) is not None:
            return direct
        reason = f"it runs {self.program.place}, whose effects cannot be known"
        return Judgement("ask", reason, "plugin:program", unknown=True) if self.is_shell else None

    def preview(self, args: Mapping[str, Any], ctx: ToolContext) -> str:
        """Return the program with its hash, and its input. Raises ProgramRefused if it cannot be run."""
        from ...policy.preview import short

        told = json.dumps(args, ensure_ascii=False, indent=1)
        return short(f"{self.program.place}\n(sha256 {self.program.check()})\n{told}")


def binary_tool(
    manifest: Manifest,
    tool: PluginTool,
    program: PinnedProgram,
    services: CommandServices,
    env: Mapping[str, str],
    category: str,
) -> Tool:
    """Return one tool of a binary plugin. Raises ToolDefinitionError or OutsideWorkspace if an entry is invalid."""
    if tool.working_dir is not None:
        services.runner((manifest.folder,)).place(tool.working_dir)
    seconds = tool.timeout_secs or manifest.seconds
    work = BinaryWork(manifest.name, tool, program, services, seconds, env, category == "shell")
    made = Tool.from_schema(
        tool.name, tool.description, parameter_schema(tool.parameters), work.execute,
        category=category, source=f"plugin:{manifest.name}", timeout=work.seconds + GRACE_SECONDS,
        judge=work.judge, preview=work.preview,
    )  # fmt: skip
    made.prepare()
    return made


def unpinnable(plugin: str, program: PinnedProgram, sandbox: str) -> str:
    """Return why a pinned program cannot run in a container, and what a person can do about it."""
    where = "a container" if sandbox == "docker" else f"sandbox {sandbox!r} on this system"
    return (
        f"The plugin {plugin} cannot be run: its program is pinned (binary.sha256), and {where} cannot be handed the "
        f'copy that was checked. The person can run commands in another sandbox (sandbox.backend = "auto"), or take '
        f"binary.sha256 out of {program.folder}/plugin.json: then the file itself runs, unchecked."
    )


def request(tool: str, args: Mapping[str, Any]) -> bytes:
    """Return the one line that a program reads.

    All non-ASCII characters are escaped, so that no value ends the line.
    """
    params = {"tool": tool, "args": dict(args)}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "execute", "params": params}).encode() + b"\n"


def reply(ran: Ran, tool: str, seconds: float, redact: Callable[[str], str] | None) -> ToolOutput:
    """Return the output for the program's exit and its last line."""
    result = ran.result
    meta: dict[str, Any] = {"duration": round(result.duration, 4), "sandbox": ran.sandbox.name}
    if result.ended_by == "timeout":
        text = f"Plugin tool {tool!r} timed out after {seconds:g} s; its program was ended."
        return ToolOutput.error(text + _said(result.stderr, redact), "timeout", meta=meta)
    if result.ended_by != "exit":
        return ToolOutput.error(f"Plugin tool {tool!r} was ended before it was done.", meta=meta)
    code = exit_code(result)
    if code:
        said = _said(result.stderr, redact) or _said(result.stdout, redact)
        return ToolOutput.error(f"Plugin tool {tool!r} failed (exit {code}){said or ': it said nothing'}", meta=meta)
    line = _last_line(result.stdout)
    if line is None:
        return ToolOutput.error(f"Plugin tool {tool!r} answered with a line that is too long.", meta=meta)
    if not line:
        text = f"Plugin tool {tool!r} answered nothing; its last line should be {_FORM}."
        return ToolOutput.error(text + _said(result.stderr, redact), meta=meta)
    return _answer(line, tool, meta)


def _answer(line: str, tool: str, meta: dict[str, Any]) -> ToolOutput:
    try:
        found: Any = json.loads(line)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raw = clip(line, MAX_RAW)
        return ToolOutput.error(f"Plugin tool {tool!r} gave an answer that is not JSON-RPC: {raw}", meta=meta)
    answer = cast("dict[str, Any]", found)
    result, error = answer.get("result"), answer.get("error")
    if isinstance(error, dict):
        said = cast("dict[str, Any]", error)
        text = f"{said.get('message') or 'an error without a message'} (code {said.get('code')})"
        if said.get("data") is not None:
            text += f"\n{json.dumps(said['data'], ensure_ascii=False)}"
        return ToolOutput.error(f"Plugin tool {tool!r}: {text[:MAX_MESSAGE]}", meta=meta)
    if isinstance(result, dict):
        output = cast("dict[str, Any]", result).get("output")
        if isinstance(output, str):
            return ToolOutput(output or "(no output)", meta=meta)
    return ToolOutput.error(
        f"Plugin tool {tool!r} answered neither a result nor an error; expected {_FORM}.", meta=meta
    )


def _last_line(stdout: Capture) -> str | None:
    """Return the last line that is not empty; "" if there is none, None if its beginning was lost."""
    kept = stdout.excerpt(MAX_ANSWER)
    text = (kept.tail if kept.omitted else kept.head).rstrip()
    _, newline, line = text.rpartition("\n")
    if kept.omitted and not newline:
        return None
    return line.strip()


def _said(stream: Capture, redact: Callable[[str], str] | None) -> str:
    text = stream.excerpt(MAX_MESSAGE, redact).text.strip()
    return f": {text}" if text else ""
