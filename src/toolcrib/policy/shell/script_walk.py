"""Keep what one reading of a script knows: the state of the shell, and the commands and problems found so far.

`script_reader` walks the tree. The modules for loops, functions, builtins and words take this class, and read on by its
methods.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace

from .parts import Command, Problem, Script, Stdin, Word
from .shell_state import UNKNOWN, State, Value, directories
from .tree import Function, Item, Node, Unsure

MAX_COMMANDS = 4_000


class ScriptWalk(ABC):
    """One reading of a script: the state of the shell, and the results so far."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.commands: list[Command] = []
        self.problems: dict[Problem, None] = {}
        self.stdin: Stdin | None = None
        self.via: tuple[str, ...] = ()
        self.function: str | None = None
        self.background = False
        self.posix = False  # `sh` may read this text
        self.scripts = 0
        self.steps = 0
        self.repeats = False
        self.physical = False  # after `cd -P`: what a `..` leads to is not known
        self.frames: list[list[State]] = []  # states at break, continue and return, by enclosing loop or function
        self.stack: list[tuple[Function, int, int]] = []  # functions being called, with forks and conditions outside
        self.forks = 0
        self.conditions = 0
        self.recursions = 0
        self.defined: list[Function] = []
        self.called: set[int] = set()
        self.made: tuple[Command, ...] = ()  # commands in the substitutions of the words that are being run
        self.processes: list[tuple[Value, tuple[Command, ...]]] = []

    def script(self) -> Script:
        """Return the commands and problems found so far."""
        commands = tuple(dict.fromkeys(self.commands)) if self.repeats else tuple(self.commands)
        return Script(commands, tuple(self.problems))

    def problem(self, unsure: Unsure, verdict: str = "ask") -> None:
        """Note a part that could not be read."""
        found = Problem("deny" if verdict == "deny" else "ask", unsure.rule, unsure.reason, unsure.source)
        self.problems.setdefault(found)

    def fall(self, failed: tuple[str | None, ...]) -> None:
        """Continue whether or not the last statement failed."""
        state = self.state
        if failed is not state.cwds:
            state.cwds = directories(state.cwds + failed)

    def apart(self, walk: Callable[[], object]) -> State:
        """Read in a subshell and return its last state: its changes do not affect the present state."""
        state, self.state = self.state, self.state.copy()
        self.forks += 1
        walk()
        self.forks -= 1
        inner, self.state = self.state, state
        return inner

    def framed(self, walk: Callable[[], object]) -> list[State]:
        """Read what break, continue or return may leave. Return the states in which they do; they count for the state
        after it."""
        self.frames.append([])
        walk()
        left = self.frames.pop()
        for state in left:
            self.state.join(state)
        return left

    def merge(self, ends: list[State]) -> None:
        """Continue from any of several states."""
        first, *others = ends
        for other in others:
            first.join(other)
        self.state = first

    def assigned(self, name: str) -> None:
        """Note a variable that an expansion assigns: its name may be one that other programs obey."""
        self.emit(Command((), ((name, Word(UNKNOWN)),)))

    def emit(self, command: Command) -> None:
        """Note a command, once for each directory it may run in. This method fills in where and how it runs.

        Raises `Unsure` if there are too many commands.
        """
        if not (command.words or command.assigns or command.redirects):
            return
        if len(self.commands) > MAX_COMMANDS:
            raise Unsure("it runs too many commands", rule="shell:size")
        command.via, command.function, command.background = self.via, self.function, self.background
        cwds = self.state.cwds
        if cwds:
            command.cwd = cwds[0]
        self.commands.append(command)
        for cwd in cwds[1:]:
            self.commands.append(replace(command, cwd=cwd))

    def share_input(self) -> None:
        """Note that several commands may read the present input, if its text is known."""
        if self.stdin is not None and self.stdin.text is not None:
            self.stdin = replace(self.stdin, shared=True)

    def leave(self) -> None:
        """Note the state in which break, continue or return leaves a loop or function."""
        for frame in self.frames:
            frame.append(self.state.copy())

    @abstractmethod
    def text(self, text: str, posix: bool = False) -> None:
        """Read text in the present state. Raises `Unsure` if shells are nested too deeply."""

    @abstractmethod
    def items(self, items: tuple[Item, ...]) -> tuple[str | None, ...]:
        """Read a list; return the directories in which its last statement may have failed."""

    @abstractmethod
    def node(self, node: Node) -> tuple[str | None, ...]:
        """Read a command; return the directories if it fails."""

    @abstractmethod
    def invoke(self, command: Command, shell: bool = True, functions: bool = True) -> tuple[str | None, ...]:
        """Note a command and read what it runs or changes. `shell` says that builtins apply."""

    @abstractmethod
    def substitute(self, body: tuple[Item, ...]) -> Value:
        """Read a command substitution; return its output as far as it is known."""

    @abstractmethod
    def process(self, body: tuple[Item, ...], write: bool) -> None:
        """Read a process substitution."""
