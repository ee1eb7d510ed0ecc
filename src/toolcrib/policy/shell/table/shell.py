"""Judge the shell's own commands."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import cycle, pairwise

from ....core.text import lazy_regex
from ..parts import Effect, Word
from ..shell_state import NUMBER, SECRET_NAME
from ..sorting import cut, literal
from .loading_variables import PROGRAMS, assignment
from .program_spec import SortedWords
from .wordlist import words

_UNKNOWN = Word((None,))
_WHOLE = "prints the whole environment"
SET_NAMES = words("errexit nounset pipefail xtrace verbose noclobber noglob")


def shell_options(words: tuple[Word, ...]) -> tuple[list[str], list[Word], tuple[Word, ...]]:
    """Return the groups of letters among a shell's options, the values of `-o` and `-O`, and the words after these."""
    groups, values, at = list[str](), list[Word](), 0
    while at < len(words) and len(text := words[at].text or "") > 1 and text[0] in "-+" and text != "--":
        at += 1
        if text.startswith("--"):
            at += text in ("--rcfile", "--init-file", "--emulate")
            continue
        named = sum(letter in "oO" for letter in text[1:])
        groups.append(text)
        values += words[at : at + named]
        at += named
    return groups, values, words[at:]


def declare(call: SortedWords) -> Iterator[Effect]:
    """`export NAME=value`, `declare -x`, `readonly`, `local`."""
    exported = call.name == "export" or call.has("-x")
    for word in call.operands:
        yield from declared(word, exported)
        if word.text in PROGRAMS and (
            call.has("-n") or not (exported or call.has("-p"))
        ):  # it is not in the environment any more
            yield from assignment(word.text or "", _UNKNOWN)
        if call.has("-p") and "=" not in word.start:
            yield from _printed(word)
        if exported and "=" not in word.start and word.text not in (None, "PATH"):  # any value was not judged for this
            if any(each.kind == "session" for each in assignment(word.start, _UNKNOWN, True)):
                yield Effect("unknown", word, f"sets {word.text} for programs, which may obey it", "shell:variable")
        elif word.text in ("PATH", "path") and call.name != "export":  # in a function it is not set any more
            yield from assignment(word.text, _UNKNOWN)
    if all(word.text == "-" for word in call.operands):  # which zsh takes for the end of the options
        yield Effect("unknown", None, _WHOLE, "shell:environment")


def declared(word: Word, exported: bool = False) -> Iterator[Effect]:
    """Yield the effects of the assignment in a word `NAME=value`."""
    match = re.match(r"([A-Za-z_][\w%]*)(?:\[[^\]]*\])?\+?=", word.start)
    if match:
        source = word.source.partition("=")[2] or word.source
        yield from assignment(match[1], replace(cut(word, match.end()), source=source), exported)
    elif word.text is None:
        yield Effect("unknown", word, "sets a variable that is known only when it runs", "shell:unknown-option")


def env(call: SortedWords) -> Iterator[Effect]:
    """env without a program prints the environment. What it sets for a program is judged with that. `exec -c` takes
    all variables away, too."""
    if call.name == "env" and not any("=" not in word.start and word.text != "-" for word in call.operands):
        yield Effect("unknown", None, _WHOLE, "shell:environment")
    for word in call.values("-u", "--unset"):
        yield from assignment(word.text or "PAGER", _UNKNOWN)
    if call.has("-i", "-c", "--ignore-environment") or any(word.text == "-" for word in call.operands[:1]):
        phrase = "takes all variables away, and so those that keep pagers closed"
        yield Effect("unknown", None, phrase, "shell:variable")


def printenv(call: SortedWords) -> Iterator[Effect]:
    """printenv: single variables are harmless, unless their names suggest a secret."""
    if not call.operands:
        yield Effect("unknown", None, _WHOLE, "shell:environment")
    for word in call.operands:
        yield from _printed(word)


def _printed(word: Word) -> Iterator[Effect]:
    if word.text is None or SECRET_NAME.search(word.text):
        yield Effect("unknown", word, "prints a variable that may hold a secret", "shell:environment")


def options(call: SortedWords) -> Iterator[Effect]:
    """set and shopt: they change options; alone they print every variable."""
    texts = [word.text or "" for word in call.command.args]
    if not texts and call.name == "set":
        yield Effect("unknown", None, _WHOLE, "shell:environment")
    if call.name == "set" and any(text == "allexport" or re.match(r"-\w*a", text) for text in texts):
        yield Effect("session", None, "gives programs all variables, which they may obey")
    if "history" in texts and any(text.startswith("+") for text in texts):
        yield Effect("log", None, "turns the shell's history off", "shell:history")


