"""One session: its browser behind its proxy, with its tabs and refs."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from dataclasses import field, replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ...boundary.proxy.proxy_server import FilteringProxy, ProxyRefusal, loopback_listener
from ...core.context import ToolContext
from ...core.dataclass import dataclass
from ...core.errors import ToolError
from .downloads import Downloads
from .snapshot import Element, Notes, changed, paged, plain_ref, quoted, renumbered, subtree
from .snapshot import Page as Lines
from .visits import RULE_OWN, Visits

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Dialog, FileChooser, Frame, Locator, Page, Request, Response, Route

    from ..settings import BrowserSettings
    from .launch import Chromium

MAX_TABS = 20
QUIET_SECONDS = 0.25  # a page without a request for this time counts as settled
SETTLE_SECONDS = 4.0
FRAME_SECONDS = 3.0
MANY_ELEMENTS = 10_000  # a page that has more, and is not shown in this time, is not tried again
LOAD_SECONDS = 5.0  # after the first bytes; then the page is shown as it is
ACTION_SECONDS = 10.0  # for a click, a text, a picture
_LOOK_SECONDS = 0.05
# Switches of the browser force these features to use the proxy. The names of the switches have changed before, so pages
# do not get the features at all.
_NO_DATAGRAMS = (
    "for (const name of ['RTCPeerConnection', 'webkitRTCPeerConnection', 'WebTransport']) delete window[name]"
)
_ENDLESS = frozenset({"eventsource", "websocket", "ping", "media"})  # types of requests that may never end


@dataclass(eq=False, slots=True)
class Tab:
    """A page with its number. `handles` maps our refs to Playwright's refs of the last snapshot."""

    number: int
    page: Page
    running: set[Request] = field(default_factory=set["Request"])
    moved: float = 0.0
    ours: dict[str, str] = field(default_factory=dict[str, str])
    shown: dict[str, Ref] = field(default_factory=dict[str, "Ref"])
    lines: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True)
class Ref:
    """The meaning of a ref: a tab, an element in it, and the address of the page when the snapshot was taken."""

    tab: Tab
    element: Element
    url: str


