"""For tests of tools and agents: a person who answers approvals, models without a provider, a toolbox for one test, and
outputs that were recorded. `plugin` is for pytest.

async with temporary_toolbox(tools=[weather], approve=FakeApprover("yes", "no")) as box:
    assert (await box.call("weather", {"city": "Bergen"})).for_llm == "rain"
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from ..core.tool import Tool
from ..policy.requests import ApprovalRequest, Approver, Decision
from ..record.cassette import record_calls, replay_calls
from ..toolbox import Toolbox

if TYPE_CHECKING:
    from ..agent.recorded import RecordingModel, ReplayModel
    from ..agent.scripted import ScriptedModel
    from ..config.settings import Mode

__all__ = [
    "Answer",
    "FakeApprover",
    "RecordingModel",
    "ReplayModel",
    "ScriptedModel",
    "record_calls",
    "replay_calls",
    "temporary_toolbox",
]

_MODELS = {"RecordingModel": "recorded", "ReplayModel": "recorded", "ScriptedModel": "scripted"}
"""Of the agent, which may not be installed."""


def __getattr__(name: str) -> Any:
    if name not in _MODELS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"..agent.{_MODELS[name]}", __package__), name)


Answer = bool | str | Decision | Callable[[ApprovalRequest], "bool | Decision"]
"""A yes or no (also "yes", "no"), a whole Decision, a function that decides, or "silence": nobody answers."""


class FakeApprover:
    """A person at the door who gives the answers they were told, in order; the last one again and again.

    `requests` has what they were asked. Without answers they say no.
    """

    def __init__(self, *answers: Answer) -> None:
        for answer in answers:
            if isinstance(answer, str) and answer not in ("yes", "no", "silence"):
                raise ValueError(f"an answer is yes, no or silence, not {answer!r}")
        self._answers = list(answers) or [False]
        self.requests: list[ApprovalRequest] = []

    async def __call__(self, request: ApprovalRequest) -> bool | Decision:
        self.requests.append(request)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if answer == "silence":
            await asyncio.Event().wait()
        if callable(answer):
            return answer(request)
        return answer == "yes" if isinstance(answer, str) else answer

    @property
    def asked(self) -> list[str]:
        """The names of the tools they were asked about, in order."""
        return [request.tool for request in self.requests]


@asynccontextmanager
async def temporary_toolbox(
    files: Mapping[str, str | bytes] | None = None,
    *,
    tools: Iterable[Tool | Callable[..., Any]] = (),
    mode: Mode = "assistant",
    approve: Approver | None = None,
    builtin: bool = True,
    yes: bool = False,
) -> AsyncGenerator[Toolbox]:
    """A toolbox over a new workspace that holds `files` (path to content); workspace, state and record go at the end.

    It reads no configuration of the user's, and keeps its state apart for as long as it is open: the two variables
    it sets (XDG_STATE_HOME and XDG_CONFIG_HOME) are the process's, so open one at a time.
    """
    with tempfile.TemporaryDirectory(prefix="toolcrib-test-", ignore_cleanup_errors=True) as name:
        workspace = Path(name, "workspace")
        workspace.mkdir()
        for path, content in (files or {}).items():
            file = workspace / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content.encode() if isinstance(content, str) else content)
        places = {"XDG_STATE_HOME": f"{name}/state", "XDG_CONFIG_HOME": f"{name}/config"}
        with patch.dict(os.environ, places):
            async with Toolbox.open(
                workspace, mode=mode, approve=approve, tools=tools, builtin=builtin, yes=yes
            ) as box:
                yield box
