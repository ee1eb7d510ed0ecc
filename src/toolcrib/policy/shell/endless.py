"""Find commands that never end by themselves: sources that nothing stops, followers, loops without an exit."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .effects import program_name
from .parts import Command, Script, Word
from .table.wordlist import words
from .tree import AndOr, Arithmetic, Case, Condition, For, Function, Group, If, Item, Node, PipedCommands, Simple, While

SOURCES = words("/dev/zero /dev/urandom /dev/random /dev/full")
_FOLLOWS = re.compile(r"-[a-zA-Z0-9]*[fF][a-zA-Z0-9]*|\+\d*[bcl]?f|--f(?:o(?:l(?:l(?:ow?)?)?)?)?(?:=.*)?|--retry")
_FOLLOWERS = words("tail gtail")
# Flags that make an inspecting program run without end.
_REPEATS = {
    "dmesg": r"-\w*[wW]|--follow(?:-new)?",
    "free": r"-\w*s.*|--seconds.*",
    "netstat": r"-\w*c\w*|--continuous",
    "findmnt": r"-p|--poll.*",
    "ss": r"-\w*E\w*|--events",
    "less": r"\+.*F.*",
    "vmstat": r"\d+",
    "iostat": r"\d+",
    "mpstat": r"\d+",
    "pidstat": r"\d+",
    "jq": r".*\b(?:repeat|infinite|recurse\([^)]*[^)?]\)|while\s*\(\s*true|until\s*\(\s*false).*",
}
_WATCHERS = words("watch top htop btop atop inotifywait fswatch entr pv")
# Options that limit how much a reader takes, and readers that stop by themselves.
_LIMITS = {
    "head": ("-c", "--bytes"),
    "od": ("-N", "--read-bytes"),
    "xxd": ("-l",),
    "hexdump": ("-n",),
    "hd": ("-n",),
    "hexyl": ("-n", "--length"),
    "dd": ("count=",),
    "cmp": ("-n", "--bytes"),
    "strings": (),
    "read": ("",),
    "shuf": (),
}
_STOPS = words("head read dd timeout true false :")
_TIMED = words("timeout gtimeout")


_NAMES = _FOLLOWERS | _WATCHERS | _REPEATS.keys() | {"yes", "seq"}


def may_be_endless(script: Script, programs: set[str | None]) -> bool:
    """Return quickly whether there is anything to search for."""
    if not programs.isdisjoint(_NAMES):
        return True
    for command in script.commands:
        for word in command.words:
            if word.parts and word.parts[0] and "/dev/" in word.parts[0]:
                return True
        for redirect in command.redirects:
            if redirect.target is not None and redirect.target.start.startswith("/dev/"):
                return True
    return False


def endless(script: Script) -> Iterator[tuple[Command, str]]:
    """Yield the commands that would not end: (command, the message)."""
    cut: set[int] = set()
    suspects: list[tuple[Command, str]] = []
    for command in script.commands:
        name = program_name(command)
        if name is None:
            continue
        if command.stdin is not None and command.stdin.feeders and (name in _STOPS or _limited(name, command)):
            cut.update(map(id, _feeders(command)))
        said = _never_ends(name, command)
        if said and not _TIMED & set(command.via):
            suspects.append((command, said))
    for command, said in suspects:
        if id(command) not in cut:
            yield command, said


def _feeders(command: Command) -> Iterator[Command]:
    waiting = list(command.stdin.feeders) if command.stdin is not None else []
    while waiting:
        feeder = waiting.pop()
        yield feeder
        if feeder.stdin is not None:
            waiting += feeder.stdin.feeders


def _never_ends(name: str, command: Command) -> str:
    texts = [word.text or "" for word in command.args]
    if name == "yes" and texts[:1] not in (["--help"], ["--version"]):
        return "prints without end"
    if name in _FOLLOWERS and any(_FOLLOWS.fullmatch(text) for text in texts):
        return "follows a file without end"
    if name in _WATCHERS and not {"-n", "--help", "--version", "-h", "-V"} & set(texts if name != "watch" else ()):
        return "runs without end"
    repeats = _REPEATS.get(name)
    if repeats is not None:
        given = [text for text in texts if re.fullmatch(repeats, text, re.DOTALL)]
        if given and not (given[0].isdigit() and len(given) > 1):
            return "runs without end"
    if name == "seq" and any(text.lower() in ("inf", "infinity", "nan", "-inf") for text in texts):
        return "counts without end"
    if _reads_source(command) and not _limited(name, command):
        return "reads a source that has no end"
    return ""


def _reads_source(command: Command) -> bool:
    read = [*command.args, *(r.target for r in command.redirects if r.op in ("<", "<>") and r.target is not None)]
    return any(_is_source(word) for word in read) and program_name(command) not in _NAMED_ONLY


_NAMED_ONLY = words(
    "echo printf ls stat file basename dirname test [ type which realpath readlink du find true false :"
)


def _is_source(word: Word) -> bool:
    text = word.text or ""
    return "/dev/" in text and re.sub(r"/(?:\./|/)+", "/", text.partition("=")[2] or text) in SOURCES


def _limited(name: str, command: Command) -> bool:
    options = _LIMITS.get(name)
    if options is None:
        return False
    if name in ("read", "head") and command.stdin is not None and command.stdin.feeders:
        return True  # a pipe ends with its reader
    texts = [word.start for word in command.args]
    return any(
        text.startswith(option) or (len(option) == 2 and re.match(rf"-\w*{option[1]}\d", text))
        for option in options
        for text in texts
    )


# --- loops


_CONSTANT = words(": true")
_LEAVES = words("break exit return exec logout")


def loops_forever(node: While) -> bool:
    """Return whether a loop's condition always holds and nothing in its body leaves the loop."""
    if len(node.condition) != 1 or node.condition[0].background:
        return False
    condition = node.condition[0].node
    return (_is_false(condition) if node.until else _always(condition)) and not any(
        _leaves(item.node) for item in node.body
    )


