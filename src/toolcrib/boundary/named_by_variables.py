"""Find the files that are loaded into Toolcrib, a program that it starts, or the shells of other agents, because a
variable names them: the loader, libc, Python, OpenSSL, container engines and bash look there at their start."""

from __future__ import annotations

import functools
import itertools
import os
import platform
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from .host_file import HostFile, both_names
from .programs import beneath, within_any
from .real_path import real_path

_ONE = "\0"
"""For a variable that holds one path. The others have what separates their paths."""

_LIBRARIES = "LD_LIBRARY_PATH"
_SEARCHED = ("LD_PRELOAD", "LD_AUDIT")  # a name without a slash is looked for like a library
_VARIABLES = {
    _LIBRARIES: "[:;]",
    "LD_PRELOAD": "[ :]", "LD_AUDIT": ":", "DYLD_INSERT_LIBRARIES": ":", "GCONV_PATH": ":",  # ld.so(8), iconv(3)
    "PYTHONPYCACHEPREFIX": _ONE,
    "OPENSSL_CONF": _ONE, "OPENSSL_CONF_INCLUDE": _ONE, "OPENSSL_MODULES": _ONE, "OPENSSL_ENGINES": _ONE,
    "SSL_CERT_FILE": _ONE, "SSL_CERT_DIR": ":",  # which servers are believed
    "DOCKER_CONFIG": _ONE, "CONTAINERS_CONF": _ONE, "CONTAINERS_CONF_OVERRIDE": _ONE, "CONTAINERS_STORAGE_CONF": _ONE,
    "JAVA_HOME": _ONE,  # servers get it
    # What Claude Code's shells, or all, run before each command.
    "BASH_ENV": _ONE, "CLAUDE_ENV_FILE": _ONE, "CLAUDE_CODE_SHELL_PREFIX": " ",
}  # fmt: skip
"""Each names files, or folders from which anything is loaded; of a folder with libraries only those of the system."""

# Folders for kinds of processors below one with libraries, in this order; the last are from before glibc 2.37.
_HWCAPS = "glibc-hwcaps"
_KINDS = (("", "tls"), ("", "haswell", "xeon_phi", platform.machine()), ("", "avx512_1", "atomics"),
          ("", platform.machine()))  # fmt: skip


def paths_given(environ: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the variables that name something, each with one of its paths."""
    known = ((name, re.split(sign, environ[name])) for name, sign in _VARIABLES.items() if environ.get(name))
    return tuple((name, path) for name, paths in known for path in paths if path or name == _LIBRARIES)


@functools.cache
def given() -> tuple[tuple[str, str], ...]:
    """Return those of this process. The next start is taken to have the same."""
    return paths_given(os.environ)


def named_by_variables(root: str, protected: Collection[str] = ()) -> tuple[HostFile, ...]:
    """Return what variables of this process named in a folder (its real path), except in those that are `protected`
    already. Relative paths are in the current folder: that of the next start is taken to be the same."""
    found: dict[HostFile, None] = {}
    for variable, path in given():
        if variable in _SEARCHED and "/" not in path:
            continue
        reason = _REASON.format(variable)
        for each in both_names([os.path.abspath(path)]):  # an empty entry for libraries is the current folder
            if not beneath(each, root) or within_any(each, protected):
                continue
            if variable == _LIBRARIES and not os.path.islink(each):
                found.update(dict.fromkeys(_libraries(each, reason, _names_elsewhere(root))))
            elif each != root:
                found[HostFile(each, reason)] = None
    return tuple(found)


_REASON = (
    "{} names it, so Toolcrib, or a program that it or another agent starts, loads it at the next start, outside the "
    "sandbox, with your rights"
)


def _libraries(folder: str, reason: str, only: frozenset[str]) -> Iterator[HostFile]:
    """Yield the libraries in a folder that the loader would take instead of those of the system."""
    yield HostFile(f"{folder}/{_HWCAPS}", reason)
    for kinds in dict.fromkeys(itertools.product(*_KINDS)):
        yield HostFile("/".join([folder, *filter(None, kinds), "*.so*"]), reason, True, only=only)


@functools.cache
def _names_elsewhere(root: str) -> frozenset[str]:
    """Return the names, up to the first dot, of the libraries that Toolcrib may load from outside a folder."""
    names = {path.split(".")[0] for variable, path in given() if variable in _SEARCHED}
    with suppress(OSError):
        for line in Path("/etc/nsswitch.conf").read_text(errors="replace").splitlines():
            names.update(f"libnss_{word}" for word in line.partition("#")[0].split()[1:])  # they may be missing
    with suppress(OSError), open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        loaded = {os.path.dirname(real_path(line.split(maxsplit=5)[-1].strip())) for line in maps if ".so" in line}
        places = (each for each in loaded if os.path.isdir(each) and not beneath(each, root))
        names.update(name.split(".")[0] for place in places for name in os.listdir(place) if ".so" in name)
    return frozenset(names)
