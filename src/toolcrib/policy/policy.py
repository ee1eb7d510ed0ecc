"""Combine verdicts: deny before ask before allow; the first step that applies wins."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, replace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from ..core.call import Call
from ..core.caller import Caller
from ..core.context import EMPTY_CONTEXT, ToolContext, Wall
from ..core.dataclass import dataclass
from ..core.errors import ConfigError, ToolcribError
from ..core.interfaces import Grant
from ..core.output import ToolOutput
from ..core.text import matches
from ..core.tool import Tool, ToolCategory
from ..core.verdict import MISSING, Judgement, Verdict
from .addresses import RULE_ALLOWED_DOMAIN
from .requests import Question, host_rule
from .shell.kinds import RULE_FETCH

if TYPE_CHECKING:
    from .approval import ApprovalService
    from .call_limits import CallLimits
    from .flow import LabelFlow
    from .hooks import Hooks
    from .rules.ruleset import RuleSet

log = logging.getLogger("toolcrib.policy")

JUDGE_SECONDS = 10.0  # for a judge that may block; other judges are plain functions of the arguments
APPROVAL_POLICIES = ("always_allow", "require_for_tools", "require_for_dangerous", "always_require")
"""The strictest one is the last."""

_C = ToolCategory

MODES: dict[str, dict[str, Verdict]] = {
    "observer": {
        category: "allow" if category in (_C.FILESYSTEM_READ, _C.NETWORK_READ, _C.MEMORY) else "deny" for category in _C
    },
    "assistant": {
        category: "ask" if category in (_C.SHELL, _C.HARDWARE, _C.DESTRUCTIVE, _C.NETWORK_WRITE) else "allow"
        for category in _C
    },
    "autonomous": dict.fromkeys(_C, "allow"),
}
"""observer only reads; assistant asks before what cannot be undone; autonomous never asks because of the mode. The
strictest one is the first."""


@dataclass(frozen=True, slots=True)
class Check:
    """The predicted verdict for a call, and the reason. `step` is the number of the deciding step in docs/security.md;
    0 for a call that is not forbidden, but cannot be made.

    `others` are further questions about the call: a session approval for one question does not cover the next. `wall`
    is what a command can do at most, if it is allowed for that reason. `hosts`: what a yes opens, or a rule has opened.
    `insists`: what the call does asks in every mode.
    """

    verdict: Verdict
    category: str
    rule: str | None
    reason: str
    step: int = 4
    others: tuple[Check, ...] = ()
    wall: Wall | None = None
    hosts: tuple[str, ...] = ()
    insists: bool = False


@dataclass(eq=False)
class Policy:
    """Decides whether a call may run. An `Authorizer` for a registry.

    `mode` is observer, assistant or autonomous; `approval` a policy of `approval.policy`; `ask_for` names tools (with
    `*`) that always ask. With `require_for_dangerous` the mode's table and the judgement of commands ask as well; with
    `require_for_tools` they do not. Rules, hooks and labels ask under both. `yes` turns asks into allow;
    `never_ask` into denials, even with `yes`. `sandboxed` returns whether commands run in an active sandbox without
    network; if it raises, the sandbox is missing and commands are refused. Nothing overrides a deny. `caller`:
    it decides about the calls of this caller alone (`of`).
    """

    mode: str = "assistant"
    _: KW_ONLY
    approval: str = "require_for_dangerous"
    enabled: bool = True
    ask_for: Sequence[str] = ()
    yes: bool = False
    never_ask: bool = False
    sandboxed: Callable[[], bool] = lambda: False
    rules: RuleSet | None = None
    flow: LabelFlow | None = None
    hooks: Hooks | None = None
    limits: CallLimits | None = None
    dry_run: bool = False
    approval_service: ApprovalService | None = None
    caller: Caller | None = None

    def __post_init__(self) -> None:
        self._of_callers: WeakKeyDictionary[Caller, tuple[Any, Policy]] = WeakKeyDictionary()
        self.use_mode(self.mode)
        self._settle()

    def _settle(self) -> None:
        if self.approval not in APPROVAL_POLICIES:
            raise ConfigError(f"unknown approval policy {self.approval!r}; known: {', '.join(APPROVAL_POLICIES)}")
        self.quiet = self.yes or not self.enabled or self.approval == "always_allow"

    def use_mode(self, mode: str) -> None:
        """Use another mode; then say so to the registry (`policy_changed`). Raises ConfigError for an unknown one."""
        if mode not in MODES:
            raise ConfigError(f"unknown mode {mode!r}; known: {', '.join(MODES)}")
        self.mode = mode

    def change(self, **settings: Any) -> None:
        """Use other values for some of its fields; then say so to the registry (`policy_changed`)."""
        for name, value in settings.items():
            setattr(self, name, value)
        self._settle()

    @property
    def asks(self) -> str:
        """The policy of approvals that holds here, whatever switches questions off."""
        return APPROVAL_POLICIES[0] if self.quiet else self.approval

    def forget(self, session_id: str | None) -> None:
        """Forget the number of calls in a session."""
        if self.limits is not None:
            self.limits.reset(session_id)

    def of(self, caller: Caller | None) -> Policy:
        """Return the policy for one caller: this one as it is now, with the stricter mode, and with the caller's rules
        added."""
        if caller is None or caller is self.caller:
            return self
        state = (
            self.mode, self.approval, self.enabled, self.yes, self.never_ask, self.ask_for, self.hooks, self.limits,
            self.rules and self.rules.rules,
        )  # fmt: skip
        known = self._of_callers.get(caller)
        if known is None or known[0] != state:
            mode = self.mode if caller.mode is None else stricter(self.mode, caller.mode)
            rules = self.rules.joined(caller.rules) if self.rules is not None and caller.rules else self.rules
            one = replace(self, mode=mode, rules=rules, caller=caller)
            if caller.asks and (asks := max(self.asks, caller.asks, key=APPROVAL_POLICIES.index)) != self.asks:
                one.change(approval=asks, enabled=True, yes=False)
            known = self._of_callers[caller] = (state, one)
        return known[1]

    # --- the steps

    def check(
        self, tool: Tool, arguments: Mapping[str, Any], ctx: ToolContext = EMPTY_CONTEXT,
        said: list[Judgement | None] | None = None,
    ) -> Check:  # fmt: skip
        """Return the verdict for this call without running it. Arguments are validated JSON data. Has no effects, never
        raises. What the tool itself says of the call is added to `said`."""
        if ctx.caller is not None and ctx.caller is not self.caller:
            return self.of(ctx.caller).check(tool, arguments, ctx, said)
        category = str(tool.category)
        if not self._serves(tool):
            return self._not_served(tool, category)
        try:
            judgement = tool.judge(arguments, ctx) if tool.judge is not None else None
            if said is not None:
                said.append(judgement)
            ruled = self.rules.match(tool, arguments, ctx) if self.rules is not None else None
            hooked = self.hooks.judge(tool, arguments, ctx) if self.hooks is not None else None
            flowing = self.flow.question(tool, arguments, ctx) if self.flow is not None else None
        except Exception as error:
            unexplained = not isinstance(error, ToolcribError | OSError)
            log.error("the check of a %s call failed: %s", tool.name, error, exc_info=unexplained)
            return Check("deny", category, None, f"the check of this call failed: {error}", 1)
        # 1: denied by a rule, a hook, the judgement of its arguments, or the mode
        for found in (ruled, hooked, judgement):
            if found is not None and found.verdict == "deny" and found.rule != MISSING:
                return Check("deny", category, found.rule, found.reason, 1)
        table = MODES[self.mode][tool.category]
        if table == "deny":
            return self._outside_mode(category)
        if judgement is not None and judgement.rule == MISSING:
            return Check("deny", category, MISSING, judgement.reason, 0)
        hosts = judgement.hosts if judgement is not None else ()
        # 2: a setting, a rule or the tool itself wants to ask
        may_ask = ruled is not None or self._may_ask or tool.needs_review is not None
        asks = list(self._asked_for(tool, ruled, category)) if may_ask else []
        if judgement is not None and judgement.insists:
            asks.append(Check("ask", category, judgement.rule, judgement.reason, 2, insists=True))
        if flowing is not None:  # first, because labels ask each time, and name the origin of a value
            asks.insert(0, Check("ask", category, flowing.rule, flowing.reason, 2))
        if hooked is not None:
            asks.append(Check("ask", category, hooked.rule, hooked.reason, 2))
        if asks:
            allowed = ruled is not None and ruled.verdict == "allow"
            if judgement is not None and judgement.verdict == "ask" and not (judgement.insists or allowed):
                # a yes for the session to one of them covers every call of the tool, but not what this one is about
                last = self._by_table(tool, judgement, table, category)
                if last.verdict == "ask" and tool.category != ToolCategory.SHELL:
                    asks = [replace(asks[0], reason=f"{asks[0].reason}; {last.reason}"), *asks[1:], last]
            return self._reaching(self._quieted(replace(asks[0], others=tuple(asks[1:]))), tool, hosts)
        # 3: allowed by a trusted rule
        if ruled is not None and ruled.verdict == "allow":
            return self._reaching(Check("allow", category, ruled.rule, ruled.reason, 3), tool, hosts)
        if judgement is not None and judgement.rule == RULE_FETCH and self._opened(tool, hosts) == hosts:
            reason = f"a rule lets commands fetch from {', '.join(hosts)}"
            return Check("allow", category, host_rule(tool.name, hosts), reason, 3, hosts=hosts)
        # 4: the command's own judgement, or the mode's table
        return self._reaching(self._by_table(tool, judgement, table, category), tool, hosts)

    def _reaching(self, check: Check, tool: Tool, hosts: tuple[str, ...]) -> Check:
        """Return the check with the hosts that a yes would open, or that rules have opened. No mode opens any."""
        if not hosts or check.verdict == "deny":
            return check
        return replace(check, hosts=hosts if check.verdict == "ask" else self._opened(tool, hosts))

    def _opened(self, tool: Tool, hosts: tuple[str, ...]) -> tuple[str, ...]:
        return self.rules.opened(tool, hosts) if self.rules is not None else ()

    def usual(self, tool: Tool) -> Check:
        """Return the usual verdict for calls of this tool, before their arguments are known: for listings."""
        category = str(tool.category)
        if not self._serves(tool):
            return self._not_served(tool, category)
        ruled = self.rules.always(tool) if self.rules is not None else None
        if ruled is not None and ruled.verdict == "deny":
            return Check("deny", category, ruled.rule, ruled.reason, 1)
        table = MODES[self.mode][tool.category]
        if table == "deny":
            return self._outside_mode(category)
        for asked in self._asked_for(tool, ruled, category):
            return self._quieted(asked)
        if ruled is not None:
            return Check("allow", category, ruled.rule, ruled.reason, 3)
        # the judge of an MCP server's tools looks at the server, not at a command
        nothing_known = tool.category == ToolCategory.SHELL and tool.judge is not None and tool.origin is None
        judgement = Judgement("ask", "depends on the command", unknown=True) if nothing_known else None
        return self._by_table(tool, judgement, table, category)

    def _outside_mode(self, category: str) -> Check:
        return Check("deny", category, f"mode:{self.mode}", f"{self.mode} mode does not run {category} tools", 1)

    def _serves(self, tool: Tool) -> bool:
        """Return whether a tool is for this caller. Those that only lead to other tools are for everybody."""
        return self.caller is None or tool.is_meta or self.caller.has(tool.every_name)

    def _not_served(self, tool: Tool, category: str) -> Check:
        name = self.caller.name if self.caller is not None else ""
        return Check("deny", category, f"caller:{name}", f"the token {name!r} is not for {tool.name}", 1)

    @property
    def _may_ask(self) -> bool:
        return bool(self.ask_for) or self.approval == "always_require"

    def _asked_for(self, tool: Tool, ruled: Judgement | None, category: str) -> Iterator[Check]:
        if tool.needs_review is not None:
            yield Check("ask", category, "doubt", tool.needs_review, 2)
        if ruled is not None and ruled.verdict == "ask":
            yield Check("ask", category, ruled.rule, ruled.reason, 2)
        if self.approval == "always_require":
            yield Check("ask", category, "approval.policy", "approval is required for every call", 2)
        names = tool.refused_as if self.ask_for else ()
        for pattern in self.ask_for:
            if matches(names, (pattern,)):
                yield Check("ask", category, f"require_for:{pattern}", f"{tool.name} is set to ask", 2)

    def _by_table(self, tool: Tool, judgement: Judgement | None, table: Verdict, category: str) -> Check:
        rule: str | None = f"mode:{self.mode}"
        if judgement is not None and judgement.rule == RULE_ALLOWED_DOMAIN:  # it covers only sending
            if tool.category == ToolCategory.NETWORK_WRITE:
                return Check("allow", category, judgement.rule, judgement.reason)
            judgement = None
        if judgement is not None and (tool.category == ToolCategory.SHELL or judgement.verdict == "ask"):
            verdict, reason, rule = judgement.verdict, judgement.reason, judgement.rule or rule
            if verdict == "ask" and judgement.unknown:
                try:
                    sandboxed = self.sandboxed()
                except ToolcribError as error:  # an approval could not make it run
                    return Check("deny", category, "sandbox:missing", str(error), 1)
                if sandboxed:
                    reason = "runs inside the sandbox, without network"
                    # a tool may say of itself that it only reads: where nothing else is allowed, it is held to that
                    wall: Wall = "read" if self.mode == "observer" else "workspace"
                    return Check("allow", category, "sandbox", reason, wall=wall)
                if judgement.wall is not None and self.would_ask:
                    reason = "runs where it can change the workspace only, without network"
                    return Check("allow", category, "wall", reason, wall=judgement.wall)
            elif verdict == "allow":
                return Check("allow", category, rule, reason, wall=judgement.wall)
        else:
            verdict = table
            reason = f"{category} tools ask in {self.mode} mode" if table == "ask" else f"{self.mode} mode allows it"
            if table == "ask" and not tool.categorized and tool.origin is not None:
                reason = f"it is a tool of the MCP server {tool.origin.server}, and what it does is not known"
            elif table == "ask" and not tool.categorized and tool.source.startswith("host:"):
                reason = f"it is a tool of {tool.source.removeprefix('host:')}, and what it does is not known"
            elif table == "ask" and not tool.categorized:
                reason = (
                    f"{tool.name} names no category, so it counts as shell and asks; give it one, "
                    'e.g. @tool(category="network_read")'
                )
        if verdict == "ask" and self.mode == "autonomous":
            return Check("allow", category, "mode:autonomous", f"autonomous mode does not ask ({reason})")
        if verdict == "ask" and self.approval == "require_for_tools" and not self.never_ask:
            return Check("allow", category, "approval.policy", f"only the tools that are named ask ({reason})")
        return self._quieted(Check(verdict, category, rule, reason))

    @property
    def would_ask(self) -> bool:
        """Return whether a question of the last step is one: it is not answered by the mode or by a setting."""
        quiet = self.quiet or self.approval == "require_for_tools"
        return self.mode != "autonomous" and (self.never_ask or not quiet)

    def _quieted(self, check: Check) -> Check:
        if check.verdict == "ask" and self.never_ask:
            reason = f"no person is asked (approval.never_ask), so questions are refused: {check.reason}"
            return Check("deny", check.category, "approval.never_ask", reason, check.step)
        if check.verdict == "ask" and self.quiet:
            return Check("allow", check.category, "approval:off", f"approvals are off ({check.reason})", check.step)
        return check

    async def _looked_at(self, request: Call) -> tuple[Check, Judgement | None]:
        """Return the check of a call and, if it is not denied, what the tool itself says of the call. A judge that may
        block runs in a thread; after a timeout the call is refused."""
        if not request.tool.judge_blocks:
            return self._look(request)
        import asyncio

        from ..core.threads import ThreadsExhausted, shared_threads

        try:
            async with asyncio.timeout(JUDGE_SECONDS):
                return await shared_threads.run(self._look, request)
        except (TimeoutError, ThreadsExhausted):
            reason = f"the check of this call took longer than {JUDGE_SECONDS:g} s; is a disk out of reach?"
            return Check("deny", str(request.tool.category), None, reason, 1), None

    def _look(self, request: Call) -> tuple[Check, Judgement | None]:
        said: list[Judgement | None] = []  # of the same moment: a link may lead elsewhere in the next one
        check = self.check(request.tool, request.arguments, request.ctx, said)
        return check, said[0] if said and check.verdict != "deny" else None

    # --- the authorizer

    def hides(self, tool: Tool) -> bool:
        """Return whether a tool must not be listed: a rule denies every call of it, or it is not for this caller."""
        if not self._serves(tool):
            return True
        found = self.rules.always(tool) if self.rules is not None else None
        return found is not None and found.verdict == "deny"

    def clears(self, tool: Tool) -> bool:
        """Return whether every call of this tool is allowed, whatever its arguments."""
        if tool.judge is not None or (self.rules is not None and self.rules.touches(tool)):
            return False
        watchers = (
            self.flow and self.flow.watches,
            self.hooks and self.hooks.touches,
            self.limits and self.limits.touches,
        )
        if any(watches is not None and watches(tool) for watches in watchers):
            return False
        return self.usual(tool).verdict == "allow"

    async def authorize(self, request: Call, approved: Grant | None = None) -> Grant | ToolOutput:
        """Return a grant, or the refusal as output. Asks the person if the verdict is ask."""
        caller = request.ctx.caller
        if caller is not None and caller is not self.caller:
            return await self.of(caller).authorize(request, approved)
        if self.limits is not None and approved is None:
            over = self.limits.count(request.tool, request.ctx)
            if over is not None:
                return ToolOutput.error(f"{request.tool.name} was not run: {over}", "denied", meta={"rule": "limits"})
        verdict, judged = await self._looked_at(request)
        if verdict.verdict == "deny":
            return await self._refused(request, verdict, approved)
        if verdict.verdict == "allow":
            if approved is not None:  # the person edited the arguments; this run uses up the approval
                return replace(
                    approved, rule=verdict.rule, reason=verdict.reason, wall=verdict.wall, hosts=verdict.hosts
                )
            starts = request.tool.category == ToolCategory.SHELL
            wall = verdict.wall or ("all" if starts else None)
            return Grant(verdict.rule, verdict.reason, wall=wall, hosts=verdict.hosts)
        if self.dry_run and not request.tool.is_read_only:  # the call is only described, so no approval is needed
            return Grant("dry_run", f"it would ask first: {verdict.reason}")
        if approved is not None:  # a person edited the arguments and approved the edited call
            self._endorse(request)
            seen = (each for each in verdict.hosts if each in approved.hosts or _names(request, each))
            return replace(approved, hosts=tuple(seen))
        if self.approval_service is None:
            text = (
                f"{request.tool.name} needs approval, and no person can be asked: {verdict.reason}. "
                "The host can pass an approver, or run in another mode."
            )
            return ToolOutput.error(text, "denied", meta={"rule": verdict.rule})
        checks = (verdict, *verdict.others)
        questions = [Question(each.reason, each.rule, each.step == 2, verdict.hosts, each.insists) for each in checks]
        granted = self.approval_service.has_granted
        # the first question that no approval for this session covers
        question = next((each for each in questions if not granted(request, each)), questions[0])
        answer = await self.approval_service.ask(request, question)
        if isinstance(answer, Grant) and answer.edited is None and answer.approver != "session":
            now, judged_now = await self._looked_at(request)  # a link may lead elsewhere since
            if now.verdict == "deny":
                return await self._refused(request, now, answer)
            if judged_now != judged:
                await self.approval_service.void(answer, request.call_id)
                reason = now.reason if now.verdict == "ask" else "it would not ask any more"
                text = (
                    f"{request.tool.name} was not run: while the question was open, what it would do has changed "
                    f"({reason}). Call it again."
                )
                return ToolOutput.error(text, "denied", meta={"rule": now.rule})
            self._endorse(request)
        return answer

    async def _refused(self, request: Call, verdict: Check, approved: Grant | None) -> ToolOutput:
        """Return the refusal of a denied call, and use up its approval: else every repetition would end here."""
        if approved is not None and self.approval_service is not None:
            await self.approval_service.void(approved, request.call_id)
        if verdict.step == 0:
            return ToolOutput.error(f"{request.tool.name} was not run: {verdict.reason}", "invalid")
        text = f"{request.tool.name} was denied: {verdict.reason}"
        return ToolOutput.error(text, "denied", meta={"rule": verdict.rule})

    def _endorse(self, request: Call) -> None:
        """Mark the values that a person saw and approved as trusted for the rest of this session."""
        if self.flow is not None:
            self.flow.endorse(request.tool, request.arguments, request.ctx.session_id)


def stricter(mode: str, other: str) -> str:
    """Return the stricter one of two modes."""
    return min(mode, other, key=list(MODES).index)


def _names(request: Call, place: str) -> bool:
    """Return whether the arguments themselves name a host, so that a person who wrote them has seen it."""
    return place.rpartition(":")[0].strip("[]") in request.canonical
