"""The client at the other end of one call: its capabilities, and questions to a person through it.

In the handshake era (up to 2025-11-25) a question is a request from the server to the client, sent while the call
runs. In 2026-07-28 a question ends the client's request; the call waits here until the client repeats the request
with the answer. For a tool both are the same: it awaits `ctx.ask(question, options)`.

A tool that needs more than `ctx.ask` (its own form, sampling, roots) gets the `Peer` from `peer_of(ctx)`.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Literal, cast

import mcp_types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types import CreateMessageResult, CreateMessageResultWithTools, ElicitRequest, ElicitRequestURLParams
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from ..core.bound import clean_id
from ..core.caller import Caller
from ..core.context import ToolContext
from ..core.dataclass import dataclass
from ..core.errors import ToolError
from ..core.threads import shared_threads
from ..sources.mcp.sdk_private import connection_of
from .defaults import CALLER
from .running_call import RunningCall
from .sanitize import Redact, sanitize_model

METADATA_KEY = "mcp"
Capability = Literal["elicitation", "sampling", "roots"]
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""The levels of log messages, the least severe first (RFC 5424)."""

_REQUESTS: dict[type[Any], tuple[Capability, tuple[type[Any], ...]]] = {
    ElicitRequest: ("elicitation", (mcp_types.ElicitResult,)),
    mcp_types.CreateMessageRequest: ("sampling", (CreateMessageResult, CreateMessageResultWithTools)),
    mcp_types.ListRootsRequest: ("roots", (mcp_types.ListRootsResult,)),
}
"""For each request to a client, the capability that it needs and the types of its answer."""
_PROTOCOLS = frozenset({"progressToken"})
_OURS = ("io.modelcontextprotocol/", "toolcrib/")


def peer_of(ctx: ToolContext) -> Peer | None:
    """Return the MCP client behind a call; None if the call did not come through MCP."""
    peer = ctx.metadata.get(METADATA_KEY)
    return peer if isinstance(peer, Peer) else None


def caller_of(request: ServerRequestContext[Any, Any]) -> Caller | None:
    """Return the caller of a request with a named token."""
    return None if request.request is None else request.request.scope.get(CALLER)


def fits(request: mcp_types.InputRequest, answer: object) -> bool:
    """Whether an answer has the type that the request asked for."""
    return isinstance(answer, _REQUESTS[type(request)][1])


@dataclass(frozen=True, slots=True)
class FormAnswer:
    """A person's answer to a form. `content` is set only if they accepted."""

    action: Literal["accept", "decline", "cancel"]
    content: Mapping[str, Any] = field(default_factory=dict[str, Any])


