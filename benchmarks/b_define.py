"""B. define one tool from a typed async function; schema list for 100 tools.  us; interleaved rounds."""

import common

raw = []
for rep in range(common.REPEATS):
    ws = {c: common.Worker(c) for c in common.cols()}
    res = {c: {"define": [], "define_cpu": [], "first": [], "again": []} for c in ws}
    for rnd in range(6):
        for c, w in ws.items():
            a = w.ask(op="define", n=10, salt=rep * 100 + rnd)
            b = w.ask(op="schemas")
            if rnd == 0:
                if "error" in a or "error" in b:
                    print(c, a, b, flush=True)
                continue
            if "error" not in a:
                res[c]["define"].append(a["wall"])
                res[c]["define_cpu"].append(a["cpu"])
            if "error" not in b:
                res[c]["first"].append(b["first"])
                res[c]["again"].append(b["again"])
    for w in ws.values():
        w.close()
    raw.append(res)
    common.save("b_define", {"raw": raw})
    for c in res:
        print(rep, f"{c:20}", *(f"{k}={common.med(v):.0f}us" for k, v in res[c].items() if v), flush=True)
common.save("b_define", {"raw": raw})
