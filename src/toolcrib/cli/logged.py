"""Shows one call from the record: its arguments, the approval, the outcome."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from . import show
from .exit_codes import FAILED, OK

if TYPE_CHECKING:
    from ..record.audit import Audit
    from ..record.rows import ApprovalRow, CallRow


def plain(row: CallRow) -> dict[str, Any]:
    """A row with its arguments and labels as data, if they are complete."""
    return {**row, "arguments": _data(row["arguments"] or "{}"), "labels": _data(row["labels"])}


def _data(text: str | None) -> Any:
    try:
        return json.loads(text) if text else None
    except ValueError:  # cut off, or withheld
        return text


def one(audit: Audit, call_id: str, as_json: bool) -> int:
    """Show a call in full."""
    rows = audit.call(call_id)
    if not rows:
        show.error(f"the record of this workspace has no call {call_id}")
        return FAILED
    approvals = {row["seq"]: audit.approval(row) for row in rows}
    if as_json:
        found = [plain(row) for row in rows]
        show.out_json(
            [{**row, "approval_request": approvals[row["seq"]]} if approvals[row["seq"]] else row for row in found]
        )
        return OK
    intents = {row["seq"]: row for row in rows if row["kind"] == "intent"}
    for row in rows:
        if row["kind"] != "intent":
            _show(row, intents.pop(row["intent"] or 0, None), approvals[row["seq"]])
    for seq, intent in intents.items():
        if any(row["seq"] > seq and row["kind"] != "intent" for row in rows):  # a retry, or arguments that changed
            show.out(f"about to run at {show.clock(intent['time'])}, committed as row {seq}", "dim")
        else:
            _show(intent, intent, approvals[seq])
    return OK


def _show(row: CallRow, intent: CallRow | None, approval: ApprovalRow | None) -> None:
    ended = row is not intent
    labels: Any = _data(row["labels"])
    axes = cast("dict[str, Any]", labels) if isinstance(labels, dict) else {}
    facts = {
        "when": show.clock(row["time"]),
        "intent": f"about to run at {show.clock(intent['time'])}, committed as row {intent['seq']}" if intent else None,
        "outcome": row["outcome"] if ended else "none: its process died, or it is still running",
        "verdict": row["verdict"],
        "rule": row["rule"],
        "approver": row["approver"],
        "session": row["session_id"],
        "channel": row["channel"],
        "labels": ", ".join(str(value) for value in axes.values()),
        "took": f"{(row['duration'] or 0) * 1000:.1f} ms" if ended else None,
        "output": f"{row['size'] or 0:,} characters" if ended else None,
        "row": f"{row['seq']}:{row['hash']}",
    }
    show.out(f"{row['tool']} ({row['category'] or 'no such tool'})" if row["tool"] else row["kind"], "bold")
    show.columns([[f"  {key}", str(value)] for key, value in facts.items() if value], ("dim", None))
    arguments = plain(row)["arguments"]
    show.out(arguments if isinstance(arguments, str) else json.dumps(arguments, indent=2, ensure_ascii=False))
    if approval is not None:
        asked = f"approval {approval['id']}: {approval['state']}"
        show.out(f"{asked} by {approval['approver']}" if approval["approver"] else asked, "bold")
        for text in (approval["reason"], approval["answer"], approval["preview"]):
            if text:
                show.out(text)
    if row["error"]:
        show.out(row["error"], "red")
