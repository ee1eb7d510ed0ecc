"""Rules of all layers: their origin, whose count, Claude Code's files, and those a person said "always" to."""

import json
import multiprocessing
import os
import re

import pytest

from toolcrib.config.files import read_config_file
from toolcrib.config.remembered import forget, remember, remembered_layers, rules_file
from toolcrib.config.rules import rules_of
from toolcrib.core.errors import ConfigError
from toolcrib.core.tool import FunctionTool
from toolcrib.policy.rules.rule_grammar import VERDICTS
from toolcrib.policy.rules.suggest import suggest


def said(settings):
    return [(rule.verdict, rule.text, rule.source.layer) for rule in rules_of(settings)]


def home_of(place):
    return place.home / ".config/toolcrib"


def test_rules_of_every_layer_keep_their_origin(place):
    user = place.user('[rules]\ndeny = ["exec(rm *)"]\nallow = ["read_file"]\n')
    place.project('[permissions]\nask = ["Bash(git push *)"]\nallow = ["Bash"]\n')
    remember(place.workspace, "allow", "exec(=npm test)", home_of(place))
    remember(None, "ask", "deploy", home_of(place))
    settings = place.load(environ={"TOOLCRIB_RULES__DENY": "WebSearch"}, flags={"rules.ask": ["WebFetch"]})
    assert sorted(said(settings)) == sorted([
        ("ask", "deploy", "user"),
        ("allow", "exec(=npm test)", "remembered"),
        ("deny", "exec(rm *)", "user"),
        ("allow", "read_file", "user"),
        ("ask", "Bash(git push *)", "project"),
        ("deny", "WebSearch", "environment"),
        ("ask", "WebFetch", "flags"),
    ])  # fmt: skip
    assert [rule.source.where for rule in rules_of(settings) if rule.text == "exec(rm *)"] == [f"{user}:2"]
    assert any("rules.allow = Bash" in str(item) for item in settings.origin.ignored)
    place.trust.trust(settings.origin.project)
    assert ("allow", "Bash", "project") in said(place.load())


def test_the_same_table_twice_is_no_reason_to_lose_one(place):
    place.user('[[rules.deny]]\ntool = "x"\nargs = {n = 1}\n')
    place.project('[[rules.deny]]\ntool = "x"\nargs = {n = true}\n')
    assert len(rules_of(place.load())) == 2


def test_rules_may_be_a_list_of_tables(place):
    place.user('[[rules]]\nverdict = "ask"\ntool = "mcp__github__*"\nreason = "look first"\n')
    (rule,) = rules_of(place.load())
    assert (rule.verdict, rule.reason) == ("ask", "look first")
    place.user('[[rules]]\ntool = "x"\n')
    with pytest.raises(ConfigError, match="verdict"):
        place.load()


def test_tables_stand_beside_the_lists(place):
    place.user(
        '[rules]\ndeny = ["a"]\n[[rules.table]]\nverdict = "deny"\ntool = "b"\n[[rules.table]]\nverdict = "ask"\n'
    )
    assert [(rule.verdict, rule.tool) for rule in rules_of(place.load())] == [
        ("deny", "a"),
        ("deny", "b"),
        ("ask", "*"),
    ]
    assert place.load().rules.table == ()


@pytest.mark.parametrize("wrong", ["table = 1", 'table = ["x"]', 'deny = 1\ntable = [{verdict = "deny", tool = "x"}]'])
def test_tables_of_another_shape_are_errors(place, wrong):
    place.user(f"[rules]\n{wrong}\n")
    with pytest.raises(ConfigError, match=r"config\.toml"):
        place.load()


def test_a_wrong_rule_names_its_file(place):
    place.user('mode = "observer"\n[rules]\ndeny = ["Bash("]\n')
    with pytest.raises(ConfigError, match=r"config\.toml:3: rule Bash\("):
        place.load()


def test_an_example_that_does_not_hold_names_file_rule_and_example(place):
    place.user('[[rules.ask]]\ntool = "Bash(git push *)"\nmatch = ["git push x", "git pull"]\n')
    with pytest.raises(ConfigError, match=r"config\.toml:1: rule .*git push.*does not match 'git pull'"):
        place.load()


