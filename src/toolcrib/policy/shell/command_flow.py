"""Find code that a script feeds to an interpreter and that comes from the network or was hidden by an encoding."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from .inline_code import HIDES
from .parts import Command, Script, Word
from .table import lookup
from .table.readers import find_starts
from .table.wordlist import words

SHELLS = words("sh bash dash zsh ksh mksh ash rbash fish csh tcsh source . eval pwsh")
INTERPRETERS = SHELLS | words(
    """
    python python2 python3 pypy pypy3 node nodejs perl ruby php lua luajit deno bun osascript R Rscript julia tclsh
    xargs parallel ed ex vi vim nvim at batch crontab psql mysql sqlite3 make gawk awk
    """
)
FETCHERS = words(
    """
    curl wget wget2 fetch aria2c axel http https xh nc ncat netcat socat telnet ftp lftp lynx w3m links scp ssh rsync
    dig nslookup host
    """
)
_DECODERS = words("uudecode gunzip zcat gzcat bzcat xzcat rev tr iconv bunzip2 unxz hex ascii2uni")
_UNPACKS = r"\A(?:-\w*d|--(?:decompress|uncompress))"
_DECODES = r"\A-(?:-?d(?:ecode|ecompress)?|D|r|\w*d\w*|\w*r\w*)\Z"
_ESCAPES = r"\\(?:x[0-9a-fA-F]{1,2}|[0-7]{2,3}|u[0-9a-fA-F]{4})"
# Programs that decode with an argument of this shape, which is compiled at first use.
_DECODE_WITH = {
    **dict.fromkeys(words("base64 base32 basenc xxd openssl gpg"), _DECODES),
    **dict.fromkeys(words("gzip bzip2 xz zstd lz4"), _UNPACKS),
    **dict.fromkeys(words("printf echo"), _ESCAPES),
    **dict.fromkeys(words("python python2 python3 perl ruby node php lua"), HIDES),
    **dict.fromkeys(words("sed gsed"), r"\A[\d,]*y\W"),
}
ORIGINS = FETCHERS | _DECODERS | frozenset(_DECODE_WITH)


def tainted(script: Script) -> Iterator[tuple[Command, str, str]]:
    """Yield interpreters that get text from the network or decoded text: (command, kind, the message)."""
    commands = script.commands
    sources = [(command, kind) for command in commands if (kind := _origin(command)) is not None]
    if not sources:
        return
    names, files = _spread(commands, sources)
    for command in commands:
        name = command.program
        kind = None
        if name in INTERPRETERS or (name or "").rstrip("0123456789.") in INTERPRETERS:
            kind = _fed(command, sources, names, files)
        elif command.name is not None and command.name.rpartition("/")[2] in files and "/" in command.name:
            kind = files[command.name.rpartition("/")[2]]
        elif command.name is None and command.words:
            kind = _in_word(command.words[0], sources, names)
        if kind is not None:
            yield command, kind, ""


_TAKERS = words("read mapfile readarray xargs gxargs dd tee sponge tr bc factor tar gtar bsdtar openssl split")


def takes_input(command: Command) -> bool:
    """Return whether a command may read its input: one that runs code may, and one that reads files."""
    name = command.program or ""
    known = lookup(name)
    roles = known.operands.replace("*", "").split() if known is not None else []
    return name in INTERPRETERS | _TAKERS or not {"read", "packed"}.isdisjoint(roles)


_SWEEPERS = words("rm rmdir unlink shred mv chmod chown chgrp truncate tee dd cp ln chattr")
SWEEPING = words("xargs gxargs parallel")


def swept(script: Script) -> Iterator[tuple[Command, str, tuple[Word, ...]]]:
    """Yield commands that xargs runs on what `find` or `ls` found, whether they change or read it, and the places
    that were searched."""
    commands = script.commands
    for command in commands:
        if command.program not in SWEEPING or command.stdin is None:
            continue
        roots = [root for feeder in feeders(command) for root in _roots(feeder)]
        for inner in commands if roots else ():
            if inner.via and inner.via[-1] == command.name:
                yield inner, "delete" if inner.program in _SWEEPERS else "read", tuple(roots)


def _roots(command: Command) -> list[Word]:
    if command.program not in ("find", "gfind", "ls", "fd", "fdfind", "locate"):
        return []
    words = find_starts(command.args)[0] if command.program in ("find", "gfind") else command.args
    return [word for word in words if not word.start.startswith("-")]


def feeders(command: Command) -> Iterator[Command]:
    """Yield every command that feeds a command's input, through any number of pipes."""
    waiting = list(command.stdin.feeders) if command.stdin is not None else []
    for _ in range(50):
        if not waiting:
            return
        feeder = waiting.pop()
        yield feeder
        if feeder.stdin is not None:
            waiting += feeder.stdin.feeders


