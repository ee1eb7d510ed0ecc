"""Sort a program's words into options, their values and operands, as getopt does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from .parts import Command, Word
from .table.spec import Option, Program, is_harmful, parse_options


@dataclass(slots=True, unsafe_hash=True)
class GivenOption:
    """A given option: its name in the table, what it does, and its value."""

    name: str
    option: Option
    value: Word | None


@dataclass(slots=True, unsafe_hash=True)
class SortedWords:
    """A program's words, sorted. `unsure` says that a word known only at run time could be an option."""

    name: str
    program: Program
    command: Command
    options: tuple[GivenOption, ...] = ()
    operands: tuple[Word, ...] = ()
    unsure: bool = False
    unlisted: tuple[str, ...] = ()
    odd: tuple[Word, ...] = ()
    above: SortedWords | None = None

    def has(self, *names: str) -> bool:
        """Return whether one of these options was given."""
        return any(given.name in names for given in self.options)

    def values(self, *names: str) -> list[Word]:
        """Return the values given to these options."""
        return [given.value for given in self.options if given.name in names and given.value is not None]

    def texts(self) -> list[str | None]:
        """Return the operands as far as they are known."""
        return [word.text for word in self.operands]


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
    table = parse_options(program.options)
    sorter = _Sorter(program, table)
    sorter.run(words, stop_at_operand=program.subs is not None or program.wrapper)
    unsure = sorter.unsure or (sorter.mild and is_harmful(program.options))
    return SortedWords(
        name, program, command, tuple(sorter.options), tuple(sorter.operands), unsure,
        tuple(sorter.unlisted), tuple(sorter.odd), above,
    )  # fmt: skip


class _Sorter:
    """The state of one pass over a program's words."""

    def __init__(self, program: Program, table: dict[str, Option]) -> None:
        self.program, self.table = program, table
        self.options: list[GivenOption] = []
        self.operands: list[Word] = []
        self.unlisted: list[str] = []
        self.odd: list[Word] = []
        self.unsure = False
        self.mild = False
        self.guessed = False
        self.waiting: tuple[str, Option] | None = None

    def run(self, words: Sequence[Word], stop_at_operand: bool) -> None:
        for index, word in enumerate(words):
            if self.waiting is not None:
                self._give(*self.waiting, word)
                self.waiting = None
                if self.guessed:
                    self.odd.append(word)
                    self.guessed = False
                if word.many and not word.origin:  # it may be several words, or no word at all
                    self.unsure = True
                    self.operands.append(word)
                continue
            start = word.parts[0] if word.parts and (not word.many or word.origin) else ""
            if word.origin == "listed" and (word.many or (start or "*")[0] in "*?["):
                self.mild = True  # it begins with a dash only if there is a file with such a name
            if not start:
                self.unsure |= word.text is None and not word.origin
                self.operands.append(word)
            elif start[0] == "+" and "+" in self.table and len(start) > 1:
                self._give("+", self.table["+"], cut(word, 1))
                continue
            elif start[0] != "-" or start == "-":
                self.unsure |= start == "-" and word.text is None
                self.operands.append(word)
            elif start == "--" and word.text == "--":
                self.operands += words[index + 1 :]
                return
            else:
                self._option(word, start)
                continue
            if stop_at_operand:
                self.operands += words[index + 1 :]
                return

    def _give(self, name: str, option: Option, value: Word | None) -> None:
        self.options.append(GivenOption(name, option, value))

    def _option(self, word: Word, start: str) -> None:
        if start.startswith("--") or self.program.single or (len(start) > 2 and start in self.table):
            self._long(word, start)
        else:
            self._cluster(word, start)

    def _long(self, word: Word, start: str) -> None:
        name, equals, _ = start.partition("=")
        if not equals and word.text is None:
            self.unsure = True
        option = self.table.get(name)
        short = option is None
        if option is None:
            name, option = self._abbreviated(name)
        if option is None:
            self.unlisted.append(name)
            if equals:
                self.odd.append(cut(word, len(name) + 1))
            return
        if equals:
            self._give(name, option, cut(word, start.index("=") + 1))
        elif option.takes:
            self.waiting = (name, option)
            self.guessed = short  # another option of that name may take no value
        else:
            self._give(name, option, None)

    def _abbreviated(self, name: str) -> tuple[str, Option | None]:
        """Find an option by its start: getopt takes `--outp` for `--output`. Of several the riskiest counts."""
        if len(name) < 3 or self.program.single:
            return name, None
        found = [(full, option) for full, option in self.table.items() if full.startswith(name)]
        found.sort(key=lambda item: not item[1].risky)
        return found[0] if found else (name, None)

    def _cluster(self, word: Word, start: str) -> None:
        if word.text is None and None in word.parts[:1]:
            self.unsure = True
        for at in range(1, len(start)):
            name = f"-{start[at]}"
            option = self.table.get(name)
            rest = at + 1 < len(start) or len(word.parts) > 1
            if option is None:
                self.unlisted.append(name)
                if rest and start[at + 1 : at + 2] in ("/", "~", ".", "="):
                    self.odd.append(cut(word, at + 1))
                    return
                continue
            if option.takes and rest:
                self._give(name, option, cut(word, at + 1))
                return
            if option.takes:
                self.waiting = (name, option)
                return
            self._give(name, option, cut(word, at + 1) if option.attached and rest else None)
            if option.attached and rest:
                return
        if len(word.parts) > 1:  # `-r$x`: more letters, which are not known
            self.unsure = True
