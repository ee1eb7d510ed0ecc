"""Describe git, sub-command by sub-command, and the settings through which it runs programs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

from ..effects import Effect, of_options, of_program_word, plain
from ..parts import Word
from ..sorting import SortedWords, cut, literal
from .files import below
from .spec import program
from .wordlist import words

# Settings whose value is, or names, code that git runs or loads.
RUNS = re.compile(
    r"""
    core\.(?:pager|editor|sshcommand|fsmonitor|hookspath|gitproxy|askpass|alternaterefscommand|worktree|attributesfile)
    |diff\.external|diff\..+\.(?:command|textconv)|filter\..+\.(?:clean|smudge|process)|merge\..+\.driver
    |(?:mergetool|difftool|browser|man|guitool|pager|tar|trailer)(?:\..+)?\.(?:cmd|path|command|program)|pager\..+
    |alias\..+|credential(?:\..+)?\.helper|gpg(?:\..+)?\.(?:program|defaultkeycommand|ssh.*)|sequence\.editor|interactive\.difffilter
    |protocol(?:\.ext)?\.allow|(?:uploadpack|receive|transfer)\..*hook.*|remote\..+\.(?:uploadpack|receivepack|vcs|proxy)
    |sendemail\..*(?:cmd|smtpserver).*|init\.templatedir|include(?:if\..+)?\.path|url\..+\.(?:pushinsteadof|insteadof)
    |submodule\..+\.update|web\.browser|instaweb\..*|http(?:\..+)?\.(?:sslverify|proxy|sslcert|cookiefile)|ssh\.variant|safe\.directory
    |core\.(?:excludesfile|repositoryformatversion|symlinks|protect.*)|extensions\..+|help\.browser|rebase\.instructionformat
    """,
    re.IGNORECASE | re.VERBOSE,
)
# Settings that only decide how things are shown or compared.
_PLAIN = re.compile(
    r"""
    color\..+|advice\..+|column\..+|status\.(?!submodulesummary).+|user\.(?:name|email)|author\..+|committer\..+|i18n\..+
    |core\.(?:quotepath|abbrev|autocrlf|safecrlf|eol|filemode|ignorecase|precomposeunicode|longpaths|checkstat|trustctime
    |preloadindex|untrackedcache|commentchar|whitespace|logallrefupdates|bigfilethreshold|compression|warnambiguousrefs)
    |diff\.(?:algorithm|context|interhunkcontext|renames|renamelimit|noprefix|mnemonicprefix|colormoved|colormovedws
    |wserrorhighlight|suppressblankempty|submodule|ignoresubmodules|statgraphwidth|statnamewidth|indentheuristic|relative
    |wordregex|dirstat|autorefreshindex|srcprefix|dstprefix)
    |log\.(?:date|decorate|abbrevcommit|follow|showroot|mailmap|excludedecoration|graphcolors|diffmerges)
    |grep\.(?:linenumber|column|patterntype|extendedregexp|threads|fullname|fallbacktonoindex)
    |blame\.(?:showroot|blankboundary|showemail|date|coloring|markunblamablelines|markignoredlines)
    |pretty\..+|format\.pretty|merge\.(?:conflictstyle|renames|renamelimit|stat)|init\.defaultbranch|pack\.threads|index\.threads
    |versionsort\..+|tag\.sort|branch\.sort|push\.default|pull\.(?:rebase|ff)|fetch\.(?:prune|parallel)|gc\.auto(?:detach)?
    |rerere\.enabled|commit\.verbose|checkout\..+|submodule\.recurse|feature\..+|help\.(?:autocorrect|format)
    """,
    re.IGNORECASE | re.VERBOSE,
)
_SSH = words("git-upload-pack git-receive-pack git-upload-archive")
_FORMAT = re.compile(r"(?:ext|fd|file-exec)::", re.IGNORECASE)


def setting(word: Word, what: str = "gives git a setting for this command") -> Iterator[Effect]:
    """`-c name=value`: git runs the values of some settings."""
    text = "".join(part or "" for part in word.parts)
    name, _, value = text.partition("=")
    if RUNS.fullmatch(name.strip()):
        yield from _value(name.strip(), value)
    elif not name or (None in word.parts and "=" not in word.start):
        yield Effect("unknown", word, "gives git a setting that is known only when it runs", "shell:unknown-option")
    elif not _PLAIN.fullmatch(name.strip()):
        yield Effect("unknown", None, f"gives git the setting {name}", "shell:unknown-option")


def _value(name: str, value: str) -> Iterator[Effect]:
    lower = name.lower()
    if lower.startswith("alias.") and not value.lstrip().startswith("!"):
        yield Effect("unknown", None, f"names another git command ({name})", "shell:unknown-use")
    elif re.match(r"core\.(?:symlinks|excludesfile|worktree)|http|rebase|safe", lower) or value.lower() in (
        "true",
        "false",
        "never",
    ):
        yield Effect("unknown", None, f"gives git the setting {name}", "shell:unknown-option")
    elif list(of_program_word(literal(value))):
        if value:
            yield Effect("shell", literal(value.lstrip("!")), f"makes git run a program ({name})")
        yield Effect("hijack", literal(value), f"makes git run {value or 'something'} ({name})", "shell:hijack-git")
    else:
        yield Effect("unknown", None, f"names a program for git ({name})", "shell:unknown-option")


_LISTS_BRANCHES = words("--list -l --show-current --contains --no-contains --merged --no-merged --points-at")


_ACTS_ON_BRANCHES = words(
    """
    -d -D --delete -m -M --move -c -C --copy -u --set-upstream-to --unset-upstream --edit-description -f --force
    -t --track
    """
)


def _branch(call: SortedWords) -> Iterator[Effect]:
    yield from of_options(call)
    listing = call.has(*_LISTS_BRANCHES)
    acting = call.has(*_ACTS_ON_BRANCHES)
    if call.operands and not acting and not listing:
        yield Effect("change", None, "makes a branch", "shell:git-change")


def _tag(call: SortedWords) -> Iterator[Effect]:
    yield from of_options(call)
    listing = call.has(
        "-l",
        "--list",
        "-n",
        "--contains",
        "--no-contains",
        "--merged",
        "--no-merged",
        "--points-at",
        "-v",
        "--verify",
    )
    if call.operands and not listing and not call.has("-d", "--delete"):
        yield Effect("change", None, "makes a tag", "shell:git-change")


def _config(call: SortedWords) -> Iterator[Effect]:
    """git config: reading prints; writing changes `.git/config`, `~/.gitconfig` or the system's file."""
    yield from of_options(call)
    operands = list(call.operands)
    verb = operands[0].text if operands else None
    if verb in ("list", "get", "get-all", "get-regexp", "get-urlmatch"):
        return
    if verb in ("set", "unset", "edit", "rename-section", "remove-section"):
        operands = operands[1:]
    elif call.has(
        "-l", "--list", "--get", "--get-all", "--get-regexp", "--get-urlmatch", "--get-color", "--get-colorbool"
    ) or (
        len(operands) <= 1
        and not call.has("--unset", "--unset-all", "-e", "--edit", "--add", "--replace-all", "--remove-section")
    ):
        return
    yield from _set_config(call, operands)


