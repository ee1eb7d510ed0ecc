"""Runs scripts with pydantic-monty: an interpreter in Rust, in worker processes.

The calls of its synchronous interface run in our threads: with the asynchronous one, a process that ends right after it
closes a pool can abort (pydantic-monty 1.4). A dump is only loaded if our own code signed it.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

from ...core.caller import finds_room
from ...core.errors import ToolError
from ...core.text import lazy_regex
from .interpreter import (  # fmt: skip
    MAX_CALLS,
    MAX_SIZE,
    TOO_LARGE,
    TOO_MANY,
    ScriptCall,
    ScriptEnded,
    ScriptFailed,
    ScriptWaiting,
    Step,
    size_of,
)

if TYPE_CHECKING:
    import pydantic_monty

MEMORY = 256 << 20
"""Bytes of values that a script may hold."""
MAX_PRINTED = 1 << 20
"""Bytes that a script may print."""
MAX_SUSPENSIONS = 2_000  # calls, and names that are nowhere
MAX_WORKERS = 8
MAX_WAIT = 5.0
"""Seconds that a script waits for a worker process. A cancelled script waits as long."""
MAX_CHECK = 5.0
"""Seconds that the check of a script's types may take. A cancelled script waits as long."""
MAX_CHECKS = 500
"""So many checks a process makes, then another takes its place: what it remembers must not grow for ever."""
_UNKNOWN = "_toolcrib_checks_only"
"""The first line of what is checked. It is an error of types, so what is checked never runs."""
_STUBS = "import_stubs"
"""The function by which the check asks for the types of modules that it does not know. We have none."""
_processes = set[int]()
"""The processes that have run scripts: this one, and those that it was forked from, whose threads it does not have."""
_LINE = lazy_regex(r"script\.py:(\d+)(:.*)")


class MontyInterpreter:
    """Worker processes for scripts. Made at the first script."""

    def __init__(self, binary: str) -> None:
        self._binary = binary
        self._lock = threading.Lock()
        self._pool: pydantic_monty.Monty | None = None
        self._checker = _Checker(binary)
        self._running: list[str | None] = []  # the callers

    def script(self, names: frozenset[str], seconds: float, caller: str | None = None) -> MontyScript:
        """Return a script that may call functions of these names, and compute for this many seconds. Close it.

        Raises ToolError if the caller would leave no place to others, and in a fork of a process that has run scripts.
        """
        import pydantic_monty

        _processes.add(os.getpid())
        if len(_processes) > 1:
            raise ToolError("this process was forked from one that has run scripts; only a process started anew can")
        with self._lock:
            mine = self._running.count(caller)
            if not finds_room(caller, mine, len(self._running), MAX_WORKERS):
                raise ToolError(f"{mine} of your scripts run already; repeat this one when one of them has ended")
            if self._pool is None:
                self._pool = pydantic_monty.Monty(
                    binary_path=self._binary, max_processes=MAX_WORKERS, checkout_timeout=MAX_WAIT
                )
                self._pool.__enter__()
            self._running.append(caller)
        limits: pydantic_monty.ResourceLimits = {
            "max_memory": MEMORY, "max_feed_duration_secs": seconds, "max_suspensions": MAX_SUSPENSIONS,
        }  # fmt: skip
        return MontyScript(self._pool, limits, names, self._checker, lambda: self._running.remove(caller))

    def close(self) -> None:
        """End the processes."""
        with self._lock:
            pool, self._pool = self._pool, None
        self._checker.close()
        if pool is not None:
            pool.__exit__(None, None, None)


class _Checker:
    """Checks the types of scripts in a process of its own, which remembers what it has read of Python's library and of
    the stubs: then a check takes 1 ms, not 20."""

    def __init__(self, binary: str) -> None:
        self._binary = binary
        self._lock = threading.Lock()
        self._closing = ExitStack()
        self._session: pydantic_monty.MontySession | None = None
        self._stubs, self._left = "", 0

    def wrong(self, code: str, stubs: str) -> str:
        """Return what is wrong with a script; empty if nothing is. Raises MontyError if it cannot be checked."""
        import pydantic_monty

        with self._lock:
            if self._session is None or self._stubs != stubs or not self._left:
                self._begin(stubs)
            assert self._session is not None
            self._left -= 1
            try:
                asked = self._session.feed_start(f"{_UNKNOWN}\n{code}")
                if isinstance(asked, pydantic_monty.FunctionSnapshot) and asked.function_name == _STUBS:
                    asked.resume_not_handled()
            except pydantic_monty.MontyTypingError as error:
                lines = [_LINE.fullmatch(line) for line in error.display().split("\n")]
            except pydantic_monty.MontyError:
                self._end()
                raise
            else:
                lines = [None]
            if lines[0] is None or _UNKNOWN not in lines[0][2]:
                self._end()
                return "its types could not be checked"
        return "\n".join(f"script.py:{int(at[1]) - 1}{at[2]}" for at in lines[1:] if at is not None)

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._end()

    def _begin(self, stubs: str) -> None:
        import pydantic_monty

        self._end()
        pool = pydantic_monty.Monty(binary_path=self._binary, max_processes=1, request_timeout=MAX_CHECK)
        self._closing.enter_context(pool)
        self._session = self._closing.enter_context(
            pool.checkout(
                script_name="script.py", limits={"max_feed_duration_secs": 1.0, "max_suspensions": MAX_CHECKS},
                type_check=True, type_check_stubs=stubs, type_check_format="concise",
            )
        )  # fmt: skip
        self._stubs, self._left = stubs, MAX_CHECKS

    def _end(self) -> None:
        self._session = None
        self._closing.close()


