"""Define the settings of the policy: approval, rules, labels, hooks, limits, secrets."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Any, Literal, get_args

from ..core.dataclass import dataclass
from ..core.settings import AnyPath, Checked, Count, ErrorText, Json, OneOrMore, Prepared, Seconds, Section, as_list
from ..core.text import lazy_regex
from ..core.tightening import More, Only, Rank, Smaller


def _expression(text: str) -> None:
    from .regexes import compile_pattern

    compile_pattern(text)


Expression = Annotated[str, Checked(_expression)]
"""A regular expression, as RE2 reads them."""
ApprovalPolicy = Literal["always_allow", "always_require", "require_for_tools", "require_for_dangerous"]
HookAction = Literal["log", "notify", "ask", "block"]
RuleText = Annotated[str | Json, ErrorText("should be a rule: a text or a table")]
VARIABLE = lazy_regex(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
"""Names that an environment variable may have."""

# 0 in ZeptoClaw's `auto_approve_timeout_secs` means "never"; ours expires to a refusal, after this long.
APPROVAL_SECONDS = 300.0


def _never_is_the_default(timeout: Any) -> Any:
    return APPROVAL_SECONDS if timeout == 0 else timeout


@dataclass(frozen=True, slots=True)
class ApprovalSettings(Section):
    """Who is asked, and when."""

    spellings = {"timeout_secs": "timeout", "auto_approve_timeout_secs": "timeout"}

    enabled: Annotated[bool, Only(True)] = True
    """false: calls that would ask are allowed. Refused calls are still refused."""
    policy: Annotated[
        ApprovalPolicy, Rank(("always_allow", "require_for_tools", "require_for_dangerous", "always_require"))
    ] = "require_for_dangerous"
    """require_for_dangerous asks as the mode says, and for the tools in the two lists below. require_for_tools asks for
    the tools in the lists only; what rules, hooks and labels ask about still asks."""
    never_ask: Annotated[bool, Only(True)] = False
    """Refuse calls that would ask, without asking anyone, as Claude Code's mode dontAsk does."""
    require_for: Annotated[tuple[str, ...], More()] = ()
    """Tools that always ask."""
    dangerous_tools: Annotated[tuple[str, ...], More()] = ()
    """More tools that always ask: another name for require_for."""
    timeout: Annotated[Seconds, Smaller(), Prepared(_never_is_the_default)] = APPROVAL_SECONDS
    """Seconds until an unanswered question counts as a refusal. 0 means the default."""


@dataclass(frozen=True, slots=True)
class RuleSettings(Section):
    """Calls that are allowed, asked about or denied whatever the mode says: `Bash(git diff *)`, `Read(src/**)`."""

    spellings = {"import": "imports"}

    allow: tuple[RuleText, ...] = ()
    """A rule is a string, or a table: `{tool = "mcp__github__*", args = {repo = "me/*"}, reason = "…"}`."""
    ask: Annotated[tuple[RuleText, ...], More()] = ()
    deny: Annotated[tuple[RuleText, ...], More()] = ()
    """deny takes precedence over ask, and ask over allow, whichever file a rule is in."""
    table: tuple[Json, ...] = ()
    """Rules as tables, each with its verdict: `[[rules.table]]`. They are added to the lists above."""
    imports: tuple[str, ...] = ()
    """Settings files of Claude Code whose `permissions` count, too; also spelled `import`."""


@dataclass(frozen=True, slots=True)
class LabelSettings(Section):
    """Information flow: which calls ask because of what an untrusted result said."""

    policy: Annotated[
        Literal["off", "destinations", "said", "default", "strict"],
        Rank(("off", "destinations", "said", "default", "strict")),
    ] = "default"
    """When a call that sends something asks. default: if it uses a value from an untrusted result. said: the same,
    unless the user has mentioned that value. destinations: if an untrusted result brought in a name, an address or an
    id that it uses; copied text does not ask. strict: if anything untrusted was read before. With all but off, a call
    that destroys something asks if anything untrusted was read before."""


@dataclass(frozen=True, slots=True)
class CallLimitSettings(Section):
    """How many calls one run may make: since the last user message, or since the toolbox was opened."""

    calls: Annotated[Count | None, Smaller(lambda: float("inf"))] = None
    """The limit for all tools together."""
    per_tool: dict[str, Count] = field(default_factory=dict[str, Count])
    """The limit for each tool, by name; names may contain `*`."""
    may_repeat: tuple[str, ...] = ()
    """Tools that may repeat the same call: the loop guard ignores them, for example those that ask for a state again
    and again. Names may contain `*`; "*" turns the guard off."""


