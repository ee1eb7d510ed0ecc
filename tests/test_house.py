"""One word for one thing, and no circles: what a reader of the whole tree relies on."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "toolcrib"

CIRCLES: dict[frozenset[str], str] = {
    frozenset(f"toolcrib.policy.shell.{name}" for name in (
        "assigning", "builtins", "calls", "loops", "produced", "reader", "running",
    )): "One reading of a script in files by topic: a walker takes the reader, by type only; the reader calls it.",
}  # fmt: skip
"""Circles of type-only imports that stay, each with its reason."""

NOT_YET: tuple[frozenset[str], ...] = (
    frozenset(
        {
            *(f"toolcrib.policy.shell.{name}" for name in ("code", "effects", "sorting", "table")),
            *(f"toolcrib.policy.shell.table.{name}" for name in (
                "archives", "containers", "environment", "files", "git", "interpreters", "network", "packages",
                "sedscript", "shell", "spec", "system", "text",
            )),
        }
    ),
)  # fmt: skip
"""Circles that are still to be cut. A file that joins one of them, or any other circle, fails."""

SAME_NAME: dict[str, str] = {
    "Command": "still to be renamed", "Group": "still to be renamed", "Option": "still to be renamed",
    "Parameter": "still to be renamed",
}  # fmt: skip
"""Class names that more than one file has, each with its reason."""

BOUND = re.compile(r"^_?(?:MOST|LEAST|LONGEST|SHORTEST|LARGEST)(?:_\w+)?\b", re.MULTILINE)


def _sizes() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sizes", ROOT / "scripts" / "sizes.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


sizes = _sizes()


@pytest.fixture(scope="module")
def modules() -> list[object]:
    return [sizes.read_module(path, SOURCE) for path in sorted(SOURCE.rglob("*.py"))]


def _circles(modules: list[object], kind: int) -> list[frozenset[str]]:
    found = [frozenset(group) for group in sizes.circles(sizes.edges(modules, kind))]
    return [group for group in found if not any(group <= known for known in NOT_YET)]


@pytest.mark.parametrize("kind", [sizes.TOP, sizes.LAZY])
def test_no_circle_of_imports_that_run(modules: list[object], kind: int) -> None:
    assert [sorted(group) for group in _circles(modules, kind)] == []


def test_circles_of_types_are_those_with_a_reason(modules: list[object]) -> None:
    new = [sorted(group) for group in _circles(modules, sizes.TYPES) if group not in CIRCLES]
    assert new == [], "cut the circle, or say in CIRCLES why it stays"


def test_every_circle_that_is_allowed_is_there_as_it_is_named(modules: list[object]) -> None:
    found = {frozenset(group) for group in sizes.circles(sizes.edges(modules, sizes.TYPES))}
    assert [sorted(group) for group in (*CIRCLES, *NOT_YET) if group not in found] == [], "smaller: name what is left"


def test_a_class_name_means_one_thing(modules: list[object]) -> None:
    doubled = {name: [str(m.path) for m in where] for name, where in sizes.doubled(modules, lambda m: m.classes)}
    assert {name: where for name, where in doubled.items() if name not in SAME_NAME} == {}
    assert [name for name in SAME_NAME if name not in doubled] == [], "no longer doubled"


def test_bounds_are_named_max_and_min() -> None:
    found = {
        str(path.relative_to(SOURCE)): names
        for path in sorted(SOURCE.rglob("*.py"))
        if (names := BOUND.findall(path.read_text(encoding="utf-8")))
    }
    assert found == {}


def test_a_circle_and_a_doubled_name_are_found(tmp_path: Path) -> None:
    package = tmp_path / "pkg"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "a.py").write_text("def f():\n    from .b import B\n\n\nclass A: ...\n")
    (package / "b.py").write_text("from .a import A\n\n\nclass B(A): ...\n\n\nclass A: ...\n")
    found = [sizes.read_module(path, package) for path in sorted(package.rglob("*.py"))]
    assert sizes.circles(sizes.edges(found, sizes.TOP)) == []
    assert sizes.circles(sizes.edges(found, sizes.LAZY)) == [["pkg.a", "pkg.b"]]
    assert [name for name, _ in sizes.doubled(found, lambda m: m.classes)] == ["A"]
    assert BOUND.findall("MOST_BYTES = 1\n_LONGEST = 2\n    x = MOST_X\nMAX_A = 1") == ["MOST_BYTES", "_LONGEST"]