def _set_config(call: SortedWords, operands: list[Word]) -> Iterator[Effect]:
    name = (operands[0].text if operands else None) or ""
    value = (operands[1].text if len(operands) > 1 else None) or ""
    runs = RUNS.fullmatch(name) is not None and not call.has("--unset", "--unset-all")
    if runs and (value.strip() not in ("", "cat", "less", "true", "false") or name.lower() == "core.hookspath"):
        yield Effect("persist", literal(value), f"makes git run something from now on ({name})", "shell:persist-git")
    if call.has("--global"):
        yield Effect("write", literal("~/.gitconfig"))
    elif call.has("--system"):
        yield Effect("write", literal("/etc/gitconfig"))
    elif not call.has("-f", "--file"):
        yield Effect("protected", None, "changes the repository's settings (.git/config)", "shell:protected")


def _remote(call: SortedWords) -> Iterator[Effect]:
    yield from of_options(call)
    verb = call.operands[0].text if call.operands else None
    if not call.operands or verb == "get-url" or (verb == "show" and (len(call.operands) == 1 or call.has("-n"))):
        return
    if verb in ("show", "update", "prune"):
        yield Effect("network", call.operands[1] if len(call.operands) > 1 else None)
        return
    for word in call.operands[1:]:
        yield from _url(word)
    yield Effect("protected", None, "changes the repository's settings (.git/config)", "shell:protected")


