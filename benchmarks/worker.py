"""One library in its own process; answers one measured round at a time so that the driver can interleave."""

import sys, os, json, time, asyncio, gc, io

if __name__ == "__main__":
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
import common, workload as W

col = sys.argv[1] if len(sys.argv) > 1 else ""


def rss():
    for l in open("/proc/self/status"):
        if l.startswith("VmRSS"):
            return int(l.split()[1]) / 1024


def hwm():
    for l in open("/proc/self/status"):
        if l.startswith("VmHWM"):
            return int(l.split()[1]) / 1024


async def main():
    A = common.cls(col)()
    loop = asyncio.get_running_loop()
    mk = lambda f, n: f(n, A.ASYNC_TOOLS)
    started = False

    async def ensure():
        nonlocal started
        if not started:
            reg = A.registry(
                [
                    A.define(mk(W.make_noop, "noop")),
                    A.define(mk(W.make_nested, "nested"), "nested"),
                    A.define(mk(W.make_sleep, "sleep10")),
                ]
            )
            await A.start(reg)
            started = True

    while True:
        line = await loop.run_in_executor(None, sys.stdin.readline)
        if not line:
            break
        q = json.loads(line)
        op = q["op"]
        try:
            r = {}
            if op == "define":
                fns = [mk(W.make_noop, f"noop_{q.get('salt', 0)}_{i}") for i in range(q["n"])]
                gc.collect()
                t = time.perf_counter()
                c = time.process_time()
                tools = [A.define(f) for f in fns]
                r = {"wall": (time.perf_counter() - t) / q["n"] * 1e6, "cpu": (time.process_time() - c) / q["n"] * 1e6}
            elif op == "schemas":

                def work():
                    fns = [mk(W.make_noop, f"n{i}") for i in range(100)]
                    tools = [A.define(f) for f in fns]
                    t = time.perf_counter()
                    reg = A.registry(tools)
                    s = A.schemas(reg)
                    first = time.perf_counter() - t
                    t = time.perf_counter()
                    s = A.schemas(reg)
                    again = time.perf_counter() - t
                    return {"first": first * 1e6, "again": again * 1e6, "count": len(s)}

                r = await loop.run_in_executor(None, work)
            elif op == "check":
                await ensure()
                r = {
                    k: A.text(await A.call(n, a))[:400]
                    for k, n, a in (
                        ("ok", "noop", W.ARGS),
                        ("nested", "nested", W.ARGS_NESTED),
                        ("bad", "noop", W.ARGS_BAD),
                    )
                }
            elif op == "call":
                await ensure()
                name, args = {"ok": ("noop", W.ARGS), "nested": ("nested", W.ARGS_NESTED), "bad": ("noop", W.ARGS_BAD)}[
                    q["what"]
                ]
                n = q["n"]
                call = A.call
                gc.collect()
                t = time.perf_counter()
                c = time.process_time()
                for i in range(n):
                    await call(name, args, "call_1")
                r = {"wall": (time.perf_counter() - t) / n * 1e6, "cpu": (time.process_time() - c) / n * 1e6}
            elif op == "many":
                await ensure()
                calls = [("sleep10", W.ARGS, f"c{i}") for i in range(q["n"])]
                gc.collect()
                t = time.perf_counter()
                c = time.process_time()
                res = await A.many(calls)
                r = {
                    "wall_ms": (time.perf_counter() - t) * 1e3,
                    "cpu_ms": (time.process_time() - c) * 1e3,
                    "n": len(res),
                    "ok": sum(A.text(x).strip('"') == "ok" for x in res),
                }
            elif op == "registry":
                N = q["n"]
                cap = q["cap_s"]
                gc.collect()
                m0 = rss()
                fns = [mk(W.make_noop, f"tool_{i:05d}") for i in range(N)]
                m1 = rss()
                t = time.perf_counter()
                tools = []
                for f in fns:
                    tools.append(A.define(f))
                    if time.perf_counter() - t > cap:
                        break
                t_def = time.perf_counter() - t
                n = len(tools)
                t = time.perf_counter()
                reg = A.registry(tools)
                t_reg = time.perf_counter() - t
                gc.collect()
                m2 = rss()

                def lst():
                    t = time.perf_counter()
                    s = A.schemas(reg)
                    a = time.perf_counter() - t
                    t = time.perf_counter()
                    s = A.schemas(reg)
                    return a, time.perf_counter() - t, len(s)

                l1, l2, ln = await loop.run_in_executor(None, lst)
                B = A
                t = time.perf_counter()
                await B.start(reg)
                t_start = time.perf_counter() - t
                started = True
                nm = f"tool_{n - 1:05d}"
                await B.call(nm, W.ARGS)
                k = 0
                t = time.perf_counter()
                while time.perf_counter() - t < 1.0 and k < 300:
                    await B.call(nm, W.ARGS)
                    k += 1
                t_call = (time.perf_counter() - t) / k
                t = time.perf_counter()
                miss = None
                try:
                    miss = A.text(await B.call("tool_0xyz", W.ARGS))
                except BaseException as e:
                    miss = type(e).__name__
                t_miss = time.perf_counter() - t
                r = dict(
                    n=n,
                    define_s=t_def,
                    register_s=t_reg,
                    start_s=t_start,
                    mem_mb=m2 - m1,
                    list_first_s=l1,
                    list_again_s=l2,
                    listed=ln,
                    call_us=t_call * 1e6,
                    miss_us=t_miss * 1e6,
                    miss_chars=len(str(miss)),
                )
                try:
                    t = time.perf_counter()
                    s = A.search(reg, "list entries below a path tool_00042")
                    t1 = time.perf_counter() - t
                    if s is not None:
                        if asyncio.iscoroutine(s):
                            s = await s
                        t = time.perf_counter()
                        s = A.search(reg, "directory listing tool_00043")
                        if asyncio.iscoroutine(s):
                            s = await s
                        r.update(search_first_s=t1, search_s=time.perf_counter() - t)
                except Exception as e:
                    r["search_error"] = repr(e)[:200]
        except BaseException as e:
            import traceback

            traceback.print_exc()
            r = {"error": f"{type(e).__name__}: {e}"[:300]}
        out.write(json.dumps(r) + "\n")
        out.flush()
    try:
        await A.stop()
    except BaseException:
        pass
    os._exit(0)


if __name__ == "__main__":
    asyncio.run(main())
