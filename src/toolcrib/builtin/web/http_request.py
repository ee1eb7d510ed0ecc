"""The tool `http_request`: it sends requests with any method, but only to allowed domains."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from ...boundary.network.exchange import ExchangeLimits, WebRequest, exchange
from ...core.context import ToolContext
from ...core.errors import AddressRefused, ToolError
from ...core.output import ToolOutput
from ...core.text import lazy_regex
from ...core.tool import Tool, tool
from ...core.verdict import Judgement
from ...policy.addresses import RULE_ALLOWED_DOMAIN, UrlJudge
from ..outgoing import OutgoingRequests, Url
from ..settings import HttpSettings

if TYPE_CHECKING:
    from ...boundary.network.host_names import Host
    from ...boundary.network.url import Target

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]

MAX_HEADERS = 50
RULE = "tools.http_request.allowed_domains"

# Headers that the connection itself sets. A request with other values could be read in two ways (RFC 9110 §7.6.1).
OURS = frozenset(
    {
        "host", "content-length", "connection", "keep-alive", "proxy-connection", "proxy-authenticate",
        "proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade", "expect", "accept-encoding",
    }
)  # fmt: skip
# Headers that authenticate the sender. Only a granted secret may set them.
CREDENTIALS = frozenset({"authorization", "cookie", "set-cookie", "x-api-key", "api-key", "x-auth-token"})
# Headers that name the sender, or another method or address than the request's. Servers behind a proxy believe them.
FORGERIES = lazy_regex(
    r"forwarded|via|x-forwarded-.*|x-real-ip|x-original-url|x-rewrite-url|x-http-method|x-(http-)?method-override"
)

_NAME = lazy_regex(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
_VALUE = lazy_regex(r"[\t\x20-\x7e]*")
_SECRET = lazy_regex(r"\$\{secret:[^}\s]{1,200}\}")


class HttpRequestTool:
    """The tool `http_request`."""

    def __init__(self, outgoing: OutgoingRequests, settings: HttpSettings | None = None) -> None:
        self._outgoing = outgoing
        self._settings = settings or HttpSettings()
        self._judge = DomainJudge(outgoing, self._settings.allowed_domains)

    def tool(self) -> Tool:
        """Return the tool, ready to register."""
        return tool(
            self.http_request,
            category="network_write",
            open_world=True,
            destructive=True,
            judge=self._judge,
            timeout=self._settings.timeout + 10,
            max_output=max(50_000, 2 * self._settings.max_response_bytes),
        )

    async def http_request(
        self,
        method: Method,
        url: Url,
        headers: dict[str, str] | None = None,
        body: str | None = None,
        *,
        ctx: ToolContext,
    ) -> ToolOutput:
        """Send an HTTP request to an allowed domain. Answers with `Status: N` and the body.

        Args:
            method: GET, POST, PUT, PATCH or DELETE.
            url: Address, http or https.
            headers: Headers; ${secret:NAME} in a value stands for a granted secret.
            body: Text to send; without a Content-Type header it counts as JSON.
        """
        plain, private, left_out = await self._headers(headers or {})
        data = (body or "").encode("utf-8", "replace")
        names = {name.lower() for name in plain}
        if data and "content-type" not in names:
            plain["Content-Type"] = "application/json"
        if "user-agent" not in names:
            plain["User-Agent"] = self._outgoing.user_agent
        arguments = {"method": method, "url": url, "headers": headers, "body": body}
        judge = self._outgoing.hop("http_request", arguments, ctx)

        def hop(target: Target) -> Any:
            self._judge.refuse_domain(target.host)
            return judge(target)

        answer = await exchange(
            self._outgoing.guard(),
            WebRequest(method, url, plain, private, data),
            ExchangeLimits(self._settings.max_response_bytes, self._settings.timeout),
            hop,
        )
        from ..response_bodies import response

        return response(answer, method, left_out)

    async def _headers(self, given: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str], list[str]]:
        """Return the headers for every server, those with secrets for the first server only, and the dropped names."""
        if len(given) > MAX_HEADERS:
            raise ToolError(f"{len(given)} headers are too many; {MAX_HEADERS} are possible")
        plain: dict[str, str] = {}
        private: dict[str, str] = {}
        left_out: list[str] = []
        for name, value in given.items():
            if not _NAME.fullmatch(name):
                raise ToolError(f"{name[:100]!a} is not a header name")
            low = name.lower().replace("_", "-")  # CGI and WSGI read them as one
            secret = _SECRET.search(value) is not None
            if low in OURS or FORGERIES.fullmatch(low) or (low in CREDENTIALS and not secret):
                left_out.append(name)
                continue
            whole = await self._outgoing.with_secrets(value, "http_request") if secret else value
            if not _VALUE.fullmatch(whole):
                raise ToolError(f"the header {name} has characters that no header can have (line breaks, non-ASCII)")
            (private if secret else plain)[name] = whole
        return plain, private, left_out


class DomainJudge(UrlJudge):
    """Denies requests to a domain that is not allowed. Requests to an allowed domain need no approval.

    The domain `*` allows requests to all domains, but does not replace an approval.
    """

    def __init__(self, outgoing: OutgoingRequests, domains: tuple[str, ...]) -> None:
        super().__init__(outgoing.guard)
        self._outgoing, self._domains = outgoing, domains

    def __call__(self, arguments: Mapping[str, Any], ctx: ToolContext) -> Judgement | None:
        found = super().__call__(arguments, ctx)
        if ctx.metadata.get("bare") or (found is not None and found.verdict == "deny"):
            return found
        try:
            host = self._outgoing.guard().target(str(arguments.get("url"))).host
            self.refuse_domain(host)
        except AddressRefused as error:
            return Judgement("deny", str(error), error.rule)
        if found is None and self._is_named(host, (domain for domain in self._domains if domain != "*")):
            return Judgement("allow", f"its domain is one of {RULE}", RULE_ALLOWED_DOMAIN)
        return found

    def refuse_domain(self, host: Host) -> None:
        """Raise AddressRefused if a host is not in an allowed domain."""
        if not self._is_named(host, self._domains) and not self._outgoing.guard().allowed_domain(host):
            listed = ", ".join(self._domains[:10]) or "none"
            raise AddressRefused(f"{host} is not an allowed domain ({listed}); the setting {RULE} allows one", RULE)

    def _is_named(self, host: Host, domains: Iterable[str]) -> bool:
        from ...boundary.network.host_names import matches

        return any(matches(domain, str(host)) for domain in domains)
