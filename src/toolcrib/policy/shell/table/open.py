"""List the programs that a person or a sandbox decides about, with what makes a use of them known harm: data.

The notation is in `program_spec`. Options are listed only where their values would be mistaken for operands, or where
they do known harm that their name does not show.
"""

OPEN = """
mkdir mkfifo | create* | -m= --mode=
touch | create* | -d= --date= -t= -r=list --reference=list
mknod | create text* | -m= | device
mktemp | text* | -p=create --tmpdir | change
cp gcp | read* write | -t=write@read --target-directory=write@read -S= --suffix=
install ginstall | read* write | -t=write@read --target-directory=write@read -m= --mode= -o= --owner= -g= --group= \
  -d@create --directory@create
mv | move* write | -t=write@move --target-directory=write@move -S= --suffix=
ln link | text* | -t=create --target-directory=create -S= -s -f --symbolic -sf -n | options@ln
dd | text* | | @dd
tee sponge | write* | --output-error
split csplit | read write* | -n= -l= -b= -C= -a= --filter=shell -f=write --prefix=write | change
patch | write read | -i=read --input=read -o=write -r=write -d=write --directory=write -p= | change
fallocate | write* | -l= -o=
rm | delete* | -rRfivdI
rmdir unlink shred wipe trash rimraf | delete* | -n= --iterations= -s= --size= -u -z
truncate | delete* | -s= --size= -r=list --reference=list -o -c
chmod | text modify* | -R --reference=list | @chmod
chown chgrp | text modify* | --reference=list@modify --from=
chattr chcon setfacl setfattr | modify* | -m= -x= -M=read | protected
setcap | text* | | setuid
zip | write read* | -x= -i= -b=write -T -TT=program --unzip-command=program -m!discard --move!discard -P= -r
7z | text* | | single @seven
cpio pax | maybe* | -F=write -O=write -D=write | unknown
pdftotext strip objcopy | write*
sensors | text* | -s!system --set!system | unknown
fc | text* | -e=program | execute
history | text* | -c!log -d=!log -w!log -a!log -s!log -r=read -n=read | unknown
lastlog | maybe* | -C!log -S!log --clear!log --set!log | unknown
journalctl | text* | --vacuum-size=!log --vacuum-time=!log --vacuum-files=!log --rotate!log --flush!log | unknown
fuser | list* | -k!kill-all --kill!kill-all -s | unknown
logger wall write mesg talk | text* | | desktop
at batch | text* | -l -V -f=read -q= -t= | @crontab
systemd-run update-rc.d launchctl | text* | | persist
shutdown poweroff reboot halt telinit init | text* | | power
systemctl > poweroff reboot halt kexec suspend hibernate hybrid-sleep soft-reboot rescue emergency exit switch-root \
  isolate | text* | | power
systemctl > enable edit link preset reenable | text* | | persist
systemctl sv supervisorctl | text* | -M= --machine= -t= -p= -n= --state= --type= -H=host --host=host --root= -s= | \
  service
modprobe insmod rmmod kexec setenforce grub-install update-grub | text* | | kernel
auditctl | text* | | log
umount fusermount swapon swapoff pivot_root mount.* sshfs | text* | | mount
mkfs mkfs.* mke2fs mkswap wipefs blkdiscard sgdisk parted sfdisk gdisk hdparm cryptsetup dmsetup lvremove vgremove \
  pvremove zpool zfs btrfs fsck fsck.* tune2fs debugfs dump restore nvme eject diskutil | text* | | device
fdisk | text* | -l --list -x | @disk
unshare nsenter chroot bwrap systemd-nspawn lxc runc nerdctl | text* | | namespace wrapper
useradd adduser usermod userdel deluser groupadd groupmod groupdel passwd chpasswd gpasswd chsh visudo vipw sudoedit | \
  text* | | users
nft ufw firewall-cmd ipset nmcli wg > status list show | text* | | unknown
iptables ip6tables nft ufw firewall-cmd pfctl tc ipset nmcli wg wg-quick openvpn | text* | | firewall
hostnamectl timedatectl localectl | text* | -H=host --host=host | system
loginctl | text* | | service
ldconfig | text* | | system
xdg-open open xclip xsel pbcopy pbpaste wl-copy wl-paste notify-send osascript xdotool xterm gsettings dbus-send gdbus \
  busctl say | text* | | desktop
code subl zed | text* | | editor
security secret-tool pass keyctl op bw vault | text* | | secret
pkill killall skill | text* | -u= --euid= -U= --uid= -v --inverse -s= --signal= -g= -t= -P= -G= | @pkill
killall5 | text* | | kill-all
ugrep | text read* | -f=read --file=read --filter=shell | execute
watch entr parallel | text* | | wrapper
flock | create text* | -s -x -e -u -n -w= -E= -c= -o -F | wrapper
script | write | -c= -qafe | execute wrapper
xvfb-run prlimit | text* | | wrapper roles@starts_shell
strace ltrace | text* | -o=write -p!process -e= -E= -s= -u= | execute wrapper
sudo doas gosu su pkexec runuser newgrp capsh | text* | | privilege wrapper
sh bash dash zsh ksh mksh ash rbash fish csh tcsh yash | text* | -csilxeuvnpr -o= -O= --rcfile=exec --init-file=exec | \
  options@shell
python python2 python3 pypy pypy3 ipython | text* | -c= -m= -W= -X= -BEIOsSuvqibxd | options@python
node nodejs | text* | -e= --eval= -p= --print= -pe= -r=exec --require=exec --import=exec --loader=exec --env-file=read \
  --test -c --check | options@node
perl | text* | -e= -E= -M= -m= -I=list -i? -n -p -l? -a -F= -w -0? -s -T -x? -d? -C? | options@perl
ruby | text* | -e= -r=exec -I=list -C=list -i? -npla -F? -w -K? | options@ruby
php | text* | -r= -f=exec -B= -R= -E= -F=exec -S!network -t=list -c=exec -d= -aim -l=read | options@php
lua luajit | text* | -e= -l=exec -iv | options@lua
gdb lldb perf | maybe* | -p!process --pid!process | execute
java R Rscript julia tsx ts-node pwsh hg pre-commit valgrind | maybe* | | execute
emacs emacsclient | text* | -eval= --eval= -e= -l=exec -load=exec --load=exec -f= -nw -Q -q -batch --batch -t -c | \
  single options@editor
ed red ex vi vim nvim view vimdiff nano helix hx | text* | -c= --cmd= + -s -S=exec -u=exec -i= -w=write -es -eval= \
  --eval= -l=exec --load=exec -p= | options@editor
sqlite3 sqlite | text* | -cmd= --cmd= -init=exec -separator= | single options@sqlite
curl | url* | -o=write --output=write --output-dir=write -OJ --remote-name --remote-name-all -T=send \
  --upload-file=send -d=data --data=data --data-binary=data --data-ascii=data --data-urlencode=data --json=data \
  --data-raw= -F= --form= -K=read --config=read -E=read --cert=read --key=read --cacert= --capath= -b=maybe -c=write \
  -D=write -n!secret --netrc!secret --unix-socket= --abstract-unix-socket= -x=network --proxy=network \
  --connect-to=network --resolve=network --url=url -H=data --header=data -A= -e= -u= -U= -X= --request= -m= -w= -r= \
  -C= -z= -Q= -P= -y= -Y= -t= -LsSfkIivgGNRla | roles@curl
wget wget2 | url* | -O=write --output-document=write -o=write -a=write -P=write --directory-prefix=write -i=read \
  --post-file=send --body-file=send -e!unknown --execute!unknown --use-askpass=program -U= -t= -T= -w= -Q= -l= -A= -R= \
  -D= -I= -X= -B=url --spider | roles@wget
aria2c httpie http https lynx w3m links yt-dlp | url* | -d=write -i=read --exec=shell --on-download-complete=program | \
  network
ssh slogin mosh | host text* | -o= -F=exec -i= -l= -p= -L= -R= -D= -W= -J= -w= -E=write -S= -c= -m= -b= -B= -e= \
  -I=program -O= -Q= -tNf | roles@copy
scp | remote* remotewrite | -o= -F=exec -i= -S=program -P= -J= -l= -c= -D=program -X= -rpqC | roles@copy
sftp | network text* | -o= -F=exec -i= -S=program -b=exec -P= -D=program -s=program -J= | roles@copy
ssh-copy-id ssh-add ssh-agent ssh-keyscan | network* | -i= -o= -p= | network
ssh-keygen | unknown* | -f=write -D=program -t= -b= -C= -N= -w=program | unknown
rsync | remote* remotewrite | -e=program --rsh=program --rsync-path=program --files-from=read --exclude-from=read \
  --include-from=read --exclude= --include= --filter= -f= -T=write --delete --del --remove-source-files \
  --daemon!network -B= -M= | roles@rsync
nc ncat netcat | host text* | -e=!reverse-shell -c=!reverse-shell --exec=!reverse-shell --sh-exec=!reverse-shell \
  --lua-exec=!reverse-shell -p= -s= -w= -q= -i= -X= -x= -lunvzk
socat | text* | -W= -t= -T= -b= | single options@socat
telnet ftp whois dig nslookup host ping traceroute mtr nmap tcpdump ngrok cloudflared localtunnel smbclient mail \
  tailscale svn | network* | -w=write -z=program -e=shell -c=shell -a=read -A=read -f=read -r=read | network
openssl | text maybe* | | single @openssl
gpg gpg2 | maybe* | -o=write --output=write --homedir=read --export-secret-keys!secret --export-secret-subkeys!secret \
  --export-ssh-key!secret --recv-keys!network --send-keys!network --search-keys!network --refresh-keys!network \
  --fetch-keys!network | unknown
gh aws gcloud gsutil az kubectl oc helm terraform tofu pulumi ansible ansible-playbook vagrant packer rclone minikube \
  kind serverless psql mysql mariadb mongosh mongo redis-cli mysqldump pg_dump pg_dumpall pg_restore mongodump | \
  maybe* | -c= -e= | network
docker podman | text* | -H=host --host=host -c= --context= -l= --log-level= -Dv | container
docker podman > run create exec build buildx cp container save export load import | text* | -v=volume --volume=volume \
  --mount=mount-option --privileged!escape --cap-add=!escape --device=!escape --device-cgroup-rule=!escape \
  --pid=hostspace --ipc=hostspace --userns=hostspace --uts=hostspace --cgroupns=hostspace --security-opt=security \
  --sysctl=!escape --allow=!escape --env-file=read --name= -e= --env= -w= --workdir= -u= --user= -p= --publish= \
  --entrypoint= -h= -l= --label= -m= -a= -itdP --rm -o=write --output=write --network= --net= -f=exec --file=exec \
  --secret=read --ssh=read -i | container @container
docker podman > rm rmi prune system volume | text* | | discard container
docker-compose | text* | | container
pip | maybe* | -r=read --requirement=read -t=write --target=write --prefix=write --root=write -c=read -e=exec | \
  install network
pipx pipenv poetry uv pdm hatch rye conda mamba micromamba virtualenv pyenv uvx | text* | | options@by_verb
toolcrib | text* | -w= --workspace= --config= --mode= --db= -y!person --yes!person | options@own_command
npm pnpm yarn bun | text* | -c=shell --call=shell -p= --package= | options@by_verb
npx pnpx bunx | text* | -c=shell --call=shell -p= --package= | options@npx
nvm volta n asdf mise rustup rbenv sdk | text* | | install network
cargo go gem brew port snap flatpak bundle bundler composer mix stack nuget dotnet cpan swift pod flutter dart pub mvn \
  gradle gradlew mvnw sbt ant bazel nix nix-env nix-shell nix-build nix-store guix coverage | text* | | \
  options@by_verb
apt apt-get aptitude | text* | -o=aptsetting --option=aptsetting -c=exec --config-file=exec | roles@apt
apt-cache | text* | -o=aptsetting --option=aptsetting -c=exec --config-file=exec
apt-key apt-mark add-apt-repository dpkg-reconfigure dpkg-divert update-alternatives | text* | | system
yum dnf zypper pacman yay apk pkg | text* | | install network
make gmake | text* | -C=list --directory=list -f=exec --file=exec -I=list -o= -W= --eval= -E= | execute roles@make
cmake ctest ninja meson just rake task tox nox autoconf automake autoreconf configure | text* | -C=list -B=write \
  -S=list -P=exec --build=write --directory=list | execute
gcc g++ cc c++ clang clang++ gfortran rustc javac ghc swiftc tsc as ld zig protoc esbuild | maybe* | -o=write -I=list \
  -L=list -l= -include=read -wrapper=program -fplugin=exec -specs=exec -B=exec -D= -U= -x= -MF=write -std= -T=read \
  --outDir=write -d=write | execute single
pytest py.test jest vitest cypress playwright rspec biome rustfmt yapf autopep8 semgrep goimports | text* | -c=exec \
  --config=exec -k= -m= -p= -r=exec --require=exec --junitxml=write --rootdir=list | execute
mypy pyright ruff black isort flake8 pylint bandit eslint prettier stylelint rubocop golangci-lint staticcheck \
  pyflakes pycodestyle hadolint yamllint codespell | text* | -c=exec --config=exec -k= -m= -p= -r=exec --require=exec \
  --junitxml=write --rootdir=list | execute @checks
"""
