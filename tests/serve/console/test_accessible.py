"""The pages for people who use a screen reader, no mouse, a small screen, or a dark one."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from toolcrib.agent.history import ModelCall, ModelTurn, Text, Thinking
from toolcrib.agent.session import AgentSession
from toolcrib.agent.store import SessionStore
from toolcrib.core.context import ToolContext
from toolcrib.jobs.engine import Job
from toolcrib.jobs.placing import schedules_of
from toolcrib.jobs.schedule import Every
from toolcrib.serve.console.page import VIEWS

from ...integration.node_tools import installed
from .conftest import Room
from .test_jobs import with_engine

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
    room.ask("two")
    with closing(SessionStore(room.box.state)) as store:
        session = AgentSession(store, store.create(model="m", system="", title="count the stars"))
        session.say("count")
        session.append(ModelTurn((Thinking("how many?"), Text("I count."), ModelCall("c", "launch", "{}"))))
        session.wait_for([{"kind": "question", "run_id": f"{session.id}.1.c", "tool": "ask_user", "question": "All?"}])
    with closing(schedules_of(room.box)) as schedules:
        schedules.add("stars", Every(3_600, 0), Job("message", {"text": "count the stars"}))
    jobs = [Job("message", {"text": "count"}, id="waits"), Job("call", {"tool": "launch"}, id="failed")]
    with ThreadPoolExecutor() as other:  # the browser's loop runs in this thread
        other.submit(asyncio.run, with_engine(room, *jobs, fail=True)).result()
    (Path(room.box.workspace.root) / "toolcrib.toml").write_text("mode = 'observer'")
    room.box.audit.flush()
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 800})
    call = room.box.audit.query(tool="nothing")[0]["call_id"]
    request = room.box.approvals.pending()[0]["id"]
    others = (
        f"call?id={call}&judge=1", f"session?id={session.id}", "tool?name=launch", "rules?rule=launch", "job?id=failed",
        f"inbox?id={request}",
    )  # fmt: skip
    for view in (*VIEWS, *others):
        page.goto(page.url.rpartition("/")[0] + f"/{view}")
        page.get_by_role("heading", level=1).wait_for()
        page.evaluate(source)
        found = page.evaluate("axe.run()")
        bad = [(each["id"], [node["html"] for node in each["nodes"]][:3]) for each in found["violations"]
               if each["impact"] in ("serious", "critical")]  # fmt: skip
        assert bad == [], view
        wide = page.evaluate(WIDE)
        assert wide == [], view
