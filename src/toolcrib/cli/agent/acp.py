"""`toolcrib acp`: the agent in an editor, by the Agent Client Protocol over stdin and stdout."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from ...core.extras import how_to_add
from .. import show
from ..exit_codes import Usage
from ..options import Model, Options
from ..reader import CliCommand

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...sources.mcp.config import ServerConfig
    from ...toolbox.toolbox import Opening


def acp(options: Options, model: Model = None) -> None:
    """Serve the agent to an editor (Zed, JetBrains, Neovim …), which starts this command.

    Each session works in the editor's folder, with the settings of that folder. `toolcrib install zed --acp` sets up
    Zed.
    """
    try:  # before the event loop starts: the library takes half a second
        from ...agent.acp import serve
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "acp":
            raise
        raise Usage(f"toolcrib acp needs agent-client-protocol: {how_to_add('acp')}") from None
    from ...boundary.claimed_stdio import claimed_stdio
    from ...toolbox.declared import protecting
    from ..main_loop import run

    if sys.stdin.isatty():
        show.say(
            "Speaking the Agent Client Protocol on stdin and stdout; an editor starts this. End with Ctrl-D.", "dim"
        )

    def open_box(folder: str, servers: Sequence[ServerConfig]) -> Opening:
        there = replace(options, workspace=folder)
        return there.open(protecting(there.settings(), servers))

    with claimed_stdio() as (read_fd, write_fd):
        run(serve(open_box, model, show.say, read_fd, write_fd))


COMMAND = CliCommand(acp, without=("workspace", "json"))
