"""Store the rules that a person adds with an approval or `toolcrib rules add`: small files in the configuration folder.

`<config home>/rules/<workspace id>.json` is for one workspace, `rules/user.json` for all. Each contains
`{"permissions": {"allow": […], "ask": […], "deny": […]}}`, as Claude Code's settings do, and may be edited by hand.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from ..boundary.own_files import locked, replace_file
from ..core.errors import ConfigError
from ..core.homes import config_home
from ..core.verdict import Verdict
from ..policy.rules.grammar import RuleSource, parse_rule, written_form
from ..policy.rules.match import why_never
from ..record.state import private_folder, workspace_id
from .files import MAX_BYTES, check_depth, exists, read_config_file
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
    return _change(_file(workspace, home), lambda rules: _with(rules, verdict, written))


def forget(
    workspace: str | os.PathLike[str] | None, rule_line: str, verdict: Verdict | None = None, home: Path | None = None
) -> bool:
    """Remove a remembered rule. Returns False if it was not found."""
    path = _file(workspace, home)
    if not exists(path):
        return False
    text = parse_rule(rule_line, verdict or "allow").text
    dropped = False

    def without(rules: dict[str, list[Any]]) -> None:
        nonlocal dropped
        for name, written in rules.items():
            if verdict in (None, name):
                kept = [each for each in written if _text(each) != text]
                dropped = dropped or len(kept) < len(written)
                rules[name] = kept

    _change(path, without)
    return dropped


def remembered_layers(home: Path, root: Path) -> list[tuple[str, Layer]]:
    """Return the layers of the existing files, each with its name for people. Raises ConfigError if others may write
    them."""
    found: list[tuple[str, Layer]] = []
    for name, path in (("user", rules_file(home, None)), ("remembered", rules_file(home, root))):
        if exists(path):
            _must_be_ours(path, root)
            file = read_config_file(path)
            if set(file.values) - {"permissions", "$schema"}:
                raise ConfigError(
                    f"{path}: holds rules alone, in permissions; put other settings into your config.toml"
                )
            found.append((name, file_layer(file)))
    return found


def _file(workspace: str | os.PathLike[str] | None, home: Path | None) -> Path:
    return rules_file(home or config_home(), workspace)


def _with(rules: dict[str, list[Any]], verdict: Verdict, written: Any) -> None:
    standing = rules.setdefault(verdict, [])
    if not any(_text(each) == _text(written) for each in standing):
        standing.append(written)


def _text(written: Any) -> str:
    return written if isinstance(written, str) else json.dumps(written, ensure_ascii=False)


def _change(path: Path, change: Callable[[dict[str, list[Any]]], None]) -> Path:
    """Read, change and replace the file under a lock against other processes."""
    private_folder(path.parent)
    with locked(path.parent / ".lock"):
        values: dict[str, Any] = {}
        if exists(path):
            _must_be_ours(path, None)
            values = dict(read_config_file(path).values)
        permissions: Any = values.get("permissions", {})
        if not isinstance(permissions, Mapping):
            raise ConfigError(f"{path}: permissions should be an object")
        rules: dict[str, Any] = dict(cast("Mapping[str, Any]", permissions))
        lists = {name: rules[name] for name in ("allow", "ask", "deny") if isinstance(rules.get(name), list)}
        change(lists)
        values["permissions"] = {**rules, **lists}
        check_depth(values, str(path))
        replace_file(path, _encoded(values, path))
    return path


def _encoded(values: Mapping[str, Any], path: Path) -> bytes:
    """Return the file's bytes. Raises ConfigError for values that could not be read back."""
    try:
        raw = json.dumps(values, indent=2, ensure_ascii=False).encode()
    except UnicodeEncodeError:  # a lone surrogate, which JSON can only contain escaped
        raw = json.dumps(values, indent=2).encode()
    if len(raw) >= MAX_BYTES:
        raise ConfigError(f"{path}: would grow beyond {MAX_BYTES:,} bytes; drop rules that are not needed")
    return raw + b"\n"


def _must_be_ours(path: Path, root: Path | None) -> None:
    real = os.path.realpath(path)
    if root is not None and os.path.commonpath([real, os.path.realpath(root)]) == os.path.realpath(root):
        raise ConfigError(f"{path}: rules of your own lie inside the workspace, where tools could change them")
    st = os.stat(path)
    if not hasattr(os, "getuid"):
        return
    if st.st_uid not in (os.getuid(), 0) or stat.S_IMODE(st.st_mode) & 0o022:
        raise ConfigError(f"{path}: others may write these rules; make the file yours and its mode 0600")
