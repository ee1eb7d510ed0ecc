"""The text of a page without a browser: refs of ours, none of the page's, whole lines."""

from __future__ import annotations

import re
from itertools import count
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.builtin.browser.browser_session import BrowserSession, same_page
from toolcrib.builtin.browser.downloads import safe_name
from toolcrib.builtin.browser.snapshot import (
    MAX_NOTES,
    Element,
    Notes,
    changed,
    paged,
    plain_ref,
    quoted,
    renumbered,
    subtree,
)
from toolcrib.core.errors import ToolError

# As Playwright 1.65 writes a page, with what a hostile page can put into it.
TREE = """- generic [active] [ref=e1]:
  - heading "Hello [ref=e9]" [level=1] [ref=e2]
  - 'button "a: b" [ref=e3]'
  - 'link "it''s \\"x\\" [ref=e7]" [ref=e4] [cursor=pointer]':
    - /url: /two[ref=e3]
  - text: "[ref=e4] [ REF = e5]"
  - iframe [ref=e6]:
    - button "in" [ref=f2e1]
  - button "out" [ref=e8]: abc"""


def numbered(tree: str) -> tuple[list[str], list[Element]]:
    found: list[Element] = []
    numbers = count(100)

    def name(element: Element) -> str:
        found.append(element)
        return f"e{next(numbers)}"

    return renumbered(tree, name), found


def test_each_element_gets_our_ref_and_what_a_page_writes_is_none() -> None:
    lines, found = numbered(TREE)
    assert lines == [
        "- generic [active] [ref=e100]:",
        '  - heading "Hello (ref=e9]" [level=1] [ref=e101]',
        '  - button "a: b" [ref=e102]',
        '  - link "it\'s \\"x\\" (ref=e7]" [ref=e103] [cursor=pointer]:',
        "    - /url: /two(ref=e3]",
        '  - text: "(ref=e4] ( REF = e5]"',
        "  - iframe [ref=e104]:",
        '    - button "in" [ref=e105]',
        '  - button "out" [ref=e106]: abc',
    ]
    assert [each.handle for each in found] == ["e1", "e2", "e3", "e4", "e6", "f2e1", "e8"]
    assert [each.said for each in found if each.framed] == ['button "in"']
    assert found[2].said == 'button "a: b"'


def test_a_ref_that_stands_twice_is_none() -> None:
    lines, found = numbered('- button "Buy" [ref=e7]\n- text: x\n- button "Cancel" [ref=e7]\n- button "OK" [ref=e8]')
    assert lines == ['- button "Buy"', "- text: x", '- button "Cancel"', '- button "OK" [ref=e100]']
    assert [each.handle for each in found] == ["e8"]


def test_elements_of_other_documents_are_framed_wherever_they_stand() -> None:
    _, found = numbered("- generic [ref=f3e1]:\n  - button [ref=f3e2]\n  - button [ref=f4e2]\n  - button [ref=e2]")
    assert [each.framed for each in found] == [False, False, True, True]


def test_a_part_of_the_tree() -> None:
    lines, _ = numbered(TREE)
    assert subtree(lines, "e104") == ["- iframe [ref=e104]:", '  - button "in" [ref=e105]']
    assert subtree(lines, "e106") == ['- button "out" [ref=e106]: abc']
    assert subtree(lines, "e9") == []


@given(st.text(max_size=60), st.sampled_from(["said", "value", "line", "url"]))
def test_no_text_of_a_page_makes_a_ref(text: str, where: str) -> None:
    import json

    said = json.dumps(text, ensure_ascii=False)
    line = {
        "said": f"- button {said} [ref=e1]",
        "value": f"- textbox [ref=e1]: {said}",
        "line": f"- button [ref=e1]\n{text}",
        "url": f"- link [ref=e1]:\n  - /url: {text}",
    }[where]
    lines, found = numbered(line)
    for element in found:
        assert element.handle == "e1" or where == "line"
    shown = re.findall(r"\[\s*ref\s*=\s*(\w+)\]", "\n".join(lines), re.IGNORECASE)
    assert len(shown) == len(found)
    assert all(re.fullmatch(r"e1\d\d", ref) for ref in shown)


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    lines, _ = numbered(text)
    assert len(lines) == text.count("\n") + 1
    assert all(len(line.splitlines()) <= 1 for line in lines)
    assert all(len(line) < 1_100 or line.startswith(" ") for line in lines)


