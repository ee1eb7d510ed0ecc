"""The operations of a document: each with a name, its parameters, and the place of each value in the request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, cast

from ...boundary.network.url import parse_url
from ...core.dataclass import dataclass
from ...core.errors import AddressRefused
from ...core.json_values import as_object
from ...core.text import lazy_regex
from .api_document import OpenApiDocument

METHODS = ("get", "head", "post", "put", "patch", "delete", "options")
Place = Literal["path", "query", "header"]
MAX_OPERATIONS = 2_000
MAX_DESCRIPTION = 2_000
BODY = "body"

_PLACES: tuple[Place, ...] = ("path", "query", "header")
IN_PATH = lazy_regex(r"\{([^{}]*)\}")
# Not parameters, by the OpenAPI specification; and headers that say where a request goes, or where it ends.
_OURS = frozenset({
    "accept", "content-type", "authorization", "proxy-authorization", "host", "content-length", "transfer-encoding",
    "connection", "keep-alive", "proxy-connection", "te", "trailer", "upgrade", "expect", "via", "forwarded",
    "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-original-url", "x-rewrite-url",
    "x-http-method-override", "cookie",
})  # fmt: skip
_ENCODINGS = ("application/json", "application/x-www-form-urlencoded", "text/plain")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One value of a request. A call names it `key`, the request names it `name`."""

    key: str
    name: str
    place: Place
    explode: bool = True
    deep: bool = False
    as_json: bool = False


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation.

    `path` contains its `{parameter}`s. `encoding` is the media type of the body; None if there is no body. `body`
    is the name of the body in a call.
    """

    name: str
    method: str
    path: str
    description: str
    schema: Mapping[str, Any]
    parameters: tuple[Parameter, ...] = ()
    encoding: str | None = None
    body: str = BODY


def operations(document: OpenApiDocument) -> Iterator[Operation]:
    """Yield all operations, in the document's order. Raises OpenApiError if the document is invalid."""
    paths: Any = document.root.get("paths", {})
    if not isinstance(paths, dict):
        raise document.wrong("paths", "should be an object")
    count = 0
    for path, node in cast("dict[str, Any]", paths).items():
        item = document.resolve(node, path)
        for method in METHODS:
            if method in item:
                count += 1
                if count > MAX_OPERATIONS:
                    raise document.wrong("paths", f"has more than {MAX_OPERATIONS:,} operations")
                yield _operation(document, path, method, item, document.resolve(item[method], f"{method} {path}"))


def server_url(document: OpenApiDocument) -> str:
    """Return the first server's address, with the defaults of its variables.

    Raises OpenApiError if it is not absolute.
    """
    servers: Any = document.root.get("servers")
    entry = as_object(cast("list[Any]", servers)[0]) if isinstance(servers, list) and servers else {}
    url = str(entry.get("url", ""))
    for name, variable in as_object(entry.get("variables")).items():
        url = url.replace(f"{{{name}}}", str(as_object(variable).get("default", "")))
    try:
        parse_url(url)
    except AddressRefused as error:
        raise document.wrong("servers", f"the address {url[:200]!r} cannot be used ({error}); set base_url") from None
    return url


def _operation(
    document: OpenApiDocument, path: str, method: str, item: Mapping[str, Any], node: Mapping[str, Any]
) -> Operation:
    where = f"{method} {path}"
    if not path.startswith("/"):
        raise document.wrong(where, "a path should begin with /")
    definitions: dict[str, Any] = {}
    properties: dict[str, Any] = {}
    required: list[str] = []
    found: list[Parameter] = []
    for given in _parameters(document, item, node, where):
        parameter = _parameter(given, properties)
        if parameter is None:
            continue
        found.append(parameter)
        properties[parameter.key] = _described(document, given, where, definitions)
        if given.get("required") is True or parameter.place == "path":
            required.append(parameter.key)
    missing = set(IN_PATH.findall(path)) - {each.name for each in found if each.place == "path"}
    if missing:
        raise document.wrong(where, f"{{{min(missing)}}} of the path is not a parameter")
    encoding, key = None, BODY
    if "requestBody" in node:
        body = document.resolve(node["requestBody"], f"{where}.requestBody")
        encoding, schema = _body(document, body, where, definitions)
        key = _free(BODY, properties)
        properties[key] = schema
        if body.get("required") is True:
            required.append(key)
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    if definitions:
        schema["$defs"] = definitions
    return Operation(
        _name(node, method, path), method.upper(), path, _text(node, method, path), schema, tuple(found), encoding, key
    )


