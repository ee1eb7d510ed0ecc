"""Changes one setting in a configuration file. Everything else stays, comments too.

What comes out is read again before it is written, as in `servers_file.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from ..core.errors import ConfigError
from ..core.homes import config_home
from .exit_codes import Usage
from .servers_file import HEADER, Json, names, parsed, toml_key, toml_value

Keys = tuple[str, ...]
_ENTRY = re.compile(r"\s*([^=#\s][^=#]*?)\s*=")
_OFF = re.compile(r"#\s?")
_BY_HAND = "it is written in a way that cannot be changed here without harm; `toolcrib config edit` opens it"


def own_file(named: str | None = None) -> tuple[Path, str]:
    """The user's configuration file, or the one that --config names, and its text."""
    if named is not None:
        path = Path(named).expanduser().absolute()
        return text_of(path, path)
    home = config_home()
    return text_of(home / "config.toml", home / "config.json")


def project_file(root: Path) -> tuple[Path, str]:
    """The configuration file of a workspace, and its text."""
    return text_of(root / "toolcrib.toml", root / "toolcrib.json")


def text_of(toml: Path, plain: Path) -> tuple[Path, str]:
    """The file of the two that exists, and its text; the first one if neither does. Raises Usage."""
    path = plain if plain.exists() and not toml.exists() else toml
    try:
        return path, path.read_text(encoding="utf-8") if path.exists() else ""
    except (OSError, UnicodeDecodeError) as error:
        raise Usage(f"{path} cannot be read: {error}") from None


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
    return _checked("".join(lines), wanted)


def without_setting(text: str, suffix: str, path: Keys) -> str:
    """The file without a setting or a section. Raises ConfigError where it has none, or the file cannot be changed."""
    values = parsed(text, suffix)
    inner = values
    for key in path[:-1]:
        inner = cast("Json", found) if isinstance(found := inner.get(key), dict) else Json()
    if path[-1] not in inner:
        raise ConfigError(f"{'.'.join(path)} is not set there")
    del inner[path[-1]]
    if suffix == ".json":
        return json.dumps(_pruned(values), indent=2, ensure_ascii=False) + "\n"
    lines = _lines(text)
    kept = [line for line, at in zip(lines, _where(lines), strict=True) if at[: len(path)] != path]
    return _checked("".join(kept), values)


def _put(values: Json, path: Keys, value: Any) -> Json:
    inner = values
    for key in path[:-1]:
        below = inner.setdefault(key, {})
        if not isinstance(below, dict):
            raise ConfigError(f"{key} is not a section in this file; {_BY_HAND}")
        inner = cast("Json", below)
    inner[path[-1]] = value
    return values


def _pruned(values: Any) -> Any:
    """Values without sections that are empty: a header may stay."""
    if not isinstance(values, dict):
        return values
    found = {key: _pruned(each) for key, each in cast("Json", values).items()}
    return {key: each for key, each in found.items() if each != {}}


def _checked(text: str, wanted: Json) -> str:
    try:
        good = _pruned(parsed(text, ".toml")) == _pruned(wanted)
    except ConfigError:
        good = False
    if not good:
        raise ConfigError(_BY_HAND)
    return text


def _lines(text: str) -> list[str]:
    """The lines of a text, each with its end; splitlines would end lines at more than TOML does."""
    return re.findall(r"[^\n]*\n", text if not text or text.endswith("\n") else f"{text}\n")


def _where(lines: Sequence[str]) -> list[Keys]:
    """For each line the setting, or the section of a header, that it begins; () for any other line."""
    found: list[Keys] = []
    table: Keys = ()
    for line in lines:
        header = HEADER.match(line.rstrip("\r\n"))
        entry = _ENTRY.match(line)
        if header is not None:
            table = names(header[1])
            found.append(table)
        elif entry is not None:
            try:
                found.append((*table, *names(entry[1])))
            except ValueError:
                found.append(())
        else:
            found.append(())
    return found


def _find(lines: Sequence[str], path: Keys) -> int | None:
    headers = [HEADER.match(line.rstrip("\r\n")) is not None for line in lines]
    at = [n for n, found in enumerate(_where(lines)) if found == path and not headers[n]]
    return at[0] if at else None


def _place(lines: Sequence[str], path: Keys) -> int | None:
    """The line before which a new setting goes: after one that is written as a comment, or below its section's header.
    None if there is no such section."""
    table = path[:-1]
    headers = [n for n, line in enumerate(lines) if HEADER.match(line.rstrip("\r\n"))]
    begins = 0
    if table:
        own = [n for n in headers if _where(lines[n : n + 1])[0] == table]
        if not own:
            return None
        begins = own[0] + 1
    ends = next((n for n in headers if n >= begins), len(lines))
    for number in range(begins, ends):
        off = _OFF.sub("", lines[number], count=1) if lines[number].startswith("#") else ""
        if HEADER.match(off.rstrip("\r\n")):
            return number if not table else begins
        if _where([off])[0] == path[-1:]:
            return number + 1
    while not table and ends > 0 and not lines[ends - 1].strip():
        ends -= 1
    return begins if table else ends
