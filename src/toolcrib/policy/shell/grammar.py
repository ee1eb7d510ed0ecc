"""Parse bash into a tree: `parse` turns text into statements and words, and refuses text that it cannot be sure of.

The parser is written by hand after bash 5.2's parse.y and subst.c, because a tree must never hide a command.
tree-sitter-bash 0.25 does hide some, without an error node: it takes `echo a\\<newline>#b; rm x` for a comment, drops
backticks that follow an expansion in a here-document, and splits `$IFS/` into a name `IFS/`. The tests compare this
parser with bash itself.

Nothing is expanded here. Where bash's own reading depends on its version, its options or on odd spelling, the parser
raises `Unsure`; the caller asks a person.
"""

from __future__ import annotations

import re

from ...core.text import lazy_regex
from . import tree
from .lexer import CONTINUED, NAME
from .simple import CLOSERS, FUNCTION_PARENS, OPENERS, REDIRECT, CommandLexer
from .tree import Unsure

_END = r"(?=[ \t\n|&;()<>]|\Z)"  # what ends a word
_RESERVED = lazy_regex(r"(?:[a-z]{2,8}|\{|\}|!|\[\[)" + _END)
_CONTROL = lazy_regex(r"&&|\|\|")


def parse(text: str, posix: bool = False) -> tuple[tuple[tree.Item, ...], Unsure | None]:
    """Return the statements of a script, and the error that stopped the reading, if any (bash runs the lines before).

    With `posix` the shell may be one that knows less (dash): text that such a shell reads differently is an error, too.
    """
    parser = Parser(text, posix=posix)
    items: list[tree.Item] = []
    problem: Unsure | None = None
    try:
        parser.statements(frozenset(), items)
        if parser.i < parser.n:
            raise parser.error("this does not belong here")
        if "\\\n" in text and CONTINUED.search(text):
            raise Unsure("a line is continued inside a word or an operator")
    except Unsure as unsure:
        problem = unsure
    except RecursionError:
        problem = Unsure("it is nested too deeply", rule="shell:nesting")
    return tuple(items), next(iter(parser.doubts), problem)