def _parameters(
    document: OpenApiDocument, item: Mapping[str, Any], node: Mapping[str, Any], where: str
) -> list[dict[str, Any]]:
    """Return the parameters of the path and of the operation. Those of the operation take precedence."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for holder in (item, node):
        given: Any = holder.get("parameters") or []
        if not isinstance(given, list):
            raise document.wrong(f"{where}.parameters", "should be a list")
        for each in cast("list[Any]", given):
            parameter = document.resolve(each, f"{where}.parameters")
            name, place = parameter.get("name"), parameter.get("in")
            if not isinstance(name, str) or not name or not isinstance(place, str):
                raise document.wrong(f"{where}.parameters", 'each should have the texts "name" and "in"')
            found[place, name] = parameter
    return list(found.values())


def _parameter(given: Mapping[str, Any], taken: Mapping[str, Any]) -> Parameter | None:
    """Return the parameter; None if the caller cannot set it: cookies, and headers that the request sets itself."""
    name, place = given["name"], given["in"]
    if place not in _PLACES or (place == "header" and name.strip().lower() in _OURS):
        return None
    style = given.get("style")
    explode = given.get("explode", place == "query" if style in (None, "form") else True)
    return Parameter(
        _free(name, taken, place), name, place, bool(explode), style == "deepObject", "content" in given
    )  # fmt: skip


def _described(document: OpenApiDocument, given: Mapping[str, Any], where: str, definitions: dict[str, Any]) -> Any:
    node = given.get("schema")
    if node is None:
        media = next(iter(as_object(given.get("content")).values()), None)
        node = as_object(media).get("schema", {})
    schema: Any = document.schema(node, f"{where}.{given.get('name')}", definitions)
    text = given.get("description")
    if isinstance(schema, dict) and isinstance(text, str) and "description" not in schema:
        return {**cast("dict[str, Any]", schema), "description": text[:MAX_DESCRIPTION]}
    return cast("Any", schema)


def _body(
    document: OpenApiDocument, body: Mapping[str, Any], where: str, definitions: dict[str, Any]
) -> tuple[str, Any]:
    kinds = as_object(body.get("content"))
    for encoding in _ENCODINGS:
        for kind, media in kinds.items():
            plain = kind.partition(";")[0].strip().lower()
            if plain == encoding or (encoding == "application/json" and plain.endswith("+json")):
                node = as_object(media).get("schema", {})
                return kind, document.schema(node, f"{where}.requestBody", definitions)
    kind = next(iter(kinds), "text/plain")
    return kind, {"type": "string", "description": f"The body, as {kind}."}


def _free(key: str, taken: Mapping[str, Any], place: str = "") -> str:
    """Return a key that is not taken: an operation may have a path and a query parameter of one name."""
    candidate = key if key not in taken else f"{key}_{place}" if place else f"{key}_"
    while candidate in taken:
        candidate += "_"
    return candidate


def _name(node: Mapping[str, Any], method: str, path: str) -> str:
    given = node.get("operationId")
    return given if isinstance(given, str) and given.strip() else method + IN_PATH.sub(r"by_\1", path)


def _text(node: Mapping[str, Any], method: str, path: str) -> str:
    said = [node.get("summary"), node.get("description")]
    text = "\n\n".join(each.strip() for each in said if isinstance(each, str) and each.strip())
    return f"{text[:MAX_DESCRIPTION] or 'No description.'}\n\n({method.upper()} {path})"
