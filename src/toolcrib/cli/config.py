"""`toolcrib config`: show the merged settings and where each came from, with secrets hidden; find and change the files
that they come from."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Annotated, Any, cast

from ..boundary.real_path import real_path
from ..config.files import ConfigFile
from ..config.hide import hidden, plain
from ..config.layers import Layer, file_layer
from ..config.settings import schema_text
from ..core.errors import ConfigError, ToolcribError
from ..policy.starts import Starts
from . import show
from .editor import in_editor
from .exit_codes import FAILED, OK, Usage
from .init import TEMPLATE
from .options import Options
from .reader import Argument, CliCommand, Option, group
from .servers_file import SECTIONS, START_QUESTION, warn_if_missing
from .settings_file import Keys, changing, own_file, parsed, project_file, shown, with_setting, without_setting, write

Project = Annotated[
    bool, Option("--project", help="The file of this workspace (toolcrib.toml): it counts in full once it is trusted.")
]
Key = Annotated[str, Argument(metavar="KEY", help="Like mode or sandbox.allowed_domains.")]


def config(
    options: Options,
    schema: Annotated[bool, Option("--schema", help="Print the JSON Schema of a configuration file.")] = False,
    changed: Annotated[bool, Option("--changed", help="Show only values that are not defaults.")] = False,
) -> None:
    """Show the settings for this workspace, and where each value came from. Secrets are hidden."""
    if schema:
        print(schema_text(), end="")
        return
    settings = options.settings(quiet=options.json)
    values = hidden(plain(settings, brief=changed and not options.json))
    if options.json:
        show.out_json({
            "settings": values,
            "sources": dict(settings.origin.sources),
            "files": [str(path) for path in settings.origin.files],
            "trusted": settings.origin.trusted,
            "ignored": [str(item) for item in settings.origin.ignored],
            "warnings": settings.origin.warnings,
        })  # fmt: skip
        return
    rows: list[list[str]] = []
    for key, value in _flat(values):
        source = _source(key, settings.origin.sources)
        if not changed or source:
            rows.append([key, f"= {_written(value)}", f"# {source or 'default'}"])
    none = "Every setting has its default. `toolcrib config set KEY VALUE` changes one, `toolcrib init` writes a file."
    show.columns(rows, ("cyan", None, "dim"), widest=50, none=none)


def path_shown(options: Options, project: Project = False) -> None:
    """Print the path of your own configuration file, or of the workspace's. It may not exist yet."""
    show.out(str(_file(options, project)[0]))


def edited(options: Options, project: Project = False) -> int:
    """Open a configuration file in your editor (VISUAL or EDITOR), and check it afterwards. A new one explains the
    choices."""
    path, text = _file(options, project)
    after: str | None = text or TEMPLATE
    while True:
        after = in_editor(Starts((_root(options),)), after, path.name, "nothing was written")
        if after is None:
            return FAILED
        if after == text:
            show.say(f"{path} stays as it is.")
            return OK
        try:
            _check(path, after)
            break
        except ConfigError as error:
            if not show.confirm(f"{error}\nEdit it again?"):
                raise
    with changing(path):
        if _file(options, project)[1] == text:
            _write(options, path, after)
            return OK
    with NamedTemporaryFile("w", encoding="utf-8", prefix=f"{path.name}.", dir=path.parent, delete=False) as aside:
        aside.write(after)  # a new file: none is lost, and no link is followed
    raise Usage(f"{path} was changed while you edited it, and stays as it is now. Your text is in {aside.name}.")


def set_(
    options: Options,
    key: Key,
    value: Annotated[
        list[str],
        Argument(metavar="VALUE", help="A text ('\"\"' is an empty one), number, true, false or JSON; a list: a,b."),
    ],
    project: Project = False,
) -> None:
    """Change a setting in your own configuration file. Everything else in it stays, comments too."""
    path, text = _file(options, project)
    keys = tuple(key.split("."))
    meant = _with(path, text, keys, value)[1]
    of_hook = keys[0] == "hooks" and '"command"' in json.dumps(meant)
    of_server = keys[0] in SECTIONS and (len(keys) < 3 or keys[2] in ("command", "args", "env", "cwd", "url"))
    if of_server or of_hook:
        show.say(f"{key} = {json.dumps(meant, ensure_ascii=False)}", "bold")
        options.confirm(START_QUESTION, "nothing was written")  # as `toolcrib mcp add` does
    with changing(path):
        text = _file(options, project)[1]
        after = _with(path, text, keys, value)[0]
        _try(options, path, text, after)
    _say_what_counts(options, path, keys, meant)
    _say_what_is_missing(_layer(path, after).values, keys)


def unset(options: Options, key: Key, project: Project = False) -> None:
    """Remove a setting from your own configuration file, so that its default counts again."""
    path = _file(options, project)[0]
    with changing(path):
        text = _file(options, project)[1]
        try:
            after = without_setting(text, path.suffix, tuple(key.split(".")))
        except ConfigError as error:
            raise Usage(f"{path}: {error}") from None
        try:
            _check(path, after)
        except ConfigError as error:
            raise _refusal(path, text, error) from None
        _try(options, path, text, after)


