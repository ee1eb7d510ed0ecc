"""E. 10,000 tools: define+register, memory, list, lookup+call, unknown name, search.  One fresh process per library per repeat, in turn."""

import common, os

raw = []
for rep in range(common.REPEATS):
    res = {}
    for c in common.cols():
        w = common.Worker(c)
        res[c] = w.ask(op="registry", n=int(os.environ.get("N", "10000")), cap_s=float(os.environ.get("CAP", "12")))
        w.close()
        print(rep, f"{c:20}", {k: (round(v, 4) if isinstance(v, float) else v) for k, v in res[c].items()}, flush=True)
    raw.append(res)
    common.save("e_registry", {"raw": raw})
