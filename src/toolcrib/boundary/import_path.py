"""Leave a project's own folders out of where a process of ours looks for modules.

A tool could put a module there that Python or we look for and that is not there otherwise: `copy` looks for `org`,
`pathlib` for `nt`. So the command `toolcrib` does this before it imports anything else, and nothing is imported here.
"""

from __future__ import annotations

import os
import site
import sys

from .real_path import real_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SEARCHED = tuple(sys.path)
"""Where Python looked when the process began."""
PREFIXES = (sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix)
ABOVE_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_left_out: list[str] = []
_finders_left_out: list[Any] = []


def leave_project_out() -> None:
    """Take the folders that are not part of our environment off the path of imports: a project's own (an editable
    installation, PYTHONPATH). It is for a process that is ours."""
    _finders_left_out.extend(each for each in sys.meta_path if "editable" in str(getattr(each, "__module__", "")))
    sys.meta_path[:] = [each for each in sys.meta_path if each not in _finders_left_out]
    own = tuple(f"{real_path(path)}{os.sep}" for path in (*PREFIXES, site.getusersitepackages(), ABOVE_PACKAGE))
    _left_out.extend(each for each in sys.path if not f"{real_path(each)}{os.sep}".startswith(own))
    sys.path[:] = [each for each in sys.path if each not in _left_out]


def let_project_in() -> None:
    """Put these folders back, at the end, for Python plugins that a person enabled: a project may have its own."""
    sys.path.extend(_left_out)
    sys.meta_path.extend(_finders_left_out)
    _left_out.clear()
    _finders_left_out.clear()
