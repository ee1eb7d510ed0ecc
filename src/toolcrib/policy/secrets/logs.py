"""Keep secrets out of Toolcrib's own log messages, including tracebacks, and keep others from filling a log."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from ...core.bound import safe

NAMES = (
    "apprise", "toolcrib", "toolcrib.acp", "toolcrib.agent", "toolcrib.boundary",
    "toolcrib.boundary.proxy.proxy_server", "toolcrib.boundary.sandbox.outlet",
    "toolcrib.builtin.browser.browser_engine", "toolcrib.builtin.browser.launch", "toolcrib.builtin.command_preview",
    "toolcrib.builtin.command_runner",
    "toolcrib.builtin.following", "toolcrib.builtin.moved_away", "toolcrib.builtin.shell", "toolcrib.channels",
    "toolcrib.core", "toolcrib.effects.layer_store", "toolcrib.events",
    "toolcrib.hooks", "toolcrib.hosts", "toolcrib.jobs", "toolcrib.jobs.pace", "toolcrib.mcp", "toolcrib.openapi",
    "toolcrib.pipeline", "toolcrib.plugins", "toolcrib.policy", "toolcrib.policy.shell.judge", "toolcrib.record",
    "toolcrib.record.journal", "toolcrib.record.moving", "toolcrib.serve", "toolcrib.watchdog",
)  # fmt: skip
"""All our loggers, because a filter on a logger does not apply to its children; and that of apprise, whose URLs are
secrets."""

_FORMATTER = logging.Formatter()


def redact_logs(redact: Callable[[str], str]) -> Callable[[], None]:
    """Redact the messages and tracebacks of our loggers, and what others log where nothing else shows it, from now on.
    Returns a function that ends it."""
    places = [*map(logging.getLogger, NAMES), *filter(None, [logging.lastResort])]

    def clean(record: logging.LogRecord) -> bool:
        try:
            said = record.getMessage()
            shown = redact(said)
            if shown is not said:
                record.msg, record.args = shown, ()
            trace = record.exc_text  # another toolbox of this process may have redacted it with its own values
            if trace is None and record.exc_info and record.exc_info[0] is not None:
                trace = _FORMATTER.formatException(record.exc_info)
            if trace is not None:
                shown = redact(trace)
                if shown is not trace:
                    record.exc_info, record.exc_text = None, shown
        except Exception as error:  # a message that cannot be formatted is not shown either
            record.msg, record.args = "(a message that could not be redacted: %s)", (type(error).__name__,)
            record.exc_info = None
        return True

    for place in places:
        place.addFilter(clean)

    def end() -> None:
        for place in places:
            place.removeFilter(clean)

    return end


MAX_A_MINUTE = 20
MAX_MESSAGE = 1_000
"""Characters of a message, and of its traceback."""


class FewMessages(logging.Filter):
    """Lets so many messages a minute through from each place that logs, cut and without terminal escapes.

    It is for loggers that repeat what a server, a client or a stranger sends, as often as it is sent.
    """

    def __init__(self) -> None:
        super().__init__()
        self._places: dict[tuple[str, int], tuple[float, int]] = {}
        """By place: since when its messages are counted, and how many there were."""

    def filter(self, record: logging.LogRecord) -> bool:
        place, now = (record.pathname, record.lineno), time.monotonic()
        since, count = self._places.get(place, (now, 0))
        left_out = 0
        if now - since > 60:
            left_out, since, count = max(count - MAX_A_MINUTE, 0), now, 0
        self._places[place] = since, count + 1
        if count >= MAX_A_MINUTE:
            return False
        text = safe(record.getMessage()[:MAX_MESSAGE])
        record.msg, record.args = f"{text} ({left_out:,} more were left out)" if left_out else text, ()
        if record.exc_info and record.exc_info[0] is not None:
            record.exc_text = safe(_FORMATTER.formatException(record.exc_info)[-MAX_MESSAGE:])
            record.exc_info = None
        return True


_few = FewMessages()


def log_little(*names: str) -> None:
    """Let only few messages of these loggers through, from now on and in this process."""
    for name in names:
        logging.getLogger(name).addFilter(_few)  # again, it stays one