def _url(word: Word) -> Iterator[Effect]:
    if _FORMAT.match(word.start):
        yield Effect("shell", cut(word, word.start.index("::") + 2))
        yield Effect("hijack", word, "makes git run a program as its transport", "shell:hijack-git")


def _transfer(call: SortedWords) -> Iterator[Effect]:
    """fetch, pull, push, clone, ls-remote: they use the network, and some options name a program to run at an end."""
    yield from of_options(call)
    for word in call.operands:
        yield from _url(word)
    for word in call.values("--upload-pack", "-u", "--receive-pack", "--exec"):
        if call.name.endswith("push") and word in call.values("-u"):
            continue
        if word.text not in _SSH:
            yield Effect("shell", word)
            yield Effect("hijack", word, "makes git run a program as the other end", "shell:hijack-git")
    yield from (Effect(kind) for kind in call.program.does)
    target = call.operands[0] if call.operands else None
    yield Effect("network", target)
    if call.name.endswith("clone") and len(call.operands) > 1:
        yield Effect("create", call.operands[1])


def _elsewhere(call: SortedWords) -> Iterator[Effect]:
    """Commands that discard work do so in the folder that `-C` or `--work-tree` names."""
    above = call.above
    while above is not None:
        for word in above.values("-C", "--work-tree"):
            yield Effect("delete", below(word))
        above = above.above


def _checkout(call: SortedWords) -> Iterator[Effect]:
    """git checkout: switching keeps changes in files; paths or -f discard them."""
    yield from of_options(call)
    yield from _elsewhere(call)
    texts = call.texts()
    args = [word.text for word in call.command.args]
    paths = (
        "--" in args
        or "." in texts
        or call.has("-f", "--force", "--ours", "--theirs", "-p", "--discard-changes", "--pathspec-from-file")
    )
    creates = call.has("-b", "-B", "-c", "-C", "--orphan", "--create")
    if paths or (len(texts) > 1 and not creates) or any(text is None for text in texts):
        yield Effect("discard")
    else:
        yield Effect("change", None, "switches the workspace to another branch or commit", "shell:git-change")


def _restore(call: SortedWords) -> Iterator[Effect]:
    yield from _elsewhere(call)
    if call.has("--staged", "-S") and not call.has("--worktree", "-W"):
        yield Effect("change", None, "changes what is staged", "shell:git-change")
    else:
        yield Effect("discard")


def _reset(call: SortedWords) -> Iterator[Effect]:
    if call.has("--hard", "--merge", "--keep"):
        yield from _elsewhere(call)
    yield (
        Effect("discard")
        if call.has("--hard", "--merge", "--keep") or call.unsure
        else Effect("change", None, "changes what is staged", "shell:git-change")
    )


def _clean(call: SortedWords) -> Iterator[Effect]:
    if not call.has("-n", "--dry-run"):
        yield from _elsewhere(call)
        yield Effect("discard", None, "deletes files that git does not know", "shell:delete")


