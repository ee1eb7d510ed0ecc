"""The tool layer for LLM agents: the tools an agent needs, and one guarded way to call any of them.

    from toolcrib import Tool, Toolbox, ToolContext, ToolOutput, ToolRegistry, tool

Names load when they are first touched: importing this package alone costs almost nothing.
"""

from __future__ import annotations

from ._version import __version__ as __version__

TYPE_CHECKING = False  # `typing` takes as long to load as the interpreter itself
if TYPE_CHECKING:
    from .builtin.default_tools import default_tools
    from .core.answering import ToolOutputs, to_call
    from .core.bound import safe
    from .core.call import ToolCall
    from .core.call import ToolCall as ToolCallRequest
    from .core.context import ToolContext, current_context
    from .core.errors import (
        AddressRefused,
        ApprovalExpired,
        ConfigError,
        InvalidArguments,
        OutsideWorkspace,
        SandboxUnavailable,
        ToolConflictError,
        ToolcribError,
        ToolDefinitionError,
        ToolError,
        ToolExecutionDenied,
        ToolNotFoundError,
        Violation,
    )
    from .core.events import (
        ApprovalRequested,
        ApprovalResolved,
        CallFinished,
        CallProgress,
        CallStarted,
        EventStream,
        Notice,
    )
    from .core.interfaces import Hook, Middleware
    from .core.interfaces import Hook as AgentHook
    from .core.output import AudioBlock, ContentBlock, ImageBlock, Labels, ResourceBlock, TextBlock, ToolOutput
    from .core.registry import ToolRegistry, default_registry, tool_registry
    from .core.tool import BaseTool, FunctionTool, Tool, tool
    from .core.tool_spec import ToolCategory
    from .core.verdict import Judgement
    from .policy.hooks import HookRule, safety_hook
    from .policy.policy import Check, Policy
    from .policy.requests import ApprovalRequest, Decision
    from .policy.session_view import Session
    from .toolbox import Toolbox

_HOMES = {
    "builtin.default_tools": ("default_tools",),
    "core.answering": ("ToolOutputs", "to_call"),
    "core.bound": ("safe",),
    "core.call": ("ToolCall",),
    "core.context": ("ToolContext", "current_context"),
    "core.errors": (
        "AddressRefused", "ApprovalExpired", "ConfigError", "InvalidArguments", "OutsideWorkspace",
        "SandboxUnavailable", "ToolConflictError", "ToolDefinitionError", "ToolError", "ToolExecutionDenied",
        "ToolNotFoundError", "ToolcribError", "Violation",
    ),
    "core.events": (
        "ApprovalRequested", "ApprovalResolved", "CallFinished", "CallProgress", "CallStarted", "EventStream", "Notice",
    ),
    "core.interfaces": ("Hook", "Middleware"),
    "core.output": ("AudioBlock", "ContentBlock", "ImageBlock", "Labels", "ResourceBlock", "TextBlock", "ToolOutput"),
    "core.registry": ("ToolRegistry", "default_registry", "tool_registry"),
    "core.tool": ("BaseTool", "FunctionTool", "Tool", "tool"),
    "core.tool_spec": ("ToolCategory",),
    "core.verdict": ("Judgement",),
    "policy.hooks": ("HookRule", "safety_hook"),
    "policy.policy": ("Check", "Policy"),
    "policy.requests": ("ApprovalRequest", "Decision"),
    "policy.session_view": ("Session",),
    "toolbox": ("Toolbox",),
}  # fmt: skip
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

_ALIASES = {"AgentHook": "Hook", "ToolCallRequest": "ToolCall"}
"""Names of Nanobot."""

__all__ = [  # every name is in _HOMES or _ALIASES; a test holds the two together
    "AddressRefused", "AgentHook", "ApprovalExpired", "ApprovalRequest", "ApprovalRequested", "ApprovalResolved",
    "AudioBlock", "BaseTool", "CallFinished", "CallProgress", "CallStarted", "Check", "ConfigError", "ContentBlock",
    "Decision", "EventStream", "FunctionTool", "Hook", "HookRule", "ImageBlock", "InvalidArguments", "Judgement",
    "Labels", "Middleware", "Notice", "OutsideWorkspace", "Policy", "ResourceBlock", "SandboxUnavailable",
    "Session", "TextBlock", "Tool", "ToolCall", "ToolCallRequest", "ToolCategory", "ToolConflictError",
    "ToolContext", "ToolDefinitionError", "ToolError", "ToolExecutionDenied", "ToolNotFoundError", "ToolOutput",
    "ToolOutputs", "ToolRegistry", "Toolbox", "ToolcribError", "Violation", "current_context", "default_registry",
    "default_tools", "safe", "safety_hook", "to_call", "tool", "tool_registry",
]  # fmt: skip


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in _ALIASES:
        value = __getattr__(_ALIASES[name])
    elif name in _HOME_OF:
        value = getattr(import_module(f".{_HOME_OF[name]}", __name__), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
