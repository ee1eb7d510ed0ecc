"""Describe programs that look at, make, move and delete files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ..effects import Effect, of_operands, of_options, of_role, plain
from ..parts import Word
from ..sorting import SortedWords, cut, literal
from .spec import parse_options, program

FIND_TESTS = """
-name= -iname= -path= -ipath= -wholename= -iwholename= -regex= -iregex= -lname= -ilname= -type= -xtype= -size=
-perm= -user= -group= -uid= -gid= -mtime= -mmin= -atime= -amin= -ctime= -cmin= -newer=list -anewer=list
-cnewer=list -newermt= -newerat= -newerct= -newerBt= -newermm=list -newerma=list -newermc=list -newerm=list
-maxdepth= -mindepth= -links= -inum= -samefile=list -used= -fstype= -regextype= -context= -printf= -empty
-readable -writable -executable -nouser -nogroup -true -false -not -a -o -and -or -print -print0 -ls -prune
-quit -depth -d -daystart -follow -mount -xdev -noleaf -warn -nowarn -ignore_readdir_race
-noignore_readdir_race -H -L -P -E -X -s -x -f= -O1 -O2 -O3 -O0 -D= -help --help -version --version -flags=
-acl -files0-from=names -fprint=write -fprint0=write -fls=write -delete -exec -execdir -ok -okdir
"""
_RUNS = ("-exec", "-execdir", "-ok", "-okdir")


def _find(call: SortedWords) -> Iterator[Effect]:
    """find: starting points, tests and actions; the command of `-exec` is a separate command."""
    starts, actions = _starts(call.command.args)
    table = parse_options(FIND_TESTS)
    deletes, index = False, 0
    runs = any(word.text in _RUNS for word in actions)
    while index < len(actions):
        word = actions[index]
        text, index = word.text, index + 1
        if text in ("(", ")", "!", ","):
            continue
        if text in _RUNS:
            index = _end_of_run(actions, index)
            continue
        if text == "-fprintf" and index < len(actions):
            yield Effect("write", actions[index])
            index += 2
            continue
        option = table.get(text or "")
        if option is None:
            yield Effect(
                "unknown", word, f"has a test that is not known here ({text or word.source})", "shell:unknown-option"
            )
            continue
        deletes = deletes or text == "-delete"
        if option.takes and index < len(actions):
            if runs and text in _NAMES:
                yield from (Effect("read", named(start, actions[index])) for start in starts or [literal(".")])
            yield from of_role(option.role, actions[index])
            index += 1
    for start in starts or [literal(".")]:
        yield Effect("list", start)
        if deletes:
            yield Effect("delete", below(start))


_NAMES = ("-name", "-iname", "-path", "-ipath", "-wholename")


def named(start: Word, name: Word) -> Word:
    """Return the files that find selects to run something on: a pattern, or a name, below a starting point."""
    text, folder = name.text, start.text
    if text is None or folder is None:
        return start
    return Word((f"{folder.rstrip('/')}/{text.lstrip('/')}",), name.source, glob=re.search(r"[*?\[]", text) is not None)


def _starts(words: Sequence[Word]) -> tuple[list[Word], Sequence[Word]]:
    """Return the starting points, and all words from the first test on."""
    starts: list[Word] = []
    for index, word in enumerate(words):
        text = word.text
        if text in ("-H", "-L", "-P"):
            continue
        if word.start.startswith("-") or text in ("(", ")", "!", ","):
            return starts, words[index:]
        starts.append(word)
    return starts, ()


def _end_of_run(words: Sequence[Word], index: int) -> int:
    while index < len(words) and words[index].text not in (";", "+"):
        index += 1
    return index + 1


def below(start: Word) -> Word:
    """Return a word for something below a starting point whose name is not known."""
    text = start.text
    return start if text is None else Word((text.rstrip("/") + "/", None), start.source)


def _chmod(call: SortedWords) -> Iterator[Effect]:
    """chmod: a mode may begin with a dash (`chmod -x file`), and some modes let a file run with its owner's rights."""
    if call.has("--reference"):
        yield from of_operands(call.operands, "modify*")
        return
    words = [word for word in call.command.args if not _CHMOD_OPTION.fullmatch(word.text or "")]
    mode = words[0].text if words else ""
    if mode is None:
        yield Effect("unknown", words[0], "sets rights that are known only when it runs", "shell:unknown-option")
    elif _SETUID.search(mode):
        yield Effect("setuid", words[0])
    yield from of_operands(words[1:], "modify*")


_CHMOD_OPTION = re.compile(r"--[a-z-]*|-[Rvcf]+")
_SETUID = re.compile(r"\A0*[2-7]\d{3}\Z|(?:\A|,)[ugoa]*[+=][rwxXugot]*s")


def _ln(call: SortedWords) -> Iterator[Effect]:
    """`ln TARGET… LINK`: a symbolic TARGET is relative to the link's folder, a hard one to the command's folder."""
    yield from of_options(call)
    operands = list(call.operands)
    into = call.values("-t", "--target-directory")
    place = operands.pop() if len(operands) > 1 and not into else None
    for target in operands:
        text = target.text
        if call.has("-s", "--symbolic") and place is not None and text is not None and not text.startswith(("/", "~")):
            folder = place.text
            if folder is None:
                yield Effect("link", Word((None,), target.source))
                continue
            if "/" in folder.strip("/"):
                base = folder.rstrip("/").rpartition("/")[0]
                yield Effect("link", Word((f"{base}/{text}",), target.source))
                continue
        yield Effect("link", target)
    if place is not None:
        yield Effect("create", place)
    elif not into:
        yield Effect("create", literal("."))


