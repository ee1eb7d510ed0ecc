"""Secrets by their shape: found whatever stands around them, and little else."""

from __future__ import annotations

import json
import random
import re
import string
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib.core.errors import ConfigError
from toolcrib.policy.secrets import redact as secrets_of
from toolcrib.policy.secrets.redact import Redactor

from .samples import CONTEXTS, PEM, TOKENS, R

redact = Redactor().redact
BODY = {line for line in PEM.splitlines() if not line.startswith("-")}


@pytest.mark.parametrize("kind", TOKENS)
def test_a_key_is_masked(kind: str) -> None:
    key = TOKENS[kind]
    text = redact(f"the key is {key}, keep it")
    assert key not in text and key[6:-5] not in text
    assert text.startswith("the key is ") and text.endswith(", keep it") and "***" in text


@pytest.mark.parametrize(
    "letters", [string.ascii_letters + string.digits, string.ascii_letters, string.ascii_lowercase]
)
@pytest.mark.parametrize(("prefix", "length"), [("ghp_", 36), ("sk-", 48), ("hf_", 34)])
def test_no_random_key_is_missed_for_its_letters(prefix: str, length: int, letters: str) -> None:
    choice = random.Random(16)
    keys = [prefix + "".join(choice.choices(letters, k=length)) for _ in range(2_000)]
    assert [key for key in keys if key in redact(key)] == []


@pytest.mark.parametrize("kind", CONTEXTS)
def test_a_secret_known_by_its_context_is_masked(kind: str) -> None:
    around, secret = CONTEXTS[kind]
    text = redact(around.format(secret))
    assert secret not in text and "***" in text
    assert redact(text) is text


def test_first_and_last_four_are_shown_and_nothing_of_short_ones() -> None:
    assert redact("sk-" + R[:48]) == "sk-a***1uV3"
    assert redact("https://u:pw@host/") == "https://u:***@host/"
    assert redact(TOKENS["jwt"]) == "eyJ***.***.***"


@pytest.mark.parametrize("kind", TOKENS)
@pytest.mark.parametrize(
    "write",
    [
        lambda key: json.dumps({"text": f"a line\n{key}\n\"{key}\"\t{key}"}),
        lambda key: json.dumps(json.dumps({"text": f"a line\n{key}\n"})),
        lambda key: quote(f"a={key}&b", safe="-_.~:/+="),
        lambda key: f"\x1b[31m{key}\x1b[0m \x1b[01;31m{key}",
        lambda key: repr({"key": f"\n{key}"}),
        lambda key: f"key={key};",
        lambda key: f"https://example.com/?token={key}&x=1",
        lambda key: f"größe {key} 日本語",
    ],
)  # fmt: skip
def test_escapes_beside_a_key_do_not_hide_it(kind: str, write: object) -> None:
    assert TOKENS[kind] not in redact(write(TOKENS[kind]))  # type: ignore[operator]


@pytest.mark.parametrize(
    "text",
    [
        PEM,
        PEM.replace("\n", "\r\n"),
        json.dumps({"key": PEM}),
        "\n".join(f"{n}| {line}" for n, line in enumerate(PEM.splitlines(), 1)),
        "".join(f'    "{line}\\n"\n' for line in PEM.splitlines()),
        "".join(f"+{line}\n" for line in PEM.splitlines()),
        PEM[:300],
        "before\n" + PEM[150:],
        f"a\n{PEM}\nb\n{PEM}",
    ],
)
def test_private_keys_are_masked_whole(text: str) -> None:
    clean = redact(text)
    assert not any(part in clean for part in (R[:30], R[20:50])), clean
    assert redact(clean) == clean


def test_what_stands_around_a_private_key_stays() -> None:
    assert redact(f"before it\n{PEM}\nafter it") == (
        "before it\n-----BEGIN RSA PRIVATE KEY-----\n***\n-----END RSA PRIVATE KEY-----\nafter it"
    )
    code = 'head = "-----BEGIN PRIVATE KEY-----\\n" + body + "-----END PRIVATE KEY-----"'
    assert redact(code) is code


