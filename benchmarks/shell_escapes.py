"""Do commands that are judged `allow` keep that promise? They are run for real, walled in, beside canaries.

    python benchmarks/shell_escapes.py                 # every installed program of the table with every option it names
    python benchmarks/shell_escapes.py FILE…           # command lines from files, one a line (`\\n` for a newline)
    python benchmarks/shell_escapes.py --programs sort git

Each program's own `--help` (and that of git's sub-commands) is searched for options, listed in the table or not; each is
tried with several values and operands. What the judgement allows runs in bubblewrap without a network, in a scratch
workspace next to folders that hold a secret and files that nothing may touch. Reported is every allowed command that

- wrote: anything in the workspace or outside was made, changed or deleted;
- told: the secret of a file outside the workspace appears in its output;
- ran: a file that some option was given as a program was run (it leaves a mark);
- hung: it was still running after the time limit.

Needs bubblewrap. Exits 1 when anything was reported, but for `hung`, which is only printed.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from toolcrib.policy.shell.judge import judge_command
from toolcrib.policy.shell.parts import CommandPlace
from toolcrib.policy.shell.table import names

WORKSPACE, OUTSIDE, HOME = "/home/user/project", "/outside", "/home/user"
PLACE = CommandPlace(workspace=WORKSPACE, cwd=WORKSPACE, home=HOME)
SECRET = "CANARY-7f3a91"
LIMIT = 3.0  # seconds
_OPTION = re.compile(r"(?<![\w/-])(--[a-zA-Z][\w-]+|-[a-zA-Z0-9])(?![\w-])")
# Options' values: a file to be made, a secret outside, a program, a list of names, a number.
VALUES = ("made.txt", f"{OUTSIDE}/secret.txt", "./mark.sh", "names.txt", "1")
GIT = (
    "log diff show status branch tag grep blame ls-files ls-tree cat-file rev-parse rev-list describe shortlog reflog "
    "remote config stash var for-each-ref show-ref name-rev merge-base diff-tree diff-index diff-files range-diff "
    "whatchanged count-objects check-ignore check-attr archive format-patch bundle hash-object notes worktree submodule "
    "bisect symbolic-ref help version fsck annotate cherry merge-tree patch-id stripspace verify-pack show-index column"
).split()
_numbers = count()
NEVER = frozenset({"sh", "bash", "dash", "env", "sleep", "yes", "sudo"})


def build(root: Path) -> None:
    """The scratch file system's own parts: workspace, home and a folder outside."""
    work, outside, home = root / "project", root / "outside", root / "home"
    for folder in (work / "dir", outside, home / ".ssh", home / "project"):
        folder.mkdir(parents=True)
    (outside / "secret.txt").write_text(f"{SECRET}\nsecond line\n")
    (outside / "keep.txt").write_text("keep\n")
    (home / ".ssh/id_rsa").write_text(f"{SECRET}\n")
    (home / "notes.txt").write_text(f"{SECRET}\n")
    (work / "a.txt").write_text("alpha\nbeta\n1 2 3\n")
    (work / "b.txt").write_text("alpha\ngamma\n")
    (work / "x.json").write_text('{"a": [1, 2], "b": "c"}\n')
    (work / "names.txt").write_text(f"{OUTSIDE}/secret.txt\n")
    (work / "names0.txt").write_text(f"{OUTSIDE}/secret.txt\0")
    (work / "dir/c.py").write_text("print('c')\n")
    (work / "link").symlink_to(f"{OUTSIDE}/secret.txt")
    mark = work / "mark.sh"
    mark.write_text("#!/bin/sh\n: > /home/user/project/MARK\ncat\n")
    mark.chmod(0o755)
    run = {"cwd": work, "check": True, "capture_output": True}
    subprocess.run(["tar", "cf", "t.tar", "a.txt", "dir"], **run)
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z"}
    for words in (
        ["init", "-q"],
        ["add", "-A"],
        ["-c", "user.name=x", "-c", "user.email=x@example.com", "commit", "-qm", "first"],
    ):
        subprocess.run(["git", *words], **run, env=environment)
    (work / "b.txt").write_text("alpha\ndelta\n")


def jail(root: Path, command: str) -> list[str]:
    """bubblewrap's words: system folders to read, our own parts to write, no network."""
    words = ["bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--clearenv", "--tmpfs", "/"]
    for folder in ("/usr", "/bin", "/lib", "/lib64", "/sbin", "/opt"):
        if os.path.islink(folder):
            words += ["--symlink", os.readlink(folder), folder]
        elif os.path.exists(folder):
            words += ["--ro-bind", folder, folder]
    words += ["--dev", "/dev", "--proc", "/proc", "--dir", "/etc", "--tmpfs", "/tmp"]
    words += ["--ro-bind-try", "/etc/alternatives", "/etc/alternatives", "--ro-bind-try", "/etc/passwd", "/etc/passwd"]
    words += ["--bind", str(root / "home"), HOME, "--bind", str(root / "project"), WORKSPACE]
    words += ["--bind", str(root / "outside"), OUTSIDE, "--chdir", WORKSPACE]
    for name, value in (
        ("PATH", "/usr/bin:/bin:/usr/sbin:/sbin"),
        ("HOME", HOME),
        ("LC_ALL", "C.UTF-8"),
        ("PWD", WORKSPACE),
    ):
        words += ["--setenv", name, value]
    return [*words, "bash", "-c", command]


