"""A throw-away workspace full of traps, and the options of programs: what the judgement allows is run there for real.

    python tests/policy/shell/hostile_ground.py --record   # write corpus/options.txt from the programs of this machine

Commands run in batches, in bubblewrap without a network, or behind one of Toolcrib's own walls. A batch that did
something that no command of it may do is run again one by one. Such a thing is: a file in the workspace, the home or
the folder outside was made, changed or deleted; a planted program ran; the secret of a file outside was printed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from gzip import BadGzipFile
from gzip import open as gzip_open
from pathlib import Path

from toolcrib.boundary.process import run
from toolcrib.boundary.sandbox.spec import Sandbox
from toolcrib.policy.shell.judge import judge_command
from toolcrib.policy.shell.parts import CommandPlace
from toolcrib.policy.shell.table import lookup, names
from toolcrib.policy.shell.table.closed import VERSIONS
from toolcrib.policy.shell.table.program_spec import Program, parse_options

RECORDED = Path(__file__).parent / "corpus" / "options.txt"
SECRET, INSIDE = "CANARY-7f3a91", "CANARY-env-55"
LIMIT = 2  # seconds for one command
# They wait, or end the driver of a batch.
NEVER = frozenset({"yes", "sleep", "exit", "logout", "kill", "read", "wait", "top", "dmesg", "vmstat"})
# Other names of programs that are tried.
SAME = frozenset({"egrep", "fgrep", "dir", "vdir", "batcat", "typeset", "readonly", "gsed", "nawk", "sha384sum"})
# What makes an operand of a program meaningful; the others get a file, two files, a folder and a word.
OPERANDS = {
    "tar": ("tf t.tar", "-tf t.tar"), "sed": ("p a.txt",), "awk": ("1 a.txt",), "find": (". -name a.txt",),
    "jq": (". x.json",), "xmllint": ("x.xml",), "unzip": ("-l t.zip",), "openssl": ("a.txt",), "man": ("ls",),
    "service": ("ssh status", "../..{work}/mark.sh status"), "git": ("HEAD", "-- a.txt"),
    "grep": ("alpha a.txt", "-r alpha ."), "env": ("ls",), "xargs": ("ls",), "timeout": ("1 ls",),
    "test": ("a = b",), "[": ("a = b ]",), "declare": ("x=1", "x='($(./mark.sh))'"), "printf": ("x",),
}  # fmt: skip
_OPTION = re.compile(r"(?<![\w/-])(--[a-zA-Z][\w-]+|-[a-zA-Z0-9]|-[a-z]{3,}(?=[ ,=\]]))(?![\w-])")
_CANARY = "CANARY-[a-z0-9]+(-[0-9]+)?"


class Ground:
    """A folder `root` with a workspace, a home and a folder outside, all hostile."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.work, self.outside, self.home = root / "project", root / "outside", root / "home"
        self.place = CommandPlace(str(self.work), str(self.work), str(self.home), on_disk=True)
        self.values = ("made.txt", f"{self.outside}/secret.txt", "./mark.sh", "names.txt")
        self.build()
        shutil.copytree(root, root.parent / "template", symlinks=True)
        self.before = self.snapshot()

    def build(self) -> None:
        # top makes a folder for its settings, even to say its version
        for folder in ("project/dir", "project/twin", "outside", "home/.ssh", "home/.config/procps"):
            (self.root / folder).mkdir(parents=True)
        secret = self.outside / "secret.txt"
        secret.write_text(f"{SECRET}\nsecond line\n")
        (self.outside / "keep.txt").write_text("keep\n")
        (self.home / ".ssh/id_rsa").write_text(f"{SECRET}\n")
        (self.home / "notes.txt").write_text(f"{SECRET}\n")
        work = self.work
        files = {
            "a.txt": "alpha\nbeta\n1 2 3\n", "b.txt": "alpha\ngamma\n", "x.json": '{"a": [1, 2], "b": "c"}\n',
            "names.txt": f"{secret}\n", "names0.txt": f"{secret}\0", "dir/c.py": "print('c')\n", "twin/c.py": "c\n",
            "twin/out": "c\n", ".env": f"KEY={INSIDE}\n", "list.txt": "a.txt\n",
            "x.xml": f'<!DOCTYPE a [<!ENTITY e SYSTEM "file://{secret}">]>\n<a>&e;</a>\n', "page.1": f".so {secret}\n",
            "apt.conf": f'Dir::Bin::dpkg "{work}/mark.sh";\n', ".npmrc": f"script-shell={work}/mark.sh\n",
            ".ackrc": "--follow\n", ".shellcheckrc": "external-sources=true\n", ".gemrc": "gem: --source x\n",
            "source.sh": f"#!/bin/bash\n. {secret}\n", "rules.awk": "BEGIN { system(\"./mark.sh\") }\n",
        }  # fmt: skip
        for name, text in files.items():
            (work / name).write_text(text)
        for name in ("link", "dir/out"):
            (work / name).symlink_to(secret)
        mark = work / "mark.sh"
        mark.write_text(f"#!/bin/sh\n: > {work}/MARK\ncat\n")
        mark.chmod(0o755)
        given = {"cwd": work, "check": True, "capture_output": True}
        subprocess.run(["tar", "cf", "t.tar", "a.txt", "dir"], **given)
        subprocess.run([sys.executable, "-m", "zipfile", "-c", "t.zip", "a.txt"], **given)
        environment = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z"}
        for words in (
            ["init", "-q"],
            ["add", "-A", "--", ".", ":!.env"],
            ["-c", "user.name=x", "-c", "user.email=x@example.com", "commit", "-qm", "first"],
        ):
            subprocess.run(["git", *words], **given, env=environment)
        (work / "b.txt").write_text("alpha\ndelta\n")

    def snapshot(self) -> dict[str, tuple[int, int, bytes]]:
        """Return every file's mode, size and content; git's index, which looking refreshes, is left out."""
        found: dict[str, tuple[int, int, bytes]] = {}
        for folder, folders, files in os.walk(self.root):
            for name in (*folders, *files):
                path = os.path.join(folder, name)
                if path.endswith("/.git/index") or path.startswith(f"{self.root}/out."):
                    continue
                status = os.lstat(path)
                is_file = name in files and not os.path.islink(path) and status.st_size < 99999
                content = Path(path).read_bytes() if is_file else b""
                found[os.path.relpath(path, self.root)] = (
                    status.st_mode,
                    status.st_size if is_file else 0,
                    content,
                )
        return found

    def restore(self) -> None:
        for path in (self.work, self.outside, self.home):
            shutil.rmtree(path)
            shutil.copytree(self.root.parent / "template" / path.name, path, symlinks=True)

    def driver(self, commands: Iterable[str]) -> str:
        """Return a script that runs each command in a shell of its own."""
        return "\n".join(f"timeout -s KILL {LIMIT} bash -c {shlex.quote(each)} </dev/null 2>&1" for each in commands)

    def in_the_open(self, script: str) -> bytes:
        """Run a script where everything of the ground may be changed, and nothing else."""
        words = ["bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--clearenv", "--tmpfs", "/"]
        words += ["--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"]
        for folder in ("/usr", "/bin", "/lib", "/lib64", "/sbin", "/opt", "/var/lib/dpkg", "/etc"):
            if os.path.islink(folder):
                words += ["--symlink", os.readlink(folder), folder]
            else:
                words += ["--ro-bind-try", folder, folder]
        extra = [
            each for each in os.environ["PATH"].split(":") if each and not each.startswith(("/usr", "/bin", "/sbin"))
        ]
        for folder in extra:
            words += ["--ro-bind-try", folder, folder]
        words += ["--bind", str(self.root), str(self.root)]
        words += ["--chdir", str(self.work), "--setenv", "PATH", os.environ["PATH"], "--setenv", "HOME", str(self.home)]
        words += ["--setenv", "LC_ALL", "C.UTF-8", "bash", "-c", script]
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
        )
        return done.stdout

    def behind(self, wall: Sandbox, script: str) -> bytes:
        """Run a script behind a wall of Toolcrib."""
        env = {"PATH": os.environ["PATH"], "HOME": str(self.home), "LC_ALL": "C.UTF-8"}

        async def once() -> bytes:
            spawn = wall.wrap(["bash", "-c", script], cwd=self.work, env=env, timeout=120)
            return (await run(spawn, timeout=120)).stdout.excerpt().text.encode()

        return asyncio.run(once())

    def harm(self, printed: bytes, secrets: tuple[str, ...] = (SECRET,)) -> str:
        """Return what a batch did that no command of it may do, or ""."""
        after = self.snapshot()
        changed = sorted(name for name in self.before.keys() | after.keys() if self.before.get(name) != after.get(name))
        if changed:
            self.restore()
        if "project/MARK" in changed:
            return "ran mark.sh"
        if changed:
            return f"wrote {', '.join(changed[:4])}"
        return "told a secret" if any(each.encode() in printed for each in secrets) else ""

    def try_all(self, commands: list[str], wall: Sandbox | None = None, size: int = 192) -> dict[str, str]:
        """Run commands; return what those did that did something. Behind a wall `.env` is a secret, too."""
        secrets = (SECRET,) if wall is None else (SECRET, INSIDE)
        found: dict[str, str] = {}
        pending = [commands[at : at + size] for at in range(0, len(commands), size)]
        while pending:
            batch = pending.pop()
            script, shown = self.driver(batch), f"{self.root}/out.txt"
            if wall is None:  # a file, because what a command left behind would keep a pipe open
                printed = self.in_the_open(f"{{\n{script}\n}} > {shown} 2>&1; grep -aoE '{_CANARY}' {shown} | sort -u")
            else:
                printed = self.behind(wall, f"{{\n{script}\n}} 2>&1 | grep -aoE '{_CANARY}' | sort -u")
            harm = self.harm(printed, secrets)
            if harm and len(batch) == 1:
                found[batch[0]] = harm
            elif harm:
                half = len(batch) // 2
                pending += [batch[:half], batch[half:]]
        return found


