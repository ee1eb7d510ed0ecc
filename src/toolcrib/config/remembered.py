"""Store the rules that a person adds with an approval or `toolcrib rules add`: small files in the configuration folder.

`<config home>/rules/<workspace id>.json` is for one workspace, `rules/user.json` for all. Each contains
`{"permissions": {"allow": […], "ask": […], "deny": […]}}`, as Claude Code's settings do, and may be edited by hand.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Collection, Generator, Mapping
from pathlib import Path
from typing import Any, cast

from ..boundary.own_files import locked, replace_file
from ..core.errors import ConfigError
from ..core.homes import config_home
from ..core.verdict import Verdict
from ..policy.rules.match import why_never
from ..policy.rules.rule_grammar import RuleSource, parse_rule, written_form
from ..record.state import private_folder, workspace_id
from .files import MAX_BYTES, ConfigFile, check_depth, check_owner, exists, read_config_file
from .layers import Layer, file_layer

EVERYWHERE = "user.json"


def rules_file(home: Path, workspace: str | os.PathLike[str] | None) -> Path:
    """Return the file of the rules for a workspace; with None, of the rules for all workspaces."""
    return home / "rules" / (f"{workspace_id(workspace)}.json" if workspace is not None else EVERYWHERE)


def remember(
    workspace: str | os.PathLike[str] | None, verdict: Verdict, rule_line: str, home: Path | None = None
) -> Path:
    """Store a rule for a workspace (None: for all), and return its file. Raises ConfigError if it is not a valid rule.

    Takes the line that `policy.rules.suggest` made, or anything that `parse_rule` reads. Adding a rule twice has no
    further effect.
    """
    rule = parse_rule(rule_line, verdict, RuleSource("remembered"))
    why = why_never(rule)
    if why is not None:
        raise ConfigError(f"rule {rule_line} can never match: {why}")
    written = written_form(rule)
    path = rules_file(home or config_home(), workspace)
    with _opened(path) as lists:
        standing = lists.setdefault(verdict, [])
        if _text(written) not in map(_text, standing):
            standing.append(written)
    return path


def forget(
    workspace: str | os.PathLike[str] | None, rule_line: str, verdicts: Collection[str], home: Path | None = None
) -> bool:
    """Remove a remembered rule with one of these verdicts. Returns False if it was not found."""
    path = rules_file(home or config_home(), workspace)
    if not exists(path):
        return False
    text = parse_rule(rule_line, "allow").text
    with _opened(path) as lists:
        kept = {
            verdict: [each for each in rules if verdict not in verdicts or _text(each) != text]
            for verdict, rules in lists.items()
        }
        dropped = kept != lists
        lists.update(kept)
    return dropped


def remembered_layers(home: Path, root: Path) -> list[tuple[str, Layer]]:
    """Return the layers of the existing files, each with its name for people. Raises ConfigError if others may write
    them."""
    found: list[tuple[str, Layer]] = []
    for name, path in (("user", rules_file(home, None)), ("remembered", rules_file(home, root))):
        if exists(path):
            file = _read(path)
            if set(file.values) - {"permissions", "$schema"}:
                raise ConfigError(
                    f"{path}: holds rules alone, in permissions; put other settings into your config.toml"
                )
            found.append((name, file_layer(file)))
    return found


def _read(path: Path) -> ConfigFile:
    file = read_config_file(path)  # first: of a link that leads nowhere it says so
    check_owner(path, os.stat(path), "these rules")
    return file


def _text(written: Any) -> str:
    return written if isinstance(written, str) else json.dumps(written, ensure_ascii=False)


@contextlib.contextmanager
def _opened(path: Path) -> Generator[dict[str, list[Any]]]:
    """Read the lists of rules, and replace the file with what was done to them, under a lock against other
    processes."""
    private_folder(path.parent)
    with locked(path.parent / ".lock"):
        values: dict[str, Any] = {}
        if exists(path):
            values = dict(_read(path).values)
        permissions: Any = values.get("permissions", {})
        if not isinstance(permissions, Mapping):
            raise ConfigError(f"{path}: permissions should be an object")
        rules: dict[str, Any] = dict(cast("Mapping[str, Any]", permissions))
        lists = {name: rules[name] for name in ("allow", "ask", "deny") if isinstance(rules.get(name), list)}
        yield lists
        values["permissions"] = {**rules, **lists}
        check_depth(values, str(path))
        replace_file(path, _encoded(values, path))


def _encoded(values: Mapping[str, Any], path: Path) -> bytes:
    """Return the file's bytes. Raises ConfigError for values that could not be read back."""
    try:
        raw = json.dumps(values, indent=2, ensure_ascii=False).encode()
    except UnicodeEncodeError:  # a lone surrogate, which JSON can only contain escaped
        raw = json.dumps(values, indent=2).encode()
    if len(raw) >= MAX_BYTES:
        raise ConfigError(f"{path}: would grow beyond {MAX_BYTES:,} bytes; drop rules that are not needed")
    return raw + b"\n"