class Parser(CommandLexer):
    """One pass over a text. After every method `i` is at the end of what it read. Raises `Unsure`."""

    __slots__ = ()

    def reserved(self) -> str:
        """Return the reserved word at this place, or ""."""
        match = _RESERVED.match(self.s, self.i)
        if match is None:
            return ""
        word = match.group()
        return word if word in OPENERS or word in CLOSERS else ""

    def statements(self, stops: frozenset[str], items: list[tree.Item]) -> None:
        """Add statements until a closing word or parenthesis, which is not read."""
        while True:
            char = self.newlines()
            if char == "" or char == ")" or (char == ";" and self.s.startswith((";;", ";&"), self.i)):
                return
            if stops and self.reserved() in stops:
                return
            node = self.and_or()
            char = self.s[self.i : self.i + 1]
            background = False
            if char == "&":
                background = True
                self.i += 1
            elif char == ";" and not self.s.startswith((";;", ";&"), self.i):
                self.i += 1
            elif char not in ("", "\n", ")", ";"):
                raise self.error("a separator is missing")
            items.append(tree.Item(node, background))

    def body(self, *stops: str) -> tuple[tree.Item, ...]:
        """Return the statements up to one of the closing words."""
        items: list[tree.Item] = []
        self.statements(frozenset(stops), items)
        return tuple(items)

    def up_to(self, word: str) -> tuple[tree.Item, ...]:
        """Return the statements up to a closing word, which is read, too."""
        body = self.body(word)
        self.expect(word)
        return body

    def expect(self, word: str) -> None:
        """Skip a reserved word. Raises `Unsure` if it is missing."""
        self.newlines()
        if self.reserved() != word:
            raise self.error(f"{word!r} is missing")
        self.i += len(word)

    def and_or(self) -> tree.Node:
        """Read pipelines joined by `&&` and `||`. Like the methods below, it starts at a word and ends after blanks."""
        first = self.pipeline()
        rest: list[tuple[str, tree.Node]] = []
        while self.s.startswith(("&&", "||"), self.i):
            op = self.s[self.i : self.i + 2]
            self.i += 2
            self.newlines()
            rest.append((op, self.pipeline()))
        return tree.AndOr(first, tuple(rest)) if rest else first

    def pipeline(self) -> tree.Node:
        """Read commands joined by `|` and `|&`, after any `!` and `time`."""
        negated = self.s.startswith(("!", "t"), self.i) and self.prefixes()
        commands = [self.command()]
        while self.s.startswith("|", self.i) and not self.s.startswith("||", self.i):
            self.i += 1
            if self.s.startswith("&", self.i):
                self.bash_only("|&")
                self.i += 1
            self.newlines()
            commands.append(self.command())
        return tree.PipedCommands(tuple(commands)) if negated or len(commands) > 1 else commands[0]

    def prefixes(self) -> bool:
        """Skip `!` and `time -p --`; return whether there was a `!`."""
        negated = False
        while self.skip() in ("!", "t"):
            word = self.reserved()
            if word == "!":
                self.i += 1
                if self.s.startswith("(", self.i):
                    self.no_pattern("!")
                negated = True
            elif word == "time":
                self.bash_only(word)
                self.i += 4
                for option in ("-p", "--"):
                    self.skip()
                    match = re.compile(option + _END).match(self.s, self.i)
                    self.i = match.end() if match else self.i
            else:
                break
        return negated

    def command(self) -> tree.Node:
        """Read one command, simple or compound, with its redirections."""
        if self.s.startswith("(", self.i):
            return self.redirected(self.parenthesis())
        word = self.reserved()
        if not word or word == "time":  # after a bar `time` is a program
            return self.simple()
        if word in CLOSERS:
            raise self.error("this word closes nothing")
        self.enter()
        self.i += len(word)
        node = self.compound(word)
        self.depth -= 1
        return node if isinstance(node, tree.Function) else self.redirected(node)

    def compound(self, word: str) -> tree.Node:
        """Read the compound command that starts with a reserved word."""
        match word:
            case "{":
                return tree.Group(self.up_to("}"), False)
            case "if":
                return self.conditional()
            case "while" | "until":
                return tree.While(self.up_to("do"), self.up_to("done"), word == "until")
            case "for":
                return self.loop()
            case "case":
                return self.case()
            case "function":
                self.bash_only(word)
                return self.function_word()
            case "coproc" | "select":
                raise Unsure(f"`{word}` is not read", word, "shell:rare")
            case "[[":
                self.bash_only(word)
                return self.condition()
            case _:
                raise self.error(f"{word!r} has no command after it")

    def redirected(self, node: tree.Node) -> tree.Node:
        """Return a compound command with the redirections that follow it."""
        redirects: list[tree.Redir] = []
        while self.skip():
            match = REDIRECT.match(self.s, self.i)
            if match is None:
                break
            redirects.append(self.redirect(match))
        if redirects and not isinstance(node, tree.Simple | tree.PipedCommands | tree.AndOr):
            node.redirects = tuple(redirects)
        return node

    def parenthesis(self) -> tree.Node:
        """Read `(( arithmetic ))` or `( subshell )`."""
        self.enter()
        if self.s.startswith("((", self.i):
            self.bash_only("((")
            pieces = self.try_arithmetic(self.i + 2)
            if pieces is not None:
                self.depth -= 1
                return tree.Arithmetic(pieces)
        self.i += 1
        body = self.body()
        self.close(")")
        self.depth -= 1
        return tree.Group(body, True)

    def conditional(self) -> tree.Node:
        """Read if … then … elif … else … fi, after its `if`."""
        clauses: list[tuple[tuple[tree.Item, ...], tuple[tree.Item, ...]]] = []
        otherwise: tuple[tree.Item, ...] = ()
        while True:
            condition = self.up_to("then")
            clauses.append((condition, self.body("elif", "else", "fi")))
            word = self.reserved()
            if word == "elif":
                self.i += 4
                continue
            if word == "else":
                self.i += 4
                otherwise = self.body("fi")
            self.expect("fi")
            return tree.If(tuple(clauses), otherwise)

    def loop(self) -> tree.Node:
        """Read for …, after the word."""
        if self.skip() == "(":
            if not self.s.startswith("((", self.i):
                raise self.error("a name is missing")
            self.bash_only("((")
            pieces = self.try_arithmetic(self.i + 2, semicolons=True)
            if pieces is None:
                raise self.error("'))' is missing")
            if self.skip() == ";":
                self.i += 1
            return tree.ArithFor(pieces, self.loop_body())
        name = self.word()
        if name.plain is None or not NAME.fullmatch(name.plain):
            raise self.error("a loop needs a plain name")
        words = self.loop_words()
        return tree.For(name.plain, words, self.loop_body())

    def loop_words(self) -> tuple[tree.Raw, ...]:
        """Return the list of a for loop. Raises `Unsure` if there is no `in`."""
        self.newlines()
        if not self.says_in():
            raise Unsure("a loop over the arguments of the shell is not read", "for", "shell:rare")
        words: list[tree.Raw] = []
        while (char := self.skip()) not in ("", ";", "\n"):
            words.append(self.word())
        if char == ";":
            self.i += 1
        return tuple(words)

    def says_in(self) -> bool:
        """Skip the word `in`; return whether it is there."""
        match = re.compile("in" + _END).match(self.s, self.i)
        self.i = match.end() if match else self.i
        return match is not None

    def loop_body(self) -> tuple[tree.Item, ...]:
        """Read do … done, or { … }."""
        self.newlines()
        opener = self.reserved()
        if opener not in ("do", "{"):
            raise self.error("'do' is missing")
        self.i += len(opener)
        return self.up_to("done" if opener == "do" else "}")

    def case(self) -> tree.Node:
        """Read case … esac, after its `case`."""
        self.skip()
        subject = self.word()
        self.newlines()
        if not self.says_in():
            raise self.error("'in' is missing")
        items: list[tuple[tuple[tree.Raw, ...], tuple[tree.Item, ...]]] = []
        while True:
            char = self.newlines()
            if self.reserved() == "esac":
                self.i += 4
                return tree.Case(subject, tuple(items))
            if char == "(":
                self.i += 1
                self.skip()
            patterns = [self.word()]
            while self.skip() == "|":
                self.i += 1
                self.skip()
                patterns.append(self.word())
            self.close(")")
            items.append((tuple(patterns), self.body("esac")))
            if self.s.startswith((";&", ";;&"), self.i):
                raise Unsure(
                    "a branch that goes on in the next one is not read", self.s[self.i : self.i + 3], "shell:rare"
                )
            if self.s.startswith(";;", self.i):
                self.i += 2
            elif self.reserved() != "esac":
                raise self.error("';;' is missing")

    def function_word(self) -> tree.Node:
        """Read `function name [()] body`, after its `function`."""
        start = self.i
        self.skip()
        name = self.word()
        self.skip()
        match = FUNCTION_PARENS.match(self.s, self.i)
        if match:
            self.i = match.end()
        return self.function(name, start)

    def function(self, name: tree.Raw, start: int) -> tree.Node:
        """Read a function's body and redirections."""
        if len(name.pieces) != 1 or not isinstance(name.pieces[0], tree.Lit) or name.pieces[0].quoted:
            raise self.error("a function needs a plain name")
        self.newlines()
        self.enter()
        body = self.command()
        self.depth -= 1
        if isinstance(body, tree.Simple | tree.Function):
            raise self.error("a function's body is a compound command")
        return tree.Function(name.pieces[0].text, body, self.s[start : self.i])

    def condition(self) -> tree.Node:
        """Read [[ … ]], after its `[[`."""
        words: list[tree.Raw] = []
        while True:
            char = self.newlines()
            if char == "":
                raise self.error("']]' is missing")
            if re.compile(r"\]\]" + _END).match(self.s, self.i):
                self.i += 2
                return tree.Condition(tuple(words))
            if char in "()<>!" and not self.s.startswith(("<(", ">("), self.i):
                self.i += 1
                if char == "!" and not re.compile(_END).match(self.s, self.i):
                    self.i -= 1
                    words.append(self.word())
            elif char in "&|":
                match = _CONTROL.match(self.s, self.i)
                if match is None:
                    raise self.error("a test cannot hold this")
                self.i = match.end()
            elif char == ";":
                raise self.error("a test cannot hold this")
            else:
                word = self.word()
                words.append(word)
                if word.source == "=~":
                    self.skip()
                    words.append(self.regex())

    def regex(self) -> tree.Raw:
        """Read the right side of `=~`. Parentheses and bars in it are text; blanks outside parentheses end it."""
        start, level, pieces = self.i, 0, list[tree.Piece]()
        while self.i < self.n:
            char = self.s[self.i]
            if char in "()|":
                level += (char == "(") - (char == ")")
                if level < 0:
                    raise self.error("a pattern's parentheses do not match")
                pieces.append(tree.Lit(char, True))
                self.i += 1
            elif char in " \t" and level > 0:
                self.i += 1
            elif char in " \t\n":
                break
            elif char in "&;<>\n":
                raise self.error("a pattern cannot hold this")
            else:
                self.piece(pieces)
        return tree.Raw(self.s[start : self.i], tuple(pieces))
