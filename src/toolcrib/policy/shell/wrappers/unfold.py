"""Find the commands that a command runs in turn.

The wrappers with a row take their options the usual way, and what they run may be allowed. All other programs that run
further commands are asked about anyway: for them every place is read where a command could begin, because one of these
may be known harm.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice

from ....core.text import lazy_regex
from ..parts import Word, plain_name
from ..sorting import cut
from ..table import lookup
from ..table.interpreters import READ_SHELLS
from ..table.wordlist import words as words_in
from . import run_for_each, shells
from .inner import MAX_INNER, Inner, joined, replaced, split_assignment, wrapped

# Wrappers whose commands have another HOME, and those that run them in another folder.
_AWAY = words_in("chroot proot bwrap nsenter systemd-run start-stop-daemon su runuser pkexec")
OTHER_USERS = _AWAY | words_in("sudo doas sg gosu su-exec setuidgid setpriv chpst unshare")
# Programs with an operand before the command that they run.
_OPERAND_FIRST = words_in(
    "chroot flock faketime gosu logsave sg setarch prlimit nsenter su perf screen tmux start-stop-daemon chrt taskset"
)
_APPLETS = words_in("busybox toybox coreutils")
# They give their words to a shell as one text.
_JOIN = words_in("watch parallel hyperfine tmux screen entr su sg script xterm konsole gnome-terminal sudo runuser")
_OTHERS = (OTHER_USERS | _OPERAND_FIRST | _APPLETS | _JOIN) | words_in(
    """
    strace ltrace rlwrap fakeroot fakechroot xvfb-run dbus-run-session torsocks proxychains proxychains4 numactl
    cpulimit tini dumb-init arch ifne eatmydata ssh-agent firejail valgrind capsh cmake choom caffeinate linux32
    linux64 i386 x86_64 chronic unbuffer
    """
)
_LOADER = lazy_regex(r"/(?:usr/)?lib(?:32|64|x32)?/(?:[\w-]+/)?ld-(?:linux|musl)[\w.-]*|/lib(?:64)?/ld64\.so\.[12]")
_ESCAPE = lazy_regex(
    r"\s*(?:!|shell\s|\\!|sh\s)\s*(.+)|(?:\\!|PROGRAM\s+')\s*([^']+)|\b(?:spawn|exec|system)\s+([^;\n\]]+)"
)
_EDITOR_CODE = lazy_regex(r"\s*(?:\(|:*(?:py\w*|lua|ruby|perl|tcl|call\s+system|term\w*|shell|sh)\b)")
_MACRO = lazy_regex(r"%\((.*)\)|os\.execute\(\s*[\"']([^\"']*)")
_TAKES_TEXT = ("-c", "--command", "--session-command", "-e", "-x", "--execute")
_CLIENTS = words_in(
    """
    gdb lldb psql mysql mariadb ftp sftp rpm expect sqlite3 sqlite duckdb emacs emacsclient ed red ex vi vim nvim view
    vimdiff rvim nano pico micro helix hx kak kakoune joe mg jed
    """
)


def keeps_home(words: tuple[Word, ...]) -> bool:
    """Return whether the command of a wrapper has the same HOME; env's options may remove it."""
    name = plain_name(words[0].text)
    return name not in OTHER_USERS and not (name == "env" and any(word.start[:1] in ("-", "") for word in words[1:]))


def unfold(words: tuple[Word, ...], stdin: Word | None = None) -> list[Inner]:
    """Return the further commands that a command's words run: none, one, or several if that is not certain.

    `stdin` is the known text of its input.
    """
    name = plain_name(words[0].text)
    if name is None:
        return list(_anywhere("", words)) if _LOADER.fullmatch(words[0].text or "") else []
    special = SPECIAL.get(name)
    if special is not None:
        found = special(words, stdin)
    elif name in _CLIENTS:
        found = _typed(words, stdin)
    elif name in _OTHERS:
        found = _anywhere(name, words)
    elif (row := lookup(name)) is not None and row.closed and row.wrapper:
        found = wrapped(words)
    else:
        return []
    inners = list(islice(found, MAX_INNER + 1))
    if len(inners) > MAX_INNER:
        inners[MAX_INNER] = Inner(script=Word((None,)), unread="it runs more commands than are read")
    return inners


