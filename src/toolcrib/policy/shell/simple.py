"""Read a simple command: assignments, words and redirections, with the here-documents after its line."""

from __future__ import annotations

import re

from ...core.text import lazy_regex
from .lexer import Lexer
from .tree import Assign, Lit, Node, Piece, Raw, Redir, Simple, Unsure

REDIRECT = lazy_regex(
    r"(?:([0-9]{1,9})|(\{[A-Za-z_][A-Za-z0-9_]*\}))?(<<<|<<-|<<|<&|<>|<(?!\()|>>|>&|>\||>(?!\())|(&>>|&>)"
)
_ASSIGN = lazy_regex(r"([A-Za-z_][A-Za-z0-9_]*)(\+?=|\[)")
# A series of words in which nothing is special to the shell: most of what people write.
_PLAIN_WORDS = lazy_regex(r"""[^\\'"$`|&;()<>{*?\[~# \t\n]++(?: ++[^\\'"$`|&;()<>{*?\[~# \t\n]++)*(?=[ \t\n|&;)]|\Z)""")
FUNCTION_PARENS = lazy_regex(r"\([ \t]*\)")
CLOSERS = frozenset({"then", "do", "done", "fi", "elif", "else", "esac", "}"})
OPENERS = frozenset({"if", "while", "until", "for", "select", "case", "function", "coproc", "{", "[[", "!", "time"})
# Builtins whose arguments may be array assignments, as in `declare -a x=(1 2)`.
DECLARATIONS = frozenset({"export", "declare", "typeset", "local", "readonly"})