# --- which programs, and their options


def subjects() -> Iterator[tuple[str, ...]]:
    """Yield the words of each program, and each kind of sub-command, that may be allowed because it only reads."""
    for name in sorted(set(names()) - NEVER - SAME):
        program = lookup(name)
        if program is None or not program.closed or not is_there(name):
            continue
        yield (name,)
        rows = {below: sub for sub, below in (program.subs or {}).items() if below.closed and sub not in ("", "*")}
        yield from ((name, sub) for sub in rows.values())


@cache
def is_there(name: str) -> bool:
    return shutil.which(name) is not None or name in builtins()


@cache
def builtins() -> frozenset[str]:
    done = subprocess.run(["bash", "-c", "compgen -b"], capture_output=True, text=True, check=True)
    return frozenset(done.stdout.split())


@cache
def recorded() -> dict[str, list[str]]:
    """Return the options that were recorded on a machine with all the programs and their manual pages."""
    rows = [line.partition(": ") for line in RECORDED.read_text().splitlines() if line and line[0] != "#"]
    return {name: text.split() for name, _, text in rows}


def options_of(words: tuple[str, ...], ground: Ground) -> list[str]:
    """Return the options that a program's table, its help, its manual page and the record name, and all letters."""
    entry = _entry(words)
    listed = list(parse_options(entry.options, entry.single)) if entry else []
    undocumented = (
        "" if entry is None or entry.anything else "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@?"
    )
    letters = [f"-{letter}" for letter in undocumented]
    return list(dict.fromkeys([*listed, *said(words, ground), *recorded().get(" ".join(words), ()), *letters]))


