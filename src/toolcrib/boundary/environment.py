"""Choose the environment variables of a command: a short list, and those granted by name. No secrets by default.

Where a command has our proxy as its only way out, its variables about proxies are replaced. curl, git, wget, pip, uv,
npm, cargo and Go's programs read the common ones; node's own fetch does from version 22.21 on, if a variable switches
it on. NO_PROXY keeps connections to the command's own servers off the proxy.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

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


# --- variables about a proxy

_SCHEMES = ("http_proxy", "https_proxy", "all_proxy")
_OWN_HOSTS = ("localhost", "127.0.0.1", "::1")
# Besides every name that ends in _PROXY: where pip, npm, yarn and git would look, too.
_OTHERS = frozenset(
    {"npm_config_proxy", "npm_config_https_proxy", "npm_config_noproxy", "pip_proxy", "git_proxy_command",
     "node_use_env_proxy", "proxy", "noproxy"}
)  # fmt: skip


def without_proxies(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without variables about a proxy."""
    lower = {name: name.lower() for name in env}
    return {name: env[name] for name in env if not lower[name].endswith("_proxy") and lower[name] not in _OTHERS}


def proxy_variables(url: str, domains: Sequence[str] = ()) -> dict[str, str]:
    """Return the variables that send programs to the proxy at `url`. `domains` are those that it admits. If one of
    them is a name of this machine, it means the machine outside, not the command's own loopback."""
    found = {spelling: url for name in _SCHEMES for spelling in (name, name.upper())}
    own = ",".join(host for host in _OWN_HOSTS if host not in domains)
    return {**found, "no_proxy": own, "NO_PROXY": own, "NODE_USE_ENV_PROXY": "1"}
