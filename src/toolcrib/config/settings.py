"""Every setting there is: its name, type, default, and what an untrusted file may do to it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PrivateAttr, model_validator

from ..boundary.sandbox.cgroup import most_memory
from ..boundary.sandbox.spec import DockerSettings, Limits, SandboxSettings
from ..core.errors import ConfigError
from ..core.tool import ToolCategory
from .tighten import Fewer, Longer, More, Only, OnlySome, Rank, Smaller

if TYPE_CHECKING:
    from ..policy.rules.grammar import Rule
    from ..policy.secrets.grants import Source
    from .files import ConfigFile
    from .merge import Ignored

Mode = Literal["observer", "assistant", "autonomous"]
ApprovalPolicy = Literal["always_allow", "always_require", "require_for_tools", "require_for_dangerous"]
Backend = Literal["auto", "bubblewrap", "landlock", "docker", "external", "none"]

AnyPath = Annotated[Path, Field(strict=False)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1, le=2**62)]
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
Json = dict[str, Any]
RuleText = str | Json
OneOrMore = Annotated[list[str], BeforeValidator(lambda v: [v] if isinstance(v, str) else v)]
_LIMITS = Limits()

# 0 in the designs' `auto_approve_timeout_secs` meant "never"; ours expires to a refusal, after this long.
APPROVAL_SECONDS = 300.0


class Section(BaseModel):
    """A group of settings. `spellings` are other names of its keys, taken from the designs.

    The string below a setting describes it in the published schema; it is read from the source there, not by pydantic
    at every start (25 ms).
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    spellings: ClassVar[Mapping[str, str]] = {}
    foreign: ClassVar[frozenset[str] | None] = None
    """Set where unknown keys may belong to another program: they warn unless they look like a slip, these never."""


class Approval(Section):
    """Who is asked, and when."""

    spellings = {"timeout_secs": "timeout", "auto_approve_timeout_secs": "timeout"}

    enabled: Annotated[bool, Only(True)] = True
    """false: what would ask is allowed. A refusal stays a refusal."""
    policy: Annotated[
        ApprovalPolicy, Rank(("always_allow", "require_for_tools", "require_for_dangerous", "always_require"))
    ] = "require_for_dangerous"
    """require_for_dangerous asks as the mode's table says."""
    require_for: Annotated[list[str], More()] = []
    """Tools that always ask."""
    dangerous_tools: Annotated[list[str], More()] = []
    """The same, under the designs' name."""
    timeout: Annotated[Seconds, Smaller(), BeforeValidator(lambda v: APPROVAL_SECONDS if v == 0 else v)] = (
        APPROVAL_SECONDS
    )
    """Seconds until an unanswered question is a refusal. 0, the designs' "no auto-approval", is the default."""


class Rules(Section):
    """Calls that are allowed, asked about or denied whatever the mode says: `Bash(git diff *)`, `Read(src/**)`."""

    spellings = {"import": "imports"}

    allow: list[RuleText] = []
    """A rule is a string, or a table: `{tool = "mcp__github__*", args = {repo = "me/*"}, reason = "…"}`."""
    ask: Annotated[list[RuleText], More()] = []
    deny: Annotated[list[RuleText], More()] = []
    """deny counts before ask, ask before allow, whichever file says it."""
    table: list[Json] = []
    """Rules as tables, each with its verdict: `[[rules.table]]`. They are put into the lists above."""
    imports: list[str] = []
    """Settings files of Claude Code whose `permissions` count, too; also spelled `import`."""


class Flow(Section):
    """Information flow: what is asked about because an untrusted result said it."""

    policy: Annotated[Literal["off", "said", "default", "strict"], Rank(("off", "said", "default", "strict"))] = (
        "default"
    )
    """default asks where a call that sends or destroys uses a value out of an untrusted result; said only where the
    user has not said that value; strict wherever anything untrusted was read before."""


class CallLimit(Section):
    """How many calls one run may make: since the last user message, or since the toolbox was opened."""

    calls: Annotated[Count | None, Smaller(lambda: float("inf"))] = None
    """Of all tools together."""
    per_tool: dict[str, Count] = {}
    """By tool; names may have `*`."""


