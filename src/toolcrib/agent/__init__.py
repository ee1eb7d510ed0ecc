"""The agent: a model in a loop over the guarded tools, with stored sessions."""

from .agent import Agent
from .events import AgentEvent, Outcome
from .history import Image, UserTurn
from .limits import RunLimits
from .model import Model, ModelError
from .session import AgentSession
from .store import SessionError

__all__ = [
    "Agent",
    "AgentEvent",
    "AgentSession",
    "Image",
    "Model",
    "ModelError",
    "Outcome",
    "RunLimits",
    "SessionError",
    "UserTurn",
]  # fmt: skip
