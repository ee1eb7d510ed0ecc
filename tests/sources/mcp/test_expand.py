"""`${VAR}` in settings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.core.errors import ConfigError
from toolcrib.core.variables import expand

ENV = {"A": "one", "EMPTY": "", "NESTED": "${A}"}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("${A}/x", "one/x"),
        ("${NONE:-b}${A}", "bone"),
        ("${EMPTY:-b}", "b"),
        ("${EMPTY}", ""),
        ("${NONE:-}", ""),
        ("${NESTED}", "${A}"),  # what is put in is not read again
        ("${secret:github}", "${secret:github}"),
        ("$A $(A) ${} ${1}", "$A $(A) ${} ${1}"),
    ],
)
def test_expand(text: str, found: str) -> None:
    assert expand(text, ENV, "x") == found


def test_what_is_not_set_is_named() -> None:
    with pytest.raises(ConfigError, match=r"mcp_servers\.a\.env\.T: the environment variable NONE is not set"):
        expand("${NONE}", ENV, "mcp_servers.a.env.T")


@given(st.text())
def test_text_without_references_stays(text: str) -> None:
    assert expand(text.replace("$", ""), {}, "x") == text.replace("$", "")