class HookSetting(Section):
    """What to do about calls of some tools: log, notify, ask or block; or `preset = "safety"`."""

    spellings = {"tool": "tools", "category": "categories", "channel": "channels", "patterns": "pattern"}

    action: Literal["log", "notify", "ask", "block"] | None = None
    preset: Literal["safety"] | None = None
    """safety refuses `rm -rf`, `sudo` and `DROP TABLE` in calls of exec and delete_file, and asks before the others."""
    tools: OneOrMore = []
    """Names, with `*`. Empty: all."""
    categories: OneOrMore = []
    channels: OneOrMore = []
    pattern: OneOrMore = []
    """Regular expressions, looked for in the arguments whatever the case. With several, each counts."""
    message: str = ""
    when: list[Literal["finished", "failed", "denied"]] = ["finished", "failed", "denied"]
    """Which outcomes log and notify tell of."""
    file: AnyPath | None = None
    """log and notify write one JSON object a line to it."""
    command: list[str] = []
    """log and notify start this program, without a shell, with a JSON object on its standard input."""

    @model_validator(mode="after")
    def _makes_sense(self) -> HookSetting:
        if (self.action is None) == (self.preset is None):
            raise ValueError('a hook has either action = "log", "notify", "ask" or "block", or preset = "safety"')
        if self.action not in ("log", "notify") and (self.file or self.command):
            raise ValueError("file and command are for hooks that log or notify")
        for pattern in self.pattern:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"{pattern!r} is no regular expression: {error}") from None
        known = [str(category) for category in ToolCategory]
        for category in self.categories:
            if category not in known:
                raise ValueError(f"unknown category {category!r}; known: {', '.join(known)}")
        return self


class Record(Section):
    """How much of the record of calls is kept. 0 is without limit."""

    keep_days: Annotated[int, Field(ge=0, le=36_500), Longer()] = 365
    """Calls that are older are dropped."""
    max_bytes: Annotated[int, Field(ge=0, le=2**62)] = 2**30
    """Of the file; the oldest calls are dropped. A project that is not trusted cannot change it, lest it fill the
    disk."""


class SandboxLimits(Section):
    """What one command may use: bytes, and counts."""

    address_space: Annotated[Count, Smaller()] = _LIMITS.address_space
    memory: Annotated[Count | None, Smaller(most_memory)] = None
    """Of all processes of a command together. Unset: three quarters of this machine's."""
    file_size: Annotated[Count, Smaller()] = _LIMITS.file_size
    open_files: Annotated[Count, Smaller()] = _LIMITS.open_files
    processes: Annotated[Count, Smaller()] = _LIMITS.processes
    tmp: Annotated[Count, Smaller()] = _LIMITS.tmp
    cores: Annotated[Count | None, Smaller(lambda: os.cpu_count() or 1)] = None
    """CPU time is the timeout times this. Unset: this machine's."""


class Docker(Section):
    """Backend `docker`."""

    engine: str = "docker"
    """docker, podman, or a path to one."""
    image: str | None = None
    """The image that commands run in. It must be on this machine; nothing is downloaded for a command."""
    cpus: Annotated[Annotated[float, Field(gt=0, allow_inf_nan=False)] | None, Smaller(lambda: os.cpu_count() or 1)] = (
        None
    )
    """How many processors' time a command may use. Unset: those of this machine."""


class Sandbox(Section):
    """The walls around commands, and the directories that tools may reach."""

    backend: Annotated[Backend, Rank(("none", "external", "landlock", "auto", "bubblewrap"))] = "auto"
    """auto is bubblewrap, and nothing else where that does not work. landlock has weaker walls that need no namespaces;
    docker runs commands in containers; external says that this machine is a sandbox itself; none runs commands without
    walls. docs/sandbox.md compares them."""
    docker: Docker = Docker()
    outer_walls: Annotated[bool, Only(False)] = False
    """For external: the sandbox around us keeps commands to the workspace and off the network. Only then are commands
    allowed unasked because of it."""
    profile: Annotated[
        Literal["read-only", "workspace-write", "unrestricted"], Rank(("unrestricted", "workspace-write", "read-only"))
    ] = "workspace-write"
    """unrestricted is backend none."""
    network: Annotated[Literal["off", "proxy"], Rank(("proxy", "off"))] = "off"
    allowed_domains: Annotated[list[str], Fewer()] = []
    """Domains that commands may reach through the filtering proxy."""
    effects: Annotated[Literal["direct", "review", "journal"], Rank(("direct", "journal", "review"))] = "direct"
    env: Annotated[list[str], Fewer()] = []
    """Names of environment variables that commands get beside the harmless ones. This is how a secret is granted."""
    allow_protected: Annotated[list[str], Fewer()] = []
    """Protected names (`.git/config`) that commands may change; `*` for all."""
    read_roots: Annotated[list[AnyPath], Fewer()] = []
    """Further directories that file tools and commands may read."""
    write_roots: Annotated[list[AnyPath], Fewer()] = []
    """Further directories that file tools and commands may change."""
    hidden: Annotated[list[AnyPath], More()] = []
    """Paths that commands do not see, even inside the workspace."""
    loopback: Annotated[bool, Only(False)] = False
    """TCP and UDP between the processes of one command."""
    limits: SandboxLimits = SandboxLimits()


