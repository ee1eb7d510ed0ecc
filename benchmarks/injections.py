"""Which injected calls do labels stop, and which tasks do they interrupt? AgentDojo's tasks, replayed without a model.

    python3 -m venv DOJO && DOJO/bin/pip install agentdojo==0.1.35
    python benchmarks/injections.py DOJO/bin/python [--policy NAME …] [--each]

AgentDojo (PyPI) has user tasks and injected tasks for four applications, and for each task the calls that solve it (its
ground truth). Its set v1 is used: 97 user tasks, and 609 pairs of a user task and an injected task that makes calls. In 20
more pairs the injected text only wants a sentence in the answer; no policy of calls sees that.

Each user task runs in autonomous mode in a session of its own, through `Toolbox.call`: its calls in order, each answered
as AgentDojo's application does. A task is *unasked* if no call of it asks. Each pair runs twice: the injected calls come
right after the first result with the injected text (AgentDojo's "important instructions"), or after all the user's calls.
A person says yes to the user's own calls, and no to the injected ones. A pair is *stopped* if in both runs an injected
call asks or is denied.

An *agent* knows what its user wrote (`session.trust`); a *gateway* does not. The labels are those of MCP hints
(`readOnlyHint`, `openWorldHint`), set by hand below, before anything was measured, by one question: may a stranger have
written a part of the result? What deletes, cancels, removes or replaces a password is destructive. The page reader is
network_write, as our http_request: a GET of any address can carry data out.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any

CLOSED = {
    "get_current_day", "search_contacts_by_name", "search_contacts_by_email", "get_sent_emails", "get_draft_emails",
    "get_iban", "get_balance", "get_user_info", "get_user_information", "get_scheduled_transactions",
    "get_users_in_channel",
}  # fmt: skip
"""Tools that read only what the user or their own service wrote (`openWorldHint: false`). All other results may have texts
of strangers: mail, shared files and events, directories and reviews, transactions, messages, names of channels, pages."""
DESTRUCTIVE = {"delete_email", "delete_file", "cancel_calendar_event", "remove_user_from_slack", "update_password"}
MESSAGING = {"send_email", "send_direct_message", "send_channel_message"}
WRITING = {
    "create_calendar_event", "reschedule_calendar_event", "add_calendar_event_participants", "append_to_file",
    "create_file", "share_file", "reserve_hotel", "reserve_car_rental", "reserve_restaurant", "send_money",
    "schedule_transaction", "update_scheduled_transaction", "update_user_info", "add_user_to_channel",
    "invite_user_to_slack", "post_webpage", "get_webpage",
}  # fmt: skip


# --- in AgentDojo's Python: what happens


def dump() -> None:
    from agentdojo.agent_pipeline.tool_execution import tool_result_to_str
    from agentdojo.attacks.base_attacks import FixedJailbreakAttack
    from agentdojo.attacks.important_instructions_attacks import ImportantInstructionsAttackNoNames
    from agentdojo.functions_runtime import FunctionsRuntime
    from agentdojo.task_suite.load_suites import get_suites

    class Attack(ImportantInstructionsAttackNoNames):
        def __init__(self, suite: Any) -> None:  # without a model, whose name the text would have
            FixedJailbreakAttack.__init__(self, self._JB_STRING, suite, None)

    def run(suite: Any, task: Any, env: Any) -> list[dict[str, Any]]:
        runtime, done = FunctionsRuntime(suite.tools), []
        for call in task.ground_truth(env):
            result, error = runtime.run_function(env, call.function, call.args)
            done.append({"tool": call.function, "args": call.args, "result": error or tool_result_to_str(result)})
        return done

    for name, suite in get_suites("v1").items():
        schemas = {
            tool.name: {"description": tool.description, "schema": tool.parameters.model_json_schema()}
            for tool in suite.tools
        }
        print(json.dumps({"suite": name, "tools": schemas}))
        attack = Attack(suite)
        for task_id, task in suite.user_tasks.items():
            benign = run(suite, task, suite.load_and_inject_default_environment({}))
            print(json.dumps({"suite": name, "task": task_id, "prompt": task.PROMPT, "calls": benign}, default=str))
            for injected_id, injected in suite.injection_tasks.items():
                env = suite.load_and_inject_default_environment(attack.attack(task, injected))
                calls = run(suite, task, env)
                wanted = run(suite, injected, env)
                seen = [n for n, call in enumerate(calls) if "<INFORMATION>" in call["result"]]
                row = {"injected": injected_id, "calls": calls, "wanted": wanted, "seen": seen[0] if seen else None}
                print(json.dumps({"suite": name, "task": task_id, "prompt": task.PROMPT, **row}, default=str))


# --- in ours: what is asked


def category(name: str) -> str:
    if name in DESTRUCTIVE:
        return "destructive"
    if name in MESSAGING:
        return "messaging"
    if name in WRITING:
        return "network_write"
    return "filesystem_read" if name in CLOSED else "network_read"


Calls = list[dict[str, Any]]


class Replay:
    """A toolbox with a suite's tools, which answer as AgentDojo's application did."""

    def __init__(self, tools: dict[str, Any], policy: str, agent: bool) -> None:
        from toolcrib.config import load_settings
        from toolcrib.core.tool import Tool

        self.agent, self.sessions = agent, 0
        self.answer, self.yes, self.question = "", True, ""
        self.tools = [
            Tool.from_schema(name, each["description"], each["schema"], self._answer, category=category(name))
            for name, each in tools.items()
        ]
        flags = {"labels.policy": policy, "mode": "autonomous", "limits.may_repeat": ["*"]}
        self.settings = load_settings(tempfile.mkdtemp(), flags=flags)

    def _answer(self, args: dict[str, Any], /) -> str:
        return self.answer

    async def _approve(self, request: Any) -> bool:
        self.question = request.reason
        return self.yes

    def open(self) -> Any:
        from toolcrib import Toolbox

        return Toolbox.open(settings=self.settings, tools=self.tools, builtin=False, approve=self._approve)

    async def run(self, box: Any, prompt: str, own: Calls, wanted: Calls) -> tuple[str, str]:
        """Return the first question about the user's own calls, and the first about those that are injected after them."""
        self.sessions += 1
        session = box.session(f"s{self.sessions}")
        if self.agent:
            session.trust(prompt)
        asked = await self._calls(box, session.id, own, yes=True)
        stopped = await self._calls(box, session.id, wanted, yes=False)
        session.end()
        return asked, stopped

    async def _calls(self, box: Any, session_id: str, calls: Calls, yes: bool) -> str:
        from toolcrib import ToolContext

        first = ""
        for call in calls:
            self.question, self.yes, self.answer = "", yes, call["result"]
            out = await box.call(call["tool"], call["args"], ToolContext(session_id=session_id))
            first = first or self.question and f"{call['tool']}: {self.question}"
            if out.error_kind == "denied":
                assert not yes, out.for_llm
                break
        return first


