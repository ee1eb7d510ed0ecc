"""Describe programs that inspect or change the machine: processes, services, devices, users, kernel."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..effects import Effect, of_options, plain
from ..sorting import SortedWords
from .spec import Program, program


def _only_looks(*safe: str, kind: str, harmless_alone: bool = True):
    """Return a handler: harmless with these first operands (or without any), else an effect of that kind."""

    def handler(call: SortedWords) -> Iterator[Effect]:
        first = call.operands[0].text if call.operands else None
        if (first is None and not call.operands and harmless_alone) or first in safe:
            yield from (effect for effect in plain(call) if effect.kind != kind)
        else:
            yield Effect(kind)

    return handler


def _date(call: SortedWords) -> Iterator[Effect]:
    """`date +FORMAT` prints; any other operand sets the clock."""
    yield from plain(call)
    for word in call.operands:
        if not word.start.startswith("+") and not (word.text is None and not word.start):
            yield Effect("system", word, "sets the clock")


def _hostname(call: SortedWords) -> Iterator[Effect]:
    yield from plain(call)
    if call.operands:
        yield Effect("system", None, "changes the machine's name")


def _sysctl(call: SortedWords) -> Iterator[Effect]:
    yield from plain(call)
    if any("=" in "".join(part or "" for part in word.parts) for word in call.operands):
        yield Effect("kernel")


def _mount(call: SortedWords) -> Iterator[Effect]:
    if call.command.args and not (len(call.command.args) == 1 and call.command.args[0].text in ("-l", "-h", "-V")):
        yield Effect("mount")


def _ip(call: SortedWords) -> Iterator[Effect]:
    """`ip addr` and `ip route show` only look; everything else changes something."""
    yield from of_options(call)
    texts = [text or "" for text in call.texts()]
    verbs = texts[1:2]
    looks = ("", "show", "list", "ls", "lst", "sh", "get", "help", "l")
    if texts[:1] in (["netns"], ["vrf"]) and verbs not in ([], ["list"], ["show"]):
        yield Effect("namespace")
    elif (texts and texts[0] in ("monitor", "help")) or not verbs or verbs[0] in looks:
        return
    else:
        yield Effect("firewall")


def _ifconfig(call: SortedWords) -> Iterator[Effect]:
    if len(call.operands) > 1:
        yield Effect("firewall")


def _init(call: SortedWords) -> Iterator[Effect]:
    yield Effect("power")


def _crontab(call: SortedWords) -> Iterator[Effect]:
    if call.has("-l"):
        yield Effect("unknown", None, "reads the user's schedule, outside the workspace", "shell:read-outside")
    elif call.has("-r"):
        yield Effect("persist", None, "deletes the user's schedule")
    else:
        yield Effect("persist", None, "makes commands run on a schedule")


def _at(call: SortedWords) -> Iterator[Effect]:
    if call.has("-l", "-V"):
        yield Effect("unknown", None, "reads the user's queue, outside the workspace", "shell:read-outside")
    else:
        yield Effect("persist", None, "makes commands run later")


def _ps(call: SortedWords) -> Iterator[Effect]:
    """BSD's `e` (`ps auxe`) shows the environment of every process."""
    yield from plain(call)
    if any("e" in (text or "e") and re.fullmatch(r"[a-zA-Z]*", text or "") for text in call.texts()):
        yield Effect("unknown", None, "shows the environment of processes", "shell:environment")


def _getent(call: SortedWords) -> Iterator[Effect]:
    database = call.operands[0].text if call.operands else None
    if database in ("passwd", "group"):
        yield Effect("unknown", None, "lists the users of the machine", "shell:read-outside")
    if database in ("shadow", "gshadow", None):
        yield Effect("secret" if database else "unknown")
    elif database in ("hosts", "ahosts", "ahostsv4", "ahostsv6", "networks") and len(call.operands) > 1:
        yield Effect("network", call.operands[1])


def _sysfs_fdisk(call: SortedWords) -> Iterator[Effect]:
    if call.has("-l", "--list", "-x") and not call.unsure:
        yield Effect("unknown", None, "reads the tables of disks", "shell:read-outside")
    else:
        yield Effect("device")


def _journalctl(call: SortedWords) -> Iterator[Effect]:
    yield from plain(call)
    yield Effect("unknown", None, "reads the system's log", "shell:read-outside")


def _fuser(call: SortedWords) -> Iterator[Effect]:
    """fuser: with -k it ends every process that uses a file or a file system."""
    if not call.has("-k", "--kill"):
        yield from (Effect("list", word) for word in call.operands)
    elif any((word.text or "/").startswith("/") for word in call.operands):
        yield Effect("kill-all")
    else:
        yield Effect("process")


_HOST = "-H=network --host=network"  # systemd's tools can ask another machine, through ssh
_LOOKS = program("text*", _HOST)
_SERVICE = program("text*", "", "service")
_ASK: Program = program("unknown*", "", "unknown")

