"""kill -9 at any point: the session goes on in another process. No effect happens twice; none is lost unsaid.

Effects, approvals and subagents are in flight. This process answers the approvals, while that of the agent is alive or
dead: a run in a pipe ends at a question; a run at a terminal, a chat, and the channels, wait. The history is compacted
on the way, too.
"""

from __future__ import annotations

import json
import os
import pty
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest

from toolcrib.agent.history import Compaction, ModelCall, ModelTurn, ResultTurn, TokenUsage, UserTurn
from toolcrib.agent.session import AgentSession
from toolcrib.agent.session_rows import SessionRow
from toolcrib.agent.store import SessionStore
from toolcrib.agent.waiting import subagent_waits
from toolcrib.cli.exit_codes import INTERRUPTED, REFUSED
from toolcrib.jobs.engine import Job
from toolcrib.record.approvals import Approvals
from toolcrib.record.state import StateFolder

from .task_provider import Replies, Reply, task_provider
from .test_loop import call

STEPS = 4
DONE = "Exit code: 0"
"""The beginning of a result whose call had its effect. After an error or a cut-off it may have had it or not."""
NEVER = ("was not run", "denied", "not one of your tools", "timed out")
"""Words of a result whose call had no effect."""
ASKED = "ask"
ATTEMPTS = Job("call", {}).max_attempts
CONFIG = f"""
[rules]
ask = ["Bash(echo {ASKED}*)"]
[agent]
context_window = 14_000
[channels.here]
type = "terminal"
"""
LONG = "word " * 1_600
"""A text of 2,000 tokens: a few of them fill the window, so that outputs are removed, and then a summary is made."""


def effects(name: str, step: int) -> list[dict[str, Any]]:
    return [
        call("exec", command=f"echo {ASKED}-{name}{step} >> log.txt"),
        call("exec", command=f"echo free-{name}{step} >> log.txt"),
        call("write_file", path=f"w-{name}{step}.txt", content=str(step)),
        call("read_file", path="a.txt"),
    ]


def parent(number: int, last: str) -> Reply:
    """Four steps with effects; the first starts a background subagent, the second waits for another one."""
    if number >= STEPS:
        return {"text": "all done"}
    calls = effects("go", number)
    if number < 2:
        calls.append(
            call("spawn", task=("look", "help")[number] + " there", label=("look", "help")[number], wait=number == 1)
        )
    return {"text": f"step {number} {LONG}", "calls": calls}


def child(name: str) -> Replies:
    return [{"calls": effects(name, 0)}, {"text": "half", "calls": effects(name, 1)}, {"text": f"{name} is done"}]


REPLIES: Mapping[str, Replies] = {"go": parent, "look": child("look"), "help": child("help")}


class Place:
    """A folder with a workspace, a home and the state, as one machine of a person."""

    def __init__(self, folder: Path, provider: Mapping[str, str]) -> None:
        self.work, state = folder / "work", folder / "state"
        self.work.mkdir(parents=True)
        (self.work / "a.txt").write_text(LONG)
        (folder / "toolcrib").mkdir()
        (folder / "toolcrib/config.toml").write_text(CONFIG)
        self.env = {**os.environ, **provider, "HOME": str(folder), "XDG_STATE_HOME": str(state)}
        self.env |= {"XDG_CONFIG_HOME": str(folder), "TERM": "dumb"}
        os.environ["XDG_STATE_HOME"] = str(state)
        self.said = folder / "said"
        """What the last process printed to stderr."""
        found = StateFolder.for_workspace(self.work, state / "toolcrib")
        self.store, self.approvals = SessionStore(found), Approvals(found.record_db)

    def main(self) -> SessionRow | None:
        """The session of the task, once it is stored."""
        rows = [row for row in self.store.list() if row.parent is None and self.store.turns(row.id)]
        return rows[0] if rows else None

    def is_done(self) -> bool:
        """Whether the task is answered, and nothing of it works or waits."""
        row = self.main()
        if row is None or row.state != "idle" or self.store.waiting(row.id, ("steer",)):
            return False
        last = AgentSession(self.store, row).last
        children = self.store.children(row.id)
        works = [each for each in children if "background" in each.extra and not self.is_given_up(each)]
        return isinstance(last, ModelTurn) and not last.calls and not works

    def is_given_up(self, subagent: SessionRow) -> bool:
        """Whether its parent was told that its job is not run again: three workers were killed while they ran it."""
        told = [each.text for each in self.store.turns(subagent.parent or "") if isinstance(each, UserTurn)]
        return any(f"job-{subagent.id} " in each and f"{ATTEMPTS} times" in each for each in told)


def answer(place: Place, rng: random.Random, stop: threading.Event) -> None:
    """Be the person: answer each request at some time, mostly with yes."""
    while not stop.wait(0.05):
        with suppress(Exception):  # the database may not be there yet
            for row in place.approvals.pending():
                if rng.random() < 0.1:
                    place.approvals.resolve(row["id"], rng.random() < 0.85, approver="cli:test")


@contextmanager
def person(place: Place, rng: random.Random) -> Generator[None]:
    stop = threading.Event()
    thread = threading.Thread(target=answer, args=(place, rng, stop))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def drain(fd: int) -> None:
    with suppress(OSError):
        while os.read(fd, 65536):
            pass


