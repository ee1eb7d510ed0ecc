"""Command lines that are read without typer mean what typer reads in them, and load none of it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib.cli.app import app, named
from toolcrib.cli.line import PLAIN, _read, _Unsure  # pyright: ignore[reportPrivateUsage]
from toolcrib.cli.options import Options

from .conftest import Cli

WORDS = [
    "list", "call", "serve", "check", "read_file", "path=a", "k:=1", "5", "0", "-1", "--", "-", "", "x y",
    "--json", "--json=", "--json={}", "--search", "--search=a b", "--limit", "--limit=3", "--limit=0", "--limit=x",
    "--compact", "--compact=1", "--dialect", "openai", "-n", "--dry-run", "-o", "json", "-ojson", "--output=text",
    "--workspace", "-w", "/tmp", "-w/tmp", "--config", "--mode", "observer", "--mode=assistant", "-y", "--yes", "-yn",
    "--http", "127.0.0.1:1", "--token=t", "--allow-host", "a", "--allow-host=b", "--all-tools", "--effects=review",
    "-h", "--help", "--version", "--nope", "--js",
]  # fmt: skip
LINES = st.tuples(
    st.lists(st.sampled_from(WORDS), max_size=3), st.sampled_from(sorted(PLAIN)), st.lists(st.sampled_from(WORDS))
).map(lambda parts: [*parts[0], parts[1], *parts[2]])


def _typers(argv: list[str]) -> tuple[str, Options, dict[str, Any]]:
    group: Any = app()
    context = group.make_context("toolcrib", list(argv))
    before = {k: v for k, v in context.params.items() if k != "version"}
    name, *rest = [*context._protected_args, *context.args]  # pyright: ignore[reportPrivateUsage]
    found = named(name).make_context(name, rest, parent=context).params
    later = {k.removeprefix("shared_"): v for k, v in found.items() if k.startswith("shared_")}
    own = {k: v for k, v in found.items() if not k.startswith("shared_")}
    return name, Options(**before).then(**later), own


@given(LINES)
@settings(max_examples=400, deadline=None)
def test_what_is_read_here_is_what_typer_reads(argv: list[str]) -> None:
    try:
        work = _read(argv)
    except _Unsure:
        return
    name, options, own = _typers(argv)
    assert work.func is named_function(name)
    assert work.args == (options,)
    defaults = {key: None if value in ([], (), None) else value for key, value in own.items()}
    unsaid = {k: v for k, v in defaults.items() if k not in work.keywords}
    assert {**unsaid, **work.keywords} == defaults
    fresh = _typers([name, *(["read_file"] if name == "call" else [])])[2]
    assert all(fresh[key] == own[key] for key in unsaid)  # what we do not say is the function's own default


def named_function(name: str) -> Any:
    from importlib import import_module

    return import_module(f"toolcrib.cli.{name}").app.fn


@pytest.mark.parametrize(
    "line",
    [
        "list", "list --json", "list read_file exec", "list --search=files --limit 3", "-w /tmp list", "call x a=b -n",
        "call x --json {}", "check exec command=ls --json", "serve --http 127.0.0.1:0", "--mode observer list -y",
    ],
)  # fmt: skip
def test_plain_lines_are_read(line: str) -> None:
    _read(line.split())


@pytest.mark.parametrize(
    "line", ["", "list -h", "--help", "list --nope", "call", "list --limit x", "list --limit 0", "doctor", "list -yw x"]
)
def test_others_are_left_to_typer(line: str) -> None:
    with pytest.raises(_Unsure):
        _read(line.split())


def loaded_by(cli: Cli, *args: str) -> set[str]:
    """The modules that a command line has loaded, in a process of its own."""
    code = (
        "import sys\nfrom toolcrib.cli import main\n"
        f"try: main({list(args)!r})\nexcept SystemExit as end: assert not end.code, end.code\n"
        "import json; print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=cli.work, env=cli.env
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stderr.splitlines()[-1]))


@pytest.mark.parametrize("args", [("--version",), ("list",)])
def test_typer_is_not_loaded(cli: Cli, args: tuple[str, ...]) -> None:
    assert "typer" not in loaded_by(cli, *args)
