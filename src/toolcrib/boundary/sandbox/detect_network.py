"""Do the allowed domains hold here, and can commands reach them? For `toolcrib doctor`."""

from __future__ import annotations

from dataclasses import replace

from .spec import DoctorFinding, SandboxSettings

_NAME = "allowed domains"
_INSTEAD = 'sandbox.backend = "bubblewrap" can limit the network to domains'
# What becomes of sandbox.allowed_domains with the backends that have no network namespace of ours.
_WITHOUT = {
    "landlock": "landlock cannot limit the network to domains, so commands have no network at all",
    "docker": "containers run with --network none, so commands have no network at all",
    "external": "backend external does not limit the network: sandbox.allowed_domains changes nothing",
    "none": "backend none does not limit the network: sandbox.allowed_domains changes nothing",
}


def findings(settings: SandboxSettings, backend: str) -> list[DoctorFinding]:
    """What becomes of the allowed domains with this backend; nothing where there are none."""
    if not settings.domains:
        return []
    if backend in _WITHOUT:
        return [DoctorFinding(_NAME, False, _WITHOUT[backend], _INSTEAD, needed=False)]
    from .detect_bubblewrap import try_run, working

    found, _ = working()
    if found is None:  # said already
        return []
    from .bubblewrap import BubblewrapSandbox

    asked = replace(settings, profile="workspace-write", read=(), write=(), hidden=(), env=())
    problem = try_run(lambda folder: BubblewrapSandbox(found.path, asked, folder))
    listed = ", ".join(settings.domains[:10]) + ("…" if len(settings.domains) > 10 else "")
    if problem:
        return [DoctorFinding(_NAME, False, problem, 'sandbox.network = "off" leaves commands without network')]
    return [
        DoctorFinding(_NAME, True, f"commands reach {listed} through our proxy, and nothing else; a real run works")
    ]
