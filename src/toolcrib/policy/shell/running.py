"""Read what a program runs in turn: words, text for a separate shell, or text for the present one."""

from __future__ import annotations

from .parts import Command, Stdin, Word, plain_name
from .produced import as_word
from .script_walk import ScriptWalk
from .shell_state import OUTER, UNKNOWN, Value, known
from .tree import Unsure
from .wrappers.inner import Inner
from .wrappers.unfold import keeps_home, unfold

MAX_SCRIPTS = 12  # the largest depth of shells within shells


def run_further(reader: ScriptWalk, command: Command, name: str, shell: bool) -> None:
    """Read the command or text that a wrapper runs. Raises `Unsure` if wrappers are nested too deeply."""
    words, stdin = command.words, command.stdin
    inners = unfold(words, stdin.text if stdin is not None and not stdin.shared else None)
    if not inners:
        return
    via, outer_stdin = reader.via, reader.stdin
    if len(via) >= MAX_SCRIPTS:
        raise Unsure("wrappers are nested too deeply", name, "shell:nesting")
    reader.via = (*via, plain_name(words[0].text) or name)
    for inner in inners:
        if inner.inside and not shell:
            if not inner.words:
                continue
            inner.inside = False  # some systems have a program with the name of the builtin (`env command rm x`)
        if inner.unread:
            reader.problem(Unsure(inner.unread, name, "shell:rare"))
        reader.stdin = stdin if inner.fed else Stdin()
        if len(inners) > 1:
            reader.share_input()
        home = reader.state.home
        if not keeps_home(words):
            reader.state.home = None
        run_one(reader, inner, command.assigns, stdin)
        reader.state.home = home
    reader.via, reader.stdin = via, outer_stdin


def fed_script(command: Command, processes: tuple[tuple[Value, tuple[Command, ...]], ...]) -> Stdin | None:
    """Return the script that a shell or `source` reads from a process substitution as its first operand."""
    words = command.words
    if plain_name(words[0].text) is None:
        return command.stdin
    value, feeders = processes[0]
    inners = unfold(words)
    return Stdin(as_word(known(value)), feeders) if any(inner.reads for inner in inners) else command.stdin


def run_one(reader: ScriptWalk, inner: Inner, assigns: tuple[tuple[str, Word], ...], stdin: Stdin | None) -> None:
    """Read one command or text that a wrapper runs."""
    if inner.same:
        if not read_text(reader, inner, stdin):
            reader.state.forget()
        return
    if inner.inside and inner.words:
        reader.invoke(Command(inner.words, assigns), functions=False)
        return

    def walk() -> None:
        if inner.directory is not None:
            reader.state.go(inner.directory.text)
        if inner.later:
            reader.state.forget()
        if inner.words:
            reader.invoke(Command(inner.words, (*assigns, *inner.assigns)), shell=False, functions=False)
            return
        new_shell(reader, (*assigns, *inner.assigns), inner)
        read_text(reader, inner, stdin)

    reader.apart(walk)


def read_text(reader: ScriptWalk, inner: Inner, stdin: Stdin | None) -> bool:
    """Read the text that a shell is given, or its input. Return whether it is known; if not, the commands in the
    substitutions that produce it count as its feeders."""
    script = inner.script if not inner.reads else stdin.text if stdin is not None else None
    text = script.text if script is not None else None
    if text is not None and "\0" not in text:
        if inner.reads:
            reader.problem(Unsure("a shell reads its commands from its input", text[:60], "shell:script-input"))
        reader.share_input()
        reader.text(text, inner.posix or (inner.inside and reader.posix))
        return True
    if script is not None and not inner.reads:
        word = Word(UNKNOWN, script.source, many=True)
        reader.emit(Command((word,), stdin=Stdin(None, reader.made), source=script.source))
    return False


def new_shell(reader: ScriptWalk, assigns: tuple[tuple[str, Word], ...], inner: Inner) -> None:
    """Change the state to that of a new shell: only what was exported is still known."""
    if inner.inside:
        return
    state = reader.state
    state.vars = dict.fromkeys(state.vars, OUTER)
    for name, word in assigns:
        state.set(name, UNKNOWN if word.text is None else (word.text,))
    state.doubt_functions()
    words = inner.arguments
    exact = words is not None and not any(word.many or word.glob for word in words)
    state.arguments = tuple(word.parts for word in words) if words is not None and exact else None
    state.arg0 = inner.arg0.text if inner.arg0 is not None else None