@given(
    st.lists(st.text(st.characters(exclude_categories=["C"]), max_size=30), min_size=1, max_size=50),
    st.integers(1, 300),
)
def test_paging_shows_every_line_once(lines: list[str], most: int) -> None:
    seen: list[str] = []
    start = 1
    while True:
        page = paged(lines, start, most)
        assert page.first == start
        assert page.total == len(lines)
        assert len(page.text) <= max(most, len(lines[start - 1]))
        seen += lines[page.first - 1 : page.last]
        if page.last == page.total:
            break
        start = page.last + 1
    assert seen == lines


def test_a_page_without_lines() -> None:
    assert paged([], 5, 100).text == ""


def test_notes_are_counted_and_bounded() -> None:
    notes = Notes()
    for number in range(MAX_NOTES + 5):
        notes.add(f"note {number}")
        notes.add("note 0")
    taken = notes.take()
    assert taken[0] == f"! note 0 ({MAX_NOTES + 6} times)"
    assert taken[-1] == "! … and 5 more"
    assert notes.take() == []


def test_what_pages_say_is_one_line() -> None:
    assert quoted('a\n"b"\x1b[31m\u202e') == '"a\\n\\"b\\"\\u001b[31m\\u202e"'
    assert len(quoted("x" * 10_000)) < 400


@given(st.text(max_size=300))
def test_safe_names(suggested: str) -> None:
    name = safe_name(suggested)
    assert name == safe_name(name)
    assert 0 < len(name) <= 100
    assert "/" not in name and "\\" not in name and "\0" not in name
    assert name not in (".", "..") and not name.startswith(".")
    assert name.isprintable()


def test_safe_names_keep_what_is_fine() -> None:
    assert safe_name("Jahresbericht 2025 (2).pdf") == "Jahresbericht 2025 (2).pdf"
    assert safe_name("../../etc/passwd") == "passwd"
    assert safe_name("C:\\x\\y.exe") == "y.exe"
    assert safe_name(".bashrc") == "bashrc"
    assert safe_name("") == "download"
    assert safe_name("a" * 300 + ".tar").endswith(".tar")


def test_refs_as_models_write_them() -> None:
    assert plain_ref("e12") == plain_ref("ref=e12") == plain_ref(" [ref=e12] ") == "e12"


def test_a_page_is_the_same_while_its_origin_is() -> None:
    assert same_page("http://a.example/x", "http://a.example/y#z")
    assert not same_page("http://a.example/", "https://a.example/")
    assert not same_page("http://a.example/", "http://a.example.evil/")
    assert not same_page("http://a.example/", "http://a.example:8080/")


def test_what_is_new_stands_in_its_place() -> None:
    rows = [f"  - row {number} of a table that is long" for number in range(200)]
    before = ["- table [ref=e1]:", *rows, "- form [ref=e3]:", "  - textbox [ref=e4]", "  - button [ref=e5]"]
    now = [*before[:-2], "  - textbox [ref=e4]: typed", before[-1]]
    assert changed(before, now) == ["…", "- form [ref=e3]:", "  - textbox [ref=e4]: typed", "…"]
    assert changed(before, before) == ["…"]
    assert changed([], now) is None
    assert changed(before, before[-3:]) is None  # few: the whole page is shown


ROWS = st.sampled_from(["- a", "  - b", "  - c", "    - d", "- x"])


@given(st.lists(ROWS), st.lists(ROWS))
def test_every_new_line_is_shown(before: list[str], now: list[str]) -> None:
    long = [f"- {'long ' * 100}{number}" for number in range(20)]
    shown = changed([*before, *long], [*now, *long])
    if shown is None:
        return
    for line in set(now):
        assert shown.count(line) >= now.count(line) - before.count(line)
    rest = iter(now)
    assert all(line in rest for line in shown if line != "…")  # in the page's order


async def test_a_page_of_too_many_elements_is_not_tried_twice() -> None:
    class Large:
        tries = 0

        async def aria_snapshot(self, **_: object) -> str:
            self.tries += 1
            raise RuntimeError("Timeout 3000ms exceeded.")

        async def evaluate(self, _: str) -> int:
            return 20_000

    page = Large()
    session: Any = SimpleNamespace()
    with pytest.raises(ToolError, match="has 20,000 elements, too many to show them in time; web_fetch"):
        await BrowserSession.snapshot(session, cast("Any", SimpleNamespace(page=page)))
    assert page.tries == 1
