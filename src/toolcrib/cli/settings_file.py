"""Changes one setting in a configuration file. Everything else stays, comments too.

TOML is changed line by line. What comes out is read again before it is written: it must be what was there, and the
change, and nothing else.
"""

from __future__ import annotations

import contextlib
import json
import re
import stat
import tomllib
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from ..boundary.own_files import locked_folder, read_file, replace_file
from ..boundary.programs import beneath
from ..boundary.real_path import real_path
from ..config.files import TOML_KEY, toml_values
from ..core.errors import ConfigError
from ..core.homes import config_home
from ..core.settings import Keys
from ..core.text import lazy_regex
from .exit_codes import Usage

Json = dict[str, Any]
_BARE = lazy_regex(r"[A-Za-z0-9_-]+")
_HEADER = lazy_regex(rf"\s*\[\[?\s*({TOML_KEY}(?:\s*\.\s*{TOML_KEY})*)\s*\]\]?\s*(?:#.*)?$")
_ENTRY = lazy_regex(r"\s*([^=#\s][^=#]*?)\s*=")
_OFF = lazy_regex(r"#\s?")
_BY_HAND = "this part of the file is written in a way that cannot be changed here without harm; change it by hand"


def own_file(named: str | None = None) -> tuple[Path, str]:
    """The user's configuration file, or the one that --config names, and its text."""
    if named is not None:
        path = Path(named).expanduser().absolute()
        return text_of(path, path)
    home = config_home()
    return text_of(home / "config.toml", home / "config.json")


def project_file(root: Path) -> tuple[Path, str]:
    """The configuration file of a workspace, and its text."""
    path, text = text_of(root / "toolcrib.toml", root / "toolcrib.json")
    return of_project(path, root), text


def of_project(path: Path, root: Path) -> Path:
    """The path of a project's file. Raises Usage if it is a link to elsewhere: whoever made the project would choose
    which file is changed."""
    if not beneath(real := real_path(path), real_path(root)):
        raise Usage(f"{path} leads out of the workspace, to {real}; change that file itself")
    return path


def shown(path: Path) -> str:
    """A file's path for a person; for a link, also the file that is meant."""
    return f"{real_path(path)} (where the link {path} leads)" if path.is_symlink() else str(path)


def text_of(toml: Path, plain: Path) -> tuple[Path, str]:
    """The file of the two that exists, and its text; the first one if neither does. Raises Usage."""
    path = plain if plain.exists() and not toml.exists() else toml
    try:
        return path, read_file(path).decode() if path.exists() else ""
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise Usage(f"{path} cannot be read: {reason}") from None


def with_setting(text: str, suffix: str, path: Keys, value: Any) -> str:
    """The file with a setting. Raises ConfigError where the file cannot be changed."""
    wanted = _put(parsed(text, suffix), path, value)
    if suffix == ".json":
        return json.dumps(wanted, indent=2, ensure_ascii=False) + "\n"
    lines = _lines(text)
    entry = f"{toml_key(path[-1])} = {toml_value(value)}\n"
    at = _find(lines, path)
    if at is not None:
        lines[at] = entry
    else:
        place = _place(lines, path)
        if place is None:
            gap = ["\n"] if lines else []
            lines += [*gap, f"[{'.'.join(map(toml_key, path[:-1]))}]\n", entry]
        else:
            lines.insert(place, entry)
    return checked("".join(lines), wanted)


def without_setting(text: str, suffix: str, path: Keys) -> str:
    """The file without a setting or a section; a section in which nothing is left goes, too. Raises ConfigError where
    the file has none, or cannot be changed."""
    values = _without(parsed(text, suffix), path)
    if suffix == ".json":
        return json.dumps(values, indent=2, ensure_ascii=False) + "\n"
    lines = _lines(text)
    kept = [
        (line, at[0]) for line, at in zip(lines, _where(lines), strict=True)
        if not any(each[: len(path)] == path for each in at)
    ]  # fmt: skip
    section = path[:-1]
    if section and not any(line.strip() for line, table in kept if table == section and not _header(line)):
        kept = [(line, table) for line, table in kept if table != section]
    left = "".join(line for line, _ in kept).rstrip("\n")
    return checked(f"{left}\n" if left else "", values)


@contextlib.contextmanager
def changing(path: Path) -> Generator[None]:
    """Let no other command change the file from here on, where it is read, until it is written: one of the two changes
    would be lost."""
    folder = Path(real_path(path)).parent
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with locked_folder(folder):
        yield


