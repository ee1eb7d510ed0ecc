"""The pages for people who use a screen reader, no mouse, a small screen, or a dark one."""

from __future__ import annotations

from typing import Any

import pytest

from toolcrib.core.context import ToolContext
from toolcrib.serve.console.page import VIEWS

from ...integration.node_tools import installed
from .conftest import Room

AXE = "4.11.0"
WIDE = """() => [...document.querySelectorAll("body *")].filter((each) => !each.closest(".skip, pre")
    && each.getBoundingClientRect().right > document.documentElement.clientWidth).map((each) => each.outerHTML)"""


@pytest.mark.slow
@pytest.mark.integration
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_axe_finds_nothing_serious(room: Room, page: Any, scheme: str, width: int) -> None:
    source = (installed("axe-core", AXE) / "axe.min.js").read_text()
    room.box.call_sync("nothing", {"a": 1}, ToolContext(session_id="s"))
    room.ask("one")
    room.box.audit.flush()
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 800})
    call = room.box.audit.query(tool="nothing")[0]["call_id"]
    for view in (*VIEWS, f"call?id={call}"):
        page.goto(page.url.rpartition("/")[0] + f"/{view}")
        page.get_by_role("heading", level=1).wait_for()
        page.evaluate(source)
        found = page.evaluate("axe.run()")
        bad = [(each["id"], [node["html"] for node in each["nodes"]][:3]) for each in found["violations"]
               if each["impact"] in ("serious", "critical")]  # fmt: skip
        assert bad == [], view
        wide = page.evaluate(WIDE)
        assert wide == [], view
