"""Read what a script's own functions run when they are called."""

from __future__ import annotations

from .parts import Command, Stdin
from .script_walk import ScriptWalk
from .tree import Function, Unsure

MAX_CALLS = 20  # the largest depth of functions that call functions


def call(reader: ScriptWalk, function: Function, command: Command) -> None:
    """Read a function's body as a call of it would run. Raises `Unsure` if calls are nested too deeply."""
    reader.called.add(id(function))
    outside = [entry for entry in reader.stack if entry[0] is function]
    if outside:
        reader.recursions += 1
        _, forks, conditions = outside[-1]
        if reader.background or (reader.forks > forks and reader.conditions == conditions):
            fork_bomb(reader, function.name)
    if len(outside) > 1:
        return
    if len(reader.stack) > MAX_CALLS:
        raise Unsure("functions call each other too deeply", function.name, "shell:nesting")
    words, state = command.words, reader.state
    before = state.copy()
    state.arguments = None if outside or any(w.many or w.glob for w in words) else tuple(w.parts for w in words[1:])
    for name, word in command.assigns:
        state.set(name, word.parts)
    if outside:
        state.forget()
    run_body(reader, function, command.stdin)
    reader.state.vars = {**before.vars, **reader.state.vars}
    cwds = reader.state.cwds
    reader.state.arguments = before.arguments
    reader.state.join(before)
    reader.state.cwds = cwds


def run_body(reader: ScriptWalk, function: Function, stdin: Stdin | None) -> None:
    """Read a function's body in the present state."""
    outer, reader.function = reader.function, function.name
    kept, reader.stdin = reader.stdin, stdin
    reader.stack.append((function, reader.forks, reader.conditions))
    reader.framed(lambda: reader.fall(reader.node(function.body)))
    reader.stack.pop()
    reader.function, reader.stdin = outer, kept


def fork_bomb(reader: ScriptWalk, name: str) -> None:
    """Note a function that starts copies of itself without end."""
    if not any(problem.rule == "shell:fork-bomb" for problem in reader.problems):
        reader.problem(Unsure("a function starts copies of itself without end", name, "shell:fork-bomb"), "deny")


def uncalled(reader: ScriptWalk) -> None:
    """Read functions that nothing has called yet, because anything might call them."""
    for function in reader.defined:
        if id(function) not in reader.called:
            reader.called.add(id(function))
            reader.state = reader.state.copy()
            reader.state.forget()
            run_body(reader, function, None)
