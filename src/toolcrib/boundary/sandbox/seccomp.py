"""Build a seccomp filter as classic BPF by hand: the system calls that a sandboxed command may not make.

It is a deny-list. The namespaces, the empty capability set and the file tree are the real boundaries; the filter
removes the calls that have broken such boundaries before. Numbers are from the kernel's
arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h (aarch64); a test compares them with the
headers of the machine.
"""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Sequence

from ...core.dataclass import dataclass

# linux/seccomp.h, linux/audit.h
_ALLOW = 0x7FFF0000
_ERRNO = 0x00050000
_KILL = 0x80000000
# low halves; both machines are little-endian
_DATA_NR, _DATA_ARCH, _DATA_ARG0, _DATA_ARG1, _DATA_ARG2 = 0, 4, 16, 24, 32
_X32_BIT = 0x40000000

# linux/bpf_common.h
_LD, _JEQ, _JGE, _JSET, _JA, _RET, _AND = 0x20, 0x15, 0x35, 0x45, 0x05, 0x06, 0x54

# linux/sched.h; CLONE_NEWTIME shares bits with clone's exit signal and exists for clone3 and unshare only
CLONE_NEW = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
TIOCSTI, TIOCLINUX = 0x5412, 0x541C  # asm-generic/ioctls.h: both type into the terminal
_LEASES = (1024, 1040)  # linux/fcntl.h: F_SETLEASE, F_SETDELEG; who opens a leased file waits for 45 s
AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
_FILE_KIND, _CHARACTER_DEVICE, _S_ISUID = 0o170000, 0o020000, 0o4000  # linux/stat.h
_MAKES = 0o100 | 0o20000000  # asm-generic/fcntl.h: O_CREAT, __O_TMPFILE; only with these, open has a mode
_SOCK_STREAM, _SOCK_DGRAM, _SOCK_TYPE_MASK, _IPPROTO_TCP = 1, 2, 0xF, 6  # linux/net.h

# Each call that gives a file a mode, and which of its arguments that is.
MODES: dict[str, tuple[tuple[int | None, int | None], int]] = {
    "chmod": ((90, None), 1), "fchmod": ((91, 52), 1), "fchmodat": ((268, 53), 2), "fchmodat2": ((452, 452), 2),
    "creat": ((85, None), 1), "mknod": ((133, None), 1), "mknodat": ((259, 33), 2),
    "open": ((2, None), 2), "openat": ((257, 56), 3),
}  # fmt: skip
OPENS = ("open", "openat")
"""Those whose mode counts only if their flags, the argument before it, make a file."""
OPENAT2 = 437
"""Its flags and mode are behind a pointer: without it, programs use openat."""

# name: (x86-64, aarch64); None where the machine does not have it
DENIED: dict[str, tuple[int | None, int | None]] = {
    # other processes' memory and files
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "kcmp": (312, 272), "pidfd_getfd": (438, 438), "process_madvise": (440, 440),
    # large, often broken kernel interfaces
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "bpf": (321, 280), "userfaultfd": (323, 282), "perf_event_open": (298, 241),
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    "fanotify_init": (300, 262), "lookup_dcookie": (212, 18),
    # namespaces and mounts
    "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39),
    "pivot_root": (155, 41), "chroot": (161, 51), "open_tree": (428, 428), "move_mount": (429, 429),
    "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
    "mount_setattr": (442, 442), "open_tree_attr": (467, 467),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265),
    # the machine itself
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "init_module": (175, 105),
    "finit_module": (313, 273), "delete_module": (176, 106), "reboot": (169, 142),
    "swapon": (167, 224), "swapoff": (168, 225), "acct": (163, 89), "syslog": (103, 116),
    "quotactl": (179, 60), "quotactl_fd": (443, 443), "vhangup": (153, 58),
    "settimeofday": (164, 170), "clock_settime": (227, 112), "adjtimex": (159, 171),
    "clock_adjtime": (305, 266), "iopl": (172, None), "ioperm": (173, None), "modify_ldt": (154, None),
    "uselib": (134, None), "_sysctl": (156, None), "create_module": (174, None),
    "get_kernel_syms": (177, None), "query_module": (178, None), "nfsservctl": (180, 42),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Machine:
    """The facts about an architecture that the filter needs."""

    audit: int
    column: int
    clone: int
    clone3: int
    fcntl: int
    ioctl: int
    socket: int
    socketpair: int
    x32: bool = False


