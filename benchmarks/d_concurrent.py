"""D. 1000 concurrent calls of a tool that awaits 10 ms.  PHYSICAL LIMIT: 10 ms."""

import common

raw = []
for rep in range(common.REPEATS):
    ws = {c: common.Worker(c) for c in common.cols()}
    res = {c: [] for c in ws}
    for c, w in ws.items():
        w.ask(op="many", n=20)
    for rnd in range(3):
        for c, w in ws.items():
            a = w.ask(op="many", n=1000)
            if "error" in a or a["ok"] != 1000:
                print(c, a)
            if "wall_ms" in a:
                res[c].append(a)
    for w in ws.values():
        w.close()
    raw.append(res)
    common.save("d_concurrent", {"raw": raw})
    for c in res:
        if res[c]:
            print(
                rep,
                f"{c:20} wall {common.med([x['wall_ms'] for x in res[c]]):8.1f} ms  cpu {common.med([x['cpu_ms'] for x in res[c]]):8.1f} ms",
                flush=True,
            )
common.save("d_concurrent", {"raw": raw})
