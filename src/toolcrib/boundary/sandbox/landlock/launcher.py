"""Start one command under Landlock and seccomp, wait for it, and end all processes that it started.

The launcher runs in a separate small interpreter (`python -I -S`), outside the sandbox and without privileges, so it
imports nothing from the rest of Toolcrib: the backend passes a plan, and this file's code with it. The launcher is a
subreaper: processes that the command leaves behind become its children, and it ends them before it ends itself.

It communicates with the host by two pipes. To `status` it writes `pid N`, then `ran` or `error TEXT`, a line each. From
`control` it reads one byte that lets the command start; `w` makes it watch the protected files anew, and any other
byte, or the end of the pipe, ends the command. It writes `changed` when one of these files changes.

Landlock does not cover chmod, chown and utime. The filter passes these calls to this process. It makes them itself, on
a descriptor whose place it has checked: nothing can be swapped between the check and the change.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import select
import struct
import sys
import time

if sys.platform == "linux":  # only the code object is used elsewhere
    import resource

TYPE_CHECKING = False  # importing typing would double the cost of the launcher
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import NoReturn, TypedDict

    class Plan(TypedDict):
        """The work to do, in the types that `marshal` supports."""

        argv: list[str]
        cwd: str
        status: int
        control: int
        folder: str  # private, removed at the end
        writable: list[str]  # real paths beneath which chmod, chown and utime are made
        landlock: tuple[int, int, int, int]  # its system calls, and the kind of its rules
        handled: bytes  # struct landlock_ruleset_attr
        rules: list[tuple[str, int, int]]  # path, rights if it is a directory, rights if it is a file
        filters: list[bytes]  # the second is used where asking is impossible, or is installed last
        seccomp: int  # the number of that system call
        calls: dict[int, tuple[str, int, int, int, int, bool]]  # see `_Calls`
        limits: list[tuple[int, int]]
        watched: list[tuple[str, list[str]]]  # folders, and the names in each; none: all


# linux/prctl.h, linux/seccomp.h, linux/fcntl.h
_PIDFD_GETFD = 438
_SET_NO_NEW_PRIVS, _SET_CHILD_SUBREAPER, _SET_PDEATHSIG = 38, 36, 1
_CAPBSET_DROP, _SET_SECUREBITS, _CAP_AMBIENT, _AMBIENT_CLEAR = 24, 28, 47, 4
_NO_ROOT = 0b1111  # SECBIT_NOROOT and SECBIT_NO_SETUID_FIXUP, both locked (linux/securebits.h)
_CAPABILITY_VERSION_3 = 0x20080522
_FILTER, _NEW_LISTENER = 1, 8
_NOTIF_RECV, _NOTIF_SEND, _NOTIF_VALID = 0xC0502100, 0xC0182101, 0x40082102
_NOTIF = struct.Struct("=QIIiIQ6Q")
_AT_FDCWD, _NOFOLLOW, _EMPTY_PATH = -100, 0x100, 0x1000
_PATH_MAX = 4096
_KILL = 9
# linux/inotify.h: modify, attributes, moved from and to, create, delete, and the folder itself deleted or moved
_CHANGES = 0x2 | 0x4 | 0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800
_EVENT = struct.Struct("=iIII")
_TICK_MS = 1000  # how often the launcher looks for ended orphans
_REMOVE_SECONDS = 1.0  # after that time the host removes the rest of the folder

libc = ctypes.CDLL(None, use_errno=True)


def main(plan: Plan) -> NoReturn:
    """Run the command of a plan and exit as it did, with 128 + N after signal N."""
    code = 126
    try:
        for fd in (plan["status"], plan["control"]):
            os.set_inheritable(fd, False)
        _give_up_privileges()
        code = _run(plan)
    except BaseException as error:
        _say(plan["status"], f"error {error}")
    finally:
        _end_descendants()
        _remove(plan["folder"], time.monotonic() + _REMOVE_SECONDS)
        os._exit(code)


def _check(value: int, what: str) -> int:
    if value < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return value


def _say(fd: int, text: str) -> None:
    try:
        os.write(fd, text.replace("\n", " ")[:4000].encode(errors="replace") + b"\n")
    except OSError:
        pass  # the host does not listen any more


def _give_up_privileges() -> None:
    """Drop all capabilities, now and after any exec. Become the subreaper of all descendants."""
    _check(libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "subreaper")
    _check(libc.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    libc.prctl(_CAP_AMBIENT, _AMBIENT_CLEAR, 0, 0, 0)
    for capability in range(64):  # both need CAP_SETPCAP; without it only no_new_privs protects
        if libc.prctl(_CAPBSET_DROP, capability, 0, 0, 0) != 0:
            break
    libc.prctl(_SET_SECUREBITS, _NO_ROOT, 0, 0, 0)
    header, nothing = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0), bytes(24)
    _check(libc.capset(header, nothing), "capset")


# --- the command's own process -------------------------------------------------------------------------------


def _become(plan: Plan, program: bytes, ask: bool, up: int, down: int) -> NoReturn:
    """Restrict this process, wait for permission, and become the command."""
    try:
        _check(libc.prctl(_SET_PDEATHSIG, _KILL, 0, 0, 0), "pdeathsig")
        os.setsid()
        os.chdir(plan["cwd"])
        for limit, value in plan["limits"]:
            _limit(limit, value)
        _restrict(plan)
        os.write(up, b"L%d\n" % _filter(plan["seccomp"], program, ask))
        if os.read(down, 1) != b"1":
            os._exit(126)
        os.execvpe(plan["argv"][0], plan["argv"], os.environ)  # noqa: S606
    except BaseException as error:
        os.write(up, f"E{error}\n".encode(errors="replace"))
    finally:
        os._exit(126)


def _limit(limit: int, value: int) -> None:
    soft, hard = resource.getrlimit(limit)
    bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
    soft = bound if soft == resource.RLIM_INFINITY else min(bound, max(soft, value))
    resource.setrlimit(limit, (soft, bound))


def _restrict(plan: Plan) -> None:
    handled = plan["handled"]
    create, add, restrict, beneath = plan["landlock"]
    ruleset = _check(_syscall(create, handled, len(handled), 0), "landlock")
    for path, if_directory, if_file in plan["rules"]:
        try:
            target = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            continue  # a missing file needs no rule
        rights = if_directory if os.path.isdir(f"/proc/self/fd/{target}") else if_file
        rule = struct.pack("=Qi", rights, target)
        _check(_syscall(add, ruleset, beneath, rule, 0), f"landlock: a rule for {path}")
        os.close(target)
    _check(_syscall(restrict, ruleset, 0), "landlock: restrict_self")
    os.close(ruleset)


def _filter(call: int, program: bytes, ask: bool) -> int:
    """Install a filter. Return the descriptor on which its questions arrive, or -1 for a filter without questions."""
    code = ctypes.create_string_buffer(program, len(program))
    fprog = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(code))
    found = _check(_syscall(call, _FILTER, _NEW_LISTENER if ask else 0, fprog), "seccomp")
    return found if ask else -1


def _syscall(number: int, *arguments: object) -> int:
    wide = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    libc.syscall.restype = ctypes.c_long
    return int(libc.syscall(ctypes.c_long(number), *wide))


# --- the launcher's process, while the command runs ---------------------------------------------------------------


def _run(plan: Plan) -> int:
    child, up, down, listener = _begin(plan)
    watch = _Watch(plan["watched"])
    _say(plan["status"], f"pid {child}")
    if os.read(plan["control"], 1) != b"1":
        return 128 + _KILL
    os.write(down, b"1")
    os.close(down)
    return _beside(plan, child, up, listener, watch)


def _begin(plan: Plan) -> tuple[int, int, int, int]:
    """Fork, with a filter that asks us, if possible. Return the pid, the pipe from it, the pipe to it, and its
    questions or -1."""
    for program, ask in zip(plan["filters"], (True, False), strict=False):
        up, child_up = os.pipe()
        child_down, down = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(up)
            os.close(down)
            _become(plan, program, ask, child_up, child_down)
        os.close(child_up)
        os.close(child_down)
        said = _line(up)
        listener = -1
        if said.startswith(b"L"):
            try:
                listener = _fetch(child, int(said[1:])) if ask else -1
                return child, up, down, listener
            except OSError:  # Yama or a container's filter forbids it
                if not ask:
                    raise
        elif not ask:
            raise OSError(said[1:].decode(errors="replace") or "the command's process ended before it began")
        os.kill(child, _KILL)
        os.waitpid(child, 0)
        os.close(up)
        os.close(down)
    raise OSError("no filter")


def _line(fd: int) -> bytes:
    said = b""
    while not said.endswith(b"\n") and (more := os.read(fd, 4096)):
        said += more
    return said.rstrip(b"\n")


def _fetch(child: int, number: int) -> int:
    pidfd = os.pidfd_open(child)
    try:
        return _check(_syscall(_PIDFD_GETFD, pidfd, number, 0), "pidfd_getfd")
    finally:
        os.close(pidfd)


def _beside(plan: Plan, child: int, up: int, listener: int, watch: _Watch) -> int:
    """Answer the command's questions until it ends or the host ends it. Return its exit code."""
    pidfd = os.pidfd_open(child)
    poll = select.poll()
    calls = _Calls(plan, listener)
    for fd in (pidfd, up, plan["control"], watch.fd, listener):
        if fd >= 0:
            poll.register(fd, select.POLLIN)
    began = False
    while True:
        events = dict(poll.poll(_TICK_MS))
        if not began and (up in events or pidfd in events):
            poll.unregister(up)
            began = True
            failed = _line(up)
            _say(plan["status"], f"error {failed[1:].decode(errors='replace')}" if failed else "ran")
        if pidfd in events:
            return _status(child)
        if plan["control"] in events:
            if os.read(plan["control"], 1) != b"w":
                return 128 + _KILL
            watch.arm()
        if watch.fd in events and watch.has_changed():
            _say(plan["status"], "changed")
        if events.get(listener, 0) & select.POLLIN:
            calls.answer()
        elif listener in events:
            poll.unregister(listener)  # no process is left that could ask
        _reap_others(child)


