"""Our side of the document process: it sends the requests, limits their time, and makes outputs of the answers."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Generator
from dataclasses import asdict
from importlib.util import find_spec
from typing import Any

from ...boundary.worker_process import FileBytes, WorkerCancelled, WorkerFailed, Workers, WorkerTimeout
from ...core.errors import ToolError
from ...core.extras import how_to_add
from ...core.output import ImageBlock, ToolOutput
from ...core.text import in_lines
from ..document_reading import DocumentRequest, DocumentText
from ..file_kinds import image_type
from ..settings import DocumentSettings

_WORKER = "toolcrib.builtin.documents.work"
_SHOWN_WITHOUT = ("image/png", "image/jpeg", "image/gif", "image/webp")  # formats that models accept without a change
_SHOWN_BYTES = 3_500_000  # base64 makes 5 MB of 3.75 MB, the smallest limit of the large providers
_LIBRARY = {"pdf": "pypdfium2", "ole": "python_calamine"}
_PACKAGE = {"PIL": "Pillow", "pptx": "python-pptx", "python_calamine": "python-calamine", "lxml": "python-pptx"}


class DocumentReader:
    """Reads documents and images, each in a separate process that is killed if it exceeds its limits."""

    def __init__(self, settings: DocumentSettings | None = None) -> None:
        self.settings = settings or DocumentSettings()

    @functools.cached_property
    def _workers(self) -> Workers:
        return Workers(_WORKER, self.settings.memory, reuse=False)

    def read_output(
        self, file: FileBytes, container: str, name: str, wanted: DocumentRequest, cancelled: Callable[[], bool]
    ) -> ToolOutput:
        """Read a document from an open file into an output of `read_file`. Waits in this thread.

        Raises ToolError if it cannot be read.
        """
        self._judge(file.size, container, name)
        if container == "image" and find_spec("PIL") is None:
            return answer(_as_it_is(os.pread(file.fd, _SHOWN_BYTES, 0), file.size, name), name)
        with _explained(self.settings, name):
            head, data = self._workers.run_here(self._job(wanted), file, self.settings.timeout, cancelled)
        return answer(_found(head, data, name), name)

    async def read_bytes(self, data: bytes, container: str, name: str, wanted: DocumentRequest) -> DocumentText:
        """Read a document from bytes, without blocking the event loop. Raises ToolError if it cannot be read."""
        self._judge(len(data), container, name)
        if container == "image" and find_spec("PIL") is None:
            return _as_it_is(data, len(data), name)
        with _explained(self.settings, name):
            head, text = await self._workers.run(self._job(wanted), data, self.settings.timeout)
        return _found(head, text, name)

    def close(self) -> None:
        """End all running reads."""
        self._workers.close()

    def _job(self, wanted: DocumentRequest) -> dict[str, Any]:
        return {**asdict(wanted), "seconds": self.settings.timeout}

    def _judge(self, size: int, container: str, name: str) -> None:
        most = self.settings.max_bytes
        if size > most:
            raise ToolError(
                f"{name} has {size:,} bytes; documents and images are read up to {most:,} "
                "(a person can raise tools.documents.max_bytes)"
            )
        library = _LIBRARY.get(container)
        if library is not None and find_spec(library) is None:
            raise ToolError(_needs(name, library))


@contextlib.contextmanager
def _explained(settings: DocumentSettings, name: str) -> Generator[None]:
    """Turn the error that ended a worker into a ToolError for the model."""
    try:
        yield
    except WorkerCancelled:
        raise
    except WorkerTimeout as error:
        raise ToolError(
            f"{name} could not be read: {error}. Ask for fewer pages with pages=, if it has pages "
            "(a person can raise tools.documents.timeout)"
        ) from None
    except WorkerFailed as error:
        said = str(error)
        if "process ended" in said:  # libraries in C and Rust end the process if they get no memory
            said = f"{said}; it is damaged, or needs more than {settings.memory >> 20} MiB of memory"
        elif ":" in said:  # an unexpected error of a parser
            said = f"it is damaged ({said})"
        raise ToolError(f"{name} could not be read: {said}") from None


def _found(head: dict[str, Any], data: bytes, name: str) -> DocumentText:
    if "refused" in head:
        raise ToolError(f"{name} cannot be read: {head['refused']}")
    if "missing" in head:
        raise ToolError(_needs(name, head["missing"]))
    at = size = head.pop("text")
    images: list[ImageBlock] = []
    for mime, length in head.pop("pictures"):
        images.append(ImageBlock(data[at : at + length], mime))
        at += length
    return DocumentText(**head, text=data[:size].decode("utf-8"), images=tuple(images))


def _needs(name: str, module: str) -> str:
    package = _PACKAGE.get(module.partition(".")[0], module)
    return f"{name} is a document, and {package} is not installed, which would read it: {how_to_add('docs')}"


def _as_it_is(data: bytes, size: int, name: str) -> DocumentText:
    """Return an image without the use of Pillow: exactly the bytes of the file, with the camera's metadata."""
    mime = image_type(data[:64]) or "an image"
    if mime not in _SHOWN_WITHOUT or size > _SHOWN_BYTES:
        problem = f"is {mime}" if size <= _SHOWN_BYTES else f"has {size:,} bytes"
        raise ToolError(f"{name} {problem}; showing it needs Pillow: {how_to_add('docs')}")
    return DocumentText("image", "none", "", 1, "", (), "1", None, 1, mime, (ImageBlock(data, mime),))


def answer(found: DocumentText, name: str) -> ToolOutput:
    """Return the output of `read_file`: the text with a footer, and the images as blocks, in order."""
    if found.kind == "image" and not found.unit:
        block = found.images[0]
        text = f"[image {name}, {found.text}; here {block.mime_type}, {len(block.data):,} bytes]"
    else:
        text = found.text if found.text.strip() or found.unit else f"({name} has no text)"
    notes = [f"(Note: {note}.)" for note in found.notes]
    footer = "" if found.kind == "image" and not found.unit else _footer(found)
    return ToolOutput("\n".join(part for part in (text, *notes, footer) if part), content=found.images)


def _footer(found: DocumentText) -> str:
    whole = f"{found.count:,} {found.unit}{'' if found.count == 1 else 's'}"
    if found.next is None:
        if not found.unit:
            return f"(End of {found.kind} - {in_lines(found.lines or 0)} in all.)"
        everything = found.shown in (f"1-{found.count}", "1") and found.count > 0
        return f"({'End of' if everything else 'From a'} {found.kind} - {whole} in all.)"
    pages, offset = found.next
    onwards = [f'pages="{pages}"'] if pages else []
    onwards += [f"offset={offset}"] if offset > 1 else []
    some = "s" if not found.shown.isdigit() else ""
    here = f"{found.unit.capitalize()}{some} {found.shown} of {found.count:,}" if found.unit else found.kind
    return f"({here}. Use {' '.join(onwards)} to continue.)"
