"""Run a search query in an open directory and yield the results as they come. Uses ripgrep if it is installed."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator

from ..core.errors import ToolError
from ..core.text import lazy_regex
from .read_only_run import Haystack, Running, Stop, run_read_only
from .ripgrep import Query, Ripgrep, arguments, file_types
from .spawn import memory_file

# ripgrep ends the output of a file at its first NUL; without the NUL after a path, this text would be read as a path.
_BINARY = lazy_regex(
    rb"[^\0]*?: (?:WARNING: stopped searching binary file after match|binary file matches) "
    rb'\(found "\\0" byte around offset \d+\)\n'
)


_IGNORING = (".gitignore", ".ignore", ".rgignore", ".git/info/exclude")


class SearchResults:
    """The results of a running search."""

    def __init__(self, running: Running) -> None:
        self._running = running
        self.binary = False  # the one file on stdin matches and is binary: nothing of it was shown

    @property
    def stopped(self) -> Stop | None:
        """Return why the search was stopped early; None if it was not."""
        return self._running.stopped

    def stop(self) -> None:
        """Stop the search, because there are enough results."""
        self._running.stop("enough")

    def names(self) -> Iterator[list[bytes]]:
        """Yield the paths of modes `names` and `files`, in lists as they come."""
        rest = b""
        for chunk in self._running.chunks(1 << 18):
            *whole, rest = (rest + chunk).split(b"\0")
            if whole:
                yield whole

    def records(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield (path, record) of modes `count` and `lines`."""
        buffer = b""
        for chunk in self._running.chunks():
            buffer += chunk
            position = 0
            while (cut := buffer.find(b"\0", position)) >= 0 and (end := buffer.find(b"\n", cut)) >= 0:
                path = buffer[position:cut]
                while binary := _BINARY.match(path):
                    path = path[binary.end() :]
                yield path, buffer[cut + 1 : end]
                position = end + 1
            buffer = buffer[position:]
        self.binary = _BINARY.match(buffer) is not None


@contextlib.contextmanager
def search(
    query: Query,
    haystack: Haystack,
    *,
    ripgrep: Ripgrep | None,
    seconds: float,
    cancelled: Callable[[], bool] = lambda: False,
) -> Generator[SearchResults]:
    """Start a search and yield its results. Leaving the context ends it. Raises ToolError then if the query cannot
    be run."""
    with contextlib.ExitStack() as stack:
        filter_fds: tuple[int, ...] = ()
        if ripgrep is None:
            if query.type:
                raise ToolError("`type` needs ripgrep, which is not installed here; use `glob`, such as *.py")
            from . import pysearch

            command, confine = pysearch.command(query), False  # it opens the directory without following links
        else:
            if not query.no_ignore and haystack.stdin is None:
                _refuse_fifos(haystack)
            filter_file, filter_fds = _filter_file(query.filter_text(), stack)
            command, confine = [ripgrep.path, *arguments(query, filter_file)], True
        run = run_read_only(
            command, haystack, seconds=seconds, cancelled=cancelled, pass_fds=filter_fds, confine=confine
        )
        try:
            running = stack.enter_context(run)
        except OSError as error:
            raise ToolError(f"the search program {command[0]} could not be started: {error.strerror}") from error
        yield SearchResults(running)
        stack.close()
        # ripgrep also answers 2, without a word, where a single file could not be read.
        if running.stopped is None and running.process.returncode != 0 and running.said:
            raise ToolError(_explain(running.said, query, ripgrep))


def _refuse_fifos(where: Haystack) -> None:
    """Raise ToolError if a file that ripgrep reads first is a FIFO, which it would wait for until the end of its time.
    Those further down are not looked for."""
    for folder in (where.directory, *where.readable):
        for name in _IGNORING:
            with contextlib.suppress(OSError):
                if stat.S_ISFIFO(os.stat(name, dir_fd=folder).st_mode):
                    raise ToolError(
                        f"{name} is a FIFO, for which a search would wait; delete it, or set no_ignore=true"
                    )


def _filter_file(text: str, stack: contextlib.ExitStack) -> tuple[str | None, tuple[int, ...]]:
    """Return a file with this text that the program can open, and the descriptors that it needs for that."""
    if not text:
        return None, ()
    if sys.platform == "linux":
        descriptor = memory_file(text.encode("utf-8", "surrogateescape"))
        stack.callback(os.close, descriptor)
        return f"/proc/self/fd/{descriptor}", (descriptor,)
    file = tempfile.NamedTemporaryFile()  # noqa: SIM115
    stack.enter_context(file)
    file.write(text.encode("utf-8", "surrogateescape"))
    file.flush()
    return file.name, ()


def _explain(said: str, query: Query, ripgrep: Ripgrep | None) -> str:
    """Return an error text for the model from the program's error text."""
    said = said.removeprefix("rg: ").strip()
    if "unrecognized file type" in said and ripgrep is not None:
        return f"{said}. Known types that are close: {', '.join(file_types(ripgrep, query.type or ''))}. Or use `glob`."
    if "memory allocation" in said:
        return "a line was too long to hold in memory; leave its file out with `glob`, such as !name"
    if 'literal "\\n" is not allowed' in said:
        return "the pattern spans lines, but a search looks at one line at a time; search for one of the lines"
    hints: list[str] = []
    if "look-around" in said or "backreference" in said:
        said = said.partition("\n\nConsider")[0]
        hints.append("look-around and backreferences do not exist here")
    if "size limit" in said:
        hints.append("use smaller repetitions")
    if not query.fixed_strings:
        hints.append("to search for the text as it is, set fixed_strings=true")
    return f"the pattern is not a valid regular expression:\n{said}\nHint: {'; '.join(hints)}." if hints else said
