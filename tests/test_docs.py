"""Links in README and docs lead to files and headings that exist; code blocks are valid; lists are complete."""

import ast
import doctest
import itertools
import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest

from toolcrib.cli.app import COMMANDS, load
from toolcrib.cli.app import ROOT as COMMAND_LINE
from toolcrib.cli.exit_codes import Usage
from toolcrib.cli.reader import CommandGroup, read
from toolcrib.config import load_settings
from toolcrib.core.tool import ToolCategory
from toolcrib.policy.policy import MODES

ROOT = Path(__file__).parent.parent
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md")), ROOT / "benchmarks" / "README.md"]

_FENCE = re.compile(r"^(```+|~~~+).*?^\1[ \t]*$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)", re.DOTALL)
_LINK = re.compile(r"\]\(\s*<?([^()\s<>]*(?:\([^()\s]*\)[^()\s<>]*)*)>?(?:\s+\"[^\"]*\")?\s*\)")
_DEFINED = re.compile(r"^ {0,3}\[[^\]]+\]:\s*<?(\S+?)>?(?:\s|$)", re.MULTILINE)
_HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]+(.+?)[ \t]*#*[ \t]*$", re.MULTILINE)
_BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^(?: {4}|(?=\$ |toolcrib ))(?:\$ |[^`\n]*\| )?(toolcrib(?: .*)?)$", re.MULTILINE)
_SHELL = "();<>|&"
_INLINE = re.compile(r"(?<!`)`toolcrib ([a-z]+)\b")


def links(text: str) -> list[str]:
    """The targets of a page's links that lead into the repository; those in code are none."""
    text = _CODE.sub("code", _FENCE.sub("", text))
    found = _LINK.findall(text) + _DEFINED.findall(text)
    return [link for link in found if not re.match(r"[a-z][a-z0-9+.-]*:|//", link, re.IGNORECASE)]


def anchors(text: str) -> set[str]:
    """The anchors that GitHub gives a page's headings: lower case, `-` for spaces, numbered where they repeat."""
    return set(_anchors(text)) | set(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", text))


def _anchors(text: str) -> Iterator[str]:
    seen: dict[str, int] = {}
    for heading in _HEADING.findall(_FENCE.sub("", text)):
        words = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        slug = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
        count = seen.get(slug, 0)
        seen[slug] = count + 1
        yield f"{slug}-{count}" if count else slug


def broken(page: Path, text: str) -> list[str]:
    """The links of a page that lead nowhere."""
    wrong: list[str] = []
    for link in links(text):
        path, _, anchor = unquote(link).partition("#")
        target = page.parent / path if path else page
        if not target.exists():
            wrong.append(f"{link}: there is no such file")
        elif anchor and target.suffix == ".md" and anchor not in anchors(target.read_text()):
            wrong.append(f"{link}: there is no such heading")
    return wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert broken(page, page.read_text()) == []


def test_the_check_sees_broken_links(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    (tmp_path / "other.md").write_text("# A `code` title: *this* & that\n## Twice\n## Twice\n```\n# no heading\n```\n")
    good = (
        "[a](other.md) [b](other.md#a-code-title-this--that) [c](other.md#twice-1) [d](#here) `[e](none.md)`\n# Here\n"
    )
    page.write_text(good)
    assert broken(page, good + "```\n[x](none.md)\n```\n[f](https://example.com/#x)\n[g]: other.md\n") == []
    assert broken(page, "[a](none.md)") == ["none.md: there is no such file"]
    assert broken(page, "[a](other.md#no-heading)") == ["other.md#no-heading: there is no such heading"]
    assert broken(page, "[a]: other.md#twice-2\n") == ["other.md#twice-2: there is no such heading"]


def test_the_glossary_names_classes_that_exist() -> None:
    named = set(re.findall(r"`([A-Z][A-Za-z]+)`", (ROOT / "docs" / "glossary.md").read_text()))
    code = "\n".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    assert named
    assert {name for name in named if not re.search(rf"^class {name}\b", code, re.MULTILINE)} == set()


def test_every_command_is_on_the_page_of_the_command_line() -> None:
    page = (ROOT / "docs" / "cli.md").read_text()
    assert [name for name in COMMANDS if not re.search(rf"^\| `{name}\b", page, re.MULTILINE)] == []


def test_texts_refer_only_to_what_a_reader_has() -> None:
    unknown = re.compile(r"\bspec \d|\b(?:first|second|third|one|other) design\b|\bthe designs\b|\bdesigns'")
    texts = [*PAGES, *(ROOT / "examples").rglob("*.py"), *(ROOT / "src").rglob("*.py")]
    found = [f"{path}: {line}" for path in texts for line in path.read_text().splitlines() if unknown.search(line)]
    assert found == []


def test_every_section_is_on_the_page_of_the_configuration() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text()
    keys = json.loads((ROOT / "docs" / "config.schema.json").read_text())["properties"].keys() - {
        "$schema",
        "mcpServers",
    }
    assert [key for key in sorted(keys) if not re.search(rf"^\|.*`(?:\[+)?{key}\b.*\|.*\|", page, re.MULTILINE)] == []


def test_the_table_of_modes_is_that_of_the_policy() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text().partition("## Modes")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*`) \| (\w+) \| (\w+) \| (\w+) \|$", page, re.MULTILINE)
    said = {name: tuple(verdicts) for names, *verdicts in rows for name in re.findall(r"\w+", names)}
    assert said == {each.value: tuple(MODES[mode][each] for mode in MODES) for each in ToolCategory}


def test_the_number_of_attack_lines_is_right() -> None:
    lines = (ROOT / "tests" / "policy" / "shell" / "corpus" / "attacks.txt").read_text().splitlines()
    count = f"{sum(not line.startswith('# ') for line in lines if line):,}"
    assert f"harmful commands that attack the judgement: {count} |" in (ROOT / "docs" / "security.md").read_text()
    assert f"has {count} lines that must never be allowed" in (ROOT / "docs" / "shell.md").read_text()


def faults(text: str) -> list[str]:
    """What is wrong with the code blocks of a page."""
    wrong: list[str] = []
    for kind, block in _BLOCK.findall(text):
        try:
            if kind == "toml":
                tomllib.loads(block)
            elif kind == "json":
                _json(block)
            elif kind == "python":
                compile(_typed(block), "block", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            elif kind not in ("", "sh", "text"):
                wrong.append(f"{kind} is not a kind of block that is checked")
        except ValueError as error:
            wrong.append(f"{kind}: {error}: {block}")
        except SyntaxError as error:
            wrong.append(f"{kind}: {error}: {block}")
    return wrong + [f"there is no command {name}" for name in _INLINE.findall(text) if name not in COMMANDS]


def _json(block: str) -> None:
    """Read one JSON value, or one on each line."""
    try:
        json.loads(block)
    except ValueError:
        for line in filter(str.strip, block.splitlines()):
            json.loads(line)


def _typed(block: str) -> str:
    """The code of a block that shows what a person types at Python's prompt."""
    return doctest.script_from_examples(block) if block.startswith(">>>") else block


def wrong_commands(text: str) -> list[str]:
    """The `toolcrib` commands of a page that the command line refuses, with the reason."""
    wrong: list[str] = []
    for line in _COMMAND.findall(text.replace("\\\n", "")):
        words = shlex.shlex(line, posix=True, punctuation_chars=_SHELL)
        words.whitespace_split = True
        command = itertools.takewhile(lambda word: not set(word) <= set(_SHELL), words)
        try:
            read(COMMAND_LINE, "toolcrib", [*command][1:])  # what it returns would run it
        except (Usage, ValueError) as error:
            wrong.append(f"{line}: {error}")
    return wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_blocks_and_commands_are_valid(page: Path) -> None:
    text = page.read_text()
    assert faults(text) + wrong_commands(text) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_settings_in_blocks_load(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    file = tmp_path / "toolcrib.toml"
    for kind, block in _BLOCK.findall(page.read_text()):
        if kind == "toml" and "[project" not in block:
            file.write_text(block)
            load_settings(workspace=tmp_path, config=file)


def test_the_check_sees_faults_in_blocks() -> None:
    page = "```%s\n%s\n```\n"
    assert faults(page % ("toml", "a = 1") + page % ("json", '{"a": 1}\n{"a": 2}') + page % ("python", "await x")) == []
    assert faults(page % ("python", ">>> 1 + 1\n2")) == []
    for kind, block in (("toml", "a = "), ("json", "{"), ("python", "x ="), ("rust", "x"), ("python", ">>> x =")):
        assert len(faults(page % (kind, block))) == 1
    assert faults("`toolcrib list`, `toolcrib lst`") == ["there is no command lst"]
    good = "    toolcrib list --json | jq .  # the tools\n\n    $ toolcrib call exec 'a | b' > out\n"
    assert wrong_commands(good) == []
    assert (
        len(wrong_commands("    toolcrib lst\n    ls | toolcrib call --nonsense\n```sh\n$ toolcrib mcp ad\n```\n")) == 3
    )


def test_every_subcommand_is_on_the_page_of_the_command_line() -> None:
    page = (ROOT / "docs" / "cli.md").read_text()
    rows = {name: row for row in page.splitlines() for name in COMMANDS if row.startswith(f"| `{name}")}
    groups = {name: group for name in COMMANDS if isinstance(group := load(name), CommandGroup)}
    missing = [
        f"{name} {sub}" for name, group in groups.items() for sub in group.summaries
        if not re.search(rf"\b{sub}\b", rows[name])
    ]  # fmt: skip
    assert missing == []


def test_the_map_of_rooms_names_files_that_are_there() -> None:
    source = ROOT / "src" / "toolcrib"
    rows = re.findall(r"^\| `(\w+)/` \|(.*)", (ROOT / "docs" / "architecture.md").read_text(), re.MULTILINE)
    named = [(room, name) for room, row in rows for name in re.findall(r"`([a-z_/]+)`", row)]
    there = {room: {path.stem for path in (source / room).rglob("*")} for room, _ in rows}
    others = {"prune_folder", "web_fetch", "exec"}  # a function, and names of tools
    missing = [
        f"{room}: {name}" for room, name in named
        if not name.startswith("/") and name.rstrip("/").rpartition("/")[2] not in there[room] | others
        and not (source / f"{name}.py").exists()
    ]  # fmt: skip
    assert len(named) > 300
    assert missing == []
