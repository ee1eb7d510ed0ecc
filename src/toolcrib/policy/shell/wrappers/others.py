"""Unfold programs that run another command in an unusual way: applets, loaders, terminals, debuggers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from ..parts import Word
from .inner import MAX_INNER, Inner, Wrapper, inner_at, joined, scan
from .rows import WRAPPERS

_LD_SO = Wrapper(
    "",
    "",
    "list verify inhibit-cache list-diagnostics list-tunables help version",
    "library-path glibc-hwcaps-prepend glibc-hwcaps-mask inhibit-rpath audit preload argv0",
)
_PERF = Wrapper(
    "aAdiIvqngRBTs",
    "epotrCFcDGIjxl",
    "all-cpus no-inherit verbose quiet call-graph detailed per-core null",
    "event pid tid output repeat cpu freq count delay filter",
)
_TMUX_RUNS = frozenset(
    {
        *("new", "new-session", "neww", "new-window", "splitw", "split-window", "respawnp", "respawn-pane"),
        *("respawnw", "respawn-window", "run", "run-shell", "popup", "display-popup", "pipep", "pipe-pane"),
        *("if", "if-shell", "send", "send-keys"),
    }
)
_SCREEN = Wrapper("adADilLmnOqrRxX", "cehpsStT")
_TERMINAL_ENDS = frozenset({"-e", "-x", "--", "--command", "--execute"})
_SHELL_ESCAPE = re.compile(r"\s*(?:!|shell\s|system\s|\\!|\.shell\s|\.system\s|sh\s)\s*(.+)")
_SHELL_ESCAPE_INSIDE = re.compile(r"(?:\\!|PROGRAM\s+')\s*([^']+)", re.IGNORECASE)


def applet(words: tuple[Word, ...], _stdin: Word | None) -> Iterator[Inner]:
    """busybox and toybox: the next word is the program."""
    if len(words) > 1 and not (words[1].text or "").startswith("--"):
        yield Inner(words[1:])


def coreutils(words: tuple[Word, ...], _stdin: Word | None) -> Iterator[Inner]:
    """coreutils: --coreutils-prog=NAME, or an applet (uutils)."""
    for at, word in enumerate(words[1:], 1):
        if word.start.startswith(("--coreutils-prog=", "--coreutils-prog-shebang=")):
            name = Word((word.start.split("=", 1)[1], *word.parts[1:]), word.source)
            yield Inner((name, *words[at + 1 :]))
            return
    yield from applet(words, None)


def loader(words: tuple[Word, ...]) -> Iterator[Inner]:
    """The dynamic loader, started by hand."""
    found = scan(_LD_SO, words)
    for start in dict.fromkeys((found.at, *found.doubtful)):
        if start < len(words):
            yield Inner(words[start:])


def ip(words: tuple[Word, ...], _stdin: Word | None) -> Iterator[Inner]:
    """ip netns exec NAME command, ip vrf exec NAME command."""
    texts = [word.text for word in words]
    for at, text in enumerate(texts):
        if text is not None and "exec".startswith(text) and text and texts[at - 1] in ("netns", "netn", "net", "vrf"):
            rest = words[at + 1 :] if texts[at + 1 : at + 2] == ["-all"] else words[at + 2 :]
            if rest:
                yield Inner(rest)


def perf(words: tuple[Word, ...], _stdin: Word | None) -> Iterator[Inner]:
    """perf stat, record, trace: the command follows their options."""
    if len(words) < 3 or words[1].text not in ("stat", "record", "trace", "mem", "kvm", "ftrace"):
        return
    found = scan(_PERF, words, 2)
    for start in dict.fromkeys((found.at, *found.doubtful)):
        if start < len(words):
            yield Inner(words[start:])


def start_stop(words: tuple[Word, ...], _stdin: Word | None) -> Iterator[Inner]:
    """start-stop-daemon: the program of --exec or --startas, with the words after `--`."""
    found = scan(WRAPPERS["start-stop-daemon"], words)
    for option in ("exec", "startas", "x", "a"):
        for program in found.values.get(option, ()):
            yield Inner((program, *words[found.at :]))


def setarch(words: tuple[Word, ...], stdin: Word | None) -> Iterator[Inner]:
    """setarch: the architecture is optional."""
    found = scan(WRAPPERS["setarch"], words)
    for at in (found.at, found.at + 1):
        if at < len(words):
            yield from inner_at(Wrapper(), words, at, found, None)


def entr(words: tuple[Word, ...], _stdin: Word | None) -> Iterator[Inner]:
    """entr: a command, or with -s shell text; `/_` is a file's name."""
    found = scan(WRAPPERS["entr"], words)
    for start in dict.fromkeys((found.at, *found.doubtful)):
        rest = tuple(Word((None,)) if word.text == "/_" else word for word in words[start:])
        if rest:
            yield Inner(script=rest[0], arguments=rest[1:]) if "s" in found.seen else Inner(rest, fed=False)