class Peer:
    """The client of one call. `request` is the client's request that currently carries the call; a retry replaces it.

    `exact`: the request is one of the protocol's own, for a resource or a prompt. The server behind us that answers
    it stores its answer in `delivered`, or its error in `failure`. `level` is the log level that a handshake-era
    session set. `redact` removes secrets from questions and messages to the client.
    """

    def __init__(
        self,
        request: ServerRequestContext[Any, Any],
        answers: Mapping[str, mcp_types.InputResponse] | None = None,
        *,
        exact: bool = False,
        level: str | None = None,
        redact: Redact | None = None,
    ) -> None:
        self.request = request
        self.caller = caller_of(request)
        self.modern = request.protocol_version in MODERN_PROTOCOL_VERSIONS
        self.running: RunningCall | None = None
        self.exact = exact
        self.delivered: dict[str, Any] | None = None
        self.failure: MCPError | None = None
        self._level = level
        self._redact = redact
        self._early = dict(answers or {})
        self._progressed = float("-inf")

    # --- identity

    @property
    def capabilities(self) -> mcp_types.ClientCapabilities | None:
        """The capabilities that the client declared, at the handshake or in its request."""
        return self.request.session.client_capabilities

    @property
    def session(self) -> int:
        """Which session of the handshake era it is, among those that are open."""
        return id(connection_of(self.request))

    @property
    def name(self) -> str:
        """The client's name and version, or "unknown"; without secrets, and not too long to be kept."""
        params = self.request.session.client_params
        name = f"{params.client_info.name} {params.client_info.version}".strip() if params else "unknown"
        return clean_id(name, self._redact)

    @property
    def meta(self) -> Mapping[str, Any]:
        """The metadata that the client sends for the final receiver, without the protocol's fields and our fields."""
        given = cast("Mapping[str, Any]", self.request.meta or {})
        return {key: value for key, value in given.items() if not key.startswith(_OURS) and key not in _PROTOCOLS}

    @property
    def _usable(self) -> mcp_types.ClientCapabilities | None:
        """The declared capabilities, if the client can be asked now."""
        return self.capabilities if self.modern or self.request.session.can_send_request else None

    def can(self, capability: Capability) -> bool:
        """Whether the client declared a capability and it can be used now."""
        declared = self._usable
        if declared is None:
            return False
        if capability == "elicitation":  # an empty object means forms; only `url` means no forms
            mode = declared.elicitation
            return mode is not None and (mode.form is not None or mode.url is None)
        return getattr(declared, capability) is not None

    def can_answer(self, request: mcp_types.InputRequest) -> bool:
        """Whether this request can be sent to the client."""
        if isinstance(request, ElicitRequest) and isinstance(request.params, ElicitRequestURLParams):
            declared = self._usable
            return declared is not None and getattr(declared.elicitation, "url", None) is not None
        return self.can(_REQUESTS[type(request)][0])

    def require(self, capability: Capability) -> None:
        """Check that the client declared a capability.

        Raises ToolError if not; in 2026-07-28 it also stores the protocol's error for this case in `failure`.
        """
        if self.can(capability):
            return
        if self.modern:
            needed: dict[str, Any] = {"requiredCapabilities": {capability: {}}}
            text = f"this tool needs a client with the {capability} capability"
            self.failure = MCPError(mcp_types.MISSING_REQUIRED_CLIENT_CAPABILITY, text, needed)
        raise ToolError(f"This tool needs a client with the {capability} capability; this one has none.")

    # --- asking

    async def ask_person(self, question: str, options: Sequence[str] = ()) -> str:
        """Ask the person one question; this is `ToolContext.ask`. Raises ToolError if they do not answer."""
        answer_field: dict[str, Any] = {"type": "string", "title": "Answer"}
        if options:
            answer_field["enum"] = list(options)
        schema = {"type": "object", "properties": {"answer": answer_field}, "required": ["answer"]}
        # a key that cannot be guessed: no answer can exist before the question was asked
        form = await self.elicit(question, schema, key=f"question_{secrets.token_hex(6)}")
        if form.action != "accept":
            raise ToolError(f"The person did not answer ({form.action}): {question}")
        answer = form.content.get("answer")
        if not isinstance(answer, str) or (options and answer not in options):
            raise ToolError(f"The answer to {question!r} was not one of: {', '.join(options) or 'a text'}")
        return answer

    async def elicit(self, message: str, schema: Mapping[str, Any], key: str = "form") -> FormAnswer:
        """Show a form (a flat JSON Schema) to the person. Raises ToolError if the client cannot."""
        answers = await self.exchange({key: form_request(message, schema)})
        result = answers[key]
        assert isinstance(result, mcp_types.ElicitResult)
        return FormAnswer(result.action, result.content or {})

    async def sample(self, params: mcp_types.CreateMessageRequestParams, key: str = "sampling") -> CreateMessageResult:
        """Let the client's model write a message. Raises ToolError if the client cannot."""
        answer = (await self.exchange({key: mcp_types.CreateMessageRequest(params=params)}))[key]
        if not isinstance(answer, CreateMessageResult):
            raise ToolError("the client's model answered with a tool call, not a message")
        return answer

    async def roots(self, key: str = "roots") -> mcp_types.ListRootsResult:
        """Return the folders that the client works in. Raises ToolError if the client cannot."""
        answer = (await self.exchange({key: mcp_types.ListRootsRequest()}))[key]
        assert isinstance(answer, mcp_types.ListRootsResult)
        return answer

    async def exchange(self, requests: Mapping[str, mcp_types.InputRequest]) -> dict[str, mcp_types.InputResponse]:
        """Send several requests at once and wait for all answers.

        The caller chooses the keys, which must be stable. Raises ToolError if the client cannot answer.
        """
        for request in requests.values():
            if not self.can_answer(request):
                self.require(_REQUESTS[type(request)][0])
                raise ToolError("This tool needs a client that can open pages for its person; this one cannot.")
        requests = {key: await shared_threads.run(sanitize_model, each, self._redact) for key, each in requests.items()}
        if not self.modern:
            return {key: await self._send(_with_id(request)) for key, request in requests.items()}
        if all(fits(request, self._early.get(key)) for key, request in requests.items()):
            return {key: self._early.pop(key) for key in requests}
        assert self.running is not None
        answers = await self.running.ask(dict(requests))
        return {key: answers[key] for key in requests}

    async def _send(self, request: mcp_types.InputRequest) -> mcp_types.InputResponse:
        """Send one request from server to client. On HTTP it travels in the response stream of the call that asks."""
        _, kinds = _REQUESTS[type(request)]
        tools = isinstance(request, mcp_types.CreateMessageRequest) and request.params.tools is not None
        result_type: Any = kinds[-1] if tools else kinds[0]
        related = ServerMessageMetadata(related_request_id=self.request.request_id)
        try:
            return await self.request.session.send_request(request, result_type, metadata=related)
        except MCPError as error:
            raise ToolError(f"the client could not be asked: {error}") from error
        except ValidationError as error:
            if isinstance(request, ElicitRequest):
                return mcp_types.ElicitResult(action="cancel")
            raise ToolError("the answer of the client does not have the form of the protocol") from error

    # --- notifications

    @property
    def log_level(self) -> str | None:
        """The least severe level of log messages that the client wants with this request; None if it wants no logs.

        A handshake-era session that set no level gets all, like from the SDK's own servers.
        """
        if not self.modern:
            return self._level or LEVELS[0]
        level = cast("Mapping[str, Any]", self.request.meta or {}).get(mcp_types.LOG_LEVEL_META_KEY)
        return level if level in LEVELS else None

    async def log(self, params: mcp_types.LoggingMessageNotificationParams) -> None:
        """Send the client a log message of this request, if it wants messages of that level."""
        if wants(self.log_level, params.level):
            note = mcp_types.LoggingMessageNotification(params=sanitize_model(params, self._redact))
            await self.request.session.send_notification(note, related_request_id=self.request.request_id)

    async def progress(self, done: float, total: float | None, message: str | None) -> None:
        """Report progress to the client, if it gave a token.

        MCP requires increasing values; other values are dropped.
        """
        if done > self._progressed:
            self._progressed = done
            await self.request.session.report_progress(done, total, message)


def _with_id(request: mcp_types.InputRequest) -> mcp_types.InputRequest:
    """Add an id to a page to visit. The handshake era requires it; a server of 2026-07-28 does not send one."""
    params = request.params
    if not isinstance(params, ElicitRequestURLParams) or params.elicitation_id:
        return request
    named = params.model_copy(update={"elicitation_id": secrets.token_hex(8)})
    return ElicitRequest(params=named)


def wants(least: str | None, level: str) -> bool:
    """Whether a message of this level is wanted if `least` is the least severe wanted level."""
    return least is not None and LEVELS.index(level) >= LEVELS.index(least)


def form_request(message: str, schema: Mapping[str, Any]) -> ElicitRequest:
    """Return an elicitation request with a form."""
    return ElicitRequest(params=mcp_types.ElicitRequestFormParams(message=message, requested_schema=dict(schema)))
