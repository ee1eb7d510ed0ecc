"""Describe container clients: their daemon runs as root on this machine."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..effects import Effect, of_options
from ..parts import Word
from ..sorting import SortedWords
from .spec import program

_RUN = """
-v=volume --volume=volume --mount=mount-option --privileged!escape --cap-add=!escape --device=!escape
--device-cgroup-rule=!escape --pid=hostspace --ipc=hostspace --userns=hostspace --uts=hostspace
--cgroupns=hostspace --network=hostnet --net=hostnet --security-opt=security --volumes-from= --env-file=read
--name= -e= --env= -w= --workdir= -u= --user= -p= --publish= --entrypoint= -h= --hostname= -l= --label= -m=
--memory= --cpus= --restart= --rm -it -i -t -d --link= --tmpfs= --ulimit= --gpus= --platform= --pull=
--cidfile=write --log-driver= --log-opt= --dns= --add-host= --shm-size= --init -P --read-only --cap-drop=
--group-add= --runtime= --cgroup-parent= --annotation= --health-cmd= --stop-signal= --stop-timeout= --ip=
--mac-address= --expose= --detach-keys= --attach= -a= --sysctl=!escape
"""


def _volume(word: Word) -> Iterator[Effect]:
    """`-v HOST:INSIDE`: root changes the files at HOST from inside the container."""
    source = word.start.partition(":")[0]
    if re.search(r"(?:docker|podman|containerd|crio)\.sock", source):
        yield Effect("escape", word, "gives a container the daemon's socket, and with it the machine")
    elif source.startswith(("/", "~", ".", "$")):
        yield Effect("write", Word((source,), word.source))
    elif word.text is None and not source:
        yield Effect("unknown", word, "mounts a folder that is known only when it runs", "shell:unknown-path")


def _mounted(word: Word) -> Iterator[Effect]:
    match = re.search(r"(?:^|,)(?:source|src)=([^,]*)", "".join(part or "" for part in word.parts))
    if match:
        yield from _volume(Word((match[1] + ":",), word.source))


def _run(call: SortedWords) -> Iterator[Effect]:
    for effect in of_options(call):
        if effect.kind == "volume" and isinstance(effect.target, Word):
            yield from _volume(effect.target)
        elif effect.kind == "mount-option" and isinstance(effect.target, Word):
            yield from _mounted(effect.target)
        elif effect.kind == "hostspace":
            if isinstance(effect.target, Word) and effect.target.text == "host":
                yield Effect("escape", effect.target, "gives a container the host's own processes or users")
        elif effect.kind == "security":
            if (isinstance(effect.target, Word) and "unconfined" in effect.target.start + "x") or "disable" in str(
                effect.target
            ):
                yield Effect("escape", effect.target, "takes a container's walls away")
        elif effect.kind == "hostnet":
            continue
        else:
            yield effect
    yield Effect("container")


def _cp(call: SortedWords) -> Iterator[Effect]:
    for word in call.operands:
        if ":" not in word.start:
            yield Effect("write" if word is call.operands[-1] else "read", word)
    yield Effect("container")


_ASK = program("text*", "", "container")
_DISCARD = program("text*", "", "discard container")
_BUILD = program(
    "read",
    "-t= -f=exec --file=exec --build-arg= --secret=read --ssh=read --allow=!escape -o=write "
    "--output=write --iidfile=write --network=hostnet --security-opt=security",
    handler=_run,
)
_START = program("text*", _RUN, handler=_run)

DOCKER = {
    "run create": _START,
    "container": program("text*", "", subs={"run create": _START, "cp": program("text*", "", handler=_cp), "*": _ASK}),
    "exec": program("text*", "--privileged!escape -u= --user= -w= -e= --env= --env-file=read -it -d", "container"),
    "cp": program("text*", "", handler=_cp),
    "build buildx": _BUILD,
    "save export": program("text*", "-o=write --output=write", "container"),
    "load import": program("maybe*", "-i=read --input=read", "container"),
    "rm rmi prune system volume": _DISCARD,
    "help --version": program("text*"),
    "*": _ASK,
    "": program("text*"),
}

PROGRAMS = {
    "docker podman ": program(
        "text*",
        "-H=network --host=network -c= --context= --config=read -l= --log-level= -D -v --root=write --storage-opt=",
        subs=DOCKER,
    ),
    "docker-compose podman-compose": program(
        "text*", "-f=exec --file=exec -p= --project-name= --env-file=read --project-directory=list", "container"
    ),
    "buildah skopeo dive trivy": _ASK,
}