def write(path: Path, text: str, mode: int = 0o600) -> None:
    """Replace the file in one step; a new one gets this mode, and its folder is for this user alone. A link stays: the
    file that it leads to is replaced, because people keep their settings in one folder and link to them."""
    path = Path(real_path(path))
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else mode
    replace_file(path, text, mode)


def parsed(text: str, suffix: str) -> Json:
    """The values of a file. Raises ConfigError."""
    try:
        found: Any = json.loads(text or "{}") if suffix == ".json" else toml_values(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"it cannot be read: {error}") from None
    if not isinstance(found, dict):
        raise ConfigError("it holds no settings")
    return cast("Json", found)


def checked(text: str, wanted: Json) -> str:
    """A TOML text, if it says what is wanted; sections that are empty do not count. Raises ConfigError."""
    try:
        good = _pruned(parsed(text, ".toml")) == _pruned(wanted)
    except ConfigError:
        good = False
    if not good:
        raise ConfigError(_BY_HAND)
    return text


def toml_key(key: str) -> str:
    """A key as TOML writes it."""
    return key if _BARE.fullmatch(key) else _text(key)


def toml_value(value: Any) -> str:
    """A value as TOML writes it, on one line."""
    if isinstance(value, Mapping):
        pairs = cast("Mapping[str, Any]", value).items()
        return "{ " + ", ".join(f"{toml_key(key)} = {toml_value(each)}" for key, each in pairs) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml_value, cast("list[Any]", value))) + "]"
    return _text(value)


def _text(value: Any) -> str:
    """Texts, numbers, true and false are written alike in JSON and TOML."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")


def _put(values: Json, path: Keys, value: Any) -> Json:
    inner = values
    for key in path[:-1]:
        below = inner.setdefault(key, {})
        if not isinstance(below, dict):
            raise ConfigError(f"{key} is not a section in this file; {_BY_HAND}")
        inner = cast("Json", below)
    inner[path[-1]] = value
    return values


def _without(values: Json, path: Keys) -> Json:
    """The values without a setting, and without the sections that are empty then. Raises ConfigError."""
    key, *rest = path
    inner = values.get(key)
    if key not in values or (rest and not isinstance(inner, dict)):
        raise ConfigError(f"{'.'.join(path)} is not set there")
    left = _without(cast("Json", inner), tuple(rest)) if rest else {}
    return {name: left if name == key else each for name, each in values.items() if name != key or left}


def _pruned(values: Any) -> Any:
    """Values without sections that are empty: a header may stay."""
    if not isinstance(values, dict):
        return values
    found = {key: _pruned(each) for key, each in cast("Json", values).items()}
    return {key: each for key, each in found.items() if each != {}}


def _lines(text: str) -> list[str]:
    """The lines of a text, each with its end; splitlines would end lines at more than TOML does."""
    return re.findall(r"[^\n]*\n", text if not text or text.endswith("\n") else f"{text}\n")


def _header(line: str) -> Keys:
    """The section that a header begins; () for any other line."""
    found = _HEADER.match(line.rstrip("\r\n"))
    return _names(found[1]) if found else ()


def _names(dotted: str) -> Keys:
    try:
        return tuple(next(iter(tomllib.loads(f"{part} = 0"))) for part in re.findall(TOML_KEY, dotted))
    except tomllib.TOMLDecodeError:
        return ()


def _where(lines: Sequence[str]) -> list[tuple[Keys, Keys]]:
    """For each line the section that it is in, and the setting that it begins; () for a line that begins none."""
    found: list[tuple[Keys, Keys]] = []
    table: Keys = ()
    for line in lines:
        header, entry = _header(line), _ENTRY.match(line)
        table = header or table
        own = _names(entry[1]) if entry and not header else ()
        found.append((table, (*table, *own) if own else ()))
    return found


def _find(lines: Sequence[str], path: Keys) -> int | None:
    return next((n for n, (_, setting) in enumerate(_where(lines)) if setting == path), None)


def _place(lines: Sequence[str], path: Keys) -> int | None:
    """The line before which a new setting goes: after one that is written as a comment, or below its section's header.
    None if there is no such section."""
    table = path[:-1]
    headers = [n for n, line in enumerate(lines) if _header(line)]
    begins = 0
    if table:
        own = [n for n in headers if _header(lines[n]) == table]
        if not own:
            return None
        begins = own[0] + 1
    ends = next((n for n in headers if n >= begins), len(lines))
    for number in range(begins, ends):
        off = _OFF.sub("", lines[number], count=1) if lines[number].startswith("#") else ""
        if _header(off):
            return number if not table else begins
        if _where([off])[0][1] == path[-1:]:
            return number + 1
    while not table and ends > 0 and not lines[ends - 1].strip():
        ends -= 1
    return begins if table else ends
