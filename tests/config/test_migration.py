"""What docs/migration.md says: its configurations load, and its names work."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import toolcrib
from toolcrib import Tool, default_tools
from toolcrib.agent.message import MessageTool
from toolcrib.agent.subagents import SpawnTool
from toolcrib.builtin.ask_user import AskUserTool
from toolcrib.config.settings import Settings
from toolcrib.jobs.cron_tools import CronTool, ScheduleTaskTool

from .conftest import Place

PAGE = (Path(__file__).parents[2] / "docs/migration.md").read_text(encoding="utf-8")
NANOBOT, ZEPTOCLAW, NANOBOT_NET = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)


def loaded(place: Place, text: str) -> Settings:
    file = place.home / "theirs.json"
    file.write_text(text, encoding="utf-8")
    return place.load(config=file)


def test_a_configuration_of_nanobot(place: Place) -> None:
    settings = loaded(place, NANOBOT)
    assert settings.tools.exec.restrict_to_workspace and settings.tools.exec.timeout == 60
    assert (settings.web.search.api_key, settings.web.search.max_results) == ("BSA-x", 5)
    server = settings.mcp_servers["github"]
    assert (server.command, server.timeout) == ("npx", 30)
    (warning,) = settings.origin.warnings
    assert warning.endswith("not settings of Toolcrib, and ignored: agents, providers")


def test_a_configuration_of_zeptoclaw(place: Place) -> None:
    settings = loaded(place, ZEPTOCLAW)
    approval = settings.approval
    assert (approval.policy, approval.require_for) == ("require_for_tools", ("shell",))
    assert (approval.dangerous_tools, approval.timeout) == (("write_file",), 300)
    assert (settings.custom_tools[0].name, settings.custom_tools[0].timeout) == ("disk_usage", 30)
    assert settings.plugins.enabled and settings.plugins.blocked_plugins == ("old",)
    assert settings.tools.http_request.allowed_domains == ("api.example.com", "*.example.org")
    assert settings.mcp_servers["files"].timeout == 30
    assert settings.origin.warnings == ()


def test_a_configuration_of_nanobot_net(place: Place) -> None:
    settings = loaded(place, NANOBOT_NET)
    server = settings.mcp_servers["github"]
    assert (server.command, server.env, server.timeout) == ("npx", {"GITHUB_TOKEN": "${GITHUB_TOKEN}"}, 30)
    assert settings.tools.exec.timeout == 60
    assert settings.tools.exec.additional_denied_patterns == ("drop table",)
    assert settings.origin.warnings == ()


def test_the_names_of_tools_and_parameters(tmp_path: Path) -> None:
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \| `(\w+)` \| `(\w+)` \| [^|]+ \|$", PAGE, re.MULTILINE)
    assert len(rows) > 50
    known = [*default_tools(tmp_path), AskUserTool()]
    tools = {name: tool for tool in known for name in (tool.name, *tool.names)}
    made = importlib.import_module("toolcrib.sources.composed.create_tool")
    of_agent: dict[str, type[Tool]] = {"message": MessageTool, "spawn": SpawnTool, "cron": CronTool}
    of_agent["schedule_task"] = ScheduleTaskTool
    for theirs, ours, their_parameter, our_parameter in rows:
        if ours == "create_tool":  # a source makes it
            assert "action" in Path(made.__file__ or "").read_text()
            continue
        if ours in of_agent:  # a running agent makes it
            kind = of_agent[ours]
            assert kind.name == theirs
            assert our_parameter in inspect.signature(kind.execute).parameters
            assert their_parameter == our_parameter or kind.aliases[their_parameter] == our_parameter
            continue
        tool = tools[theirs]
        assert tool.name == ours
        assert our_parameter in tool.schema["properties"]
        assert their_parameter == our_parameter or tool.aliases[their_parameter] == our_parameter


def test_the_names_in_code() -> None:
    named = (
        "AgentHook", "BaseTool", "ToolCallRequest", "ToolContext", "ToolError", "ToolExecutionDenied",
        "ToolNotFoundError", "ToolOutput", "ToolRegistry", "Toolbox", "current_context", "default_tools", "safety_hook",
        "tool", "tool_registry",
    )  # fmt: skip
    for name in named:
        assert name in PAGE and hasattr(toolcrib, name)
    for method in (
        "get_definitions",
        "definitions_for_tools",
        "list_schemas",
        "execute_parallel",
        "has",
        "get",
        "require",
    ):
        assert hasattr(toolcrib.ToolRegistry, method)
    for made in ("llm_only", "user_visible", "split", "error", "async_task"):
        assert hasattr(toolcrib.ToolOutput, made)
    for setting in re.findall(r"`tools\.(?:exec\.)?(\w+)", PAGE):
        exec_settings, tools = Settings().tools.exec, Settings().tools
        assert hasattr(exec_settings, setting) or hasattr(tools, setting) or setting == "mcp_servers"