def _always(node: Node) -> bool:
    if isinstance(node, Simple):
        texts = [word.plain or word.source for word in node.words]
        if texts[:1] in (["["], ["test"]):
            return len(texts) < 4 and all(re.fullmatch(r"\[|\]|test|\w+", text) for text in texts)
        return len(texts) > 0 and (texts[0] in _CONSTANT or texts[0] in ("sleep", "echo", "date"))
    if isinstance(node, Condition):
        return len(node.words) == 1 and node.words[0].plain is not None
    if isinstance(node, PipedCommands):  # `! false`
        return len(node.commands) == 1 and _is_false(node.commands[0])
    if isinstance(node, Arithmetic):
        return (
            len(node.pieces) == 1 and re.fullmatch(r"\s*[1-9]\d*\s*", getattr(node.pieces[0], "text", "")) is not None
        )
    return False


def _is_false(node: Node) -> bool:
    return isinstance(node, Simple) and len(node.words) == 1 and node.words[0].plain == "false"


def _leaves(node: Node) -> bool:
    """Return whether something in a statement could leave the loop around it."""
    match node:
        case Simple():
            return bool(node.words) and node.words[0].plain in _LEAVES
        case PipedCommands():
            return len(node.commands) == 1 and _leaves(node.commands[0])
        case AndOr():
            return _leaves(node.first) or any(_leaves(part) for _, part in node.rest)
        case Group():
            return not node.subshell and _any_leaves(node.body)
        case If():
            return any(_any_leaves(a) or _any_leaves(b) for a, b in node.clauses) or _any_leaves(node.otherwise)
        case Case():
            return any(_any_leaves(body) for _, body in node.items)
        case While() | For():
            return any(_exits(item.node) for item in node.body)
        case Function():
            return False
        case _:
            return False


def _exits(node: Node) -> bool:
    return isinstance(node, Simple) and bool(node.words) and node.words[0].plain in ("exit", "return", "exec")


def _any_leaves(items: tuple[Item, ...]) -> bool:
    return any(_leaves(item.node) for item in items)


def multiplies(items: tuple[Item, ...]) -> bool:
    """Return whether a list starts something in the background and waits for none of it."""
    waits = any(isinstance(i.node, Simple) and i.node.words and i.node.words[0].plain == "wait" for i in items)
    return not waits and any(item.background for item in items)
