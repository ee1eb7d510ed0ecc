"""Say what the options and operands of a program do, by the roles that its row in the table gives them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from urllib.parse import unquote

from ...boundary.sensitive_names import sensitive_by
from ...core.text import lazy_regex
from .kinds import PATH_KINDS
from .parts import Effect, Word
from .sorting import cut, literal
from .table.places import SECRET_SAMPLES
from .table.program_spec import Program, SortedWords, parse_operands
from .table.wordlist import words


def plain(call: SortedWords, operands: str | None = None) -> list[Effect]:
    """Return the effects that follow from the roles of options and operands alone."""
    found = list(of_options(call))
    program = call.program
    found += of_unsure(call)
    found += [Effect(kind) for kind in program.does]
    if operands is None:
        operands = program.operands
        changed = next((given.option.operands for given in call.options if given.option.operands), "")
        if changed:
            operands = " ".join(
                role if role.rstrip("*") == "text" else changed + "*" * role.endswith("*") for role in operands.split()
            )
    found += of_operands(call.operands, operands)
    if only_reads(program, found):  # what else its options do, also abbreviated ones, is not listed
        found.append(Effect("unknown"))
    if program.otherwise and any(effect.kind == "unknown" for effect in found):
        found.append(Effect(program.otherwise))
    return found


def only_reads(program: Program, effects: Iterable[Effect]) -> bool:
    """Return whether an open program, which runs no other one, has no effects but these, and they are reading alone."""
    return not (program.closed or program.wrapper) and all(each.kind in ("read", "list") for each in effects)


def of_unsure(call: SortedWords) -> Iterator[Effect]:
    """Yield the question about words that could be options."""
    if call.unsure and not call.program.anything and (call.program.closed or call.program.options):
        said = "has words that could be options, known only when it runs"
        yield Effect("unknown", None, said, "shell:unknown-option")


def of_options(call: SortedWords) -> Iterator[Effect]:
    """Yield the effects of the given options: by their roles, and if they are not listed, by their names."""
    for given in call.options:
        if given.option.effect:
            said = "" if given.option.effect != "unknown" else f"uses {given.name}"
            yield Effect(given.option.effect, given.value, said)
        if given.value is not None and given.option.role != "text":
            yield from of_role(given.option.role, given.value)
    if call.program.anything:
        return
    if call.program.closed:
        for name in call.unlisted:
            said = f"has an option that is not known to be harmless ({name})"
            yield Effect("unknown", None, said, "shell:unknown-option")
    for name, word in call.odd:
        yield from of_unlisted(name, word)


_WRITES = lazy_regex(r"-[oO]|-(?=[\w-]*(?:out|log(?!ical)|save|dump|dest|write|report|trace|jar|cache|stderr))[\w-]+")
_NAMES_PROGRAM = words(
    """
    --to-command --use-compress-program --rsh --rsh-command --rmt-command --pager --pre --checkpoint-action
    --info-script --new-volume-script --compress-program --diff-program --hostname-bin --exec-path --engine --provider
    -engine -provider --strip-program --open-files-in-pager
    """
)


_NOT_SHORT = ("--check", "--script", "--host", "--exec", "--prefix")


def _names_program(name: str) -> bool:
    """Return whether an option, perhaps abbreviated, names a program to run."""
    return name in _NAMES_PROGRAM or (
        len(name) > 5 and name not in _NOT_SHORT and any(full.startswith(name) for full in _NAMES_PROGRAM)
    )


def of_unlisted(name: str, word: Word) -> Iterator[Effect]:
    """Yield what the value of an option shows whose program does not list it: the option's name says what it is for."""
    if _names_program(name):
        yield from of_program_word(word)
    elif _WRITES.fullmatch(name) and word.text:
        yield Effect("write", word)
    elif PATHISH.match(word.start) or "/" in word.start:
        yield Effect("write" if _WRITES.fullmatch(name) else "read", word)
    else:
        yield from _maybe(word)


