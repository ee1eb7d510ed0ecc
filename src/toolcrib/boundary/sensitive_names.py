"""A table of files that probably hold secrets, with reasons. A person is asked before one is read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import translate
from functools import cache, lru_cache

from ..core.dataclass import dataclass
from ..core.text import lazy_regex


@dataclass(frozen=True, slots=True)
class SensitiveName:
    """A file name pattern (or the last parts of a path, with `/`), and the content of such a file."""

    pattern: str
    reason: str


_ENVIRONMENT = "environment files hold keys and passwords"
_KEY = "it is a private key or a key store"
_LOGIN = "it holds login data"
_CLOUD = "it holds cloud credentials"

# A pattern without `/` is matched against the file's name, one with `/` against the end of the whole path.
_BY_REASON = (
    (_ENVIRONMENT, (".env", ".env.*", ".env~", "*.env", ".envrc", ".env[-_]*", "#.env*#", ".dev.vars", ".dev.vars.*")),
    (_KEY, ("*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "*.ppk")),
    (_KEY, ("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "id_[!.]*", ".ssh/*", ".gnupg/*")),
    (_KEY, ("key4.db", "wallet.dat", ".ethereum/keystore/*", ".config/solana/id.json", ".password-store/*")),
    (_LOGIN, (".netrc", "_netrc", ".git-credentials", ".pgpass", ".my.cnf", ".htpasswd", ".npmrc", ".pypirc")),
    (_LOGIN, (".docker/config.json", ".config/gh/hosts.yml", ".config/git/credentials", ".cargo/credentials*")),
    (_LOGIN, (".gem/credentials", ".vault-token", "etc/shadow", ".dockercfg", ".vault_pass*", "logins.json")),
    (_LOGIN, (".terraformrc", "credentials.tfrc.json", ".sentryclirc", "rclone.conf", ".composer/auth.json")),
    (_LOGIN, (".claude/.credentials.json", ".codex/auth.json", ".gemini/oauth_creds.json", ".m2/settings*.xml")),
    (
        "the environment and the memory of a process hold keys",
        ("proc/*/environ", "proc/*/mem", "proc/*/task/*/environ"),
    ),
    (_CLOUD, (".aws/credentials", ".aws/sso/cache/*", ".aws/cli/cache/*", ".azure/*", ".kube/config")),
    (_CLOUD, ("credentials.json", "service-account*.json", "service_account*.json")),
    (_CLOUD, ("application_default_credentials.json", "client_secret*.json", "local.settings.json", ".s3cfg", ".boto")),
    (_CLOUD, ("kubeconfig", "kubeconfig.y*ml", "*.kubeconfig", "gcloud/credentials.db", "gcloud/access_tokens.db")),
    ("Terraform state holds secrets in the clear", ("*.tfstate", "*.tfstate.backup")),
    ("our own settings may hold keys", ("toolcrib/config.*",)),
    ("it says which configurations are trusted", ("toolcrib/trust.json",)),
    ("it holds a server's tokens", ("toolcrib/mcp/tokens/*",)),
    ("it is the record of every call", ("toolcrib/*/record.db*",)),
    ("its name says that it holds secrets", ("secrets.toml", "secrets.yml", "secrets.yaml", "secrets.json")),
    ("its name says that it holds secrets", (".secret", ".secrets", "secret.json")),
    ("its name says that it holds secrets", ("password.txt", "passwords.txt", "secrets*.tfvars")),
)
SENSITIVE_NAMES = tuple(SensitiveName(pattern, reason) for reason, patterns in _BY_REASON for pattern in patterns)

# Templates without values, public halves, and source files that merely begin with `id_`.
_HARMLESS_NAMES = (".env.example", ".env.sample", ".env.template", ".env.dist", "example.env", "sample.env", "*.pub",
                   ".env[-_]example", ".env[-_]sample", ".env[-_]template", ".dev.vars.example")  # fmt: skip

_SOURCE_SUFFIX = lazy_regex(r"id_(?!rsa|dsa|ecdsa|ed25519)[^/]*\.[a-z0-9]{1,5}\Z")


def _pattern(glob: str) -> str:
    # Without the group around it, the beginning that alternatives share is looked for once.
    return translate(glob).removeprefix("(?s:").removesuffix(r")\Z").removesuffix(r")\z").replace(".*", "[^/]*")


_SENSITIVE = lazy_regex(
    "(?:^|.*/)(?:" + "|".join(f"({_pattern(s.pattern)})" for s in SENSITIVE_NAMES) + r")\Z", re.DOTALL
)
_HARMLESS = lazy_regex("(?:^|.*/)(?:" + "|".join(_pattern(name) for name in _HARMLESS_NAMES) + r")\Z", re.DOTALL)


@cache
def _any_name() -> tuple[re.Pattern[str], ...]:
    """Return patterns that find a sensitive name among lines, compiled at their first use. Those for the ends of names
    are apart: they are looked for only at a dot, not from the start of each name."""
    names = [s.pattern for s in SENSITIVE_NAMES if "/" not in s.pattern]
    ends = "|".join(_pattern(name[1:]) for name in names if name.startswith("*"))
    whole = "|".join(_pattern(name) for name in names if not name.startswith("*"))
    within = whole.replace("[^/]", r"[^/\n]")  # else each name is compared with all that follow it
    return re.compile(f"(?:{ends})$", re.MULTILINE), re.compile(f"(?:^|/)(?:{within})$", re.MULTILINE)


@cache
def _by_folder() -> re.Pattern[str]:
    """Return the pattern of folders whose files may be sensitive, compiled at its first use."""
    folders = {_pattern(s.pattern.rpartition("/")[0]) for s in SENSITIVE_NAMES if "/" in s.pattern}
    return re.compile("(?:^|.*/)(?:" + "|".join(folders) + r")\Z", re.DOTALL)


def _any_sensitive(folder: str, lines: str) -> bool:
    return any(each.search(lines) for each in _any_name()) or _by_folder().match(folder) is not None


def sensitive_among(folder: str, names: Sequence[str]) -> list[str]:
    """Return those of the names in one folder that are sensitive. One search goes over all names."""
    lines = "\n".join(names).casefold()
    plain = lines.count("\n") < max(1, len(names))  # else a name has a line break, and may be two lines here
    if plain and not _any_sensitive(folder.casefold(), lines):
        return []
    return [name for name in names if sensitive_by(f"{folder}/{name}") is not None]


@lru_cache(maxsize=4096)  # a search asks for the same names again and again
def sensitive_by(path: str) -> SensitiveName | None:
    """Return the entry that makes a path sensitive, by its name alone; None for an ordinary file."""
    folded = path.casefold()
    if "\n" not in folded and not _any_sensitive(folded.rpartition("/")[0], folded):
        return None  # nearly all; the expression with a group for each entry takes long to compile
    found = _SENSITIVE.match(folded)
    if found is None or found.lastindex is None or _HARMLESS.match(folded):
        return None
    entry = SENSITIVE_NAMES[found.lastindex - 1]
    if entry.pattern == "id_[!.]*" and _SOURCE_SUFFIX.match(folded.rpartition("/")[2]):
        return None
    return entry
