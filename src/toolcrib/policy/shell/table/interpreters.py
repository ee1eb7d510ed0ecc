"""Describe programs that run given code: shells, languages, editors, databases."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..effects import Effect, of_operands, of_options
from ..parts import Word
from ..sorting import SortedWords, literal
from ..wrappers.shells import SHELLS as READ_SHELLS
from .spec import Program, program


def code_from(language: str, *options: str, modules: str = ""):
    """Return a handler: code in an option, a file of code, a module, or code on stdin."""

    def handler(call: SortedWords) -> Iterator[Effect]:
        yield from of_options(call)
        words = call.command.args
        if len(words) == 1 and words[0].text in _VERSION.get(language, ()):
            return
        given = call.values(*options)
        for word in given:
            yield code(language, word)
        if not given:
            yield from _from_elsewhere(call, language)

    return handler


# Options that print and end. Python's -v is not listed, because with it Python still reads its input.
_VERSION = {
    "python": ("-V", "-VV", "-h"),
    "node": ("-v", "-h"),
    "perl": ("-v", "-V", "-h"),
    "ruby": ("-v", "-h"),
    "php": ("-v", "-h", "-m", "-i"),
    "lua": ("-v",),
}


def code(language: str, word: Word) -> Effect:
    """Return the effect of code in a word. A part that is not known is a gap; no analysis counts it as harmless."""
    text = "".join("\0" if part is None else part for part in word.parts)
    return Effect(
        "execute",
        word,
        f"runs {language} code that cannot be judged whole",
        "shell:unknown-code",
        code=(language, text),
    )


def _from_elsewhere(call: SortedWords, language: str) -> Iterator[Effect]:
    modules = call.values("-m")
    if modules:
        yield from _module(call, modules[0])
    elif call.operands and call.operands[0].text not in ("-", "/dev/stdin"):
        yield Effect(
            "execute", call.operands[0], f"runs the {language} file {call.operands[0].text or '…'}", "shell:script"
        )
        yield from _script_place(call.operands[0])
    else:
        yield from _from_stdin(call, language)


def _script_place(word: Word) -> Iterator[Effect]:
    yield Effect("read", word)


def _from_stdin(call: SortedWords, language: str) -> Iterator[Effect]:
    command = call.command
    text = command.stdin.text if command.stdin is not None else None
    for redirect in command.redirects:
        if redirect.op in ("<<", "<<<") and redirect.text is not None:
            text = redirect.text
    if text is not None:
        yield code(language, text)
    else:
        yield Effect("execute", None, f"runs {language} code from its input", "shell:unknown-code")


def _module(call: SortedWords, module: Word) -> Iterator[Effect]:
    """`python -m pip list` is treated as pip; a few modules only print."""
    from ..effects import of_words
    from . import lookup

    name = module.text
    yield Effect(
        "execute", module, f"runs the module {name or '…'}, which this folder can hold, too", "shell:unknown-code"
    )
    known = {"pip": "pip", "venv": None, "json.tool": None}.get(name or "", "")
    if name == "json.tool":
        yield from of_operands(call.operands, "read write")
    elif known:
        entry = lookup(known)
        if entry is not None:
            words = list(call.command.args)
            at = next((i for i, w in enumerate(words) if w is module or (w.text or "").startswith("-m")), 0)
            at += 1 if (words[at].text or "") == "-m" else 0
            yield from of_words(known, entry, words[at + 1 :], call.command)
    elif name == "venv":
        yield from of_operands(call.operands, "write*")
    elif name in ("http.server", "SimpleHTTPServer", "smtpd", "aiosmtpd"):
        yield Effect("network", None, "serves files to the network")


def _shell(call: SortedWords) -> Iterator[Effect]:
    """A shell with a file or with input. `sh -c` is unfolded where the script is read."""
    yield from of_options(call)
    words = call.command.args
    if words and all((word.text or "") in ("--version", "--help") for word in words):
        return
    if call.has("-c"):
        if call.name not in READ_SHELLS:  # like sh enough for its harm to be seen
            for word in call.operands[:1]:
                yield Effect("shell", word, f"runs {call.name} code")
            yield Effect("execute", None, f"runs {call.name} code that cannot be judged whole", "shell:unknown-code")
        return
    if call.operands and _only_parses(call):
        yield from (Effect("read", word) for word in call.operands)
        return
    if call.operands and not call.has("-s"):
        yield Effect("execute", call.operands[0], f"runs the script {call.operands[0].text or '…'}", "shell:script")
        yield Effect("read", call.operands[0])
    elif call.name not in READ_SHELLS:
        text = _input(call)
        if text is not None:
            yield Effect("shell", text, f"runs {call.name} code")
        yield Effect("execute", None, "runs its input as commands", "shell:unknown-code")
    elif call.command.stdin is None or call.command.stdin.text is None:
        via = call.command.via
        if via and not set(via) & PRIVILEGED and call.command.stdin is None and not call.command.redirects:
            yield Effect("spawn-shell", None, f"starts a shell from inside {via[-1]}")
        if not any(
            r.op in ("<<", "<<<") and r.text is not None and r.text.text is not None for r in call.command.redirects
        ):
            yield Effect("execute", None, "runs its input as commands", "shell:unknown-code")


def _only_parses(call: SortedWords) -> bool:
    """Return whether `bash -n file` only reads the file and runs nothing: no other option may cancel -n."""
    options = [word.text for word in call.command.args if (word.text or "-").startswith(("-", "+"))]
    return "-n" in options and set(options) <= {"-n", "-v", "--posix", "--norc", "--noprofile"}


def _editor(call: SortedWords) -> Iterator[Effect]:
    """An editor changes its files, and its command mode can run anything."""
    yield from of_options(call)
    texts = [w.text or "" for w in call.values("-c", "--cmd", "+", "-eval", "--eval", "-e")]
    text = _input(call)
    if text is not None and text.text is not None:
        texts += text.text.splitlines()
    for line in texts:
        match = re.match(
            r"\s*:*\s*(?:\d+|%|\$|\.)?(?:,(?:\d+|\$|\.))?\s*(?:silent!?\s+)?(?:r|w|read|write)?\s*!\s*(.+)", line
        )
        if match:
            yield Effect("shell", literal(match[1]), "runs a command from an editor")
            if re.fullmatch(r"\S*sh", match[1].strip()):
                yield Effect("spawn-shell")
        elif re.match(r"\s*\(", line):
            for shell in re.findall(
                r'\((?:term|shell-command|async-shell-command|call-process|start-process)[^")]*"([^"]*)"', line
            ):
                yield Effect("shell", literal(shell), "runs a command from an editor")
        elif re.match(r"\s*:*(?:py\w*|lua|ruby|perl|tcl|call\s+system|term\w*|shell|sh)\b", line):
            yield Effect(
                "shell", literal(" ".join(re.findall(r"[\"']([^\"']*)[\"']", line)) or ":"), "runs code from an editor"
            )
    for word in call.operands:
        yield Effect("read", word)
        yield Effect("write", word)
    yield Effect("execute", None, "edits by commands of its own", "shell:unknown-code")


def _input(call: SortedWords) -> Word | None:
    for redirect in call.command.redirects:
        if redirect.op in ("<<", "<<<"):
            return redirect.text
    return call.command.stdin.text if call.command.stdin is not None else None


def _expect(call: SortedWords) -> Iterator[Effect]:
    yield Effect("execute", None, "runs Tcl code", "shell:unknown-code")
    for word in call.values("-c"):
        for command in re.findall(r"\b(?:spawn|exec|system)\s+([^;\n\]]+)", word.text or ""):
            yield Effect("shell", literal(command), "runs a command from expect")


def _sqlite(call: SortedWords) -> Iterator[Effect]:
    yield from of_options(call)
    for word in call.operands[:1]:
        yield Effect("write", word)
    texts = [w.text or "" for w in [*call.operands[1:], *call.values("-cmd", "--cmd")]]
    given = _input(call)
    texts.append((given.text or "") if given is not None else "")
    for text in texts:
        for line in text.splitlines():
            match = re.match(r"\s*\.(?:shell|system)\s+(.*)", line)
            if match:
                yield Effect("shell", match[1])
            match = re.match(r"\s*\.(?:output|once|backup|save|log|import|read|load|open)\s+(\S+)", line)
            if match:
                yield Effect("write", literal(match[1].strip("'\"")))
        if re.search(r"\b(?:drop|delete|truncate)\b", text, re.IGNORECASE):
            yield Effect("discard", None, "deletes data from a database")
    yield Effect("execute", None, "runs SQL", "shell:unknown-code")


PRIVILEGED = frozenset({"sudo", "doas", "su", "pkexec", "runuser"})
_PYTHON = "-c= -m= -W= -X= --check-hash-based-pycs= -B -E -I -O -s -S -u -v -q -i -b -x -d"
_SHELL = (
    "-c -s -i -l -x -e -u -v -n -p -r -o= -O= --rcfile=exec --init-file=exec --norc --noprofile "
    "--posix --login --verbose"
)
_TRUST: Program = program("text*", "", "execute")

PROGRAMS = {
    "sh bash dash zsh ksh mksh ash rbash fish csh tcsh yash": program("text*", _SHELL, handler=_shell),
    "python python2 python3 pypy pypy3 ipython bpython micropython": program(
        "text*", _PYTHON, handler=code_from("python", "-c")
    ),
    "node nodejs ": program(
        "text*",
        "-e= --eval= -p= --print= -r=exec --require=exec --import=exec --loader=exec "
        "--experimental-loader=exec --env-file=read -i -c --check --test --watch -pe= "
        "--inspect --inspect-brk",
        handler=code_from("node", "-e", "--eval", "-p", "--print", "-pe"),
    ),
    "deno": program(
        "text*",
        "",
        subs={
            "eval": program("text*", "-p", handler=lambda call: (code("node", word) for word in call.operands[:1])),
            "info types  help": program("maybe*"),
            "*": _TRUST,
            "": _TRUST,
        },
    ),
    "perl": program("text*", "-e= -E= -M= -m= -I=list -i? -n -p -l? -a -F= -w -0? -s -T -x? -d? -D? -C?", handler=None),
    "ruby": program(
        "text*", "-e= -r=exec -I=list -C=list -i? -n -p -l -a -F? -w -W? -x? -K?", handler=code_from("ruby", "-e")
    ),
    "php": program(
        "text*",
        "-r= -f=exec -B= -R= -E= -F=exec -S=network -t=list -c=exec -d= -z=exec -a -i -m -l=read",
        handler=code_from("php", "-r", "-B", "-R", "-E"),
    ),
    "lua luajit": program("text*", "-e= -l=exec -i -v -E -W", handler=code_from("lua", "-e")),
    "expect": program("text*", "-c= -f=exec", handler=_expect),
    "wish tclsh": _TRUST,
    "R Rscript julia octave ghci runghc runhaskell scala kotlin groovy jshell java elixir iex erl "
    "clojure clj racket guile sbcl swipl gnuplot maxima "
    "gp sage irb tsx ts-node coffee  wasmtime wasmer qemu-x86_64 qemu-system-x86_64 wine mono ": program(
        "text*", "-e= -E= --eval= -o=write -f=exec -file=exec", "execute"
    ),
    "emacs emacsclient": program(
        "text*",
        "-eval= --eval= -e= -l=exec -load=exec --load=exec -f= -nw -Q -q -batch --batch -t -c -a=program -u=",
        handler=_editor,
        single=True,
    ),
    "ed red ex vi vim nvim view vimdiff rvim nano pico micro helix hx kak joe mg jed": program(
        "text*",
        "-c= --cmd= + -s -S=exec -u=exec -U=exec -i= -w=write -e -E -n -R -d -es -eval= --eval= -l=exec "
        "--load=exec -batch --batch -q -p= --remote-expr=",
        handler=_editor,
    ),
    "code subl atom gedit kate zed": program("text*", "", "desktop"),
    "sqlite3 sqlite duckdb": program(
        "text*",
        "-cmd= --cmd= -init=exec --init=exec -separator= -header -csv -json -line -readonly -batch",
        handler=_sqlite,
        single=True,
    ),
    "crash mdb pwsh powershell elvish nu xonsh": _TRUST,
}


def _perl(call: SortedWords) -> Iterator[Effect]:
    yield from code_from("perl", "-e", "-E")(call)
    if call.has("-i"):
        for word in call.operands:
            yield Effect("write", word)
    elif call.values("-e", "-E"):
        yield from of_operands(call.operands, "read*")
    for word in call.values("-M", "-m"):
        if re.match(r"(?:IO::Socket|Socket|LWP|HTTP|Net::)", word.start):
            yield Effect("network")


PROGRAMS["perl"] = program(
    "text*", "-e= -E= -M= -m= -I=list -i? -n -p -l? -a -F= -w -0? -s -T -x? -d? -D? -C?", handler=_perl
)
