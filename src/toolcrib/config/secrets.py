"""Convert the `secrets` section to the sources that the policy uses."""

from __future__ import annotations

from ..core.errors import ConfigError
from ..policy.secrets.grants import Source
from ..policy.settings import VARIABLE
from .settings import Settings


def secret_sources(settings: Settings) -> tuple[Source, ...]:
    """Return the sources of the `secrets` section. Raises ConfigError for a name that no environment variable can
    have."""
    found: list[Source] = []
    for name, given in settings.secrets.items():
        variable = given.variable or name
        if not VARIABLE.fullmatch(variable):
            raise ConfigError(f"secrets.{name}: {variable!r} cannot name an environment variable; give one with `as`")
        found.append(
            Source(name, tuple(given.tools), variable, given.env, given.file, tuple(given.command), given.keyring)
        )
    return tuple(found)
