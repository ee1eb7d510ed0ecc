"""APIs as tools: read from real-looking documents, called against a real server behind the real guard."""

import copy
import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.boundary.network.address_guard import AddressGuard
from toolcrib.builtin.outgoing import OutgoingRequests
from toolcrib.core.errors import ConfigError, ToolcribError, ToolError
from toolcrib.core.json_schema import compile_schema
from toolcrib.sources.openapi import api_tools
from toolcrib.sources.openapi.api_document import OpenApiDocument, OpenApiError
from toolcrib.sources.openapi.api_operations import Operation, operations, server_url
from toolcrib.sources.openapi.calling import Api, request_of
from toolcrib.sources.settings import OpenApiSettings

from ..conftest import Room

PET = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "nullable": True, "example": "Rex"},
        "age": {"type": "integer", "minimum": 0, "exclusiveMinimum": True},
        "friend": {"$ref": "#/components/schemas/Pet"},
    },
}
PARAMETERS: list[dict[str, Any]] = [
    {"name": "fields", "in": "query", "schema": {"type": "array", "items": {"type": "string"}}},
    {"name": "ids", "in": "query", "explode": False, "schema": {"type": "array", "items": {"type": "integer"}}},
    {"name": "filter", "in": "query", "style": "deepObject", "schema": {"type": "object"}},
    {"name": "petId", "in": "query", "description": "Another one.", "schema": {"type": "string"}},
    {"name": "X-Trace", "in": "header", "schema": {"type": "string"}},
    {"name": "session", "in": "cookie", "schema": {"type": "string"}},
    *({"name": name, "in": "header", "schema": {"type": "string"}} for name in ("Authorization", "HOST", "Connection")),
    {"name": "COOKIE", "in": "header", "schema": {"type": "string"}},
    {"name": "authorization ", "in": "header", "schema": {"type": "string"}},
    {"name": "Transfer-Encoding", "in": "header", "required": True, "schema": {"type": "string"}},
]
PATHS: dict[str, Any] = {
    "/pets/{petId}": {
        "parameters": [{"$ref": "#/components/parameters/PetId"}],
        "get": {"operationId": "getPet", "summary": "One pet.", "parameters": PARAMETERS},
        "delete": {"summary": "Away."},
    },
    "/pets": {
        "post": {
            "operationId": "add pet!",
            "requestBody": {
                "required": True,
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}},
            },
        }
    },
    "/forms": {
        "put": {
            "operationId": "form",
            "requestBody": {"content": {"application/x-www-form-urlencoded": {"schema": {"type": "object"}}}},
        }
    },
}
API: dict[str, Any] = {
    "openapi": "3.0.3",
    "info": {"title": "Pets", "version": "1"},
    "servers": [{"url": "https://{host}/v1", "variables": {"host": {"default": "pets.example.com"}}}],
    "paths": PATHS,
    "components": {
        "schemas": {"Pet": PET},
        "parameters": {"PetId": {"name": "petId", "in": "path", "required": True, "schema": {"type": "string"}}},
    },
}


def document(**changes: Any) -> OpenApiDocument:
    return OpenApiDocument(Path("api.json"), {**API, **changes})


def found(name: str, **changes: Any) -> Operation:
    return next(each for each in operations(document(**changes)) if each.name == name)


def test_names_and_addresses() -> None:
    names = [each.name for each in operations(document())]
    assert names == ["getPet", "delete/pets/by_petId", "add pet!", "form"]
    assert server_url(document()) == "https://pets.example.com/v1"


def test_parameters_go_where_the_document_says() -> None:
    operation = found("getPet")
    assert set(operation.schema["properties"]) == {"petId", "fields", "ids", "filter", "petId_query", "X-Trace"}
    assert operation.schema["required"] == ["petId"]
    args = {
        "petId": "7", "fields": ["a&b", "c"], "ids": [1, 2], "filter": {"x": "y z"}, "petId_query": "é=&",
        "X-Trace": "t",
    }  # fmt: skip
    request, body = request_of(operation, "https://pets.example.com/v1/", args)
    split = urlsplit(request.url)
    assert (split.netloc, split.path, body) == ("pets.example.com", "/v1/pets/7", b"")
    assert parse_qsl(split.query) == [
        ("fields", "a&b"), ("fields", "c"), ("ids", "1,2"), ("filter[x]", "y z"), ("petId", "é=&"),
    ]  # fmt: skip
    assert request.headers == {"X-Trace": "t"}


