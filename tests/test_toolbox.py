"""The toolbox as a whole, on a real folder: opened in every way, guarded, recorded, closed."""

import asyncio
import dataclasses
import importlib
import json
import os
import subprocess
import sys
import threading
import time

import pytest

from toolcrib import (
    AgentHook,
    Decision,
    Hook,
    HookRule,
    Tool,
    Toolbox,
    ToolContext,
    ToolDefinitionError,
    ToolExecutionDenied,
    ToolNotFoundError,
    ToolRegistry,
    current_context,
    default_tools,
    safety_hook,
    tool,
)
from toolcrib.config import make_settings
from toolcrib.core.errors import ConfigError, SandboxUnavailable, ToolConflictError
from toolcrib.core.wings import has_wing
from toolcrib.record.undoing import undo
from toolcrib.toolbox.reloading import prepare_reload

from .garbage import garbage_of


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    place = tmp_path / "work"
    place.mkdir()
    (place / "notes.txt").write_text("one\ntwo\nthree\n")
    return place


async def yes(request):
    return Decision(True, approver="test")


@pytest.mark.parametrize("backend", ["auto", "none"])
async def test_calls_leave_nothing_to_the_collector(folder, backend):
    async def progress(*_):
        pass

    settings = make_settings({"workspace": str(folder), "sandbox": {"backend": backend}})
    async with Toolbox.open(settings=settings, approve=yes) as box:
        ctx = dataclasses.replace(box.context, on_progress=progress)
        for name, arguments in (("exec", {"command": "true"}), ("read_file", {"path": "notes.txt"})):
            assert not (await box.call(name, arguments, ctx)).is_error
            assert await garbage_of(lambda name=name, arguments=arguments: box.call(name, arguments, ctx)) == []


async def test_the_main_job(folder):
    async with Toolbox.open(workspace=folder, approve=yes) as box:
        assert "2| two" in str(await box.call("read_file", {"path": "notes.txt"}))
        assert "notes.txt:3:three" in str(await box.call("grep", {"pattern": "thr", "output_mode": "content"}))
        assert not (await box.call("edit_file", {"path": "notes.txt", "old_text": "two", "new_text": "2"})).is_error
        assert (folder / "notes.txt").read_text() == "one\n2\nthree\n"
        ran = await box.call("exec", {"command": "cat notes.txt"})
        assert "2\nthree" in ran.for_llm
        assert "Exit code: 0" in ran.for_llm
        assert not (await box.call("delete_file", {"path": "notes.txt"})).is_error
        assert not (folder / "notes.txt").exists()
        undo(box.journal)
        undo(box.journal)
        assert (folder / "notes.txt").read_text() == "one\ntwo\nthree\n"
        tools = [row["tool"] for row in box.audit.query()]
        assert tools == ["delete_file", "exec", "edit_file", "grep", "read_file"]


async def test_built_in_tools_are_left_out(folder):
    async def named(tools):
        (folder.parent / "settings.json").write_text(json.dumps({"tools": tools}))
        async with Toolbox.open(workspace=folder, config=folder.parent / "settings.json", tools=[mine]) as box:
            return {each.name for each in box.registry}

    @tool(category="memory")
    def mine() -> str:
        """Mine."""
        return "mine"

    assert await named({"builtin": False}) == {"mine"}
    some = await named({"disabled": ["exec*", "browser_*", "create_tool"]})
    assert {"mine", "read_file"} <= some
    assert not {name for name in some if name.startswith(("exec", "browser", "create"))}
    assert await named({"disabled": ["*"]}) == {"mine"}


@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "~/x", "link/passwd", "a/../../secret"])
async def test_nothing_outside_is_read_or_written_and_the_roots_are_named(folder, path):
    (folder / "link").symlink_to("/etc")
    (folder.parent / "secret").write_text("s3cret")
    async with Toolbox.open(workspace=folder, mode="autonomous", yes=True) as box:
        for name, more in (("read_file", {}), ("write_file", {"content": "x"}), ("delete_file", {})):
            output = await box.call(name, {"path": path, **more})
            assert output.is_error
            assert "s3cret" not in output.for_llm
            assert "root:" not in output.for_llm
            if path != "link/passwd":
                assert str(folder) in output.for_llm
    assert (folder.parent / "secret").read_text() == "s3cret"


