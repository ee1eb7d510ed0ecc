"""`toolcrib approvals`: list the calls that wait for approval, and answer them from any terminal."""

from __future__ import annotations

import json
import time
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from ..config.remembered import remember
from ..core.errors import ConfigError, ToolcribError
from ..core.homes import state_home
from ..core.text import clip, one_line
from ..core.wings import has_wing
from ..policy.callers import person_at
from ..policy.plain import plain_line
from ..policy.preview import visible
from ..policy.requests import Answered, Decision, Remember, Scope, about_rule, answer, hosts_of, scopes_of
from ..record.approvals import Approvals, find_request, local_records
from ..record.connection import Where, is_url
from ..record.rows import ApprovalRow
from . import show
from .arguments import json_object
from .exit_codes import Usage, of_success
from .options import RecordOptions
from .reader import Argument, CliCommand, Option, group

Id = Annotated[str, Argument(metavar="ID", help="The request, like ap_1a2b3c4d5e.")]
Reason = Annotated[str, Option("--reason", help="The reason; the model reads it.")]


def listed(
    options: RecordOptions,
    everywhere: Annotated[bool, Option("--all", help="List all workspaces, and answered requests too.")] = False,
) -> None:
    """List the calls that wait for an answer."""
    records = list(dict.fromkeys([*records_here(options), *(local_records() if everywhere else ())]))
    if not records and not everywhere:
        try:
            options.state()
        except ConfigError as error:
            raise Usage(f"{error}; or list the requests of all workspaces with --all") from None
    rows: list[ApprovalRow] = []
    shared = any(map(is_url, records))
    for record in records:
        with closing(Approvals(record)) as approvals:
            found = approvals.recent() if everywhere else approvals.pending()
        for row in found:
            if isinstance(record, Path) and everywhere:
                row["workspace"] = record.parent.name
        rows += found
    if options.json:
        show.out_json(rows)
        return
    now = time.time()
    cells: list[list[str]] = []
    for row in rows:
        left = f"{max(0, row['expires'] - now) / 3600:.1f} h left" if row["state"] == "pending" else row["state"]
        where = [str(row["workspace"])] if everywhere or shared else []
        first, second = [*row["preview"].split("\n", 2), ""][:2]
        what = one_line(row["preview"]) if first == "{" else row["preview"].replace("\n", " ⏎ ")  # JSON
        if first.startswith("--- ") and second.startswith("+++ "):
            what = f"write {(first if second == '+++ /dev/null' else second)[6:]}"
        cells.append([row["id"], *where, show.clock(row["created"]), left, row["tool"], clip(what, 200)])
    more = "" if everywhere or shared else " (--all lists every workspace)"
    show.columns(cells, ("bold",), none=f"No call waits for approval here.{more}")


def shown(options: RecordOptions, request_id: Id) -> None:
    """Show one request: the call, and why it needs approval."""
    with _request(options, request_id) as (_, row):
        if options.json:
            show.out_json(row)
            return
        about = about_rule(row["tool"], row["category"], row["rule"], row["asked_by"], scopes_of(row), hosts_of(row))
        show.out(f"{plain_line(row['tool'])} ({row['category']}), {row['state']}", "bold")
        facts = {
            "why it asks": row["reason"],
            **dict(line.split(": ", 1) for line in about),
            "what asks": row["asked_by"],
            "asked": show.clock(row["created"]),
            "expires": show.clock(row["expires"]) if row["state"] in ("pending", "approved") else None,
            "session": row["session_id"],
            "workspace": row["workspace"],
            "answered by": row["approver"],
            "answer": row["answer"],
            "run with": row["edited"],
            "used by": row["run"] and f"{row['run']}, {show.clock(row['run_time'] or 0)}",
        }
        show.facts(facts)
        show.out("arguments:")
        show.out(visible(json.dumps(json.loads(row["arguments"]), indent=2, ensure_ascii=False)))
        show.out("preview:")
        show.out(row["preview"])


