"""`toolcrib channels`: list the channels, run the agent for them, and send a message through one."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated, Any

from .. import show
from ..exit_codes import Usage
from ..options import Model, Options
from ..reader import Argument, CliCommand, group

if TYPE_CHECKING:
    from ...agent.events import AgentEvent
    from ...config.channel_settings import ChannelSettings

NONE = "There are no channels. Add one to the settings: [channels.NAME] with its `type`."


def channels(options: Options) -> None:
    """List the channels: what each is, who may talk to the agent, and how many chats it has."""
    from ...agent.store import SessionStore

    settings = options.settings()
    store = SessionStore(options.state())
    rows = [_row(name, each, store) for name, each in settings.channels.items()]
    if options.json:
        show.out_json(rows)
    else:
        show.columns([_cells(row) for row in rows], ("bold", "dim", None, None, None, "dim"), none=NONE)


async def run(options: Options, model: Model = None) -> None:
    """Run the agent for all channels, until Ctrl-C. Each chat has its own session, which goes on at the next start."""
    from ...agent import Agent
    from ...agent.bus import MessageBus
    from ...agent.channel_host import ChannelHost
    from ...agent.channels import channels_of
    from ...agent.store import SessionStore
    from ...serve.server_reloading import Reloader, reloading
    from .run import agent_jobs

    settings = options.settings()
    if not any(each.enabled for each in settings.channels.values()):
        raise Usage(NONE)
    for name, each in settings.channels.items():
        if each.enabled and not each.allowed and each.type != "terminal" and (each.type != "webhook" or each.listen):
            show.warn(f"channels.{name}.allowed names nobody, so nobody is answered there")
    async with options.open(settings, warm_up=False) as box:
        lines = _lines if sys.stdin.isatty() else None
        bus = MessageBus(channels_of(box, SessionStore(box.state), write=_print, lines=lines))
        async with await Agent.open(box, model, say=show.say, bus=bus) as agent:
            listening = f"Listening: {', '.join(bus.channels)}. Ctrl-C ends it; the sessions stay saved."
            async with agent_jobs(agent):
                with reloading(Reloader(box, lambda: options.settings(quiet=True))):
                    await ChannelHost(agent, _show_call).run(lambda: show.say(listening, "dim"))


async def send(
    options: Options,
    channel: Annotated[str, Argument(metavar="CHANNEL", help="The channel's name in the settings.")],
    chat: Annotated[str, Argument(metavar="CHAT", help="The chat. For a webhook, apprise or the terminal any word.")],
    text: Annotated[list[str], Argument(metavar="TEXT", help="The message.")],
) -> None:
    """Send a message through a channel, to see whether it works."""
    from ...agent.bus import MessageBus, OutboundMessage
    from ...agent.channels import channels_of
    from ...agent.store import SessionStore

    async with options.open(start_servers=False, warm_up=False) as box:
        bus = MessageBus(channels_of(box, SessionStore(box.state), write=_print))
        try:
            await bus.publish_outbound(OutboundMessage(channel, chat, " ".join(text)))
        finally:
            await bus.aclose()
    show.say(f"Message sent to {channel}:{chat}")


def _print(text: str) -> None:
    show.out(text)
    sys.stdout.flush()


async def _lines() -> AsyncIterator[str]:
    """Yield the lines of stdin."""
    reader = asyncio.StreamReader(limit=1 << 20)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    try:
        while line := await reader.readline():
            yield line.decode("utf-8", "replace")
    finally:
        transport.close()


def _show_call(channel: str, chat_id: str, event: AgentEvent) -> None:
    """Show each call that ended, on stderr."""
    from ...agent.events import CallDone
    from .display import call_line

    if isinstance(event, CallDone):
        mark = "…" if event.output.pause_for_input else "✗" if event.output.is_error else "✓"
        show.say(f"{channel}:{chat_id} {mark} {call_line(event.call)}", "dim")


def _row(name: str, settings: ChannelSettings, store: Any) -> dict[str, Any]:
    rows = store.chats(name)
    return {
        "name": name, "type": settings.type, "enabled": settings.enabled, "allowed": list(settings.allowed),
        "approvers": list(settings.approvers), "chats": len({row.extra["chat"][1] for row in rows}),
        "waiting": sum(row.state == "waiting" for row in rows),
    }  # fmt: skip


def _cells(row: dict[str, Any]) -> list[str]:
    return [
        row["name"], row["type"], "on" if row["enabled"] else "off",
        f"allowed: {', '.join(row['allowed']) or '-'}", f"approvers: {', '.join(row['approvers']) or '-'}",
        f"{row['chats']} chats, {row['waiting']} waiting",
    ]  # fmt: skip


COMMAND = group(
    channels,
    "The channels of the agent. Without a command: list them.",
    {
        "list": CliCommand(channels),
        "run": CliCommand(run, without=("json",)),
        "send": CliCommand(send, without=("json",)),
    },
)