async def test_a_deletion_waits_for_another_process_and_then_runs_once(folder):
    async with Toolbox.open(workspace=folder) as box:
        output = await box.call("delete_file", {"path": "notes.txt"})
        assert output.error_kind == "pending"
    async with Toolbox.open(workspace=folder) as other:
        assert other.approvals.resolve(output.meta["approval_id"], True, approver="person")
    async with Toolbox.open(workspace=folder) as box:
        assert (folder / "notes.txt").exists()
        assert not (await box.call("delete_file", {"path": "notes.txt"})).is_error
        assert not (folder / "notes.txt").exists()


async def test_observer_looks_and_touches_nothing(folder):
    async with Toolbox.open(workspace=folder, mode="observer", approve=yes, yes=True) as box:
        assert not (await box.call("read_file", {"path": "notes.txt"})).is_error
        for name, arguments in (
            ("write_file", {"path": "x", "content": "x"}),
            ("exec", {"command": "touch x"}),
            ("delete_file", {"path": "notes.txt"}),
        ):
            assert (await box.call(name, arguments)).error_kind == "denied"
    assert sorted(os.listdir(folder)) == ["notes.txt"]


@pytest.mark.skipif(not has_wing("effects"), reason="the wing of effects is not installed")
async def test_another_mode_holds_from_the_next_call_on(folder):
    """Also for tools whose calls were cleared before, and for what commands may write where nothing can be reviewed."""
    config = folder.parent / "config.toml"
    config.write_text('[sandbox]\nbackend = "none"\neffects = "review"\n')

    @tool(category="filesystem_write")
    def note() -> str:
        """Write a note somewhere."""
        return "noted"

    async with Toolbox.open(workspace=folder, config=config, approve=yes, tools=[note]) as box:
        write, touch = ("note", {}), ("exec", {"command": "touch y"})
        assert not (await box.call(*write)).is_error
        assert (await box.check(*touch)).verdict == "ask"
        box.use_mode("observer")
        assert (await box.call(*write)).error_kind == "denied"
        box.use_mode("autonomous")
        assert not (await box.call(*write)).is_error
        found = await box.check(*touch)
        assert (found.verdict, found.rule) == ("deny", "sandbox.effects")
        box.use_mode("assistant")
        assert (await box.check(*touch)).verdict == "ask"
        with pytest.raises(ConfigError, match="unknown mode"):
            box.use_mode("free")
        assert box.policy.mode == "assistant"


async def test_a_mode_that_was_chosen_is_not_loosened_by_changed_settings(folder):
    async with Toolbox.open(workspace=folder, mode="autonomous") as box:
        box.use_mode("observer")
        for mode, then in (("assistant", "observer"), ("autonomous", "observer")):
            await prepare_reload(box, dataclasses.replace(box.settings, mode=mode)).apply()
            assert box.policy.mode == then
        box.use_mode("autonomous")
        await prepare_reload(box, dataclasses.replace(box.settings, mode="assistant")).apply()
        assert box.policy.mode == "assistant"


async def test_long_output_is_cut_and_the_whole_can_be_read(folder):
    @tool(category="memory")
    def long() -> str:
        """Long."""
        return "\n".join(f"line {n}" for n in range(40_000))

    async with Toolbox.open(workspace=folder, tools=[long]) as box:
        output = await box.call("long")
        assert len(output.for_llm) <= 50_000
        where = output.for_llm.split("full output: ")[1].split("]")[0]
        page = await box.call("read_file", {"path": where, "offset": 30_001, "limit": 1})
        assert "line 30000" in page.for_llm