def test_schemas_become_json_schema_with_their_definitions() -> None:
    schema = found("add pet!").schema
    assert schema["properties"]["body"] == {"$ref": "#/$defs/Pet"}
    pet = schema["$defs"]["Pet"]["properties"]
    assert pet["name"] == {"type": ["string", "null"]}
    assert pet["age"] == {"type": "integer", "exclusiveMinimum": 0}
    assert pet["friend"] == {"$ref": "#/$defs/Pet"}


VALUES = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.lists(
    st.sampled_from(["/", "..", ".", "%2e", "%2F", "?", "#", "@", "\\", ";", ":", "{x}", "{petId}", "\n", "\0", "a"])
).map("".join)


@given(VALUES)
def test_no_value_leaves_its_place_in_the_path(value: str) -> None:
    try:
        request, _ = request_of(found("getPet"), "https://pets.example.com/v1", {"petId": value})
    except ToolError:
        assert not value or any(part in ("", ".", "..") for part in value.replace("\\", "/").split("/"))
        return
    assert request.url.startswith("https://pets.example.com/v1/pets/")
    last = request.url.removeprefix("https://pets.example.com/v1/pets/")
    assert unquote(last) == value
    assert not set(last) & set("/?#\\@;{}\n")


@given(VALUES, VALUES)
def test_no_value_in_a_query_is_more_than_a_value(one: str, other: str) -> None:
    args = {"petId": "7", "fields": [one], "petId_query": other}
    request, _ = request_of(found("getPet"), "https://pets.example.com", args)
    split = urlsplit(request.url)
    assert (split.netloc, split.path, split.fragment) == ("pets.example.com", "/pets/7", "")
    assert parse_qsl(split.query, keep_blank_values=True) == [("fields", one), ("petId", other)]


def test_what_is_referred_to_again_and_again_is_written_once() -> None:
    double = {f"d{n}": {"allOf": [{"$ref": f"#/x/d{n + 1}"}] * 2} for n in range(12)}
    chain = {f"c{n}": {"items": {"$ref": f"#/components/schemas/c{n + 1}"}} for n in range(150)}
    circle = {"self/ref": {"items": {"$ref": "#/components/schemas/self~1ref"}}}
    root = {"openapi": "3.1.0", "x": double | {"d12": True}, "components": {"schemas": chain | {"c150": True} | circle}}
    for start, count in (("#/x/d0", 13), ("#/components/schemas/c0", 151), ("#/components/schemas/self~1ref", 1)):
        definitions: dict[str, Any] = {}
        schema = OpenApiDocument(Path("api.json"), root).schema({"$ref": start}, "here", definitions)
        assert len(definitions) == count
        assert compile_schema({**schema, "$defs": definitions}, "t").is_valid([[]])


