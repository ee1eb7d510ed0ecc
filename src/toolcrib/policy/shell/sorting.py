"""Sort a program's words into options, their values and operands, as getopt does.

For a closed row only what is written out counts: an option that is abbreviated, negated, given twice or not listed is
`unlisted`. For an open row everything that is not listed is kept, too, because its name or value may show harm.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from .parts import Command, Word
from .table.program_spec import GivenOption, Program, ProgramOption, SortedWords, parse_options


def literal(text: str) -> Word:
    """Return a word that is known."""
    return Word((text,), text)


def cut(word: Word, count: int) -> Word:
    """Return a word without its first characters, which must be known."""
    return replace(word, parts=((word.parts[0] or "")[count:], *word.parts[1:]), many=False)


def sort_words(
    name: str, program: Program, words: Sequence[Word], command: Command, above: SortedWords | None = None
) -> SortedWords:
    """Sort a program's words (without its name) into options and operands, as getopt does."""
    if not words:
        return SortedWords(name, program, command, above=above)
    sorter = _Sorter(program, above is not None)
    sorter.read(words, stop_at_operand=program.subs is not None or program.wrapper)
    if sorter.waiting is not None and program.closed and sorter.waiting[1].role != "text":
        sorter.unlisted.append(sorter.waiting[0])  # `history -r` reads a file of its own
    return SortedWords(
        name, program, command, tuple(sorter.options), tuple(sorter.operands), sorter.unsure,
        tuple(sorter.unlisted), tuple(sorter.odd), above, len(words) - len(sorter.operands), tuple(sorter.doubtful),
    )  # fmt: skip


_MAX_CLUSTER = 500  # letters of short options


class _Sorter:
    """The state of one pass over a program's words."""

    def __init__(self, program: Program, above: bool) -> None:
        self.program, self.table = program, parse_options(program.options, program.single)
        self.options: list[GivenOption] = []
        self.operands: list[Word] = []
        self.unlisted: list[str] = []
        self.odd: list[tuple[str, Word]] = []
        self.doubtful: list[int] = []
        self.unsure = False
        self.waiting: tuple[str, ProgramOption] | None = None
        self.before = ""  # an unlisted option, whose value may be the next word
        reads = program.closed and "read" in program.operands and not (program.wrapper or program.permutes)
        self.below = program.closed and above
        self.late = reads and not above  # whether an option after an operand may be one more operand

    def read(self, words: Sequence[Word], stop_at_operand: bool) -> None:
        for index, word in enumerate(words):
            if self.waiting is not None:
                # not each sub-command takes it for a value: `git shortlog -n --output=x`
                if self.below and not re.fullmatch(r"-?\d+|[^-].*", word.start, re.DOTALL):
                    self.unlisted.append(f"{self.waiting[0]} {word.start}")
                self._give(*self.waiting, word)
                if self.late and self.operands and not self.waiting[0].startswith("--"):
                    self._operand(word)
                self.waiting = None
                if word.many or word.glob:  # it may be several words, or no word at all
                    self.unsure |= word.many or not (word.one_name or self.program.single)
                    self.operands += (word, word)
                continue
            start = word.start
            if self.program.ordered and self.operands and start[:1] == "-" != start:
                self.unlisted.append(f"{start} after an operand")
            if word.glob and start[:1] in ("*", "?", "["):
                self.unsure |= self.program.harmful  # it begins with a dash only if a file has such a name
            if start[:1] != "-" or start == "-":
                self.unsure |= start in ("", "-") and word.text is None
                if self.before:
                    self._odd(self.before, word)
                    self.before = ""
                self._operand(word)
            elif start == "--" and word.text == "--":
                for rest in words[index + 1 :]:
                    self._operand(rest)
                return
            else:
                self.before = ""
                self._option(word, start)
                self.doubtful += (index + 1, index + 2) if self.before else ()
                continue
            if stop_at_operand:
                self.operands += words[index + 1 :]
                return

    def _operand(self, word: Word) -> None:
        """Note an operand. A pattern may be several files, of which a program with a role for each takes the second
        for something else: `uniq [ab]` writes to `b`, `grep * f` reads all but the first."""
        several = word.glob and not word.one_name and " " in self.program.operands
        self.operands += (word, word) if several else (word,)

    def _give(self, name: str, option: ProgramOption, value: Word | None) -> None:
        once = value is not None and self.program.closed and not option.repeats
        if once and any(given.name == name for given in self.options):
            self.unlisted.append(name)
        self.options.append(GivenOption(name, option, value))

    def _option(self, word: Word, start: str) -> None:
        if start.startswith("--") or self.program.single or (len(start) > 2 and start in self.table):
            self._long(word, start)
        elif "-#" in self.table and re.fullmatch(r"-\d+", word.text or ""):
            self._give("-#", self.table["-#"], None)
        else:
            self._cluster(word, start)

    def _unlisted(self, name: str, value: Word | None = None) -> None:
        self.unlisted.append(name)
        if value is not None:
            self._odd(name, value)
        else:
            self.before = name
            self._shortened(name, None)

    def _odd(self, name: str, value: Word) -> None:
        self.odd.append((name, value))
        self._shortened(name, value)

    def _shortened(self, name: str, value: Word | None) -> None:
        """Note the options that one may stand for that is not listed: `git fetch --upload-pa=./x`, `sed --in-p`."""
        for full, option in self.table.items() if name.startswith("--") and len(name) > 2 else ():
            does = option.takes if value is not None else option.effect or option.operands
            if full.startswith(name) and (option.attached or does):
                self._give(full, option, value)

    def _long(self, word: Word, start: str) -> None:
        name, equals, _ = start.partition("=")
        if not equals and word.text is None:
            self.unsure = True
        option = self.table.get(name)
        value = cut(word, len(name) + 1) if equals else None
        if option is None or (value is not None and self.program.closed and not (option.takes or option.attached)):
            self._unlisted(name, value)
        elif value is None and option.takes:
            self.waiting = (name, option)
        else:
            self._give(name, option, value)

    def _cluster(self, word: Word, start: str) -> None:
        if len(start) > _MAX_CLUSTER:  # for each letter, what follows it would be looked at
            self.unsure = True
            self._unlisted(f"{start[:20]}…", cut(word, 2))
            return
        for at in range(1, len(start)):
            name = f"-{start[at]}"
            option = self.table.get(name)
            rest = at + 1 < len(start) or len(word.parts) > 1
            if option is None:
                self._unlisted(name, cut(word, at + 1) if rest else None)
            elif option.takes and rest:
                self._give(name, option, cut(word, at + 1))
                return
            elif option.takes:
                self.waiting = (name, option)
                return
            else:
                self._give(name, option, cut(word, at + 1) if option.attached and rest else None)
                if option.attached and rest:
                    return
        if len(word.parts) > 1:  # `-r$x`: more letters, which are not known
            self.unsure = True
