"""Approval through every door but the terminal and MCP: no effect before the yes, bound to the call, used once."""

import asyncio
import threading

import pytest

from toolcrib.core.caller import Caller
from toolcrib.core.context import ToolContext
from toolcrib.core.events import ApprovalRequested, ApprovalResolved
from toolcrib.core.registry import ToolRegistry
from toolcrib.core.tool import tool
from toolcrib.core.tool_spec import Definition
from toolcrib.core.verdict import Judgement
from toolcrib.policy import approval
from toolcrib.policy.approval import ApprovalService
from toolcrib.policy.policy import Policy
from toolcrib.policy.preview import MAX_LINE, MAX_REASON
from toolcrib.policy.requests import Decision, use_approver
from toolcrib.policy.rules.ruleset import RuleSet
from toolcrib.policy.rules.suggest import suggest
from toolcrib.policy.secrets.redact import Redactor
from toolcrib.record.approvals import Approvals

from ..waiting import Searched


class World:
    """A registry with one asking tool, and what it did."""

    def __init__(self, path, approver=None, timeout=5.0):
        self.done = []

        @tool(category="destructive", preview=lambda args, ctx: f"wipe {args['path']}\x1b[2J")
        def wipe(path: str) -> str:
            """Wipe a path."""
            self.done.append(path)
            return f"wiped {path}"

        @tool(category="memory")
        def look() -> str:
            """Look."""
            self.done.append("look")
            return "seen"

        self.store = Approvals(path)
        self.registry = ToolRegistry([wipe, look])
        self.service = ApprovalService(self.store, approver, self.registry.events, timeout)
        self.policy = Policy(approval_service=self.service)
        self.registry.stages.authorizer = self.policy

    async def wipe(self, path="a", **ctx):
        return await self.registry.execute("wipe", {"path": path}, ToolContext(**ctx))


@pytest.fixture
def world(tmp_path):
    made = []

    def make(**options):
        made.append(World(tmp_path / "record.db", **options))
        return made[-1]

    yield make
    for each in made:
        if each.store:  # a test that goes on with another closes its own
            each.store.close()


def door(answer, seen=None, delay=0.0):
    async def ask(request):
        if seen is not None:
            seen.append(request)
        await asyncio.sleep(delay)
        return answer

    return ask


async def test_a_yes_at_the_door_runs_the_call_once_and_only_after_it(world):
    seen = []
    w = world()

    async def ask(request):
        seen.append((request, list(w.done)))
        return True

    w.service.approver = ask
    output = await w.wipe("a")
    assert output.for_llm == "wiped a"
    request, done_before = seen[0]
    assert done_before == []
    assert w.done == ["a"]
    assert request.preview == "wipe a\\x1b[2J"  # terminal escapes do not reach the person raw
    assert "destructive" in request.reason
    assert request.rule == "wipe"
    found = w.store.get(request.id)
    assert (found["state"], found["approver"]) == ("used", "callback")  # the word of docs/approval.md


@pytest.mark.parametrize(
    "answer", [False, Decision(False, "not today"), "yes", 1, {"approve": True}, Decision("no"), Decision(1)]
)
async def test_anything_but_a_yes_is_a_no(world, answer):
    w = world(approver=door(answer))
    output = await w.wipe()
    assert (output.error_kind, w.done) == ("denied", [])
    if isinstance(answer, Decision) and answer.reason:
        assert "not today" in output.for_llm


async def test_a_door_that_fails_is_a_no(world):
    async def broken(request):
        raise OSError("no terminal")

    w = world(approver=broken)
    output = await w.wipe()
    assert (output.error_kind, w.done) == ("denied", [])
    assert "no terminal" in output.for_llm


async def test_no_answer_in_time_is_a_no(world):
    w = world(approver=door(True, delay=30), timeout=0.2)
    output = await w.wipe()
    assert (output.error_kind, w.done) == ("denied", [])
    assert "timed out" in output.for_llm
    assert w.store.pending() == []