def of_operands(words: Sequence[Word], roles: str) -> Iterator[Effect]:
    """Give each operand its role, and yield the effects."""
    first, rest, last = parse_operands(roles)
    ends = len(words) - len(last)
    for index, word in enumerate(words):
        if last and index >= max(ends, len(first)):
            role = last[index - ends]
        else:
            role = first[index] if index < len(first) else rest or "maybe"
        if role != "text":
            yield from of_role(role, word)


def _maybe(word: Word) -> Iterator[Effect]:
    """Treat a word as a path if it looks like one: it points elsewhere, or is the name of a secret (`HEAD:.env`)."""
    text = word.text
    if PATHISH.match(word.start) or (text is None and word.glob):
        yield Effect("read", word)
        return
    yield from _secret_in(text or "", "@", ":")


def _secret_in(text: str, *signs: str) -> Iterator[Effect]:
    """Yield the secret that a text names as a whole, or after one of the signs by which programs mean a file (`@x`)."""
    for name in (text, *(text.partition(sign)[2] for sign in signs)):
        if name and sensitive_by(name) is not None:
            yield Effect("read", literal(name))
            return


def _of_revision(word: Word) -> Iterator[Effect]:
    """Treat an operand of git as a path or a pattern of paths (gitglossary(7), "pathspec"), which may follow a revision
    (`HEAD:a.txt`). Branches do no harm. A pattern counts if it means secrets: git follows no links."""
    text = _MAGIC.sub("", word.text or "")
    if word.text and not text:  # a path that is left out
        return
    yield from _maybe(word)
    path = text.rpartition(":")[2]
    if not re.search(r"[*?\[]", path):
        if path:
            yield Effect("read", literal(path))
    elif any(fnmatchcase(sample, path.rpartition("/")[2].lstrip("*")) for sample in SECRET_SAMPLES):
        yield Effect("read", Word((path,), word.source, glob=True))


_MAGIC = lazy_regex(r":(?:[!^].*|\([^)]*\bexclude\b.*|\([^)]*\)|/)", re.DOTALL)

# A command line that only starts a shell.
SHELL_ONLY = lazy_regex(r"(?:exec\s+)?(?:/usr)?(?:/bin/)?(?:ba|da|z|k|c|tc|fi)?sh(?:\s+-[ilps]+)*(?:\s+[0-9<>&]+)*")
PATHISH = lazy_regex(r"(?:[/~]|\.\.?(?:/|\Z)|file:)|.*/\.\.(?:/|\Z)", re.DOTALL)
_LOOKS = ("get", "list", "ls", "show", "dir", "info", "debug")
_PACKED = ("", ".gz", ".z", "-z", ".Z", ".zip", ".ZIP")
CHECKS_SIGNATURES = lazy_regex(r"%[-+ ]?G|(?i:signature)")
"""What makes git check a signature, in a format or a key to sort by: gpgsm fetches what a certificate names."""
HARMLESS_PROGRAM = lazy_regex(r"\s*|(?:cat|head|tail|true|false|:)(?: -\w+)*")
_FILE_ADDRESS = lazy_regex(r"\s*(?:file|[^:/]*\*[^:/]*):(?://[^/]*(?=/))?([^?#]*).*", re.IGNORECASE)
_PAGER = lazy_regex(r"(?:less|more)(?: -\w+)*")