@dataclass(frozen=True, slots=True)
class HookRule(Section):
    """What to do about calls of some tools: log, notify, ask or block; or `preset = "safety"`."""

    spellings = {"tool": "tools", "category": "categories", "channel": "channels", "patterns": "pattern"}

    action: HookAction | None = None
    tools: OneOrMore = ()
    """Names of tools, which may contain `*`. Empty: all tools."""
    categories: OneOrMore = ()
    channels: OneOrMore = ()
    pattern: OneOrMore = ()
    """Regular expressions to search for in the arguments, ignoring case. Each one counts on its own."""
    message: str = ""
    when: tuple[Literal["finished", "failed", "denied"], ...] = ("finished", "failed", "denied")
    """The outcomes that log and notify report."""
    file: AnyPath | None = None
    """A file to which log and notify append one JSON object per line."""
    command: tuple[str, ...] = ()
    """A program that log and notify start, without a shell, with a JSON object on its standard input."""
    preset: Literal["safety"] | None = None
    """safety refuses `rm -rf`, `sudo` and `DROP TABLE` in calls of exec and delete_file, and asks before the others."""

    def __post_init__(self) -> None:
        from ..core.tool import ToolCategory
        from .regexes import compile_pattern

        for name in ("tools", "categories", "channels", "pattern"):  # code may give one text, as files do
            object.__setattr__(self, name, tuple(as_list(getattr(self, name))))
        if (self.action, self.preset) not in [*((action, None) for action in get_args(HookAction)), (None, "safety")]:
            raise ValueError('a hook has either action = "log", "notify", "ask" or "block", or preset = "safety"')
        if self.action not in ("log", "notify") and (self.file or self.command):
            raise ValueError("file and command are for hooks that log or notify")
        for pattern in self.pattern:
            compile_pattern(pattern, ignore_case=True)
        known = [str(category) for category in ToolCategory]
        for category in self.categories:
            if category not in known:
                raise ValueError(f"unknown category {category!r}; known: {', '.join(known)}")


def is_tightening(hook: HookRule) -> bool:
    """Return whether an untrusted file may have this hook: it may only refuse or ask, not start or write anything."""
    return not hook.file and not hook.command and (hook.action in ("ask", "block") or hook.preset == "safety")


def _egress_host(text: str) -> str:
    """Return `host:port`. Raises ValueError for patterns and addresses: a certificate vouches for one name."""
    from ..boundary.network.url import parse_url
    from ..core.errors import AddressRefused

    try:
        target = parse_url(f"https://{text}/")
    except AddressRefused as error:
        raise ValueError(str(error)) from None
    if not isinstance(target.host, str) or target.path != "/" or "@" in text:
        raise ValueError(f"{text!r} should be the name of one host, such as api.example.com")
    return f"{target.host}:{target.port}"


@dataclass(frozen=True, slots=True)
class SecretSettings(Section):
    """A secret by name: where its value comes from, and which tools get it. Exactly one source."""

    spellings = {"as": "variable", "tool": "tools"}

    env: str | None = None
    """An environment variable of Toolcrib's own."""
    file: AnyPath | None = None
    """A file that only you can read (chmod 600)."""
    command: tuple[str, ...] = ()
    """A program that prints it, with its arguments, run once and without a shell: `["pass", "show", "github"]`."""
    keyring: str | None = None
    """`service/user` in the system's keyring; needs the package keyring."""
    tools: OneOrMore = ()
    """Names of tools that get it, which may contain `*`; `mcp:github` is an MCP server. Empty: none."""
    egress: tuple[str, ...] = ()
    """Hosts (`api.github.com`, `api.example.com:8443`) that alone get the value: a command gets a placeholder, and the
    sandbox's proxy puts the value into its requests. Then no tool but commands gets it."""
    variable: str | None = None
    """The environment variable that commands get it in, also spelled `as`. Unset: the secret's own name."""

    def __post_init__(self) -> None:
        given = [name for name in ("env", "file", "command", "keyring") if getattr(self, name)]
        if len(given) != 1:
            said = " and ".join(given) or "none of them"
            raise ValueError(f"a secret has one source: env, file, command or keyring; it has {said}")
        object.__setattr__(self, "egress", tuple(map(_egress_host, self.egress)))
        if self.keyring is not None and not all(self.keyring.rpartition("/")[::2]):
            raise ValueError("keyring should be service/user")
        if self.variable is not None and not VARIABLE.fullmatch(self.variable):
            raise ValueError(f"{self.variable!r} cannot name an environment variable")


@dataclass(frozen=True, slots=True)
class RedactionSettings(Section):
    """What is removed from texts, besides known kinds of keys and granted secrets. Redaction cannot be turned off."""

    patterns: tuple[Expression, ...] = ()
    """Regular expressions of further secrets; with a group named `s`, only that is the secret."""
    allow: tuple[str, ...] = ()
    """Texts that look like secrets but are not, such as example keys; each in full."""
