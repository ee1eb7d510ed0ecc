"""kill -9 at any point: the session goes on in another process. No effect happens twice; none is lost unsaid."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from toolcrib.agent.history import ModelTurn, ResultTurn
from toolcrib.agent.session import AgentSession
from toolcrib.agent.store import SessionStore
from toolcrib.record.state import StateFolder

STEPS = 6
EMPTY = 2
MAX_RUNS = 12
INTERRUPTED = ("was interrupted", "output was lost", "was not run")


def script(folder: Path) -> Path:
    """Each step appends its number to a file, by a command and by a file tool; a subagent does it, too."""
    replies: list[dict[str, object]] = []
    for step in range(STEPS):
        calls = [
            {"name": "exec", "arguments": {"command": f"echo c{step} >> log.txt"}},
            {"name": "write_file", "arguments": {"path": f"w{step}.txt", "content": str(step)}},
            {"name": "read_file", "arguments": {"path": "a.txt"}},
        ]
        if step == 2:
            calls.append({"name": "spawn", "arguments": {"task": "do it", "label": "helper"}})
        replies.append({"text": f"step {step}", "calls": calls})
    path = folder / "script.json"
    path.write_text(json.dumps([*replies, {"text": "all done"}, {"text": "and the helper, too"}]))
    return path


def run(work: Path, env: dict[str, str], arguments: list[str], seconds: float | None) -> int:
    """Run to the end, or kill it after so many seconds."""
    process = subprocess.Popen(
        [sys.executable, "-m", "toolcrib", "run", "--yes", *arguments], cwd=work, env=env,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    try:
        process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    return process.returncode


def one_session(folder: Path, rng: random.Random) -> int:
    work = folder / "work"
    work.mkdir(parents=True)
    (work / "a.txt").write_text("alpha")
    env = {**os.environ, "HOME": str(folder), "XDG_STATE_HOME": str(folder / "state"), "XDG_CONFIG_HOME": str(folder)}
    model = f"scripted:{script(folder)}"
    kills, code = 0, -9
    arguments = ["--model", model, "go"]
    while code != 0 and kills < MAX_RUNS:
        code = run(work, env, arguments, None if kills == MAX_RUNS - 1 else rng.uniform(0.3, 3.0))
        kills += code != 0
        os.environ["XDG_STATE_HOME"] = env["XDG_STATE_HOME"]
        store = SessionStore(StateFolder.for_workspace(work, folder / "state/toolcrib"))
        started = any(row.parent is None for row in store.list())
        arguments = ["--session", "last"] if started else arguments
        if code == EMPTY:  # it was killed before it stored the task
            arguments = [*arguments, "go"]
        store.close()
    assert code == 0
    check(work, SessionStore(StateFolder.for_workspace(work, folder / "state/toolcrib")))
    return kills


def check(work: Path, store: SessionStore) -> None:
    counted = (work / "log.txt").read_text().split() if (work / "log.txt").exists() else []
    for row in store.list():
        session = AgentSession(store, row)
        for turn, after in zip(session.entries, session.entries[1:], strict=False):
            if not isinstance(turn, ModelTurn) or not turn.calls:
                continue
            assert isinstance(after, ResultTurn)
            for call, result in zip(turn.calls, after.results, strict=True):
                assert call.id == result.call_id
    main = next(row for row in store.list() if row.parent is None)
    results = [r for e in AgentSession(store, main).entries if isinstance(e, ResultTurn) for r in e.results]
    said = sum(any(words in r.text for words in INTERRUPTED) for r in results)
    sessions = len(store.list())
    for step in range(STEPS):
        times = counted.count(f"c{step}")
        assert times <= sessions, f"c{step} ran {times} times for {sessions} sessions"
    missing = [step for step in range(STEPS) if f"c{step}" not in counted]
    assert len(missing) <= said, "an effect is missing and no result says so"


def test_a_killed_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    one_session(tmp_path, random.Random(1))


@pytest.mark.slow
def test_killed_at_two_hundred_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    kills, number = 0, 0
    while kills < 200:
        kills += one_session(tmp_path / str(number), random.Random(number))
        number += 1
