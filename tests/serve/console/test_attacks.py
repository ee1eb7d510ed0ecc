"""Pages of other servers in the same browser, which is let in: none reads or answers anything."""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from toolcrib.toolbox import Toolbox

from ...ports import free_port
from ...waiting import wait_until
from .conftest import Open, Room, launching, listening, sources_of

ATTACKS = """
const base = BASE, given = "id=IDENT&answer=once&form=FORM";
const found = {};
async function attempt(name, work) {
  try { found[name] = await Promise.race([work(), new Promise((end) => setTimeout(() => end("nothing"), 3000))]); }
  catch (error) { found[name] = "refused"; }
}
const frame = () => new Promise((resolve) => {
  const each = document.createElement("iframe");
  each.name = "frame";
  each.onload = () => { try { resolve(each.contentDocument ? "nothing" : "refused"); } catch { resolve("refused"); } };
  each.src = base + "inbox";
  document.body.append(each);
});
await attempt("read", async () => (await fetch(base + "inbox", { credentials: "include" })).text());
const blind = { credentials: "include", mode: "no-cors" };
await attempt("read blindly", async () => (await (await fetch(base + "inbox", blind)).text()) || "nothing");
await attempt("post", async () => {
  const got = await fetch(base + "answer", { ...blind, method: "POST", body: new URLSearchParams(given) });
  return got.type === "opaque" ? "nothing" : "read"; });
await attempt("beacon", async () => (navigator.sendBeacon(base + "answer", new URLSearchParams(given)), "nothing"));
await attempt("events", () => new Promise((resolve) => {
  const events = new EventSource(base + "events", { withCredentials: true });
  events.onmessage = () => resolve("read"); events.onerror = () => resolve("refused"); }));
await attempt("script", () => new Promise((resolve) => {
  const each = document.createElement("script");
  each.onload = () => resolve("read"); each.onerror = () => resolve("refused");
  each.src = base + "console.js"; document.head.append(each); }));
await attempt("frame", frame);
document.getElementById("form").submit();
document.title = "done";
window.found = found;
"""


EVENTS = "retry: 10\ndata: changed\n\n"


class Evil(http.server.BaseHTTPRequestHandler):
    """A page on another port of this machine, and what it was sent."""

    text = worker = ""
    cookies: list[str] = []  # noqa: RUF012 (of the class: a handler is made for each request)

    def do_GET(self) -> None:
        Evil.cookies.append(self.headers.get("Cookie") or "")
        self.send_response(200)
        kinds = {"worker.js": ("text/javascript", Evil.worker), "events": ("text/event-stream", EVENTS)}
        kind, text = kinds.get(self.path.rpartition("/")[2], ("text/html", Evil.text))
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(text.encode())

    do_POST = do_GET  # noqa: N815

    def log_message(self, *_: Any, **__: Any) -> None:
        pass


@pytest.fixture
def evil() -> Iterator[int]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Evil)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


def test_each_start_has_a_name_of_its_own(room: Room, console: Open) -> None:
    for another in listening(room.sources):
        names = {urlsplit(each.new_link()).hostname or "" for each in (console, another)}
        assert len(names) == 2
        assert all(len(name) == 26 and name.endswith(".localhost") for name in names)


@pytest.mark.parametrize(("host", "ours"), [("127.0.0.1", "127.0.0.1"), ("localhost", "127.0.0.1"), ("localhost", "")])
def test_a_page_on_another_port(room: Room, console: Open, chromium: Any, evil: int, host: str, ours: str) -> None:
    row = room.ask()
    context = chromium.new_context()
    page = context.new_page()
    name = urlsplit(console.base).hostname or ""
    page.goto(console.new_link().replace(name, ours or name))
    page.locator("article").wait_for()
    form = page.locator("input[name=form]").first.input_value()  # even if it had been read
    base = console.base.replace(name, ours or name)
    script = ATTACKS.replace("BASE", repr(base)).replace("IDENT", row["id"]).replace("FORM", form)
    fields = "".join(f"<input name={name} value='{value}'>" for name, value in
                     {"id": row["id"], "answer": "once", "form": form}.items())  # fmt: skip
    action = f"<form id=form target=target method=post action='{base}answer'>{fields}</form>"
    target = f"<iframe name=target></iframe>{action}"
    Evil.text, Evil.cookies = f"<body>{target}<script type=module>{script}</script>", []
    other = context.new_page()
    other.goto(f"http://{host}:{evil}/")
    other.wait_for_function("window.found")
    found = other.evaluate("window.found")
    assert set(found.values()) <= {"refused", "nothing"}, found
    assert room.row(row["id"])["state"] == "pending"
    assert not any("toolcrib_console" in each for each in Evil.cookies), Evil.cookies
    assert page.evaluate("fetch('inbox').then((got) => got.status)") == 200  # the browser itself is still in
    context.close()


