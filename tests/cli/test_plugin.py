"""`toolcrib plugin`: list, check, new; and plugins' tools at the command line."""

from __future__ import annotations

import sys

import pytest

from .conftest import Cli

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pinned programs run on Linux")

HOME = ".local/share/toolcrib/plugins"


def enable(cli: Cli) -> None:
    config = cli.home / ".config/toolcrib/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('plugins.enabled = true\nsandbox.backend = "none"\n')


def test_begun_checked_listed_and_called(cli: Cli) -> None:
    for kind in ("command", "binary", "channel"):
        done = cli("plugin", "new", f"my-{kind}", "--kind", kind)
        assert f"{HOME}/my-{kind}/plugin.json" in done.stdout
        assert "plugins are off" in done.stderr
    rows = cli.json("plugin", "list", "--json")["plugins"]
    assert [row["state"] for row in rows if row["kind"] != "python"] == ["off"] * 3
    assert "plugins are off" in cli("plugin").stderr
    assert "Tool not found" in cli("call", "my_binary", "text=x", code=2).stderr
    enable(cli)
    done = cli("plugin", "check")
    assert done.stdout.count(": ok") == 3
    assert "my_command(file), filesystem_read" in done.stdout
    assert "not pinned" in done.stdout  # the channel
    assert cli("plugin", "check", "my-command").stdout.count(": ok") == 1  # by the name that `list` shows
    assert "loaded" in cli("plugin", "list").stdout
    cli.write("a.txt", "one two")
    assert cli("call", "my_command", "file=a.txt", "--yes").stdout == "2 words\n"
    assert cli("call", "my_binary", "text=x").stdout.startswith("2d711642")


def test_what_is_wrong_is_said(cli: Cli) -> None:
    enable(cli)
    cli("plugin", "new", "one", "-k", "binary")
    with open(cli.home / HOME / "one/run", "a") as file:
        file.write("#")
    folder = str(cli.home / HOME / "one")
    done = cli("plugin", "check", folder, code=1)
    assert "it has changed, and is not run" in done.stderr
    assert "error" in cli("plugin", "list").stdout
    assert "unavailable: plugin one" in cli("list").stderr
    assert "no plugin.json" in cli("plugin", "check", str(cli.work), code=1).stderr
    result = cli.json("plugin", "check", folder, "--json", code=1)[0]
    assert (result["ok"], result["folder"]) == (False, folder)


def test_a_pinned_program_is_told_of_where_commands_run_in_containers(cli: Cli) -> None:
    cli("plugin", "new", "one", "-k", "binary")
    config = cli.home / ".config/toolcrib/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('sandbox.backend = "docker"\n')
    done = cli("plugin", "check", str(cli.home / HOME / "one"))
    assert "a container cannot be handed the copy" in done.stdout


def test_new_refuses_what_it_should(cli: Cli) -> None:
    assert "letters, digits and -" in cli("plugin", "new", "a_b", code=2).stderr
    assert "it can be command, binary" in cli("plugin", "new", "a", "-k", "wasm", code=2).stderr
    cli("plugin", "new", "a", "--to", "here")
    assert "exists already" in cli("plugin", "new", "a", "--to", "here", code=2).stderr
    cli("plugin", "new", "pack", "-k", "python")
    assert (cli.work / "pack/pyproject.toml").exists()


def test_no_plugins(cli: Cli) -> None:
    rows = cli.json("plugin", "--json")
    assert rows["folders"] == [str(cli.home / HOME)]
    assert "plugin new NAME" in cli("plugin", "check").stderr or any(row["kind"] == "python" for row in rows["plugins"])
