"""List the programs that are allowed because they only read and print, each with its harmless options: data.

The notation is in `program_spec`. An option belongs here only if no value and no operand of it writes, runs, connects,
follows links out of a folder that is searched, or takes names from a file. Everything that is not here asks.
"""

from .wordlist import words

CLOSED = """
ls dir vdir | list* | -aAbBcCdfFgGhHiIklmnNopqQrRsStTuUvwxXZ1 -I=* -w= -T= --all --almost-all --color? --directory \
  --classify? --format= --full-time --group-directories-first --human-readable --hide=* --ignore=* --inode --reverse \
  --recursive --size --sort= --time= --time-style=
tree | list* | -a -d -f -i -p -s -u -D -h -F -q -N -A -C -Q -g -x -r -t -U -v -c -J -X -L= -P=* -I=* --dirsfirst \
  --gitignore --noreport --charset= --du --prune --sort= --filelimit= | single harmful
stat | list* | -LftZ -c= --format= --printf= --terse --dereference --file-system
file | read* | -bchikLNrsvz0 -F= -e=* --brief --mime-type --extension | harmful
du | list* | -0abchHklmsSx -d= -B= -t= --all --apparent-size --bytes --total --human-readable --max-depth= --summarize \
  --threshold= --exclude=* --one-file-system
df | maybelist* | -aHhiklPT -t=* -x=* -B= --all --human-readable --inodes --total --type=* --output?
readlink realpath | list* | -efmnqsvzLP --canonicalize --quiet --zero --relative-to=list
basename | text* | -az -s= --suffix= --zero
dirname | text* | -z --zero
find gfind | list* | -name= -iname= -path= -ipath= -wholename= -regex= -iregex= -type= -size= -perm= -user= \
  -group= -mtime= -mmin= -atime= -amin= -ctime= -newer=list -anewer=list -cnewer=list -newermt= -maxdepth= -mindepth= \
  -links= -samefile=list -regextype= -printf= -empty -readable -writable -executable -nouser -true -false -not -a -o \
  -and -or -print -print0 -ls -prune -quit -depth -daystart -mount -xdev -O1 -O2 -O3 -help -version --help --version \
  -fprint=write -fprint0=write -fls=write -delete -exec -execdir -ok -okdir | single harmful @find
fd fdfind | text list* | -HIugsiaplF01 -t=* -e=* -d= -E=* -S= -c= -j= --type=* --extension=* --max-depth= --exclude=* \
  --size= --changed-within= --changed-before= --max-results= --hidden --no-ignore --glob --full-path --absolute-path \
  --list-details --ignore-case --print0 --fixed-strings | harmful
cat | read* | -AbeEnstTuv --show-all --number --squeeze-blank --show-tabs
tac | read* | -br
rev | read* | -z
nl | read* | -b= -d= -f= -h= -i= -l= -n= -s= -v= -w=
expand unexpand | read* | -ai -t= --tabs= --all
fold | read* | -bs -w= --width= --bytes
fmt | read* | -cstu -w= -g= --width=
paste | read* | -sz -d=
head tail ghead gtail | read* | -# -qvz -n= -c= --lines= --bytes= --quiet --silent --verbose --zero-terminated
wc | read* | -clLmw --bytes --chars --lines --words --max-line-length --total=
cut | read* | -nsz -d= -f= -c= -b= --delimiter= --bytes=
column | read* | -txeLnJd -s= -c= -o= -N= -R= -H= -O= -E= -T= -W= --json
join | read* | -iz -1= -2= -j= -t= -o= -e= -a=* -v= --ignore-case
comm | read* | -123z --total
cmp | read* | -bls -n= -i= --bytes= --quiet --verbose
diff | read* | -aAbBcdeEfimnNpqrstTuvwXyZ3 -U= -C= -W= -I=* -x=* -F= -L=* --unified? --context? --color? \
  --label=* --exclude=* --brief --recursive --new-file --side-by-side --suppress-common-lines --ignore-all-space \
  --ignore-space-change --ignore-blank-lines --ignore-case --text --minimal --no-dereference | harmful permutes
diff3 | read* | -aAeEimTxX3 -L=* | harmful
sort gsort | read* | -bcCdfghiMmnrRsuVz -k=* -t= -S= --key=* --field-separator= --reverse --numeric-sort --unique \
  --human-numeric-sort --version-sort --ignore-case --check? --stable --sort= | harmful
uniq | read write | -# -cdDiuz -f= -s= -w= --count --repeated --unique --ignore-case --skip-fields= --skip-chars= | \
  harmful ordered
shuf | read* | -erz -n= -i= | harmful
tr | text* | -cCdst
grep egrep fgrep | text read* | -# -aEFGHhIiLlnoPqrsTUuvwxyZzbcV -e=text* -f=read -m= -A= -B= -C= -D= --regexp=text* \
  --file=read --max-count= --after-context= --before-context= --context= --include=* --exclude=* --exclude-dir=* \
  --binary-files= --color? --extended-regexp --fixed-strings --perl-regexp --ignore-case --invert-match --word-regexp \
  --line-regexp --count --files-with-matches --files-without-match --only-matching --quiet --silent --no-messages \
  --with-filename --no-filename --line-number --null --text --recursive | @grep
zgrep | text packed* | -aEFGHhiLlnoqsvwxc -e= -m= -A= -B= -C= | @grep
rg | text read* | -aFHIilnNopPqsSUuvwxc0 -e=text* -f=read -g=* -t=* -T=* -A= -B= -C= -m= -M= -j= -r= -E= -d= \
  --regexp=text* --file=read --glob=* --iglob=* --type=* --type-not=* --max-count= --max-depth= --max-columns= \
  --replace= --sort= --color= --after-context= --before-context= --context= --files --type-list --hidden --no-ignore \
  --no-ignore-vcs --no-heading --heading --line-number --no-line-number --count --json --count-matches \
  --files-with-matches --files-without-match --fixed-strings --ignore-case --smart-case --case-sensitive --word-regexp \
  --multiline --only-matching --pcre2 --vimgrep --stats --with-filename --no-filename --invert-match --text --column \
  --quiet --null | harmful permutes @grep
sed gsed | text read* | -nErsuz -e=* --quiet --silent --expression=* --regexp-extended --posix --sandbox \
  -i?!change --in-place?!change -f=exec --file=exec | harmful ordered options@sed
awk gawk mawk nawk | text read* | -F= -v=* --field-separator= --assign=* --posix --re-interval -f=exec --file=exec \
  -i=exec --include=exec -o?!change --pretty-print?!change | harmful ordered options@awk
jq | text read* | -acCejMnrsSR --tab --raw-output --compact-output --null-input --slurp --sort-keys \
  --exit-status --raw-input --join-output --seq --arg= --argjson= | harmful @jq
xxd | read write | -a -b -C -e -E -i -p -r -u -v -c= -l= -s= -g= -o= -n= -R= | single harmful ordered
od | read* | -abcdfhiloOsvwx -A= -t=* -N= -j= -w? -S= --format=*
hexdump hd | read* | -bcCdovx -n= -s= -e=*
nm readelf | read* | -aACDghnoprsSuvWdexcIVftBz -t= -T= --demangle? --format= --all | harmful roles@special
strings | read* | -adfiotw -n= -t= -e= -T= --all --bytes= | harmful roles@special
objdump | read* | -CdDfhpPrRstTwxza -j=* -M=* -m= --disassemble? --syms --demangle? | harmful roles@special
md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum b3sum cksum sum | read* | -bqrstz \
  -a= -l= --algorithm= --tag --zero --quiet
base64 base32 | read* | -dDi -w= --wrap= --decode | harmful
jobs | text* | -lnprs
seq | text* | -w -s= -f= --format=
bc | none | -lqsw --quiet
factor expr | text* | -dhz -d= --format= --suffix= --delimiter=
break continue return shift exit logout | text* | | anything @computes
yes : true false sleep logname arch tty times pwd dirs type echo ulimit umask help disown bg unalias trap | \
  text* | | anything
export declare typeset local readonly | text* | | anything @declare
alias | execute* | | anything
kill | text* | | anything @kill
test [ [[ | text* | | anything @tests
let getopts wait unset | text* | | anything options@names
printf | text* | | anything @printf
set shopt | text* | | anything @options
busybox toybox | text* | --install!system | anything
nproc | none | --all --ignore=
cal | text* | -13yjhNbw -m= -d= -A= -B=
zcat gzcat bzcat xzcat | packed* | -fqv | harmful
tar gtar bsdtar | none | -tvzjJZa -f= -C= --list --verbose --file= --directory= --gzip --bzip2 --xz --zstd --exclude=* \
  --totals | harmful @tar
unzip | packed text* | -lvtZzqpcCajX -x=* | harmful ordered roles@unzip
gzip gunzip bzip2 bunzip2 xz unxz zstd unzstd | read* | -cdltvfqk --stdout --decompress --list \
  --test --verbose --quiet | harmful ordered @compress
whoami groups users | none
id | text* | -agGnruzZ --user --group --name --zero
uname | none | -asnrvmpio --all
who w last | none | -abdHlmpqrtTuhsiofwxFn -# --count --all
uptime | none | -psV
free | none | -bkmghtlwv --total
lscpu lsmem lspci lsusb numastat lsipc lslocks | none | -aexyJbcrPpktvmnDSVnu --json --bytes --all
lsblk | maybelist* | -abdDfilmnpPrStTJOzHMxs -o= -e= -I= -x= --json --output= --bytes --list
lsmod locale lsb_release clear | text* | -aicrdskm --all
pgrep pidof | text* | -afilnovwxcsq -u=* -U=* -d= -P=* -t=* -g=* --full --list-name --exact --count --delimiter=
ps | text* | -AadefFHjlLMNTvywZmrXcVS -o=* -p=* -u=* -U=* -C=* -g=* -G=* -q=* -s=* -t=* --sort= --no-headers --forest \
  --format= --user=* --headers | options@ps
ss netstat | network* | -HOnrlaemopsistuwdx0460bZNMzvgcCW -f= --numeric --listening --tcp --udp --all --processes
nvidia-smi | none | -Lqx -i= -d= --format=
date gdate | text* | -uRj -d= -s=!system --set=!system -f=read -r=list -I? -v=* --date= --reference=list --iso-8601? \
  --utc | options@date
hostname dnsdomainname domainname nisdomainname | none | -fsiIdAy --fqdn --short | !system
hostnamectl > - status show hostname | none | --json= --no-pager
timedatectl > - status show list-timezones timesync-status | text* | --no-pager --all
localectl > - status list-locales list-keymaps | text* | --no-pager
loginctl > - list-sessions session-status show-session list-users user-status show-user list-seats | text* | \
  --no-pager --all --full
dmesg | none | -HTLdektuxrPJ -l= -f= --level= --decode --color? -c!log -C!log --clear!log --read-clear!log -n!kernel \
  -D!kernel -E!kernel -F=read -K=read -w | harmful
sysctl | name* | -aAeNnbqXx --all --ignore | !kernel
ip | text* | -4 -6 -0 -o -br -brief -s -d -c -j -p -color -json -details -stats -oneline -f= | single options@ip
ifconfig | text none* | -asv | !firewall
route arp | none | -naveN46 | !firewall
mount | none | -lhV | !mount
losetup | none | -alnJ --list --all --json | !mount
crontab | none | | unknown @crontab
service rc-service | text* | | @service
systemctl > status is-active is-enabled is-failed is-system-running list-units list-unit-files list-timers \
  list-sockets list-jobs list-dependencies get-default list-machines - | text* | -t= -p=* -n= -la --type= \
  --state= --all --no-pager --full --lines= --user --plain
systemctl > show cat | text* | -p=* -a --all --no-pager --full --user | environment
cd chdir pushd popd | list* | -PLen -#
hash | none | -rltd -p=hijack
command builtin | text* | -vVp | wrapper =-v =-V
which whereis | text* | -abmsu
read | text* | -ers -p= -t= -n= -N= -d= -a= -u= -i= | options@names
readarray mapfile | text* | -t -d= -n= -O= -s= -u= | options@names
printenv | text* | -0 | options@printenv
xargs gxargs | text* | -0rtxo -I=* -i? -n= -P= -L= -l? -d= -E= -s= -a=read --null --no-run-if-empty --verbose \
  --max-args= --max-procs= --replace? --delimiter= --arg-file=read | wrapper harmful
env | text* | -i0v -u=* -C=list --unset=* --chdir=list --ignore-environment --null -S= --split-string= | wrapper \
  options@env
time gtime | text* | -pv -f= --format= --portability --verbose -o=write --output=write | wrapper
nice | text* | -# -n= | wrapper anything
ionice | text* | -t -c= -n= --ignore | wrapper anything
timeout gtimeout | text* | -vfp -k= -s= --kill-after= --signal= --preserve-status --foreground --verbose | wrapper \
  anything +1
stdbuf | text* | -i= -o= -e= --output= | wrapper anything
setsid | text* | -cfw | wrapper anything
exec | text* | -cl -a=!unknown | wrapper anything options@env
nohup | text* | | wrapper anything @nohup
eval source . | text* | | wrapper anything
dpkg | text* | -lLsSpC --list --listfiles --status --search --get-selections --print-architecture --audit | !install
apt-cache > policy show search depends rdepends madison showpkg pkgnames stats | text* | -qn -o=aptsetting* -c=exec \
  --config-file=exec
pip > list show freeze check help debug | text* | -lfqv --format= --files --local --user --not-required --exclude=* \
  --all --disable-pip-version-check --verbose --quiet
pip > cache | look text | -v
pip > config | look text | -v | environment
npm > config c | look text* | --json -l | check
npm > - ls list ll la root bin prefix explain why query | text* | -gals --depth= --json --long --all --parseable \
  --global --silent --omit= --prod | check
apt apt-get > list show search policy depends rdepends help | text* | -o=aptsetting* --option=aptsetting* -c=exec \
  --config-file=exec -aqn --installed --upgradable --all-versions --names-only
pkg-config pkgconf | maybe* | --cflags --libs --modversion --exists
gofmt | read* | -l -d -s -e | single harmful
openssl > - | none | | unknown
openssl > version ciphers help list errstr | text* | -a -v -V -d -p -b -o -s -commands | single
openssl > dgst md5 sha1 sha256 sha512 x509 crl asn1parse verify | read* | -md5 -sha1 -sha256 -sha512 -hex -r -c \
  -in=read -inform= -noout -text -subject -issuer -dates -fingerprint -serial -pubkey -enddate -startdate -ext= \
  -checkend= -modulus -CAfile=read | single harmful
docker podman > help - | text*
"""

