"""Describe git, sub-command by sub-command, and the settings through which it runs programs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ....core.text import lazy_regex
from ..parts import Effect, Word
from ..roles import CHECKS_SIGNATURES, of_operands, of_options, of_program_word, of_role, plain
from ..sorting import literal
from .program_spec import SortedWords
from .readers import below
from .wordlist import in_order, words

# Settings whose value is, or names, code that git runs or loads.
_RUNS = lazy_regex(r"""(?ix)
    core\.(?:pager|editor|sshcommand|fsmonitor|hookspath|gitproxy|askpass|alternaterefscommand|attributesfile)
    |diff\.external|diff\..+\.(?:command|textconv)|filter\..+\.(?:clean|smudge|process)|merge\..+\.driver
    |(?:mergetool|difftool|browser|man|guitool|pager|tar|trailer)(?:\..+)?\.(?:cmd|path|command|program)|pager\..+
    |alias\..+|credential(?:\..+)?\.helper|gpg(?:\..+)?\.(?:program|defaultkeycommand|ssh.*)|sequence\.editor
    |interactive\.difffilter|protocol(?:\.ext)?\.allow|(?:uploadpack|receive|transfer)\..*hook.*
    |remote\..+\.(?:uploadpack|receivepack|vcs|proxy)|sendemail\..*(?:cmd|smtpserver).*|init\.templatedir
    |include(?:if\..+)?\.path|url\..+\.(?:pushinsteadof|insteadof)|submodule\..+\.update|web\.browser|instaweb\..*
    |ssh\.variant|extensions\..+|help\.browser
    """)
# Settings that only decide how things are shown or compared.
_PLAIN = lazy_regex(r"""(?ix)
    (?:color|advice|column)\..+|user\.(?:name|email)|core\.(?:quotepath|abbrev|autocrlf|whitespace)
    |diff\.(?:algorithm|context|renames|noprefix|colormoved)|log\.(?:date|decorate)|init\.defaultbranch
    """)
_SSH = words("git-upload-pack git-receive-pack git-upload-archive")
_FORMAT = lazy_regex(r"(?:ext|fd|file-exec)::", re.IGNORECASE)


def setting(word: Word) -> Iterator[Effect]:
    """`-c name=value`: git runs the values of some settings."""
    text = "".join(part or "" for part in word.parts)
    name, _, value = text.partition("=")
    yield from of_role("maybe", literal(value))
    if _RUNS.fullmatch(name.strip()):
        if value.lower() not in ("true", "false", "never") and list(of_program_word(literal(value))):
            yield Effect("hijack", literal(value), f"makes git run {value or 'something'} ({name})", "shell:hijack-git")
        else:
            yield Effect("unknown", None, f"gives git the setting {name}", "shell:unknown-option")
    elif not name or (None in word.parts and "=" not in word.start):
        yield Effect("unknown", word, "gives git a setting that is known only when it runs", "shell:unknown-option")
    elif not _PLAIN.fullmatch(name.strip()) or None in word.parts or CHECKS_SIGNATURES.search(text):
        yield Effect("unknown", None, f"gives git the setting {name}", "shell:unknown-option")


def settings(call: SortedWords) -> Iterator[Effect]:
    """The options before the sub-command."""
    yield from of_options(call)
    for word in call.values("-c", "--config-env"):
        yield from setting(word)


def git_listed(call: SortedWords) -> Iterator[Effect]:
    """`branch` and `tag` list, unless an operand or an option makes or deletes one."""
    if call.has("-d", "-D", "--delete", "-M", "-C", "-f", "--force") or any("d" in n for n in call.unlisted):
        yield Effect("discard")
    elif call.has("-u", "--set-upstream-to", "--unset-upstream", "--edit-description", "-t", "--track", "-m", "-c"):
        yield Effect("protected" if call.name.endswith("branch") and not call.has("-m", "-c") else "change")
    elif call.operands and not any(given.name in _LISTING for given in call.options):
        yield Effect("change", None, f"makes a {call.name.rpartition(' ')[2]}", "shell:git-change")


_LISTING = words("--list -l --contains --no-contains --merged --no-merged --points-at -n")


def _is_short_for(option: str, full: str) -> bool:
    return len(option) > 3 and full.startswith(option)


def git_config(call: SortedWords) -> Iterator[Effect]:
    """git config: reading prints; writing changes `.git/config`, `~/.gitconfig` or the system's file."""
    operands = list(call.operands)
    verb = operands[0].text if operands else None
    gets = verb in ("list", "get", "get-all", "get-regexp", "get-urlmatch") or any(
        given.name in ("-l", "--list") or given.name.startswith("--get") for given in call.options
    )
    yield from of_options(call)
    if (verb in ("list", "get-regexp") or call.has("-l", "--list", "--get-regexp")) and not call.has("--name-only"):
        yield Effect("environment")
    if not call.unlisted and (gets or (len(operands) <= 1 and verb not in ("edit", "unset"))):
        return
    if verb in ("set", "unset", "edit", "rename-section", "remove-section"):
        operands = operands[1:]
    name = (operands[0].text if operands else None) or ""
    value = (operands[1].text if len(operands) > 1 else None) or ""
    runs = _RUNS.fullmatch(name) is not None and not call.has("--unset", "--unset-all")
    if runs and (value.strip() not in ("", "cat", "less", "true", "false") or name.lower() == "core.hookspath"):
        yield Effect("persist", literal(value), f"makes git run something from now on ({name})", "shell:persist-git")
    files = [word for option, word in call.odd if option == "-f" or _is_short_for(option, "--file")]
    if call.has("--global") or any(_is_short_for(option, "--global") for option in call.unlisted):
        yield Effect("write", literal("~/.gitconfig"))
    elif call.has("--system") or any(_is_short_for(option, "--system") for option in call.unlisted):
        yield Effect("write", literal("/etc/gitconfig"))
    elif files:
        yield from (Effect("write", word) for word in files)
    else:
        yield Effect("protected", None, "changes the repository's settings (.git/config)", "shell:protected")


