"""The grammar of bash as a tree: `parse` turns text into statements and words, and refuses what it cannot be sure of.

Written by hand after bash 5.2's parse.y and subst.c because a tree must never hide a command. tree-sitter-bash 0.25
does so without an error node: it takes `echo a\\<newline>#b; rm x` for a comment, drops backticks that follow an
expansion in a here-document, and splits `$IFS/` into a name `IFS/`. The tests compare this parser with bash itself.

Nothing is expanded here. Where bash's own reading depends on its version, its options or on odd spelling, the parser
raises `Unsure`; the caller asks a person.
"""

from __future__ import annotations

import re

from .tree import (
    AndOr,
    Arith,
    ArithFor,
    Arithmetic,
    Assign,
    Case,
    Condition,
    Coproc,
    Extglob,
    For,
    Function,
    Group,
    If,
    Item,
    Lit,
    Node,
    Param,
    Piece,
    Pipeline,
    Proc,
    Raw,
    Redir,
    Simple,
    Subst,
    While,
)

MAX_DEPTH = 24  # nested constructs; deeper than anything people write, shallow enough for Python's own stack


class Unsure(Exception):
    """The text cannot be read with certainty. `rule` names the kind, `source` the place."""

    def __init__(self, reason: str, source: str = "", rule: str = "shell:syntax") -> None:
        super().__init__(reason)
        self.reason = reason
        self.source = source
        self.rule = rule


_END = r"(?=[ \t\n|&;()<>]|\Z)"  # what ends a word
_SKIPPED = frozenset(" \t\\#")
_BLANK = re.compile(r"(?:[ \t]|\\\n)*")
_PLAIN = re.compile(r"[^\\'\"$`|&;()<> \t\n]+")
_SPECIAL = re.compile(r"[{*?\[]|(?:^|[=:])~")  # what expansion changes in unquoted text
_IN_DOUBLE = re.compile(r'[^"\\$`]+')
_IN_DOCUMENT = re.compile(r"[^\\$`]+")
_IN_BRACES = re.compile(r"""[^\\'"$`}<>]+""")
_IN_ARITH = re.compile(r"""[^\\'"$`()\[\];]+""")
_REDIRECT = re.compile(
    r"(?:([0-9]{1,9})|(\{[A-Za-z_][A-Za-z0-9_]*\}))?(<<<|<<-|<<|<&|<>|<(?!\()|>>|>&|>\||>(?!\())|(&>>|&>)"
)
_ASSIGN = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?=|\[)")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PARAMETER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*#?$!-]")
_PARAMETER_OP = re.compile(r":[-=?+]|[-=?+]|##?|%%?|//?|\^\^?|,,?|~~?|:|@")
_RESERVED = re.compile(r"(?:[a-z]{2,8}|\{|\}|!|\[\[)" + _END)
_CONTROL = re.compile(r"&&|\|\|")
_FUNCTION_PARENS = re.compile(r"\([ \t]*\)")
_SPLIT_OPERATOR = re.compile(r"[|&;<>]\\\n[|&;<>(-]")
_DIALECT = re.compile(r"\$'|\[\[|(?<!\$)\(\(|[<>]\(|\bfunction\b|\bselect\b|\bcoproc\b|\$\[|\|&")
CLOSERS = frozenset({"then", "do", "done", "fi", "elif", "else", "esac", "}"})
OPENERS = frozenset({"if", "while", "until", "for", "select", "case", "function", "coproc", "{", "[[", "!", "time"})
# Builtins whose arguments may be array assignments, as in `declare -a x=(1 2)`.
DECLARATIONS = frozenset({"export", "declare", "typeset", "local", "readonly"})


def parse(text: str, posix: bool = False) -> tuple[tuple[Item, ...], Unsure | None]:
    """The statements of a script, and what stopped the reading, if anything did (bash runs the lines before it).

    With `posix` the shell may be one that knows less (dash): what such a one reads differently is refused.
    """
    parser = Parser(text)
    items: list[Item] = []
    try:
        if _SPLIT_OPERATOR.search(text):
            raise Unsure("a line is continued inside an operator")
        if posix and (odd := _DIALECT.search(text)):
            raise Unsure("shells differ in how they read this", odd.group(), "shell:dialect")
        parser.statements(frozenset(), items)
        if parser.i < parser.n:
            raise parser.error("this does not belong here")
        return tuple(items), None
    except Unsure as problem:
        return tuple(items), problem
    except RecursionError:
        return tuple(items), Unsure("it is nested too deeply", rule="shell:nesting")


