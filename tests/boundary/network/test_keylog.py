"""A variable cannot make us write the keys of our connections into a file."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from toolcrib.boundary.network.resolve import tls_context


def test_keys_are_not_logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSLKEYLOGFILE", str(tmp_path / "keys"))
    assert ssl.create_default_context().keylog_filename == str(tmp_path / "keys")
    tls_context.cache_clear()
    try:
        assert tls_context(None).keylog_filename is None
    finally:
        tls_context.cache_clear()
