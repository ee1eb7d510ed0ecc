"""Find tools that return their errors as text: such a call counts as done."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator

from ...core.output import ERROR_TEXT
from ...core.tool import Tool
from .finding import LintFinding


def check_returns(tool: Tool) -> Iterator[LintFinding]:
    """Look in the source of a tool in Python for `return "Error: …"`."""
    if tool.errors_as_text:
        return
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(tool.handler))))
    except (OSError, TypeError, ValueError, SyntaxError, RecursionError):  # no source, or only a part of a statement
        return
    if any(isinstance(node, ast.Return) and _is_error(node.value) for node in ast.walk(tree)):
        text = f"returns text that begins with {ERROR_TEXT!r}, which counts as success"
        yield LintFinding(tool.name, "warning", "error-as-text", text, "raise ToolError, or set errors_as_text=True")


def _is_error(value: ast.expr | None) -> bool:
    if isinstance(value, ast.JoinedStr) and value.values:
        value = value.values[0]
    elif isinstance(value, ast.BinOp):
        return _is_error(value.left)
    return isinstance(value, ast.Constant) and isinstance(value.value, str) and value.value.startswith(ERROR_TEXT)
