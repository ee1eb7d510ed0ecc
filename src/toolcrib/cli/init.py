"""`toolcrib init`: write a configuration file in which every choice is explained and none is made."""

from __future__ import annotations

from typing import Annotated

from . import show
from .exit_codes import Usage
from .options import Options
from .reader import CliCommand, Option
from .settings_file import own_file, project_file, write

TEMPLATE = """\
# The configuration of Toolcrib. Every line that begins with # is a comment. To make a choice, remove the # of its line
# and, if it is below a [section], also the # of that [section].
# `toolcrib config` shows what counts, and why; `toolcrib config --schema` describes every setting.

# What runs without a question. observer: tools that only read. assistant: also changes in the workspace, which undo
# takes back, and commands that the sandbox keeps in; the rest asks. autonomous: everything that no rule denies.
# mode = "assistant"

# Calls that you want to decide for good. A deny counts before an ask, an ask before an allow.
# [rules]
# allow = ["Bash(npm test)", "Bash(git diff *)", "Edit(docs/**)"]
# ask = ["Bash(git push *)"]
# deny = ["Read(.env)", "WebFetch(domain:intranet.example)"]

# The sandbox of commands. They change the workspace, and nothing else, and have no network.
# [sandbox]
# allowed_domains = ["pypi.org", "files.pythonhosted.org"]  # what commands may reach
# read_roots = ["~/notes"]                                  # further folders that tools may read
# write_roots = ["~/scratch"]                               # further folders that tools may change
# effects = "review"  # direct: changes are made at once; journal: undo covers them; review: you see them first

# What a command gets from your environment, by name. Others, such as keys, stay out.
# env = ["JAVA_HOME"]

# Tools of MCP servers. `toolcrib mcp add NAME -- COMMAND` writes such an entry.
# [mcp_servers.docs]
# command = "npx"
# args = ["-y", "@modelcontextprotocol/server-filesystem", "."]

# [web]
# allow_private = ["127.0.0.1:8000"]  # addresses of your own network that the web tools may reach

# How long the record of calls is kept.
# [record]
# keep_days = 90
"""


def init(
    options: Options, user: Annotated[bool, Option("--user", help="Your own file, for all workspaces.")] = False
) -> None:
    """Write a configuration file for this workspace that explains the choices, or with --user your own.

    It makes no choice yet: every line is a comment.
    """
    path, text = own_file() if user else project_file(options.settings(quiet=True).workspace)
    if text or path.exists():
        raise Usage(f"{path} is there already; `toolcrib config edit{'' if user else ' --project'}` opens it")
    write(path, TEMPLATE, 0o600 if user else 0o644)
    show.say(f"Wrote {path}. It explains the choices, and makes none: everything works as before.")
    if user:
        show.say("`toolcrib config edit` opens it, `toolcrib config set KEY VALUE` changes one setting.")
    else:
        show.say("`toolcrib config edit --project` opens it. What it loosens counts after `toolcrib trust`.")


COMMAND = CliCommand(init, without=("json",))