def _entry(words: tuple[str, ...]) -> Program | None:
    program = lookup(words[0])
    return (program.subs or {}).get(words[1]) if program and len(words) > 1 else program


def said(words: tuple[str, ...], ground: Ground) -> list[str]:
    """Return the options that a program's own help and manual page name."""
    calls = [f"{shlex.join(words)} --help", f"{shlex.join(words)} -h"]
    if words[0] in builtins():
        calls = [f"help {words[0]}"]
    text = "\n".join(
        ground.in_the_open(f"timeout -s KILL 3 bash -c {shlex.quote(each)} </dev/null 2>&1").decode("utf-8", "replace")
        for each in calls
    )
    return list(dict.fromkeys(_OPTION.findall(f"{text}\n{manual('-'.join(words))}")))[:300]


def manual(name: str) -> str:
    """Return the source of a manual page, if it is on this machine, with plain dashes."""
    for section in ("1", "8"):
        with (
            contextlib.suppress(OSError, BadGzipFile),
            gzip_open(f"/usr/share/man/man{section}/{name}.{section}.gz") as page,
        ):
            return page.read().decode("utf-8", "replace").replace("\\-", "-").replace("\\fR", " ").replace("\\f", " ")
    return ""


def record() -> None:
    """Write what the help and the manual pages of this machine's programs name, besides what is recorded already."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve() / "ground"
        root.mkdir()
        ground, rows = Ground(root), dict(recorded())
        for words in subjects():
            name = " ".join(words)
            rows[name] = list(dict.fromkeys([*rows.get(name, ()), *said(words, ground)]))
    head = "# Options that the help and the manual pages of programs name (`hostile_ground.py --record`)."
    RECORDED.write_text(
        "\n".join([head, *(f"{name}: {' '.join(row)}" for name, row in sorted(rows.items()) if row), ""])
    )


def commands_of(words: tuple[str, ...], ground: Ground) -> Iterator[str]:
    """Yield a program with each of its options: alone, twice, before and after operands, and with values."""
    start = shlex.join(words)
    operands = [
        each.replace("{work}", str(ground.work))
        for each in OPERANDS.get(words[0], ("a.txt b.txt", "alpha a.txt", "dir twin"))
    ]
    extra = ("", "a.txt", ".", "link", "x.json", "x.xml", "@names.txt", "page.1", "source.sh", "*")
    yield from (f"{start} {each}".strip() for each in (*operands, *extra))
    main = operands[0]
    entry = _entry(words)
    table = parse_options(entry.options, entry.single) if entry else {}
    for option in options_of(words, ground):
        forms = [f"{start} {option}", f"{start} {option} {main}", f"{start} {option}=made.txt {main}"]
        yield from forms
        if all(unlisted(each, ground) for each in forms):
            continue  # the judgement says the same of every other form
        flag = option in table and not table[option].takes
        yield f"{start} {main} {option}"
        yield f"{start} {option} {option} {main}"
        yield from (f"{start} {option} {each}" for each in (*operands[1:], *(() if flag else ("link", "x.xml", "."))))
        for value in ground.values[1:2] if flag else ground.values[:3]:
            yield f"{start} {option} {value} {main}"
        for value in () if flag else ground.values:
            yield f"{start} {option}{'=' * option.startswith('--')}{value} {main}"


def unlisted(command: str, ground: Ground) -> bool:
    found = judge_command(command, ground.place)
    return found.verdict != "allow" and found.rule == "shell:unknown-option"


def verdict(command: str, ground: Ground, *, walled: bool = False) -> str:
    return judge_command(command, replace(ground.place, walled=walled)).verdict


def said_of_themselves() -> Iterator[str]:
    """Yield the calls for help and the version of every program for which they are allowed."""
    for name in sorted(set(names()) | VERSIONS):
        if shutil.which(name):
            yield from (f"{name} --help", f"{name} --version")


if __name__ == "__main__":
    record()