def _stash(call: SortedWords) -> Iterator[Effect]:
    yield from of_options(call)
    verb = call.operands[0].text if call.operands else None
    if verb in ("list", "show"):
        return
    yield (
        Effect("discard")
        if verb in ("drop", "clear")
        else Effect("change", None, "moves changes between the workspace and the stash", "shell:git-change")
    )


def _first_is(safe: str, kinds: dict[str, str], other: str = "change"):
    looks = frozenset(["", *safe.split()])

    def handler(call: SortedWords) -> Iterator[Effect]:
        yield from of_options(call)
        verb = call.operands[0].text if call.operands else ""
        if verb not in looks:
            yield Effect(kinds.get(verb or "", other))

    return handler


def _symbolic_ref(call: SortedWords) -> Iterator[Effect]:
    if len(call.operands) > 1 or call.has("-d", "--delete"):
        yield Effect("change")


def _rebase(call: SortedWords) -> Iterator[Effect]:
    yield from plain(call)
    yield Effect("change", None, "rewrites commits", "shell:git-change")


def _behind(call: SortedWords, verb: str) -> Sequence[Word]:
    """Return the words after a verb, with options: they belong to another program."""
    words = call.command.args
    at = next((index for index, word in enumerate(words) if word.text == verb), len(words))
    return words[at + 1 :]


def _submodule(call: SortedWords) -> Iterator[Effect]:
    verb = call.operands[0].text if call.operands else "status"
    if verb in ("status", "summary"):
        return
    if verb == "foreach":
        texts = [word.text for word in _behind(call, "foreach") if word.text not in ("--recursive", "--quiet")]
        known = [text for text in texts if text is not None]
        joined = known[0] if len(known) == 1 else shlex.join(known)
        yield Effect("shell", literal(joined) if len(known) == len(texts) else Word((None,)))
    elif verb in ("add", "update"):
        yield Effect("network")
    else:
        yield Effect("protected")


def _bisect(call: SortedWords) -> Iterator[Effect]:
    verb = call.operands[0].text if call.operands else None
    if verb == "run":
        texts = [word.text for word in _behind(call, "run")]
        known = [text for text in texts if text is not None]
        yield Effect("shell", literal(shlex.join(known)) if len(known) == len(texts) else Word((None,)))
    elif verb not in ("log", "help"):
        yield Effect("change", None, "switches the workspace to another commit", "shell:git-change")


def _archive(call: SortedWords) -> Iterator[Effect]:
    yield from of_options(call)
    if call.has("--remote"):
        yield from _transfer(call)


def _rm(call: SortedWords) -> Iterator[Effect]:
    if call.has("-n", "--dry-run"):
        return
    if call.has("--cached"):
        yield Effect("change", None, "changes what is staged", "shell:git-change")
    else:
        yield from (Effect("delete", word) for word in call.operands)


def _no_index(call: SortedWords) -> Iterator[Effect]:
    yield from plain(call, "read*" if call.has("--no-index") else None)


_LOG = (
    "--output=write --ext-diff!execute -O=read -n= -S= -G= -L= --since= --until= --after= --before= "
    "--author= --committer= --grep= --format= "
    "--max-count= --skip= --inter-hunk-context= --color --diff-filter= --stat --no-index --exclude= "
    "--glob= --encoding= --word-diff-regex= -U= -l= --ignore-matching-lines= -I="
)
_PACKS = (
    "--upload-pack= --receive-pack= --exec= -o= --server-option= --depth= --deepen= --shallow-since= "
    "--shallow-exclude= -j= --jobs= --filter= --refmap= --negotiation-tip= --repo="
)
_CHANGE = program("maybe*", "", "change")
_LOOK = program("maybe*", _LOG)

