"""Puts an entry into the configuration file of another program, and takes it out again: JSON, TOML and YAML.

Everything else stays as it is written: other entries, comments, blanks. JSON may have comments, and commas before
closing brackets, as editors allow. What comes out of JSON and TOML is read again, and must be what was there, with the
change. YAML is read only as far as its lines say plainly where the entry goes; any other file is left alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from ...config.files import JSON_TOKEN, plain_json
from ...core.dataclass import dataclass
from ...core.errors import ConfigError
from ...core.text import lazy_regex
from ..servers_file import with_server, without_server
from ..settings_file import Json, Keys, parsed

BY_HAND = "add the output of --print by hand"


def with_entry(text: str, suffix: str, path: Keys, value: Any) -> str:
    """The text with a value at a path of one or two keys. Raises ConfigError if the file cannot be changed."""
    if suffix == ".yaml":
        block = _block(text.splitlines(keepends=True), path[0])
        if block is not None and "".join(_yaml(path[1], value, block[2])) in text:
            return text
        return _with_yaml(_without_yaml(text, path), path, value)
    if suffix == ".toml":
        known = parsed(text, suffix).get(path[0], {})
        if isinstance(known, dict) and path[1] in known:
            if known[path[1]] == value:
                return text
            text = without_server(text, suffix, path[1])
        return with_server(text, suffix, path[1], value)
    wanted = values_of(text)
    inner = wanted
    *above, last = path
    for key in above:
        below: Any = inner.setdefault(key, {})
        if not isinstance(below, dict):
            raise ConfigError(f"{key} is not an object; correct it, or {BY_HAND}")
        inner = cast("Json", below)
    if last in inner and inner[last] == value:
        return text
    inner[last] = value
    return _checked(_put(text if text.strip() else "{}\n", path, value), wanted)


def without_entry(text: str, suffix: str, path: Keys) -> str:
    """The text without the value at a path, and without what is empty then. The same text if it has none. Raises
    ConfigError if the file cannot be changed."""
    if suffix == ".yaml":
        return _without_yaml(text, path)
    values = parsed(text, suffix) if suffix == ".toml" else values_of(text)
    *above, last = path
    inner: Any = values
    for key in above:
        inner = cast("Json", inner).get(key) if isinstance(inner, dict) else None
    if not isinstance(inner, dict) or last not in inner:
        return text
    if suffix == ".toml":
        return without_server(text, suffix, path[1])
    if len(cast("Json", inner)) == 1 and above:
        return without_entry(text, suffix, tuple(above))
    del inner[last]
    return _checked(_cut(text, path), values)


# --- JSON

_REST_OF_LINE = lazy_regex(r"[ \t]*(//[^\n]*|/\*[^\n]*?\*/)?")


@dataclass(frozen=True, slots=True)
class Member:
    """A key of an object and its value: where they begin and end."""

    key: str
    begin: int
    value: int
    end: int


def values_of(text: str) -> Json:
    """What a JSON file with comments says. Raises ConfigError."""
    made = plain_json(text)
    try:
        found: Any = json.loads(made if made.strip() else "{}")
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"it cannot be read ({error}); correct it, or {BY_HAND}") from None
    if not isinstance(found, dict):
        raise ConfigError(f"it is not an object; correct it, or {BY_HAND}")
    return cast("Json", found)


def _tokens(text: str, start: int) -> Iterator[re.Match[str]]:
    return (token for token in JSON_TOKEN.finditer(text, start) if not token[0].startswith(("//", "/*")))


def _object(text: str, start: int) -> tuple[list[Member], int]:
    """The members of the object that begins at a place, and the place of its closing bracket."""
    members: list[Member] = []
    depth, key, value, last = 0, None, -1, -1
    for token in _tokens(text, start):
        sign = token[0]
        if depth == 1 and sign in ",}":
            if key is not None:
                members.append(Member(json.loads(key[0]), key.start(), value, last))
            key, value = None, -1
            if sign == "}":
                return members, token.start()
        elif depth == 1 and key is None:
            key = token
        elif depth == 1 and sign == ":" and value == -1:
            value = -2
        elif value == -2:
            value = token.start()
        depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(sign, 0)
        last = token.end()
    raise ConfigError(f"it cannot be read; {BY_HAND}")


def _find(text: str, path: Keys) -> tuple[int, Member | None, Keys]:
    """Where the innermost object on the way to a path begins, its member on that way, and the path from there on."""
    start = next(_tokens(text, 0)).start()
    while True:
        members, _ = _object(text, start)
        member = next((each for each in reversed(members) if each.key == path[0]), None)
        if member is None or len(path) == 1:
            return start, member, path
        start, path = member.value, path[1:]


def _put(text: str, path: Keys, value: Any) -> str:
    start, member, rest = _find(text, path)
    for key in reversed(rest[1:]):
        value = {key: value}
    unit = _unit(text)
    members, closing = _object(text, start)
    outer = re.match(r"[ \t]*", text[text.rfind("\n", 0, start) + 1 :])
    indent = f"{outer[0] if outer else ''}{unit}"
    if members:
        before = text[text.rfind("\n", 0, members[0].begin) + 1 : members[0].begin]
        indent = before if not before.strip() else indent
    made = json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", f"\n{indent}")
    if member is not None:
        return f"{text[: member.value]}{made}{text[member.end :]}"
    made = f"\n{indent}{json.dumps(rest[0], ensure_ascii=False)}: {made}"
    if not members:
        gap = text[start + 1 : closing].rstrip()
        return f"{text[: start + 1]}{gap}{made}\n{indent.removesuffix(unit)}{text[closing:]}"
    end = members[-1].end
    after = next(_tokens(text, end))
    last = after[0] == ","  # a comma before the closing bracket: as there, also after the new member
    if last:
        end = after.end()
    line = _REST_OF_LINE.match(text, end)  # a comment about the last member
    rest = line.end() if line is not None and line[1] else end
    return f"{text[:end]}{'' if last else ','}{text[end:rest]}{made}{',' if last else ''}{text[rest:]}"


def _cut(text: str, path: Keys) -> str:
    start, member, _ = _find(text, path)
    assert member is not None
    members, _ = _object(text, start)
    number = members.index(member)
    after = next(_tokens(text, member.end))
    begin, end = member.begin, after.end() if after[0] == "," else member.end
    if after[0] != "," and number:  # the comma before it goes
        comma = next(_tokens(text, members[number - 1].end)).start()
        if not text[comma + 1 : begin].strip():
            return f"{text[:comma]}{text[end:]}"
        text, begin, end = f"{text[:comma]}{text[comma + 1 :]}", begin - 1, end - 1
    line = text.rfind("\n", 0, begin)
    if line >= 0 and not text[line:begin].strip() and text[end : end + 1] == "\n":
        begin = line
    return f"{text[:begin]}{text[end:]}"


def _unit(text: str) -> str:
    found = re.search(r"\n([ \t]+)\S", text)
    return found[1] if found else "  "


def _checked(text: str, wanted: Mapping[str, Any]) -> str:
    try:
        good = values_of(text) == wanted
    except ConfigError:
        good = False
    if not good:
        raise ConfigError(f"this part of it is written in a way that cannot be changed here without harm; {BY_HAND}")
    return text


# --- YAML

_YAML_BY_HAND = f"its YAML is written in a way that is not changed here; {BY_HAND}"


def _with_yaml(text: str, path: Keys, value: Mapping[str, Any]) -> str:
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    block = _block(lines, path[0])
    if block is None:
        return "".join([*lines, f"{path[0]}:\n", *_yaml(path[1], value, "  ")])
    begin, end, indent = block
    if re.fullmatch(r"[^#]*\{\}\s*", lines[begin]):
        lines[begin] = f"{path[0]}:\n"
    return "".join([*lines[:end], *_yaml(path[1], value, indent), *lines[end:]])


def _without_yaml(text: str, path: Keys) -> str:
    lines = text.splitlines(keepends=True)
    block = _block(lines, path[0])
    if block is None:
        return text
    begin, end, indent = block
    entry = re.compile(rf"{indent}([\"']?){re.escape(path[1])}\1:\s*(#.*)?$")
    own = [n for n in range(begin + 1, end) if entry.match(lines[n])]
    if not own:
        if any(re.match(rf"\s+[\"']?{re.escape(path[1])}[\"']?\s*:", line) for line in lines[begin:end]):
            raise ConfigError(_YAML_BY_HAND)
        return text
    last = own[0] + 1
    while last < end and (not lines[last].strip() or lines[last].startswith(f"{indent} ")):
        last += 1
    while not lines[last - 1].strip():
        last -= 1
    rest = [line for line in (*lines[begin + 1 : own[0]], *lines[last:end]) if line.strip()]
    if not rest:
        return "".join([*lines[:begin], *lines[end:]])
    return "".join([*lines[: own[0]], *lines[last:]])


def _block(lines: list[str], key: str) -> tuple[int, int, str] | None:
    """The lines of a mapping at the top: that of its key, the one after its last, and how far its keys are indented.
    None if there is no such key. Raises ConfigError for a file in which that is not plain."""
    begin = None
    keyed = False
    for number, line in enumerate(lines):
        if not line.strip() or line.startswith(("#", " ", "- ") if keyed else "#") or (line == "---\n" and number == 0):
            continue
        found = re.fullmatch(r"([A-Za-z_][\w.-]*):(?:\s.*)?", line.rstrip("\n"))
        if not found:
            raise ConfigError(_YAML_BY_HAND)
        keyed = True
        if found[1] == key:
            if begin is not None or not re.fullmatch(r"[^:]+:\s*(\{\})?\s*(#.*)?", line.rstrip("\n")):
                raise ConfigError(_YAML_BY_HAND)
            begin = number
    if begin is None:
        return None
    end = begin + 1
    while end < len(lines) and (not lines[end].strip() or lines[end].startswith((" ", "#"))):
        end += 1
    while not lines[end - 1].strip() or lines[end - 1].startswith("#"):
        end -= 1
    inside = [line for line in lines[begin + 1 : end] if line.strip() and not line.lstrip().startswith("#")]
    indent = inside[0][: len(inside[0]) - len(inside[0].lstrip(" "))] if inside else "  "
    keys = [line for line in inside if not line.startswith(f"{indent} ")]
    flow = "{}" in lines[begin] and bool(inside)
    if flow or (end < len(lines) and lines[end].startswith("- ")) or any("\t" in line for line in inside):
        raise ConfigError(_YAML_BY_HAND)
    if not all(re.match(rf"{indent}[^\s#&*!|>'\"%@`{{\[-][^:]*:\s*(#.*)?$", line) for line in keys):
        raise ConfigError(_YAML_BY_HAND)
    return begin, end, indent


def _yaml(key: str, value: Mapping[str, Any], indent: str) -> list[str]:
    """An entry: every JSON text, number and list is YAML, too."""
    lines = [f"{indent}{key}:\n"]
    return lines + [f"{indent}  {name}: {json.dumps(each)}\n" for name, each in value.items()]
