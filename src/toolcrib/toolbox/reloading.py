"""Apply changed settings to an open toolbox. All that can be wrong is found before the first change.

Policy, secrets and MCP servers change at once: the next call sees them. The other parts are built once, and their
changes wait for a restart. So do hooks, secrets and servers that make the host start further files that tools may
write: those are protected against tools from the start on only.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..boundary.host_files import host_files_in
from ..boundary.real_path import real_path
from ..config.rules import rules_of
from ..core.dataclass import dataclass
from ..core.settings import annotations_of
from ..policy.policy import stricter
from ..policy.secrets.grants import Secrets
from ..policy.secrets.redact import Redactor
from ..sources.settings import PluginsSettings
from .build import asked_for, hooks_of, limits_of
from .declared import declared_files, declared_starts

if TYPE_CHECKING:
    from ..config import Settings
    from .toolbox import Toolbox

_BUILT_ONCE = ("workspace", "dry_run", "record", "sandbox", "web", "tools", "custom_tools", "plugins", "openapi")


@dataclass(frozen=True, slots=True)
class Reload:
    """Changes that are ready. `apply()` makes them at once; the awaitable that it returns ends and connects servers.
    `later` names the settings that wait for a restart."""

    apply: Callable[[], Awaitable[None]]
    changed: tuple[str, ...]
    later: tuple[str, ...]


def prepare_reload(box: Toolbox, new: Settings) -> Reload:
    """Compare new settings with those of a toolbox, and make what they need. Raises ConfigError for a wrong value; then
    nothing has changed."""
    old, ground, house = box.settings, box.parts.house.ground, box.parts.house
    steps: dict[str, Callable[[], object]] = {}
    differing = [name for name in annotations_of(type(new)) if getattr(old, name) != getattr(new, name)]
    later = [name for name in _BUILT_ONCE if name in differing]

    def is_protected(part: Settings) -> bool:
        files = (*ground.starts.host_files(declared_starts(part)), *declared_files(part))
        known, roots = set(ground.workspace.host_files), [real_path(each) for each in ground.starts.writable]
        return all(each in known for root in roots for each in host_files_in(root, files) if each in files)

    only = replace(old, hooks=(), secrets={}, mcp_servers={}, plugins=PluginsSettings())
    policy: dict[str, Any] = {}
    if "mode" in differing:
        strictest = stricter(new.mode, box.chosen_mode or new.mode)
        steps["mode"] = lambda: house.policy.use_mode(strictest)
    if "approval" in differing:
        given = new.approval
        policy |= {
            "approval": given.policy, "enabled": given.enabled, "never_ask": given.never_ask,
            "ask_for": asked_for(new, house.effects),
        }  # fmt: skip
        steps["approval"] = lambda: setattr(house.approval_service, "timeout", given.timeout)
    if "limits" in differing:
        policy["limits"] = limits_of(new)
        steps["limits"] = lambda: house.loop_guard.let_repeat(new.limits.may_repeat)
    if "hooks" in differing:
        if is_protected(replace(only, hooks=new.hooks)):
            policy["hooks"], listen = hooks_of(ground, house.registry, new)
            steps["hooks"] = listen
        else:
            later.append("hooks")
    if policy:
        steps["policy"] = lambda: house.policy.change(**policy)
    rules = rules_of(new)
    if rules != rules_of(old):
        steps["rules"] = lambda: house.rules.use(rules)
    if "labels" in differing:
        steps["labels"] = lambda: setattr(house.flow, "policy", new.labels.policy)
    if "redact" in differing:
        made = Redactor(patterns=new.redact.patterns, allow=new.redact.allow)
        steps["redact"] = lambda: ground.redactor.use(made)
    if is_protected(replace(only, secrets=new.secrets)):  # also without a change: their values may be new
        secrets = Secrets(new.secrets, ground.redactor, new.sandbox.env, starts=ground.starts)
        if new.secrets or old.secrets:
            steps["secrets"] = lambda: _use_secrets(box, secrets)
    else:
        later.append("secrets")
    servers = {name: replace(each, name=name) for name, each in new.mcp_servers.items()}
    gone = [name for name, each in old.mcp_servers.items() if new.mcp_servers.get(name) != each]
    added = [each for name, each in servers.items() if old.mcp_servers.get(name) != new.mcp_servers[name]]
    refused = [each for each in added if not is_protected(replace(only, mcp_servers={each.name: each}))]
    later += [f"mcp_servers.{each.name}" for each in refused]
    added = [each for each in added if each not in refused]
    kept = {name: each for name, each in new.mcp_servers.items() if f"mcp_servers.{name}" not in later}

    async def apply() -> None:
        for step in steps.values():
            step()
        box.settings = replace(
            new, mcp_servers=kept, **{name: getattr(old, name) for name in later if hasattr(old, name)}
        )
        house.registry.policy_changed()
        if gone or added:
            await box.mcp.change(gone, added)

    changed = [name for name in steps if name == "rules" or name in differing]
    changed += ["mcp_servers"] if gone or added else []
    return Reload(apply, tuple(changed), tuple(later))


def _use_secrets(box: Toolbox, secrets: Secrets) -> None:
    ground = box.parts.house.ground
    ground.secrets.use(secrets)
    box.registry.stages.secrets = ground.secrets.of_tool
