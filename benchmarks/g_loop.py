"""G. whole agent loop against the fake server: 21 requests, 80 tool calls a run; runs interleaved; per-run wall/CPU minus server time."""

import common, subprocess, json, os, sys, urllib.request
import g_worker as G

PORT = "8765"
os.environ["PORT"] = PORT
srv = subprocess.Popen([common.VENVS["floor"], os.path.join(common.HERE, "g_server.py"), PORT], stdout=-1)
srv.stdout.readline()
stats = lambda: json.load(urllib.request.urlopen(f"http://127.0.0.1:{PORT}/stats"))
raw = []
want = os.environ.get("COLS")
names = [n for n in G.LOOPS if not want or n in want.split(",")]
try:
    for rep in range(common.REPEATS):
        ws = {}
        res = {n: [] for n in names}
        for n in names:
            ws[n] = subprocess.Popen(
                [common.VENVS[G.LOOPS[n][1]], "-W", "ignore", os.path.join(common.HERE, "g_worker.py"), n],
                stdin=-1,
                stdout=-1,
                text=True,
                stderr=open(f"{common.RESULTS}/err_g_{n}.txt", "w"),
                env=dict(os.environ, PYTHONPATH=common.HERE, PORT=PORT),
            )

        def ask(w):
            w.stdin.write("go\n")
            w.stdin.flush()
            l = w.stdout.readline()
            return json.loads(l) if l else {"error": "died"}

        for rnd in range(5):
            for n, w in ws.items():
                if w.poll() is not None:
                    continue
                stats()
                r = ask(w)
                s = stats()
                r["server_ms"], r["requests"] = s[0] * 1e3, s[1]
                if rnd >= 1 and "wall_ms" in r:
                    res[n].append(r)
                elif rnd == 0:
                    print(n, r, flush=True)
        for w in ws.values():
            w.stdin.close()
            w.kill()
        raw.append(res)
        for n in names:
            x = res[n]
            if x:
                print(
                    rep,
                    f"{n:18} wall {common.med([(a['wall_ms'] - a['server_ms']) / 21 for a in x]):7.2f} ms/turn  cpu {common.med([a['cpu_ms'] / 21 for a in x]):7.2f} ms/turn  server {common.med([a['server_ms'] / 21 for a in x]):.3f}  tools {x[-1]['tools']} req {x[-1]['requests']} out {x[-1]['out']!r} rss {x[-1]['rss_mb']:.0f}",
                    flush=True,
                )
        common.save("g_loop", {"raw": raw})
finally:
    srv.kill()