async def test_check_says_what_would_happen_and_nothing_happens(folder):
    async with Toolbox.open(workspace=folder) as box:
        assert (await box.check("exec", {"command": "touch x"})).verdict == "allow"
        assert (await box.check("exec", {"command": "touch x"}, bare=True)).verdict == "ask"
        assert (await box.check("delete_file", {"path": "notes.txt"})).verdict == "ask"
        assert (await box.check("read_file", {"path": "/etc/shadow"})).verdict == "deny"
        assert "offset" in (await box.check("read_file", {"path": "x", "ofset": 1})).reason
        assert (await box.check("reed_file", {})).verdict == "deny"
        assert box.audit.query() == []
    assert sorted(os.listdir(folder)) == ["notes.txt"]


async def test_calls_of_a_model_in_both_shapes_answer_in_order(folder):
    anthropic = {"type": "tool_use", "id": "a", "name": "list_dir", "input": {}}
    function = {"name": "read_file", "arguments": json.dumps({"path": "notes.txt"})}
    async with Toolbox.open(workspace=folder) as box:
        outputs = await box.call_many([anthropic, {"id": "b", "type": "function", "function": function}])
        assert "notes.txt" in outputs[0].for_llm
        assert "1| one" in outputs[1].for_llm
        for dialect in ("openai", "openai-responses", "anthropic", "gemini", "mcp"):
            assert len(box.definitions(dialect)) == len(box.registry)


def test_scripts_need_no_loop(folder):
    with Toolbox.open(workspace=folder) as box:
        assert "1| one" in str(box.call_sync("read_file", {"path": "notes.txt"}))
        assert not box.call_sync("exec", {"command": "echo hi > new"}).is_error
    assert (folder / "new").read_text() == "hi\n"
    assert not [t for t in threading.enumerate() if t.name == "toolcrib-loop"]


async def test_awaited_instead_of_entered(folder):
    box = await Toolbox.open(workspace=folder)
    assert not (await box.call("list_dir", {})).is_error
    await box.aclose()
    await box.aclose()


async def test_a_call_after_the_end_does_nothing_and_says_that_the_toolbox_is_closed(folder):
    async with Toolbox.open(folder) as box:
        pass
    for name, arguments in (("exec", {"command": "touch made"}), ("echo", {"message": "x"}), ("list_dir", {})):
        output = await box.call(name, arguments)
        assert (output.is_error, (folder / "made").exists()) == (True, False)
        assert "is closed: make calls before the toolbox is closed" in output.for_llm


async def test_background_sessions_end_with_the_toolbox(folder):
    async with Toolbox.open(workspace=folder, yes=True) as box:
        output = await box.call("exec", {"command": "sleep 4711.25", "background": True}, ToolContext(session_id="s"))
        assert not output.is_error
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and _running(b"4711.25"):
        await asyncio.sleep(0.05)
    assert not _running(b"4711.25")


def _running(marker):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if marker in file.read():
                    found.append(int(pid))
        except OSError:
            pass
    return found


@pytest.mark.parametrize("wrong", [{"mode": "god"}, {"config": "absent.toml"}, {"workspace": "/nowhere/at/all"}])
async def test_wrong_settings_are_said_at_once(folder, wrong):
    with pytest.raises(ConfigError):
        await Toolbox.open(**{"workspace": folder, **wrong})


async def test_a_tool_of_ones_own_cannot_take_a_builtin_name(folder):
    def read_file(path: str) -> str:
        """Mine."""
        return path

    with pytest.raises(ToolConflictError, match="read_file"):
        await Toolbox.open(workspace=folder, tools=[read_file])


async def test_dry_run_describes_and_does_nothing(folder):
    (folder / "toolcrib.toml").write_text("dry_run = true\n")
    async with Toolbox.open(workspace=folder, config=folder / "toolcrib.toml", yes=True) as box:
        output = await box.call("write_file", {"path": "x", "content": "hello"})
        assert "Dry run" in output.for_llm
        assert "+hello" in output.for_llm
        assert "1| one" in str(await box.call("read_file", {"path": "notes.txt"}))
    assert not (folder / "x").exists()


async def test_no_sandbox_means_no_command_and_a_remedy(folder, monkeypatch):
    def absent(trials, writable):
        raise SandboxUnavailable("bubblewrap is not there; apt-get install bubblewrap")

    monkeypatch.setattr(importlib.import_module("toolcrib.boundary.sandbox.bubblewrap_backend"), "find", absent)
    async with Toolbox.open(workspace=folder, mode="autonomous", yes=True) as box:
        output = await box.call("exec", {"command": "touch x"})
        assert output.is_error
        assert "apt-get install bubblewrap" in output.for_llm
    assert not (folder / "x").exists()


