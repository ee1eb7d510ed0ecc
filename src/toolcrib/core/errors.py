"""The error tree.

    ToolcribError
    ├── ConfigError                 a setting is wrong; names the file and key
    ├── ToolDefinitionError         a function or schema cannot become a tool
    ├── ToolNotFoundError           no tool of that name (also KeyError)
    ├── ToolConflictError           a tool of that name is registered already
    ├── InvalidArguments            arguments do not fit the tool; carries every violation
    ├── ToolError                   raised by a tool: its text goes to the model as it is
    │   ├── OutsideWorkspace        a path leaves the granted roots (also PermissionError)
    │   └── AddressRefused          an address may not be dialled
    ├── ToolExecutionDenied         a hook, rule or person said no
    │   └── ApprovalExpired         not answered in time
    └── SandboxUnavailable          the sandbox asked for is not there; says what to install

Inside the pipeline an error becomes a `ToolOutput` with `is_error=True`; only cancellation propagates.
"""

from __future__ import annotations

from typing import NamedTuple


class ToolcribError(Exception):
    """Root of all errors that Toolcrib raises on purpose."""


class ConfigError(ToolcribError):
    """A setting is wrong. The text names the source and the key."""


class ToolDefinitionError(ToolcribError):
    """A function, class or schema cannot become a tool."""


class ToolNotFoundError(ToolcribError, KeyError):
    """No tool of that name is registered."""

    def __str__(self) -> str:  # KeyError would show the repr
        return str(self.args[0]) if self.args else ""


class ToolConflictError(ToolcribError):
    """A tool of that name is registered already."""


class Violation(NamedTuple):
    """One way in which arguments do not fit: `path` as in `items[0].name` ("" for the whole), `text` what is wrong."""

    path: str
    text: str

    def __str__(self) -> str:
        return self.text


class InvalidArguments(ToolcribError, ValueError):
    """Arguments do not fit a tool's schema. `violations` has every one of them."""

    def __init__(self, violations: list[Violation]) -> None:
        self.violations = violations  # `args` are set by the class itself

    def __str__(self) -> str:
        return "; ".join(v.text for v in self.violations)


class ToolError(ToolcribError):
    """Raise this in a tool to answer the model with exactly this text as an error."""


class UnknownName(ToolError):
    """There is nothing of the id or name that was given: a call, a session, a job, changes."""


class OutsideWorkspace(ToolError, PermissionError):
    """A path leads outside the granted roots. The text names the roots."""

    def __str__(self) -> str:  # OSError would format (errno, strerror)
        return str(self.args[0]) if self.args else ""


class AddressRefused(ToolError):
    """An address may not be dialled. The text says why, `rule` which rule refused it (`address:private`)."""

    def __init__(self, text: str, rule: str = "address:malformed") -> None:
        super().__init__(text)
        self.rule = rule


class ToolExecutionDenied(ToolcribError):
    """A hook, a rule or a person refused the call."""


class ApprovalExpired(ToolExecutionDenied):
    """An approval request was not answered in time; the call was denied."""


class SandboxUnavailable(ToolcribError):
    """The sandbox that is set is not available. The text says what to install or set."""
