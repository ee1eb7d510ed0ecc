"""Programs that run another command, as data: which of their words are options, and where the inner command begins.

From the manual pages of coreutils 9, util-linux 2.40, findutils 4.10, procps 4, bash 5.2, sudo 1.9 and of each
program named. An option that is not listed here is read both ways, with and without a value.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from .parts import Word
from .state import Listed

SYSTEM_DIRECTORIES = frozenset(
    f"{root}{leaf}" for root in ("", "/usr", "/usr/local", "/run/current-system/sw") for leaf in ("/bin", "/sbin")
) | {"/opt/homebrew/bin", "/opt/local/bin", "/snap/bin"}
SHELLS = frozenset(
    {"sh", "bash", "dash", "zsh", "ksh", "ksh93", "mksh", "ash", "rbash", "lksh", "pdksh", "yash", "hush"}
)
POSIX_SHELLS = frozenset({"sh", "dash", "ash", "yash", "hush"})
STANDARD_INPUT = frozenset({"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"})
# Wrappers behind which HOME is another one's.
OTHER_USERS = frozenset(
    {
        "sudo",
        "doas",
        "su",
        "runuser",
        "pkexec",
        "chroot",
        "systemd-run",
        "gosu",
        "su-exec",
        "chpst",
        "setuidgid",
        "setpriv",
        "proot",
        "nsenter",
        "unshare",
        "start-stop-daemon",
        "sg",
        "bwrap",
    }
)
MANY = Word((None,), many=True)
MAX_INNER = 64
_LOADER = re.compile(r"/(?:usr/)?lib(?:32|64|x32)?/(?:[\w-]+/)?ld-(?:linux|musl)[\w.-]*|/lib(?:64)?/ld64\.so\.[12]")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")


@dataclass(frozen=True, slots=True)
class Inner:
    """What a wrapper runs: `words`, or the shell text `script` with its arguments; `reads` standard input's script.

    `inside` says that the caller's own functions and builtins apply. `directory` is where it runs if not here (a
    word with a None part for an unknown place). `same` marks text that runs in the calling shell itself (`eval`).
    """

    words: tuple[Word, ...] = ()
    script: Word | None = None
    arguments: tuple[Word, ...] | None = ()
    arg0: Word | None = None
    assigns: tuple[tuple[str, Word], ...] = ()
    directory: Word | None = None
    reads: bool = False
    inside: bool = False
    same: bool = False
    later: bool = False  # it runs when everything may have changed
    posix: bool = False
    fed: bool = True  # whether it reads the wrapper's own standard input


@dataclass(frozen=True, slots=True)
class Wrapper:
    """How a program's arguments lead to an inner command.

    `flags` and `valued` are its short options without and with a value, `long` and `long_valued` the long ones;
    `optional` short options take a value only when it is attached. `operands` words precede the command.
    `assigns` says that NAME=value words may. `directory` names options that give the working directory, `script`
    those whose value (or, for a flag, the remaining words joined) is text for a shell.
    """

    flags: str = ""
    valued: str = ""
    long: str = ""
    long_valued: str = ""
    optional: str = ""
    operands: int = 0
    assigns: bool = False
    directory: str = ""
    script: str = ""
    joined: bool = False
    inside: bool = False
    stops: str = ""  # options with which nothing is run
    elsewhere: bool = False  # the inner command's directory is unknown


W = Wrapper
# One row a program; keys are base names.
WRAPPERS: dict[str, Wrapper] = {
    "builtin": W(inside=True),
    "command": W("p", inside=True, stops="vV"),
    "exec": W("cl", "a", inside=True),
    "nohup": W(),
    "setsid": W("cfw", long="ctty fork wait"),
    "nice": W(valued="n", long_valued="adjustment", optional="0123456789"),
    "ionice": W("t", "cn", "ignore", "class classdata", stops="pPu"),
    "timeout": W("vfp", "ks", "preserve-status foreground verbose", "kill-after signal", operands=1),
    "time": W("apvqV", "fo", "append portability verbose quiet", "format output"),
    "stdbuf": W(valued="ioe", long_valued="input output error"),
    "chrt": W("abdfiormRv", "TPD", "all-tasks batch deadline fifo idle other rr reset-on-fork verbose",
              "sched-runtime sched-period sched-deadline", operands=1, stops="p"),
    "taskset": W("ac", "", "all-tasks cpu-list", operands=1, stops="p"),
    "flock": W("sxeunoFvM", "wE", "shared exclusive unlock nonblock nb close no-fork verbose",
               "timeout wait conflict-exit-code command", operands=1, script="c command"),
    "strace": W("CdfFhiknqrtTvVwxyzZYc", "abeEIoOpPsSuUX", "follow-forks summary-only summary decode-fds seccomp-bpf "
                "no-abbrev debug failed-only successful-only instruction-pointer stack-traces quiet",
                "attach output trace signal status user env string-limit columns expr detach-on interruptible"),
    "ltrace": W("bcCfhiLrStTV", "aADeFlnopsuwx", "", "align config indent library output where"),
    "watch": W("bcdegprtwxCf", "nqs", "beep color differences errexit chgexit precise no-rerun no-title no-wrap exec "
               "no-color follow", "interval equexit shotsdir", optional="d", script="*", joined=True),
    "sudo": W("ABbEHknPSsiKv", "aCcDghpRrTtUu", "askpass background preserve-env set-home login shell non-interactive "
              "preserve-groups stdin reset-timestamp",
              "auth-type close-from login-class chdir group host prompt chroot "
              "role command-timeout type other-user user", assigns=True, directory="D chdir R chroot", stops="lVe"),
    "doas": W("Lns", "aCu"),
    "runuser": W("flmPpT", "cgGsuw", "fast login preserve-environment pty",
                 "command group supp-group shell user session-command whitelist-environment", script="c command "
                 "session-command", elsewhere=True),
    "su": W("flmPpT", "cgGsw", "fast login preserve-environment pty",
            "command group supp-group shell session-command whitelist-environment", script="c command session-command",
            operands=1, elsewhere=True),
    "pkexec": W("", "", "disable-internal-agent keep-cwd", "user", elsewhere=True),
    "script": W("aefqr", "cEmoBIOTt", "append return flush force quiet", "command echo log-in log-out log-io "
                "log-timing logging-format output-limit", script="c command", optional="t", stops="*"),
    "chroot": W("", "", "skip-chdir", "userspec groups", operands=1, elsewhere=True),
    "unshare": W("cfhrUimnpuCT", "GSRwl", "fork keep-caps map-root-user map-current-user map-auto user ipc mount net "
                 "pid uts cgroup time mount-proc kill-child", "setgid setuid root wd propagation setgroups map-user "
                 "map-group map-users map-groups monotonic boottime load-interp", optional="imnpuUCT",
                 directory="R root w wd"),
    "nsenter": W("aFeZcC", "tSG", "all no-fork env follow-context preserve-credentials keep-caps join-cgroup",
                 "target setuid setgid", optional="muinpCUTrwW", elsewhere=True),
    "systemd-run": W("GPtSqdr", "HMpuEC", "user system scope pty pipe shell quiet wait collect same-dir no-block "
                     "remain-after-exit no-ask-password send-sighup slice-inherit", "host machine property unit "
                     "description slice service-type uid gid nice working-directory setenv on-active on-boot "
                     "on-startup "
                     "on-unit-active on-unit-inactive on-calendar timer-property path-property socket-property",
                     directory="working-directory"),
    "entr": W("acdnprsxz", script="", operands=0),
    "unbuffer": W("p"),
    "rlwrap": W("acEiInNorRvwU", "bCfgHlOPqsStTzWMdpB", "", ""),
    "faketime": W("m", "p", "date-prog", "exclude-monotonic", operands=1, stops="hv"),
    "proot": W("0hv", "rbqwkilpSRm", "root-id kill-on-exit link2symlink", "rootfs bind qemu pwd cwd kernel-release",
               elsewhere=True),
    "fakeroot": W("hvu", "lsib", "unknown-is-real", "lib faked"),
    "fakechroot": W("shv", "lde", "use-system-libs", "lib elfloader environment"),
    "xvfb-run": W("alh", "efnpsw", "auto-servernum listen-tcp", "error-file auth-file server-num xauth-protocol "
                  "server-args wait"),
    "dbus-run-session": W("", "", "", "config-file dbus-daemon"),
    "dbus-launch": W("", "", "sh-syntax csh-syntax auto-syntax exit-with-session exit-with-x11 close-stderr",
                     "config-file autolaunch"),
    "torsocks": W("iq", "auPd", "shell isolate quiet", "address user pass port"),
    "torify": W(),
    "proxychains": W("q", "f"),
    "proxychains4": W("q", "f"),
    "catchsegv": W(),
    "numactl": W("alsHh", "ipmCNPwxo", "all localalloc show hardware touch", "interleave preferred membind cpunodebind "
                 "physcpubind preferred-many weighted-interleave balancing offset length file"),
    "prlimit": W("v", "po", "noheadings raw verbose", "pid output", optional="cdefilmnqrstuvxy"),
    "setarch": W("RFZLXBITS3v", "p", "addr-no-randomize fdpic-funcptrs mmap-page-zero addr-compat-layout "
                  "read-implies-exec "
                 "32bit short-inode whole-seconds sticky-timeouts 3gb uname-2.6 verbose 4gb", "pid", operands=1),
    "gosu": W(operands=1),
    "su-exec": W(operands=1),
    "chpst": W("vVP012", "uUbenmodsfrctl/"),
    "setuidgid": W(operands=1),
    "envdir": W(operands=1),
    "softlimit": W(valued="mdsalofpcrt"),
    "tini": W("svghw", "pe", "version"),
    "tini-static": W("svghw", "pe", "version"),
    "dumb-init": W("cv", "r", "single-child verbose", "rewrite"),
    "catatonit": W("P"),
    "runcon": W("c", "turl", "compute", "type user role range", operands=1),
    "setpriv": W("d", "", "dump clear-groups keep-groups init-groups no-new-privs reset-env nnp",
                 "ambient-caps inh-caps bounding-set ruid euid rgid egid reuid regid groups securebits pdeathsig "
                 "ptracer selinux-label apparmor-profile landlock-access landlock-rule seccomp-filter"),
    "start-stop-daemon": W("SKTHbmtoqvVCh", "agpcusnxrkdNPIkR", "start stop status background make-pidfile test oknodo "
                           "quiet verbose no-close remove-pidfile", "exec startas chuid pidfile user name signal retry "
                           "chdir chroot umask nicelevel procsched iosched group pid ppid output notify-await",
                           directory="d chdir r chroot"),
    "valgrind": W("qvh", "", "", "", stops=""),
    "gdb": W("qnxbl", "", "batch quiet nx args", "command eval-command ex"),
    "cgexec": W("", "g", "sticky"),
    "firejail": W(),
    "bwrap": W(),
    "caffeinate": W("disumh", "tw"),
    "arch": W("h", "e", "i386 x86_64 x86_64h arm64 arm64e 32 64"),
    "with-contenv": W(),
    "daemonize": W("av", "ceopuElx"),
    "daemon": W("", "", "", ""),
    "choom": W("", "n", "", "adjust", stops="p"),
    "uclampset": W("as", "mM", "all-tasks system reset-on-fork", "", stops="p"),
    "coresched": W(),
    "hyperfine": W("iNv", "wrmMpcsSnuLP", "ignore-failure", "warmup runs prepare cleanup conclude setup", script="*"),
    "dotenv": W("q", "ef", "quote", "file"),
    "direnv": W(operands=2),
    "logsave": W("asv", operands=1),
    "ts": W(),
    "chronic": W("ve"),
    "ifne": W("n"),
    "eatmydata": W(),
    "linux32": W("RFZLXBITS3v"),
    "linux64": W("RFZLXBITS3v"),
    "i386": W("RFZLXBITS3v"),
    "x86_64": W("RFZLXBITS3v"),
    "ssh-agent": W("cDdks", "aEOPt"),
    "setfattr": W(stops="*"),
    "extrace": W(),
    "memusage": W("ntT", "pdxymub", "", "progname data"),
    "newgrp": W(stops="*"),
    "sg": W("", "c", operands=1, script="c *"),
    "cpulimit": W("bivzmr", "lcpe", "", "limit pid exe path cpu"),
    "trickle": W("svh", "udLwtnlP"),
    "dtach": W("nacAN", "reEz", operands=1),
    "screen": W("adDiLlmnOqRrUxAX", "cehpsStT", ""),
    "abduco": W("aAcfnlr", "ep", operands=1),
}  # fmt: skip
for _name in ("setfattr", "newgrp", "ts", "gdb", "firejail", "bwrap", "valgrind", "screen", "daemon"):
    WRAPPERS.pop(_name, None)


def base_name(word: Word | None) -> str | None:
    """The program a word names if it is a bare name or lies in a system directory."""
    text = word.text if word is not None else None
    if text is None:
        return None
    if "/" not in text:
        return text
    directory, name = posixpath.split("/" + posixpath.normpath(text).lstrip("/") if text[0] == "/" else text)
    return name if directory in SYSTEM_DIRECTORIES else None


def keeps_home(words: tuple[Word, ...]) -> bool:
    """Whether what a wrapper runs finds the same HOME; env's options may take it away."""
    name = base_name(words[0])
    return name not in OTHER_USERS and not (name == "env" and any(word.start[:1] in ("-", "") for word in words[1:]))


