"""Find the commands that a command runs in turn."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from ..parts import Word
from ..state import Listed
from . import files, others, shells
from .inner import MAX_INNER, Inner, base_name, wrapped
from .rows import WRAPPERS
from .shells import SHELLS

# Wrappers whose commands have another HOME.
OTHER_USERS = frozenset(
    {
        *("sudo", "doas", "su", "runuser", "pkexec", "sg", "gosu", "su-exec", "setuidgid", "setpriv", "chpst"),
        *("chroot", "proot", "bwrap", "unshare", "nsenter", "systemd-run", "start-stop-daemon"),
    }
)
_TERMINALS = (
    *("xterm", "konsole", "gnome-terminal", "urxvt", "rxvt", "kitty"),
    *("alacritty", "foot", "xfce4-terminal", "terminator"),
)
_LOADER = re.compile(r"/(?:usr/)?lib(?:32|64|x32)?/(?:[\w-]+/)?ld-(?:linux|musl)[\w.-]*|/lib(?:64)?/ld64\.so\.[12]")


def keeps_home(words: tuple[Word, ...]) -> bool:
    """Return whether the command of a wrapper has the same HOME; env's options may remove it."""
    name = base_name(words[0])
    return name not in OTHER_USERS and not (name == "env" and any(word.start[:1] in ("-", "") for word in words[1:]))


def unfold(words: tuple[Word, ...], stdin: Word | None = None, names: list[Listed] | None = None) -> list[Inner]:
    """Return the further commands that a command's words run: none, one, or several if that is not certain.

    `stdin` is the known text of its input, `names` the names of files in that input.
    """
    name = base_name(words[0])
    if name is None:
        text = words[0].text
        return list(others.loader(words)) if text is not None and _LOADER.fullmatch(text) else []
    special = SPECIAL.get(name)
    if special is files.xargs:
        return list(files.xargs(words, stdin, names))[:MAX_INNER]
    if special is not None:
        return list(special(words, stdin))[:MAX_INNER]
    wrapper = WRAPPERS.get(name)
    return [] if wrapper is None else list(wrapped(wrapper, words))[:MAX_INNER]


SPECIAL: dict[str, Callable[[tuple[Word, ...], Word | None], Iterator[Inner]]] = {
    "env": shells.env,
    "eval": shells.evaluate,
    "source": shells.source,
    ".": shells.source,
    "trap": shells.trap,
    **dict.fromkeys(("mapfile", "readarray", "compgen", "complete"), shells.callback),
    "xargs": files.xargs,
    "gxargs": files.xargs,
    "find": files.find,
    "gfind": files.find,
    "fd": files.fd,
    "fdfind": files.fd,
    "parallel": files.parallel,
    "busybox": others.applet,
    "toybox": others.applet,
    "coreutils": others.coreutils,
    "capsh": shells.capsh,
    "ip": others.ip,
    "perf": others.perf,
    "sudo": shells.sudo,
    "su": shells.su,
    "runuser": shells.su,
    "start-stop-daemon": others.start_stop,
    "setarch": others.setarch,
    "entr": others.entr,
    "firejail": others.firejail,
    "valgrind": others.firejail,
    "bwrap": others.bwrap,
    "tmux": others.tmux,
    "screen": others.screen,
    **dict.fromkeys(_TERMINALS, others.terminal),
    **dict.fromkeys(("gdb", "lldb"), others.escapes("-ex", "--eval-command", "-eval-command", "-iex", "-o")),
    **dict.fromkeys(("psql", "mysql", "mariadb", "ftp", "sftp"), others.escapes("-c", "-e")),
    "cmake": others.cmake,
    "rpm": others.rpm,
    **dict.fromkeys(SHELLS, shells.shell),
}
