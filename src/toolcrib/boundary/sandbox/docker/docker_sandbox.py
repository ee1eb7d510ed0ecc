"""Backend `docker`: the command line of docker or podman runs each command in a separate container.

The workspace and granted folders are mounted under their own names, so that paths mean the same inside and outside.
Everything else comes from the image, read-only. `engine` finds the program and knows its abilities.
"""

from __future__ import annotations

import contextlib
import csv
import io
import os
import re
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from ....core.errors import SandboxUnavailable
from ....core.text import lazy_regex
from ...environment import ALLOWED
from ...mount_points import mounts
from ...private_folders import beyond_tools
from ...programs import beneath, host_environment
from ...real_path import real_path
from ...spawn import Spawn
from ...spawner import spawner
from ..found_files import withheld_files
from ..protected_paths import ProtectedPaths
from ..remedies import explain_engine
from ..settings import CommandLimits, Profile, SandboxSettings, most_memory
from ..writable import Writable, workspace_of
from .container_engine import LABEL, ContainerEngine, owner

HOME, TMP = "/tmp/home", "/tmp"  # noqa: S108  (inside they are new and empty)

# The host variables that a container gets: the host's folders and programs mean nothing there.
_PASSED = frozenset(
    {
        "LANG", "LANGUAGE", "TZ", "TERM", "COLORTERM", "NO_COLOR", "COLUMNS", "LINES",
        "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL",
    }
)  # fmt: skip
# The variables that the engine's command line needs to find its server. HOME holds its contexts and credentials.
_CLIENT = ("HOME", "PATH", "USER", "LOGNAME", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "TMPDIR", "LANG")
_CLIENT_PREFIXES = ("DOCKER_", "CONTAINER", "PODMAN_")

# Images without bash run the command with their sh.
_SHELL = 'run=$1; shift; command -v bash >/dev/null 2>&1 && exec bash -c "$run" "$@"; exec sh -c "$run" "$@"'
_SWAPPED = "was changed while the container was made"
# The engine follows links when it mounts, and a command that runs meanwhile can make some. So before the command, the
# shell looks at what is mounted. For each name: the folder around it, and what to add to that one's place for its own.
_LOOK = """n='
'; t=$n
while read -r _ _ dev from at _; do t="$t$dev ${from%/} $at$n"; done < /proc/self/mountinfo
while [ "$1" != -- ]; do x=
[ -z "$2" ] || { x=${t%" $2$n"*}; x=$n${x##*"$n"}$3; }
case $t in *"$x $1$n"*) shift 3 ;; *) printf '%b SWAPPED\n' "$1" >&2; exit 126 ;; esac; done
shift; """.replace("SWAPPED", _SWAPPED)
_ENGINE_ERROR = lazy_regex(r"Error response from daemon|OCI runtime|crun:|runc create failed", re.IGNORECASE)
_REFUSED = 126
_ENGINE_CODES = (125, 126, 127)  # docker-run(1): its own error, a command that cannot be run, one that is missing


