"""Which environment variables does a command get? A short list, and those granted by name; no secrets by default."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

# What programs need to find themselves, speak the user's language and sign a commit. Nothing here may hold a
# secret: a new name must be one whose value could be printed in a log.
ALLOWED = frozenset(
    {
        "HOME", "PATH", "SHELL", "USER", "LOGNAME", "TMPDIR", "TZ",
        "LANG", "LANGUAGE", "TERM", "COLORTERM", "NO_COLOR", "COLUMNS", "LINES",
        "JAVA_HOME", "PYENV_ROOT", "PYENV_VERSION", "NVM_DIR", "RUSTUP_HOME", "VIRTUAL_ENV",
        "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL",
    }
)  # fmt: skip
ALLOWED_PREFIXES = ("LC_",)

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def command_environment(granted: Iterable[str] = (), host: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables a command gets. `granted` are further names; those the host does not have are left out."""
    host = os.environ if host is None else host
    names = ALLOWED | set(granted)
    env = {name: host[name] for name in host if name in names or name.startswith(ALLOWED_PREFIXES)}
    env.setdefault("PATH", DEFAULT_PATH)
    env.setdefault("LANG", "C.UTF-8")
    return env
