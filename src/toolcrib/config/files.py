"""Read one configuration file once, parse it, and find the line of a key in it."""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any, cast

from ..boundary.own_files import read_regular
from ..core.dataclass import dataclass
from ..core.errors import ConfigError
from ..core.nesting import is_deeper
from ..core.settings import Keys, absolute
from ..core.text import lazy_regex

MAX_BYTES = 1 << 20  # a thousand times a long configuration; a wrong path cannot fill the memory
MAX_DEPTH = 40  # far above any real configuration; below the depth at which recursion fails


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """The content of a file when it was read. `digest` is the hash of exactly these bytes: the bytes that are trusted
    are the bytes that are used."""

    path: Path
    text: str
    digest: str
    values: dict[str, Any]

    def line(self, keys: Keys) -> int | None:
        """Return the number of the line with a key, as the file spells it. None if it cannot be found."""
        find = _toml_line if self.path.suffix == ".toml" else _json_line
        return find(self.text, keys)

    def at(self, keys: Keys) -> str:
        """Return `path:line`, or the path alone."""
        line = self.line(keys)
        return f"{self.path}:{line}" if line else str(self.path)


def read_config_file(path: Path) -> ConfigFile:
    """Read and parse a .toml or .json file. Raises ConfigError if it cannot be read or is missing."""
    raw = _read(path)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 text (byte {error.start}); save it as UTF-8") from None
    if path.suffix not in (".toml", ".json"):
        raise ConfigError(f"{path}: a configuration file is called something.toml or something.json")
    try:
        values = _toml(path, text) if path.suffix == ".toml" else _json(text)
    except json.JSONDecodeError as error:
        raise ConfigError(
            f"{path}:{error.lineno}: not valid JSON: {error.msg} at line {error.lineno} column {error.colno}"
        ) from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: {error}") from None
    if not isinstance(values, dict):
        raise ConfigError(f'{path}: should be an object of settings, like {{"mode": "assistant"}}')
    return ConfigFile(path, text, hashlib.sha256(raw).hexdigest(), cast("dict[str, Any]", values))


_TOML_HINTS = {
    "Invalid value": 'a text is in quotes, as in mode = "observer"',
    "Cannot declare": "a file has each section once; put its settings together",
    "Cannot overwrite": "a section has each setting once",
}


_LONG_KEY = lazy_regex(
    r"""(?<![A-Za-z0-9_-])(?:(?:[A-Za-z0-9_-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){40}"""  # MAX_DEPTH
)


def toml_values(text: str) -> dict[str, Any]:
    """Return the values of a TOML text. Raises ValueError, also for a key of more than MAX_DEPTH parts: what tomllib
    takes for one grows with the square of them, 1.5 GB for 20,000. A text or comment that looks like such a key is
    refused, too."""
    import tomllib

    long = _LONG_KEY.search(text)
    if long is not None:
        line = text.count("\n", 0, long.start()) + 1
        raise ValueError(f"the key at line {line} is nested deeper than {MAX_DEPTH} levels")
    return tomllib.loads(text)


def _toml(path: Path, text: str) -> dict[str, Any]:
    import tomllib

    try:
        return toml_values(text)
    except tomllib.TOMLDecodeError as error:
        said = re.sub(r"\A([^(']*)\('(.*)',?\)", lambda m: m[1] + "[" + m[2].replace("', '", ".") + "]", str(error))
        hint = next((f"; {hint}" for begin, hint in _TOML_HINTS.items() if said.startswith(begin)), "")
        raise ConfigError(f"{path}: not valid TOML: {said}{hint}") from None


def _json(text: str) -> Any:
    try:
        return json.loads(text if text.strip() else "{}", parse_constant=_refuse)
    except json.JSONDecodeError:
        return json.loads(plain_json(text), parse_constant=_refuse)


JSON_TOKEN = lazy_regex(
    r'"(?:[^"\\]|\\.)*"?|(?P<comment>//[^\n]*|/\*.*?\*/)|/\*.*|[{}\[\],:]|[^\s{}\[\],:"/]+', re.DOTALL
)


