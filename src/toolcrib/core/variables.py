"""Environment variables in settings: `${VAR}` and `${VAR:-default}`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from .errors import ConfigError
from .text import lazy_regex

_REFERENCE = lazy_regex(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*)(?:\}|(?P<open>\Z))|\})")


def expand(text: str, environ: Mapping[str, str], where: str) -> str:
    """Return the text with `${VAR}` and `${VAR:-default}` replaced, in one pass: inserted text is not expanded again.

    `${secret:NAME}` stays. Raises ConfigError if a variable is not set.
    """

    def value(found: re.Match[str]) -> str:
        name, default = found[1], found[2]
        if found["open"] is not None:
            return found[0]
        given = environ.get(name)
        if default is not None:
            return given or default  # like `:-` in a shell: an empty variable counts as not set
        if given is None:
            raise ConfigError(f"{where}: the environment variable {name} is not set; ${{{name}:-default}} gives one")
        return given

    return _REFERENCE.sub(value, text)
