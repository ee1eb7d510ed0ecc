"""Where granted values come from, and who gets them."""

from __future__ import annotations

import logging
import re
import sys
from pathlib import Path

import pytest

import toolcrib
from toolcrib.config import load_settings
from toolcrib.core.errors import ConfigError, ToolError
from toolcrib.policy.secrets.grants import Secrets
from toolcrib.policy.secrets.logs import NAMES, log_little, redact_logs
from toolcrib.policy.secrets.redact import Redactor
from toolcrib.policy.settings import SecretSettings

VALUE = "a-value-of-some-length"


def secrets(
    source: SecretSettings | None = None, *, variables: tuple[str, ...] = (), **environ: str
) -> tuple[Secrets, Redactor]:
    redactor = Redactor()
    return Secrets({"A": source} if source else {}, redactor, variables, environ), redactor


def test_a_value_of_the_environment_is_hidden_from_the_start() -> None:
    _, redactor = secrets(SecretSettings(env="MINE"), MINE=VALUE)
    assert redactor.redact(f"x {VALUE}") == "x [secret:A]"


def test_a_file_of_ones_own(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "token"
    path.write_text(VALUE + "\n")
    path.chmod(0o600)
    made, _ = secrets(SecretSettings(tools=("t",), file=path))
    assert made.value("A", "t") == VALUE and not caplog.records
    path.chmod(0o644)
    with caplog.at_level(logging.WARNING):
        secrets(SecretSettings(tools=("t",), file=path))
    assert "chmod 600" in caplog.text


def test_a_program_runs_once_and_late(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    code = f"open({str(ran)!r}, 'a').write('x'); print({VALUE!r})"
    made, redactor = secrets(SecretSettings(tools=("t",), command=(sys.executable, "-c", code)))
    assert not ran.exists()
    assert [made.value("A", "t"), made.value("A", "t")] == [VALUE] * 2
    assert ran.read_text() == "x" and redactor.redact(VALUE) == "[secret:A]"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (SecretSettings(tools=("t",), env="GONE"), "GONE is not set"),
        (SecretSettings(tools=("t",), file=Path("/nowhere/at/all")), "cannot be read"),
        (SecretSettings(tools=("t",), file=Path("/")), "cannot be read|no ordinary file"),
        (SecretSettings(tools=("t",), command=("/nowhere/pass",)), "could not be started"),
        (SecretSettings(tools=("t",), command=("/bin/sh", "-c", f"echo {VALUE}; exit 3")), "exit code 3"),
        (SecretSettings(tools=("t",), command=("/bin/true",)), "gave nothing"),
        (SecretSettings(tools=("t",), keyring="no/body"), "keyring"),
    ],
)
def test_what_cannot_be_read_is_said(source: SecretSettings, said: str) -> None:
    made, _ = secrets(source)
    with pytest.raises(ToolError, match=said) as error:
        made.value("A", "t")
    assert VALUE not in str(error.value)
    gone = Secrets({"A": SecretSettings(tools=("exec",), env="GONE")}, Redactor(), (), {})
    granted, failed, _ = gone.environment("exec")
    assert granted == {} and "GONE" in failed[0]


def test_only_who_was_named_gets_it() -> None:
    made, _ = secrets(SecretSettings(tools=("exec", "mcp:git*"), variable="GH_TOKEN", env="MINE"), MINE=VALUE)
    assert made.environment("exec") == ({"GH_TOKEN": VALUE}, [], ())
    assert made.environment("http_request") == ({}, [], ())
    assert made.names_for("exec") == ["GH_TOKEN"]
    assert made.resolve("Bearer ${secret:A}!", "mcp:github") == f"Bearer {VALUE}!"
    for text, asker in (("${secret:A}", "mcp:other"), ("${secret:B}", "exec")):
        with pytest.raises(ToolError):
            made.resolve(text, asker)


def test_with_egress_nobody_gets_it_but_the_proxy() -> None:
    source = SecretSettings(tools=("*",), env="MINE", egress=("API.example.com.", "git.example.com:8443"))
    made, _ = secrets(source, MINE=VALUE)
    granted, failed, egress = made.environment("exec")
    hosts = ("api.example.com:443", "git.example.com:8443")
    assert [(each.value, each.hosts) for each in egress] == [(VALUE, hosts)]
    assert granted == {"A": egress[0].placeholder} and not failed
    assert VALUE not in f"{granted}{egress}"
    assert made.environment("exec")[0] == granted  # also for the next command
    assert made.names_for("exec") == [f"A for {', '.join(hosts)} alone"]
    with pytest.raises(ToolError, match="requests of commands"):
        made.resolve("${secret:A}", "http_request")
    _, failed, egress = secrets(source, MINE="two lines\nof text")[0].environment("exec")
    assert "goes into a header" in failed[0] and egress == ()


def test_variables_that_commands_get_are_secrets_by_their_names() -> None:
    environ = {"GH_TOKEN": VALUE, "EDITOR": "vim-of-some-length", "SSH_KEY": "/home/me/.ssh/id", "API_KEY": "short"}
    made, redactor = secrets(variables=tuple(environ), **environ)
    assert [value.name for value in redactor.values] == ["GH_TOKEN"]
    assert "EDITOR" not in made.names_for("exec") and "GH_TOKEN" in made.names_for("exec")