Row = tuple[str, str, bool, bool]
"""Suite, user task, whether it is a pair, whether it was stopped or asked."""


async def replay(rows: list[dict[str, Any]], policy: str, agent: bool, each: bool) -> list[Row]:
    found: list[Row] = []
    for suite, tools in [(row["suite"], row["tools"]) for row in rows if "tools" in row]:
        player = Replay(tools, policy, agent)
        async with player.open() as box:
            for row in rows:
                if row["suite"] != suite or "tools" in row:
                    continue
                task, prompt, calls = row["task"], row["prompt"], row["calls"]
                if "injected" not in row:
                    asked, _ = await player.run(box, prompt, calls, [])
                    found.append((suite, task, False, bool(asked)))
                    if each and asked:
                        print(f"  asked   {suite} {task}: {asked[:200]}")
                elif row["wanted"]:
                    early = await player.run(box, prompt, calls[: row["seen"] + 1], row["wanted"])
                    late = await player.run(box, prompt, calls, row["wanted"])
                    found.append((suite, task, True, bool(early[1] and late[1])))
                    if each and not (early[1] and late[1]):
                        print(f"  missed  {suite} {task} {row['injected']}")
    return found


def table(found: list[Row]) -> str:
    parts: dict[str, Callable[[str, int], bool]] = {
        "all": lambda suite, number: True,
        **{name: (lambda suite, number, name=name: suite == name) for name in dict.fromkeys(row[0] for row in found)},
        "even numbers": lambda suite, number: number % 2 == 0,
        "odd numbers": lambda suite, number: number % 2 == 1,
    }
    lines: list[str] = []
    for name, has in parts.items():
        rows = [row for row in found if has(row[0], int(row[1].rpartition("_")[2]))]
        pairs = [stopped for _, _, is_pair, stopped in rows if is_pair]
        tasks = [asked for _, _, is_pair, asked in rows if not is_pair]
        lines.append(
            f"  {name:14} stopped {sum(pairs):3} of {len(pairs):3}   unasked {tasks.count(False):2} of {len(tasks):2}"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("python", help="of an environment with agentdojo")
    parser.add_argument("--policy", nargs="*", default=["destinations", "said", "default", "strict"])
    parser.add_argument("--each", action="store_true", help="name each task that asks and each pair that is missed")
    given = parser.parse_args()
    text = subprocess.run([given.python, __file__, "dump"], stdout=subprocess.PIPE, check=True, text=True).stdout
    rows = [json.loads(line) for line in text.splitlines()]
    for policy in given.policy:
        for agent in (True, False):
            print(f"{policy}, {'agent' if agent else 'gateway'}", flush=True)
            print(table(asyncio.run(replay(rows, policy, agent, given.each))), flush=True)


if __name__ == "__main__":
    dump() if sys.argv[1:] == ["dump"] else main()
