"""Packages that bring tools by entry points: real distributions on sys.path."""

import sys
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path

import pytest

from toolcrib import tool
from toolcrib.core.registry import ToolRegistry
from toolcrib.sources.plugins.entrypoints import load_entry_points

from .conftest import Room

Install = Callable[[str, str, dict[str, str]], None]

TOOLS = '''
from toolcrib import tool

@tool(category="memory")
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b

@tool
def greet(name: str) -> str:
    """Greet."""
    return f"hello {name}"

def make():
    return [greet]

def takes(x):
    return []

nothing = []
number = 3
'''


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    site = tmp_path / "site"
    monkeypatch.syspath_prepend(str(site))
    modules: list[str] = []

    def put(package: str, code: str, points: dict[str, str]) -> None:
        module = package.replace("-", "_")
        modules.append(module)
        site.mkdir(exist_ok=True)
        (site / f"{module}.py").write_text(code)
        info = site / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        lines = "".join(f"{name} = {module}:{attribute}\n" for name, attribute in points.items())
        (info / "entry_points.txt").write_text(f"[toolcrib.tools]\n{lines}")

    yield put
    for module in modules:
        sys.modules.pop(module, None)


def test_a_tool_a_list_and_a_function(install: Install) -> None:
    install("tc-one", TOOLS, {"add": "add", "more": "make"})
    registry = ToolRegistry()
    assert load_entry_points(registry) == [("add", ""), ("more", "")]
    assert registry.names == ["add", "greet"]
    assert registry.require("add").source == "entry-point:add"


def test_one_that_fails_is_named_and_the_others_load(install: Install) -> None:
    install("tc-two", TOOLS, {"a": "add", "b": "nothing", "c": "number", "d": "takes", "e": "absent"})
    install("tc-three", "import sys; sys.exit(3)", {"f": "x"})
    install("tc-four", "raise RuntimeError('broken\\nhere')", {"g": "x"})
    registry = ToolRegistry()
    why = dict(load_entry_points(registry))
    assert registry.names == ["add"]
    assert why["a"] == ""
    assert "no tools" in why["b"]
    assert "'3', which is not a Tool" in why["c"]
    assert "@tool" in why["d"]
    assert "AttributeError" in why["e"]
    assert "tc_three:x of tc-three: SystemExit: 3" in why["f"]
    assert "RuntimeError: broken here" in why["g"]


def test_no_name_is_taken(install: Install) -> None:
    install("tc-five", TOOLS, {"x": "add"})
    registry = ToolRegistry()

    @tool(name="add")
    def other() -> str:
        """Other."""
        return ""

    registry.register(other)
    assert "registered already (own)" in load_entry_points(registry)[0][1]
    assert registry.require("add") is other


def test_allow_and_block_lists_name_entry_points_or_packages(install: Install) -> None:
    install("tc-six", TOOLS, {"a": "add", "g": "greet"})
    install("tc-seven", "raise RuntimeError", {"h": "x"})

    def names(**lists: list[str]) -> list[str]:
        return [name for name, _ in load_entry_points(ToolRegistry(), **lists)]

    assert names() == ["a", "g", "h"]
    assert names(blocked=["tc-seven"]) == ["a", "g"]
    assert names(allowed=["tc-six"], blocked=["g"]) == ["a"]
    assert names(allowed=["g"]) == ["g"]


async def test_a_toolbox_has_them_where_plugins_are_enabled(install: Install, room: Room) -> None:
    install("tc-eight", TOOLS, {"add": "add", "bad": "number"})
    box = await room.open()
    assert "add" not in box.registry
    assert "tc_eight" not in sys.modules
    box = await room.open(plugins={"enabled": True})
    assert await room.ok("add", a=1, b="2") == "3"
    assert any(name == "plugin bad" for name, _ in box.missing)


async def test_tools_change_what_a_plugin_loads_from_a_project_only_after_a_question(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    room.put("ws/tc_nine/__init__.py", "from .inner import add\nimport tc_beside\n")
    room.put("ws/tc_nine/inner.py", TOOLS)
    room.put("ws/tc_beside.py", "")
    room.put("ws/app.py", "")
    room.put("ws/tc_nine.egg-info/PKG-INFO", "Metadata-Version: 2.1\nName: tc-nine\nVersion: 1.0\n")
    points = "tc_nine.egg-info/entry_points.txt"
    room.put(f"ws/{points}", "[toolcrib.tools]\nadd = tc_nine:add\n")
    monkeypatch.syspath_prepend(str(room.root))

    async def unasked(*paths: str) -> list[str]:
        assert room.box is not None
        said = [(await room.box.check("write_file", {"path": path, "content": "x"})).verdict for path in paths]
        return [path for path, verdict in zip(paths, said, strict=True) if verdict == "allow"]

    loaded = ["tc_nine/__init__.py", "tc_nine/inner.py", "tc_beside.py", points, "x.DIST-INFO/entry_points.txt", "x.py"]
    await room.open(plugins={"enabled": True})
    assert await room.ok("add", a=1, b=2) == "3"
    assert await unasked(*loaded, "app.py", "doc/x.py") == ["app.py", "doc/x.py"]
    await room.open()
    assert await unasked(*loaded) == loaded


async def test_a_plugin_is_found_where_an_editable_installation_has_it(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a finder, as that of setuptools, and with what it imports from other folders."""
    room.put("ws/a/tc_ten/__init__.py", f"import tc_eleven\nfrom tc_twelve import x\n{TOOLS}")
    room.put("ws/b/tc_eleven.py", "")
    room.put("ws/c/tc_twelve/__init__.py", "import tc_thirteen\nx = 1")
    room.put("ws/d/tc_thirteen.py", "")
    room.put("info/tc_ten.egg-info/PKG-INFO", "Metadata-Version: 2.1\nName: tc-ten\nVersion: 1.0\n")
    room.put("info/tc_ten.egg-info/entry_points.txt", "[toolcrib.tools]\nadd = tc_ten:add\n")
    mapping = {"tc_ten": "ws/a/tc_ten/__init__.py", "tc_twelve": "ws/c/tc_twelve/__init__.py"}

    class Finder:
        @staticmethod
        def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
            return spec_from_file_location(name, room.root.parent / mapping[name]) if name in mapping else None

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder])
    for folder in ("ws/b", "ws/d", "info"):
        monkeypatch.syspath_prepend(str(room.root.parent / folder))
    box = await room.open(plugins={"enabled": True})
    for path, verdict in {
        "a/tc_ten/__init__.py": "ask", "a/tc_ten/new.py": "ask", "b/tc_eleven.py": "ask", "c/tc_twelve/x.py": "ask",
        "d/tc_thirteen.py": "ask", "a/other.py": "allow",
    }.items():  # fmt: skip
        assert (await box.check("write_file", {"path": path, "content": "x"})).verdict == verdict, path
