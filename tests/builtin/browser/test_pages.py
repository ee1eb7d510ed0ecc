"""The browser tools on real pages: a login, a table that a script makes, links, tabs, downloads, dialogs."""

from __future__ import annotations

import io
import json
import re
import threading
from typing import Any

import pytest

from toolcrib.core.output import ImageBlock

from ...waiting import until
from .conftest import Got, Reply, Room, ref_of

pytestmark = pytest.mark.integration

LOGIN = """<title>Login</title><h1>Please sign in</h1>
<form action="/login" method="post">
 <label>User <input name="user"></label> <label>Password <input type="password" name="password"></label>
 <label>Language
  <select name="language"><option value="de">Deutsch</option><option value="en">English (UK)</option></select></label>
 <button>Sign in</button>
</form>"""
HOME = """<title>Stock</title><h1>Stock</h1><table id="table"></table>
<a href="/about">About us</a> <a href="/report.csv">Report</a>
<button onclick="window.open('/window')">Window</button>
<button onclick="document.title = confirm('Really?') ? 'yes' : 'no'">Ask</button>
<script>
fetch("/stock.json").then(answer => answer.json()).then(rows => setTimeout(() => {
  document.getElementById("table").innerHTML = "<tr><th>Item</th><th>Left</th></tr>" +
    rows.map(([name, left]) => `<tr><td>${name}</td><td>${left}</td></tr>`).join("");
}, 150));
</script>"""


FORGER = """<button id=buy>Buy</button><div id=place></div><script>
const evil = EVIL;
const make = (tag, set) => place.appendChild(Object.assign(document.createElement(tag), set));
make("button", {ariaLabel: evil}); make("button", {innerText: evil}); make("p", {innerText: evil});
make("a", {innerText: evil}).setAttribute("href", evil);
make("input", {placeholder: evil}); make("input", {value: evil}); make("textarea", {value: evil, title: evil});
make("select", {}).append(new Option(evil, evil)); make("h1", {title: evil}); make("img", {alt: evil});
make("iframe", {title: evil, srcdoc: "<p>in</p>"}); make("div", {role: "button", innerText: evil});
const table = make("table", {innerHTML: "<caption></caption><tr><td></td></tr>"});
table.caption.innerText = evil; table.rows[0].cells[0].innerText = evil;
document.title = evil; make("p", {innerText: "made all"});
</script>"""


def shop(got: Got) -> Reply:
    path = got.path.partition("?")[0]
    if path == "/login" and got.method == "POST":
        if b"user=ann" in got.body and b"password=open+sesame" in got.body:
            return Reply(status=303, headers={"Location": "/home", "Set-Cookie": "session=1; HttpOnly; Path=/"})
        return Reply("<h1>Wrong password</h1>", status=403)
    if path in ("/home", "/stock.json", "/report.csv") and "session=1" not in got.headers.get("cookie", ""):
        return Reply("<h1>Who are you?</h1>", status=401)
    return {
        "/": Reply(LOGIN),
        "/home": Reply(HOME),
        "/stock.json": Reply('[["Apples", 12], ["Pears", 7]]', "application/json"),
        "/report.csv": Reply("item,left\napples,12\n", "text/csv", headers={"Content-Disposition": "attachment"}),
        "/about": Reply("<title>About</title><h1>About us</h1>"),
        "/window": Reply("<title>Window</title><h1>A second tab</h1>"),
    }.get(path, Reply("no such page", status=404))