class Exec(Section):
    """The tool `exec`."""

    spellings = {
        "timeout_secs": "timeout",
        "default_timeout": "timeout",
        "additional_denied_patterns": "deny_patterns",
        "denied_patterns": "deny_patterns",
    }

    timeout: Annotated[Seconds | None, Smaller(lambda: 60.0)] = None
    """Seconds a command gets that asks for none."""
    deny_patterns: Annotated[list[str], More()] = []
    """Regular expressions of commands to refuse."""
    allow_patterns: list[str] = []
    """Regular expressions of commands; where there are any, no other command runs."""
    restrict_to_workspace: Annotated[bool, Only(True)] = False
    """Refuse commands that name a path outside the workspace."""


class HttpRequest(Section):
    """The tool `http_request`, which is refused for every domain not named here."""

    spellings = {"timeout_secs": "timeout"}

    allowed_domains: Annotated[list[str], Fewer()] = []
    """`api.example.com`, or `*.myco.com`, which is the domain itself, too. web.allowed_domains counts as well."""
    timeout: Annotated[Seconds | None, Smaller(lambda: 30.0)] = None
    """Seconds for one request with its redirects. Unset: 30."""
    max_response_bytes: Annotated[Count | None, Smaller(lambda: 524_288)] = None
    """Bytes of an answer's body that are read. Unset: 524,288."""


class Tools(Section):
    """Our own tools."""

    disabled: Annotated[list[str], More()] = []
    """These tools do not exist."""
    ripgrep: str | None = None
    """The ripgrep that `grep` and `glob` use. Unset: the one on PATH, else the packaged one."""
    exec: Exec = Exec()
    http_request: HttpRequest = HttpRequest()


class WebSearch(Section):
    """The tool `web_search`."""

    spellings = {"count": "max_results", "providers": "provider"}

    provider: OneOrMore = []
    """duckduckgo, brave, tavily, exa, searxng or ddgs; several are asked in order. Unset: those with a key in the
    environment (BRAVE_API_KEY, TAVILY_API_KEY, EXA_API_KEY, SEARXNG_URL); with api_key alone brave, with base_url
    alone searxng."""
    fallback: Annotated[list[str], Fewer()] = ["duckduckgo"]
    """Who is asked where those fail. Empty: nobody."""
    api_key: str | None = None
    """The key of the first provider; `${secret:NAME}` is a granted secret. Unset: the one in the environment."""
    base_url: str | None = None
    """The address of the first provider's server: of a SearXNG, or of a proxy in front of another."""
    max_results: Annotated[Count | None, Smaller(lambda: 10)] = None
    """Most results of one search."""
    timeout: Annotated[Seconds | None, Smaller(lambda: 20.0)] = None
    """Seconds that one provider gets. Unset: 20."""


class WebFetch(Section):
    """The tool `web_fetch`."""

    max_chars: Annotated[Count | None, Smaller(lambda: 50_000)] = None
    """Most characters of one answer, whatever a call asks for. Unset: 100,000, and 50,000 where it asks for nothing."""
    max_bytes: Annotated[Count | None, Smaller(lambda: 10 << 20)] = None
    """Bytes of a body that are read, decompressed. Unset: 10 MiB."""
    timeout: Annotated[Seconds | None, Smaller(lambda: 30.0)] = None
    """Seconds for a request with its redirects and pauses. Unset: 30."""
    robots: Annotated[bool, Only(True)] = False
    """Obey robots.txt."""


