"""Write tools as typed async Python functions: what a script may call, and what it is checked against."""

from __future__ import annotations

import builtins
import json
import keyword
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from ...core.dataclass import dataclass
from ...core.dialects import WITHHELD, without_texts
from ...core.json_values import as_array, as_object, value_at
from ...core.text import lazy_regex, one_line
from ...core.tool import Tool

_SIMPLE = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
_WORD = lazy_regex(r"[A-Za-z0-9_]+")
MAX_STUBS = 60
"""So many tools are all known to the checker of types: then it need not learn others for the next script."""
_MAX_DEPTH = 6  # objects in objects; deeper ones are `Any`
_MAX_TYPES = 2_000  # of one schema: references may lead to each part of it again and again
_HEAD = "from typing import Any, Literal, NotRequired, TypedDict\nclass PermissionError(OSError): ...\n"
"""`PermissionError` is in the interpreter, but not in what its checker of types knows."""


@dataclass(frozen=True, slots=True)
class ScriptFunction:
    """A tool as a function: its name in a script, and its parameters in the order of positional arguments."""

    name: str
    tool: Tool
    parameters: tuple[str, ...]
    signature: str

    @property
    def stub(self) -> str:
        """The function as a checker of types reads it."""
        return f"{self.signature}    {_docstring(self.tool)}\n"

    def arguments(self, args: Iterable[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call. Raises TypeError, as Python does, for too many or doubled ones."""
        given = list(args)
        if len(given) > len(self.parameters):
            raise TypeError(f"{self.name}() takes {len(self.parameters)} arguments, but {len(given)} were given")
        named = dict(zip(self.parameters, given, strict=False))
        doubled = [name for name in named if name in kwargs]
        if doubled:
            raise TypeError(f"{self.name}() got two values for {doubled[0]!r}")
        return {**named, **kwargs}


def function_name(tool: str) -> str:
    """Return the name of a tool in a script. A name that Python has already gets a `_`: `exec_`."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", tool)
    if name[:1].isdigit():
        name = f"_{name}"
    return f"{name}_" if keyword.iskeyword(name) or hasattr(builtins, name) else name


def functions_of(tools: Sequence[Tool], code: str) -> dict[str, ScriptFunction]:
    """Return the functions by name that code may call; of many tools only those that it names. Of two tools whose names
    become the same, ours has it, then the one with just this name: no server takes a name that means another tool."""
    used = set(_WORD.findall(code)) if len(tools) > MAX_STUBS else None
    found: dict[str, ScriptFunction] = {}
    for tool in sorted(
        tools, key=lambda each: (each.source != "own", each.name != function_name(each.name), each.name)
    ):
        name = function_name(tool.name)
        if (used is None or name in used) and name not in found:
            found[name] = _function(name, tool)
    return found


def described(tool: Tool) -> str:
    """Return a tool as a model reads it that writes scripts: its function, and what each parameter is for."""
    properties = as_object(_schema(tool).get("properties"))
    about = [
        f"# {name}: {one_line(text)}\n"
        for name, each in properties.items()
        if (text := as_object(each).get("description"))
    ]
    return f"{_function(function_name(tool.name), tool).signature}    ...\n{''.join(about)}"


def stubs_text(functions: Iterable[ScriptFunction]) -> str:
    """Return the stubs of functions, as a checker of types reads them."""
    return _HEAD + "".join(each.stub for each in functions)


def _schema(tool: Tool) -> Mapping[str, Any]:
    return tool.schema if not tool.unaccepted else without_texts(tool.schema)


def _function(name: str, tool: Tool) -> ScriptFunction:
    schema = _schema(tool)
    writer = _TypeWriter(name, schema)
    required, properties = _strings(schema.get("required")), as_object(schema.get("properties"))
    ordered = sorted(properties, key=lambda each: each not in required)
    legal = [each for each in ordered if each.isidentifier() and not keyword.iskeyword(each)]
    shown = [
        f"{each}: {writer.type_of(properties[each], each)}{'' if each in required else ' = ...'}" for each in legal
    ]
    if len(legal) < len(ordered) or schema.get("additionalProperties") not in (False, None):
        shown.append("**more: Any")
    output = tool.output_schema
    if output is not None and tool.unaccepted:
        output = without_texts(output)
    result = "str" if output is None else _TypeWriter(f"{name}_result", output).within(writer).type_of(output, "result")
    signature = f"{''.join(writer.classes)}async def {name}({', '.join(shown)}) -> {result}:\n"
    return ScriptFunction(name, tool, tuple(legal), signature)


def _docstring(tool: Tool) -> str:
    text = tool.description if not tool.unaccepted else WITHHELD
    first = next((line.strip() for line in (text or "").splitlines() if line.strip()), "")
    return json.dumps(first[:300], ensure_ascii=True)


class _TypeWriter:
    """Writes the types of one JSON Schema; objects become classes."""

    def __init__(self, owner: str, schema: Mapping[str, Any]) -> None:
        self._owner, self._schema = owner, schema
        self.classes: list[str] = []
        self._depth, self._left = 0, _MAX_TYPES

    def within(self, other: _TypeWriter) -> _TypeWriter:
        """Write the classes to those of another writer."""
        self.classes = other.classes
        return self

    def type_of(self, schema: Any, name: str) -> str:
        """Return the type of a value as Python text; `Any` for what Python's types cannot say, and for what
        is not a schema."""
        self._left -= 1
        if not isinstance(schema, Mapping) or self._depth >= _MAX_DEPTH or self._left < 0:
            return "Any"
        self._depth += 1
        try:
            return self._type(cast("Mapping[str, Any]", schema), name)
        except TypeError:  # not a JSON Schema
            return "Any"
        finally:
            self._depth -= 1

    def _type(self, schema: Mapping[str, Any], name: str) -> str:
        if "$ref" in schema:
            return self.type_of(self._referred(schema["$ref"]), name)
        if "enum" in schema or "const" in schema:
            values = cast("list[Any]", schema.get("enum") or [schema.get("const")])
            return f"Literal[{', '.join(map(repr, values))}]" if all(map(_is_literal, values)) else "Any"
        for key in ("anyOf", "oneOf"):
            if isinstance(schema.get(key), list):
                return _union(self.type_of(each, name) for each in cast("list[Any]", schema[key]))
        kind = schema.get("type")
        if isinstance(kind, list):
            return _union(self.type_of({**schema, "type": each}, name) for each in cast("list[Any]", kind))
        if kind == "array":
            return f"list[{self.type_of(schema.get('items', {}), f'{name}_item')}]"
        if kind == "object":
            return self._object(schema, name)
        return _SIMPLE.get(kind, "Any") if isinstance(kind, str) else "Any"

    def _object(self, schema: Mapping[str, Any], name: str) -> str:
        properties, values = as_object(schema.get("properties")), schema.get("additionalProperties")
        if not properties or values is True:
            return f"dict[str, {self.type_of(values, f'{name}_value')}]"
        required = _strings(schema.get("required"))
        fields: list[str] = []
        for key, value in properties.items():
            kind = self.type_of(value, f"{name}_{key}")
            fields.append(f"{key!r}: {kind if key in required else f'NotRequired[{kind}]'}")
        title = re.sub(r"[^A-Za-z0-9_]", "_", f"{self._owner}_{name}_{len(self.classes)}")
        self.classes.append(f"{title} = TypedDict({title!r}, {{{', '.join(fields)}}})\n")
        return title

    def _referred(self, ref: Any) -> Any:
        """Return what a reference leads to; None if it leads elsewhere."""
        return value_at(self._schema, ref[1:]) if isinstance(ref, str) and ref.startswith("#/") else None


def _strings(value: Any) -> set[str]:
    return {each for each in as_array(value) if isinstance(each, str)}


def _is_literal(value: Any) -> bool:
    return value is None or isinstance(value, (str, bool, int))


def _union(kinds: Iterable[str]) -> str:
    found = list(dict.fromkeys(kinds))
    return "Any" if "Any" in found or not found else " | ".join(found)
