"""A person's yes or no through an MCP client, as a form. Nothing that a model can write in arguments counts as one.

Handshake era: the form is shown while the call waits (`door`). 2026-07-28: the call returned with a stored request;
the form travels in an `InputRequiredResult`, and the answer comes with the retry (`serve.mcp` puts the two together).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mcp_types import ElicitRequest, ElicitResult

from ..core.bound import safe
from ..core.errors import ToolError
from ..policy.approval import ApprovalRequest, Decision, Door
from ..policy.plain import one_line, plain
from .peer import FormAnswer, form_request

if TYPE_CHECKING:
    from .peer import Peer

KEY = "approval"
APPROVE, SESSION, DENY = "approve", "approve for this session", "deny"

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "decision": {
            "type": "string",
            "title": "Run it?",
            "description": (
                "Nothing runs without a yes. It holds for exactly this call; for this session it also holds for "
                "every call that the rule above names."
            ),
            "enum": [APPROVE, SESSION, DENY],
        },
        "reason": {"type": "string", "title": "Reason", "description": "Optional; the model reads it."},
    },
    "required": ["decision"],
}
"""No default, on purpose: a client that fills forms in by itself must not say yes by accident."""


def question(tool: str, category: str, reason: str, rule: str, request_id: str, preview: str) -> str:
    """What the person reads. What Toolcrib says comes first; the preview, which the model wrote, comes last."""
    return (
        f"Run {one_line(tool)} ({one_line(category)})?\n"
        f"Asks because: {one_line(reason)}\n"
        f"A rule that would allow it: {one_line(rule)}\n"
        f"Request: {request_id}\n"
        f"--- the call, as the model wrote it ---\n{plain(preview)}"
    )


def form_of_row(row: Mapping[str, Any]) -> ElicitRequest:
    """The form for a stored request."""
    return form_request(
        question(row["tool"], row["category"], row["reason"], row["rule"], row["id"], row["preview"]), SCHEMA
    )


def decision_of(answer: FormAnswer | ElicitResult, client: str) -> Decision:
    """The decision in a filled-in form. Whatever is not clearly a yes is a no."""
    approver = f"mcp:{client}"[:200]
    if answer.action != "accept":
        said = "declined" if answer.action == "decline" else "dismissed the question"
        return Decision(False, f"The person {said}.", approver=approver)
    content = answer.content or {}
    chosen, given = content.get("decision"), content.get("reason")
    reason = safe(given)[:1000] if isinstance(given, str) else ""
    if chosen == APPROVE:
        return Decision(True, reason, approver=approver)
    if chosen == SESSION:
        return Decision(True, reason, scope="session", approver=approver)
    return Decision(False, reason, approver=approver)


def door(peer: Peer) -> Door:
    """Asks the person at a handshake-era client. None, "cannot ask here", where the client fails to."""

    async def ask(request: ApprovalRequest) -> Decision | None:
        message = question(request.tool, request.category, request.reason, request.rule, request.id, request.preview)
        try:
            answer = await peer.elicit(message, SCHEMA, KEY)
        except ToolError:
            return None
        return decision_of(answer, peer.name)

    return ask
