"""A project with an environment of its own from which Toolcrib runs (`uv add toolcrib`), and calls in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import toolcrib

CALLS = """
import asyncio, json, os, sys
from toolcrib import Toolbox
from toolcrib.policy.requests import Decision

asked = []

async def approve(request):
    asked.append(request.reason)
    return Decision(bool(given["answer"]))

async def main():
    answers = []
    options = {name: given[name] for name in ("config", "mode") if given.get(name)}
    async with Toolbox.open(workspace=given["workspace"], approve=approve, **options) as box:
        for name, arguments in given["calls"]:
            output = await box.call(name, arguments)
            answers.append([output.for_llm, output.is_error])
    print(json.dumps({"answers": answers, "asked": asked}))

given = json.loads(sys.argv[1])
asyncio.run(main())
"""


class Project:
    """A workspace whose `.venv` is the environment of the Toolcrib that works in it."""

    def __init__(self, folder: Path, *, pip: bool = False) -> None:
        self.ws, self.marker, self.home = folder / "ws", folder / "marker", folder / "home"
        self.ws.mkdir()
        self.home.mkdir()
        without = () if pip else ("--without-pip",)
        venv = [sys.executable, "-m", "venv", "--copies", *without, str(self.ws / ".venv")]
        subprocess.run(venv, check=True)
        self.python = self.ws / ".venv" / "bin" / "python"
        self.site = self.ws / ".venv" / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
        found = [sysconfig.get_path("purelib"), os.path.dirname(os.path.dirname(toolcrib.__file__))]
        (self.site / "those_of_the_tests.pth").write_text("\n".join(found) + "\n")

    @property
    def plant(self) -> str:
        """Code for a .pth file that leaves a mark when an interpreter of the environment starts."""
        return f"import os; open({str(self.marker)!r}, 'w').close()\n"

    def environment(self) -> dict[str, str]:
        state = {"XDG_STATE_HOME": str(self.home / "state"), "XDG_CONFIG_HOME": str(self.home / "config")}
        path = os.pathsep.join([str(self.python.parent), str(self.home / "bin"), os.environ["PATH"]])
        return {**os.environ, **state, "HOME": str(self.home), "PATH": path, "PYTHONDONTWRITEBYTECODE": "1"}

    def calls(self, *calls: tuple[str, dict[str, Any]], answer: bool = False, **more: Any) -> dict[str, Any]:
        """Run calls in a process of this environment, with one answer to all questions."""
        given = json.dumps({"workspace": str(self.ws), "calls": calls, "answer": answer, **more})
        done = subprocess.run(
            [self.python, "-c", CALLS, given], capture_output=True, text=True, env=self.environment(), cwd=self.ws
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    def started_again(self) -> bool:
        """Start the interpreter of the environment again, as the command does: without the current folder on its path.
        Return whether something planted ran."""
        subprocess.run([self.python, "-P", "-c", "import toolcrib"], check=True, env=self.environment(), cwd=self.ws)
        return self.marker.exists()
