"""Set the environment variables that point programs to our proxy, and remove all others.

curl, git, wget, pip, uv, npm, cargo and Go's programs read the common ones; node's own fetch does from version 22.21
on, if a variable switches it on. NO_PROXY keeps connections to the command's own servers off the proxy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_SCHEMES = ("http_proxy", "https_proxy", "all_proxy")
_OWN_HOSTS = ("localhost", "127.0.0.1", "::1")
# Besides every name that ends in _PROXY: where pip, npm, yarn and git would look, too.
_OTHERS = frozenset(
    {"npm_config_proxy", "npm_config_https_proxy", "npm_config_noproxy", "pip_proxy", "git_proxy_command",
     "node_use_env_proxy", "proxy", "noproxy"}
)  # fmt: skip


def without_proxies(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without variables about a proxy."""
    return {name: value for name, value in env.items() if not _speaks_of_proxies(name.lower())}


def _speaks_of_proxies(name: str) -> bool:
    return name.endswith("_proxy") or name in _OTHERS


def proxy_variables(url: str, domains: Sequence[str] = ()) -> dict[str, str]:
    """Return the variables that send programs to the proxy at `url`. `domains` are those that it admits. If one of
    them is a name of this machine, it means the machine outside, not the command's own loopback."""
    found = {spelling: url for name in _SCHEMES for spelling in (name, name.upper())}
    own = ",".join(host for host in _OWN_HOSTS if host not in domains)
    return {**found, "no_proxy": own, "NO_PROXY": own, "NODE_USE_ENV_PROXY": "1"}