X86_64 = Machine(
    0xC000003E, 0, clone=56, clone3=435, fcntl=72, ioctl=16, socket=41, socketpair=53, x32=True
)  # fmt: skip
AARCH64 = Machine(0xC00000B7, 1, clone=220, clone3=435, fcntl=25, ioctl=29, socket=198, socketpair=199)
MACHINES = {"x86_64": X86_64, "amd64": X86_64, "aarch64": AARCH64, "arm64": AARCH64}


def this_machine() -> Machine | None:
    """Return the running machine's table; None for an unknown machine: then the sandbox must be refused."""
    return MACHINES.get(platform.machine().lower())


@dataclass(frozen=True, slots=True)
class Further:
    """The rules of a filter besides the common list, by the numbers of one machine.

    `errors` are calls and the errno that they get, `blocks` are calls with code that refuses some arguments. `pairs`
    are the address families of socketpair, None for the same as those of sockets.
    """

    errors: tuple[tuple[int, int], ...] = ()
    blocks: tuple[tuple[int, bytes], ...] = ()
    pairs: tuple[int, ...] | None = None


def build(machine: Machine, families: tuple[int, ...] = (AF_UNIX,), further: Further | None = None) -> bytes:
    """Return the filter: sockets of the given address families only. Unknown calls are allowed.

    It searches the call's number in a tree: the kernel runs the filter once for each number when it is set.
    """
    further = further or Further()
    tests: dict[int, bytes] = {}

    def test(call: int, *code: bytes) -> None:
        tests[call] = tests.get(call, b"") + b"".join(code)

    for numbers in DENIED.values():
        number = numbers[machine.column]
        if number is not None:
            test(number, _deny(errno.EPERM))
    for number, error in further.errors:
        test(number, _deny(error))
    for number, code in further.blocks:
        test(number, code)
    # clone3 hides its flags behind a pointer; without it, C libraries use clone
    test(machine.clone3, _deny(errno.ENOSYS))
    test(machine.clone, _op(_LD, _DATA_ARG0), _op(_JSET, CLONE_NEW, 0, 1), _deny(errno.EPERM))
    for name, (numbers, argument) in MODES.items():
        if (number := numbers[machine.column]) is not None:
            if name in OPENS:
                test(number, _op(_LD, _DATA_ARG0 + 8 * (argument - 1)), _op(_JSET, _MAKES, 1, 0), _op(_RET, _ALLOW))
            # who runs such a file becomes its owner, also another user outside
            test(*refuse_bits(number, argument, _S_ISUID, _S_ISUID, errno.EPERM))
            if name.startswith("mknod"):
                # everybody may make the device 0:0; over this workspace, an overlay would take it for a deleted file
                test(*refuse_bits(number, argument, _FILE_KIND, _CHARACTER_DEVICE, errno.EPERM))
    test(OPENAT2, _deny(errno.ENOSYS))
    for call, requests in ((machine.ioctl, (TIOCSTI, TIOCLINUX)), (machine.fcntl, _LEASES)):
        test(call, _op(_LD, _DATA_ARG1))
        for request in requests:
            test(call, _op(_JEQ, request, 0, 1), _deny(errno.EPERM))
    pairs = families if further.pairs is None else further.pairs
    for call, known in ((machine.socket, families), (machine.socketpair, pairs)):
        allowed = [_op(_JEQ, family, len(known) - i, 0) for i, family in enumerate(known)]
        test(call, _op(_LD, _DATA_ARG0), *allowed, _deny(errno.EAFNOSUPPORT))
    head = [
        _op(_LD, _DATA_ARCH),
        _op(_JEQ, machine.audit, 1, 0),
        _op(_RET, _KILL),  # another architecture's calls have other numbers
        _op(_LD, _DATA_NR),
    ]
    if machine.x32:
        head += [_op(_JGE, _X32_BIT, 0, 1), _deny(errno.EPERM)]
    return b"".join(head) + _tree([(call, tests[call] + _op(_RET, _ALLOW)) for call in sorted(tests)])


