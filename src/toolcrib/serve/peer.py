"""The client at the other end of one call: what it can do, and how to put a question through it to a person.

In the handshake era (up to 2025-11-25) a question is a request from the server to the client, sent while the call
runs. In 2026-07-28 it ends the client's request; the call waits here until the client repeats it with the answer.
A tool does not notice which: it awaits `ctx.ask(question, options)`.

A tool that wants more than `ctx.ask` (a form of its own, sampling, roots) finds the `Peer` with `peer_of(ctx)`.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, cast

from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types import (
    LOG_LEVEL_META_KEY,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    CreateMessageResultWithTools,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    InputRequest,
    InputResponse,
    ListRootsRequest,
    ListRootsResult,
    LoggingMessageNotification,
    LoggingMessageNotificationParams,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from ..core.errors import ToolError
from .sanitize import sanitize_model

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp_types import ClientCapabilities

    from ..core.context import ToolContext
    from .running_call import RunningCall
    from .sanitize import Redact

METADATA_KEY = "mcp"
Capability = Literal["elicitation", "sampling", "roots"]
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""Of log messages, the least severe first (RFC 5424)."""

_ANSWERS: dict[type[Any], tuple[type[Any], ...]] = {
    ElicitRequest: (ElicitResult,),
    CreateMessageRequest: (CreateMessageResult, CreateMessageResultWithTools),
    ListRootsRequest: (ListRootsResult,),
}


_NEEDS: dict[type[Any], Capability] = {
    ElicitRequest: "elicitation",
    CreateMessageRequest: "sampling",
    ListRootsRequest: "roots",
}
_PROTOCOLS = frozenset({"progressToken"})
_OURS = ("io.modelcontextprotocol/", "toolcrib/")


def peer_of(ctx: ToolContext) -> Peer | None:
    """The MCP client behind a call; None where the call came in by another door."""
    peer = ctx.metadata.get(METADATA_KEY)
    return peer if isinstance(peer, Peer) else None


def fits(request: InputRequest, answer: object) -> bool:
    """Whether an answer is of the kind that was asked for."""
    return isinstance(answer, _ANSWERS[type(request)])


@dataclass(frozen=True, slots=True)
class FormAnswer:
    """What a person did with a form: `content` is there only if they accepted."""

    action: Literal["accept", "decline", "cancel"]
    content: Mapping[str, Any] = field(default_factory=dict[str, Any])


