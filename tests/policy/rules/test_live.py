"""Rules in a toolbox: changed while it is open, kept for the next time, and never a way around a denial."""

import pytest

from toolcrib import ConfigError, Toolbox
from toolcrib.policy.requests import Decision


@pytest.fixture
def work(tmp_path, monkeypatch):
    for name in ("CONFIG", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "work").mkdir()
    (tmp_path / "work/a.txt").write_text("hello\n")
    return tmp_path / "work"


async def test_a_rule_counts_from_the_next_call_on(work):
    async with Toolbox.open(work) as box:
        assert not (await box.call("read_file", {"path": "a.txt"})).is_error
        rule = box.rules.add("Read(a.txt)", "deny")
        denied = await box.call("read_file", {"path": "a.txt"})
        assert denied.error_kind == "denied"
        assert denied.meta["rule"] == "Read(a.txt)"
        assert "read_file" in {body["name"] for body in box.definitions("mcp")}
        box.rules.add("read_file", "deny")
        assert "read_file" not in {body["name"] for body in box.definitions("mcp")}
        assert box.rules.remove(rule.text)
        assert box.rules.remove("read_file")
        assert not (await box.call("read_file", {"path": "a.txt"})).is_error


async def test_a_verdict_that_is_none_is_refused_at_once(work):
    async with Toolbox.open(work) as box:
        with pytest.raises(ConfigError, match="allow, ask or deny"):
            box.rules.add("Read(a.txt)", "permit")
        assert not (await box.call("read_file", {"path": "a.txt"})).is_error


async def test_a_yes_for_always_holds_in_the_next_toolbox_for_that_call_alone(work):
    asked = []

    async def always(request):
        asked.append(request.rule)
        return Decision(True, scope="rule")

    async with Toolbox.open(work, approve=always) as box:
        assert not (await box.call("delete_file", {"path": "a.txt"})).is_error
    assert len(asked) == 1
    (work / "a.txt").write_text("again\n")
    (work / "b.txt").write_text("other\n")
    async with Toolbox.open(work, approve=always) as box:
        assert not (await box.call("delete_file", {"path": "a.txt"})).is_error
        assert len(asked) == 1
        assert (await box.check("delete_file", {"path": "b.txt"})).verdict == "ask"


async def test_no_rule_allows_what_the_judgement_denies(work):
    async with Toolbox.open(work) as box:
        box.rules.add("Bash", "allow")
        box.rules.add("Read", "allow")
        assert (await box.check("exec", {"command": "rm -rf /"})).verdict == "deny"
        assert (await box.check("read_file", {"path": "/etc/shadow"})).verdict == "deny"
        assert (await box.check("exec", {"command": "make"})).step == 3


async def test_a_broken_matcher_refuses(work, monkeypatch):
    async with Toolbox.open(work) as box:
        box.rules.add("Bash(ls)", "allow")
        monkeypatch.setattr("toolcrib.policy.rules.match.JudgedCall.script", property(lambda self: 1 / 0))
        box.rules.add("Bash(rm *)", "deny")
        assert (await box.check("exec", {"command": "ls"})).verdict == "deny"