def unfold(words: tuple[Word, ...], stdin: Word | None = None, names: list[Listed] | None = None) -> list[Inner]:
    """What a command's words run further: none, one, or several where that is not sure.

    `stdin` is the known text of its input, `names` the files that are named on it.
    """
    name = base_name(words[0])
    if name is None:
        text = words[0].text
        return list(_loader(words)) if text is not None and _LOADER.fullmatch(text) else []
    special = SPECIAL.get(name)
    if special is _xargs:
        return list(_xargs(words, stdin, names))[:MAX_INNER]
    if special is not None:
        return list(special(words, stdin))[:MAX_INNER]
    wrapper = WRAPPERS.get(name)
    return [] if wrapper is None else list(_wrapped(wrapper, words))[:MAX_INNER]


@dataclass(slots=True)
class _Scan:
    """A pass over options: where operands begin, and what was seen on the way."""

    at: int
    values: dict[str, list[Word]]
    seen: set[str]
    doubtful: list[int]


def scan(wrapper: Wrapper, words: tuple[Word, ...], start: int = 1) -> _Scan:
    """Pass the options of a wrapper (getopt's way, stopping at the first operand)."""
    found = _Scan(start, {}, set(), [])
    while found.at < len(words):
        word = words[found.at]
        text = word.text
        if text is None or text == "-" or not text.startswith("-"):
            return found
        found.at += 1
        if text == "--":
            return found
        if text.startswith("--"):
            _long(wrapper, text[2:], words, found)
        else:
            _short(wrapper, text[1:], words, found)
    return found


