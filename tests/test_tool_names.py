"""Names in settings that no tool has are said with the nearest name; in `approval.require_for` they are errors."""

import logging

import pytest

from toolcrib import ConfigError, Toolbox, tool
from toolcrib.toolbox.tool_names import LATER


@pytest.fixture
def opened(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "work").mkdir()

    def make(text, **more):
        file = tmp_path / "some.toml"
        file.write_text(text)
        return Toolbox.open(workspace=tmp_path / "work", config=file, **more)

    return make


def test_an_unknown_name_is_an_error_that_says_where_and_what_there_is(opened):
    with pytest.raises(ConfigError, match=r"some\.toml:2: approval\.require_for: .*'exce'.*known here: .*exec, "):
        opened('[approval]\nrequire_for = ["exec", "exce"]\n').__enter__()


def test_names_of_any_kind_are_known(opened):
    @tool(category="memory")
    def mine() -> str:
        """Mine."""
        return ""

    text = '[approval]\nrequire_for = ["shell", "mine", "mcp_*", "web_fetch"]\n[tools]\ndisabled = ["web_fetch"]\n'
    with opened(text, tools=[mine]) as box:
        assert box.policy.usual(box.registry.get("mine")).verdict == "ask"
    with opened('[approval]\nrequire_for = ["somebody"]\n', builtin=False):
        pass


def test_an_api_is_a_name_that_secrets_know(opened, caplog, tmp_path, monkeypatch):
    monkeypatch.setenv("PETS_TOKEN", "0123456789abcdef")
    (tmp_path / "pets.json").write_text(
        '{"openapi": "3.0.0", "info": {}, "servers": [{"url": "https://x.example"}], "paths": {}}'
    )
    secret = '[secrets.PETS]\nenv = "PETS_TOKEN"\ntools = ["openapi:pets", "openapi:pest"]\n'
    text = '[openapi.pets]\nspec = "pets.json"\n' + secret
    with caplog.at_level(logging.WARNING, "toolcrib"), opened(text):
        pass
    assert "'openapi:pest'" in caplog.text
    assert "there is no tool 'openapi:pets'" not in caplog.text


def test_lists_of_the_earlier_designs_load_with_a_warning(opened, caplog):
    with caplog.at_level(logging.WARNING, "toolcrib"), opened('[approval]\ndangerous_tools = ["shell", "google"]\n'):
        pass
    assert "there is no tool 'google'" in caplog.text


NAMES = """
[tools]
disabled = ["exce", "mine", "browser_*", "browsr_*", "spawn", "shell"]
errors_as_text = ["exce", "shell"]
[limits]
per_tool = { exce = 3, exec = 4 }
may_repeat = ["exce", "mcp_github_issue", "later_*"]
[[hooks]]
action = "ask"
tools = ["exce", "ask_user"]
[secrets.KEY]
env = "A_LONG_KEY"
tools = ["exce", "mcp:github"]
[[serve.tokens]]
name = "a"
hash = "sha256:0000000000000000000000000000000000000000000000000000000000000000"
tools = ["exce"]
"""


def test_every_setting_that_names_tools_says_unknown_ones_with_the_nearest(opened, caplog, monkeypatch):
    monkeypatch.setenv("A_LONG_KEY", "0123456789abcdef")

    @tool(category="memory")
    def mine() -> str:
        """Mine."""
        return ""

    with caplog.at_level(logging.WARNING, "toolcrib"), opened(NAMES, tools=[mine]) as box:
        assert {"exec", "browser_open"}.isdisjoint(box.registry.names)  # `shell` is `exec`
        assert box.registry.unavailable["shell"] == box.registry.unavailable["exec"]
        assert box.parts.doubts == [record.getMessage() for record in caplog.records]
    elsewhere = "tools from elsewhere are forbidden with rules.deny"
    exce = "'exce' (did you mean exec?)"
    assert [line.partition("some.toml")[2].partition(". It has")[0] for line in box.parts.doubts] == [
        f":6: limits.per_tool.exce: there is no tool {exce}",
        f":7: limits.may_repeat: there is no tool {exce}",
        f":3: tools.disabled: there is no built-in tool {exce}, 'mine', 'browsr_*'; {elsewhere}",
        f":4: tools.errors_as_text: there is no tool {exce}",
        f": hooks: there is no tool {exce}",
        f":11: secrets.KEY.tools: there is no tool {exce}",
        f": serve.tokens: there is no tool {exce}",
    ]


async def test_the_tools_of_the_agent_are_known(tmp_path):
    from toolcrib.agent import Agent
    from toolcrib.agent.scripted import ScriptedModel

    async with Toolbox.open(workspace=tmp_path) as box:
        before = set(box.registry.names)
        agent = Agent(box, [ScriptedModel([])])
        assert set(box.registry.names) - before <= set(LATER)
        await agent.aclose()