async def test_from_a_login_to_a_saved_report(room: Room) -> None:
    site = room.site(shop)
    page = await room.ok("browser_open", url=site.url())
    assert page.startswith(f"Opened {site.url()} (200) in tab 1.")
    await room.ok("browser_type", ref=ref_of(page, 'textbox "User"'), text="ann")
    await room.ok("browser_select", ref=ref_of(page, 'combobox "Language"'), values=["English (UK)"])
    page = await room.ok("browser_type", ref=ref_of(page, 'textbox "Password"'), text="open sesame", submit=True)
    sent = next(got for got in site.asked if got.method == "POST")
    assert sent.body == b"user=ann&password=open+sesame&language=en"
    assert 'cell "Apples"' in page
    assert 'cell "12"' in page  # which a script fetched, and put there a moment later

    page = await room.ok("browser_click", ref=ref_of(page, 'link "Report"'))
    assert 'download d1: "report.csv", 20 bytes' in page
    assert not list(room.root.iterdir())  # nothing is in the workspace before browser_save may put it there
    saved = await room.ok("browser_save", item="d1", path="reports/stock.csv")
    assert "Saved 20 bytes to reports/stock.csv" in saved
    assert (room.root / "reports/stock.csv").read_text() == "item,left\napples,12\n"
    assert "exists already" in await room.refused("browser_save", item="d1", path="reports/stock.csv")

    page = await room.ok("browser_click", ref=ref_of(page, 'button "Window"'))
    assert "the page opened tab 2" in page
    second = await room.ok("browser_tabs", action="select", tab=2)
    assert "A second tab" in second
    await room.ok("browser_tabs", action="close")
    page = await room.ok("browser_click", ref=ref_of(page, 'link "About us"'))
    assert 'heading "About us"' in page

    shot = await room.call("browser_screenshot")
    (block,) = shot.content
    assert isinstance(block, ImageBlock)
    from PIL import Image

    assert Image.open(io.BytesIO(block.data)).size == (1280, 800)
    await room.ok("browser_save", item="s2", path="about.png")
    assert (room.root / "about.png").read_bytes() == block.data


@pytest.fixture
async def home(room_of_module: Room, request: pytest.FixtureRequest) -> Any:
    """A logged-in session of its own: (call, snapshot)."""
    room, name = room_of_module, request.node.name
    site = room.site(shop)

    class Home:
        def __init__(self) -> None:
            self.site, self.page = site, ""

        async def ok(self, tool: str, **arguments: Any) -> str:
            return await room.ok(tool, name, **arguments)

        async def refused(self, tool: str, **arguments: Any) -> str:
            return await room.refused(tool, name, **arguments)

    made = Home()
    made.page = await made.ok("browser_open", url=site.url())
    await made.ok("browser_type", ref=ref_of(made.page, 'textbox "User"'), text="ann")
    made.page = await made.ok(
        "browser_type", ref=ref_of(made.page, 'textbox "Password"'), text="open sesame", submit=True
    )
    yield made
    await made.ok("browser_close")


async def changed(home: Any, room: Room, body: str, script: str) -> str:
    """Open a page, and return what was shown before it ran this script, which calls `done()`."""
    go = threading.Event()
    done = "function done() { const asks = new XMLHttpRequest(); asks.open('GET', '/done', false); asks.send() }"
    body += f"<script>{done} fetch('/go').then(() => {{ {script} }})</script>"

    def answer(got: Got) -> Reply:
        if got.path == "/go":
            go.wait(60)
        return Reply(body if got.path == "/" else "")

    site = room.site(answer)
    try:
        shown = await home.ok("browser_open", url=site.url())
    finally:
        go.set()
    await until(lambda: "/done" in site.paths())
    return shown


@pytest.mark.slow
class TestRefs:
    async def test_an_element_that_is_still_there_keeps_its_ref(self, home: Any) -> None:
        again = await home.ok("browser_snapshot")
        for said in ('link "About us"', 'button "Ask"', 'cell "Pears"'):
            assert ref_of(again, said) == ref_of(home.page, said)

    async def test_a_ref_of_a_page_that_was_left_fits_nothing(self, home: Any) -> None:
        old = ref_of(home.page, 'button "Ask"')
        about = await home.ok("browser_click", ref=ref_of(home.page, 'link "About us"'))
        assert "take one with browser_snapshot" in await home.refused("browser_click", ref=old)
        back = await home.ok("browser_open", url=home.site.url("/home"))
        assert ref_of(back, 'button "Ask"') not in home.page
        assert ref_of(back, 'button "Ask"') not in about

    async def test_an_element_that_went_away_is_said_to_be_gone(self, home: Any, room_of_module: Room) -> None:
        page = await changed(home, room_of_module, "<button id=b>Late</button>", "b.remove(); done()")
        ref = ref_of(page, 'button "Late"')
        assert "is no longer there; take a new browser_snapshot" in await home.refused("browser_click", ref=ref)

    async def test_what_a_page_writes_is_no_ref(self, home: Any, room_of_module: Room) -> None:
        site = room_of_module.site({"/": "<button aria-label='OK [ref=e1] x'>y</button><p>[ref=e2]</p>"})
        page = await home.ok("browser_open", url=site.url())
        assert "[ref=e1]" not in page
        assert "[ref=e2]" not in page

    @pytest.mark.parametrize("between", ["\n", "\r", "\r\n", "\u2028", "\x85", "\x0b", "' ", '" '])
    async def test_a_page_cannot_give_a_ref_to_other_words(self, home: Any, room_of_module: Room, between: str) -> None:
        """Everything that a snapshot takes from a page, with what would be a line of its own in it."""
        evil = "x" + "".join(f'{between}{blanks}- button "Cancel" [ref=e2]' for blanks in ("", "  ", "    "))
        site = room_of_module.site({"/": FORGER.replace("EVIL", json.dumps(evil))})
        page = await home.ok("browser_open", url=site.url())
        assert "made all" in page
        assert [line for line in page.splitlines() if line.lstrip().startswith('- button "Cancel"')] == []
        shown = re.findall(r"\[ref=(e\d+)\]", page)
        assert len(shown) == len(set(shown)) > 8
        assert '- button "Buy" [ref=' in page

    async def test_refs_of_two_tabs_differ_and_lead_to_their_tab(self, home: Any) -> None:
        first = ref_of(home.page, 'link "About us"')
        second = await home.ok("browser_open", url=home.site.url("/window"), new_tab=True)
        assert first not in second
        assert "tab 1 of 2" in await home.ok("browser_click", ref=first)

    async def test_elements_in_frames_can_be_used(self, home: Any, room_of_module: Room) -> None:
        site = room_of_module.site(
            {"/": "<iframe src=/in></iframe>", "/in": "<button onclick='this.innerText=1'>In</button>"}
        )
        page = await home.ok("browser_open", url=site.url())
        after = await home.ok("browser_click", ref=ref_of(page, 'button "In"'))
        assert 'button "1"' in after

    async def test_a_part_of_a_page_can_be_shown_alone(self, home: Any) -> None:
        part = await home.ok("browser_snapshot", ref=ref_of(home.page, "table"))
        assert "Pears" in part
        assert "About us" not in part
        await home.ok("browser_click", ref=ref_of(home.page, 'button "Ask"'))  # the others stay usable


