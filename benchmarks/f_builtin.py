"""F. builtin tools, fresh process per (library, operation), libraries in turn within each operation, REPEATS times."""

import common, subprocess, json, os, sys
import f_worker as F

F.prep()
raw = []
ops = os.environ.get("OPS", ",".join(F.OPS)).split(",")
T = float(os.environ.get("OPTIME", "60"))
dead = set()
for rep in range(common.REPEATS):
    for op in ops:
        for c, k in F.COLS.items():
            if os.environ.get("COLS") and c not in os.environ["COLS"].split(","):
                continue
            if (c, op) in dead:
                continue
            p = subprocess.Popen(
                [common.VENVS[k.VENV], "-W", "ignore", os.path.join(common.HERE, "f_worker.py"), c, op],
                stdout=-1,
                stderr=subprocess.DEVNULL,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
            try:
                o, _ = p.communicate(timeout=T)
                r = json.loads(o.decode().splitlines()[-1])
            except subprocess.TimeoutExpired:
                os.killpg(p.pid, 9)
                p.wait()
                r = {"timeout": T}
                dead.add((c, op))
            except Exception as e:
                r = {"error": repr(e)[:200]}
            raw.append({"rep": rep, "op": op, "col": c, **r})
            print(
                rep, op, f"{c:14}", {a: (round(b, 2) if isinstance(b, float) else b) for a, b in r.items()}, flush=True
            )
            if "absent" in r:
                dead.add((c, op))
        common.save(os.environ.get("OUT", "f_builtin"), {"raw": raw})
