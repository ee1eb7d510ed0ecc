"""The commands of the tutorial work as printed, in an empty home directory."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from .waiting import BUSY

PAGE = (Path(__file__).parent.parent / "docs" / "tutorial.md").read_text()
STEP = re.compile(r"^    \$ (.*)\n((?:    (?!\$ ).*\n)*)", re.MULTILINE)


def expected(text: str) -> re.Pattern[str]:
    """Match the output that the page shows; `…` is any text."""
    lines = [line.removeprefix("    ") for line in text.splitlines()]
    return re.compile(".*".join(map(re.escape, "\n".join(lines).split("…"))), re.DOTALL)


@pytest.mark.timeout(120)
def test_each_command_prints_what_the_page_shows(tmp_path: Path, forked_python: str) -> None:
    program = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert program is not None
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, words in (("toolcrib", " -m toolcrib"), ("python", "")):
        (programs / name).write_text(f'#!/bin/sh\nexec {forked_python}{words} "$@"\n')
        (programs / name).chmod(0o755)
    env = {
        "HOME": str(tmp_path),
        "PATH": f"{programs}:{Path(sys.executable).parent}:{os.defpath}:/usr/local/bin",
        "LC_ALL": "C.UTF-8",
    }
    request, folder = "", tmp_path
    steps = STEP.findall(PAGE)
    assert len(steps) > 15
    for command, output in steps:
        done = subprocess.run(
            ["/bin/bash", "-c", command.replace("ap_…", request)],
            cwd=folder, env=env, text=True, check=False, stdin=subprocess.DEVNULL, capture_output=True,
        )  # fmt: skip
        printed = done.stdout + BUSY.sub("", done.stderr)
        assert expected(output).fullmatch(printed.rstrip("\n")), (command, printed)
        if found := re.search(r"Request (ap_\w+)", printed):
            request = found[1]
        if "cd shop" in command:
            folder = tmp_path / "shop"
            (folder / "client.py").write_text(program[1])
