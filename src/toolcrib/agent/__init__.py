"""The agent: a model in a loop over the guarded tools, with stored sessions. Names load when they are first touched."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .agent import Agent
    from .bus import InboundMessage, MessageBus, OutboundMessage
    from .channel_host import ChannelHost
    from .choose import ModelPlace
    from .events import AgentEvent, Outcome
    from .find_model import model_findings
    from .history import Image, UserTurn
    from .limits import RunLimits
    from .model import Model, ModelError
    from .session import AgentSession
    from .session_lock import SessionError
    from .skills import plugin_skills, texts_to_trust

__all__ = [
    "Agent", "AgentEvent", "AgentSession", "ChannelHost", "Image", "InboundMessage", "MessageBus", "Model",
    "ModelError", "ModelPlace", "OutboundMessage", "Outcome", "RunLimits", "SessionError", "UserTurn",
    "model_findings", "plugin_skills", "texts_to_trust",
]  # fmt: skip

_HOMES = {
    "Agent": "agent", "AgentEvent": "events", "AgentSession": "session", "ChannelHost": "channel_host",
    "Image": "history", "InboundMessage": "bus", "MessageBus": "bus", "Model": "model", "ModelError": "model",
    "ModelPlace": "choose", "OutboundMessage": "bus", "Outcome": "events", "RunLimits": "limits",
    "SessionError": "session_lock", "UserTurn": "history", "model_findings": "find_model", "plugin_skills": "skills",
    "texts_to_trust": "skills",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
