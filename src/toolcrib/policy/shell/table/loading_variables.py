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

# Programs load or run code from these, whatever the value is.
HIJACKS = words(
    """
    GCONV_PATH LOCPATH NLSPATH GLIBC_TUNABLES MALLOC_CHECK_ RES_OPTIONS HOSTALIASES LOCALDOMAIN GETCONF_DIR BASH_ENV
    ENV PROMPT_COMMAND PS0 PS1 PS2 PS4 SHELLOPTS BASHOPTS CDPATH GLOBIGNORE BASH_LOADABLES_PATH HISTFILE_HOOK ZDOTDIR
    FPATH KSH_ENV PYTHONSTARTUP PYTHONHOME PYTHONINSPECT PYTHONWARNINGS PYTHONBREAKPOINT PYTHONEXECUTABLE
    PYTHONUSERBASE PYTHONPLATLIBDIR PERL5OPT PERL5LIB PERLLIB PERL5DB PERL_MM_OPT RUBYOPT RUBYLIB BUNDLE_GEMFILE
    GEM_HOME GEM_PATH LUA_INIT LUA_PATH LUA_CPATH PHP_INI_SCAN_DIR PHPRC JAVA_TOOL_OPTIONS JDK_JAVA_OPTIONS
    _JAVA_OPTIONS CLASSPATH DOTNET_STARTUP_HOOKS COR_PROFILER CORECLR_PROFILER CORECLR_PROFILER_PATH
    CORECLR_ENABLE_PROFILING ERL_FLAGS ERL_AFLAGS ERL_LIBS GIT_SSH GIT_SSH_COMMAND GIT_EXTERNAL_DIFF GIT_PROXY_COMMAND
    GIT_EXEC_PATH GIT_TEMPLATE_DIR GIT_CONFIG GIT_CONFIG_GLOBAL GIT_CONFIG_SYSTEM GIT_CONFIG_COUNT
    GIT_CONFIG_PARAMETERS GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_ASKPASS SSH_ASKPASS SUDO_ASKPASS GIT_ALLOW_PROTOCOL
    RSYNC_RSH CVS_RSH SVN_SSH LESSOPEN LESSCLOSE LESSKEY LESSKEYIN TAR_OPTIONS TAPE RIPGREP_CONFIG_PATH MAKEFLAGS
    GNUMAKEFLAGS MAKEFILES OPENSSL_CONF OPENSSL_MODULES OPENSSL_ENGINES CURL_HOME WGETRC INPUTRC TERMINFO TERMCAP
    VIMINIT EXINIT GVIMINIT NVIM_APPNAME EMACSLOADPATH SQLITE_HISTORY MYSQL_HISTFILE PSQLRC GOFLAGS GOROOT CC CXX LD
    AR RUSTC RUSTC_WRAPPER RUSTC_WORKSPACE_WRAPPER CARGO_BUILD_RUSTC_WRAPPER CARGO_TARGET_RUNNER
    NPM_CONFIG_SCRIPT_SHELL npm_config_script_shell NPM_CONFIG_NODE_OPTIONS npm_config_node_options
    npm_config_userconfig ANSIBLE_CONFIG DOCKER_HOST DOCKER_CONFIG LESS LESSEDIT LESSHISTFILE LESSKEY_CONTENT
    LESSKEY_SYSTEM LESSKEYIN_SYSTEM MORE MANOPT MANROFFOPT GZIP GZIP_OPT BZIP BZIP2 XZ_OPT XZ_DEFAULTS ZIPOPT ZIP
    UNZIP UNZIPOPT ZIPINFO MALLOC_TRACE GREP_OPTIONS DIFF_OPTIONS ACK_OPTIONS ACKRC ACK_PAGER BAT_OPTS BAT_CONFIG_PATH
    FZF_DEFAULT_COMMAND FZF_DEFAULT_OPTS JQ_LIBRARY_PATH AWKPATH AWKLIBPATH GAWK_READ_TIMEOUT LYNX_CFG TERMINFO_DIRS
    BASH_XTRACEFD BASH_COMPAT GCC_EXEC_PREFIX COMPILER_PATH GIT_REDIRECT_STDIN GIT_REDIRECT_STDOUT GIT_REDIRECT_STDERR
    GIT_SHALLOW_FILE GIT_GRAFT_FILE GIT_ATTR_SOURCE GIT_CEILING_DIRECTORIES GIT_COMMON_DIR GIT_PROTOCOL
    GIT_DEFAULT_HASH PROCPS_USERLIST RSH STRACE_LOG COLUMN MAILCAPS MAILPATH KUBECONFIG PIP_CONFIG_FILE PIP_INDEX_URL
    PIP_EXTRA_INDEX_URL UV_INDEX_URL DBUS_SESSION_BUS_ADDRESS DBUS_SYSTEM_BUS_ADDRESS XDG_CONFIG_HOME XDG_DATA_DIRS
    NODE_EXTRA_CA_CERTS SSL_CERT_FILE APT_CONFIG BASH_ALIASES BASH_CMDS EXECIGNORE FFREPORT SGML_CATALOG_FILES
    XML_CATALOG_FILES
    """
)

