"""Match command patterns such as `Bash(git diff *)` against the parts of a shell script.

A pattern is read as a command line: quotes group words, `*` matches any text, including several words. ` *` at the end,
if it is the only star, also matches the bare command; `:*` at the end is the same; `\\*` is a literal star. It is
compared with the argument vector of each command in the script, so quoting cannot make one command look like another.
To refuse or ask, one matching part is enough: anywhere in the script, under its program's plain name, and without the
options before its subcommand (`git -C dir push`). A part that is known only at run time counts as a possible match. To
allow, every part must be known and matched: `allowed_scripts` has the conditions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Literal

from ...core.dataclass import dataclass
from ...core.text import lazy_regex, wildcard

if TYPE_CHECKING:
    from ..shell.parts import Command, Script, Word

SEPARATOR = "\0"
Certainty = Literal["yes", "maybe", "no"]

# Options before a subcommand that take the next word as their value. Other options there take no value.
VALUED = {
    name: frozenset(options.split())
    for name, options in {
        "git": "-C -c --git-dir --work-tree --namespace --super-prefix --config-env --attr-source",
        "docker": "-c --context -H --host -l --log-level --config --tlscacert --tlscert --tlskey",
        "podman": "-c --connection --log-level --root --runroot --url --identity",
        "kubectl": "-n --namespace --context --cluster --user --kubeconfig -s --server --token --as -v",
        "helm": "-n --namespace --kube-context --kubeconfig",
        "npm": "--prefix -C -w --workspace --userconfig --registry",
        "pnpm": "-C --dir -F --filter",
        "yarn": "--cwd",
        "cargo": "-C --config --color -Z",
        "gh": "-R --repo",
        "systemctl": "-H --host -M --machine -t --type",
        "terraform": "",
        "aws": "--profile --region --endpoint-url --output --query --color",
        "gcloud": "--project --account --configuration",
    }.items()
}

# Commands of git that do the work of another one: a rule about that one is about these, too.
_PLUMBING = {
    "send-pack": "push", "http-push": "push", "fetch-pack": "fetch", "http-fetch": "fetch", "annotate": "blame",
    "whatchanged": "log", "stage": "add", "checkout-index": "checkout",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class CommandPattern:
    """A pattern, split at its stars. `spec` is its text; `bare` the command that it also matches without arguments.

    `plain` are the pieces as typed. `joins`: the pattern contains operators of the shell.
    """

    spec: str
    pieces: tuple[str, ...]
    bare: str | None
    plain: tuple[str, ...]
    joins: bool

    @property
    def exact(self) -> bool:
        """Whether the pattern has no star."""
        return len(self.pieces) == 1

    def fits(self, joined: str) -> bool:
        """Return whether the pattern matches this argument vector, joined by SEPARATOR."""
        return joined == self.bare or wildcard(self.pieces, joined)

    def fits_source(self, source: str) -> bool:
        """Return whether the pattern matches this text as typed."""
        return wildcard(self.plain, " ".join(source.split()))

    def may_fit(self, parts: tuple[str, ...]) -> bool:
        """Return whether the pattern would match with some text in the unknown places between `parts`."""
        return overlaps(self.pieces, parts) or (self.bare is not None and wildcard(parts, self.bare))


def parse_pattern(spec: str) -> CommandPattern:
    """Return the pattern of a command. Every text is a valid pattern."""
    text = spec.strip()
    if text.endswith(":*"):
        text = f"{text[:-2]} *"
    pieces = _pieces(text, quotes=True) or _pieces(text, quotes=False) or [""]
    bare = pieces[0][:-1] if len(pieces) == 2 and not pieces[1] and pieces[0].endswith(SEPARATOR) else None
    return CommandPattern(spec, tuple(pieces), bare or None, tuple(_typed(text).split(SEPARATOR)),
                          _OPERATOR.search(spec) is not None)  # fmt: skip


def _typed(text: str) -> str:
    """Return the pattern as people type a command, with stars as SEPARATOR and single white space."""
    return re.sub(r"\\(\*)|\*", lambda m: m[1] or SEPARATOR, re.sub(r"\s+", " ", text.replace(SEPARATOR, "")))


def _pieces(text: str, *, quotes: bool) -> list[str] | None:
    """Return the text between the stars, with SEPARATOR between words; None if a quote is not closed."""
    pieces = [""]
    quote = ""
    index = 0
    while index < len(text):
        character = text[index]
        index += 1
        if character == "\\" and quote != "'" and index < len(text):
            following = text[index]
            if not quote or following in '"\\$`*':
                character, index = following, index + 1
            pieces[-1] += character
        elif character == "*":
            pieces.append("")
        elif quotes and character in "\"'" and quote in ("", character):
            quote = "" if quote else character
        elif character.isspace() and not quote:
            if pieces != [""] and not pieces[-1].endswith(SEPARATOR):
                pieces[-1] += SEPARATOR
        elif character != SEPARATOR:
            pieces[-1] += character
    return None if quote else pieces


_MAX_OVERLAP = 600


def overlaps(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Return whether two wildcard patterns can match the same text. For very long ones it may wrongly return True."""
    if len(one) == 1:
        return wildcard(other, one[0])
    if len(other) == 1:
        return wildcard(one, other[0])
    a, b = _spelled(one), _spelled(other)
    row = [True] * (len(b) + 1)  # row[j]: the rest of a from i and the rest of b from j can match the same text
    for j in range(len(b) - 1, -1, -1):
        row[j] = b[j] is None and row[j + 1]
    for i in range(len(a) - 1, -1, -1):
        below, row = row, [False] * (len(b) + 1)
        row[len(b)] = a[i] is None and below[len(b)]
        for j in range(len(b) - 1, -1, -1):
            if a[i] is None or b[j] is None:
                row[j] = below[j] or row[j + 1]
            else:
                row[j] = a[i] == b[j] and below[j + 1]
    return row[0]