class CommandLexer(Lexer):
    """A reader of simple commands and redirections. Raises `Unsure`."""

    __slots__ = ()

    def function(self, name: Raw, start: int) -> Node:
        """Read a function's body and redirections; its name and parentheses have been read."""
        raise NotImplementedError

    # Newlines and the here-documents after them

    def newlines(self) -> str:
        """Skip newlines, too, and read the here-documents that begin there."""
        while (char := self.skip()) == "\n":
            self.i += 1
            if self.pending:
                self.here_documents()
        return char

    def here_documents(self) -> None:
        """Read the bodies of the pending here-documents, which start here."""
        pending, self.pending = self.pending, []
        self.documents += 1
        for redirect, delimiter, quoted, tabs in pending:
            lines: list[str] = []
            start = self.i
            while self.i < self.n:
                line = self.document_line(quoted)
                if tabs:
                    line = line.lstrip("\t")
                if line.rstrip("\n") == delimiter and line.count("\n") <= 1:
                    break
                lines.append(line)
            body = "".join(lines)
            if not quoted and "\\\n" in self.s[start : self.i] and ("$(" in body or "`" in body):
                self.bash_only("\\")  # dash does not join the lines of a substitution
            if quoted:
                redirect.body = (Lit(body, True),) if body else ()
            else:
                redirect.body = type(self)(body, self).document()

    def document_line(self, quoted: bool) -> str:
        """Return a line of a here-document. Continued lines are joined, unless its delimiter was quoted."""
        parts: list[str] = []
        while True:
            end = self.s.find("\n", self.i)
            line = self.s[self.i :] if end < 0 else self.s[self.i : end]
            self.i = self.n if end < 0 else end + 1
            continued = not quoted and end >= 0 and (len(line) - len(line.rstrip("\\"))) % 2 == 1
            parts.append(line[:-1] if continued else line + ("\n" if end >= 0 else ""))
            if not continued or self.i >= self.n:
                return "".join(parts)

    # Commands

    def simple(self) -> Node:
        """Read assignments, words and redirections up to an operator; or a function's definition."""
        start = self.i
        assigns: list[Assign] = []
        words: list[Raw] = []
        redirects: list[Redir] = []
        declares = False
        while char := self.skip():
            if words and not declares and (plain := _PLAIN_WORDS.match(self.s, self.i)):
                self.i = plain.end()
                words += [Raw(text, (Lit(text, False),), text) for text in plain.group().split(" ") if text]
                continue
            if char in "<>&{0123456789":
                match = REDIRECT.match(self.s, self.i)
                if match:
                    redirects.append(self.redirect(match))
                    continue
            if char in "\n;&|)":
                break
            if char == "(":
                match = FUNCTION_PARENS.match(self.s, self.i)
                if match is None or len(words) != 1 or assigns or redirects:
                    raise self.error("a parenthesis does not belong here")
                self.i = match.end()
                return self.function(words[0], start)
            assign = self.assignment() if declares or not words else None
            if assign is None:
                words.append(self.word())
                if words[-1].source == "[[":  # from here busybox takes operators for words
                    self.bash_only("[[")
                if len(words) == 1:
                    declares = words[0].plain in DECLARATIONS
            elif words:
                words.append(self.declared(assign))
            else:
                assigns.append(assign)
        if not (assigns or words or redirects):
            raise self.error("a command is missing")
        return Simple(tuple(assigns), tuple(words), self.s[start : self.i].rstrip(), redirects=tuple(redirects))

    def declared(self, assign: Assign) -> Raw:
        """Return an assignment that is an argument of `declare` or a similar builtin, as a word."""
        self_source = assign.value.source
        name = Lit(f"{assign.name}{'+=' if assign.append else '='}", False)
        if assign.array is not None:
            elements = (piece for raw in assign.array for piece in raw.pieces)
            return Raw(f"{name.text}{self_source}", (name, Lit("(", True), *elements, Lit(")", True)))
        subscript = assign.subscript
        if subscript is not None:
            return Raw(self_source, (Lit(assign.name, False), Lit("[", True), *subscript, *assign.value.pieces))
        return Raw(f"{name.text}{self_source}", (name, *assign.value.pieces))

    def assignment(self) -> Assign | None:
        """Return the assignment at this place, or None."""
        match = _ASSIGN.match(self.s, self.i)
        if match is None or match.end() in self.refused:
            return None
        start = self.i
        name, op = match.groups()
        self.i = match.end()
        subscript: tuple[Piece, ...] | None = None
        if op == "[":
            self.bash_only(match.group())
            subscript = self.subscript()
            begin, match = match.end(), re.compile(r"\+?=").match(self.s, self.i)
            if match is None:
                self.refused.add(begin)
                self.i = start
                return None
            op = match.group()
            self.i = match.end()
        if self.s.startswith("(", self.i):
            value_start = self.i
            array = self.array()
            return Assign(name, op == "+=", Raw(self.s[value_start : self.i], ()), subscript, array)
        return Assign(name, op == "+=", self.word(empty=True), subscript)

    def array(self) -> tuple[Raw, ...]:
        """Return the elements of `(…)`."""
        self.i += 1
        words: list[Raw] = []
        while (char := self.newlines()) != ")":
            if char == "" or (char in "|&;(<>" and not self.s.startswith(("<(", ">("), self.i)):
                raise self.error("an array cannot hold this")
            words.append(self.word())
        self.i += 1
        return tuple(words)

    # Redirections

    def redirect(self, match: re.Match[str]) -> Redir:
        """Return the redirection whose operator was matched."""
        digits, variable, op, both = match.groups()
        if both:
            self.bash_only(both)
        if variable:
            raise Unsure("a variable gets the number of a descriptor", match.group(), "shell:rare")
        self.i = match.end()
        self.skip_blanks()
        target = self.word()
        redirect = Redir((op or both).replace("<<-", "<<"), int(digits) if digits else None, target)
        if op in ("<<", "<<-"):
            delimiter = self.delimiter_text(target)
            quoted = any(not isinstance(piece, Lit) or piece.quoted for piece in target.pieces)
            self.pending.append((redirect, delimiter, quoted, op == "<<-"))
            redirect.body = ()
        return redirect

    def delimiter_text(self, target: Raw) -> str:
        """Return the text of a here-document's delimiter; only quotes are removed from it."""
        texts = [piece.text for piece in target.pieces if isinstance(piece, Lit)]
        if len(texts) < len(target.pieces):
            raise Unsure("a here-document's delimiter is an expansion", target.source)
        text = "".join(texts)
        if "\n" in text or "$" in target.source or "\\\n" in target.source:
            raise Unsure("a here-document's delimiter is odd", target.source)
        return text