# These contain the name of a program to run; a few values are harmless.
PROGRAMS = words(
    """
    PAGER MANPAGER GIT_PAGER SYSTEMD_PAGER PSQL_PAGER DELTA_PAGER BAT_PAGER GH_PAGER AWS_PAGER EDITOR VISUAL GIT_EDITOR
    GIT_SEQUENCE_EDITOR FCEDIT HGEDITOR SVN_EDITOR BROWSER SHELL SUDO_EDITOR MAILER PERLDOC_PAGER KUBE_EDITOR
    TERM_PROGRAM_PAGER
    """
)

# The places where a program looks for its own files (harmless inside the workspace, so a person is only asked), and
# how it reads its words.
SEARCHED = words(
    """
    PYTHONPATH NODE_PATH HOME TMPDIR PKG_CONFIG_PATH GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_OBJECT_DIRECTORY MANPATH
    INFOPATH HISTFILE VIRTUAL_ENV CARGO_HOME RUSTUP_HOME GOPATH GOPROXY GOBIN MAKE MAKESHELL http_proxy https_proxy
    all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY CFLAGS CXXFLAGS LDFLAGS CPPFLAGS C_INCLUDE_PATH LIBRARY_PATH GOENV
    POSIXLY_CORRECT
    """
)

# Harmless with any value.
PLAIN = words(
    "LANG TERM COLUMNS LINES COLORTERM NO_COLOR CLICOLOR FORCE_COLOR LS_COLORS GREP_COLORS GREP_COLOR USER LOGNAME _"
)

# Harmless with a value that is neither a path nor an option nor code.
QUIET = words(
    """
    TZ LANGUAGE CI DEBUG VERBOSE QUIET DRY_RUN NODE_ENV RAILS_ENV APP_ENV ENVIRONMENT BLOCK_SIZE BLOCKSIZE TIME_STYLE
    QUOTING_STYLE TIMEFORMAT MANWIDTH RUST_LOG RUST_BACKTRACE PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE
    PYTHONHASHSEED PYTHONIOENCODING GIT_OPTIONAL_LOCKS GIT_TERMINAL_PROMPT DEBIAN_FRONTEND
    """
)

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
_SAFE_PATH = lazy_regex(
    r"(?:/usr/local/bin|/usr/local/sbin|/usr/bin|/bin|/usr/sbin|/sbin|/opt/homebrew/bin|\$PATH|\$\{PATH\})"
)


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
        if value.text is not None and base in ("PROMPT_COMMAND", "GIT_SSH_COMMAND", "GIT_EXTERNAL_DIFF"):
            yield Effect("shell", value)
    elif base in PROGRAMS:
        yield from of_program_word(value)
    elif base == "NODE_OPTIONS":
        if value.text is None or _NODE_CODE.search(value.text):
            yield Effect("hijack", value, "sets NODE_OPTIONS so that node loads other code", "shell:hijack-environment")
        else:
            yield Effect("session", value, "sets NODE_OPTIONS")
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
        if value.text is None or _MEANINGFUL.search(value.text):
            yield Effect("session", value, said)
        elif base not in QUIET:
            yield Effect("unknown", value, said, "shell:variable")


def _path(value: Word) -> Iterator[Effect]:
    """PATH may get more of the system's folders. A folder of the workspace or the present one can replace commands."""
    if not value.source and None in value.parts:
        yield Effect("session", value, "changes PATH, so that other programs may run than those that are known")
        return
    source = value.source.strip("\"'") or "".join(part if part is not None else "$PATH" for part in value.parts)
    entries = source.split(":")
    if all(_SAFE_PATH.fullmatch(entry) for entry in entries):
        return
    at = next((i for i, entry in enumerate(entries) if entry in ("$PATH", "${PATH}")), None)
    before = entries if at is None else entries[:at]
    risky = [entry for entry in entries if entry in ("", ".") or not entry.startswith(("/", "$", "~"))]
    risky += [entry for entry in before if entry.startswith(places.SCRATCH)]
    if risky:
        phrase = f"puts {risky[0] or '.'!r} on PATH, where other programs take the place of known ones"
        yield Effect("hijack", value, phrase, "shell:hijack-path")
    else:
        yield Effect("session", value, "changes PATH, so that other programs may run than those that are known")
