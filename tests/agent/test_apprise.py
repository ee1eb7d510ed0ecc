"""Sending with apprise, to a real server of one of its simplest services; its URL is a secret."""

from __future__ import annotations

import importlib.util
import json
import logging
import sys
from base64 import b64decode
from pathlib import Path

import pytest

from toolcrib.agent.bus import MessageNotSent, OutboundMessage
from toolcrib.agent.channels.apprise_urls import AppriseChannel
from toolcrib.config.channel_settings import ChannelSettings
from toolcrib.policy.secrets.logs import redact_logs
from toolcrib.policy.secrets.redact import Redactor

from .test_webhook import Receiver, receiver

__all__ = ["receiver"]

pytestmark = pytest.mark.slow  # the library takes two seconds to load
needs_apprise = pytest.mark.skipif(importlib.util.find_spec("apprise") is None, reason="the extra channels")
PASSWORD = "hunter2hunter2"


def channel(url: str) -> AppriseChannel:
    redactor = Redactor()
    redactor.grant("PHONE", url)
    return AppriseChannel("phone", ChannelSettings("apprise", urls=("PHONE",)), lambda name: url, redactor.redact)


@needs_apprise
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
async def test_a_message_goes_out_with_its_files(receiver: Receiver, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("alpha")
    receiver.answers = [200]
    url = receiver.url.replace("http://", f"json://me:{PASSWORD}@")
    await channel(url).send(OutboundMessage("phone", "any", "hello", (str(tmp_path / "a.txt"),)))
    body = json.loads(receiver.got[0][1])
    assert body["message"] == "hello"
    assert b64decode(body["attachments"][0]["base64"]) == b"alpha"


@needs_apprise
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
async def test_a_failure_names_the_secret_and_not_its_value(
    receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    receiver.answers = [500]
    url = receiver.url.replace("http://", f"json://me:{PASSWORD}@")
    redactor = Redactor()
    redactor.grant("PHONE", url)
    redactor.grant("PASSWORD", PASSWORD)
    end = redact_logs(redactor.redact)
    with caplog.at_level(logging.DEBUG), pytest.raises(MessageNotSent, match="sending failed for PHONE"):
        await channel(url).send(OutboundMessage("phone", "any", "hello"))
    end()
    assert PASSWORD not in caplog.text


@needs_apprise
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
async def test_a_url_that_is_none_is_not_shown() -> None:
    with pytest.raises(MessageNotSent, match="the secret 'PHONE' is not a URL that apprise knows") as error:
        await channel(f"nothing://{PASSWORD}").send(OutboundMessage("phone", "any", "hello"))
    assert PASSWORD not in str(error.value)


async def test_without_the_library_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "apprise", None)
    with pytest.raises(MessageNotSent, match=r"pip install 'toolcrib\[channels\]'"):
        await channel("json://localhost").send(OutboundMessage("phone", "any", "hello"))