def approve(
    options: RecordOptions,
    request_id: Id,
    session: Annotated[
        bool, Option("--session", help="Also approve the calls of its session that `show` names.")
    ] = False,
    always: Annotated[
        bool, Option("--always", help="Also write the rule that `show` names into your own settings.")
    ] = False,
    edit: Annotated[
        str | None, Option("--edit", metavar="JSON", help="Run the call with these arguments instead.")
    ] = None,
    reason: Reason = "",
) -> int:
    """Approve a request. The call runs once, when it is repeated, or at once if its caller still waits."""
    if session and always:
        raise Usage("give --session or --always, not both")
    scope: Scope = "rule" if always else "session" if session else "once"
    edited = json_object(edit, "--edit") if edit is not None else None
    decision = Decision(True, reason, edited, scope, person_at("cli"))
    with _request(options, request_id) as (approvals, row):
        if edited is not None and (wrong := _misfits(options, row, edited)):
            raise Usage(f"--edit: {'; '.join(wrong)}. Nothing was approved")
        return _said(answer(approvals, request_id, decision, _remember(row)), options)


def deny(options: RecordOptions, request_id: Id, reason: Reason = "") -> int:
    """Deny a request."""
    with _request(options, request_id) as (approvals, _):
        return _said(answer(approvals, request_id, Decision(False, reason, approver=person_at("cli"))), options)


def _said(answered: Answered, options: RecordOptions) -> int:
    (show.say if answered.kept else show.error)(answered.text)
    if answered.kept and answered.row is not None and has_wing("agent"):
        from .agent.sessions import go_on

        if command := go_on(options, answered.row):
            show.say(f"The agent waits for this answer; it goes on with: {command}")
    return of_success(answered.kept)


def _misfits(options: RecordOptions, row: ApprovalRow, edited: dict[str, Any]) -> list[str]:
    """Return what is wrong with arguments, if the tool is known in the workspace of the request."""
    there = replace(options, workspace=row["workspace"] or options.workspace)
    with suppress(ToolcribError, OSError), there.build(there.settings(quiet=True)) as box:
        tool = box.registry.find(row["tool"])
        return [] if tool is None else tool.validate_params(edited)
    return []


def _remember(row: ApprovalRow) -> Remember | None:
    """A function that writes a rule for the workspace of the request; None if the workspace is unknown."""
    workspace = row["workspace"]
    return (lambda rule: remember(workspace, "allow", rule)) if workspace else None


@contextmanager
def _request(options: RecordOptions, request_id: str) -> Generator[tuple[Approvals, ApprovalRow]]:
    """Find a request, in this workspace first and then in all others: ids are random, so the id is enough.

    The current folder need not be usable as a workspace: a new terminal opens in the home directory.
    """
    with find_request(request_id, [*records_here(options), *local_records()]) as found:
        if found is None:
            raise Usage(f"there is no approval request {request_id}; `toolcrib approvals --all` lists them")
        yield found


def records_here(options: RecordOptions) -> list[Where]:
    """Return the record that the settings name, or that of this folder; none if it cannot be a workspace."""
    try:
        settings = options.settings(quiet=True)
    except ConfigError:  # this folder's configuration is wrong: your own settings count all the same
        found = replace(options, workspace=str(state_home())).settings(quiet=True).record.address
        return [found] if found else []
    if settings.record.address:
        if options.db is not None:
            options.must_be_there(settings.record.address)
        return [settings.record.address]
    with suppress(ConfigError):
        return [options.state(settings).record]
    return []


COMMAND = group(
    listed,
    "Calls that wait for approval. Without a command: list them.",
    {
        "list": CliCommand(listed),
        "show": CliCommand(shown),
        "approve": CliCommand(approve, without=("json",)),
        "deny": CliCommand(deny, without=("json",)),
    },
)
