"""The messages on the page are the messages that people get."""

import re
from pathlib import Path

import pytest

from toolcrib.cli import main

PAGE = (Path(__file__).parent.parent / "docs" / "troubleshooting.md").read_text()
MESSAGES = [
    re.compile(".*?".join(map(re.escape, text.split("…")))) for text in re.findall(r"^\| `(.+?)`", PAGE, re.MULTILINE)
]


@pytest.mark.parametrize(
    "words",
    [
        ["call", "delete_file", "a.txt"],
        ["call", "read_file", "/etc/passwd"],
        ["call", "read_file", ".env"],
        ["call", "exec", "echo > .git/hooks/x"],
        ["call", "nosuch", "a=1"],
        ["call", "web_fetch", "url=http://127.0.0.1:8000/"],
        ["call", "web_fetch", "url=http://127.0.0.1:1/"],
        ["call", "http_request", "method=GET", "url=https://example.com/"],
        ["--config", "config.toml", "list"],
        ["--workspace", "nosuch", "list"],
        ["--mode", "auto", "list"],
    ],
    ids=lambda words: " ".join(words),
)
def test_the_page_has_the_message(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for variable in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(variable, str(tmp_path / variable))
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    (work / "a.txt").touch()
    (work / ".env").touch()
    (work / "config.toml").write_text('modee = "observer"\n')
    with pytest.raises(SystemExit):
        main(words)
    said = capsys.readouterr().err
    assert [message for message in MESSAGES if message.search(said)] != [], said
