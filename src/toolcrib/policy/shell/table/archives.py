"""Describe programs that pack and unpack."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..effects import Effect, of_operands, of_options, of_program_word, of_role, plain
from ..parts import Word
from ..sorting import SortedWords, cut, literal, sort_words
from .spec import Program, program
from .wordlist import words

_TAR = """
-f= --file= -C= --directory= -t --list -x --extract --get -c --create -r --append -u --update -d --diff
--compare -A --catenate --concatenate --delete -v -z -j -J -Z -a -p -P --absolute-names -k -m -O --to-stdout
-h -l -o -S -w -W -G -n -i -B -M -I=program --use-compress-program=program --checkpoint= --checkpoint-action=
--to-command= --rsh-command= --rmt-command= -F= --info-script= --new-volume-script= -T=names --files-from=names
-X=read --exclude-from=read --exclude= -g=write --listed-incremental=write -b= -H= --format= -K= -L= -N= -V=
--transform= --xform= --strip-components= --strip= --owner= --group= --mode= --mtime= --remove-files
--index-file=write --volno-file=write --warning= --one-top-level --overwrite --wildcards --anchored --zstd --gzip
--bzip2 --xz
--lzma --lzip --lz4 --no-same-owner --numeric-owner --keep-old-files --skip-old-files --unlink-first
--recursive-unlink --verbose --sort= --totals --auto-compress -s= --include=
"""
_COMPRESSORS = words("gzip bzip2 xz zstd lz4 lzma lzip pigz pbzip2 pixz lzop compress")
_RUN_BY_TAR = ("--to-command", "--rsh-command", "--rmt-command", "-F", "--info-script", "--new-volume-script")


def _tar(call: SortedWords) -> Iterator[Effect]:
    call = _dashed(call)
    for word in call.values("--checkpoint-action"):
        if word.text is None or word.text.startswith("exec"):
            yield from _run_by_tar(
                replace(word, parts=(cut(word, 5).parts if word.start.startswith("exec=") else word.parts))
            )
    for word in call.values(*_RUN_BY_TAR):
        yield from _run_by_tar(word)
    for word in call.values("-I", "--use-compress-program"):
        if (word.text or "?").split()[0].rpartition("/")[2] not in _COMPRESSORS:
            yield from of_program_word(word)
    for word in call.values("-T", "--files-from"):
        yield from of_role("names", word)
    for word in call.values("-X", "--exclude-from"):
        yield Effect("read", word)
    for word in call.values("--index-file", "--volno-file", "-g", "--listed-incremental"):
        yield Effect("write", word)
    folders = call.values("-C", "--directory")
    if call.has("-t", "--list"):
        yield from _archive(call, "read")
    elif call.has("-x", "--extract", "--get"):
        yield from _archive(call, "read")
        if not call.has("-O", "--to-stdout"):
            yield from _extract(call, folders)
    elif call.has("-d", "--diff", "--compare"):
        yield from _archive(call, "read")
        yield from (Effect("list", folder) for folder in folders)
    elif call.has(
        "-c", "--create", "-r", "--append", "-u", "--update", "-A", "--catenate", "--concatenate", "--delete"
    ):
        yield from _archive(call, "write")
        yield from _packed(call, folders)
    elif not call.unsure:
        yield Effect("unknown", None, "does not say what to do with an archive", "shell:unknown-use")
    if call.unsure:
        yield Effect(
            "unknown", None, "has words that could be options, known only when it runs", "shell:unknown-option"
        )


def _dashed(call: SortedWords) -> SortedWords:
    """Rewrite `tar xzf a.tgz` as `tar -xz -f a.tgz`: the letters of the first word take values from the next words."""
    words = list(call.command.args)
    if not words or words[0].start.startswith("-") or not words[0].text:
        return call
    first: list[Word] = []
    rest = words[1:]
    for letter in words[0].text or "":
        first.append(literal(f"-{letter}"))
        if letter in "fCbTXgHKLNVIF" and rest:
            first.append(rest.pop(0))
    return sort_words(call.name, call.program, [*first, *rest], call.command)


def _run_by_tar(word: Word) -> Iterator[Effect]:
    yield Effect("shell", word)
    yield Effect("hijack", word, "makes tar run a program", "shell:hijack")


def _archive(call: SortedWords, kind: str) -> Iterator[Effect]:
    for word in call.values("-f", "--file"):
        if word.text == "-":
            continue
        if ":" in word.start and "/" not in word.start.partition(":")[0] and not call.has("--force-local"):
            yield Effect("network", word)
        else:
            yield Effect(kind, word)


def _extract(call: SortedWords, folders: list[Word]) -> Iterator[Effect]:
    for folder in folders:
        yield Effect("write", folder)
    if not folders:
        yield Effect("change", None, "unpacks files into the folder it runs in", "shell:write")
        yield Effect("create", literal("./x"))
    if call.has("-P", "--absolute-names"):
        yield Effect("unknown", None, "unpacks files to wherever the archive says", "shell:unknown-path")


def _packed(call: SortedWords, folders: list[Word]) -> Iterator[Effect]:
    kind = "delete" if call.has("--remove-files") else "read"
    base = folders[-1].text if folders else None
    for folder in folders:
        yield Effect("read", folder)
    for word in call.operands:
        if base is not None and word.text is not None and not word.text.startswith("/"):
            yield Effect(kind, literal(f"{base}/{word.text}"))
        else:
            yield Effect(kind, word)


def _unzip(call: SortedWords) -> Iterator[Effect]:
    """unzip lists and tests, prints (-p) or unpacks."""
    yield from of_options(call)
    yield from of_operands(call.operands, "read text*")
    if call.has("-l", "-Z", "-v", "-t", "-z", "-p", "-c"):
        return
    if not call.has("-d"):
        yield Effect("create", literal("./x"))


def _compress(call: SortedWords) -> Iterator[Effect]:
    """The program replaces the file by its packed form, unless it lists, tests or prints."""
    looks = call.has("-l", "--list", "-t", "--test", "-c", "--stdout", "--to-stdout") or not call.operands
    yield from plain(call, "read*" if looks else "move*")


def _seven(call: SortedWords) -> Iterator[Effect]:
    """7z's first operand says what to do."""
    words = list(call.operands)
    todo = words[0].text if words else ""
    if todo in ("l", "t", "i", "h", "b"):
        yield from of_operands(words[1:], "read*")
    elif todo in ("x", "e"):
        yield from of_operands(words[1:2], "read")
        out = [cut(w, 2) for w in call.command.args if w.start.startswith("-o")]
        yield from of_operands(out or [literal("./x")], "write*")
    elif todo == "d":
        yield from of_operands(words[1:2], "delete")
    else:
        yield from of_operands(words[1:2], "write")
        yield from of_operands(words[2:], "read*")


