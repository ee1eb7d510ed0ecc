"""http_request against real servers: where it may go, what it sends, what it leaves out."""

import gzip

import pytest

from toolcrib.boundary.network.address_guard import AddressGuard
from toolcrib.builtin.settings import HttpSettings
from toolcrib.core.context import ToolContext
from toolcrib.policy.addresses import RULE_ALLOWED_DOMAIN
from toolcrib.policy.secrets.grants import Secrets
from toolcrib.policy.secrets.redact import Redactor
from toolcrib.policy.settings import SecretSettings

ALLOWED = HttpSettings(("api.example", "*.myco.example"))
TOKEN = "tok-5up3r-s3cret-value"


async def send(web, url, settings=ALLOWED, method="GET", **more):
    return await web.call("http_request", settings, method=method, url=url, **more)


async def test_status_and_body(web):
    site = web.page('{"id": 7}', "application/json", status=201)
    output = await send(web, site.url("/things?a=1", "api.example"), method="POST", body='{"name": "x"}')
    assert not output.is_error
    assert output.for_llm == 'Status: 201\n\n{"id": 7}'
    got = site.asked[0]
    assert (got.method, got.path, got.body) == ("POST", "/things?a=1", b'{"name": "x"}')
    assert got.headers["content-type"] == "application/json"
    assert got.headers["host"] == f"api.example:{site.port}"


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
async def test_methods_and_errors_are_answers(web, method):
    site = web.page("no", "text/plain", status=403)
    output = await send(web, site.url(name="api.example"), method=method)
    assert output.for_llm == "Status: 403\n\nno"
    assert site.asked[0].method == method
    assert "HEAD" in await web.refused("http_request", ALLOWED, method="HEAD", url=site.url(name="api.example"))


@pytest.mark.parametrize(
    ("name", "goes"),
    [
        ("api.example", True), ("API.example", True), ("myco.example", True), ("a.b.myco.example", True),
        ("evil.example", False), ("api.example.evil.example", False), ("xapi.example", False),
        ("notmyco.example", False), ("www.api.example", False), ("127.0.0.1", False),
    ],
)  # fmt: skip
async def test_only_allowed_domains(web, name, goes):
    site = web.page("ok", "text/plain")
    url = site.url(name=name)
    registry = web.registry(ALLOWED)
    judge = registry.require("http_request").judge
    judged = judge({"method": "POST", "url": url}, ToolContext())
    output = await registry.execute("http_request", {"method": "POST", "url": url}, ToolContext())
    assert output.is_error is not goes
    assert bool(site.asked) is goes
    assert (judged.verdict, judged.rule == RULE_ALLOWED_DOMAIN) == (("allow", True) if goes else ("deny", False))
    if not goes:
        assert "tools.http_request.allowed_domains" in output.for_llm
        assert "api.example, *.myco.example" in output.for_llm


async def test_with_nothing_allowed_nothing_is_sent(web):
    site = web.page("ok")
    assert "not an allowed domain (none)" in await web.refused("http_request", method="GET", url=site.url())
    assert site.asked == []


async def test_everything_may_be_allowed_but_asks(web):
    everywhere = HttpSettings(("*",))
    site = web.page("ok", "text/plain")
    assert (await send(web, site.url(), everywhere)).for_llm == "Status: 200\n\nok"
    judge = web.registry(everywhere).require("http_request").judge
    assert judge({"method": "GET", "url": site.url()}, ToolContext()) is None  # the mode says: ask
    assert judge({"method": "GET", "url": "http://169.254.169.254/"}, ToolContext()).verdict == "deny"


async def test_web_allowed_domains_count_too(web):
    site = web.page("ok", "text/plain")
    guard = web.guard(allowed_domains=("other.example",))
    registry = web.registry(ALLOWED, guard)
    url = site.url(name="other.example")
    assert (await registry.execute("http_request", {"method": "GET", "url": url})).for_llm == "Status: 200\n\nok"


async def test_redirects_stay_inside_the_allowed_domains(web):
    def answer(got):
        to = got.path[1:]
        return web.Reply(status=307, headers={"Location": site.url("/", to)}) if to else web.Reply("end", "text/plain")

    site = web.site(answer)
    good = await send(web, site.url("/myco.example", "api.example"), method="POST", body="{}")
    assert f"Status: 200\n[redirected to {site.url('/', 'myco.example')}]\n\nend" == good.for_llm
    assert site.asked[-1].body == b"{}"
    before = len(site.asked)
    bad = await send(web, site.url("/evil.example", "api.example"), method="POST", body="{}")
    assert bad.is_error
    assert "evil.example is not an allowed domain" in bad.for_llm
    assert len(site.asked) == before + 1


@pytest.mark.parametrize(("status", "method", "then"), [(303, "PUT", "GET"), (302, "POST", "GET"), (302, "PUT", "PUT"),
                                                        (307, "POST", "POST"), (308, "PATCH", "PATCH")])  # fmt: skip
async def test_the_method_after_a_redirect(web, status, method, then):
    site = web.site(
        lambda got: web.Reply(status=status, headers={"Location": "/b"}) if got.path == "/a" else web.Reply("x")
    )
    await send(web, site.url("/a", "api.example"), method=method, body="{}")
    assert site.asked[1].method == then
    assert site.asked[1].body == (b"" if then == "GET" else b"{}")
    assert ("content-type" in site.asked[1].headers) is (then != "GET")