WORKER = """
addEventListener("activate", (event) => event.waitUntil(clients.claim()));
addEventListener("fetch", (event) => event.respondWith(new Response("<script>document.title = location.hash</script>",
  { headers: { "Content-Type": "text/html" } })));
"""


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_page_that_another_server_had_at_our_port_earlier(
    room: Room, chromium: Any, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    """Its service worker outlives the server, and answers for all addresses of its host and port."""
    port = free_port()
    context = chromium.new_context()
    page = context.new_page()
    monkeypatch.setattr(Evil, "worker", WORKER)
    Evil.text = "<script>navigator.serviceWorker.register('/worker.js')</script>"
    with http.server.ThreadingHTTPServer(("127.0.0.1", port), Evil) as earlier:
        threading.Thread(target=earlier.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        page.goto(f"http://{host}:{port}/")
        page.wait_for_function("navigator.serviceWorker.controller")
        earlier.shutdown()
    for console in listening(room.sources, port):
        page.goto(console.new_link())
        page.wait_for_url("**/inbox")
        page.get_by_text("No call waits for an answer").wait_for()
    context.close()


def test_an_open_page_does_not_go_to_another_server_that_has_its_port_later(room: Room, chromium: Any) -> None:
    port = free_port()
    page = chromium.new_page()
    for console in listening(room.sources, port):
        page.goto(console.new_link())
        page.wait_for_url("**/inbox")
    Evil.text, Evil.cookies = "<title>evil</title>", []
    with http.server.ThreadingHTTPServer(("127.0.0.1", port), Evil) as later:
        threading.Thread(target=later.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        wait_until(lambda: len(Evil.cookies) > 5)  # its events, and the page that it has
        page.get_by_text("not connected").wait_for()
        assert page.title().startswith("Inbox")
        page.close()
        later.shutdown()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that others may enter: pytest's own let nobody else in."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_of_the_machine(open_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    homes = {name: open_folder / name.lower() for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME")}
    for name, path in homes.items():
        path.mkdir(mode=0o755)
        monkeypatch.setenv(name, str(path))
    (open_folder / "work").mkdir(mode=0o755)
    control = open_folder / "control"
    control.write_text("for everybody")
    with Toolbox.open(workspace=open_folder / "work", builtin=False, tools=[launching(open_folder / "ran")]) as box:
        room = Room(box, open_folder / "ran", sources_of(box))
        row = room.ask("a secret rocket")
        room.box.audit.flush()
        for console in listening(room.sources):
            console.enter()
            assert row["id"] in console.ask("GET", "inbox").text
            script = [sys.executable, "-I", "-S", str(Path(__file__).with_name("as_another_user.py"))]
            place = urlsplit(console.base).path.strip("/")
            given = [console.port, place, row["id"], os.getpid(), control, *homes.values()]
            done = subprocess.run([*script, *map(str, given)], capture_output=True, text=True, check=True)
        seen = json.loads(done.stdout)
        assert seen["answers"] == {
            "read": 401, "events": 401, "guessed cookie": 401, "answer": 401, "guessed link": 403, "other folder": 404
        }  # fmt: skip
        assert (seen["user"], seen["files"], seen["control"]) == (65534, [], [str(control)])
        assert any(homes["XDG_STATE_HOME"].rglob("*.db"))  # there was something to read
        assert room.row(row["id"])["state"] == "pending"


def test_a_link_to_the_console_from_another_site(console: Open, chromium: Any, evil: int) -> None:
    context = chromium.new_context()
    page = context.new_page()
    page.goto(console.new_link())
    page.wait_for_url("**/inbox")
    Evil.text = f"<a href='{console.base}inbox'>go</a>"
    page.goto(f"http://localhost:{evil}/")
    page.get_by_role("link", name="go").click()
    page.get_by_text("This request comes from another site").wait_for()
    context.close()
