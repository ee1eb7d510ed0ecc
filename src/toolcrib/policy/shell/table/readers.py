"""Judge the programs whose operands are more than paths: patterns, scripts and filters, archives, special names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ....core.text import lazy_regex
from ..inline_code import effects_of_code
from ..parts import Command, Effect, Word
from ..roles import of_operands, of_options, of_program_word, of_role, plain
from ..sorting import cut, literal, sort_words
from .program_spec import SortedWords, parse_options

UNKNOWN_CODE = "shell:unknown-code"
_RUNS = ("-exec", "-execdir", "-ok", "-okdir")
_NAMES = ("-name", "-iname", "-path", "-ipath", "-wholename")
_FILES = ("-samefile", "-regex", "-iregex")
_LEVELS = lazy_regex(r"-[aEFGHhIiLlnoPqrsTUuvwxyzZbcV]*[0-9]")


def find(call: SortedWords) -> Iterator[Effect]:
    """find: starting points, tests and actions; the command of `-exec` is a separate command."""
    starts, actions = find_starts(call.command.args)
    table = parse_options(call.program.options, True)
    deletes, index = False, 0
    runs = any(word.text in _RUNS for word in actions)
    while index < len(actions):
        word = actions[index]
        text, index = word.text, index + 1
        if text in ("(", ")", "!", ","):
            continue
        if text in _RUNS:
            while index < len(actions) and actions[index].text not in (";", "+"):
                index += 1
            index += 1
            continue
        if text == "-fprintf" and index < len(actions):
            yield Effect("write", actions[index])
        option = table.get(text or "")
        if option is None:
            said = f"has a test that is not known here ({text or word.source})"
            yield Effect("unknown", word, said, "shell:unknown-option")
            continue
        deletes = deletes or text == "-delete"
        if option.takes and index < len(actions):
            if runs and text in _NAMES:
                yield from (Effect("read", _named(start, actions[index])) for start in starts or [literal(".")])
            elif runs and text in _FILES:
                yield Effect("read", literal((actions[index].text or "").replace("\\", "")))
            yield from of_role(option.role, actions[index])
            index += 1
    for start in starts or [literal(".")]:
        yield Effect("list", start)
        if runs and start.glob:  # `find .e* -exec cat {} +`
            yield Effect("read", start)
        if deletes:
            yield Effect("delete", below(start))


def _named(start: Word, name: Word) -> Word:
    """Return the files that find selects to run something on: a pattern, or a name, below a starting point."""
    text, folder = name.text, start.text
    if text is None or folder is None:
        return start
    return Word((f"{folder.rstrip('/')}/{text.lstrip('/')}",), name.source, glob=re.search(r"[*?\[]", text) is not None)


def find_starts(words: Sequence[Word]) -> tuple[list[Word], Sequence[Word]]:
    """Return the starting points of find, and all words from the first test on."""
    starts: list[Word] = []
    for index, word in enumerate(words):
        if word.start.startswith("-") or word.text in ("(", ")", "!", ","):
            return starts, words[index:]
        starts.append(word)
    return starts, ()


def below(start: Word) -> Word:
    """Return a word for something below a starting point whose name is not known."""
    text = start.text
    return start if text is None else Word((text.rstrip("/") + "/", None), start.source)


# --- sed: only what prints is harmless

# Where brackets end is the same for every sed: BSD's and busybox's look for delimiters only behind them.
_BRACKETS = r"\[\^?+\]?+(?:\[:[a-z]+:\]|\[(?![:.=])|\\(?!\])|(?!{0})[^\[\]\n\\])*\]"
_ADDRESS = rf"(?:\d+(?:~\d+)?|\$|/(?:[^/\\\n\[]|\\.|{_BRACKETS.format('/')})*/[IM]?)"
_HARMLESS_SED = lazy_regex(rf"""(?x)(?:[\s;{{}}]*+
    (?:{_ADDRESS}(?:\s*,\s*(?:{_ADDRESS}|[+~]\d+))?)?\s*+(?:!\s*+)?
    (?:[=dDgGhHlnNpPxz](?=[\s;}}]|\Z)|[qQ]\s*\d*(?=[\s;}}]|\Z)|[{{]
    |s(?P<d>[^\s\w\\\[])(?:(?!(?P=d))[^\\\n\[]|\\.|{_BRACKETS.format("(?P=d)")})*(?P=d)
      (?:(?!(?P=d))[^\\\n]|\\.|\\\n)*(?P=d)[gpIiMm\d]*(?=[\s;}}]|\Z)
    |y/(?:[^/\\\n\[]|\\.)*/(?:[^/\\\n\[]|\\.)*/(?=[\s;}}]|\Z))
    )*+[\s;}}]*(?:\#[^\n]*)?""")
_SED_RUNS = lazy_regex(
    r"(?:\A|[\s;{}/\d$!])e\s+([^\n]+)"
    r"|s(?P<d>[^\s\w])(?:\\.|\[\^?+\]?+[^\]]{0,20}+\]|(?!(?P=d)).)*+(?P=d)((?:\\.|(?!(?P=d)).)*+)(?P=d)[gpIiMm\d]*e",
    re.DOTALL,
)
_SED_FILES = lazy_regex(r"(?:\A|[\s;{}/\d$!gpI|,#])([wWrR])\s*([^\s;}]+)")


def sed_effects(script: str) -> Iterator[Effect]:
    """Yield the effects of a script: none if it certainly only prints, else what its text shows of harm."""
    if _HARMLESS_SED.fullmatch(script):
        return
    yield Effect("unknown", None, "runs a sed script that does more than print", UNKNOWN_CODE)
    for match in _SED_RUNS.finditer(script):
        if line := match[1] or re.sub(r"\\(.)", r"\1", match[3] or ""):
            yield Effect("shell", literal(line), "runs a command from a sed script")
    for kind, name in _SED_FILES.findall(script):
        yield Effect("write" if kind in "wW" else "read", literal(name))


def sed(call: SortedWords) -> Iterator[Effect]:
    """sed: the script is the first operand, unless -e or -f gives one; with -i the files are changed."""
    scripts = call.values("-e", "--expression")
    operands = list(call.operands)
    if not scripts and not call.has("-f", "--file") and operands:
        scripts = [operands.pop(0)]
    for script in scripts:
        yield from _code("sed", script)
    yield from of_operands(operands, "write*" if call.has("-i", "--in-place") else "read*")


def awk(call: SortedWords) -> Iterator[Effect]:
    operands = list(call.operands)
    if not call.has("-f", "--file", "-e", "--source", "-E", "--exec") and operands:
        yield from _code("awk", operands.pop(0))
    for name, word in call.odd:
        if name in ("-e", "--source", "-E"):
            yield from _code("awk", word)
    changes = any((word.text or "").startswith("inplace") for word in call.values("-i", "--include"))
    files = [word for word in operands if not re.match(r"[A-Za-z_]\w*=", word.start)]
    yield from of_operands(files, "write*" if changes else "read*")


def _code(language: str, script: Word) -> Iterator[Effect]:
    if script.text is None:
        yield Effect("unknown", script, f"runs {language} code that is known only in part", UNKNOWN_CODE)
    else:
        yield from sed_effects(script.text) if language == "sed" else effects_of_code(language, script.text)


_READS = lazy_regex(r"\bENV\b|\benv\b|\bimport\b|\binclude\b|\binput_filename\b|\bmodulemeta\b")


def jq(call: SortedWords) -> Iterator[Effect]:
    """jq: a filter, and then files; --arg takes two values."""
    words = list(call.command.args)
    kept: list[Word] = []
    while words and words[0].text != "--":
        word = words.pop(0)
        if word.text in ("--arg", "--argjson"):
            del words[:2]
        else:
            kept.append(word)
    call = sort_words(call.name, call.program, [*kept, *words], call.command)
    operands = list(call.operands)
    for word in operands[:1]:
        if word.text is None or _READS.search(word.text):
            yield Effect("unknown", word, "reads the environment or other files from its filter", "shell:unknown-use")
    yield from plain(replace(call, operands=()), "")
    yield from of_operands(operands[1:], "read*")


def has_levels(command: Command) -> bool:
    """Return whether grep has an option like `-3`: for ugrep that is how many levels of folders it walks."""
    return command.program in ("grep", "egrep", "fgrep") and any(_LEVELS.match(word.start) for word in command.args)


def grep(call: SortedWords) -> Iterator[Effect]:
    """grep: the pattern is the first operand, unless an option gives one. Without a file some search the folder."""
    given = call.has("-e", "--regexp", "-f", "--file", "--files", "--type-list")
    yield from plain(call, call.program.operands.removeprefix("text ") if given else None)
    searches = call.command.program == "rg" and not _has_input(call.command)
    here = not call.operands[0 if given else 1 :] and not call.has("--files", "--type-list")
    walks = has_levels(call.command) or call.has("-r", "-R", "--recursive", "--dereference-recursive")
    if here and (searches or walks):
        yield Effect("read", literal("."))
    for word in call.values("--include", "-g", "--glob", "--iglob", "-G"):  # a filter may name the only file it shows
        for name in re.split(r"[{},]", (word.text or "").replace("\\", "")):
            if name and not (word.text or "").startswith("!"):
                yield Effect("read", Word((name,), name, glob=not {*name}.isdisjoint("*?[")))


def _has_input(command: Command) -> bool:
    """Return whether ripgrep certainly searches its input: a pipe or a text, not /dev/null, which xargs gives, too."""
    given = command.stdin
    return given is not None and bool(given.feeders or given.text) and "xargs" not in command.via


def special(call: SortedWords) -> Iterator[Effect]:
    """binutils: `@file` gives options from a file."""
    for word in call.operands:
        if word.start.startswith("@"):
            yield Effect("named", word)
            yield Effect("read", cut(word, 1))


# --- archives

_COMPRESSORS = lazy_regex(r"(?:\S*/)?(?:gzip|bzip2|xz|zstd|lz4|lzma|lzip|pigz|pbzip2|lzop|compress)")


def tar(call: SortedWords) -> Iterator[Effect]:
    """tar only lists if nothing else is asked for; `tar xzf a` gives the values after its first word."""
    words = list(call.command.args)
    if words and words[0].text and not words[0].start.startswith("-"):
        first: list[Word] = []
        rest = words[1:]
        for letter in words[0].text:
            first.append(literal(f"-{letter}"))
            if letter in "fCbTXgHKLNVIF" and rest:
                first.append(rest.pop(0))
        call = sort_words(call.name, call.program, [*first, *rest], call.command)
    yield from of_options(call)
    for name, word in call.odd:
        if name in ("-I", "-F") and not _COMPRESSORS.fullmatch(word.text or ""):
            yield from of_program_word(word)
        elif name == "-g" or name.startswith(("--listed", "--index", "--volno")):
            yield Effect("write", word)
    folders = call.values("-C", "--directory")
    archives = call.values("-f", "--file")
    extracts = call.has("-x", "--extract", "--get")
    packs = call.has(
        "-c", "--create", "-r", "--append", "-u", "--update", "-A", "--catenate", "--concatenate", "--delete"
    )
    for word in archives:
        if word.text != "-":
            remote = ":" in word.start and "/" not in word.start.partition(":")[0]
            yield Effect("network" if remote else "write" if packs else "read", word)
    if extracts and not call.has("-O", "--to-stdout"):
        yield from (Effect("write", folder) for folder in folders)
        if not folders:
            yield Effect("create", literal("./x"))
    elif packs:
        base = folders[-1].text if folders else None
        for word in (*folders, *call.operands):
            inside = base is not None and word.text is not None and word not in folders and word.text[:1] != "/"
            kind = "delete" if call.has("--remove-files") and word not in folders else "read"
            yield Effect(kind, literal(f"{base}/{word.text}") if inside else word)
    elif not call.has("-t", "--list"):
        yield Effect("unknown", None, "does not only list an archive", "shell:unknown-use")
        yield from (Effect("list", folder) for folder in folders)


def unzip(call: SortedWords) -> Iterator[Effect]:
    """unzip lists, tests, prints or unpacks."""
    if not call.has("-l", "-Z", "-v", "-t", "-z", "-p", "-c"):
        yield Effect("create", literal("./x"))
        yield from (Effect("write", word) for name, word in call.odd if name == "-d")


def compress(call: SortedWords) -> Iterator[Effect]:
    """The program replaces the file by its packed form, unless it lists, tests or prints. Of `xz -t -d` the last
    option counts."""
    looks = call.has("-l", "--list", "-t", "--test") and not call.has("-d", "--decompress")
    looks = looks or call.has("-c", "--stdout", "--to-stdout") or not call.operands
    yield from plain(call, "packed*" if looks else "move*")
