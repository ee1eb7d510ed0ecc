"""The tools `exec` and `exec_session`: they run commands, in the foreground or in the background."""

from __future__ import annotations

import asyncio
import functools
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from pydantic import Field

from ..boundary.sandbox import Sandbox
from ..boundary.sandbox.spec import works
from ..core.caller import name_of
from ..core.context import ANY_SHELL, COMMAND_ENDED, JOB, ToolContext, Wall
from ..core.errors import SandboxUnavailable, ToolError
from ..core.output import LABELS, ToolOutput
from ..core.text import clip, one_line
from ..core.threads import shared_threads
from ..core.tool import Tool, tool
from ..core.verdict import Judgement
from .command_answer import (
    CUT_OFF,
    NO_NETWORK,
    OPEN_HOSTS,
    WITHOUT_NETWORK,
    answer_again,
    answer_of,
    has_failed,
    held_read_only,
    hint_at_more,
    not_started,
    output_and_end,
    was_held_back,
    with_kind,
)
from .command_rules import DEFAULT_SECONDS, MAX_SECONDS, CommandJudge, CommandRules, runs_a_shell
from .command_runner import CommandRunner, PreparedCommand
from .command_sessions import CommandSession, Sessions
from .following import followed
from .transcript import MAX_CHARACTERS, NO_UNDO, printed, streams

if TYPE_CHECKING:
    from ..boundary.process import Process
    from ..boundary.sandbox.spec import Lift

log = logging.getLogger(__name__)

GRACE_SECONDS = 5.0  # between the command's time limit and the call's
# Linux allows 128 KiB in one argument (MAX_ARG_STRLEN), with the closing NUL.
MAX_COMMAND_BYTES = 128 * 1024 - 1
ENDS_WITH_CALL = (
    "a command in the background would end together with `toolcrib call`. Leave background and interactive out, or run "
    "it as a job: `toolcrib jobs start exec COMMAND`"
)
_EARLY_SECONDS = 0.25  # how long to wait for a background command that fails at once


