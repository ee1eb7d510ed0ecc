"""A table of the issuers' key formats. A pattern is compiled only when a text matches what it `looks` for.

The formats are those in the issuers' documentation, and in gitleaks' and GitHub's lists of secret scanning patterns.
Every expression takes linear time: repeats are possessive or bounded, and begin at a literal.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ...core.dataclass import dataclass
from ...core.text import lazy_regex

Accept = Callable[[str], bool]


class Span(NamedTuple):
    """A secret in a text: its position, and the mask that replaces it."""

    start: int
    end: int
    mask: str


@dataclass(frozen=True, slots=True)
class Pattern:
    """One kind of secret. The group `s`, or the whole match, is the secret; `accept` may reject it.

    Every match has one of the `needles`, which are ASCII, after so many characters as one of `before` says. `whole`: no
    part of it is shown, even if it is long.
    """

    name: str
    needles: tuple[str, ...]
    expression: str
    accept: Accept | None = None
    whole: bool = False
    before: range = range(1)
    shown: str | None = None
    begin: str = ""
    """What comes after a short needle, which is in many texts by chance: an expression of RE2."""

    @property
    def looks(self) -> str:
        """An expression of RE2 that every text with such a secret matches."""
        return f"(?:{'|'.join(map(re.escape, self.needles))}){self.begin}"

    def spans(self, text: str) -> list[Span]:
        """Return the secrets of this kind in a text."""
        found: list[Span] = []
        for match in self._matches(text):
            start, end = match.span("s" if "s" in match.re.groupindex else 0)
            if start < end and (self.accept is None or self.accept(text[start:end])):
                found.append(Span(start, end, self.shown or mask(text[start:end], whole=self.whole)))
        return found

    def _matches(self, text: str) -> Iterator[re.Match[str]]:
        expression = re.compile(self.expression, re.ASCII)  # keys are ASCII; an é next to one ends it
        for needle in self.needles:
            at = text.find(needle)
            while at >= 0:
                match = None
                for size in self.before:
                    if match is None and size <= at:
                        match = expression.match(text, at - size)
                if match is not None:
                    yield match
                at = text.find(needle, match.end() if match is not None and match.end() > at else at + 1)


def mask(secret: str, *, whole: bool = False) -> str:
    """Return the mask `sk-a***wxyz`: the first and the last four characters; for fewer than 16 characters, none."""
    return "***" if whole or len(secret) < 16 else f"{secret[:4]}***{secret[-4:]}"


def _mixed(token: str) -> bool:
    """Return whether a token is not just words with hyphens: it has a digit or a capital after the prefix, or a part
    that is too long for a word."""
    has_sign = any(c.isdigit() or c.isupper() for c in token[3:]) or _NO_WORD.search(token) is not None
    return has_sign and len(set(token)) > 8


def _has_digit(token: str) -> bool:
    return any(c.isdigit() for c in token) and len(set(token)) > 5


def _issued(token: str) -> bool:
    """Return whether a token with an unmistakable prefix is more than a placeholder."""
    return _has_digit(token) or _mixed(token)


_NO_WORD = lazy_regex(r"[a-z]{20}")
_TEMPLATE = ("$", "{", "<", "%(", "%s", "[", "*", "...", "…")
_WORDS = lazy_regex(r"(?i)(?:your|my|example|changeme|change_me|placeholder|dummy|xxx+|todo|none|null|true|false|test)")


def _no_template(value: str) -> bool:
    """Return whether a value is not a placeholder like `$TOKEN`, `<token>` or `{token}`, and not already masked."""
    return not value.startswith(_TEMPLATE) and "***" not in value


def _password(value: str) -> bool:
    return _no_template(value) and not value.startswith("//")


def _assigned(value: str) -> bool:
    """Return whether a variable's value may be a secret: not a template, path, address, word or placeholder."""
    if not _no_template(value) or value.startswith(("/", "~/", "./", "http://", "https://")) or _WORDS.match(value):
        return False
    kinds = (any(c.isdigit() for c in value), any(c.islower() for c in value), any(c.isupper() for c in value))
    return sum(kinds) >= 2 and len(set(value)) >= 6 and "(" not in value


