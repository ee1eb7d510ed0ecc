"""`toolcrib trust`: accept a project's configuration as it is, after showing what it allows."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, cast

from ..config import TrustStore
from ..core.text import one_line
from . import show
from .exit_codes import Usage
from .options import Options
from .reader import Command, Option


def trust(
    options: Options,
    listed: Annotated[bool, Option("--list", help="List the trusted files.")] = False,
    revoke: Annotated[bool, Option("--revoke", help="Stop trusting this workspace's file.")] = False,
) -> None:
    """Trust the project's toolcrib.toml, and the settings files that it imports rules from, exactly as they are now.

    Without trust only stricter settings count. The settings are shown first. A change of a file ends its trust.
    """
    store = TrustStore()
    if listed:
        _list(store.entries(), options.json)
        return
    if options.config:
        raise Usage("a file named by --config is always trusted; leave --config out")
    settings = options.settings(quiet=True)
    files = [*([settings.origin.project] if settings.origin.project else []), *settings.origin.imported]
    if not files:
        gone = [settings.workspace / f"toolcrib.{end}" for end in ("toml", "json")]
        if revoke and any(map(store.revoke, gone)):
            show.say("The file is no longer trusted.")
            return
        raise Usage(f"there is no toolcrib.toml or toolcrib.json in {settings.workspace}")
    if revoke:
        for file in files:
            was = store.revoke(file.path)
            show.say(f"{file.path} is no longer trusted." if was else f"{file.path} was not trusted.")
        return
    if os.environ.get("TOOLCRIB_CONFIG"):
        raise Usage("TOOLCRIB_CONFIG names the configuration, so the project's is not read; unset it first")
    open_ = [file for file in files if store.status(file) != "trusted"]
    named = " and ".join(str(file.path) for file in open_ or files)
    if not open_:
        show.say(f"{named}: already trusted.")
        return
    if settings.origin.ignored:
        show.say(f"With trust, these settings of {named} count:", "bold")
        for item in settings.origin.ignored:
            # In full and unmasked: a person must see all that they trust, even if it may hold a secret.
            show.say(f"  {one_line(item.key)} = {_whole(item.value)}")
    else:
        show.say(f"{named}: every setting is stricter than the default, and counts without trust.")
    question = "Trust this file, as it is now?" if len(open_) == 1 else "Trust these files, as they are now?"
    options.confirm(question, "not trusted")
    for file in open_:
        store.trust(file)  # exactly the text that was shown, even if the file has changed since
        show.say(f"Trusted {file.path} (sha256 {file.digest[:12]}…). A change of the file ends the trust.")


def _whole(value: Any) -> str:
    if isinstance(value, Mapping):
        value = {k: v for k, v in cast("Mapping[str, Any]", value).items() if v not in (None, [], {})}
    if isinstance(value, Path):
        return str(value)
    return json.dumps(value, ensure_ascii=False, default=str)


def _list(entries: Any, as_json: bool) -> None:
    if as_json:
        show.out_json([{"path": e.path, "sha256": e.digest, "trusted_at": e.when} for e in entries])
    else:
        show.columns([[show.clock(e.when), e.digest[:12], e.path] for e in entries], ("dim", "dim", None))


COMMAND = Command(trust)
