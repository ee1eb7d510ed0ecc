"""Split a word into literal text, quotes, expansions and substitutions, after bash 5.2's subst.c.

Nothing is expanded here. The text inside a substitution is a script again: the grammar reads it (`Lexer.body`).
"""

from __future__ import annotations

import re

from ...core.text import lazy_regex
from .ansi import ansi_c
from .scanner import Scanner
from .tree import AndOr, Arith, Item, Lit, Param, Piece, PipedCommands, Proc, Raw, Redir, Simple, Subst, Unsure

_PLAIN = lazy_regex(r"[^\\'\"$`|&;()<> \t\n]+")
ACTIVE = lazy_regex(r"[{*?\[~]")  # unquoted text with these characters may be expanded
_SPECIAL = lazy_regex(r"[{*?\[]|(?:^|[=:])~")  # the characters in unquoted text that expansion changes
_IN_DOUBLE = lazy_regex(r'[^"\\$`]+')
_IN_DOCUMENT = lazy_regex(r"[^\\$`]+")
_IN_BRACES = lazy_regex(r"""[^\\'"$`}<>]+""")
_IN_ARITH = lazy_regex(r"""[^\\'"$`()\[\];]+""")
NAME = lazy_regex(r"[A-Za-z_][A-Za-z0-9_]*")
_PARAMETER = lazy_regex(r"[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*#?$!-]")
_PARAMETER_OP = lazy_regex(r":[-=?+]|[-=?+]|##?|%%?|//?|\^\^?|,,?|~~?|:|@")
# zsh takes a subscript and letters after a variable, and signs before it, as a part of it.
_ZSH_AFTER = lazy_regex(r"\[|:[a-zA-Z&]|[^\x00-\x7f]|(?<=\$[0-9])[0-9]|(?<=\$#)(?:[\w@*?$]|-(?!\d))|(?<=\$\$)\{")
_ZSH_BEFORE = lazy_regex(r"\+*(?:[~=^]|[^\x00-\x7f])|\++\w")
# A line that is continued inside a word, an expansion or an operator: what it makes of them is not certain.
CONTINUED = lazy_regex(r"[$\[{!}]\\\n\S|\w\\\n[\w=+\[{}(-]|[|&;<>]\\\n[|&;<>(-]")