GIT = {
    "log show diff whatchanged diff-tree diff-index diff-files shortlog range-diff cherry ": program(
        "maybe*", _LOG, handler=_no_index
    ),
    "status rev-parse rev-list ls-files ls-tree describe show-ref show-branch for-each-ref name-rev "
    "merge-base count-objects "
    "check-ignore check-attr check-ref-format check-mailmap var version get-tar-commit-id "
    "patch-id stripspace "
    "diff-pairs fmt-merge-msg column  verify-pack  show-index ": program(
        "maybe*",
        "--exclude-from=read -X=read -x= --exclude= --format= --pathspec-from-file=read --output=write "
        "--contents=read -c= --sort= --count= --points-at= "
        "--contains= --merged= --no-merged= --file=read -F=read --abbrev --match= --stdin",
    ),
    "fsck": program("text*", "--lost-found!change"),
    "help": program("text*", "-w!desktop --web!desktop -i -m -a -g -c"),
    "merge-tree": program("text*", "", "change"),
    "verify-commit verify-tag": _LOOK,
    "grep": program(
        "text maybe*",
        "-O?=program!execute --open-files-in-pager?=program!execute -f=read -e= -A= -B= -C= -m= "
        "--max-depth= --threads= --ext-grep -n -i -w -l -c --no-index",
        handler=None,
    ),
    "blame annotate": program(
        "maybe*", "--contents=read -S=read -L= --ignore-rev= --ignore-revs-file=read --since= -M -C"
    ),
    "cat-file": program("text*", "--textconv!execute --filters!execute --path= --batch --batch-check"),
    "hash-object": program("read*", "-w!change --stdin-paths!named -t= --path="),
    "branch": program(
        "text*",
        "-d!discard -D!discard --delete!discard -m!change -M!discard --move!change -c!change -C!discard "
        "--copy!change -f!discard --force!discard "
        "-u=protected --set-upstream-to=protected --unset-upstream!protected --edit-description!protected "
        "-t!protected --track!protected --contains= --no-contains= "
        "--merged --no-merged --points-at= --format= --sort= --list -l -a -r -v --all --remotes --verbose "
        "--show-current",
        handler=_branch,
    ),
    "tag": program(
        "text*",
        "-d!discard --delete!discard -f!discard --force!discard -m= -F=read -u= -s -a -l --list -n? "
        "--contains= --no-contains= --merged= --no-merged= --points-at= --sort= --format= -v --verify",
        handler=_tag,
    ),
    "config": program(
        "text*",
        "-f=write --file=write --blob= --type= -t= --default= --comment= --global --system --local "
        "--worktree!protected -l --list --get --get-all --get-regexp --get-urlmatch "
        "--get-color --get-colorbool --unset --unset-all -e!protected --edit!protected --add "
        "--replace-all --remove-section --rename-section",
        handler=_config,
    ),
    "remote": program("text*", "-v --verbose -n -m= -t= --push --all", handler=_remote),
    "stash": program("text*", f"-m= --message= -p {_LOG}", handler=_stash),
    "worktree": program(
        "text*",
        "",
        handler=_first_is("list", {"add": "protected", "remove": "discard", "prune": "protected"}, "protected"),
    ),
    "submodule": program("text*", "", handler=_submodule),
    "notes": program(
        "text*", "-F=read -m= --ref=", handler=_first_is("list show get-ref", {"remove": "discard", "prune": "discard"})
    ),
    "reflog": program("text*", _LOG, handler=_first_is("show exists list", {"expire": "discard", "delete": "discard"})),
    "bisect": program("text*", "", handler=_bisect),
    "symbolic-ref": program("text*", "-d --delete -m=", handler=_symbolic_ref),
    "archive": program(
        "text*", "-o=write --output=write --remote= --exec= --format= --prefix= --add-file=read", handler=_archive
    ),
    "bundle": program("text write text*", "", "change"),
    "format-patch": program("text*", "-o=write --output-directory=write --signature-file=read", "change"),
    "fetch pull ls-remote fetch-pack send-pack http-fetch": program("text*", _PACKS + " -u?", handler=_transfer),
    "push": program(
        "text*",
        _PACKS + " -u!protected --set-upstream!protected -f!discard --force!discard --force-with-lease!discard "
        "--mirror!discard --delete!discard -d!discard",
        handler=_transfer,
    ),
    "clone": program(
        "text*",
        _PACKS + " -u= -c= --config= --template=exec -b= --branch= --origin= --reference=list --separate-git-dir=write",
        handler=_transfer,
    ),
    "svn p4 send-email imap-send daemon http-backend instaweb request-pull lfs": program("text*", "", "network"),
    "credential credential-store credential-cache": program("text*", "", "secret"),
    "init": program("create", "--template=exec --separate-git-dir=write -b=", "protected"),
    "add commit merge cherry-pick revert am apply mv commit-tree write-tree read-tree update-index "
    "sparse-checkout gc repack pack-refs "
    "pack-objects unpack-objects index-pack prune prune-packed update-server-info rerere mktree mktag "
    "replace merge-file multi-pack-index commit-graph stage citool gui": program(
        "maybe*",
        "-F=read --file=read --pathspec-from-file=read -t=read --template=read -m= --message= -C= -c= "
        "--author= --date= --fixup= --squash= -x= --strategy= -s? -X= --cleanup= "
        "--output=write --directory= --exclude= --include= -S? --gpg-sign -u? --no-verify",
        "change",
    ),
    "update-ref": program("text*", "-d!discard -m= --stdin", "change"),
    "rebase": program("text*", "-x=shell --exec=shell -i --onto= -s= -X= --strategy=program", handler=_rebase),
    "reset": program("text*", "--hard --merge --keep --soft --mixed --pathspec-from-file=read", handler=_reset),
    "checkout": program(
        "text*",
        "-b= -B= --orphan= -f --force --ours --theirs -p --pathspec-from-file=read -t --track",
        handler=_checkout,
    ),
    "switch": program("text*", "-c= -C!discard --create= --orphan= -f --force --discard-changes -t", handler=_checkout),
    "restore": program("maybe*", "--staged -S --worktree -W -s= --source= --pathspec-from-file=read", handler=_restore),
    "clean": program("text*", "-n --dry-run -f -d -x -X -e= --exclude=", handler=_clean),
    "rm": program("text*", "-n --dry-run --cached -r -f --pathspec-from-file=read", handler=_rm),
    "difftool mergetool": program("text*", "-x=program --extcmd=program -t= --tool=", "execute"),
    "filter-branch filter-repo": program(
        "text*",
        "--tree-filter=shell --env-filter=shell --index-filter=shell --msg-filter=shell "
        "--commit-filter=shell --tag-name-filter=shell",
        "discard",
    ),
    "hook": program("text*", "", "execute"),
    "maintenance": program("text*", "", handler=_first_is("", {"start": "persist", "register": "protected"})),
    "": program("text*"),
}

_GLOBAL = (
    "-C=list -c=gitsetting --config-env=gitsetting --git-dir=exec --work-tree=list "
    "--exec-path=program --namespace= -p --paginate --no-pager -P --bare --literal-pathspecs "
    "--super-prefix= --attr-source= --list-cmds= --html-path --man-path --info-path --version --help "
    "-v -h --no-replace-objects --no-optional-locks --no-lazy-fetch"
)

PROGRAMS = {
    "git": program("text*", _GLOBAL, subs=GIT),
    "tig gitk lazygit": program("text*", "", "execute"),
    "hg": program(
        "text*",
        "--config=program",
        subs={"*": program("text*", "--config=program", "execute"), "": program("text*", "", "execute")},
    ),
    "svn": program(
        "text*",
        "",
        subs={"status info help": program("maybe*", "--config-option=unknown"), "*": program("text*", "", "network")},
    ),
    "pre-commit husky lefthook": program("text*", "", "execute"),
    "delta diff-so-fancy": program("maybe*", "--pager=program"),
}
