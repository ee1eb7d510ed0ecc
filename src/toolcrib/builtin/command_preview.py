"""Say what a command line would do, and keep what a person saw of it as it was shown."""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from ..boundary.sandbox.running_commands import KeptAsShown, can_change
from ..boundary.workspace import Workspace
from ..core.errors import ToolError
from ..core.threads import shared_threads
from ..policy.preview import MEANWHILE
from ..policy.shell.summary import bound_files, code_of, data_of, links_of, summary

if TYPE_CHECKING:
    from .command_runner import PreparedCommand

log = logging.getLogger(__name__)

_CHANGED = (
    "exec was not run: its files changed after the person's yes, or a command began that can change them. Call it "
    "again: it asks about what it would do now."
)


def what_it_does(workspace: Workspace, command: str, cwd: str) -> str:
    """Describe each part of a command line in one line, for a preview, the files that tools may write and it runs
    or may send, and where links lead; "" if the command is clear by itself. It reads them: run it in a thread."""
    at, home, roots = _surroundings(workspace, cwd)
    try:
        files = [found for each in (code_of, data_of, links_of) if (found := each(command, at, home, roots))]
        lines = [*summary(command, at, home), *files, *([MEANWHILE] if files and can_change(roots) else ())]
    except Exception as error:
        log.debug("no summary of a command", exc_info=True)
        lines = [f"(its parts could not be analysed: {error})"]
    return "\nwhat it would do:" + "".join(f"\n  {line}" for line in lines) if lines else ""


def kept_as_shown(workspace: Workspace, command: str, cwd: str) -> KeptAsShown:
    """Keep the files that `what_it_does` names as they are, until `release`. It reads them: run it in a thread."""
    return KeptAsShown(bound_files(command, *_surroundings(workspace, cwd)))


async def prepared_as_shown(
    prepare: Callable[[], Awaitable[PreparedCommand]],
    workspace: Workspace,
    command: str,
    cwd: str,
    as_shown: Callable[[], Awaitable[bool]],
    *,
    background: bool,
) -> PreparedCommand:
    """Prepare a command whose files a person saw: they stay so until its end, or in the background for a while. Raises
    ToolError if they are others by now."""
    kept = await shared_threads.run(kept_as_shown, workspace, command, cwd)
    if not await as_shown():
        raise ToolError(_CHANGED)
    with kept.of_own():
        prepared = await prepare()
    if background:
        kept.in_background()
    end = prepared.spawn.cleanup

    def ended() -> None:
        kept.release()
        end()

    prepared.spawn.cleanup = ended
    return prepared


def _surroundings(workspace: Workspace, cwd: str) -> tuple[str, str, list[str]]:
    roots = [str(root.path) for root in workspace.roots() if root.writable]
    return os.path.normpath(cwd), os.path.expanduser("~"), roots