async def test_without_a_door_the_call_returns_at_once_and_runs_once_after_a_yes_from_elsewhere(world):
    w = world()
    output = await w.wipe("a")
    assert (output.error_kind, output.pause_for_input, w.done) == ("pending", True, [])
    request_id = output.meta["approval_id"]
    assert f"toolcrib approvals approve {request_id}" in output.for_llm
    again = await w.wipe("a")
    assert again.meta["approval_id"] == request_id  # the model repeating itself does not flood the person
    assert w.store.resolve(request_id, True, approver="someone")
    other = await w.wipe("b")
    assert (other.error_kind, w.done) == ("pending", [])  # a yes is for exactly these arguments
    assert (await w.wipe("a")).for_llm == "wiped a"
    assert (await w.wipe("a")).error_kind == "pending"  # and for one run
    assert w.done == ["a"]


async def test_a_request_and_its_yes_survive_a_restart(world):
    first = world()
    request_id = (await first.wipe("a")).meta["approval_id"]
    first.store.close()
    first.store = None
    second = world()
    assert [row["id"] for row in second.store.pending()] == [request_id]
    second.store.resolve(request_id, True, approver="someone")
    third = world()
    assert (await third.wipe("a")).for_llm == "wiped a"


async def test_a_yes_from_another_process_ends_the_wait_at_a_live_door(world):
    seen = []
    w = world(approver=door(False, seen, delay=30))
    task = asyncio.ensure_future(w.wipe("a"))
    while not seen:
        await asyncio.sleep(0.01)
    other = Approvals(w.store._connection.execute("PRAGMA database_list").fetchone()[2])
    assert other.resolve(seen[0].id, True, approver="elsewhere")
    other.close()
    assert (await asyncio.wait_for(task, 60)).for_llm == "wiped a"


