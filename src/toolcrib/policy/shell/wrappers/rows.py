"""List, as data, programs that run another command and take options the usual way.

The sources are the manual pages of coreutils 9, util-linux 2.40, findutils 4.10, procps 4, bash 5.2, sudo 1.9 and of
each program named.
"""

from __future__ import annotations

from .inner import Wrapper

W = Wrapper
# One row for each program; keys are base names.
WRAPPERS: dict[str, Wrapper] = {
    "builtin": W(inside=True),
    "command": W("p", inside=True, stops="vV"),
    "exec": W("cl", "a", inside=True),
    "nohup": W(),
    "setsid": W("cfw", long="ctty fork wait"),
    "nice": W(valued="n", long_valued="adjustment", optional="0123456789"),
    "ionice": W("t", "cn", "ignore", "class classdata", stops="pPu"),
    "timeout": W("vfp", "ks", "preserve-status foreground verbose", "kill-after signal", operands=1),
    "time": W("apvqV", "fo", "append portability verbose quiet", "format output"),
    "stdbuf": W(valued="ioe", long_valued="input output error"),
    "chrt": W("abdfiormRv", "TPD", "all-tasks batch deadline fifo idle other rr reset-on-fork verbose",
              "sched-runtime sched-period sched-deadline", operands=1, stops="p"),
    "taskset": W("ac", "", "all-tasks cpu-list", operands=1, stops="p"),
    "flock": W("sxeunoFvM", "wE", "shared exclusive unlock nonblock nb close no-fork verbose",
               "timeout wait conflict-exit-code command", operands=1, script="c command"),
    "strace": W("CdfFhiknqrtTvVwxyzZYc", "abeEIoOpPsSuUX", "follow-forks summary-only summary decode-fds seccomp-bpf "
                "no-abbrev debug failed-only successful-only instruction-pointer stack-traces quiet",
                "attach output trace signal status user env string-limit columns expr detach-on interruptible"),
    "ltrace": W("bcCfhiLrStTV", "aADeFlnopsuwx", "", "align config indent library output where"),
    "watch": W("bcdegprtwxCf", "nqs", "beep color differences errexit chgexit precise no-rerun no-title no-wrap exec "
               "no-color follow", "interval equexit shotsdir", optional="d", script="*", joined=True),
    "sudo": W("ABbEHknPSsiKv", "aCcDghpRrTtUu", "askpass background preserve-env set-home login shell non-interactive "
              "preserve-groups stdin reset-timestamp",
              "auth-type close-from login-class chdir group host prompt chroot "
              "role command-timeout type other-user user", assigns=True, directory="D chdir R chroot", stops="lVe"),
    "doas": W("Lns", "aCu"),
    "runuser": W("flmPpT", "cgGsuw", "fast login preserve-environment pty",
                 "command group supp-group shell user session-command whitelist-environment", script="c command "
                 "session-command", elsewhere=True),
    "su": W("flmPpT", "cgGsw", "fast login preserve-environment pty",
            "command group supp-group shell session-command whitelist-environment", script="c command session-command",
            operands=1, elsewhere=True),
    "pkexec": W("", "", "disable-internal-agent keep-cwd", "user", elsewhere=True),
    "script": W("aefqr", "cEmoBIOTt", "append return flush force quiet", "command echo log-in log-out log-io "
                "log-timing logging-format output-limit", script="c command", optional="t", stops="*"),
    "chroot": W("", "", "skip-chdir", "userspec groups", operands=1, elsewhere=True),
    "unshare": W("cfhrUimnpuCT", "GSRwl", "fork keep-caps map-root-user map-current-user map-auto user ipc mount net "
                 "pid uts cgroup time mount-proc kill-child", "setgid setuid root wd propagation setgroups map-user "
                 "map-group map-users map-groups monotonic boottime load-interp", optional="imnpuUCT",
                 directory="R root w wd"),
    "nsenter": W("aFeZcC", "tSG", "all no-fork env follow-context preserve-credentials keep-caps join-cgroup",
                 "target setuid setgid", optional="muinpCUTrwW", elsewhere=True),
    "systemd-run": W("GPtSqdr", "HMpuEC", "user system scope pty pipe shell quiet wait collect same-dir no-block "
                     "remain-after-exit no-ask-password send-sighup slice-inherit", "host machine property unit "
                     "description slice service-type uid gid nice working-directory setenv on-active on-boot "
                     "on-startup "
                     "on-unit-active on-unit-inactive on-calendar timer-property path-property socket-property",
                     directory="working-directory"),
    "entr": W("acdnprsxz", script="", operands=0),
    "unbuffer": W("p"),
    "rlwrap": W("acEiInNorRvwU", "bCfgHlOPqsStTzWMdpB", "", ""),
    "faketime": W("m", "p", "date-prog", "exclude-monotonic", operands=1, stops="hv"),
    "proot": W("0hv", "rbqwkilpSRm", "root-id kill-on-exit link2symlink", "rootfs bind qemu pwd cwd kernel-release",
               elsewhere=True),
    "fakeroot": W("hvu", "lsib", "unknown-is-real", "lib faked"),
    "fakechroot": W("shv", "lde", "use-system-libs", "lib elfloader environment"),
    "xvfb-run": W("alh", "efnpsw", "auto-servernum listen-tcp", "error-file auth-file server-num xauth-protocol "
                  "server-args wait"),
    "dbus-run-session": W("", "", "", "config-file dbus-daemon"),
    "dbus-launch": W("", "", "sh-syntax csh-syntax auto-syntax exit-with-session exit-with-x11 close-stderr",
                     "config-file autolaunch"),
    "torsocks": W("iq", "auPd", "shell isolate quiet", "address user pass port"),
    "torify": W(),
    "proxychains": W("q", "f"),
    "proxychains4": W("q", "f"),
    "catchsegv": W(),
    "numactl": W("alsHh", "ipmCNPwxo", "all localalloc show hardware touch", "interleave preferred membind cpunodebind "
                 "physcpubind preferred-many weighted-interleave balancing offset length file"),
    "prlimit": W("v", "po", "noheadings raw verbose", "pid output", optional="cdefilmnqrstuvxy"),
    "setarch": W("RFZLXBITS3v", "p", "addr-no-randomize fdpic-funcptrs mmap-page-zero addr-compat-layout "
                  "read-implies-exec "
                 "32bit short-inode whole-seconds sticky-timeouts 3gb uname-2.6 verbose 4gb", "pid", operands=1),
    "gosu": W(operands=1),
    "su-exec": W(operands=1),
    "chpst": W("vVP012", "uUbenmodsfrctl/"),
    "setuidgid": W(operands=1),
    "envdir": W(operands=1),
    "softlimit": W(valued="mdsalofpcrt"),
    "tini": W("svghw", "pe", "version"),
    "tini-static": W("svghw", "pe", "version"),
    "dumb-init": W("cv", "r", "single-child verbose", "rewrite"),
    "catatonit": W("P"),
    "runcon": W("c", "turl", "compute", "type user role range", operands=1),
    "setpriv": W("d", "", "dump clear-groups keep-groups init-groups no-new-privs reset-env nnp",
                 "ambient-caps inh-caps bounding-set ruid euid rgid egid reuid regid groups securebits pdeathsig "
                 "ptracer selinux-label apparmor-profile landlock-access landlock-rule seccomp-filter"),
    "start-stop-daemon": W("SKTHbmtoqvVCh", "agpcusnxrkdNPIkR", "start stop status background make-pidfile test oknodo "
                           "quiet verbose no-close remove-pidfile", "exec startas chuid pidfile user name signal retry "
                           "chdir chroot umask nicelevel procsched iosched group pid ppid output notify-await",
                           directory="d chdir r chroot"),
    "cgexec": W("", "g", "sticky"),
    "caffeinate": W("disumh", "tw"),
    "arch": W("h", "e", "i386 x86_64 x86_64h arm64 arm64e 32 64"),
    "with-contenv": W(),
    "daemonize": W("av", "ceopuElx"),
    "choom": W("", "n", "", "adjust", stops="p"),
    "uclampset": W("as", "mM", "all-tasks system reset-on-fork", "", stops="p"),
    "coresched": W(),
    "hyperfine": W("iNv", "wrmMpcsSnuLP", "ignore-failure", "warmup runs prepare cleanup conclude setup", script="*"),
    "dotenv": W("q", "ef", "quote", "file"),
    "direnv": W(operands=2),
    "logsave": W("asv", operands=1),
    "chronic": W("ve"),
    "ifne": W("n"),
    "eatmydata": W(),
    "linux32": W("RFZLXBITS3v"),
    "linux64": W("RFZLXBITS3v"),
    "i386": W("RFZLXBITS3v"),
    "x86_64": W("RFZLXBITS3v"),
    "ssh-agent": W("cDdks", "aEOPt"),
    "extrace": W(),
    "memusage": W("ntT", "pdxymub", "", "progname data"),
    "sg": W("", "c", operands=1, script="c *"),
    "cpulimit": W("bivzmr", "lcpe", "", "limit pid exe path cpu"),
    "trickle": W("svh", "udLwtnlP"),
    "dtach": W("nacAN", "reEz", operands=1),
    "abduco": W("aAcfnlr", "ep", operands=1),
}  # fmt: skip  # fmt: skip
