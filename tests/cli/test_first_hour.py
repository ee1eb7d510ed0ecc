"""What a person types in the first hour: each step ends and says what that person would expect."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ..nursery import nursery_in
from ..waiting import BUSY
from .conftest import Cli
from .runtime import link_runtime

FILES = {
    "shop.py": "price = 3\n",
    "mine.py": 'from toolcrib import tool\n\n\n@tool(category="memory")\ndef greet(name: str) -> str:\n'
    '    """Say hello.\n\n    Args:\n        name: Who.\n    """\n    return f"Hello {name}"\n',
    "script.json": json.dumps(
        [{"calls": [{"name": "read_file", "arguments": {"path": "shop.py"}}]}, {"text": "Read.", "after": "price"}]
    ),
    "task.py": 'print(await read_file(path="shop.py"))\n',
    "empty.toml": "",
    ".env": "KEY=1\n",
}
PAGE = "1| price = 3\n(End of file - 1 line in all.)\n"
HELLO = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}},
}  # fmt: skip
MESSAGES = "".join(
    json.dumps(each) + "\n"
    for each in (
        HELLO,
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    )
)
ASKED = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "rm -rf /"}, "cwd": "."}
EVERYWHERE = frozenset({True, False})


@dataclass(frozen=True)
class Step:
    """What is typed, and what happens. In `out` (stdout) and `err` (stderr) `…` is any text; each is all that is
    printed. `{name}` is a text that an earlier step printed: `keep` says where. `extras`: with or without."""

    line: str
    out: str = ""
    err: str = ""
    code: int = 0
    stdin: str = ""
    keep: str = ""
    extras: frozenset[bool] = EVERYWHERE


def only(extras: bool) -> frozenset[bool]:
    return frozenset({extras})


STEPS = [
    # What is this?
    Step("", "usage: toolcrib [OPTIONS] [COMMAND ...]\n…Exit codes: 0 ok, …\n"),
    Step("--version", "toolcrib 0.…\n"),
    Step("version", err="toolcrib: there is no command 'version'; did you mean --version?\nTry `toolcrib --help`.\n",
         code=2),
    Step("help call", "usage: toolcrib call …--args JSON…--raw…\n"),
    Step("--lst", err="toolcrib: there is no option --lst\nTry `toolcrib --help`.\n", code=2),
    Step("list --mode", err="toolcrib: --mode needs a value, MODE (…)\nTry `toolcrib list --help`.\n", code=2),
    Step("list --dialect opnai", err="toolcrib: --dialect: it can be openai, …, not 'opnai'; did you mean openai?\n…",
         code=2),
    Step("exec ls", err="toolcrib: there is no command 'exec'; `toolcrib call exec` calls a tool\n…", code=2),
    Step("lst", err="toolcrib: there is no command 'lst'; did you mean list?\n…", code=2),
    Step("list", "apply_patch …\nread_file  …allow  Read a text file…\n", extras=only(True)),
    Step("list", "apply_patch …\nread_file …", "unavailable: web_fetch, web_search (needs the extra `web`: pip install "
         "'toolcrib[web]')\nunavailable: browser_open, …\n", extras=only(False)),
    Step("list read_file", "read_file\nfilesystem_read; allow by default\n…required  File to read…(default true)\n…"),
    Step("list --json", '[\n  {\n    "name": "apply_patch",\n…]\n', "…"),
    Step("doctor", "ok       toolcrib …  tools  …, cron, …schedule_task, …\nNothing needed is missing.\n", "…"),
    # Calls
    Step("call read_file shop.py", PAGE),
    Step("call read_file path=shop.py", PAGE),
    Step("""call read_file --args '{"path": "shop.py"}'""", PAGE),
    Step("call read_file '{\"path\": \"shop.py\"}'", code=2,
         err="toolcrib: '{\"path\": \"shop.py\"}' is all arguments as JSON: write --args '{\"path\": \"shop.py\"}'\n"),
    Step("""call read_file "{\\"path\\": \\"it's.py\\"}" """, code=2,
         err="…is all arguments as JSON: write --args '{\"path\": \"it'\"'\"'s.py\"}'\n"),
    Step("call read_file shop.py --json", '{\n  "tool": "read_file",\n  "is_error": false,\n…}\n'),
    Step("call raed_file shop.py", err="toolcrib: Tool not found: 'raed_file'. Did you mean read_file?\n", code=2),
    Step("call todo", code=2, err="toolcrib: Tool not found: 'todo'. It is not available here: only the agent has it "
         "(`toolcrib chat`, `toolcrib run`)\n"),
    Step("call read_file pth=shop.py", err="toolcrib: Invalid arguments for read_file:\n- missing required path\n"
         "- unknown parameter pth; did you mean path?\n", code=2),
    Step("call read_file", err="toolcrib: Invalid arguments for read_file: missing required path\n", code=2),
    Step("call read_file nope.py", err="toolcrib: File not found: nope.py. Did you mean shop.py…?\n", code=1),
    Step("call", err="toolcrib: [FILE.py] NAME is missing\nTry `toolcrib call --help`.\n", code=2),
    Step("call list_dir private", code=2,
         err="toolcrib: 'private': arguments are written key=value …; list_dir takes path, … path=private\n"),
    Step("call list_dir 'my files'", code=2, err="toolcrib: …, for example path='my files'\n"),
    Step("call exec 'wc -c shop.py'", "10 shop.py\n", "Exit code: 0\n"),
    Step("call exec command=ls working_dir=nope", code=2,
         err="toolcrib: exec was not run: there is no folder 'nope' to run it in; make it first, or leave "
         "working_dir out\n"),
    Step("call --raw exec 'echo a=b'", "a=b\n"),
    Step("call --raw exec 'echo out; exit 4'", "out\n", code=4),
    Step("call grep elephant", "No matches for elephant in the workspace. (Not searched: …)\n"),
    Step("call write_file path=note.txt content=-", "…note.txt…\n", stdin="from a pipe\n"),
    Step("call web_fetch http://127.0.0.1:8000/", code=3, err="toolcrib: web_fetch was denied: 127.0.0.1 is not "
         "public: loopback (…); the setting web.allow_private can grant it\n", extras=only(True)),
    Step("call web_fetch http://127.0.0.1:8000/", code=2, err="toolcrib: Tool not found: 'web_fetch'. It is not "
         "available here: needs the extra `web`: pip install 'toolcrib[web]'\n", extras=only(False)),
    Step("call read_file /etc/passwd", code=3, err="toolcrib: read_file was denied: '/etc/passwd' is outside the "
         "workspace. The workspace is {work}. Use a path relative to the workspace.\n"),
    Step("call exec 'cat .env'", err="toolcrib: exec was denied: …environment files hold keys…\n", code=3),
    # What would happen?
    Step("check read_file shop.py", "allow  read_file (filesystem_read)\n…"),
    Step("check exec 'rm -rf /'", "deny  exec (shell)\nrule   shell:delete-outside\n"
         "reason `rm -rf /` deletes /, outside the workspace\n", code=3),
    # Undo and approvals
    Step("call edit_file path=shop.py old_text=3 new_text=4",
         "Successfully replaced 1 occurrence in shop.py (line 1)\n"),
    Step("undo --list", "…edit_file   changed  done  shop.py\n…"),
    Step("undo", "restored shop.py\n", "Call call_… is undone. `toolcrib undo undo-…` restores it.\n"),
    Step("call delete_file shop.py --dry-run", "Dry run: delete_file was not run. …\ndelete shop.py (10 bytes)\n…"),
    Step("call delete_file shop.py", code=3, keep=r"Request (ap_\w+)", err="toolcrib: delete_file was not run: it "
         "needs approval (destructive tools ask in assistant mode). …`toolcrib approvals approve ap_…`…\n"),
    Step("approvals", "{kept}  …h left  delete_file  delete shop.py (10 bytes)\n"),
    Step("approvals approve {kept}", err="Approved delete_file ({kept}): it runs once: now if its caller still "
         "waits, else when exactly this call is repeated.\n"),
    Step("call delete_file shop.py", "Deleted shop.py (moved to the trash; undo: toolcrib undo call_…)\n"),
    Step("undo", "restored shop.py\n", "…"),
    Step("approvals deny ap_nope", err="toolcrib: there is no approval request ap_nope; …\n", code=2),
    Step("call exec 'echo a > b.txt' --effects review", code=3, keep=r"apply (ch-[\w-]+)",
         err="…created b.txt (2 bytes)\n…To apply these changes: toolcrib changes apply ch-…\n…"),
    Step("changes", "{kept}  …held  echo a > b.txt\n"),
    Step("changes apply {kept}", err="Applied {kept}. `toolcrib undo call_…` takes it back.\n"),
    # The record
    Step("log", "call_…read_file …shop.py…not_found …delete_file…\n", keep=r"(call_\w+) .*delete_file"),
    Step("log {kept}", "delete_file (destructive)\n  when …  outcome  …"),
    Step("log --outcome denied", "call_…denied …/etc/passwd…\n"),
    Step("log verify", "… rows are intact\nend of the chain: …\n"),
    # Later. A chat that has just ended would count as a worker for some seconds.
    Step("schedule show look", err="toolcrib: there is no schedule 'look'; there are no schedules yet\n", code=2),
    Step("schedule add 'every 1h' 'Look'", err="Added look: every 1h\nNext run: …\n…toolcrib worker…\n"),
    Step("schedule remove look --yes", err="Removed look.\n"),
    # Settings
    Step("config path", "{home}/.config/toolcrib/config.toml\n"),
    Step("config set mode observer", err="Wrote {home}/.config/toolcrib/config.toml.\n"),
    Step("call write_file path=a.txt content=x", code=3,
         err="toolcrib: write_file was denied: observer mode does not run filesystem_write tools\n"),
    Step("config unset mode", err="Wrote {home}/.config/toolcrib/config.toml.\n"),
    Step("config set mode autonomus", code=2, err="toolcrib: …\"autonomus\"…did you mean \"autonomous\"?\n"
         "Nothing was written to {home}/.config/toolcrib/config.toml.\n"),
    Step("config set sandbox.read_roots /nope", code=2,
         err="toolcrib: sandbox.read_roots: /nope: No such file or directory. …config unset sandbox.read_roots…\n"),
    Step("config edit", code=1, err="An editor needs a terminal, and this is not one; nothing was written.\n"),
    Step("init", err="Wrote {work}/toolcrib.toml. …\n`toolcrib config edit --project` opens it. …\n"),
    Step("init", err="toolcrib: {work}/toolcrib.toml is there already; …\n", code=2),
    Step("rules add deny 'Read(private/**)'", err="Wrote deny Read(private/**) to …\n"),
    Step("rules", "deny  Read(private/**)  …\n"),
    Step("call read_file private/plan.txt", code=3,
         err="toolcrib: read_file was denied: the rule Read(private/**) (…) forbids it\n"),
    Step("rules remove deny 'Read(private/**)' --yes", err="Removed Read(private/**).\n"),
    Step("rules remove 'Read(private/**)'", code=2,
         err="toolcrib: Read(private/**) is not among your own rules here; `toolcrib rules` lists them\n"),
    Step("trust", err="Nothing in {work}/toolcrib.toml needs trust: …\n"),
    # Clients
    Step("install claude --dry-run", err="{work}/.mcp.json (new file)\n…+      \"command\": \"toolcrib\",\n…"),
    Step("install claude --yes", err="…Claude Code starts Toolcrib from now on ({work}/.mcp.json).\n"),
    Step("install claude --remove --yes", err="…Claude Code has no entry of Toolcrib any more ({work}/.mcp.json).\n"),
    Step("install claud", code=2, err="toolcrib: CLIENT: it can be claude, …; did you mean claude?\n…"),
    Step("hook claude", '{"hookSpecificOutput": …"deny"…deletes /, outside the workspace"}}\n',
         stdin=json.dumps(ASKED)),
    Step("serve", '{"jsonrpc":"2.0","id":1,…"serverInfo":…\n{"jsonrpc":"2.0","id":2,…"read_file"…\n', stdin=MESSAGES),
    # Tools of one's own, and servers
    Step("list mine.py", "greet  memory  allow  Say hello.\n"),
    Step("call mine.py greet Ann", "Hello Ann\n"),
    Step("call mine.py:greeet Ann", err="toolcrib: {work}/mine.py has no greeet; it has greet\n", code=2),
    Step("lint mine.py", err="1 tool; info: 1; --level info shows all of them\n"),
    Step("mcp test", err="No MCP servers are configured. See `toolcrib mcp add --help`.\n"),
    Step("mcp add greeter -- {quick}/toolcrib --config empty.toml serve mine.py", code=3,
         err="warning: … this one alone has empty.toml and mine.py. …\nTo …\n"
         "+ [mcp_servers.greeter]\n…toolcrib: nothing was written (say yes at a terminal, or use --yes)\n"),
    Step("mcp add greeter --yes -- {quick}/toolcrib --config empty.toml serve mine.py",
         err="…Added greeter. `toolcrib mcp test` connects.\n"),
    Step("mcp test greeter", "greeter  connected, 3 tools  …\n  mcp_greeter_greet\n…"),
    Step("list mcp_greeter_greet", "mcp_greeter_greet\nshell; ask by default\n…"),
    Step("mcp remove greeter", err="Removed greeter from {home}/.config/toolcrib/config.toml.\n"),
    Step("mcp add gone --yes -- no-such-program", err="…Added gone. …\n"),
    Step("mcp test gone", "gone  failed  stdio no-such-program  there is no program 'no-such-program'…\n", code=1),
    Step("call mcp_gone_greet Ann", code=2, err="unavailable: the tools of MCP server gone (there is no program …)\n"
         "toolcrib: Tool not found: 'mcp_gone_greet'…\n"),
    Step("mcp remove gone", err="Removed gone …\n"),
    # The agent
    Step("run", err="toolcrib: TASK is missing; for example: toolcrib run '…'\n", code=2),
    Step("run --model scripted:script.json 'Read it'", "Read.\n", "✓ read_file(path=shop.py)…"
         "go on with: toolcrib run --session …)\n", keep=r"--session (\S+)"),
    Step("sessions", "{kept}  idle  …Read it\n"),
    Step("sessions show last", "[0] user: Read it\n…[3] agent: Read.\n"),
    Step("chat --model scripted:script.json", "Read.\n", "…toolcrib chat --session …)\n", stdin="hi\n"),
    Step("code task.py", PAGE, extras=only(True)),
    Step("code task.py", code=2, err="toolcrib: …needs the extra `code`: pip install 'toolcrib[code]'\n",
         extras=only(False)),
    Step("code nope.py", err="toolcrib: nope.py: No such file or directory\n", code=2),
    Step("jobs", err="There are no jobs here.\n"),
    Step("jobs start exec 'echo done'", "job-…\n", "Stored; …Start one: toolcrib worker …\n", extras=only(True)),
    Step("jobs start exec 'echo done'", code=2, err="…use `toolcrib call`. …pip install 'toolcrib[jobs]'\n",
         extras=only(False)),
    # The end
    Step("clean --dry-run", err="0 B would be freed in {home}/.local/state/…\n"),
]  # fmt: skip


