"""Lets a person edit a text in their editor."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile

from ..boundary.private_folders import beyond_tools
from ..core.errors import ToolError
from ..policy.starts import Starts
from . import show


def in_editor(starts: Starts, text: str, name: str, otherwise: str) -> str | None:
    """The text after a person edited it as a file of this name; None if that did not work. Then the terminal says why,
    and `otherwise`: what was left undone."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or ("vi" if sys.stdin.isatty() else "")
    if not editor:
        show.say(f"An editor needs a terminal, and this is not one; {otherwise}.", "yellow")
        return None
    with tempfile.TemporaryDirectory(prefix="toolcrib-", dir=beyond_tools(starts.writable)) as folder:
        path = os.path.join(folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        try:
            # in its folder: some editors obey a file of the current one (vim: exrc)
            words = shlex.split(editor)
            if named := starts.named_by(words):
                raise ToolError(f"tools may write {named}")
            command = starts.command([*words, path])
            code = subprocess.run(command, cwd=folder, env=starts.environment()).returncode
        except (OSError, ValueError, ToolError) as error:
            show.say(f"The editor {editor!r} cannot be started ({error}); set EDITOR.", "yellow")
            return None
        if code:
            show.say(f"The editor ended with {code}; {otherwise}.", "yellow")
            return None
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
