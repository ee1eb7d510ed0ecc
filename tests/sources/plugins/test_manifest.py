"""What a manifest may say, key by key."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.sources.plugins.manifest import ManifestError, manifest_file, read_manifest

TOOL: dict[str, Any] = {"name": "t", "description": "d", "command": "run {{x}}", "parameters": {"x": "string"}}
PLUGIN: dict[str, Any] = {"name": "p", "version": "1", "description": "d", "tools": [TOOL]}
BINARY: dict[str, Any] = {
    **PLUGIN, "execution": "binary", "binary": {"path": "bin/run", "protocol": "jsonrpc", "sha256": "AB" * 32},
}  # fmt: skip
CHANNEL: dict[str, Any] = {"name": "c", "version": "1", "description": "d", "binary": "run", "env": {"A": "b"}}


def read(folder: Path, manifest: object, name: str = "plugin.json"):
    path = folder / name
    path.write_text(manifest if isinstance(manifest, str) else json.dumps(manifest))
    return read_manifest(path)


def test_a_command_plugin(tmp_path: Path) -> None:
    found = read(tmp_path, {**PLUGIN, "author": "me", "homepage": "x"})
    assert (found.name, found.version, found.execution, found.author) == ("p", "1", "command", "me")
    assert (found.tools[0].command, found.tools[0].category, found.tools[0].timeout_secs) == (
        "run {{x}}",
        "shell",
        None,
    )
    assert found.notes == ("homepage is not known",)


def test_a_binary_plugin(tmp_path: Path) -> None:
    manifest = read(tmp_path, BINARY)
    found = manifest.binary
    assert found is not None
    assert (found.path, manifest.seconds, found.sha256) == ("bin/run", 30.0, "ab" * 32)


def test_a_channel_in_either_file(tmp_path: Path) -> None:
    short = read(tmp_path, {**CHANNEL, "timeout_secs": 5}, "manifest.json")
    assert short.execution == "channel"
    assert short.binary is not None
    assert (short.binary.path, short.seconds, short.env) == ("run", 5.0, {"A": "b"})
    long = read(tmp_path, {**CHANNEL, "execution": "channel", "binary": {"path": "run"}})
    assert long.execution == "channel"


def tool(**more: Any) -> dict[str, Any]:
    return {**PLUGIN, "tools": [{**TOOL, **more}]}


@pytest.mark.parametrize(
    ("manifest", "why"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ([], "should be an object"),
        ({**PLUGIN, "name": "a b"}, 'name is "a b"'),
        ({**PLUGIN, "name": "-a"}, "the first no -"),
        ({**PLUGIN, "name": "a_b"}, "letters, digits and -"),
        ({**PLUGIN, "name": "a" * 65}, "1 to 64"),
        ({**PLUGIN, "name": "a\n"}, "name is"),
        ({**PLUGIN, "version": ""}, 'version is ""'),
        ({**PLUGIN, "version": 1}, "version is 1; it should be one line"),
        ({**PLUGIN, "version": "1\x1b[31m\nplugin other: loaded"}, "one line of at most 64"),
        ({**PLUGIN, "version": "1" * 65}, "one line of at most 64"),
        ({**PLUGIN, "description": "x" * 10_001}, "10,000 characters"),
        ({**PLUGIN, "description": "\ud800"}, "half of a character"),
        ({**PLUGIN, "timeout_secs": float("nan")}, "NaN is not valid JSON"),
        ({"name": "p", "version": "1", "tools": [TOOL]}, "description is missing"),
        ({**PLUGIN, "tools": []}, "at least one tool"),
        ({**PLUGIN, "tools": [TOOL, TOOL]}, "more than once"),
        ({**PLUGIN, "tools": "t"}, "should be a list"),
        (tool(name="1t"), "the first a letter"),
        (tool(name="a-b"), "letters, digits and _"),
        (tool(name="a" * 65), "1 to 64"),
        (tool(parameters=[]), "tools.0.parameters is list; it should be a JSON Schema"),
        (tool(timeout_secs=0), "seconds from 1"),
        (tool(timeout_secs=True), "seconds from 1"),
        (tool(timeout_secs=1e9), "seconds from 1"),
        (tool(env={"A B": "x"}), "tools.0.env.A B"),
        (tool(env={"A": 1}), "tools.0.env.A"),
        (tool(category="reading"), "it can be filesystem_read"),
        (tool(category=["shell"]), "tools.0.category is list"),
        (tool(env={"A\n\x1b[31m": "x"}), "tools.0.env.A\\n\\u001b[31m is"),
        (tool(command="echo 'x"), "tools.0.command: no closing quotation"),
        (tool(command=""), "command is missing"),
        *((tool(command=f"a {sign} b"), "one program") for sign in ("&&", "||", ";", "`", "|", "$(", "&", ">", "\n")),
        ({**PLUGIN, "execution": "wasm"}, "it can be command, binary, channel"),
        ({**PLUGIN, "execution": "binary"}, "binary is missing"),
        *(
            ({**BINARY, "binary": {"path": path}}, "inside the plugin's folder")
            for path in ("/bin/sh", "../run", "bin/../../run", "~/run", "..", "a\\b")
        ),
        *(({**BINARY, "binary": {"path": path}}, "the path of a program") for path in ("", "a\nb", "a" * 501)),
        ({**BINARY, "binary": {"path": "run", "protocol": "grpc"}}, 'it can be "jsonrpc"'),
        ({**BINARY, "binary": {"path": "run", "sha256": "abc"}}, "64 hexadecimal"),
        ({**PLUGIN, "execution": "channel", "binary": "run"}, "has no tools"),
    ],
)
def test_what_is_wrong_is_one_clear_line(tmp_path: Path, manifest: object, why: str) -> None:
    with pytest.raises(ManifestError, match=r"plugin\.json: ") as caught:
        read(tmp_path, manifest)
    assert why in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_manifest_has_a_limit(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="more than"):
        read(tmp_path, {**PLUGIN, "description": "x" * (1 << 20)})


def test_keys_that_are_not_known_are_few_short_lines(tmp_path: Path) -> None:
    found = read(tmp_path, {**PLUGIN, "k\n\x1b" + "k" * 500: 1, **{f"k{number}": 1 for number in range(50)}})
    assert found.notes[0].startswith("k\\n\\u001bkkk")
    assert (len(found.notes), found.notes[-1]) == (11, "41 more keys of it are not known")
    assert all(len(note) < 200 and note.isprintable() for note in found.notes)


def test_nobody_waits_for_a_manifest_that_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "plugin.json")
    assert manifest_file(tmp_path) is None
    with pytest.raises(ManifestError, match="is not a regular file"):
        read_manifest(tmp_path / "plugin.json")


def test_a_folder_without_a_manifest_is_no_plugin(tmp_path: Path) -> None:
    assert manifest_file(tmp_path) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
KEYS = ["name", "version", "description", "author", "tools", "execution", "binary", "env", "timeout_secs"]


TOOL_KEYS = ["name", "description", "parameters", "command", "working_dir", "timeout_secs", "env", "category"]
BINARY_KEYS = ["path", "protocol", "timeout_secs", "sha256"]


@given(st.sampled_from(TOOL_KEYS), JSON, st.sampled_from(BINARY_KEYS), JSON)
def test_whatever_a_tool_or_a_binary_holds_it_is_right_or_said(
    tmp_path_factory: pytest.TempPathFactory, key: str, value: object, other: str, held: object
) -> None:
    folder = tmp_path_factory.getbasetemp()
    for manifest in (tool(**{key: value}), {**BINARY, "binary": {**BINARY["binary"], other: held}}):
        try:
            read(folder, manifest)
        except ManifestError as error:
            assert str(error).isprintable()


@given(st.sampled_from(KEYS), JSON, st.sampled_from([PLUGIN, BINARY, CHANNEL]))
def test_whatever_a_key_holds_it_is_right_or_said(
    tmp_path_factory: pytest.TempPathFactory, key: str, value: object, base: dict[str, Any]
) -> None:
    folder = tmp_path_factory.getbasetemp()
    try:
        read(folder, {**base, key: value}, "manifest.json" if base is CHANNEL else "plugin.json")
    except ManifestError:
        pass
