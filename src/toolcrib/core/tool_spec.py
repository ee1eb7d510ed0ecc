"""The attributes with which a tool describes itself, in one list, and their types."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any, Literal

from .dataclass import dataclass
from .empty import EMPTY
from .errors import ToolDefinitionError
from .functions import first_sentence


class ToolCategory(StrEnum):
    """The kind of effects that a tool has; modes and approval depend on it. The default `shell` needs approval."""

    FILESYSTEM_READ = "filesystem_read"
    FILESYSTEM_WRITE = "filesystem_write"
    NETWORK_READ = "network_read"
    NETWORK_WRITE = "network_write"
    SHELL = "shell"
    HARDWARE = "hardware"
    MEMORY = "memory"
    MESSAGING = "messaging"
    DESTRUCTIVE = "destructive"


CategoryName = Literal[
    "filesystem_read", "filesystem_write", "network_read", "network_write", "shell", "hardware", "memory", "messaging",
    "destructive",
]  # fmt: skip
"""The same as plain text."""

READ_ONLY = frozenset({ToolCategory.FILESYSTEM_READ, ToolCategory.NETWORK_READ})
"""Categories without effects. `memory` may write its own store, so a memory tool is read-only only if it says so."""

Access = Literal["read", "search", "write", "edit"]
"""The use that a tool makes of a path: read the file, search a directory, write blindly, or show and change it."""
Paths = Mapping[str, Access] | Callable[[Mapping[str, Any]], Iterable[tuple[str, Access]]]
"""Which arguments hold paths, by parameter; or a function from the arguments to (path, access)."""

DEFAULT_TIMEOUT = 60.0
DEFAULT_MAX_OUTPUT = 50_000


@dataclass(frozen=True, slots=True)
class ToolOrigin:
    """Where a tool comes from, in separate fields: a name joined of them could not be split with certainty."""

    kind: Literal["mcp"]
    server: str
    tool: str
    also: str = ""
    """Another name of it in rules that deny or ask."""
    names: tuple[str, ...] = ()
    """The names that it may have here: which of them it has depends on other tools, so on what servers list."""


@dataclass(slots=True)
class Definition:
    """What a server says of a tool, as a hash. A yes to a call is for this definition alone."""

    digest: str
    replaced: bool = False
    """Whether the server has given another one since, or does not offer the tool any more."""


class ToolFields:
    """The attributes of a tool. A `ToolSpec` holds them as data; a `Tool` has them, as attributes or properties."""

    name: str = ""
    description: str = ""
    category: ToolCategory | CategoryName = ToolCategory.SHELL
    """A `ToolCategory` once the class is made; written as its name, too."""
    categorized: bool = False
    """Whether the category was chosen explicitly."""
    parameters: Any = None
    """A JSON Schema, or a bare map of properties in which entries without `default` are required."""
    read_only: bool | None = None
    """None: it follows from the category."""
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None
    title: str | None = None
    timeout: float | None = DEFAULT_TIMEOUT
    """Seconds; None for no limit."""
    sequential: bool = False
    """Whether it runs alone in a batch."""
    exclusive: bool = False
    """Whether it runs alone in the whole registry."""
    max_output: int = DEFAULT_MAX_OUTPUT
    """Characters."""
    output_schema: Mapping[str, Any] | None = None
    compact_description: str = ""
    strict: bool = False
    aliases: Mapping[str, str] = EMPTY
    """Other spellings of parameters: accepted, never shown."""
    names: tuple[str, ...] = ()
    """Other names of the tool: accepted, never shown."""
    former_names: tuple[str, ...] = ()
    """Names it had before a view renamed it."""
    source: str = "own"
    origin: ToolOrigin | None = None
    """The server that it comes from."""
    definition: Definition | None = None
    """What that server says of it."""
    makes_calls: bool = False
    """Whether it lets other calls run, now or later, which may have effects though it has none itself."""
    loop_exempt: bool = False
    """Whether the loop guard ignores it."""
    judge_blocks: bool = False
    """Whether its judge may have to wait for a disk: then it runs in a thread."""
    command_argument: str | None = None
    """The parameter that holds a shell command, so that rules can match it."""
    opaque_parameters: frozenset[str] = frozenset()
    """Parameters that take only values which its own results offered; labels do not ask about them."""
    kept_parameters: frozenset[str] = frozenset()
    """Parameters whose text later sessions follow: labels ask if it comes from an untrusted result."""
    needs_review: str | None = None
    """Why every call of it asks, whatever rules allow: its server changed its description, for example."""
    unaccepted: bool = False
    """Whether no person has accepted what its server says of it: models read none of its texts."""
    mcp_fields: Mapping[str, Any] = EMPTY
    """Further fields of its definition over MCP, by wire name (`icons`, `_meta`, the `title` in `annotations`)."""
    is_meta: bool = False
    """Whether it only leads to other tools (search, call by name)."""
    unlisted: bool = False
    """Whether no list and no search shows it now, because there is nothing to do for it. A call of it works."""
    errors_as_text: bool = False
    """Whether a returned text that begins with "Error:" is a failed call, as in Nanobot and NanoBot.Net."""
    tested: bool = False
    """Whether its schema is known to be right: then it is built at first use, not when the tool is registered."""

    @property
    def every_name(self) -> frozenset[str]:
        """All names that settings and rules may use for it, those from before a view renamed it included."""
        return frozenset((self.name, *self.names, *self.former_names))

    @property
    def refused_as(self) -> frozenset[str]:
        """All names under which settings and rules may refuse, ask about or limit it: those that it may have, too."""
        return self.every_name if self.origin is None else self.every_name.union(self.origin.names)

    @property
    def is_read_only(self) -> bool:
        """Whether a call has no effects."""
        return self.category in READ_ONLY if self.read_only is None else self.read_only

    @property
    def summary(self) -> str:
        """A short description: `compact_description`, or the first sentence."""
        return self.compact_description or first_sentence(self.description)


FIELDS = frozenset(ToolFields.__annotations__)


class ToolSpec(ToolFields):
    """A tool's attributes as frozen data; those not given have their defaults. Raises ToolDefinitionError."""

    def __init__(self, **given: Any) -> None:
        if wrong := sorted(given.keys() - FIELDS):
            from .near import unknown

            raise TypeError(f"a tool has no {', '.join(unknown(wrong, FIELDS))}; it has {', '.join(sorted(FIELDS))}")
        owner = given.get("name", "")
        if "category" in given:
            given = {"categorized": True, **given, "category": category_of(given["category"], owner)}
        timeout, max_output = given.get("timeout"), given.get("max_output", DEFAULT_MAX_OUTPUT)
        if timeout is not None and not (isinstance(timeout, int | float) and timeout > 0):
            raise ToolDefinitionError(f"{owner}: timeout must be positive seconds or None, got {timeout!r}")
        if not isinstance(max_output, int | float) or max_output < 100:
            raise ToolDefinitionError(f"{owner}: max_output must be at least 100 characters, got {max_output!r}")
        vars(self).update(given)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a ToolSpec is frozen: {name} cannot be set")


def check_name(name: object) -> None:
    """Raise ToolDefinitionError for what cannot be the name of a tool."""
    if not isinstance(name, str) or not name or len(name) > 256:
        raise ToolDefinitionError(f"a tool needs a name of 1 to 256 characters, got {name!r}")
    if not any(c.isalnum() for c in name) or any(c.isspace() or not c.isprintable() for c in name):
        raise ToolDefinitionError(f"a tool's name needs letters or digits and no spaces: {name!r}")


def category_of(value: Any, owner: str) -> ToolCategory:
    """Return the category of that name. Raises ToolDefinitionError."""
    try:
        return ToolCategory(value)
    except ValueError:
        known = ", ".join(ToolCategory)
        raise ToolDefinitionError(f"{owner}: unknown category {value!r}; known: {known}") from None