def start(place: Place, door: str) -> tuple[subprocess.Popen[bytes], int]:
    """Start a process that begins the task, or goes on with it. Returns it and the descriptor that keeps it waiting."""
    row = place.main()
    words = ["--session", row.id] if row is not None else ["--model", "chat:tasks"]
    if door == "chat":
        line = "go" if row is None else "/continue"
        arguments = ["chat", *words]
    else:
        line, arguments = "", ["run", *words, *(["go"] if row is None else [])]
    if door == "channel":  # it goes on by itself with what a process left in the middle
        line, arguments = "go" if row is None else "", ["channels", "run", "--model", "chat:tasks"]
    at_terminal = door in ("terminal", "channel")
    ours, theirs = pty.openpty() if at_terminal else os.pipe()[::-1]
    with place.said.open("wb") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "toolcrib", *arguments], cwd=place.work, env=place.env, stdin=theirs,
            stdout=subprocess.DEVNULL, stderr=theirs if door == "terminal" else said, start_new_session=True,
        )  # fmt: skip
    os.close(theirs)
    if at_terminal:
        threading.Thread(target=drain, args=(ours,), daemon=True).start()
    if line:
        os.write(ours, f"{line}\n".encode())
    if door == "run":
        os.close(ours)
        return process, -1
    return process, ours


def run(place: Place, door: str, seconds: float | None) -> int:
    """Run to the end, or kill it after so many seconds."""
    process, keeps = start(place, door)
    end = time.monotonic() + (seconds if seconds is not None else 120)
    try:
        while process.poll() is None:
            if time.monotonic() > end:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                assert seconds is not None, f"{door} did not end"
            elif door in ("chat", "channel") and keeps >= 0 and place.is_done():
                if door == "channel":
                    process.send_signal(signal.SIGINT)
                os.close(keeps)
                keeps = -1
            time.sleep(0.02)
    finally:
        if keeps >= 0:
            os.close(keeps)
    return process.returncode


def one_session(folder: Path, rng: random.Random, provider: Mapping[str, str], most: int = 14) -> int:
    """Begin a task, kill it again and again, and let it come to its end. Returns how often it was killed."""
    place, kills = Place(folder, provider), 0
    with person(place, rng):
        for number in range(100):
            row = place.main()
            in_channel = row is None or "chat" in row.extra
            door = rng.choice(("run", "terminal", "chat", *(("channel", "channel") if in_channel else ())))
            last = kills >= most or number > 40
            code = run(place, door, None if last else rng.uniform(0.3, 3.0))
            kills += code == -signal.SIGKILL
            ends = (-signal.SIGKILL, 0, INTERRUPTED if door == "channel" else REFUSED)
            assert code in ends, (door, code, place.said.read_text())
            if place.is_done():
                break
        else:
            pytest.fail("it did not come to its end")
    check(place)
    return kills


def effect_of(asked: ModelCall) -> str:
    return asked.object["command"].split()[1]


def check(place: Place) -> None:
    least, most = Counter[str](), Counter[str]()
    said: dict[str, list[str]] = {}
    for row in place.store.list():
        session = AgentSession(place.store, row)
        used = TokenUsage()
        for turn, after in zip_longest(session.entries, session.entries[1:]):
            if not isinstance(turn, ModelTurn):
                continue
            used += turn.usage
            if not turn.calls:
                continue
            if after is None and place.is_given_up(row):  # nobody goes on with its last calls, and its parent knows
                most.update(effect_of(asked) for asked in turn.calls if asked.name == "exec")
                continue
            assert isinstance(after, ResultTurn)
            for asked, result in zip(turn.calls, after.results, strict=True):
                assert asked.id == result.call_id
                if asked.name == "exec":
                    effect = effect_of(asked)
                    said.setdefault(effect, []).append(result.text)
                    least[effect] += result.text.startswith(DONE)
                    most[effect] += not any(words in result.text for words in NEVER)
        summaries = row.usage.input - used.input  # each reads one token, and no turn has it
        assert 0 <= summaries <= 30
        assert row.usage == used + TokenUsage(summaries, 5 * summaries), "each reply is counted, and once"
    happened = Counter((place.work / "log.txt").read_text().split() if (place.work / "log.txt").exists() else ())
    assert set(happened) <= set(most)
    for effect in most:
        assert least[effect] <= happened[effect] <= most[effect], (effect, said.get(effect))
    main = place.main()
    assert main is not None
    marks = [each for each in place.store.turns(main.id) if isinstance(each, Compaction)]
    assert any(mark.cleared for mark in marks)
    assert any(mark.summary for mark in marks)
    children = place.store.children(main.id)
    assert len(children) == 2
    ended = [each for each in children if not place.is_given_up(each)]
    assert subagent_waits(ended) == ()
    for each in ended:
        assert place.store.turns(each.id)[-1].text == f"{each.title} is done"  # type: ignore[union-attr]
    used_up = [row["arguments"] for row in place.approvals.recent(1000) if row["state"] == "used"]
    for effect in happened:
        if effect.startswith(ASKED):
            assert sum(effect in json.loads(each)["command"] for each in used_up) == 1, f"{effect} was not approved"


@pytest.mark.slow
def test_a_killed_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with task_provider(REPLIES, counts=True) as provider:
        one_session(tmp_path / "one", random.Random(1), provider, most=2)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_killed_at_two_hundred_points(part: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    kills, number = 0, 1_000 * part
    with task_provider(REPLIES, counts=True) as provider:
        while kills < 50:
            kills += one_session(tmp_path / str(number), random.Random(number), provider)
            number += 1
