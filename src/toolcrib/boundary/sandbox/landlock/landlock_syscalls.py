"""Tables of the system calls that Landlock does not restrict, and the filter of backend `landlock` that refuses them.

Landlock restricts opening, creating, removing and truncating files, TCP ports, abstract sockets and signals. Numbers
are (x86-64, aarch64), as in `seccomp`.
"""

from __future__ import annotations

import errno

from ...landlock_calls import ABI_TRUNCATE
from ..seccomp import (
    AF_UNIX,
    Further,
    Machine,
    build,
    pairs_only,
    refuse_bits,
    refuse_unless_listed,
    refuse_unless_zero,
)

_Numbers = tuple[int | None, int | None]

# Modes, owners and times, of any file that belongs to the user.
INODE: dict[str, _Numbers] = {
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452),
    "chown": (92, None), "lchown": (94, None), "fchown": (93, 55), "fchownat": (260, 54),
    "utime": (132, None), "utimes": (235, None), "futimesat": (261, None), "utimensat": (280, 88),
}  # fmt: skip

# Extended attributes, access lists among them, of files by their names; programs that copy files continue without them
# if they are refused. Those of an open file can be read.
ATTRIBUTES: dict[str, _Numbers] = {
    "getxattr": (191, 8), "lgetxattr": (192, 9), "getxattrat": (464, 464),
    "listxattr": (194, 11), "llistxattr": (195, 12), "listxattrat": (465, 465),
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

# Priorities and processors of processes; the argument that says of which. 0 is the caller itself.
SCHEDULING: dict[str, tuple[_Numbers, int]] = {
    "setpriority": ((141, 140), 1), "ioprio_set": ((251, 30), 1), "sched_setaffinity": ((203, 122), 0),
    "sched_setparam": ((142, 118), 0), "sched_setscheduler": ((144, 119), 0), "sched_setattr": ((314, 274), 0),
}  # fmt: skip
_WHOSE = (("setpriority", 0, 2), ("ioprio_set", 0, 3))  # all processes of the user (PRIO_USER, IOPRIO_WHO_USER)

FILE_SETATTR: _Numbers = (469, 469)  # flags of files, from 6.17 on
SETRLIMIT: _Numbers = (160, 164)
PRLIMIT: _Numbers = (302, 261)
TRUNCATE: _Numbers = (76, 45)
OPEN: _Numbers = (2, None)
OPENAT: _Numbers = (257, 56)

MARK = 10  # RLIMIT_LOCKS, which the kernel does not use: each command has another one, which it cannot change

_ALL_BITS = 0xFFFFFFFF
_O_ACCMODE, _O_TRUNC = 0o3, 0o1000  # asm-generic/fcntl.h; the same on both machines

# Requests of ioctl that file systems answer. Many change a file, or the file system, through a descriptor that only
# reads. So of their types (linux/fs.h, then those of xfs, btrfs, fat, ocfs2, zfs, ceph, bcachefs, cifs and f2fs) only
# those are allowed that read, or that check that their target is open for writing.
_IOCTL_TYPE = 0xFF00
_FILE_TYPES = tuple(
    each << 8 for each in (ord("f"), ord("v"), ord("X"), 0x94, ord("r"), ord("o"), 0x83, 0x97, 0xBC, 0xCF, 0xF5)
)
FILE_REQUESTS = {
    "FS_IOC_GETFLAGS": 0x80086601, "FS_IOC_GETVERSION": 0x80087601, "FS_IOC_FSGETXATTR": 0x801C581F,
    "FS_IOC_FIEMAP": 0xC020660B, "FS_IOC_GETFSLABEL": 0x81009431,
    "FICLONE": 0x40049409, "FICLONERANGE": 0x4020940D, "FIDEDUPERANGE": 0xC0189436,
}  # fmt: skip


def build_filter(machine: Machine, abi: int) -> bytes:
    """Return the filter for a version of Landlock.

    Sockets with a name or an address are refused: a path could lead to the user's D-Bus or a docker.sock, which start
    programs outside, and Landlock does not check connections. Socket pairs are allowed, but only streams: datagrams of
    a pair could still be sent elsewhere.
    """
    column = machine.column
    errors = [
        *((number, errno.EPERM) for number in _on(column, *INODE.values(), *IPC.values())),
        *((number, errno.EOPNOTSUPP) for number in _on(column, *ATTRIBUTES.values())),
        *((number, errno.ENOSYS) for number in _on(column, FILE_SETATTR)),
    ]
    # as on a file system that does not know the request: programs continue without it
    files = refuse_unless_listed(machine.ioctl, 1, _IOCTL_TYPE, _FILE_TYPES, [*FILE_REQUESTS.values()], errno.ENOTTY)
    blocks = [*pairs_only(machine).blocks, files]
    for number in _on(column, PRLIMIT):
        blocks.append(refuse_unless_zero(number, 0, errno.EPERM))  # other processes: Landlock does not check it
        blocks.append(refuse_bits(number, 1, _ALL_BITS, MARK, errno.EPERM))
    blocks += [refuse_bits(number, 0, _ALL_BITS, MARK, errno.EPERM) for number in _on(column, SETRLIMIT)]
    for numbers, argument in SCHEDULING.values():
        blocks += [refuse_unless_zero(number, argument, errno.EPERM) for number in _on(column, numbers)]
    for name, argument, all_of_user in _WHOSE:
        blocks += [
            refuse_bits(number, argument, _ALL_BITS, all_of_user, errno.EPERM)
            for number in _on(column, SCHEDULING[name][0])
        ]
    if abi < ABI_TRUNCATE:
        errors += [(number, errno.EPERM) for number in _on(column, TRUNCATE)]
        for argument, numbers in ((1, OPEN), (2, OPENAT)):
            # opening to read with O_TRUNC truncates
            blocks += [
                refuse_bits(number, argument, _O_ACCMODE | _O_TRUNC, _O_TRUNC, errno.EPERM)
                for number in _on(column, numbers)
            ]
    return build(machine, (), Further(tuple(errors), tuple(blocks), (AF_UNIX,)))


def _on(column: int, *calls: _Numbers) -> list[int]:
    return [number for numbers in calls if (number := numbers[column]) is not None]