def _long(wrapper: Wrapper, text: str, words: tuple[Word, ...], found: _Scan) -> None:
    """One long option, perhaps abbreviated."""
    name, equals, value = text.partition("=")
    valued = [option for option in wrapper.long_valued.split() if option.startswith(name)]
    plain = [option for option in wrapper.long.split() if option.startswith(name)]
    full = name if name in valued or name in plain else (valued or plain or [name])[0]
    found.seen.add(full)
    if equals:
        found.values.setdefault(full, []).append(Word((value,)))
    elif full in valued:
        _take(words, found, full)
    elif full not in plain:
        found.doubtful.append(found.at)
        found.doubtful.append(found.at + 1)


def _short(wrapper: Wrapper, letters: str, words: tuple[Word, ...], found: _Scan) -> None:
    """A cluster of short options."""
    for index, letter in enumerate(letters):
        found.seen.add(letter)
        rest = letters[index + 1 :]
        if letter in wrapper.optional:
            if rest:
                found.values.setdefault(letter, []).append(Word((rest,)))
            return
        if letter in wrapper.valued:
            if rest:
                found.values.setdefault(letter, []).append(Word((rest,)))
            else:
                _take(words, found, letter)
            return
        if letter not in wrapper.flags and letter not in wrapper.stops:
            found.doubtful.append(found.at)
            found.doubtful.append(found.at + 1)
            return


def _take(words: tuple[Word, ...], found: _Scan, option: str) -> None:
    """The next word as an option's value."""
    if found.at < len(words):
        found.values.setdefault(option, []).append(words[found.at])
        found.at += 1


def _wrapped(wrapper: Wrapper, words: tuple[Word, ...]) -> Iterator[Inner]:
    """What a program of the table runs."""
    found = scan(wrapper, words)
    scripts = [value for option in wrapper.script.split() for value in found.values.get(option, ())]
    directory = Word((None,)) if wrapper.elsewhere else None
    for option in wrapper.directory.split():
        for value in found.values.get(option, ()):
            directory = value
    for script in scripts:
        yield Inner(script=script, directory=directory, posix=True)
    if any(letter in found.seen for letter in wrapper.stops if letter != "*") or wrapper.stops == "*":
        return
    for start in dict.fromkeys((found.at, *found.doubtful)):
        yield from _inner(wrapper, words, start, found, directory)