def plain_json(text: str) -> str:
    """Return JSON as editors write it, without its comments and the commas after last members. Every other character
    stays in its place."""
    pieces: list[str] = []
    at = 0
    comma = -1  # the piece with a comma that nothing has followed yet
    for token in JSON_TOKEN.finditer(text):
        pieces.append(text[at : token.start()])
        at = token.end()
        if token["comment"]:
            pieces.append(re.sub(r"[^\n]", " ", token[0]))
            continue
        if token[0] in "}]" and comma >= 0:
            pieces[comma] = " "
        pieces.append(token[0])
        comma = len(pieces) - 1 if token[0] == "," else -1
    return "".join([*pieces, text[at:]])


def absolute_path(path: str | os.PathLike[str], folder: Path, where: str) -> Path:
    """Expand `~`, and resolve a relative path against a folder. Raises ConfigError for a path that is valid on no
    system."""
    try:
        return absolute(path, folder)
    except ValueError as error:
        raise ConfigError(f"{where}: {error}") from None


def check_depth(value: Any, where: str) -> None:
    """Check that a value is not nested deeper than any real setting. Raises ConfigError if it is."""
    if is_deeper(value, MAX_DEPTH - 1):
        raise ConfigError(f"{where}: nested deeper than {MAX_DEPTH} levels")


def check_owner(path: Path, info: os.stat_result, what: str, *, any_owner: bool = False) -> None:
    """Check that only this user, or root, may write a file. Raises ConfigError otherwise. A group with the number of
    the user is the user's own."""
    if not hasattr(os, "getuid"):
        return
    user = os.getuid()
    if not (any_owner or info.st_uid in (user, 0)) or info.st_mode & (0o002 if info.st_gid == user else 0o022):
        raise ConfigError(f"{path}: others may write {what}; make the file yours and its mode 0600")


def exists(path: Path) -> bool:
    """Return whether the path exists, as a broken link too: a file that cannot be read must not count as absent."""
    return os.path.lexists(path)


def _read(path: Path) -> bytes:
    try:
        raw = read_regular(path, MAX_BYTES)
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such file") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(f"{path}: cannot be read: {reason}") from None
    if raw is None:
        raise ConfigError(f"{path}: not a regular file")
    if len(raw) > MAX_BYTES:
        raise ConfigError(f"{path}: larger than {MAX_BYTES:,} bytes, which is too large for a configuration")
    return raw


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not valid JSON")


TOML_KEY = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*')"""
_HEADER = lazy_regex(rf"\s*\[{{1,2}}\s*({TOML_KEY}(?:\s*\.\s*{TOML_KEY})*)\s*\]{{1,2}}")
_PAIR = lazy_regex(rf"\s*({TOML_KEY}(?:\s*\.\s*{TOML_KEY})*)\s*=")


def _toml_line(text: str, keys: Keys) -> int | None:
    """Return the line whose table and key together spell the longest part of `keys`. Good enough for a person to find
    it."""
    best, best_length = None, 0
    table: tuple[str, ...] = ()
    latest: dict[tuple[str, ...], int] = {}  # for each `[[array]]`, the table that was started last
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > 10_000:
            continue
        if header := _HEADER.match(line):
            table = here = _numbered(_split(header[1]), line.lstrip().startswith("[["), latest)
        elif pair := _PAIR.match(line):
            here = (*table, *_split(pair[1]))
        else:
            continue
        if len(here) > best_length and keys[: len(here)] == here:
            best, best_length = number, len(here)
    return best


def _numbered(names: tuple[str, ...], opens: bool, latest: dict[tuple[str, ...], int]) -> tuple[str, ...]:
    """Return the names of a header, with the number of the current table of each array above it."""
    path: tuple[str, ...] = ()
    for position, name in enumerate(names, 1):
        path = (*path, name)
        if opens and position == len(names):
            latest[path] = latest.get(path, -1) + 1
        if path in latest:
            path = (*path, str(latest[path]))
    return path


def _split(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip("\"'") for part in re.findall(TOML_KEY, dotted))


def _json_line(text: str, keys: Keys) -> int | None:
    """Return the line of the last of `keys`. Each key is searched after the line of the key above it."""
    place = 0
    for key in keys:
        if key.isdigit():
            continue
        found = re.compile(re.escape(json.dumps(key, ensure_ascii=False)) + r"\s*:").search(text, place)
        if found is None:
            break
        place = found.start()
    return text.count("\n", 0, place) + 1 if place else None
