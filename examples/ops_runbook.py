"""An operator that follows a runbook: it looks by itself, and a person approves each step that changes something.

    python ops_runbook.py                       # a script, and a person who says yes once and no once
    python ops_runbook.py --model ollama:qwen3  # any model; the questions come to this terminal

The services are objects in this program; replace the four tools by your own. What a tool may do follows from its
category: `network_read` runs at once, `destructive` asks. Every call, question and answer is in the record.
"""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from toolcrib import ApprovalRequest, Decision, Toolbox, ToolError, tool
from toolcrib.agent import Agent, AgentEvent, Model
from toolcrib.agent.events import CallDone
from toolcrib.testing import ScriptedModel

RUNBOOK = """# Web shop is slow

1. Look at the state of all services.
2. Restart a service that uses more than 90 % of its memory.
3. If the queue is longer than 1000, ask whether it may be purged. Orders in it are lost.
4. Look again, and report.
"""
SCRIPT = [
    {"calls": [{"name": "read_file", "arguments": {"path": "runbook.md"}}, {"name": "services", "arguments": {}}]},
    {"text": "web is out of memory.", "calls": [{"name": "restart_service", "arguments": {"name": "web"}}]},
    {"calls": [{"name": "purge_queue", "arguments": {"name": "orders"}}]},
    {"calls": [{"name": "services", "arguments": {}}]},
    {"text": "web was restarted and is healthy. The queue was not purged, as you decided: 1200 orders wait."},
]

state = {"web": {"memory": 97}, "database": {"memory": 40}}
queues = {"orders": 1200}


@tool(category="network_read")
def services() -> str:
    """Show all services with the memory they use, and the lengths of the queues."""
    lines = [f"{name}: memory {values['memory']} %" for name, values in state.items()]
    return "\n".join([*lines, *(f"queue {name}: {length}" for name, length in queues.items())])


@tool(category="destructive")
def restart_service(name: str) -> str:
    """Restart a service. Its open requests fail.

    Args:
        name: The service.
    """
    if name not in state:
        raise ToolError(f"there is no service {name!r}; there are {', '.join(state)}")
    state[name]["memory"] = 12
    return f"{name} was restarted"


@tool(category="destructive")
def purge_queue(name: str) -> str:
    """Remove everything from a queue. It cannot be taken back.

    Args:
        name: The queue.
    """
    if name not in queues:
        raise ToolError(f"there is no queue {name!r}; there are {', '.join(queues)}")
    queues[name] = 0
    return f"{name} is empty"


async def scripted_person(request: ApprovalRequest) -> Decision:
    print(f"[asked] {request.tool}: {request.preview}")
    approve = request.tool == "restart_service"
    print(f"[answer] {'yes' if approve else 'no'}")
    return Decision(approve, "" if approve else "customers wait for these orders", approver="example")


async def person(request: ApprovalRequest) -> Decision:
    print(f"[asked] {request.tool}: {request.reason}\n{request.preview}")
    said = await asyncio.to_thread(input, "Run it? [y/N] Or why not: ")
    return Decision(said.strip().lower() in ("y", "yes"), said, approver="operator")


def show(event: AgentEvent) -> None:
    if isinstance(event, CallDone):
        print(f"[{'failed' if event.output.is_error else 'done'}] {event.call.name} {event.call.arguments}")


async def operate(model: str | Model, approve: object, folder: str) -> int:
    Path(folder, "runbook.md").write_text(RUNBOOK)
    async with (
        Toolbox.open(folder, approve=approve, tools=[services, restart_service, purge_queue]) as box,
        await Agent.open(box, model) as agent,
    ):
        outcome = await agent.run("The web shop is slow. Follow runbook.md.", emit=show)
        print(outcome.text or outcome.reason)
        box.audit.flush()
        for row in box.audit.query(after=0):
            if row["tool"] in ("restart_service", "purge_queue"):
                print(f"[record] {row['tool']}: {row['outcome']}, answered by {row['approver']}")
        return int(outcome.state != "done")


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--model", help="anthropic:NAME, openai:NAME, ollama:NAME … Default: a script.")
    given = options.parse_args()
    model, approve = (given.model, person) if given.model else (ScriptedModel(SCRIPT), scripted_person)
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(operate(model, approve, folder))


if __name__ == "__main__":
    sys.exit(main())