class _Watch:
    """A watch on protected files. It notices a change at once, so that the file is restored before the command's
    end."""

    def __init__(self, places: list[tuple[str, list[str]]]) -> None:
        self._places = places
        self._names: dict[int, list[str]] = {}
        self.fd = (
            libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK) if places else -1
        )  # -1 also if the user has too many watches
        self.arm()

    def arm(self) -> None:
        """Watch the files that have these names now."""
        for folder, names in self._places if self.fd >= 0 else ():
            found = libc.inotify_add_watch(self.fd, os.fsencode(folder), _CHANGES)
            if found >= 0:  # missing, or over the user's limit of watches: then the change is noticed at the end
                self._names[found] = names

    def has_changed(self) -> bool:
        """Read the events, and return whether they matter."""
        found = False
        try:
            data = os.read(self.fd, 65536)
        except BlockingIOError:
            return False
        at = 0
        while at < len(data):
            watch, _, _, size = _EVENT.unpack_from(data, at)
            name = data[at + _EVENT.size : at + _EVENT.size + size].rstrip(b"\0")
            names = self._names.get(watch)
            found = found or not names or not name or os.fsdecode(name) in names
            at += _EVENT.size + size
        return found


def _status(child: int) -> int:
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code if code >= 0 else 128 - code


