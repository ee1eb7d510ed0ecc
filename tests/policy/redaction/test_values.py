"""Granted values: in no form that encodes them."""

from __future__ import annotations

import base64
import html
import json
import re
import textwrap
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib.core.errors import ConfigError
from toolcrib.policy.secrets.redact import Redactor

VALUE = 'correct/horse "battery" & ståple+1'
FORMS = {
    "plain": VALUE,
    "url": quote(VALUE),
    "url, all": quote(VALUE, safe=""),
    "form": quote_plus(VALUE),
    "json": json.dumps(VALUE),
    "json, raw": json.dumps(VALUE, ensure_ascii=False),
    "json in json": json.dumps(json.dumps(VALUE)),
    "html": html.escape(VALUE),
    "repr": repr(VALUE),
    "hex": VALUE.encode().hex(),
    "HEX": VALUE.encode().hex().upper(),
}


def redactor(value: str = VALUE) -> Redactor:
    made = Redactor()
    made.grant("NAME", value)
    return made


@pytest.mark.parametrize("form", FORMS)
def test_a_value_is_masked_in_each_form(form: str) -> None:
    clean = redactor().redact(f"before {FORMS[form]} after")
    assert "[secret:NAME]" in clean and "battery" not in clean and VALUE.encode().hex()[8:-8] not in clean.lower()


@given(st.binary(max_size=9), st.binary(max_size=9), st.booleans())
@settings(max_examples=100)
def test_base64_at_any_alignment(before: bytes, after: bytes, url: bool) -> None:
    encode = base64.urlsafe_b64encode if url else base64.b64encode
    clean = redactor().redact(encode(before + VALUE.encode() + after).decode())
    assert "[secret:NAME]" in clean
    assert len(clean.replace("[secret:NAME]", "")) <= (len(before) + len(after)) * 4 / 3 + 10


@pytest.mark.parametrize("width", [7, 20, 60, 76])
def test_wrapped_lines_hide_nothing(width: int) -> None:
    long = "correct-horse-battery-staple-" * 4
    for text in (long, base64.b64encode(long.encode()).decode(), long.encode().hex()):
        wrapped = "\n".join(textwrap.wrap(text, width, break_on_hyphens=False))
        assert redactor(long).redact(f"x\n{wrapped}\ny").count("[secret:NAME]") == 1


@pytest.mark.parametrize(
    "line", ["{}| {}", "a.py:{}:{}", "src/a b-1.py-{}-{}", "{:6}\t{}", "{}:    {}", "+{1}", "> {1}", "- {1}"]
)
def test_wrapped_lines_hide_nothing_with_what_programs_print_before_each(line: str) -> None:
    redactor = Redactor()
    redactor.grant("G", "Zq9vK3mX7pT2wL8nR4sB6yD1")
    login = base64.b64encode(b"someone:Zq9vK3mX7pT2wL8nR4sB6yD1").decode()
    for text in ("Zq9vK3mX7pT2wL8nR4sB6yD1", login):
        pieces = ["first", *textwrap.wrap(text, 9), "last"]
        shown = redactor.redact("\n".join(line.format(n, piece) for n, piece in enumerate(pieces, 98)))
        assert "[secret:G]" in shown and "K3mX" not in shown and pieces[3] not in shown
        assert shown.startswith(line.format(98, "first")) and shown.endswith(line.format(97 + len(pieces), "last"))


def test_a_value_is_masked_both_whole_and_in_lines() -> None:
    redactor = Redactor()
    redactor.grant("G", "Zq9vK3mX7pT2")
    assert redactor.redact("Zq9vK3mX7pT2\nand Zq9vK3\n  mX7pT2\nend") == "[secret:G]\nand [secret:G]\nend"


def test_lines_of_a_long_value() -> None:
    lines = ["first line of it", "A" * 10 + "bcdefghijklmnop", "end"]
    assert lines[1] not in redactor("\n".join(lines)).redact(f"only {lines[1]} here")


FILES = {
    "json": '{\n  "type": "user",\n  "client_x509_cert_url": "https://x.example/v1",\n  "key": "SEC-ret/0123+x=="\n}',
    "json, a key in it": '{\n  "key": "-----BEGIN KEY-----\\nSEC-ret/0123+x==\\n-----END KEY-----\\n"\n}',
    "yaml": "kind: Config\nx509_certificate: y\n- token: SEC-ret/0123+x==\n",
    "netrc": "machine example.com\n  login bob\n  password SEC-ret/0123+x==\n",
    "env": "A=1\nDB_URL='https://x.example/v1'\nexport DB_PASSWORD=SEC-ret/0123+x==\n",
}