class Lexer(Scanner):
    """A reader of words. After every method `i` is at the end of what it read. Raises `Unsure`."""

    __slots__ = ("documents", "pending", "refused")
    documents: int

    def __init__(self, text: str, outer: Scanner | None = None, posix: bool = False) -> None:
        super().__init__(text, outer, posix)
        self.documents = 0  # the number of lines after which here-documents were read
        self.pending: list[tuple[Redir, str, bool, bool]] = []  # here-documents: redirection, delimiter, quoted, tabs
        self.refused: set[int] = set()  # where no arithmetic and no subscript begins: what is in it is tried once

    def body(self, *stops: str) -> tuple[Item, ...]:
        """Return the statements up to one of the closing words or a parenthesis."""
        raise NotImplementedError

    # Words and quotes

    def word(self, empty: bool = False) -> Raw:
        """Read one word. Raises `Unsure` if there is no word, unless it may be `empty`."""
        s, start = self.s, self.i
        match = _PLAIN.match(s, start)
        if match:
            end = match.end()
            if end == self.n or s[end] in " \t\n;|&)":
                self.i = end
                text = match.group()
                plain = None if ACTIVE.search(text) and _SPECIAL.search(text) else text
                return Raw(text, (Lit(text, False),), plain)
        pieces: list[Piece] = []
        while self.i < self.n:
            char = s[self.i]
            if char in " \t\n|&;)":
                break
            if char in "<>" and not s.startswith("(", self.i + 1):
                break
            if char == "(":
                self.no_pattern(s[self.i - 1 : self.i])
                break
            if char not in "<>":
                self.piece(pieces)
            else:
                pieces.append(self.process())
        if not pieces and self.i == start and not empty:
            raise self.error("a word is missing")
        return Raw(s[start : self.i], tuple(pieces))

    def no_pattern(self, operator: str) -> None:
        """Raise `Unsure` if a parenthesis after this character begins an extended pattern, as in `!(a|b)`."""
        if operator and operator in "?*+@!":
            raise Unsure("an extended pattern cannot be read", self.s[self.i : self.i + 30], "shell:pattern")

    def piece(self, pieces: list[Piece]) -> None:
        """Add the next piece of an unquoted word; neighbouring literal text is joined."""
        s = self.s
        char = s[self.i]
        if char == "\\":
            if self.i + 1 >= self.n:
                raise self.error("a backslash ends the text")
            following = s[self.i + 1]
            self.i += 2
            if following != "\n":
                pieces.append(Lit(following, True))
            return
        if char == "'":
            end = s.find("'", self.i + 1)
            if end < 0:
                raise self.error("a quote is not closed")
            pieces.append(Lit(s[self.i + 1 : end], True))
            self.i = end + 1
            return
        if char == '"':
            self.double(pieces)
            return
        if char in "$`":
            pieces.extend(self.expansion(False))
            return
        text, last = self.run(_PLAIN), pieces[-1] if pieces else None  # a continued line may separate them
        if isinstance(last, Lit) and not last.quoted:
            last.text += text
        else:
            pieces.append(Lit(text, False))

    def run(self, pattern: re.Pattern[str]) -> str:
        """Return the text at this place that matches, or else one character."""
        match = pattern.match(self.s, self.i)
        text = match.group() if match else self.s[self.i]
        self.i += len(text)
        return text

    def expansion(self, quoted: bool, in_double: bool = False) -> tuple[Piece, ...]:
        """Read what a dollar sign or a backtick begins."""
        return self.dollar(quoted) if self.s[self.i] == "$" else (self.backticks(quoted, in_double),)

    def double(self, pieces: list[Piece]) -> None:
        """Add the pieces of a double-quoted string."""
        self.i += 1
        pieces.append(Lit("", True))
        self.quoted(pieces, '"', _IN_DOUBLE, '$`"\\')
        self.close('"')

    def document(self) -> tuple[Piece, ...]:
        """Return the pieces of the whole text, read as a here-document's body."""
        self.enter()
        pieces: list[Piece] = []
        self.quoted(pieces, "", _IN_DOCUMENT, "$`\\")
        return tuple(pieces)

    def quoted(self, pieces: list[Piece], stop: str, plain: re.Pattern[str], escapes: str) -> None:
        """Add pieces up to the character that ends quoted text ("" for the end of the whole text)."""
        s = self.s
        while self.i < self.n and s[self.i] != stop:
            char = s[self.i]
            if char == "\\":
                following = s[self.i + 1 : self.i + 2]
                escaped = following != "" and following in f"{escapes}\n"
                self.i += 1 + escaped
                if following != "\n":
                    pieces.append(Lit(following if escaped else char, True))
            elif char in "$`":
                pieces.extend(self.expansion(True, stop == '"'))
            else:
                pieces.append(Lit(self.run(plain), True))

    # Substitutions and expansions

    def process(self) -> Piece:
        """Read a process substitution."""
        self.bash_only("<(")
        write = self.s[self.i] == ">"
        self.i += 2
        body = self.nested()
        if not body:
            raise self.error("a process substitution is empty")
        return Proc(body, write)

    def nested(self) -> tuple[Item, ...]:
        """Return the statements up to the parenthesis that closes a substitution."""
        self.enter()
        outer, self.pending = self.pending, []
        start, documents = self.i, self.documents
        body = self.body()
        self.close(")")
        plain = len(body) == 1 and isinstance(body[0].node, Simple | PipedCommands | AndOr)
        if self.documents > documents and not plain:
            # bash 5.2 loses a separator on the line after the document when it prints the substitution for itself
            raise Unsure("a substitution holds a here-document and more", self.s[start : self.i])
        if self.pending or (outer and "\n" in self.s[start : self.i]):
            raise Unsure("a here-document and a substitution cross", self.s[start : self.i])
        self.pending = outer
        self.depth -= 1
        return body

    def backticks(self, quoted: bool, in_double: bool = False) -> Piece:
        """Read a substitution in backticks; its text is unescaped first and then read."""
        self.enter()
        self.i += 1
        text: list[str] = []
        escapes = '$`\\"' if in_double else "$`\\"
        while self.i < self.n and (char := self.s[self.i]) != "`":
            following = self.s[self.i + 1 : self.i + 2] if char == "\\" else ""
            if following != "\n":  # a continued line is joined here, also in single quotes
                text.append(following if following and following in escapes else char + following)
            self.i += 1 + (char == "\\")
        self.close("`")
        inner = type(self)("".join(text), self)
        if self.pending and "\n" in inner.s:
            raise Unsure("a here-document and a substitution cross", inner.s)
        if CONTINUED.search(inner.s):
            raise Unsure("a line is continued inside a word or an operator")
        body = inner.body()
        if inner.i < inner.n or inner.pending:
            raise inner.error("this does not belong here")
        self.depth -= 1
        return Subst(body, quoted)

    def dollar(self, quoted: bool) -> tuple[Piece, ...]:
        """Read the piece or pieces that a dollar sign begins."""
        s = self.s
        following = s[self.i + 1 : self.i + 2]
        if following == "(":
            if s.startswith("((", self.i + 1):
                pieces = self.try_arithmetic(self.i + 3)
                if pieces is not None:
                    return (Arith(pieces, quoted),)
            self.i += 2
            return (Subst(self.nested(), quoted),)
        if following == "{":
            self.i += 2
            self.enter()
            piece = self.parameter(quoted)
            self.depth -= 1
            return (piece,)
        if following == "[":
            raise Unsure("`$[…]` is not read", s[self.i : self.i + 30], "shell:rare")
        if not quoted and following == "'":
            return (self.ansi(),)
        if not quoted and following == '"':
            self.i += 1
            found: list[Piece] = []
            self.double(found)
            return (*found, Param('"', True, zsh="…"))
        match = NAME.match(s, self.i + 1)
        if match:
            self.i = match.end()
            more = _ZSH_AFTER.match(s, self.i)
            return (Param(match.group(), quoted, bare=True, zsh=more.group() if more else ""),)
        if following and following in "0123456789@*#?$!-":
            self.i += 2
            more = _ZSH_AFTER.match(s, self.i)
            return (Param(following, quoted, zsh=more.group() if more else ""),)
        self.i += 1
        if more := _ZSH_BEFORE.match(s, self.i):
            return (Param("$", quoted, zsh=more.group()),)
        return (Lit("$", True),)

    def ansi(self) -> Piece:
        """Read `$'…'`."""
        self.bash_only("$'")
        start = self.i
        self.i += 2
        match = re.compile(r"(?:[^'\\]|\\.)*'", re.DOTALL).match(self.s, self.i)
        if match is None:
            raise self.error("a quote is not closed")
        self.i = match.end()
        return Lit(ansi_c(match.group()[:-1], self.s[start : self.i]), True)

    # Arithmetic

    def try_arithmetic(self, at: int, semicolons: bool = False) -> tuple[Piece, ...] | None:
        """Return the pieces of arithmetic that ends in `))`; None, with nothing read, if it does not.

        Dash takes all that begins so for arithmetic, and the first `))` for its end, also in quotes.
        """
        if at in self.refused:
            return None
        start, pending = self.i, list(self.pending)
        self.i = at
        pieces = self.arithmetic(semicolons)
        if self.s.startswith(")", self.i):
            self.i += 1
            return pieces
        self.i, self.pending = start, pending
        self.refused.add(at)
        self.doubts.append(Unsure("this is arithmetic or a subshell", self.s[at : at + 30], "shell:pattern"))
        return None

    def arithmetic(self, semicolons: bool) -> tuple[Piece, ...]:
        """Return the pieces of an expression; its closing bracket is read, too."""
        self.enter()
        pieces: list[Piece] = []
        level = 1
        while self.i < self.n:
            char = self.s[self.i]
            if char in "()":
                level += 1 if char == "(" else -1
                self.i += 1
                if level == 0:
                    self.depth -= 1
                    return tuple(pieces)
                pieces.append(Lit(char, True))
            elif char in "$`":
                pieces.extend(self.expansion(True))
            elif char == '"':
                self.bash_only('(("')
                self.double(pieces)
            elif char in "'\\":
                raise self.error("arithmetic holds a quote")
            elif char == ";" and not semicolons:
                raise Unsure("this is arithmetic or a subshell", self.s[self.i : self.i + 30], "shell:pattern")
            else:
                pieces.append(Lit(self.run(_IN_ARITH), True))
        raise self.error("')' is missing")

    # ${…}

    def parameter(self, quoted: bool) -> Param:
        """Read `${…}`, after its opening brace."""
        s = self.s
        prefix = ""
        following = s[self.i + 1 : self.i + 2]
        if s[self.i : self.i + 1] in ("#", "!") and (following.isalnum() or following in "_@*"):
            prefix = s[self.i]
            self.i += 1
        match = _PARAMETER.match(s, self.i)
        if match is None:
            raise self.error("an expansion cannot be read")
        self.i = match.end()
        param = Param(match.group(), quoted, prefix)
        if s.startswith("[", self.i):
            self.i += 1
            param.subscript = self.subscript()
        operator = _PARAMETER_OP.match(s, self.i)
        if operator:
            param.op = operator.group()
            self.i = operator.end()
            param.arg = self.argument(quoted)
        self.close("}")
        return param

    def argument(self, quoted: bool) -> tuple[Piece, ...]:
        """Return the pieces after the operator of `${…}`, up to the brace."""
        s = self.s
        pieces: list[Piece] = []
        while self.i < self.n and s[self.i] != "}":
            char = s[self.i]
            if char == "\\" and quoted:
                raise self.error("an expansion holds a backslash in quotes")
            if char == "'" and quoted:
                raise self.error("an expansion holds a quote in quotes")
            if char in "<>" and s.startswith("(", self.i + 1):
                raise self.error("an expansion holds a process substitution")
            if char in "$`":
                pieces.extend(self.expansion(quoted, quoted))
            elif char in "\\'\"":
                self.piece(pieces)
            else:
                pieces.append(Lit(self.run(_IN_BRACES), quoted))
        return tuple(pieces)

    def subscript(self) -> tuple[Piece, ...]:
        """Return the pieces up to the closing bracket; the opening one has been read."""
        pieces: list[Piece] = []
        level = 1
        while self.i < self.n:
            char = self.s[self.i]
            if char in "[]":
                level += 1 if char == "[" else -1
                self.i += 1
                if level == 0:
                    return tuple(pieces)
                pieces.append(Lit(char, False))
            elif char in " \t\n|&;()<>":
                raise self.error("a subscript cannot be read")
            else:
                match = re.compile(r"[^\\'\"$`|&;()<> \t\n\[\]]+").match(self.s, self.i)
                if match:
                    pieces.append(Lit(match.group(), False))
                    self.i = match.end()
                else:
                    self.piece(pieces)
        raise self.error("']' is missing")
