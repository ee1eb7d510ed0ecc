"""A session of 30 events of each host, in the form that the host writes: harmless, dangerous and odd ones.

`sessions/HOST.json` has the host's version and where its format is described. Each event has the answer that the host
must get, with `--closed` and without where these differ. `{work}` is the workspace; `repeat` makes a text longer.
"""

from __future__ import annotations

import io
import json
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from toolcrib.cli import hook
from toolcrib.cli.app import run
from toolcrib.hosts import HOSTS

FOLDER = Path(__file__).parent / "sessions"
SESSIONS: dict[str, dict[str, Any]] = {
    host: json.loads((FOLDER / f"{host}.json").read_text(encoding="utf-8")) for host in HOSTS
}
RULES = '[rules]\nallow = ["Bash(npm test)"]\ndeny = ["Bash(npm publish*)"]\n'


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a file of keys, in which a person has two rules."""
    work, home = tmp_path / "work", tmp_path / "home"
    for folder in (work / "src", work / ".git/hooks", home / ".ssh", tmp_path / "settings/toolcrib"):
        folder.mkdir(parents=True)
    (work / "README.md").write_text("Read me.\n", encoding="utf-8")
    (work / "src/app.py").write_text("def main(): ...\n", encoding="utf-8")
    (work / ".env").write_text("KEY=1\n", encoding="utf-8")
    (home / ".ssh/id_rsa").write_text("key\n", encoding="utf-8")
    (tmp_path / "settings/toolcrib/config.toml").write_text(RULES, encoding="utf-8")
    variables = {"HOME": home, "XDG_CONFIG_HOME": tmp_path / "settings", "XDG_STATE_HOME": tmp_path / "state"}
    for name, path in variables.items():
        monkeypatch.setenv(name, str(path))
    monkeypatch.chdir(work)
    monkeypatch.setattr(hook, "DEADLINE", 1_000)  # then it ends its process, and that is pytest here
    return work


def text_of(given: dict[str, Any], work: Path) -> str:
    text = given.get("text") or json.dumps(given["event"])
    if "repeat" in given:
        text = text.replace("x" * 200, "x" * 200 * given["repeat"])
    return text.replace("{work}", str(work))


def answered(
    host: str, text: str | bytes, closed: bool, patch: pytest.MonkeyPatch, out: pytest.CaptureFixture[str]
) -> str:
    """allow, deny or ask; "pass" where the host goes on by itself, "error" where it also shows a message."""
    patch.setattr(
        sys,
        "stdin",
        SimpleNamespace(buffer=io.BytesIO(text.encode() if isinstance(text, str) else text), isatty=lambda: False),
    )
    code = run(["hook", host, *(["--closed"] if closed else [])])
    said = out.readouterr().out
    if code:
        assert code == 2 or not said, said
        return "deny" if code == 2 else "error"
    if not said:
        return "pass"
    form = json.loads(said)
    form = form.get("hookSpecificOutput", form)
    return form.get("permissionDecision") or form.get("decision") or form["permission"]


@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize("host", HOSTS)
def test_each_event_gets_its_answer(
    host: str, closed: bool, work: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong: list[str] = []
    events = SESSIONS[host]["events"]
    assert len(events) == 30
    for each in events if not closed else [each for each in events if each["kind"] == "odd"]:
        expected = each.get("closed", each["answer"]) if closed else each["answer"]
        got = answered(host, text_of(each, work), closed, monkeypatch, capsys)
        if got != expected:
            wrong.append(f"{each['what']}: {got}, not {expected}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("host", HOSTS)
def test_a_broken_event_lets_no_denied_call_through(
    host: str, work: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Cut off anywhere, with bytes in it that are no text, or with its values replaced: at most a person is asked."""
    denied = next(each for each in SESSIONS[host]["events"] if each["what"] == "a file with keys, by a command")
    text = text_of(denied, work)
    broken = [text[:end] for end in range(0, len(text), max(1, len(text) // 9))]
    broken += [text.replace("cat .env", "cat\udcff .env"), text.replace('"cwd"', '"cwd": 5, "_"'), f"{text}{text}"]
    for each in broken:
        data = each.encode("utf-8", "surrogateescape")
        assert answered(host, data, True, monkeypatch, capsys) in ("deny", "ask"), each


def test_an_interrupted_event_leaves_no_clock_that_ends_the_process(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(size: int) -> bytes:
        raise KeyboardInterrupt

    stdin = SimpleNamespace(buffer=SimpleNamespace(read=interrupted), isatty=lambda: False)
    monkeypatch.setattr(sys, "stdin", stdin)
    with pytest.raises(KeyboardInterrupt):
        run(["hook", "claude"])
    clocks = [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]
    assert all(clock.finished.is_set() for clock in clocks)