def test_a_rule_that_can_never_match_is_a_warning(place):
    place.user('[rules]\nallow = ["mcp__*"]\n')
    assert any("can never match" in warning for warning in place.load().origin.warnings)


# Claude Code's settings


def claude(folder, **permissions):
    path = folder / ".claude/settings.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"model": "x", "permissions": permissions, "hooks": {}}))
    return path


def test_claude_codes_own_settings_count_as_the_persons(place):
    path = claude(place.home, allow=["Bash(npm test)", "Bash("], deny=["Read(/x)"])
    place.user(f'[rules]\nimport = ["{path}"]\n')
    settings = place.load()
    assert said(settings) == [("deny", "Read(/x)", "claude"), ("allow", "Bash(npm test)", "claude")]
    assert rules_of(settings)[0].source.base == str(path.parent)
    assert any("left out" in warning for warning in settings.origin.warnings)


def test_those_of_the_project_only_tighten_until_they_are_trusted(place):
    path = claude(place.workspace, allow=["Bash"], deny=["Read(/x)"])
    place.user('[rules]\nimport = [".claude/settings.json", ".claude/settings.local.json"]\n')
    settings = place.load()
    assert said(settings) == [("deny", "Read(/x)", "claude")]
    assert rules_of(settings)[0].source.base == str(place.workspace)
    assert not settings.origin.trusted
    assert "Bash" in str(settings.origin.ignored[0])
    assert any("there is no" in warning for warning in settings.origin.warnings)
    place.trust.trust(settings.origin.imported[0])
    assert ("allow", "Bash", "claude") in said(place.load())
    path.write_text(path.read_text() + " ")
    assert ("allow", "Bash", "claude") not in said(place.load())


@pytest.mark.parametrize("link", ["file", "folder", "chain"])
def test_an_import_behind_a_link_in_the_workspace_is_the_workspaces(place, tmp_path, link):
    other = tmp_path / "other"
    other.mkdir()
    (other / "settings.json").write_text('{"permissions": {"allow": ["Bash(*)"], "deny": ["Read(x)"]}}')
    named = ".claude/settings.json"
    if link == "folder":
        (place.workspace / ".claude").symlink_to(other)
    else:
        (place.workspace / ".claude").mkdir()
        (place.workspace / ".claude/settings.json").symlink_to(other / "settings.json")
    if link == "chain":
        (tmp_path / "mine.json").symlink_to(place.workspace / named)
        named = str(tmp_path / "mine.json")
    place.user(f'[rules]\nimport = ["{named}"]\n')
    settings = place.load()
    assert [rule.text for rule in rules_of(settings)] == ["Read(x)"]
    assert not settings.origin.trusted


def test_an_import_that_tools_may_change_is_not_trusted_unseen(place, tmp_path):
    path = claude(tmp_path, allow=["Bash"])
    place.user(f'[rules]\nimport = ["{path}"]\n[sandbox]\nwrite_roots = ["{tmp_path / ".claude"}"]\n')
    settings = place.load()
    assert said(settings) == []
    project = place.project("[sandbox]\nread_roots = []\nwrite_roots = []\n")
    assert said(place.load()) == []
    project.unlink()
    place.trust.trust(settings.origin.imported[0])
    assert said(place.load()) == [("allow", "Bash", "claude")]


def test_an_untrusted_project_imports_nothing(place):
    claude(place.home, allow=["Bash"])
    place.project(f'[rules]\nimport = ["{place.home}/.claude/settings.json"]\n')
    settings = place.load()
    assert said(settings) == []
    assert any("rules.imports" in str(item) for item in settings.origin.ignored)


