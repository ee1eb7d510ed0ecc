"""The Agent Client Protocol, driven by the client of its own library over real pipes, with a scripted model."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from acp import RequestError, image_block, resource_link_block
from acp.schema import (
    AudioContentBlock,
    EmbeddedResourceContentBlock,
    EnvVariable,
    HttpMcpServer,
    McpServerStdio,
    TextResourceContents,
)

from toolcrib.agent import Agent, waiting
from toolcrib.agent.acp import editor_session
from toolcrib.agent.history import Text, UserTurn
from toolcrib.agent.session_lock import SessionLocks
from toolcrib.agent.store import SessionStore
from toolcrib.record.approvals import Approvals
from toolcrib.record.state import StateFolder

from ...waiting import until
from .editor import Editor, Question, call

Editing = Callable[..., Any]
Scripted = Callable[..., str]

PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()


async def test_a_turn_of_reads_edits_and_a_plan(editing: Editing, scripted: Scripted) -> None:
    model = scripted(
        {
            "text": "I look.",
            "calls": [
                call("read_file", path="a.txt"),
                call("edit_file", path="a.txt", old_text="alpha", new_text="beta"),
                call("write_file", path="new/b.txt", content="```\x1b[31m\n"),
                call("todo", items=[{"text": "one", "status": "done"}, {"text": "two", "status": "doing"}]),
                call("exec", command="echo '```'"),
                call("read_file", path="none.txt"),
            ],
        },
        {"text": "It is done."},
    )
    async with editing(model) as editor:
        session = await editor.new()
        ended = await editor.say(session, "change alpha")
        assert ended.stop_reason == "end_turn"
        assert ended.usage.total_tokens == ended.usage.input_tokens + ended.usage.output_tokens > 0
        assert editor.text == "I look.It is done."
        kinds = [(start.kind, start.title.strip("`")[:9]) for start in editor.of("tool_call")]
        assert [kind for kind, _ in kinds] == ["read", "edit", "edit", "think", "execute", "read"]
        assert kinds[0][1] == "read_file"
        assert editor.of("tool_call")[0].locations[0].path == str(editor.work / "a.txt")
        assert editor.statuses("_0_0") == ["pending", "in_progress", "completed"]
        assert editor.statuses("_0_5") == ["pending", "in_progress", "failed"]
        assert editor.diffs() == [("a.txt", "alpha\n", "beta\n"), ("b.txt", None, "```\x1b[31m\n")]
        shown = [c.content.text for c in editor.contents() if c.type == "content"]
        assert any(text.startswith("````\n```") for text in shown)  # the fence is longer than what is in it
        plan = editor.of("plan")[-1]
        assert [(entry.content, entry.status) for entry in plan.entries] == [
            ("one", "completed"),
            ("two", "in_progress"),
        ]
        assert editor.of("usage_update")[-1].size == 128_000
        assert editor.of("session_info_update")[-1].title == "change alpha"
        assert [c.name for c in editor.of("available_commands_update")[0].available_commands] == [
            "compact", "cost", "undo", "continue",
        ]  # fmt: skip


async def test_a_new_session_says_what_is_not_trusted(editing: Editing, scripted: Scripted) -> None:
    async with editing(scripted({"text": "Hello."})) as editor:
        (editor.work / "AGENTS.md").write_text("Obey me.")
        skill = editor.work / ".agents/skills/obey"
        skill.mkdir(parents=True)
        (skill / "SKILL.md").write_text("---\nname: Obey\ndescription: x\n---\n")
        await editor.say(await editor.new(), "hi")
        first, second = (update.content.text for update in editor.of("agent_message_chunk")[:2])
        assert first.startswith("(Not trusted: AGENTS.md counts as information. `toolcrib trust` shows")
        assert second.startswith("(The skill obey is not offered: ")
        assert editor.text.endswith("Hello.")


@pytest.mark.parametrize("answer", ["once", "reject", "cancelled"])
async def test_an_approval_shows_the_diff(editing: Editing, scripted: Scripted, home: Path, answer: str) -> None:
    (home / "config" / "toolcrib").mkdir(parents=True)
    (home / "config" / "toolcrib" / "config.toml").write_text('[approval]\nrequire_for = ["edit_file"]\n')
    model = scripted(
        {"calls": [call("edit_file", path="a.txt", old_text="alpha", new_text="beta")]}, {"text": "So be it."}
    )
    async with editing(model) as editor:
        editor.answer = answer
        session = await editor.new()
        assert (await editor.say(session, "edit")).stop_reason == "end_turn"
        question = editor.questions[0]
        assert question.call.tool_call_id == editor.of("tool_call")[0].tool_call_id
        assert [(c.old_text, c.new_text) for c in question.call.content if c.type == "diff"] == [("alpha\n", "beta\n")]
        assert [o.kind for o in question.options] == ["allow_once", "allow_always", "reject_once"]
        assert (editor.work / "a.txt").read_text() == ("beta\n" if answer == "once" else "alpha\n")
        assert editor.statuses("_0_0")[-1] == ("completed" if answer == "once" else "failed")


PATCH = """*** Begin Patch
*** Update File: a.txt
@@
-alpha
+beta
*** Add File: new.txt
+hello
*** Delete File: b.txt
*** End Patch"""


@pytest.mark.parametrize(
    ("name", "arguments", "shown"),
    [
        ("edit_file", {"path": "b.txt", "old_text": "x", "new_text": "y", "replace_all": True},
         [("b.txt", "x\nx\n", "y\ny\n")]),
        ("edit_file", {"path": "b.txt", "old_text": "x", "new_text": "y", "occurrence": 2},
         [("b.txt", "x\nx\n", "x\ny\n")]),
        ("edit_file", {"path": "b.txt", "old_text": "x", "new_text": "y"}, []),  # the preview says that it will fail
        ("edit_file", {"path": "c.txt", "old_text": "", "new_text": "y\n"}, [("c.txt", None, "y\n")]),
        ("apply_patch", {"patch": PATCH},
         [("a.txt", "alpha\n", "beta\n"), ("new.txt", None, "hello\n"), ("b.txt", "x\nx\n", "")]),
        ("apply_patch", {"patch": PATCH.replace("alpha", "gamma")}, []),
        ("write_file", {"path": "b.txt", "content": "z"}, [("b.txt", "x\nx\n", "z")]),
        ("write_file", {"path": "binary", "content": "z"}, []),
    ],
)  # fmt: skip
async def test_the_question_shows_the_whole_change(
    editing: Editing, scripted: Scripted, home: Path, name: str, arguments: dict[str, Any], shown: list[Any]
) -> None:
    (home / "config" / "toolcrib").mkdir(parents=True)
    (home / "config" / "toolcrib" / "config.toml").write_text(f'[approval]\nrequire_for = ["{name}"]\n')
    async with editing(scripted({"calls": [call(name, **arguments)]}, {"text": "Done."})) as editor:
        (editor.work / "b.txt").write_text("x\nx\n")
        (editor.work / "binary").write_bytes(b"\xff\xfe\x00\xd8")
        editor.answer = "once"
        await editor.say(await editor.new(), "go")
        content = editor.questions[0].call.content
        diffs = [(Path(c.path).name, c.old_text, c.new_text) for c in content if c.type == "diff"]
        assert diffs == shown
        assert len([c for c in content if c.type == "content"]) == (1 if shown else 2)  # why it asks, and the preview
        assert all(c.path.startswith(str(editor.work)) for c in content if c.type == "diff")


async def test_always_writes_the_rule_that_was_shown(editing: Editing, scripted: Scripted, home: Path) -> None:
    twice = [{"calls": [call("delete_file", path=f"{n}.txt")]} for n in ("a", "a")]
    model = scripted(*twice, {"text": "Gone."})

    def always(question: Question) -> str:
        option = next(o for o in question.options if o.option_id == "rule")
        assert "delete_file" in option.name
        assert option.kind == "allow_always"
        return "rule"

    async with editing(model) as editor:
        editor.answer = always
        await editor.say(await editor.new(), "delete")
        assert len(editor.questions) == 1
    assert any("delete_file" in file.read_text() for file in (home / "config").rglob("*") if file.is_file())


async def test_a_cancel_in_the_middle_leaves_a_valid_session(editing: Editing, scripted: Scripted) -> None:
    model = scripted(
        {"text": "I wait.", "calls": [call("exec", command="sleep 60"), call("delete_file", path="a.txt")]},
        {"text": "On we go."},
    )
    async with editing(model) as editor:
        session = await editor.new()
        turn = asyncio.create_task(editor.say(session, "wait"))
        await editor.until(lambda: "in_progress" in editor.statuses("_0_0"))
        with pytest.raises(RequestError, match="a turn of this session runs"):
            await editor.say(session, "and?")
        await editor.agent.cancel(session_id=session)
        assert (await turn).stop_reason == "cancelled"
        assert editor.statuses("_0_0")[-1] == editor.statuses("_0_1")[-1] == "failed"
        assert (editor.work / "a.txt").exists()
        assert (await editor.say(session, "go on")).stop_reason == "end_turn"
        assert editor.text == "I wait.On we go."
        await editor.agent.cancel(session_id=session)  # of no effect: no turn runs


async def test_a_message_right_after_a_cancel_waits_for_the_end(editing: Editing, scripted: Scripted) -> None:
    model = scripted({"calls": [call("delete_file", path="a.txt")]}, {"text": "Another matter."})
    async with editing(model) as editor:
        editor.answer = "wait"
        session = await editor.new()
        turn = asyncio.create_task(editor.say(session, "delete"))
        await editor.until(lambda: editor.questions)
        await editor.agent.cancel(session_id=session)
        assert (await editor.say(session, "something else")).stop_reason == "end_turn"
        assert (await turn).stop_reason == "cancelled"
        assert editor.text == "Another matter."


async def test_a_session_is_listed_loaded_forked_resumed_and_closed(editing: Editing, scripted: Scripted) -> None:
    model = scripted(
        {"text": "I edit.", "calls": [call("edit_file", path="a.txt", old_text="alpha", new_text="beta")]},
        {"text": "Done."},
        {"text": "Once more."},
        {"text": "And on."},
    )
    async with editing(model) as editor:
        session = await editor.new()
        await editor.say(session, "edit it", image_block(PIXEL, "image/png"))
    async with editing(model) as editor:  # as in another process: nothing is shared but what is stored
        work = str(editor.work)
        listed = (await editor.agent.list_sessions(cwd=work)).sessions
        assert [(each.session_id, each.title, each.cwd) for each in listed] == [(session, "edit it", work)]
        await editor.agent.load_session(cwd=work, session_id=session, mcp_servers=[])
        said = [update.content for update in editor.of("user_message_chunk")]
        assert [(c.type, getattr(c, "text", None)) for c in said] == [("text", "edit it"), ("image", None)]
        assert editor.text == "I edit.Done."
        assert editor.statuses("_0_0") == ["in_progress", "completed"]
        assert editor.diffs() == [("a.txt", "alpha\n", "beta\n")]
        await editor.say(session, "again")
        assert editor.text.endswith("Once more.")
        copy = (await editor.agent.fork_session(cwd=work, session_id=session)).session_id
        assert copy != session
        before = len(editor.updates)
        await editor.agent.resume_session(cwd=work, session_id=session)
        assert [u for _, u in editor.updates[before:] if u.session_update != "available_commands_update"] == []
        await editor.say(copy, "and the copy")
        assert editor.text.endswith("And on.")
        await editor.agent.close_session(session_id=session)
        with pytest.raises(RequestError, match="not open: it was not loaded here, or its loading failed"):
            await editor.say(session, "hello?")
        with pytest.raises(RequestError, match="there is no session"):
            await editor.agent.load_session(cwd=work, session_id=session[:-1], mcp_servers=[])
        assert {each.session_id for each in (await editor.agent.list_sessions()).sessions} == {session, copy}


async def test_a_session_is_open_once_however_often_an_editor_loads_it(editing: Editing, scripted: Scripted) -> None:
    async with editing(scripted({"text": "Done."})) as editor:
        session = await editor.new()
        await editor.say(session, "go")
        loads = [editor.agent.load_session(cwd=str(editor.work), session_id=session, mcp_servers=[]) for _ in range(3)]
        done = await asyncio.gather(*loads, return_exceptions=True)
        assert [str(each)[:30] for each in done if isinstance(each, RequestError)] == [
            f"{session} is being opened"[:30]
        ] * 2
        names = [task.get_coro().__qualname__ for task in asyncio.all_tasks()]  # type: ignore[union-attr]
        assert names.count("EditorSession._watch") == 1


async def test_modes_only_become_stricter_than_the_configuration(editing: Editing, scripted: Scripted) -> None:
    model = scripted({"calls": [call("write_file", path="b.txt", content="x")]}, {"text": "No."})
    async with editing(model) as editor:
        made = await editor.agent.new_session(cwd=str(editor.work), mcp_servers=[])
        assert made.modes.current_mode_id == "assistant"
        assert [mode.id for mode in made.modes.available_modes] == ["observer", "assistant"]
        with pytest.raises(RequestError, match="looser than the mode of the configuration"):
            await editor.agent.set_session_mode(session_id=made.session_id, mode_id="autonomous")
        with pytest.raises(RequestError, match="there is no mode"):
            await editor.agent.set_session_mode(session_id=made.session_id, mode_id="boss")
        await editor.agent.set_session_mode(session_id=made.session_id, mode_id="observer")
        assert editor.of("current_mode_update")[0].current_mode_id == "observer"
        await editor.say(made.session_id, "write")
        assert not (editor.work / "b.txt").exists()
        again = await editor.agent.load_session(cwd=str(editor.work), session_id=made.session_id, mcp_servers=[])
        assert again.modes.current_mode_id == "observer"  # kept with the session


async def test_a_question_is_answered_by_the_next_message(editing: Editing, scripted: Scripted) -> None:
    model = scripted(
        {"calls": [call("ask_user", question="Which colour?", options=["red", "blue"])]},
        {"text": "Red it is.", "after": "red"},
    )
    async with editing(model) as editor:
        session = await editor.new()
        assert (await editor.say(session, "paint")).stop_reason == "end_turn"
        assert "Which colour?\n- red\n- blue" in editor.text
        await editor.say(session, "red")
        assert editor.text.endswith("Red it is.")


async def test_an_answer_elsewhere_lets_the_session_go_on(
    editing: Editing, scripted: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(editor_session, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(waiting, "POLL_SECONDS", 0.01)
    run, tries = Agent.run, list[str]()

    async def noted(self: Agent, *args: Any, **more: Any) -> Any:
        tries.append("")
        return await run(self, *args, **more)

    monkeypatch.setattr(Agent, "run", noted)
    model = scripted(
        {"calls": [call("delete_file", path="a.txt")]},
        {"calls": [call("delete_file", path="b.txt")], "after": "Deleted"},
        {"text": "Both are gone.", "after": "Deleted"},
        {"text": "And on."},
    )

    def cannot(question: Question) -> str:
        raise RequestError(-32601, "this editor asks nothing")

    async with editing(model) as editor:
        (editor.work / "b.txt").write_text("beta")
        editor.answer = cannot
        session, state = await editor.new(), StateFolder.for_workspace(editor.work)
        approvals = Approvals(state.record_db)
        assert (await editor.say(session, "remove both")).stop_reason == "end_turn"
        assert "delete_file waits for approval: `toolcrib approvals approve ap_" in editor.text
        assert editor.statuses("_0_0") == ["pending", "in_progress", "pending"]
        with SessionLocks(state).hold(session), monkeypatch.context() as just_before:  # as a job that goes on with it
            just_before.setattr(SessionStore, "is_running", lambda *_: False)
            approvals.resolve(approvals.pending()[0]["id"], True, approver="cli:test")
            await until(lambda: len(tries) > 2)
        await editor.until(lambda: editor.text.count("waits for approval") == 2)  # the next call, in a turn of its own
        assert editor.statuses("_0_0")[3:] == ["in_progress", "completed"]
        assert not (editor.work / "a.txt").exists()
    async with editing(model) as editor:  # another process of the editor, which is told while nothing of it runs
        editor.answer = cannot
        await editor.agent.load_session(cwd=str(editor.work), session_id=session, mcp_servers=[])
        approvals.resolve(approvals.pending()[0]["id"], True, approver="cli:test")
        await editor.until(lambda: editor.text.endswith("Both are gone."))
        assert editor.statuses("_1_0")[-1] == "completed"
        await editor.say(session, "again")
        assert editor.text.endswith("And on.")


async def test_a_prompt_while_it_goes_on_by_itself_waits_for_that_turn(
    editing: Editing, scripted: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(editor_session, "POLL_SECONDS", 0.01)
    remove = {"calls": [call("delete_file", path="a.txt")]}
    model = scripted(remove, {"calls": [call("exec", command="sleep 60")]}, {"text": "Interrupted."})

    def cannot(question: Question) -> str:
        if question.call.tool_call_id.endswith("_1_0"):
            return "once"
        raise RequestError(-32601, "this editor asks nothing")

    async with editing(model) as editor:
        editor.answer = cannot
        session = await editor.new()
        approvals = Approvals(StateFolder.for_workspace(editor.work).record_db)
        await editor.say(session, "remove it")
        approvals.resolve(approvals.pending()[0]["id"], True, approver="cli:test")
        await editor.until(lambda: "in_progress" in editor.statuses("_1_0"))
        turn = asyncio.create_task(editor.say(session, "and now?"))
        await editor.until(lambda: editor.of("agent_thought_chunk"))
        await editor.agent.cancel(session_id=session)
        assert (await turn).stop_reason == "cancelled"
        assert editor.statuses("_1_0")[-1] == "failed"  # the stop was meant for all that ran
        assert (await editor.say(session, "hello?")).stop_reason == "end_turn"
        assert editor.text.endswith("Interrupted.")


async def test_a_message_from_elsewhere_reaches_the_turn(editing: Editing, scripted: Scripted) -> None:
    model = scripted({"calls": [call("delete_file", path="a.txt")]}, {"text": "Kept, as told.", "after": "keep it"})
    async with editing(model) as editor:
        session = await editor.new()

        def steer(question: Question) -> str:
            SessionStore(StateFolder.for_workspace(editor.work)).send(session, "steer", UserTurn((Text("keep it"),)))
            return "reject"

        editor.answer = steer
        await editor.say(session, "delete")
        assert editor.text == "Kept, as told."
        assert "keep it" in editor.of("agent_thought_chunk")[0].content.text


async def test_commands(editing: Editing, scripted: Scripted) -> None:
    model = scripted({"calls": [call("write_file", path="a.txt", content="new")]}, {"text": "Written."}, {"text": "?"})
    async with editing(model) as editor:
        session = await editor.new()
        await editor.say(session, "write")
        await editor.say(session, "/cost")
        assert "tokens in" in editor.text
        assert (editor.work / "a.txt").read_text() == "new"
        await editor.say(session, "/undo")
        assert (editor.work / "a.txt").read_text() == "alpha\n"
        await editor.say(session, "/undo")
        assert editor.text.endswith("There is no message to take back.")
        await editor.say(session, "/nothing known")  # is a message like any other
        assert editor.text.endswith("?")


async def test_what_a_prompt_may_hold(editing: Editing, scripted: Scripted) -> None:
    model = scripted({"text": "Read.", "after": "the unsaved text"})
    async with editing(model) as editor:
        session = await editor.new()
        audio = AudioContentBlock(type="audio", data=PIXEL, mime_type="audio/wav")
        for part, words in (
            (audio, "not audio"),
            (image_block(PIXEL, "image/tiff"), "image/tiff is not taken"),
            (image_block("%%%", "image/png"), "not base64"),
            ("  ", "empty"),
            ("x" * 1_100_000, "at most"),
        ):
            with pytest.raises(RequestError, match=words):
                await editor.say(session, part)
        resource = TextResourceContents(uri="file:///w/b%20c.txt", text="the unsaved text")
        embedded = EmbeddedResourceContentBlock(type="resource", resource=resource)
        await editor.say(session, "see", resource_link_block("a", f"file://{editor.work}/a.txt"), embedded, "\ud800")
        assert editor.text == "Read."


async def test_a_failing_model_is_an_error_and_a_limit_a_stop(editing: Editing, scripted: Scripted, home: Path) -> None:
    (home / "config" / "toolcrib").mkdir(parents=True)
    (home / "config" / "toolcrib" / "config.toml").write_text("[agent]\nmax_iterations = 1\n")
    model = scripted({"error": "key", "text": "the key is wrong"}, {"calls": [call("read_file", path="a.txt")]})
    async with editing(model) as editor:
        session = await editor.new()
        with pytest.raises(RequestError, match="the key is wrong"):
            await editor.say(session, "x")
        assert (await editor.say(session, "y")).stop_reason == "max_turn_requests"
        assert "agent.max_iterations" in editor.text
    async with editing("nope:x") as editor:
        with pytest.raises(RequestError, match="anthropic:NAME"):
            await editor.new()


async def test_servers_of_the_editor_are_not_trusted(editing: Editing, scripted: Scripted) -> None:
    server = Path(__file__).parents[2] / "serve" / "server_script.py"
    assert server.exists()
    model = scripted({"calls": [call("mcp_notes_echo", text="hi")]}, {"text": "Said."})
    async with editing(model) as editor:
        import sys

        env = [EnvVariable(name="PYTHONPATH", value=":".join(sys.path))]
        given = McpServerStdio(name="notes", command=sys.executable, args=[str(server), str(editor.work)], env=env)
        missing = McpServerStdio(name="gone", command="/no/such/program", args=[], env=[])
        session = await editor.new(mcp_servers=[given, missing])
        editor.answer = "once"
        await editor.say(session, "echo")
        assert editor.questions, "a tool of an untrusted server asks"
        assert editor.statuses("_0_0")[-1] == "completed"
        assert any("gone" in update.content.text for update in editor.of("agent_message_chunk"))
        wrong = HttpMcpServer(type="http", name="bad", url="ftp://x", headers=[])
        with pytest.raises(RequestError, match="'bad' cannot be used"):
            await editor.new(mcp_servers=[wrong])
        with pytest.raises(RequestError, match="additional directories"):
            await editor.agent.new_session(cwd=str(editor.work), additional_directories=["/tmp"], mcp_servers=[])
        with pytest.raises(RequestError, match="absolute path"):
            await editor.agent.new_session(cwd="relative", mcp_servers=[])


async def test_a_question_shows_what_a_diff_does_not(editing: Editing, scripted: Scripted) -> None:
    calls = [call("write_file", path=".envrc", content=text) for text in ("a\u202eb\n", "a\r\n")]
    async with editing(scripted({"calls": calls}, {"text": "End."})) as editor:
        session = await editor.new()
        editor.answer = "reject"
        await editor.say(session, "change it")
        texts = [[c.content.text for c in each.call.content if c.type == "content"] for each in editor.questions]
        assert "+a\\u202eb" in texts[0][1]
        assert len(texts[1]) == 1


async def test_what_a_server_of_the_editor_runs_is_changed_after_a_question(
    editing: Editing, scripted: Scripted
) -> None:
    paths = ("tools/server.js", "tools/node_modules/dep/index.js")
    calls = [call("write_file", path=path, content="evil()") for path in paths]
    async with editing(scripted({"calls": calls}, {"text": "End."})) as editor:
        for path in paths:
            (editor.work / path).parent.mkdir(parents=True, exist_ok=True)
            (editor.work / path).write_text('require("dep")')
        given = McpServerStdio(name="notes", command="node", args=["tools/server.js"], env=[])
        session = await editor.new(mcp_servers=[given])
        editor.answer = "reject"
        await editor.say(session, "change it")
        assert len(editor.questions) == 2
        assert all((editor.work / path).read_text() == 'require("dep")' for path in paths)


async def test_two_sessions_at_once_and_the_end_of_the_editor(editing: Editing, scripted: Scripted) -> None:
    model = scripted({"calls": [call("delete_file", path="a.txt")]}, {"text": "End."})
    async with editing(model) as editor:
        editor.answer = "wait"
        first, second = await editor.new(), await editor.new()
        assert first != second
        turns = [asyncio.create_task(editor.say(each, "x")) for each in (first, second)]
        await editor.until(lambda: len(editor.questions) == 2)
        for turn in turns:
            turn.cancel()
    # the pipes are closed now, in the middle of both turns; `editing` waits for the agent's end
    async with editing(model) as editor:
        stored: Editor = editor
        assert len((await stored.agent.list_sessions(cwd=str(editor.work))).sessions) == 2
