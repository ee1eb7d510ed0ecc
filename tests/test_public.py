"""The public names: what `__all__` says, what loads, and what type checkers see are the same."""

import ast
from pathlib import Path

import pytest

import toolcrib


def test_every_public_name_has_a_home_and_every_home_is_public():
    assert sorted(toolcrib.__all__) == sorted([*toolcrib._HOME_OF, *toolcrib._ALIASES])
    assert len(set(toolcrib.__all__)) == len(toolcrib.__all__)
    assert set(toolcrib.__all__) <= set(dir(toolcrib))


@pytest.mark.parametrize("name", toolcrib.__all__)
def test_every_public_name_loads(name):
    assert getattr(toolcrib, name) is not None


def test_type_checkers_see_the_same_names_from_the_same_homes():
    tree = ast.parse(Path(toolcrib.__file__).read_text())
    guarded = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {}
    for node in guarded.body:
        for alias in node.names:
            seen[alias.asname or alias.name] = node.module
    expected = {**toolcrib._HOME_OF, "ToolCallRequest": "core.call", "AgentHook": "core.interfaces"}
    assert seen == expected


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="Toolbx"):
        _ = toolcrib.Toolbx
