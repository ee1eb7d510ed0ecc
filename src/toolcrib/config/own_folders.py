"""Which folders may not be granted: those where our own settings, record and trust are."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from ..core.errors import ConfigError
from .homes import config_home


def keep_out(roots: Iterable[Path], state_home: Path) -> None:
    """Refuse a grant to write where our own settings, record and trust are: it would be a grant of everything."""
    for own in (os.path.realpath(state_home), os.path.realpath(config_home())):
        for root in (os.path.realpath(each) for each in roots):
            if os.path.commonpath([root, own]) in (root, own):
                raise ConfigError(
                    f"sandbox.write_roots: {root} takes in {own}, where tools could change what Toolcrib allows; "
                    "grant smaller folders"
                )
