"""Makes `.venv` from `uv.lock`, fetching uv into `.tools/` if none is there. Standard library only.

Run through `scripts/bootstrap`, which picks the interpreter. Safe to run again: what is there is kept. With `--runtime`
the development tools are left out.
"""

from __future__ import annotations

import hashlib
import io
import os
import platform
import re
import shutil
import subprocess
import sys
import urllib.request
import zipfile
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ROOT / ".tools"

UV = "0.13.8"
UV_AT_LEAST = (0, 13)  # uv.lock is of revision 5; older ones may rewrite or refuse it
# Wheels of uv on PyPI. The Linux ones are linked statically (musl) and run on glibc systems too.
_FILES = "https://files.pythonhosted.org/packages"
# (system, machine): (folder, platform tag, sha256)
UV_WHEELS = {
    ("Linux", "x86_64"): (
        "4d/a3/1ac9cd75985371da0d29c9c12132e6d5b5627b9d0de87c5ad97ab9ad69b0",
        "musllinux_1_1_x86_64",
        "29451c60f5e8b07403e0a175d5229efc36b0289b34143ff4aaa499a5dd52553a",
    ),
    ("Linux", "aarch64"): (
        "9e/f0/d989ac5fcebf83f1c8c5d78974f27788e8364945969eb646f5d0db35d924",
        "manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64",
        "0b3e8b1a4f5e405e31e2ff33de8af4744831e9f7338539671efbd8c3c94e791d",
    ),
    ("Darwin", "x86_64"): (
        "be/7a/fd8a719c0198f8f8341847fc33b377f25ac79f7c4a56dbce5ceb086f239c",
        "macosx_10_12_x86_64",
        "b7124ca1956ec2e476a1003ea5715a15f0266afaec37f4dc9c6972ba8183e6d1",
    ),
    ("Darwin", "arm64"): (
        "84/46/deb3a1eb3020575e41d1f9840c07185761d8d4c25cd6f58e813afb017476",
        "macosx_11_0_arm64",
        "62b6943c7fd64fac6854f780bea6e0359e5a5bc3241f83ee357bb38276afac49",
    ),
}


def say(text: str) -> None:
    """One line for the person, on stderr: stdout belongs to what runs after us."""
    print(f"bootstrap: {text}", file=sys.stderr, flush=True)


def fail(text: str) -> NoReturn:
    """Say what is missing and end with status 2."""
    say(text)
    raise SystemExit(2)


def uv_version(path: str | Path) -> tuple[int, ...]:
    """The version a uv reports about itself; () when it cannot be run."""
    try:
        said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=30).stdout
    except (OSError, subprocess.SubprocessError):
        return ()
    found = re.match(r"uv (\d+)\.(\d+)\.(\d+)", said)
    return tuple(map(int, found.groups())) if found else ()


def fetch(url: str) -> bytes:
    """Download one file, trying three times."""
    for left in (2, 1, 0):
        try:
            with urllib.request.urlopen(url, timeout=180) as answer:
                return answer.read()
        except OSError as error:
            if not left:
                fail(
                    f"could not download {url}: {error}\n"
                    f"  Install uv {UV} or newer by hand (pipx, your package manager) and run this again."
                )
            say(f"{error}; trying again")
    raise AssertionError


def find_uv() -> str:
    """A uv that understands our lock file: the checkout's own, one on PATH, or the pinned wheel from PyPI."""
    own = TOOLS / f"uv-{UV}" / "uv"
    if uv_version(own):
        return str(own)
    on_path = shutil.which("uv")
    if on_path and uv_version(on_path) >= UV_AT_LEAST:
        return on_path
    system, machine = platform.system(), platform.machine()
    wheel = UV_WHEELS.get((system, {"amd64": "x86_64"}.get(machine, machine)))
    if wheel is None:
        fail(f"no uv is pinned for {system} {machine}. Install uv {UV} or newer and run this again.")
    folder, tag, expected = wheel
    say(f"fetching uv {UV} into {own.parent.relative_to(ROOT)}")
    data = fetch(f"{_FILES}/{folder}/uv-{UV}-py3-none-{tag}.whl")
    got = hashlib.sha256(data).hexdigest()
    if got != expected:
        fail(f"the uv that was downloaded has sha256 {got}, not {expected}; it was not used")
    own.parent.mkdir(parents=True, exist_ok=True)
    partial = own.with_name(f"uv.{os.getpid()}")
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        partial.write_bytes(archive.read(f"uv-{UV}.data/scripts/uv"))
    partial.chmod(0o755)
    partial.replace(own)
    if not uv_version(own):
        fail(f"the fetched {own} does not run on this system")
    return str(own)


EXTRAS = (
    "acp", "channels", "chat", "code", "web", "docs", "browser", "jobs",
    "agent-framework", "langchain", "openai-agents", "pydantic-ai", "smolagents",
)  # fmt: skip


def sync(uv: str, runtime: bool) -> None:
    """Bring `.venv` to what `uv.lock` says, with the development tools; or add only what Toolcrib itself needs."""
    more = ["--group", "dev", *(word for extra in EXTRAS for word in ("--extra", extra))]
    env = {k: v for k, v in os.environ.items() if k not in {"VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME"}}
    env |= {
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_PROJECT_ENVIRONMENT": str(ROOT / ".venv"),
        "UV_NO_PROGRESS": "1",
        "UV_COMPILE_BYTECODE": "1",  # once here, not in each process that tests start
    }
    done = subprocess.run(
        [uv, "sync", "--locked", "--quiet", *(["--no-default-groups", "--inexact"] if runtime else more),
         "--python", sys.executable],
        cwd=ROOT,
        env=env,
    )  # fmt: skip
    if done.returncode:
        fail(
            "uv could not make .venv (its words are above). It needs to reach pypi.org the first time; behind a proxy "
            "with its own certificate set UV_SYSTEM_CERTS=1."
        )


def get_bubblewrap() -> None:
    """Install the system's bubblewrap where that takes no question; never a reason to fail."""
    if sys.platform != "linux" or shutil.which("bwrap"):
        return
    packaged = "the sandbox uses the packaged bubblewrap"
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        say(f"no bwrap on PATH: {packaged} (better: your system's, e.g. apt-get install bubblewrap)")
        return
    say("installing bubblewrap with apt-get")
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "bubblewrap"]
    words = ""
    for command in (install, ["apt-get", "update", "-qq"], install):
        try:
            done = subprocess.run(
                command, env=env, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL
            )
        except subprocess.TimeoutExpired:
            words = "it took longer than 300 s"
            break
        words = (done.stderr or done.stdout).strip()
        if command is install and done.returncode == 0:
            return
    say(f"apt-get could not install bubblewrap: {packaged}. It said: {words[-300:]}")


def main() -> None:
    """Everything, in order."""
    get_bubblewrap()
    uv = find_uv()
    sync(uv, "--runtime" in sys.argv[1:])
    TOOLS.mkdir(exist_ok=True)
    (TOOLS / "uv-path").write_text(uv + "\n")  # for the scripts that need uv later
    say(f".venv is ready (Python {platform.python_version()}, uv {'.'.join(map(str, uv_version(uv)))})")


main()