def _inner(
    wrapper: Wrapper, words: tuple[Word, ...], start: int, found: _Scan, directory: Word | None
) -> Iterator[Inner]:
    """The inner command if it begins at a word, behind assignments and operands."""
    at = start
    assigns: list[tuple[str, Word]] = []
    while wrapper.assigns and at < len(words) and (assign := split_assignment(words[at])):
        assigns.append(assign)
        at += 1
    many = any(word.many for word in words[start : at + wrapper.operands])
    rest = words[at:] if many else words[at + wrapper.operands :]
    if wrapper.operands and rest and "c" in wrapper.script.split() and rest[0].text in ("-c", "--command"):
        yield Inner(script=joined(rest[1:2]), directory=directory, posix=True)
        return
    if not rest:
        return
    if "*" in wrapper.script.split():
        if not wrapper.joined:
            yield from (Inner(script=word, directory=directory, posix=True) for word in rest)
            return
        if not found.seen & {"x", "exec"}:
            yield Inner(script=joined(rest), directory=directory, posix=True)
            return
    yield Inner(rest, assigns=tuple(assigns), directory=directory, inside=wrapper.inside)


def split_assignment(word: Word) -> tuple[str, Word] | None:
    """NAME and value of a word `NAME=value`, or None."""
    match = _ASSIGNMENT.match(word.start)
    if match is None:
        return None
    name = match.group()[:-1]
    return name, Word((word.start[match.end() :], *word.parts[1:]), word.source, word.glob, word.many)


def joined(words: tuple[Word, ...]) -> Word:
    """Words joined by blanks to one text."""
    parts: list[str | None] = []
    for index, word in enumerate(words):
        if index:
            parts.append(" ")
        parts.extend((None,) if word.many or word.glob else word.parts)
    return Word(tuple(parts))


# Programs with a manner of their own


def _env(words: tuple[Word, ...], _stdin: Word | None) -> Iterator[Inner]:
    """env: -S splits a string into further arguments (coreutils' env.c)."""
    wrapper = Wrapper(
        "i0v",
        "uCSa",
        "ignore-environment null debug list-signal-handling",
        "unset chdir split-string argv0 default-signal ignore-signal block-signal",
    )
    for _ in range(8):
        found = scan(wrapper, words)
        strings = found.values.get("S", []) + found.values.get("split-string", [])
        if not strings:
            break
        text = strings[-1].text
        rest = words[found.at :]
        inner = None if text is None or re.search(r"[\\$#]", text) else split_string(text)
        if inner is None:
            yield Inner((Word((None,), strings[-1].source), *rest))
            return
        words = (words[0], *(Word((part,)) for part in inner), *rest)
    found = scan(wrapper, words)
    directories = found.values.get("C", []) + found.values.get("chdir", [])
    for start in dict.fromkeys((found.at, *found.doubtful)):
        at = start + (1 if start < len(words) and words[start].text == "-" else 0)
        assigns: list[tuple[str, Word]] = []
        while at < len(words) and (words[at].text is not None or words[at].start) and "=" in words[at].start:
            assigns.append(split_assignment(words[at]) or (words[at].start.split("=")[0], words[at]))
            at += 1
        if at < len(words):
            yield Inner(words[at:], assigns=tuple(assigns), directory=directories[-1] if directories else None)


def split_string(text: str) -> list[str] | None:
    """The arguments of quoted text without escapes and variables, or None."""
    try:
        return shlex.split(text)
    except ValueError:
        return None


def _shell(words: tuple[Word, ...], _stdin: Word | None) -> Iterator[Inner]:
    """sh and its kin: -c text, a file, or standard input."""
    posix = base_name(words[0]) in POSIX_SHELLS
    at, has_text, from_input = 1, False, False
    while at < len(words):
        text = words[at].text
        if text is None:
            if words[at].many or not words[at].start or words[at].start[0] in "-+":
                yield Inner(script=Word((None,)), posix=posix)
                return
            break
        if text in ("-", "--"):
            at += 1
            break
        if text[:1] not in ("-", "+") or not text[1:]:
            break
        at += 1
        if text.startswith("--"):
            at += text in ("--rcfile", "--init-file", "--emulate")
            continue
        has_text = has_text or ("c" in text and text[0] == "-")
        from_input = from_input or "s" in text
        if "k" in text:  # assignments anywhere: the words would have to be read anew
            yield Inner(script=Word((None,)))
            return
        at += sum(letter in "oO" for letter in text[1:])
    rest = words[at:]
    many = any(word.many for word in rest)
    if has_text:
        yield Inner(
            script=rest[0] if rest and not rest[0].many else Word((None,)),
            arg0=rest[1] if len(rest) > 1 and not many else None,
            arguments=None if many else rest[2:],
            posix=posix,
        )
    elif from_input or not rest or rest[0].text in STANDARD_INPUT:
        yield Inner(reads=True, arguments=None if many else rest if from_input else rest[1:], posix=posix)
    elif rest[0].start == "/dev/fd/":
        yield Inner(reads=True, arguments=None if many else rest[1:], posix=posix)


def _eval(words: tuple[Word, ...], _stdin: Word | None) -> Iterator[Inner]:
    """eval: its words joined, in this very shell."""
    rest = words[2:] if len(words) > 1 and words[1].text == "--" else words[1:]
    if rest:
        yield Inner(script=joined(rest), inside=True, same=True, arguments=None)


def _source(words: tuple[Word, ...], _stdin: Word | None) -> Iterator[Inner]:
    """source and `.` of standard input or a process substitution; a file is for others to judge."""
    rest = words[2:] if len(words) > 1 and words[1].text == "--" else words[1:]
    if rest and (rest[0].text in STANDARD_INPUT or rest[0].start == "/dev/fd/"):
        yield Inner(reads=True, inside=True, same=True, arguments=None)


