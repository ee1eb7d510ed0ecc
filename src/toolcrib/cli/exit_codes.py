"""Which exit code does a command end with? Those of an agent's turn are in `agent/run`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..core.errors import ConfigError, ToolcribError, ToolNotFoundError, UnknownName
from ..core.homes import FOLDER_GONE, state_home
from . import show

if TYPE_CHECKING:
    from ..core.output import ToolOutput
    from ..core.verdict import Verdict

OK, FAILED, USAGE, REFUSED, INTERRUPTED = 0, 1, 2, 3, 130
SUMMARY = "0 ok, 1 tool error, 2 usage or arguments, 3 denied or not approved, 130 interrupted"
_OF_ERROR_KIND = {
    "not_found": USAGE, "invalid": USAGE, "denied": REFUSED, "pending": REFUSED, "cancelled": INTERRUPTED,
}  # fmt: skip


class Usage(ConfigError):
    """The command line is wrong; the text says why and what to type. Exit code 2."""


class NotConfirmed(Exception):
    """The person did not say yes to a change; the text says what was left undone. Exit code 3."""


def of_success(success: bool) -> int:
    """The exit code of a command that looks for faults: 0 if there are none, else 1."""
    return OK if success else FAILED


def of_verdict(verdict: Verdict) -> int:
    """The exit code of a command that judges a call: 0 for allow, 3 for ask and deny."""
    return OK if verdict == "allow" else REFUSED


def of_output(output: ToolOutput) -> int:
    """The exit code of a command that called a tool."""
    return _OF_ERROR_KIND.get(output.error_kind or "", FAILED) if output.is_error else OK


def of_command(work: Callable[[], int | None]) -> int:
    """Run a command and return its exit code. An error that it raises is shown on stderr."""
    try:
        code = work() or OK
        sys.stdout.flush()
        return code
    except (ToolcribError, NotConfirmed) as error:
        show.error(show.not_found(str(error)) if isinstance(error, ToolNotFoundError) else str(error))
        wrong_words = isinstance(error, ConfigError | ToolNotFoundError | UnknownName)
        return USAGE if wrong_words else REFUSED if isinstance(error, NotConfirmed) else FAILED
    except KeyboardInterrupt:
        show.error("interrupted")
        return INTERRUPTED
    except BrokenPipeError:  # the reader ended first, as in `toolcrib list | head`
        drop_stdout()
        return OK
    except SystemExit:
        try:
            sys.stdout.flush()
        except BrokenPipeError:  # its end cancelled the work, as in `toolcrib run … | head`
            drop_stdout()
            return OK
        raise
    except FileNotFoundError as error:
        show.error(f"{error.strerror}: {error.filename}" if error.filename else FOLDER_GONE)
        return FAILED
    except OSError as error:
        show.error(f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}")
        return FAILED
    except _database_errors() as error:
        show.error(f"a database in {state_home()} cannot be used: {error}. Make room there if the disk is full; "
                   "a damaged one can be moved away")  # fmt: skip
        return FAILED


def drop_stdout() -> None:
    """Let the interpreter write what is left of stdout nowhere. At its end it would complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _database_errors() -> type[Exception]:
    import sqlite3  # only here: most commands need no database

    return sqlite3.Error
