"""A restart that is approved later: the agent checks a service and proposes it, another process goes on.

It shows approvals. The model chooses a service, never a command: the commands are in runbook.json, which you wrote. At
a terminal this program asks you. Without one (cron, CI) it stores the request, ends with exit code 3, and says how to
go on: you approve the request, then another process resumes the session. The restart runs once.

    cp -r examples/approve_later /tmp/runbook && echo down > /tmp/runbook/web.state
    python examples/approve_later.py --runbook /tmp/runbook/runbook.json --model ollama:qwen3 "Is web up?" < /dev/null
    toolcrib approvals approve ap_1a2b3c4d5e -w /tmp/runbook
    python examples/approve_later.py --runbook /tmp/runbook/runbook.json --model ollama:qwen3 --resume last

A real runbook.json has commands such as ["systemctl", "is-active", "nginx"] and ["systemctl", "restart", "nginx"]; the
commands run in its folder, outside the sandbox. The service of this example is a file: "up" or "down".
"""

import argparse
import asyncio
import json
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from toolcrib import Toolbox, ToolContext, ToolcribError, ToolError, safe, tool
from toolcrib.agent import Agent, AgentEvent
from toolcrib.agent.events import CallDone
from toolcrib.cli.terminal_approver import terminal_approver

TASK = """{problem}

Check the services of the runbook that matter. If one is down, read its log and restart it, then check it again. Say
what you saw and did. A restart that was refused is not tried again."""
MAX_SECONDS = 30


class Runbook:
    """The services, and the commands that a person wrote down for them."""

    def __init__(self, file: Path) -> None:
        try:
            self.services: dict[str, dict[str, list[str]]] = json.loads(file.read_text())["services"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ToolcribError(f"{file} is not a runbook: {error}") from None
        self.folder = file.resolve().parent

    def command(self, service: str, step: str) -> list[str]:
        """Return a command of a service. Raises ToolError."""
        commands = self.services.get(service)
        if commands is None:
            raise ToolError(f"there is no service {service!r}; the runbook has: {', '.join(self.services)}")
        if step not in commands:
            raise ToolError(f"the runbook has no step {step!r} for {service}; it has: {', '.join(commands)}")
        return commands[step]

    def run(self, service: str, step: str) -> str:
        """Run a command of a service, and return its exit code and output. Raises ToolError."""
        try:
            done = subprocess.run(
                self.command(service, step), cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, timeout=MAX_SECONDS, text=True, errors="replace", check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ToolError(f"{step} of {service} failed: {error}") from None
        return f"exit code {done.returncode}\n{done.stdout}"

    def tools(self) -> list[Any]:
        """Return the tools: two that look, and one that asks before it runs."""

        def preview(arguments: Mapping[str, Any], ctx: ToolContext) -> str:
            return f"in {self.folder}:\n" + shlex.join(self.command(arguments["service"], "restart"))

        @tool(category="filesystem_read")
        def check_service(service: str) -> str:
            """Whether a service of the runbook is up."""
            return self.run(service, "check")

        @tool(category="filesystem_read")
        def read_log(service: str) -> str:
            """The last lines of a service's log."""
            return self.run(service, "log")

        @tool(category="shell", preview=preview)
        def restart_service(service: str) -> str:
            """Restart a service of the runbook. A person approves it first."""
            return self.run(service, "restart")

        return [check_service, read_log, restart_service]


def show(event: AgentEvent) -> None:
    """Print a call and the first line of its output."""
    if isinstance(event, CallDone):
        first = event.output.for_llm.partition("\n")[0]
        print(safe(f"· {event.call.name} {event.call.arguments}: {first}"), file=sys.stderr)


async def main() -> int:
    parser = argparse.ArgumentParser(description="Look after the services of a runbook.")
    parser.add_argument("--model", help="for example anthropic:NAME, ollama:NAME; by default the first one found")
    parser.add_argument("--runbook", type=Path, required=True, help="a runbook.json")
    parser.add_argument("--resume", metavar="SESSION", help="go on with a session that waited for approval")
    parser.add_argument("problem", nargs="*", help="what is wrong; by default: check all services")
    args = parser.parse_args()
    runbook = Runbook(args.runbook)
    task = TASK.format(problem=" ".join(args.problem).strip() or "Check all services.")
    task += f"\nServices: {', '.join(runbook.services)}"
    async with (
        Toolbox.open(
            runbook.folder, mode="assistant", builtin=False, tools=runbook.tools(), approve=terminal_approver()
        ) as box,
        await Agent.open(box, args.model) as agent,
    ):
        session = agent.session(args.resume) if args.resume else agent.new_session()
        outcome = await agent.run(None if args.resume else task, session, emit=show)
    print(safe(outcome.text))
    for waits in outcome.waiting:
        print(f"{waits['tool']} waits for approval: toolcrib approvals approve {waits['approval']} -w {runbook.folder}")
        print(f"then: python {sys.argv[0]} --resume {session.id}  (with the same --model and --runbook)")
    if outcome.state in ("error", "limit"):
        raise ToolcribError(outcome.reason)
    return {"done": 0, "waiting": 3}.get(outcome.state, 1)


if __name__ == "__main__":
    try:
        sys.exit(asyncio.run(main()))
    except ToolcribError as error:
        sys.exit(f"approve_later: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
