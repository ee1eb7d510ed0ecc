"""Hidden entries of a home directory: its user's shell, desktop, editors and tools load settings and code from them.

No list of these names is ever whole, so all are protected, where the home is the workspace or lies in it. A project is
a folder below a home, and nothing of this counts there.
"""

from __future__ import annotations

import functools
import os
import re
import sys

from ..core.text import lazy_regex
from .programs import beneath
from .protected_names import ProtectedName
from .real_path import real_path

_REASON = "programs load settings or code from hidden files and folders of a home directory"
_HOME = "it is a home directory, and programs load settings or code from its hidden files and folders"

# What is written there all the time, and is only data: what was typed, locks and temporary files of those who write
# (ours, too), results of tests. In a repository at home, `.git` counts as anywhere.
_ONLY_DATA = lazy_regex(
    r"""\.git | \.gitmodules | \.gitignore | \.gitattributes | \..*_history(?:[.-].*)? | \.lesshst.? | \.viminfo |
    \.wget-hsts | \.sudo_as_admin_successful | \.xsession-errors.* | \.goutputstream-.* | \..*\.sw[a-p] | \..*\.tmp |
    \.nfs[0-9a-f]+ | \.fuse_hidden[0-9a-f]+ | \.toolcrib-.* | \.DS_Store | \.pytest_cache | \.mypy_cache |
    \.ruff_cache | \.hypothesis | \.coverage(?:\..*)? | \.ipynb_checkpoints""",
    re.VERBOSE | re.DOTALL,
)


def hidden_name(name: str) -> ProtectedName | None:
    """Return the entry for a name that lies directly in a home directory; None if it is not hidden, or only data."""
    if sys.platform == "darwin" and name == "Library":  # the Finder hides it; what starts at login is in it
        return ProtectedName(name, _REASON)
    hidden = name[:1] == "." and name not in (".", "..") and _ONLY_DATA.fullmatch(name) is None
    return ProtectedName(name, _REASON) if hidden else None


def homes_in(root: str) -> tuple[str, ...]:
    """Return the home directories that are a folder (its real path), or lie in it: of this user, and for root also of
    other users. A folder elsewhere than in /home that is itself another user's home may be a project: `/app` in an
    image."""
    own = _own_homes(os.environ.get("HOME", ""))
    others = _homes_of_others() if os.geteuid() == 0 and root != "/" else ()
    others = (each for each in others if each != root or os.path.dirname(root) == "/home")
    return tuple(dict.fromkeys(each for each in (*own, *others) if beneath(each, root)))


def hidden_at(root: str, path: str, *, whole: bool = True) -> ProtectedName | None:
    """Return the entry that a change of this path (absolute, no links in it) below a root would change. `whole`: the
    change moves or removes what lies below the path, too."""
    for home in homes_in(root):
        if path != home and beneath(path, home):
            return hidden_name(path[len(home) :].strip("/").split("/")[0])
        if whole and path != root and beneath(home, path):
            return ProtectedName(os.path.relpath(home, root), _HOME)
    return None


@functools.lru_cache(100)
def _own_homes(home: str) -> tuple[str, ...]:
    try:
        import pwd  # Windows has none

        account = pwd.getpwuid(os.getuid()).pw_dir
    except (ImportError, KeyError):
        account = ""
    return tuple({real_path(each): None for each in (home, account) if os.path.isabs(each) and each != "/"})


@functools.cache
def _homes_of_others() -> tuple[str, ...]:
    import pwd

    people = (each.pw_dir for each in pwd.getpwall() if each.pw_uid == 0 or 1000 <= each.pw_uid < 65_534)
    return tuple({real_path(each): None for each in people if os.path.isabs(each)})
