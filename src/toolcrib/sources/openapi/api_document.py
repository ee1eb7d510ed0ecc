"""Read an OpenAPI document, follow its references, and convert its schemas to JSON Schema. JSON, 3.0 and 3.1."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote

from ...core.errors import ToolcribError
from ...core.text import lazy_regex
from ..limited_json import json_object

MAX_BYTES = 32 << 20
MAX_STEPS = 50  # how many references may lead to further references
MAX_DEPTH = 100

_SCHEMAS = "#/components/schemas/"
_NAME = lazy_regex(r"[A-Za-z0-9._-]+")
# OpenAPI's own keywords, without meaning for a validator.
_DROPPED = frozenset({"discriminator", "xml", "externalDocs", "example"})
# Keywords whose value is a map of schemas, a list of schemas, or a schema.
_MAPS = frozenset({"properties", "patternProperties", "$defs", "dependentSchemas"})
_LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_ONES = frozenset(
    {"items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames", "unevaluatedProperties"}
)


class OpenApiError(ToolcribError):
    """The document cannot be used. The text names the file and the place in it."""


class OpenApiDocument:
    """A document in memory. `path` names it in errors."""

    def __init__(self, path: Path, root: Mapping[str, Any]) -> None:
        self.path, self.root = path, root
        self._others: dict[str, int] = {}  # references to other places than the components
        self._definitions: dict[str, tuple[Any, list[str]]] = {}  # with what they refer to
        version = root.get("openapi")
        if not isinstance(version, str) or not version.startswith(("3.0", "3.1")):
            said = f"swagger {root['swagger']}" if "swagger" in root else f"openapi {version!r}"
            raise OpenApiError(f"{path}: is {said[:100]}; 3.0 and 3.1 can be read")
        self.is_3_0 = version.startswith("3.0")

    @classmethod
    def read(cls, path: Path) -> OpenApiDocument:
        """Read a file. Raises OpenApiError if it is not a valid document."""
        return cls(path, json_object(path, MAX_BYTES, OpenApiError))

    def wrong(self, where: str, what: str) -> OpenApiError:
        """Return an error that names the place."""
        return OpenApiError(f"{self.path}: {where}: {what}")

    def resolve(self, node: Any, where: str) -> dict[str, Any]:
        """Return an object of the document with its `$ref` followed.

        Raises OpenApiError if it is invalid; other files are never read.
        """
        for _ in range(MAX_STEPS):
            if not isinstance(node, dict):
                raise self.wrong(where, "should be an object")
            found = cast("dict[str, Any]", node)
            reference = found.get("$ref")
            if reference is None:
                return found
            node = self._at(reference, where)
        raise self.wrong(where, "its references go in a circle")

    def _at(self, reference: Any, where: str) -> Any:
        if not isinstance(reference, str) or not reference.startswith("#/"):
            raise self.wrong(where, f"refers to {str(reference)[:100]!r}; only references inside the file are followed")
        found: Any = self.root
        for part in reference[2:].split("/"):
            key = unquote(part).replace("~1", "/").replace("~0", "~")
            if not isinstance(found, dict) or key not in found:
                raise self.wrong(where, f"refers to {reference[:100]!r}, which does not exist")
            found = cast("dict[str, Any]", found)[key]
        return found

    # --- schemas

    def schema(self, node: Any, where: str, definitions: dict[str, Any]) -> Any:
        """Return a schema as JSON Schema. Each schema that it refers to is added to `definitions` once, by name."""
        waiting: list[str] = []
        made = self._schema(node, where, waiting, 0)
        while waiting:
            reference = waiting.pop()
            name = self._name_of(reference)
            if name not in definitions:
                if name not in self._definitions:
                    further: list[str] = []
                    self._definitions[name] = self._schema(self._at(reference, where), name, further, 0), further
                definitions[name], further = self._definitions[name]
                waiting += further
        return made

    def _schema(self, node: Any, where: str, references: list[str], depth: int) -> Any:
        """Return a schema as JSON Schema, and add what it refers to to `references`."""
        if isinstance(node, bool):
            return node
        if not isinstance(node, dict):
            raise self.wrong(where, "should be a schema")
        if depth > MAX_DEPTH:
            raise self.wrong(where, "is nested too deeply")
        given = cast("dict[str, Any]", node)
        reference = given.get("$ref")
        if isinstance(reference, str):
            references.append(reference)
            return {"$ref": f"#/$defs/{self._name_of(reference)}"}

        def inner(value: Any, key: str) -> Any:
            return self._schema(value, f"{where}.{key}", references, depth + 1)

        out: dict[str, Any] = {}
        for key, value in given.items():
            if key in _DROPPED or key.startswith("x-"):
                continue
            if key in _MAPS and isinstance(value, dict):
                out[key] = {k: inner(v, k) for k, v in cast("dict[str, Any]", value).items()}
            elif key in _LISTS and isinstance(value, list):
                out[key] = [inner(v, key) for v in cast("list[Any]", value)]
            elif key in _ONES and isinstance(value, (dict, bool)):
                out[key] = inner(value, key)
            else:
                out[key] = value
        return _as_2020(out) if self.is_3_0 else out

    def _name_of(self, reference: str) -> str:
        """Return the name of a definition: that of a component, or a number for what is elsewhere in the document."""
        name = reference.removeprefix(_SCHEMAS)
        return name if _NAME.fullmatch(name) else f":{self._others.setdefault(reference, len(self._others))}"


def _as_2020(schema: dict[str, Any]) -> dict[str, Any]:
    """Convert OpenAPI 3.0's own forms: `nullable`, and exclusive bounds as booleans."""
    if schema.pop("nullable", False) is True:
        if isinstance(schema.get("type"), str):
            schema["type"] = [schema["type"], "null"]
        if isinstance(schema.get("enum"), list) and None not in schema["enum"]:
            schema["enum"] = [*schema["enum"], None]
    for switch, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        given = schema.get(switch)
        if isinstance(given, bool):
            del schema[switch]
            if given and bound in schema:
                schema[switch] = schema.pop(bound)
    return schema