def firejail(words: tuple[Word, ...], _stdin: Word | None) -> Iterator[Inner]:
    """Programs whose options all look like --name=value."""
    at = 1
    while at < len(words) and words[at].start.startswith("-"):
        at += 1
        if words[at - 1].text == "--":
            break
    if at < len(words):
        yield Inner(words[at:])


def tmux(words: tuple[Word, ...], _stdin: Word | None) -> Iterator[Inner]:
    """tmux: the words after a sub-command's options are text for a shell; any of them could be the first."""
    at = next((at for at, word in enumerate(words) if word.text in _TMUX_RUNS), len(words))
    rest = words[at + 1 :]
    for start, word in enumerate(rest[:8]):
        if not word.start.startswith("-"):
            yield Inner(script=joined(rest[start:]), posix=False)
            yield Inner(script=word, posix=False)


def screen(words: tuple[Word, ...], _stdin: Word | None) -> Iterator[Inner]:
    """screen: a command after its options; with -X a command of screen itself, whose text may be typed into a shell."""
    found = scan(_SCREEN, words)
    for start in dict.fromkeys((found.at, *found.doubtful)):
        if start < len(words):
            yield Inner(words[start:])
    if "X" in found.seen:
        for word in words[found.at :]:
            yield Inner(script=word)


def terminal(words: tuple[Word, ...], _stdin: Word | None) -> Iterator[Inner]:
    """xterm and similar terminals: after -e there is a command, or text for a shell."""
    for at, word in enumerate(words):
        if word.text in _TERMINAL_ENDS and at + 1 < len(words):
            yield Inner(words[at + 1 :])
            yield Inner(script=joined(words[at + 1 :]))
            return
        if word.start.startswith("--command="):
            yield Inner(script=Word((word.start.partition("=")[2], *word.parts[1:])))


def escapes(*options: str) -> Callable[[tuple[Word, ...], Word | None], Iterator[Inner]]:
    """Return a function for clients with a command for a shell: gdb's `!` and `shell`, psql's and mysql's `\\!`."""

    def inner(words: tuple[Word, ...], stdin: Word | None) -> Iterator[Inner]:
        texts = [word.text for at, word in enumerate(words) if at and words[at - 1].text in options]
        texts += [word.text.partition("=")[2] for word in words if word.text and word.text.startswith("--")]
        texts += [word.text[2:] for word in words if word.text and word.text[:2] in options]
        texts.append(stdin.text if stdin is not None else None)
        for text in texts:
            for line in (text or "").splitlines():
                match = _SHELL_ESCAPE.match(line) or _SHELL_ESCAPE_INSIDE.search(line)
                if match:
                    yield Inner(script=Word((match[1],)), fed=False)

    return inner


def cmake(words: tuple[Word, ...], _stdin: Word | None) -> Iterator[Inner]:
    """cmake -E is a set of small tools: rm, copy, env …"""
    texts = [word.text for word in words]
    if "-E" not in texts:
        return
    rest = words[texts.index("-E") + 1 :]
    tools = {
        "remove": "rm", "remove_directory": "rm", "copy": "cp", "copy_directory": "cp", "rename": "mv",
        "make_directory": "mkdir", "create_symlink": "ln", "copy_if_different": "cp",
    }  # fmt: skip
    if rest and rest[0].text is not None:
        yield Inner((Word((tools.get(rest[0].text, rest[0].text),)), *rest[1:]))


def rpm(words: tuple[Word, ...], _stdin: Word | None) -> Iterator[Inner]:
    """rpm's macros: %(…) is a command, and so is the argument of Lua's os.execute."""
    for word in words[1:]:
        for text in re.findall(r"%\((.*)\)|os\.execute\(\s*[\"']([^\"']*)", word.text or ""):
            yield Inner(script=Word((text[0] or text[1],)))


def bwrap(words: tuple[Word, ...], _stdin: Word | None) -> Iterator[Inner]:
    """bwrap: options with up to three values; every place where the command could begin is read."""
    starts = [at for at in range(1, len(words)) if not words[at].start.startswith("--")]
    for at in starts[:MAX_INNER]:
        yield Inner(words[at:], directory=Word((None,)))
