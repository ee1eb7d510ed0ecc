"""Ask a person for approval through an MCP client, with a form. Nothing that a model writes in arguments can approve.

Handshake era: the form is shown while the call waits (`approver_of`). 2026-07-28: the call returns and its request
is stored. The form travels in an `InputRequiredResult`, and the answer comes with the retry (see `serve.mcp`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from mcp_types import ElicitRequest, ElicitResult

from ..core.bound import safe
from ..core.errors import ToolError
from ..core.homes import config_home
from ..policy.plain import plain, plain_line
from ..policy.requests import FETCHES, ApprovalRequest, Approver, Decision, Scope, about_rule, hosts_of, scopes_of
from ..record.rows import ApprovalRow
from .peer import FormAnswer, Peer, form_request

KEY = "approval"
APPROVE, SESSION, ALWAYS, DENY = "approve", "approve for this session", "always allow", "deny"
_CHOICES: Mapping[Scope, str] = {"once": APPROVE, "session": SESSION, "rule": ALWAYS}
MAX_REASON = 1_000
# then come hosts, in letters that cannot be anything else
_OF_HOSTS = "A yes opens: ", f"A yes for this session covers: {FETCHES} "


def schema(scopes: Sequence[str]) -> dict[str, Any]:
    """Return the schema of the form, flat as MCP requires.

    It has no defaults: a client that fills in forms automatically must not approve by accident.
    """
    said = ["Nothing runs without a yes. It holds for exactly this call"]
    if "session" in scopes:
        said.append("for this session it also holds for what the lines above say")
    if "rule" in scopes:
        said.append(f"always writes the rule above into your own settings, in {config_home() / 'rules'}")
    text = {"type": "string"}
    return {
        "type": "object",
        "properties": {
            "decision": {
                **text,
                "title": "Run it?",
                "description": "; ".join(said) + ".",
                "enum": [*(_CHOICES[scope] for scope in _CHOICES if scope in scopes), DENY],
            },
            "reason": {**text, "title": "Reason", "description": "Optional; the model reads it."},
            "arguments": {
                **text,
                "title": "Other arguments",
                "description": (
                    "Optional: JSON to run it with instead of the arguments shown. It is checked like any call, and "
                    "the yes is for these."
                ),
            },
        },
        "required": ["decision"],
    }


def question(tool: str, category: str, reason: str, rules: Sequence[str], request_id: str, preview: str) -> str:
    """Return the text for the person: first Toolcrib's own words, then everything that the model wrote.

    `rules` are the lines of `about_rule`.
    """
    lines = [plain_line(line[:1].upper() + line[1:]) for line in rules]
    ends = f": {tool}", f": every {tool} call for this reason"
    ours = [line for line in lines if line.endswith(ends) or line.startswith(_OF_HOSTS)]
    theirs = [line for line in lines if line not in ours]
    return "\n".join([
        f"Run {plain_line(tool)} ({plain_line(category)})?",
        f"Asks because: {plain_line(reason)}",
        *ours,
        f"Request: {request_id}",
        "--- the call, as the model wrote it ---",
        *theirs,
        plain(preview),
    ])  # fmt: skip


def form_of_row(row: ApprovalRow) -> ElicitRequest:
    """Return the form for a stored request."""
    scopes = scopes_of(row)
    about = about_rule(row["tool"], row["category"], row["rule"], row["asked_by"], scopes, hosts_of(row))
    text = question(row["tool"], row["category"], row["reason"], about, row["id"], row["preview"])
    return form_request(text, schema(scopes))


def decision_of(answer: FormAnswer | ElicitResult, client: str) -> Decision:
    """Return the decision in a filled-in form. Everything that is not clearly a yes is a no."""
    approver = f"mcp:{client}"[:200]
    if answer.action != "accept":
        said = "declined" if answer.action == "decline" else "dismissed the question"
        return Decision(False, f"The person {said}.", approver=approver)
    content = answer.content or {}
    chosen, given, other = content.get("decision"), content.get("reason"), content.get("arguments")
    reason = safe(given)[:MAX_REASON] if isinstance(given, str) else ""
    scope: Scope | None = next((scope for scope, choice in _CHOICES.items() if choice == chosen), None)
    if scope is None:
        return Decision(False, reason, approver=approver)
    if other in (None, "") or (isinstance(other, str) and not other.strip()):
        return Decision(True, reason, scope=scope, approver=approver)
    try:
        arguments = json.loads(other) if isinstance(other, str) else None
    except (ValueError, RecursionError):
        arguments = None
    if not isinstance(arguments, dict):  # cannot be read, so it does not count as a yes
        return Decision(False, "The person wanted other arguments, which were no JSON object.", approver=approver)
    return Decision(True, reason, cast("dict[str, Any]", arguments), "once" if scope == "rule" else scope, approver)


def approver_of(peer: Peer) -> Approver:
    """Return an approver that asks the person at a handshake-era client.

    It returns None ("cannot ask here") if the client fails.
    """

    async def ask(request: ApprovalRequest) -> Decision | None:
        about, shown = request.about_rule, request.preview
        message = question(request.tool, request.category, request.reason, about, request.id, shown)
        try:
            answer = await peer.elicit(message, schema(request.scopes), KEY)
        except ToolError:
            return None
        return decision_of(answer, peer.name)

    return ask
