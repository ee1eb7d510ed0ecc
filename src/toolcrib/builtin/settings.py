"""What can be set of our own tools: the sections `tools` and `web`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from ..boundary.network.settings import Domain, GuardSettings
from ..core.dataclass import dataclass
from ..core.exposure import LIST_LIMIT
from ..core.settings import AnyPath, Bounds, Checked, Count, OneOrMore, Seconds, Section
from ..core.text import is_web_url, matches
from ..core.tightening import Fewer, More, Only, Smaller
from ..policy.settings import Expression

SEARCH_PROVIDERS = ("duckduckgo", "brave", "tavily", "exa", "searxng", "ddgs")


def _providers(names: tuple[str, ...]) -> None:
    for name in names:
        if name not in SEARCH_PROVIDERS:
            raise ValueError(f"unknown provider {name!r}; known: {', '.join(SEARCH_PROVIDERS)}")


def _http_address(url: str) -> None:
    if url and not is_web_url(url):
        raise ValueError("should be a URL like https://search.example.com")


def _header_text(text: str) -> None:
    if not text.isascii() or not text.isprintable():
        raise ValueError("should be plain ASCII on one line")


ListStyle = Literal["plain", "emoji", "tagged"]
Pixels = Annotated[int, Bounds(ge=100, le=5_000)]


@dataclass(frozen=True, slots=True)
class ExecSettings(Section):
    """The tool `exec`."""

    spellings = {"timeout_secs": "timeout", "default_timeout": "timeout", "denied_patterns": "deny_patterns"}

    timeout: Annotated[Seconds, Smaller()] = 60.0
    """Seconds that a command may take if the call names no timeout."""
    deny_patterns: Annotated[tuple[Expression, ...], More()] = ()
    """Regular expressions of commands to refuse."""
    additional_denied_patterns: Annotated[tuple[str, ...], More()] = ()
    """Texts: a command that contains one, in capitals or not, is refused, as in NanoBot.Net."""
    deny_presets: Annotated[tuple[Literal["nanobot", "nanobot_net"], ...], More()] = ()
    """The lists of Nanobot and of NanoBot.Net, in addition."""
    working_dir: str | None = None
    """The folder of commands that name none, in the workspace or a granted folder. Unset: the workspace."""
    allow_patterns: tuple[Expression, ...] = ()
    """Regular expressions of allowed commands. If there are any, no other command runs."""
    restrict_to_workspace: Annotated[bool, Only(True)] = False
    """Refuse commands that name a path outside the workspace."""


@dataclass(frozen=True, slots=True)
class HttpSettings(Section):
    """The tool `http_request`, which is refused for every domain not named here."""

    spellings = {"timeout_secs": "timeout"}

    allowed_domains: Annotated[tuple[Domain, ...], Fewer()] = ()
    """`api.example.com`, or `*.myco.com`, which is the domain itself, too. web.allowed_domains counts as well."""
    timeout: Annotated[Seconds, Smaller()] = 30.0
    """Seconds for one request with its redirects."""
    max_response_bytes: Annotated[Count, Smaller()] = 512 << 10
    """Bytes of a response body that are read."""


@dataclass(frozen=True, slots=True)
class BrowserSettings(Section):
    """The browser tools."""

    spellings = {"timeout_secs": "timeout", "executable": "executable_path", "max_download_size": "max_download_bytes"}

    enabled: Annotated[bool, Only(False)] = True
    """false: there are no browser tools."""
    executable_path: AnyPath | None = None
    """The Chromium to start. Unset: the first of chromium, google-chrome and microsoft-edge on PATH."""
    allowed_domains: Annotated[tuple[Domain, ...], Fewer()] = ()
    """Domains (`*.myco.com`) where clicks and typing need no approval and secrets may be typed. Those of
    web.allowed_domains count, too."""
    only_allowed_domains: Annotated[bool, Only(True)] = False
    """Pages can reach only the domains of allowed_domains."""
    timeout: Annotated[Seconds, Smaller()] = 30.0
    """Seconds for a page to load. A click gets 10 at most."""
    idle_timeout: Annotated[Seconds, Smaller()] = 600.0
    """Seconds without a call after which a session's pages are closed."""
    viewport: tuple[Pixels, Pixels] = (1280, 800)
    """Width and height of the window, in pixels."""
    max_chars: Annotated[Count, Smaller()] = 20_000
    """The largest snapshot, in characters."""
    max_download_bytes: Annotated[Count, Smaller()] = 50 << 20
    """The largest download, in bytes."""


