"""Research with sources: the answer names a page and a passage for each claim, and the program checks the passages.

    python research.py                                               # three local pages and a scripted model
    python research.py --model anthropic:claude-opus-5-5 "Who …?"    # any model, the real web

A passage that is not on a page that the agent really read is marked. Models invent quotations; this finds them.
"""

import argparse
import asyncio
import contextlib
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from toolcrib import Toolbox
from toolcrib.agent import Agent, AgentEvent, Model
from toolcrib.agent.events import CallDone
from toolcrib.config import load_settings
from toolcrib.testing import ScriptedModel

ANSWER = {
    "type": "object",
    "properties": {
        "claims": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "text": {"type": "string"},
                    "url": {"type": "string"},
                    "passage": {"type": "string", "description": "Copied word for word from that page."},
                },
                "required": ["text", "url", "passage"],
            },
        }
    },
    "required": ["claims"],
}
PAGES = {
    "/tower": "<h1>The tower</h1><p>The tower was built in 1889 and is 330 metres high.</p>",
    "/bridge": "<h1>The bridge</h1><p>The bridge was opened in 1937.</p>",
}


def script(base: str) -> list[dict[str, object]]:
    def claim(text: str, page: str, passage: str) -> dict[str, str]:
        return {"text": text, "url": base + page, "passage": passage}

    claims = [
        claim("The tower is from 1889.", "/tower", "built in 1889"),
        claim("The bridge is from 1937.", "/bridge", "opened in 1937"),
        claim("The bridge is red.", "/bridge", "painted in a deep red"),
    ]
    return [
        {"calls": [{"name": "web_fetch", "arguments": {"url": base + page}} for page in PAGES]},
        {"calls": [{"name": "final_answer", "arguments": {"claims": claims}}]},
    ]


@contextlib.contextmanager
def pages() -> Iterator[str]:
    """Serve the pages on this machine."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = PAGES.get(self.path, "").encode()
            self.send_response(200 if body else 404)
            self.send_header("content-type", "text/html; charset=utf-8")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


async def research(question: str, model: str | Model, grant: tuple[str, ...] = ()) -> int:
    read: dict[str, str] = {}  # what the agent really read, by address

    def keep(event: AgentEvent) -> None:
        if isinstance(event, CallDone) and event.call.name == "web_fetch" and not event.output.is_error:
            read[str(event.call.object.get("url"))] = event.output.for_llm

    with tempfile.TemporaryDirectory() as folder:
        settings = load_settings(workspace=folder, flags={"mode": "observer"})
        if grant:
            settings = replace(settings, web=replace(settings.web, allow_private=grant))
        async with Toolbox.open(settings=settings) as box, await Agent.open(box, model) as agent:
            outcome = await agent.run(
                f"{question}\nSearch the web and read pages. Support each claim by a passage.", emit=keep, schema=ANSWER
            )
    if outcome.state != "done":
        print(f"no answer: {outcome.state} {outcome.reason}", file=sys.stderr)
        return 2
    for number, claim in enumerate(outcome.data["claims"], 1):
        there = _words(claim["passage"]) in _words(read.get(claim["url"], ""))
        print(f"{number}. {claim['text']}\n   {'source' if there else 'NOT ON THE PAGE'}: {claim['url']}")
        print(f"   “{claim['passage']}”")
    return 0


def _words(text: str) -> str:
    return " ".join(text.split()).casefold()


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("question", nargs="?", default="When were the tower and the bridge built?")
    options.add_argument("--model", help="anthropic:NAME, openai:NAME, ollama:NAME … Default: a script.")
    given = options.parse_args()
    if given.model:
        return asyncio.run(research(given.question, given.model))
    with pages() as base:
        return asyncio.run(research(given.question, ScriptedModel(script(base)), (base.removeprefix("http://"),)))


if __name__ == "__main__":
    sys.exit(main())
