"""Find evident harm in code for an interpreter, by patterns that hold for all of them. They are compiled at first use.

This module never proves code harmless: what runs code asks anyway. Text that is known only at run time is a NUL.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .parts import Effect, Word
from .sorting import literal

MAX_CODE = 64 * 1024
_FETCH = (
    r"urlopen|requests\.|httpx|urllib|https?://|LWP|Net::HTTP|net/http|open-uri|fetch\(|curl|socket"
    r"|file_get_contents\(['\"]http"
)
HIDES = (
    r"(?i:b64decode|base64|fromhex|unhexlify|atob|decode_base64|unpack|zlib|gzinflate|rot13|chr\("
    r"|\\x[0-9a-f]{2}.*\\x[0-9a-f]{2})"
)
_TEXT = r"""(?:[rbuf]{0,2}(?:'((?:[^'\\\n]|\\.)*)'|"((?:[^"\\\n]|\\.)*)"|`((?:[^`\\]|\\.)*)`))"""
_LIST = rf"\[\s*({_TEXT.replace('(', '(?:').replace('(?:?:', '(?:')}(?:\s*,\s*[^\]]*)?)\]"
_CALL = r"(?m:^|[^\w$])"
_ROLES = {
    "shell": r"system|popen\d?|Popen|exec\w*|spawn\w*|posix_spawn\w*|shell_exec|passthru|proc_open|check_output"
    r"|check_call|call|run|getoutput|getstatusoutput|execute|capture\d*e?|create_subprocess_\w+|qx",
    "delete": r"rmtree|remove\w*|unlink\w*|rmdir\w*|rm|rm_rf?|rm_f|rmSync|rimraf|truncate\w*|delete",
    "write": r"write_\w+|writeFile\w*|appendFile\w*|createWriteStream|file_put_contents|binwrite|copyfile|symlink\w*"
    r"|mkdir\w*|makedirs|touch|outputFile\w*",
    "modify": r"l?chmod\w*|l?chown\w*",
    "move": r"rename\w*|replace|move",
    "read": r"read_\w+|readFile\w*|file_get_contents|readfile|createReadStream|readlines|open\w*|fopen|lines|foreach"
    r"|file|slurp|read|require|include|cat",
}
_OPENED = rf"\b(?:open\w*+|fopen)[\s(]*(?:\w+\s*,\s*)?{_TEXT}\s*,\s*(?:mode\s*=\s*)?['\"][^'\"]*[waxc+>]"
_PERL_OPEN = r"\bopen[^;'\"]*['\"]\s*\+?>{1,2}\s*['\"]?\s*,?\s*['\"]?([^'\";]+)"
_PATH = rf"\bPath\(\s*{_TEXT}\s*\)(?:\s*/\s*{_TEXT})?\)*\.(\w+)"
_SHAPES = {
    "spawn-shell": r"\bpty\.spawn\b|exec[lv]?\w*[\s(]*[\"']\S*/?(?:ba|da|z|k|c)?sh[\"']",
    "kill-all": r"\bkill(?:pg)?[\s(]*(?:['\"]?\w+['\"]?\s*,\s*)?-?[01]\b(?!\d)",
    "bomb": r"\A(?>(?s:.*?)(?:\bwhile\b|\bloop\b|for\s*\(\s*;\s*;))(?s:.*)\bfork\b|\bfork\b.*\bwhile\b",
    "reverse-shell": r"\A(?>(?s:.*?)(?i:socket|net\.connect|fsockopen|TCPSocket))(?s:.*)"
    r"(?:dup2|subprocess|pty|/bin/(?:ba|da|z)?sh|\bexec\b|spawn|popen)",
    "setuid": r"\bset(?:res)?[ug]id\s*\(\s*0\b|\bchmod\s*\(?[^,)]*,\s*0o?[46]\d{3}",
    "network": r"\b(?:import|from|require|use)\b[^\n;]*\b(?:socket|urllib|requests|httpx|https?|ftplib|smtplib"
    r"|telnetlib|aiohttp|paramiko|xmlrpc|net|open-uri|LWP|Socket)\b|curl_init|fsockopen|URI\.open|\bfetch\(",
}
_ASSIGNED = r"(?m:^|;)[^\S\n]*(?:const |let |var |my )?\$?(\w+)\s*=\s*('[^'\n]*'|\"[^\"\n]*\"|\[[^\]\n]*\])"
_RUNS_TEXT = r"\beval\b|\bexec\b|\bcompile\s*\(|new Function|loadstring|\bload\b"


def effects_of_code(language: str, text: str) -> list[Effect]:
    """Return the evident effects of a program text."""
    if len(text) > MAX_CODE:
        return [Effect("execute", None, "runs code that is too long to look through", "shell:unknown-code")]
    return list(_awk(text) if language == "awk" else _of(_plain(text)))