def _anywhere(name: str, words: tuple[Word, ...]) -> Iterator[Inner]:
    """Yield every command that a program's words may lead to: after its options, their values and its operands."""
    directory = Word((None,)) if name in _AWAY else None
    at, first = 1, True
    starts: list[int] = []
    while at < len(words) and len(starts) < 8:
        text = words[at].text or ""
        if text.startswith("-") and text != "-":
            value = words[at + 1 : at + 2]
            if text in _TAKES_TEXT or re.fullmatch(r"-[flmPpq]*c", text):
                yield from (Inner(script=word, directory=directory, arguments=None) for word in value)
            if "=" in text or re.match("-[ce].", text):
                attached = text.partition("=")[2] if "=" in text else text[2:]
                yield Inner(script=Word((attached,)), directory=directory)
                if name == "coreutils":  # --coreutils-prog=rm
                    yield Inner((Word((attached,)), *words[at + 1 :]))
            at += 1
            continue
        assigned = split_assignment(words[at])
        before = words[at - 1].start.startswith("-") or assigned is not None
        starts.append(at)
        at += 1
        if not before and not (first and name in _OPERAND_FIRST):
            break
        first = False
    if len(starts) == 8:
        yield Inner(script=Word((None,)), directory=directory)
    for start in starts:
        rest = words[start:]
        if name not in _APPLETS:  # there `{}` belongs to what is started, as in `busybox xargs`
            rest = tuple(replaced(word, "{}", (None,)) for word in rest)
        yield Inner(rest, directory=directory, fed=name not in ("parallel", "entr"))
        if name in _JOIN:
            yield Inner(script=joined(rest), directory=directory)
    if name in _JOIN:
        for word in words[1:]:
            if " " in (word.text or ""):
                yield Inner(script=word, directory=directory)
    if name in ("su", "sudo", "runuser", "parallel", "script") and not starts:
        yield Inner(reads=True)
    if name == "parallel":
        yield from _parallel(words)
        yield from () if starts else (Inner(script=Word((None,))),)


def _parallel(words: tuple[Word, ...]) -> Iterator[Inner]:
    """GNU parallel: the words before `:::` run once for each word after it."""
    cut = next((at for at, word in enumerate(words) if (word.text or "").startswith(":::")), len(words))
    command = tuple(word for word in words[1:cut] if not word.start.startswith("-"))
    for item in words[cut + 1 :]:
        marked = any("{}" in word.start for word in command)
        line = (*(replaced(word, "{}", (item.text,)) for word in command), *(() if marked else (item,)))
        yield Inner(script=joined(line), fed=False)


def _typed(words: tuple[Word, ...], stdin: Word | None) -> Iterator[Inner]:
    """Editors and clients with a command for a shell (gdb's `shell`, psql's `\\!`), and rpm's macros."""
    lines = [line for word in (*words[1:], *([stdin] if stdin else [])) for line in (word.text or "").splitlines()]
    for line in lines:
        if match := _ESCAPE.search(line):
            yield Inner(script=Word((match[1] or match[2] or match[3],)), fed=False)
        if _EDITOR_CODE.match(line):
            yield from (Inner(script=Word((text,)), fed=False) for text in re.findall(r"[\"']([^\"']*)[\"']", line))
        yield from (Inner(script=Word((match[1] or match[2],))) for match in _MACRO.finditer(line))


def _git(words: tuple[Word, ...], _stdin: Word | None) -> Iterator[Inner]:
    """git submodule foreach, git bisect run, git rebase --exec, git difftool --extcmd: rules match what they run."""
    texts = [word.text or "" for word in words]
    if texts[1:3] == ["bisect", "run"]:
        yield Inner(words[3:])
    elif texts[1:2] == ["submodule"] and "foreach" in texts:
        rest = [word for word in words[texts.index("foreach") + 1 :] if word.text not in ("--recursive", "--quiet")]
        yield Inner(script=joined(tuple(rest)))
    elif texts[1:2] in (["rebase"], ["difftool"]):
        for word, after in zip(words, (*words[1:], Word((None,))), strict=True):
            if word.text in ("-x", "--exec", "--extcmd"):
                yield Inner(script=after)
            elif word.start.startswith(("--exec=", "--extcmd=")):
                yield Inner(script=cut(word, word.start.index("=") + 1))


SPECIAL: dict[str, Callable[[tuple[Word, ...], Word | None], Iterator[Inner]]] = {
    "env": shells.env,
    "eval": shells.evaluate,
    **dict.fromkeys(("source", "."), shells.source),
    "trap": shells.trap,
    "alias": shells.alias,
    **dict.fromkeys(("mapfile", "readarray", "compgen"), shells.callback),
    **dict.fromkeys(("xargs", "gxargs"), run_for_each.xargs),
    **dict.fromkeys(("find", "gfind"), run_for_each.find),
    **dict.fromkeys(("fd", "fdfind"), run_for_each.fd),
    "git": _git,
    **dict.fromkeys(READ_SHELLS, shells.shell),
}