_LEAF = 4  # calls that are compared one after the other


def _tree(tests: Sequence[tuple[int, bytes]]) -> bytes:
    """Return code that finds the call's number among the sorted ones, and runs its test; other calls are allowed."""
    if len(tests) <= _LEAF:
        found = (_op(_JEQ, call, 0, len(code) // _SIZE) + code for call, code in tests)
        return b"".join(found) + _op(_RET, _ALLOW)
    middle = len(tests) // 2
    low, high = _tree(tests[:middle]), _tree(tests[middle:])
    return _op(_JGE, tests[middle][0], 0, 1) + _op(_JA, len(low) // _SIZE) + low + high


_SIZE = 8  # bytes of one instruction


def _op(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("<HBBI", code, if_true, if_false, value)


def _deny(number: int) -> bytes:
    return _op(_RET, _ERRNO | number)


def refuse_bits(call: int, argument: int, mask: int, value: int, error: int) -> tuple[int, bytes]:
    """Return code that refuses a call if the bits `mask` of an argument (its low half) are `value`."""
    return call, b"".join((
        _op(_LD, _DATA_ARG0 + 8 * argument), _op(_AND, mask), _op(_JEQ, value, 0, 1), _deny(error),
    ))  # fmt: skip


def refuse_unless_listed(
    call: int, argument: int, mask: int, kinds: Sequence[int], listed: Sequence[int], error: int
) -> tuple[int, bytes]:
    """Return code that refuses a call if the bits `mask` of an argument (its low half) are one of `kinds`, unless the
    low half is one of `listed`."""
    load = _op(_LD, _DATA_ARG0 + 8 * argument)
    known = [_op(_JEQ, value, len(listed) - i, 0) for i, value in enumerate(listed)]
    decide = load + b"".join(known) + _deny(error)
    last = len(kinds) - 1
    found = [_op(_JEQ, kind, last - i, 0 if i < last else len(decide) // _SIZE) for i, kind in enumerate(kinds)]
    return call, load + _op(_AND, mask) + b"".join(found) + decide


def refuse_unless_zero(call: int, argument: int, error: int) -> tuple[int, bytes]:
    """Return code that refuses a call if the low half of an argument is not 0."""
    return call, _op(_LD, _DATA_ARG0 + 8 * argument) + _op(_JEQ, 0, 1, 0) + _deny(error)


def tcp_only(machine: Machine) -> Further:
    """Return rules for `build` with the internet families: TCP only, and no call that can name another socket.

    Of the sockets without a network, only stream pairs are allowed: a datagram of a pair could go to any name.
    """
    tests = b"".join((
        _op(_LD, _DATA_ARG1), _op(_AND, _SOCK_TYPE_MASK), _op(_JEQ, _SOCK_STREAM, 1, 0), _deny(errno.EPROTONOSUPPORT),
        _op(_LD, _DATA_ARG2), _op(_JEQ, 0, 2, 0), _op(_JEQ, _IPPROTO_TCP, 1, 0), _deny(errno.EPROTONOSUPPORT),
    ))  # fmt: skip
    return Further(blocks=((machine.socket, tests), *pairs_only(machine).blocks), pairs=(AF_UNIX,))


def pairs_only(machine: Machine) -> Further:
    """Return rules for `build` without families: no sockets but stream pairs, which reach nothing by a name."""
    pairs = refuse_bits(machine.socketpair, 1, _SOCK_TYPE_MASK, _SOCK_DGRAM, errno.EPROTONOSUPPORT)
    return Further(blocks=(pairs,), pairs=(AF_UNIX,))
