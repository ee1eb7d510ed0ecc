"""Decide which tools a rule's name matches: Claude Code's names, `mcp__server__tool`, and our own names with `*`; and
which hosts its `domain:` matches.

Hosts are read as the address guard reads them, so that a different spelling of a host cannot avoid a rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from typing import Literal

from ...boundary.network.host_names import bracketed, parse_host
from ...boundary.network.special_addresses import embedded
from ...boundary.network.url import parse_url
from ...core.errors import AddressRefused
from ...core.text import lazy_regex, wildcard
from ...core.tool import Access, Tool, ToolCategory
from ...core.verdict import Verdict

Family = Literal["command", "read", "write", "web", "search", "own", "mcp"]

CLAUDE: Mapping[str, Family] = {
    "Bash": "command",
    "Read": "read", "Glob": "read", "Grep": "read", "LS": "read", "NotebookRead": "read",
    "Edit": "write", "Write": "write", "MultiEdit": "write", "NotebookEdit": "write",
    "WebFetch": "web",
    "WebSearch": "search",
}  # fmt: skip
"""Claude Code's names, and the kind of tools that they match here."""

# Without parentheses, each of these matches one tool; Read and Edit match all tools that read and all that change.
ALONE: Mapping[str, str] = {
    "Glob": "glob", "Grep": "grep", "LS": "list_dir", "Write": "write_file", "MultiEdit": "edit_file",
    "NotebookEdit": "edit_file", "NotebookRead": "read_file", "WebSearch": "web_search",
}  # fmt: skip
IGNORED_PATHS = frozenset({"Glob", "Grep", "LS", "NotebookRead", "Write", "MultiEdit", "NotebookEdit"})
"""Claude Code accepts `Write(path)` and similar rules and ignores them; here they refuse and ask, but never allow."""

WEB_TOOLS = frozenset({"web_fetch", "http_request", "browser_open"})
READS: frozenset[Access] = frozenset({"read", "search", "edit"})
WRITES: frozenset[Access] = frozenset({"write", "edit"})


def family_of(name: str) -> Family:
    """Return the kind of tools that a rule's name matches."""
    if name in CLAUDE:
        return CLAUDE[name]
    return "mcp" if name.startswith("mcp__") else "own"


def means(name: str, spec: str | None, tool: Tool, verdict: Verdict) -> bool:
    """Return whether a rule of this name can apply to calls of this tool."""
    allow = verdict == "allow"
    family = family_of(name)
    if family == "mcp":
        return _means_mcp(name, tool, allow)
    if family == "own":
        fits = any(wildcard(_stars(name), own) for own in tool.refused_as)
        return fits and not (allow and (tool.origin is not None or not name.strip("*")))
    if allow and tool.origin is not None:  # these names match only our own tools
        return False
    if spec is None and name in ALONE:
        return ALONE[name] in tool.every_name
    return _means_family(family, tool, allow=allow, bare=spec is None)


def _means_family(family: Family, tool: Tool, *, allow: bool, bare: bool) -> bool:
    if family == "command":
        if tool.command_argument is None:
            return False
        return not allow or "exec" in tool.every_name  # input to a running command is not a new command
    if family == "web":
        own = bool(tool.every_name & WEB_TOOLS)
        return own if allow or bare else has_url(tool)
    if tool.command_argument is not None:  # commands touch files too, but no path rule allows one
        return not allow and not bare
    if allow and tool.category == ToolCategory.MESSAGING:  # who may read a file may not therefore send it
        return False
    accesses = accesses_of(tool)
    if family == "read":
        return bool(accesses & {"read", "search"}) if bare or allow else bool(accesses & READS)
    return bool(accesses & WRITES)


def accesses_of(tool: Tool) -> set[Access]:
    """Return the ways in which a tool may use paths in its arguments; by its category if only a function knows."""
    if not callable(tool.paths):
        return set(tool.paths.values())
    return {"search", "read"} if tool.category == ToolCategory.FILESYSTEM_READ else {"write", "edit"}


URL_ARGUMENTS = ("url", "uri", "urls")


