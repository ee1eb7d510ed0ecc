"""B+C+D in one go: every library's process is started once, then REPEATS blocks, libraries taking turns inside every block (for a busy machine)."""

import common, os, time

R = int(os.environ.get("ROUNDS", "8"))
ws = {c: common.Worker(c) for c in common.cols()}
KS = tuple(os.environ.get("KS", "ok,nested,bad").split(","))
SFX = os.environ.get("SFX", "")
n = {}
checks = {}
for c, w in ws.items():
    checks[c] = w.ask(op="check") if "bad" in KS else None
    for k in KS:
        w.ask(op="call", what=k, n=10)
        a = w.ask(op="call", what=k, n=30)
        n[c, k] = max(4, int(4e3 / a["cpu"])) if a.get("cpu") else 0
print("started", time.strftime("%T"), flush=True)
rc, rd, rb = [], [], []
for rep in range(common.REPEATS):
    C = {c: {k + s: [] for k in KS for s in ("", "_cpu")} for c in ws}
    D = {c: [] for c in ws}
    B = {c: {"define": [], "define_cpu": [], "first": [], "again": []} for c in ws}
    for rnd in range(R):
        for k in KS:
            for c, w in ws.items():
                if n[c, k] and "cpu" in (a := w.ask(op="call", what=k, n=n[c, k])):
                    C[c][k].append(a["wall"])
                    C[c][k + "_cpu"].append(a["cpu"])
    rc.append(C)
    common.save("c_call" + SFX, {"raw": rc, "checks": checks})
    print("C", rep, time.strftime("%T"), flush=True)
    for rnd in range(3):
        for c, w in ws.items():
            a = w.ask(op="define", n=8, salt=rep * 10 + rnd)
            b = w.ask(op="schemas") if rnd == 0 or rep == 0 else {}
            if "cpu" in a and (rnd or rep):
                B[c]["define"].append(a["wall"])
                B[c]["define_cpu"].append(a["cpu"])
            if "first" in b:
                B[c]["first"].append(b["first"])
                B[c]["again"].append(b["again"])
    rb.append(B)
    common.save("b_define" + SFX, {"raw": rb})
    print("B", rep, time.strftime("%T"), flush=True)
    for rnd in range(2):
        for c, w in ws.items():
            a = w.ask(op="many", n=1000)
            if "wall_ms" in a and (rnd or rep):
                D[c].append(a)
            if a.get("ok") != 1000 and rnd:
                print(c, a)
    rd.append(D)
    common.save("d_concurrent" + SFX, {"raw": rd})
    print("D", rep, time.strftime("%T"), flush=True)
for w in ws.values():
    w.close()
