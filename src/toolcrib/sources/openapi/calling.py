"""Convert an operation and its values to a request through the address guard, and the answer to an output.

The address is fixed: scheme, host and port are always those of the base address, for all values. A value in the
path is percent-encoded and cannot change other parts of the path. Redirects to another origin are refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field
from typing import Any, cast
from urllib.parse import quote, urlencode

from ...boundary.network.exchange import ExchangeLimits, WebRequest, exchange
from ...boundary.network.url import Target
from ...builtin.outgoing import OutgoingRequests
from ...builtin.response_bodies import response
from ...core.context import ToolContext
from ...core.dataclass import dataclass
from ...core.errors import ToolError
from ...core.output import ToolOutput
from ...core.tool import Tool
from ...core.verdict import Judgement
from ...policy.addresses import UrlJudge
from .api_operations import IN_PATH, Operation, Parameter

MAX_BYTES = 512 * 1024
READING = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(frozen=True, slots=True)
class Api:
    """One API.

    `headers` may contain `${secret:NAME}`, which `requests` replaces. They are sent only to the base address.
    """

    name: str
    base_url: str
    requests: OutgoingRequests
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    seconds: float = 30.0


@dataclass(frozen=True, slots=True)
class OperationWork:
    """One operation of an API, run as a tool."""

    operation: Operation
    api: Api

    async def execute(self, args: dict[str, Any], /, ctx: ToolContext) -> ToolOutput:
        """Send the request and return the answer.

        Raises ToolError if a value does not fit or a redirect leaves the API.
        """
        plain, data = request_of(self.operation, self.api.base_url, args)
        private = await self._private()
        ours = {name.lower() for name in private}
        given = {name: value for name, value in plain.headers.items() if name.lower() not in ours}
        headers = {"User-Agent": self.api.requests.user_agent, "Accept": "application/json, */*;q=0.5", **given}
        guard = self.api.requests.guard()
        base = guard.target(self.api.base_url)

        def hop(target: Target) -> None:
            if (target.scheme, target.host, target.port) != (base.scheme, base.host, base.port):
                raise ToolError(f"{base.authority} redirects to {target.authority}, which is not its API: not followed")

        answer = await exchange(
            guard, WebRequest(self.operation.method, plain.url, headers, private, data),
            ExchangeLimits(MAX_BYTES, self.api.seconds), hop,
        )  # fmt: skip
        text = response(answer, self.operation.method).for_llm
        return ToolOutput(text) if answer.status < 400 else ToolOutput.error(text)

    async def _private(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for name, value in self.api.headers.items():
            if "${secret:" in value:
                value = await self.api.requests.with_secrets(value, f"openapi:{self.api.name}")
            found[name] = _header(name, value)
        return found

    def judge(self, args: Mapping[str, Any], ctx: ToolContext) -> Judgement | None:
        """Return the judgement of the address, as for the web tools."""
        try:
            url = request_of(self.operation, self.api.base_url, args)[0].url
        except ToolError as error:
            return Judgement("deny", str(error), "openapi:value")
        return UrlJudge(self.api.requests.guard)({"url": url}, ctx)

    def preview(self, args: Mapping[str, Any], ctx: ToolContext) -> str:
        """Return the request line, the headers that the call chose, and the body."""
        from ...policy.preview import short

        plain, data = request_of(self.operation, self.api.base_url, args)
        headers = (f"{name}: {value}" for name, value in plain.headers.items())
        lines = (f"{self.operation.method} {plain.url}", *headers, data.decode("utf-8", "replace"))
        return short("\n".join(lines).strip())


def operation_tool(operation: Operation, api: Api, name: str, category: str | None = None) -> Tool:
    """Return the tool. Reading methods read the network and the others write it, unless `category` says otherwise."""
    work = OperationWork(operation, api)
    reads = operation.method in READING
    return Tool.from_schema(
        name, operation.description, operation.schema, work.execute,
        category=category or ("network_read" if reads else "network_write"), source=f"openapi:{api.name}",
        destructive=operation.method == "DELETE", idempotent=operation.method in (*READING, "PUT", "DELETE"),
        open_world=True, timeout=api.seconds + 10, judge=work.judge, preview=work.preview,
        max_output=2 * MAX_BYTES,
    )  # fmt: skip


def request_of(operation: Operation, base_url: str, args: Mapping[str, Any]) -> tuple[WebRequest, bytes]:
    """Return the request without secrets, and its body. Raises ToolError if a value does not fit into it."""
    path = operation.path
    query: list[tuple[str, str]] = []
    headers: dict[str, str] = {}
    values: dict[str, str] = {}
    for parameter in operation.parameters:
        if args.get(parameter.key) is None:
            continue
        value = args[parameter.key]
        if parameter.place == "path":
            values[parameter.name] = _in_path(parameter.key, value)
        elif parameter.place == "query":
            query += _in_query(parameter, value)
        else:
            headers[parameter.name] = _header(parameter.name, _plain(value))
    path = IN_PATH.sub(lambda found: _value(found[1], values), path)
    data = b""
    if operation.encoding is not None and operation.body in args:
        data = _body(operation.encoding, args[operation.body])
        headers["Content-Type"] = operation.encoding
    url = base_url.rstrip("/") + path
    return WebRequest(operation.method, f"{url}?{_encoded(query)}" if query else url, headers), data


def _value(name: str, values: Mapping[str, str]) -> str:
    if name not in values:
        raise ToolError(f"{name} is missing, and the path needs it")
    return values[name]


def _in_path(key: str, value: Any) -> str:
    """Return the value percent-encoded. `..`, and text that a lenient server could read as `..`, is refused."""
    text = ",".join(_plain(each) for each in cast("list[Any]", value)) if isinstance(value, list) else _plain(value)
    if not text:
        raise ToolError(f"{key} is empty, and would leave its place in the path")
    if any(part in (".", "..") for part in text.replace("\\", "/").split("/")):
        raise ToolError(f"{key} has a part '.' or '..', which would leave its place in the path")
    return quote(_utf8(key, text), safe="")


def _in_query(parameter: Parameter, value: Any) -> list[tuple[str, str]]:
    name = parameter.name
    if parameter.as_json:
        return [(name, json.dumps(value, ensure_ascii=False))]
    if isinstance(value, list):
        items = [_plain(each) for each in cast("list[Any]", value)]
        return [(name, item) for item in items] if parameter.explode else [(name, ",".join(items))]
    if isinstance(value, dict):
        pairs = [(key, _plain(each)) for key, each in cast("dict[str, Any]", value).items()]
        if parameter.deep:
            return [(f"{name}[{key}]", text) for key, text in pairs]
        return pairs if parameter.explode else [(name, ",".join(part for pair in pairs for part in pair))]
    return [(name, _plain(value))]


def _body(encoding: str, value: Any) -> bytes:
    if encoding.startswith("application/x-www-form-urlencoded") and isinstance(value, dict):
        return _encoded([(key, _plain(each)) for key, each in cast("dict[str, Any]", value).items()]).encode()
    plain = encoding.partition(";")[0].strip().lower()
    if plain == "application/json" or plain.endswith("+json"):
        return json.dumps(value).encode()
    return _utf8("body", _plain(value))


def _encoded(pairs: list[tuple[str, str]]) -> str:
    return urlencode([(_utf8(key, key), _utf8(key, value)) for key, value in pairs], quote_via=quote)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _utf8(key: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ToolError(f"{key[:100]!a} has half of a surrogate pair, which is not valid text") from None


def _header(name: str, value: str) -> str:
    if not value.isascii() or not all(c.isprintable() or c == "\t" for c in value):
        raise ToolError(f"the header {name} has characters that no header can have (line breaks, non-ASCII)")
    return value
