"""Keep secrets out of Toolcrib's own log messages, including tracebacks."""

from __future__ import annotations

import logging
from collections.abc import Callable

NAMES = (
    "toolcrib", "toolcrib.builtin.shell", "toolcrib.events", "toolcrib.hooks", "toolcrib.pipeline", "toolcrib.policy",
    "toolcrib.policy.shell.judge", "toolcrib.record", "toolcrib.record.moving", "toolcrib.serve", "toolcrib.watchdog",
)  # fmt: skip
"""All our loggers: a filter on a logger does not apply to its children."""

_FORMATTER = logging.Formatter()


class LogRedaction(logging.Filter):
    """A filter that passes every record on, with the secrets removed from its message and its traceback."""

    def __init__(self, redact: Callable[[str], str]) -> None:
        super().__init__()
        self._redact = redact

    def filter(self, record: logging.LogRecord) -> bool:
        """Return True for every record, after redacting it."""
        try:
            said = record.getMessage()
            clean = self._redact(said)
            if clean is not said:
                record.msg, record.args = clean, ()
            if record.exc_info and record.exc_info[0] is not None:
                trace = _FORMATTER.formatException(record.exc_info)
                clean = self._redact(trace)
                if clean is not trace:
                    record.exc_info, record.exc_text = None, clean
        except Exception as error:  # a message that cannot be formatted is not shown either
            record.msg, record.args = "(a message that could not be redacted: %s)", (type(error).__name__,)
            record.exc_info = None
        return True


def redact_logs(redact: Callable[[str], str]) -> Callable[[], None]:
    """Redact the messages of our loggers from now on. Returns a function that ends it."""
    added = LogRedaction(redact)
    for name in NAMES:
        logging.getLogger(name).addFilter(added)

    def end() -> None:
        for name in NAMES:
            logging.getLogger(name).removeFilter(added)

    return end