def _trap(words: tuple[Word, ...], _stdin: Word | None) -> Iterator[Inner]:
    """trap: its first operand is run by this shell, later."""
    rest = words[2:] if len(words) > 1 and words[1].text == "--" else words[1:]
    if len(rest) > 1 and rest[0].text not in ("-", "-p", "-l", ""):
        yield Inner(script=rest[0], inside=True, arguments=None)
        yield Inner(script=rest[0], inside=True, arguments=None, later=True)


def _callback(words: tuple[Word, ...], _stdin: Word | None) -> Iterator[Inner]:
    """mapfile -C and compgen -C run shell text; compgen -W expands its words."""
    for at, word in enumerate(words[1:], 1):
        text = word.start
        if text.startswith(("-C", "-W", "-F")) or word.text is None:
            value = Word((text[2:],)) if text[2:] else joined(words[at + 1 : at + 2])
            script = value if not text.startswith("-W") else Word((f": {value.text}" if value.text else None,))
            yield Inner(script=script, inside=True, arguments=None)


def _xargs(words: tuple[Word, ...], stdin: Word | None, names: list[Listed] | None = None) -> Iterator[Inner]:
    """xargs: its command with what it reads behind it, or in place of -I's text."""
    wrapper = Wrapper("0prtxo", "adEILnPsIJRS", "null interactive no-run-if-empty verbose exit open-tty show-limits",
                      "arg-file delimiter max-lines max-args max-procs max-chars process-slot-var",
                      "eil")  # fmt: skip
    found = scan(wrapper, words)
    values = found.values
    marks = values.get("I", []) + values.get("i", []) + values.get("replace", []) + values.get("J", [])
    mark = marks[-1].text if marks else "{}" if found.seen & {"i", "replace"} else None
    unknown_mark = bool(marks) and mark is None
    text = (
        stdin.text if stdin is not None and not found.seen & {"a", "arg-file", "E", "e", "s", "L", "l", "x"} else None
    )
    for start in dict.fromkeys((found.at, *found.doubtful)):
        command = words[start:] or (Word(("echo",)),)
        if unknown_mark:
            yield Inner((*command[:1], MANY), fed=False)
        elif mark is not None and text is None and names is not None and not found.seen & {"a", "arg-file"}:
            for name in names:
                yield Inner(tuple(_listed(word, name, mark) for word in command), fed=False)
        elif mark is not None:
            for line in _items(text, found, lines=True) or (None,):
                yield Inner(tuple(replaced(word, mark, line) for word in command), fed=False)
        else:
            items = _items(text, found, lines=False)
            step = _count(values.get("n", []) + values.get("max-args", []))
            if items is not None:
                extra = tuple(Word((item,)) for item in items)
            elif names is not None and text is None and not found.seen & {"a", "arg-file", "d", "delimiter", "E", "e"}:
                extra = tuple(each for name in names for each in _names(name))
            else:
                extra = (MANY,)
            if items is not None and step:
                chunks = [extra[at : at + step] for at in range(0, len(extra), step)] or [()]
                yield from (Inner((*command, *chunk), fed=False) for chunk in chunks[:16])
                if len(chunks) > 16:
                    yield Inner((*command, MANY), fed=False)
            else:
                yield Inner((*command, *extra), fed=False)


def _names(name: Listed) -> Iterator[Word]:
    """Any number of files that were found, and what their names match."""
    yield Word(name.parts, many=True, origin="listed")
    if name.pattern:
        yield Word((name.pattern,), glob=True, many=True, origin="listed")


def _listed(word: Word, name: Listed, mark: str) -> Word:
    """A word with a mark replaced by the name of a file that was found."""
    if word.text == mark and name.pattern:
        return Word((name.pattern,), glob=True, origin="listed")
    filled = _found(word, name.parts, mark)
    return filled if filled is word else replace(filled, origin="listed" if None not in word.parts else "")


def _count(values: list[Word]) -> int | None:
    """A small number given to an option."""
    text = values[-1].text if values else None
    return int(text) if text and text.isascii() and text.isdigit() and 0 < int(text) < 1000 else None


def _items(text: str | None, found: _Scan, lines: bool) -> list[str] | None:
    """The arguments in xargs's input, or None where quoting makes that unsure."""
    if text is None:
        return None
    if found.seen & {"0", "null"}:
        return text.removesuffix("\0").split("\0")
    delimiters = found.values.get("d", []) + found.values.get("delimiter", [])
    if delimiters:
        delimiter = {"\\n": "\n", "\\t": "\t"}.get(delimiters[-1].text or "", delimiters[-1].text)
        if not delimiter or len(delimiter) != 1:
            return None
        return text.removesuffix(delimiter).split(delimiter)
    if re.search(r"[\\'\"\0]", text):
        return None
    if lines:
        return [line.strip(" \t") for line in text.split("\n") if line.strip(" \t")]
    return re.split(r"[ \t\n]+", text.strip(" \t\n")) if text.strip(" \t\n") else []


def replaced(word: Word, mark: str, line: str | None) -> Word:
    """A word with a mark's occurrences replaced by a line, or by the unknown."""
    parts: list[str | None] = []
    for part in word.parts:
        if part is None or mark not in part:
            parts.append(part)
            continue
        for index, piece in enumerate(part.split(mark)):
            if index:
                parts.append(line)
            if piece:
                parts.append(piece)
    if len(parts) > 1 and None not in parts:
        parts = ["".join(part for part in parts if part is not None)]
    return Word(tuple(parts) or ("",), word.source, word.glob, word.many)


