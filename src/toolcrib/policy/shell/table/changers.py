"""Judge the programs that change files, processes and the machine, where roles alone do not say what they do."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ....core.text import lazy_regex
from ..parts import Effect
from ..roles import of_operands
from ..sorting import cut, literal
from .program_spec import SortedWords


def chmod(call: SortedWords) -> Iterator[Effect]:
    """chmod: a mode may begin with a dash (`chmod -x file`), and some modes let a file run with its owner's rights."""
    words = [word for word in call.command.args if not _CHMOD_OPTION.fullmatch(word.text or "")]
    mode = words[0].text if words else ""
    if _SETUID.search(mode or ""):
        yield Effect("setuid", words[0])
    yield from of_operands(words[1:], "modify*")


_CHMOD_OPTION = lazy_regex(r"--[a-z-]*|-[Rvcf]+")
_SETUID = lazy_regex(r"\A0*[2-7]\d{3}\Z|(?:\A|,)[ugoa]*[+=][rwxXugot]*s")


def chown(call: SortedWords) -> Iterator[Effect]:
    """chown and chgrp: the first operand is an owner, but a file where `--reference` (or `--ref`) gives one."""
    yield from of_operands(call.operands[1:], "modify*")
    if len(call.operands) == 1 or any(word.start.startswith("--r") for word in call.command.args):
        yield from of_operands(call.operands[:1], "modify*")


def ln(call: SortedWords) -> Iterator[Effect]:
    """`ln TARGET… LINK`. A symbolic TARGET is relative to the link's folder; from here it leads out the sooner."""
    operands = list(call.operands)
    into = call.values("-t", "--target-directory")
    place = operands.pop() if len(operands) > 1 and not into else None
    yield from (Effect("link", target) for target in operands)
    if place is not None or not into:
        yield Effect("create", place or literal("."))


def cp(call: SortedWords) -> Iterator[Effect]:
    """`cp -l` and `cp -s` make links, through which the files can be changed."""
    if any(re.match(r"-[a-zA-Z]*[ls]|--l|--sy", word.start) for word in call.command.args):
        yield from (Effect("link", word) for word in call.operands)


def dd(call: SortedWords) -> Iterator[Effect]:
    for word in call.command.args:
        start = word.start
        if start.startswith(("of=", "if=")):
            yield Effect("write" if start[0] == "o" else "read", cut(word, 3))
        elif word.text is None and "=" not in start:
            yield Effect("unknown", word, "has words known only when it runs", "shell:unknown-option")


def kill(call: SortedWords) -> Iterator[Effect]:
    """kill: a signal to all processes is denied; to others than its own jobs a person decides, or a sandbox."""
    words = list(call.command.args)
    if words and words[0].text in ("-l", "-L", "--list", "--table"):
        return
    index = 0
    if words and re.fullmatch(r"-(?:[A-Za-z]\w+|\d+)", words[0].text or "") and len(words) > 1:
        index = 1
    for word in words[index:]:
        text = word.text
        if text in ("1", "0") or (text and re.fullmatch(r"-0*1", text)):
            yield Effect("kill-all", word)
        elif "$PPID" in word.source or "${PPID}" in word.source or "$$" in word.source:
            yield Effect("kill-all", word, "ends the process that runs it")
        elif (text and text.startswith("%")) or word.source.strip("\"'") in ("$!", "${!}", "$(jobs -p)"):
            yield Effect("session", word, "ends a job of its own")
        else:
            yield Effect("process", word)


def pkill(call: SortedWords) -> Iterator[Effect]:
    pattern = call.operands[0].text if call.operands else None
    wide = pattern in ("", ".", ".*", "^", "$", "[a-z]", "systemd", "init", "sshd", "dbus-daemon", "launchd")
    if call.has("-u", "--euid", "-U", "--uid", "-v", "--inverse") or (call.operands and wide):
        yield Effect("kill-all", None, "ends more than its own processes")
    else:
        yield Effect("process")


# --- the machine


def date(call: SortedWords) -> Iterator[Effect]:
    """`date +FORMAT` prints; any other operand sets the clock."""
    for word in call.operands:
        if not word.start.startswith("+") and not (word.text is None and not word.start):
            yield Effect("system", word, "sets the clock")


def ip(call: SortedWords) -> Iterator[Effect]:
    """`ip addr` and `ip route show` only look; everything else changes something."""
    texts = [text or "?" for text in call.texts()]
    if "?" in texts[:2]:  # a file may be called `link`, and the next one `set`
        yield Effect("unknown")
    elif texts[1:2] and texts[1] not in ("show", "list", "ls", "lst", "sh", "get", "help", "l"):
        yield Effect("firewall")


def service(call: SortedWords) -> Iterator[Effect]:
    """service: only `service NAME status` looks, and nothing comes after it."""
    texts = call.texts()
    if call.unlisted == ("--status-all",) and not texts:
        return
    if not (len(texts) == 2 and texts[1] == "status" and not call.unlisted):
        yield Effect("service")
    elif "/" in (texts[0] or "/"):  # it runs a file of that name below /etc/init.d, or beside it
        yield Effect("execute", call.operands[0])


def crontab(call: SortedWords) -> Iterator[Effect]:
    if [word.text for word in call.command.args] in (["-l"], ["-V"]):
        yield Effect("unknown", None, "reads the user's schedule, outside the workspace", "shell:read-outside")
    else:
        yield Effect("persist", None, "makes commands run later, or deletes the user's schedule")


_BSD_LETTERS = lazy_regex(r"[acfghjlmnrsuvwxHLSTVX]+|[\d,]+")
_UNIX_LETTERS = lazy_regex(r"-[^uUgGptsCqo]*[uUgGptsCqo]?")  # with a value behind the last one


def ps(call: SortedWords) -> Iterator[Effect]:
    """BSD's `e` (`ps auxe`) shows the environment of every process. So does `-e` where ps reads all words as BSD's,
    because a value is not what it should be (`ps -ux -e`, `ps -auxe`)."""
    dashed = [text for word in call.command.args if re.match("-[^-]", text := word.text or "-e")]
    as_bsd = not all(_UNIX_LETTERS.fullmatch(text) for text in dashed)
    shown = any("env" in (word.text or "env") for word in call.values("-o", "--format"))
    shown = shown or not all(_BSD_LETTERS.fullmatch(text or "e") for text in call.texts())
    if shown or (as_bsd and any("e" in text for text in dashed)):
        yield Effect("unknown", None, "shows the environment of processes", "shell:environment")
