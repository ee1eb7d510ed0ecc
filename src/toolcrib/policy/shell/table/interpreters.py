"""Judge programs that run given code: shells, languages, editors, databases."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..parts import Effect, Stdin, Word
from ..roles import of_operands
from ..sorting import literal
from .program_spec import Handler, SortedWords
from .shell import shell_options
from .wordlist import words

READ_SHELLS = words("sh bash dash zsh ksh ksh93 mksh ash rbash lksh pdksh yash hush")
"""The shells whose text the judgement reads."""
PRIVILEGED = frozenset({"sudo", "doas", "su", "pkexec", "runuser"})
_SERVERS = ("http.server", "SimpleHTTPServer", "smtpd", "aiosmtpd")


def _code_from(language: str, *options: str) -> Handler:
    """Return a handler: code in an option, a file of code, a module, or code on stdin."""

    def handler(call: SortedWords) -> Iterator[Effect]:
        given = call.values(*options)
        for word in given:
            yield code(language, word)
        if call.has("-i") and language == "perl":
            yield from (Effect("write", word) for word in call.operands)
        if given:
            yield from of_operands(call.operands, "maybe*")
        elif modules := call.values("-m") if language == "python" else []:
            yield from _module(call, modules[0])
        elif call.operands and call.operands[0].text not in ("-", "/dev/stdin"):
            said = f"runs the {language} file {call.operands[0].text or '…'}"
            yield Effect("execute", call.operands[0], said, "shell:script")
            yield Effect("read", call.operands[0])
        elif (text := _input(call)) is not None:
            yield code(language, text)
        else:
            yield Effect("execute", None, f"runs {language} code from its input", "shell:unknown-code")

    return handler


def code(language: str, word: Word) -> Effect:
    """Return the effect of code in a word. A part that is not known is a gap; no analysis counts it as harmless."""
    text = "".join("\0" if part is None else part for part in word.parts)
    said = f"runs {language} code that cannot be judged whole"
    return Effect("execute", word, said, "shell:unknown-code", code=(language, text))


def _module(call: SortedWords, module: Word) -> Iterator[Effect]:
    """`python -m pip` is pip, too (`effects`). The workspace can hold a module of any name."""
    name = module.text
    said = f"runs the module {name or '…'}, which this folder can hold, too"
    yield Effect("execute", module, said, "shell:unknown-code")
    if name in _SERVERS:
        yield Effect("serve")
    elif name != "pip":
        yield from of_operands(call.operands, "write*" if name == "venv" else "maybe*")


def shell(call: SortedWords) -> Iterator[Effect]:
    """A shell with a file or with input. `sh -c` is unfolded where the script is read. The words after a file are its
    own: `sh file -c ls` runs the file."""
    options = [word.text for word in call.command.args if (word.text or "-").startswith(("-", "+"))]
    groups, _, rest = shell_options(call.command.args)
    rest = rest[1:] if rest and rest[0].text in ("-", "--") else rest
    flags = "".join(group[1:] for group in groups if group[0] == "-")
    read = call.name in READ_SHELLS
    if "c" in flags:
        if not read:  # like sh enough for its harm to be seen
            yield from (Effect("shell", word, f"runs {call.name} code") for word in call.operands[:1])
            yield Effect("execute", None, f"runs {call.name} code that cannot be judged whole", "shell:unknown-code")
    elif rest and "n" in flags and set(options) <= {"-n", "-v", "--posix", "--norc", "--noprofile"}:
        yield from (Effect("read", word) for word in call.operands)  # it only parses the file
    elif rest and "s" not in flags:
        yield Effect("execute", rest[0], f"runs the script {rest[0].text or '…'}", "shell:script")
        yield Effect("read", rest[0])
    else:
        text = _input(call)
        via = call.command.via
        if text is not None and not read:
            yield Effect("shell", text, f"runs {call.name} code")
        if via and not set(via) & PRIVILEGED and call.command.stdin in (None, Stdin()) and not call.command.redirects:
            yield Effect("spawn-shell", None, f"starts a shell from inside {via[-1]}")
        if text is None or text.text is None or not read:
            yield Effect("execute", None, "runs its input as commands", "shell:unknown-code")


def editor(call: SortedWords) -> Iterator[Effect]:
    """An editor changes its files, and its command mode can run anything."""
    for word in call.operands:
        yield Effect("read", word)
        yield Effect("write", word)
    yield Effect("execute", None, "edits by commands of its own", "shell:unknown-code")


def _input(call: SortedWords) -> Word | None:
    return call.command.stdin.text if call.command.stdin is not None else None


_SQLITE_FILES = (  # its own commands, of which three letters are enough
    ("read", words(".read .import .restore")),
    ("write", words(".output .once .backup .save .log .clone .open")),
)


def sqlite(call: SortedWords) -> Iterator[Effect]:
    yield from (Effect("write", word) for word in call.operands[:1])
    texts = [*call.values("-cmd", "--cmd"), *call.operands[1:], *([given] if (given := _input(call)) else [])]
    for line in [line for word in texts for line in (word.text or "").splitlines()]:
        if re.search(r"\b(?:drop|delete|truncate)\b", line, re.IGNORECASE):
            yield Effect("discard", None, "deletes data from a database")
        name, *files = line.split() or [""]
        for role, names in _SQLITE_FILES if len(name) > 3 else ():
            if any(full.startswith(name) for full in names):
                yield from (Effect(role, literal(file.strip("'\""))) for file in files if file[0] not in "-|")
    yield Effect("execute", None, "runs SQL", "shell:unknown-code")


python = _code_from("python", "-c")
node = _code_from("node", "-e", "--eval", "-p", "--print", "-pe")
perl = _code_from("perl", "-e", "-E")
ruby = _code_from("ruby", "-e")
php = _code_from("php", "-r", "-B", "-R", "-E")
lua = _code_from("lua", "-e")
