"""The commands of jobs: a worker, and what is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...toolbox import Toolbox


def offer_schedules(box: Toolbox) -> None:
    """Give a toolbox the tools that make schedules. A worker runs them."""
    from ...jobs.cron_tools import schedule_tools
    from ...jobs.placing import schedules_of

    schedules = schedules_of(box)
    box.when_closed(schedules.close)
    for tool in schedule_tools(box, schedules):
        if box.settings.tools.has(tool.every_name):
            box.registry.register(tool, on_conflict="keep")