class Web(Section):
    """What requests may leave this machine, and for where."""

    allowed_domains: Annotated[list[str], Fewer()] = []
    allow_private: Annotated[list[str], Fewer()] = []
    """Private targets that may be dialled: CIDR ranges or host names."""
    ports: Annotated[list[Count], Fewer()] = []
    """Ports beside 80, 443 and 8000-9999."""
    proxy: str | None = None
    proxy_ca: AnyPath | None = None
    user_agent: str | None = None
    """What our requests say they come from. Unset: Toolcrib, with its address."""
    search: WebSearch = WebSearch()
    fetch: WebFetch = WebFetch()


class McpServer(Section):
    """An MCP server whose tools become ours: `command` for a local one, `url` for a remote one."""

    spellings = {
        "tool_timeout": "timeout",
        "timeout_secs": "timeout",
        "type": "transport",
        "enabled_tools": "tools",
    }
    foreign = frozenset({"always_allow", "auto_approve", "description", "icon", "name"})

    command: str | None = None
    args: list[str] = []
    env: dict[str, str] = {}
    cwd: str | None = None
    url: str | None = None
    headers: dict[str, str] = {}
    transport: str | None = None
    timeout: Seconds | None = None
    disabled: bool = False
    tools: list[str] | None = None
    disabled_tools: list[str] = []
    trust: Literal["none", "hints"] = "none"
    category: str | None = None
    sandbox: str | None = None
    prefix: str | None = None


class CustomTool(Section):
    """A tool that is a command: `{{name}}` in it is replaced by the argument of that name."""

    spellings = {"timeout_secs": "timeout"}

    name: str
    description: str
    command: str
    parameters: Json = {}
    working_dir: str | None = None
    timeout: Seconds | None = None
    env: dict[str, str] = {}
    category: str | None = None
    read: list[str] = []


class SecretSource(Section):
    """A secret by name: where its value comes from, and which tools get it. Exactly one source."""

    spellings = {"as": "variable", "tool": "tools"}

    env: str | None = None
    """An environment variable of Toolcrib's own."""
    file: AnyPath | None = None
    """A file that only you can read (chmod 600)."""
    command: list[str] = []
    """A program that prints it, with its arguments, run once and without a shell: `["pass", "show", "github"]`."""
    keyring: str | None = None
    """`service/user` in the system's keyring; needs the package keyring."""
    tools: OneOrMore = []
    """Names of tools that get it, `*` allowed; `mcp:github` is an MCP server. Empty: none."""
    variable: str | None = None
    """The environment variable that commands get it in, also spelled `as`. Unset: the secret's own name."""

    @model_validator(mode="after")
    def _one_source(self) -> SecretSource:
        given = [name for name in ("env", "file", "command", "keyring") if getattr(self, name)]
        if len(given) != 1:
            said = " and ".join(given) or "none of them"
            raise ValueError(f"a secret has one source: env, file, command or keyring; it has {said}")
        if self.keyring is not None and not all(self.keyring.rpartition("/")[::2]):
            raise ValueError("keyring should be service/user")
        if self.variable is not None and not _VARIABLE.fullmatch(self.variable):
            raise ValueError(f"{self.variable!r} cannot name an environment variable")
        return self


class Redaction(Section):
    """What is taken out of texts beside the known kinds of keys and the granted secrets. It cannot be turned off."""

    patterns: list[str] = []
    """Regular expressions of further secrets; with a group named `s`, only that is the secret."""
    allow: list[str] = []
    """Texts that look like secrets and are none: the keys of examples, in full."""


class Plugins(Section):
    """Folders with a `plugin.json`."""

    enabled: Annotated[bool, Only(False)] = False
    plugin_dirs: list[AnyPath] = []
    allowed_plugins: list[str] = []
    """Empty: all that are not blocked."""
    blocked_plugins: Annotated[list[str], More()] = []


def is_tightening(hook: Any) -> bool:
    """Whether an untrusted file may have this hook: one that refuses or asks, and starts or writes nothing."""
    return (
        not hook.get("file")
        and not hook.get("command")
        and (hook.get("action") in ("ask", "block") or hook.get("preset") == "safety")
    )


@dataclass(frozen=True, slots=True)
class Origin:
    """Where merged settings came from, and what was noticed on the way."""

    sources: Mapping[str, str] = field(default_factory=dict[str, str])
    warnings: list[str] = field(default_factory=list[str])
    ignored: tuple[Ignored, ...] = ()
    trusted: bool = True
    files: tuple[Path, ...] = ()
    project: ConfigFile | None = None
    rules: tuple[Rule, ...] | None = None
    imported: tuple[ConfigFile, ...] = ()