# --- headers


async def test_dangerous_headers_are_left_out_and_named(web):
    site = web.page("ok", "text/plain")
    given = {
        "Authorization": "Bearer x", "Cookie": "a=b", "Host": "evil", "Content-Length": "9", "X-Forwarded-For": "::1",
        "Transfer-Encoding": "chunked", "Proxy-Authorization": "x", "X-Mine": "yes", "Accept": "text/x",
        "Connection": "upgrade", "content-type": "text/plain", "Accept-Encoding": "compress",
    }  # fmt: skip
    output = await send(web, site.url(name="api.example"), method="POST", body="x", headers=given)
    got = site.asked[0].headers
    assert (got["x-mine"], got["accept"], got["content-type"]) == ("yes", "text/x", "text/plain")
    for name in ("authorization", "cookie", "x-forwarded-for", "transfer-encoding", "proxy-authorization"):
        assert name not in got
        assert name in output.for_llm.lower()
    assert got["host"] == f"api.example:{site.port}"
    assert got["content-length"] == "1"


@pytest.mark.parametrize(
    "name",
    ["X-Forwarded-User", "X-HTTP-Method-Override", "X-Original-URL", "X_Forwarded_For", "X_Api_Key", "Content_Length"],
)
async def test_a_header_that_forges_another_request_is_left_out(web, name):
    site = web.page("ok", "text/plain")
    output = await send(web, site.url(name="api.example"), headers={name: "admin"})
    assert "admin" not in site.asked[0].headers.values()
    assert f"headers left out: {name}" in output.for_llm


@pytest.mark.parametrize("headers", [{"A": "x\r\nEvil: y"}, {"A": "é"}, {"A\n": "x"}, {"": "x"}, {"A B": "x"},
                                     {f"h{n}": "x" for n in range(51)}])  # fmt: skip
async def test_headers_that_are_none(web, headers):
    site = web.page("ok")
    output = await send(web, site.url(name="api.example"), headers=headers)
    assert output.is_error
    assert site.asked == []


def with_secret(web, guard: AddressGuard | None = None, tools=("http_request",)):
    redactor = Redactor()
    secrets = Secrets({"TOKEN": SecretSettings(tools=tools, env="TOKEN")}, redactor, environ={"TOKEN": TOKEN})
    registry = web.registry(ALLOWED, guard, secrets=secrets, redactor=redactor)
    registry.stages.redact = redactor.redact
    return registry


async def test_a_granted_secret_is_put_in_and_never_shown(web):
    site = web.site(lambda got: web.Reply(f"you sent {got.headers.get('authorization')}", "text/plain"))
    call = {
        "method": "GET",
        "url": site.url(name="api.example"),
        "headers": {"Authorization": "Bearer ${secret:TOKEN}"},
    }
    output = await with_secret(web).execute("http_request", call, ToolContext())
    assert site.asked[0].headers["authorization"] == f"Bearer {TOKEN}"
    assert TOKEN not in output.for_llm
    assert "you sent Bearer" in output.for_llm
    for registry in (with_secret(web, tools=("exec",)), web.registry(ALLOWED)):
        refused = await registry.execute("http_request", call, ToolContext())
        assert refused.is_error
    assert len(site.asked) == 1


async def test_a_secret_does_not_follow_a_redirect_to_another_server(web):
    site = web.site(
        lambda got: (
            web.Reply("end", "text/plain")
            if got.path != "/"
            else web.Reply(status=307, headers={"Location": site.url("/b", "myco.example")})
        )
    )
    headers = {"X-Key": "${secret:TOKEN}", "X-Plain": "1"}
    call = {"method": "GET", "url": site.url(name="api.example"), "headers": headers}
    await with_secret(web).execute("http_request", call, ToolContext())
    assert site.asked[0].headers["x-key"] == TOKEN
    assert "x-key" not in site.asked[1].headers
    assert site.asked[1].headers["x-plain"] == "1"


# --- bodies


async def test_long_answers_are_cut_while_they_come(web):
    site = web.page("x" * 700_000, "text/plain")
    output = await send(web, site.url(name="api.example"))
    assert output.for_llm.endswith("[TRUNCATED — 700,000 bytes total]")
    assert output.for_llm.count("x") == 512 * 1024
    bomb = web.page(gzip.compress(b"y" * 50_000_000), "text/plain", headers={"Content-Encoding": "gzip"})
    output = await send(web, bomb.url(name="api.example"))
    assert output.for_llm.endswith("[TRUNCATED — more than 524,288 bytes]")
    small = HttpSettings(("api.example",), max_response_bytes=10)
    assert (await send(web, site.url(name="api.example"), small)).for_llm.count("x") == 10


async def test_what_is_no_text_is_only_named(web):
    output = await send(web, web.page(b"\x89PNG\0\0", "image/png").url(name="api.example"))
    assert output.for_llm == "Status: 200\n\n[a PNG image, 6 bytes, not shown: it is not text]"


async def test_a_post_is_not_repeated(web):
    site = web.page("busy", "text/plain", status=503, headers={"Retry-After": "0"})
    output = await send(web, site.url(name="api.example"), method="POST")
    assert len(site.asked) == 1
    assert output.for_llm.startswith("Status: 503\n[the server asks to wait 0 s]")
    await send(web, site.url(name="api.example"), method="GET")
    assert len(site.asked) == 4
