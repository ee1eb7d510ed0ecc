"""Runs inside a sandbox and tries to get out. Prints JSON: attack → how it was stopped, or "REACHED".

    python3 attacks.py TARGETS.json

The targets name what the host has put up: see `arena.py`, which runs this. Plain Python, no dependency.
"""

import ctypes
import errno
import fcntl
import json
import mmap
import os
import platform
import signal
import socket
import sys

with open(sys.argv[1]) as file:
    T = json.load(file)
libc = ctypes.CDLL(None, use_errno=True)
results = {}


def attack(fn):
    """Run one. Returning anything but False, or dying of nothing, means that the attacker got through."""
    name = fn.__name__
    try:
        results[name] = "no effect" if fn() is False else "REACHED"
    except OSError as error:
        results[name] = errno.errorcode.get(error.errno or 0, type(error).__name__)
    return fn


def call(name, *arguments):
    """A system call by its name, with the number of this machine."""
    number = T["numbers"].get(name)
    if number is None:
        raise OSError(errno.ENOSYS, "not on this machine")
    value = libc.syscall(ctypes.c_long(number), *arguments)
    if value < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return value


def in_child(fn):
    """Whether `fn` works in a child of its own (what it does there cannot be undone)."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            fn()
            code = 0
        except OSError as error:
            code = min(error.errno or 255, 255) if error.errno != 1 else 1
        finally:
            os._exit(code)
    status = os.waitpid(pid, 0)[1]
    if os.WIFSIGNALED(status):
        raise OSError(errno.EACCES, f"killed by {os.WTERMSIG(status)}")
    if code := os.WEXITSTATUS(status):
        raise OSError(code, os.strerror(code))


def write(path, text="evil"):
    with open(path, "w") as file:
        file.write(text)


def read(path):
    with open(path, "rb") as file:
        return bool(file.read(1))


def clone_new(flag):
    pid = call("clone", ctypes.c_uint64(flag | signal.SIGCHLD), 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


WS, OUT, PID = T["workspace"], T["outside"], T["pid"]

# --- files


@attack
def write_outside():
    write(f"{OUT}/evil")


@attack
def write_by_dotdot():
    write(f"{WS}/../outside/evil")


@attack
def write_system():
    write("/usr/evil")


@attack
def write_root():
    write("/evil")


@attack
def write_etc():
    write("/etc/evil")


@attack
def read_secret():
    read(f"{OUT}/secret")


@attack
def read_by_link():
    link = f"{WS}/link"
    os.symlink(f"{OUT}/secret", link)
    try:
        read(link)
    finally:
        os.unlink(link)


@attack
def read_home_secret():
    read(T["home_secret"])


@attack
def read_shadow():
    read("/etc/shadow")


@attack
def read_private_keys():
    return bool(os.listdir("/etc/ssl/private"))


@attack
def host_by_proc_root():
    os.listdir(f"/proc/{PID}/root/root")


@attack
def host_by_proc_cwd():
    os.listdir(f"/proc/{PID}/cwd")


@attack
def host_by_parent_root():
    return os.path.exists(f"/proc/1/root{OUT}/secret") or os.path.exists(f"/proc/{os.getppid()}/root{OUT}/secret")


@attack
def open_by_handle():
    handle = ctypes.create_string_buffer(b"\x08\0\0\0\x01\0\0\0" + b"\x02" + b"\0" * 127)
    call("open_by_handle_at", -100, handle, 0)


@attack
def chmod_outside():
    os.chmod(f"{OUT}/secret", 0o666)


@attack
def fchmod_outside():
    fd = os.open(f"{OUT}/secret", os.O_PATH)
    os.chmod(f"/proc/self/fd/{fd}", 0o666)


@attack
def chmod_for_the_machine():
    """A file of /proc has one mode, wherever that is mounted. Sets what is there already."""
    os.chmod("/proc/meminfo", 0o444)


@attack
def chmod_devices():
    """Root owns them, wherever they are mounted. Sets what is there already."""
    for each in ("/dev/full", 0):
        os.chmod(each, os.stat(each).st_mode & 0o7777)


@attack
def touch_outside():
    os.utime(f"{OUT}/secret", (1, 1))


@attack
def chown_outside():
    os.chown(f"{OUT}/secret", os.getuid(), os.getgid())


@attack
def attribute_outside():
    os.setxattr(f"{OUT}/secret", "user.evil", b"x")


@attack
def truncate_outside():
    os.truncate(f"{OUT}/readable", 0)


@attack
def truncate_by_reading():
    os.close(os.open(f"{OUT}/readable", os.O_RDONLY | os.O_TRUNC))


@attack
def list_outside():
    os.listdir(OUT)


@attack
def see_outside():
    return os.path.exists(f"{OUT}/secret")


@attack
def chmod_by_link():
    link = f"{WS}/link-to-secret"
    os.symlink(f"{OUT}/secret", link)
    try:
        os.chmod(link, 0o666)
    finally:
        os.unlink(link)


@attack
def link_from_outside():
    os.link(f"{OUT}/secret", f"{WS}/linked")


@attack
def move_from_outside():
    os.rename(f"{OUT}/movable", f"{WS}/moved")


@attack
def make_device():
    os.mknod(f"{WS}/device", 0o600 | 0o020000, os.makedev(1, 1))


@attack
def use_disks():
    for name in ("sda", "vda", "nvme0n1", "mem", "kmsg", "kvm", "fuse", "ptmx"):
        if os.path.exists(f"/dev/{name}") and (name != "ptmx" or os.stat("/dev/ptmx").st_dev == T["devices"]):
            os.close(os.open(f"/dev/{name}", os.O_RDWR | os.O_NOCTTY))
            return True
    return False


@attack
def set_core_pattern():
    """The kernel would run it outside, as root. Writes what is there already."""
    with open("/proc/sys/kernel/core_pattern") as file:
        before = file.read()
    write("/proc/sys/kernel/core_pattern", before)


@attack
def writable_kernel_files():
    """Any file of the machine's part of /proc that opens for writing."""
    for folder, _, files in os.walk("/proc", topdown=True):
        parts = folder.split("/")
        if len(parts) > 2 and (parts[2].isdigit() or parts[2] in ("self", "thread-self", "net")):
            continue
        for name in files:
            path = f"{folder}/{name}"
            if path.startswith(("/proc/self", "/proc/thread-self")) or not os.access(path, os.W_OK):
                continue
            with open(path, "r+b", buffering=0):
                results["writable"] = path
                return True
    return False


