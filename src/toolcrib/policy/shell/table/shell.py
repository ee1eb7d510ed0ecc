"""Describe the shell's own commands, and programs that run the rest of their words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from ..effects import Effect, plain
from ..parts import Word
from ..sorting import SortedWords, cut
from .environment import assignment
from .spec import program


def _declare(call: SortedWords) -> Iterator[Effect]:
    """`export NAME=value`, `declare -x`, `readonly`, `local`."""
    for word in call.operands:
        yield from declared(word, call.name == "export" or call.has("-x"))
    if not call.operands:
        yield Effect("unknown", None, "prints variables, the environment's too", "shell:environment")


def declared(word: Word, exported: bool = False) -> Iterator[Effect]:
    """Yield the effects of the assignment in a word `NAME=value`."""
    match = re.match(r"([A-Za-z_][\w%]*)(?:\[[^\]]*\])?\+?=", word.start)
    if match:
        source = word.source.partition("=")[2] or word.source
        yield from assignment(match[1], replace(cut(word, match.end()), source=source), exported)
    elif word.text is None:
        yield Effect("unknown", word, "sets a variable that is known only when it runs", "shell:unknown-option")


def _env(call: SortedWords) -> Iterator[Effect]:
    """env: assignments before a program; without a program it prints the environment."""
    ran = False
    for word in call.command.args:
        if re.match(r"[A-Za-z_]\w*=", word.start) and not ran:
            yield from declared(word, exported=True)
        elif not word.start.startswith("-"):
            ran = True
    if not ran:
        yield Effect("unknown", None, "prints the whole environment", "shell:environment")
    yield from plain(call, "text*")


def _printenv(call: SortedWords) -> Iterator[Effect]:
    """printenv: single variables are harmless, unless their names suggest a secret."""
    if not call.operands:
        yield Effect("unknown", None, "prints the whole environment", "shell:environment")
    for word in call.operands:
        if word.text is None or re.search(r"KEY|TOKEN|SECRET|PASS|CRED|AUTH", word.text, re.IGNORECASE):
            yield Effect("unknown", word, "prints a variable that may hold a secret", "shell:environment")


def _trap(call: SortedWords) -> Iterator[Effect]:
    """trap runs its first operand later, in the same script."""
    if len(call.operands) > 1 and call.operands[0].text is None:
        yield Effect("shell", call.operands[0], "runs a command at a signal")


def _alias(call: SortedWords) -> Iterator[Effect]:
    for word in call.operands:
        _, equals, _ = word.start.partition("=")
        if equals:
            yield Effect("shell", cut(word, word.start.index("=") + 1), "gives a command another name")


def _flock(call: SortedWords) -> Iterator[Effect]:
    """flock creates its lock file if it does not exist."""
    for word in call.operands[:1]:
        if not (word.text or "").isdigit():
            yield Effect("create", word)


def _unset(call: SortedWords) -> Iterator[Effect]:
    for word in call.operands:
        if (word.text or "").startswith("HIST"):
            yield Effect("log", word, "keeps the shell's history from being written")


def _history(call: SortedWords) -> Iterator[Effect]:
    if call.has("-r", "-n"):
        yield from (Effect("read", word) for word in call.operands)
    if call.has("-c", "-d", "-w", "-a", "-s"):
        yield Effect("log", None, "tampers with the shell's history", "shell:history")


def _fc(call: SortedWords) -> Iterator[Effect]:
    yield from plain(call)
    if not call.has("-l"):
        yield Effect("execute", None, "runs commands of the history", "shell:unknown-code")


def _shell_alone(call: SortedWords) -> Iterator[Effect]:
    """Without a program to run, it starts a shell that reads its input."""
    if len(call.operands) < 1 + (call.name == "setarch"):
        yield Effect("execute", None, "starts a shell", "shell:unknown-code")


def _set(call: SortedWords) -> Iterator[Effect]:
    if not call.command.args:
        yield Effect("unknown", None, "prints variables, the environment's too", "shell:environment")
    for word in call.operands[:1]:
        if word.text == "history" or "+o" in word.start:
            yield Effect("log", None, "turns the shell's history off", "shell:history")
    if call.has("+") and any(w.text == "history" for w in call.operands):
        yield Effect("log", None, "turns the shell's history off", "shell:history")


def _kill(call: SortedWords) -> Iterator[Effect]:
    """kill: the sandbox contains signals to the command's own jobs. A person decides on other processes.

    A signal to all processes is denied.
    """
    words = list(call.command.args)
    if words and words[0].text in ("-l", "-L", "--list", "--table"):
        return
    index = 0
    if words and (words[0].text or "") in ("-s", "-n", "--signal"):
        index = 2
    elif words and re.fullmatch(r"-(?:[A-Za-z]\w+|\d+)", words[0].text or "") and len(words) > 1:
        index = 1
    for word in words[index:]:
        yield from _killed(word)


def _killed(word: Word) -> Iterator[Effect]:
    text = word.text
    if text == "--":
        return
    if text in ("-1", "1", "0") or (text and re.fullmatch(r"-0*1", text)):
        yield Effect("kill-all", word)
    elif "$PPID" in word.source or "${PPID}" in word.source or "$$" in word.source:
        yield Effect("kill-all", word, "ends the process that runs it")
    elif (text and text.startswith("%")) or word.source.strip("\"'") in ("$!", "${!}", "$(jobs -p)"):
        yield Effect("session", word, "ends a job of its own")
    else:
        yield Effect("process", word)


def _pkill(call: SortedWords) -> Iterator[Effect]:
    pattern = call.operands[0].text if call.operands else None
    if call.has("-u", "--euid", "-U", "--uid", "-v", "--inverse") or (
        call.operands and pattern in ("", ".", ".*", "^", "$", "[a-z]")
    ):
        yield Effect("kill-all", None, "ends everything that matches so wide a pattern")
    elif pattern in ("systemd", "init", "sshd", "dbus-daemon", "launchd"):
        yield Effect("kill-all", None, "ends a process that the system needs")
    else:
        yield Effect("process")


def _test(call: SortedWords) -> Iterator[Effect]:
    return iter(())


_UNKNOWN = Word((None,))


def _assigns(call: SortedWords) -> Iterator[Effect]:
    """read, mapfile, getopts: their operands are variables that they set. They set IFS only for themselves."""
    yield from plain(call)
    if call.unsure:
        yield Effect("unknown", None, "sets a variable that is known only when it runs", "shell:unknown-option")
    for word in (*call.operands[call.name == "getopts" :], *call.values("-a")):
        yield from assignment((word.text or "").partition("[")[0], _UNKNOWN)


def _printf(call: SortedWords) -> Iterator[Effect]:
    """printf -v sets a variable."""
    words = call.command.args
    first = words[0].start if words else ""
    if first.startswith("-v"):
        name = first[2:] if len(first) > 2 else (words[1].text if len(words) > 1 else None)
        if name is None:
            yield Effect("unknown", None, "sets a variable that is known only when it runs", "shell:unknown-option")
        else:
            yield from assignment(name.partition("[")[0], _UNKNOWN)
    elif words and words[0].text is None and not first and len(words) > 1 and words[0].origin != "token":
        yield Effect(
            "unknown", None, "has words that could be options, known only when it runs", "shell:unknown-option"
        )


def _let(call: SortedWords) -> Iterator[Effect]:
    """let evaluates its words as arithmetic, which may assign names."""
    for word in call.command.args:
        for name in re.findall(r"[A-Za-z_]\w*", "".join(part or "" for part in word.parts)):
            yield from assignment(name, _UNKNOWN)


def _wait(call: SortedWords) -> Iterator[Effect]:
    for word in call.values("-p"):
        yield from assignment(word.text or "", _UNKNOWN)


PROGRAMS = {
    # print and compute
    "echo true false : sleep return break continue shift times ": program("text*"),
    "printf": program("text*", handler=_printf),
    "let": program("text*", handler=_let),
    "wait": program("text*", "-n -f -p=", handler=_wait),
    "getopts": program("text*", handler=_assigns),
    "test [ [[": program("text*", handler=_test),
    "pwd dirs jobs type   caller help logname arch nproc tty ": program("text*"),
    "read": program("text*", "-r -p= -t= -n= -N= -d= -a= -u= -s -i= -e", handler=_assigns),
    "readarray mapfile": program("text*", "-d= -n= -O= -s= -t -u= -c= -C=shell", handler=_assigns),
    "exit logout": program("text*"),
    "cd chdir pushd popd": program("list*", "-P -L -e"),
    "hash": program("text*", "-r -d -t -l -p=hijack"),
    "command builtin": program("text*", "-v -V -p", wrapper=True, stops="-v -V"),
    "which whereis": program("text*", "-a -b -m -s -B=list -M=list -S=list"),
    "whatis apropos": program("text*", "-C=exec --config-file=exec -M=list --manpath=list -s= -L= -m= -r -w -e"),
    "export declare typeset local readonly": program("text*", "-x -p -n -a -A -i -r -f -F -g -u -l", handler=_declare),
    "unset": program("text*", handler=_unset),
    "set": program("text*", "+ -e -u -x -o -f -v -n", handler=_set),
    "shopt": program("text*", "-s -u -q -p -o"),
    "ulimit": program("text*"),
    "umask": program("text*"),
    "trap": program("text*", "-l -p", handler=_trap),
    "alias": program("text*", "-p", handler=_alias),
    "unalias": program("text*"),
    "enable": program("text*", "-f=exec -n -a -d -s -p"),
    "history": program("text*", "-c -d= -w -a -s -n -r -p", handler=_history),
    "fc": program("text*", "-e=program -l -n -r -s!execute", handler=_fc),
    "bg fg disown": program("text*"),
    "compgen": program("list*", "-C=shell -F= -W= -G=list -A= -P= -S= -X= -o= -V= -f@list -d@list -v -e -c -a -b -k"),
    "complete compopt bind": program("text*", "-C=shell -F= -x=shell -W= -A= -G= -P= -S= -X= -o= -f=exec"),
    "kill": program("text*", handler=_kill),
    "pkill killall skill": program(
        "text*", "-u= --euid= -U= --uid= -v --inverse -s= --signal= -g= -t= -P= -G= -I -f -x -n -o", handler=_pkill
    ),
    "killall5 xkill": program("text*", "", "kill-all"),
    "printenv": program("text*", handler=_printenv),
    # run the words after them
    "env": program(
        "text*", "-u= --unset= -C=list --chdir=list -S= --split-string= -i -0 --ignore-environment --null", handler=_env
    ),
    "time gtime": program("text*", "-o=write --output=write -f= --format= -a -p -v -q", wrapper=True),
    "flock": program("text*", "-s -x -e -u -n -w= -E= -c= -o -F", handler=_flock, wrapper=True),
    "xargs gxargs": program(
        "text*",
        "-a=read --arg-file=read -I= -i? -n= -P= -L= -l? -d= -E= -s= -0 -r -t -p --max-args= --max-procs= "
        "--replace? --delimiter= --process-slot-var=",
        wrapper=True,
    ),
    "script": program("write", "-c= -q -a -f -e", "execute", wrapper=True),
    "setarch linux64 linux32 torsocks tsocks proxychains dbus-run-session xvfb-run faketime catchsegv sem": program(
        "text*", handler=_shell_alone, wrapper=True
    ),
    "busybox toybox": program("text*", "--install!system --list --help", wrapper=True),
    "nohup setsid nice ionice timeout gtimeout stdbuf unbuffer chronic ts caffeinate taskset chrt cpulimit prlimit "
    "choom numactl parallel watch entr exec eval source .    "
    "       ": program("text*", wrapper=True),
    "strace ltrace": program("text*", "-o=write -p!process -e= -E= -s= -u=", "execute", wrapper=True),
    "sudo doas gosu su-exec": program("text*", "", "privilege", wrapper=True),
    "su pkexec runuser sg newgrp setpriv capsh machinectl": program("text*", "", "privilege", wrapper=True),
}
