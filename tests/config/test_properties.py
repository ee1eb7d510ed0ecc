"""Junk never crashes with anything but ConfigError; no untrusted file can loosen anything."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolcrib.boundary.sandbox.settings import most_memory
from toolcrib.config import Settings, load_settings, make_settings
from toolcrib.core.errors import ConfigError
from toolcrib.core.settings import Section, annotations_of

NAMES = sorted(
    {"tools", "mcp", "servers", "permissions", "mcpServers", "Tools", "McpServers", "x", "", "a.b", "$schema", "é\n"}
    | set(annotations_of(Settings))
    | {
        name
        for section in annotations_of(Settings).values()
        if isinstance(section, type) and issubclass(section, Section)
        for name in annotations_of(section)
    }
)
_leaf = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 2**70), st.floats(), st.text(max_size=8),
    st.sampled_from(["observer", "autonomous", "none", "off", "~nobody-here/x", "\0", "/tmp", "always_allow"]),
)  # fmt: skip
_junk = st.recursive(
    _leaf,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(st.sampled_from(NAMES), st.text(max_size=5)), inner, max_size=4),
    ),
    max_leaves=12,
)
_config = st.dictionaries(st.one_of(st.sampled_from(NAMES), st.text(max_size=5)), _junk, max_size=5)
_lasting = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
_quick = settings(_lasting, max_examples=150)


@contextmanager
def _workspace(user: Any = None, project: Any = None, raw: str | None = None) -> Iterator[tuple[Path, dict[str, str]]]:
    base = Path(tempfile.mkdtemp(prefix="toolcrib-config-"))
    try:
        work, config = base / "work", base / "home/.config/toolcrib"
        work.mkdir()
        config.mkdir(parents=True)
        if user is not None:
            (config / "config.json").write_text(json.dumps(user), encoding="utf-8", errors="surrogatepass")
        if project is not None:
            (work / "toolcrib.json").write_text(json.dumps(project), encoding="utf-8", errors="surrogatepass")
        if raw is not None:
            (work / "toolcrib.toml").write_text(raw, encoding="utf-8", errors="surrogatepass")
        yield work, {"HOME": str(base / "home")}
    finally:
        shutil.rmtree(base)


def _load(work: Path, environ: dict[str, str]) -> Settings | None:
    try:
        return load_settings(work, environ=environ)
    except ConfigError as error:
        assert str(error)
        return None


def _junk_is_an_error_that_can_be_read(user: Any, project: Any) -> None:
    with _workspace(user, project) as (work, environ):
        _load(work, environ)


test_junk_is_an_error_that_can_be_read = settings(_lasting, max_examples=50)(
    given(user=_config, project=_config)(_junk_is_an_error_that_can_be_read)
)
test_junk_is_an_error_that_can_be_read_at_length = pytest.mark.slow(
    settings(_lasting, max_examples=150)(given(user=_config, project=_config)(_junk_is_an_error_that_can_be_read))
)


@_quick
@given(st.text(max_size=60))
def test_junk_text_is_an_error_that_can_be_read(raw: str) -> None:
    with _workspace(raw=raw) as (work, environ):
        _load(work, environ)


@_quick
@given(
    st.sampled_from([f"TOOLCRIB_{name.upper()}" for name in NAMES if name.isidentifier()]),
    st.one_of(st.text(st.characters(exclude_characters="\0"), max_size=10), st.just("[" * 5000), st.just('{"a": [')),
    st.sampled_from(["", "__ENABLED", "__LIMITS__MEMORY", "__", "__A__B__C"]),
)
def test_junk_variables_are_errors_that_can_be_read(name: str, value: str, more: str) -> None:
    with _workspace() as (work, environ):
        _load(work, {**environ, name + more: value})


# Values that pass, so that tightening itself is exercised and not only refused as junk.
_words = st.lists(st.sampled_from(["/a", "/b", "/c", "/r"]), max_size=3, unique=True)
_hosts = st.lists(st.sampled_from(["a.example", "b.example", "*.c.example", "10.0.0.1"]), max_size=3, unique=True)
_number = st.integers(1, 2**62)
_port = st.integers(1, 65_535)
_valid = st.fixed_dictionaries(
    {},
    optional={
        "mode": st.sampled_from(["observer", "assistant", "autonomous"]),
        "dry_run": st.booleans(),
        "approval": st.fixed_dictionaries(
            {},
            optional={
                "enabled": st.booleans(),
                "policy": st.sampled_from(
                    ["always_allow", "always_require", "require_for_tools", "require_for_dangerous"]
                ),
                "require_for": _words,
                "dangerous_tools": _words,
                "timeout": st.floats(0.1, 1e6),
                "never_ask": st.booleans(),
            },
        ),
        "rules": st.fixed_dictionaries({}, optional={"allow": _words, "ask": _words, "deny": _words}),
        "sandbox": st.fixed_dictionaries(
            {},
            optional={
                "backend": st.sampled_from(["auto", "bubblewrap", "landlock", "docker", "external", "none"]),
                "profile": st.sampled_from(["read-only", "workspace-write", "unrestricted"]),
                "network": st.sampled_from(["off", "proxy"]),
                "effects": st.sampled_from(["direct", "review", "journal"]),
                "allowed_domains": _hosts,
                "env": _words,
                "allow_protected": _words,
                "read_roots": _words,
                "write_roots": _words,
                "hidden": _words,
                "loopback": st.booleans(),
                "limits": st.dictionaries(
                    st.sampled_from(["memory", "cores", "open_files", "address_space", "tmp"]), _number
                ),
            },
        ),
        "tools": st.fixed_dictionaries(
            {},
            optional={
                "disabled": _words,
                "ripgrep": st.just("rg"),
                "exec": st.fixed_dictionaries(
                    {},
                    optional={
                        "timeout": st.floats(1, 999),
                        "deny_patterns": _words,
                        "allow_patterns": _words,
                        "restrict_to_workspace": st.booleans(),
                    },
                ),
            },
        ),
        "web": st.fixed_dictionaries({}, optional={"allowed_domains": _hosts, "ports": st.lists(_port, max_size=2)}),
        "mcp_servers": st.dictionaries(st.sampled_from(["s", "t"]), st.just({"command": "x"}), max_size=2),
        "custom_tools": st.lists(
            st.just({"name": "t", "description": "Say something.", "command": "echo"}), max_size=1
        ),
        "openapi": st.dictionaries(st.just("api"), st.just({"spec": "/x.json"}), max_size=1),
        "plugins": st.fixed_dictionaries({}, optional={"enabled": st.booleans(), "blocked_plugins": _words}),
        "hooks": st.lists(
            st.sampled_from(
                [
                    {"action": "block", "tools": ["exec"]},
                    {"action": "ask"},
                    {"preset": "safety"},
                    {"action": "log", "file": "/x"},
                    {"action": "notify", "command": ["x"]},
                    {"action": "log"},
                ]
            ),
            max_size=2,
        ),
    },
)


def _no_looser(after: Any, before: Any) -> list[str]:
    """Where `after` grants more than `before`: written down here once more, from the meaning of each setting."""
    wrong: list[str] = []

    def rank(name: str, a: Any, b: Any, order: list[Any]) -> None:
        if order.index(a) < order.index(b):
            wrong.append(name)

    def subset(name: str, a: Any, b: Any) -> None:
        if not set(map(str, a)) <= set(map(str, b)):
            wrong.append(name)

    def at_most(name: str, a: float, b: float) -> None:
        if a > b:
            wrong.append(name)

    rank("mode", after.mode, before.mode, ["autonomous", "assistant", "observer"])
    rank("enabled", after.approval.enabled, before.approval.enabled, [False, True])
    rank("dry_run", after.dry_run, before.dry_run, [False, True])
    rank(
        "policy", after.approval.policy, before.approval.policy,
        ["always_allow", "require_for_tools", "require_for_dangerous", "always_require"],
    )  # fmt: skip
    subset("require_for", before.approval.require_for, after.approval.require_for)
    subset("dangerous_tools", before.approval.dangerous_tools, after.approval.dangerous_tools)
    rank("never_ask", after.approval.never_ask, before.approval.never_ask, [False, True])
    at_most("approval.timeout", after.approval.timeout, before.approval.timeout)
    subset("allow", after.rules.allow, before.rules.allow)
    subset("ask", before.rules.ask, after.rules.ask)
    subset("deny", before.rules.deny, after.rules.deny)
    a, b = after.sandbox, before.sandbox
    walls = ["none", "external", "landlock", "auto", "bubblewrap"]  # docker is beside them: never taken, never left
    if a.backend != b.backend:
        if "docker" in (a.backend, b.backend):
            wrong.append("backend")
        else:
            rank("backend", a.backend, b.backend, walls)
    rank("outer_walls", a.outer_walls, b.outer_walls, [True, False])
    if (a.docker.image, a.docker.engine) != (b.docker.image, b.docker.engine):
        wrong.append("docker")
    rank("profile", a.profile, b.profile,
         ["unrestricted", "workspace-write", "read-only"])  # fmt: skip
    rank("network", a.network, b.network, ["proxy", "off"])
    rank("effects", a.effects, b.effects, ["direct", "journal", "review"])
    for name in ("allowed_domains", "env", "allow_protected"):
        subset(name, getattr(a, name), getattr(b, name))
    if (a.read_roots, a.write_roots) != (b.read_roots, b.write_roots):
        wrong.append("roots")
    subset("hidden", b.hidden, a.hidden)
    rank("loopback", a.loopback, b.loopback, [True, False])
    for name in ("open_files", "address_space", "tmp", "file_size", "processes"):
        at_most(name, getattr(a.limits, name), getattr(b.limits, name))
    at_most("memory", a.limits.memory or most_memory(), b.limits.memory or most_memory())
    subset("disabled", before.tools.disabled, after.tools.disabled)
    if after.tools.ripgrep != before.tools.ripgrep:
        wrong.append("ripgrep")
    at_most("exec.timeout", after.tools.exec.timeout or 60, before.tools.exec.timeout or 60)
    subset("deny_patterns", before.tools.exec.deny_patterns, after.tools.exec.deny_patterns)
    if after.tools.exec.allow_patterns != before.tools.exec.allow_patterns:
        wrong.append("allow_patterns")
    rank("restrict", after.tools.exec.restrict_to_workspace, before.tools.exec.restrict_to_workspace, [False, True])
    subset("web", after.web.allowed_domains, before.web.allowed_domains)
    subset("ports", after.web.ports, before.web.ports)
    if after.mcp_servers != before.mcp_servers:
        wrong.append("servers")
    if (after.custom_tools, after.openapi) != (before.custom_tools, before.openapi):
        wrong.append("sources")
    kept, added = after.hooks[: len(before.hooks)], after.hooks[len(before.hooks) :]
    if kept != before.hooks or any(hook.action in ("log", "notify") for hook in added):
        wrong.append("hooks")
    rank("plugins", after.plugins.enabled, before.plugins.enabled, [True, False])
    subset("blocked", before.plugins.blocked_plugins, after.plugins.blocked_plugins)
    return wrong


def _an_untrusted_file_never_loosens(user: Any, project: Any) -> None:
    with _workspace(user) as (work, environ):
        before = load_settings(work, environ=environ)
    with _workspace(user, project) as (work, environ):
        after = load_settings(work, environ=environ)
    assert _no_looser(after, before) == []


test_an_untrusted_file_never_loosens = settings(_lasting, max_examples=80)(
    given(user=_valid, project=_valid)(_an_untrusted_file_never_loosens)
)
test_an_untrusted_file_never_loosens_at_length = pytest.mark.slow(
    settings(_lasting, max_examples=250)(given(user=_valid, project=_valid)(_an_untrusted_file_never_loosens))
)


def _no_untrusted_junk_loosens(user: Any, project: Any) -> None:
    with _workspace(user) as (work, environ):
        before = load_settings(work, environ=environ)
    with _workspace(user, project) as (work, environ):
        after = _load(work, environ)
    assert after is None or _no_looser(after, before) == []


test_no_untrusted_junk_loosens = settings(_lasting, max_examples=40)(
    given(user=_valid, project=_config)(_no_untrusted_junk_loosens)
)
test_no_untrusted_junk_loosens_at_length = pytest.mark.slow(
    settings(_lasting, max_examples=100)(given(user=_valid, project=_config)(_no_untrusted_junk_loosens))
)


def test_the_check_sees_loosening() -> None:
    tight, loose = Settings(), make_settings({"mode": "autonomous", "sandbox": {"env": ["X"]}})
    assert _no_looser(loose, tight) == ["mode", "env"]
