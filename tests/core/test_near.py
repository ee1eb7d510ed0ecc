"""Which known name a mistyped one was probably meant to be; a name that is far off is not offered."""

from __future__ import annotations

from toolcrib.core.near import near


def words(text: str) -> list[str]:
    return text.split()


TOOLS = words(
    "apply_patch browser_click browser_close browser_save browser_select browser_snapshot browser_tabs browser_wait "
    "create_tool delete_file echo edit_file exec exec_session glob grep http_request list_dir read_file read_skill "
    "schedule_task web_fetch web_search write_file"
)
COMMANDS = words(
    "approvals call chat clean config demo doctor install jobs list log login plugin rules run schedule serve sessions "
    "todo undo worker"
)
PARAMETERS = words("command path old_text timeout working_dir")
SETTINGS = words("allow_private allowed_domains disabled errors_as_text keep_days mode per_tool require_for timeout")


def test_near_names_are_offered() -> None:
    meant = {
        "exce": ["exec"], "execute": ["exec"], "shell_exec": ["exec"], "exec_sesion": ["exec_session"],
        "grepp": ["grep"], "raed_file": ["read_file"], "ReadFile": ["read_file"], "readfile": ["read_file"],
        "file-read": ["read_file"],
        "read": ["read_file", "read_skill"], "fetch": ["web_fetch"], "search_web": ["web_search"],
        "web_serch": ["web_search"], "browser_clik": ["browser_click"], "task": ["schedule_task"],
    }  # fmt: skip
    assert {name: near(name, TOOLS, 5) for name in meant} == meant
    commands = {
        "lst": "list", "lsit": "list", "docter": "doctor", "aprovals": "approvals", "approve": "approvals",
        "lgo": "log", "confg": "config", "conf": "config", "sesions": "sessions", "scheduler": "schedule",
        "plug": "plugin",
    }  # fmt: skip
    assert {word: near(word, COMMANDS) for word in commands} == {word: [name] for word, name in commands.items()}
    assert [near(key, PARAMETERS) for key in ("cmd", "paht", "file_path", "old", "dir", "timeout_ms")] == [
        ["command"], ["path"], ["path"], ["old_text"], ["working_dir"], ["timeout"],
    ]  # fmt: skip
    settings = {
        "moed": "mode", "disable": "disabled", "requires_for": "require_for", "pertool": "per_tool", "time": "timeout",
        "allow_domains": "allowed_domains", "private": "allow_private", "keep": "keep_days",
    }  # fmt: skip
    assert {key: near(key, SETTINGS) for key in settings} == {key: [name] for key, name in settings.items()}


def test_names_that_are_far_off_are_not() -> None:
    far = words("add bash calculator cat create_file find foo get_weather google ls python remove_file rm run_code xyz")
    assert {name: found for name in far if (found := near(name, TOOLS, 5))} == {}
    assert near("rad", ["red", "blue"]) == ["red"]
    assert near("get", ["set", "path"]) == near("login", ["log", "list"]) == []
    far = words("cron exec foo ls remove search set settings shell start status stop tools update upgrade version web")
    assert {word: found for word in far if (found := near(word, COMMANDS))} == {}
    assert [near(key, PARAMETERS) for key in ("q", "file", "data", "cwd", "message")] == [[]] * 5
    assert [near(key, SETTINGS) for key in ("enabled", "max", "debug", "name", "network")] == [[]] * 5


def test_any_text_is_taken() -> None:
    assert near("", TOOLS) == near("_", TOOLS) == near("exec", ["", "-"]) == []
    assert near("x" * 10_000, TOOLS) == []