@pytest.fixture(scope="session")
def without_extras(tmp_path_factory: pytest.TempPathFactory) -> Iterator[subprocess.Popen[str]]:
    """Runs the commands of an installation without extras."""
    with nursery_in(link_runtime(tmp_path_factory.mktemp("runtime") / "packages")) as process:
        yield process


NO_BROWSER = re.compile(r"^unavailable: browser_open, [^\n]*\(no Chromium is installed[^\n]*\n", re.MULTILINE)
"""What `list` says on a machine without one."""


@dataclass
class Hour:
    """A person at a command line with an empty home."""

    cli: Cli
    known: dict[str, str] = field(default_factory=dict[str, str])

    def take(self, step: Step) -> None:
        def filled(text: str) -> str:
            return re.sub(r"\{(\w+)\}", lambda found: self.known.get(found[1], found[0]), text)

        line = filled(step.line)
        env = {"PATH": f"{self.known['bin']}:{os.environ['PATH']}", "COLUMNS": "80", "EDITOR": "", "VISUAL": ""}
        done = self.cli(*shlex.split(line), stdin=step.stdin, code=None, env=env)
        done.stderr = NO_BROWSER.sub("", BUSY.sub("", done.stderr))
        shown = f"$ toolcrib {line}\n{done.stdout}--- stderr\n{done.stderr}--- {done.returncode}"
        assert done.returncode == step.code, shown
        for text, printed in ((step.out, done.stdout), (step.err, done.stderr)):
            parts = map(re.escape, filled(text).split("…"))
            assert re.fullmatch(".*".join(parts), printed, re.DOTALL), f"{text!r} was expected\n{shown}"
        assert "\x1b" not in done.stdout + done.stderr, shown
        assert "Analyze the error" not in done.stdout + done.stderr, shown  # what we say to models
        if step.keep:
            found = re.findall(step.keep, done.stdout + done.stderr)
            self.known["kept"] = found[-1]


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("where", "extras"),
    [
        ("project", True),
        pytest.param("home", False, marks=pytest.mark.slow),
        pytest.param("home", True, marks=pytest.mark.slow),
        pytest.param("project", False, marks=pytest.mark.slow),
    ],
)
def test_each_step_says_what_a_person_expects(
    tmp_path: Path, nursery: subprocess.Popen[str], without_extras: subprocess.Popen[str], forked_python: str,
    where: str, extras: bool,
) -> None:  # fmt: skip
    home = tmp_path / "home"
    work = home if where == "home" else home / "shop"
    work.mkdir(parents=True)
    if where == "project":
        subprocess.run(["git", "init", "-q", str(work)], check=True)
    known = {"home": str(home), "work": str(work), "bin": str(Path(sys.executable).parent),
             "quick": str(Path(forked_python).parent)}  # fmt: skip
    hour = Hour(Cli(home, work, nursery if extras else without_extras, []), known)
    for name, text in FILES.items():
        hour.cli.write(name, text)
    steps = [step for step in STEPS if extras in step.extras]
    assert len(steps) >= 60
    for step in steps:
        hour.take(step)