def parse_text(text: str, depth: int = 0) -> tuple[Piece, ...]:
    """The pieces of text that is expanded like a here-document's body. Raises `Unsure`."""
    return Parser(text, depth).document()


class Parser:
    """One pass over a text; every method leaves `i` behind what it read. Raises `Unsure`."""

    __slots__ = ("depth", "documents", "extglob", "i", "n", "pending", "s")
    i: int
    depth: int
    documents: int
    extglob: bool

    def __init__(self, text: str, depth: int = 0) -> None:
        self.s = text
        self.i = 0
        self.n = len(text)
        self.depth = depth
        self.documents = 0  # lines behind which here-documents were read
        self.extglob = "extglob" in text
        self.pending: list[tuple[Redir, str, bool, bool]] = []  # here-documents: redirection, delimiter, quoted, tabs

    def error(self, reason: str) -> Unsure:
        """The failure at the current place."""
        return Unsure(f"{reason}: {self.s[self.i : self.i + 30]!r}", self.s[self.i : self.i + 30])

    def enter(self) -> None:
        """Count a level of nesting."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise Unsure("it is nested too deeply", rule="shell:nesting")

    # Blanks and newlines

    def skip(self) -> str:
        """Pass blanks, continued lines and a comment; the character that follows, or "" at the end."""
        i = self.i
        char = self.s[i : i + 1]
        if char == " ":  # by far the most frequent case: one blank, then a word
            i += 1
            char = self.s[i : i + 1]
        if char not in _SKIPPED:
            self.i = i
            return char
        match = _BLANK.match(self.s, i)
        if match:
            self.i = match.end()
        char = self.s[self.i : self.i + 1]
        if char == "#":
            end = self.s.find("\n", self.i)
            self.i = self.n if end < 0 else end
            return "" if end < 0 else "\n"
        return char

    def newlines(self) -> str:
        """Pass newlines as well, reading the here-documents that begin there."""
        while (char := self.skip()) == "\n":
            self.i += 1
            if self.pending:
                self.here_documents()
        return char

    def here_documents(self) -> None:
        """Read the bodies of pending here-documents, which start here."""
        pending, self.pending = self.pending, []
        self.documents += 1
        for redirect, delimiter, quoted, tabs in pending:
            lines: list[str] = []
            while self.i < self.n:
                line = self.document_line(quoted)
                if tabs:
                    line = line.lstrip("\t")
                if line.rstrip("\n") == delimiter and line.count("\n") <= 1:
                    break
                lines.append(line)
            body = "".join(lines)
            if quoted:
                redirect.body = (Lit(body, True),) if body else ()
            else:
                redirect.body = parse_text(body, self.depth + 1)

    def document_line(self, quoted: bool) -> str:
        """One line of a here-document with its newline; continued lines are joined unless the delimiter was quoted."""
        parts: list[str] = []
        while True:
            end = self.s.find("\n", self.i)
            line = self.s[self.i :] if end < 0 else self.s[self.i : end]
            self.i = self.n if end < 0 else end + 1
            continued = not quoted and end >= 0 and (len(line) - len(line.rstrip("\\"))) % 2 == 1
            parts.append(line[:-1] if continued else line + ("\n" if end >= 0 else ""))
            if not continued or self.i >= self.n:
                return "".join(parts)

    # Statements

    def reserved(self) -> str:
        """The reserved word at this place, or ""."""
        match = _RESERVED.match(self.s, self.i)
        if match is None:
            return ""
        word = match.group()
        return word if word in OPENERS or word in CLOSERS else ""

    def statements(self, stops: frozenset[str], items: list[Item]) -> None:
        """Add statements until a closing word or parenthesis, which stays unread."""
        while True:
            char = self.newlines()
            if char == "" or char == ")" or (char == ";" and self.s.startswith((";;", ";&"), self.i)):
                return
            if stops and self.reserved() in stops:
                return
            node = self.and_or()
            char = self.skip()
            background = False
            if char == "&":
                background = True
                self.i += 1
            elif char == ";" and not self.s.startswith((";;", ";&"), self.i):
                self.i += 1
            elif char not in ("", "\n", ")", ";"):
                raise self.error("a separator is missing")
            items.append(Item(node, background))

    def body(self, *stops: str) -> tuple[Item, ...]:
        """Statements up to one of the closing words."""
        items: list[Item] = []
        self.statements(frozenset(stops), items)
        return tuple(items)

    def expect(self, word: str) -> None:
        """Pass a reserved word or raise."""
        self.newlines()
        if self.reserved() != word:
            raise self.error(f"{word!r} is missing")
        self.i += len(word)

    def and_or(self) -> Node:
        """Pipelines joined by `&&` and `||`."""
        first = self.pipeline()
        rest: list[tuple[str, Node]] = []
        while self.skip() in ("&", "|"):
            match = _CONTROL.match(self.s, self.i)
            if match is None:
                break
            self.i = match.end()
            self.newlines()
            rest.append((match.group(), self.pipeline()))
        return AndOr(first, tuple(rest)) if rest else first

    def pipeline(self) -> Node:
        """Commands joined by `|` and `|&`, after any `!` and `time`."""
        negated = self.skip() in ("!", "t") and self.prefixes()
        commands = [self.command()]
        while self.skip() == "|" and not self.s.startswith("||", self.i):
            self.i += 2 if self.s.startswith("|&", self.i) else 1
            self.newlines()
            commands.append(self.command())
        return Pipeline(tuple(commands)) if negated or len(commands) > 1 else commands[0]

    def prefixes(self) -> bool:
        """Pass `!` and `time -p --`; whether there was a `!`."""
        negated = False
        while self.skip() in ("!", "t"):
            word = self.reserved()
            if word == "!":
                if self.extglob and self.s.startswith("!(", self.i):
                    raise self.error("this is a pattern or a subshell")
                self.i += 1
                negated = True
            elif word == "time":
                self.i += 4
                for option in ("-p", "--"):
                    self.skip()
                    match = re.compile(option + _END).match(self.s, self.i)
                    self.i = match.end() if match else self.i
            else:
                break
        return negated

    def command(self) -> Node:
        """One command, simple or compound, with its redirections."""
        char = self.skip()
        if char == "(":
            return self.redirected(self.parenthesis())
        word = self.reserved()
        if not word or word == "time":  # behind a bar `time` is a program
            return self.simple()
        if word in CLOSERS:
            raise self.error("this word closes nothing")
        self.enter()
        self.i += len(word)
        node = self.compound(word)
        self.depth -= 1
        return node if isinstance(node, Function | Coproc) else self.redirected(node)

    def compound(self, word: str) -> Node:
        """The compound command that a reserved word began."""
        match word:
            case "{":
                body = self.body("}")
                self.expect("}")
                return Group(body, False)
            case "if":
                return self.conditional()
            case "while" | "until":
                condition = self.body("do")
                self.expect("do")
                body = self.body("done")
                self.expect("done")
                return While(condition, body, word == "until")
            case "for" | "select":
                return self.loop(word == "select")
            case "case":
                return self.case()
            case "function":
                return self.function_word()
            case "coproc":
                return self.coproc()
            case "[[":
                return self.condition()
            case _:
                raise self.error(f"{word!r} stands before nothing")

    def redirected(self, node: Node) -> Node:
        """A compound command with the redirections that follow it."""
        redirects: list[Redir] = []
        while self.skip():
            match = _REDIRECT.match(self.s, self.i)
            if match is None:
                break
            redirects.append(self.redirect(match))
        if redirects and not isinstance(node, Simple | Pipeline | AndOr | Coproc):
            node.redirects = tuple(redirects)
        return node

    def parenthesis(self) -> Node:
        """`(( arithmetic ))` or `( subshell )`."""
        self.enter()
        if self.s.startswith("((", self.i):
            pieces = self.try_arithmetic(self.i + 2)
            if pieces is not None:
                self.depth -= 1
                return Arithmetic(pieces)
        self.i += 1
        body = self.body()
        self.close(")")
        self.depth -= 1
        return Group(body, True)

    def close(self, char: str) -> None:
        """Pass a closing character or raise."""
        if not self.s.startswith(char, self.i):
            raise self.error(f"{char!r} is missing")
        self.i += 1

    def conditional(self) -> Node:
        """if … then … elif … else … fi, behind its `if`."""
        clauses: list[tuple[tuple[Item, ...], tuple[Item, ...]]] = []
        otherwise: tuple[Item, ...] = ()
        while True:
            condition = self.body("then")
            self.expect("then")
            clauses.append((condition, self.body("elif", "else", "fi")))
            word = self.reserved()
            if word == "elif":
                self.i += 4
                continue
            if word == "else":
                self.i += 4
                otherwise = self.body("fi")
            self.expect("fi")
            return If(tuple(clauses), otherwise)

    def loop(self, select: bool) -> Node:
        """for and select, behind the word."""
        if self.skip() == "(" and not select:
            if not self.s.startswith("((", self.i):
                raise self.error("a name is missing")
            pieces = self.try_arithmetic(self.i + 2, semicolons=True)
            if pieces is None:
                raise self.error("'))' is missing")
            if self.skip() == ";":
                self.i += 1
            return ArithFor(pieces, self.loop_body())
        name = self.word()
        if name.plain is None or not _NAME.fullmatch(name.plain):
            raise self.error("a loop needs a plain name")
        words = self.loop_words()
        return For(name.plain, words, self.loop_body(), select)

    def loop_words(self) -> tuple[Raw, ...] | None:
        """The list of a for loop, or None where there is no `in`."""
        char = self.newlines()
        if char == ";":
            self.i += 1
            return None
        match = re.compile("in" + _END).match(self.s, self.i)
        if match is None:
            return None
        self.i = match.end()
        words: list[Raw] = []
        while (char := self.skip()) not in ("", ";", "\n"):
            words.append(self.word())
        if char == ";":
            self.i += 1
        return tuple(words)

    def loop_body(self) -> tuple[Item, ...]:
        """do … done, or { … }."""
        self.newlines()
        opener = self.reserved()
        if opener not in ("do", "{"):
            raise self.error("'do' is missing")
        self.i += len(opener)
        closer = "done" if opener == "do" else "}"
        body = self.body(closer)
        self.expect(closer)
        return body

    def case(self) -> Node:
        """case … esac, behind its `case`."""
        self.skip()
        subject = self.word()
        self.newlines()
        match = re.compile("in" + _END).match(self.s, self.i)
        if match is None:
            raise self.error("'in' is missing")
        self.i = match.end()
        items: list[tuple[tuple[Raw, ...], tuple[Item, ...]]] = []
        while True:
            char = self.newlines()
            if self.reserved() == "esac":
                self.i += 4
                return Case(subject, tuple(items))
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
            for end in (";;&", ";;", ";&"):
                if self.s.startswith(end, self.i):
                    self.i += len(end)
                    break
            else:
                if self.reserved() != "esac":
                    raise self.error("';;' is missing")

    def function_word(self) -> Node:
        """`function name [()] body`, behind its `function`."""
        start = self.i
        self.skip()
        name = self.word()
        self.skip()
        match = _FUNCTION_PARENS.match(self.s, self.i)
        if match:
            self.i = match.end()
        return self.function(name, start)

    def function(self, name: Raw, start: int) -> Node:
        """A function's body and redirections."""
        if len(name.pieces) != 1 or not isinstance(name.pieces[0], Lit) or name.pieces[0].quoted:
            raise self.error("a function needs a plain name")
        self.newlines()
        self.enter()
        body = self.command()
        self.depth -= 1
        if isinstance(body, Simple | Function | Coproc):
            raise self.error("a function's body is a compound command")
        return Function(name.pieces[0].text, body, self.s[start : self.i])

    def coproc(self) -> Node:
        """`coproc [name] command`, behind its `coproc`."""
        self.skip()
        match = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)[ \t]+").match(self.s, self.i)
        if match and not self.reserved():
            here = self.i
            self.i = match.end()
            if self.s.startswith("(", self.i) or self.reserved() in OPENERS:
                return Coproc(match.group(1), self.command())
            self.i = here
        return Coproc("COPROC", self.command())

    def condition(self) -> Node:
        """[[ … ]], behind its `[[`."""
        words: list[Raw] = []
        extglob, self.extglob = self.extglob, True
        while True:
            char = self.newlines()
            if char == "":
                raise self.error("']]' is missing")
            if re.compile(r"\]\]" + _END).match(self.s, self.i):
                self.i += 2
                self.extglob = extglob
                return Condition(tuple(words))
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

    def regex(self) -> Raw:
        """The right side of `=~`, in which parentheses and bars are text and blanks end it outside parentheses."""
        start, level, pieces = self.i, 0, list[Piece]()
        while self.i < self.n:
            char = self.s[self.i]
            if char in "()|":
                level += (char == "(") - (char == ")")
                if level < 0:
                    raise self.error("a pattern's parentheses do not match")
                pieces.append(Lit(char, True))
                self.i += 1
            elif char in " \t" and level > 0:
                self.i += 1
            elif char in " \t\n":
                break
            elif char in "&;<>\n":
                raise self.error("a pattern cannot hold this")
            else:
                self.piece(pieces)
        return Raw(self.s[start : self.i], tuple(pieces))

    # Simple commands

    def simple(self) -> Node:
        """Assignments, words and redirections up to an operator; or a function's definition."""
        start = self.i
        assigns: list[Assign] = []
        words: list[Raw] = []
        redirects: list[Redir] = []
        declares = False
        while char := self.skip():
            if char in "<>&{0123456789":
                match = _REDIRECT.match(self.s, self.i)
                if match:
                    redirects.append(self.redirect(match))
                    continue
            if char in "\n;&|)":
                break
            if char == "(":
                match = _FUNCTION_PARENS.match(self.s, self.i)
                if match is None or len(words) != 1 or assigns or redirects:
                    raise self.error("a parenthesis does not belong here")
                self.i = match.end()
                return self.function(words[0], start)
            assign = self.assignment() if declares or not words else None
            if assign is None:
                words.append(self.word())
                if len(words) == 1:
                    declares = self.first_word(words[0])
            elif words:
                words.append(self.declared(assign))
            else:
                assigns.append(assign)
        if not (assigns or words or redirects):
            raise self.error("a command is missing")
        return Simple(tuple(assigns), tuple(words), tuple(redirects), self.s[start : self.i].rstrip())

    def first_word(self, word: Raw) -> bool:
        """Whether a command's first word takes array assignments; raises where a continued line hides what it is."""
        first = word.pieces[0] if word.pieces else None
        text = first.text if isinstance(first, Lit) and not first.quoted and "\\\n" in word.source else ""
        if _ASSIGN.match(text) or text in OPENERS or text in CLOSERS:
            raise Unsure("a line is continued inside a word of the grammar", word.source)
        return word.plain in DECLARATIONS

    def declared(self, assign: Assign) -> Raw:
        """An assignment that is an argument of `declare` and the like, as a word."""
        self_source = assign.value.source
        name = Lit(f"{assign.name}{'+=' if assign.append else '='}", False)
        if assign.array is not None:
            pieces = [name, Lit("(", True)]
            parts = [piece for raw in assign.array for piece in (*raw.pieces, Lit(" ", True))]
            return Raw(f"{name.text}{self_source}", (*pieces, *parts, Lit(")", True)))
        subscript = assign.subscript
        if subscript is not None:
            return Raw(self_source, (Lit(assign.name, False), Lit("[", True), *subscript, *assign.value.pieces))
        return Raw(f"{name.text}{self_source}", (name, *assign.value.pieces))

    def assignment(self) -> Assign | None:
        """The assignment at this place, or None."""
        match = _ASSIGN.match(self.s, self.i)
        if match is None:
            return None
        start = self.i
        name, op = match.groups()
        self.i = match.end()
        subscript: tuple[Piece, ...] | None = None
        if op == "[":
            subscript = self.subscript()
            match = re.compile(r"\+?=").match(self.s, self.i)
            if match is None:
                self.i = start
                return None
            op = match.group()
            self.i = match.end()
        if self.s.startswith("(", self.i):
            value_start = self.i
            array = self.array()
            return Assign(name, op == "+=", Raw(self.s[value_start : self.i], ()), subscript, array)
        return Assign(name, op == "+=", self.word(empty=True), subscript)

    def subscript(self) -> tuple[Piece, ...]:
        """The pieces up to the closing bracket, behind the opening one."""
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

    def array(self) -> tuple[Raw, ...]:
        """The elements of `(…)`."""
        self.i += 1
        words: list[Raw] = []
        while (char := self.newlines()) != ")":
            if char == "" or (char in "|&;(<>" and not self.s.startswith(("<(", ">("), self.i)):
                raise self.error("an array cannot hold this")
            words.append(self.word())
        self.i += 1
        return tuple(words)

    def redirect(self, match: re.Match[str]) -> Redir:
        """The redirection whose operator was matched."""
        digits, variable, op, both = match.groups()
        self.i = match.end()
        self.skip_blanks()
        target = self.word()
        fd = -1 if variable else int(digits) if digits else None
        redirect = Redir((op or both).replace("<<-", "<<"), fd, target, variable=(variable or "").strip("{}"))
        if op in ("<<", "<<-"):
            delimiter = "".join(self.delimiter_text(target))
            quoted = any(not isinstance(piece, Lit) or piece.quoted for piece in target.pieces)
            self.pending.append((redirect, delimiter, quoted, op == "<<-"))
            redirect.body = ()
        return redirect

    def delimiter_text(self, target: Raw) -> list[str]:
        """The text of a here-document's delimiter; only quotes are removed from it."""
        texts: list[str] = []
        for piece in target.pieces:
            if not isinstance(piece, Lit):
                raise Unsure("a here-document's delimiter is an expansion", target.source)
            texts.append(piece.text)
        if "\n" in "".join(texts) or "$" in target.source or "\\\n" in target.source:
            raise Unsure("a here-document's delimiter is odd", target.source)
        return texts

    def skip_blanks(self) -> None:
        """Pass blanks and continued lines, but no comment."""
        match = _BLANK.match(self.s, self.i)
        if match:
            self.i = match.end()

    # Words

    def word(self, empty: bool = False) -> Raw:
        """One word. Raises where there is none, unless it may be `empty`."""
        s, start = self.s, self.i
        match = _PLAIN.match(s, start)
        if match:
            end = match.end()
            if end == self.n or s[end] in " \t\n;|&)":
                self.i = end
                text = match.group()
                return Raw(text, (Lit(text, False),), None if _SPECIAL.search(text) else text)
        pieces: list[Piece] = []
        while self.i < self.n:
            char = s[self.i]
            if char in " \t\n|&;)":
                break
            if char in "<>" and not s.startswith("(", self.i + 1):
                break
            if char == "(" and not self.extended(pieces):
                break
            if char not in "<>(":
                self.piece(pieces)
            elif char != "(":
                pieces.append(self.process())
        if not pieces and self.i == start and not empty:
            raise self.error("a word is missing")
        return Raw(s[start : self.i], tuple(pieces))

    def extended(self, pieces: list[Piece]) -> bool:
        """Read an extended pattern whose operator ends the pieces; whether there was one."""
        last = pieces[-1] if pieces else None
        if not isinstance(last, Lit) or last.quoted or last.text[-1:] not in tuple("?*+@!"):
            return False
        if not self.extglob:
            raise self.error("this is a pattern only with extglob")
        self.i += 1
        inner: list[Piece] = []
        while self.i < self.n and (char := self.s[self.i]) != ")":
            if char == "(" and not self.extended(inner):
                raise self.error("a pattern's parentheses do not match")
            if char in " \t|" or (char in "&;<>" and not self.s.startswith("(", self.i + 1)):
                inner.append(Lit(char, True))
                self.i += 1
            elif char == "\n" or char in "<>":
                raise self.error("a pattern cannot be read")
            elif self.i < self.n and self.s[self.i] not in "()":
                self.piece(inner)
        self.close(")")
        pieces.append(Extglob(tuple(inner)))
        return True

    def process(self) -> Piece:
        """A process substitution."""
        write = self.s[self.i] == ">"
        self.i += 2
        body = self.nested()
        if not body:
            raise self.error("a process substitution is empty")
        return Proc(body, write)

    def nested(self) -> tuple[Item, ...]:
        """The statements up to the parenthesis that closes a substitution."""
        self.enter()
        outer, self.pending = self.pending, []
        start, documents = self.i, self.documents
        body = self.body()
        self.close(")")
        plain = len(body) == 1 and isinstance(body[0].node, Simple | Pipeline | AndOr)
        if self.documents > documents and not plain:
            # bash 5.2 loses a separator on the line behind the document when it prints the substitution for itself.
            raise Unsure("a substitution holds a here-document and more", self.s[start : self.i])
        if self.pending or (outer and "\n" in self.s[start : self.i]):
            raise Unsure("a here-document and a substitution cross", self.s[start : self.i])
        self.pending = outer
        self.depth -= 1
        return body

    def piece(self, pieces: list[Piece]) -> None:
        """Add the next piece of an unquoted word; adjacent literal text is joined."""
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
        if char == "`":
            pieces.append(self.backticks(False))
            return
        if char == "$":
            found = self.dollar(False)
            pieces.extend(found)
            return
        match = _PLAIN.match(s, self.i)
        text = match.group() if match else char
        self.i += len(text)
        self.literal(pieces, text)

    def literal(self, pieces: list[Piece], text: str) -> None:
        """Add unquoted text, joined to unquoted text before it (a continued line may stand between)."""
        last = pieces[-1] if pieces else None
        if isinstance(last, Lit) and not last.quoted:
            last.text += text
        else:
            pieces.append(Lit(text, False))

    def double(self, pieces: list[Piece]) -> None:
        """Add the pieces of a double-quoted string."""
        self.i += 1
        pieces.append(Lit("", True))
        self.quoted(pieces, '"', _IN_DOUBLE, '$`"\\')
        self.close('"')

    def document(self) -> tuple[Piece, ...]:
        """The pieces of the whole text, read as a here-document's body."""
        self.enter()
        pieces: list[Piece] = []
        self.quoted(pieces, "", _IN_DOCUMENT, "$`\\")
        return tuple(pieces)

    def quoted(self, pieces: list[Piece], stop: str, plain: re.Pattern[str], escapes: str) -> None:
        """Add pieces up to the character that ends quoted text ("" for the end of it all)."""
        s = self.s
        while self.i < self.n and s[self.i] != stop:
            char = s[self.i]
            if char == "\\":
                following = s[self.i + 1 : self.i + 2]
                if following == "\n":
                    self.i += 2
                elif following and following in escapes:
                    pieces.append(Lit(following, True))
                    self.i += 2
                else:
                    pieces.append(Lit("\\", True))
                    self.i += 1
            elif char == "$":
                pieces.extend(self.dollar(True))
            elif char == "`":
                pieces.append(self.backticks(True, stop == '"'))
            else:
                match = plain.match(s, self.i)
                text = match.group() if match else char
                pieces.append(Lit(text, True))
                self.i += len(text)

    def backticks(self, quoted: bool, in_double: bool = False) -> Piece:
        """A substitution in backticks; its text is unescaped and then read."""
        self.enter()
        self.i += 1
        text: list[str] = []
        escapes = '$`\\"' if in_double else "$`\\"
        while self.i < self.n and (char := self.s[self.i]) != "`":
            following = self.s[self.i + 1 : self.i + 2]
            if char == "\\" and following and following in escapes:
                text.append(following)
                self.i += 2
            elif char == "\\":
                text.append(char + following)
                self.i += 2
            else:
                text.append(char)
                self.i += 1
        self.close("`")
        inner = Parser("".join(text), self.depth)
        if self.pending and "\n" in inner.s:
            raise Unsure("a here-document and a substitution cross", inner.s)
        if _SPLIT_OPERATOR.search(inner.s):
            raise Unsure("a line is continued inside an operator")
        body = inner.body()
        if inner.i < inner.n or inner.pending:
            raise inner.error("this does not belong here")
        self.depth -= 1
        return Subst(body, quoted)

    def dollar(self, quoted: bool) -> tuple[Piece, ...]:
        """What a dollar sign begins."""
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
        if following == "\\" and s.startswith("\\\n", self.i + 1):
            raise self.error("a line is continued inside an expansion")
        if following == "[":
            self.i += 2
            return (Arith(self.arithmetic("]"), quoted),)
        if not quoted and following == "'":
            return (self.ansi(),)
        if not quoted and following == '"':
            self.i += 1
            found: list[Piece] = []
            self.double(found)
            return tuple(found)
        match = _NAME.match(s, self.i + 1)
        if match:
            self.i = match.end()
            if s.startswith("\\\n", self.i):
                raise self.error("a line is continued inside an expansion")
            return (Param(match.group(), quoted, bare=True),)
        if following and following in "0123456789@*#?$!-":
            self.i += 2
            return (Param(following, quoted),)
        self.i += 1
        return (Lit("$", True),)

    def ansi(self) -> Piece:
        """`$'…'`."""
        start = self.i
        self.i += 2
        match = re.compile(r"(?:[^'\\]|\\.)*'", re.DOTALL).match(self.s, self.i)
        if match is None:
            raise self.error("a quote is not closed")
        self.i = match.end()
        return Lit(ansi_c(match.group()[:-1], self.s[start : self.i]), True)

    def try_arithmetic(self, at: int, semicolons: bool = False) -> tuple[Piece, ...] | None:
        """The pieces of arithmetic that starts here and ends in `))`; None, with nothing read, where it does not."""
        start, pending = self.i, list(self.pending)
        self.i = at
        pieces = self.arithmetic(")", semicolons)
        if self.s.startswith(")", self.i):
            self.i += 1
            return pieces
        self.i, self.pending = start, pending
        return None

    def arithmetic(self, closer: str, semicolons: bool = False) -> tuple[Piece, ...]:
        """The pieces of an expression and its closer."""
        self.enter()
        opener = "(" if closer == ")" else "["
        pieces: list[Piece] = []
        level = 1
        while self.i < self.n:
            char = self.s[self.i]
            if char in (closer, opener):
                level += 1 if char == opener else -1
                self.i += 1
                if level == 0:
                    self.depth -= 1
                    return tuple(pieces)
                pieces.append(Lit(char, True))
            elif char == "$":
                pieces.extend(self.dollar(True))
            elif char == "`":
                pieces.append(self.backticks(True))
            elif char == '"':
                self.double(pieces)
            elif char in "'\\":
                raise self.error("arithmetic holds a quote")
            elif char == ";" and closer == ")" and not semicolons:
                # Not an expression; a subshell in a substitution, if the parentheses close one by one.
                self.depth -= 1
                return self.not_arithmetic(level)
            else:
                match = _IN_ARITH.match(self.s, self.i)
                text = match.group() if match else char
                pieces.append(Lit(text, True))
                self.i += len(text)
        raise self.error(f"{closer!r} is missing")

    def not_arithmetic(self, level: int) -> tuple[Piece, ...]:
        """Find where `((` closes; raises if it is with `))`, for then bash takes it for arithmetic."""
        while self.i < self.n and level:
            char = self.s[self.i]
            if char in "'\"\\`$#":
                raise self.error("this is arithmetic or a subshell")
            level += (char == "(") - (char == ")")
            self.i += 1
        if self.s.startswith(")", self.i):
            raise self.error("this is arithmetic or a subshell")
        return ()

    # ${…}

    def parameter(self, quoted: bool) -> Param:
        """`${…}`, behind its opening brace."""
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
        """What stands behind the operator of `${…}`, up to the brace."""
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
            if char == "$":
                pieces.extend(self.dollar(quoted))
            elif char == "`":
                pieces.append(self.backticks(quoted, quoted))
            elif char in "\\'\"":
                self.piece(pieces)
            else:
                match = _IN_BRACES.match(s, self.i)
                text = match.group() if match else char
                pieces.append(Lit(text, quoted))
                self.i += len(text)
        return tuple(pieces)