def test_what_settings_give_to_programs_and_servers_are_secrets_by_their_names() -> None:
    made, redactor = secrets()
    for name, value in [
        ("X-Api-Key", "plain-value"), ("Authorization", "Token another-value"), ("DB_PWD", "third-value"),
        ("proxy-auth", "me:fourth-value"),
        ("X-Request", "harmless-value"), ("KEY_FILE", "/home/me/key"), ("Cookie", "a=${secret:OTHER}; long"),
    ]:  # fmt: skip
        made.learn(name, value)
    assert [value.value for value in redactor.values] == [
        "plain-value", "another-value", "third-value", "me:fourth-value",
    ]  # fmt: skip
    redactor.allow = frozenset({"created_at"})
    made.learn("SORT_KEY", "created_at")
    assert len(redactor.values) == 4


def test_short_values_are_an_error_of_the_configuration() -> None:
    with pytest.raises(ConfigError, match=r"secrets\.A"):
        secrets(SecretSettings(env="MINE"), MINE="short")


def settings(tmp_path: Path, text: str, *, named: bool = True) -> dict[str, SecretSettings]:
    (tmp_path / "ws").mkdir(exist_ok=True)
    path = tmp_path / "conf.toml" if named else tmp_path / "ws" / "toolcrib.toml"
    path.write_text(text)
    environ = {"HOME": str(tmp_path / "home"), "PATH": "/bin"}
    found = load_settings(tmp_path / "ws", path if named else None, environ=environ).secrets
    Secrets(found, Redactor(), (), environ)
    return found


def test_the_configuration(tmp_path: Path) -> None:
    found = settings(
        tmp_path, '[secrets.A]\nenv = "X"\ntools = "exec"\nas = "GH_TOKEN"\n[secrets.B]\ncommand = ["pass", "b"]'
    )
    assert found == {
        "A": SecretSettings(tools=("exec",), variable="GH_TOKEN", env="X"), "B": SecretSettings(command=("pass", "b"))
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[secrets.A]\ntools = ["exec"]', "one source"),
        ('[secrets.A]\nenv = "X"\nfile = "/y"', "env and file"),
        ('[secrets.A]\nvalue = "v"', "no such setting"),
        ('[secrets.A]\nenv = "X"\negress = ["*.example.com"]', "is not a host name"),
        ('[secrets.A]\nenv = "X"\negress = ["*"]', "is not a host name"),
        ('[secrets.A]\nenv = "X"\negress = ["10.0.0.1"]', "the name of one host"),
        ('[secrets.A]\nenv = "X"\negress = ["https://example.com"]', "https"),
        ('[secrets.A]\nenv = "X"\negress = ["example.com/path"]', "the name of one host"),
        ('[secrets."a b"]\nenv = "X"', "cannot name an environment variable"),
        ('[secrets.A]\nenv = "X"\nas = "a-b"', "cannot name an environment variable"),
        ('[secrets.A]\nkeyring = "x"', "service/user"),
    ],
)
def test_what_is_wrong_in_it_is_said(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        settings(tmp_path, text)


def test_an_untrusted_project_grants_nothing(tmp_path: Path) -> None:
    assert settings(tmp_path, '[secrets.A]\nenv = "X"\ntools = "exec"\n[redact]\nallow = ["x"]', named=False) == {}


def test_each_of_two_toolboxes_hides_its_secrets_in_a_traceback(caplog: pytest.LogCaptureFixture) -> None:
    redactors = Redactor(), Redactor()
    values = "first-Value-4711", "second-Value-0815"
    ends = []
    for redactor, value in zip(redactors, values, strict=True):
        redactor.grant("S", value)
        ends.append(redact_logs(redactor.redact))
    try:
        with caplog.at_level(logging.DEBUG, "toolcrib.pipeline"):
            try:
                raise RuntimeError(" ".join(values))
            except RuntimeError:
                logging.getLogger("toolcrib.pipeline").debug("raised", exc_info=True)
    finally:
        for end in ends:
            end()
    assert "RuntimeError" in caplog.text
    assert not any(value in caplog.text for value in values)


def test_what_libraries_log_shows_no_secret_on_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    redactor = Redactor()
    redactor.grant("S", "first-Value-4711")
    end = redact_logs(redactor.redact)
    try:
        error = (RuntimeError, RuntimeError("first-Value-4711"), None)
        record = logging.LogRecord("asyncio", logging.ERROR, "", 0, "%s failed", ("first-Value-4711",), error)
        assert logging.lastResort is not None
        logging.lastResort.handle(record)
    finally:
        end()
    said = capsys.readouterr().err
    assert said.count("[secret:S]") == 2 and "4711" not in said


def test_all_our_loggers_are_redacted() -> None:
    root = Path(toolcrib.__file__).parent
    for path in root.rglob("*.py"):
        module = ".".join(("toolcrib", *path.relative_to(root).with_suffix("").parts))
        for given in re.findall(r"getLogger\((\"toolcrib[^\"]*\"|__name__)\)", path.read_text()):
            assert (module if given == "__name__" else given.strip('"')) in NAMES, path


@pytest.mark.parametrize("earlier", range(2))
def test_a_logger_that_repeats_what_a_server_sends_says_little(caplog: pytest.LogCaptureFixture, earlier: int) -> None:
    """Also in a process in which a test has done the same a moment before."""
    log_little("mcp.client.sse")
    log_little("mcp.client.sse")
    for number in range(1_000):
        logging.getLogger("mcp.client.sse").warning(f"Unknown event: \x1b[2J{'x' * 5_000}{number}")
    assert len(caplog.messages) == 20 and "\x1b" not in caplog.text and max(map(len, caplog.messages)) < 1_010
    try:
        raise ValueError("\x1b[2J" + "y" * 5_000)
    except ValueError:
        logging.getLogger("mcp.client.sse").exception("it failed")
    assert "ValueError" not in caplog.records[-1].getMessage() and "\x1b" not in caplog.text
    assert len(caplog.records[-1].exc_text or "") <= 1_000
