"""The agent: a model in a loop over the guarded tools, with stored sessions."""

from .agent import Agent
from .events import AgentEvent, Outcome
from .history import Image, UserTurn
from .limits import RunLimits
from .model import Model, ModelError
from .session import Session
from .store import SessionError

__all__ = [
    "Agent", "AgentEvent", "Image", "Model", "ModelError", "Outcome", "RunLimits", "Session", "SessionError",
    "UserTurn",
]  # fmt: skip