class ShellTools:
    """The tools `exec` and `exec_session`. `runner` runs their commands; `rules` are the settings for commands.
    `unasked` returns whether approvals are off."""

    def __init__(
        self, runner: CommandRunner, *, rules: CommandRules | None = None, redact: Callable[[str], str] | None = None,
        unasked: Callable[[], bool] = lambda: False,
    ) -> None:  # fmt: skip
        self._unasked = unasked
        self.sessions = Sessions()
        self._runner, self._workspace = runner, runner.workspace
        self._redact = redact
        self._rules = rules or CommandRules()
        self._judged = CommandJudge(
            str(runner.workspace.root), self._rules, runner.sandbox, runner.walls.reading, runner.undo_covers
        )

    def tools(self) -> list[Tool]:
        """Return the two tools."""
        tools: list[Tool] = [
            tool(
                _with_timeout(self.exec, self._rules.timeout),
                category="shell",
                destructive=True,
                open_world=False,
                names=("shell",),
                aliases={"cmd": "command", "workingDir": "working_dir", "cwd": "working_dir", "workdir": "working_dir"},
                timeout=MAX_SECONDS + GRACE_SECONDS,
                timeout_for=self._time_limit,
                judge=self._judge,
                preview=self._preview,
                command_argument="command",
            ),
            tool(
                self.exec_session,
                category="shell",
                open_world=False,
                loop_exempt=True,
                aliases={"sessionId": "session_id", "id": "session_id", "chars": "input"},
                timeout=_MAX_WAIT + GRACE_SECONDS,
                judge=self._judge_session,
                preview=self._preview_session,
                command_argument="input",
            ),
        ]
        if self._rules.working_dir is not None:
            tools[0].filled_in = {"working_dir": self._rules.working_dir}
        return tools

    # --- exec ---------------------------------------------------------------------------------------------

    async def exec(
        self,
        command: str,
        timeout: Annotated[int, Field(ge=1, le=MAX_SECONDS)] = DEFAULT_SECONDS,
        working_dir: str | None = None,
        background: bool = False,
        interactive: bool = False,
        more_rights: bool = False,
        *,
        ctx: ToolContext,
    ) -> ToolOutput:
        """Run a shell command in the workspace and return its output and exit code.

        Usually it runs in a sandbox: no network but for domains the user allowed, an empty home directory, and only
        the workspace can be changed.
        stdin is closed. Everything the command started ends with it; use background=true for servers and long work.

        Args:
            command: The command line, as for `bash -c`.
            timeout: Seconds after which it is ended.
            working_dir: Folder to run it in, inside the workspace or a granted folder; usually the workspace.
            background: Return at once; it has no timeout and cannot change .git. It is a job if there is the tool job,
                else a session.
            interactive: With background, a session always: exec_session gives it input. It ends with this process.
            more_rights: Ask for more rights, for a command that failed and whose output says that it had few.
        """
        from ..boundary.process import start

        name = command if working_dir is None else f"{command}\n(in {working_dir})"
        effects = self._runner.effects
        if effects is not None and (earlier := effects.earlier(ctx, name)) is not None:
            return answer_again(await effects.ask(earlier, ctx))
        spill = self._runner.spill_of(ctx.call_id)
        try:
            where = self._runner.judged_folder(working_dir)
            # only a person's yes lifts something: what a rule allowed may mean other files by now
            yes = ctx.wall is None or (ctx.wall == "all" and self._unasked())
            lift = self._judged.lift(command, where) if yes and isinstance(where, str) else None
            if (background or interactive) and JOB not in ctx.metadata:
                with self.sessions.place(ctx.session_id, who := name_of(ctx.caller)):
                    prepared = await self._prepared(command, working_dir, where, None, lift, ctx, background=True)
                    process = start(
                        prepared.spawn, timeout=None, limit=MAX_CHARACTERS, open_spill=spill, interactive=True
                    )
                    look_over = functools.partial(self._runner.look_over, prepared, ctx, name)
                    layered = prepared.layer is not None
                    session = CommandSession(
                        ctx.session_id, command, where if isinstance(where, str) else str(self._workspace.root),
                        process, look_over, layered, hint_at_more(prepared), bool(ctx.hosts), lift is not None,
                        self._judged.brings_in(command), read_only=prepared.read_only, caller=who,
                    )  # fmt: skip
                    self.sessions.add(session)
                return await self._in_background(session, prepared.sandbox, ctx)
            limit = None if background else timeout  # a job in the background: it waits for the end
            prepared = await self._prepared(command, working_dir, where, limit, lift, ctx, background=bool(background))
            process = start(prepared.spawn, timeout=limit, limit=MAX_CHARACTERS, open_spill=spill)
            try:
                async with followed(process, ctx, self._redact or str):
                    result, outcome = await self._runner.finished(process, prepared, ctx, name)
            except asyncio.CancelledError as error:  # what it printed is kept in the record, and for the model
                ended = process.result
                if ended is not None and (said := streams(ended.stdout, ended.stderr, self._redact)):
                    error.add_note("\n".join(("It had printed:", *said)))
                raise
        except ToolError:  # some are OSErrors, too
            raise
        except OSError as error:
            return not_started(error)
        output = answer_of(result, timeout, outcome, prepared, self._redact, ctx)
        if has_failed(result):
            output = self._with_network(output, prepared, command, where)
        if COMMAND_ENDED in ctx.metadata:
            ctx.metadata[COMMAND_ENDED](printed(result, output.for_llm, self._redact))
        return output

    async def _prepared(
        self,
        command: str,
        working_dir: str | None,
        where: str | Judgement,
        limit: float | None,
        lift: Lift | None,
        ctx: ToolContext,
        *,
        background: bool,
    ) -> PreparedCommand:
        """Prepare a command. If a person saw what it runs, that stays as it was until its end, or in the background for
        a while. Raises ToolError if it is something else by now."""
        prepare = functools.partial(
            self._runner.prepare, _shell_command(command), "exec", working_dir, limit,
            lift=lift, wall=ctx.wall, hosts=ctx.hosts,
        )  # fmt: skip
        if ctx.as_shown is None or not isinstance(where, str):
            return await prepare()
        from .command_preview import prepared_as_shown  # only what asked needs it

        return await prepared_as_shown(prepare, self._workspace, command, where, ctx.as_shown, background=background)

    def _with_network(
        self, output: ToolOutput, prepared: PreparedCommand, command: str, where: str | Judgement
    ) -> ToolOutput:
        """Say of a command that failed for want of network how the model, and the person, can give it one."""
        own = self._runner.sandbox.known
        domains = own.domains if own is not None else ()
        if prepared.cut_off:
            named = self._judged.named_hosts(command, where) if isinstance(where, str) else ()
            if not (named or WITHOUT_NETWORK.search(output.for_llm)):
                return output
            closed = tuple(each.rpartition(":")[0] for each in named)
            if prepared.wall == "read":  # its own note says what to do
                note = ""
            else:
                note = CUT_OFF.format(", ".join(domains[:5])) if domains else NO_NETWORK
        else:
            note, closed = "", tuple(each.rpartition(":")[0] for each in prepared.spawn.refused)
            if not closed:
                return output
        value = ",".join(dict.fromkeys((*domains, *(closed or ("HOST",)))))
        text = f"{output.for_llm}\n{note}" if note else output.for_llm
        return replace(output, for_llm=text, for_user=OPEN_HOSTS.format(value))

    # --- sessions -----------------------------------------------------------------------------------------

    async def _in_background(self, session: CommandSession, sandbox: Sandbox, ctx: ToolContext) -> ToolOutput:
        if await session.process.ended_within(_EARLY_SECONDS):
            return await self._report(session, ctx)
        text = (
            f"Started session {session.id} in the background.\n"
            f'exec_session(action="read", session_id="{session.id}") shows what it prints; "write" sends it input, '
            '"kill" ends it.'
        )
        if session.layered:
            text += "\n(its changes reach the workspace only after it ends)"
        elif sandbox.profile != "read-only":
            text += f"\n{NO_UNDO}"
        return ToolOutput(text, meta={"session_id": session.id, "sandbox": sandbox.name})

    async def exec_session(
        self,
        action: Literal["read", "write", "kill", "list"],
        session_id: str | None = None,
        input: str | None = None,  # noqa: A002
        end_input: bool = False,
        wait: Annotated[float, Field(ge=0, le=30)] = 1.0,
        *,
        ctx: ToolContext,
    ) -> ToolOutput:
        """Read, feed, end or list commands that exec started in the background.

        Args:
            action: read what was printed since the last read; write input; kill; or list the sessions.
            session_id: The id that exec returned; not needed for list.
            input: Text for write, given to the command as it is: end a line with a newline.
            end_input: With write, close the command's stdin afterwards.
            wait: Seconds that read and write wait for output at most.
        """
        if action == "list":
            return ToolOutput(_listing(self.sessions.of(ctx.session_id)))
        if session_id is None:
            raise ToolError(f'action "{action}" needs a session_id; action "list" shows them')
        session = self.sessions.get(ctx.session_id, session_id)
        if action == "write":
            if input is None and not end_input:
                raise ToolError('action "write" needs input (or end_input=true)')
            if not session.process.write((input or "").encode("utf-8", "replace"), end=end_input):
                state = "has ended" if session.process.done else "takes no input now (stdin is closed or full)"
                raise ToolError(f'Session {session.id} {state}. Read what it printed with action "read".')
            session.inputs += 1
            session.brings_in = session.brings_in or self._judged.brings_in(input or "")
        elif action == "kill":
            session.process.kill()
            wait = 30.0
        await _output_or_end(session.process, wait, until_end=action == "kill")
        report = await self._report(session, ctx)
        return replace(report, labels=LABELS[True, True]) if session.brings_in else report

    async def _report(self, session: CommandSession, ctx: ToolContext) -> ToolOutput:
        """Report the new output of a session and, once, how it ended."""
        done = session.process.done
        meta: dict[str, Any] = {"session_id": session.id, "running": not done}
        if not done:
            said = streams(*session.process.take(), self._redact)
            session.held_back = session.held_back or was_held_back(said)
            kept = held_read_only(session.read_only, said)
            text = [*said, *kept, f"[session {session.id} is running, {session.age:.0f} s]"]
            return ToolOutput("\n".join(text), meta=meta)
        await shared_threads.run(session.looked_over.wait, 30.0)
        self.sessions.forget(session)
        result, error = session.process.result, session.process.error
        if isinstance(error, OSError):
            return not_started(error)
        if error is not None or result is None:
            raise error or ToolError(f"Session {session.id} ended without a result")
        unused = f"[session {session.id} was ended: it had not been used for too long]"
        killed = f"[session {session.id} was ended, and everything it had started]"
        text = output_and_end(result, self._redact, meta, unused, killed)
        if result.exit_code and session.more_rights and (session.held_back or was_held_back(text)):
            text.append(session.more_rights)
        if result.exit_code:
            text += held_read_only(session.read_only, text)
        effects = self._runner.effects
        outcome = session.outcome if effects is None else await effects.ask(session.outcome, ctx)
        told = session.layered or outcome.undo != NO_UNDO  # that was said when it began
        text += [*outcome.notes, *([outcome.undo] if told and outcome.undo else [])]
        return with_kind("\n".join(text), outcome, meta)

    # --- before it runs -------------------------------------------------------------------------------------

    def _judge(self, args: Mapping[str, Any], ctx: ToolContext) -> Judgement | None:
        if ctx.channel == "cli" and (args.get("background") or args.get("interactive")):
            return Judgement("deny", ENDS_WITH_CALL, "shell:background")
        cwd = self._runner.judged_folder(args.get("working_dir"))
        if isinstance(cwd, Judgement):
            return cwd
        bare = bool(ctx.metadata.get("bare"))
        command = str(args.get("command", ""))
        direct, held = (None, False) if bare else self._runner.judged_effects()
        found = self._judged.judge(command, cwd, bare=bare, held=held, sh=bool(ctx.metadata.get(ANY_SHELL)))
        if found.verdict == "deny":
            return found
        if direct is not None:
            return direct
        if not bare:
            found = self._judged.with_hosts(found, command, cwd)
        if found.verdict == "allow" or found.unknown:
            return self._with_wall(found, bool(args.get("more_rights")))
        return found

    def _with_wall(self, found: Judgement, more: bool) -> Judgement:
        """Add the wall behind which a command may run without a question where no sandbox is, or one with a network.
        `more`: it asks for more rights. A sandbox without network gives them; otherwise a person is asked."""
        walls = self._runner.walls
        try:
            contained = walls.own.is_isolated()
        except SandboxUnavailable:  # the policy reports it
            contained = True
        if more and (found.verdict == "allow" or not contained):
            reason = "it asks for more rights than it would get"
            return Judgement("ask", reason, "shell:more-rights", unknown=contained)
        if found.verdict == "ask" and not contained and works(walls.changing):
            return replace(found, wall="workspace")
        return found

    def _judge_session(self, args: Mapping[str, Any], ctx: ToolContext) -> Judgement | None:
        if args.get("action") != "write":
            return Judgement("allow", "it only looks at or ends a command of this session", "shell:session")
        typed = args.get("input")
        session = next((s for s in self.sessions.of(ctx.session_id) if s.id == args.get("session_id")), None)
        if typed and session is not None and runs_a_shell(session.command):
            if not (str(typed).endswith("\n") or args.get("end_input")) or str(typed).endswith("\\\n"):
                reason = (
                    "what a shell is given must be whole command lines, each ended by a newline: rules are for commands"
                )
                return Judgement("deny", reason, "shell:pieces")
            found = self._judged.judge(str(typed), session.cwd, bare=bool(ctx.metadata.get("bare")), typed=True)
            if found.verdict != "allow":
                if found.unknown:
                    found = replace(found, wall=_wall_of(session), unknown=not (session.opened or session.lifted))
                return replace(found, insists=found.insists or session.lifted)
        reason = "what a command does with its input cannot be known"
        lifted = session is not None and session.lifted
        opened = session is not None and session.opened  # then the sandbox is no answer: it has a network
        unknown = not (opened or lifted)
        return Judgement("ask", reason, "shell:unknown", unknown=unknown, wall=_wall_of(session), insists=lifted)

    def _time_limit(self, args: Mapping[str, Any]) -> float:
        effects = self._runner.effects
        asking = effects.patience if effects is not None else 0.0
        if args.get("background"):
            return 86_400.0  # it answers at once, but a job waits for the end
        return float(args.get("timeout", self._rules.timeout)) + GRACE_SECONDS + asking

    def _preview(self, args: Mapping[str, Any], ctx: ToolContext) -> str:
        from ..policy.plain import plain_line
        from ..policy.preview import short
        from .command_preview import what_it_does

        where = f"\n(in {plain_line(str(args['working_dir']))})" if args.get("working_dir") else ""
        how = "\n(in the background)" if args.get("background") or args.get("interactive") else ""
        names = self._runner.secret_names("exec")
        gets = f"\n(gets: {', '.join(names)})" if names else ""
        command = str(args.get("command", ""))
        where_it_runs = str(self._workspace.root / str(args.get("working_dir") or ""))
        does = what_it_does(self._workspace, command, where_it_runs)
        return f"{short(command)}{where}{how}{gets}{does}{self._reach()}"

    def _reach(self) -> str:
        """Say what a yes lets a command do, if no sandbox is around it."""
        sandbox = self._runner.sandbox.known
        if sandbox is None or sandbox.active:
            return ""
        return (
            f"\n(backend {sandbox.name}: after a yes it can do all that you can, also read your keys, answer such "
            "questions and change Toolcrib's settings)"
        )

    def _preview_session(self, args: Mapping[str, Any], ctx: ToolContext) -> str:
        from ..policy.preview import short
        from .command_preview import what_it_does

        text = f"{args.get('action')} {args.get('session_id') or ''}".strip()
        typed, does = str(args.get("input") or ""), ""
        for session in self.sessions.of(ctx.session_id):
            if session.id == args.get("session_id"):
                text += f", to what runs: {short(session.command, 600)}"
                if typed and runs_a_shell(session.command):
                    if session.inputs:
                        does = f"\n(it got input {session.inputs} times before: it may be in another folder now)"
                    does += what_it_does(self._workspace, typed, session.cwd)
        return f"{text}\n{short(typed)}{does}" if typed else text


