"""scripts/sizes.py counts code, names and circles as its table says."""

import importlib.util
import sys
from pathlib import Path

SCRIPT = Path(__file__).parent.parent / "scripts/sizes.py"
spec = importlib.util.spec_from_file_location("sizes", SCRIPT)
assert spec and spec.loader
sizes = importlib.util.module_from_spec(spec)
sys.modules["sizes"] = sizes
spec.loader.exec_module(sizes)

FILES = {
    "__init__.py": '"""A package."""\n\nfrom .a.one import Thing\n',
    "a/__init__.py": "",
    "a/one.py": '"""One."""\n\n# why\n\n\nclass Thing:\n    """Two\n    lines."""\n\n    text = """a\n\nb"""\n',
    "a/two.py": "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    from ..b import two\n",
    "b/__init__.py": "from . import two\n",
    "b/two.py": "class Thing: ...\n\n\ndef f():\n    from ..a import two\n    from .three import X\n",
    "b/three.py": "from .two import Thing\n\nX = 1\n",
}


def read(folder):
    root = folder / "pkg"
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return [sizes.read_module(path, root) for path in sorted(root.rglob("*.py"))]


def test_code_is_counted_without_blank_lines_comments_and_docstrings(tmp_path):
    counted = {str(module.path): module.sloc for module in read(tmp_path)}
    assert counted["__init__.py"] == 1
    assert counted["a/one.py"] == 4  # class, and an assignment of three lines


def test_names_of_several_files_are_found(tmp_path):
    modules = read(tmp_path)
    assert [name for name, _ in sizes.doubled(modules, lambda m: m.classes)] == ["Thing"]
    assert [name for name, _ in sizes.doubled(modules, sizes.file_name)] == ["two.py"]


def test_circles_are_found_by_the_kind_of_import_that_closes_them(tmp_path):
    found = [sizes.circles(sizes.edges(read(tmp_path), kind)) for kind in (sizes.TOP, sizes.LAZY, sizes.TYPES)]
    assert found[0] == []
    assert found[1] == [["pkg.b.three", "pkg.b.two"]]
    assert found[2] == [["pkg.a.two", "pkg.b.three", "pkg.b.two"]]


def test_the_commands_of_a_wing_are_found_in_a_package_or_as_files(tmp_path):
    (tmp_path / "core").mkdir()
    table = 'TWO = {"x": "", "y": ""}\nWINGS = {"a": Wing("a"), "b": Wing("b.c", TWO), "d": Wing("d", TWO, "cli.d")'
    table += ', "x": Wing("cli.x", {"x": ""})}\n'  # nothing but a command
    (tmp_path / "core/wings.py").write_text(table)
    assert sizes.wings(tmp_path) == {"a": ("a", []), "b": ("b.c", ["cli.x", "cli.y"]), "d": ("d", ["cli.d"]),
                                     "x": ("cli.x", [])}  # fmt: skip