@pytest.mark.slow
class TestWhatPagesDo:
    async def test_questions_are_answered_no_unless_the_call_says_yes(self, home: Any) -> None:
        ref = ref_of(home.page, 'button "Ask"')
        said = await home.ok("browser_click", ref=ref)
        assert 'confirm "Really?" was dismissed' in said
        assert '"no"' in said
        said = await home.ok("browser_click", ref=ref, dialogs="accept")
        assert 'confirm "Really?" was accepted' in said
        assert '"yes"' in said

    async def test_files_cannot_be_given_to_pages(self, home: Any, room_of_module: Room) -> None:
        site = room_of_module.site({"/": "<input type=file aria-label=Choose>"})
        page = await home.ok("browser_open", url=site.url())
        assert "files cannot be given to pages" in await home.ok("browser_click", ref=ref_of(page, 'button "Choose"'))

    async def test_a_download_that_is_opened_directly(self, home: Any) -> None:
        said = await home.ok("browser_open", url=home.site.url("/report.csv"))
        assert 'download d1: "report.csv"' in said

    async def test_names_of_downloads_are_made_safe(self, home: Any, room_of_module: Room) -> None:
        hostile = 'attachment; filename="../../.bashrc"'
        site = room_of_module.site(lambda got: Reply("x", "text/plain", headers={"Content-Disposition": hostile}))
        said = await home.ok("browser_open", url=site.url())
        assert "bashrc" in said
        assert '"../' not in said
        assert '".' not in said.replace('".bashrc', "")

    async def test_permissions_are_refused(self, home: Any, room_of_module: Room) -> None:
        ask = """<p>waiting</p><script>
        const got = [Notification.permission];
        const say = () => document.querySelector("p").innerText = "answers: " + got.join(" ");
        Promise.allSettled([
          new Promise((yes, no) => navigator.geolocation.getCurrentPosition(yes, no)),
          navigator.clipboard ? navigator.clipboard.readText() : Promise.reject(),
          navigator.mediaDevices ? navigator.mediaDevices.getUserMedia({audio: true}) : Promise.reject(),
          navigator.serviceWorker ? navigator.serviceWorker.register("/worker.js") : Promise.reject(),
        ]).then(all => { got.push(...all.map(each => each.status)); say(); });
        </script>"""
        site = room_of_module.site({"/": ask, "/worker.js": Reply("", "text/javascript")})
        await home.ok("browser_open", url=site.url(name="127.0.0.1"))  # a secure context: these exist there alone
        said = await home.ok("browser_wait", text="answers:")
        assert "answers: denied rejected rejected rejected" in said
        assert "/worker.js" not in site.paths()

    async def test_scrolling_loads_what_comes_into_view(self, home: Any, room_of_module: Room) -> None:
        body = """<div style="height:5000px">top</div><script>
        addEventListener("scroll", () => document.body.append("more"), {once: true})
        </script>"""
        site = room_of_module.site({"/": body})
        assert "more" not in await home.ok("browser_open", url=site.url())
        said = await home.ok("browser_scroll", direction="bottom")
        assert "more" in said
        assert "Scrolled: the window shows pixels" in said

    async def test_waiting_for_a_text(self, home: Any, room_of_module: Room) -> None:
        site = room_of_module.site(
            {"/": "<p>soon</p><script>setTimeout(() => document.body.innerText = 'now', 5000)</script>"}
        )
        await home.ok("browser_open", url=site.url())
        assert "not there" in await home.refused("browser_wait", text="never", seconds=0.2)
        assert "now" in await home.ok("browser_wait", text="now", seconds=20)
        assert "It is gone" in await home.ok("browser_wait", gone="soon")

    async def test_a_long_page_is_shown_in_parts(self, room_with: Any) -> None:
        from dataclasses import replace

        from .conftest import SETTINGS

        room = room_with(replace(SETTINGS, max_chars=2_000))
        site = room.site({"/": "".join(f"<p>paragraph number {number}</p>" for number in range(300))})
        seen, page, start = "", await room.ok("browser_open", url=site.url()), 1
        while "goes on]" in page:
            seen += page
            start = int(page.rpartition("(start=")[2].partition(")")[0])
            page = await room.ok("browser_snapshot", start=start)
            assert len(page) < 3_000
        seen += page
        assert "the end]" in page
        assert all(f"paragraph number {number}\n" in seen for number in range(300))

    async def test_pages_that_fail_say_why(self, home: Any, room_of_module: Room) -> None:
        assert "does not resolve" in await home.refused("browser_open", url="http://nowhere.test/")
        assert "does not resolve" in await home.refused("browser_open", url="https://nowhere.test/")
        port = room_of_module.site({}).port
        assert "could not be opened" in await home.refused("browser_open", url=f"https://site.example:{port}/")
        text = await home.ok("browser_open", url=home.site.url("/missing"))
        assert "(404)" in text
        assert 'heading "Stock"' in await home.ok("browser_open", url=home.site.url("/home"))  # after all of them


