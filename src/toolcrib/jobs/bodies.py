"""The bodies of jobs that a schedule or a caller submits: a message to the agent, or a direct call of a tool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, ClassVar, Self

from ..core.dataclass import dataclass
from ..core.empty import EMPTY
from .engine import JobError

SCHEDULED_RUN = "toolcrib_scheduled_run"
"""A key in `ToolContext.metadata`, set by the runner of a job that has a schedule: its name. Such a run makes no
schedules."""


KNOWN_BY = "known_by"
"""A key in the labels of a body: the process that knows what the session has read."""
ELSEWHERE = "another process"
"""The name of that process if it is not known."""


_OBJECT = dict, "an object"
_WANTED: Mapping[str, tuple[Any, str]] = {
    "arguments": _OBJECT, "deliver": _OBJECT, "labels": _OBJECT, "calls": _OBJECT, "asks": (bool | str, "a text"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Delivery:
    """The channel and the chat that get the outcome of a job."""

    channel: str
    chat_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobBody:
    """What all bodies have: who gets the outcome, the session that the job belongs to, and the name of its schedule.

    `labels` are those of the session in which a model wrote the body, as on the wire of MCP: what the job runs in has
    read the same. Without labels a person wrote it. `mode` is that of the process and moment in which a model made the
    job: it runs in no looser one. `made_in` is the channel of that moment, whose hooks hold for the job. `asks` is
    the policy of approvals of that moment, of which it gets no looser one either; older jobs say whether anything was
    asked about. `calls` is the run of the session in which it was made, for the limits of calls.
    """

    KIND: ClassVar[str]

    deliver: Delivery | None = None
    session: str | None = None
    schedule: str | None = None
    labels: Mapping[str, str] = EMPTY
    mode: str | None = None
    made_in: str | None = None
    asks: bool | str = ""
    calls: Mapping[str, Any] = EMPTY

    def to_json(self) -> dict[str, Any]:
        """Return the body as a job stores it; what is not set is left out."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        if self.deliver is not None:
            found["deliver"] = {"channel": self.deliver.channel, "chat_id": self.deliver.chat_id}
        found |= {"labels": dict(self.labels) or None, "calls": dict(self.calls) or None, "asks": self.asks or None}
        return {name: value for name, value in found.items() if value is not None}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Self:
        """Read a body that a job stored. Raises JobError if it has another form."""
        known = {field.name: field for field in fields(cls)}
        values = dict(body)
        if unknown := values.keys() - known.keys():
            raise JobError(f"the body of a {cls.KIND} job has unknown keys: {', '.join(sorted(unknown))}")
        for name, value in values.items():
            wanted, called = _WANTED.get(name, (str, "a text"))
            if not isinstance(value, wanted):
                raise JobError(f"{name} in the body of a {cls.KIND} job is not {called}")
        if "deliver" in values:
            values["deliver"] = _delivery(values["deliver"])
        try:
            return cls(**values)
        except TypeError:
            raise JobError(
                f"the body of a {cls.KIND} job is not complete: {', '.join(sorted(body)) or 'empty'}"
            ) from None


def _delivery(value: Mapping[str, Any]) -> Delivery:
    channel, chat_id = value.get("channel"), value.get("chat_id")
    if not isinstance(channel, str) or not (chat_id is None or isinstance(chat_id, str)):
        raise JobError("deliver in the body of a job needs a channel, and perhaps a chat_id, both texts")
    return Delivery(channel, chat_id)


@dataclass(frozen=True, slots=True)
class MessageBody(JobBody):
    """A message to the agent: it works on it in its session, or in a new one."""

    KIND: ClassVar[str] = "message"

    text: str


@dataclass(frozen=True, slots=True)
class CallBody(JobBody):
    """A direct call of a tool, judged when it runs like any other call."""

    KIND: ClassVar[str] = "call"

    tool: str
    arguments: Mapping[str, Any] = EMPTY

    def to_json(self) -> dict[str, Any]:
        """Return the body as a job stores it."""
        return {**JobBody.to_json(self), "arguments": dict(self.arguments)}
