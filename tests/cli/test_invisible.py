"""What a person reads before a decision shows every character."""

from __future__ import annotations

import json
import logging
import sys

from toolcrib.cli.app import run

from .conftest import Cli

HIDDEN = "\u200b\u3164\u2800\U000e0041\u2063\u00ad"


def shows(text: str) -> bool:
    return not any(character in text for character in HIDDEN)


def test_trust_config_and_log_show_invisible_characters(cli: Cli) -> None:
    cli.write("toolcrib.toml", f'[rules]\nallow = ["Bash(git {HIDDEN} status)"]\n')
    for args in (("trust",), ("config",), ("config", "--changed"), ("config", "--json"), ("list",)):
        done = cli(*args, code=None)
        assert shows(done.stdout) and shows(done.stderr), args
    done = cli("trust", code=None)
    assert "\\u200b" in done.stderr and "\\u3164" in done.stderr
    cli("call", "write_file", f"path=a{HIDDEN}b", f"content=x{HIDDEN}", code=None)
    call_id = json.loads(cli("log", "--json").stdout.splitlines()[-1])["call_id"]
    for args in (("log",), ("log", call_id), ("log", "--json")):
        done = cli(*args)
        assert shows(done.stdout) and shows(done.stderr), args


def test_what_libraries_log_is_safe_for_a_terminal() -> None:
    run(["--version"])
    assert logging.lastResort is not None
    try:
        raise ValueError("an answer\x1b]0;title\x07 of a server")
    except ValueError:
        record = logging.LogRecord("mcp", logging.ERROR, "", 0, "flow error \x1b[2J", None, None)
        record.exc_info = sys.exc_info()
    text = logging.lastResort.format(record)
    assert "\x1b" not in text and "\x07" not in text and "an answer" in text
    assert len(text.splitlines()) == 1  # a server can cause many of them
