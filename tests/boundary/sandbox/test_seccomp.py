import errno
import re
import struct
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.boundary.environment import command_environment
from toolcrib.boundary.process import run
from toolcrib.boundary.sandbox import SandboxSettings, seccomp, select_sandbox
from toolcrib.boundary.sandbox.landlock import landlock_syscalls

ALLOW, KILL = 0x7FFF0000, 0x80000000
MACHINES = {"x86_64": seccomp.X86_64, "aarch64": seccomp.AARCH64}
HEADERS = {"x86_64": "/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "aarch64": "/usr/include/asm-generic/unistd.h"}


def verdict(program: bytes, arch: int, number: int, *arguments: int) -> int:
    """What the kernel would make of one system call: an interpreter for the classic BPF that we emit."""
    padded = [*arguments, 0, 0, 0, 0, 0, 0][:6]
    data = struct.pack("<IIQ6Q", number, arch, 0, *padded)
    code = [struct.unpack_from("<HBBI", program, at) for at in range(0, len(program), 8)]
    accumulator, at = 0, 0
    while True:
        op, if_true, if_false, value = code[at]
        at += 1
        if op == 0x20:
            accumulator = struct.unpack_from("<I", data, value)[0]
        elif op == 0x54:
            accumulator &= value
        elif op == 0x06:
            return value
        elif op == 0x05:
            at += value
        else:
            holds = {0x15: accumulator == value, 0x35: accumulator >= value, 0x45: bool(accumulator & value)}[op]
            at += if_true if holds else if_false


def error(number: int) -> int:
    return 0x00050000 | number


@pytest.mark.parametrize("name", MACHINES)
def test_every_denied_call_is_denied_and_its_neighbours_are_not(name: str) -> None:
    machine = MACHINES[name]
    program = seccomp.build(machine)
    denied = {pair[machine.column] for pair in seccomp.DENIED.values()} - {None}
    special = {machine.clone, machine.clone3, machine.ioctl, machine.socket, machine.socketpair}
    assert not denied & special
    special |= {pair[machine.column] for pair, _ in seccomp.MODES.values()} | {seccomp.OPENAT2}
    for number in range(500):
        if number not in special:
            expected = error(errno.EPERM) if number in denied else ALLOW
            assert verdict(program, machine.audit, number) == expected, number


@pytest.mark.parametrize("name", MACHINES)
def test_arguments_decide(name: str) -> None:
    m = MACHINES[name]
    program = seccomp.build(m)

    def of(number: int, *arguments: int) -> int:
        return verdict(program, m.audit, number, *arguments)

    assert of(m.clone3) == error(errno.ENOSYS)
    assert of(m.clone, 17) == ALLOW  # a fork
    assert of(m.clone, 0x3D0F00) == ALLOW  # a thread, as glibc makes them
    for flag in (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000):
        assert of(m.clone, flag | 17) == error(errno.EPERM), hex(flag)
    assert of(m.ioctl, 1, 0x5401) == ALLOW  # TCGETS
    assert of(m.ioctl, 0, 0x5412) == of(m.ioctl, 0, 0x541C) == error(errno.EPERM)
    assert of(m.ioctl, 0, 0xDEAD_0000_5412) == error(errno.EPERM)  # the kernel looks at the low half only
    assert of(m.fcntl, 3, 3) == of(m.fcntl, 3, 1030, 3) == ALLOW  # F_GETFL, F_DUPFD_CLOEXEC
    assert of(m.fcntl, 3, 1024, 1) == of(m.fcntl, 3, 1040, 1) == error(errno.EPERM)  # leases
    for key, (pair, argument) in seccomp.MODES.items():
        call, before = pair[m.column], (0,) * argument
        if call is None:
            continue
        if key.startswith("mknod"):
            assert of(call, *before, 0o020666) == error(errno.EPERM)  # the device 0:0 needs no privilege
            assert of(call, *before, 0o010644) == of(call, *before, 0o100644) == ALLOW
        assert of(call, *before, 0o644) == of(call, *before, 0o2755) == of(call, *before, 0o1777) == ALLOW
        for flags in (0o101, 0o20200002, 0o1102) if key in seccomp.OPENS else (0,):
            to_mode = (*before[:-1], flags)
            assert of(call, *to_mode, 0o755) == ALLOW, key
            for mode in (0o4755, 0o104644, 0o6000, 0xDEAD_0000_0800):
                assert of(call, *to_mode, mode) == error(errno.EPERM), key
        if key in seccomp.OPENS:  # without O_CREAT the mode is whatever was there
            for flags in (0, 1, 2, 0o200000, 0o2000000):
                assert of(call, *before[:-1], flags, 0xFFFF) == ALLOW
    assert of(seccomp.OPENAT2) == error(errno.ENOSYS)
    for call in (m.socket, m.socketpair):
        assert of(call, 1) == ALLOW
        assert of(call, 0x1_0000_0001) == ALLOW  # is AF_UNIX to the kernel, too
        for family in (0, 2, 10, 16, 17, 31, 38, 40, 0x1_0000_0002):
            assert of(call, family) == error(errno.EAFNOSUPPORT), family


@pytest.mark.parametrize("name", MACHINES)
def test_families_can_be_allowed(name: str) -> None:
    m = MACHINES[name]
    program = seccomp.build(m, (seccomp.AF_UNIX, seccomp.AF_INET, seccomp.AF_INET6, seccomp.AF_NETLINK))
    allowed = {f for f in range(60) if verdict(program, m.audit, m.socket, f) == ALLOW}
    assert allowed == {1, 2, 10, 16}


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_another_architecture_is_killed(arch: int, number: int) -> None:
    for machine in MACHINES.values():
        if arch != machine.audit:
            assert verdict(seccomp.build(machine), arch, number) == KILL


def test_x32_is_refused() -> None:
    program = seccomp.build(seccomp.X86_64)
    assert verdict(program, seccomp.X86_64.audit, 0x40000000 | 39) == error(errno.EPERM)
    assert verdict(program, seccomp.X86_64.audit, 39) == ALLOW


@pytest.mark.parametrize("name", MACHINES)
def test_numbers_are_those_of_the_kernel_headers(name: str) -> None:
    header = Path(HEADERS[name])
    if not header.exists():
        pytest.skip(f"{header} is not installed")
    found = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", header.read_text())
    numbers = {key: int(value) for key, value in found}
    machine = MACHINES[name]
    checked = 0
    calls = {**landlock_syscalls.INODE, **seccomp.DENIED, **landlock_syscalls.ATTRIBUTES, **landlock_syscalls.IPC}
    calls |= {
        "prlimit64": landlock_syscalls.PRLIMIT,
        "truncate": landlock_syscalls.TRUNCATE,
        "setrlimit": landlock_syscalls.SETRLIMIT,
    }
    calls |= {name: pair for name, (pair, _) in landlock_syscalls.SCHEDULING.items()}
    calls |= {name: pair for name, (pair, _) in seccomp.MODES.items()}
    calls |= {
        "open": landlock_syscalls.OPEN,
        "openat": landlock_syscalls.OPENAT,
        "openat2": (seccomp.OPENAT2, seccomp.OPENAT2),
    }
    for key, pair in calls.items():
        number = pair[machine.column]
        if number is not None and key in numbers:
            assert numbers[key] == number, key
            checked += 1
    assert checked > 75
    for key in ("clone", "clone3", "ioctl", "socket", "socketpair"):
        assert numbers[key] == getattr(machine, key), key


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("abi", [1, 3, 7])
def test_what_landlock_leaves_open_is_refused(name: str, abi: int) -> None:
    m = MACHINES[name]
    program = landlock_syscalls.build_filter(m, abi)

    def of(pair: tuple[int | None, int | None], *arguments: int) -> int:
        number = pair[m.column]
        return ALLOW if number is None else verdict(program, m.audit, number, *arguments)

    for pair in landlock_syscalls.INODE.values():
        assert pair[m.column] is None or of(pair) == error(errno.EPERM)
    for pair in landlock_syscalls.ATTRIBUTES.values():
        assert of(pair) == error(errno.EOPNOTSUPP)
    for pair in landlock_syscalls.IPC.values():
        assert of(pair) == error(errno.EPERM)
    assert of(landlock_syscalls.PRLIMIT, 0, 7) == ALLOW
    assert of(landlock_syscalls.PRLIMIT, 1234, 7) == error(errno.EPERM)
    assert of(landlock_syscalls.PRLIMIT, 0, 10) == of(landlock_syscalls.SETRLIMIT, 10) == error(errno.EPERM)  # the mark
    assert of(landlock_syscalls.SETRLIMIT, 7) == ALLOW
    for name, (pair, argument) in landlock_syscalls.SCHEDULING.items():
        before = (0,) * argument
        assert of(pair, *before, 0) == ALLOW, name
        assert of(pair, *before, 1234) == error(errno.EPERM), name
    for name, whose in (("setpriority", 2), ("ioprio_set", 3)):  # all processes of the user
        assert of(landlock_syscalls.SCHEDULING[name][0], whose, 0) == error(errno.EPERM)
    old = abi < 3
    assert of(landlock_syscalls.TRUNCATE) == (error(errno.EPERM) if old else ALLOW)
    assert verdict(program, m.audit, seccomp.OPENAT2) == error(errno.ENOSYS)
    reading, writing = 0o1000, 0o1000 | 0o101
    assert of(landlock_syscalls.OPENAT, 3, 0, reading) == (error(errno.EPERM) if old else ALLOW)
    assert of(landlock_syscalls.OPENAT, 3, 0, writing) == ALLOW
    assert of(landlock_syscalls.OPENAT, 3, 0, 0) == ALLOW
    assert verdict(program, m.audit, m.socket, 1) == error(errno.EAFNOSUPPORT)  # a path may lead to D-Bus
    assert verdict(program, m.audit, m.socketpair, 1, 0x80001) == ALLOW
    assert verdict(program, m.audit, m.socketpair, 1, 0x80002) == error(errno.EPROTONOSUPPORT)
    assert verdict(program, m.audit, m.socketpair, 2, 1) == error(errno.EAFNOSUPPORT)
    assert verdict(program, m.audit, m.ioctl, 3, 0x5412) == error(errno.EPERM)
    assert verdict(program, m.audit, m.ioctl, 3, 0x5401) == ALLOW
    for pair in seccomp.DENIED.values():
        if pair[m.column] is not None:
            assert of(pair) == error(errno.EPERM)


@pytest.mark.parametrize("name", MACHINES)
def test_of_the_requests_to_file_systems_only_those_that_read_are_allowed(name: str) -> None:
    m = MACHINES[name]
    program = landlock_syscalls.build_filter(m, 7)

    def of(request: int) -> int:
        return verdict(program, m.audit, m.ioctl, 3, request)

    for request in (*landlock_syscalls.FILE_REQUESTS.values(), 0x541B, 0x5421, 0x40045436):  # FIONREAD, FIONBIO
        assert of(request) == of(0xDEAD_0000_0000 | request) == ALLOW, hex(request)
    setting = {
        "SETFLAGS": 0x40086602, "its 32-bit form": 0x40046602, "SETVERSION": 0x40087602, "of ext4": 0x40086604,
        "FSSETXATTR": 0x401C5820, "ENABLE_VERITY": 0x40806685, "FITHAW": 0xC0045878, "FSCRYPT_ADD_KEY": 0xC0506617,
        "BTRFS_SUBVOL_CREATE": 0x5000940E, "SETFSLABEL": 0x41009432, "FAT_SET_ATTRIBUTES": 0x40047211,
        "OCFS2_REFLINK": 0x40186F04, "F2FS_PIN_FILE": 0x4004F50D, "nobody's": 0x66FF, "its other size": 0x80046601,
    }  # fmt: skip
    for key, request in setting.items():
        assert of(request) == of(0xDEAD_0000_0000 | request) == error(errno.ENOTTY), key


@pytest.mark.parametrize("name", MACHINES)
def test_tcp_only_is_tcp_only(name: str) -> None:
    m = MACHINES[name]
    program = seccomp.build(m, (seccomp.AF_INET,), seccomp.tcp_only(m))
    stream, datagram, raw, packets, cloexec = 1, 2, 3, 5, 0o2000000

    def of(number: int, *arguments: int) -> int:
        return verdict(program, m.audit, number, *arguments)

    for kind in (stream, stream | cloexec):
        assert of(m.socket, 2, kind, 0) == of(m.socket, 2, kind, 6) == ALLOW
        assert of(m.socketpair, 1, kind, 0) == ALLOW
        for protocol in (17, 132, 262):  # UDP, SCTP, MPTCP
            assert of(m.socket, 2, kind, protocol) == error(errno.EPROTONOSUPPORT)
        for family in (1, 10, 16, 17, 40):
            assert of(m.socket, family, kind, 0) == error(errno.EAFNOSUPPORT)
        assert of(m.socketpair, 2, kind, 0) == error(errno.EAFNOSUPPORT)
    for kind in (datagram, raw, packets, datagram | cloexec):
        assert of(m.socket, 2, kind, 0) == error(errno.EPROTONOSUPPORT)
    assert of(m.socketpair, 1, datagram, 0) == error(errno.EPROTONOSUPPORT)
    assert of(0) == ALLOW
    assert of(m.clone, 0x10000000) == error(errno.EPERM)


MAKES = """
import os, stat
folder = os.open(".", os.O_RDONLY)
def of_fd():
    os.fchmod(os.open("fd", os.O_CREAT | os.O_WRONLY, 0o755), 0o4755)
for make in (
    of_fd,
    lambda: os.open("made", os.O_CREAT | os.O_WRONLY, 0o4755),
    lambda: os.mknod("node", stat.S_IFREG | 0o4755),
    lambda: (open("at", "w").close(), os.chmod("at", 0o4755, dir_fd=folder)),
):
    try:
        make()
    except PermissionError:
        continue
    print("possible", make)
os.close(os.open("plain", os.O_CREAT | os.O_WRONLY, 0o755))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap and Landlock are for Linux")
@pytest.mark.parametrize("backend", ["bubblewrap", "landlock"])
async def test_a_command_makes_no_file_that_runs_as_its_owner(tmp_path: Path, backend: Any) -> None:
    sandbox = select_sandbox(SandboxSettings(backend=backend), tmp_path)
    argv = ["/usr/bin/python3", "-c", MAKES]
    ended = await run(sandbox.wrap(argv, cwd=tmp_path, env=command_environment(), timeout=60), timeout=60)
    assert (ended.exit_code, ended.stdout.excerpt().text) == (0, "")
    modes = {path.name: path.stat().st_mode & 0o7111 for path in tmp_path.iterdir()}
    assert modes["plain"] == 0o111 and not any(mode & 0o6000 for mode in modes.values())
