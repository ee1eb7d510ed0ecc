"""Entries in other programs' files: the rest stays, character by character, or nothing is changed."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.cli.install.client_file import values_of, with_entry, without_entry
from toolcrib.core.errors import ConfigError

ENTRY: dict[str, Any] = {"command": "toolcrib", "args": ["serve"]}
PATH = ("servers", "toolcrib")

JSON = [
    "{}", "{\n}\n", '{"a":1}',
    '{\n  // mine\n  "a": [1, 2,],\n  "servers": {\n    "x": {"y": "//no"} // last\n  }\n}\n',
    '{\n\t"servers": {"mine": {"command": "é"}}\n}\n', '{"servers":{"a":{},"a":{"x":1}}}',
    '{\n  "servers": {\n    /* first */ "x": 1, // a comma\n  },\n}\n',
]  # fmt: skip
YAML = [
    "GOOSE_MODE: auto\n", "# c\nservers:\n  developer:\n    enabled: true\n\n# next\nX: 1\n",
    "servers:\n    a:\n        x: 1 # c\n\n    b:\n        - q\nX:\n- 1\n",
    'A: |\n  text\n  servers:\nservers:\n  x:\n    y: "a: b"\n', "---\nA: 1\n",
]  # fmt: skip


@pytest.mark.parametrize("before", JSON)
def test_an_entry_comes_and_goes(before: str) -> None:
    after = with_entry(before, ".json", PATH, ENTRY)
    assert values_of(after)["servers"]["toolcrib"] == ENTRY
    assert with_entry(after, ".json", PATH, ENTRY) == after
    other = with_entry(after, ".json", PATH, {"command": "x"})
    assert values_of(other) == {
        **values_of(after),
        "servers": {**values_of(after)["servers"], "toolcrib": {"command": "x"}},
    }
    gone = without_entry(after, ".json", PATH)
    assert gone.split() == before.replace("{}", "{ }").split() or gone.split() == before.split()
    for comment in ("// mine", "// last", "/* first */", "// a comma"):
        assert (comment in after) == (comment in before) == (comment in gone)


VALUES = st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5), lambda v: st.lists(v, max_size=3)
                      | st.dictionaries(st.text(max_size=4), v, max_size=3), max_leaves=8)  # fmt: skip


OBJECTS = st.dictionaries(st.text(max_size=4), VALUES, max_size=4)


@given(OBJECTS, OBJECTS, st.sampled_from([None, 1, "\t"]))
def test_any_json_stays_what_it_was(rest: dict[str, Any], servers: dict[str, Any], indent: Any) -> None:
    values = {**rest, "servers": servers}
    after = with_entry(json.dumps(values, indent=indent), ".json", PATH, ENTRY)
    assert json.loads(after) == {**values, "servers": {**servers, "toolcrib": ENTRY}}
    assert json.loads(without_entry(after, ".json", PATH)).get("servers", {}) == {
        key: value for key, value in servers.items() if key != "toolcrib"
    }


@pytest.mark.parametrize("before", YAML)
def test_an_entry_comes_and_goes_in_yaml(before: str) -> None:
    after = with_entry(before, ".yaml", PATH, ENTRY)
    known = yaml.safe_load(before)
    assert yaml.safe_load(after) == {**known, "servers": {**(known.get("servers") or {}), "toolcrib": ENTRY}}
    assert with_entry(after, ".yaml", PATH, ENTRY) == after
    assert without_entry(after, ".yaml", PATH) == before


@pytest.mark.parametrize(
    "text",
    [
        "{servers: {}}", "servers: {a: 1}\n", "servers:\n- a\n", "servers: &x\n  a: 1\n", "- x\n",
        '"servers":\n  a:\n    b: 1\n', "servers:\n  ? a\n  : b\n", "servers:\n  toolcrib: {a: 1}\n",
        "servers:\n\ta: 1\n", "servers:\n  <<: *x\n", "servers:\nservers:\n", "A: 1\n---\nservers:\n  b:\n    c: 1\n",
        'A: "x\nservers:\n"\n', "%YAML 1.2\n---\na: 1\n",
    ],
)  # fmt: skip
def test_yaml_that_is_not_plain_is_left_alone(text: str) -> None:
    with pytest.raises(ConfigError, match="by hand"):
        with_entry(text, ".yaml", PATH, ENTRY)


def test_toml_keeps_comments() -> None:
    path = ("mcp_servers", "toolcrib")
    before = 'model = "x"  # mine\n\n[mcp_servers.other]\ncommand = "y"\n'
    after = with_entry(before, ".toml", path, ENTRY)
    assert after.startswith(before)
    assert with_entry(after, ".toml", path, ENTRY) == after
    assert without_entry(with_entry(after, ".toml", path, {"command": "z"}), ".toml", path) == before
