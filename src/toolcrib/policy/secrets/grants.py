"""Grant secrets by name: the source of each value, the tools that get it, and its variable name for commands.

Only the tools that a secret was granted to get its value, and the redactor knows each value before any tool gets it.
"""

from __future__ import annotations

import logging
import os
import re
import stat
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from secrets import token_hex

from ...boundary.proxy.egress_secret import EgressSecret
from ...core.errors import ConfigError, ToolError
from ...core.text import lazy_regex, matches
from ...core.tool import Tool
from ..settings import VARIABLE, SecretSettings
from ..starts import Starts, of_secret
from .redact import MIN_SECRET, Redactor, forms

log = logging.getLogger("toolcrib.policy")

COMMAND_SECONDS = 30.0
MAX_BYTES = 64 * 1024
_REFERENCE = lazy_regex(r"\$\{secret:([^}\s]{1,200})\}")
# Variables and headers whose names show that their values are secrets.
_SECRET_NAME = lazy_regex(
    r"TOKEN|KEY(?!WORD|MAP|BOARD)|SECRET|PASSW|PASSPHRASE|PWD|CREDENTIAL|COOKIE|AUTHORIZATION|AUTH$|^SIG$",
    re.IGNORECASE,
)
_SCHEME = lazy_regex(r"(?:Bearer|Basic|Token)\s+", re.IGNORECASE)
_IN_HEADER = lazy_regex(r"[\x21-\x7e]{1,8000}")
# SSH_KEY=/home/me/.ssh/key is a path, and a value is not known before the secrets in it are.
_NO_SECRET = lazy_regex(r"/|true|false|yes|no|none|~/|\./|.*\$\{secret:", re.IGNORECASE)


class Secrets:
    """The secrets of one toolbox, by name. `variables` are names of host variables that all commands get.
    `starts` finds the programs of commands that print secrets.

    The redactor knows values from the environment and from files from the start, and those of commands and of the
    keyring from their first use, because both may ask a person. Raises ConfigError for a value that is too short, and
    for a name that no environment variable can have.
    """

    def __init__(
        self,
        sources: Mapping[str, SecretSettings],
        redactor: Redactor,
        variables: Iterable[str] = (),
        environ: Mapping[str, str] | None = None,
        starts: Starts | None = None,
    ) -> None:
        self._starts = starts or Starts()
        self._sources = sources
        self._variable_of = {name: _variable(name, source) for name, source in sources.items()}
        self._redactor = redactor
        self._variables = tuple(variables)
        self._environ = os.environ if environ is None else environ
        self._values: dict[str, str] = {}
        self._placeholders: dict[str, str] = {}
        self._lock = threading.Lock()
        for name, source in self._sources.items():
            if (source.env is not None and source.env in self._environ) or source.file is not None:
                try:
                    self.value(name)
                except ToolError as error:  # reported again when it is needed
                    log.warning("%s", error)
        self._learn()

    def use(self, other: Secrets) -> None:
        """Use the sources and values of another one from now on."""
        with self._lock:
            self._sources, self._variable_of, self._values = other._sources, other._variable_of, other._values

    def of_tool(self, tool: Tool, name: str) -> str:
        """Return the value for a tool that it was granted to. Raises ToolError for any other tool, or if it cannot be
        read."""
        return self.value(name, tool.name, *tool.names)

    def value(self, name: str, *askers: str) -> str:
        """Return the value for one of these askers; without an asker, for Toolcrib itself.

        Raises ToolError if there is no such secret, if it is not granted to them, or if it cannot be read.
        """
        source = self._sources.get(name)
        if source is None:
            said = f"there is no secret {name!r}; secrets are granted in the configuration, as [secrets.{name}]"
            raise ToolError(said)
        if askers and not matches(askers, source.tools):
            said = f"the secret {name!r} is not granted to {askers[0]}; add it to secrets.{name}.tools to do so"
            raise ToolError(said)
        if askers and source.egress:
            raise ToolError(f"the secret {name!r} is for requests of commands to {', '.join(source.egress)} alone")
        with self._lock:
            if name not in self._values:
                value = _read(f"secrets.{name}", source, self._environ, self._starts)
                self._redactor.grant(name, value)
                self._values[name] = value
            return self._values[name]

    def resolve(self, text: str, asker: str) -> str:
        """Return a text with each `${secret:NAME}` replaced by that secret's value. Raises ToolError if one is not
        granted or cannot be read."""
        return _REFERENCE.sub(lambda found: self.value(found[1], asker), text)

    def names_for(self, asker: str) -> list[str]:
        """Return the variables in which commands of this asker get secrets, as people read them."""
        named = [
            self._variable_of[name] + (f" for {', '.join(source.egress)} alone" if source.egress else "")
            for name, source in self._sources.items()
            if matches(asker, source.tools)
        ]
        return [*named, *(name for name in self._variables if name in self._environ and _SECRET_NAME.search(name))]

    def environment(self, asker: str) -> tuple[dict[str, str], list[str], tuple[EgressSecret, ...]]:
        """Return the variables for a command of this asker, a message about each secret that could not be read, and the
        secrets of which a variable is only a placeholder."""
        self._learn()
        values: dict[str, str] = {}
        failed: list[str] = []
        egress: list[EgressSecret] = []
        for name, source in self._sources.items():
            if not matches(asker, source.tools):
                continue
            variable = self._variable_of[name]
            try:
                value = self.value(name)
                if source.egress:
                    egress.append(self._egress(name, value, source.egress))
                    value = egress[-1].placeholder
                values[variable] = value
            except (ToolError, ConfigError) as error:
                failed.append(f"[{variable} was not set: {error}]")
        return values, failed, tuple(egress)

    def _egress(self, name: str, value: str, hosts: tuple[str, ...]) -> EgressSecret:
        if not _IN_HEADER.fullmatch(value):
            raise ToolError(f"secrets.{name}: a secret with `egress` goes into a header: ASCII letters and signs alone")
        chosen = f"placeholder-{self._variable_of[name]}-{token_hex(8)}"
        placeholder = self._placeholders.setdefault(name, chosen)
        return EgressSecret(name, placeholder, value, hosts, tuple(forms(value)))

    def learn(self, name: str, value: str) -> None:
        """Give the redactor the value of a variable or header that is set for a program or a server, if the name
        indicates a secret, and `redact.allow` does not name it."""
        value = _SCHEME.sub("", value, 1).strip()
        if value in self._redactor.allow:
            return
        if len(value) >= MIN_SECRET and _SECRET_NAME.search(name) and not _NO_SECRET.match(value):
            self._redactor.grant(name, value)

    def _learn(self) -> None:
        """Give the redactor the values of granted variables whose names indicate secrets."""
        for name in self._variables:
            self.learn(name, self._environ.get(name, ""))