@pytest.mark.parametrize("grant", ["state/toolcrib", "config/toolcrib/x"])
async def test_our_own_settings_and_record_are_not_granted(folder, tmp_path, grant):
    settings = tmp_path / "given.toml"
    settings.write_text(f"[sandbox]\nwrite_roots = [{json.dumps(str(tmp_path / grant))}]\n")
    (tmp_path / grant).mkdir(parents=True, exist_ok=True)
    with pytest.raises(ConfigError, match="belongs to Toolcrib itself"):
        await Toolbox.open(workspace=folder, config=settings)


@pytest.mark.parametrize("grant", ["", "state"])
async def test_no_grant_around_them_reaches_them(folder, tmp_path, grant):
    settings = tmp_path / "given.toml"
    settings.write_text(f"[sandbox]\nwrite_roots = [{json.dumps(str(tmp_path / grant))}]\n")
    (tmp_path / grant).mkdir(parents=True, exist_ok=True)
    async with Toolbox.open(workspace=folder, config=settings, yes=True) as box:
        for path in (tmp_path / "state/toolcrib/trust.json", tmp_path / "state/toolcrib"):
            for tool, more in (("write_file", {"content": "x"}), ("delete_file", {}), ("read_file", {})):
                out = await box.call(tool, {"path": str(path), **more})
                assert out.error_kind == "denied" and "belongs to Toolcrib" in out.for_llm
        assert not (await box.call("write_file", {"path": str(tmp_path / "state/mine"), "content": "x"})).is_error


async def test_no_command_sees_our_own_settings_or_any_record(folder, tmp_path):
    (tmp_path / "config" / "toolcrib").mkdir(parents=True)
    (tmp_path / "config" / "toolcrib" / "config.toml").write_text('[web.search]\napi_key = "hush"\n')
    (tmp_path / "other").mkdir()
    async with Toolbox.open(workspace=tmp_path / "other") as other:
        await other.call("list_dir", {"path": "."})
    settings = tmp_path / "given.toml"
    settings.write_text(f"[sandbox]\nread_roots = [{json.dumps(str(tmp_path))}]\n")
    async with Toolbox.open(workspace=folder, config=settings) as box:
        command = f"ls {tmp_path}; find {tmp_path} -name '*.db'; cat {tmp_path}/config/*/*"
        shown = str(await box.call("exec", {"command": command}))
    assert "given.toml" in shown
    assert ".db" not in shown
    assert "hush" not in shown


async def test_the_built_in_tools_can_be_had_for_a_registry_of_ones_own(folder):
    closers = []
    registry = ToolRegistry(default_tools(folder, closers=closers))
    assert "1| one" in str(await registry.execute("read_file", {"path": "notes.txt"}))
    assert "Exit code: 0" in str(await registry.execute("exec", {"command": "cat notes.txt > copy"}))
    assert not (await registry.execute("delete_file", {"path": "copy"})).is_error  # no policy: nobody is asked
    assert not (folder / "copy").exists()
    for close in reversed(closers):
        close()


TRACED = """
import asyncio, sys
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, Tracer, TracerProvider

class Provider(TracerProvider):
    def get_tracer(self, *args, **kwargs):
        return Recorder()

class Recorder(Tracer):
    def start_span(self, name, *args, **kwargs):
        print("span", name)
        return NonRecordingSpan(SpanContext(1, 1, False))
    def start_as_current_span(self, name, *args, **kwargs):
        raise NotImplementedError

trace.set_tracer_provider(Provider())
from toolcrib import Toolbox
with Toolbox.open(workspace=sys.argv[1]) as box:
    box.call_sync("read_file", {"path": "notes.txt"})
"""


def test_a_host_that_traces_gets_a_span_of_every_call(folder):
    done = subprocess.run([sys.executable, "-c", TRACED, str(folder)], capture_output=True, text=True, check=False)
    assert done.stdout == "span execute_tool read_file\n", done.stderr