@attack
def kernel_memory():
    return any(
        os.path.exists(p) and read(p) for p in ("/proc/kcore", "/proc/kmsg", "/proc/slabinfo", "/proc/kpageflags")
    )


@attack
def sysrq():
    os.close(os.open("/proc/sysrq-trigger", os.O_WRONLY))


# --- environment, processes


@attack
def secret_environment():
    return any(T["environment_secret"] in value for value in os.environ.values())


@attack
def secret_environment_of_others():
    for pid in os.listdir("/proc"):
        if pid.isdigit():
            with open(f"/proc/{pid}/environ", "rb") as file:
                if T["environment_secret"].encode() in file.read():
                    return True
    return False


@attack
def see_host_process():
    return len([p for p in os.listdir("/proc") if p.isdigit()]) > 4


@attack
def signal_host():
    os.kill(PID, 0)


@attack
def ptrace_host():
    call("ptrace", 16, PID, 0, 0)


@attack
def ptrace_own():
    in_child(lambda: call("ptrace", 0, 0, 0, 0))


@attack
def process_memory():
    buffer = ctypes.create_string_buffer(16)
    vector = (ctypes.c_uint64 * 2)(ctypes.addressof(buffer), 16)
    call("process_vm_readv", os.getpid(), vector, 1, vector, 1, 0)


@attack
def first_process_memory():
    """Who writes there in a PID namespace can let it outlive what should end it."""
    os.close(os.open("/proc/1/mem", os.O_RDWR))


@attack
def other_processes_file():
    call("pidfd_getfd", os.pidfd_open(os.getppid()), 0, 0)


@attack
def command_lines_of_others():
    with open(f"/proc/{PID}/cmdline", "rb") as file:
        return b"sleep" in file.read()


