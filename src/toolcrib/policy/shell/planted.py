"""Find a program of the workspace that runs because PATH, or a file of a version manager, names its folder."""

from __future__ import annotations

import os
from collections.abc import Container

from ...boundary.git_settings import text_of
from ...boundary.programs import is_shim, named_programs
from ...boundary.real_path import real_path
from ...core.errors import ConfigError
from ...core.text import lazy_regex
from .parts import Command, CommandPlace
from .spots import is_below
from .table.wordlist import words

# What these look for in PATH themselves, as many of them are scripts.
_STARTS = {
    **dict.fromkeys(("tar", "gtar", "bsdtar"), words("gzip bzip2 xz lzip lzma lzop zstd compress")),
    **dict.fromkeys(("zcat", "gzcat", "gunzip"), words("gzip")),
    "zgrep": words("gzip grep sed expr"),
    **dict.fromkeys(("egrep", "fgrep"), words("grep")),
    "git": words("sed basename uname expr cat sort wc gettext gettext.sh envsubst"),
    "dpkg": words("dpkg-query dpkg-deb"),
    "diff3": words("diff"),
    "lsb_release": words("getopt tr cut cat sed"),
    "service": words("basename grep sed"),
    **dict.fromkeys(("fd", "fdfind"), words("ls")),
}


# Variables that name what these load or run.
_OBEYED = {
    "pip": ("PYTHONPATH",),
    "rg": ("RIPGREP_CONFIG_PATH",),
    "git": ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_EXEC_PATH", "GIT_EXTERNAL_DIFF"),
    "perl": ("PERL5LIB", "PERLLIB", "PERL5OPT"),
    "php": ("PHPRC", "PHP_INI_SCAN_DIR"),
    "lua": ("LUA_INIT",),
    "ruby": ("RUBYLIB", "RUBYOPT"),
    "java": ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS"),
    "javac": ("JAVA_TOOL_OPTIONS", "JDK_JAVAC_OPTIONS"),
    "openssl": ("OPENSSL_CONF", "OPENSSL_MODULES", "OPENSSL_ENGINES"),
    "docker": ("DOCKER_CONFIG",),
    **dict.fromkeys(("tar", "gtar"), ("TAR_OPTIONS",)),
}
_VERSION = lazy_regex(r"[\d.]+\Z")
_SIGNS = lazy_regex(r"[:;=@,\s]+")


def planted_program(command: Command, place: CommandPlace, sought: Container[str] = ()) -> str | None:
    """Return the program of a command, or one that it starts, that lies in a folder of PATH where tools may write, if
    there is one. Names of folders without a slash at the beginning are for where the command runs. `sought`: `which`
    said where they are."""
    name = command.name or ""
    plain = name.rpartition("/")[2]
    names = [plain] if plain and (plain == name or plain in sought) else []
    names += sorted(_STARTS.get(plain, ()))
    for folder in place.program_folders:
        for each in names:
            path = f"{folder}/{each}"
            if command.cwd is None and not os.path.isabs(folder):
                return path
            there = os.path.join(command.cwd or "", path)
            if os.path.lexists(there) and not os.path.isdir(there):
                return path
    return None


def chosen_program(name: str, command: Command, place: CommandPlace) -> str | None:
    """Return what names a folder of the workspace with the program, or with what it loads: a file of asdf or mise, if
    PATH has their shim of it, or a variable of the environment."""
    roots = (place.workspace, *place.writable)
    for variable in _OBEYED.get(_VERSION.sub("", name.rpartition("/")[2]), ()):
        for each in _SIGNS.split(given) if (given := os.environ.get(variable)) else ():
            path = real_path(os.path.join(place.workspace, each))
            if (each[:1] != "-" or "/" in each) and any(is_below(path, root) for root in roots):
                return variable
    if "/" in name or not is_shim(next(named_programs(name), "")):
        return None
    at = real_path(command.cwd or place.cwd)
    while is_below(at, place.workspace):
        try:
            named = "path:" in text_of(f"{at}/.tool-versions")
        except ConfigError:
            named = True  # it is too large to be looked at
        if named:
            return os.path.relpath(f"{at}/.tool-versions", place.workspace)
        at = os.path.dirname(at)
    return None