SYSTEMCTL = {
    "status is-active is-enabled is-failed is-system-running list-units list-unit-files list-timers "
    "list-sockets list-jobs "
    "list-dependencies show cat help get-default list-machines": _LOOKS,
    "poweroff reboot halt kexec suspend hibernate hybrid-sleep soft-reboot rescue emergency exit "
    "switch-root isolate": program("text*", "", "power"),
    "enable edit link preset reenable": program("text*", "", "persist"),
    "": _LOOKS,
    "*": _SERVICE,
}

PROGRAMS = {
    # inspect
    "whoami id groups uname who w last  users uptime free vmstat iostat mpstat lscpu lsblk "
    "lspci lsusb lsmem lsmod modinfo "
    "numastat pgrep pidof pstree top htop locale getconf lsb_release ruptime tload   "
    "lsipc lslocks cpuid "
    " pidstat slabtop sw_vers     ss netstat tput reset clear tset "
    "infocmp": program(
        "maybe*", "-K!process --kill!process -D=write --diag=write -A=list -B=list -F=names --filter=names"
    ),
    "stty": program("text*", "-F=unknown --file=unknown"),
    "lastlog": program("maybe*", "-C!log -S!log --clear!log --set!log -u= -t= -b= -R=list --root=list"),
    "nvidia-smi": program(
        "text*", "-L -q -x -l= -i= -d= --query-gpu= --query-compute-apps= --format= -f=write", closed=True
    ),
    "sensors": program("text*", "-s!system --set!system -c=read --config-file=read --bus-list"),
    "sar": program("text*", "-o=write -f=read -n= -P= -s= -e= -i="),
    "neofetch fastfetch screenfetch inxi": program("text*", "", "execute"),
    "ps": program("maybe*", "-E!unknown", handler=_ps),
    "date gdate": program(
        "text*",
        "-s!system --set!system -d= --date= -f=read --file=read -r=list --reference=list -I --iso-8601 -R "
        "-u --rfc-3339= -j -v=",
        handler=_date,
    ),
    "hostname": program("text*", "-F!system --file!system -b!system -f -s -i -I -d -A -y", handler=_hostname),
    "domainname nisdomainname dnsdomainname": program("text*", handler=_hostname),
    "hostnamectl": program("text*", _HOST, handler=_only_looks("status", "show", "hostname", kind="system")),
    "timedatectl localectl": program(
        "text*",
        _HOST,
        handler=_only_looks(
            "status", "show", "list-timezones", "list-locales", "list-keymaps", "timesync-status", kind="system"
        ),
    ),
    "loginctl": program(
        "text*",
        _HOST,
        handler=_only_looks(
            "list-sessions",
            "session-status",
            "show-session",
            "list-users",
            "user-status",
            "show-user",
            "list-seats",
            kind="service",
        ),
    ),
    "getent": program("text*", "-s= -i", handler=_getent),
    "dmesg": program(
        "text*",
        "-c!log -C!log --clear!log --read-clear!log -n!kernel -D!kernel -E!kernel -H -T -l= -f= -w -F=read "
        "--file=read -K=read --kmsg-file=read",
    ),
    "journalctl": program(
        "text*",
        "--vacuum-size=!log --vacuum-time=!log --vacuum-files=!log --rotate!log --flush!log --sync -u= "
        "-n= -p= --since= --until= -o= -g= -D=read --file=read --root=read",
        handler=_journalctl,
    ),
    "ldd": program("exec*", "-v -u -d -r"),
    "ldconfig": program("text*", "-p", handler=lambda call: iter(()) if call.has("-p") else iter((Effect("system"),))),
    "man tldr": program(
        "maybe*",
        "-P=program --pager=program -H?!execute --html?!execute -C=exec --config-file=exec -M=read --manpath=read "
        "-l=read --local-file=read -k -f -w -s= -S= -e= --sections= --extension= --preprocessor=unknown -p=unknown "
        "-t!execute --troff!execute -T?!execute --troff-device?!execute -X?!execute --gxditview?!execute -Z!execute "
        "--ditroff!execute -L= --locale= -m= --systems= -r= --prompt= -R= --recode= -E= --encoding=",
    ),
    "info": program(
        "maybe*",
        "-o=write --output=write --dribble=write --restore=exec --init-file=exec -f=read --file=read -d=list "
        "--directory=list -n= --node= -k= --apropos= -v= --variable= --index-search=",
    ),
    "fuser": program("text*", "-k --kill -s -m -n= -v", handler=_fuser),
    "logger wall write mesg talk": program("text*", "-f=read", "process"),
    # persistence
    "crontab": program("text*", "-l -r -e -i -u=", handler=_crontab),
    "at batch": program("text*", "-l -V -f=read -q= -t= -m -c", handler=_at),
    "atq": _ASK,
    "atrm systemd-run update-rc.d chkconfig insserv systemd-tmpfiles anacron launchctl": program(
        "text*", "", "persist"
    ),
    # power, services, kernel
    "shutdown poweroff reboot halt telinit pm-suspend pm-hibernate rtcwake": program("text*", "", "power"),
    "init": program("text*", handler=_init),
    "systemctl": program(
        "text*",
        f"{_HOST} -M= --machine= -t= -p= -n= --state= --type= --property= --root= -o= -s= --signal= --user --no-pager",
        subs=SYSTEMCTL,
    ),
    "service rc-service invoke-rc.d": program(
        "text*",
        handler=lambda call: (
            iter(()) if "status" in call.texts() or call.has("--status-all") else iter((Effect("service"),))
        ),
    ),
    "initctl rc-update s6-svc sv supervisorctl svcadm ": _SERVICE,
    "sysctl": program(
        "text*", "-w!kernel --write!kernel -p!kernel --load!kernel --system!kernel -a -n -e -N -q -r=", handler=_sysctl
    ),
    "modprobe insmod rmmod depmod kexec kmod dkms setenforce aa-teardown aa-disable aa-complain "
    "apparmor_parser semanage setsebool grub-install "
    "update-grub grub-mkconfig efibootmgr bpftool kpatch update-initramfs mkinitcpio dracut": program(
        "text*", "", "kernel"
    ),
    "auditctl  augenrules": program("text*", "", "log"),
    "logrotate": program("text*", "", "log"),
    # mounts, devices, namespaces
    "mount": program("text*", handler=_mount),
    "umount fusermount fusermount3 swapon swapoff pivot_root switch_root mount.* sshfs bindfs encfs": program(
        "text*", "", "mount"
    ),
    "findmnt": program("maybe*"),
    "blkid": program("text*", "-w=write -c=write -g!system"),
    "losetup": program(
        "text*",
        handler=lambda call: (
            iter(()) if call.has("-l", "-a", "--list") or not call.command.args else iter((Effect("mount"),))
        ),
    ),
    "mkfs mkfs.* mke2fs mkswap mkdosfs newfs wipefs blkdiscard sgdisk parted partprobe cfdisk sfdisk "
    "gdisk hdparm cryptsetup dmsetup mdadm "
    "lvcreate lvremove lvresize lvextend lvreduce vgcreate vgremove vgreduce pvcreate pvremove zpool "
    "zfs btrfs e2fsck fsck fsck.* tune2fs "
    "resize2fs debugfs xfs_repair badblocks dump restore nvme sg_format flashrom fdformat eject "
    "diskutil ddrescue partclone": program("text*", "", "device"),
    "fdisk": program("text*", "-l --list -x", handler=_sysfs_fdisk),
    "pvs vgs lvs pvdisplay vgdisplay lvdisplay smartctl": _ASK,
    "unshare nsenter chroot fakechroot bwrap firejail proot systemd-nspawn lxc lxc-attach lxc-start "
    "runc crun ctr nerdctl": program("text*", "", "namespace", wrapper=True),
    # users
    "useradd adduser usermod userdel deluser groupadd addgroup groupmod groupdel delgroup passwd "
    "chpasswd gpasswd chsh chfn visudo vipw vigr "
    "newusers newuidmap newgidmap chage pwconv grpconv authconfig pam-auth-update dscl sudoedit "
    "sudoreplay": program("text*", "", "users"),
    # network configuration
    "ip": program(
        "text*",
        "-b=exec -batch=exec -force!firewall -f= -family= -n!namespace -netns!namespace -o -4 -6 -br "
        "-brief -s -d -c -j -p -color -json "
        "-details -stats -oneline",
        handler=_ip,
        single=True,
    ),
    "ifconfig": program("text*", handler=_ifconfig),
    "route arp": program(
        "text*", "-n -e -a", handler=lambda call: iter((Effect("firewall"),)) if call.operands else iter(())
    ),
    "iptables ip6tables ebtables arptables nft ufw firewall-cmd pfctl tc ipset iw iwconfig wpa_cli "
    "nmcli ifup ifdown dhclient "
    "networksetup wg wg-quick openvpn brctl iptables-restore ip6tables-restore  ethtool": program(
        "text*", "", handler=_only_looks("status", "list", "show", kind="firewall", harmless_alone=False)
    ),
    "iptables-save ip6tables-save": _ASK,
    # desktop
    "xdg-open open xclip xsel pbcopy pbpaste wl-copy wl-paste notify-send osascript xdotool ydotool "
    "wmctrl gnome-terminal xterm konsole "
    "screencapture scrot  gsettings dconf dbus-send gdbus busctl say": program("text*", "", "desktop"),
    "xset xrandr setxkbmap": program("text*", "", "desktop"),
    "security secret-tool pass keyctl gnome-keyring op bw vault kwallet-query": program("text*", "", "secret"),
    "gcore": program("text*", "", "secret"),
    "screen tmux dtach abduco zellij": program("unknown*", "", "unknown"),
}
