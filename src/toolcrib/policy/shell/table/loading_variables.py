"""List environment variables that make programs load or run something else, and judge assignments to them: data."""

from __future__ import annotations

import os
from collections.abc import Iterator

from ....core.text import lazy_regex
from ..parts import Effect, Word
from ..roles import of_program_word
from ..shell_state import NUMBER
from . import places
from .wordlist import words

# Programs load or run code from these, whatever the value is: those that the shell itself obeys, and the usual ones.
# Any other variable for a program asks.
HIJACKS = words(
    """
    BASH_ENV ENV PROMPT_COMMAND PS0 PS1 PS2 PS4 SHELLOPTS BASHOPTS CDPATH GLOBIGNORE EXECIGNORE BASH_LOADABLES_PATH
    BASH_XTRACEFD BASH_COMPAT BASH_ALIASES BASH_CMDS ZDOTDIR FPATH KSH_ENV INPUTRC MAILPATH
    GCONV_PATH LOCPATH NLSPATH RES_OPTIONS HOSTALIASES MALLOC_TRACE PYTHONSTARTUP PYTHONHOME PERL5OPT PERL5LIB PERL5DB
    RUBYOPT RUBYLIB LUA_INIT JAVA_TOOL_OPTIONS GIT_SSH GIT_SSH_COMMAND GIT_EXTERNAL_DIFF GIT_PROXY_COMMAND GIT_EXEC_PATH
    GIT_TEMPLATE_DIR GIT_CONFIG_GLOBAL GIT_CONFIG_SYSTEM GIT_CONFIG_COUNT GIT_CONFIG_PARAMETERS GIT_REDIRECT_STDOUT
    GIT_ASKPASS SSH_ASKPASS SUDO_ASKPASS
    RSYNC_RSH LESS LESSEDIT LESSHISTFILE LESSOPEN LESSCLOSE TAR_OPTIONS RIPGREP_CONFIG_PATH GREP_OPTIONS MAKEFLAGS
    GZIP XZ_OPT XZ_DEFAULTS TERMINFO TERMCAP MANOPT AWKPATH AWKLIBPATH CC XDG_CONFIG_HOME XML_CATALOG_FILES APT_CONFIG
    FFREPORT DOCKER_HOST
    """
)

# These contain the name of a program to run; a few values are harmless.
PROGRAMS = words("PAGER MANPAGER GIT_PAGER SYSTEMD_PAGER EDITOR VISUAL GIT_EDITOR GIT_SEQUENCE_EDITOR BROWSER SHELL")

# The shell itself finds files by them, or reads its words in another way.
SEARCHED = words("HOME TMPDIR HISTFILE POSIXLY_CORRECT")

# Harmless with any value.
PLAIN = words(
    "LANG TERM COLUMNS LINES COLORTERM NO_COLOR CLICOLOR FORCE_COLOR LS_COLORS GREP_COLORS GREP_COLOR USER LOGNAME _"
)

# Harmless with a value that is neither a path nor an option nor code.
QUIET = words("TZ LANGUAGE CI BLOCK_SIZE BLOCKSIZE TIME_STYLE MANWIDTH GIT_OPTIONAL_LOCKS GIT_TERMINAL_PROMPT")

# zsh obeys them.
ZSH = words(
    """
    NULLCMD READNULLCMD STTY argv path cdpath fpath manpath module_path MODULE_PATH functions aliases galiases saliases
    commands options parameters builtins nameddirs histchars chpwd_functions precmd_functions preexec_functions
    TMPPREFIX
    """
)

# bash evaluates what is assigned to them as arithmetic.
INTEGERS = words("RANDOM SRANDOM SECONDS OPTIND HISTCMD LINENO")
# zsh evaluates what is assigned to these, too.
ZSH_INTEGERS = words(
    """
    BAUD COLUMNS CURRENT CURSOR DIRSTACKSIZE EGID ERRNO EUID FUNCNEST GID KEYTIMEOUT LINES LISTMAX LOGCHECK MAILCHECK
    NUMERIC PERIOD PPID REPORTMEMORY REPORTTIME SAVEHIST SHLVL TMOUT TRY_BLOCK_ERROR TRY_BLOCK_INTERRUPT TTYIDLE UID
    """
)
_NUMBER = lazy_regex(r"\s*-?[0-9]+\s*")

