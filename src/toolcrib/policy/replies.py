"""Read answers to approval requests as people write them in a chat: `yes ap_1a2b3c4d5e`, `no ap_… because …`.

A message approves only if it contains nothing else: "yes ap_… but not on the server" does not. The channel must know
which messages come from a person; `approver` names the person.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Collection
from dataclasses import replace
from typing import Any, cast

from ..core.bound import safe
from ..core.dataclass import dataclass
from ..core.text import lazy_regex
from ..record.approvals import Approvals
from .plain import shows
from .requests import REPEATED, Decision, Remember, Scope, answer

MAX_REPLY = 20_000
MAX_REASON = 1_000

_FLAGS = re.IGNORECASE | re.ASCII  # otherwise `yeſ` (with a long s) is a yes
_ID = r"(?P<id>ap_[0-9a-f]{6,32})"
_END = r"\s*(?:[.!]\s*)?"
_YES = lazy_regex(rf"\s*(?P<word>yes|session|always)\s+{_ID}{_END}", _FLAGS)
_WITH = lazy_regex(rf"\s*yes\s+{_ID}\s+with\s+(?P<json>\{{.*\}}){_END}", _FLAGS | re.DOTALL)
_NO = lazy_regex(rf"\s*no\s+{_ID}(?:\s*$|[\s,:;–-]+(?:because\b[\s,:]*)?(?P<reason>.*))", _FLAGS | re.DOTALL)
_NEAR = lazy_regex(rf"\s*(?:yes|no|always|session)\b.*?\b{_ID}\b", _FLAGS | re.DOTALL)

_SCOPES: dict[str, Scope] = {"yes": "once", "session": "session", "always": "rule"}

NOT_ASKED = "(approval number removed: only Toolcrib asks)"
_ANY_ID = lazy_regex(_ID, _FLAGS)
_ALIKE = str.maketrans("АаΑαВвΒβСсϹϲԀԁЕеΕεРрΡρˍ", "aaaabbbbccccddeeeepppp_")
"""Letters of other scripts that look like those of an approval number."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A message about one request. Without a decision the message was not clear enough; `problem` says why."""

    request_id: str
    decision: Decision | None
    problem: str = ""


def parse_reply(text: str) -> Reply | None:
    """Return the answer in a message, or None if it does not answer a request.

    `yes ID` once, `session ID`, `always ID`, `yes ID with {"arguments": …}`, `no ID`, `no ID because …`.
    """
    if len(text) > MAX_REPLY:
        return None
    if found := _YES.fullmatch(text):
        return Reply(found["id"].lower(), Decision(True, scope=_SCOPES[found["word"].casefold()]))
    if found := _WITH.fullmatch(text):
        return _edited(found["id"].lower(), found["json"])
    if found := _NO.fullmatch(text):
        return Reply(found["id"].lower(), Decision(False, safe((found["reason"] or "").strip())[:MAX_REASON]))
    if found := _NEAR.match(text):
        return Reply(found["id"].lower(), None, "a yes must not have other text")
    return None


def without_ids(text: str, asked: Collection[str] = ()) -> str:
    """Return a text without the numbers of requests, except those in `asked`. What a model writes to a chat cannot then
    pass for a question of ours, and is no answer if a person sends it back or a channel echoes it. Where invisible or
    similar characters would only make a number look like one, the text comes back without them."""
    if not text.isascii():
        seen = unicodedata.normalize("NFKD", "".join(each for each in text if each in " \n\t" or shows(each)))
        bare = "".join(each for each in seen if unicodedata.category(each)[0] != "M").translate(_ALIKE)
        if len(_ANY_ID.findall(bare)) > len(_ANY_ID.findall(text)):
            text = bare
    return _ANY_ID.sub(lambda found: found[0] if found["id"].lower() in asked else NOT_ASKED, text)


def answer_reply(
    approvals: Approvals, text: str, approver: str, remember: Remember | None = None, then: str = REPEATED
) -> str | None:
    """Apply a message as an answer. Returns the text for its writer, or None if it does not answer a request.

    `approver` names the writer, for the record; `then` says what follows a yes. Blocks: it reads and writes the record.
    """
    reply = parse_reply(text)
    if reply is None:
        return None
    ident = reply.request_id
    if reply.decision is None:
        return f"Nothing was changed: {reply.problem}. Write `yes {ident}`, `always {ident}` or `no {ident} because …`."
    return answer(approvals, ident, replace(reply.decision, approver=approver), remember, then).text


def _edited(ident: str, text: str) -> Reply:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        return Reply(ident, None, f"the arguments are not valid JSON ({error})")
    return Reply(ident, Decision(True, arguments=cast("dict[str, Any]", value)))
