"""`toolcrib trust`: accept a project's settings and texts as they are, after showing them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from ..boundary.real_path import real_path
from ..config import TextToTrust, TrustStore
from ..config.files import ConfigFile
from ..config.trust_store import trusted_name
from ..core.text import one_line
from ..core.wings import has_wing
from ..policy.plain import plain_line
from ..policy.preview import fit, visible
from . import show
from .exit_codes import Usage
from .options import Options
from .reader import Argument, CliCommand, Option

if TYPE_CHECKING:
    from ..config import Settings
    from ..sources.plugins import Plugin

MAX_TEXT = 8_000
"""Characters of a text that are shown."""


def trust(
    options: Options,
    only: Annotated[
        list[str] | None, Argument(metavar="FILE", help="Trust only these files. Default: all that are not trusted.")
    ] = None,
    listed: Annotated[bool, Option("--list", help="List the trusted files.")] = False,
    revoke: Annotated[bool, Option("--revoke", help="Stop trusting the files.")] = False,
) -> None:
    """Trust the project's files exactly as they are now: toolcrib.toml, the settings files that it imports rules from,
    and, for the agent, AGENTS.md and the SKILL.md of skills.

    Without trust only stricter settings count, AGENTS.md counts as information, and skills are not offered. Everything
    is shown first. A change of a file ends its trust.
    """
    store = TrustStore()
    if listed:
        _list(store.entries(), options.json)
        return
    if not revoke and not only and _accept_starts(options):
        return
    if options.config:
        raise Usage("a file named by --config is always trusted; leave --config out")
    settings = options.settings(quiet=True)
    files = [*([settings.origin.project] if settings.origin.project else []), *settings.origin.imported]
    texts = texts_to_trust(options, settings)
    known = {trusted_name(file.path) for file in (*files, *(text.file for text in texts))}
    wanted = {trusted_name(Path(name)) for name in only or ()}
    if revoke:
        _revoke(store, wanted or known | _gone(store, settings.workspace))
        return
    unknown = sorted(wanted - known)
    if unknown:
        raise Usage(f"{unknown[0]} is not a file that trust can change; `toolcrib trust` shows those of this folder")
    if not known:
        raise Usage(
            f"there is no toolcrib.toml or toolcrib.json in {settings.workspace}, and no AGENTS.md or "
            "skill either; `toolcrib init` writes a file of settings"
        )
    files = [file for file in files if _is_open(store, file, wanted)]
    texts = [text for text in texts if _is_open(store, text.file, wanted)]
    if files and os.environ.get("TOOLCRIB_CONFIG"):
        raise Usage("TOOLCRIB_CONFIG names the configuration, so the project's is not read; unset it first")
    open_ = [*files, *(text.file for text in texts)]
    if not open_:
        show.say(f"{' and '.join(sorted(wanted or known))}: already trusted.")
        return
    asking = {each.file for each in settings.origin.ignored}
    if files and not any(file.path in asking for file in files):
        named = " and ".join(str(file.path) for file in files)
        show.say(f"Nothing in {named} needs trust: it sets nothing, or only what is stricter than the default.")
        open_ = [text.file for text in texts]
        if not open_:
            return
    elif files:
        files = [file for file in files if file.path in asking]
        open_ = [*files, *(text.file for text in texts)]
        _show_settings(settings, files)
    for text in texts:
        _show_text(text)
    question = "Trust this file, as it is now?" if len(open_) == 1 else "Trust these files, as they are now?"
    options.confirm(question, "not trusted")
    for file in open_:
        store.trust(file)  # exactly the text that was shown, even if the file has changed since
        show.say(f"Trusted {file.path} (sha256 {file.digest[:12]}…). A change of the file ends the trust.")


def _accept_starts(options: Options) -> bool:
    """Show what has changed in the files of hooks and secrets' commands, and trust it after a yes. Return whether there
    was a change."""
    from ..toolbox.declared import declared_starts

    with options.build(options.settings(quiet=True)) as box:
        starts = [(each, doubt) for each in declared_starts(box.settings) if (doubt := box.starts.doubt(each))]
        for each, doubt in starts:
            show.out(f"{plain_line(doubt.text)}.", "bold")
            options.confirm(f"Start {each.who} as it is now?", "not trusted")
            if not box.starts.accept(each, doubt.digest):
                raise Usage(f"the files of {each.who} have changed again; look at them, and try once more")
            show.say(f"Trusted: {each.who}.")
        return bool(starts)


def untrusted(options: Options) -> list[TextToTrust]:
    """Return the files that a person may trust here, and that are not trusted."""
    settings, store = options.settings(quiet=True), TrustStore()
    files = [*([settings.origin.project] if settings.origin.project else []), *settings.origin.imported]
    if options.config or os.environ.get("TOOLCRIB_CONFIG"):
        files = []
    none = "nothing more: every setting is stricter than the default"
    said = ((file, "; ".join(_ignored(settings, [file])) or none) for file in files)
    texts = [TextToTrust(file, f"these settings count: {what}") for file, what in said]
    found = [*texts, *texts_to_trust(options, settings)]
    return [each for each in found if store.status(each.file) != "trusted"]


def texts_to_trust(options: Options, settings: Settings) -> list[TextToTrust]:
    """Return the texts that the agent uses, of the workspace and of plugins, and the `mcp.json` of Agent Plugins."""
    plugins: list[Plugin] = []
    if settings.plugins.enabled and has_wing("plugins"):
        plugins = [each for each in options.build(settings).plugins if each.state == "loaded"]
    packages = [each.package for each in plugins if each.package is not None]
    found = [
        TextToTrust(
            ConfigFile(package.mcp.path, package.mcp.text, package.mcp.digest, {}),
            f"the MCP servers of the plugin {package.name} run, in the sandbox",
            (f"all files in {package.folder}",),
        )
        for package in packages
        if package.mcp is not None
    ]
    if has_wing("agent"):
        from ..agent import plugin_skills
        from ..agent import texts_to_trust as of_agent

        writable = settings.sandbox.writable(settings.workspace)
        found = [*of_agent(settings.workspace, plugin_skills(plugins), settings.agent.skills, writable), *found]
    return found


def _is_open(store: TrustStore, file: ConfigFile, wanted: set[str]) -> bool:
    return (not wanted or trusted_name(file.path) in wanted) and store.status(file) != "trusted"


def _show_settings(settings: Settings, files: Sequence[ConfigFile]) -> None:
    named = " and ".join(str(file.path) for file in files)
    show.say(f"With trust, these settings of {named} count:", "bold")
    for line in _ignored(settings, files):
        show.say(f"  {line}")


def _ignored(settings: Settings, files: Sequence[ConfigFile]) -> list[str]:
    """Return the settings that trust would let count: in full and unmasked, because a person must see all that they
    trust, even if it may hold a secret."""
    paths = [file.path for file in files]
    found = (item for item in settings.origin.ignored if item.file in paths)
    return [f"{one_line(item.key)} = {_whole(item.value)}" for item in found]


def _show_text(text: TextToTrust) -> None:
    path = plain_line(str(text.file.path))
    show.say(f"With trust, {text.what}: {path}", "bold")
    where = f"read {path} before you say yes"
    for line in fit(visible(text.file.text), MAX_TEXT, where).splitlines():
        show.say(f"  | {line}")
    if text.others:
        show.say("  Other files that belong to it are not shown, may be read or run, and may change later:")
        for name in text.others:
            show.say(f"    {plain_line(name)}")


def _revoke(store: TrustStore, paths: set[str]) -> None:
    if not paths:
        raise Usage("there is no trusted file here; `toolcrib trust --list` lists all")
    for path in sorted(paths):
        was = store.revoke(Path(path))
        show.say(f"{path} is no longer trusted." if was else f"{path} was not trusted.")


def _gone(store: TrustStore, workspace: Path) -> set[str]:
    """Return the trusted files below the workspace that no longer exist, or that were left out of what is found."""
    root = Path(real_path(workspace))
    return {entry.path for entry in store.entries() if Path(entry.path).is_relative_to(root)}


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
        show.columns(
            [[show.clock(e.when), e.digest[:12], e.path] for e in entries],
            ("dim", "dim", None),
            none="No file is trusted.",
        )


COMMAND = CliCommand(trust)