def has_url(tool: Tool) -> bool:
    """Return whether a tool takes an address."""
    properties = tool.schema.get("properties")
    return isinstance(properties, Mapping) and any(name in properties for name in URL_ARGUMENTS)


_LEGAL = lazy_regex(r"[^A-Za-z0-9_-]")


def anchored(name: str) -> bool:
    """Return whether an `mcp__` name identifies its server, which a rule that allows must do."""
    server = name.removeprefix("mcp__").partition("__")[0]
    return bool(server) and "*" not in server


def server_in_rules(server: str) -> str:
    """Return a server's name as a rule may spell it: characters that no tool's name may contain become `_`."""
    return _LEGAL.sub("_", server)


def _means_mcp(name: str, tool: Tool, allow: bool) -> bool:
    origin = tool.origin
    if not allow:  # each possible reading of the name is tried
        joined = set(tool.refused_as)
        if origin is not None:
            for server in {origin.server, server_in_rules(origin.server)}:
                own = f"mcp__{server}__{origin.tool}", f"mcp__{server}__{origin.also or origin.tool}"
                joined |= {*own, f"mcp__{server}"}
        return any(wildcard(_stars(name), each) for each in joined)
    if origin is None or not anchored(name) or "__" in origin.server:
        return False
    server, _, wanted = name.removeprefix("mcp__").partition("__")
    if server not in (origin.server, server_in_rules(origin.server)):
        return False
    return not wanted or wildcard(_stars(wanted), origin.tool)


def _stars(pattern: str) -> tuple[str, ...]:
    return tuple(pattern.split("*"))


# --- hosts

_SCHEME = lazy_regex(r"[A-Za-z][A-Za-z0-9+.-]*://")  # any scheme: only the guard decides which may be used
# `https:example.com` is https://example.com to browsers; `example.com:8080` is a host and a port.
_SCHEME_ALONE = lazy_regex(r"[A-Za-z][A-Za-z0-9+.-]*:(?![0-9]+(?:[/?#]|\Z))")


def host_of(url: str) -> str | None:
    """Return the host of an address in the form that rules are compared with; None if it has no certain host."""
    text = url.strip()
    if any(ord(c) <= 32 for c in text):  # browsers and libraries read these characters differently
        return None
    scheme = _SCHEME.match(text)
    if scheme is None and ("://" in text or _SCHEME_ALONE.match(text)):
        return None
    try:
        return str(parse_url(f"https://{text[scheme.end() :] if scheme else text}").host)
    except AddressRefused:
        return None


def domain_fits(pattern: str, host: str) -> bool:
    """Return whether a pattern matches: `example.com` that host alone, `*.example.com` only its subdomains, `*` every
    host."""
    if pattern == "*":
        return True
    if pattern.startswith("*."):
        return host.endswith(pattern[1:])
    return host == pattern


def domain_meets(pattern: str, host: str) -> bool:
    """Return whether a pattern that denies or asks matches: also an address in an IPv6 form of it (`::ffff:1.2.3.4`),
    because packets to it may end there."""
    return domain_fits(pattern, host) or not _carried(pattern).isdisjoint(_carried(host))


def _carried(host: str) -> set[str]:
    """Return an address, and the IPv4 addresses that it carries; nothing of a name."""
    try:
        address = ip_address(host)
    except ValueError:
        return set()
    return {host, *(str(part) for _, part in embedded(address))} if address.version == 6 else {host}


def plain_domain(pattern: str) -> str | None:
    """Return the pattern of a rule in the form of hosts; None if it is invalid."""
    text = pattern.strip()
    if text == "*":
        return text
    star = "*." if text.startswith("*.") else ""
    host = _plain(text[len(star) :])
    return None if host is None else f"{star}{host}"


def _plain(host: str) -> str | None:
    """Return a host in lower case, in ASCII, without a dot at the end; an address as `ipaddress` writes it."""
    bare = host.removeprefix("[").removesuffix("]")
    try:
        return str(parse_host(bracketed(bare)))
    except AddressRefused:
        return None