class DockerSandbox:
    """Containers around one workspace. A probe has shown that the engine answers and has the image."""

    name = "docker"
    active = True
    fresh_folders: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()

    def __init__(self, engine: ContainerEngine, settings: SandboxSettings, workspace: Path) -> None:
        self.profile: Profile = settings.profile
        self.engine = engine
        self.workspace = workspace_of(workspace)
        if not settings.docker.image:
            raise SandboxUnavailable(
                'Backend "docker" needs an image: sandbox.docker.image = "python:3.12-slim", or one of your own with '
                "the programs your commands use. It must be on this machine; nothing is downloaded for a command."
            )
        self.image = settings.docker.image
        self._settings = settings
        self._writable = Writable(self.workspace, settings, self.profile)
        self._withheld = withheld_files(self.workspace, settings)

    def wrap(self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout: float | None) -> Spawn:
        """Return the engine's command line. Raises SandboxUnavailable or OSError if it cannot be prepared."""
        name = f"toolcrib-{os.getpid()}-{secrets.token_hex(6)}"
        guards = self._writable.guards(cwd, lasting=timeout is None)
        folder = tempfile.mkdtemp(
            prefix="toolcrib-container-", dir=beyond_tools(self._settings.writable(self.workspace))
        )
        container = _Container(self.engine.program, name, f"{folder}/id", _client_environment())
        passed = _passed(env, self._settings.env)
        mounted, expected = self._mounts(guards)
        notes = list[str]()
        arguments = [
            self.engine.program, "run", "--rm", "--interactive", "--pull", "never", "--name", name,
            "--label", f"{LABEL}={owner()}", "--cidfile", container.id_file, "--log-driver", "none",
            *_walls(self._settings.limits, self._settings.docker.cpus, timeout), *self.engine.arguments,
            *mounted, "--workdir", str(cwd), "--env", f"HOME={HOME}", "--env", f"TMPDIR={TMP}",
        ]  # fmt: skip
        for variable in sorted(passed):
            arguments += ["--env", variable]  # the command inherits the value: others can read arguments
        script, rest = _command(argv)
        looked = ("-c", _LOOK + script, "sh", *expected, "--")
        return Spawn(
            argv=[*arguments, "--entrypoint", "/bin/sh", self.image, *looked, *rest],
            cwd="/",
            env={**passed, **_client_environment()},
            failure=container.failure,
            cleanup=lambda: container.gone(folder),
            appeared=lambda: self._writable.appeared(guards, notes),
            notes=notes,
            stop=container.stop,
        )

    def _mounts(self, guards: Sequence[ProtectedPaths]) -> tuple[list[str], list[str]]:
        """Return the mounts, and what to expect of each in the container. Folders above protected, hidden and withheld
        names are mounted onto themselves, so that they cannot be moved. What lies in a granted folder is mounted under
        each name that the folder has."""
        fresh = f"rw,exec,nosuid,nodev,mode=1777,size={self._settings.limits.tmp}"
        arguments = ["--tmpfs", f"{TMP}:{fresh}", "--tmpfs", f"{HOME}:{fresh}"]
        changes, asked = self.profile == "workspace-write", self._settings
        granted = [(path, False) for path in asked.read_roots] + [(path, changes) for path in asked.write_roots]
        beside = asked.beside((path for path, _ in granted), self.workspace)
        binds = {str(path): (real_path(path), may) for path, may in granted if path in beside and path.exists()}
        binds[str(self.workspace)] = str(self.workspace), changes
        roots = {name: real for name, (real, _) in binds.items()}
        kept = (*map(real_path, asked.hidden), *self._withheld.paths())
        covered = dict.fromkeys(filter(os.path.exists, map(self._withheld.seen_as, kept)))
        above = {str(folder) for path in covered for folder in Path(path).parents}
        inside = tuple(f"{root}/" for root in self._writable.roots())
        pins = [(path, False) for path in sorted(above) if path.startswith(inside)]
        for path, read_only in (*pins, *(each for found in guards for each in found.mounts())):
            for name in _names(path, roots):
                if read_only or name not in binds:
                    binds[name] = path, not read_only
        for path in covered:
            for name in _names(path, roots):
                if os.path.isdir(path):
                    arguments += ["--tmpfs", f"{name}:ro,mode=0555,size=4096"]
                    binds.pop(name, None)
                else:
                    binds[name] = os.devnull, False
        expected = [part for name in arguments[5::2] for part in (_escaped(name.partition(":")[0]), "", "")]
        points = [each.point for each in mounts()]
        for name, (source, may) in binds.items():
            arguments += _bind(source, name, writable=may)
            around = next((str(each) for each in Path(name).parents if str(each) in binds), "")
            outer = binds[around][0] if around else source
            own = any(beneath(source, each) and each.startswith(f"{outer}/") for each in points)  # a file system
            if source != outer and beneath(source, outer) and not own:
                expected += map(_escaped, (name, around, source[len(outer) :]))
            else:
                expected += (_escaped(name), "", "")
        return arguments, expected


def _escaped(path: str) -> str:
    """Return a path as mountinfo spells it."""
    for sign in "\\ \t\n":
        path = path.replace(sign, f"\\{ord(sign):03o}")
    return path


