"""Writes what a host reads from its hook: allow, deny, ask, or no opinion; a text for standard output, an exit code."""

from __future__ import annotations

import json
from typing import Any, Literal

from ..core.bound import without_surrogates
from ..core.dataclass import dataclass
from .hook_events import HostName, Json

Decision = Literal["allow", "deny", "ask", "pass"]
"""pass: no opinion. The host goes on as it would without us, with its own questions."""

BLOCKED = 2
"""The exit code by which a host refuses the call. Codex and Gemini CLI do so only if standard error has a text."""
ASKS: dict[HostName, frozenset[str]] = {
    "claude": frozenset({"PreToolUse"}),
    "cursor": frozenset({"beforeShellExecution", "beforeMCPExecution"}),
}
"""The events to which a host takes "ask". Codex reports an error and runs the call, Gemini CLI hangs without a
terminal, the first versions of Copilot ignore it. There a question is a refusal that says how to approve the call,
which then runs once."""
ASKING_MODES = frozenset({"", "default", "acceptEdits", "dontAsk"})
"""The modes of Claude Code in which "ask" is a question. In the others it answers itself where its own rules would ask,
too: `bypassPermissions` with yes, also for `.git/config`; `auto` and `plan` let a model decide."""


CHANGES = frozenset({"PreToolUse", "BeforeTool", "preToolUse"})
"""The events to which a host takes other arguments for the call."""


@dataclass(frozen=True, slots=True)
class HookAnswer:
    """What to print, and how to exit."""

    stdout: str = ""
    stderr: str = ""
    code: int = 0


def reply(host: HostName, event: str, decision: Decision, reason: str, changed: Json | None = None) -> HookAnswer:
    """Return the host's form of a decision. `reason` is for the host's model where the call is denied. `changed` has
    the arguments with which an allowed call runs instead of its own."""
    if decision == "pass":
        return HookAnswer()
    reason = without_surrogates(reason).strip() or "Toolcrib's rules say so"  # Codex goes on if it is empty or no UTF-8
    match host:
        case "claude" | "codex":
            if host == "codex" and decision == "allow" and changed is None:  # it takes this with changed input alone
                return HookAnswer()
            said: Any = {"hookEventName": event or "PreToolUse", "permissionDecision": decision,
                         "permissionDecisionReason": reason}  # fmt: skip
            said = {"hookSpecificOutput": said if changed is None else said | {"updatedInput": changed}}
        case "gemini":
            said = {"decision": decision} | ({"reason": reason} if decision == "deny" else {})
            if changed is not None:
                said |= {"hookSpecificOutput": {"hookEventName": event, "tool_input": changed}}
        case "cursor":
            said = {"permission": decision}
            if decision != "allow":
                said |= {"user_message": reason, "agent_message": reason}
            if changed is not None:
                said |= {"updated_input": changed}
        case "copilot":
            said = {"permissionDecision": decision, "permissionDecisionReason": reason}
            if changed is not None:
                said |= {"modifiedArgs": changed}
    return HookAnswer(json.dumps(said))


def refusal(host: HostName, why: str, closed: bool) -> HookAnswer:
    """Return the answer where the call could not be judged. `closed` refuses it; else the host goes on without us."""
    text = f"Toolcrib could not judge this call: {why}"
    if not closed:
        return HookAnswer(stderr=text, code=1)
    said = reply(host, "PreToolUse", "deny", text)
    return HookAnswer(said.stdout, text, 0 if host == "copilot" else BLOCKED)