def _spelled(pieces: tuple[str, ...]) -> list[str | None]:
    found: list[str | None] = [*pieces[0]]
    for piece in pieces[1:]:
        found += [None, *piece]
    half = _MAX_OVERLAP // 2
    return found if len(found) <= _MAX_OVERLAP else [*found[:half], None, *found[-half:]]


# --- rules that refuse or ask


@dataclass(frozen=True, slots=True)
class UncertainWords:
    """An argument vector with unknown places, in three forms: with fillers, without optional words, and as known
    pieces."""

    filled: str
    least: str
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Subject:
    """One command of a script in the form for patterns that refuse: as typed, in every possible spelling, and the
    commands that a program runs perhaps which runs its operands (`uv run rm x`)."""

    source: str
    known: tuple[str, ...] = ()
    unsure: tuple[UncertainWords, ...] = ()
    perhaps: tuple[str, ...] = ()


def subjects_of(script: Script) -> tuple[Subject, ...]:
    """Return every command of a script, prepared once for all patterns."""
    return tuple(map(_subject, script.commands))


def _subject(command: Command) -> Subject:
    known: list[str] = []
    unsure: list[UncertainWords] = []
    for words in _spellings(command) if command.words else ():
        texts = [word.text for word in words]
        if None not in texts:
            known.append(SEPARATOR.join(text for text in texts if text is not None))
        else:
            unsure.append(UncertainWords(_sample(words, many=True), _sample(words, many=False), _known_parts(words)))
    return Subject(" ".join(command.source.split()), tuple(known), tuple(unsure), tuple(_perhaps(command)))


def _perhaps(command: Command) -> Iterator[str]:
    """Yield what a program may run that runs code or is not known: its words from each operand on, if that is no
    subcommand of its own (`docker rm`), and an operand of several words (`concurrently 'rm x'`)."""
    from ..shell.effects import effects_of
    from ..shell.table import lookup

    if len(command.words) < 2 or not any(effect.kind in _RUNNING for effect in effects_of(command)):
        return
    known = lookup(command.program) if command.program else None
    own = set(known.subs or ()) if known is not None else set[str]()
    for at, word in enumerate(command.args[:_MAX_OPERANDS], 1):
        if not word.start.startswith("-") and (at > 1 or word.text not in own):
            yield _sample((_plain(word), *command.words[at + 1 :]), many=True)
            yield SEPARATOR.join((word.text or "").split())
    if len(command.args) > _MAX_OPERANDS:
        yield _ANYTHING


_RUNNING = frozenset({"execute", "fetch-and-run", "unknown", "check", "code"})
_MAX_OPERANDS = 100  # that are looked at one by one; what follows them counts as any command


def refuses(pattern: CommandPattern, subjects: Iterable[Subject], typed: str, *, unread: bool = False) -> Certainty:
    """Return whether any part of a script matches the pattern, or could. `unread`: a part could not be parsed."""
    if pattern.joins and pattern.fits_source(typed):  # `curl * | sh` is never a single part
        return "yes"
    found: Certainty = "no"
    for subject in subjects:
        if (subject.source and wildcard(pattern.plain, subject.source)) or any(map(pattern.fits, subject.known)):
            return "yes"
        for each in subject.unsure:
            if pattern.fits(each.filled) and pattern.fits(each.least):
                return "yes"
            if pattern.may_fit(each.parts):
                found = "maybe"
        if any(each == _ANYTHING or pattern.fits(each) for each in subject.perhaps):
            found = "maybe"
    return "maybe" if unread else found


