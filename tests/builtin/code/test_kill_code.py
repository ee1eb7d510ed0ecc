"""kill -9 of the process of a script at random moments; new processes go on with it.

No call is made twice, and each call that was cut off is an error in the script."""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from toolcrib.builtin.code.stored_scripts import ScriptStore
from toolcrib.record.state import StateFolder

from ...nursery import Started

pytest.importorskip("pydantic_monty")

ROUNDS = int(os.environ.get("KILL_ROUNDS", "40"))
MAX_PROCESSES = 200
pytestmark = [pytest.mark.slow, pytest.mark.timeout(120 + 15 * ROUNDS)]

SCRIPT = """
import asyncio
# ROUND
async def one(tool, text):
    try:
        return text, await tool(text=text)
    except PermissionError as error:
        return text, "denied"
    except RuntimeError as error:
        return text, f"error {error}"

said = []
for i in range(4):
    said += await asyncio.gather(
        one(note, f"note{i}"), one(launch, f"launch{i}"), one(peek, f"peek{i}"), one(launch, f"more{i}"))
    said.append(await one(note, f"last{i}"))
for text, outcome in said:
    print(text, "=", outcome.split(chr(10))[0])
"""


def test_killed_processes_make_no_call_twice_and_lose_none(tmp_path: Path, nursery: subprocess.Popen[str]) -> None:
    work, config, file = tmp_path / "work", tmp_path / "c.toml", tmp_path / "script.py"
    log_file = work / "log.txt"
    work.mkdir()
    config.write_text('mode = "autonomous"\n[tools]\ncode = true\n[approval]\nrequire_for = ["launch"]\n')
    program, words = Path(__file__).with_name("kill_script.py"), [str(work), str(config), str(file)]
    env = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
    store = ScriptStore(StateFolder.for_workspace(work, tmp_path / "state" / "toolcrib"))
    rng, processes, outcomes = random.Random(), 0, Counter[str]()
    for number in range(ROUNDS):
        file.write_text(SCRIPT.replace("ROUND", str(number)))
        log_file.unlink(missing_ok=True)
        text = ""
        for kills in range(MAX_PROCESSES):
            read, write = os.pipe()
            with open(read) as printed, open(os.devnull, "rb") as null:
                started = Started(nursery, words, work, env, null.fileno(), write, 2, program=program)
                os.close(write)
                processes += 1
                assert printed.readline() == "ready\n"
                if kills < 5:
                    time.sleep(rng.random() * rng.choice((0.05, 0.2, 0.6)))
                    started.kill()
                text = printed.read()
                started.wait()
            if "last3 = " in text or (log_file.exists() and not store._run("SELECT 1 FROM script")):
                break  # it has ended: the kill was too late
        log = Counter(log_file.read_text().splitlines())
        if "last3 = " not in text:  # nobody has read its output
            assert max(log.values()) == 1, log
            continue
        assert text.startswith("None\n"), text
        said = dict(line.split(" = ", 1) for line in text.splitlines() if " = " in line)
        assert len(said) == 20 and max(log.values()) == 1, (said, log)
        for name, outcome in said.items():
            begun, ended = log[f"begun {name}"], log[f"ended {name}"]
            if name.startswith("peek"):
                assert outcome == f"saw {name}"
            elif outcome == "done":
                assert ended == 1, name
            elif outcome == "denied":
                assert not begun, name
            else:
                assert "began to run, and was cut off" in outcome, (name, outcome)
            outcomes[outcome.split()[0]] += not name.startswith("peek")
    print(f"{ROUNDS} rounds, {processes} processes: {dict(outcomes)}")
