"""`toolcrib trust`: accept a project's configuration as it is, after a look at what that allows."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from . import show
from .exit_codes import OK, Usage
from .options import Options
from .reader import Command, Option

if TYPE_CHECKING:
    from ..config import TrustStore


def trust(
    options: Options,
    listed: Annotated[bool, Option("--list", help="List what is trusted.")] = False,
    revoke: Annotated[bool, Option("--revoke", help="Trust this workspace's file no longer.")] = False,
) -> int:
    """Trust the project's toolcrib.toml, and settings in it that rules are imported from, exactly as they are now.

    Until then only what tightens counts. It is shown first, and asked about unless --yes. A change ends the trust.
    """
    from ..config import TrustStore
    from ..core.text import one_line

    store = TrustStore()
    if listed:
        return _list(store.entries(), options.json)
    if options.config:
        raise Usage("a file named by --config is trusted by being named; leave --config out")
    settings = options.settings(quiet=True)
    files = [*([settings.origin.project] if settings.origin.project else []), *settings.origin.imported]
    if not files:
        if revoke and _revoke_absent(store, settings.workspace):
            show.say("Trusted no longer.")
            return OK
        raise Usage(f"there is no toolcrib.toml or toolcrib.json in {settings.workspace}")
    if revoke:
        for file in files:
            was = store.revoke(file.path)
            show.say(f"{file.path} is trusted no longer." if was else f"{file.path} was not trusted.")
        return OK
    if os.environ.get("TOOLCRIB_CONFIG"):
        raise Usage("TOOLCRIB_CONFIG names the configuration, so the project's is not read; unset it first")
    open_ = [file for file in files if store.status(file) != "trusted"]
    named = " and ".join(str(file.path) for file in open_ or files)
    if not open_:
        show.say(f"{named}: trusted already.")
        return OK
    if settings.origin.ignored:
        show.say(f"{named} would be allowed to say:", "bold")
        for item in settings.origin.ignored:
            # In full and as it stands: what is to be trusted must be seen, even where it might hold a secret.
            show.say(f"  {one_line(item.key)} = {_whole(item.value)}")
    else:
        show.say(f"{named}: only tightens, and does so without trust.")
    question = "Trust this file, as it is now?" if len(open_) == 1 else "Trust these files, as they are now?"
    options.confirm(question, "not trusted")
    for file in open_:
        store.trust(file)  # exactly what was read and shown, even if the file was changed meanwhile
        show.say(f"Trusted {file.path} (sha256 {file.digest[:12]}…). A change of the file ends it.")
    return OK


def _revoke_absent(store: TrustStore, workspace: Path) -> bool:
    """Drop trust in a file that is gone."""
    return any(store.revoke(workspace / f"toolcrib.{end}") for end in ("toml", "json"))


def _whole(value: Any) -> str:
    if isinstance(value, Mapping):
        value = {k: v for k, v in cast("Mapping[str, Any]", value).items() if v not in (None, [], {})}
    if isinstance(value, Path):
        return str(value)
    return json.dumps(value, ensure_ascii=False, default=str)


def _list(entries: Any, as_json: bool) -> int:
    if as_json:
        show.out_json([{"path": e.path, "sha256": e.digest, "trusted_at": e.when} for e in entries])
    else:
        show.columns([[show.clock(e.when), e.digest[:12], e.path] for e in entries], ("dim", "dim", None))
    return OK


COMMAND = Command(trust)