def _origin(command: Command) -> str | None:
    """Return the kind of text that a command prints or saves (`remote-code`, `hidden-code`), or None."""
    name = command.program
    if name in FETCHERS or (name == "openssl" and any(word.text == "s_client" for word in command.args)):
        return "remote-code"
    if name in _DECODERS:
        return "hidden-code"
    shape = _DECODE_WITH.get(name or "")
    if shape is None or not any(re.search(shape, "".join(part or "" for part in word.parts)) for word in command.args):
        return None
    return "hidden-code"


def _spread(commands: tuple[Command, ...], sources: list[tuple[Command, str]]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the variables and the files that hold the output of such a command."""
    names: dict[str, str] = {}
    files: dict[str, str] = {}
    for command in commands:
        for name, value in command.assigns:
            kind = _in_word(value, sources, names)
            if kind is not None:
                names[name] = kind
        if command.program in ("read", "mapfile", "readarray"):
            kind = _from_feeders(command) or next(
                (k for r in command.redirects if (w := r.text or r.target) and (k := _in_word(w, sources, names))), None
            )
            if kind is not None:
                names.update((word.text, kind) for word in command.args if word.text and word.text.isidentifier())
        for word in command.args:
            name, equals, _ = word.start.partition("=")
            if equals and (kind := _in_word(word, sources, names)) is not None:
                names[name] = kind
        origin = _origin(command) or (_from_feeders(command) if command.program in _PASSES else None)
        if origin is not None and command.program not in ("printf", "echo"):
            for file in _saved(command):
                files[file.rpartition("/")[2]] = origin
    return names, files


_PASSES = words("tee cat sponge sed tr head tail grep")


def _from_feeders(command: Command) -> str | None:
    return next((kind for feeder in feeders(command) if (kind := _origin(feeder)) is not None), None)


def _saved(command: Command) -> Iterator[str]:
    """Yield the names of files that a command saves to."""
    for redirect in command.redirects:
        if redirect.op in (">", ">>", ">|", "&>", "&>>") and redirect.target is not None and redirect.target.text:
            yield redirect.target.text
    name = command.program
    words = [word.text or "" for word in command.args]
    for before, word in pairwise(("", *words)):
        if re.fullmatch(r"--output(?:-document)?|-\w*[oO]", before) and "://" not in word:
            yield word
        elif word.startswith(("--output=", "--output-document=")):
            yield word.partition("=")[2]
        elif "://" in word or (name in ("wget", "wget2", "aria2c") and "/" in word and not word.startswith("-")):
            yield re.split(r"[?#]", word)[0].rpartition("/")[2] or "index.html"
    if name == "tee":
        yield from (word for word in words if word and not word.startswith("-"))


def _in_word(word: Word, sources: list[tuple[Command, str]], names: dict[str, str]) -> str | None:
    """Return the kind of output of such a command that a word holds, directly or by a variable; else None."""
    source = word.source
    if "$(" in source or "`" in source or "<(" in source:
        for command, kind in sources:
            if command.source and command.source in source:
                return kind
    if names and "$" in source:
        for name in re.findall(r"\$\{?(\w+)", source):
            if name in names:
                return names[name]
    return None


_TAKES_DATA = frozenset(["awk", "gawk", "xargs", "parallel", "psql", "mysql", "sqlite3"])


def _fed(
    command: Command, sources: list[tuple[Command, str]], names: dict[str, str], files: dict[str, str]
) -> str | None:
    kind = _from_feeders(command) if _reads_code(command) else None
    if kind is not None:
        return kind
    words = [*command.args, *(r.text for r in command.redirects if r.text is not None)]
    words += [r.target for r in command.redirects if r.op == "<" and r.target is not None]
    for word in words:
        kind = _in_word(word, sources, names)
        if kind is not None and command.program not in _TAKES_DATA:
            return kind
        file = (word.text or "").rpartition("/")[2]
        if file in files and command.program not in ("xargs", "parallel"):
            return files[file]
    return None


def _reads_code(command: Command) -> bool:
    """Return whether an interpreter reads its code from its input, rather than data for code that it was given."""
    name = command.program or ""
    if name in ("xargs", "parallel"):
        texts = {(word.text or "").rpartition("/")[2] for word in command.args}
        return bool(texts & SHELLS) or (name == "parallel" and not any(t and not t.startswith("-") for t in texts))
    texts = [word.text for word in command.args]
    if name in SHELLS:
        files = any(text is None or not text.startswith(("-", "/dev/stdin")) for text in texts)
        return "-c" not in texts and ("-s" in texts or not files)
    given = [text for text in texts if text != "-"]
    return not any(text is None or not text.startswith("-") or text in _GIVES_CODE for text in given)


_GIVES_CODE = ("-c", "-e", "-m", "-r", "-E", "--eval", "-ne", "-pe")