def _root(options: Options) -> Path:
    return Path(os.path.abspath(options.workspace or "."))


def _file(options: Options, project: bool) -> tuple[Path, str]:
    """The file that is meant, and its text; "" if it does not exist."""
    return project_file(_root(options)) if project and options.config is None else own_file(options.config)


def _with(path: Path, text: str, keys: Keys, words: list[str]) -> tuple[str, Any]:
    """The text with a setting, and its value: the first reading of the words that the setting takes."""
    wrong: ConfigError | None = None
    for value in _readings(words):
        try:
            after = with_setting(text, path.suffix, keys, value)
            _check(path, after, keys)
        except ConfigError as error:
            wrong = error if wrong is None or "should be a list" in str(wrong) else wrong
        else:
            return after, value
    raise _refusal(path, text, wrong)


def _refusal(path: Path, before: str, error: Exception | None) -> Usage:
    """The error of a change that is not written: what is wrong in the file as it is, or else in the change, without
    the lines of a text that nobody will see."""
    try:
        _check(path, before)
    except ConfigError as there:
        return Usage(str(there))
    said = re.sub(rf"^{re.escape(str(path))}(?::\d+)?: ", "", str(error), flags=re.MULTILINE)
    return Usage(f"{said}\nNothing was written to {shown(path)}.")


def _readings(words: list[str]) -> Iterator[Any]:
    if len(words) > 1:
        yield words
        return
    try:
        yield json.loads(words[0])
    except (ValueError, RecursionError):
        pass
    yield words[0]
    yield [part.strip() for part in words[0].split(",") if part.strip()]


def _check(path: Path, text: str, keys: Keys = ()) -> None:
    """Check a file before it is written. Raises ConfigError if it is wrong, or if `keys` are not a setting."""
    foreign = [
        found for found in _layer(path, text).shaped.foreign if keys and found[: len(keys)] == keys[: len(found)]
    ]
    if foreign:
        raise ConfigError(f"{'.'.join(keys)}: there is no such setting; `toolcrib config` lists them")


def _layer(path: Path, text: str) -> Layer:
    digest = hashlib.sha256(text.encode()).hexdigest()
    try:
        values = parsed(text, path.suffix)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    return file_layer(ConfigFile(path, text, digest, values))


def _try(options: Options, path: Path, before: str, after: str) -> None:
    """Write a file; put it back if commands worked before and would fail with it. Raises Usage."""
    try:
        _build(options)
    except (ToolcribError, OSError):  # it may be what mends them
        return _write(options, path, after)
    write(path, after)
    try:
        _build(options)
    except (ToolcribError, OSError) as error:
        if before:
            write(path, before)
        else:
            Path(real_path(path)).unlink()
        raise _refusal(path, before, error) from None
    return _write(options, path, after)


def _build(options: Options) -> None:
    """Do what every command begins with. Raises ToolcribError or OSError."""
    logging.disable()  # the next command logs it
    try:
        options.build(options.settings(quiet=True)).close()
    finally:
        logging.disable(logging.NOTSET)


def _write(options: Options, path: Path, text: str) -> None:
    write(path, text)
    show.say(f"Wrote {shown(path)}.")
    options.settings()  # says what a person should know, such as that it needs trust


def _say_what_counts(options: Options, path: Path, keys: Keys, meant: Any) -> None:
    """Warn if another source has the last word about a setting."""
    source = _source(".".join(keys), options.settings(quiet=True).origin.sources)
    if source is not None and not source.startswith(str(path)):
        show.warn(f"{'.'.join(keys)} = {_written(meant)} does not count here: {source} says otherwise")


def _say_what_is_missing(values: Mapping[str, Any], keys: Keys) -> None:
    """Warn of files, folders and programs that the changed section names and that are not there."""
    for dotted, value in _flat({name: plain(each) for name, each in values.items() if name == keys[0]}):
        for named in cast("list[Any]", value) if isinstance(value, list) else [value]:
            if isinstance(named, Path) and not named.exists():
                show.warn(f"{dotted}: there is no {named}")
    for name, server in values.get("mcp_servers", {}).items() if keys[0] in SECTIONS else ():
        if name in keys[1:2] or len(keys) == 1:
            warn_if_missing(server.command, server.env)


def _flat(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        dotted = f"{above}{key}"
        if isinstance(value, dict) and value:
            yield from _flat(cast("dict[str, Any]", value), f"{dotted}.")
        else:
            yield dotted, value


def _source(key: str, sources: Mapping[str, str]) -> str | None:
    """Where a value came from, or the map entry that contains it."""
    while key:
        if key in sources:
            return sources[key]
        key = key.rpartition(".")[0]
    return None


def _written(value: Any) -> str:
    return "(unset)" if value is None else json.dumps(value, ensure_ascii=False, default=str)


_NOT = ("json", "mode", "yes")
COMMAND = group(
    config,
    "Show the settings for this workspace and where each came from, or change them. Secrets are hidden.",
    {
        "path": CliCommand(path_shown, without=_NOT),
        "edit": CliCommand(edited, without=_NOT),
        "set": CliCommand(set_, without=("json", "mode")),
        "unset": CliCommand(unset, without=_NOT),
    },
)