def test_a_file_that_is_not_trusted_cannot_have_very_many_values(place, tmp_path):
    """They would cost seconds at each start."""
    many = json.dumps([f"Read(x{number}/**)" for number in range(2_000)])
    project = place.project(f"[rules]\ndeny = {many}\n")
    with pytest.raises(ConfigError, match=r"2,000 values, and it has more.*--config"):
        place.load()
    assert len(said(place.load(config=project))) == 2_000
    place.trust_project()
    assert len(said(place.load())) == 2_000
    for hooks in ('[[hooks]]\naction = "block"\n' * 1_001, "".join(f"k{number} = 1\n" for number in range(2_001))):
        place.project(hooks)
        with pytest.raises(ConfigError, match=r"2,000 values, and it has more"):
            place.load()
    project.unlink()
    servers = place.workspace / ".mcp.json"
    servers.write_text(json.dumps({"mcpServers": {f"s{number}": {"command": "x"} for number in range(1_000)}}))
    (warning,) = place.load().origin.warnings
    assert re.search(r"are not used: .*2,000 values, and it has more", warning) and len(warning) < 500
    servers.unlink()
    inside = place.workspace / "claude.json"
    inside.write_text(json.dumps({"permissions": {"deny": json.loads(many)}}))
    place.user(f'[rules]\nimport = ["{inside}"]\n')
    with pytest.raises(ConfigError, match=r"2,000 values, and it has more; import a smaller one"):
        place.load()


def test_a_refusal_of_an_import_that_cannot_be_read_is_an_error(place):
    path = claude(place.home, deny=["Bash("])
    place.user(f'[rules]\nimport = ["{path}"]\n')
    with pytest.raises(ConfigError, match=r"settings\.json"):
        place.load()


@pytest.mark.parametrize(
    ("mode", "ours", "note"),
    [("default", "assistant", ""), ("acceptEdits", "assistant", ""), ("plan", "observer", ""),
     ("dontAsk", "assistant", ""), ("bypassPermissions", "observer", "does not count")],
)  # fmt: skip
def test_modes_of_claude_code(place, mode, ours, note):
    place.user('mode = "observer"\n')
    place.project(json.dumps({"permissions": {"defaultMode": mode}}), "toolcrib.json")
    place.trust.trust(read_config_file(place.workspace / "toolcrib.json"))
    settings = place.load()
    assert settings.mode == ours
    assert settings.approval.never_ask == (mode == "dontAsk")
    assert any(note in warning for warning in settings.origin.warnings) or not note


def test_no_spelling_of_an_untrusted_file_loosens_the_mode(place):
    place.user('mode = "observer"\n')
    for mode in ("default", "bypassPermissions", "acceptEdits"):
        place.project(json.dumps({"permissions": {"defaultMode": mode}}), "toolcrib.json")
        assert place.load().mode == "observer"


def test_an_unknown_mode_of_claude_code_is_an_error(place):
    place.project(json.dumps({"permissions": {"defaultMode": "yolo"}}), "toolcrib.json")
    with pytest.raises(ConfigError, match="yolo"):
        place.load()


def test_additional_directories_are_granted_by_trusted_files_alone(place):
    (place.home / "more").mkdir()
    text = json.dumps({"permissions": {"additionalDirectories": [str(place.home / "more")]}})
    place.project(text, "toolcrib.json")
    assert place.load().sandbox.write_roots == ()
    (place.workspace / "toolcrib.json").unlink()
    place.user(text, "config.json")
    assert place.load().sandbox.write_roots == (place.home / "more",)


# Remembered


def exec_tool():
    schema = {"type": "object", "properties": {}, "additionalProperties": True}
    return FunctionTool(lambda args: None, name="exec", parameters=schema, command_argument="command")


@pytest.mark.parametrize(
    "arguments",
    [{"command": "npm test"}, {"command": "a\nb \\ (*) \u202e"}, {"command": "\ud800"}, {"command": "x", "n": [1, {}]}],
)
def test_a_yes_for_always_is_read_back_as_it_was_shown(place, arguments):
    line = suggest(exec_tool(), arguments)
    path = remember(place.workspace, "allow", line, home_of(place))
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert os.stat(path.parent).st_mode & 0o777 == 0o700
    (rule,) = rules_of(place.load())
    assert (rule.text, rule.verdict, rule.source.layer) == (line, "allow", "remembered")
    remember(place.workspace, "allow", line, home_of(place))
    assert len(rules_of(place.load())) == 1
    assert not forget(place.workspace, line, ["ask"], home=home_of(place))
    assert forget(place.workspace, line, VERDICTS, home=home_of(place))
    assert not forget(place.workspace, line, VERDICTS, home=home_of(place))
    assert rules_of(place.load()) == ()


