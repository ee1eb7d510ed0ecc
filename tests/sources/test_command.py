"""Command tools from the configuration, called through a toolbox as a model would."""

import sys

import pytest

from toolcrib.core.errors import ConfigError

from .conftest import Room

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="commands run on POSIX systems")


def tool(command: str, **more: object) -> dict[str, object]:
    return {"name": "t", "description": "A test.", "command": command, **more}


async def test_values_arrive_as_arguments(room: Room) -> None:
    await room.open(custom_tools=[tool("printf '%s|' {{a}} {{b}}", parameters={"a": "string", "b": "string"})])
    assert await room.ok("t", a="{{b}}", b="; echo PWNED #") == "{{b}}|; echo PWNED #|"
    assert await room.ok("t", a="-n", b="$(id)`id`'\"\n*") == "-n|$(id)`id`'\"\n*|"


async def test_the_short_form_requires_all_and_takes_the_designs_types(room: Room) -> None:
    types = {"s": "string", "i": "integer", "n": "number", "b": "boolean", "r": "raw_string"}
    await room.open(custom_tools=[tool("printf '%s|' {{s}} {{i}} {{n}} {{b}} {{r}}", parameters=types)])
    assert await room.ok("t", s="x", i=-3, n=2.5, b=True, r="a; b") == "x|-3|2.5|true|a; b|"
    assert "missing required r" in await room.fails("t", s="x", i=3, n=2.5, b=True)
    assert room.box is not None
    assert room.box.registry.require("t").schema["properties"]["r"] == {"type": "string"}