async def test_an_approver_that_cannot_be_asked_is_refused_at_once(folder):
    with pytest.raises(TypeError, match=r"async function \(ApprovalRequest\) -> .*, not True; yes=True"):
        Toolbox.open(workspace=folder, approve=True)


@pytest.mark.parametrize("hook", [Hook, {"action": "block"}, 3])
async def test_what_is_no_hook_and_no_middleware_is_refused_by_name(folder, hook):
    with pytest.raises(TypeError, match="hooks takes Hook and HookRule objects, not "):
        await Toolbox.open(workspace=folder, hooks=[hook])
    with pytest.raises(TypeError, match=r"a middleware is a function .*, not 3"):
        await Toolbox.open(workspace=folder, middleware=[3])


async def test_a_query_and_a_context_that_are_none_are_refused_by_name(folder):
    async with Toolbox.open(workspace=folder) as box:
        with pytest.raises(TypeError, match=r"query should be a text: .* it is None"):
            box.search(None)
        with pytest.raises(TypeError, match=r"ctx should be a ToolContext: .* it is 3"):
            await box.call("read_file", {"path": "x"}, ctx=3)


async def test_an_approver_that_is_not_async_is_refused_at_once_and_says_no(folder):
    with pytest.raises(TypeError, match=r"plain function .*lambda.*: write `async def`"):
        Toolbox.open(workspace=folder, approve=lambda request: True)

    class Sync:
        def __call__(self, request):
            return True

    async with Toolbox.open(workspace=folder, approve=Sync()) as box:
        (folder / "x").write_text("x")
        output = await box.call("delete_file", {"path": "x"})
        assert output.error_kind == "denied"
        assert "async function" in output.for_llm
    assert (folder / "x").exists()


def test_common_slips_are_errors_at_once(folder):
    with pytest.raises(TypeError, match="before is a plain function: write `async def before`"):

        class Watch(Hook):
            def before(self, call, ctx): ...

    opening = Toolbox.open(workspace=folder)
    with pytest.raises(AttributeError, match=r"not open yet, so it has no 'definitions'.*async with"):
        opening.definitions()
    with pytest.raises(TypeError, match="settings should be Settings: load_settings"), Toolbox.open(settings={}):
        pass
    with pytest.raises(TypeError, match="tools should be a list"):
        Toolbox.open(workspace=folder, tools=tool(lambda: "x", name="x"))

    class Adder(Tool):
        """Add."""

        category = "memory"

        async def execute(self, a: int) -> int:
            return a

    with pytest.raises(ToolDefinitionError, match=r"Adder is a class of tools; give an instance: Adder\(\)"):
        ToolRegistry([Adder])

    def untyped(city, days: int = 1) -> str:
        return city

    with pytest.raises(ConfigError, match=r'^mode is "auto"; it can be "observer"'):
        Toolbox.open(mode="auto").__enter__()
    with pytest.raises(ToolDefinitionError, match=r"untyped: 'city' has no type.*`city: str`"):
        ToolRegistry([untyped])


async def test_the_record_names_what_asked_not_what_would_allow(folder):
    async with Toolbox.open(workspace=folder) as box:
        (folder / "x").write_text("x")
        output = await box.call("exec", {"command": "rm x"})
        assert output.error_kind == "pending"
        assert output.meta["would_allow"] == "exec(=rm x)"
        (row,) = box.audit.query(tool="exec")
        assert row["rule"] == output.meta["rule"] == "shell:delete"


async def test_echo_answers_what_it_was_told(folder):
    async with Toolbox.open(workspace=folder, mode="observer") as box:
        assert str(await box.call("echo", {"message": "Hello"})) == "Hello"