@pytest.mark.parametrize("file", FILES)
def test_the_secrets_in_a_file_of_credentials_are_masked_without_the_rest(file: str) -> None:
    """`read_file` puts a number before each line, and `echo $X` makes blanks of the line ends."""
    made, ordinary = (
        redactor(FILES[file]),
        "example.com client_x509_cert_url x509_certificate: https://x.example/v1 Config",
    )
    numbered = "\n".join(f"{n}| {line}" for n, line in enumerate(FILES[file].splitlines()))
    for text in (numbered, " ".join(FILES[file].split()), "SEC-ret/0123+x=="):
        assert "SEC-ret" not in made.redact(text) and "[secret:NAME]" in made.redact(text)
    assert made.redact(ordinary) is ordinary


def test_short_values_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"secrets\.PIN: the value has 4 characters"):
        Redactor().grant("PIN", "1234")


@given(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=8, max_size=40),
    st.text(max_size=60),
    st.text(max_size=60),
)
@settings(max_examples=200)
def test_no_value_survives(value: str, before: str, after: str) -> None:
    made = redactor(value)
    clean = made.redact(before + value + after)
    assert value not in clean.replace("[secret:NAME]", "\0")


def test_texts_without_it_are_the_same_object() -> None:
    text = "nothing of that kind\nin here"
    assert redactor().redact(text) is text


def _encoded(text: str, every: int) -> str:
    return "".join(f"%{ord(c):02x}" if n % every == 0 else c for n, c in enumerate(text))


@pytest.mark.parametrize("every", [1, 2, 3, 7])
def test_percent_encoding_hides_no_secret(every: int) -> None:
    redactor = Redactor()
    redactor.grant("db", "p@ss word/with=signs")
    for secret in ("p@ss word/with=signs", "sk-ant-api03-" + "aB3dE6gH9" * 6, "ghp_" + "a1B2c3D4e5" * 4):
        for text in (_encoded(secret, every), _encoded(secret, every).upper().replace("%", "%")):
            if every > 1 and text != _encoded(secret, every):
                continue  # other letters would be another secret
            shown = redactor.redact(f"before=%20x&key={text}&after=1")
            assert text not in shown and "after=1" in shown and "before=%20x" in shown
            assert "[secret:db]" in shown or "***" in shown
    assert redactor.redact("100% of 50%25 and %zz") == "100% of 50%25 and %zz"


UNSEEN = ["\x1b[01;31m", "\x1b[m\x1b[K", "\x1b[38:2:1:2:3m", "\0", "\b", "\r", "\u200b", "\u00ad", "\ufe0f", "\ufeff"]


@pytest.mark.parametrize("sign", UNSEEN, ids=ascii)
@pytest.mark.parametrize("secret", [VALUE, "sk-ant-" + "api03-" + "x7Q9" * 24])
def test_what_a_terminal_does_not_show_hides_no_secret(secret: str, sign: str) -> None:
    """`grep --color` puts colours into the middle of what it found."""
    for at in (1, len(secret) // 2, len(secret) - 1):
        clean = redactor().redact(f"before {secret[:at]}{sign}{secret[at:]} after")
        assert secret[2 : at - 1] not in clean or at == 1
        assert clean.startswith("before ") and clean.endswith(" after") and "*" in clean + "*" * ("[secret:" in clean)
        assert len(clean) < len(secret) // 2 + 40


ODD = "hunter2-Zq9!x/Yw=8é-täil (ü)"
WRITTEN = {
    "jq @uri": "".join(c if (c.isalnum() and c.isascii()) or c in "-_.!~*'()" else quote(c) for c in ODD),
    "lower case": quote(ODD, safe="!").lower().replace("zq9", "Zq9").replace("yw", "Yw"),
    "printf %q": re.sub(r"([^\w/=.-])", r"\\\1", ODD),
    "re.escape": re.escape(ODD),
    "UTF-16": "".join(f"{c}\\x00" if c.isascii() else f"\\x{ord(c):02x}\\x00" for c in ODD),
    "bytes": repr(ODD.encode())[2:-1],
    "octal": "".join(c if c.isascii() else "".join(f"\\{b:03o}" for b in c.encode()) for c in ODD),
    "od": " ".join(f"{b:02x}" for b in ODD.encode()),
    "xxd": "\n".join(
        f"{at:08x}: {ODD.encode()[at : at + 16].hex(' ', 2)}  ......" for at in range(0, len(ODD.encode()), 16)
    ),
}


@pytest.mark.parametrize("form", WRITTEN)
def test_a_value_with_signs_and_letters_of_any_language_is_masked(form: str) -> None:
    found = redactor(ODD).redact(f"x {WRITTEN[form]}\nend")
    assert "[secret:" in found and "end" in found
    assert "unter2" not in found and "Zq9" not in found and "756e" not in found and "75 6e" not in found


def test_a_value_of_backslashes_masks_nothing_else() -> None:
    text = "a \\n b"
    assert redactor("\\" * 8).redact(text) == text
