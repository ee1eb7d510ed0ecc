"""The trace of whoever starts a job goes on in the worker that runs it, in another process."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

pytest.importorskip("dbos")

PROGRAM = """
import asyncio, sys
from opentelemetry import trace
from opentelemetry.baggage import set_baggage
from opentelemetry.context import attach
from opentelemetry.trace import NonRecordingSpan, NoOpTracer, SpanContext, TraceFlags, TracerProvider
from toolcrib import Toolbox
from toolcrib.cli.jobs.hosted_jobs import hosted_jobs
from toolcrib.jobs.host import open_engine
from toolcrib.jobs.job_tool import JobTool

class Provider(TracerProvider):
    def get_tracer(self, *args, **kwargs):
        return Tracer()

class Tracer(NoOpTracer):
    def start_span(self, name, *args, **kwargs):
        above = trace.get_current_span().get_span_context()
        print(name, format(above.trace_id, "x"), format(above.span_id, "x"), flush=True)
        return super().start_span(name, *args, **kwargs)

if "traced" in sys.argv:
    trace.set_tracer_provider(Provider())

async def submit(box):
    engine = open_engine(box.settings, box.state.path, print)
    async def opened():
        return engine
    box.registry.register(JobTool(box, opened))
    above = NonRecordingSpan(SpanContext(0xabc, 0xde, False, TraceFlags(1)))
    attach(set_baggage("user", "somebody"))
    with trace.use_span(above):
        output = await box.call("job", {"action": "start", "tool": "read_file", "arguments": {"path": "a.txt"}})
    assert not output.is_error, output.for_llm
    await engine.aclose()

async def work(box):
    async with hosted_jobs(box, lambda: None) as host:
        engine = await host.engine()
        [job] = await engine.jobs()
        assert (await engine.result(job.job.id, 60)).state == "done"
        assert set(job.job.trace) <= {"traceparent"}, job.job.trace

async def main():
    async with Toolbox.open(sys.argv[1]) as box:
        await (submit if sys.argv[2] == "submit" else work)(box)

asyncio.run(main())
"""


@pytest.mark.parametrize("traced", [True, False])
def test_the_trace_goes_through_a_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forked_python: str, traced: bool
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "work").mkdir()
    (tmp_path / "work/a.txt").write_text("alpha")
    said: list[str] = []
    for what in ("submit", "work"):
        words = [forked_python, "-c", PROGRAM, str(tmp_path / "work"), what, *(["traced"] if traced else [])]
        done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        said += done.stdout.splitlines()
    assert said == (["execute_tool job abc de", "execute_tool read_file abc de"] if traced else [])
