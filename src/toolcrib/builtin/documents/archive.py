"""Checks whether a ZIP is an Office document that is safe to unpack, and finds its kind.

The check comes before any reader. It limits the declared sizes of the members (Python's zipfile never returns more than
these). It also refuses every DTD, because entity bombs need one and Office formats never have one.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Callable
from xml.parsers import expat

from .document import Refused

MAX_MEMBERS = 10_000
MAX_UNPACKED = 512 << 20  # bytes, all members together
MAX_RATIO = 250  # for members larger than RATIO_FROM; real documents pack their XML at 1:10 to 1:60
RATIO_FROM = 8 << 20
_LISTS_BYTES = 4 << 20  # bytes of [Content_Types].xml
_PIECE = 64 << 10

# Main parts by content type (ECMA-376 part 1, and [MS-OFFMACRO2]), with and without macros; also templates and shows.
_MAIN = {
    "wordprocessingml.document.main": "docx", "wordprocessingml.template.main": "docx",
    "ms-word.document.macroenabled.main": "docx", "ms-word.template.macroenabledtemplate.main": "docx",
    "spreadsheetml.sheet.main": "xlsx", "spreadsheetml.template.main": "xlsx",
    "ms-excel.sheet.macroenabled.main": "xlsx", "ms-excel.template.macroenabled.main": "xlsx",
    "ms-excel.sheet.binary.macroenabled.main": "xlsx", "ms-excel.addin.macroenabled.main": "xlsx",
    "presentationml.presentation.main": "pptx", "presentationml.slideshow.main": "pptx",
    "presentationml.template.main": "pptx", "ms-powerpoint.presentation.macroenabled.main": "pptx",
    "ms-powerpoint.slideshow.macroenabled.main": "pptx", "ms-powerpoint.template.macroenabled.main": "pptx",
}  # fmt: skip
_OTHERS = {
    "application/epub+zip": "an EPUB book",
    "application/vnd.oasis.opendocument.text": "an OpenDocument text",
    "application/vnd.oasis.opendocument.presentation": "an OpenDocument presentation",
    "application/vnd.oasis.opendocument.graphics": "an OpenDocument drawing",
}
_SHEETS = "application/vnd.oasis.opendocument.spreadsheet"


def inspect(data: bytes) -> tuple[str, bool]:
    """Return the kind of document in a ZIP (docx, xlsx, pptx or ods), and whether it has macros.

    Raises Refused if it is not a document, is damaged, or is a bomb.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            _judge_sizes(archive)
            found = _kind(archive)
            for info in archive.infolist():
                if info.filename.lower().endswith((".xml", ".rels", ".vml")):
                    _judge_xml(archive, info)
            return found
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, OSError, RuntimeError, ValueError) as error:
        if "encrypted" in str(error):
            raise Refused("it is a ZIP archive that is protected by a password") from None
        raise Refused(f"it is damaged: {error}") from None


def _judge_sizes(archive: zipfile.ZipFile) -> None:
    members = archive.infolist()
    if len(members) > MAX_MEMBERS:
        raise Refused(f"it has {len(members):,} members; at most {MAX_MEMBERS:,} are unpacked")
    whole = sum(info.file_size for info in members)
    if whole > MAX_UNPACKED:
        raise Refused(f"it would unpack to {whole:,} bytes; at most {MAX_UNPACKED:,} are unpacked")
    for info in members:
        if info.file_size > RATIO_FROM and info.file_size > MAX_RATIO * max(1, info.compress_size):
            raise Refused(
                f"{info.filename[:100]!r} in it would unpack from {info.compress_size:,} to {info.file_size:,} bytes, "
                "which no real document does"
            )


def _kind(archive: zipfile.ZipFile) -> tuple[str, bool]:
    names = archive.namelist()
    if "[Content_Types].xml" in names:
        types = _start(archive, "[Content_Types].xml", _LISTS_BYTES).decode("utf-8", "replace").lower()
        for name, kind in _MAIN.items():
            if name + "+xml" in types or f'{name}"' in types:
                return kind, "vbaproject" in types or any(each.endswith("vbaProject.bin") for each in names)
        raise Refused("it is an Office container, but none of a Word, Excel or PowerPoint document")
    if "mimetype" in names:
        mime = _start(archive, "mimetype", 200).decode("ascii", "replace").strip()
        if mime.removesuffix("-template") == _SHEETS:
            return "ods", False
        if mime.removesuffix("-template") in _OTHERS:
            name = _OTHERS[mime.removesuffix("-template")]
            raise Refused(f"it is {name}, which is not read; convert it to PDF or docx")
    raise Refused("it is a ZIP archive, not a document; `unzip -l` lists what is in it")


def _start(archive: zipfile.ZipFile, name: str, size: int) -> bytes:
    with archive.open(name) as member:
        return member.read(size)


class _Enough(Exception):
    """Says that the first element has begun, so no DTD can follow."""


def _judge_xml(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> None:
    """Refuse a member with a DTD. Only the part before its first element is unpacked."""
    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = _raising(
        Refused(f"{info.filename[:100]!r} in it declares XML entities or a DTD, which no Office document has")
    )
    parser.StartElementHandler = _raising(_Enough())
    with archive.open(info) as member:
        try:
            while piece := member.read(_PIECE):
                parser.Parse(piece)
        except _Enough:
            return
        except expat.ExpatError as error:
            raise Refused(f"it is damaged: {info.filename[:100]!r} in it is not XML ({error})") from None


def _raising(error: Exception) -> Callable[..., None]:
    def handler(*_: object) -> None:
        raise error

    return handler
