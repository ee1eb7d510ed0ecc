"""A worker, a chat, an editor and the channels run for long: what is denied meanwhile counts for the next call."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from toolcrib.agent.channel_host import ChannelHost
from toolcrib.cli.agent import channels
from toolcrib.cli.options import Options
from toolcrib.serve import server_reloading

from ...waiting import until

acp = importlib.import_module("toolcrib.cli.agent.acp")
chat = importlib.import_module("toolcrib.cli.agent.chat")
worker = importlib.import_module("toolcrib.cli.jobs.worker")


@pytest.mark.parametrize("command", ["worker", "channels", "chat", "acp"])
async def test_a_new_rule_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    own, seen = tmp_path / "own.toml", list[bool]()
    own.write_text('[channels.shell]\ntype = "terminal"\n')
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(server_reloading, "LOOK_SECONDS", 0.02)
    (tmp_path / "replies.json").write_text('[{"text": "hi"}]')

    async def use(host: Any, *_: object) -> int:
        own.write_text(own.read_text() + '[rules]\ndeny = ["Edit(o.txt)"]\n')
        await until(lambda: host.box.rules.rules, 60)
        seen.append((await host.box.call("write_file", {"path": "o.txt", "content": "x"})).error_kind == "denied")
        return 0

    monkeypatch.setattr(worker, "_until_the_end", use)
    monkeypatch.setattr(ChannelHost, "run", use)
    monkeypatch.setattr(chat, "_talk", use)
    options = Options(str(tmp_path), str(own))
    if command == "worker":
        await worker.worker(options)
    elif command == "acp":
        box = await acp.opened(options, str(tmp_path), ())
        await use(SimpleNamespace(box=box))
        await box.aclose()
    else:
        await (channels.run if command == "channels" else chat.chat)(options, f"scripted:{tmp_path}/replies.json")
    assert seen == [True]
