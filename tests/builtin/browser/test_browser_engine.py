"""The life of browsers: started late, one a session, survive crashes, end without leaving anything behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import textwrap
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from toolcrib.boundary.proxy.proxy_server import FilteringProxy, loopback_listener
from toolcrib.builtin.browser import browser_engine, launch
from toolcrib.builtin.browser.downloads import MAX_KEPT
from toolcrib.builtin.browser.launch import dead_profiles
from toolcrib.builtin.settings import BrowserSettings
from toolcrib.core.caller import Caller
from toolcrib.core.context import ToolContext
from toolcrib.core.output import ToolOutput

from ...waiting import until
from .conftest import HERE, LACKING, SETTINGS, Got, Reply, Room, ref_of

pytestmark = [pytest.mark.integration, pytest.mark.slow]


def processes(folder: Path) -> list[int]:
    """Those that name something below a folder in their command line, or lead the group of one that does."""
    found: list[int] = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                command = Path(f"/proc/{name}/cmdline").read_bytes()
            except OSError:
                continue
            if os.fsencode(folder) in command:
                found.append(int(name))
    return found


def leader(room: Room, session: str = "s") -> int:
    found = room.engine._sessions[session].chromium.leader
    assert found is not None
    return found


def group(pid: int) -> list[int]:
    """The living processes of a group."""
    found: list[int] = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                state = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if state[0] != "Z" and int(state[2]) == pid:
                found.append(int(name))
    return found


async def test_closing_leaves_no_process_and_no_file(room: Room) -> None:
    site = room.site({"/": "<h1>Hi</h1>"})
    assert not (room.state.path / "browser").exists()
    await room.ok("browser_open", url=site.url())
    pid = leader(room)
    assert group(pid)
    (folder,) = (room.state.path / "browser").iterdir()
    assert folder.stat().st_mode & 0o077 == 0
    environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    assert not {b"TOOLCRIB_TEST_SECRET=1"} & set(environment)
    (socket,) = (link.readlink() for link in folder.glob("*/SingletonSocket"))
    assert socket.is_socket()  # in a folder of its own, which a killed Chromium leaves
    room.engine.close()
    assert not group(pid)
    assert not socket.parent.exists()
    assert not processes(room.state.path)
    assert not list((room.state.path / "browser").iterdir())
    assert "the toolbox was closed" in await room.refused("browser_open", url=site.url())


async def test_neither_chromium_nor_its_driver_gets_our_environment(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLCRIB_TEST_SECRET", "1")
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    site = room.site({"/": "<h1>Hi</h1>"})
    await room.ok("browser_open", url=site.url())
    pids = {*group(leader(room)), *children(os.getpid())}
    for pid in pids:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
        assert b"TOOLCRIB_TEST_SECRET" not in environment, Path(f"/proc/{pid}/cmdline").read_bytes()
        assert b"HTTPS_PROXY" not in environment


def children(pid: int) -> list[int]:
    """The drivers that a process started."""
    found: list[int] = []
    for task in os.listdir(f"/proc/{pid}/task"):
        for each in Path(f"/proc/{pid}/task/{task}/children").read_text().split():
            with contextlib.suppress(OSError):
                found += [int(each)] if b"run-driver" in Path(f"/proc/{each}/cmdline").read_bytes() else []
    return found


async def test_a_crash_is_said_and_the_next_page_starts_it_again(room: Room) -> None:
    site = room.site({"/": "<h1>Hi</h1><button>B</button>"})
    page = await room.ok("browser_open", url=site.url())
    first = leader(room)
    os.killpg(first, signal.SIGKILL)
    said = await room.refused("browser_click", ref=ref_of(page, "button"))
    assert "browser_open" in said
    assert "Hi" in await room.ok("browser_open", url=site.url())
    assert leader(room) != first
    assert len(list((room.state.path / "browser").iterdir())) == 1


async def test_without_a_page_a_ref_leads_to_none(room: Room) -> None:
    """So after the last one is closed, and in the moment between the end of a browser's pages and its own."""
    page = await room.ok("browser_open", url=room.site({"/": "<button>B</button>"}).url())
    await room.ok("browser_tabs", action="close", tab=1)
    assert "browser_open opens one" in await room.refused("browser_click", ref=ref_of(page, "button"))