# Further options with which a program only prints what it is.
PRINTS = {
    **dict.fromkeys(words("python python2 python3 pypy pypy3 ipython bpython micropython"), words("-V -VV -h")),
    **dict.fromkeys(words("node nodejs ruby"), words("-v -h")), "perl": words("-v -V -h"), "php": words("-v -h -m"),
    **dict.fromkeys(words("lua luajit"), words("-v")), **dict.fromkeys(words("java javac"), words("-version")),
    **dict.fromkeys(words("ssh slogin"), words("-V")), "ldconfig": words("-p --print-cache"),
    **dict.fromkeys(words("gcc g++ cc c++ clang clang++"), words("-v -dumpversion -dumpmachine")),
}  # fmt: skip
# The programs whose `--version` and `--help` read nothing of the project, besides the closed ones.
VERSIONS = words(
    """
    apt apt-get rm rmdir cp mv mkdir touch ln dd tee install split truncate shred chmod chown chgrp mkfs mkfs.* mke2fs
    mount umount swapon shutdown reboot poweroff halt kill pkill killall systemctl journalctl git docker podman kubectl
    python python2 python3 node nodejs perl ruby php lua java javac bash sh zsh dash ksh curl wget ssh scp rsync nc
    openssl gpg gcc g++ cc c++ clang clang++ ld as make gmake cmake ninja zip strace gdb vim vi nvim nano emacs sqlite3
    psql mysql redis-cli tmux screen sudo su crontab useradd usermod passwd iptables ip patch csplit mktemp fdisk parted
    ffmpeg convert magick pip watch env nohup timeout xargs
    """
)
