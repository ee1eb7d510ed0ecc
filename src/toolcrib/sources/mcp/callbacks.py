"""Requests and notifications of a server: each goes to the client or person of the call that it belongs to.

A server of the handshake era sends its own requests while a call runs. A server of 2026-07-28 answers a call with
its questions. Both end in `answers`. A person who cannot be asked has not agreed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

import mcp_types
from mcp.client import ClientRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import CLIENT_CAPABILITIES_META_KEY, LOG_LEVEL_META_KEY

from ...core.bound import LONG, are_long, safe
from ...core.errors import ToolError
from . import server_questions
from .client_services import ClientServices
from .config import ServerConfig
from .downstream import Downstream, downstream_of
from .inflight import CallsInFlight, InFlight, current_call
from .relay import ContentChanged, ListKind, Relay, ResourceChanged, ServerLogged, ServerNotified

Answers = dict[str, mcp_types.InputResponse]
MAX_QUESTIONS = 100
"""How many questions of one call are passed on: a person cannot answer more, and their client may not stop them."""
NOBODY = "there is no person here who could be asked"


class Callbacks:
    """The callbacks for one connection to one server.

    `opener` is the client that the connection is made for; `alone(opener)` says if no other session uses it now.
    `list_changed` is called when the server says that one of its lists has changed.
    """

    def __init__(
        self,
        config: ServerConfig,
        services: ClientServices,
        relay: Relay,
        list_changed: Callable[[ListKind], None],
        opener: Downstream | None = None,
        alone: Callable[[Downstream], bool] = lambda _: True,
    ) -> None:
        self._config, self._services, self._relay, self._list_changed = config, services, relay, list_changed
        self._opener, self._alone = opener, alone
        self.questions = 0
        """How many questions it has asked before the first call."""
        self.calls = CallsInFlight()
        # as a gateway we declare the capability, because our clients may have it; if one does not, only its call fails
        gateway = relay.on or relay.expected
        self.sampling = self._sample if gateway else None
        self.roots = self._roots if config.roots or (config.roots is None and gateway) else None

    @property
    def busy(self) -> bool:
        """Whether a call is running."""
        return bool(self.calls.running)

    # --- notifications of the server

    def changed(self, kind: ListKind) -> None:
        """Handle a change of one of its lists."""
        self._list_changed(kind)
        if kind != "tools":
            self._relay.tell(ContentChanged(self._config.name, kind))

    def updated(self, uri: str) -> None:
        """Announce that a resource has changed."""
        self._relay.tell(ResourceChanged(self._config.name, uri))

    def completed(self, notification: mcp_types.ElicitCompleteNotification) -> None:
        """Announce that a page visit that it asked for is complete."""
        self._relay.tell(ServerNotified(self._config.name, notification))

    async def logged(self, params: mcp_types.LoggingMessageNotificationParams) -> None:
        """Send a log message to the client whose call produced it.

        A message that belongs to no call goes to every session. A message that may belong to calls of several
        clients is dropped.
        """
        if are_long([params.data, params.logger]):  # to look for secrets in it would hold up everything else
            left_out = f"(a log message of more than {LONG:,} characters was left out)"
            params = params.model_copy(update={"data": left_out, "logger": None})
        mine = self.calls.asked()
        client = downstream_of(mine.ctx) if mine is not None else None
        if mine is not None and client is not None:
            await mine.tell(lambda: client.log(params))
        elif mine is None and not self.busy:
            self._relay.tell(ServerLogged(self._config.name, params))

    # --- requests of the server

    async def elicitation(
        self, context: ClientRequestContext, params: mcp_types.ElicitRequestParams
    ) -> mcp_types.ElicitResult | mcp_types.ErrorData:
        """Answer a request for a form, or for a page to visit."""
        return await self._one(mcp_types.ElicitRequest(params=params))

    async def _sample(self, context: ClientRequestContext, params: mcp_types.CreateMessageRequestParams) -> Any:
        return await self._one(mcp_types.CreateMessageRequest(params=params))

    async def _roots(self, context: ClientRequestContext) -> Any:
        return await self._one(mcp_types.ListRootsRequest())

    async def _one(self, request: mcp_types.InputRequest) -> Any:
        """Answer a request of the handshake era, which does not say which call it belongs to."""
        try:
            if isinstance(request, mcp_types.ListRootsRequest):
                mine = self.calls.of_one_session()
            else:
                mine = await self.calls.asker()
            return (await self.answers({"question": request}, mine))["question"]
        except MCPError as error:
            return error.error
        except ToolError as error:
            return mcp_types.ErrorData(code=mcp_types.INVALID_REQUEST, message=str(error))

    async def answers(self, requests: Mapping[str, mcp_types.InputRequest], mine: InFlight | None) -> Answers:
        """Return the answers to all questions that a server asks at once, by its keys.

        Raises MCPError or ToolError if a question cannot be answered.
        """
        client = downstream_of(mine.ctx) if mine is not None else self._asked_at_once()
        asking = mine if mine is not None else self
        if mine is not None or client is not None:
            asking.questions += len(requests)
            if asking.questions > MAX_QUESTIONS:
                raise ToolError(f"a server may ask {MAX_QUESTIONS} questions during one call; this is one more")
        shown = {key: self._signed(request) for key, request in requests.items()}
        theirs = {key: each for key, each in shown.items() if client is not None and client.can_answer(each)}
        with mine.waiting() if mine is not None else nullcontext():
            found: Answers = await client.exchange(theirs) if client is not None and theirs else {}
            for key, request in requests.items():  # one after the other, because they go to one person
                if key not in found:
                    found[key] = await self._ours(request, mine)
        return found

    def _asked_at_once(self) -> Downstream | None:
        """Return the client that answers questions without a call: the one that the connection was made for, during the
        request that made it, if no other session uses the server meanwhile."""
        who = self._opener
        return who if who is not None and not who.modern and not self.busy and self._alone(who) else None

    def _signed(self, request: mcp_types.InputRequest) -> mcp_types.InputRequest:
        """Add the server's name to a question, so that it cannot look like one of ours. Raises ToolError for an address
        that is not of the web. The model gets no context of the client: to it, we and all servers behind us are one."""
        if isinstance(request, mcp_types.CreateMessageRequest):
            alone = request.params.model_copy(update={"include_context": "none"})
            return request.model_copy(update={"params": alone}) if request.params.include_context else request
        if not isinstance(request, mcp_types.ElicitRequest):
            return request
        params = request.params
        if isinstance(params, mcp_types.ElicitRequestURLParams) and not server_questions.is_web_page(params.url):
            raise ToolError("a server may ask a person to open plain http and https addresses only")
        shown: dict[str, Any] = {"message": server_questions.signed(self._config.name, params.message)}
        if isinstance(params, mcp_types.ElicitRequestFormParams):
            shown["requested_schema"] = server_questions.labelled(params.requested_schema)
        return request.model_copy(update={"params": params.model_copy(update=shown)})

    async def _ours(self, request: mcp_types.InputRequest, mine: InFlight | None) -> mcp_types.InputResponse:
        match request:
            case mcp_types.ElicitRequest(params=params):
                ask = mine.ctx.ask if mine is not None else None
                return await server_questions.answer(params, self._config.name, ask)
            case mcp_types.CreateMessageRequest():
                self._lacking(mine, "sampling")
                raise MCPError(mcp_types.INVALID_REQUEST, f"Sampling: {NOBODY} with a model")
            case mcp_types.ListRootsRequest():
                if not self._config.roots:
                    self._lacking(mine, "roots")
                    raise MCPError(
                        mcp_types.INVALID_REQUEST, "this server does not get the roots (mcp_servers.NAME.roots)"
                    )
                root: Any = self._services.workspace.as_uri()
                return mcp_types.ListRootsResult(roots=[mcp_types.Root(uri=root, name="workspace")])

    def _lacking(self, mine: InFlight | None, capability: str) -> None:
        """Store the error that names the missing capability, for a client of 2026-07-28 in case the call fails."""
        client = downstream_of(mine.ctx) if mine is not None else None
        if client is not None and client.modern:
            text = f"this needs a client with the {capability} capability"
            needed: dict[str, Any] = {"requiredCapabilities": {capability: {}}}
            client.failure = MCPError(mcp_types.MISSING_REQUIRED_CLIENT_CAPABILITY, text, needed)

    # --- metadata about the downstream client in our requests (2026-07-28)

    def stamp(self, params: dict[str, Any]) -> None:
        """Declare the capabilities of the running call's client instead of ours."""
        mine = current_call.get()
        client = downstream_of(mine.ctx) if mine is not None else None
        if client is None:
            return
        meta: dict[str, Any] = params.setdefault("_meta", {})
        can: dict[str, Any] = {}
        declared = client.capabilities
        if declared is not None:
            said = declared.model_dump(by_alias=True, mode="json", exclude_none=True)
            can = {key: said[key] for key in ("elicitation", "sampling", "roots") if key in said}
        if self._config.roots is False:
            can.pop("roots", None)
        if self._config.roots:
            can.setdefault("roots", {})
        meta[CLIENT_CAPABILITIES_META_KEY] = can
        if (level := client.log_level) is not None:
            meta[LOG_LEVEL_META_KEY] = safe(level)
