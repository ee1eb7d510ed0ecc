"""Names in `approval.require_for` that no tool has are errors: they would protect nothing."""

import logging

import pytest

from toolcrib import ConfigError, Toolbox, tool


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


def test_lists_of_the_earlier_designs_load_with_a_warning(opened, caplog):
    with caplog.at_level(logging.WARNING, "toolcrib"), opened('[approval]\ndangerous_tools = ["shell", "google"]\n'):
        pass
    assert "there is no tool 'google'" in caplog.text