_NODE_CODE = lazy_regex(r"(?:^|\s)(?:-r|--require|--import|--loader|--experimental-loader|-e|--eval|--inspect\S*)")
_MEANINGFUL = lazy_regex(r"[/|;`$]|\A\s*[-+.~]")  # a path, options, code


def assignment(name: str, value: Word, exported: bool = False) -> Iterator[Effect]:
    """Yield the effects that setting a variable has on the programs that run after it.

    `exported` says that the variable certainly reaches them; one that this process has from the environment does, too.
    A name that is not known here may then be one that they obey: it asks.
    """
    base = name.partition("[")[0].rstrip("+")
    exported = exported or base in os.environ
    if base == "IFS" and value.text is not None and not value.text.strip(" \t\n"):
        return
    if base in ZSH_INTEGERS and value.parts != NUMBER and value.text != "" and not _NUMBER.fullmatch(value.text or ""):
        yield Effect("unknown", value, f"sets {base}, and zsh would evaluate the text", "shell:other-shell")
    if base == "IFS":
        phrase = "sets IFS, so that words fall apart elsewhere"
        yield Effect("hijack", value, phrase, "shell:hijack-environment")
    elif base in INTEGERS:
        if value.parts != NUMBER and not _NUMBER.fullmatch(value.text or ""):
            yield Effect("unknown", value, f"sets {base}, and bash would evaluate the text", "shell:arithmetic")
    elif base == "PATH":
        yield from _path(value)
    elif base in HIJACKS or base.startswith(
        ("BASH_FUNC_", "LD_", "DYLD_", "GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_", "GIT_TRACE")
    ):
        if base.startswith("GIT_TRACE") and value.text in ("0", "1", "2", "true", "false"):
            return
        phrase = f"sets {base}, through which other programs are made to run something"
        yield Effect("hijack", value, phrase, "shell:hijack-environment")
    elif base in PROGRAMS:
        yield from of_program_word(value)
    elif base == "NODE_OPTIONS" and (value.text is None or _NODE_CODE.search(value.text)):
        yield Effect("hijack", value, "sets NODE_OPTIONS so that node loads other code", "shell:hijack-environment")
    elif base in ("HISTSIZE", "HISTFILESIZE", "HISTCONTROL", "HISTIGNORE") or (
        base == "HISTFILE" and value.text in ("", "/dev/null")
    ):
        yield Effect("log", value, f"sets {base}, which keeps the shell's history from being written")
    elif base in ZSH:
        yield Effect("unknown", value, f"sets {base}, which zsh obeys", "shell:other-shell")
    elif base in SEARCHED:
        yield Effect("session", value, f"sets {base}, which changes what programs find or do")
    elif exported and base not in PLAIN and not base.startswith(("LC_", "GIT_AUTHOR_", "GIT_COMMITTER_")):
        said = f"sets {base} for a program, which may obey it"
        of_git = base.startswith("GIT_") and base not in QUIET  # git runs programs that its files name
        if of_git or value.text is None or _MEANINGFUL.search(value.text):
            yield Effect("session", value, said)
        elif base not in QUIET:
            yield Effect("unknown", value, said, "shell:variable")


def _path(value: Word) -> Iterator[Effect]:
    """A folder of the workspace or the present one on PATH can replace commands."""
    source = value.source.strip("\"'") or "".join(part if part is not None else "$PATH" for part in value.parts)
    entries = source.split(":")
    at = next((i for i, entry in enumerate(entries) if entry in ("$PATH", "${PATH}")), None)
    before = entries if at is None else entries[:at]
    risky = [entry for entry in entries if entry in ("", ".") or not entry.startswith(("/", "$", "~"))]
    risky += [entry for entry in before if entry.startswith(places.SCRATCH)]
    if risky:
        phrase = f"puts {risky[0] or '.'!r} on PATH, where other programs take the place of known ones"
        yield Effect("hijack", value, phrase, "shell:hijack-path")
    else:
        yield Effect("session", value, "changes PATH, so that other programs may run than those that are known")
