"""Makes the six file tools of one workspace, with a shared record of the files that each session has seen."""

from __future__ import annotations

from ..boundary.workspace import Workspace
from ..core.tool import Tool
from ..record.journal import Journal
from .document_reading import DocumentReading
from .edit import EditTools
from .files import FileTools
from .listing import Hider, ListStyle
from .masked import LostBy
from .patch import PatchTools
from .seen import Seen


def file_tools(
    workspace: Workspace,
    journal: Journal,
    *,
    list_style: ListStyle = "plain",
    lost_by: LostBy | None = None,
    hider: Hider | None = None,
    documents: DocumentReading | None = None,
) -> list[Tool]:
    """Return read_file, write_file, edit_file, apply_patch, list_dir and delete_file."""
    seen = Seen()
    return [
        *FileTools(
            workspace, journal, seen, list_style=list_style, lost_by=lost_by, hider=hider, documents=documents
        ).tools(),
        *EditTools(workspace, journal, seen, lost_by=lost_by).tools(),
        *PatchTools(workspace, journal, seen, lost_by=lost_by).tools(),
    ]


def warm(journal: Journal) -> None:
    """Prepare the first edit and the first failed search, in a thread of a long-lived host, so that they do not wait.

    Opening the journal's list takes 1 to 3 ms, importing rapidfuzz 7 ms or more.
    """
    import rapidfuzz.process  # noqa: F401  # pyright: ignore[reportUnusedImport]

    journal.last_call()
