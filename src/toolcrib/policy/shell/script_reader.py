"""Read a script once: walk the tree in the order in which bash would run it, and update a `State` on the way.

Branches are read with copies of the state. After them only what is true in all copies remains. Loop bodies are read
until nothing more becomes unknown. Each kind of command is handled in a module that takes a `ScriptWalk`:
`script_loops`, `function_calls`, `running`, `builtins` …
"""

from __future__ import annotations

from collections.abc import Callable

from ...core.text import lazy_regex
from . import expansion, tree
from .assigning import assign_all, temporary, words_of
from .builtins import BUILTINS
from .function_calls import call, fork_bomb
from .grammar import parse
from .lexer import NAME
from .parts import STANDARD_INPUT, Command, Redirect, Stdin, Word
from .produced import as_word, produced
from .running import MAX_SCRIPTS, fed_script, run_further
from .script_loops import for_loop, note_forks, read_loop
from .script_walk import ScriptWalk
from .shell_state import OUTER, UNKNOWN, State, Value, directories, is_number, known
from .tree import Unsure
from .words import file_word

MAX_STEPS = 20_000  # statements read, repeated ones included
NUMERIC = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
SPECIAL_BUILTINS = frozenset(
    {"export", "readonly", "eval", "set", "unset", ":", ".", "source", "exec", "trap", "shift"}
)

# What is as it was before, after a statement that could not be read.
_SURROUNDINGS = ("state", "via", "stdin", "function", "background", "forks", "conditions", "scripts", "posix")

_HOOK = lazy_regex(r"TRAP[A-Z]|chpwd|periodic|precmd|preexec|zsh")  # zsh calls functions of these names by itself


def is_input(redirect: Redirect | tree.Redir) -> bool:
    """Return whether a redirection gives a command another standard input (`0>&3` does)."""
    return redirect.fd == 0 or (redirect.fd is None and "<" in redirect.op)