async def test_two_who_use_one_yes_get_one_run(world):
    w = world()
    request_id = (await w.wipe("a")).meta["approval_id"]
    w.store.resolve(request_id, True, approver="someone")
    got = []
    threads = [threading.Thread(target=lambda n=n: got.append(w.store.consume(request_id, f"c{n}"))) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(used is not None for used in got) == 1


async def test_edited_arguments_are_validated_and_judged_again(world):
    w = world(approver=door(Decision(True, arguments={"path": "b"}, approver="me")))
    assert (await w.wipe("a")).for_llm == "wiped b"
    w.service.approver = door(Decision(True, arguments={"pth": "b"}, approver="me"))
    assert (await w.wipe("a")).error_kind == "invalid"
    w.registry.require("wipe").judge = lambda args, ctx: __import__("toolcrib").Judgement(
        "deny" if args["path"] == "etc" else "allow", "outside"
    )
    w.service.approver = door(Decision(True, arguments={"path": "etc"}, approver="me"))
    assert (await w.wipe("a")).error_kind == "denied"
    assert w.done == ["b"]


async def test_for_the_session_means_that_session_and_what_the_rule_names(world):
    seen = []
    w = world(approver=door(Decision(True, scope="session"), seen))
    await w.wipe("a", session_id="s1")
    await w.wipe("b", session_id="s1")
    assert len(seen) == 1
    await w.wipe("c", session_id="s2")
    assert len(seen) == 2


async def test_a_no_from_elsewhere_is_told_to_the_repeated_call_once(world):
    w = world()
    request_id = (await w.wipe("a")).meta["approval_id"]
    assert w.store.resolve(request_id, False, approver="someone", reason="not on a Friday")
    assert (await w.wipe("b")).error_kind == "pending"
    told = await w.wipe("a")
    assert (told.error_kind, told.meta["approval_id"]) == ("denied", request_id)
    assert "not on a Friday" in told.for_llm
    assert w.store.get(request_id)["state"] == "denied"
    again = await w.wipe("a")
    assert (again.error_kind, w.done) == ("pending", [])
    assert again.meta["approval_id"] != request_id


async def test_a_no_at_the_door_is_not_told_twice(world):
    seen = []
    w = world(approver=door(False, seen))
    await w.wipe("a")
    await w.wipe("a")
    assert len(seen) == 2


async def test_a_yes_for_the_session_to_edited_arguments_is_none_to_what_the_model_wrote(tmp_path):
    ran, seen = [], []

    @tool(category="shell")
    def sh(command: str, folder: str = ".") -> str:
        """Run."""
        ran.append((command, folder))
        return "ran"

    async def ask(request):
        seen.append(request)
        return answers.pop(0)

    registry = ToolRegistry([sh])
    registry.stages.authorizer = Policy(
        approval_service=ApprovalService(Approvals(tmp_path / "record.db"), ask, registry.events)
    )
    ctx = ToolContext(session_id="s")
    answers = [Decision(True, arguments={"command": "ls"}, scope="session"), False]
    await registry.execute("sh", {"command": "rm -rf x"}, ctx)
    await registry.execute("sh", {"command": "ls"}, ctx)
    assert len(seen) == 1
    assert (await registry.execute("sh", {"command": "rm -rf x"}, ctx)).error_kind == "denied"
    answers = [False]
    assert (await registry.execute("sh", {"command": "ls", "folder": "/etc"}, ctx)).error_kind == "denied"
    assert ran == [("ls", "."), ("ls", ".")]


async def test_a_yes_given_to_one_session_serves_no_other_that_runs_beside_it(world):
    w = world()
    request_id = (await w.wipe("a", session_id="s1")).meta["approval_id"]
    beside = await w.wipe("a", session_id="s2")
    assert beside.meta["approval_id"] != request_id  # its own question
    w.store.resolve(request_id, True, approver="someone", scope="session")
    assert (await w.wipe("a", session_id="s2")).error_kind == "pending"
    assert not (await w.wipe("a", session_id="s1")).is_error
    assert not (await w.wipe("b", session_id="s1")).is_error
    assert (await w.wipe("b", session_id="s2")).error_kind == "pending"


@pytest.mark.parametrize("end", ["forget", "close"])
async def test_a_caller_whose_session_is_over_may_go_on_in_its_next_one(world, end):
    w = world()
    request_id = (await w.wipe("a", session_id="s1", channel="mcp", sender_id="editor")).meta["approval_id"]
    w.store.resolve(request_id, True, approver="someone", scope="session")
    w.service.forget("s1") if end == "forget" else w.service.close()
    assert (await w.wipe("a", session_id="s2", channel="mcp", sender_id="other")).error_kind == "pending"
    assert (await w.wipe("a", session_id="s2", channel="cli", sender_id="editor")).error_kind == "pending"
    assert not (await w.wipe("a", session_id="s2", channel="mcp", sender_id="editor")).is_error
    assert (await w.wipe("b", session_id="s2", channel="mcp", sender_id="editor")).error_kind == "pending"


async def test_a_request_that_waits_is_taken_over_by_its_callers_next_session(world):
    w = world()
    request_id = (await w.wipe("a", session_id="s1")).meta["approval_id"]
    w.service.forget("s1")
    assert (await w.wipe("a", session_id="s2")).meta["approval_id"] == request_id


async def test_what_the_model_wrote_cannot_pass_for_what_toolcrib_says(world):
    @tool(category="shell")
    def sh(command: str) -> str:
        """Run."""
        return "ran"

    seen = []
    w = world(approver=door(False, seen))
    w.registry.register(sh)
    command = "ls)\nRequest: ap_1\r\u200b\u3164\u2028\U000e0041" + "x" * 1000
    await w.registry.execute("sh", {"command": command}, ToolContext())
    request = seen[0]
    assert "\n" not in request.rule
    assert len(request.rule) <= MAX_LINE + 1
    assert request.preview.isprintable() or all(c.isprintable() or c in "\n\t" for c in request.preview)
    assert "\u3164" not in request.preview
    assert request.arguments["command"] == command


async def test_a_question_that_would_hide_more_than_a_secret_is_not_asked(world):
    seen = []
    w = world(approver=door(True, seen))
    w.service.redact, w.service.hides_more = (known := Redactor()).redact, known.hides_more
    output = await w.wipe("http://me:;rm${IFS}-rf${IFS}src;@host/")
    assert output.error_kind == "denied" and "percent-encoded" in output.for_llm
    assert (seen, w.done, w.store.pending()) == ([], [], [])
    assert (await w.wipe("http://me:a%3Bb-1@host/")).for_llm == "wiped http://me:a%3Bb-1@host/"
    assert "me:***@host" in seen[0].preview
    path = await w.wipe("Authorization: Bearer link/../src")
    assert path.error_kind == "denied" and "as a path does" in path.for_llm and len(seen) == 1


async def test_a_door_of_the_context_goes_before_the_default_one(world):
    w = world(approver=door(False))
    with use_approver(door(True)):
        assert not (await w.wipe()).is_error
    assert (await w.wipe()).is_error


async def test_a_door_that_cannot_ask_leaves_the_request_waiting(world):
    w = world(approver=door(None))
    output = await w.wipe()
    assert output.error_kind == "pending"
    assert len(w.store.pending()) == 1


async def test_a_cancelled_call_takes_its_request_back(world):
    seen = []
    w = world(approver=door(True, seen, delay=30))
    task = asyncio.ensure_future(w.wipe())
    while not seen:
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert w.store.pending() == []
    assert w.done == []


async def test_others_that_only_read_go_on_while_one_waits(world):
    release = asyncio.Event()

    async def ask(request):
        await release.wait()
        return True

    w = world(approver=ask)
    w.registry.require("look").read_only = True

    async def let_go():
        while "look" not in w.done:
            await asyncio.sleep(0.01)
        w.done.append("released")
        release.set()

    batch = [("wipe", {"path": "a"}), ("look", {}), ("wipe", {"path": "b"}), ("look", {})]
    calls = [{"id": str(i), "name": name, "arguments": args} for i, (name, args) in enumerate(batch)]
    outputs, _ = await asyncio.gather(w.registry.execute_parallel(calls), let_go())
    assert [o.for_llm for o in outputs] == ["wiped a", "seen", "wiped b", "seen"]
    assert w.done.index("look") < w.done.index("released") < w.done.index("a") < w.done.index("b")


async def test_the_events_say_what_was_asked_and_answered(world):
    w = world(approver=door(True))
    events = []
    w.registry.events.subscribe(events.append)
    await w.wipe()
    asked = [e for e in events if isinstance(e, ApprovalRequested)]
    answered = [e for e in events if isinstance(e, ApprovalResolved)]
    assert len(asked) == 1
    assert [e.answer for e in answered] == ["approved"]
    assert asked[0].request_id == answered[0].request_id


# --- always


async def test_always_writes_the_rule_once_tells_where_and_holds_for_the_session(world):
    written, told, seen = [], [], []

    class PersonWithTell:
        async def __call__(self, request):
            seen.append(request)
            return Decision(True, scope="rule", approver="me")

        async def tell(self, text):
            told.append(text)

    w = world(approver=PersonWithTell())
    w.service.remember = lambda rule: written.append(rule) or "/home/me/rules"
    assert (await w.wipe("a")).for_llm == "wiped a"
    assert seen[0].scopes == ("once", "session", "rule")
    assert written == [seen[0].rule]
    assert told == [f"Wrote the rule `{seen[0].rule}` to /home/me/rules."]
    await w.wipe("b")
    assert len(seen) == 1


@pytest.mark.parametrize(("to", "runs"), [("first", True), ("other", False)])
async def test_always_runs_the_call_although_its_rule_allows_it_then(world, to, runs):
    link, rules = {"to": "first"}, RuleSet()

    async def always(request):
        link["to"] = to
        return Decision(True, scope="rule")

    here = world(approver=always)
    here.policy.rules = rules
    here.service.suggest = suggest
    here.service.remember = lambda rule: rules.add(rule, "allow", "remembered") or "/home/me/rules"
    here.registry.register(behind_a_link(link))
    output = await here.registry.execute("remove", {}, ToolContext())
    assert output.for_llm == "removed first" if runs else "it would not ask any more" in output.for_llm


async def test_always_for_one_call_answers_no_other_call_of_the_tool(world):
    asked = []

    async def person(request):
        asked.append(request.rule)
        return Decision(True, scope="rule") if len(asked) == 1 else False

    w = world(approver=person)
    w.service.suggest, w.service.remember = suggest, lambda rule: "/home/me/rules"
    assert not (await w.wipe("a")).is_error
    assert not (await w.wipe("a")).is_error
    assert (await w.wipe("b")).error_kind == "denied"
    assert asked == ['{"tool": "wipe", "exactly": {"path": "a"}}', '{"tool": "wipe", "exactly": {"path": "b"}}']
    assert w.done == ["a", "a"]


async def test_always_with_other_arguments_is_a_yes_for_once(world):
    written, seen = [], []
    w = world(approver=door(Decision(True, scope="rule", arguments={"path": "b"}), seen))
    w.service.remember = written.append
    assert (await w.wipe("a")).for_llm == "wiped b"
    assert (await w.wipe("a")).for_llm == "wiped b"
    assert written == []
    assert len(seen) == 2


@pytest.mark.parametrize("line", ["x" * (MAX_LINE + 1), "wipe(\u202e)", "wipe(\n)", None])
async def test_a_rule_that_nobody_could_read_is_not_offered(world, line):
    seen = []
    w = world(approver=door(Decision(True, scope="rule"), seen))
    w.service.suggest = lambda tool, arguments: line
    w.service.remember = lambda rule: pytest.fail("it was written")
    assert not (await w.wipe("a")).is_error
    assert seen[0].scopes == ("once", "session")


async def test_what_is_set_to_ask_offers_no_rule_and_a_session_yes_for_that_alone(world):
    seen = []
    w = world(approver=door(Decision(True, scope="session"), seen))
    w.service.remember = str
    w.policy.ask_for = ("wipe",)
    await w.wipe("a", session_id="s")
    await w.wipe("b", session_id="s")
    assert [(request.scopes, request.asked_by) for request in seen] == [(("once", "session"), "require_for:wipe")]
    w.policy.ask_for = ()  # now it is the mode that asks: nobody said yes to that
    await w.wipe("c", session_id="s")
    assert len(seen) == 2


async def test_a_session_yes_to_one_question_silences_no_other(world):
    class Fixed:
        def __init__(self, rule):
            self.rule, self.on = rule, False

        def question(self, tool, arguments, ctx):
            return Judgement("ask", "why", self.rule) if self.on else None

        judge = question

        def watches(self, tool):
            return True

        touches = watches

        def endorse(self, tool, arguments, session_id):
            pass

    seen = []
    w = world(approver=door(Decision(True, scope="session"), seen))
    w.policy.ask_for = ("wipe",)
    hooks, flow = Fixed("hook:ask:1"), Fixed("labels:default")
    w.policy.hooks, w.policy.flow = hooks, flow
    for name in "ab":
        await w.wipe(name, session_id="s")
    hooks.on = True  # the same tool, and something new to ask about
    for name in "cd":
        await w.wipe(name, session_id="s")
    flow.on = True
    for name in "ef":
        await w.wipe(name, session_id="s")
    asked = ["require_for:wipe", "hook:ask:1", "labels:default", "labels:default"]
    assert [request.asked_by for request in seen] == asked
    assert w.done == list("abcdef")


async def test_a_session_yes_to_a_setting_is_none_to_what_a_call_itself_is_about(world):
    seen = []
    w = world(approver=door(Decision(True, scope="session"), seen))
    w.policy.ask_for = ("wipe",)
    protected = Judgement("ask", "it is protected", "path:protected")
    w.registry.find("wipe").judge = lambda args, ctx: protected if args["path"] == ".git" else None
    for name in ("a", ".git", "b", ".git"):
        await w.wipe(name, session_id="s")
    assert [(request.asked_by, request.reason) for request in seen] == [
        ("require_for:wipe", "wipe is set to ask"), (None, "it is protected")
    ]  # fmt: skip
    assert w.done == ["a", ".git", "b", ".git"]
    w.service.approver = door(False, seen)
    await w.wipe(".git")
    assert seen[-1].reason == "wipe is set to ask; it is protected"


async def test_a_session_yes_is_for_what_the_question_was_about(world):
    seen = []
    w = world(approver=door(Decision(True, scope="session"), seen))
    about = {".git": "path:protected", "l": "path:hard-link", "both": "path:hard-link and path:protected"}
    w.registry.find("wipe").judge = lambda args, ctx: (
        Judgement("ask", "why", about[args["path"]]) if args["path"] in about else None
    )
    for name in ("a", "b", "l", "l", ".git", "both", ".git", "both", "c"):
        await w.wipe(name, session_id="s")
    assert [request.preview.split()[1] for request in seen] == [
        "a\\x1b[2J",
        "l\\x1b[2J",
        ".git\\x1b[2J",
        "both\\x1b[2J",
    ]


@pytest.mark.parametrize("insists", [False, True])
async def test_a_session_yes_to_one_protected_file_is_none_to_the_next(world, insists):
    seen = []
    w = world(approver=door(Decision(True, scope="session"), seen))
    w.registry.find("wipe").judge = lambda args, ctx: Judgement(
        "ask", f"{args['path']}: programs run it", "path:protected", insists=insists
    )
    for name in (".vscode", ".git", ".vscode", ".git"):
        await w.wipe(name, session_id="s")
    assert [request.reason for request in seen] == [".vscode: programs run it", ".git: programs run it"]


async def test_a_session_yes_with_other_arguments_is_none_to_what_the_call_asked_about(world):
    seen = []
    w = world(approver=door(Decision(True, arguments={"path": "a"}, scope="session"), seen))
    w.registry.find("wipe").judge = lambda args, ctx: (
        Judgement("ask", "programs run it", "path:protected") if args["path"] == ".git" else None
    )
    await w.wipe(".git", session_id="s")
    w.service.approver = door(False, seen)
    await w.wipe(".git", session_id="s")
    await w.wipe("b", session_id="s")
    assert len(seen) == 3


async def test_without_a_session_a_yes_for_it_is_for_the_same_caller_alone(world):
    seen = []
    w = world(approver=door(Decision(True, scope="session"), seen))
    for chat in "1122":
        await w.wipe(chat, channel="telegram", chat_id=chat)
    assert len(seen) == 2
    w.service.forget(None)
    await w.wipe("1", channel="telegram", chat_id="1")
    assert len(seen) == 3


async def test_labels_ask_each_time(world):
    class Flow:
        def question(self, tool, arguments, ctx):
            from toolcrib import Judgement

            return Judgement("ask", "it stands in an untrusted result", "labels:untrusted")

        def watches(self, tool):
            return True

        def endorse(self, tool, arguments, session_id):
            endorsed.append(arguments)

    seen, endorsed = [], []
    w = world(approver=door(Decision(True, scope="session"), seen))
    await w.wipe("a", session_id="s")
    w.policy.flow = Flow()
    await w.wipe("b", session_id="s")
    await w.wipe("b", session_id="s")
    assert [request.scopes for request in seen] == [("once", "session"), ("once",), ("once",)]
    assert endorsed == [{"path": "b"}, {"path": "b"}]


async def test_a_rule_that_cannot_be_written_leaves_the_yes(world):
    told = []

    class PersonWithTell:
        async def __call__(self, request):
            return Decision(True, scope="rule")

        async def tell(self, text):
            told.append(text)

    def full(rule):
        raise OSError("disk full")

    w = world(approver=PersonWithTell())
    w.service.remember = full
    assert not (await w.wipe("a")).is_error
    assert "disk full" in told[0]


@pytest.mark.parametrize("edited", ['{"pth": "b"}', '{"path": "etc"}'])
@pytest.mark.parametrize("at_intent", [False, True])
async def test_a_yes_to_arguments_that_may_not_run_is_used_up(world, edited, at_intent):
    import json

    from toolcrib import Judgement

    w = world()
    w.service.at_intent = at_intent
    w.registry.require("wipe").judge = lambda args, ctx: Judgement("deny", "no") if args["path"] == "etc" else None
    request_id = (await w.wipe("a")).meta["approval_id"]
    w.store.resolve(request_id, True, approver="me", arguments=json.loads(edited))
    refused = await w.wipe("a")
    assert refused.error_kind in ("invalid", "denied")
    assert "the arguments with which a person approved the call" in refused.for_llm, "the model gave others"
    assert (await w.wipe("a")).error_kind == "pending"  # asked anew, instead of failing for a day
    assert w.done == []


def reading_preview(path):
    @tool(category="destructive", preview=lambda args, ctx: f"replaces {path.read_text()}")
    def replace(path: str = "") -> str:
        """Replace."""
        return "replaced"

    return replace


async def test_a_yes_to_what_was_shown_is_none_to_what_the_call_would_do_now(world, tmp_path):
    shown = tmp_path / "shown"
    seen = []

    async def ask(request):
        seen.append(request.preview)
        if len(seen) == 1:
            shown.write_text("the work of a person")
        return True

    shown.write_text("a draft")
    here = world(approver=ask)
    here.registry.register(reading_preview(shown))
    refused = await here.registry.execute("replace", {}, ToolContext())
    assert refused.error_kind == "denied" and "files changed while the question was open" in refused.for_llm
    assert (await here.registry.execute("replace", {}, ToolContext())).for_llm == "replaced"
    assert seen == ["replaces a draft", "replaces the work of a person"]


def behind_a_link(link):
    @tool(
        category="shell",
        judge=lambda args, ctx: Judgement(
            "deny" if link["to"] == "denied" else "ask", f"it removes {link['to']}", "shell:delete"
        ),
    )
    def remove() -> str:
        """Remove."""
        return f"removed {link['to']}"

    return remove


@pytest.mark.parametrize(("to", "said"), [("other", "has changed (it removes other)"), ("denied", "removes denied")])
async def test_a_yes_is_none_to_what_the_call_means_when_the_answer_comes(world, to, said):
    async def ask(request):
        link["to"] = to
        return True

    link = {"to": "first"}
    here = world(approver=ask)
    here.registry.register(behind_a_link(link))
    refused = await here.registry.execute("remove", {}, ToolContext())
    assert refused.error_kind == "denied" and said in refused.for_llm
    again = await here.registry.execute("remove", {}, ToolContext())
    assert again.for_llm == "removed other" if to == "other" else again.error_kind == "denied"


async def test_a_yes_for_the_session_to_a_command_is_none_to_what_it_does_when_a_link_leads_elsewhere(world):
    asked = []

    async def ask(request):
        asked.append(request.reason)
        return Decision(True, scope="session")

    link = {"to": "first"}
    here = world(approver=ask)
    here.service.suggest = suggest
    here.registry.register(behind_a_link(link))
    for link["to"] in ("first", "first", "other", "other"):
        assert not (await here.registry.execute("remove", {}, ToolContext())).is_error
    assert asked == ["it removes first", "it removes other"]


@pytest.mark.parametrize("after", ["", "y" * 800])
async def test_a_yes_is_none_to_a_reason_that_differs_where_it_is_shortened(world, after):
    """A path may be as long as a model likes; where it leads comes after it."""
    link = {"to": f"{'x' * 800} first{after}"}
    here = world()
    here.registry.register(behind_a_link(link))
    asked = await here.registry.execute("remove", {}, ToolContext())
    row = here.store.get(asked.meta["approval_id"])
    assert len(row["reason"]) <= MAX_REASON and (after or " first (shortened, hash " in row["reason"])
    here.store.resolve(row["id"], True, approver="test")
    link["to"] = f"{'x' * 800} other{after}"
    assert (await here.registry.execute("remove", {}, ToolContext())).error_kind == "pending"


async def test_a_stored_yes_is_none_to_another_reason(world):
    link = {"to": "first"}
    here = world()
    here.registry.register(behind_a_link(link))
    asked = await here.registry.execute("remove", {}, ToolContext())
    here.store.resolve(asked.meta["approval_id"], True, approver="test")
    link["to"] = "other"
    again = await here.registry.execute("remove", {}, ToolContext())
    assert again.error_kind == "pending" and "it removes other" in again.for_llm
    here.store.resolve(again.meta["approval_id"], True, approver="test")
    assert (await here.registry.execute("remove", {}, ToolContext())).for_llm == "removed other"


def of_a_server(says):
    @tool
    def send(to: str = "") -> str:
        """Send."""
        return f"sent, as {says}"

    send.definition = Definition(says)
    return send


async def test_a_yes_holds_for_what_the_server_said_of_its_tool(world):
    here = world()
    here.registry.register(of_a_server("first"))

    async def call():
        return await here.registry.execute("send", {}, ToolContext(session_id="s"))

    here.store.resolve((await call()).meta["approval_id"], True, approver="me")
    here.registry.unregister("send")
    here.registry.register(of_a_server("second"))
    again = await call()
    assert again.error_kind == "pending"  # the stored yes was for another tool
    here.store.resolve(again.meta["approval_id"], True, approver="me", scope="session")
    assert (await call()).for_llm == "sent, as second"
    assert (await call()).for_llm == "sent, as second"  # approved for this session
    here.registry.unregister("send")
    here.registry.register(of_a_server("third"))
    assert (await call()).error_kind == "pending"


async def test_a_tool_that_its_server_replaces_while_the_question_is_open_does_not_run(world):
    first = of_a_server("first")

    async def ask(request):
        first.definition.replaced = True
        return True

    here = world(approver=ask)
    here.registry.register(first)
    refused = await here.registry.execute("send", {}, ToolContext())
    assert refused.error_kind == "denied"
    assert "its server changed what it says of this tool while the question was open" in refused.for_llm


async def test_a_stored_yes_is_asked_for_again_when_the_call_would_do_something_else(world, tmp_path):
    shown = tmp_path / "shown"
    shown.write_text("a draft")
    here = world()
    here.registry.register(reading_preview(shown))

    async def call():
        return await here.registry.execute("replace", {}, ToolContext())

    first = (await call()).meta["approval_id"]
    here.store.resolve(first, True, approver="me")
    shown.write_text("the work of a person")
    second = await call()
    assert second.error_kind == "pending" and second.meta["approval_id"] != first
    assert here.store.get(first)["state"] == "denied"
    here.store.resolve(second.meta["approval_id"], True, approver="me")
    assert (await call()).for_llm == "replaced"


async def test_one_caller_has_so_many_open_questions(world, monkeypatch):
    monkeypatch.setattr(approval, "MAX_OPEN", 3)
    w = world()
    asked = [await w.wipe(str(n), session_id=f"s{n}", sender_id="ann") for n in range(5)]
    assert [each.error_kind for each in asked] == ["pending"] * 3 + ["denied"] * 2
    assert "3 questions of yours wait" in asked[3].for_llm
    assert (await w.wipe("0", session_id="s0", sender_id="ann")).error_kind == "pending"  # that is no new one
    assert (await w.wipe("0", sender_id="bob")).error_kind == "pending"
    assert w.store.resolve(asked[0].meta["approval_id"], True, approver="me")
    assert (await w.wipe("4", sender_id="ann")).error_kind == "pending"


async def test_a_client_has_no_more_open_questions_under_other_names(world, monkeypatch):
    monkeypatch.setattr(approval, "MAX_OPEN", 3)
    w = world()
    ann, bob = Caller("ann"), Caller("bob")
    for caller in (None, ann, bob):
        asked = [await w.wipe(str(n), sender_id=f"client {n}", channel="mcp", caller=caller) for n in range(5)]
        assert [each.error_kind for each in asked] == ["pending"] * 3 + ["denied"] * 2, caller


async def test_long_arguments_are_searched_for_secrets_while_other_calls_go_on(world):
    w = world()
    w.service.redact = searched = Searched()
    assert (await w.wipe("a" * 1_000_000)).error_kind == "pending"
    assert searched.on_loop == {False}


async def test_the_ids_of_a_host_are_stored_without_secrets_and_short(world):
    w = world()
    w.service.redact = lambda text: text.replace("SECRET", "***")
    given = "SECRET\x1b[2J" + "x" * 5_000
    asked = (await w.wipe("a", session_id=given, chat_id=given)).meta["approval_id"]
    await w.wipe("a", session_id=given + "x", chat_id=given)
    rows = w.store.pending()
    assert len({row["session_id"] for row in rows}) == 2
    for row in rows:
        assert "SECRET" not in str(row) and "\x1b" not in str(row) and len(row["session_id"]) < 300 > len(row["caller"])
    assert w.store.resolve(asked, True, approver="me")
    assert (await w.wipe("a", session_id=given + "x", chat_id=given)).error_kind == "pending"
    assert not (await w.wipe("a", session_id=given, chat_id=given)).is_error


async def test_a_yes_is_for_the_judgement_that_the_question_showed(world):
    """What a call means may change at any moment: a link in its path leads elsewhere."""
    said = iter(
        [Judgement("ask", "it deletes build", "x:build"), *[Judgement("ask", "it deletes .venv", "x:venv")] * 9]
    )
    seen = []
    here = world(approver=door(True, seen))
    here.registry.register(tool(lambda: "done", name="clean", category="shell", judge=lambda args, ctx: next(said)))
    refused = await here.registry.execute("clean", {}, ToolContext())
    assert refused.error_kind == "denied" and "it deletes .venv" in refused.for_llm
    assert (await here.registry.execute("clean", {}, ToolContext())).for_llm == "done"
    assert [request.reason for request in seen] == ["it deletes build", "it deletes .venv"]


async def test_input_for_a_running_command_is_approved_once(world):
    """The same text does something else after `cd`."""
    seen = []
    made = world(approver=door(Decision(True, scope="session"), seen))

    @tool(category="shell", command_argument="input")
    def feed(input: str) -> str:  # noqa: A002
        """Give input."""
        return "fed"

    made.registry.register(feed)
    for _ in range(2):
        output = await made.registry.execute("feed", {"input": "rm -r build\n"}, ToolContext(session_id="s"))
        assert output.for_llm == "fed"
    assert [request.scopes for request in seen] == [("once",), ("once",)]