class Settings(Section):
    """Everything that can be set. `toolcrib config` shows the result and where each value came from."""

    spellings = {"default_mode": "mode", "agent_mode": "mode"}
    # Top-level keys of the designs' own files and of others people share one with.
    foreign = frozenset({"agents", "model", "models", "node", "project", "providers", "session", "tool"})

    mode: Annotated[Mode, Rank(("autonomous", "assistant", "observer"))] = "assistant"
    """observer reads; assistant asks before commands and other risky calls; autonomous does not ask."""
    workspace: AnyPath = Path()
    """The directory that tools work in. Unset: the current one."""
    dry_run: Annotated[bool, Only(True)] = False
    """Describe what calls would do instead of doing it."""
    approval: Approval = Approval()
    rules: Rules = Rules()
    labels: Flow = Flow()
    record: Record = Record()
    sandbox: Sandbox = Sandbox()
    web: Web = Web()
    tools: Tools = Tools()
    mcp_servers: dict[str, McpServer] = {}
    custom_tools: list[CustomTool] = []
    plugins: Plugins = Plugins()
    secrets: dict[str, SecretSource] = {}
    redact: Redaction = Redaction()
    hooks: Annotated[list[HookSetting], OnlySome(lambda hook: is_tightening(hook))] = []
    limits: CallLimit = CallLimit()
    agent: Json = {}
    channels: Json = {}
    jobs: Json = {}

    _origin: Origin = PrivateAttr(default_factory=Origin)

    @property
    def sources(self) -> Mapping[str, str]:
        """Where each value that is not a default came from, by dotted key."""
        return self._origin.sources

    @property
    def warnings(self) -> list[str]:
        """What a person should be told once."""
        return self._origin.warnings

    @property
    def ignored(self) -> tuple[Ignored, ...]:
        """What an untrusted project file asked for and did not get."""
        return self._origin.ignored

    @property
    def trusted(self) -> bool:
        """Whether everything that was read is trusted."""
        return self._origin.trusted

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that were read, the weakest first."""
        return self._origin.files

    @property
    def project(self) -> ConfigFile | None:
        """The project file as it was read, trusted or not; None where there was none."""
        return self._origin.project

    @property
    def imported(self) -> tuple[ConfigFile, ...]:
        """Files inside the workspace that rules were imported from, trusted or not."""
        return self._origin.imported

    @property
    def all_rules(self) -> tuple[Rule, ...]:
        """The rules of every layer that count, each with its origin. `rules` has the merged lists."""
        if self._origin.rules is not None:
            return self._origin.rules
        from .rules import parse_settings

        return parse_settings(self.rules.allow, self.rules.ask, self.rules.deny)

    def with_origin(self, origin: Origin) -> Settings:
        """The same settings, knowing where they came from."""
        self._origin = origin
        return self


def secret_sources(settings: Settings) -> tuple[Source, ...]:
    """The `secrets` section as the policy takes it. Raises ConfigError for a name that no variable can have."""
    from ..policy.secrets.grants import Source

    found: list[Source] = []
    for name, given in settings.secrets.items():
        variable = given.variable or name
        if not _VARIABLE.fullmatch(variable):
            raise ConfigError(f"secrets.{name}: {variable!r} cannot name an environment variable; give one with `as`")
        found.append(
            Source(name, tuple(given.tools), variable, given.env, given.file, tuple(given.command), given.keyring)
        )
    return tuple(found)


def sandbox_settings(settings: Settings, *hidden: Path) -> SandboxSettings:
    """The `sandbox` section as the sandbox itself takes it; `hidden` are further paths that no command may see."""
    box = settings.sandbox
    return SandboxSettings(
        backend=None if box.backend == "auto" else box.backend,
        profile=box.profile,
        network=box.network,
        effects=box.effects,
        read=tuple(box.read_roots),
        write=tuple(box.write_roots),
        hidden=(*box.hidden, *hidden),
        env=tuple(box.env),
        allow_protected=frozenset(box.allow_protected),
        loopback=box.loopback,
        outer_walls=box.outer_walls,
        docker=DockerSettings(**box.docker.model_dump()),
        limits=Limits(**box.limits.model_dump()),
    )