class Reader(ScriptWalk):
    """One reading of a script."""

    # Texts and lists

    def text(self, text: str, posix: bool = False) -> None:
        """Read text in the present state. Raises `Unsure` if shells are nested too deeply."""
        if self.scripts >= MAX_SCRIPTS:
            raise Unsure("shells are nested too deeply", text[:60], "shell:nesting")
        self.scripts += 1
        outer, self.posix = self.posix, posix
        items, unsure = parse(text, posix)
        if unsure is not None:
            self.problem(unsure)
        self.fall(self.items(items))
        self.posix = outer
        self.scripts -= 1

    def items(self, items: tuple[tree.Item, ...]) -> tuple[str | None, ...]:
        """Read a list; return the directories in which its last statement may have failed."""
        failed: tuple[str | None, ...] = ()
        for index, item in enumerate(items):
            if index:
                self.fall(failed)
            before, frames, stack = vars(self).copy(), len(self.frames), len(self.stack)
            try:
                failed = self.in_background(item.node) if item.background else self.node(item.node)
            except Unsure as unsure:
                if unsure.rule == "shell:size":
                    raise
                self.problem(unsure)
                vars(self).update((name, before[name]) for name in _SURROUNDINGS)
                del self.frames[frames:], self.stack[stack:]
                self.state.forget()  # the statement may have changed anything
                failed = self.state.cwds
        return failed if items else self.state.cwds

    def in_background(self, node: tree.Node) -> tuple[str | None, ...]:
        """Read a statement that `&` puts into a separate subshell."""
        outer, self.background = self.background, True
        self.apart(lambda: self.node(node))
        self.background = outer
        return self.state.cwds

    def branch(self, walk: Callable[[], tuple[str | None, ...]], cwds: tuple[str | None, ...]) -> State:
        """Read a part that may not run, from given directories. Return the state after it; `state` is not changed."""
        state, self.state = self.state, self.state.copy()
        self.state.cwds = cwds
        self.conditions += 1
        self.fall(walk())
        self.conditions -= 1
        inner, self.state = self.state, state
        return inner

    def node(self, node: tree.Node) -> tuple[str | None, ...]:
        """Read a command and return the directories if it fails; `state.cwds` is then where it leads if it succeeds.

        Raises `Unsure` if there are too many steps.
        """
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise Unsure("it takes too many steps", rule="shell:size")
        if type(node) is tree.Simple:
            return self.simple(node)
        if isinstance(node, tree.AndOr):
            return self.and_or(node)
        if isinstance(node, tree.PipedCommands):
            return self.pipeline(node)
        stdin = self.stdin
        if node.redirects:
            redirects, found = self.redirections(node.redirects, True)
            self.emit(Command((), (), redirects, found or stdin))
            self.stdin = found or stdin
        self.share_input()
        failed = self.compound(node)
        self.stdin = stdin
        return failed

    def compound(self, node: tree.Node) -> tuple[str | None, ...]:
        """Read a compound command without its redirections. Raises `Unsure` for another kind of node."""
        match node:
            case tree.Group():
                if not node.subshell:
                    return self.items(node.body)
                self.apart(lambda: self.items(node.body))
            case tree.If():
                self.conditional(node)
            case tree.While():
                note_forks(self, node)
                read_loop(self, lambda: (self.fall(self.items(node.condition)), self.fall(self.items(node.body))))
            case tree.For():
                for_loop(self, node)
            case tree.ArithFor():
                if ";;" in "".join(part or "" for part in expansion.single(node.pieces, self)).replace(" ", ""):
                    note_forks(self, node)
                expansion.arithmetic(node.pieces, self)
                read_loop(self, lambda: (self.fall(self.items(node.body)), expansion.arithmetic(node.pieces, self)))
            case tree.Case():
                self.case(node)
            case tree.Condition():
                self.condition(node)
            case tree.Arithmetic():
                expansion.arithmetic(node.pieces, self)
            case tree.Function():
                if _HOOK.match(node.name):
                    expansion.other_time(self, node.name)
                if any(each.name == node.name and each is not node for each in self.defined):
                    self.problem(Unsure("a function is defined twice", node.name))
                self.state.functions[node.name] = (node, True)
                self.defined.append(node)
            case _:
                raise Unsure(f"{type(node).__name__} cannot be read")
        return self.state.cwds

    def and_or(self, node: tree.AndOr) -> tuple[str | None, ...]:
        """Read `a && b || c`, each part from the directories where the parts before it may have led."""
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

    def pipeline(self, node: tree.PipedCommands) -> tuple[str | None, ...]:
        """Read `a | b`: each part in a subshell, with the output of the part before it. A single part was negated."""
        if len(node.commands) == 1:
            self.fall(self.node(node.commands[0]))
            return self.state.cwds
        outer, recursing = self.stdin, 0
        inner = self.state
        for index, part in enumerate(node.commands):
            mark, recursions = len(self.commands), self.recursions
            self.one_input(getattr(part, "redirects", ()), min(index, 1))
            inner = self.apart(lambda part=part: self.node(part))
            recursing += self.recursions > recursions
            if index < len(node.commands) - 1:
                found = tuple(self.commands[mark:])
                self.stdin = Stdin(as_word(produced(self, part, found)), found)
        self.stdin = outer
        if recursing > 1:
            fork_bomb(self, "")
        cwds = self.state.cwds
        if inner.vars != self.state.vars:  # zsh, ksh and `lastpipe` run the last part in the calling shell
            self.state.join(inner)
            self.state.cwds = cwds
        return self.state.cwds

    def conditional(self, node: tree.If) -> None:
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

    def case(self, node: tree.Case) -> None:
        """Read case … esac."""
        expansion.single(node.subject.pieces, self)
        ends: list[State] = [self.state.copy()]
        for patterns, body in node.items:
            for pattern in patterns:
                expansion.single(pattern.pieces, self)
            ends.append(self.branch(lambda body=body: self.items(body), self.state.cwds))
        self.merge(ends)

    def condition(self, node: tree.Condition) -> None:
        """Read [[ … ]]. Operands of numeric tests and of -v are expressions, which may run something."""
        values = [expansion.single(raw.pieces, self) for raw in node.words]
        for at, raw in enumerate(node.words):
            beside = values[max(at - 1, 0) : at] + values[at + 1 : at + 2]
            if raw.plain in NUMERIC and not all(map(is_number, beside)):
                expansion.evaluates(self, raw.source)
            if raw.plain == "-t" and not is_number((*values, ("",))[at + 1]):
                expansion.other_shell(self, raw.source)
            if raw.plain in ("-v", "-R") and not NAME.fullmatch(known((*values, ("",))[at + 1]) or "-"):
                expansion.evaluates(self, raw.source)
            expansion.runs_later(known(values[at]), self)

    # Substitutions

    def substitute(self, body: tuple[tree.Item, ...]) -> Value:
        """Read `$(…)`; return its output, as far as it is known."""
        text, _ = self.printed(body)
        return UNKNOWN if text is None or "\0" in text else (text.rstrip("\n"),)

    def process(self, body: tuple[tree.Item, ...], write: bool) -> None:
        """Read `<(…)` or `>(…)`. The input of the latter is what the command writes, which is not known."""
        stdin = self.stdin
        if write:
            self.stdin = Stdin()
        text, found = self.printed(body)
        self.stdin = stdin
        self.processes.append((UNKNOWN if text is None or write else (text,), found))

    def printed(self, body: tuple[tree.Item, ...]) -> tuple[str | None, tuple[Command, ...]]:
        """Read statements in a subshell; return what they print, if that is certain, and their commands."""
        mark, stdin = len(self.commands), self.stdin
        self.share_input()
        self.apart(lambda: self.items(body))
        self.stdin = stdin
        found = tuple(self.commands[mark:])
        return produced(self, body[0].node, found) if len(body) == 1 and not body[0].background else None, found

    # tree.Simple commands

    def simple(self, node: tree.Simple) -> tuple[str | None, ...]:
        """Read a simple command."""
        self.processes.clear()
        mark = len(self.commands)
        words = words_of(self, node)
        if node.words and (node.words[0].source[0] == "{" or any(raw.source == "}" for raw in node.words[1:])):
            expansion.other_shell(self, "{…}")  # zsh begins a group at `{a,b}`, and ends one at a lone `}`
        if words and words[0].text is None and any(map(expansion.is_operated, node.words[0].pieces)):
            self.problem(Unsure("the name of a program is computed", node.words[0].source, "shell:computed-name"))
        self.made = tuple(self.commands[mark:])
        redirects, stdin = self.redirections(node.redirects) if node.redirects else ((), None)
        if not node.assigns:
            assigns: tuple[tuple[str, Word], ...] = ()
        elif words:
            assigns = temporary(self, node.assigns)
        else:
            assigns = assign_all(self, node.assigns)
        if not words:
            self.emit(Command((), assigns, redirects, stdin, source=node.source))
            return self.state.cwds
        processes, self.processes = tuple(self.processes), []
        if any(word.text == "exec" for word in words) and any(map(is_input, node.redirects)):
            self.stdin = stdin or Stdin()
            self.share_input()
        return self.invoke(Command(words, assigns, redirects, stdin, source=node.source), processes=processes)

    def redirections(
        self, redirects: tuple[tree.Redir, ...], compound: bool = False
    ) -> tuple[tuple[Redirect, ...], Stdin | None]:
        """Return the redirections, and the input they give."""
        found: list[Redirect] = []
        stdin: Stdin | None = None
        self.one_input(redirects)
        for redirect in redirects:
            mark = len(self.commands)
            op, target, text = redirect.op, None, None
            if op == "<<":
                text = Word(expansion.single(redirect.body or (), self), redirect.target.source)
            elif op == "<<<":
                text = Word(expansion.merge([*expansion.single(redirect.target.pieces, self), "\n"]))
            else:
                target = file_word(redirect.target, self)
            found.append(Redirect(op, redirect.fd, target, text))  # type: ignore[arg-type]
            if is_input(redirect):
                stdin = Stdin(text, tuple(self.commands[mark:])) if text else self.from_file(target, op, compound)
        return tuple(found), stdin

    def one_input(self, redirects: tuple[tree.Redir, ...], before: int = 0) -> None:
        """Note a command with several inputs, or one besides a pipe (`before`): zsh gives it all, bash the last one."""
        if before + sum(map(is_input, redirects)) > 1:
            expansion.other_shell(self, "several inputs of one command")

    def from_file(self, target: Word | None, op: str, compound: bool) -> Stdin | None:
        """Return the input that `<` gives: a process substitution's; the redirection itself says which file is read."""
        if target is not None and target.is_process and self.processes:
            value, feeders = self.processes[-1]
            return Stdin(Word(value) if known(value) is not None else None, feeders)
        if target is not None and target.text in (("0",) if "&" in op else STANDARD_INPUT - {"-"}):
            return self.stdin
        return Stdin() if compound or op != "<" else None

    # Running

    def invoke(
        self,
        command: Command,
        shell: bool = True,
        functions: bool = True,
        processes: tuple[tuple[Value, tuple[Command, ...]], ...] = (),
    ) -> tuple[str | None, ...]:
        """Note a command and read what it runs or changes. `shell` says that builtins apply."""
        words, assigns, redirects = command.words, command.assigns, command.redirects
        name = words[0].text
        if command.stdin is None and not any(map(is_input, redirects)):
            command.stdin = self.stdin
        if functions and name is not None and name in self.state.functions:
            body, sure = self.state.functions[name]
            self.emit(Command((), assigns, redirects, command.stdin, source=command.source))
            call(self, body, command)
            if sure:
                return self.state.cwds
        if processes and any(word.is_process for word in words[1:]):
            command.stdin = fed_script(command, processes)
        self.emit(command)
        if name is None:
            program = next(iter(words))
            if program.glob and program.start[:1] in ("/", "*", "?", "["):
                self.problem(Unsure("the name of a program is a pattern", program.source, "shell:computed-name"))
            if shell:
                self.state.vars = dict.fromkeys(self.state.vars, OUTER)
            return self.state.cwds
        if shell and assigns and name in SPECIAL_BUILTINS:
            for variable, _ in assigns:
                self.state.vars[variable] = UNKNOWN
        run_further(self, command, name, shell)
        change = BUILTINS.get(name) if shell else None
        failed = change(self, command) if change is not None else None
        return self.state.cwds if failed is None else failed