def _names(path: str, roots: Mapping[str, str]) -> list[str]:
    """Return the names of a path in the container; `roots` are the mounted folders by their names there."""
    return [name + path[len(real) :] for name, real in roots.items() if beneath(path, real)]


class _Container:
    """One container: it knows how to end it, and whether it ever ran. The engine is in between, so no pipe leads to
    the container."""

    def __init__(self, program: str, name: str, id_file: str, env: Mapping[str, str]) -> None:
        self._program, self._name, self._env = program, name, env
        self.id_file = id_file
        self._ended = False

    def stop(self) -> None:
        """Kill the container. The engine's command line ends with it; a signal to the command line would leave the
        container running."""
        with contextlib.suppress(OSError):
            spawner().reap_later(self._quiet("kill", self._name))

    def failure(self, stderr: str, code: int) -> Exception | None:
        """Return the engine's error, as opposed to a command's: the container does not exist, or never started."""
        self._ended = True
        if code == _REFUSED and stderr.rstrip().endswith(_SWAPPED):
            return SandboxUnavailable(
                f"{stderr.strip()}, so that it would have shown other files. The command did not run. Try again when "
                "no other command changes it."
            )
        began = code not in _ENGINE_CODES or not _ENGINE_ERROR.search(stderr)
        if os.path.exists(self.id_file) and began:
            return None
        return SandboxUnavailable(explain_engine(stderr))

    def gone(self, folder: str) -> None:
        """Clean up after the end. If the container was to be killed before it existed, it is removed now."""
        if not self._ended:
            with contextlib.suppress(OSError):
                spawner().reap_later(self._quiet("rm", "--force", self._name))
        shutil.rmtree(folder, ignore_errors=True)

    def _quiet(self, *arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [self._program, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, env=dict(self._env), start_new_session=True,
        )  # fmt: skip


def _walls(limits: CommandLimits, cpus: float | None, timeout: float | None) -> list[str]:
    cores = limits.cores or os.cpu_count() or 1
    memory = str(limits.memory or most_memory())
    arguments = [
        "--network", "none", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--read-only",
        "--hostname", "sandbox", "--memory", memory, "--memory-swap", memory, "--cpus", f"{cpus or cores:g}",
        "--pids-limit", str(limits.processes), "--shm-size", str(min(limits.tmp, 1 << 30)),
        "--ulimit", "core=0:0", "--ulimit", f"nofile={limits.open_files}:{limits.open_files}",
        "--ulimit", f"fsize={limits.file_size}:{limits.file_size}",
    ]  # fmt: skip
    if timeout is not None:
        seconds = max(1, int(timeout * cores) + 1)
        arguments += ["--ulimit", f"cpu={seconds}:{seconds}"]
    return arguments


def _bind(source: str, target: str, *, writable: bool) -> list[str]:
    """Return a bind mount. The option's value is one line of CSV, so colons and commas in names are not syntax."""
    if "\n" in source + target or "\r" in source + target:
        raise SandboxUnavailable(f"{source!r} has a line break in its name; it cannot be mounted into a container.")
    fields = ["type=bind", f"source={source}", f"target={target}"]
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(fields if writable else [*fields, "readonly"])
    return ["--mount", line.getvalue()]


def _command(argv: Sequence[str]) -> tuple[str, list[str]]:
    """Return the script that starts a command, and its arguments. Not every image has the host's shell."""
    if len(argv) >= 3 and argv[1] == "-c" and os.path.basename(argv[0]) in ("bash", "sh"):
        return _SHELL, list(argv[2:])
    return 'exec "$@"', list(argv)


def _passed(env: Mapping[str, str], granted: Sequence[str]) -> dict[str, str]:
    """Return the variables that were granted to or set for a command, and the usual variables that mean something in
    a container."""
    left_out = (ALLOWED - _PASSED - set(granted)) | (set(_CLIENT) - {"LANG"})
    return {name: value for name, value in env.items() if name not in left_out}


def _client_environment() -> dict[str, str]:
    own = host_environment()
    return {name: value for name, value in own.items() if name in _CLIENT or name.startswith(_CLIENT_PREFIXES)}