def git_remote(call: SortedWords) -> Iterator[Effect]:
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
        yield Effect("hijack", word, "makes git run a program as its transport", "shell:hijack-git")


def git_transfer(call: SortedWords) -> Iterator[Effect]:
    """fetch, pull, push, clone, ls-remote: they use the network, and some options name a program to run at an end."""
    for word in call.operands:
        yield from _url(word)
    for word in call.values("--upload-pack", "-u", "--receive-pack", "--exec"):
        if word.text not in _SSH:
            yield Effect("hijack", word, "makes git run a program as the other end", "shell:hijack-git")
    if _clones_a_folder(call):
        yield Effect("read", call.operands[0])
        yield Effect("change")
    elif not call.name.endswith("archive") or call.has("--remote"):
        yield Effect("network", call.operands[0] if call.operands else None)
    else:
        yield from of_operands(call.operands, "rev*")
    if call.name.endswith("clone"):
        yield from (Effect("create", word) for word in call.operands[1:2])


def _clones_a_folder(call: SortedWords) -> bool:
    """Return whether a clone reads a repository on this machine: git takes `./a`, `../a` and `/a` for folders."""
    if not call.name.endswith("clone") or not call.operands or call.unsure or call.has(*_MODULES):
        return False
    text = call.operands[0].text
    return text is not None and text.startswith(("./", "../", "/")) and "::" not in text


_MODULES = ("--recursive", "--recurse-submodules", "--bundle-uri")


def _elsewhere(call: SortedWords) -> Iterator[Effect]:
    """Commands that discard work do so in the folder that `-C` or `--work-tree` names."""
    above = call.above
    while above is not None:
        yield from (Effect("delete", below(word)) for word in above.values("-C", "--work-tree"))
        above = above.above


