"""Judge the programs that connect to other machines, to a container daemon, or work with keys."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ....core.text import lazy_regex
from ..parts import Effect, Word
from ..roles import choices, of_role, of_unlisted, plain
from ..sorting import cut, literal
from .program_spec import SortedWords
from .wordlist import words

_EXEC_SSH = lazy_regex(
    r"(?:proxycommand|localcommand|permitlocalcommand|knownhostscommand|proxyusefdpass|include|match)\b", re.IGNORECASE
)
_DAEMON = lazy_regex(r"(?:docker|podman|containerd|crio)\.sock")


def curl(call: SortedWords) -> Iterator[Effect]:
    if call.has("-O", "--remote-name", "--remote-name-all", "-J"):
        yield Effect("create", literal("./x"))
    for word in call.values("-F", "--form"):  # `a=@"x",y;headers=@z` sends x, y and z
        at = re.search(r"=[@<]", word.start)
        if at:
            names = re.split(r'[;,]\w+=@?|[,"]+', word.start[at.end() :]) if len(word.parts) == 1 else ()
            for name in map(literal, filter(None, names)) if names else [cut(word, at.end())]:
                yield from of_role("send", name)
    for word in call.values("-T", "--upload-file"):
        yield from (Effect("send", each) for each in choices(word))
    for word in call.values("-w", "--write-out"):
        for name in re.findall(r"%output\{(?:>>)?([^}]*)", "".join(part or "" for part in word.parts)):
            yield Effect("write", literal(name))
    if call.values("--proto-default"):
        yield from (Effect("read", word) for word in call.operands)
    for word in call.values("--unix-socket", "--abstract-unix-socket"):
        yield Effect("escape" if _DAEMON.search(word.start) else "network", word)
    if not call.operands and not call.values("--url") and call.command.args:
        yield Effect("network")


_MAKES = words("dirprefix hstsfile warcfile warctempdir")  # settings of wget, which passes over case, - and _


def wget(call: SortedWords) -> Iterator[Effect]:
    if not call.has("-O", "--output-document", "--spider"):
        yield Effect("create", next(iter(call.values("-P", "--directory-prefix")), literal("./x")))
    for word in call.values("-e", "--execute"):  # `post_file=x` is `--post-file=x`
        name = word.start.partition("=")[0]
        value = cut(word, len(word.start) - len(word.start.removeprefix(name).removeprefix("=").lstrip()))
        yield from of_unlisted(f"--{name.strip()}", value)
        if re.sub(r"[-_\s]", "", name).lower() in _MAKES:
            yield Effect("write", value)


def copy(call: SortedWords) -> Iterator[Effect]:
    """ssh, scp: a remote command runs on the other machine; the programs in options run on this one."""
    for word in call.values("-o"):
        start = "".join(part or "" for part in word.parts).strip()
        value = re.split(r"[=\s]", start, maxsplit=1)
        if _EXEC_SSH.match(start) and value[-1].strip().lower() not in ("none", "no"):
            yield Effect("hijack", word, "makes ssh run a program")
    yield Effect("network", call.operands[0] if call.operands else None)


def rsync(call: SortedWords) -> Iterator[Effect]:
    dest = call.operands[-1] if len(call.operands) > 1 else None
    deletes = call.has("--del", "--delete") or any(name.startswith("--delete") for name in call.unlisted)
    if dest is not None and deletes and not re.match(r"[\w.@-]+:|rsync://", dest.start):
        yield Effect("delete", dest)
    if call.has("--remove-source-files"):
        yield from (Effect("delete", word) for word in call.operands[:-1])


def socat(call: SortedWords) -> Iterator[Effect]:
    for word in call.operands:
        text = "".join(part or "" for part in word.parts)
        if re.match(r"(?:exec|system|shell)\b", text, re.IGNORECASE):
            yield Effect("reverse-shell", word)
        elif opened := re.match(r"(?:file|g?open|create?):([^,]*)", text, re.IGNORECASE):
            yield Effect("read", Word((opened[1],), word.source))
    yield Effect("network")


# --- containers: their daemon runs as root on this machine


def _volume(word: Word) -> Iterator[Effect]:
    """`-v HOST:INSIDE`: root changes the files at HOST from inside the container."""
    source = word.start.partition(":")[0]
    if _DAEMON.search(source):
        yield Effect("escape", word, "gives a container the daemon's socket, and with it the machine")
    elif source.startswith(("/", "~", ".", "$")):
        yield Effect("write", Word((source,), word.source))


def container(call: SortedWords) -> Iterator[Effect]:
    for effect in plain(call):
        word = effect.target if isinstance(effect.target, Word) else Word(("",))
        text = "".join(part or "" for part in word.parts)
        if effect.kind == "volume":
            yield from _volume(word)
        elif effect.kind == "mount-option":
            if match := re.search(r"(?:^|,)(?:source|src)=([^,]*)", text):
                yield from _volume(Word((match[1] + ":",), word.source))
        elif effect.kind == "hostspace":
            if text == "host":
                yield Effect("escape", word, "gives a container the host's own processes or users")
        elif effect.kind == "security":
            if None in word.parts[:1] or re.search(r"unconfined|disable", text):
                yield Effect("escape", word, "takes a container's walls away")
        else:
            yield effect
    if call.name.endswith(" cp"):
        for word in call.operands:
            if ":" not in word.start:
                yield Effect("write" if word is call.operands[-1] else "read", word)
