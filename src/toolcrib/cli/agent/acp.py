"""`toolcrib acp`: the agent in an editor, by the Agent Client Protocol over stdin and stdout."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from ...core.extras import how_to_add
from .. import show
from ..exit_codes import Usage
from ..options import Model, Options
from ..reader import CliCommand

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...config import Settings
    from ...sources.mcp.config import ServerConfig
    from ...toolbox import Toolbox


def acp(options: Options, model: Model = None) -> None:
    """Serve the agent to an editor (Zed, JetBrains, Neovim …), which starts this command.

    Each session works in the editor's folder, with the settings of that folder. `toolcrib install zed --acp` sets up
    Zed.
    """
    os.getcwd()  # raises where this folder was deleted: no session would open
    try:  # before the event loop starts: the library takes half a second
        from ...agent.acp import serve
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "acp":
            raise
        raise Usage(f"toolcrib acp needs agent-client-protocol: {how_to_add('acp')}") from None
    from ...boundary.claimed_stdio import claimed_stdio
    from ..main_loop import run

    if sys.stdin.isatty():
        show.say(
            "Speaking the Agent Client Protocol on stdin and stdout; an editor starts this. End with Ctrl-D.", "dim"
        )

    with claimed_stdio() as (read_fd, write_fd):
        run(serve(partial(opened, options), model, show.say, read_fd, write_fd))


async def opened(options: Options, folder: str, servers: Sequence[ServerConfig]) -> Toolbox:
    """Open the toolbox of an editor's folder, which reads changed settings until it is closed."""
    from ...serve.server_reloading import Reloader, reloading
    from ...toolbox.declared import protecting

    there = replace(options, workspace=folder)

    def load(*, quiet: bool = True) -> Settings:
        return protecting(there.settings(quiet=quiet), servers)

    box, watching = await there.open(load(quiet=False)), ExitStack()
    watching.enter_context(reloading(Reloader(box, load)))
    box.when_closed(partial(asyncio.get_running_loop().call_soon_threadsafe, watching.close))
    return box


COMMAND = CliCommand(acp, without=("workspace", "json"))
