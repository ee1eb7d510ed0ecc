"""Refuse to grant write access to the folders of our own settings, record and trust list."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from ..core.errors import ConfigError
from .homes import config_home


def keep_out(roots: Iterable[Path], state_home: Path) -> None:
    """Check the folders granted for writing. Raises ConfigError if one contains our own settings, record or trust list:
    such a grant would give access to everything."""
    for own in (os.path.realpath(state_home), os.path.realpath(config_home())):
        for root in (os.path.realpath(each) for each in roots):
            if os.path.commonpath([root, own]) in (root, own):
                raise ConfigError(
                    f"sandbox.write_roots: {root} takes in {own}, where tools could change what Toolcrib allows; "
                    "grant smaller folders"
                )