_ANSI = re.compile(
    r"\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|([0-7]{1,3})|c(\\\\|.)|(.))", re.DOTALL
)
_ANSI_SIMPLE = {
    "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "'": "'", '"': '"', "?": "?",
}  # fmt: skip


def ansi_c(text: str, source: str = "") -> str:
    """The text of `$'…'` (bash's lib/sh/strtrans.c). Raises `Unsure` for bytes that are not characters."""

    def one(match: re.Match[str]) -> str:
        hexadecimal, short, long, octal, control, other = match.groups()
        if other is not None:
            return _ANSI_SIMPLE.get(other, "\\" + other)
        if control is not None:
            if not control[0].isascii():
                raise Unsure("an escape cannot be read", source)
            code = 0x7F if control == "?" else ord(control[0].upper()) & 0x1F
        elif hexadecimal is not None or octal is not None:
            code = int(hexadecimal, 16) if hexadecimal else int(octal, 8) & 0xFF
            if code > 0x7F:
                raise Unsure("an escape makes a byte that is not a character", source)
        else:
            code = int(short or long, 16)
        if code == 0 or code > 0x10FFFF or 0xD800 <= code < 0xE000:
            raise Unsure("an escape makes no character", source)
        return chr(code)

    if "\\" not in text:
        return text
    if re.search(r"\\(?:x\{|[xuU](?![0-9A-Fa-f])|c(?:\\[^\\]|\Z))", text):
        raise Unsure("an escape cannot be read", source)
    return _ANSI.sub(one, text)
