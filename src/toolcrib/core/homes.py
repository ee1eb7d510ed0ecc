"""Find a user's folders of Toolcrib, as the XDG specification says: settings, state and data."""

from __future__ import annotations

import os

TYPE_CHECKING = False  # `typing`, `pathlib` and `collections.abc` take longer to load than an event of a hook
if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FOLDER_GONE = "the current folder no longer exists; go to another one (cd)"


def config_home(environ: Mapping[str, str] = os.environ) -> Path:
    """Return `$XDG_CONFIG_HOME/toolcrib`, or `~/.config/toolcrib`: the folder of the user's file."""
    return _path(_xdg(environ, "XDG_CONFIG_HOME", ".config"))


def state_home(environ: Mapping[str, str] = os.environ) -> Path:
    """Return `$XDG_STATE_HOME/toolcrib`, or `~/.local/state/toolcrib`."""
    return _path(_xdg(environ, "XDG_STATE_HOME", ".local/state"))


def data_home() -> Path:
    """Return `$XDG_DATA_HOME/toolcrib`, or `~/.local/share/toolcrib`."""
    return _path(_xdg(os.environ, "XDG_DATA_HOME", ".local/share"))


def hookd_folder(environ: Mapping[str, str] = os.environ) -> str:
    """Return the folder of `toolcrib hookd`, in the state folder."""
    return os.path.join(_xdg(environ, "XDG_STATE_HOME", ".local/state"), "hookd")


def _xdg(environ: Mapping[str, str], name: str, below_home: str) -> str:
    given = environ.get(name, "")  # a relative path counts as unset, by the XDG specification
    return os.path.join(given if os.path.isabs(given) else os.path.join(_home(environ), below_home), "toolcrib")


def _home(environ: Mapping[str, str]) -> str:
    """Return `$HOME`; the account's own folder if that is not set, or not absolute: it would lie in the workspace."""
    if os.path.isabs(given := environ.get("HOME", "")):
        return given
    try:
        import pwd
    except ImportError:  # Windows, which has no HOME
        return os.path.expanduser("~")
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return "/"


def _path(text: str) -> Path:
    from pathlib import Path

    return Path(text)
