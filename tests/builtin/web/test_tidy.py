"""Pages that trafilatura reads wrongly as they come, and what is done about it."""

import pytest

from toolcrib.builtin.web.extraction import main_text, without_targets, work

FILLER = "<p>A paragraph of ordinary text that is long enough to be taken for the main text of a page, twice over.</p>"

LINKED_CODE = (
    '<p>Set <code><a href="a">Dir</a></code>, or <code>x</code> (in <code><a href="b">Loc</a></code> sections)'
    " as needed by whoever reads this sentence of some length.</p>"
)


def text_of(html: str, style: str = "markdown") -> str:
    page = f"<html><body><article><h1>Title of it</h1>{FILLER * 3}{html}{FILLER}</article></body></html>"
    return main_text(page, "https://site.example/docs/page.html", style)


@pytest.mark.parametrize(
    ("html", "kept"),
    [
        ('<h2><a class="anchor" href="#use"><span class="icon"></span></a>Usage</h2><p>text</p>', "## Usage"),
        (
            LINKED_CODE,
            "Set [Dir](https://site.example/docs/a), or `x` (in [Loc](https://site.example/docs/b) sections)",
        ),
        (
            '<pre class="programlisting">\nSELECT <b>a_b</b>,\n  <a href="r">round</a>(x)\n</pre>',
            "```\nSELECT a_b,\n  round(x)\n```",
        ),
        (
            '<div class="section" id="related-objects"><h2>Related objects</h2>' + FILLER.replace("A ", "Another ") * 6,
            "Another paragraph of ordinary text",
        ),
        (
            "<table><tr><td><h2>Widget</h2><p>A container for buttons in a row.</p></td><td></td></tr></table>",
            "A container for buttons in a row.",
        ),
        (
            "<div>First words in a <b>div</b> of its own, which is a paragraph.</div>",
            "First words in a **div** of its own",
        ),
    ],
    ids=["anchor", "code link", "pre", "section", "frame", "div"],
)
def test_nothing_is_lost(html, kept):
    assert kept in text_of(html)


def test_underlined_text_has_no_tags():
    kept = "The paper was published in the journal Science by both of them, at the end of a long year."
    assert kept in text_of(f"<p>{kept.replace('Science', '<u>Science</u>')}</p>")


def test_related_articles_are_still_left_out():
    links = "".join(f'<li><a href="/{n}">Some other article about something, number {n}</a></li>' for n in range(12))
    assert "other article" not in text_of(f'<section id="related"><h2>Related</h2><ul>{links}</ul></section>')


def test_links_of_code_are_listed_and_code_stays():
    text, links = without_targets(
        "Use [`json`](https://x.example/json) and `[a](b)`.\n\n```\n[c](d)\n```\n[e](https://x.example/e)"
    )
    assert text == "Use [`json`] and `[a](b)`.\n\n```\n[c](d)\n```\n[e]"
    assert links == [["`json`", "https://x.example/json"], ["e", "https://x.example/e"]]


def test_links_with_brackets_in_their_text_are_listed():
    text, links = without_targets(r"See [a review \[Video\]](https://x.example/v) of it.")
    assert text == r"See [a review \[Video\]] of it."
    assert links == [[r"a review \[Video\]", "https://x.example/v"]]


def test_two_main_texts_that_differ_much_are_a_doubt(monkeypatch: pytest.MonkeyPatch):
    def found(html: str, url: str, style: str, careful: bool = False) -> str:
        return "The whole article. " * 40 if careful else "Its first caption, which is long enough. " * 10

    monkeypatch.setattr("toolcrib.builtin.web.extraction.main_text", found)
    about, text = work({"what": "article", "url": "https://x.example"}, b"<html></html>")
    assert text.startswith(b"The whole article.")
    assert "410 and 760 characters" in about["doubt"]


def test_two_main_texts_that_differ_little_are_no_doubt():
    page = f"<html><body><article><h1>Title of it</h1>{FILLER * 9}</article></body></html>"
    about, text = work({"what": "article", "url": "https://x.example"}, page.encode())
    assert b"ordinary text" in text
    assert "doubt" not in about