def test_rules_of_one_workspace_are_none_for_another(place, tmp_path):
    remember(place.workspace, "allow", "Bash", home_of(place))
    (tmp_path / "other").mkdir()
    assert rules_of(place.load(workspace=tmp_path / "other")) == ()


@pytest.mark.parametrize("line", ["", "Bash(", "mcp__*", '{"tool": 1}', "{"])
def test_what_is_no_rule_is_not_remembered(place, line):
    with pytest.raises(ConfigError):
        remember(place.workspace, "allow", line, home_of(place))
    assert not rules_file(home_of(place), place.workspace).exists()


def test_what_could_not_be_read_back_is_not_written(place):
    deep = "[" * 60 + "]" * 60
    with pytest.raises(ConfigError):
        remember(place.workspace, "allow", f'{{"tool": "x", "exactly": {{"a": {deep}}}}}', home_of(place))
    with pytest.raises(ConfigError, match="grow beyond"):
        remember(place.workspace, "allow", f"exec(={'x' * 2**20})", home_of(place))
    assert rules_of(place.load()) == ()


def test_what_a_person_wrote_by_hand_is_kept(place):
    path = rules_file(home_of(place), place.workspace)
    path.parent.mkdir(parents=True)
    path.write_text('{"permissions": {"deny": ["WebSearch"], "allow": ["Bash(make)"]}}')
    remember(place.workspace, "allow", "Bash(ls)", home_of(place))
    assert json.loads(path.read_text()) == {"permissions": {"deny": ["WebSearch"], "allow": ["Bash(make)", "Bash(ls)"]}}


def test_rules_that_others_may_write_are_refused(place):
    path = remember(place.workspace, "allow", "Bash", home_of(place))
    path.chmod(0o602)
    with pytest.raises(ConfigError, match="others may write"):
        place.load()


def test_a_link_to_rules_that_are_not_there_is_an_error_of_the_settings(place):
    path = rules_file(home_of(place), None)
    path.parent.mkdir(parents=True)
    path.symlink_to("nowhere.json")
    with pytest.raises(ConfigError, match=r"user\.json: there is no such file"):
        place.load()
    with pytest.raises(ConfigError, match=r"user\.json: there is no such file"):
        remember(None, "allow", "Bash(ls)", home_of(place))


def test_rules_in_a_home_directory_that_is_the_workspace(place):
    remember(place.home, "allow", "Bash", home_of(place))
    assert [name for name, _ in remembered_layers(home_of(place), place.home)] == ["remembered"]
    assert [rule.text for rule in place.load(workspace=place.home).origin.rules] == ["Bash"]


def test_other_settings_do_not_hide_among_rules(place):
    path = remember(place.workspace, "allow", "Bash", home_of(place))
    path.write_text('{"permissions": {}, "mode": "autonomous"}')
    with pytest.raises(ConfigError, match="rules alone"):
        place.load()


def _add(workspace, home, start):
    for number in range(start, start + 10):
        remember(workspace, "allow", f"exec(=echo {number})", home)


def test_processes_that_remember_at_once_lose_nothing(place):
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_add, args=(place.workspace, home_of(place), n * 10)) for n in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    assert len(rules_of(place.load())) == 40


def test_a_wrong_table_names_its_line(place):
    place.user('[[rules.table]]\nverdict = "deny"\ntool = "a"\n\n[[rules.table]]\nverdict = "deny"\ntool = "b b"\n')
    with pytest.raises(ConfigError, match=r"config\.toml:5: rule"):
        place.load()
    place.user('[[rules]]\nverdict = "deny"\ntool = "a"\n[[rules]]\nverdict = "no"\ntool = "b"\n')
    with pytest.raises(ConfigError, match=r"config\.toml:4: rules\.1"):
        place.load()


def test_servers_that_rules_cannot_tell_apart_are_a_warning(place):
    place.user("".join(f'[mcp_servers."{name}"]\ncommand = "a"\n' for name in ("my.git", "my git", "mygit")))
    (warning,) = [text for text in place.load().origin.warnings if "one name to rules" in text]
    assert "'my.git'" in warning and "'my git'" in warning and "'mygit'" not in warning and "mcp__my_git" in warning