def snapshot(root: Path) -> dict[str, tuple[int, int, bytes]]:
    """Every file's mode, size and content; git's own index, which looking refreshes, is left out."""
    found: dict[str, tuple[int, int, bytes]] = {}
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = os.path.join(folder, name)
            if path.endswith("/.git/index"):
                continue
            status = os.lstat(path)
            content = (
                Path(path).read_bytes()
                if name in files and not os.path.islink(path) and status.st_size < 99999
                else b""
            )
            found[os.path.relpath(path, root)] = (status.st_mode, status.st_size if content else 0, content)
    return found


BEFORE: dict[Path, dict[str, tuple[int, int, bytes]]] = {}
_free: list[Path] = []


@contextmanager
def scratch(template: Path) -> Iterator[Path]:
    """A copy of the template, used again until a command changes it."""
    root = _free.pop() if _free else template.parent / f"copy{next(_numbers)}"
    if not root.exists():
        shutil.copytree(template, root, symlinks=True)
    yield root
    _free.append(root)


def verdict(template: Path, command: str) -> str:
    """What a command did that it may not: "", or a word and what it was about."""
    with scratch(template) as root:
        before = BEFORE[template]
        hung = ""
        process = subprocess.Popen(
            jail(root, command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        try:
            shown, _ = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            shown, _ = process.communicate()
            hung = "hung"
        after = snapshot(root)
        if after != before:
            shutil.rmtree(root)
        if "project/MARK" in after:
            return "ran mark.sh"
        changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
        if changed:
            return f"wrote {', '.join(changed[:4])}"
        if SECRET.encode() in shown and "link" not in command:
            return "told the secret"
        return hung


def options_of(words: list[str]) -> tuple[list[str], list[str]]:
    """The options that a program's help names, and the letters that it does not."""
    texts: list[str] = []
    for asked in (["--help"], ["-h"]):
        try:
            done = subprocess.run(
                [*words, *asked], capture_output=True, timeout=3, stdin=subprocess.DEVNULL, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        texts.append((done.stdout + done.stderr).decode("utf-8", "replace"))
    found = dict.fromkeys(_OPTION.findall("\n".join(texts)))
    letters = [f"-{letter}" for letter in "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0"]
    return list(found)[:160], [letter for letter in letters if letter not in found]


def generated(programs: list[str]) -> Iterator[str]:
    """Every program with each of its options, alone, with values, and behind its operands."""
    for name in programs:
        if name in NEVER or shutil.which(name) is None:
            continue
        for words in [["git", sub] for sub in GIT] if name == "git" else [[name]]:
            start = " ".join(words)
            operands = (
                ["a.txt", "a.txt b.txt", "alpha a.txt", ". a.txt", "x.json"] if name != "git" else ["", "HEAD", "alpha"]
            )
            for operand in operands:
                yield f"{start} {operand}".strip()
            listed, hidden = options_of(words)
            for option in hidden:
                yield f"{start} {option} {operands[0]}".strip()
                yield f"{start} {option}made.txt {operands[0]}".strip()
            for option in listed:
                for operand in operands[:3]:
                    yield f"{start} {option} {operand}".strip()
                for value in VALUES:
                    glued = f"{option}={value}" if option.startswith("--") else f"{option}{value}"
                    yield f"{start} {glued} {operands[0]}".strip()
                    yield f"{start} {option} {value} {operands[0]}".strip()
                yield f"{start} {operands[0]} {option}".strip()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--programs", nargs="*", default=None)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    if shutil.which("bwrap") is None:
        raise SystemExit("bubblewrap is needed")
    if given.files:
        lines = [line for file in given.files for line in file.read_text(encoding="utf-8").splitlines()]
        commands = [line.replace("\\n", "\n") for line in lines if line and not line.startswith("# ")]
    else:
        commands = list(dict.fromkeys(generated(given.programs or names())))
    allowed = [command for command in commands if judge_command(command, PLACE).verdict == "allow"]
    print(f"{len(commands):,} commands, {len(allowed):,} allowed; running those", flush=True)
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as place, ThreadPoolExecutor(given.jobs) as pool:
        template = Path(place) / "template"
        build(template)
        BEFORE[template] = snapshot(template)
        for command, found in zip(allowed, pool.map(lambda each: verdict(template, each), allowed), strict=True):
            if found:
                counts[found.split()[0]] += 1
                print(f"{found}: {command!r}", flush=True)
    print(f"{len(allowed):,} ran; " + (", ".join(f"{n} {what}" for what, n in counts.items()) or "nothing to report"))
    return 1 if set(counts) - {"hung"} else 0


if __name__ == "__main__":
    sys.exit(main())