@pytest.mark.parametrize("value", ["a\nb: c", "é", "\0"])
def test_a_header_takes_no_line_breaks(value: str) -> None:
    with pytest.raises(ToolError, match="no header can have"):
        request_of(found("getPet"), "https://x.example", {"petId": "7", "X-Trace": value})


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"openapi": "2.0"}, "3.0 and 3.1 can be read"),
        ({"paths": []}, "paths: should be an object"),
        ({"paths": {"/a/{x}": {"get": {}}}}, "{x} of the path is not a parameter"),
        ({"paths": {"a": {"get": {}}}}, "should begin with /"),
        ({"paths": {"/a": {"get": {"parameters": [{"$ref": "other.json#/x"}]}}}}, "only references inside the file"),
        ({"paths": {"/a": {"get": {"parameters": [{"$ref": "#/nowhere"}]}}}}, "which does not exist"),
        ({"paths": {"/a": {"$ref": "#/paths/~1a"}}}, "go in a circle"),
        ({"paths": {"/a": {"get": {"parameters": [{"name": [], "in": "query"}]}}}}, 'the texts "name" and "in"'),
        ({"paths": {"/a": {"get": {"parameters": [{"name": "a"}]}}}}, 'the texts "name" and "in"'),
    ],
)
def test_what_is_wrong_is_said_with_its_place(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(OpenApiError, match=r"api\.json: ") as caught:
        list(operations(document(**changes)))
    assert why in str(caught.value)


RUBBISH: list[Any] = [
    None, True, 0, 1.5, "", "x", "\x1b[31m\n", "a" * 500, [], {}, [None], ["x"], [[]], {"a": None}, {"$ref": 1},
    {"$ref": "#"}, {"$ref": "#/x"}, {"$ref": "#/components/schemas/Pet"}, {"type": "nope"}, {"type": ["object"]},
]  # fmt: skip


def _places(node: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if above:
        yield above
    for key in node if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ():
        yield from _places(node[key], (*above, key))


@pytest.mark.parametrize("rubbish", RUBBISH, ids=lambda value: repr(value)[:20])
def test_rubbish_in_any_place_is_right_or_an_error_of_ours(rubbish: Any) -> None:
    for place in _places(API):
        spoilt: Any = copy.deepcopy(API)
        node = spoilt
        for key in place[:-1]:
            node = node[key]
        node[place[-1]] = rubbish
        try:
            document = OpenApiDocument(Path("api.json"), spoilt)
            api = Api("a", server_url(document), OutgoingRequests(AddressGuard))
            for tool in api_tools(document, api, OpenApiSettings(spec=Path("api.json"))):
                tool.prepare()
        except ToolcribError as error:
            assert len(str(error)) < 1_000


def test_what_cannot_be_read(tmp_path: Path) -> None:
    for name, text, why in [
        ("a.yaml", "openapi: 3.0.0", "YAML is not read"), ("b.json", "[]", "an object"),
        ("c.json", "[" * 100_000, "not JSON"), ("d.json", '{"swagger": "2.0"}', "is swagger 2.0"),
    ]:  # fmt: skip
        (tmp_path / name).write_text(text)
        with pytest.raises(OpenApiError, match=why):
            OpenApiDocument.read(tmp_path / name)
    with pytest.raises(OpenApiError, match="No such file"):
        OpenApiDocument.read(tmp_path / "none.json")
    with pytest.raises(OpenApiError, match="set base_url"):
        server_url(document(servers=[{"url": "/v1"}]))


class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        said = json.dumps(
            {"request": f"{self.command} {self.path}", "auth": self.headers["Authorization"], "body": body}
        )
        self.send_response(302 if "away" in self.path else 404 if "none" in self.path else 200)
        self.send_header("Location", f"http://localhost:{self.server.server_address[1]}/")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said.encode())

    do_GET = do_POST = do_PUT = do_DELETE = answer  # noqa: N815

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[int]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as serving:
        thread = threading.Thread(target=serving.serve_forever)
        thread.start()
        yield serving.server_address[1]
        serving.shutdown()
        thread.join()


def settings(room: Room, port: int, **more: Any) -> dict[str, Any]:
    spec = room.put("api.json", json.dumps(API))
    api = {"spec": str(spec), "base_url": f"http://127.0.0.1:{port}/v1", **more}
    return {
        "openapi": {"pets": api},
        "web": {"allow_private": ["127.0.0.1", "localhost"], "ports": [port]},
    }


async def test_operations_are_called(room: Room, server: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PETS_TOKEN", "geheim-geheim-123")
    headers = {"Authorization": "Bearer ${secret:PETS}"}
    secrets = {"PETS": {"env": "PETS_TOKEN", "tools": ["openapi:pets"]}}
    box = await room.open(secrets=secrets, **settings(room, server, headers=headers))
    text = await room.ok("pets_getPet", petId="a/b", fields=["x"])
    assert '"GET /v1/pets/a%2Fb?fields=x"' in text
    assert "geheim" not in text
    assert "[secret:PETS]" in text  # the server sent it back; it went out, and does not come in
    text = await room.ok("pets_add_pet", body={"name": None, "age": 3})
    assert r"{\"name\": null, \"age\": 3}" in text or r"{\"name\":null,\"age\":3}" in text
    assert "body.name" in await room.fails("pets_add_pet", body={"age": 3})
    assert r"a=b%20c&d=%26" in await room.ok("pets_form", body={"a": "b c", "d": "&"})
    assert "Status: 404" in await room.fails("pets_getPet", petId="none")
    assert "not its API" in await room.fails("pets_getPet", petId="away")
    assert "leave its place" in await room.fails("pets_getPet", petId="../x")
    tools = {tool.name: (str(tool.category), tool.destructive) for tool in box.registry if "pets" in tool.name}
    assert tools["pets_getPet"] == ("network_read", False)
    assert tools["pets_delete_pets_by_petId"] == ("network_write", True)


async def test_a_header_of_the_settings_does_not_come_back(room: Room, server: int) -> None:
    await room.open(**settings(room, server, headers={"Authorization": "Key geheim-geheim-123"}))
    assert '"auth": "[secret:Authorization]"' in await room.ok("pets_getPet", petId="7")


async def test_the_question_shows_all_that_is_sent(room: Room, server: int) -> None:
    given = settings(room, server)
    transfers = {
        "operationId": "pay",
        "parameters": [{"name": "X-Account", "in": "header", "schema": {"type": "string"}}, {"$ref": "#/amount"}],
        "requestBody": {"content": {"application/json": {"schema": {"type": "object"}}}},
    }
    amount = {"name": "amount", "in": "query", "schema": {"type": "integer"}}
    room.put("api.json", json.dumps({**API, "amount": amount, "paths": {"/pay": {"post": transfers}}}))
    box = await room.open(mode="assistant", **given)
    args = {"X-Account": "attacker", "amount": 5, "body": {"for": "rent"}}
    output = await box.call("pets_pay", args)
    row = box.approvals.get(output.meta["approval_id"])
    assert row is not None
    asked = f"POST http://127.0.0.1:{server}/v1/pay?amount=5\nX-Account: attacker\nContent-Type: application/json"
    assert row["preview"] == f'{asked}\n{{"for": "rent"}}'


async def test_no_name_of_a_parameter_changes_what_is_sent(room: Room, server: int) -> None:
    names = ("args", "self", "cls", "ctx", "kwargs", "class", "__class__", "a.b", "filter[x]", "$top")
    given = settings(room, server)
    parameters = [{"name": name, "in": "query", "schema": {"type": "string"}} for name in names]
    paths = {"/x": {"get": {"operationId": "x", "parameters": parameters}}}
    room.put("api.json", json.dumps({**API, "paths": paths}))
    box = await room.open(**given)
    output = await box.call("pets_x", {name: f"{name}!" for name in names})
    sent = json.loads(output.for_llm[output.for_llm.index("{") :])["request"].split()[1]
    assert parse_qsl(urlsplit(sent).query) == [(name, f"{name}!") for name in names]


async def test_an_address_that_is_not_granted_is_refused(room: Room, server: int) -> None:
    given = settings(room, server)
    given["web"]["allow_private"] = []
    with pytest.raises(ConfigError, match="not public"):
        await room.open(**given)
    given["openapi"]["pets"]["base_url"] = f"http://localhost:{server}/v1"
    with pytest.raises(ConfigError, match="localhost"):
        await room.open(**given)


async def test_operations_can_be_chosen(room: Room, caplog: pytest.LogCaptureFixture) -> None:
    choice = {
        "operations": ["get*", "form"],
        "disabled_operations": ["form", "getPets"],
        "prefix": "",
        "category": "memory",
    }
    box = await room.open(**settings(room, 8080, **choice))
    assert box.registry.require("getPet").category == "memory"
    assert "form" not in box.registry
    assert "openapi.pets: the API has no operation 'getPets' (did you mean getPet?)" in caplog.text


async def test_writing_asks_in_assistant_mode(room: Room) -> None:
    box = await room.open(mode="assistant", **settings(room, 8080))
    assert (await box.check("pets_getPet", {"petId": "7"})).verdict == "allow"
    assert (await box.check("pets_add_pet", {"body": {"name": "x"}})).verdict == "ask"


async def test_a_wrong_document_is_an_error_of_the_configuration(room: Room) -> None:
    spec = room.put("bad.json", "{}")
    with pytest.raises(ConfigError, match=r"openapi\.pets: .*bad\.json"):
        await room.open(openapi={"pets": {"spec": str(spec)}})


@pytest.mark.parametrize(
    "large",
    [{"properties": {f"part{number}": {"type": "string"} for number in range(2_000)}}, {"description": "x" * 200_000}],
)
async def test_operations_that_share_a_large_schema_are_too_much_together(room: Room, large: Any) -> None:
    """Each tool compiles its own copy: 2,000 operations with one schema of 2,000 parts took 8 GB."""
    body = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Large"}}}}
    paths = {f"/{number}": {"post": {"operationId": f"op{number}", "requestBody": body}} for number in range(400)}
    given = settings(room, 8080)
    room.put("api.json", json.dumps({**API, "paths": paths, "components": {"schemas": {"Large": large}}}))
    with pytest.raises(ConfigError, match="choose some with `operations`"):
        await room.open(**given)
    given["openapi"]["pets"]["operations"] = ["op1", "op2"]
    assert "pets_op2" in (await room.open(**given)).registry