class MontyScript:
    """One script in a worker process. Its methods block; `kill` may be called from any thread meanwhile."""

    def __init__(
        self, pool: pydantic_monty.Monty, limits: pydantic_monty.ResourceLimits, names: frozenset[str],
        checker: _Checker, closed: Callable[[], None],
    ) -> None:  # fmt: skip
        self._pool, self._limits, self._names, self._checker = pool, limits, names, checker
        self._closing = ExitStack()
        self._closing.callback(closed)
        self._pid: int | None = None
        self._killed = False
        self._at: Any = None
        self._printed: Any = None
        self._sizes: dict[int, int] = {}  # of the arguments of the calls that wait

    def start(self, code: str, stubs: str) -> Step:
        """Check the types of a script and run it until it waits or ends."""
        import pydantic_monty

        try:
            wrong = self._checker.wrong(code, stubs)
            if wrong:
                return ScriptFailed(wrong, unchecked=True)
            session = self._checkout()
            return self._until_it_waits(session.feed_start(code, print_callback=self._printed))
        except pydantic_monty.MontySyntaxError as error:
            return ScriptFailed(error.display().replace('"<python-input-0>"', '"script.py"'), unchecked=True)
        except pydantic_monty.MontyError as error:
            return self._failed(error)

    def load(self, snapshot: bytes, printed: str) -> Step:
        """Go on with the state of a script, which only our own code may have dumped, and what it has printed."""
        import pydantic_monty

        session = self._checkout()
        self._printed = pydantic_monty.CollectString(max(1, MAX_PRINTED - len(printed.encode())))
        try:
            return self._until_it_waits(session.load_snapshot(snapshot, print_callback=self._printed))
        except pydantic_monty.MontyError as error:
            return self._failed(error)

    def resume(self, results: Mapping[int, Any]) -> Step:
        """Give the script the results of calls, by number."""
        import pydantic_monty

        settled: Any = {
            number: {"exception": value} if isinstance(value, Exception) else {"return_value": value}
            for number, value in results.items()
        }
        for number in results:
            self._sizes.pop(number, None)
        try:
            return self._until_it_waits(self._at.resume(settled))
        except pydantic_monty.MontyError as error:
            return self._failed(error)

    def dump(self) -> bytes:
        """Return the state of the waiting script."""
        return self._at.dump()

    def printed(self) -> str:
        """Return what it has printed."""
        return "" if self._printed is None else self._printed.output

    def kill(self) -> None:
        """End its process now, or as soon as it has one."""
        self._killed = True
        if self._pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)

    def close(self) -> None:
        """Give the process back."""
        self._pid = None
        self._closing.close()

    def _checkout(self) -> pydantic_monty.MontySession:
        import pydantic_monty

        checkout = self._pool.checkout(script_name="script.py", limits=self._limits)
        try:
            session = self._closing.enter_context(checkout)
        except TimeoutError:
            raise ToolError(f"{MAX_WORKERS} scripts run already; repeat this one when one of them has ended") from None
        self._pid = session.worker_pid
        if self._killed:
            self.kill()
        self._printed = pydantic_monty.CollectString(MAX_PRINTED)
        return session

    def _until_it_waits(self, at: Any) -> Step:
        """Take each call of the script, until all its parts wait or it has ended."""
        import pydantic_monty as monty

        asked: dict[int, ScriptCall] = {}
        while not isinstance(at, (monty.FutureSnapshot, monty.MontyComplete)):
            if isinstance(at, monty.NameLookupSnapshot):
                name = at.variable_name
                at = at.resume(value=_reference(name)) if name in self._names else at.resume()
            elif at.is_os_function:
                at = at.resume_not_handled()
            elif len(asked) >= MAX_CALLS:
                at = at.resume({"exception": TypeError(TOO_MANY)})
            elif at.function_name in self._names and at.object_id is None:
                call, number = ScriptCall(at.function_name, at.args, at.kwargs), at.call_id
                size = size_of((call.args, call.kwargs))
                if size + sum(self._sizes.values()) > MAX_SIZE:
                    at = at.resume({"exception": ValueError(f"for all waiting calls together {TOO_LARGE}")})
                else:
                    asked[number], self._sizes[number] = call, size
                    at = at.resume({"future": ...})
            else:
                at = at.resume({"exception": NameError(f"name {at.function_name!r} is not defined")})
        self._at = at
        if isinstance(at, monty.MontyComplete):
            value = at.output
            if size_of(value) > MAX_SIZE:
                return ScriptFailed(f"the value of the script was left out: {TOO_LARGE}. Return only what you need")
            return ScriptEnded(value)
        return ScriptWaiting(asked, tuple(sorted(at.pending_call_ids)))

    def _failed(self, error: pydantic_monty.MontyError) -> ScriptFailed:
        import pydantic_monty

        if isinstance(error, pydantic_monty.MontyRuntimeError):
            text = error.display()[:MAX_PRINTED].replace('"<python-input-0>"', '"script.py"')
            if text.startswith("TimeoutError: feed time limit exceeded"):
                seconds = self._limits.get("max_feed_duration_secs", 0)
                text = f"TimeoutError: it computed for more than {seconds:g} s; do less, or give it more `timeout`"
            return ScriptFailed(text)
        return ScriptFailed(f"the script was ended: {error}")


def _reference(name: str) -> Any:
    """Return a function of this name: the value of a tool's name in a script that does not call it at once."""

    def function() -> None: ...

    function.__name__ = function.__qualname__ = name
    return function