@pytest.mark.parametrize(
    "text",
    [
        "ok",
        "a task-list of risk-assessment-management-systems for disk-usage-reporting-daemons",
        "sk-loading-indicator-wrapper-element sk-text-repr-fallback",
        "sha256:" + "0123456789abcdef" * 4,
        "d41d8cd98f00b204e9800998ecf8427e 550e8400-e29b-41d4-a716-446655440000",
        "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5",
        "Bearer authentication is described below; basic authentication, too",
        "https://example.com/a:b@c http://localhost:8080/x",
        "API_KEY=$API_KEY TOKEN=<your-token> PASSWORD=${DB_PASSWORD} SECRET={{ secret }}",
        "MAX_TOKENS=4096 CACHE_KEY=some_name TOKEN_URL=https://example.com/oauth/token",
        "def test_function_names_that_are_long_and_have_underscores_1234(): pass",
        "git+ssh://git@github.com/me/repo.git",
    ],
)
def test_ordinary_texts_come_back_as_they_are(text: str) -> None:
    assert redact(text) is text


def test_our_own_sources_hold_no_secrets() -> None:
    root = Path(__file__).parents[3] / "src"
    hits = [path.name for path in root.rglob("*.py") if redact(text := path.read_text()) is not text]
    assert len(hits) <= 3, hits  # examples of URLs with a password


AROUND = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
EDGE = st.sampled_from(["", " ", "\n", '"', "'", "=", "(", ",", ";", "é", "<", "`", "\t"])


@given(st.sampled_from(sorted(TOKENS)), AROUND, EDGE, EDGE, AROUND)
@settings(max_examples=400)
def test_no_text_around_a_key_lets_it_through(kind: str, before: str, left: str, right: str, after: str) -> None:
    if re.search(r"[\w+/.~-]$", before + left):
        left += " "
    if re.match(r"[\w+/.~=-]", right + after):
        right += " "
    text = f"{before}{left}{TOKENS[kind]}{right}{after}"
    clean = redact(text)
    assert TOKENS[kind] not in clean
    assert redact(clean) == clean


@given(
    st.lists(
        st.sampled_from(
            [*TOKENS.values(), PEM, *(a.format(s) for a, s in CONTEXTS.values()), " ", "\n", "x", "-", "***"]
        ),
        max_size=8,
    )
)
@settings(max_examples=300)
def test_it_never_raises_and_twice_is_once(parts: list[str]) -> None:
    clean = redact("".join(parts))
    assert redact(clean) == clean


@given(st.text(max_size=300))
def test_any_text_is_taken(text: str) -> None:
    clean = redact(text)
    assert redact(clean) == clean


UNITS = [
    "sk-", "AKIA", "eyJ", "://u:", "://", ":AA", "1", "-us", "earer ", "SECRET=", "Q~", "hooks.slack.com/", "A\n",
    "-----BEGIN PRIVATE " + "KEY-----", "-----END PRIVATE " + "KEY-----\n", "SECRET_KEY" * 3 + '"',
    "ghp_aB3dE5gH7jK9mN1pQ3sT5 ",
]  # fmt: skip


@pytest.mark.parametrize("unit", UNITS)
def test_hostile_repetition_takes_linear_time(unit: str) -> None:
    """Twice as much takes about twice as long; quadratic, this would take minutes."""
    for text in (unit * (500_000 // len(unit)), "-----BEGIN PRIVATE " + "KEY-----\n" + unit * (500_000 // len(unit))):
        redact(text)


def test_examples_may_be_allowed() -> None:
    key = TOKENS["aws"]
    assert Redactor(allow=[key]).redact(f"see {key}") == f"see {key}"
    assert TOKENS["github"] not in Redactor(allow=[key]).redact(f"{key} {TOKENS['github']}")


def test_patterns_of_the_user() -> None:
    own = Redactor(patterns=[r"ACME-\d{12}", r"pin: (?P<s>\d{4})"]).redact
    assert own("x ACME-123456789012 y") == "x ACME***9012 y"
    assert own("pin: 1234") == "pin: ***"
    with pytest.raises(ConfigError, match=r"redact\.patterns\[0\]"):
        Redactor(patterns=["("])
    with pytest.raises(ConfigError, match="mask everything"):
        Redactor(patterns=["a*"])


def test_the_quick_test_of_short_texts_knows_every_needle() -> None:
    has_needle = secrets_of._has_needle()  # pyright: ignore[reportPrivateUsage]
    for needles, _ in secrets_of._FINDERS:  # pyright: ignore[reportPrivateUsage]
        assert all(has_needle(f"a {needle} b\n") for needle in needles)
    assert not has_needle("a short text without any")
