"""Shows the size and shape of src/toolcrib: lines of code by room, large files, doubled names, circles of imports.

python scripts/sizes.py [--files] [--names] [--circles] [--since COMMIT] [FOLDER]

SLOC are lines of code: no blank line, no comment, no docstring. An import is "lazy" inside a function and "type-only"
below `if TYPE_CHECKING:`. `--since` compares with an earlier commit, the other options list what the table only counts.
"""

from __future__ import annotations

import argparse
import ast
import io
import subprocess
import sys
import tarfile
import tempfile
import tokenize
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import cast

SOURCE = Path(__file__).resolve().parent.parent / "src/toolcrib"
LARGE = 400  # lines
SHOWN = 8  # names in the table; the options show all
NO_CODE = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING,
    tokenize.ENDMARKER,
}  # fmt: skip
TOP, LAZY, TYPES = range(3)
KINDS = ("at import time", "with lazy imports", "with type-only imports")


@dataclass(frozen=True)
class Module:
    """One source file: its dotted name, its folder's room, its sizes, its classes and the imports it states."""

    name: str
    path: Path
    room: str
    is_package: bool
    text: str
    classes: tuple[str, ...]
    imports: tuple[tuple[int, str, str], ...]  # kind, module, name ("" for `import module`)

    @property
    def lines(self) -> int:
        return len(self.text.splitlines())

    @cached_property
    def sloc(self) -> int:
        return len(code_lines(self.text) - docstring_lines(ast.parse(self.text)))


def read_module(path: Path, root: Path) -> Module:
    """Read one file below `root`, the folder of the package. Raises SyntaxError where it is not Python."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    parts = path.relative_to(root.parent).with_suffix("").parts
    is_package = parts[-1] == "__init__"
    name = ".".join(parts[:-1] if is_package else parts)
    return Module(
        name=name,
        path=path.relative_to(root),
        room=parts[1] if len(parts) > 2 else "(top)",
        is_package=is_package,
        text=text,
        classes=tuple(node.name for node in statements(tree) if isinstance(node, ast.ClassDef)),
        imports=tuple(imports(tree, name if is_package else name.rpartition(".")[0])),
    )


def code_lines(text: str) -> set[int]:
    """Return the numbers of the lines that have a token other than a comment."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return {n for token in tokens if token.type not in NO_CODE for n in range(token.start[0], token.end[0] + 1)}


def docstring_lines(tree: ast.Module) -> set[int]:
    """Return the numbers of the lines of all docstrings."""
    found: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            first = node.body[0]
            if ast.get_docstring(node, clean=False) is not None:
                found.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return found


