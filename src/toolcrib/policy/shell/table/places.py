"""List places of the file system that are special to the judgement of paths: data."""

from __future__ import annotations

from .wordlist import in_order, words

# Written and read like pipes; nothing is stored there.
STREAMS = words(
    """
    /dev/null /dev/zero /dev/full /dev/random /dev/urandom /dev/stdin /dev/stdout /dev/stderr
    """
)

# Nothing below these may be changed or deleted, not even without a sandbox (profile `unrestricted`).
SYSTEM_ROOTS = in_order(
    """
    /Applications /Library /System /bin /boot /dev /etc /lib /lib32 /lib64 /libx32 /opt /private /proc /root /run /sbin
    /snap /srv /sys /usr /var
    """
)
# Below /var, but open to all users.
SCRATCH = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108
SHARED_ROOTS = ("/var/tmp", "/var/folders", "/private/tmp", "/private/var/folders")  # noqa: S108

# Directories whose whole content is secret. They match as consecutive components anywhere in a path.
SECRET_DIRECTORIES = in_order(
    """
    .ssh .gnupg .aws .azure .kube .docker .config/gcloud .config/gh .config/op .password-store .local/share/keyrings
    .mozilla .thunderbird .config/google-chrome .config/chromium .electrum .config/rclone .config/hub .terraform.d .oci
    etc/ssl/private etc/sudoers.d run/secrets etc/kubernetes .config/toolcrib .local/state/toolcrib
    """
)

# Patterns of whole paths, in addition to the names of `boundary.sensitive_names`.
SECRET_PATHS = (
    r"/etc/(?:g?shadow-?|sudoers|master\.passwd|krb5\.keytab|security/opasswd|ssh/ssh_host_.*_key)",
    r"/proc/[^/]+/(?:task/[^/]+/)?(?:environ|mem|maps|auxv|syscall|stack|pagemap)",
    r"/proc/[^/]+/(?:task/[^/]+/)?(?:root|cwd)(?:/.*)?",
    r"/proc/(?:kcore|kmem|kallsyms)",
    r"/dev/(?:mem|kmem|port|core)",
    r"(?:/private)?/var/db/(?:dslocal|shadow)(?:/.*)?",
    r".*/(?:login\.keychain(?:-db)?|logins\.json|key[34]\.db|cookies\.sqlite|wallet\.dat|\.lesshst|\.mysql_history|\.psql_history)",
    r".*/\.(?:bash|zsh|sh|python|node_repl|sqlite|rediscli)_history",
    r".*/\.(?:s3cfg|boto|pgpass|dockercfg|terraformrc|vault-token|databrickscfg|snowsql/config|authinfo(?:\.gpg)?)",
)

# The daemons' sockets: access to one gives control of the machine.
SOCKETS = r"(?:/var)?/run/(?:user/\d+/)?(?:docker|podman/podman|containerd/containerd|crio/crio)\.sock"

# Files that make something run again, below the home directory.
PERSISTENT_AT_HOME = in_order(
    """
    .bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .inputrc .login .cshrc .tcshrc .kshrc .zshrc
    .zshenv .zprofile .zlogin .zlogout .xprofile .xinitrc .xsession .xsessionrc .config/fish .config/autostart
    .config/systemd .local/share/systemd .ssh/authorized_keys .ssh/config .ssh/rc .ssh/environment .gitconfig
    .config/git .vimrc .vim .config/nvim .emacs .emacs.d .tmux.conf .screenrc .pythonrc .perldb .irbrc .gdbinit
    .config/environment.d .pam_environment .forward .procmailrc Library/LaunchAgents .npmrc .yarnrc .curlrc .wgetrc
    .local/bin bin .config/toolcrib
    """
)
# Names that a pattern could select. `boundary.sensitive_names` judges the pattern's own text; these come in addition.
SECRET_SAMPLES = in_order(
    """
    .env .env.local .env.production id_rsa id_ed25519 .netrc .npmrc .git-credentials .pgpass server.pem server.key
    shadow credentials.json secrets.yaml environ
    """
)