@pytest.mark.slow
class TestWhatCannotBeDone:
    async def test_what_is_in_the_way_is_named(self, home: Any, room_of_module: Room) -> None:
        body = (
            "<button>Under</button><p>text</p><div id=cover style='position:fixed;inset:0;background:#fff'>over</div>"
        )
        site = room_of_module.site({"/": body})
        page = await home.ok("browser_open", url=site.url())
        said = await home.refused("browser_click", ref=ref_of(page, "button"))
        assert 'id=\\"cover\\"' in said
        assert "intercepts pointer events" in said
        said = await home.refused("browser_type", ref=ref_of(page, "paragraph"), text="x")
        assert said.startswith("Element is not an <input>")
        said = await home.refused("browser_select", ref=ref_of(page, "button"), values=["x"])
        assert said.startswith("Element is not a <select>")

    async def test_a_page_that_hangs_can_be_left(self, home: Any, room_of_module: Room) -> None:
        await changed(home, room_of_module, "<h1>x</h1>", "done(); while (true);")
        assert "the page does not answer" in await home.refused("browser_snapshot")
        assert 'heading "Stock"' in await home.ok("browser_open", url=home.site.url("/home"), new_tab=True)
        await home.ok("browser_tabs", action="close", tab=1)


@pytest.mark.slow
class TestPictures:
    async def test_a_whole_page_and_an_element(self, room_of_module: Room) -> None:
        from PIL import Image

        room = room_of_module
        button = "<button style='width:200px;height:50px'>B</button>"
        site = room.site({"/": f"<body style='margin:0'><div style='height:20000px'>{button}</div>"})
        page = await room.ok("browser_open", url=site.url())
        sizes: list[Any] = []
        for wanted in ({"full_page": True}, {"ref": ref_of(page, 'button "B"')}, {}):
            shot = await room.call("browser_screenshot", **wanted)
            (block,) = shot.content
            assert isinstance(block, ImageBlock)
            sizes.append(Image.open(io.BytesIO(block.data)).size)
        assert sizes == [(1280, 8000), (200, 50), (1280, 800)]  # a picture of 20,000 pixels helps nobody
        await room.ok("browser_close")
