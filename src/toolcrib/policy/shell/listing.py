"""Find the names of files in a pipe: the output of `find`, `git ls-files`, `rg -l` and similar commands.

Such a name lies below the folder that was searched. It cannot lead out of that folder with `..`. It begins with a
dash only if no folder was named and there is a file with such a name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from .effects import program_name
from .parts import Command, Stdin, Word
from .sorting import SortedWords, sort_words
from .state import Listed
from .table import lookup
from .table.files import FIND_TESTS
from .table.spec import parse_options

MAX_WORDS = 8
# Programs that print some of the lines they read, unchanged.
_FILTERS = frozenset({"grep", "egrep", "fgrep", "sort", "uniq", "head", "tail", "tac", "shuf", "rg"})
_WHOLE_LINES = {
    "grep": {"-v", "-i", "-E", "-F", "-P", "-e", "-w", "-x", "-m", "-z", "-q"},
    "egrep": {"-v", "-i", "-e", "-w", "-x"},
    "fgrep": {"-v", "-i", "-e", "-w", "-x"},
    "rg": {"-v", "-i", "-F", "-e", "-w", "-x", "-m", "-S"},
    "sort": {"-u", "-r", "-n", "-z", "-k", "-t", "-V", "-h", "-f"},
    "uniq": {"-u", "-d", "-i", "-z"},
    "head": {"-n", "-z", "-1", "-5"},
    "tail": {"-n", "-z"},
    "tac": set[str](),
    "shuf": {"-n", "-z"},
}
_NAMES_ONLY = {"-l", "--files-with-matches", "-L", "--files-without-match", "--files"}
_LS_FILES = {
    "-m", "-o", "-d", "-c", "-z", "-x", "--others", "--exclude-standard", "--modified", "--cached", "--deleted",
    "--full-name", "--exclude", "--deduplicate",
}  # fmt: skip
_LS = {"-1", "-t", "-r", "-S", "-A", "-d", "-X", "-U", "-v"}


def listed(stdin: Stdin) -> list[Listed] | None:
    """Return the starts of the file names on an input, one for each folder searched; None if it has other content."""
    feeders = stdin.feeders
    for _ in range(10):
        if len(feeders) != 1:
            return None
        command = feeders[0]
        name = program_name(command)
        if name is None or command.redirects or command.assigns:
            return None
        if name not in _FILTERS or command.stdin is None or not _passes_lines(name, command):
            return _source(name, command)
        feeders = command.stdin.feeders
    return None


def _call(name: str, command: Command, words: Sequence[Word] | None = None) -> SortedWords | None:
    known = lookup(name)
    return None if known is None else sort_words(name, known, command.args if words is None else words, command)


def _options(call: SortedWords) -> set[str]:
    return {given.name for given in call.options} | set(call.unlisted)


def _passes_lines(name: str, command: Command) -> bool:
    """Return whether a filter got no files, and no option that changes its lines."""
    call = _call(name, command)
    if call is None or call.unsure:
        return False
    options = {re.sub(r"\A-\d+\Z", "-1", option) for option in _options(call)}
    plain = {option for option in options if not re.fullmatch(r"-\d", option)}
    files = len(call.operands) - (name in ("grep", "egrep", "fgrep", "rg") and not call.has("-e"))
    return files == 0 and plain <= _WHOLE_LINES[name]


def _source(name: str, command: Command) -> list[Listed] | None:
    if name in ("find", "gfind"):
        return _of_find(command)
    if name == "git":
        return _of_git(command)
    call = _call(name, command)
    if call is None or call.unsure:
        return None
    if name in ("grep", "egrep", "fgrep", "rg"):
        if not _options(call) & _NAMES_ONLY or (call.has("-f", "--file", "-r", "--replace") and name == "rg"):
            return None
        given = call.has("-e", "--regexp") or "--files" in _options(call)
        return _roots(call.operands if given else call.operands[1:])
    if name in ("fd", "fdfind"):
        return None if call.has("--format", "--base-directory") else _roots(call.operands[1:])
    if name == "ls":
        return _names() if _options(call) <= _LS and all(_stays(word) for word in call.operands) else None
    return None


def _names() -> list[Listed]:
    return [Listed((None,))]


def _stays(word: Word) -> bool:
    """Return whether an operand is a known place below the present folder."""
    start = word.start
    return bool(start) and None not in word.parts and not start.startswith(("/", "~")) and ".." not in start


def _roots(words: Sequence[Word], pattern: str = "") -> list[Listed] | None:
    """Return names below the given folders, or below the present folder if none is given."""
    if not words:
        return [Listed((None,), pattern)]
    if len(words) > MAX_WORDS or any(word.many or None in word.parts or not word.start for word in words):
        return None
    found: list[Listed] = []
    for word in words:
        start = re.split(r"[*?\[\\]", word.start)[0] if word.glob else word.start
        if word.glob and ".." in word.start[len(start) :]:
            return None
        start = start if word.glob else f"{start.rstrip('/')}/"
        found.append(Listed((start, None) if start else (None,), f"{start}{pattern}" if pattern else ""))
    return found


def _of_find(command: Command) -> list[Listed] | None:
    table = parse_options(FIND_TESTS)
    words = [word for word in command.args if word.text not in ("-H", "-L", "-P")]
    at = next((i for i, word in enumerate(words) if word.start.startswith("-") or word.start in ("(", "!")), len(words))
    pattern, tests = "", words[at:]
    index = 0
    while index < len(tests):
        text = tests[index].text
        if text in ("(", ")", "!", ","):
            index += 1
            continue
        option = table.get(text or "")
        if option is None or option.role not in ("text", "list") or text in ("-printf", "-ls", "-delete"):
            return None
        if text in ("-exec", "-execdir", "-ok", "-okdir"):
            return None
        if text in ("-name", "-iname") and index + 1 < len(tests) and tests[index - 1 : index] != ["!"]:
            pattern = tests[index + 1].text or ""
        index += 2 if option.takes else 1
    return _roots(words[:at] or [Word((".",))], "" if "/" in pattern else pattern)


def _of_git(command: Command) -> list[Listed] | None:
    words = [word.text for word in command.args]
    if not words or None in words[:1] or words[0] not in ("ls-files", "diff", "grep", "ls-tree", "show"):
        return None
    rest = command.args[1:]
    options = [text for word in rest if (text := word.text) is not None and text.startswith("-") and text != "--"]
    if any(word.text is None and not word.glob for word in rest):
        return None
    if words[0] == "ls-files":
        fits = {option.partition("=")[0] for option in options} <= _LS_FILES
    else:
        only = {"-l", "--files-with-matches"} if words[0] == "grep" else {"--name-only"}
        fits = bool(only & set(options)) and not any(
            option.startswith(("--format", "--line-prefix")) for option in options
        )
        fits = fits and (words[0] != "show" or "--format=" in options)
    outside = any(word.start.startswith(("/", "~", "..")) or "/.." in word.start for word in rest)
    return _names() if fits and not outside else None


_TOKENS = {
    "git merge-base": {"--fork-point", "-a", "--all", "--octopus"},
    "git rev-parse": {"--short", "--abbrev-ref", "--verify", "-q", "--quiet"},
    "git describe": {
        "--tags",
        "--abbrev",
        "--always",
        "--dirty",
        "--long",
        "--contains",
        "--exact-match",
        "--first-parent",
    },
    "git branch": {"--show-current"},
    "nproc": {"--all"},
    "whoami": set[str](),
    "arch": set[str](),
    "uname": {"-s", "-r", "-m", "-o", "-p", "-i"},
    "id": {"-u", "-g", "-un", "-gn"},
}
_DATE = re.compile(r"\+[%\w:.T_-]*[%\w:.T_]")


def prints_token(command: Command) -> bool:
    """Return whether a command prints one name, hash or number, without a dash at its start and without blanks."""
    name, texts = program_name(command), [word.text for word in command.args]
    if name is None or None in texts or command.redirects:
        return False
    words = [text for text in texts if text is not None]
    if name == "date":
        formats = [word for word in words if word not in ("-u", "--utc")]
        return len(formats) == 1 and _DATE.fullmatch(formats[0]) is not None and "%n" not in formats[0]
    if name == "git" and words:
        name, words = f"git {words[0]}", words[1:]
        if name == "git branch" and words != ["--show-current"]:
            return False
    options = {word.partition("=")[0] for word in words if word.startswith("-")}
    return name in _TOKENS and options <= _TOKENS[name] and (name.startswith("git ") or len(options) == len(words))