class BrowserSession:
    """The tabs of one session. All its methods run on the browser's loop, one call at a time (`lock`)."""

    def __init__(
        self, settings: BrowserSettings, visits: Visits, chromium: Chromium, user_agent: str | None = None,
        caller: str | None = None,
    ) -> None:  # fmt: skip
        self.settings, self.visits, self.chromium = settings, visits, chromium
        self._user_agent, self.caller = user_agent, caller
        self.lock = asyncio.Lock()
        self.used = time.monotonic()
        self.notes = Notes()
        self.downloads = Downloads(chromium.downloads, settings.max_download_bytes, self.notes)
        self.tabs: dict[int, Tab] = {}
        self.current = 0
        self.accepting = False  # whether dialogs are accepted
        self._count = 0
        self._making = False
        self._closing: set[asyncio.Future[None]] = set()
        # Not from 1: an approval of `e5` in a closed session must not match an element of the next session.
        self._refs = 1_000 + secrets.randbelow(9_000)
        self._context: BrowserContext | None = None
        self._proxy: FilteringProxy | None = None

    # --- start and end

    @property
    def alive(self) -> bool:
        """Whether its browser still runs."""
        return self.chromium.browser.is_connected()

    async def start(self) -> None:
        """Create the proxy and the context."""
        credential = ("toolcrib", secrets.token_urlsafe(24))
        self._proxy = FilteringProxy(
            self.visits.admit, credential=credential, dial=self.visits.dial, on_refused=self._refused
        )
        listener = loopback_listener()
        port = listener.getsockname()[1]
        await self._proxy.serve(listener)
        settings = self.settings
        width, height = settings.viewport
        context = await self.chromium.browser.new_context(
            accept_downloads=True,
            service_workers="block",
            viewport={"width": width, "height": height},
            proxy={
                "server": f"http://127.0.0.1:{port}",
                "username": credential[0],
                "password": credential[1],
                "bypass": "<-loopback>",
            },
            user_agent=self._user_agent,
        )
        self._context = context
        context.set_default_timeout(min(ACTION_SECONDS, settings.timeout) * 1000)
        context.set_default_navigation_timeout(settings.timeout * 1000)
        await context.grant_permissions([])  # no location, no clipboard, no notifications, no camera
        await context.add_init_script(_NO_DATAGRAMS)
        await context.route("**/*", self._route)
        context.on("page", self._appeared)

    async def close(self) -> None:
        """End the browser with its running downloads, and the proxy."""
        self.downloads.close()
        await self.chromium.close()
        if self._proxy is not None:
            await self._proxy.close()

    def begin(self, ctx: ToolContext) -> None:
        """Prepare the session for a new call."""
        self.visits.begin(ctx)
        self.used = time.monotonic()
        self.accepting = False

    # --- tabs

    def tab(self, number: int | None = None) -> Tab:
        """Return the tab with a number, or the current tab. Raises ToolError if there is no such tab."""
        found = self.tabs.get(self.current if number is None else number)
        if found is not None:
            return found
        self._need_tab()
        raise ToolError(f"there is no tab {number}; there are {', '.join(map(str, self.tabs))}")

    def _need_tab(self) -> None:
        if not self.tabs:  # closed, or the browser ended a moment ago
            raise ToolError("no page is open; browser_open opens one")

    async def new_tab(self) -> Tab:
        """Open an empty tab and make it the current tab. Raises ToolError if there are too many tabs."""
        assert self._context is not None
        if len(self.tabs) >= MAX_TABS:
            raise ToolError(f"{MAX_TABS} tabs are open; close some with browser_tabs")
        self._making = True
        try:
            page = await self._context.new_page()
        finally:
            self._making = False
        tab = next(each for each in self.tabs.values() if each.page is page)
        self.current = tab.number
        return tab

    def _appeared(self, page: Page) -> None:
        """Register a new page: one that we opened, or one that another page opened."""
        self._count += 1
        tab = Tab(self._count, page)
        self.tabs[tab.number] = tab
        page.on("close", lambda _: self._gone(tab))
        page.on("crash", lambda _: self.notes.add(f"tab {tab.number} crashed; browser_open loads it again"))
        page.on("dialog", self._dialog)
        page.on("filechooser", self._chooser)
        page.on("download", self.downloads.began)
        page.on("request", lambda request: self._sent(tab, request))
        page.on("requestfinished", lambda request: self._done(tab, request))
        page.on("requestfailed", lambda request: self._done(tab, request))
        page.on("framenavigated", lambda frame: self._navigated(tab, frame))
        if not self._making:
            self._popped_up(tab)

    def _popped_up(self, tab: Tab) -> None:
        if len(self.tabs) <= MAX_TABS:
            self.notes.add(f"the page opened tab {tab.number}; browser_tabs goes there")
            return
        self.notes.add(f"the page wanted to open a tab; {MAX_TABS} are open, so it was closed")
        closing = asyncio.ensure_future(tab.page.close())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    def _gone(self, tab: Tab) -> None:
        self.tabs.pop(tab.number, None)
        if self.current == tab.number:
            self.current = max(self.tabs, default=0)

    # --- events of pages

    def _sent(self, tab: Tab, request: Request) -> None:
        tab.moved = time.monotonic()
        if request.resource_type not in _ENDLESS:
            tab.running.add(request)

    def _done(self, tab: Tab, request: Request) -> None:
        tab.moved = time.monotonic()
        tab.running.discard(request)

    def _navigated(self, tab: Tab, frame: Frame) -> None:
        tab.moved = time.monotonic()
        if frame is tab.page.main_frame:
            tab.running = {request for request in tab.running if request.is_navigation_request()}

    async def _dialog(self, dialog: Dialog) -> None:
        accept = self.accepting or dialog.type in ("alert", "beforeunload")
        with contextlib.suppress(Exception):  # the page may have gone
            await (dialog.accept() if accept else dialog.dismiss())
        if dialog.type != "beforeunload":
            how = "closed" if dialog.type == "alert" else "accepted" if accept else "dismissed"
            self.notes.add(f"{dialog.type} {quoted(dialog.message)} was {how}")

    def _chooser(self, _: FileChooser) -> None:
        self.notes.add("the page asked for a file; files cannot be given to pages")

    def _refused(self, refusal: ProxyRefusal) -> None:
        if refusal.rule != RULE_OWN:
            self.notes.add(f"refused {quoted(refusal.where)}: {refusal.reason}")

    async def _route(self, route: Route, request: Request) -> None:
        """Abort requests with a forbidden address before they reach the proxy. This is a second layer of protection."""
        try:
            why = self.visits.refuses(request.url, page=self._is_page(request))
        except Exception as error:  # if the check itself fails, the request is refused
            why = f"it could not be judged ({type(error).__name__})"
        with contextlib.suppress(Exception):  # the page may have gone meanwhile
            if why is None:
                await route.continue_()
            else:
                where = request.url if self._is_page(request) else urlsplit(request.url).netloc or request.url
                self.notes.add(f"refused {quoted(where)}: {why}")
                await route.abort("blockedbyclient")

    @staticmethod
    def _is_page(request: Request) -> bool:
        if not request.is_navigation_request():
            return False
        try:
            return request.frame.parent_frame is None
        except Exception:  # the first request of a new tab comes before its frame exists
            return True

    # --- actions of calls

    async def settle(self, tab: Tab, most: float = SETTLE_SECONDS) -> None:
        """Wait a few seconds at most until a page has no requests under way, and then check its address."""
        until = time.monotonic() + most
        await asyncio.sleep(_LOOK_SECONDS)
        while time.monotonic() < until and tab.number in self.tabs:
            if not tab.running and time.monotonic() - tab.moved >= QUIET_SECONDS:
                break
            await asyncio.sleep(_LOOK_SECONDS)
        await self.downloads.settle(1.0)
        for each in list(self.tabs.values()):
            await self._leave_if_refused(each)

    async def _leave_if_refused(self, tab: Tab) -> None:
        """Leave a page with a forbidden address.

        The proxy judges redirects when it connects. This check also finds unusual schemes, and addresses that need an
        approval.
        """
        url = tab.page.url
        if url in ("", "about:blank") or url.startswith("chrome-error:"):
            return
        why = self.visits.refuses(url, page=True)
        if why is None:
            return
        self.notes.add(f"tab {tab.number} was led to {quoted(url)} and taken away: {why}")
        with contextlib.suppress(Exception):
            await tab.page.goto("about:blank")

    async def goto(self, tab: Tab, url: str) -> Response | None:
        """Load an address. Raises ToolError if that fails, with the reason that the proxy gave."""
        proxy = self._proxy
        assert proxy is not None
        proxy.refused.clear()
        for attempt in range(3):
            try:
                # a page that redirects at once never finishes loading: its beginning is enough, `settle` waits for more
                response = await tab.page.goto(url, wait_until="commit")
            except Exception as error:
                said = str(error)
                # the error page comes a moment after the error, and would interrupt the next visit
                if "interrupted by another navigation" in said and "chrome-error" in said and attempt < 2:
                    await asyncio.sleep(0.2)
                    continue
                if "Download is starting" in said or "net::ERR_ABORTED" in said:
                    await self.downloads.settle(self.settings.timeout)
                    return None
                await asyncio.sleep(0.1)
                raise ToolError(f"{url} could not be opened: {self._why(said)}") from None
            where = urlsplit(response.url).netloc if response is not None and response.status >= 400 else ""
            ours = proxy.refused.get(where if ":" in where else f"{where}:80")
            with contextlib.suppress(Exception):
                await tab.page.wait_for_load_state("domcontentloaded", timeout=LOAD_SECONDS * 1000)
            if ours is not None:  # the page is a message of the proxy
                raise ToolError(f"{url} could not be opened: {ours.where}: {ours.reason}")
            return response
        return None

    def _why(self, said: str) -> str:
        refused = list(self._proxy.refused.values()) if self._proxy is not None else []
        if refused and ("ERR_TUNNEL" in said or "ERR_PROXY" in said or "BLOCKED" in said):
            return "; ".join(f"{each.where}: {each.reason}" for each in refused[-3:])
        first = said.splitlines()[0].removeprefix("Page.goto: ")
        if "Timeout" in first:
            return (
                f"it did not load within {self.settings.timeout:g} s (tools.browser.timeout); if the last page hangs, "
                "new_tab=true opens it in a new tab"
            )
        return first.partition(" at ")[0]

    # --- snapshots and refs

    async def snapshot(self, tab: Tab, start: int = 1, within: str | None = None, *, changes: bool = False) -> Lines:
        """Return the accessibility tree as lines with our refs, or only the content of the element `within`.

        With `changes`, return only the new lines, unless most lines are new. Refs of earlier snapshots of this tab
        become invalid, but an element that still exists keeps its ref. Playwright always makes the whole tree, with
        mode="ai", because it forgets the refs of elements that are not in its last snapshot.
        """
        try:  # waits this long for frames that never load, then leaves them out
            tree = await tab.page.aria_snapshot(mode="ai", timeout=FRAME_SECONDS * 1000)
        except Exception as error:
            if "Timeout" not in str(error):
                raise
            async with asyncio.timeout(LOAD_SECONDS):
                count = await tab.page.evaluate("document.querySelectorAll('*').length")
            if count > MANY_ELEMENTS:
                raise ToolError(
                    f"the page has {count:,} elements, too many to show them in time; web_fetch reads its text, "
                    "browser_screenshot shows the window"
                ) from None
            try:
                tree = await tab.page.aria_snapshot(mode="ai")
            except Exception as again:
                raise (TimeoutError() if "Timeout" in str(again) else again) from None
        url = tab.page.url
        shown: dict[str, Ref] = {}

        def name(element: Element) -> str:
            ours = tab.ours.get(element.handle)
            if ours is None:
                self._refs += 1
                ours = tab.ours[element.handle] = f"e{self._refs}"
            shown[ours] = Ref(tab, element, url)
            return ours

        lines = renumbered(tree, name)
        before, tab.lines = tab.lines, lines
        tab.ours = {ref.element.handle: ours for ours, ref in shown.items()}
        tab.shown = shown
        if within is not None:
            lines = subtree(lines, within)
        new = changed(before, lines) if changes else None
        if new is not None:
            return replace(paged(new, 1, self.settings.max_chars), partly=True)
        return paged(lines, start, self.settings.max_chars)

    def find(self, ref: str) -> Ref | None:
        """Return the meaning of a ref if the last snapshot of a tab had it, else None. Other threads may call it."""
        wanted = plain_ref(ref)
        for tab in list(self.tabs.values()):
            found = tab.shown.get(wanted)
            if found is not None:
                return found
        return None

    async def element(self, ref: str) -> tuple[Ref, Locator]:
        """Return the element of a ref. Raises ToolError, with the advice to look again, if it no longer exists."""
        found = self.find(ref)
        if found is None:
            self._need_tab()
            raise ToolError(f"{ref[:40]!r} is not a ref of the last snapshot; take one with browser_snapshot")
        locator = found.tab.page.locator(f"aria-ref={found.element.handle}")
        there = 0
        with contextlib.suppress(Exception):  # Playwright no longer knows this frame
            there = await locator.count()
        if there != 1 or not same_page(found.url, found.tab.page.url):
            role = found.element.said.partition(" ")[0]
            raise ToolError(f"{ref} ({role}) is no longer there; take a new browser_snapshot")
        self.current = found.tab.number
        return found, locator


def same_page(first: str, second: str) -> bool:
    """Return whether two addresses have the same origin. Scripts may change the rest of it without a new page."""
    return first.split("/")[:3] == second.split("/")[:3]