def _plain(text: str) -> str:
    """Undo the simple disguises of code: other names for modules, joined strings, strings in variables."""
    text = re.sub(r"getattr\(\s*([\w.]+|__import__\([^)]*\))\s*,\s*['\"](\w+)['\"]\s*\)", r"\1.\2", text)
    text = re.sub(r"__import__\(\s*['\"]([\w.]+)['\"]\s*\)", r"\1", text)
    text = re.sub(r"['\"]\s*(?:\+|\.(?=\s*['\"]))\s*['\"]", "", text)
    text = re.sub(r"(?:os\.path\.)?expanduser\(\s*(['\"][^'\"]*['\"])\s*\)"
        r"|Path\.home\(\)(?:\s*/\s*|\.joinpath\()['\"]([^'\"]*)['\"]",
        lambda m: m[1] or f"Path('~/{m[2]}')", text,
    )  # fmt: skip
    text = re.sub(_PATH, lambda m: f"{m[7]}('{'/'.join(filter(None, m.groups()[:6]))}'", text)
    for module, name in re.findall(r"import\s+([\w.]+)\s+as\s+(\w+)", text):
        text = re.sub(rf"\b{name}\b", module, text)
    for name, value in re.findall(_ASSIGNED, text)[:40]:
        text = re.sub(rf"(?<=[(,\s])\$?\b{name}\b(?=\s*[,)])", lambda _, value=value: value, text)
    return text[: 2 * MAX_CODE]


def _word(text: str) -> Word:
    first, *rest = text.split("\0")
    return Word((first, None), text) if rest else literal(text)


def _run(text: str) -> Iterator[Effect]:
    """Yield the effect of a command line that code gives to a shell."""
    yield Effect("shell", _word(text), "runs a command from inside other code")


def _of(text: str) -> Iterator[Effect]:
    for role, names in _ROLES.items():
        call = rf"{_CALL}(?:{names})[\s(]*(?:glob[\s(]*|\d+\s*,\s*)?(?:{_LIST}|{_TEXT})"
        for match in re.finditer(call, text):
            listed, *single = match.groups()
            given = [_unescaped(next((g for g in found if g), "")) for found in re.findall(_TEXT, listed or "")]
            target = " ".join(given) if listed else _unescaped(next((g for g in single if g), ""))
            if role == "shell":
                yield from _run(target) if target else ()
            elif (target and role != "read") or "/" in target or target.startswith((".", "~")):
                yield Effect(role, _word(target))
    for match in re.finditer(r"`([^`\n]+)`", text):
        yield from _run(match[1])
    for match in [*re.finditer(_OPENED, text), *re.finditer(_PERL_OPEN, text)]:
        yield Effect("write", _word(next((g for g in match.groups() if g), "")))
    for kind, pattern in _SHAPES.items():
        if re.search(pattern, text):
            yield Effect(kind)
    if re.search(_RUNS_TEXT, text):
        if re.search(_FETCH, text):
            yield Effect("remote-code")
        elif re.search(HIDES, text):
            yield Effect("hidden-code")
    for url in re.findall(r"https?://[^\s'\"]+", text):
        yield Effect("network", url)


def _unescaped(text: str) -> str:
    return re.sub(r"\\([\"'\\])", r"\1", text)


# --- awk

_QUOTED = r"\"((?:[^\"\\]|\\.)*)\""
_AWK_RUNS = rf"system\s*\(\s*{_QUOTED}|{_QUOTED}\s*\|&?\s*getline|\|&?\s*{_QUOTED}"
_AWK_FILES = rf"(printf?\b[^;}}>]*>>?|getline\s*(?:[A-Za-z_]\w*\s*)?<)\s*{_QUOTED}"
_AWK_NAMES = r"(?:getline|system|ARG[VC]|(?:SYM|FUNC)TAB|ENVIRON|PROCINFO)\b"
_AWK_ASKS = r"@|(?<!\|)\|(?!\|)|\|&"


def _awk(text: str) -> Iterator[Effect]:
    """awk is harmless if it does not redirect, pipe or read files by itself. Strings and brackets do not count, unless
    a slash or a comment could be around a quote."""
    bare, open_quote = text.replace(";", " ").replace("}", " "), False  # what a quote around them hides is not known
    whole = {*text}.isdisjoint("/#")
    if whole:
        bare = re.sub(r'"(?:[^"\\\n]|\\.)*"', " $ ", text)
        open_quote = '"' in bare
    if open_quote or re.search(_AWK_NAMES, bare) or re.search(_AWK_ASKS, bare):
        yield Effect("execute", None, "runs commands or chooses files from awk", "shell:unknown-code")
    before = None if whole else bare
    while before != bare:
        before, bare = bare, re.sub(r"\([^()]*\)", " ", bare)
    if re.search(r"printf?\b[^;}]*>", bare):  # also after a number: `1print` and `1system` are two words each
        yield Effect("change", None, "writes to files from awk", "shell:write")
    for match in re.finditer(_AWK_RUNS, text):
        yield from _run(_unescaped(next(group for group in match.groups() if group is not None)))
    for how, name in re.findall(_AWK_FILES, text):
        yield Effect("write" if how[-1] == ">" else "read", literal(name))
    if re.search(r"/inet\d?/(?:tcp|udp)/", text):
        yield Effect("reverse-shell")