@dataclass(frozen=True, slots=True)
class DocumentSettings(Section):
    """Limits for each document or image that `read_file` and `web_fetch` read."""

    spellings = {"timeout_secs": "timeout"}

    max_bytes: Annotated[Count, Smaller()] = 50 << 20
    """The largest file, in bytes."""
    timeout: Annotated[Seconds, Smaller()] = 30.0
    """Seconds until the process that reads it is killed."""
    memory: Annotated[Count, Smaller()] = 1 << 30
    """The memory (address space) of that process, in bytes."""


@dataclass(frozen=True, slots=True)
class ToolsSettings(Section):
    """Our own tools."""

    builtin: Annotated[bool, Only(False)] = True
    """false: no built-in tools, only those of servers, plugins and other sources."""
    code: Annotated[bool, Only(False)] = False
    """true: `run_code` runs scripts that call the other tools."""
    disabled: Annotated[tuple[str, ...], More()] = ()
    """Names of built-in tools to leave out, those of the agent too, which may contain `*`."""
    errors_as_text: tuple[str, ...] = ()
    """Tools whose results that begin with "Error:" are failed calls: names, which may contain `*` (`mcp_old_*`)."""
    list_style: ListStyle = "plain"
    """How `list_dir` marks folders and links: plain (`name/`, `name@`), emoji (📁) or tagged (`[DIR] name/`)."""
    ripgrep: str | None = None
    """The ripgrep that `grep` and `glob` use. Unset: the one on PATH, else the packaged one."""
    list_limit: Annotated[int, Bounds(ge=0)] = LIST_LIMIT
    """If there are more tools, only the built-in ones are listed, and `search_tools` finds the rest. 0: list all."""
    exec: ExecSettings = ExecSettings()
    http_request: HttpSettings = HttpSettings()
    documents: DocumentSettings = DocumentSettings()
    browser: BrowserSettings = BrowserSettings()

    def has(self, names: str | Iterable[str]) -> bool:
        """Return whether there is to be a built-in tool of this name, or of these: `shell` is `exec`."""
        return self.builtin and not matches(names, self.disabled)


@dataclass(frozen=True, slots=True)
class SearchSettings(Section):
    """The tool `web_search`."""

    spellings = {"count": "max_results", "providers": "provider"}

    provider: Annotated[OneOrMore, Checked(_providers)] = ()
    """duckduckgo, brave, tavily, exa, searxng or ddgs; several are asked in order. Unset: those with a key in the
    environment (BRAVE_API_KEY, TAVILY_API_KEY, EXA_API_KEY, SEARXNG_URL); with api_key alone brave, with base_url
    alone searxng."""
    fallback: Annotated[tuple[str, ...], Fewer(), Checked(_providers)] = ("duckduckgo",)
    """The providers to ask if those fail. Empty: none."""
    api_key: str | None = None
    """The key of the first provider; `${secret:NAME}` is a granted secret. Unset: the one in the environment."""
    base_url: Annotated[str, Checked(_http_address)] | None = None
    """The address of the first provider's server: of a SearXNG, or of a proxy in front of another."""
    max_results: Annotated[Count, Smaller()] = 10
    """The number of results of one search, at most 10."""
    timeout: Annotated[Seconds, Smaller()] = 20.0
    """Seconds that one provider may take."""

    @property
    def providers(self) -> tuple[str, ...]:
        """Who is asked first; empty for those whose key is in the environment."""
        alone = ("brave",) if self.api_key else ("searxng",) if self.base_url else ()
        return self.provider or alone


@dataclass(frozen=True, slots=True)
class FetchSettings(Section):
    """The tool `web_fetch`."""

    max_chars: Annotated[Count, Smaller()] = 100_000
    """The largest answer, in characters, whatever a call asks for. Without a request it is at most 50,000."""
    max_bytes: Annotated[Count, Smaller()] = 10 << 20
    """Bytes of a body that are read, after decompression."""
    timeout: Annotated[Seconds, Smaller()] = 30.0
    """Seconds for a request with its redirects and pauses."""
    robots: Annotated[bool, Only(True)] = False
    """Obey robots.txt."""


@dataclass(frozen=True, slots=True)
class WebSettings(GuardSettings):
    """Which requests may leave this machine, and where they may go."""

    user_agent: Annotated[str, Checked(_header_text)] | None = None
    """The User-Agent of requests. Unset: Toolcrib and its address."""
    search: SearchSettings = SearchSettings()
    fetch: FetchSettings = FetchSettings()