@attack
def limits_of_others():
    pointer = (ctypes.c_uint64 * 2)(1 << 30, 1 << 30)
    call("prlimit64", PID, 1, pointer, None)  # RLIMIT_FSIZE


@attack
def shared_memory():
    call("shmget", T["shared_memory"], 4096, 0)


@attack
def message_queue():
    call("mq_open", b"toolcrib-probe", os.O_CREAT | os.O_RDWR, 0o600, None)


@attack
def have_capabilities():
    with open("/proc/self/status") as file:
        fields = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
    return any(int(fields[name], 16) for name in ("CapEff", "CapPrm", "CapInh", "CapAmb"))


@attack
def bounding_set():
    with open("/proc/self/status") as file:
        return any(int(line.split()[1], 16) for line in file if line.startswith("CapBnd:"))


@attack
def gain_privileges():
    return libc.prctl(39, 0, 0, 0, 0) != 1  # PR_GET_NO_NEW_PRIVS


@attack
def no_seccomp():
    with open("/proc/self/status") as file:
        return not any(line.split() == ["Seccomp:", "2"] for line in file)


# --- network


@attack
def tcp_loopback():
    socket.create_connection(("127.0.0.1", T["port"]), 1).close()


@attack
def tcp6():
    socket.socket(socket.AF_INET6, socket.SOCK_STREAM).close()


@attack
def udp():
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", T["port"]))


@attack
def packet_socket():
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW).close()


@attack
def netlink():
    socket.socket(16, socket.SOCK_RAW, 0).close()


@attack
def vsock():
    socket.socket(40, socket.SOCK_STREAM).close()


@attack
def bluetooth():
    socket.socket(31, socket.SOCK_RAW, 1).close()


@attack
def family_with_high_bits():
    call("socket", ctypes.c_uint64(0x1_0000_0000 | 2), 1, 0)


@attack
def abstract_socket():
    socket.socket(socket.AF_UNIX).connect("\0" + T["abstract"])


@attack
def datagram_pair():
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    ends[0].sendto(b"x", f"{OUT}/datagrams")


@attack
def path_socket():
    socket.socket(socket.AF_UNIX).connect(f"{OUT}/socket")


@attack
def other_interfaces():
    with open("/proc/net/dev") as file:
        return sum(":" in line for line in file) > 1


# --- namespaces and mounts

NAMESPACES = {"user": 0x10000000, "mnt": 0x20000, "pid": 0x20000000, "net": 0x40000000}


@attack
def unshare_user():
    in_child(lambda: call("unshare", NAMESPACES["user"]))


@attack
def clone_user():
    clone_new(NAMESPACES["user"])


@attack
def clone_mount():
    clone_new(NAMESPACES["mnt"])


@attack
def clone3():
    arguments = (ctypes.c_uint64 * 11)(NAMESPACES["user"], 0, 0, 0, signal.SIGCHLD)
    if call("clone3", arguments, ctypes.sizeof(arguments)) == 0:
        os._exit(0)


@attack
def more_user_namespaces():
    with open("/proc/sys/user/max_user_namespaces", "w") as file:
        file.write("1000")


@attack
def setns():
    call("setns", os.open("/proc/self/ns/net", os.O_RDONLY), 0)


@attack
def mount():
    os.makedirs(f"{WS}/mnt", exist_ok=True)
    call("mount", b"none", f"{WS}/mnt".encode(), b"tmpfs", 0, 0)


@attack
def remount_writable():
    call("mount", b"none", b"/usr", None, 0x1020, None)  # MS_REMOUNT | MS_BIND


@attack
def unmount_protected():
    call("umount2", f"{WS}/.git/hooks".encode(), 2)


@attack
def new_mount_api():
    call("fsopen", b"tmpfs", 0)


@attack
def open_tree():
    call("open_tree", -100, b"/", 1)


@attack
def pivot_root():
    call("pivot_root", b"/", b"/tmp")


@attack
def chroot():
    in_child(lambda: os.chroot(WS))


# --- kernel interfaces


@attack
def io_uring():
    call("io_uring_setup", 1, ctypes.create_string_buffer(120))


@attack
def keyring():
    call("keyctl", 0, 0xFFFFFFFD, 0)


@attack
def add_key():
    call("add_key", b"user", b"x", b"y", 1, -3)