async def test_a_full_schema_counts_in_full_and_gives_defaults(room: Room) -> None:
    schema = {
        "type": "object",
        "properties": {"day": {"type": "string", "pattern": "^[0-9-]+$"}, "n": {"type": "integer", "default": 7}},
        "required": ["day"],
    }
    await room.open(custom_tools=[tool("printf '%s|' {{day}} {{n}}", parameters=schema)])
    assert await room.ok("t", day="2026-01-01") == "2026-01-01|7|"
    assert "day" in await room.fails("t", day="$(id)")


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (tool("echo '{{a}}'", parameters={"a": "string"}), "inside quotes"),
        (tool("echo {{b}}", parameters={"a": "string"}), "no parameter of that name; parameters: a"),
        (tool("echo {{a}}", parameters={"a": "text"}), "'text' is not a type"),
        (tool("echo {{a}}", parameters={"properties": {"a": {"type": "string"}}}), "needs a default"),
        (
            tool("echo 'x"),
            r"/config\.json:1: custom tool 't': the command cannot be read as shell: a quote is not closed: \"'x\"",
        ),
        (tool("ls |"), "a command is missing at the end"),
        (tool("echo", category="reading"), "unknown category"),
        (tool("echo", working_dir="/etc"), "outside"),
        (tool("echo") | {"name": "exec"}, "registered already"),
        (tool("echo") | {"name": "a b"}, "a name has letters"),
    ],
)
async def test_a_wrong_entry_is_one_clear_error(room: Room, entry: dict[str, object], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        await room.open(custom_tools=[entry])


async def test_what_a_tool_may_read_does_not_lead_through_a_link_in_the_workspace(room: Room) -> None:
    """A command of an earlier session may have made it."""
    room.put("elsewhere/key", "s3cret")
    (room.root / "data").symlink_to("../elsewhere")
    with pytest.raises(ConfigError, match=r"custom tool 't': .*data is granted through the link"):
        await room.open(custom_tools=[tool("cat data/key", read=["data"])])


async def test_nothing_printed_failure_and_both_streams(room: Room) -> None:
    entries = [
        tool("true") | {"name": "quiet"},
        tool("echo warned >&2") | {"name": "warns"},
        tool("echo half; echo broken >&2; exit 3") | {"name": "fails"},
        tool("python3 -c 'import os; os.abort()'") | {"name": "dies"},
    ]
    await room.open(custom_tools=entries)
    assert await room.ok("quiet") == "(no output)"
    assert await room.ok("warns") == "(no output)\nSTDERR:\nwarned"
    assert (await room.fails("fails")).startswith("Command failed (exit 3): broken\nstdout: half")
    assert (await room.fails("dies")).startswith("Command failed (exit 134): (no output)")


async def test_folder_environment_and_time_limit(room: Room) -> None:
    (room.root / "sub").mkdir()
    entries = [
        tool('pwd; echo "$GREETING"', working_dir="sub", env={"GREETING": "hello"}) | {"name": "where"},
        tool("echo begun; sleep 60", timeout=1) | {"name": "slow"},
    ]
    await room.open(custom_tools=entries)
    assert await room.ok("where") == f"{room.root}/sub\nhello"
    text = await room.fails("slow")
    assert text.startswith("Command timed out after 1 s")
    assert "begun" in text


async def test_much_output_is_bounded_and_kept(room: Room) -> None:
    await room.open(custom_tools=[tool("yes x | head -c 3000000; yes y | head -c 3000000 >&2")])
    text = await room.ok("t")
    assert len(text) < 60_000
    assert "the whole output is in" in text


async def test_what_its_settings_give_it_is_shown_to_nobody(room: Room) -> None:
    await room.open(
        custom_tools=[tool("printenv API_TOKEN MODE_OF_IT", env={"API_TOKEN": "geheim-1", "MODE_OF_IT": "fast-mode"})]
    )
    assert "[secret:API_TOKEN]\nfast-mode" in await room.ok("t")


async def test_the_hosts_environment_does_not_leak(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "geheim-geheim")
    await room.open(custom_tools=[tool("env")])
    assert "geheim" not in await room.ok("t")


async def test_granted_secrets_reach_the_tool_they_are_granted_to(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "geheim-geheim-12345")
    entries = [tool('printf %s "$KEY" | wc -c'), tool('printf %s "$KEY" | wc -c') | {"name": "other"}]
    await room.open(custom_tools=entries, secrets={"KEY": {"env": "SOME_API_KEY", "tools": ["t"]}})
    assert (await room.ok("t")).strip() == "19"
    assert (await room.ok("other")).strip() == "0"


async def test_a_nul_is_refused(room: Room) -> None:
    await room.open(custom_tools=[tool("echo {{a}}", parameters={"a": "string"})])
    assert "NUL" in await room.fails("t", a="x\0y")


async def test_the_command_with_its_values_is_judged(room: Room) -> None:
    entry = tool("cat {{file}}", parameters={"file": "string"}, category="filesystem_read")
    box = await room.open(custom_tools=[entry], mode="assistant")
    assert (await box.check("t", {"file": "a.txt"})).verdict == "allow"
    found = await box.check("t", {"file": "/etc/shadow"})
    assert (found.verdict, found.rule) == ("deny", "shell:read-secret")
    assert "denied" in await room.fails("t", file="/etc/shadow")


async def test_what_a_command_fetches_is_untrusted(room: Room) -> None:
    entries = [tool("curl -s {{url}}; true", parameters={"url": "string"}) | {"name": "fetch"}, tool("echo hi")]
    await room.open(custom_tools=entries)
    fetched, printed = await room("fetch", url="http://127.0.0.1:9/"), await room("t")
    assert fetched.labels is not None
    assert fetched.labels.integrity == "untrusted"
    assert printed.labels is None or printed.labels.integrity == "trusted"


async def test_what_should_be_reviewed_and_cannot_be_does_not_run_unasked(room: Room) -> None:
    await room.open(custom_tools=[tool("touch a")], effects="review")
    assert "cannot be held back" in await room.fails("t")
    assert not (room.root / "a").exists()


async def test_a_yes_is_for_the_files_that_a_command_runs_as_they_were_shown(room: Room) -> None:
    script = room.put("ws/deploy.sh", "touch shown")
    box = await room.open(custom_tools=[tool("bash deploy.sh")], mode="assistant")
    asked = (await room("t")).meta["approval_id"]
    assert "it runs code of deploy.sh" in box.approvals.pending()[0]["preview"]
    box.approvals.resolve(asked, True, approver="me")
    script.write_text("touch changed")
    assert (await room("t")).error_kind == "pending"
    assert {each.name for each in room.root.iterdir()} == {"deploy.sh"}


async def test_without_walls_an_unknown_program_asks(room: Room) -> None:
    box = await room.open(custom_tools=[tool("some-program {{a}}", parameters={"a": "string"})], mode="assistant")
    assert (await box.check("t", {"a": "x"})).verdict == "ask"


@pytest.mark.skipif(sys.platform != "linux", reason="the default sandbox is for Linux")
async def test_in_the_sandbox_only_what_is_granted_can_be_read(room: Room) -> None:
    granted = room.put("granted/data.txt", "hello")
    hidden = room.put("hidden/data.txt", "secret")
    entries = [
        tool("cat {{file}}", parameters={"file": "string"}, read=[str(granted.parent)]) | {"name": "reads"},
        tool("cat {{file}}", parameters={"file": "string"}) | {"name": "plain"},
    ]
    box = await room.open(custom_tools=entries, sandbox="auto")
    assert await room.ok("reads", file=str(granted)) == "hello"
    assert "No such file" in await room.fails("reads", file=str(hidden))
    assert "No such file" in await room.fails("plain", file=str(granted))
    assert (await box.check("reads", {"file": str(granted)})).rule == "shell:read-only"


async def test_an_untrusted_project_adds_no_tools(room: Room) -> None:
    from toolcrib.config import load_settings

    (room.root / "toolcrib.toml").write_text(
        '[[custom_tools]]\nname = "t"\ndescription = "d"\ncommand = "id"\n'
        '[plugins]\nenabled = true\nplugin_dirs = ["p"]\nallowed_plugins = ["x"]\n'
        '[openapi.pets]\nspec = "pets.json"\n'
    )
    settings = load_settings(workspace=room.root)
    assert settings.custom_tools == ()
    assert not settings.plugins.enabled
    assert settings.plugins.plugin_dirs == ()
    assert settings.plugins.allowed_plugins == ()
    assert settings.openapi == {}
    assert len(settings.origin.ignored) == 5


async def test_in_observer_mode_a_tool_that_says_it_only_reads_can_only_read(room: Room) -> None:
    copies = tool("cp a {{to}}", parameters={"to": "string"}, category="filesystem_read")
    (room.root / "a").write_text("x")
    await room.open(custom_tools=[copies], mode="observer", sandbox="bubblewrap")
    assert "Read-only file system" in await room.fails("t", to="b")
    assert not (room.root / "b").exists()