async def test_a_crash_in_the_middle_of_a_call(room: Room) -> None:
    site = room.site({"/": "<h1>Hi</h1>"})
    await room.ok("browser_open", url=site.url())
    waiting = asyncio.ensure_future(room.refused("browser_wait", seconds=20))
    await asyncio.sleep(0.5)
    os.killpg(leader(room), signal.SIGKILL)
    assert "the browser ended unexpectedly, and its pages are gone" in await waiting


async def test_sessions_share_nothing(room: Room) -> None:
    def answer(got: Got) -> Reply:
        cookie = got.headers.get("cookie", "none")
        return Reply(f"<h1>cookie: {cookie}</h1>", headers={"Set-Cookie": f"who={got.path[1:]}; Path=/"})

    site = room.site(answer)
    await room.ok("browser_open", "ann", url=site.url("/ann"))
    await room.ok("browser_open", "bob", url=site.url("/bob"))
    assert "cookie: who=ann" in await room.ok("browser_open", "ann", url=site.url("/x"))
    assert "cookie: who=bob" in await room.ok("browser_open", "bob", url=site.url("/x"))
    pid = leader(room, "bob")
    assert leader(room, "ann") != pid
    bob = await room.ok("browser_snapshot", "bob")
    assert "is not a ref of the last snapshot" in await room.refused("browser_click", "ann", ref=ref_of(bob, "heading"))
    await room.ok("browser_close", "ann")
    assert "no page is open; browser_open opens one" in await room.refused("browser_snapshot", "ann")
    of_a_person = await room.registry.execute("browser_snapshot", {}, ToolContext(session_id="cli-1", channel="cli"))
    assert "Pages stay open in a script (`toolcrib code FILE.py`)" in of_a_person.for_llm
    await room.ok("browser_snapshot", "bob")
    assert leader(room, "bob") == pid
    assert "cookie: none" in await room.ok("browser_open", "ann", url=site.url("/ann"))


FLOODS = {
    "requests": "for (let n = 0; n < 50; n++) fetch('/?' + Math.random()).catch(() => 0)",
    "errors": "for (let n = 0; n < 50; n++) setTimeout(() => { throw new Error('x') })",
    "console": "for (let n = 0; n < 50; n++) console.log('x'.repeat(1000), {a: [1, 2]})",
    "dialogs": "alert('x')",
    "elements": "document.body.innerHTML = '<p>x</p><iframe></iframe>'.repeat(20)",
    "tabs": "open('/')",
    "downloads": "const link = document.createElement('a'); link.href = 'data:x/x,x'; link.download = ''; link.click()",
    "addresses": "for (let n = 0; n < 50; n++) history.replaceState(0, '', '#' + Math.random())",
}


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
async def test_a_page_that_floods_its_browser_does_not_hold_up_other_sessions(room_of_module: Room, flood: str) -> None:
    room = room_of_module
    body = f"""<script>const {{port1, port2}} = new MessageChannel();
        port1.onmessage = () => {{ port2.postMessage(0); {flood} }};
        setTimeout(() => port2.postMessage(0), 100)</script>"""
    site = room.site({"/": "<button>B</button><p>row</p>", "/flood": body})

    async def use() -> None:
        page = await room.ok("browser_open", "calm", url=site.url())
        await room.ok("browser_click", "calm", ref=ref_of(page, "button"))
        await room.ok("browser_snapshot", "calm")

    await use()
    flooding = asyncio.ensure_future(room.call("browser_open", "flood", url=site.url("/flood")))
    await until(lambda: "/flood" in site.paths())
    await asyncio.sleep(2)
    await use()  # they share nothing but the processors: no call reaches its time limit
    pid = leader(room, "flood")
    assert pid != leader(room, "calm")
    await room.ok("browser_close", "flood")
    await flooding
    await until(lambda: not group(pid))  # all are killed; a busy one is gone when the kernel gets to it


