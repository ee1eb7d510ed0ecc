"""results/*.json -> Markdown tables on stdout (ratios are medians within one interleaved repeat; range over repeats in brackets)."""

import json, os, statistics as st

R = os.path.join(os.environ.get("PEERBENCH_HOME", os.path.expanduser("~/.cache/peerbench")), "results")


def load(n):
    try:
        return json.load(open(f"{R}/{n}.json"))
    except OSError:
        return None


med = lambda x: st.median(x) if x else None


def span(v, f="{:.1f}"):
    v = [x for x in v if x is not None]
    if not v:
        return "-"
    return f.format(st.median(v)) + (" [" + f.format(min(v)) + "-" + f.format(max(v)) + "]" if len(v) > 1 else "")


def A():
    d = load("a_import")
    if not d:
        return
    print(
        f"### A. import ({len(d['raw'])} repeats; load {d['loadavg'][0]:.0f})\n| column | import ms (median [repeats]) | x floor-json | RSS MB | modules |\n|---|---|---|---|---|"
    )
    for c in d["raw"][0]:
        m = [med([x[0] for x in r[c]]) for r in d["raw"] if r.get(c)]
        q = [med([x[1] for x in r[c]]) for r in d["raw"] if r.get(c)]
        rt = [
            med([x[0] for x in r[c]]) / med([x[0] for x in r["floor-json"]])
            for r in d["raw"]
            if r.get(c) and r.get("floor-json")
        ]
        mod = d["raw"][0][c][0][2] if d["raw"][0][c] else 0
        print(f"| {c} | {span(m, '{:.0f}')} | {span(rt, '{:.0f}')} | {span(q, '{:.0f}')} | {mod:.0f} |")


def B():
    d = load("b_define")
    if not d:
        return
    print(
        f"\n### B. definition ({len(d['raw'])} repeats; load {d['loadavg'][0]:.0f})\n| column | define us/tool wall (cpu) | x floor-pydantic | schema list of 100: first us | again us |\n|---|---|---|---|---|"
    )
    for c in d["raw"][0]:
        g = lambda k: [med(r[c][k]) for r in d["raw"] if r.get(c, {}).get(k) and r.get("floor-pydantic", {}).get(k)]
        rt = [
            med(r[c]["define_cpu"]) / med(r["floor-pydantic"]["define_cpu"])
            for r in d["raw"]
            if r.get(c, {}).get("define_cpu")
        ]
        print(
            f"| {c} | {span(g('define'), '{:.0f}')} ({span(g('define_cpu'), '{:.0f}')}) | {span(rt)} | {span(g('first'), '{:.0f}')} | {span(g('again'), '{:.0f}')} |"
        )


def merge(n):
    """the default process pool of toolregistry dies on the first bad-argument call, so its valid numbers are in <n>_tr.json"""
    d, t = load(n), load(n + "_tr")
    if d and t:
        for r, q in zip(d["raw"], t["raw"]):
            r.pop("toolregistry", None)
            f = med(q["floor-pydantic"]["ok_cpu"]) / med(r["floor-pydantic"]["ok_cpu"]) if n == "c_call" else 1
            r["toolregistry"] = (
                {k: [v / f for v in vs] for k, vs in q["toolregistry"].items()} if n == "c_call" else q["toolregistry"]
            )
    return d


def C():
    d = merge("c_call")
    if not d:
        return
    print(
        f"\n### C. per call ({len(d['raw'])} repeats; load {d['loadavg'][0]:.0f}); us; cpu medians, x = ratio to floor-pydantic cpu\n| column | ok cpu | x | ok wall median / min | nested cpu | x | bad cpu | x |\n|---|---|---|---|---|---|---|---|"
    )
    for c in d["raw"][0]:

        def g(k):
            return [med(r[c][k]) for r in d["raw"] if r.get(c, {}).get(k) and r.get("floor-pydantic", {}).get(k)]

        def x(k):
            return [
                med(r[c][k]) / med(r["floor-pydantic"][k])
                for r in d["raw"]
                if r.get(c, {}).get(k) and r.get("floor-pydantic", {}).get(k)
            ]

        mn = min((min(r[c]["ok"]) for r in d["raw"] if r.get(c, {}).get("ok")), default=0)
        print(
            f"| {c} | {span(g('ok_cpu'))} | {span(x('ok_cpu'))} | {span(g('ok'), '{:.0f}')} / {mn:.1f} | {span(g('nested_cpu'))} | {span(x('nested_cpu'))} | {span(g('bad_cpu'))} | {span(x('bad_cpu'))} |"
        )


