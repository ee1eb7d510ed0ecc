"""The order of sources, what each may say, and errors that name file, key and remedy."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from toolcrib.config import load_settings
from toolcrib.core.errors import ConfigError

from .conftest import Place


def test_defaults(place: Place) -> None:
    settings = place.load()
    assert settings.mode == "assistant"
    assert settings.workspace == place.workspace
    assert settings.sandbox.backend == "auto"
    assert settings.approval.policy == "require_for_dangerous"
    assert settings.origin.trusted
    assert settings.origin.warnings == ()
    assert dict(settings.origin.sources) == {"workspace": "--workspace"}


def test_later_sources_win(place: Place) -> None:
    place.user('mode = "observer"\n[approval]\ntimeout = 10\n[tools]\nripgrep = "/usr/bin/rg"\n')
    assert place.load().mode == "observer"
    place.project('mode = "assistant"\n[approval]\ntimeout = 20\n')
    place.trust_project()
    assert (place.load().mode, place.load().approval.timeout) == ("assistant", 20)
    environ = {"TOOLCRIB_APPROVAL__TIMEOUT": "30", "TOOLCRIB_MODE": "autonomous"}
    settings = place.load(environ=environ, flags={"mode": "observer"})
    assert (settings.mode, settings.approval.timeout, settings.tools.ripgrep) == ("observer", 30, "/usr/bin/rg")
    assert settings.origin.sources["mode"] == "--mode"
    assert settings.origin.sources["approval.timeout"] == "TOOLCRIB_APPROVAL__TIMEOUT"
    assert settings.origin.sources["tools.ripgrep"] == f"{place.home}/.config/toolcrib/config.toml:5"
    assert [path.name for path in settings.origin.files] == ["config.toml", "toolcrib.toml"]


def test_rules_of_all_layers_are_merged(place: Place) -> None:
    place.user('[rules]\ndeny = ["exec(rm *)"]\n')
    place.project('[rules]\ndeny = ["exec(dd *)"]\nallow = ["read_file"]\n')
    place.trust_project()
    settings = place.load()
    assert settings.rules.deny == ("exec(rm *)", "exec(dd *)")
    assert settings.rules.allow == ("read_file",)
    assert "config.toml" in settings.origin.sources["rules.deny"]
    assert "toolcrib.toml" in settings.origin.sources["rules.deny"]


def test_servers_are_merged_by_name_and_replaced_whole(place: Place) -> None:
    place.user('[mcp_servers.a]\ncommand = "a"\nargs = ["x"]\n[mcp_servers.b]\ncommand = "b"\n')
    place.project('[mcp_servers.a]\nurl = "https://a.example"\n')
    place.trust_project()
    servers = place.load().mcp_servers
    assert sorted(servers) == ["a", "b"]
    assert servers["a"].command is None
    assert servers["a"].args == ()


def test_a_named_file_is_trusted_and_takes_the_projects_place(place: Place, tmp_path: Path) -> None:
    place.project('mode = "observer"\n')
    named = tmp_path / "mine.json"
    named.write_text('{"mode": "autonomous", "sandbox": {"env": ["TOKEN"]}}')
    settings = place.load(config=named)
    assert settings.mode == "autonomous"
    assert settings.sandbox.env == ("TOKEN",)
    assert settings.origin.trusted
    assert place.load(environ={"TOOLCRIB_CONFIG": str(named)}).mode == "autonomous"


@pytest.mark.parametrize("url", ["http://x/v1\nHost: y", "http://x /v1", "x"])
def test_an_address_of_models_is_one(place: Place, url: str) -> None:
    with pytest.raises(ConfigError, match="base-url should be a URL"):
        place.load(flags={"agent.base_url": url})


def test_a_project_file_above_the_workspace_is_not_found(place: Place) -> None:
    inner = place.workspace / "src"
    inner.mkdir()
    place.project('mode = "observer"\n')
    assert place.load(workspace=inner).mode == "assistant"


def test_the_workspace_can_come_from_the_users_file_or_the_environment_but_not_the_project(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    place.user('workspace = "~/w"\n')
    assert place.load(workspace=None).workspace == Path("~/w").expanduser()
    environ = {"TOOLCRIB_WORKSPACE": "work"}
    assert place.load(workspace=None, environ=environ).workspace == place.workspace
    place.project('workspace = ".."\n')
    place.trust_project()
    settings = place.load()
    assert settings.workspace == place.workspace
    assert any("cannot move it" in warning for warning in settings.origin.warnings)


def test_relative_paths_belong_to_the_file_that_names_them(place: Place, tmp_path: Path) -> None:
    place.user('[sandbox]\nread_roots = ["data", "/abs"]\n')
    base = place.home / ".config/toolcrib"
    assert place.load().sandbox.read_roots == (base / "data", Path("/abs"))


def test_variables_are_read_by_the_type_of_their_setting(place: Place) -> None:
    settings = place.load(
        environ={
            "TOOLCRIB_APPROVAL__ENABLED": "false",
            "TOOLCRIB_SANDBOX__ENV": "A, B",
            "TOOLCRIB_SANDBOX__LIMITS__OPEN_FILES": "99",
            "TOOLCRIB_RULES__DENY": '["exec(a,b)"]',
            "TOOLCRIB_SANDBOX__PROFILE": "read-only",
            "TOOLCRIB_HTTP_TOKEN": "not a setting",
            "TOOLCRIB_BEHIND": "a,b",
        }
    )
    assert not settings.approval.enabled
    assert settings.sandbox.env == ("A", "B")
    assert settings.sandbox.limits.open_files == 99
    assert settings.rules.deny == ("exec(a,b)",)
    assert settings.sandbox.profile == "read-only"
    assert not any("not settings" in warning for warning in settings.origin.warnings)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("SANDBOX_BACKEND", "SANDBOX__BACKEND"),
        ("SANDBOX_LIMITS_OPEN_FILES", "SANDBOX__LIMITS__OPEN_FILES"),
        ("TOOLS_HTTP_REQUEST__ALLOWED_DOMAINS", "TOOLS__HTTP_REQUEST__ALLOWED_DOMAINS"),
    ],
)
def test_a_variable_with_too_few_underscores_is_an_error(place: Place, name: str, meant: str) -> None:
    with pytest.raises(ConfigError, match=rf"^TOOLCRIB_{name}: .*did you mean TOOLCRIB_{meant}\?"):
        place.load(environ={f"TOOLCRIB_{name}": "none"})
    settings = place.load(environ={"TOOLCRIB_TEST_IMAGE": "x"})  # somebody else's
    assert any("test_image" in warning for warning in settings.origin.warnings)


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ('mode = "yolo"\n', 1, r'mode: is "yolo"; it can be "observer", "assistant" or "autonomous"'),
        ('# x\n\nmode = "asistant"\n', 3, r'did you mean "assistant"\?'),
        (
            '[approval]\npolcy = "always_allow"\n',
            2,
            r"approval\.polcy: there is no such setting; did you mean 'policy'",
        ),
        ('[approval]\nenabled = "yes"\n', 2, r'approval\.enabled: should be true or false, not "yes"'),
        ("[sandbox.limits]\nopen_files = 0\n", 2, r"should be greater than or equal to 1, not 0"),
        ("[sandbox.limits]\nopen_files = true\n", 2, r"should be a valid integer, not true"),
        ("[approval]\ntimeout = nan\n", 2, r"approval\.timeout: should be a finite number"),
        ("mdoe = 1\n", 1, r"mdoe: there is no such setting; did you mean 'mode'"),
        ("[sanbox]\n", 1, r"sanbox: there is no such setting; did you mean 'sandbox'"),
        ("[[custom_tools]]\nname = 'x'\ndescription = 'd'\n", 1, r"custom_tools\.0\.command: is missing"),
        ("[approval]\nrequireFor = []\nrequire_for = []\n", 3, r"the same setting is given as approval\.requireFor"),
        ("[mcp_servers.x]\ncomand = 'y'\n", 2, r"mcp_servers\.x\.comand: .*did you mean 'command'"),
        ("[tools]\nmcp_servers = [{command='x'}]\n", 2, r"a server in a list needs a name"),
        ("approval = 3\n", 1, r"approval: should be .*not 3"),
    ],
)
def test_errors_name_the_file_the_line_the_key_and_the_remedy(place: Place, text: str, line: int, said: str) -> None:
    path = place.user(text)
    with pytest.raises(ConfigError) as caught:
        place.load()
    assert str(caught.value).startswith(f"{path}:{line}: ")
    assert re.search(said, str(caught.value))


@pytest.mark.parametrize("name", ["cli", "MCP", "agent", "job"])
def test_a_channel_has_no_name_of_toolcribs_own(place: Place, name: str) -> None:
    place.user(f'[channels.{name}]\ntype = "terminal"\n')
    with pytest.raises(ConfigError, match=rf"channels\.{name}: .* another name"):
        place.load()


def test_errors_in_json_name_the_line(place: Place) -> None:
    path = place.user('{\n "approval": {\n  "policy": "never"\n }\n}', "config.json")
    with pytest.raises(ConfigError, match=re.escape(f'{path}:3: approval.policy: is "never"')):
        place.load()


def test_an_unknown_mode_is_an_error_from_every_source(place: Place) -> None:
    for more in ({"flags": {"mode": "yolo"}}, {"environ": {"TOOLCRIB_MODE": "yolo"}}):
        with pytest.raises(ConfigError, match="yolo"):
            place.load(**more)
    place.project('mode = "yolo"\n')
    with pytest.raises(ConfigError, match="yolo"):
        place.load()


@pytest.mark.parametrize("text", ["mode = ", "a = 1\na = 2", "\x00"])
def test_broken_toml(place: Place, text: str) -> None:
    path = place.user(text)
    with pytest.raises(ConfigError, match=f"{re.escape(str(path))}: not valid TOML"):
        place.load()


@pytest.mark.parametrize(
    "text",
    ["a." * 200_000 + "a = 1", f"[{'a . ' * 200_000}a]", '"\\"".' * 100_000 + "a = 1", "x = {'a'." + "'a'." * 100_000],
)
def test_a_key_of_many_parts_takes_no_memory(place: Place, text: str) -> None:
    place.project(f"# made elsewhere\n{text}\n")
    with pytest.raises(ConfigError, match="the key at line 2 is nested deeper than 40 levels"):
        place.load()


def test_broken_toml_says_what_is_right(place: Place) -> None:
    for text, said in (
        ("mode = observer", 'a text is in quotes, as in mode = "observer"'),
        ("[tools.exec]\n[tools.exec]", r"\[tools.exec\] twice .*; a file has each section once"),
        ('mode = "observer"\nmode = "observer"', "a section has each setting once"),
    ):
        place.user(text)
        with pytest.raises(ConfigError, match=said):
            place.load()


def test_a_line_outside_of_its_section_is_not_ignored_without_a_hint(place: Place) -> None:
    place.user('effects = "review"\nkeep_days = 3\nother = 1\n')
    (warning,) = place.load().origin.warnings
    assert warning.endswith(
        "ignored: effects (did you mean sandbox.effects?), "
        "keep_days (did you mean record.keep_days or jobs.keep_days?), other"
    )


@pytest.mark.parametrize("text", ['{"mode": ', "[1]", '{"approval": {"timeout": NaN}}', "[" * 100_000])
def test_broken_json(place: Place, text: str) -> None:
    path = place.user(text, "config.json")
    with pytest.raises(ConfigError, match=re.escape(str(path))):
        place.load()


def test_what_is_no_file_is_an_error_at_once(place: Place, tmp_path: Path) -> None:
    os.mkfifo(place.workspace / "toolcrib.toml")
    with pytest.raises(ConfigError, match="not a regular file"):
        place.load()
    with pytest.raises(ConfigError, match="there is no such file"):
        place.load(config=tmp_path / "absent.toml")
    with pytest.raises(ConfigError, match="a configuration file is called"):
        (tmp_path / "x.yaml").write_text("mode: observer")
        place.load(config=tmp_path / "x.yaml")


def test_a_folder_of_that_name_is_an_error_that_names_it(place: Place) -> None:
    (place.workspace / "toolcrib.toml").mkdir()
    with pytest.raises(ConfigError, match=r"toolcrib\.toml: not a regular file"):
        place.load()


def test_two_files_in_one_place_are_an_error(place: Place) -> None:
    place.project("")
    place.project("{}", "toolcrib.json")
    with pytest.raises(ConfigError, match="both there; keep one"):
        place.load()


def test_a_dangling_link_is_not_an_absent_file(place: Place) -> None:
    (place.workspace / "toolcrib.toml").symlink_to("nowhere.toml")
    with pytest.raises(ConfigError, match="no such file"):
        place.load()


def test_secrets_are_not_in_errors(place: Place) -> None:
    place.user("[web.search]\napi_key = 12345678\n")
    with pytest.raises(ConfigError) as caught:
        place.load()
    assert "12345678" not in str(caught.value)


def test_a_home_directory_is_a_workspace_like_others(place: Place) -> None:
    place.user('mode = "observer"\n')
    settings = place.load(workspace=place.home)
    assert settings.mode == "observer"
    assert settings.origin.warnings == ()


def test_foreign_keys_warn(place: Place) -> None:
    place.user(json.dumps({"providers": {"x": 1}, "agents": {"defaults": {}}, "mode": "observer"}), "config.json")
    settings = place.load()
    assert settings.mode == "observer"
    assert len(settings.origin.warnings) == 1
    assert "providers, agents" in settings.origin.warnings[0]


def test_settings_of_jobs(place: Place) -> None:
    place.user('[jobs]\nurl = "postgresql://me:pass@db/jobs"\ntags = ["docker"]\n')
    assert place.load().jobs.tags == ("docker",)
    place.user('[jobs]\nurl = "mysql://db"\n')
    with pytest.raises(ConfigError, match=r"jobs\.url.*postgresql://"):
        place.load()
    place.user('[jobs]\nqueue = ""\n')
    with pytest.raises(ConfigError, match=r'jobs\.queue: should have 1 to 60 letters, digits and _ \. -, not ""'):
        place.load()


def test_settings_for_the_sandbox(place: Place) -> None:
    place.user('[sandbox]\nbackend = "none"\nenv = ["A"]\n[sandbox.limits]\nopen_files = 9\n')
    made = place.load().sandbox
    assert (made.backend, made.env, made.limits.open_files) == ("none", ("A",), 9)
    assert load_settings(place.workspace, environ={"HOME": "/nowhere"}).sandbox.backend == "auto"


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ('[redact]\npatterns = ["ok", "("]\n', 2, r"redact\.patterns\.1: '\(' is not a valid regular expression"),
        ('[tools.exec]\n\ndeny_patterns = ["a(?=b)"]\n', 3, r"tools\.exec\.deny_patterns\.0: .*look-around"),
        (
            '[tools.exec]\nallowPatterns = ["[z-a]"]\n',
            2,
            r"tools\.exec\.allowPatterns\.0: .*not a valid",
        ),
        ('[web]\nallow_private = ["10.0.0.0/8", "10.0.0.0/99"]\n', 2, r"web\.allow_private\.1: "),
        ("[web]\nports = [0]\n", 2, r"web\.ports\.0: .*greater"),
        ("[web]\nports = [3000, 70000]\n", 2, r"web\.ports\.1: .*65535"),
        ('[[hooks]]\naction = "ask"\n[[hooks]]\naction = "block"\npattern = "(?<!a)b"\n', 3, "look-around"),
    ],
)
def test_what_would_fail_at_its_first_use_fails_at_once(place: Place, text: str, line: int, words: str) -> None:
    place.user(text)
    with pytest.raises(ConfigError, match=rf"config\.toml:{line}: .*{words}"):
        place.load()


def test_only_your_own_files_say_who_may_call_the_server(place: Place) -> None:
    def token(name: str, digit: str) -> str:
        return f'[[serve.tokens]]\nname = "{name}"\nhash = "sha256:{digit * 64}"\nexpires = 2027-01-31\n'

    place.user(token("mine", "a"))
    place.project(token("theirs", "b"))
    for trusted in (False, True):
        if trusted:
            place.trust_project()
        settings = place.load()
        assert [(each.name, each.expires) for each in settings.serve.tokens] == [("mine", "2027-01-31")]
        assert any("`serve` is ignored" in warning for warning in settings.origin.warnings)
    place.user(token("mine", "a") + token("mine", "c"))
    with pytest.raises(ConfigError, match="two tokens have the same name"):
        place.load()


def test_own_settings_that_others_may_write_are_refused(place: Place) -> None:
    path = place.user('mode = "observer"')
    path.chmod(0o602)
    with pytest.raises(ConfigError, match="others may write these settings"):
        place.load()
    path.chmod(0o620)
    if path.stat().st_gid == os.getuid():  # the user's own group
        assert place.load().mode == "observer"
