"""Pages that try to reach what they must not: everything a page can send with, aimed at servers inside."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from toolcrib.boundary.network.address_guard import AddressGuard
from toolcrib.boundary.network.settings import GuardSettings
from toolcrib.boundary.proxy.proxy_server import FilteringProxy, loopback_listener
from toolcrib.builtin.browser.launch import SWITCHES, find_browser, needs_no_sandbox

from ...waiting import until
from .conftest import HERE, Got, Reply, Room, Site, Trap, ref_of

ATTACK = (Path(__file__).parent / "attack.html").read_text("utf-8")
WORKER = 'fetch("http://TRAP/worker-file", {mode: "no-cors"}).catch(() => 0);'
WAIT = 2.0  # seconds for what a page does later: ICE, prerendering

pytestmark = pytest.mark.integration


def attacker(room: Room, trap: Trap) -> Site:
    def aimed(text: str) -> str:
        where = f"{trap.address}:{trap.port}"
        return text.replace("TRAP", where).replace("ADDRESS", trap.address).replace("PORT", str(trap.port))

    def answer(got: Got) -> Reply:
        path, _, query = got.path.partition("?")
        if path == "/redirect":
            return Reply(status=302, headers={"Location": query.removeprefix("to=")})
        if path == "/worker.js":
            return Reply(aimed(WORKER), "text/javascript")
        return Reply(aimed(ATTACK) if path == "/" else "")

    return room.site(answer)


def ran(site: Site) -> dict[str, Any]:
    return json.loads(next(got.body for got in site.asked if got.path == "/ran"))


# 127.0.0.1 is granted, and a secure context: service workers and WebTransport are for those
@pytest.mark.slow
@pytest.mark.parametrize("name", [HERE, "site.example"])
async def test_nothing_that_a_page_does_reaches_an_address_inside(room: Room, name: str) -> None:
    trap = room.trap()
    site = attacker(room, trap)
    text = await room.ok("browser_open", url=site.url(name=name))
    await until(lambda: "/ran" in site.paths())
    await asyncio.sleep(WAIT)
    text += await room.ok("browser_tabs")
    await room.ok("browser_close")
    assert trap.hits == 0
    did = ran(site)
    assert len(did["ran"]) > 30
    assert did["secure"] is (name == HERE)
    assert "Nothing to see" in text
    assert f'refused "{trap.address}:{trap.port}"' in text
    assert 'refused "169.254.169.254' in text
    assert "root:" not in text
    assert " file:" not in text
    assert " chrome://" not in text


@pytest.mark.slow
@pytest.mark.parametrize(("switches", "reached"), [(SWITCHES, False), ((), True)], ids=["ours", "none"])
async def test_without_the_switches_datagrams_pass_by_the_proxy(
    room: Room, switches: Sequence[str], reached: bool
) -> None:
    """The attack works where nothing stops it, and our switches alone stop what no proxy sees."""
    from playwright.async_api import async_playwright

    trap = room.trap()
    site = attacker(room, trap)
    guard = AddressGuard(GuardSettings((f"{HERE}/32",), tuple(room.ports)))
    proxy = FilteringProxy(guard.admit)
    listener = loopback_listener()
    server = f"http://{HERE}:{listener.getsockname()[1]}"
    await proxy.serve(listener)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=str(find_browser()), args=list(switches), chromium_sandbox=not needs_no_sandbox(),
            proxy={"server": server, "bypass": "<-loopback>"},
        )  # fmt: skip
        page = await browser.new_page()
        await page.goto(site.url(name=HERE), wait_until="domcontentloaded")
        if reached:
            await until(lambda: trap.hits)
        else:
            await until(lambda: "/ran" in site.paths())
            await asyncio.sleep(5 * WAIT)
        await browser.close()
    await proxy.close()
    assert (trap.hits > 0) is reached


@pytest.mark.slow
@pytest.mark.parametrize(
    "body",
    [
        '<meta http-equiv="refresh" content="0;url=TO">',
        "<script>location = 'TO'</script>",
        "<script>setTimeout(() => location.replace('TO'), 100)</script>",
        '<script>addEventListener("load", () => document.querySelector("a").click())</script><a href="TO">x</a>',
        "<script>parent.location = 'TO'</script>",
        '<form action="TO"></form><script>document.forms[0].submit()</script>',
        "<iframe srcdoc=\"<script>top.location='TO'</script>\"></iframe>",
        "<script>open('TO', '_self')</script>",
    ],
    ids=["refresh", "location", "later", "click", "parent", "form", "srcdoc", "open"],
)
async def test_a_page_that_goes_elsewhere_by_itself_gets_nowhere(room_of_module: Room, body: str) -> None:
    room = room_of_module
    trap = room.trap()
    targets = [
        "file:///etc/passwd", "chrome://version/", "view-source:http://site.example/", "data:text/html,<h1>root:</h1>",
        f"http://{trap.address}:{trap.port}/", f"http://named.inside.example:{trap.port}/",
    ]  # fmt: skip
    for target in targets:
        site = room.site({"/": f"<title>here</title>{body.replace('TO', target)}"})
        text = await room.ok("browser_open", url=site.url(), new_tab=True)
        await asyncio.sleep(0.2)
        text += await room.ok("browser_snapshot")
        text += await room.ok("browser_tabs")
        assert "root:" not in text.replace(target, ""), (target, text)
        for line in text.splitlines():
            if line.startswith(("tab ", "! tab ")):
                address = line.rpartition('" ')[2]
                where = (site.url(), "about:blank", "chrome-error:")
                assert address.startswith(where) or "Toolcrib's proxy refused" in text, (target, line)
        await room.ok("browser_tabs", action="close")
        site.close()
    await room.ok("browser_close")
    assert trap.hits == 0


@pytest.mark.slow
async def test_a_page_starts_no_other_program(room: Room, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = tmp_path / "opened"
    for name in ("xdg-open", "xdg-email", "gio"):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f'#!/bin/sh\necho "$0 $@" >> {opened}\n')
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    site = room.site({"/": "<iframe src='mailto:a@b.example?attach=/etc/passwd'></iframe><button>Here</button>"})
    assert "Here" in await room.ok("browser_open", url=site.url())
    await asyncio.sleep(1)
    assert not opened.exists()


@pytest.mark.slow
async def test_redirects_are_judged_where_they_lead(room_of_module: Room) -> None:
    room = room_of_module
    trap = room.trap()
    for target in (f"http://{trap.address}:{trap.port}/", f"http://named.inside.example:{trap.port}/x"):
        site = room.site(lambda got, target=target: Reply(status=302, headers={"Location": target}))
        said = await room.refused("browser_open", url=site.url())
        assert "is not public: loopback" in said
    assert trap.hits == 0


async def refuse_addresses_first(room: Room) -> None:
    for url, why in (
        ("file:///etc/passwd", "is not a scheme for requests"),
        ("chrome://version", "is not a scheme for requests"),
        ("view-source:http://site.example/", "is not a scheme for requests"),
        ("data:text/html,x", "is not a scheme for requests"),
        ("javascript:alert(1)", "is not a scheme for requests"),
        ("about:blank", "is not a scheme for requests"),
        ("http://169.254.169.254/", "metadata"),
        ("http://localhost:8080/", "local machine"),
        ("https://site.example:22/", "port 22"),
    ):
        assert why in await room.refused("browser_open", url=url), url


async def test_addresses_are_refused_before_anything_is_started(room: Room) -> None:
    await refuse_addresses_first(room)
    assert not list(room.state.path.glob("browser/*"))  # no Chromium was started


@pytest.mark.slow
async def test_the_browser_itself_asks_for_nothing(room: Room) -> None:
    """Forms are what Chromium describes to its maker; the proxy hears of all that goes out because of a page."""
    from toolcrib.builtin.browser.visits import Visits

    asked: list[str] = []
    admit = Visits.admit

    async def listening(self: Visits, host: str, port: int) -> Any:
        found = await admit(self, host, port)
        asked.append(host)
        return found

    site = room.site(
        {"/": "<form><input name=user><input type=password name=p><input name=email></form><a href=/>x</a>"}
    )
    Visits.admit = listening  # type: ignore[method-assign]
    try:
        text = await room.ok("browser_open", url=site.url())
        await room.ok("browser_type", ref=ref_of(text, "textbox"), text="me", submit=True)
        await asyncio.sleep(3)
    finally:
        Visits.admit = admit  # type: ignore[method-assign]
    assert set(asked) == {"site.example"}
