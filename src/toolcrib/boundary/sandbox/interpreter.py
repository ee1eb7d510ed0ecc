"""Run our own small programs with this interpreter, without our modules."""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
from importlib.machinery import SourceFileLoader
from types import CodeType
from typing import cast

from ...core.errors import SandboxUnavailable


@functools.cache
def code_of(module: str) -> CodeType:
    """Return the compiled code of a module of this package. Raises SandboxUnavailable if it is not a source file."""
    name = f"{__package__}.{module}"
    spec = importlib.util.find_spec(name)
    if spec is None or not isinstance(spec.loader, SourceFileLoader):
        raise SandboxUnavailable(f"{name} is not installed as a source file, so it cannot be run by itself.")
    return cast("CodeType", spec.loader.get_code(name))


def own_python(why: str) -> str:
    """Return this interpreter, without its virtual environment. Raises SandboxUnavailable, and says what needs the
    interpreter."""
    bundled = getattr(sys, "frozen", False)  # in a frozen program sys.executable is that program, not an interpreter
    for program in () if bundled else (getattr(sys, "_base_executable", ""), sys.executable):
        if program and os.access(program, os.X_OK):
            return program
    raise SandboxUnavailable(
        f"{why}, and this program does not know where its own is (it is bundled, or embeds Python)."
    )
