"""What a toolbox gets for its jobs."""

from __future__ import annotations

import pytest

from toolcrib.jobs.host import JobHost
from toolcrib.jobs.schedules import GONE_SECONDS, Schedules
from toolcrib.testing import temporary_toolbox


@pytest.mark.parametrize("disabled", [(), ("job", "schedule_task")])
async def test_disabled_tools_are_not_offered(disabled: tuple[str, ...]) -> None:
    async with temporary_toolbox({"toolcrib.toml": f"[tools]\ndisabled = {list(disabled)}\n"}) as box:
        host = JobHost(box)
        host.offer()
        offered = {name for name in ("job", "cron", "schedule_task") if box.registry.find(name) is not None}
        assert offered == {"job", "cron", "schedule_task"}.difference(disabled)
        await host.aclose()
        assert box.registry.find("cron") is None


async def test_a_worker_that_is_silent_has_ended() -> None:
    async with temporary_toolbox() as box:
        schedules = Schedules(box.state.record)
        assert not schedules.has_worker(1000)
        schedules.seen(1000)
        assert schedules.has_worker(1000 + GONE_SECONDS - 1)
        assert not schedules.has_worker(1000 + GONE_SECONDS)
        schedules.close()