async def test_a_caller_leaves_places_for_others(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browser_engine, "MAX_SESSIONS", 4)
    site = room.site({"/": "<h1>Hi</h1>"})

    async def opened(caller: str, session: str) -> ToolOutput:
        ctx = ToolContext(session_id=session, caller=Caller(caller))
        return await room.registry.execute("browser_open", {"url": site.url()}, ctx)

    assert not (await opened("alice", "a1")).is_error
    with monkeypatch.context() as little:
        little.setattr(browser_engine, "free_memory", lambda: 500 << 20)
        assert "less than 512 MB of memory are free" in (await opened("alice", "a2")).for_llm
    assert not (await opened("alice", "a2")).is_error
    assert "2 sessions have pages open" in (await opened("alice", "a3")).for_llm
    assert not (await opened("bob", "b1")).is_error
    monkeypatch.setattr(browser_engine, "BUSY_SECONDS", 0.0)
    assert not (await opened("alice", "a3")).is_error  # in the place of a1
    assert not (await opened("bob", "b1")).is_error


async def test_a_start_that_hangs_holds_up_no_other_session(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    site = room.site({"/": "<h1>Hi</h1>"})
    hanging: list[Path] = []
    launched = launch.launch

    async def start(settings: BrowserSettings, folder: Path, writable: Any) -> Any:
        if not hanging:
            hanging.append(folder)
            await asyncio.Event().wait()
        return await launched(settings, folder, writable)

    monkeypatch.setattr(launch, "launch", start)
    first = asyncio.ensure_future(room.call("browser_open", "ann", url=site.url()))
    await until(lambda: bool(hanging))
    async with asyncio.timeout(60):
        assert "Hi" in await room.ok("browser_open", "bob", url=site.url())
    second = asyncio.ensure_future(room.ok("browser_open", "ann", url=site.url()))  # waits for the first
    first.cancel()
    assert "Hi" in await second
    assert len(list((room.state.path / "browser").iterdir())) == 2


async def test_what_nobody_uses_is_closed(room_with: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    room: Room = room_with(replace(SETTINGS, idle_timeout=1.0))
    site = room.site({"/": "<h1>Hi</h1>"})
    await room.ok("browser_open", url=site.url())
    pid = leader(room)
    await until(lambda: not group(pid) and not processes(room.state.path))
    assert "closed after 1 s without a call" in await room.refused("browser_snapshot")
    assert "Hi" in await room.ok("browser_open", url=site.url())


async def test_a_cancelled_start_leaves_nothing(room: Room) -> None:
    site = room.site({"/": "<h1>Hi</h1>"})
    before = children(os.getpid())
    for seconds in (0.05, 0.1, 0.2, 0.3, 0.8):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(seconds):
                await room.call("browser_open", url="http://nowhere.test/")
                await asyncio.sleep(5)
    folder = room.state.path / "browser"
    await until(lambda: not (folder.exists() and any(folder.iterdir())) and children(os.getpid()) == before)
    assert "Hi" in await room.ok("browser_open", url=site.url())
    room.engine.close()
    assert not processes(room.state.path)


async def test_a_program_that_is_no_browser(room_with: Any, tmp_path: Path) -> None:
    program = tmp_path / "chromium"
    program.write_text("#!/bin/sh\necho 'error: not a browser' >&2\nexit 3\n")
    program.chmod(0o755)
    room: Room = room_with(BrowserSettings(executable_path=program))
    said = await room.refused("browser_open", url="http://site.example:8080/")
    assert f"{program} could not be started" in said
    assert not list((room.state.path / "browser").iterdir())


async def test_downloads_are_cut_off_at_their_limit(room_with: Any) -> None:
    room: Room = room_with(replace(SETTINGS, max_download_bytes=1 << 20))
    size = 8 << 20
    site = room.site(lambda got: Reply(b"x" * size, "application/octet-stream"))
    said = await room.ok("browser_open", url=site.url("/big.bin"))
    assert 'download of "big.bin" failed: it is larger than 1,048,576 bytes' in said
    assert "was not downloaded" in await room.refused("browser_save", item="d1", path="big.bin")
    folder = room.engine._sessions["s"].chromium.downloads
    await until(lambda: not any(each.stat().st_size > 1 << 20 for each in folder.iterdir()))


async def test_a_page_that_downloads_again_and_again_does_not_fill_the_disk(room: Room) -> None:
    page = f"""<body><script>(async () => {{ for (let number = 0; number < {6 * MAX_KEPT}; number++) {{
        const link = document.body.appendChild(document.createElement("a"));
        link.href = "/file" + number; link.download = ""; link.click();
        await new Promise(done => setTimeout(done, 60)) }} }})()</script>"""
    attached = {"Content-Disposition": "attachment"}
    site = room.site(lambda got: Reply(page) if got.path == "/" else Reply(b"x" * 100_000, headers=attached))
    await room.ok("browser_open", url=site.url())
    folder = room.engine._sessions["s"].chromium.downloads
    await until(lambda: len(site.paths()) > MAX_KEPT + 10)
    await until(lambda: len(list(folder.iterdir())) <= MAX_KEPT + 1)
    assert "there is no download" in await room.refused("browser_save", item="d1", path="x.bin")


async def test_pages_go_through_the_proxy_that_is_set(room: Room) -> None:
    asked: list[str] = []

    async def admit(host: str, port: int) -> Any:
        asked.append(host)
        return [ip_address(HERE)]

    beyond = FilteringProxy(admit)
    listener = loopback_listener()
    await beyond.serve(listener)
    room.proxy = f"http://{HERE}:{listener.getsockname()[1]}"
    site = room.site({"/": "<h1>Hi</h1>"})
    assert "Hi" in await room.ok("browser_open", url=site.url())
    assert "not public" in await room.refused("browser_open", url="http://10.0.0.1/")
    await beyond.close()
    assert set(asked) == {"site.example"}


async def test_a_page_opens_no_more_tabs_than_there_may_be(room: Room) -> None:
    site = room.site({"/": "<script>for (let n = 0; n < 30; n++) open('/x' + n)</script>", "/x": "x"})
    await room.ok("browser_open", url=site.url())
    await until(lambda: len(next(iter(room.engine._sessions.values())).tabs) <= 20)


@pytest.mark.skipif(LACKING is not None, reason=f"no browser here: {LACKING}")
async def test_killed_processes_take_the_browser_along(tmp_path: Path) -> None:
    """kill -9 of the program that uses the tools: Chromium ends, and the next start sweeps its files away."""
    program = textwrap.dedent("""
        import asyncio, sys, time
        from pathlib import Path
        from toolcrib.builtin.browser.launch import launch
        from toolcrib.builtin.settings import BrowserSettings
        async def main():
            chromium = await launch(BrowserSettings(), Path(sys.argv[1]) / "one")
            print(chromium.leader, flush=True)
            await asyncio.sleep(60)
        asyncio.run(main())
    """)
    with subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        try:
            pid = int(await asyncio.to_thread(child.stdout.readline))
            assert group(pid)
            dead_profiles(tmp_path)
            assert (tmp_path / "one").exists()  # in use
        finally:
            child.kill()
    await until(lambda: not group(pid))
    dead_profiles(tmp_path)
    assert not (tmp_path / "one").exists()