def _reap_others(child: int) -> None:
    """Reap ended orphans. waitid does not reap the command itself, so that `_status` can."""
    while (found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
        if found.si_pid == child:
            return
        os.waitpid(found.si_pid, 0)


def _end_descendants() -> None:
    """Kill and reap all descendants. The children of a dying process become ours before we can reap it."""
    while True:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
            for pid in _descendants():
                try:
                    os.kill(pid, _KILL)
                except ProcessLookupError:
                    pass
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _descendants() -> list[int]:
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    parent = int(file.read().rpartition(b")")[2].split()[1])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(name))
    found = list(children.get(os.getpid(), ()))
    for pid in found:
        found += children.get(pid, ())
    return found


# --- calls that we make for the command --------------------------------------------------------------------------


class _Calls:
    """Answers to the questions of the filter. `plan["calls"]` describes each system call by number: what it does,
    the index of the arguments that hold the directory, the path, the value and the flags (-1: none), and whether it
    follows links."""

    def __init__(self, plan: Plan, listener: int) -> None:
        self.calls, self.writable, self.listener = plan["calls"], plan["writable"], listener

    def answer(self) -> None:
        """Read one question and answer it. The process that asked may be gone by then."""
        question = bytearray(_NOTIF.size)
        try:
            fcntl.ioctl(self.listener, _NOTIF_RECV, question)
        except OSError:
            return
        cookie, pid, _, number, _, _, *arguments = _NOTIF.unpack(question)
        try:
            self._make(cookie, pid, number, arguments)
            error = 0
        except OSError as problem:
            error = -(problem.errno or errno.EPERM)
        except Exception:
            error = -errno.EPERM
        try:
            fcntl.ioctl(self.listener, _NOTIF_SEND, struct.pack("=QqiI", cookie, 0, error, 0))
        except OSError:
            pass

    def _make(self, cookie: int, pid: int, number: int, arguments: list[int]) -> None:
        kind, directory, path, value, flags, follows = self.calls[number]
        given = arguments[flags] & 0xFFFFFFFF if flags >= 0 else 0
        if given & ~(_NOFOLLOW | _EMPTY_PATH):
            raise OSError(errno.EINVAL, "flags")
        with _Memory(pid) as memory:
            name = _text(memory, arguments[path]) if path >= 0 and arguments[path] else None
            times = _times(kind, memory, arguments[value])
        at = ctypes.c_int(arguments[directory] & 0xFFFFFFFF).value if directory >= 0 else _AT_FDCWD
        place = _place(pid, at, name, bool(given & _EMPTY_PATH))
        mode = os.O_PATH | os.O_CLOEXEC
        if name and (not follows or given & _NOFOLLOW):
            mode |= os.O_NOFOLLOW
        fcntl.ioctl(self.listener, _NOTIF_VALID, struct.pack("=Q", cookie))  # it waits: the number is valid
        target = os.open(place, mode)
        try:
            self._within(target)
            if kind == "chmod":
                os.chmod(f"/proc/self/fd/{target}", arguments[value] & 0o7777)
            elif kind == "chown":
                owner, group = (ctypes.c_uint32(arguments[value + n] & 0xFFFFFFFF) for n in (0, 1))
                _check(libc.fchownat(target, b"", owner, group, _EMPTY_PATH), "chown")
            else:
                _check(libc.utimensat(target, b"", times, _EMPTY_PATH), "utime")
        finally:
            os.close(target)

    def _within(self, target: int) -> None:
        """Return whether a path is inside these folders. Landlock prevents links and moves from elsewhere into them,
        so the name decides."""
        real = os.readlink(f"/proc/self/fd/{target}")
        if not any(real == root or real.startswith(root + "/") for root in self.writable):
            raise OSError(errno.EPERM, "outside")


