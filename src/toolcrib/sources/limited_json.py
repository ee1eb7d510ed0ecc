"""Read an untrusted JSON file: a regular file of limited size with an object of valid text, else a one-line error."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, cast

from ..boundary.own_files import read_regular

_MAX_MESSAGE = 200  # characters of the parser's message


def json_object(path: Path, most: int, wrong: Callable[[str], Exception]) -> dict[str, Any]:
    """Return the object in a file of at most `most` bytes. Raises `wrong(one line with the file)` if it is invalid.

    The result can always be written again as UTF-8: a lone surrogate would cause an error much later, when it is
    printed.
    """
    try:
        data = read_regular(path, most)
    except OSError as error:
        raise wrong(f"{path}: cannot be read: {error.strerror or error}") from None
    if data is None:
        raise wrong(f"{path}: is not a regular file")
    return parsed_object(data, path, most, wrong)


def parsed_object(data: bytes, path: Path, most: int, wrong: Callable[[str], Exception]) -> dict[str, Any]:
    """Return the object in the content of a file, as `json_object` does. Raises `wrong(one line)` if it is invalid."""
    if len(data) > most:
        raise wrong(f"{path}: has more than {most:,} bytes")
    try:
        root: Any = json.loads(data, parse_constant=_no_number)
        json.dumps(root, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise wrong(f"{path}: has half of a character (\\ud800 to \\udfff without its other half)") from None
    except (ValueError, RecursionError) as error:
        hint = " (YAML is not read: convert it)" if path.suffix in (".yaml", ".yml") else ""
        raise wrong(f"{path}: is not JSON{hint}: {str(error)[:_MAX_MESSAGE]}") from None
    if not isinstance(root, dict):
        raise wrong(f"{path}: should be an object")
    return cast("dict[str, Any]", root)


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not valid JSON")