_PACKED = (
    "--files?=names!named --files0?=names!named --filelist=names --output-dir-flat=write --output-dir-mirror=write "
    "-D=read --patch-from=read --trace=write -l --list -t --test -c --stdout --to-stdout -d -k -v -f -q -r -S? "
    "--suffix? -o=write -T? --threads? -1 -9"  # some of them read the text after -S and -T as a file name
)
_ZCAT: Program = program("read*", "-l -f -v")

PROGRAMS = {
    "tar gtar bsdtar": program("text*", _TAR, handler=_tar),
    "unzip": program("read text*", "-d=write -l -Z -v -t -z -p -c -x= -P= -o -n -q -j", handler=_unzip),
    "zipinfo  lsar": program("read text*"),
    "funzip": _ZCAT,
    "zip": program(
        "write read*",
        "-T -TT=program --unzip-command=program -m!discard --move!discard -x= -i= -b=write -t= -tt= -n= "
        "-P= -O=write --out=write -r -q -j -@ -s= -9",
    ),
    "zipcloak zipnote zipsplit": program("write*"),
    "gzip gunzip bzip2 bunzip2 xz unxz lzma unlzma zstd unzstd lz4 unlz4 lzip lzop compress "
    "uncompress pigz unpigz brotli": program("write*", _PACKED, handler=_compress),
    "zcat gzcat bzcat xzcat lzcat zstdcat lz4cat zless zmore bzless xzless zdiff zcmp bzdiff xzdiff": _ZCAT,
    "7z 7za 7zr 7zz": program("text*", "-p= -m=", handler=_seven, single=True),
    "unrar rar": program("text*", "", handler=_seven),
    "cpio": program(
        "unknown*",
        "-F=write -O=write -I=read --rsh-command=program -D=write -R= -H= -i!change -o -p!change -t",
        "unknown",
    ),
    "ar ranlib": program("text write read*", "", "change"),
    "pax shar": program("unknown*", "", "unknown"),
    "genisoimage mkisofs xorriso mksquashfs unsquashfs": program(
        "unknown*", "-o=write -d=write", "unknown", single=True
    ),
}
