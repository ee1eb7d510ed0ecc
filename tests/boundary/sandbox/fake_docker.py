"""Stands in for docker: records its arguments, and runs commands without a container.

It reads FAKE_DOCKER, a folder: `log` gets a line of JSON a call, `containers/NAME` the pid of what runs. The file
`answers` there is JSON: the first words of a call → [exit code, stdout, stderr], instead of what it would do.
What it says, and with which exit codes, is what Docker 28 and Podman 4 say.
"""

import json
import os
import signal
import sys

folder = os.environ.get("DOCKER_FAKE_FOLDER") or os.path.dirname(os.path.abspath(__file__))
arguments = sys.argv[1:]
with open(f"{folder}/log", "a") as file:
    file.write(json.dumps({"arguments": arguments, "environment": dict(os.environ)}) + "\n")

if os.path.exists(f"{folder}/answers"):
    with open(f"{folder}/answers") as file:
        for words, (code, out, err) in json.load(file).items():
            if " ".join(arguments).startswith(words):
                sys.stdout.write(out)
                sys.stderr.write(err)
                sys.exit(code)

# options of `run` that take a value
VALUED = {
    "--pull", "--name", "--label", "--cidfile", "--log-driver", "--network", "--cap-drop", "--security-opt",
    "--hostname", "--memory", "--memory-swap", "--cpus", "--pids-limit", "--shm-size", "--ulimit", "--user",
    "--userns", "--tmpfs", "--mount", "--workdir", "--env", "--entrypoint",
}  # fmt: skip


def run(rest):
    options, variables = {}, []
    while rest[0].startswith("-"):
        name = rest.pop(0)
        if name in VALUED:
            options[name] = rest.pop(0)
            if name == "--env":
                variables.append(options[name])
        elif name not in ("--rm", "--interactive", "--read-only"):
            sys.stderr.write(f"unknown flag: {name}\n")
            sys.exit(125)
    image = rest.pop(0)
    rest = rest[: rest.index("--")][:3] + rest[rest.index("--") :]  # nothing is mounted, so nothing is expected
    if image == "missing:image":
        sys.stderr.write(f"docker: Error response from daemon: No such image: {image}\n")
        sys.exit(125)
    with open(options["--cidfile"], "x") as file:
        file.write("0123456789abcdef")
    env = {"PATH": "/usr/bin:/bin"}
    for variable in variables:
        name, given, value = variable.partition("=")
        env[name] = value if given else os.environ[name]
    os.makedirs(f"{folder}/containers", exist_ok=True)
    container = f"{folder}/containers/{options['--name']}"
    pid = os.fork()
    if pid == 0:
        os.setsid()
        os.chdir(options["--workdir"])
        try:
            os.execve(options["--entrypoint"], [options["--entrypoint"], *rest], env)
        except OSError:
            sys.stderr.write("docker: Error response from daemon: failed to create task: OCI runtime create failed\n")
            sys.stderr.flush()
            os._exit(127)
    with open(container, "w") as file:
        file.write(str(pid))
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.unlink(container)  # --rm
    sys.exit(code if code >= 0 else 128 - code)


if arguments == ["--version"]:
    print("Docker version 28.2.2, build e6534b4")
elif arguments[0] == "info":
    print('["name=seccomp,profile=builtin","name=cgroupns"]')
elif arguments[:2] == ["image", "inspect"]:
    if arguments[-1] == "missing:image":
        sys.exit("[]\nError response from daemon: No such image: missing:image")
    print("sha256:0123")
elif arguments[0] == "ps":
    pass
elif arguments[0] in ("kill", "rm"):
    name = arguments[-1]
    try:
        with open(f"{folder}/containers/{name}") as file:
            os.killpg(int(file.read()), signal.SIGKILL)
    except FileNotFoundError:
        sys.exit(f"Error response from daemon: No such container: {name}")
elif arguments[0] == "run":
    run(arguments[1:])
else:
    sys.exit(f"docker: '{arguments[0]}' is not a docker command.")