def _find(words: tuple[Word, ...], _stdin: Word | None) -> Iterator[Inner]:
    """find: every -exec and its kin, once for each root, `{}` being that root and something unknown behind it."""
    roots, at = list[Word](), 1
    while at < len(words) and words[at].text in ("-H", "-L", "-P", "-D", "-O3", "-O2", "-O1"):
        at += 2 if words[at].text == "-D" else 1
    while at < len(words) and not words[at].start.startswith(("-", "(", "!", ")")):
        roots.append(words[at])
        at += 1
    if any(word.text == "-files0-from" for word in words):
        roots.append(Word((None,)))
    roots = list(dict.fromkeys(roots))[:8] or [Word((".",))]
    while at < len(words):
        if words[at].text in ("-exec", "-execdir", "-ok", "-okdir"):
            end = at + 1
            while end < len(words) and not _ends_exec(words, end):
                end += 1
            inside = words[at + 1 : end]
            away = Word((None,)) if (words[at].text or "").endswith("dir") else None
            for root in roots:
                if inside:
                    below = (None,) if root.many else (*_literal_start(root), None)
                    yield Inner(tuple(_found(word, below) for word in inside), directory=away)
            at = end
        elif words[at].text is None:
            # An unknown word may be an action; what follows it could be a command.
            yield Inner((Word((None,), words[at].source), *words[at + 1 :]))
            return
        at += 1


def _ends_exec(words: tuple[Word, ...], at: int) -> bool:
    """Whether a word ends the command of -exec."""
    return words[at].text == ";" or (words[at].text == "+" and words[at - 1].text == "{}")


def _found(word: Word, below: tuple[str | None, ...], mark: str = "{}") -> Word:
    """A word of -exec with `{}` replaced by a path below a root."""
    if not any(part is not None and mark in part for part in word.parts):
        return word
    parts: list[str | None] = []
    for part in word.parts:
        pieces = part.split(mark) if part is not None else [None]
        for index, piece in enumerate(pieces):
            if index:
                parts.extend(below)
            if piece is None or piece:
                parts.append(piece)
    merged: list[str | None] = []
    for part in parts:
        if part is not None and merged and merged[-1] is not None:
            merged[-1] += part
        else:
            merged.append(part)
    return Word(tuple(merged), word.source)


def _literal_start(word: Word) -> tuple[str | None, ...]:
    """What a word begins with before any pattern."""
    if not word.glob:
        return word.parts
    return (re.split(r"[*?\[\\]", word.start)[0],)


def _fd(words: tuple[Word, ...], _stdin: Word | None) -> Iterator[Inner]:
    """fd: -x and -X take the remaining words."""
    at = next((i for i, w in enumerate(words) if w.text in ("-x", "-X", "--exec", "--exec-batch")), len(words))
    plain = [word for word in words[1:at] if not word.start.startswith("-")]
    roots = list(dict.fromkeys(plain[1:]))[:8] or [Word((".",))]
    while at < len(words):
        end = next((index for index in range(at + 1, len(words)) if words[index].text == ";"), len(words))
        inside = words[at + 1 : end]
        for root in roots if inside else ():
            start = "" if root.many else "".join(part or "" for part in _literal_start(root)).rstrip("/") + "/"
            yield Inner(_fd_filled(inside, (start, None) if start else (None,)))
            name = plain[0].text if plain else None
            if name and re.fullmatch(r"[\w.-]{3,}", name):  # what it looks for, should it be found at once
                yield Inner(_fd_filled(inside, (f"{start}{name}",)))
        at = end + 1


def _fd_filled(words: tuple[Word, ...], below: tuple[str | None, ...]) -> tuple[Word, ...]:
    """fd's command with its placeholders filled; without any the path stands last."""
    filled = words
    for mark in ("{}", "{/}", "{//}", "{.}", "{/.}"):
        filled = tuple(_found(word, below if mark == "{}" else (None,), mark) for word in filled)
    return filled if filled != words else (*words, Word(below))


_PARALLEL = Wrapper(
    "0kmtuvXq",
    "jNnILadSPC",
    "dry-run keep-order no-notice will-cite bar eta progress ungroup verbose xargs pipe line-buffer tag null quote",
    "jobs arg-file colsep delay halt joblog results retries sshlogin timeout workdir max-args max-replace-args tmpdir "
    "tempdir block rpl",
)


def _parallel(words: tuple[Word, ...], _stdin: Word | None) -> Iterator[Inner]:
    """GNU parallel: words before ::: joined to shell text, its arguments unknown."""
    found = scan(_PARALLEL, words)
    for start in dict.fromkeys((found.at, *found.doubtful)):
        rest = words[start:]
        cut = next((at for at, word in enumerate(rest) if (word.text or "").startswith(":::")), None)
        command = rest[:cut]
        if not command:
            yield Inner(script=Word((None,)))
            for word in rest[(cut or 0) + 1 :] if cut is not None else ():
                yield Inner(script=word)
            continue
        yield Inner(
            tuple(_parallel_mark(word) for word in command) + (() if any("{" in w.start for w in command) else (MANY,)),
            fed=False,
        )
        if any(word.text is None or re.search(r"[\s;&|$`<>()]", word.text) for word in command) and cut is None:
            yield Inner(script=joined(tuple(_parallel_mark(word) for word in command)), fed=False)
        for word in rest[(cut or 0) + 1 :] if cut is not None else ():
            yield Inner(
                script=joined(
                    (
                        *(replaced(w, "{}", word.text) for w in command),
                        *(() if any("{}" in w.start for w in command) else (word,)),
                    )
                ),
                fed=False,
            )


def _parallel_mark(word: Word) -> Word:
    """A word with parallel's placeholders made unknown."""
    for mark in ("{}", "{.}", "{/}", "{//}", "{/.}", "{#}", "{%}", *(f"{{{number}}}" for number in range(1, 5))):
        word = replaced(word, mark, None)
    return word


