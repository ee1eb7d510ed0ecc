"""Links in README and docs lead to files and headings that exist; the glossary and the list of commands are right."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest

from toolcrib.cli.app import COMMANDS

ROOT = Path(__file__).parent.parent
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md")), ROOT / "benchmarks" / "README.md"]

_FENCE = re.compile(r"^(```+|~~~+).*?^\1[ \t]*$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)", re.DOTALL)
_LINK = re.compile(r"\]\(\s*<?([^()\s<>]*(?:\([^()\s]*\)[^()\s<>]*)*)>?(?:\s+\"[^\"]*\")?\s*\)")
_DEFINED = re.compile(r"^ {0,3}\[[^\]]+\]:\s*<?(\S+?)>?(?:\s|$)", re.MULTILINE)
_HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]+(.+?)[ \t]*#*[ \t]*$", re.MULTILINE)


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


def test_the_number_of_attack_lines_is_right() -> None:
    lines = (ROOT / "tests" / "policy" / "shell" / "corpus" / "attacks.txt").read_text().splitlines()
    count = f"{sum(not line.startswith('# ') for line in lines if line):,}"
    assert f"harmful commands that attack the judgement: {count} |" in (ROOT / "docs" / "security.md").read_text()
    assert f"has {count} lines that must never be allowed" in (ROOT / "docs" / "shell.md").read_text()
