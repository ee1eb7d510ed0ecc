"""Keep secrets out of Toolcrib's own log messages, including tracebacks."""

from __future__ import annotations

import logging
from collections.abc import Callable

NAMES = (
    "apprise", "toolcrib", "toolcrib.agent", "toolcrib.builtin.shell", "toolcrib.channels", "toolcrib.events",
    "toolcrib.hooks", "toolcrib.pipeline", "toolcrib.plugins", "toolcrib.policy", "toolcrib.policy.shell.judge",
    "toolcrib.record", "toolcrib.record.moving", "toolcrib.serve", "toolcrib.watchdog",
)  # fmt: skip
"""All our loggers, because a filter on a logger does not apply to its children; and that of apprise, whose URLs are
secrets."""

_FORMATTER = logging.Formatter()


def redact_logs(redact: Callable[[str], str]) -> Callable[[], None]:
    """Redact the messages and tracebacks of our loggers from now on. Returns a function that ends it."""

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

    for name in NAMES:
        logging.getLogger(name).addFilter(clean)

    def end() -> None:
        for name in NAMES:
            logging.getLogger(name).removeFilter(clean)

    return end
