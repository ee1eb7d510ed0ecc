"""One tool: what a model reads of it, and a call by hand, which goes through the same stages as every other call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...core.dataclass import dataclass
from ...core.finish import HINT
from ...core.output import ToolOutput
from ...core.threads import shared_threads
from ...core.wings import has_wing
from ...policy.preview import fit
from .acts import SentForm
from .html import el
from .page import MAX_ARGUMENTS, Frame, as_json, exact, facts, folded, form, link, live, page, read_arguments
from .rules import Build
from .servers import Open

if TYPE_CHECKING:
    from ...core.tool import Tool


@dataclass(frozen=True, slots=True)
class OneTool:
    """A tool, faults of its texts, the arguments of a call, and what that led to."""

    tool: Tool
    findings: list[str]
    arguments: str = ""
    output: ToolOutput | None = None


def read_tool(build: Build, given: Mapping[str, str], output: ToolOutput | None = None) -> OneTool:
    """Read one tool. Raises ToolError if there is none."""
    with build() as box:
        tool = box.registry.require(given.get("name", ""))
        findings: list[str] = []
        if has_wing("lint"):
            from ...policy.lint import lint

            found = lint([tool], list(box.registry), ())
            findings = [f"{each.level}: {each.text} [{each.rule}]" for each in found if each.level != "info"]
        return OneTool(tool, findings, given.get("arguments") or _example(tool), output)


def _example(tool: Tool) -> str:
    """Return arguments with the names that the tool needs."""
    wanted: Any = tool.schema.get("required") or []
    return as_json(dict.fromkeys(map(str, wanted), ""))


def tool_page(found: OneTool, frame: Frame) -> str:
    """Return the page."""
    tool = found.tool
    return page(
        frame,
        tool.name,
        facts({"category": str(tool.category), "from": tool.source}),
        exact(fit(tool.description, MAX_ARGUMENTS), diff=False),
        [el("p", each, class_="fault") for each in found.findings],
        folded("Its parameters", exact(fit(as_json(dict(tool.schema)), MAX_ARGUMENTS), diff=False)),
        el("h2", "Call it by hand") if frame.form else None,
        form(
            frame, "tool",
            el("p", "Rules, approval and the record apply, as to a model's call."),
            el("label", "Arguments, as JSON ", el("textarea", found.arguments, name="arguments", rows=8, cols=60,
               spellcheck="false")),
            el("button", "Call"),
            name=tool.name,
        ),
        live("output", _output(found.output), name="Output"),
    )  # fmt: skip


def _output(output: ToolOutput | None) -> list[Any]:
    if output is None:
        return []
    ident = output.meta.get("approval_id")
    pending = el("p", link("Answer it in the inbox", "inbox", {"id": str(ident)}), ", then call again.")
    others = [each.type for each in output.content if each.type != "text"]
    return [
        el("h2", "Output" if not output.is_error else f"Not done: {output.error_kind}"),
        pending if output.error_kind == "pending" and isinstance(ident, str) else None,
        exact(fit(output.for_llm.removesuffix(HINT), MAX_ARGUMENTS), diff=False),
        el("p", f"Not shown here: {', '.join(others)}") if others else None,
    ]


async def call_tool(sent: SentForm, opened: Open, session: str) -> ToolOutput:
    """Call a tool as a form says. Raises ToolcribError if it cannot be called at all."""
    name, arguments = sent.get("name"), read_arguments(sent.given)
    async with opened() as box:
        await shared_threads.run(sent.note, "call", name)
        ctx = replace(box.context, channel="console", session_id=session, sender_id=sent.person)
        return await box.call(name, arguments, ctx)