def _variable(name: str, source: SecretSettings) -> str:
    variable = source.variable or name
    if not VARIABLE.fullmatch(variable):
        raise ConfigError(f"secrets.{name}: {variable!r} cannot name an environment variable; give one with `as`")
    return variable


def _read(where: str, source: SecretSettings, environ: Mapping[str, str], starts: Starts) -> str:
    if source.env is not None:
        value = environ.get(source.env)
        if not value:
            raise ToolError(f"{where}: the environment variable {source.env} is not set")
        return value
    if source.file is not None:
        return _from_file(source.file, where)
    if source.keyring is not None:
        return _from_keyring(source.keyring, where)
    return _from_command(source.command, where, starts)


def _from_file(path: Path, where: str) -> str:
    path = path.expanduser()
    try:
        with open(path, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            data = file.read(MAX_BYTES + 1) if stat.S_ISREG(mode) else None
    except OSError as error:
        raise ToolError(f"{where}: {path} cannot be read: {error.strerror}") from None
    if data is None:
        raise ToolError(f"{where}: {path} is not a regular file")
    if mode & 0o077:
        log.warning("%s: %s can be read by others (mode %o); chmod 600 it", where, path, stat.S_IMODE(mode))
    return _as_text(data, where, str(path))


def _from_command(command: tuple[str, ...], where: str, starts: Starts) -> str:
    import subprocess

    try:
        argv, env = starts.checked(of_secret(where, command))
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=COMMAND_SECONDS, check=False, env=env
        )
    except ToolError as error:
        raise ToolError(f"{where}: {error}") from None
    except subprocess.TimeoutExpired:
        raise ToolError(f"{where}: {command[0]} did not end within {COMMAND_SECONDS:g} s") from None
    except OSError as error:
        raise ToolError(f"{where}: {command[0]} could not be started: {error.strerror}") from None
    if done.returncode != 0:  # its output is left out: it may contain the secret
        raise ToolError(f"{where}: {command[0]} ended with exit code {done.returncode}; run it by hand to see why")
    return _as_text(done.stdout, where, command[0])


def _from_keyring(entry: str, where: str) -> str:
    service, _, user = entry.rpartition("/")
    try:
        import keyring  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise ToolError(f"{where}: the package keyring is not installed; pip install keyring") from None
    try:
        value: object = keyring.get_password(service, user)  # pyright: ignore
    except Exception as error:  # each keyring backend has its own errors
        raise ToolError(f"{where}: the keyring could not be read: {type(error).__name__}") from None
    if not isinstance(value, str) or not value:
        raise ToolError(f"{where}: the keyring has nothing for {entry}")
    return value


def _as_text(data: bytes, where: str, source: str) -> str:
    if len(data) > MAX_BYTES:
        raise ToolError(f"{where}: {source} gave more than {MAX_BYTES:,} bytes")
    try:
        value = data.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError:
        raise ToolError(f"{where}: {source} gave bytes that are not UTF-8 text") from None
    if not value or "\0" in value:
        raise ToolError(f"{where}: {source} gave {'nothing' if not value else 'a NUL character'}")
    return value
