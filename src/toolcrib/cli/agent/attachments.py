"""Files that a person gives to an agent with a message: named by --file, or after @ in the message."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ...boundary.own_files import read_regular
from ...core.text import lazy_regex
from ..exit_codes import Usage

if TYPE_CHECKING:
    from ...agent.history import Content

MAX_INPUT = 1 << 20  # bytes of stdin or a file
MAX_IMAGE = 5 << 20
_MENTION = lazy_regex(r"""(?<!\S)@(?:"([^"\n]+)"|([^\s"]+))""")
_AFTER = ".,;:!?)]}'"


def mentioned(text: str, folder: Path) -> tuple[list[str], list[str]]:
    """Return the files that a message names after @ (`@notes.md`, `@"my notes.md"`), and the names without a file."""
    found: list[str] = []
    missing: list[str] = []
    for quoted, plain in _MENTION.findall(text):
        names = [quoted] if quoted else [plain, plain.rstrip(_AFTER)]
        name = next((name for name in names if name and (folder / Path(name).expanduser()).is_file()), None)
        if name is None:
            missing.append(names[-1])
        elif name not in found:
            found.append(name)
    return found, missing


def read_files(names: list[str], folder: Path | None = None) -> list[Content]:
    """Return the texts and the images of files that belong to a message. Raises Usage."""
    from ...agent.history import IMAGE_TYPES, Image, file_text
    from ...builtin.file_kinds import image_type

    found: list[Content] = []
    for name in names:
        path = (folder or Path()) / Path(name).expanduser()
        named = path.suffix.lower() in IMAGE_TYPES
        data = _read(name, path, MAX_IMAGE if named else MAX_INPUT)
        if named:
            kind = image_type(data[:64])
            if kind is None or kind not in IMAGE_TYPES.values():  # a provider would refuse every request of the session
                raise Usage(f"{name} is not an image (PNG, JPEG, GIF, WebP), whatever its name says")
            found.append(Image(data, kind))
            continue
        try:
            found.append(file_text(name, data.decode()))
        except UnicodeDecodeError:
            raise Usage(f"{name} is neither text nor an image (PNG, JPEG, GIF, WebP)") from None
    return found


def _read(name: str, path: Path, limit: int) -> bytes:
    """Return the content of a plain file. Raises Usage."""
    try:
        data = read_regular(path, limit)
    except OSError as error:
        raise Usage(f"{name}: {error.strerror}") from None
    if data is None:
        raise Usage(f"{name} is not a file")
    if len(data) > limit:
        raise Usage(f"{name} is larger than {limit} bytes; name it in the text instead")
    return data