def Dd():
    d = merge("d_concurrent")
    if not d:
        return
    print(
        f"\n### D. 1000 x 10 ms ({len(d['raw'])} repeats; load {d['loadavg'][0]:.0f}); LIMIT 10 ms\n| column | wall ms | cpu ms | x 10 ms limit |\n|---|---|---|---|"
    )
    for c in d["raw"][0]:
        w = [med([y["wall_ms"] for y in r[c]]) for r in d["raw"] if r.get(c)]
        p = [med([y["cpu_ms"] for y in r[c]]) for r in d["raw"] if r.get(c)]
        print(f"| {c} | {span(w, '{:.0f}')} | {span(p, '{:.0f}')} | {span([y / 10 for y in w])} |")


def E():
    d = load("e_registry")
    if not d:
        return
    print(
        f"\n### E. 10,000 tools ({len(d['raw'])} repeats; load {d['loadavg'][0]:.0f})\n| column | n | define s | register s | start s | MB | list first ms | again ms | call us | unknown name us (chars) | search first s / again ms |\n|---|---|---|---|---|---|---|---|---|---|---|"
    )
    for c in d["raw"][0]:
        r = d["raw"][0][c]
        if "error" in r:
            print(f"| {c} | {r['error'][:60]} |")
            continue
        print(
            f"| {c} | {r['n']} | {r['define_s']:.2f} | {r['register_s']:.2f} | {r['start_s']:.2f} | {r['mem_mb']:.0f} | {r['list_first_s'] * 1e3:.1f} | {r['list_again_s'] * 1e3:.1f} | {r['call_us']:.0f} | {r['miss_us']:.0f} ({r['miss_chars']}) | {r.get('search_first_s', 0):.2f} / {r.get('search_s', 0) * 1e3:.1f} |"
        )


def F():
    d = load("f_builtin")
    if not d:
        return
    import collections

    g = collections.OrderedDict()
    for r in d["raw"]:
        g.setdefault((r["op"], r["col"]), []).append(r)
    ops = list(dict.fromkeys(o for o, _ in g))
    cs = list(dict.fromkeys(c for _, c in g))
    print(
        f"\n### F. builtin tools, ms median [repeats] / peak RSS MB (load {d['loadavg'][0]:.0f})\n| op | "
        + " | ".join(cs)
        + " |\n|"
        + "---|" * (len(cs) + 1)
    )
    for o in ops:
        row = []
        for c in cs:
            x = g.get((o, c), [{"absent": 1}])
            if "absent" in x[0]:
                row.append("absent")
            elif any("timeout" in y for y in x):
                row.append(f">{x[0].get('timeout', 45):.0f} s")
            elif "error" in x[0]:
                row.append("error")
            else:
                ms = [y["ms"] for y in x if "ms" in y]
                row.append(
                    span(ms, "{:.1f}" if med(ms) < 100 else "{:.0f}")
                    + f" / {med([y['peak_mb'] for y in x if 'peak_mb' in y]):.0f}"
                    + (
                        " REFUSED"
                        if "too large" in x[0].get("head", "")
                        else " TAIL ONLY"
                        if "TAIL" in x[0].get("head", "")
                        else " WHOLE FILE"
                        if "WHOLE" in x[0].get("head", "")
                        else " NO MATCH RETURNED"
                        if x[0].get("valid") is False
                        else ""
                    )
                )
        print(f"| {o} | " + " | ".join(row) + " |")


def G():
    d = load("g_loop")
    if not d:
        return
    print(
        f"\n### G. agent loop, 21 requests / 80 tool calls a run ({len(d['raw'])} repeats; load {d['loadavg'][0]:.0f})\n| loop | cpu ms/turn | x raw | x bare SDK | wall-server ms/turn | server ms/turn | RSS MB |\n|---|---|---|---|---|---|---|"
    )
    for c in d["raw"][0]:
        rs = [r for r in d["raw"] if r.get(c)]
        if not rs:
            print(f"| {c} | - |")
            continue
        f = lambda r, c, k: med([y[k] / y["requests"] for y in r[c]])
        cpu = [f(r, c, "cpu_ms") for r in rs]
        print(
            f"| {c} | {span(cpu, '{:.2f}')} | {span([f(r, c, 'cpu_ms') / f(r, 'limit-raw-socket', 'cpu_ms') for r in rs])} | {span([f(r, c, 'cpu_ms') / f(r, 'limit-openai-sdk', 'cpu_ms') for r in rs if r.get('limit-openai-sdk')], '{:.2f}')} | {span([med([(y['wall_ms'] - y['server_ms']) / y['requests'] for y in r[c]]) for r in rs])} | {span([f(r, c, 'server_ms') for r in rs], '{:.2f}')} | {rs[-1][c][-1]['rss_mb']:.0f} |"
        )


for f in (A, B, C, Dd, E, F, G):
    f()