class _Memory:
    """The open memory of a process."""

    def __init__(self, pid: int) -> None:
        self.fd = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)

    def __enter__(self) -> int:
        return self.fd

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)


def _text(memory: int, at: int) -> bytes:
    """Read a C string page by page, because the next page may not exist."""
    found = b""
    while len(found) < _PATH_MAX:
        piece = os.pread(memory, _PATH_MAX - at % _PATH_MAX, at)
        end = piece.find(b"\0")
        if end >= 0:
            return found + piece[:end]
        if not piece:
            raise OSError(errno.EFAULT, "path")
        found, at = found + piece, at + len(piece)
    raise OSError(errno.ENAMETOOLONG, "path")


def _times(kind: str, memory: int, at: int) -> bytes | None:
    """Read two `struct timespec` from the call's argument; None means now."""
    if kind not in ("utime", "utimes", "utimens") or not at:
        return None
    size = 16 if kind == "utime" else 32
    found = os.pread(memory, size, at)
    if len(found) != size:
        raise OSError(errno.EFAULT, "times")
    if kind == "utime":
        accessed, changed = struct.unpack("=qq", found)
        return struct.pack("=qqqq", accessed, 0, changed, 0)
    if kind == "utimes":
        s0, u0, s1, u1 = struct.unpack("=qqqq", found)
        if not (0 <= u0 < 1_000_000 and 0 <= u1 < 1_000_000):
            raise OSError(errno.EINVAL, "microseconds")
        return struct.pack("=qqqq", s0, u0 * 1000, s1, u1 * 1000)
    return found


def _place(pid: int, at: int, name: bytes | None, may_be_empty: bool) -> bytes:
    """Return the path by which we reach what `name` means to that process."""
    own = f"/proc/{pid}".encode()
    base = own + (b"/cwd" if at == _AT_FDCWD else b"/fd/%d" % at)
    if name is None or (name == b"" and may_be_empty):
        return base
    if name == b"":
        raise OSError(errno.ENOENT, "path")
    for self_name in (b"/proc/self", b"/proc/thread-self"):
        if name.startswith(self_name + b"/"):
            return own + name[len(self_name) :]
    return name if name.startswith(b"/") else base + b"/" + name


# --- afterwards ----------------------------------------------------------------------------------------------------


def _remove(folder: str, until: float) -> None:
    """Remove a folder with all its content. Files that cannot be removed in time stay."""
    for path, is_directory in _below(folder):
        if time.monotonic() > until:
            return
        try:
            (os.rmdir if is_directory else os.unlink)(path)
        except OSError:
            pass


def _below(folder: str) -> Iterator[tuple[str, bool]]:
    try:
        os.chmod(folder, 0o700)
        with os.scandir(folder) as entries:
            found = [(entry.path, entry.is_dir(follow_symlinks=False)) for entry in entries]
    except OSError:
        found = []
    for path, is_directory in found:
        if is_directory:
            yield from _below(path)
        else:
            yield path, False
    yield folder, True