_OPERATOR = lazy_regex(r"[|&;<>()\n]")


_FILLER = "\ue000"
"""A private character in place of unknown text, where only a star can match it."""
_ANYTHING = "\ue001"
"""What may be any command."""
_GLOBBED = lazy_regex(r"[*?\[]")


def _sample(words: tuple[Word, ...], *, many: bool) -> str:
    """Return the argument vector with a filler that no pattern contains in the unknown places, or without optional
    words."""
    texts = ["".join(_FILLER if part is None else part for part in word.parts) or _FILLER * word.many
             for word in words if many or not word.many]  # fmt: skip
    return SEPARATOR.join(texts)


def _known_parts(words: tuple[Word, ...]) -> tuple[str, ...]:
    """Return an argument vector as text, split at its unknown places: the pieces of a wildcard pattern."""
    parts = [""]
    absorbs = False  # the unknown part before may be no word at all, so it includes the separator
    for number, word in enumerate(words):
        begins = bool(word.parts and word.parts[0])  # `st$X`: the first word begins with `st`
        if number and not absorbs and (begins or not word.many):
            parts[-1] += SEPARATOR
        if word.many and not begins:
            parts.append("")
            absorbs = number == 0
            continue
        absorbs = False
        for part in word.parts:
            if part is None:
                parts.append("")
            elif word.glob:
                pieces = _GLOBBED.split(part)
                parts[-1] += pieces[0]
                parts += pieces[1:]
            else:
                parts[-1] += part
        if word.many and parts[-1]:
            parts.append("")
    return tuple(parts)


def _spellings(command: Command) -> Iterator[tuple[Word, ...]]:
    """Yield the words as they are, with the program's plain name, and without options before the subcommand."""
    from ..shell.parts import Word

    words = command.words
    yield words
    if (first := _plain(words[0])) is not words[0]:
        words = (first, *words[1:])
        yield words
    plain = first.text
    if plain is None:
        return
    if plain.startswith("git-"):
        words = (Word(("git",)), Word((plain[4:],)), *words[1:])
        plain = "git"
        yield words
    if plain in VALUED:
        rest = after_options(words[1:], VALUED[plain])
        if len(rest) < len(words) - 1:
            yield (words[0], *rest)
        if plain == "git" and rest:
            meant = list(_git_aliases(words[1 : len(words) - len(rest)], rest[0]))
            if not meant and rest[0].text is not None and not _is_of_git(rest[0].text):
                meant = [(Word((None,), many=True),)]  # perhaps an alias of the repository's settings
            if (meaning := _PLUMBING.get(rest[0].text or "")) is not None:
                meant.append((Word((meaning,)),))
            yield from ((words[0], *each, *rest[1:]) for each in meant)


def _plain(program: Word) -> Word:
    """Return a program without its folder; a part of its name may be unknown (`/usr/bin/r?`, `$DIR/rm`). zsh looks for
    `=rm` in the folders of PATH."""
    from ..shell.parts import Word

    for at in range(len(program.parts) - 1, -1, -1):
        part = program.parts[at]
        if part is not None and ("/" in part or (part[:1] == "=" and not at)):
            name = (part.rpartition("/")[2].removeprefix("="), *program.parts[at + 1 :])
            return Word(name, glob=program.glob, many=program.many)
    return program


def _is_of_git(name: str) -> bool:
    from ..shell.table import lookup

    known = lookup("git")
    return known is not None and known.subs is not None and name in known.subs


def _git_aliases(options: tuple[Word, ...], used: Word) -> Iterator[tuple[Word, ...]]:
    """Yield what git's options make of the subcommand: `-c alias.x=push` makes `x` mean `push` (git-config(1))."""
    from ..shell.parts import Word

    for before, word in zip(("", *(option.text for option in options)), options, strict=False):
        if before == "-c" or before == "--config-env" or word.start.startswith("--config-env="):
            name, _, value = (word.text or "").removeprefix("--config-env=").partition("=")
            known = word.text is not None and used.text is not None
            if known and name.casefold() != f"alias.{used.text}".casefold():
                continue
            if known and before == "-c" and not value.startswith("!"):
                yield tuple(Word((part,)) for part in value.replace("'", "").replace('"', "").split())
            else:
                yield (Word((None,), many=True),)


def after_options(words: tuple[Word, ...], valued: frozenset[str]) -> tuple[Word, ...]:
    """Return the words after the options before a subcommand; the options in `valued` take the next word."""
    at = 0
    while at < len(words) and words[at].start.startswith(("-", "+")):
        at += 2 if words[at].text in valued else 1
    return words[at:]