def _applet(words: tuple[Word, ...], _stdin: Word | None) -> Iterator[Inner]:
    """busybox and toybox: the next word is the program."""
    if len(words) > 1 and not (words[1].text or "").startswith("--"):
        yield Inner(words[1:])


def _coreutils(words: tuple[Word, ...], _stdin: Word | None) -> Iterator[Inner]:
    """coreutils: --coreutils-prog=NAME, or an applet (uutils)."""
    for at, word in enumerate(words[1:], 1):
        if word.start.startswith(("--coreutils-prog=", "--coreutils-prog-shebang=")):
            name = Word((word.start.split("=", 1)[1], *word.parts[1:]), word.source)
            yield Inner((name, *words[at + 1 :]))
            return
    yield from _applet(words, None)


_LD_SO = Wrapper(
    "",
    "",
    "list verify inhibit-cache list-diagnostics list-tunables help version",
    "library-path glibc-hwcaps-prepend glibc-hwcaps-mask inhibit-rpath audit preload argv0",
)


def _loader(words: tuple[Word, ...]) -> Iterator[Inner]:
    """The dynamic loader run by hand."""
    found = scan(_LD_SO, words)
    for start in dict.fromkeys((found.at, *found.doubtful)):
        if start < len(words):
            yield Inner(words[start:])


def _capsh(words: tuple[Word, ...], _stdin: Word | None) -> Iterator[Inner]:
    """capsh: what follows `--` goes to bash."""
    for at, word in enumerate(words):
        if word.text in ("--", "=="):
            yield Inner((Word(("bash",)), *words[at + 1 :]))


def _ip(words: tuple[Word, ...], _stdin: Word | None) -> Iterator[Inner]:
    """ip netns exec NAME command, ip vrf exec NAME command."""
    texts = [word.text for word in words]
    for at, text in enumerate(texts):
        if text is not None and "exec".startswith(text) and text and texts[at - 1] in ("netns", "netn", "net", "vrf"):
            rest = words[at + 1 :] if texts[at + 1 : at + 2] == ["-all"] else words[at + 2 :]
            if rest:
                yield Inner(rest)


_PERF = Wrapper(
    "aAdiIvqngRBTs",
    "epotrCFcDGIjxl",
    "all-cpus no-inherit verbose quiet call-graph detailed per-core null",
    "event pid tid output repeat cpu freq count delay filter",
)


def _perf(words: tuple[Word, ...], _stdin: Word | None) -> Iterator[Inner]:
    """perf stat, record, trace: behind their options."""
    if len(words) < 3 or words[1].text not in ("stat", "record", "trace", "mem", "kvm", "ftrace"):
        return
    found = scan(_PERF, words, 2)
    for start in dict.fromkeys((found.at, *found.doubtful)):
        if start < len(words):
            yield Inner(words[start:])


def _sudo(words: tuple[Word, ...], stdin: Word | None) -> Iterator[Inner]:
    """sudo; with -s and -i its words go to a shell, and -i changes the directory."""
    found = scan(WRAPPERS["sudo"], words)
    for inner in _wrapped(WRAPPERS["sudo"], words):
        login = found.seen & {"i", "login"}
        yield Inner(inner.words, assigns=inner.assigns, directory=Word((None,)) if login else inner.directory)
        if found.seen & {"s", "i", "shell", "login"}:
            yield Inner(script=joined(inner.words), directory=inner.directory)
    if found.seen & {"s", "i", "shell", "login"} and found.at >= len(words):
        yield Inner(reads=True)


def _su(words: tuple[Word, ...], stdin: Word | None) -> Iterator[Inner]:
    """su and runuser: -c anywhere, since operands may come first; without it a shell that reads its input."""
    texts = [word.text for word in words]
    scripts = [
        at + 1
        for at, text in enumerate(texts)
        if text in ("--command", "--session-command") or (text and re.fullmatch(r"-[flmPp]*c", text))
    ]
    attached = [
        Word((word.start.split("c", 1)[1] if word.start[1] == "c" else word.start.split("=", 1)[1], *word.parts[1:]))
        for word in words[1:]
        if re.match(r"-c.|--(?:session-)?command=", word.start)
    ]
    login = bool({"-", "-l", "--login"} & set(texts)) or any(
        re.fullmatch(r"-[fmPpc]*l\w*", text or "") for text in texts
    )
    directory = Word((None,)) if login else None
    for script in [*(words[at] for at in scripts if at < len(words)), *attached]:
        yield Inner(script=script, directory=directory, arguments=None)
    if base_name(words[0]) == "runuser" and "-u" in texts:
        yield from _wrapped(WRAPPERS["runuser"], words)
    elif not scripts and not attached:
        yield Inner(reads=True, arguments=None)


def _start_stop(words: tuple[Word, ...], _stdin: Word | None) -> Iterator[Inner]:
    """start-stop-daemon: the program of --exec or --startas with the words behind `--`."""
    found = scan(WRAPPERS["start-stop-daemon"], words)
    for option in ("exec", "startas", "x", "a"):
        for program in found.values.get(option, ()):
            yield Inner((program, *words[found.at :]))


def _setarch(words: tuple[Word, ...], stdin: Word | None) -> Iterator[Inner]:
    """setarch: the architecture may be left out."""
    found = scan(WRAPPERS["setarch"], words)
    for at in (found.at, found.at + 1):
        if at < len(words):
            yield from _inner(Wrapper(), words, at, found, None)