def of_role(role: str, word: Word) -> Iterator[Effect]:
    """Yield the effects of a word in a role."""
    if role in PATH_KINDS:
        if role != "send" or word.text != "-":  # `-` is the input from a pipe
            yield Effect(role, word)
    elif role == "maybe":
        yield from _maybe(word)
    elif role == "packed":  # gzip and unzip look for the name with a suffix, too, which may be a link
        yield from (Effect("read", replace(word, parts=(*word.parts, suffix))) for suffix in _PACKED)
    elif role == "rev":
        yield from _of_revision(word)
    elif role == "maybelist":
        if PATHISH.match(word.start):
            yield Effect("list", word)
    elif role in ("remote", "remotewrite"):
        here = "read" if role == "remote" else "write"
        before_slash = "".join(part or "" for part in word.parts).partition("/")[0]
        yield Effect("network" if ":" in before_slash else here, word)
    elif role in ("host", "url"):
        yield from _of_address(word)
        if role == "url" and "/" not in (word.text or "").partition("@")[0]:
            yield from _secret_in(word.text or "", "@")
    elif role == "network":
        yield Effect(role, word)
        yield from _maybe(word)
    elif role == "program":
        yield from of_program_word(word)
    elif role == "exec":
        yield Effect("execute", word, f"runs {word.text or 'something'}, whose code is not known", "shell:script")
    elif role == "aptsetting":
        text = "".join(part or "" for part in word.parts)
        yield Effect("unknown", word, "gives apt a setting", "shell:unknown-option")
        if re.search(r"invoke|dir::bin|::run\b|proxy-auto-detect", text, re.IGNORECASE):
            yield Effect("hijack", word, "makes apt run a program")
    elif role == "none" or (role == "name" and re.search(r"=|[./]{2}", "".join(part or "=" for part in word.parts))):
        yield Effect("unknown", word, "has an operand that is not known here", "shell:unknown-use")
    elif role == "format":  # of git: it may check signatures
        if word.text is None or CHECKS_SIGNATURES.search(word.text):
            yield Effect(
                "unknown", word, "may check signatures, for which gpg reaches the network", "shell:unknown-use"
            )
    elif role == "look":
        if word.text not in _LOOKS:
            yield Effect("persist", word)
    elif role == "data":  # curl's -d: `@file` is read
        at = word.start.find("@")
        if at >= 0:
            yield from of_role("send", cut(word, at + 1))
    elif role not in ("text", "name"):
        yield Effect(role, word)


def of_program_word(word: Word) -> Iterator[Effect]:
    """Yield the effect of naming a program to run instead of a tool's own (a pager, an editor, a remote shell)."""
    text = word.text
    if text is not None and HARMLESS_PROGRAM.fullmatch(text):
        return
    if text is not None and _PAGER.fullmatch(text):
        yield Effect("unknown", word, f"opens {text}, which runs what is typed into it", "shell:pager")
        return
    yield Effect("hijack", word, f"makes another program run {text or 'something'}", "shell:hijack")


def choices(word: Word) -> list[Word]:
    """Return what the patterns of an address or a name for curl may select (`{a,.env}`, `.en[t-v]`), one set of braces
    at a time, and `*` for the others. Empty if there is no pattern."""
    parts = re.split(r"(\{[^}]*\}|\[[^\]]*\])", word.start)
    found: list[Word] = []
    for at in range(1, len(parts), 2):
        for choice in parts[at][1:-1].split(",") if parts[at][0] == "{" else "*":
            text = "".join(choice if i == at else "*" if i % 2 else part for i, part in enumerate(parts))
            found.append(replace(word, parts=(text, *word.parts[1:]), glob=word.glob or "*" in text))
    return found


def _of_address(word: Word) -> Iterator[Effect]:
    """Yield what an address means: a host, or with `file:` a path, in which each sign may be written as `%41`."""
    known = None not in word.parts and not word.many
    text = "".join(part or "" for part in word.parts) if known else word.start
    files = [each for each in choices(literal(text)) or [literal(text)] if _FILE_ADDRESS.match(each.start)]
    for each in files:
        path = unquote(_FILE_ADDRESS.sub(r"\1", each.start))
        glob = (each.glob or word.glob) and ("*" in path or "[" in path)  # `?` was where a query begins
        yield Effect("read", replace(word, parts=(path,), glob=glob) if known else word)
    if not files:
        yield Effect("network", word)
