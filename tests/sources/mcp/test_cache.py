"""The lists on disk."""

from __future__ import annotations

import json
from pathlib import Path
from types import MappingProxyType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib.sources.mcp.cache import ListCache, Pins
from toolcrib.sources.mcp.config import server_config
from toolcrib.sources.mcp.listed import ListedTool, ServerListing, listing_from_json

LISTING = ServerListing(
    (ListedTool("a", "A.", {"type": "object"}, "Title", {"type": "object"}, {"readOnlyHint": True}),),
    "2025-11-25", "server 1", True, False, ("a fault",),
)  # fmt: skip


def test_what_is_written_is_read(tmp_path: Path) -> None:
    cache = ListCache(tmp_path / "mcp" / "lists")
    assert cache.read("1" * 64) is None
    cache.write("1" * 64, "s", LISTING)
    assert cache.read("1" * 64) == cache.shown(LISTING)
    (file,) = (tmp_path / "mcp" / "lists").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    assert json.loads(file.read_text())["listing"]["tools"][0]["digest"] == LISTING.tools[0].digest


def test_what_is_stored_has_no_secrets_and_the_digest_of_what_was_said(tmp_path: Path) -> None:
    def redact(text: str) -> str:
        return text.replace("s3cret", "***")

    said = ListedTool("a", "It has s3cret.", MappingProxyType({"type": "object", "title": "s3cret"}))
    cache, pins = ListCache(tmp_path / "lists", redact), Pins(tmp_path / "pins", redact)
    cache.write("1" * 64, "s", ServerListing((said,), server="s3cret"))
    pins.accept("1" * 64, [said])
    for file in tmp_path.rglob("*.json"):
        assert "s3cret" not in file.read_text()
    listing = cache.read("1" * 64)
    assert listing is not None and listing.tools[0].description == "It has ***."
    for again in (pins, Pins(tmp_path / "pins", redact)):
        assert again.doubt("1" * 64, "s", listing.tools[0]) is None
        assert again.doubt("1" * 64, "s", said) is None


def test_a_failure_is_remembered_for_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = ListCache(tmp_path / "mcp" / "lists")
    assert cache.failure("1" * 64) is None
    cache.failed("1" * 64, "no answer")
    assert cache.failure("1" * 64) == "no answer"
    cache.write("1" * 64, "s", LISTING)
    assert cache.failure("1" * 64) is None


@settings(max_examples=30)
@given(
    st.recursive(
        st.none() | st.booleans() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_what_is_no_listing_counts_as_absent(value: object) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        cache = ListCache(Path(folder))
        (Path(folder) / f"{'1' * 32}.json").write_text(json.dumps({"version": 1, "listing": value}))
        assert cache.read("1" * 64) is None


def test_the_digest_covers_what_a_model_is_told() -> None:
    first = LISTING.tools[0]
    digests = {
        first.digest,
        ListedTool("a", "Another.", {"type": "object"}, "Title", {"type": "object"}, {"readOnlyHint": True}).digest,
        ListedTool("a", "A.", {"type": "object", "x": 1}, "Title", {"type": "object"}, {"readOnlyHint": True}).digest,
        ListedTool("a", "A.", {"type": "object"}, "Title", {"type": "object"}, {"readOnlyHint": False}).digest,
    }
    assert len(digests) == 4
    assert listing_from_json(json.loads(json.dumps(LISTING.to_json(), default=dict))).tools[0].digest == first.digest


def test_who_a_server_is() -> None:
    base = {"command": "x", "args": ["a"], "env": {"TOKEN": "1"}}
    identity = server_config("s", base).identity("/w")
    assert server_config("s", {**base, "env": {"TOKEN": "2"}}).identity("/w") == identity  # a new token, the same tools
    assert server_config("s", {**base, "timeout": 5}).identity("/w") == identity
    assert server_config("s", {**base, "args": ["b"]}).identity("/w") != identity
    assert server_config("t", base).identity("/w") != identity
    assert server_config("s", base).identity("/v") != identity
