"""One word for one thing, and no circles: what a reader of the whole tree relies on."""

from __future__ import annotations

import functools
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "toolcrib"

BOUND = re.compile(r"^_?(?:MOST|LEAST|LONGEST|SHORTEST|LARGEST)(?:_\w+)?\b", re.MULTILINE)


def _sizes() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sizes", ROOT / "scripts" / "sizes.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


sizes = _sizes()


@functools.cache
def modules() -> list[Any]:
    return [sizes.read_module(path, SOURCE) for path in sorted(SOURCE.rglob("*.py"))]


@pytest.mark.parametrize("kind", [sizes.TOP, sizes.LAZY, sizes.TYPES])
def test_no_circle_of_imports(kind: int) -> None:
    assert sizes.circles(sizes.edges(modules(), kind)) == []


def test_a_class_name_means_one_thing() -> None:
    doubled = {name: [str(m.path) for m in where] for name, where in sizes.doubled(modules(), lambda m: m.classes)}
    assert doubled == {}


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
