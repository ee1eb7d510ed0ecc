"""C. per-call overhead, us: ok / nested(20 objects) / bad args.  Interleaved rounds of ~4 ms of CPU per library (short, so that most rounds are not preempted on a busy machine)."""

import os, common

raw = []
checks = {}
for rep in range(common.REPEATS):
    ws = {c: common.Worker(c) for c in common.cols()}
    res = {c: {k + s: [] for k in ("ok", "nested", "bad") for s in ("", "_cpu")} for c in ws}
    n = {}
    for c, w in ws.items():
        checks[c] = w.ask(op="check")
        for k in ("ok", "nested", "bad"):
            w.ask(op="call", what=k, n=20)
            a = w.ask(op="call", what=k, n=50)
            n[c, k] = max(4, int(4e3 / a["cpu"])) if a.get("cpu") else 0
            if "error" in a and rep == 0:
                print("ERR", c, k, a)
    for rnd in range(int(os.environ.get("ROUNDS", "25"))):
        for k in ("ok", "nested", "bad"):
            for c, w in ws.items():
                if not n[c, k]:
                    continue
                a = w.ask(op="call", what=k, n=n[c, k])
                if "wall" in a:
                    res[c][k].append(a["wall"])
                    res[c][k + "_cpu"].append(a["cpu"])
    for w in ws.values():
        w.close()
    raw.append(res)
    common.save("c_call", {"raw": raw, "checks": checks})
    for c in res:
        print(
            rep, f"{c:20}", *(f"{k}={common.med(v):.1f}(min {min(v):.1f})" for k, v in res[c].items() if v), flush=True
        )
common.save("c_call", {"raw": raw, "checks": checks})