@attack
def bpf():
    call("bpf", 5, ctypes.create_string_buffer(120), 120)


@attack
def userfaultfd():
    call("userfaultfd", 1)


@attack
def perf():
    attributes = ctypes.create_string_buffer(128)
    ctypes.memmove(attributes, (ctypes.c_uint32 * 2)(1, 128), 8)
    call("perf_event_open", attributes, 0, -1, -1, 0)


@attack
def load_module():
    call("init_module", b"", 0, b"")


@attack
def kexec():
    call("kexec_load", 0, 0, 0, 0)


@attack
def set_clock():
    call("clock_settime", 0, (ctypes.c_int64 * 2)(0, 0))


@attack
def kernel_log():
    call("syslog", 3, ctypes.create_string_buffer(100), 100)


@attack
def x32_calls():
    if platform.machine() != "x86_64":
        return False
    return libc.syscall(ctypes.c_long(0x40000000 | 39)) >= 0  # getpid


@attack
def other_architecture():
    """`int 0x80`: i386's system calls, whose numbers differ. mov eax, 20 (getpid); int 0x80; ret"""
    if platform.machine() != "x86_64":
        return False
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")
    in_child(ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code))))
    return True


# --- other programs


@attack
def lease_a_file():
    """Who opens it would wait for 45 s."""
    write(f"{WS}/leased")
    fcntl.fcntl(os.open(f"{WS}/leased", os.O_RDONLY), fcntl.F_SETLEASE, fcntl.F_RDLCK)


# --- the terminal


@attack
def controlling_terminal():
    os.open("/dev/tty", os.O_RDWR)


@attack
def type_into_terminal():
    _, terminal = os.openpty()
    fcntl.ioctl(terminal, 0x5412, b"x")  # TIOCSTI


# --- protected names

GIT = f"{WS}/.git"


@attack
def new_hook():
    write(f"{GIT}/hooks/post-commit")


@attack
def change_git_config():
    write(f"{GIT}/config")


@attack
def replace_git_config():
    write(f"{WS}/config.new")
    os.replace(f"{WS}/config.new", f"{GIT}/config")


@attack
def delete_git_config():
    os.unlink(f"{GIT}/config")


@attack
def rename_git():
    os.rename(GIT, f"{WS}/.git.old")


@attack
def exchange_git():
    os.makedirs(f"{WS}/.git.new", exist_ok=True)
    if libc.renameat2(-100, GIT.encode(), -100, f"{WS}/.git.new".encode(), 2) < 0:
        raise OSError(ctypes.get_errno(), "exchange")


@attack
def rename_hooks():
    os.rename(f"{GIT}/hooks", f"{GIT}/hooks.old")


@attack
def hard_link_config():
    os.link(f"{GIT}/config", f"{WS}/config.link")
    write(f"{WS}/config.link")


@attack
def nested_git_config():
    write(f"{WS}/sub/project/.git/config")


@attack
def rename_above_nested():
    os.rename(f"{WS}/sub", f"{WS}/sub.old")


@attack
def change_mcp():
    write(f"{WS}/.mcp.json")


@attack
def change_by_proc():
    write(f"/proc/self/root{WS}/.mcp.json")


@attack
def chmod_mcp():
    os.chmod(f"{WS}/.mcp.json", 0o777)


@attack
def change_through_linked_folder():
    write(f"{WS}/dotconfig/fish/config.fish")


@attack
def rename_workspace():
    os.rename(WS, WS + ".old")


# --- leave something running

if T.get("daemon"):
    begun, held = os.pipe()  # the last program that has the other end is the daemon, until it becomes `sleep`
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for fd in range(3):
                os.close(fd)
                os.open("/dev/null", os.O_RDWR)
            os.execvp("sleep", ["sleep", T["daemon"]])
        os._exit(0)
    os.wait()
    os.close(held)
    os.read(begun, 1)

for path in (f"{WS}/made", os.path.expanduser("~/.attacker"), "/tmp/.attacker", "/dev/shm/.attacker"):
    try:
        write(path, "by the attacker")
    except OSError as error:
        if path.startswith(WS):
            results["made"] = errno.errorcode.get(error.errno or 0, "?")
print(json.dumps(results))