def within(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what has statements directly within a node: expressions have none, and are most of a tree."""
    return (
        each for each in ast.iter_child_nodes(node) if isinstance(each, ast.stmt | ast.excepthandler | ast.match_case)
    )


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield all statements below a node."""
    for child in within(node):
        yield child
        yield from statements(child)


def imports(node: ast.AST, package: str, kind: int = TOP) -> Iterator[tuple[int, str, str]]:
    """Yield each import below a node as (kind, module, name), relative ones resolved from `package`."""
    if isinstance(node, ast.Import):
        yield from ((kind, alias.name, "") for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
        module = ".".join([*base, *([node.module] if node.module else [])])
        yield from ((kind, module, alias.name) for alias in node.names)
    elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        for child in node.body:
            yield from imports(child, package, TYPES)
        for child in node.orelse:
            yield from imports(child, package, kind)
    else:
        inner = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for child in within(node):
            yield from imports(child, package, max(kind, LAZY) if inner else kind)


def edges(modules: list[Module], kind: int) -> dict[str, set[str]]:
    """Return who imports whom, by imports of that kind and the kinds before it."""
    names = {module.name for module in modules}
    graph: dict[str, set[str]] = {name: set() for name in names}
    for module in modules:
        for found, base, name in module.imports:
            target = f"{base}.{name}" if f"{base}.{name}" in names else base
            if found <= kind and target in names and target != module.name:
                graph[module.name].add(target)
    return graph


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Return the groups of more than one module that all reach each other (Tarjan), largest first."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    groups: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for target in sorted(graph[name]):
            if target not in index:
                visit(target)
                low[name] = min(low[name], low[target])
            elif target in stack:
                low[name] = min(low[name], index[target])
        if low[name] == index[name]:
            at = stack.index(name)
            group = stack[at:]
            del stack[at:]
            if len(group) > 1:
                groups.append(sorted(group))

    sys.setrecursionlimit(max(sys.getrecursionlimit(), 10 * len(graph)))
    for name in sorted(graph):
        if name not in index:
            visit(name)
    return sorted(groups, key=len, reverse=True)


def doubled(modules: list[Module], names: Callable[[Module], Iterable[str]]) -> list[tuple[str, list[Module]]]:
    """Return the names that more than one module has, the most frequent first."""
    users: defaultdict[str, list[Module]] = defaultdict(list)
    for module in modules:
        for name in set(names(module)):
            users[name].append(module)
    found = [(name, sorted(where, key=lambda m: m.name)) for name, where in users.items() if len(where) > 1]
    return sorted(found, key=lambda item: (-len(item[1]), item[0]))


def file_name(module: Module) -> list[str]:
    """Return the name of the module's file, unless it is __init__.py, which every package has."""
    return [] if module.is_package else [module.path.name]


def print_rooms(modules: list[Module]) -> None:
    print(f"{'room':<12}{'files':>7}{'SLOC':>9}")
    for room in sorted({module.room for module in modules}):
        inside = [module for module in modules if module.room == room]
        print(f"{room:<12}{len(inside):>7}{sum(module.sloc for module in inside):>9,}")
    print(f"{'all':<12}{len(modules):>7}{sum(module.sloc for module in modules):>9,}")


def wings(root: Path) -> dict[str, tuple[str, list[str]]]:
    """Return the wings as `core/wings.py` lists them: name → its package, and the other modules that have only its
    commands. None in a tree without that file."""
    path = root / "core/wings.py"
    tree = ast.parse(path.read_text(encoding="utf-8")) if path.exists() else ast.Module([], [])
    named = {ast.unparse(node.targets[0]): node.value for node in tree.body if isinstance(node, ast.Assign)}
    found: dict[str, tuple[str, list[str]]] = {}
    table = named.get("WINGS", ast.Dict([], []))
    for key, call in zip(cast("ast.Dict", table).keys, cast("ast.Dict", table).values, strict=True):
        package, *rest = cast("ast.Call", call).args
        commands: list[str] = []
        if len(rest) > 1:  # a package of its own
            commands = [ast.literal_eval(rest[1])]
        elif rest:
            texts = named[rest[0].id] if isinstance(rest[0], ast.Name) else rest[0]
            commands = [f"cli.{name}" for name in ast.literal_eval(texts)]
        inside = ast.literal_eval(package)
        found[ast.literal_eval(cast("ast.expr", key))] = inside, [each for each in commands if each != inside]
    return found


def print_wings(modules: list[Module], root: Path) -> None:
    rest, doors = sum(module.sloc for module in modules), 0
    lines: list[str] = []
    for name, (package, commands) in wings(root).items():
        inside = below(modules, f"{root.name}.{package}")
        size = sum(module.sloc for module in inside)
        rest -= size
        lines.append(f"  {name:<12}{len(inside):>5}{size:>9,}")
        if commands:
            theirs = sum(module.sloc for each in commands for module in below(modules, f"{root.name}.{each}"))
            doors += theirs
            lines[-1] += f"  and {theirs:,} in {', '.join(commands)}"
    print(f"main house: {rest:,} SLOC, {doors:,} of them only commands of wings; its wings, with files and SLOC:")
    print("\n".join(lines))


def below(modules: list[Module], package: str) -> list[Module]:
    return [module for module in modules if f"{module.name}.".startswith(f"{package}.")]


def print_doubled(title: str, found: list[tuple[str, list[Module]]], in_full: bool) -> None:
    some = ", ".join(f"{name} {len(where)}" for name, where in found[:SHOWN])
    print(f"{title}: {len(found)}{' (' + some + (', …' if len(found) > SHOWN else '') + ')' if found else ''}")
    for name, where in found if in_full else ():
        print(f"  {name}: {', '.join(str(module.path) for module in where)}")


def print_large(modules: list[Module], in_full: bool) -> None:
    large = sorted((m for m in modules if m.lines > LARGE), key=lambda m: -m.lines)
    print(f"files over {LARGE} lines: {len(large)}")
    for module in large if in_full else ():
        print(f"  {module.path}: {module.lines}")


def print_circles(modules: list[Module], in_full: bool) -> None:
    found = [circles(edges(modules, kind)) for kind in (TOP, LAZY, TYPES)]
    counts = ", ".join(f"{len(groups)} {kind}" for kind, groups in zip(KINDS, found, strict=True))
    print(f"circles of imports: {counts}; files in the largest: {len(found[TYPES][0]) if found[TYPES] else 0}")
    for kind, groups in zip(KINDS, found, strict=True) if in_full else ():
        for group in groups:
            print(f"  {kind}, {len(group)} files: {', '.join(group)}")


def git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=SOURCE.parent.parent, capture_output=True, check=True).stdout


def print_since(modules: list[Module], commit: str) -> None:
    """Print what a commit had, and today's lines in its files and in new ones. A file that was renamed is not new."""
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(git("archive", commit, "src/toolcrib"))) as archive:
            archive.extractall(folder, filter="data")
        root = Path(folder, "src/toolcrib")
        before = [read_module(path, root) for path in sorted(root.rglob("*.py"))]
    renamed = git("diff", "-M40", "--name-only", "--diff-filter=R", commit, "--", "src/toolcrib").decode().splitlines()
    known = {str(module.path) for module in before} | {name.removeprefix("src/toolcrib/") for name in renamed}
    print(f"{'room':<12}{'at ' + commit:>12}{'those now':>12}{'new files':>12}")
    for room in [*sorted({module.room for module in modules}), ""]:
        then = sum(m.sloc for m in before if room in ("", m.room))
        old, new = (
            sum(m.sloc for m in modules if room in ("", m.room) and (str(m.path) in known) is there)
            for there in (True, False)
        )
        print(f"{room or 'all':<12}{then:>12,}{old:>12,}{new:>12,}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=SOURCE, metavar="FOLDER", help="default: src/toolcrib")
    parser.add_argument("--files", action="store_true", help=f"list the files over {LARGE} lines")
    parser.add_argument("--names", action="store_true", help="list doubled class and file names with their files")
    parser.add_argument("--circles", action="store_true", help="list the files of each circle")
    parser.add_argument("--since", metavar="COMMIT", help="compare with a commit instead")
    options = parser.parse_args()
    root = options.folder.resolve()
    modules = [read_module(path, root) for path in sorted(root.rglob("*.py"))]
    if options.since:
        print_since(modules, options.since)
        return
    print_rooms(modules)
    print_wings(modules, root)
    print_large(modules, options.files)
    print_doubled("class names in several files", doubled(modules, lambda m: m.classes), options.names)
    print_doubled("file names used more than once", doubled(modules, file_name), options.names)
    print_circles(modules, options.circles)


if __name__ == "__main__":
    main()
