"""Explains errors about a path: which part does not exist, and which path may have been meant."""

from __future__ import annotations

import difflib
import errno
import os
import secrets
from collections.abc import Generator
from contextlib import contextmanager
from itertools import islice

from ..boundary.descriptors import closing_fd
from ..boundary.workspace import Workspace
from ..core.context import ToolContext
from ..core.errors import ToolError
from ..record.journal import Journal
from .listing import printable_path


@contextmanager
def explained(ws: Workspace, path: str) -> Generator[None]:
    """Turn the system's errors about a path into a ToolError that says what is wrong and what to try."""
    try:
        yield
    except ToolError:  # some are OSErrors, too
        raise
    except OSError as error:
        raise ToolError(_explanation(ws, ws.relative(path), error)) from None


def _explanation(ws: Workspace, shown: str, error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return f"File not found: {shown}{similar_names(ws, shown)}"
    if isinstance(error, IsADirectoryError):
        return f"{shown} is a directory; list_dir lists it"
    if isinstance(error, NotADirectoryError):
        return f"{shown} is not a directory, or something above it is a file"
    if isinstance(error, FileExistsError):
        return f"{shown} exists already"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        reason = "" if error.strerror == "Permission denied" else f" ({error.strerror})"
        return f"Permission denied: {shown}{reason}"
    return f"{shown}: {error.strerror or error}"


def similar_names(ws: Workspace, shown: str) -> str:
    """Return a hint: similar names in the same directory, or the first part of the path that does not exist."""
    folder, name = os.path.split(shown)
    try:
        with closing_fd(ws.open_dir(folder or ".")) as fd, os.scandir(fd) as entries:
            names = [entry.name for entry in islice(entries, 2000)]
    except (OSError, ToolError):
        return f" (there is no directory {folder})" if folder else ""
    if name in names:
        return " (it is a link, and what it leads to does not exist)"
    folded = {each.casefold(): each for each in names}
    close = difflib.get_close_matches(name.casefold(), folded, n=3, cutoff=0.6)
    if not close:
        return ""
    paths = [printable_path(os.path.join(folder, folded[each])) for each in close]
    if shown in paths:
        return ". A file whose name is not UTF-8 is shown like this; only a command can name it, with * for those bytes"
    return f". Did you mean {' or '.join(paths)}?"


def still_wanted(ctx: ToolContext) -> None:
    """Stop before a change if the call was ended meanwhile: it has its answer already, and later calls may have run."""
    if ctx.cancelled:
        raise ToolError("the call was ended before anything was changed")


def call_id_of(ctx: ToolContext, journal: Journal) -> str:
    """Return the id under which the journal stores this call's changes. Ask once per call: each id is unique.

    Some models number their calls from the start in every turn. If two calls had one id, an undo of the second call
    would also undo the first.
    """
    if ctx.call_id is None:
        return f"direct-{secrets.token_hex(4)}"
    return f"{ctx.call_id}-{secrets.token_hex(4)}" if journal.knows(ctx.call_id) else ctx.call_id
