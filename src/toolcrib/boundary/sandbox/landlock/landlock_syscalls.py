"""Tables of the system calls that Landlock does not restrict, and what the filter of backend `landlock` does with them.

Landlock restricts opening, creating, removing and truncating files, TCP ports, abstract sockets and signals. The filter
refuses the other calls, or the launcher makes them if they stay inside. Numbers are (x86-64, aarch64), as in `seccomp`.
"""

from __future__ import annotations

import errno

from ...landlock_calls import ABI_TRUNCATE
from ..seccomp import AF_UNIX, Further, Machine, build, refuse_bits, refuse_unless_zero

_Numbers = tuple[int | None, int | None]

# name: numbers, and then for the launcher: what it does, the index of the arguments that hold the directory, the
# path, the value and the flags (-1 for none), and whether it follows links
MADE: dict[str, tuple[_Numbers, tuple[str, int, int, int, int, bool]]] = {
    "chmod": ((90, None), ("chmod", -1, 0, 1, -1, True)),
    "fchmod": ((91, 52), ("chmod", 0, -1, 1, -1, True)),
    "fchmodat": ((268, 53), ("chmod", 0, 1, 2, -1, True)),
    "fchmodat2": ((452, 452), ("chmod", 0, 1, 2, 3, True)),
    "chown": ((92, None), ("chown", -1, 0, 1, -1, True)),
    "lchown": ((94, None), ("chown", -1, 0, 1, -1, False)),
    "fchown": ((93, 55), ("chown", 0, -1, 1, -1, True)),
    "fchownat": ((260, 54), ("chown", 0, 1, 2, 4, True)),
    "utime": ((132, None), ("utime", -1, 0, 1, -1, True)),
    "utimes": ((235, None), ("utimes", -1, 0, 1, -1, True)),
    "futimesat": ((261, None), ("utimes", 0, 1, 2, -1, True)),
    "utimensat": ((280, 88), ("utimens", 0, 1, 2, 3, True)),
}

# Extended attributes, access lists among them; programs that copy files continue without them if they are refused.
ATTRIBUTES: dict[str, _Numbers] = {
    "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7), "setxattrat": (463, 463),
    "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16), "removexattrat": (466, 466),
}  # fmt: skip

# Shared memory, semaphores and queues that every process of the user can name.
IPC: dict[str, _Numbers] = {
    "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195), "shmdt": (67, 197),
    "semget": (64, 190), "semop": (65, 193), "semctl": (66, 191), "semtimedop": (220, 192),
    "msgget": (68, 186), "msgsnd": (69, 189), "msgrcv": (70, 188), "msgctl": (71, 187),
    "mq_open": (240, 180), "mq_unlink": (241, 181),
}  # fmt: skip

FILE_SETATTR: _Numbers = (469, 469)  # flags of files, from 6.17 on
PRLIMIT: _Numbers = (302, 261)
TRUNCATE: _Numbers = (76, 45)
OPEN: _Numbers = (2, None)
OPENAT: _Numbers = (257, 56)
OPENAT2: _Numbers = (437, 437)
SECCOMP: _Numbers = (317, 277)

_SOCK_TYPE_MASK, _SOCK_DGRAM = 0xF, 2
_O_ACCMODE, _O_TRUNC = 0o3, 0o1000  # asm-generic/fcntl.h; the same on both machines
_FS_IOC_SETFLAGS, _FS_IOC_FSSETXATTR = 0x40086602, 0x401C5820


def made_calls(machine: Machine) -> dict[int, tuple[str, int, int, int, int, bool]]:
    """Return the calls that the launcher makes for the command, by their numbers."""
    found = ((numbers[machine.column], shape) for numbers, shape in MADE.values())
    return {number: shape for number, shape in found if number is not None}


def filters(machine: Machine, abi: int) -> list[bytes]:
    """Return the filter that asks the launcher, and the one for where asking is impossible: that one refuses.

    Sockets with a name or an address are refused: a path could lead to the user's D-Bus or a docker.sock, which start
    programs outside, and Landlock does not check connections. Socket pairs are allowed, but only streams: datagrams of
    a pair could still be sent elsewhere.
    """
    column = machine.column
    made = tuple(made_calls(machine))
    errors = [
        *((number, errno.EOPNOTSUPP) for number in _on(column, *ATTRIBUTES.values())),
        *((number, errno.EPERM) for number in _on(column, *IPC.values())),
        *((number, errno.ENOSYS) for number in _on(column, FILE_SETATTR)),
    ]
    blocks = [refuse_bits(machine.socketpair, 1, _SOCK_TYPE_MASK, _SOCK_DGRAM, errno.EPROTONOSUPPORT)]
    # for other processes: Landlock does not check it
    blocks += [refuse_unless_zero(number, 0, errno.EPERM) for number in _on(column, PRLIMIT)]
    if abi < ABI_TRUNCATE:
        errors += [(number, errno.EPERM) for number in _on(column, TRUNCATE)]
        errors += [(number, errno.ENOSYS) for number in _on(column, OPENAT2)]  # its flags are behind a pointer
        for argument, numbers in ((1, OPEN), (2, OPENAT)):
            # opening to read with O_TRUNC truncates
            blocks += [
                refuse_bits(number, argument, _O_ACCMODE | _O_TRUNC, _O_TRUNC, errno.EPERM)
                for number in _on(column, numbers)
            ]
    ioctls = (_FS_IOC_SETFLAGS, _FS_IOC_FSSETXATTR)
    asking = Further(tuple(errors), made, tuple(blocks), ioctls, (AF_UNIX,))
    refusing = Further((*errors, *((number, errno.EPERM) for number in made)), (), tuple(blocks), ioctls, (AF_UNIX,))
    return [build(machine, (), asking), build(machine, (), refusing)]


def _on(column: int, *calls: _Numbers) -> list[int]:
    return [number for numbers in calls if (number := numbers[column]) is not None]
