"""Choose the environment variables of a command: a short list, and those granted by name. No secrets by default."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

# The variables that programs need to find their files, use the user's language and sign a commit. None may hold a
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
    """Return the variables of a command. `granted` are further names; names that the host does not have are skipped."""
    host = os.environ if host is None else host
    names = ALLOWED | set(granted)
    env = {name: host[name] for name in host if name in names or name.startswith(ALLOWED_PREFIXES)}
    env.setdefault("PATH", DEFAULT_PATH)
    env.setdefault("LANG", "C.UTF-8")
    return env