def names(call: SortedWords) -> Iterator[Effect]:
    """read, mapfile, getopts, let, unset, wait -p, printf -v: they set or remove variables."""
    if call.name == "read":
        yield from _computed(call.values("-t", "-n"))
    words = [*call.operands[call.name == "getopts" :], *call.values("-a", "-p", "-v")] if call.name != "wait" else []
    words += [word for name, word in call.odd if name in ("-p", "-v")]
    for word in words:
        names = [word.text]
        if call.name == "let":
            plain_sum = re.fullmatch(r"[A-Za-z_]\w*=[\d\s+*/%()-]+", word.text or "")
            names = re.findall(r"[A-Za-z_]\w*", word.text or "") + ([] if plain_sum else ["-"])
        for name in names:
            if name is None or not re.fullmatch(r"[A-Za-z_]\w*(?:\[\d+\])?", name):
                if call.name != "unset" or name is None or not {*name}.isdisjoint("[*?<(^~#"):
                    yield Effect("unknown", word, "sets a variable that is not a plain name", "shell:arithmetic")
            elif call.name == "unset" and name.startswith("HIST"):
                yield Effect("log", word, "keeps the shell's history from being written")
            else:
                yield from assignment(name.partition("[")[0], _UNKNOWN)


_COMPUTED = lazy_regex(r"[-+ ]*+(?:0[xX][0-9a-fA-F]+|[0-9]*(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?) *|['\"].?")
_COUNTS = lazy_regex(r"%[^a-zA-Z%]*n")
_CONVERSION = lazy_regex(r"%[^a-zA-Z%]*([a-zA-Z])")


def computes(call: SortedWords) -> Iterator[Effect]:
    """zsh computes with the numbers of `exit`, `shift`, `printf %d`, and runs what is in their subscripts."""
    words, kinds = list(call.command.args), ["d"]
    if call.name == "printf":
        if words and words[0].start.startswith("-v"):
            words = words[2 if words[0].text == "-v" else 1 :]
        words = words[1 if words and words[0].text == "--" else 0 :]
        shape = words.pop(0).text if words else ""
        kinds = ["d"] if shape is None or "*" in shape else _CONVERSION.findall(shape) or ["s"]
    yield from _computed(word for word, kind in zip(words, cycle(kinds), strict=False) if kind not in "sbqc")


def _computed(words: Iterable[Word]) -> Iterator[Effect]:
    """Yield an effect for each word that zsh computes with and that is not a number: it may run what a name holds."""
    for word in words:
        number = word.parts == NUMBER or word.source.strip('"') in ("$?", "$#")
        if not number and (word.text is None or not _COMPUTED.fullmatch(word.text)):
            yield Effect("unknown", word, "gives a text as a number, which zsh would evaluate", "shell:other-shell")


def printf(call: SortedWords) -> Iterator[Effect]:
    """printf -v sets a variable, and so does `%n` in its format."""
    yield from computes(call)
    words = call.command.args
    rest = list(words[2 if words and words[0].text == "-v" else 0 :])
    shape, *given = rest[1:] if rest and rest[0].text == "--" else rest or [Word(("",))]
    if shape.glob or (given and (shape.text is None or _COUNTS.search(shape.text))):
        said = "sets variables by its format" if shape.text else "has a format that is known only when it runs"
        yield Effect("unknown", shape, said, "shell:arithmetic")
    first = words[0] if words else Word(("",))
    if first.start.startswith("-v"):
        name = first.start[2:] or (words[1].text if len(words) > 1 else None)
        if name is None or not name.isidentifier():
            yield Effect("unknown", None, "sets a variable that is not a plain name", "shell:arithmetic")
        else:
            yield from assignment(name, _UNKNOWN)


def tests(call: SortedWords) -> Iterator[Effect]:
    """test -v evaluates the subscript of what it is given, and -t in zsh a number."""
    for flag, word in pairwise((*call.command.args, Word(("]",)))):
        unknown = flag.text is None and flag.start in ("", "-")
        harmless = flag.one_name and word.text is not None and "[" not in word.text
        if flag.splits or (not harmless and flag.glob and any(fnmatchcase(name, flag.start) for name in ("-v", "-R"))):
            yield Effect("unknown", flag, "has names of files that may be -v", "shell:arithmetic")
        elif unknown and (flag.many or word.text is None or "[" in word.text):
            yield Effect("unknown", flag, "has words that could be -v, known only when it runs", "shell:arithmetic")
        elif flag.text == "-t" and word.text != "]":
            yield from _computed([word])
        elif flag.text in ("-v", "-R") and not (word.text or "-").isidentifier():
            yield Effect("unknown", word, "tests a variable that is not a plain name", "shell:arithmetic")


def nohup(call: SortedWords) -> Iterator[Effect]:
    """nohup: what its command prints goes to nohup.out, where the output is a terminal."""
    if not any(redirect.op.startswith((">", "&>")) and redirect.fd in (None, 1) for redirect in call.command.redirects):
        yield Effect("create", literal("nohup.out"))
