"""Tries as another user of this machine, and without the cookie, to read and answer what a console shows.

    python as_another_user.py PORT FOLDER REQUEST PID OPEN_FILE PRIVATE_FOLDER...

FOLDER is the secret folder of its addresses, as if it was known. Prints what was reached, as JSON.
"""

from __future__ import annotations

import http.client
import json
import os
import sys
from pathlib import Path

NOBODY = 65534


def asked(port: int, method: str, path: str, body: str | None, **headers: str) -> int:
    """Return the status of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request(method, path, body, headers)
    return connection.getresponse().status


def readable(folder: str) -> list[str]:
    """Return the files below a folder that can be read."""
    found: list[str] = []
    for path in [Path(folder), *Path(folder).rglob("*")]:
        try:
            found += [str(path)] if path.is_file() and path.read_bytes() is not None else []
        except OSError:
            pass
    return found


def main() -> None:
    """Try all of it."""
    port, folder, request, pid, control = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4], sys.argv[5]
    asked(port, "GET", "/", None)  # Python loads what it needs for this, which others may not read
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    form = {"Origin": f"http://127.0.0.1:{port}", "Content-Type": "application/x-www-form-urlencoded"}
    answers = {
        "read": asked(port, "GET", f"/{folder}/inbox", None),
        "events": asked(port, "GET", f"/{folder}/events", None),
        "guessed cookie": asked(port, "GET", f"/{folder}/inbox", None, Cookie="toolcrib_console=x"),
        "answer": asked(port, "POST", f"/{folder}/answer", f"id={request}&answer=once", **form),
        "guessed link": asked(port, "POST", f"/{folder}/enter", "link=x", **form),
        "other folder": asked(port, "GET", "/inbox", None),
    }
    files = [each for private in sys.argv[6:] for each in readable(private)]
    files += [each for name in ("environ", "mem", "maps") for each in readable(f"/proc/{pid}/{name}")]
    print(json.dumps({"user": os.getuid(), "answers": answers, "files": files, "control": readable(control)}))


main()
