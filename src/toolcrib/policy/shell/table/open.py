"""List the programs that a person or a sandbox decides about, with what makes a use of them known harm: data.

The notation is in `program_spec`. Options are listed only where their values would be mistaken for operands, or where
they do known harm that their name does not show.
"""

OPEN = """
mkdir mkfifo | create* | -m= --mode=
touch | create* | -d= --date= -t= -r=list --reference=list
mknod | create text* | | device
mktemp | text* | -p=create --tmpdir | change
cp gcp | read* write | -t=write@read --target-directory=write@read -S= --suffix= | roles@cp
install ginstall | read* write | -t=write@read --target-directory=write@read -d@create --directory@create
mv | move* write | -t=write@move --target-directory=write@move -S= --suffix=
ln link | text* | -t=create --target-directory=create -sfnv | options@ln
dd | text* | | @dd
tee sponge | write*
split csplit | read write* | -n= -l= -b= -C= -a= --filter=shell -f=write --prefix=write | change
patch | write read | -i=read --input=read -o=write -r=write -d=write --directory=write -p= | change
rm rmdir unlink shred wipe srm trash trash-put gio-trash trash-empty rimraf | delete* | -rRfivdIuz -n= -s= --size=
truncate | delete* | -s= --size= -r=list --reference=list -o -c
chmod | text modify* | -R --reference=list | @chmod
chown chgrp | text modify* | --reference=list --from= | options@chown
chattr chcon setfacl setfattr | modify* | | protected
setcap | text* | | setuid
zip | write read* | -x= -i= -b=write -T -TT=program --unzip-command=program -m!discard --move!discard -P= -r
cpio pax shar genisoimage mkisofs xorriso mksquashfs unsquashfs | maybe* | -F=write -O=write -D=write | unknown
fallocate pdftotext dos2unix unix2dos recode strip objcopy patchelf zipcloak zipnote zipsplit | write*
sensors | text* | -s!system --set!system | unknown
fc | text* | -e=program | execute
history | text* | -c!log -d=!log -w!log -a!log -s!log -r=read -n=read | unknown
lastlog | maybe* | -C!log -S!log --clear!log --set!log | unknown
journalctl | text* | --vacuum-size=!log --vacuum-time=!log --vacuum-files=!log --rotate!log --flush!log | unknown
fuser | list* | -k!kill-all --kill!kill-all -s | unknown
logger wall write mesg talk | text* | | desktop
at batch | text* | | @crontab
atrm systemd-run update-rc.d chkconfig insserv systemd-tmpfiles anacron launchctl | text* | | persist
shutdown poweroff reboot halt telinit pm-suspend pm-hibernate rtcwake init | text* | | power
systemctl loginctl initctl rc-update s6-svc sv supervisorctl svcadm invoke-rc.d | text* | -M= --machine= -t= -p= -n= \
  --state= --type= -H=host --host=host --root= -s= | service
modprobe insmod rmmod depmod kexec kmod dkms setenforce aa-teardown aa-disable aa-complain apparmor_parser semanage \
  setsebool grub-install update-grub grub-mkconfig efibootmgr bpftool kpatch update-initramfs mkinitcpio dracut | \
  text* | | kernel
auditctl augenrules logrotate | text* | | log
umount fusermount fusermount3 swapon swapoff pivot_root switch_root mount.* sshfs bindfs encfs | text* | | mount
mkfs mkfs.* mke2fs mkswap mkdosfs newfs wipefs blkdiscard sgdisk parted partprobe cfdisk sfdisk gdisk hdparm \
  cryptsetup dmsetup mdadm lvcreate lvremove lvresize lvextend lvreduce vgcreate vgremove vgreduce pvcreate pvremove \
  zpool zfs btrfs e2fsck fsck fsck.* tune2fs resize2fs debugfs xfs_repair badblocks dump restore nvme sg_format \
  flashrom fdisk fdformat eject diskutil ddrescue partclone xfs_admin | text* | | device
unshare nsenter chroot fakechroot bwrap firejail proot systemd-nspawn lxc lxc-attach lxc-start runc crun ctr nerdctl | \
  text* | | namespace wrapper
useradd adduser usermod userdel deluser groupadd addgroup groupmod groupdel delgroup passwd chpasswd gpasswd chsh chfn \
  visudo vipw vigr newusers newuidmap newgidmap chage pwconv grpconv authconfig pam-auth-update dscl sudoedit \
  sudoreplay | text* | | users
nft ufw firewall-cmd ipset iw nmcli wg > status list show | text* | | unknown
iptables ip6tables ebtables arptables nft ufw firewall-cmd pfctl tc ipset iw iwconfig wpa_cli nmcli ifup ifdown \
  dhclient networksetup wg wg-quick openvpn brctl iptables-restore ip6tables-restore ethtool | text* | | firewall
hostnamectl timedatectl localectl | text* | -H=host --host=host | system
ldconfig | text* | | system
xdg-open open xclip xsel pbcopy pbpaste wl-copy wl-paste notify-send osascript xdotool ydotool wmctrl gnome-terminal \
  xterm konsole screencapture scrot gsettings dconf dbus-send gdbus busctl say xset xrandr setxkbmap | text* | | \
  desktop
code subl atom gedit kate zed | text* | | editor
security secret-tool pass keyctl gnome-keyring op bw vault kwallet-query gcore | text* | | secret
pkill killall skill | text* | -u= --euid= -U= --uid= -v --inverse -s= --signal= -g= -t= -P= -G= | @pkill
killall5 xkill | text* | | kill-all
ugrep | text read* | -f=read --file=read --filter=shell | execute
flock | create text* | -w= -E= | wrapper
script | write | -c= | execute wrapper
strace ltrace | text* | -o=write -p!process -e= -E= -s= -u= | execute wrapper
sudo doas gosu su-exec su pkexec runuser sg newgrp setpriv capsh machinectl | text* | | privilege wrapper
sh bash dash zsh ksh mksh ash rbash fish csh tcsh yash | text* | -csilxeuvnpr -o= -O= --rcfile=exec --init-file=exec | \
  options@shell
python python2 python3 pypy pypy3 ipython bpython micropython | text* | -c= -m= -W= -X= | options@python
node nodejs | text* | -e= --eval= -p= --print= -pe= | options@node
perl | text* | -e= -E= -M= -m= -I=list -i? -n -p -l? -a -F= -w -0? -s -T -x? -d? -C? | options@perl
ruby | text* | -e= -r=exec -I= -C= -i? -F? -K? | options@ruby
php | text* | -r= -B= -R= -E= -S!network -d= -c= -t= | options@php
lua luajit | text* | -e= -l= | options@lua
gdb lldb rr perf bpftrace dtrace py-spy | maybe* | -p!process --pid!process | execute
java R Rscript julia tsx ts-node pwsh hg pre-commit valgrind | maybe* | | execute
emacs emacsclient | text* | | single options@editor
ed red ex vi vim nvim view vimdiff rvim nano pico micro helix hx kak kakoune joe mg jed | text* | -w=write | \
  options@editor
sqlite3 sqlite duckdb | text* | -cmd= --cmd= -init=exec -separator= | single options@sqlite
curl | url* | -o=write --output=write --output-dir=write -OJ --remote-name --remote-name-all -T=send \
  --upload-file=send -d=data --data=data --data-binary=data --data-ascii=data --data-urlencode=data --json=data \
  --data-raw= -F= --form= -K=read --config=read -E=read --cert=read --key=read --cacert= --capath= -b=maybe -c=write \
  -D=write -n!secret --netrc!secret --unix-socket= --abstract-unix-socket= -x=network --proxy=network \
  --url-query=data --variable=data --write-out=data -w=data --proto-default= --libcurl=write \
  --hsts=write --alt-svc=write --ssl-sessions=write \
  --connect-to=network --resolve=network --url=url -H=data --header=data -A= -e= -u= -U= -X= --request= -m= -r= \
  -C= -z= -Q= -P= -y= -Y= -t= -LsSfkIivgGNRla | roles@curl
wget wget2 | url* | -O=write --output-document=write -o=write -a=write -P=write --directory-prefix=write -i=read \
  --hsts-file=write --warc-file=write \
  --post-file=send --body-file=send -e=unknown --execute=unknown --use-askpass=program -U= -t= -T= -w= -Q= -l= -A= -R= \
  -D= -I= -X= -B=url --spider | roles@wget
aria2c axel httpie http https xh lynx w3m links elinks youtube-dl yt-dlp httrack | url* | -d=write -i=read \
  --exec=shell --on-download-complete=program | network
ssh slogin autossh sshpass mosh | host text* | -o= -F=exec -i= -l= -p= -L= -R= -D= -W= -J= -w= -E=write -S= -c= -m= \
  -b= -B= -e= -I=program -O= -Q= -tNf | roles@copy
scp | remote* remotewrite | -o= -F=exec -i= -S=program -P= -J= -l= -c= -D=program -X= -rpqC | roles@copy
sftp | network text* | -o= -F=exec -i= -S=program -b=exec -P= -D=program -s=program -J= | roles@copy
ssh-copy-id ssh-add ssh-agent ssh-keyscan | network* | -i= -o= -p= | network
getent > shadow gshadow | text* | | secret
getent > hosts ahosts ahostsv4 ahostsv6 networks | host*
ssh-keygen | unknown* | -f=write -D=program -t= -b= -C= -N= -w=program | unknown
rsync | remote* remotewrite | -e=program --rsh=program --rsync-path=program --files-from=read --exclude-from=read \
  --include-from=read --exclude= --include= --filter= -f= -T=write --delete --del --remove-source-files \
  --daemon!network -B= -M= | roles@rsync
nc ncat netcat nc.openbsd nc.traditional | host text* | -e=!reverse-shell -c=!reverse-shell --exec=!reverse-shell \
  --sh-exec=!reverse-shell --lua-exec=!reverse-shell -p= -s= -w= -q= -i= -X= -x= -lunvzk
socat | text* | | single options@socat
telnet ftp lftp tftp rlogin rsh rcp finger whois dig nslookup host drill ping ping6 fping hping3 traceroute \
  traceroute6 tracepath mtr nmap masscan zmap arping tcpdump tshark wireshark ngrep dumpcap ettercap sqlmap hydra \
  nikto gobuster ngrok cloudflared localtunnel smbclient rpcclient ldapsearch snmpwalk showmount iperf iperf3 \
  speedtest speedtest-cli mail mailx sendmail mutt msmtp swaks exim exim4 postqueue irssi weechat telegram-send croc \
  magic-wormhole wormhole ipfs transmission-cli qrcp bore chisel tailscale svn | network* | -w=write -z=program \
  -e=shell -c=shell -a=read -A=read -f=read -r=read | network
openssl > s_client s_time ocsp | maybe* | -connect=network -host=network -url=network | single unknown
openssl > s_server | maybe* | | single network
openssl | text maybe* | | single unknown
gpg gpg2 | maybe* | -o=write --output=write --homedir=read --export-secret-keys!secret --export-secret-subkeys!secret \
  --export-ssh-key!secret --recv-keys!network --send-keys!network --search-keys!network --refresh-keys!network \
  --fetch-keys!network | unknown
gh glab hub aws gcloud gsutil az kubectl oc helm doctl heroku flyctl fly vercel netlify wrangler firebase terraform \
  tofu terragrunt pulumi ansible ansible-playbook vagrant packer rclone s3cmd mc b2 restic borg eksctl minikube kind \
  k3s k9s nomad consul serverless sls cdk sam railway supabase linode-cli hcloud oci ibmcloud salt puppet chef psql \
  mysql mariadb mongosh mongo redis-cli clickhouse-client cqlsh influx mysqldump pg_dump pg_dumpall pg_restore \
  mongodump sqlcmd | maybe* | | network
docker podman | maybe* | -H=host --host=host -c= --context= -l= --log-level= -Dv | container
docker podman > run create exec build buildx cp container save export load import | text* | -v=volume --volume=volume \
  --mount=mount-option --privileged!escape --cap-add=!escape --device=!escape --device-cgroup-rule=!escape \
  --pid=hostspace --ipc=hostspace --userns=hostspace --uts=hostspace --cgroupns=hostspace --security-opt=security \
  --sysctl=!escape --allow=!escape | container @container
docker podman > rm rmi prune system volume | text* | | discard container
docker-compose podman-compose buildah skopeo dive trivy | text* | | container
pip | maybe* | -r=read --requirement=read -t=write --target=write --prefix=write --root=write -c=read -e=exec | \
  install network
pipx pipenv poetry uv pdm hatch rye conda mamba micromamba virtualenv pyenv easy_install uvx | text* | | options@by_verb
toolcrib | text* | -w= --workspace= --config= --mode= --db= -y!person --yes!person | options@own_command
npm cnpm pnpm yarn bun | text* | -c=shell --call=shell -p= --package= | options@by_verb
npx pnpx bunx | text* | -c=shell --call=shell -p= --package= | options@npx
nvm fnm volta n asdf mise rustup rbenv sdk jenv corepack | text* | | execute install network
cargo go gem brew port snap flatpak choco winget scoop opam luarocks bundle bundler composer mix rebar3 stack cabal \
  ghcup nuget dotnet cpan cpanm swift pod carthage flutter dart pub mvn gradle gradlew mvnw sbt lein ant bazel \
  bazelisk buck2 pants nix nix-env nix-shell nix-build nix-store guix coverage | text* | | options@by_verb
apt apt-get aptitude nala | text* | -o=aptsetting --option=aptsetting | install network
apt-cache apt-config | text* | -o=aptsetting --option=aptsetting
apt-key apt-mark add-apt-repository debconf-set-selections dpkg-reconfigure dpkg-divert update-alternatives alien | \
  text* | | system
yum dnf microdnf zypper tdnf pacman yay paru apk emerge xbps-install eopkg pkg pkg_add opkg slackpkg | text* | | \
  install network
make gmake bmake | text* | --eval= -E= | execute roles@make
cmake ctest ninja meson just rake task tox nox scons waf autoconf automake autoreconf configure xcodebuild | text* | \
  -B=write --build=write | execute
gcc g++ cc c++ clang clang++ gfortran rustc javac kotlinc ghc swiftc nvcc tsc as ld zig nim protoc esbuild | maybe* | \
  -wrapper=program -MF=write -d=write | execute single
pytest py.test jest vitest mocha ava cypress playwright phpunit rspec cucumber bats biome rustfmt yapf autopep8 \
  mdformat ansible-lint semgrep goimports | text* | --junitxml=write | execute
mypy pyright ruff black isort flake8 pylint bandit eslint prettier stylelint rubocop golangci-lint staticcheck \
  pyflakes pycodestyle vulture markdownlint hadolint yamllint typos codespell | text* | --junitxml=write | execute \
  @checks
"""
