"""A. import time (fresh process) and RSS after import, interleaved, 3 rounds x 3 REPEATS = 9 samples (ROUNDS=7 for more)."""

import subprocess, json, os, common

code = """
import time,os;t=time.perf_counter()
%s
d=time.perf_counter()-t
import sys
rss=[int(l.split()[1])/1024 for l in open('/proc/self/status') if l.startswith('VmRSS')][0]
os.write(1,('\\n@@%%f %%f %%d'%%(d*1000,rss,len(sys.modules))).encode());os._exit(0)
"""
cols = ["bare-python"] + [c for c in common.cols() if c not in ("mcp-client", "fastmcp-client", "toolregistry-inline")]
raw = []
for rep in range(common.REPEATS):
    res = {c: [] for c in cols}
    for rnd in range(1 + int(os.environ.get("ROUNDS", "3"))):
        for c in cols:
            stmt = "pass" if c == "bare-python" else common.cls(c).IMPORT
            py = common.VENVS["floor" if c == "bare-python" else common.cls(c).VENV]
            o = subprocess.run([py, "-W", "ignore", "-c", code % stmt], capture_output=True, text=True)
            if "@@" in o.stdout and rnd:
                res[c].append([float(x) for x in o.stdout.split("@@")[1].split()])
            elif "@@" not in o.stdout:
                print(c, o.stderr[-200:])
    raw.append(res)
    common.save("a_import", {"raw": raw})
    for c in cols:
        print(
            rep,
            f"{c:20} {common.med([x[0] for x in res[c]]):8.1f} ms {common.med([x[1] for x in res[c]]):7.1f} MB {res[c][0][2]:.0f} modules",
            flush=True,
        )
common.save("a_import", {"raw": raw})
