"""The cloud's metadata service in its spellings."""

from __future__ import annotations

import pytest

from toolcrib.policy.shell.hosts import is_metadata


@pytest.mark.parametrize(
    "text",
    [
        "http://169.254.169.254/latest", "169.254.169.254", "169.254.169.254:80", "http://2852039166/", "http://0xA9FEA9FE",
        "http://0251.0376.0251.0376", "http://169.254.43518", "http://[::ffff:169.254.169.254]/", "http://[fd00:ec2::254]/",
        "http://u:p@169.254.169.254/", "http://metadata.google.internal./x", "http://100.100.100.200", "HTTP://Metadata",
        "http://169.254.169.254.nip.io/", "http://instance-data/", "http:169.254.169.254", "169.254.169.254:/x",
        "https://user:pw@Metadata.Google.Internal:8080/a?b#c", "metadata:/etc", "http://%31%36%39.254.169.254/",
        "http://169。254。169。254/", "http://[64:ff9b::a9fe:a9fe]/", "169.254.169.253", "http:\\\\169.254.169.254",
    ],
)  # fmt: skip
def test_metadata(text: str) -> None:
    assert is_metadata(text)


@pytest.mark.parametrize(
    "text",
    [
        "https://example.com",
        "169.254.1.1",
        "x",
        "",
        "http://",
        "http://[::1]/",
        "a:b:c",
        "1.2.3.4",
        "https://example.com/169.254.169.254",
    ],
)
def test_others(text: str) -> None:
    assert not is_metadata(text)
