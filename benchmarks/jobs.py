"""Jobs in a database, compared with bare DBOS in the same run.

    python benchmarks/jobs.py                            # all parts on a SQLite file in --folder
    python benchmarks/jobs.py --postgres URL             # on a Postgres server, in databases that it makes there
    python benchmarks/jobs.py --part rate --part idle    # some of: rate, latency, idle, workers, tenants, parked, server, cancel

rate: jobs without work, one process that submits and runs them; bare DBOS with a workflow of one preemptible step, the
same queue limit and the same polling; ours and bare in turns, the median of three. latency: from the call of submit to
the first line of the runner, in an idle worker. idle: CPU of a worker with nothing to do. workers: 1,000 jobs that
sleep 50 ms, submitted as fast as one process can, then 100 one by one, with 1 to 8 worker processes (one on SQLite). tenants: a tenant with 1,000 jobs of 20 ms and one with 10 that
come last; when the last of the small one began, as part of the whole time. parked: a worker before and after 10,000
jobs have parked, and the time from a signal to the run that it begins. server: what a job costs on the Postgres server, if
that is on this machine and does nothing else.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from toolcrib.jobs.durable import DurableEngine
from toolcrib.jobs.engine import Job, JobOutcome, JobRun, Limits

LIMIT, POLL = 32, 0.4
PARTS = ("rate", "latency", "idle", "workers", "tenants", "parked", "server", "cancel")


def cpu() -> float:
    return sum(resource.getrusage(resource.RUSAGE_SELF)[:2])


def rss() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


async def runner(job: Job, run: JobRun) -> JobOutcome:
    began = time.time()
    if job.kind == "park" and not run.signals:
        return JobOutcome("parked", waits_for=("go",))
    if seconds := job.body.get("seconds"):
        await asyncio.sleep(seconds)
    return JobOutcome("done", began)


async def ours(url: str, count: int) -> dict[str, float]:
    engine = DurableEngine(url, poll=POLL)
    await engine.work(runner, limits=Limits(worker=LIMIT))
    await engine.result(await engine.submit(Job("warm", {})), 30)
    wall, used = time.perf_counter(), cpu()
    for n in range(count):
        await engine.submit(Job("call", {"n": n}))
    client = await engine._opened()
    while await asyncio.to_thread(lambda: client.list_workflows(status=["ENQUEUED", "PENDING"], limit=1)):
        await asyncio.sleep(0.02)
    found = {"rate": count / (time.perf_counter() - wall), "cpu_ms": (cpu() - used) / count * 1000}
    await engine.aclose()
    return found


async def server(url: str, count: int) -> None:
    """What a job costs on a Postgres server of this machine: commits, bytes of its log, CPU, rows."""
    import psycopg

    engine = DurableEngine(url, poll=POLL)
    await engine.work(runner, limits=Limits(worker=LIMIT))
    await engine.result(await engine.submit(Job("warm", {})), 30)
    name = url.rpartition("/")[2]
    with psycopg.connect(url.rpartition("/")[0] + "/postgres", autocommit=True) as connection:

        def now() -> tuple[float, ...]:
            time.sleep(2)  # the statistics are written with a delay
            commits = "SELECT xact_commit, pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0') FROM pg_stat_database"
            row = connection.execute(f"{commits} WHERE datname = %s".encode(), [name]).fetchone()
            size = connection.execute("SELECT pg_database_size(%s)", [name]).fetchone()
            return float(row[0]), float(row[1]), server_cpu(name), float(size[0])

        began, before = time.time(), now()
        await asyncio.gather(*(submit_all(engine, [Job("call", {}) for _ in range(count // 8)]) for _ in range(8)))
        while await engine.jobs(states=["queued", "running"], limit=1):
            await asyncio.sleep(0.1)
        found = [(b - a) / (count // 8 * 8) for a, b in zip(before, now(), strict=True)]
        idle = now()
        await asyncio.sleep(20)
        rest = [(b - a) / (22 + 2) for a, b in zip(idle, now(), strict=True)]
    print(
        f"  server: a job: {found[0]:.1f} commits, {found[1] / 1000:.1f} kB of log, "
        f"{found[2] * 1000:.1f} ms CPU, {found[3] / 1000:.1f} kB of tables and indexes; an idle worker each second: "
        f"{rest[0]:.1f} commits, {rest[2] * 1000:.1f} ms CPU ({time.time() - began:.0f} s)",
        flush=True,
    )
    await engine.aclose()


def server_cpu(name: str) -> float:
    """Return the CPU seconds of the server that has a connection to this database, with all its processes."""
    found: dict[str, tuple[str, list[str]]] = {}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (process / "stat").read_text().rpartition(")")[2].split()
            found[process.name] = (process / "cmdline").read_text(), words
    main = next(words[1] for text, words in found.values() if f" {name} " in text and text.startswith("postgres:"))
    ticks = sum(map(int, found[main][1][11:15]))  # with those that have ended
    ticks += sum(int(t) for _, words in found.values() if words[1] == main for t in words[11:13])
    return ticks / os.sysconf("SC_CLK_TCK")


async def bare(url: str, count: int) -> dict[str, float]:
    from dbos import DBOS, DBOSClient, DBOSPortableJSONSerializer

    @DBOS.step(preemptible=True)
    async def step(body: object) -> object:
        return {"state": "done", "output": time.time()}

    @DBOS.workflow(name="bare")
    async def workflow(body: object) -> object:
        return await step(body)

    settings = {"system_database_url": url, "serializer": DBOSPortableJSONSerializer()}
    DBOS(config={"name": "bare", "application_version": "1", "log_level": "ERROR", **settings})
    await asyncio.to_thread(DBOS.launch)
    await DBOS.register_queue_async("q", worker_concurrency=LIMIT, polling_interval_sec=POLL)
    client = await asyncio.to_thread(lambda: DBOSClient(application_name="bare", **settings))
    options = {"workflow_name": "bare", "queue_name": "q"}
    await (await client.enqueue_async(options, {})).get_result(polling_interval_sec=0.05)
    wall, used = time.perf_counter(), cpu()
    for n in range(count):
        await client.enqueue_async(options, json.dumps({"kind": "call", "body": {"n": n}}))
    while await asyncio.to_thread(lambda: client.list_workflows(status=["ENQUEUED", "PENDING"], limit=1)):
        await asyncio.sleep(0.02)
    found = {"rate": count / (time.perf_counter() - wall), "cpu_ms": (cpu() - used) / count * 1000}
    await asyncio.to_thread(DBOS.destroy)
    return found


async def serve(url: str, limit: int) -> dict[str, float]:
    """A worker until its standard input ends; each line is answered with its CPU seconds and memory."""
    engine = DurableEngine(url, poll=POLL)
    await engine.work(runner, limits=Limits(worker=limit))
    print("ready", flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
        print(json.dumps({"cpu": cpu(), "rss": rss()}), flush=True)
    await engine.aclose()
    return {}


class Worker:
    def __init__(self, url: str, limit: int = 16) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--child", "serve", url, str(limit)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.process.stdout.readline() == "ready\n"

    def ask(self) -> dict[str, float]:
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def idle(self, seconds: float = 10) -> dict[str, float]:
        before, began = self.ask(), time.perf_counter()
        time.sleep(seconds)
        after = self.ask()
        return {
            "cpu_percent": (after["cpu"] - before["cpu"]) / (time.perf_counter() - began) * 100,
            "rss_mb": after["rss"],
        }

    def end(self) -> None:
        self.process.stdin.close()
        self.process.wait(30)


def child(what: str, url: str, number: int) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, __file__, "--child", what, url, str(number)], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def rate(fresh: object, count: int) -> None:
    found: dict[str, list[dict[str, float]]] = {"bare": [], "ours": []}
    for _ in range(3):
        for what in found:
            found[what].append(child(what, fresh(), count))
    for key in ("rate", "cpu_ms"):
        b, o = (statistics.median(one[key] for one in found[what]) for what in ("bare", "ours"))
        print(f"  rate: {key}: bare DBOS {b:.1f}, ours {o:.1f}, ours / bare {o / b:.2f}", flush=True)


async def latency(url: str, count: int = 150) -> None:
    worker, engine, times = Worker(url), DurableEngine(url), []
    for _ in range(count):
        await asyncio.sleep(random.uniform(0, 0.2))
        began = time.time()
        times.append((await engine.result(await engine.submit(Job("call", {})), 30)).output - began)
    times.sort()
    print(
        f"  latency: median {statistics.median(times) * 1000:.0f} ms, 99 % {times[int(count * 0.99)] * 1000:.0f} ms",
        flush=True,
    )
    await engine.aclose()
    worker.end()


async def spread(url: str, workers: int, count: int) -> None:
    engine = DurableEngine(url)
    await engine.jobs(limit=1)
    running = [Worker(url) for _ in range(workers)]
    for waiting in (True, False):  # all queued at once, then one each 20 ms: what a worker needs to hear of one
        name = f"{workers}-{waiting}"
        jobs = [Job("call", {"seconds": 0.05}, id=f"{name}-{n}") for n in range(count if waiting else 100)]
        began = time.time()
        if waiting:
            await asyncio.gather(*(submit_all(engine, jobs[first::8]) for first in range(8)))
        else:
            for job in jobs:
                await engine.submit(job)
                await asyncio.sleep(0.02)
        while await engine.jobs(states=["queued", "running"], limit=1):
            await asyncio.sleep(0.05)
        ends = [s for s in await engine.jobs(states=["done"], limit=2_000) if s.job.id.startswith(f"{name}-")]
        span = max(s.ended for s in ends) - began
        late = sorted(s.started - s.created for s in ends)
        print(
            f"  workers: {workers}: {len(ends)} jobs, {'all at once' if waiting else 'one by one'}: "
            f"{len(ends) / span:.0f} jobs/s; from queued to started: median {statistics.median(late) * 1000:.0f} ms, "
            f"99 % {late[int(len(late) * 0.99)] * 1000:.0f} ms",
            flush=True,
        )
    for worker in running:
        worker.end()
    await engine.aclose()


async def submit_all(engine: DurableEngine, jobs: list[Job]) -> None:
    for job in jobs:
        await engine.submit(job)


async def tenants(url: str, count: int) -> None:
    engine = DurableEngine(url)
    for n in range(count + 10):
        await engine.submit(Job("call", {"seconds": 0.02}, tenant="noisy" if n < count else "small"))
    worker = Worker(url, 8)
    while await engine.jobs(states=["queued", "running"], limit=1):
        await asyncio.sleep(0.05)
    ends = await engine.jobs(limit=100_000)
    start, end = min(s.started for s in ends), max(s.ended for s in ends)
    small = max(s.ended for s in ends if s.job.tenant == "small") - start
    print(
        f"  tenants: the small one ended after {small:.1f} s of {end - start:.1f} s: {small / (end - start):.0%}",
        flush=True,
    )
    worker.end()
    await engine.aclose()


async def parked(url: str, count: int) -> None:
    engine = DurableEngine(url)
    filler = Worker(url, 64)
    jobs = [await engine.submit(Job("call", {}))]
    await engine.result(jobs[0], 30)
    filler.end()
    worker = Worker(url)
    before = worker.idle()
    worker.end()
    filler = Worker(url, 64)
    jobs = [await engine.submit(Job("park", {})) for _ in range(count)]
    while len(await asyncio.to_thread(engine.store.parked, count)) < count:
        await asyncio.sleep(0.5)
    filler.end()
    worker = Worker(url)
    after = worker.idle()
    waits = []
    for job in random.sample(jobs, 20):
        began = time.time()
        assert await engine.signal(job, "go")
        waits.append((await engine.result(job, 30)).output - began)
    print(
        f"  parked: idle with none {before['cpu_percent']:.2f} % CPU, {before['rss_mb']:.0f} MB; with {count} "
        f"{after['cpu_percent']:.2f} %, {after['rss_mb']:.0f} MB; woken in {statistics.median(waits) * 1000:.0f} ms, "
        f"at most {max(waits) * 1000:.0f} ms",
        flush=True,
    )
    worker.end()
    await engine.aclose()


def cancel(url: str, rounds: int = 20) -> None:
    """Cancel commands that a `toolcrib worker` runs: two processes each, in the sandbox."""
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "HOME": folder, "XDG_STATE_HOME": f"{folder}/state", "XDG_CONFIG_HOME": f"{folder}/c"}
        work = Path(folder, "work")
        work.mkdir()

        def words(*words: str) -> list[str]:
            return [sys.executable, "-m", "toolcrib", *words, "-w", str(work), "--mode", "autonomous", "--db", url]

        worker = subprocess.Popen(words("worker"), env=env, stderr=subprocess.PIPE, text=True)
        worker.stderr.readline()
        times, after = [], []
        for n in range(rounds):
            mark = f"{1000 + n}.{os.getpid()}"
            command = f"command=sleep {mark} & sleep {mark}; wait"
            started = subprocess.run(
                words("jobs", "start", "exec", command), env=env, capture_output=True, text=True, check=True
            )
            while not running(mark):
                time.sleep(0.01)
            began = time.perf_counter()
            subprocess.run(words("jobs", "cancel", started.stdout.split()[0]), env=env, check=True, capture_output=True)
            returned = time.perf_counter()
            while running(mark):
                time.sleep(0.01)
            times.append(time.perf_counter() - began)
            after.append(max(0, times[-1] - (returned - began)))
        worker.terminate()
        worker.wait()
    print(
        f"  cancel: processes gone after: median {statistics.median(times) * 1000:.0f} ms, at most "
        f"{max(times) * 1000:.0f} ms; after the command has returned: at most {max(after) * 1000:.0f} ms",
        flush=True,
    )


def running(mark: str) -> bool:
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark in (process / "cmdline").read_text():
                return True
    return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--postgres", metavar="URL")
    parser.add_argument("--folder", default=None)
    parser.add_argument("--part", action="append", choices=PARTS)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--parked", type=int, default=10_000)
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        what, url, number = options.child
        print(json.dumps(asyncio.run({"bare": bare, "ours": ours, "serve": serve}[what](url, int(number)))))
        return
    folder, made = tempfile.mkdtemp(dir=options.folder), 0

    def fresh(postgres: bool) -> str:
        nonlocal made
        made += 1
        if not postgres:
            return f"sqlite:///{folder}/{made}.db"
        import psycopg

        with psycopg.connect(options.postgres, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE bench{os.getpid()}_{made}".encode())
        return f"{options.postgres.rpartition('/')[0]}/bench{os.getpid()}_{made}"

    for postgres in [bool(options.postgres)]:
        print(f"{'Postgres' if postgres else 'SQLite'}, load {os.getloadavg()[0]:.1f}", flush=True)
        for part in options.part or PARTS:
            if part == "rate":
                rate(lambda postgres=postgres: fresh(postgres), options.jobs)
            elif part == "latency":
                asyncio.run(latency(fresh(postgres)))
            elif part == "idle":
                worker = Worker(fresh(postgres))
                time.sleep(3)
                found = worker.idle(15)
                print(f"  idle: {found['cpu_percent']:.2f} % CPU, {found['rss_mb']:.0f} MB", flush=True)
                worker.end()
            elif part == "workers":
                for workers in (1, 2, 4, 8) if postgres else (1,):
                    asyncio.run(spread(fresh(postgres), workers, options.jobs))
            elif part == "server" and postgres:
                asyncio.run(server(fresh(True), options.jobs))
            elif part == "cancel":
                cancel(fresh(postgres))
            elif part == "tenants":
                asyncio.run(tenants(fresh(postgres), options.jobs))
            elif part == "parked":
                asyncio.run(parked(fresh(postgres), options.parked))


if __name__ == "__main__":
    main()
