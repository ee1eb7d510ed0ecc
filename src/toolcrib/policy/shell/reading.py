"""Every command that a shell command line may run, with its words as far as they can be known.

`read_script` walks the tree of `grammar` in the order bash would run it, with a `State` beside it: what variables
hold, which directories the shell may stand in, which functions and aliases exist. Branches are walked on copies and
joined to what holds in all; loop bodies are walked until nothing more becomes unknown. Programs that run further
commands (`wrappers`) and text that a shell would read are walked in turn.

What is left unread is a `Problem`, never silence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache

from . import words as expansion
from .builtins import BUILTINS
from .grammar import parse
from .output import output
from .parts import Command, Problem, Redirect, Script, Stdin, Word
from .simple import DECLARATIONS
from .state import UNKNOWN, Array, Listed, State, Value, directories, known
from .tree import (
    AndOr,
    ArithFor,
    Arithmetic,
    Assign,
    Case,
    Condition,
    Coproc,
    For,
    Function,
    Group,
    If,
    Item,
    Node,
    Pipeline,
    Raw,
    Redir,
    Simple,
    Subst,
    While,
)
from .unsure import Unsure
from .wrappers.inner import Inner, base_name
from .wrappers.unfold import keeps_home, unfold

MAX_LENGTH = 10_000  # characters
MAX_COMMANDS = 4_000
MAX_STEPS = 20_000  # statements walked, repeated ones included
MAX_CALLS = 20  # functions within functions
MAX_SCRIPTS = 12  # shells within shells
MAX_ITEMS = 32  # items of a loop that are walked one by one
# Characters that a terminal does not show or that reorder what it shows (Unicode's bidi controls, TR 36).
_HIDING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
_UNUSUAL_SPACE = re.compile("[\xa0\u1680\u2000-\u200a\u202f\u205f\u3000]")
# What a pattern that names a program is taken for.
_COULD_BE = (
    "rm", "dd", "sh", "bash", "mv", "cp", "cat", "chmod", "chown", "shred", "mkfs", "mkfs.ext4", "shutdown", "reboot",
    "poweroff", "halt", "kill", "curl", "wget", "nc", "tee", "truncate", "find", "sudo", "env", "xargs", "mount", "ln",
    "rmdir", "crontab", "useradd", "iptables", "python3", "perl",
)  # fmt: skip
SPECIAL_BUILTINS = frozenset(
    {"export", "readonly", "eval", "set", "unset", ":", ".", "source", "exec", "trap", "shift"}
)


@lru_cache(maxsize=512)
def read_script(command: str, cwd: str, home: str, bare: bool = False) -> Script:
    """The commands that a line given to `bash -c` may run in `cwd`, with the home directory `home`. Never raises.

    `bare` takes it that the shell was given no arguments, as is usual; else `$1` and `$@` are not known.
    """
    problem = _unreadable(command)
    if problem is not None and (problem.rule == "shell:long" or "\0" in command):
        return Script((), (problem,))
    reader = Reader(State(cwd, home))
    if bare:
        reader.state.arguments = ()
    if problem is not None:  # read on: what is plain harm is harm
        reader.problems[problem] = None
    try:
        reader.text(command)
        reader.uncalled()
    except RecursionError:
        reader.problem(Unsure("it is nested too deeply", rule="shell:nesting"))
    except Unsure as unsure:
        reader.problem(unsure)
    except Exception as error:
        reader.problem(Unsure(f"it cannot be read ({type(error).__name__})"))
    return reader.script()


def _unreadable(command: str) -> Problem | None:
    """What keeps a text from being read at all."""
    if len(command) > MAX_LENGTH:
        return Problem("ask", "shell:long", f"the command is longer than {MAX_LENGTH:,} characters")
    if command.isascii() and command.isprintable():
        return None
    match = _HIDING.search(command) or _UNUSUAL_SPACE.search(command)
    if match is None:
        return None
    return Problem("ask", "shell:control", f"the command holds the character U+{ord(match.group()):04X}", match.group())


class Reader:
    """One reading: the state of the shell, and what was found so far."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.commands: list[Command] = []
        self.problems: dict[Problem, None] = {}
        self.stdin: Stdin | None = None
        self.via: tuple[str, ...] = ()
        self.function: str | None = None
        self.background = False
        self.scripts = 0
        self.steps = 0
        self.repeats = False
        self.frames: list[list[State]] = []  # states at break, continue and return, by enclosing loop or function
        self.stack: list[tuple[Function, int, int]] = []  # functions being called, with forks and conditions outside
        self.forks = 0
        self.conditions = 0
        self.recursions = 0
        self.defined: list[Function] = []
        self.called: set[int] = set()
        self.made: tuple[Command, ...] = ()  # commands in the substitutions of the words being run
        self.processes: list[tuple[Value, tuple[Command, ...]]] = []
        self.tokens: set[int] = set()  # substitutions that print one word without a dash first …
        self.listings: dict[int, list[Listed]] = {}  # … and those that print the names of files

    def script(self) -> Script:
        """What was found."""
        commands = tuple(dict.fromkeys(self.commands)) if self.repeats else tuple(self.commands)
        return Script(commands, tuple(self.problems))

    def problem(self, unsure: Unsure, verdict: str = "ask") -> None:
        """Note what could not be read."""
        found = Problem("deny" if verdict == "deny" else "ask", unsure.rule, unsure.reason, unsure.source)
        self.problems.setdefault(found)

    # Texts and lists

    def text(self, text: str, posix: bool = False) -> None:
        """Read text in the present state."""
        if self.scripts >= MAX_SCRIPTS:
            raise Unsure("shells are nested too deeply", text[:60], "shell:nesting")
        self.scripts += 1
        items, unsure = parse(text, posix)
        if unsure is not None:
            self.problem(unsure)
        self.fall(self.items(items))
        self.scripts -= 1

    def items(self, items: tuple[Item, ...]) -> tuple[str | None, ...]:
        """Read a list; the directories in which its last statement may have failed."""
        failed: tuple[str | None, ...] = ()
        for index, item in enumerate(items):
            if index:
                self.fall(failed)
            before = (self.state, self.via, self.stdin, self.function, self.background, self.forks, self.conditions)
            depths = (len(self.frames), len(self.stack), self.scripts)
            try:
                failed = self.in_background(item.node) if item.background else self.node(item.node)
            except Unsure as unsure:
                if unsure.rule == "shell:size":
                    raise
                self.problem(unsure)
                self.resume(before, depths)
                failed = self.state.cwds
        return failed if items else self.state.cwds

    def resume(
        self,
        before: tuple[State, tuple[str, ...], Stdin | None, str | None, bool, int, int],
        depths: tuple[int, int, int],
    ) -> None:
        """Go on behind a statement that could not be read; it may have changed anything."""
        self.state, self.via, self.stdin, self.function, self.background, self.forks, self.conditions = before
        frames, stack, self.scripts = depths
        del self.frames[frames:]
        del self.stack[stack:]
        self.state.forget()

    def fall(self, failed: tuple[str | None, ...]) -> None:
        """Go on whether or not the last statement failed."""
        state = self.state
        if failed is not state.cwds:
            state.cwds = directories(state.cwds + failed)

    def in_background(self, node: Node) -> tuple[str | None, ...]:
        """Read what `&` puts into a subshell of its own."""
        outer, self.background = self.background, True
        self.apart(lambda: self.node(node))
        self.background = outer
        return self.state.cwds

    def apart(self, walk: Callable[[], object]) -> State:
        """Read in a subshell: changes do not come back. Its last state."""
        state, self.state = self.state, self.state.copy()
        self.forks += 1
        walk()
        self.forks -= 1
        inner, self.state = self.state, state
        return inner

    def branch(self, walk: Callable[[], tuple[str | None, ...]], cwds: tuple[str | None, ...]) -> State:
        """Read what may not happen, from given directories; the state behind it, the present one left as it was."""
        state, self.state = self.state, self.state.copy()
        self.state.cwds = cwds
        self.conditions += 1
        self.fall(walk())
        self.conditions -= 1
        inner, self.state = self.state, state
        return inner

    def node(self, node: Node) -> tuple[str | None, ...]:
        """Read a command. `state.cwds` is then where it leads if it succeeds; the result where if it fails."""
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise Unsure("it takes too many steps", rule="shell:size")
        if type(node) is Simple:
            return self.simple(node)
        if isinstance(node, AndOr):
            return self.and_or(node)
        if isinstance(node, Pipeline):
            return self.pipeline(node)
        if isinstance(node, Function):
            self.state.functions[node.name] = ((node,), True)
            self.defined.append(node)
            return self.state.cwds
        if isinstance(node, Coproc):
            outer, self.stdin = self.stdin, Stdin()
            self.in_background(node.body)
            self.stdin = outer
            self.state.vars[node.name] = UNKNOWN
            self.assigned(node.name)
            return self.state.cwds
        return self.compound(node)

    def compound(
        self, node: Group | If | While | For | ArithFor | Case | Condition | Arithmetic | Simple
    ) -> tuple[str | None, ...]:
        """Read a compound command, its redirections first."""
        stdin = self.stdin
        if node.redirects:
            redirects, found = self.redirections(node.redirects, True)
            self.emit((), (), redirects, None, "")
            self.stdin = found or stdin
        failed = self.inside(node)
        self.stdin = stdin
        return failed

    def inside(self, node: Node) -> tuple[str | None, ...]:
        """Read a compound command without its redirections."""
        match node:
            case Group():
                if not node.subshell:
                    return self.items(node.body)
                self.apart(lambda: self.items(node.body))
            case If():
                self.conditional(node)
            case While():
                self.endless(node)
                self.loop(lambda: self.while_round(node))
            case For():
                self.for_loop(node)
            case ArithFor():
                if self.arithmetic_always(node):
                    self.runs_forever(node.body)
                expansion.arithmetic(node.pieces, self)
                self.loop(lambda: (self.fall(self.items(node.body)), expansion.arithmetic(node.pieces, self)))
            case Case():
                self.case(node)
            case Condition():
                self.condition(node)
            case Arithmetic():
                expansion.arithmetic(node.pieces, self)
            case _:
                raise Unsure(f"{type(node).__name__} cannot be read")
        return self.state.cwds

    def and_or(self, node: AndOr) -> tuple[str | None, ...]:
        """Read `a && b || c`, each part from where the parts before may have led."""
        failed = self.node(node.first)
        passed = self.state.cwds
        for op, part in node.rest:
            before = self.state.copy()
            self.state.cwds = passed if op == "&&" else failed
            self.conditions += 1
            missed = self.node(part)
            self.conditions -= 1
            if op == "&&":
                passed, failed = self.state.cwds, directories(failed + missed)
            else:
                passed, failed = directories(passed + self.state.cwds), missed
            self.state.join(before)
        self.state.cwds = passed
        return failed

    def pipeline(self, node: Pipeline) -> tuple[str | None, ...]:
        """Read `a | b`: each part in a subshell, fed by the one before. A single part was negated."""
        if len(node.commands) == 1:
            self.fall(self.node(node.commands[0]))
            return self.state.cwds
        outer, recursing = self.stdin, 0
        inner = self.state
        for index, part in enumerate(node.commands):
            mark, recursions = len(self.commands), self.recursions
            inner = self.apart(lambda part=part: self.node(part))
            recursing += self.recursions > recursions
            if index < len(node.commands) - 1:
                found = tuple(self.commands[mark:])
                self.stdin = Stdin(_as_word(self.produced(part, found)), found)
        self.stdin = outer
        if recursing > 1:
            self.fork_bomb("")
        cwds = self.state.cwds
        if inner.vars != self.state.vars:  # zsh, ksh and `lastpipe` run the last part in the calling shell
            self.state.join(inner)
            self.state.cwds = cwds
        return self.state.cwds

    def conditional(self, node: If) -> None:
        """Read if … fi."""
        ends: list[State] = []
        failed: tuple[str | None, ...] = ()
        for condition, body in node.clauses:
            if ends:
                self.state.cwds = failed
            failed = self.items(condition)
            ends.append(self.branch(lambda body=body: self.items(body), self.state.cwds))
        ends.append(self.branch(lambda: self.items(node.otherwise), failed) if node.otherwise else self.state.copy())
        if not node.otherwise:
            ends[-1].cwds = failed
        self.merge(ends)

    def merge(self, ends: list[State]) -> None:
        """Go on from any of several states."""
        first, *others = ends
        for other in others:
            first.join(other)
        self.state = first

    def case(self, node: Case) -> None:
        """Read case … esac; a branch may be entered from the one before it (`;&`)."""
        expansion.single(node.subject.pieces, self)
        ends: list[State] = [self.state.copy()]
        for patterns, body in node.items:
            for pattern in patterns:
                expansion.single(pattern.pieces, self)
            entry = self.state.copy()
            if len(ends) > 1:
                entry.join(ends[-1])
            self.state, kept = entry, self.state
            ends.append(self.branch(lambda body=body: self.items(body), entry.cwds))
            self.state = kept
        self.merge(ends)

    def loop(self, walk: Callable[[], object]) -> None:
        """Read a loop's body until what is known at its start holds after it, too."""
        self.repeats = True
        self.conditions += 1
        for _ in range(6):
            entry = self.state.copy()
            self.frames.append([])
            walk()
            for left in self.frames.pop():
                self.state.join(left)
            self.state.join(entry)
            if self.state.same(entry):
                break
        else:
            self.state.forget()
            self.frames.append([])
            walk()
            self.frames.pop()
            self.state.forget()
        self.conditions -= 1

    def endless(self, node: While) -> None:
        """Note a loop that has no end; one that makes processes all the while is harm."""
        from .endless import loops_forever

        if loops_forever(node):
            self.runs_forever(node.body)

    def arithmetic_always(self, node: ArithFor) -> bool:
        """Whether `for ((;;))` has no condition, and nothing leaves it."""
        from .endless import loops_forever

        text = known(expansion.single(node.pieces, self)) or ""
        parts = text.split(";")
        empty = len(parts) == 3 and parts[1].strip() in ("", "1")
        forever = Simple((), (Raw("true", (), "true"),), (), "true")
        return empty and loops_forever(While((Item(forever),), node.body))

    def runs_forever(self, body: tuple[Item, ...]) -> None:
        """Note a loop without an end."""
        from .endless import multiplies

        if multiplies(body):
            self.problem(Unsure("a loop without end starts processes", "", "shell:fork-bomb"), "deny")
        else:
            self.problem(Unsure("a loop has no end", "", "shell:endless"))

    def while_round(self, node: While) -> None:
        """One round of while or until."""
        failed = self.items(node.condition)
        self.fall(failed)
        self.fall(self.items(node.body))

    def for_loop(self, node: For) -> None:
        """Read a loop over words: one by one where they are known."""
        if node.words is None:
            values = None if self.state.arguments is None else list(self.state.arguments)
        else:
            items = expansion.arguments(node.words, self)
            self.loop_names(node, items)
            listing = self.listing_of(node.words)
            if listing is not None:
                values = listing
            else:
                values = None if any(word.many for word in items) else [_item_value(word) for word in items]
        if node.select or values is None or len(values) > MAX_ITEMS:
            self.loop(lambda: self.for_round(node, UNKNOWN))
        elif any(isinstance(value, Listed) or None in value for value in values):
            self.loop(lambda: [self.for_round(node, value) for value in values])
        else:
            self.rounds(node, values)

    def loop_names(self, node: For, items: list[Word]) -> None:
        """Note what a loop assigns where that matters by itself: to a variable that others obey, or from a pattern."""
        told = items if node.name.lower() != node.name else [word for word in items if word.glob]
        if told:
            self.emit((), tuple((node.name, word) for word in told), (), None, "")

    def listing_of(self, raws: tuple[Raw, ...]) -> list[Listed] | None:
        """The names of files that a loop's only word, a substitution, lists."""
        pieces = raws[0].pieces if len(raws) == 1 else ()
        if len(pieces) != 1 or not isinstance(pieces[0], Subst):
            return None
        return self.listings.get(id(pieces[0].body))

    def rounds(self, node: For, values: Sequence[Value | Listed]) -> None:
        """Read a loop over known words in order."""
        self.repeats = True
        self.conditions += 1
        gone: list[State] = []
        for value in values:
            self.frames.append([])
            self.for_round(node, value)
            left = self.frames.pop()
            for state in left:  # `continue`
                self.state.join(state)
            gone += left
        for state in gone:  # `break`
            self.state.join(state)
        self.conditions -= 1

    def for_round(self, node: For, value: Value | Listed) -> None:
        """One round of a loop over words."""
        self.state.set(node.name, value)
        if node.select:
            self.state.vars["REPLY"] = UNKNOWN
        self.fall(self.items(node.body))

    def condition(self, node: Condition) -> None:
        """Read [[ … ]]; operands of numeric tests and -v are expressions that may run something."""
        for raw in node.words:
            text = known(expansion.single(raw.pieces, self))
            if text is not None and expansion.runs_later(text):
                expansion.expression(text, self)

    # Substitutions

    def substitute(self, body: tuple[Item, ...]) -> Value:
        """Read `$(…)`; what it puts out, as far as that is known."""
        mark = len(self.commands)
        stdin = self.stdin
        via, self.via = self.via, self.via
        self.apart(lambda: self.items(body))
        self.via, self.stdin = via, stdin
        if len(body) != 1 or body[0].background:
            return UNKNOWN
        found = tuple(self.commands[mark:])
        text = self.produced(body[0].node, found)
        if text is None:
            self.describe(body, found)
            return UNKNOWN
        return UNKNOWN if "\0" in text else (text.rstrip("\n"),)

    def assigned(self, name: str) -> None:
        """Note a variable that an expansion assigns, where its name could be one that other programs obey."""
        if name.lower() != name:
            self.emit((), ((name, Word(UNKNOWN)),), (), None, "")

    def describe(self, body: tuple[Item, ...], found: tuple[Command, ...]) -> None:
        """Note what is known of a substitution's output besides: names of files, or a single word."""
        node = body[0].node
        last = node.commands[-1] if isinstance(node, Pipeline) else node
        if not isinstance(last, Simple) or not found or found[-1].source != last.source or found[-1].via != self.via:
            return
        if (found[-1].name or "") in self.state.functions:
            return
        from .listing import listed, prints_token

        if prints_token(found[-1]):
            self.tokens.add(id(body))
        elif (names := listed(Stdin(None, found[-1:]))) is not None:
            self.listings[id(body)] = names

    def process(self, body: tuple[Item, ...], write: bool) -> None:
        """Read `<(…)` or `>(…)`; the latter's input is what the command writes, which is not known."""
        mark = len(self.commands)
        stdin = self.stdin
        if write:
            self.stdin = Stdin()
        self.apart(lambda: self.items(body))
        self.stdin = stdin
        found = tuple(self.commands[mark:])
        text = self.produced(body[0].node, found) if len(body) == 1 and not write else None
        self.processes.append((UNKNOWN if text is None else (text,), found))

    def produced(self, node: Node, found: tuple[Command, ...]) -> str | None:
        """The exact output of a simple command, or of a pipeline's last one, if known."""
        if isinstance(node, Group) and not node.redirects:
            return self.together(node, found)
        last = node.commands[-1] if isinstance(node, Pipeline) else node
        if (
            not isinstance(last, Simple)
            or not found
            or not last.words
            or (last.redirects and not last.redirects[0].body)
        ):
            return None
        command = found[-1]
        if command.via != self.via or command.source != last.source or (command.name or "") in self.state.functions:
            return None
        return output(command)

    def together(self, node: Group, found: tuple[Command, ...]) -> str | None:
        """The exact output of a group of simple commands, if known."""
        if len(found) != len(node.body):
            return None
        texts = [
            self.produced(item.node, (command,)) if isinstance(item.node, Simple) and not item.background else None
            for item, command in zip(node.body, found, strict=True)
        ]
        return None if None in texts else "".join(text for text in texts if text is not None)

    # Simple commands

    def simple(self, node: Simple) -> tuple[str | None, ...]:
        """Read a simple command."""
        self.processes.clear()
        mark = len(self.commands)
        words = self.words(node)
        self.made = tuple(self.commands[mark:])
        redirects, stdin = self.redirections(node.redirects) if node.redirects else ((), None)
        if not node.assigns:
            assigns: tuple[tuple[str, Word], ...] = ()
        elif words:
            assigns = self.temporary(node.assigns)
        else:
            assigns = self.assign(node.assigns)
        if not words:
            self.emit((), assigns, redirects, stdin, node.source)
            return self.state.cwds
        if self.state.aliases and node.words[0].plain in self.state.aliases:
            self.alias(node)
        processes, self.processes = tuple(self.processes), []
        if len(words) == 1 and words[0].text == "exec" and node.redirects:
            self.stdin = stdin or Stdin()  # from here on
        return self.invoke(words, assigns, redirects, stdin, node.source, processes=processes)

    def words(self, node: Simple) -> tuple[Word, ...]:
        """A simple command's words; assignments behind `export` and its kin are not split."""
        if not node.words:
            return ()
        if node.words[0].plain not in DECLARATIONS:
            return tuple(expansion.arguments(node.words, self))
        words: list[Word] = []
        for raw in node.words:
            first = raw.pieces[0] if raw.pieces else None
            if raw.plain is None and first is not None and re.match(r"[A-Za-z_]\w*\+?=", getattr(first, "text", "")):
                words.append(self.declared(raw))
            else:
                words.extend(expansion.arguments((raw,), self))
        return tuple(words)

    def declared(self, raw: Raw) -> Word:
        """An assignment as an argument of `export`."""
        first, *rest = raw.pieces
        text = getattr(first, "text", "")
        name, _, value = text.partition("=")
        pieces = (type(first)(value, getattr(first, "quoted", False)), *rest)  # type: ignore[call-arg]
        parts = expansion.merge([f"{name}=", *expansion.single(pieces, self, assignment=True)])  # type: ignore[arg-type]
        return Word(parts, raw.source)

    def assign(self, assigns: tuple[Assign, ...]) -> tuple[tuple[str, Word], ...]:
        """Assignments that stay."""
        found: list[tuple[str, Word]] = []
        for assign in assigns:
            value = self.value(assign)
            self.state.set(assign.name, value)
            found.append((assign.name, Word(UNKNOWN if isinstance(value, Array) else value, assign.value.source)))
        return tuple(found)

    def temporary(self, assigns: tuple[Assign, ...]) -> tuple[tuple[str, Word], ...]:
        """Assignments before a command, for that command alone."""
        kept = self.state.vars.copy()
        found = self.assign(assigns)
        self.state.vars = kept
        return found

    def value(self, assign: Assign) -> Value | Array:
        """What an assignment makes of a variable."""
        if assign.subscript is not None:
            expansion.single(assign.subscript, self)
        if assign.array is not None:
            return self.array(assign)
        value = expansion.single(assign.value.pieces, self, assignment=True)
        text = known(value)
        if text is not None and expansion.runs_later(text):
            expansion.expression(text, self)
        if assign.subscript is not None:
            return UNKNOWN
        if assign.append:
            before = self.state.get(assign.name)
            return expansion.merge([*before, *value]) if isinstance(before, tuple) else UNKNOWN
        return value

    def array(self, assign: Assign) -> Value | Array:
        """The elements of `name=(…)`, subscripts in order included."""
        words = expansion.arguments(assign.array or (), self)
        for word in words:
            if word.glob:  # bash lists the folder
                self.emit((), ((assign.name, word),), (), None, "")
        texts = [word.text for word in words]
        if all(text is not None and text.startswith(f"[{at}]=") for at, text in enumerate(texts)):
            texts = [text.partition("=")[2] if text is not None else None for text in texts]
        elif any(text is None or re.match(r"\[[^]]*\]\+?=", text) for text in texts):
            return UNKNOWN
        return UNKNOWN if assign.append else Array(tuple((text or "",) for text in texts))

    def redirections(
        self, redirects: tuple[Redir, ...], compound: bool = False
    ) -> tuple[tuple[Redirect, ...], Stdin | None]:
        """Redirections, and the input they give."""
        found: list[Redirect] = []
        stdin: Stdin | None = None
        for redirect in redirects:
            mark = len(self.commands)
            op, target, text = redirect.op, None, None
            if op == "<<":
                text = Word(expansion.single(redirect.body or (), self), redirect.target.source)
            elif op == "<<<":
                text = Word(expansion.merge([*expansion.single(redirect.target.pieces, self), "\n"]))
            else:
                target = expansion.target(redirect.target, self)
            found.append(Redirect(op, redirect.fd, target, text))  # type: ignore[arg-type]
            if redirect.variable:
                self.state.set(redirect.variable, UNKNOWN)
                self.assigned(redirect.variable)
            if redirect.fd in (None, 0):
                if text is not None:
                    stdin = Stdin(text, tuple(self.commands[mark:]))
                elif op in ("<", "<>", "<&"):
                    stdin = self.from_file(target, op, compound)
        return tuple(found), stdin

    def from_file(self, target: Word | None, op: str, compound: bool) -> Stdin | None:
        """The input that `<` gives: that of a process substitution, or a file's, which the redirection tells."""
        if target is not None and target.start == "/dev/fd/" and self.processes:
            value, feeders = self.processes[-1]
            return Stdin(Word(value) if known(value) is not None else None, feeders)
        return Stdin() if compound or op == "<&" else None

    def emit(
        self,
        words: tuple[Word, ...],
        assigns: tuple[tuple[str, Word], ...],
        redirects: tuple[Redirect, ...],
        stdin: Stdin | None,
        source: str,
    ) -> None:
        """Note a command, once for each directory it may run in."""
        if not (words or assigns or redirects):
            return
        if len(self.commands) > MAX_COMMANDS:
            raise Unsure("it runs too many commands", rule="shell:size")
        for cwd in self.state.cwds or (None,):
            self.commands.append(
                Command(words, assigns, redirects, stdin, cwd, self.via, source, self.function, self.background)
            )

    # Running

    def invoke(
        self,
        words: tuple[Word, ...],
        assigns: tuple[tuple[str, Word], ...],
        redirects: tuple[Redirect, ...],
        stdin: Stdin | None,
        source: str,
        shell: bool = True,
        functions: bool = True,
        processes: tuple[tuple[Value, tuple[Command, ...]], ...] = (),
    ) -> tuple[str | None, ...]:
        """Note a command and read what it runs or changes. `shell` tells that builtins apply."""
        name = words[0].text
        stdin = (
            stdin if stdin is not None else (None if any(r.op == "<" and not r.fd for r in redirects) else self.stdin)
        )
        if functions and name is not None and name in self.state.functions:
            bodies, sure = self.state.functions[name]
            self.emit((), assigns, redirects, stdin, source)
            self.calls(bodies, words, assigns, stdin)
            if sure:
                return self.state.cwds
        if processes and len(words) > 1 and any(word.start == "/dev/fd/" for word in words[1:]):
            stdin = self.fed(words, stdin, processes)
        self.emit(words, assigns, redirects, stdin, source)
        if name is None:
            program = next(iter(words))
            if program.glob and None not in program.parts and "/" in program.start:
                self.globbed(words, assigns, stdin)
            if shell:
                self.state.vars = dict.fromkeys(self.state.vars, UNKNOWN)
            return self.state.cwds
        if shell and assigns and name in SPECIAL_BUILTINS:
            for variable, _ in assigns:
                self.state.vars[variable] = UNKNOWN
        self.unfold(words, assigns, stdin, name, shell)
        if shell:
            change = BUILTINS.get(name)
            if change is not None:
                return change(self, words, assigns)
        return self.state.cwds

    def globbed(self, words: tuple[Word, ...], assigns: tuple[tuple[str, Word], ...], stdin: Stdin | None) -> None:
        """Read a command whose program is a pattern as each dangerous program that it could be."""
        for name in _COULD_BE:
            if any(
                fnmatchcase(f"{folder}/{name}", words[0].start) for folder in ("/bin", "/usr/bin", "/sbin", "/usr/sbin")
            ):
                word = Word((f"/usr/bin/{name}",), words[0].source)
                self.apart(lambda word=word: self.invoke((word, *words[1:]), assigns, (), stdin, "", shell=False))

    def fed(
        self, words: tuple[Word, ...], stdin: Stdin | None, processes: tuple[tuple[Value, tuple[Command, ...]], ...]
    ) -> Stdin | None:
        """The script that a shell or `source` reads from a process substitution given as its first operand."""
        if base_name(words[0]) is None:
            return stdin
        value, feeders = processes[0]
        inners = unfold(words)
        return Stdin(_as_word(known(value)), feeders) if any(inner.reads for inner in inners) else stdin

    def unfold(
        self,
        words: tuple[Word, ...],
        assigns: tuple[tuple[str, Word], ...],
        stdin: Stdin | None,
        name: str,
        shell: bool,
    ) -> None:
        """Read what a wrapper runs."""
        inners = unfold(words, stdin.text if stdin is not None else None, self.names_on(stdin, name))
        if not inners:
            return
        via, outer_stdin = self.via, self.stdin
        if len(via) >= MAX_SCRIPTS:
            raise Unsure("wrappers are nested too deeply", name, "shell:nesting")
        self.via = (*via, base_name(words[0]) or name)
        for inner in inners:
            if inner.inside and not shell:
                continue
            self.stdin = stdin if inner.fed else Stdin()
            home = self.state.home
            if not keeps_home(words):
                self.state.home = None
            self.inner(inner, assigns, stdin)
            self.state.home = home
        self.via, self.stdin = via, outer_stdin

    def names_on(self, stdin: Stdin | None, name: str) -> list[Listed] | None:
        """The names of files that xargs is given."""
        if stdin is None or stdin.text is not None or name.rpartition("/")[2] not in ("xargs", "gxargs"):
            return None
        from .listing import listed

        return listed(stdin)

    def inner(self, inner: Inner, assigns: tuple[tuple[str, Word], ...], stdin: Stdin | None) -> None:
        """Read one command or text that a wrapper runs."""
        if inner.same:
            self.same_shell(inner, stdin)
            return
        if inner.inside and inner.words:
            self.invoke(inner.words, assigns, (), None, "", functions=False)
            return

        def walk() -> None:
            if inner.directory is not None:
                self.state.go(inner.directory.text)
            if inner.later:
                self.state.forget()
            if inner.words:
                self.invoke(inner.words, (*assigns, *inner.assigns), (), None, "", shell=False, functions=False)
                return
            script = inner.script
            if inner.reads:
                script = stdin.text if stdin is not None else None
            self.child((*assigns, *inner.assigns), inner)
            if script is None:
                return
            if script.text is None or "\0" in script.text:
                if not inner.reads:
                    self.unknown(script.source)
                return
            if not inner.inside:
                self.text(script.text, inner.posix)
            else:
                self.text(script.text)

        self.apart(walk)

    def same_shell(self, inner: Inner, stdin: Stdin | None) -> None:
        """Read text that this shell itself runs: eval, and source of its input."""
        script = inner.script if not inner.reads else stdin.text if stdin is not None else None
        text = script.text if script is not None else None
        if text is not None:
            self.text(text)
        else:
            if not inner.reads:
                self.unknown(script.source if script is not None else "")
            self.state.forget()

    def unknown(self, source: str) -> None:
        """Note that something runs whose text cannot be known; the substitutions that make it feed it."""
        self.emit((Word(UNKNOWN, source, many=True),), (), (), Stdin(None, self.made), source)

    def child(self, assigns: tuple[tuple[str, Word], ...], inner: Inner) -> None:
        """Turn the state into that of a new shell: only what was exported is still known."""
        if inner.inside:
            return
        state = self.state
        state.vars = {name: UNKNOWN for name in state.vars if name != "IFS"}
        for name, word in assigns:
            state.set(name, UNKNOWN if word.text is None else (word.text,))
        state.aliases = {}
        state.functions = {name: (bodies, False) for name, (bodies, _) in state.functions.items()}
        words = inner.arguments
        exact = words is not None and not any(word.many or word.glob for word in words)
        state.arguments = tuple(word.parts for word in words) if words is not None and exact else None
        state.arg0 = inner.arg0.text if inner.arg0 is not None else None

    def alias(self, node: Simple) -> None:
        """Read a command as its alias makes it, beside the command itself: bash expands them only when told to."""
        name = node.words[0].plain or ""
        value = self.state.aliases[name]
        if value.endswith((" ", "\t")):
            raise Unsure("an alias goes on to the next word", value)
        rest = "".join(f" {raw.source}" for raw in node.words[1:])
        kept = self.state.aliases
        self.state.aliases = {key: text for key, text in kept.items() if key != name}
        before = self.state.copy()
        self.text(f"{value}{rest}")
        self.state.join(before)
        self.state.aliases = kept

    def calls(
        self,
        bodies: tuple[Function, ...],
        words: tuple[Word, ...],
        assigns: tuple[tuple[str, Word], ...],
        stdin: Stdin | None,
    ) -> None:
        """Read a call of a function that has one of several bodies."""
        if len(bodies) == 1:
            self.call(bodies[0], words, assigns, stdin)
            return
        ends: list[State] = []
        for body in bodies:
            kept, self.state = self.state, self.state.copy()
            self.call(body, words, assigns, stdin)
            ends.append(self.state)
            self.state = kept
        self.merge(ends)

    def call(
        self,
        function: Function,
        words: tuple[Word, ...],
        assigns: tuple[tuple[str, Word], ...],
        stdin: Stdin | None,
    ) -> None:
        """Read a function's body as a call of it would run."""
        self.called.add(id(function))
        outside = [entry for entry in self.stack if entry[0] is function]
        if outside:
            self.recursions += 1
            _, forks, conditions = outside[-1]
            if self.background or (self.forks > forks and self.conditions == conditions):
                self.fork_bomb(function.name)
        if len(outside) > 1:
            return
        if len(self.stack) > MAX_CALLS:
            raise Unsure("functions call each other too deeply", function.name, "shell:nesting")
        state = self.state
        before = state.copy()
        state.arguments = None if outside or any(w.many or w.glob for w in words) else tuple(w.parts for w in words[1:])
        for name, word in assigns:
            state.set(name, word.parts)
        if outside:
            state.forget()
        self.body(function, stdin)
        self.state.vars = {**before.vars, **self.state.vars}
        cwds = self.state.cwds
        self.state.arguments = before.arguments
        self.state.join(before)
        self.state.cwds = cwds

    def body(self, function: Function, stdin: Stdin | None) -> None:
        """Read a function's body in the present state."""
        outer, self.function = self.function, function.name
        kept, self.stdin = self.stdin, stdin
        self.stack.append((function, self.forks, self.conditions))
        self.frames.append([])
        self.fall(self.node(function.body))
        for left in self.frames.pop():
            self.state.join(left)
        self.stack.pop()
        self.function, self.stdin = outer, kept

    def fork_bomb(self, name: str) -> None:
        """Note a function that multiplies itself."""
        if not any(problem.rule == "shell:fork-bomb" for problem in self.problems):
            self.problem(Unsure("a function starts copies of itself without end", name, "shell:fork-bomb"), "deny")

    def uncalled(self) -> None:
        """Read functions that nothing called, as anything might call them."""
        for function in self.defined:
            if id(function) not in self.called:
                self.called.add(id(function))
                self.state = self.state.copy()
                self.state.forget()
                self.body(function, None)

    # What builtins do to the state

    def leave(self) -> None:
        """Note the state where break, continue or return leaves a loop or function."""
        for frame in self.frames:
            frame.append(self.state.copy())


def _item_value(word: Word) -> Value | Listed:
    """What a loop's variable holds for one word of its list."""
    if word.text is not None:
        return (word.text,)
    if word.origin == "listed":
        return Listed(word.parts if None in word.parts else UNKNOWN, "" if None in word.parts else word.start)
    if not word.glob:
        return word.parts
    start = re.split(r"[*?\[\\]", word.start)[0]
    value = (start, None) if start else UNKNOWN
    if None in word.parts or "\\" in word.start or _CLIMBS.search(word.start[start.rfind("/") + 1 :]):
        return value
    return Listed(value, word.start)


_CLIMBS = re.compile(r"(?:\A|/)\.(?:\.?(?:/|\Z)|[.*?\[])")  # a part of a pattern that `..` could match


def _as_word(text: str | None) -> Word | None:
    """A word for known text."""
    return None if text is None else Word((text,))
