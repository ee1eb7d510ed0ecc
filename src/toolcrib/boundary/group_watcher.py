"""End the process groups of our commands and servers when this process is killed.

After SIGKILL nothing of ours runs any more, and a server that ignores the end of its input would run on. So a shell of
its own reads the numbers of the groups that run from a pipe. At the end of the pipe it kills those that are left.
"""

from __future__ import annotations

import contextlib
import os
import subprocess

from .per_process import PerProcess

# Its arguments are the groups: `+ 7` adds one, `- 7` removes it.
_SCRIPT = """while read -r what group; do
  if [ "$what" = + ]; then set -- "$@" "$group"; continue; fi
  for each; do shift; [ "$each" = "$group" ] || set -- "$@" "$each"; done
done
for each; do kill -s KILL -- "-$each"; done"""


class GroupWatcher:
    """One shell that outlives this process for a moment. Use `group_watcher()`."""

    def __init__(self) -> None:
        reading, self._writing = os.pipe()
        os.set_blocking(self._writing, False)
        try:
            self._shell = subprocess.Popen(
                ["/bin/sh", "-c", _SCRIPT],
                stdin=reading,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={},
                start_new_session=True,
            )
        except BaseException:
            os.close(self._writing)
            raise
        finally:
            os.close(reading)

    def add(self, group: int) -> None:
        """Kill this process group if this process ends before it is removed."""
        self._say(f"+ {group}\n")

    def remove(self, group: int) -> None:
        """Leave this process group alone: it has ended, and its number may be another's soon."""
        self._say(f"- {group}\n")

    def close(self) -> None:
        """Let the shell end, at the end of this process."""
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            os.close(self._writing)
            self._shell.wait(1)

    def _say(self, line: str) -> None:
        with contextlib.suppress(OSError):  # the shell was killed, or its pipe is full: then nothing watches
            os.write(self._writing, line.encode())


group_watcher = PerProcess(GroupWatcher)
"""Return the watcher of this process; its shell starts at the first call."""