def git_checkout(call: SortedWords) -> Iterator[Effect]:
    """git checkout: switching keeps changes in files; paths or -f discard them."""
    yield from _elsewhere(call)
    texts = call.texts()
    creates = call.has("-b", "-B", "-c", "-C", "--orphan", "--create")
    paths = "--" in [word.text for word in call.command.args] or "." in texts or call.has(*_DISCARDS)
    if paths or (len(texts) > 1 and not creates) or None in texts:
        yield Effect("discard")
    else:
        yield Effect("change", None, "switches the workspace to another branch or commit", "shell:git-change")


_DISCARDS = in_order("-f --force --ours --theirs -p --discard-changes --pathspec-from-file --hard --merge --keep")


def git_reset(call: SortedWords) -> Iterator[Effect]:
    discards = call.has(*_DISCARDS) or call.unsure
    if call.name.endswith("restore"):
        discards = not call.has("--staged", "-S") or call.has("--worktree", "-W")
    if discards:
        yield from _elsewhere(call)
        yield Effect("discard")
    else:
        yield Effect("change", None, "changes what is staged", "shell:git-change")


def git_clean(call: SortedWords) -> Iterator[Effect]:
    """git clean: only a dry run deletes nothing. The value of `-e` is none (`-fe -n`)."""
    if call.unlisted or not call.has("-n", "--dry-run"):
        yield from _elsewhere(call)
        yield Effect("discard", None, "deletes files that git does not know", "shell:delete")


def _verbs(looks: str, discards: str = "", other: str = "change"):
    """Return a handler for sub-commands whose first word says what to do: `git stash -p list` stashes a file."""

    def handler(call: SortedWords) -> Iterator[Effect]:
        verb = call.operands[0].text if call.operands else ""
        texts = [word.text for word in call.command.args]
        first = texts[texts.index(call.name.rpartition(" ")[2]) + 1 :][:1]
        if (verb and first != [verb]) or verb not in ("" if "-" in looks else "-", *looks.split()):
            yield Effect("discard" if verb and verb in discards.split() else other)

    return handler


git_stash = _verbs("list show", "drop clear")
git_worktree = _verbs("list -", "remove", "protected")
git_notes = _verbs("list show get-ref -", "remove prune")
git_reflog = _verbs("show exists list - HEAD", "expire delete")


def git_submodule(call: SortedWords) -> Iterator[Effect]:
    verb = call.operands[0].text if call.operands else "status"
    if verb in ("foreach", "run"):
        yield Effect("execute", None, "runs a command in turn")
    elif verb in ("add", "update"):
        yield Effect("network")
    elif verb not in ("status", "summary", "log", "help"):
        yield Effect("protected" if call.name.endswith("submodule") else "change")


def git_bundle(call: SortedWords) -> Iterator[Effect]:
    yield from of_operands(call.operands, f"text {'write' if call.texts()[:1] == ['create'] else 'read'} maybe*")
    yield Effect("change")


def git_rm(call: SortedWords) -> Iterator[Effect]:
    if call.has("--cached"):
        yield Effect("change", None, "changes what is staged", "shell:git-change")
    else:
        yield from (Effect("delete", word) for word in call.operands)
        if any(word.start.startswith("--pathspec-f") for word in call.command.args):
            yield Effect("discard", None, "deletes the files that another file names")


def git_diff(call: SortedWords) -> Iterator[Effect]:
    """git diff: two operands alone may be two files anywhere, of which one is outside the repository."""
    for word in call.operands:
        if word.text is None and (word.many or len(call.operands) == 2):
            yield Effect("read", word)


def git_grep(call: SortedWords) -> Iterator[Effect]:
    """git grep: the pattern is the first operand, unless an option gives one."""
    yield from plain(call, "rev*" if call.has("-e") else "text rev*")


GLOBAL = (
    "-C=list* -c=text* --config-env=text* --git-dir=exec --work-tree=named --exec-path=program --namespace= "
    "-pPv --paginate --no-pager --literal-pathspecs --no-optional-locks --no-replace-objects --version "
    "--html-path --man-path --info-path"
)