def _entr(words: tuple[Word, ...], _stdin: Word | None) -> Iterator[Inner]:
    """entr: a command, or with -s shell text; `/_` is a file's name."""
    found = scan(WRAPPERS["entr"], words)
    for start in dict.fromkeys((found.at, *found.doubtful)):
        rest = tuple(Word((None,)) if word.text == "/_" else word for word in words[start:])
        if rest:
            yield Inner(script=rest[0], arguments=rest[1:]) if "s" in found.seen else Inner(rest, fed=False)


def _firejail(words: tuple[Word, ...], _stdin: Word | None) -> Iterator[Inner]:
    """Programs whose options all look like --name=value."""
    at = 1
    while at < len(words) and words[at].start.startswith("-"):
        at += 1
        if words[at - 1].text == "--":
            break
    if at < len(words):
        yield Inner(words[at:])


_TMUX_RUNS = frozenset(
    {
        *("new", "new-session", "neww", "new-window", "splitw", "split-window", "respawnp", "respawn-pane"),
        *("respawnw", "respawn-window", "run", "run-shell", "popup", "display-popup", "pipep", "pipe-pane"),
        *("if", "if-shell", "send", "send-keys"),
    }
)
_SCREEN = Wrapper("adADilLmnOqrRxX", "cehpsStT")
_TERMINAL_ENDS = frozenset({"-e", "-x", "--", "--command", "--execute"})


def _tmux(words: tuple[Word, ...], _stdin: Word | None) -> Iterator[Inner]:
    """tmux: the words behind a sub-command's options are text for a shell; any of them could be the first."""
    at = next((at for at, word in enumerate(words) if word.text in _TMUX_RUNS), len(words))
    rest = words[at + 1 :]
    for start, word in enumerate(rest[:8]):
        if not word.start.startswith("-"):
            yield Inner(script=joined(rest[start:]), posix=False)
            yield Inner(script=word, posix=False)


def _screen(words: tuple[Word, ...], _stdin: Word | None) -> Iterator[Inner]:
    """screen: a command behind its options; with -X one of screen's own, whose text may be typed into a shell."""
    found = scan(_SCREEN, words)
    for start in dict.fromkeys((found.at, *found.doubtful)):
        if start < len(words):
            yield Inner(words[start:])
    if "X" in found.seen:
        for word in words[found.at :]:
            yield Inner(script=word)


def _terminal(words: tuple[Word, ...], _stdin: Word | None) -> Iterator[Inner]:
    """xterm and its kin: what follows -e is a command, or text for a shell."""
    for at, word in enumerate(words):
        if word.text in _TERMINAL_ENDS and at + 1 < len(words):
            yield Inner(words[at + 1 :])
            yield Inner(script=joined(words[at + 1 :]))
            return
        if word.start.startswith("--command="):
            yield Inner(script=Word((word.start.partition("=")[2], *word.parts[1:])))


def _escapes(*options: str) -> Callable[[tuple[Word, ...], Word | None], Iterator[Inner]]:
    """Clients whose own commands include one for a shell: gdb's `!` and `shell`, psql's and mysql's `\\!`."""

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


_SHELL_ESCAPE = re.compile(r"\s*(?:!|shell\s|system\s|\\!|\.shell\s|\.system\s|sh\s)\s*(.+)")
_SHELL_ESCAPE_INSIDE = re.compile(r"(?:\\!|PROGRAM\s+')\s*([^']+)", re.IGNORECASE)


def _cmake(words: tuple[Word, ...], _stdin: Word | None) -> Iterator[Inner]:
    """cmake -E is a box of small tools: rm, copy, env …"""
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


def _rpm(words: tuple[Word, ...], _stdin: Word | None) -> Iterator[Inner]:
    """rpm's macros: %(…) is a command, and so is what Lua's os.execute is given."""
    for word in words[1:]:
        for text in re.findall(r"%\((.*)\)|os\.execute\(\s*[\"']([^\"']*)", word.text or ""):
            yield Inner(script=Word((text[0] or text[1],)))


def _bwrap(words: tuple[Word, ...], _stdin: Word | None) -> Iterator[Inner]:
    """bwrap: options with up to three values; every place where the command could begin."""
    starts = [at for at in range(1, len(words)) if not words[at].start.startswith("--")]
    for at in starts[:MAX_INNER]:
        yield Inner(words[at:], directory=Word((None,)))


SPECIAL: dict[str, Callable[[tuple[Word, ...], Word | None], Iterator[Inner]]] = {
    "env": _env,
    "eval": _eval,
    "source": _source,
    ".": _source,
    "trap": _trap,
    **dict.fromkeys(("mapfile", "readarray", "compgen", "complete"), _callback),
    "xargs": _xargs,
    "gxargs": _xargs,
    "find": _find,
    "gfind": _find,
    "fd": _fd,
    "fdfind": _fd,
    "parallel": _parallel,
    "busybox": _applet,
    "toybox": _applet,
    "coreutils": _coreutils,
    "capsh": _capsh,
    "ip": _ip,
    "perf": _perf,
    "sudo": _sudo,
    "su": _su,
    "runuser": _su,
    "start-stop-daemon": _start_stop,
    "setarch": _setarch,
    "entr": _entr,
    "firejail": _firejail,
    "valgrind": _firejail,
    "bwrap": _bwrap,
    "tmux": _tmux,
    "screen": _screen,
    **dict.fromkeys(
        (
            "xterm",
            "konsole",
            "gnome-terminal",
            "urxvt",
            "rxvt",
            "kitty",
            "alacritty",
            "foot",
            "xfce4-terminal",
            "terminator",
        ),
        _terminal,
    ),
    **dict.fromkeys(("gdb", "lldb"), _escapes("-ex", "--eval-command", "-eval-command", "-iex", "-o")),
    **dict.fromkeys(("psql", "mysql", "mariadb", "ftp", "sftp"), _escapes("-c", "-e")),
    "cmake": _cmake,
    "rpm": _rpm,
    **dict.fromkeys(SHELLS, _shell),
}
