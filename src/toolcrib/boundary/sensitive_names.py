"""A table of files that probably hold secrets, with reasons. A person is asked before one is read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import translate
from functools import lru_cache


@dataclass(frozen=True, slots=True)
class SensitiveName:
    """A file name pattern (or the last parts of a path, with `/`), and the content of such a file."""

    pattern: str
    reason: str


_ENV = "environment files hold keys and passwords"
_KEY = "it is a private key or a key store"
_LOGIN = "it holds login data"
_CLOUD = "it holds cloud credentials"

# A pattern without `/` is matched against the file's name, one with `/` against the end of the whole path.
SENSITIVE_NAMES: tuple[SensitiveName, ...] = (
    SensitiveName(".env", _ENV),
    SensitiveName(".env.*", _ENV),
    SensitiveName(".env~", _ENV),
    SensitiveName("*.env", _ENV),
    SensitiveName(".envrc", _ENV),
    SensitiveName("*.pem", _KEY),
    SensitiveName("*.key", _KEY),
    SensitiveName("*.p12", _KEY),
    SensitiveName("*.pfx", _KEY),
    SensitiveName("*.jks", _KEY),
    SensitiveName("*.keystore", _KEY),
    SensitiveName("*.kdbx", _KEY),
    SensitiveName("*.ppk", _KEY),
    SensitiveName("id_rsa*", _KEY),
    SensitiveName("id_dsa*", _KEY),
    SensitiveName("id_ecdsa*", _KEY),
    SensitiveName("id_ed25519*", _KEY),
    SensitiveName("id_[!.]*", _KEY),
    SensitiveName(".ssh/*", _KEY),
    SensitiveName(".gnupg/*", _KEY),
    SensitiveName(".netrc", _LOGIN),
    SensitiveName("_netrc", _LOGIN),
    SensitiveName(".git-credentials", _LOGIN),
    SensitiveName(".pgpass", _LOGIN),
    SensitiveName(".my.cnf", _LOGIN),
    SensitiveName(".htpasswd", _LOGIN),
    SensitiveName(".npmrc", _LOGIN),
    SensitiveName(".pypirc", _LOGIN),
    SensitiveName(".docker/config.json", _LOGIN),
    SensitiveName(".config/gh/hosts.yml", _LOGIN),
    SensitiveName(".config/git/credentials", _LOGIN),
    SensitiveName(".cargo/credentials*", _LOGIN),
    SensitiveName(".gem/credentials", _LOGIN),
    SensitiveName(".vault-token", _LOGIN),
    SensitiveName("etc/shadow", _LOGIN),
    SensitiveName(".aws/credentials", _CLOUD),
    SensitiveName(".aws/sso/cache/*", _CLOUD),
    SensitiveName(".aws/cli/cache/*", _CLOUD),
    SensitiveName(".azure/*", _CLOUD),
    SensitiveName(".kube/config", _CLOUD),
    SensitiveName("credentials.json", _CLOUD),
    SensitiveName("service-account*.json", _CLOUD),
    SensitiveName("service_account*.json", _CLOUD),
    SensitiveName("application_default_credentials.json", _CLOUD),
    SensitiveName("*.tfstate", "Terraform state holds secrets in the clear"),
    SensitiveName("toolcrib/config.*", "our own settings may hold keys"),
    SensitiveName("toolcrib/trust.json", "it says which configurations are trusted"),
    SensitiveName("toolcrib/*/record.db*", "it is the record of every call"),
    SensitiveName("secrets.toml", "its name says that it holds secrets"),
    SensitiveName("secrets.yml", "its name says that it holds secrets"),
    SensitiveName("secrets.yaml", "its name says that it holds secrets"),
    SensitiveName("secrets.json", "its name says that it holds secrets"),
)

# Templates without values, public halves, and source files that merely begin with `id_`.
HARMLESS_NAMES: tuple[str, ...] = (
    ".env.example",
    ".env.sample",
    ".env.template",
    ".env.dist",
    "example.env",
    "sample.env",
    "*.pub",
)

_SOURCE_SUFFIX = re.compile(r"id_(?!rsa|dsa|ecdsa|ed25519)[^/]*\.[a-z0-9]{1,5}\Z")


def _pattern(glob: str) -> str:
    return translate(glob).removesuffix(r"\Z").removesuffix(r"\z").replace(".*", "[^/]*")


_SENSITIVE = re.compile(
    "(?:^|.*/)(?:" + "|".join(f"({_pattern(s.pattern)})" for s in SENSITIVE_NAMES) + r")\Z", re.DOTALL
)
_HARMLESS = re.compile("(?:^|.*/)(?:" + "|".join(_pattern(name) for name in HARMLESS_NAMES) + r")\Z", re.DOTALL)


@lru_cache(maxsize=4096)  # a search asks for the same names again and again
def sensitive_by(path: str) -> SensitiveName | None:
    """Return the entry that makes a path sensitive, by its name alone; None for an ordinary file."""
    folded = path.casefold()
    found = _SENSITIVE.match(folded)
    if found is None or found.lastindex is None or _HARMLESS.match(folded):
        return None
    entry = SENSITIVE_NAMES[found.lastindex - 1]
    if entry.pattern == "id_[!.]*" and _SOURCE_SUFFIX.search(folded):
        return None
    return entry