def _basic(value: str) -> bool:
    from base64 import b64decode

    try:
        return b":" in b64decode(value + "=" * (-len(value) % 4), validate=True)
    except ValueError:
        return False


# Text that may come before a key that begins with a letter: also the end of an escape (`\n`, `%3D`, `\u0022`, a
# terminal's colours), whose last letter does not belong to the text.
_LEFT = (
    r"(?:(?<![A-Za-z0-9_])|(?<=\\[nrtbf])|(?<=%[0-9A-Fa-f]{2})|(?<=\\u[0-9A-Fa-f]{4})|(?<=\\x[0-9A-Fa-f]{2})"
    r"|(?<=\x1b\[[Km])|(?<=\x1b\[\dm)|(?<=\x1b\[\d\dm)|(?<=\x1b\[\d;\d\dm)|(?<=\x1b\[\d\d;\d\dm))"
)
_LEFT_OF_WORD = _LEFT.replace("A-Za-z0-9_", "A-Za-z0-9")  # `api_key_sk-…`
_RIGHT = r"(?![A-Za-z0-9])"
_QUOTES = r"[\"'\\\s]{0,6}"

TOKENS: tuple[Pattern, ...] = (
    # OpenAI, Anthropic (sk-ant-), OpenRouter (sk-or-), DeepSeek and others
    Pattern("sk key", ("sk-",), rf"{_LEFT_OF_WORD}sk-[\w-]{{20,}}+", _mixed),
    Pattern("AWS key id", ("AKIA", "ASIA", "ABIA", "ACCA"), rf"{_LEFT_OF_WORD}A(?:KI|SI|BI|CC)A[A-Z0-9]{{16}}{_RIGHT}",
            begin="[A-Z0-9]{6}"),
    Pattern("GitHub token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"gh[pousr]_[A-Za-z0-9_]{20,}+", _issued),
    Pattern("GitHub token", ("github_pat_",), r"github_pat_\w{22,}+"),
    Pattern(
        "GitLab token",
        ("glpat-", "gldt-", "glrt-", "glcbt-", "glptt-", "glft-", "glimt-", "glagent-", "gloas-", "glsoat-"),
        r"gl(?:pat|dt|rt|cbt|ptt|ft|imt|agent|oas|soat)-[\w-]{16,}+(?:\.[a-z0-9]{2}\.[a-z0-9]{9})?+",
    ),
    Pattern("GitLab runner token", ("GR1348941",), r"GR1348941[\w-]{20,}+"),
    Pattern("Slack token", ("xox",), r"xox[abeoprs](?:\.xox[bp])?-[A-Za-z0-9-]{10,}+", _has_digit,
            begin="[abeoprs][.-]"),
    Pattern("Slack app token", ("xapp-",), r"xapp-\d-[A-Za-z0-9-]{20,}+"),
    Pattern("Google API key", ("AIza",), rf"{_LEFT_OF_WORD}AIza[\w-]{{35}}(?![\w-])"),
    Pattern("Google OAuth secret", ("GOCSPX-",), r"GOCSPX-[\w-]{20,}+"),
    Pattern("Google OAuth token", ("ya29.",), rf"{_LEFT_OF_WORD}ya29\.[\w-]{{20,}}+(?:\.[\w-]++)*+"),
    Pattern("Google refresh token", ("1//0",), rf"{_LEFT}1//0[\w-]{{35,}}+", _mixed),
    Pattern("Stripe key", ("sk_live_", "sk_test_", "rk_live_", "rk_test_"), r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,}+"),
    Pattern("Stripe webhook secret", ("whsec_",), r"whsec_[A-Za-z0-9+/=]{16,}+"),
    Pattern("Telegram bot token", tuple(f"{digit}:AA" for digit in range(10)),
            rf"{_LEFT}(?:bot)?\d{{6,12}}:AA[\w-]{{32,34}}(?![\w-])", before=range(14, 4, -1)),
    Pattern("npm token", ("npm_",), r"npm_[A-Za-z0-9]{30,}+"),
    Pattern("PyPI token", ("pypi-",), r"pypi-A[\w-]{40,}+"),
    Pattern("DigitalOcean token", ("dop_v1_", "doo_v1_", "dor_v1_"), r"do[oprt]_v1_[a-f0-9]{40,}+"),
    Pattern("Hugging Face token", ("hf_", "api_org_"), rf"(?:{_LEFT_OF_WORD}hf_|api_org_)[A-Za-z0-9]{{30,}}+", _mixed),
    Pattern("SendGrid key", ("SG.",), rf"{_LEFT_OF_WORD}SG\.[\w-]{{16,32}}\.[\w-]{{32,64}}"),
    Pattern("Twilio key", ("SK",), rf"{_LEFT_OF_WORD}SK[0-9a-f]{{32}}{_RIGHT}", begin="[0-9a-f]{8}"),
    Pattern("Databricks token", ("dapi",), rf"{_LEFT_OF_WORD}dapi[a-f0-9]{{32}}(?:-\d)?{_RIGHT}",
            begin="[a-f0-9]{6}"),
    Pattern("age key", ("AGE-SECRET-KEY-",), r"AGE-SECRET-KEY-1[0-9A-Z]{50,}+"),
    Pattern("Mailgun key", ("key-",), rf"{_LEFT_OF_WORD}key-[0-9a-f]{{32}}{_RIGHT}"),
    Pattern("Mailchimp key", ("-us",), rf"{_LEFT_OF_WORD}[0-9a-f]{{32}}-us\d{{1,2}}{_RIGHT}",
            before=range(32, 33)),
    Pattern("Shopify token", ("shp",), r"shp(?:at|ca|pa|ss|tka)_[A-Fa-f0-9]{32,}+", begin="[a-z]{2,3}_"),
    Pattern("Square token", ("sq0",), r"sq0[a-z]{3}-[\w-]{22,}+", begin="[a-z]{3}-"),
    Pattern("Vault token", ("hvs.", "hvb.", "hvr."), rf"{_LEFT_OF_WORD}hv[sbr]\.[\w-]{{24,}}+", _mixed),
    Pattern("Terraform token", (".atlasv1.",), rf"{_LEFT}[A-Za-z0-9]{{14}}\.atlasv1\.[\w=-]{{50,}}+",
            before=range(14, 15)),
    Pattern("Grafana token", ("glsa_", "glc_"), r"gl(?:sa|c)_[A-Za-z0-9+/_=]{32,}+", _mixed),
    Pattern("New Relic key", ("NRAK-",), r"NRAK-[A-Z0-9]{27}"),
    Pattern("Postman key", ("PMAK-",), r"PMAK-[a-f0-9]{24}-[a-f0-9]{34}"),
    Pattern("Docker token", ("dckr_",), r"dckr_[op]at_[\w-]{20,}+"),
    Pattern("Tailscale key", ("tskey-",), r"tskey-[a-z]+-[A-Za-z0-9-]{16,}+", _mixed),
    Pattern("Replicate token", ("r8_",), rf"{_LEFT}r8_[A-Za-z0-9]{{36,}}+"),
    Pattern("Groq key", ("gsk_",), r"gsk_[A-Za-z0-9]{40,}+"),
    Pattern("xAI key", ("xai-",), rf"{_LEFT_OF_WORD}xai-[A-Za-z0-9]{{60,}}+"),
    Pattern("Perplexity key", ("pplx-",), r"pplx-[A-Za-z0-9]{32,}+"),
    Pattern("NVIDIA key", ("nvapi-",), r"nvapi-[\w-]{40,}+"),
    Pattern("Figma token", ("figd_",), r"figd_[\w-]{30,}+"),
    Pattern("Linear key", ("lin_api_", "lin_oauth_"), r"lin_(?:api|oauth)_[A-Za-z0-9]{32,}+"),
    Pattern("Notion token", ("ntn_",), rf"{_LEFT_OF_WORD}ntn_[A-Za-z0-9]{{40,}}+"),
    Pattern("Supabase key", ("sbp_", "sb_secret_"), r"(?:sbp_[a-f0-9]{40}|sb_secret_[\w-]{20,}+)"),
    Pattern("Sentry token", ("sntrys_", "sntryu_"), r"sntry[su]_[\w+/=-]{40,}+"),
    Pattern("PlanetScale secret", ("pscale_",), r"pscale_(?:tkn|oauth|pw)_[\w.=-]{30,}+"),
    Pattern("RubyGems key", ("rubygems_",), r"rubygems_[a-f0-9]{40,}+"),
    Pattern("Dynatrace token", ("dt0c01.", "dt0s0"), r"dt0[a-z]\d\d\.[A-Z0-9]{20,24}\.[A-Z0-9]{60,}+"),
    Pattern("Doppler token", ("dp.",),
            rf"{_LEFT_OF_WORD}dp\.(?:pt|st|ct|sa|scim|audit)\.(?:[\w-]++\.)?[A-Za-z0-9]{{40,}}+"),
    Pattern("Pulumi token", ("pul-",), rf"{_LEFT_OF_WORD}pul-[a-f0-9]{{40}}"),
    Pattern("Atlassian token", ("ATATT3", "ATCTT3", "ATBB"), rf"{_LEFT_OF_WORD}AT(?:ATT3|CTT3|BB)[\w=-]{{28,}}+"),
    Pattern("Facebook token", ("EAA",), rf"{_LEFT_OF_WORD}EAA[MC][A-Za-z0-9]{{80,}}+{_RIGHT}",
            begin="[MC]"),
    Pattern("LangSmith key", ("lsv2_",), r"lsv2_(?:pt|sk)_[a-f0-9]{32}_[a-f0-9]{10}"),
    Pattern("1Password token", ("ops_eyJ",), r"ops_eyJ[\w+/=-]{100,}+"),
    Pattern("Heroku key", ("HRKU-",), r"HRKU-[\w-]{36,}+"),
    Pattern("Netlify token", ("nfp_",), rf"{_LEFT_OF_WORD}nfp_[A-Za-z0-9]{{36,}}+"),
    Pattern("Azure client secret", ("7Q~", "8Q~"), rf"{_LEFT}[\w~.-]{{3}}[78]Q~[\w~.-]{{31,34}}(?![\w~.-])",
            before=range(3, 4)),
    Pattern("JWT", ("eyJ",), rf"{_LEFT_OF_WORD}eyJ[\w-]{{10,}}+\.[\w-]{{8,}}+\.[\w-]*+(?:\.[\w-]++\.[\w-]++)?+",
            shown="eyJ***.***.***", begin=r"[\w-]+\."),
    Pattern("Slack webhook", ("hooks.slack.com/",),
            r"hooks\.slack\.com/(?:services|workflows|triggers)/(?:[\w-]{1,64}/){0,8}+(?P<s>[\w-]{16,}+)"),
    Pattern("Discord webhook", ("discord.com/", "discordapp.com/"),
            r"discord(?:app)?\.com/api/webhooks/\d{10,64}/(?P<s>[\w-]{40,}+)"),
    Pattern("AWS session token", ("ession_token", "essionToken", "ESSION_TOKEN"),
            rf"(?i:ession_?token){_QUOTES}[:=]{_QUOTES}(?P<s>[A-Za-z0-9/+]{{100,}}+=*+)"),
)  # fmt: skip
"""Keys that are recognized by their own form."""

# A name that indicates a secret, the rest of it, and the value: `DB_PASSWORD=…`, `API_KEY_OLD="…`, as in .env files.
_TO_VALUE = "[A-Z0-9_]{0,34}="  # from a needle to the value
_ASSIGNED = r"(?:_[A-Z0-9_]{0,30})?=[\"'\\]{0,2}(?P<s>[^\s\"'\\;&|`,)]{8,512})"
_HEADER = rf"{_QUOTES}[:=,]{_QUOTES}(?i:bearer|basic|token) {{1,4}}(?P<s>[A-Za-z0-9._~+/-]{{8,}}+=*+)"
_AWS_NAME = "(?i:[_ -]?(?:access[_ -]?)?key)"
_AWS = rf"{_AWS_NAME}{_QUOTES}[:=,]{_QUOTES}(?P<s>[A-Za-z0-9/+]{{40}})(?![A-Za-z0-9/+=])"
_KEY_OF = "|".join(
    f"(?<={word}_KEY)" for word in ("API", "ACCESS", "PRIVATE", "SECRET", "MASTER", "AUTH", "ENCRYPTION")
)

CONTEXTS: tuple[Pattern, ...] = (
    Pattern("password in a URL", (":/",),
            r":/{1,2}[^\s/@:\"'<>\\]{0,256}:(?P<s>[^\s/\"'<>\\]{1,256})@(?=[\w\[$<{])", _password, whole=True),
    Pattern("bearer token", ("earer ",), r"earer {1,4}(?P<s>[A-Za-z0-9._~+/-]{16,}+=*+)", _has_digit),
    Pattern("bearer header", ("earer ",),
            r"(?<=uthorization: [Bb])earer (?P<s>[A-Za-z0-9._~+/-]{8,}+=*+)", _no_template),
    Pattern("authorization header", ("uthorization", "UTHORIZATION"), rf"(?i:uthorization){_HEADER}", _no_template),
    Pattern("basic login", ("asic ",), r"asic {1,4}(?P<s>[A-Za-z0-9+/]{8,}+=*+)", _basic, whole=True),
    Pattern("AWS secret key", ("ecret", "SECRET"), rf"(?i:secret|ecret){_AWS}", _mixed, begin=_AWS_NAME),
    Pattern("Azure key", ("Key=",), r"Key=(?<=AccountKey=)(?P<s>[A-Za-z0-9+/]{40,}+=*+)"),
    Pattern("Azure key", ("Key=",), r"Key=(?<=SharedAccessKey=)(?P<s>[A-Za-z0-9+/]{40,}+=*+)"),
    Pattern("password variable", ("ASSWORD", "ASSWD"),
            rf"ASSW(?:OR)?D{_ASSIGNED}", _assigned, whole=True, begin=_TO_VALUE),
    Pattern("secret variable", ("SECRET",), rf"SECRET(?:_KEY)?{_ASSIGNED}", _assigned, begin=_TO_VALUE),
    Pattern("token variable", ("TOKEN",), rf"TOKEN{_ASSIGNED}", _assigned, begin=_TO_VALUE),
    Pattern("key variable", ("_KEY",), rf"_KEY(?:{_KEY_OF}){_ASSIGNED}", _assigned, begin=_TO_VALUE),
)  # fmt: skip
"""Secrets that are recognized by the text before them."""


# --- private keys

_FENCE = lazy_regex(r"-----(BEGIN|END) [A-Z0-9 ]{0,40}?PRIVATE KEY(?: BLOCK)?-----")
_ENCODED = lazy_regex(r"[A-Za-z0-9+/=]{16}")
# A line of the body, perhaps numbered, quoted or part of a diff; and its allowed characters.
_LINE = lazy_regex(
    r"[^\nA-Za-z0-9+/=]{0,4}(?:\d{1,7}[|:\t ]{1,3})?[^\nA-Za-z0-9+/=]{0,4}"
    r"[A-Za-z0-9+/=]{16,}+[\"',\\+ \r]{0,6}(?:\\n)?[\"',+ ]{0,6}$"
)
_FLAT = lazy_regex(r"(?:\\[nr]|[A-Za-z0-9+/=])++")
_MAX_BODY = 32 * 1024
_BEFORE = r"[ \t\"'+-]{0,32}(?:\d{1,7}[|:\t ]{1,3})?[ \t\"'+-]{0,8}"
_BODY_LINE = lazy_regex(
    rf"{_BEFORE}(?:(?:Proc-Type|DEK-Info|Version|Comment): [\w .,:/()+-]*\r?|([A-Za-z0-9+/=]*+)[\"',\\+ \t\r]*)"
)
_FULL_LINE = 40  # characters of base64; the last two lines of a body (the rest, a checksum) may be shorter


def private_keys(text: str) -> list[Span]:
    """Return the bodies of the private keys in PEM, PGP and SSH armour, also if only a block's beginning or end is
    present."""
    fences = list(_FENCE.finditer(text))
    found: list[Span] = []
    for number, fence in enumerate(fences):
        start = fence.end()
        following = fences[number + 1] if number + 1 < len(fences) else None
        if fence[1] == "BEGIN":
            if following is not None and following[1] == "END" and following.start() - start <= _MAX_BODY:
                end = following.start()
            else:
                end = _open_end(text, start, following.start() if following else len(text))
            found += _span(text, start, end)
        elif number == 0 or fences[number - 1][1] == "END":
            begin = _open_start(text, fence.start(), fences[number - 1].end() if number else 0)
            found += _span(text, begin, fence.start())
    return found


def is_key_body(body: str) -> bool:
    """Return whether every line between the first and the last line of a private key looks like a part of it."""
    lines = [_BODY_LINE.fullmatch(line) for line in re.split(r"(?:\\r)?\\n|\n", body)]
    if any(line is None for line in lines):
        return False
    data = [line[1] for line in lines if line is not None and line[1]]
    return all(len(each) >= _FULL_LINE for each in data[:-2])


def _span(text: str, start: int, end: int) -> list[Span]:
    body = text[start:end]
    if not _ENCODED.search(body):
        return []
    mark = "\\n" if "\\n" in body and "\n" not in body else "\n" if "\n" in body else ""
    return [Span(start, end, f"{mark}***{mark}")]


def _open_end(text: str, start: int, limit: int) -> int:
    """Return the end of a body without a last line: after the text that looks like its lines."""
    flat = _FLAT.match(text, start, min(limit, start + _MAX_BODY))
    end = flat.end() if flat else start
    most = min(limit, start + _MAX_BODY)
    while end < most:
        newline = text.find("\n", end + 1, most)
        stop = newline if newline >= 0 else min(limit, most)
        line = text[end:stop].lstrip("\n")
        if line.strip(" \t\r") and not _LINE.match(line) and not _armour_header(line):
            break
        end = stop
    return end


def _armour_header(line: str) -> bool:
    return line.startswith(("Proc-Type:", "DEK-Info:", "Version:", "Comment:"))


def _open_start(text: str, end: int, limit: int) -> int:
    """Return the start of a body without a first line."""
    start = end
    limit = max(limit, end - _MAX_BODY)
    while start > limit:
        newline = text.rfind("\n", limit, start - 1)
        line = text[newline + 1 if newline >= 0 else limit : start].rstrip("\n")
        short_last = start == end and re.fullmatch(r"[^\n]{0,12}?[A-Za-z0-9+/]{1,15}={0,2}[\"',\\+ \r]{0,6}", line)
        if line and not _LINE.match(line) and not short_last:
            break
        start = newline + 1 if newline >= 0 else limit
    return start