class Peer:
    """One call's client. `request` is the client's request that has the call's turn: a retry replaces it.

    `exact`: the request is one of the protocol's own, for a resource or a prompt; a server behind us that answers it
    leaves its answer in `delivered`, or its error in `failure`. `level` is what a session of the handshake era set.
    `redact` takes secrets out of what it is asked and told.
    """

    def __init__(
        self,
        request: ServerRequestContext[Any, Any],
        answers: Mapping[str, InputResponse] | None = None,
        *,
        exact: bool = False,
        level: str | None = None,
        redact: Redact | None = None,
    ) -> None:
        self.request = request
        self.modern = request.protocol_version in MODERN_PROTOCOL_VERSIONS
        self.running: RunningCall | None = None
        self.exact = exact
        self.delivered: dict[str, Any] | None = None
        self.failure: MCPError | None = None
        self._level = level
        self._redact = redact
        self._early = dict(answers or {})
        self._progressed = float("-inf")

    # --- who it is

    @property
    def capabilities(self) -> ClientCapabilities | None:
        """What the client declared, at the handshake or in its request."""
        return self.request.session.client_capabilities

    @property
    def name(self) -> str:
        """The client's name and version, or "unknown"."""
        params = self.request.session.client_params
        return f"{params.client_info.name} {params.client_info.version}".strip() if params else "unknown"

    @property
    def meta(self) -> Mapping[str, Any]:
        """What the client says beside its request for whoever answers it: neither the protocol's fields nor ours."""
        given = cast("Mapping[str, Any]", self.request.meta or {})
        return {key: value for key, value in given.items() if not key.startswith(_OURS) and key not in _PROTOCOLS}

    def can(self, capability: Capability) -> bool:
        """Whether the client declared a capability, and there is a way to use it now."""
        if not self.modern and not self.request.session.can_send_request:
            return False
        declared = self.capabilities
        if declared is None:
            return False
        if capability == "elicitation":  # an empty object means forms; only `url` means no forms
            mode = declared.elicitation
            return mode is not None and (mode.form is not None or mode.url is None)
        return getattr(declared, capability) is not None

    def can_answer(self, request: InputRequest) -> bool:
        """Whether the client can be asked this."""
        if isinstance(request, ElicitRequest) and isinstance(request.params, ElicitRequestURLParams):
            declared = self.capabilities
            reachable = self.modern or self.request.session.can_send_request
            return reachable and declared is not None and getattr(declared.elicitation, "url", None) is not None
        return self.can(_NEEDS[type(request)])

    def require(self, capability: Capability) -> None:
        """End the call unless the client declared a capability: in 2026-07-28 with the error made for that."""
        if self.can(capability):
            return
        if self.modern:
            needed: dict[str, Any] = {"requiredCapabilities": {capability: {}}}
            text = f"this tool needs a client with the {capability} capability"
            self.failure = MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, text, needed)
        raise ToolError(f"This tool needs a client with the {capability} capability; this one has none.")

    # --- asking

    async def ask_person(self, question: str, options: Sequence[str] = ()) -> str:
        """Put one question to the person: `ToolContext.ask`. Raises ToolError where they do not answer."""
        answer_field: dict[str, Any] = {"type": "string", "title": "Answer"}
        if options:
            answer_field["enum"] = list(options)
        schema = {"type": "object", "properties": {"answer": answer_field}, "required": ["answer"]}
        # a key that nobody can guess: this question is never answered before it was asked
        form = await self.elicit(question, schema, key=f"question_{secrets.token_hex(6)}")
        if form.action != "accept":
            raise ToolError(f"The person did not answer ({form.action}): {question}")
        answer = form.content.get("answer")
        if not isinstance(answer, str) or (options and answer not in options):
            raise ToolError(f"The answer to {question!r} was not one of: {', '.join(options) or 'a text'}")
        return answer

    async def elicit(self, message: str, schema: Mapping[str, Any], key: str = "form") -> FormAnswer:
        """Show a form (a flat JSON Schema) to the person. Raises ToolError where the client cannot."""
        answers = await self.exchange({key: form_request(message, schema)})
        result = answers[key]
        assert isinstance(result, ElicitResult)
        return FormAnswer(result.action, result.content or {})

    async def sample(self, params: CreateMessageRequestParams, key: str = "sampling") -> CreateMessageResult:
        """Let the client's model write a message. Raises ToolError where the client cannot."""
        answer = (await self.exchange({key: CreateMessageRequest(params=params)}))[key]
        if not isinstance(answer, CreateMessageResult):
            raise ToolError("the client's model answered with a tool call, not a message")
        return answer

    async def roots(self, key: str = "roots") -> ListRootsResult:
        """The folders that the client works in. Raises ToolError where the client cannot."""
        answer = (await self.exchange({key: ListRootsRequest()}))[key]
        assert isinstance(answer, ListRootsResult)
        return answer

    async def exchange(self, requests: Mapping[str, InputRequest]) -> dict[str, InputResponse]:
        """Send several requests at once and wait for all answers; keys are the caller's own, and stable."""
        for request in requests.values():
            if not self.can_answer(request):
                self.require(_NEEDS[type(request)])
                raise ToolError("This tool needs a client that can open pages for its person; this one cannot.")
        requests = {key: sanitize_model(each, self._redact) for key, each in requests.items()}
        if not self.modern:
            return {key: await self._send(_with_id(request)) for key, request in requests.items()}
        if all(fits(request, self._early.get(key)) for key, request in requests.items()):
            return {key: self._early.pop(key) for key in requests}
        assert self.running is not None
        answers = await self.running.ask(dict(requests))
        return {key: answers[key] for key in requests}

    async def _send(self, request: InputRequest) -> InputResponse:
        """One request from server to client; on HTTP it rides the response stream of the call that asks."""
        kinds = _ANSWERS[type(request)]
        tools = isinstance(request, CreateMessageRequest) and request.params.tools is not None
        result_type: Any = kinds[-1] if tools else kinds[0]
        related = ServerMessageMetadata(related_request_id=self.request.request_id)
        try:
            return await self.request.session.send_request(request, result_type, metadata=related)
        except MCPError as error:
            raise ToolError(f"the client could not be asked: {error}") from error

    # --- telling

    @property
    def log_level(self) -> str | None:
        """The least severe log messages that the client wants with this request; None for none. A session of the
        handshake era that set no level gets all, as from the SDK's own servers."""
        if not self.modern:
            return self._level or LEVELS[0]
        level = cast("Mapping[str, Any]", self.request.meta or {}).get(LOG_LEVEL_META_KEY)
        return level if level in LEVELS else None

    async def log(self, params: LoggingMessageNotificationParams) -> None:
        """Tell the client a log message that belongs to this request, if it wants such."""
        if wants(self.log_level, params.level):
            note = LoggingMessageNotification(params=sanitize_model(params, self._redact))
            await self.request.session.send_notification(note, related_request_id=self.request.request_id)

    async def progress(self, done: float, total: float | None, message: str | None) -> None:
        """Report progress to the client, if it gave a token. MCP wants values that increase: others are dropped."""
        if done > self._progressed:
            self._progressed = done
            await self.request.session.report_progress(done, total, message)


def _with_id(request: InputRequest) -> InputRequest:
    """In the handshake era a page to visit has an id, which a server of 2026-07-28 does not give it."""
    params = request.params
    if not isinstance(params, ElicitRequestURLParams) or params.elicitation_id:
        return request
    named = params.model_copy(update={"elicitation_id": secrets.token_hex(8)})
    return ElicitRequest(params=named)


def wants(least: str | None, level: str) -> bool:
    """Whether a message of a level is wanted where `least` is the least severe one."""
    return least is not None and LEVELS.index(level) >= LEVELS.index(least)


def form_request(message: str, schema: Mapping[str, Any]) -> ElicitRequest:
    """An elicitation with a form."""
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=dict(schema)))
