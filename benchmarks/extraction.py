"""How much of a page's main text does web_fetch find? F1 of 4-word shingles on an article extraction benchmark.

    python benchmarks/extraction.py FOLDER [--peers]

FOLDER has `ground-truth.json` ({ID: {"articleBody", "url"}}) and `html/ID.html.gz`, as Scrapinghub's
article-extraction-benchmark. What is measured is `toolcrib.builtin.web.extraction.work`, which web_fetch runs, with its
settings: the text it would answer with. `--peers` adds trafilatura and readability-lxml, called as that benchmark's own
scripts call them (readability-lxml needs html-text, too), and trafilatura with `fast=True`. Scores are that benchmark's:
4-word shingles, precision over pages for which something was found, F1 of the two means.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import statistics
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from toolcrib.builtin.web.extraction import work
from toolcrib.builtin.outgoing import mark


def shingles(text: str) -> Counter[tuple[str, ...]]:
    words = re.findall(r"\w+", text)
    return Counter(tuple(words[i : i + 4]) for i in range(max(1, len(words) - 3))) if words else Counter()


def score(extract: Callable[[bytes, str], str], folder: Path) -> tuple[float, float, float, float]:
    truth = json.loads((folder / "ground-truth.json").read_text())
    precision: list[float] = []
    recall: list[float] = []
    started = time.process_time()
    for name, row in truth.items():
        found = shingles(extract(gzip.decompress((folder / "html" / f"{name}.html.gz").read_bytes()), row["url"]))
        right = shingles(row["articleBody"])
        common = (found & right).total()
        if found:
            precision.append(common / found.total())
        if right:
            recall.append(common / right.total())
    spent = (time.process_time() - started) / len(truth)
    p, r = statistics.mean(precision), statistics.mean(recall)
    return p, r, 2 * p * r / (p + r), spent * 1e3


def ours(style: str) -> Callable[[bytes, str], str]:
    def extract(html: bytes, url: str) -> str:
        text = work({"what": "article", "style": style, "url": url}, html)[1].decode()
        return f"{mark(text)}\n{text}\n{mark(text)}"  # as it stands in the answer

    return extract


def peers() -> dict[str, Callable[[bytes, str], str]]:
    import trafilatura

    def extracted(**options: bool) -> Callable[[bytes, str], str]:
        return lambda html, url: trafilatura.extract(html.decode(), include_comments=False, **options) or ""

    found = {"trafilatura": extracted(), "trafilatura fast=True": extracted(fast=True)}
    try:
        import html_text
        from readability import Document
    except ImportError as missing:
        print(f"readability-lxml is left out: {missing} (pip install html-text readability-lxml)")
    else:
        found["readability-lxml"] = lambda html, url: html_text.extract_text(
            Document(html.decode("utf-8", "replace")).summary(html_partial=True)
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--peers", action="store_true")
    given = parser.parse_args()
    ways = {f"web_fetch, {style}": ours(style) for style in ("markdown", "text")} | (peers() if given.peers else {})
    for name, extract in ways.items():
        precision, recall, f1, spent = score(extract, given.folder)
        print(f"{name:36} P {precision:.3f}  R {recall:.3f}  F1 {f1:.4f}  {spent:.1f} ms CPU a page", flush=True)


if __name__ == "__main__":
    main()