async def test_another_workspace_in_the_context_is_refused_by_every_tool_that_works_in_one(folder, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "a.txt").write_text("x")
    async with Toolbox.open(workspace=folder, mode="autonomous") as box:
        ctx = box.context.with_workspace(other)
        bound = [tool.name for tool in box.registry if tool.workspace is not None]
        assert {"read_file", "write_file", "glob", "grep", "exec", "exec_session", "delete_file"} <= set(bound)
        for name in bound:
            output = await box.call(name, {"path": "a.txt"}, ctx)
            assert output.error_kind == "denied" and "names another workspace" in output.for_llm
        link = tmp_path / "link"
        link.symlink_to(folder)
        assert not (await box.call("glob", {"pattern": "*"}, box.context.with_workspace(link))).is_error
        assert not (await box.call("echo", {"message": "x"}, ctx)).is_error


async def test_hooks_and_middleware_are_given_at_the_opening(folder):
    seen = []

    class Watch(AgentHook):
        async def before_execute_tools(self, tool_calls):
            seen.append(([call.name for call in tool_calls], current_context().session_id))
            if any(call.name == "glob" for call in tool_calls):
                raise ToolExecutionDenied("no globbing")

    async def louder(call, ctx, next):  # noqa: A002
        output = await next(call, ctx)
        return dataclasses.replace(output, for_llm=output.for_llm.upper())

    (folder / "a.txt").write_text("x")
    async with Toolbox.open(workspace=folder, hooks=[Watch(), *safety_hook()], middleware=[louder]) as box:
        ctx = dataclasses.replace(box.context, session_id="s")
        assert str(await box.call("echo", {"message": "one"}, ctx)) == "ONE"
        both = await box.call_many([{"name": "echo", "arguments": {"message": m}} for m in "ab"], ctx)
        assert [str(o) for o in both] == ["A", "B"]
        denied = await box.call("glob", {"pattern": "*"}, ctx)
        assert denied.error_kind == "denied" and "no globbing" in denied.for_llm.lower()
        assert seen == [(["echo"], "s"), (["echo", "echo"], "s"), (["glob"], "s")]
        assert "safety hook refuses" in (await box.call("exec", {"command": "sudo ls"}, ctx)).for_llm.lower()
        assert (await box.call("delete_file", {"path": "a.txt"}, ctx)).error_kind == "pending"
        await prepare_reload(box, dataclasses.replace(box.settings, hooks=(HookRule("log", ("glob",)),))).apply()
        assert "safety hook refuses" in (await box.call("exec", {"command": "sudo ls"}, ctx)).for_llm.lower()


async def test_commands_run_in_the_folder_of_the_settings_and_rules_know_it(folder):
    (folder / "sub").mkdir()
    (folder / "sub" / "secret.txt").write_text("x")
    rules = {"deny": ["Read(sub/secret.txt)"]}
    given = make_settings({"workspace": str(folder), "tools": {"exec": {"working_dir": "sub"}}, "rules": rules})
    async with Toolbox.open(settings=given) as box:
        assert str(folder / "sub") in str(await box.call("exec", {"command": "pwd"}))
        assert str(folder / "sub") not in str(await box.call("exec", {"command": "pwd", "cwd": "."}))
        assert (await box.call("exec", {"command": "cat secret.txt"})).error_kind == "denied"
        (row, *_) = box.audit.query(tool="exec")
        assert json.loads(row["arguments"])["working_dir"] == "sub"


async def test_listings_have_the_style_of_the_settings(folder):
    (folder / "sub").mkdir()
    given = make_settings({"workspace": str(folder), "tools": {"listStyle": "tagged"}})
    async with Toolbox.open(settings=given) as box:
        assert "[DIR] sub/" in str(await box.call("list_dir"))


async def test_an_encoding_is_of_the_file(folder):
    (folder / "b.txt").write_bytes("é".encode("utf-16-le"))
    async with Toolbox.open(workspace=folder) as box:
        assert "é" in str(await box.call("read_file", {"path": "b.txt", "encoding": "utf-16-le"}))


def test_single_tools_are_made_by_name(folder):
    (found,) = default_tools(folder, names=["grep"])
    assert found.name == "grep"
    assert not asyncio.run(ToolRegistry([found]).execute("grep", {"pattern": "x"})).is_error
    with pytest.raises(ToolNotFoundError, match=r"no tool 'grp' here: the built-in tools are read_file, "):
        default_tools(folder, names=["grep", "grp"])
