"""`toolcrib config`: show the merged settings and where each came from, with secrets hidden."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, cast

from ..config.hide import hidden, plain
from ..config.settings import schema_text
from . import show
from .options import Options
from .reader import CliCommand, Option


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
    values = hidden(plain(settings))
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
    show.columns(rows, ("cyan", None, "dim"), widest=50)


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


COMMAND = CliCommand(config)
