"""Signs and checks the messages of webhooks, as the Standard Webhooks specification says (standardwebhooks.com).

Three headers: `webhook-id`, `webhook-timestamp` (Unix seconds), and `webhook-signature`, which is `v1,` and the Base64
of the HMAC-SHA256 of `id.timestamp.body`. Several signatures, separated by spaces, may be there while a key is changed.
"""

from __future__ import annotations

import binascii
import hmac
import secrets
import time
from base64 import b64decode, b64encode
from collections.abc import Mapping

from ...core.text import lazy_regex

MAX_AGE = 300.0
"""Seconds that the time of a message may differ from ours."""
MAX_SIGNATURES = 5
MIN_KEY = 8
"""Bytes of a key: a shorter one can be guessed."""
PREFIX = "whsec_"
_ID = lazy_regex(r"[\x21-\x7e]{1,200}")
_TIME = lazy_regex(r"[0-9]{1,12}")


class SignatureRefused(Exception):
    """The message is not signed with the secret, or is too old. The text says which, and nothing of the secret."""


def signed_headers(secret: str, body: bytes, message_id: str | None = None, at: float | None = None) -> dict[str, str]:
    """Return the three headers for a body."""
    message_id = message_id or f"msg_{secrets.token_hex(12)}"
    stamp = str(int(time.time() if at is None else at))
    signature = b64encode(_digest(secret, message_id, stamp, body)).decode()
    return {"webhook-id": message_id, "webhook-timestamp": stamp, "webhook-signature": f"v1,{signature}"}


def check_signature(secret: str, headers: Mapping[str, str], body: bytes, now: float | None = None) -> str:
    """Return the message's id if one of its signatures is right and its time is near. Raises SignatureRefused.

    The names in `headers` are in lower case.
    """
    message_id, stamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not _ID.fullmatch(message_id) or not _TIME.fullmatch(stamp):
        raise SignatureRefused("webhook-id or webhook-timestamp is missing or wrong")
    right = _digest(secret, message_id, stamp, body)
    given = headers.get("webhook-signature", "").split()[:MAX_SIGNATURES]
    if not any(hmac.compare_digest(right, _decoded(each)) for each in given):
        raise SignatureRefused("the signature is wrong")
    if abs((time.time() if now is None else now) - int(stamp)) > MAX_AGE:
        raise SignatureRefused(f"the message is older than {MAX_AGE:g} s, or from the future")
    return message_id


def _decoded(signature: str) -> bytes:
    version, _, value = signature.partition(",")
    try:
        return b64decode(value, validate=True) if version == "v1" else b""
    except (binascii.Error, ValueError):
        return b""


def is_long_enough(secret: str) -> bool:
    """Return whether nobody guesses the key that a secret stands for: `whsec_` alone is an empty one."""
    return len(_key(secret)) >= MIN_KEY


def _digest(secret: str, message_id: str, stamp: str, body: bytes) -> bytes:
    return hmac.digest(_key(secret), f"{message_id}.{stamp}.".encode() + body, "sha256")


def _key(secret: str) -> bytes:
    """Return the bytes of a secret: `whsec_` and Base64 as the specification writes it, or any other text."""
    if secret.startswith(PREFIX):
        try:
            return b64decode(secret[len(PREFIX) :], validate=True)
        except (binascii.Error, ValueError):
            pass
    return secret.encode()