def _dd(call: SortedWords) -> Iterator[Effect]:
    for word in call.command.args:
        start = word.start
        if start.startswith("of="):
            yield Effect("write", cut(word, 3))
        elif start.startswith("if="):
            yield Effect("read", cut(word, 3))
        elif word.text is None and "=" not in start:
            yield Effect("unknown", word, "has words known only when it runs", "shell:unknown-option")


def _split(call: SortedWords) -> Iterator[Effect]:
    """split writes files; their names begin with its second operand."""
    yield from plain(call)
    if call.name == "split":
        yield from (Effect("write", word) for word in call.operands[1:2])


_COPY = (
    "-t=write --target-directory=write -S= --suffix= --backup -b --no-preserve= --preserve --reflink "
    "--sparse= -Z --context --strip-trailing-slashes -r -R -a"
)

PROGRAMS = {
    # look
    "ls dir vdir exa eza lsd": program(
        "list*",
        "-I= --ignore= --hide= -w= --width= -T= --tabsize= --time-style= --block-size= --sort= --time= "
        "--format= "
        "--quoting-style= --indicator-style= --color --hyperlink",
    ),
    "tree": program(
        "list*",
        "-L= -P= -I= -o=write --filelimit= --charset= --timefmt= --sort= --fromfile@read --gitfile=read "
        "--infofile=read -H= -T= --filesfirst",
    ),
    "stat": program("list*", "-c= --format= --printf= -f -t= --cached="),
    "file": program(
        "read*",
        "-m=read --magic-file=read -f=names --files-from=names -C!change --compile!change -F= --separator= "
        "-P= --parameter= -e= --exclude= -z -Z",
    ),
    "du": program(
        "list*",
        "-d= --max-depth= -t= --threshold= --exclude= -X=read --exclude-from=read --files0-from=names -B= "
        "--block-size= --time --time-style=",
    ),
    "df": program("maybelist*", "-t= --type= -x= --exclude-type= -B= --block-size= --output"),
    "readlink realpath": program("list*", "--relative-to=list --relative-base=list"),
    "basename": program("text*", "-s= --suffix="),
    "dirname": program("text*"),
    "pathchk mountpoint": program("maybelist*"),
    "namei lsattr getfacl getfattr": program("list*"),
    "locate plocate mlocate": program("text*", "-d=read --database=read -l= -n=", "unknown"),
    "find gfind": program("list*", handler=_find, single=True),
    "fd fdfind": program(
        "text list*",
        "-x!execute --exec!execute -X!execute --exec-batch!execute -t= --type= -e= --extension= -d= "
        "--max-depth= --min-depth= "
        "--exact-depth= -E= --exclude= -S= --size= --changed-within= --changed-before= --search-path=list "
        "--base-directory=list -c= --color= "
        "-j= --threads= --max-results= --format= -o= --owner= --ignore-file=read",
    ),
    "lsof": program("text*", "-p= -i? -u= -c= -d= -a -t", "unknown"),
    # make
    "mkdir": program("create*", "-m= --mode= -Z --context"),
    "touch": program("create*", "-d= --date= -t= -r=list --reference=list --time="),
    "mkfifo": program("create*", "-m= --mode="),
    "mknod": program("create text*", "-m= --mode=", "device"),
    "mktemp": program("text*", "-p=create --tmpdir --suffix= -t -u --dry-run", "change"),
    "cp gcp": program("read* write", _COPY),
    "install ginstall": program(
        "read* write",
        _COPY + " -m= --mode= -o= --owner= -g= --group= -d@create --directory@create --strip-program=program -D -C -s",
    ),
    "mv": program("move* write", "-t=write --target-directory=write -S= --suffix= --backup -b --no-copy --exchange -Z"),
    "rename prename file-rename": program("shell write*", "-n -v -f", "execute"),
    "ln link": program(
        "text*", "-t=create --target-directory=create -S= --suffix= --backup -s -f --symbolic", handler=_ln
    ),
    "dd": program("text*", handler=_dd),
    "tee": program("write*", "--output-error"),
    "sponge": program("write*"),
    "split csplit": program(
        "read text*",
        "-n= -l= -b= -C= -a= --suffix-length= --lines= --bytes= --number= -d -x --additional-suffix= "
        "--filter=shell -t= -f=write --prefix=write -k -s -z",
        "change",
        handler=_split,
    ),
    "patch": program(
        "write read",
        "-i=read --input=read -o=write --output=write -r=write --reject-file=write -d=write "
        "--directory=write -p= --strip= -B= -D= --dry-run",
        "change",
    ),
    "fallocate": program("write*", "-l= --length= -o= --offset= -d -p -z -c -i"),
    # delete
    "rm": program(
        "delete*",
        "-r -R -f -i -v -d --recursive --force --interactive --no-preserve-root --preserve-root --one-file-system",
    ),
    "rmdir": program("delete*", "-p --parents --ignore-fail-on-non-empty"),
    "unlink": program("delete*"),
    "shred wipe srm": program("delete*", "-n= --iterations= -s= --size= -u -z --remove --random-source=read"),
    "truncate": program("delete*", "-s= --size= -r=list --reference=list -o -c"),
    "trash trash-put gio-trash rimraf": program("delete*"),
    "trash-empty": program("", "", "discard"),
    # rights
    "chmod": program("text modify*", "-R --recursive --reference=list -v -c -f", handler=_chmod),
    "chown chgrp": program("text modify*", "-R -h -H -L -P -v -c -f --reference=list@modify --from= --recursive"),
    "chattr chcon setfacl setfattr": program(
        "modify*",
        "-m= -x= -R -b -k -M=read -X=read -t= -u= -r= -l= -n= -v= --modify= --remove= --set= "
        "--restore=read --reference=list",
        "protected",
    ),
    "setcap": program("text*", "", "setuid"),
    "getcap": program("list*", "-r"),
}
