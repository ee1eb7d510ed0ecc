"""Find the names of files in a pipe: the output of `find`, `git ls-files`, `rg -l` and similar commands.

Such a name lies below the folder that was searched. It cannot lead out of that folder with `..`. It begins with a
dash only if no folder was named and there is a file with such a name.
"""

from __future__ import annotations

import re

from .parts import Command, Stdin, Word
from .state import Listed
from .table import lookup
from .table.readers import find_starts
from .table.spec import parse_options

# Programs that print some of the lines they read, unchanged, with the options that leave that so.
_FILTERS = {
    "grep": r"-[viEFPwxq]+", "egrep": r"-[viwx]+", "sort": r"-[urnzVhf]+", "uniq": r"-[udiz]+", "tac": "-z",
    "head": r"-n|-n?\d+", "tail": r"-n|-n?\d+", "rg": r"-[viFwx]+",
}  # fmt: skip
_LISTS = {
    "grep": "-l -L -rl -rL -lr -Rl -ril -rli",
    "rg": "-l --files --files-with-matches",
    "git": "",
    "fd": "",
    "fdfind": "",
    "ls": "",
}
_REWRITES = re.compile(r"--(?:format|line-prefix|replace|base-directory|stdin).*|-(?:l|n|o|s|i|p|F|R|Q)+|-r.+|-f")
_LS = re.compile(r"-[1trSAdXUv]+")
_NAMES = {"ls-files": "", "diff": "--name-only", "grep": "-l", "ls-tree": "--name-only", "show": "--name-only"}


def listed(stdin: Stdin) -> list[Listed] | None:
    """Return the starts of the file names on an input, one for each folder searched; None if it has other content."""
    feeders = stdin.feeders
    for _ in range(10):
        if len(feeders) != 1 or feeders[0].redirects or feeders[0].assigns:
            return None
        command = feeders[0]
        name = command.program or ""
        if command.stdin is None or not _passes_lines(name, command):
            return _of_find(command) if name in ("find", "gfind") else _source(name, command)
        feeders = command.stdin.feeders
    return None


def _passes_lines(name: str, command: Command) -> bool:
    """Return whether a filter got no files, and no option that changes its lines."""
    known = _FILTERS.get(name)
    if known is None:
        return False
    texts = [word.text or "" for word in command.args]
    rest = [text for text in texts if not re.fullmatch(known, text)]
    if name in ("head", "tail"):
        rest = [text for text in rest if not text.isdigit()]
    return not rest if name not in ("grep", "egrep", "rg") else len(rest) == 1 and not rest[0].startswith("-")


def _source(name: str, command: Command) -> list[Listed] | None:
    """Return the names below the present folder that a command lists, if it lists nothing else."""
    words = command.args
    if name not in _LISTS or any(word.start.startswith(("/", "~", "..")) or "/.." in word.start for word in words):
        return None
    texts = [word.text for word in words if word.text is not None or not word.glob]
    if None in texts:
        return None
    options = [text for text in texts if text is not None and text.startswith("-") and text != "--"]
    if name == "git":
        wanted = _NAMES.get(texts[0] or "") if texts else None
        options = [text for text in options if not re.fullmatch(r"-[mocdzxi]+|--format=", text)]
        fits = wanted is not None and (wanted in options or not wanted) and not (wanted == "-l" and "-L" in options)
        options = [text for text in options if text != "-l" or wanted != "-l"]
    else:
        asked = _LISTS[name].split()
        fits = not asked or bool(set(asked) & set(options))
        options = [text for text in options if text not in asked and not (name == "ls" and _LS.fullmatch(text))]
        fits = fits and not (name == "ls" and options)
    return [Listed((None,))] if fits and not any(map(_REWRITES.fullmatch, options)) else None


_ACTS = re.compile("-printf|-ls|-delete|-exec.*|-ok.*")


def _of_find(command: Command) -> list[Listed] | None:
    """Return the names that find prints: below its starting points, and matching its only pattern."""
    known = lookup("find")
    table = parse_options(known.options, True) if known is not None else {}
    starts, tests = find_starts(command.args)
    pattern, index = "", 0
    while index < len(tests):
        text = tests[index].text
        index += 1
        if text in ("(", ")", "!", ","):
            continue
        option = table.get(text or "")
        if option is None or option.role not in ("text", "list") or _ACTS.fullmatch(text or ""):
            return None
        if text in ("-name", "-iname") and index < len(tests):
            pattern = tests[index].text or ""
        index += option.takes
    found: list[Listed] = []
    for word in starts or [Word((".",))]:
        if word.many or word.glob or None in word.parts or not word.start or len(starts) > 8:
            return None
        start = f"{word.start.rstrip('/')}/"
        found.append(Listed((start, None), f"{start}{pattern}" if pattern and "/" not in pattern else ""))
    return found


_TOKEN = re.compile(
    r"git (?:merge-base|rev-parse|describe)(?: --(?:short|abbrev-ref|verify|quiet|tags|always|dirty|long|exact-match"
    r"|all|fork-point|abbrev=\d+)| -[qa]| [\w@^~./{}][\w@^~./{}-]*)*"
    r"|git branch --show-current|nproc(?: --all)?|whoami|arch|uname -[srmopi]|id -[ug]n?"
    r"|date (?:-u |--utc )?\+(?!\S*%n)[%\w:.T_-]*[%\w:.T_]"
)


def prints_token(command: Command) -> bool:
    """Return whether a command prints one name, hash or number, without a dash at its start and without blanks."""
    texts = [word.text if word.text is not None else " " for word in command.words]
    return not command.redirects and _TOKEN.fullmatch(" ".join(texts)) is not None