_MAX_WAIT = 30.0
_POLL_SECONDS = 0.05


def default_shell() -> str:
    """Return the path of the shell that runs commands."""
    return "/bin/bash" if os.access("/bin/bash", os.X_OK) else "/bin/sh"


def _with_timeout(method: Callable[..., Any], seconds: int) -> Callable[..., Any]:
    """Return the method with another default for `timeout`, so that the model sees the configured default."""
    if seconds == DEFAULT_SECONDS:
        return method
    code = cast("FunctionType", cast("MethodType", method).__func__)
    defaults = (seconds, *(code.__defaults__ or ())[1:])
    copy = FunctionType(code.__code__, code.__globals__, code.__name__, defaults, code.__closure__)
    copy.__kwdefaults__ = code.__kwdefaults__
    for name in functools.WRAPPER_ASSIGNMENTS:
        setattr(copy, name, getattr(code, name))
    return MethodType(copy, cast("MethodType", method).__self__)


def _shell_command(command: str) -> list[str]:
    if not command.strip():
        raise ToolError("command is empty. Give a command line, as for `bash -c`.")
    if "\0" in command:
        raise ToolError("command contains a NUL character, which no command line can. Remove it, or use printf '\\0'.")
    try:
        size = len(command.encode())
    except UnicodeEncodeError:
        raise ToolError("command contains half of a surrogate pair, which is not text. Remove it.") from None
    if size > MAX_COMMAND_BYTES:
        raise ToolError(
            f"command has {size:,} bytes; the system takes {MAX_COMMAND_BYTES:,}. Write it to a file with write_file "
            "and run that file."
        )
    return [default_shell(), "-c", command]


def _wall_of(session: CommandSession | None) -> Wall | None:
    """Return the wall that a session runs behind where no sandbox is: what it is given stays behind it."""
    return "workspace" if session is not None and session.more_rights else None


async def _output_or_end(process: Process, wait: float, *, until_end: bool) -> None:
    """Wait until the command has printed something or has ended."""
    loop = asyncio.get_running_loop()
    until = loop.time() + wait
    while not process.done and (until_end or process.idle_output) and loop.time() < until:
        await process.ended_within(min(_POLL_SECONDS, max(0.0, until - loop.time())))


def _listing(sessions: list[CommandSession]) -> str:
    if not sessions:
        return "No background sessions."
    lines: list[str] = []
    for session in sessions:
        state = "ended, not read yet" if session.process.done else f"running, {session.age:.0f} s"
        lines.append(f"{session.id}  {state}  {clip(one_line(session.command), 80)}")
    return "\n".join(lines)
