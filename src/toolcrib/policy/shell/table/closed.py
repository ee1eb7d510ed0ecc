"""List the programs that are allowed because they only read and print, each with its harmless options: data.

The notation is in `spec`. An option belongs here only if no value and no operand of it writes, runs, connects, follows
links out of a folder that is searched, or takes names from a file. Everything that is not here asks.
"""

from .wordlist import words

CLOSED = """
ls dir vdir | list* | -aAbBcCdfFgGhHiIklLmnNopqQrRsStTuUvwxXZ1 -I=* -w= -T= --all --almost-all --author --color? \
  --directory --classify? --format= --full-time --group-directories-first --no-group --human-readable --si --hide=* \
  --ignore=* --inode --indicator-style= --literal --numeric-uid-gid --quoting-style= --reverse --recursive --size \
  --sort= --time= --time-style= --width= --zero --block-size= --hyperlink?
exa eza lsd | list* | -1lGxraRdTFhBgHimsSuUt -L= --long --tree --level= --all --sort= --color? --git --icons? \
  --header
tree | list* | -adfipsuDhFqNACLQgxrtUvcJX -L= -P=* -I=* --dirsfirst --filesfirst --gitignore --noreport --charset= \
  --du --prune --sort= --si --inodes --device --metafirst --timefmt= --filelimit= --matchdirs --ignore-case | \
  harmful
stat | list* | -LftZ -c= --format= --printf= --terse --dereference --file-system
file | read* | -bchikLNprsvz0 -F= -e=* --brief --mime --mime-type --mime-encoding --keep-going --separator= \
  --extension | harmful
du | list* | -0abchHklmsSx -d= -B= -t= --all --apparent-size --bytes --total --human-readable --max-depth= \
  --summarize --threshold= --block-size= --exclude=* --si --time? --one-file-system --separate-dirs --null --inodes
df | maybelist* | -aHhiklPT -t=* -x=* -B= --all --human-readable --inodes --print-type --portability --total \
  --type=* --local --si --output? --block-size= --exclude-type=*
readlink realpath | list* | -efmnqsvzLP --canonicalize --canonicalize-existing --canonicalize-missing --no-newline \
  --quiet --zero --no-symlinks --strip --physical --logical --relative-to=list --relative-base=list
basename | text* | -az -s= --multiple --suffix= --zero
dirname | text* | -z --zero
pathchk mountpoint | maybelist* | -pPqdx --portability
namei lsattr getfacl getfattr getcap | list* | -RVaAdlpvoxmnrstcen --recursive --absolute-names --omit-header
find gfind | list* | -H -P -name= -iname= -path= -ipath= -wholename= -iwholename= -regex= -iregex= -lname= -ilname= \
  -type= -xtype= -size= -perm= -user= -group= -uid= -gid= -mtime= -mmin= -atime= -amin= -ctime= -cmin= -newer=list \
  -anewer=list -cnewer=list -newermt= -maxdepth= -mindepth= -links= -inum= -samefile=list -used= -fstype= \
  -regextype= -printf= -empty -readable -writable -executable -nouser -nogroup -true -false -not -a -o -and -or \
  -print -print0 -ls -prune -quit -depth -daystart -mount -xdev -noleaf -warn -nowarn -ignore_readdir_race -O1 -O2 \
  -O3 -help -version --help --version -fprint=write -fprint0=write -fls=write -delete -exec -execdir -ok -okdir | \
  single harmful
fd fdfind | text list* | -HIugsiaplF01 -t=* -e=* -d= -E=* -S= -c= -j= -o= --type=* --extension=* --max-depth= \
  --min-depth= --exact-depth= --exclude=* --size= --changed-within= --changed-before= --color= --threads= \
  --max-results= --hidden --no-ignore --glob --full-path --absolute-path --list-details --case-sensitive \
  --ignore-case --print0 --fixed-strings --unrestricted | harmful
cat | read* | -AbeEnstTuv --show-all --number-nonblank --show-ends --number --squeeze-blank --show-tabs \
  --show-nonprinting
tac | read* | -br -s= --separator=
rev tsort colrm | read* | -z
nl | read* | -p -b= -d= -f= -h= -i= -l= -n= -s= -v= -w= --body-numbering= --number-width= --number-format=
expand unexpand | read* | -ai -t= --tabs= --initial --all --first-only
fold | read* | -bs -w= --width= --spaces --bytes
fmt | read* | -cstu -w= -p= -g= --width= --prefix= --goal= --split-only
pr | read* | -# -admtTFfJrv -l= -w= -W= -o= -h= -D= -N= -e? -i? -n? -s? -S? --length= --width= --indent= --header= \
  --columns= --omit-header --double-space
paste | read* | -sz -d= --delimiters= --serial
look | text read* | -abdf -t=
ul | read* | -i
bat batcat | read* | -npAuPSf -l= -r=* -H=* -m=* --plain --number --show-all --style= --language= --line-range=* \
  --theme= --tabs= --wrap= --terminal-width= --color= --highlight-line=* --file-name= --decorations= --italic-text= \
  --no-pager | harmful
head tail ghead gtail | read* | -# -qvz -n= -c= --lines= --bytes= --quiet --silent --verbose --zero-terminated
wc | read* | -clLmw --bytes --chars --lines --words --max-line-length --total=
cut | read* | -nsz -d= -f= -c= -b= --delimiter= --fields= --characters= --bytes= --only-delimited --complement \
  --output-delimiter= --zero-terminated
column | read* | -txeLnJd -s= -c= -o= -N= -R= -H= -O= -E= -T= -W= --table --separator= --output-separator= \
  --table-columns= --fillrows --json
join | read* | -iz -1= -2= -j= -t= -o= -e= -a=* -v= --header --ignore-case --check-order --nocheck-order
comm | read* | -123z --total --output-delimiter= --check-order --nocheck-order
cmp | read* | -bls -n= -i= --bytes= --ignore-initial= --silent --quiet --verbose --print-bytes
diff diff3 colordiff | read* | -aAbBcdeEfimnNpqrstTuvwXyZ3 -U= -C= -W= -I=* -x=* -F= -L=* --unified? --context? \
  --color? --label=* --exclude=* --width= --brief --recursive --new-file --side-by-side --suppress-common-lines \
  --normal --ignore-all-space --ignore-space-change --ignore-blank-lines --ignore-case --text --minimal \
  --strip-trailing-cr --report-identical-files --expand-tabs --tabsize= --speed-large-files --no-dereference \
  --left-column | harmful
sdiff | read* | -bBdEiHlstWZ -w= --width= --suppress-common-lines | harmful
wdiff dwdiff | read* | -123inps --no-deleted --no-inserted --no-common --statistics --ignore-case
diffstat | read* | -bcCklmqrRsuv -p= -n= -w= | harmful
sort gsort | read* | -bcCdfghiMmnrRsuVz -k=* -t= -S= --key=* --field-separator= --reverse --numeric-sort --unique \
  --human-numeric-sort --version-sort --general-numeric-sort --month-sort --ignore-case --ignore-leading-blanks \
  --check? --stable --zero-terminated --sort= --parallel= --merge --dictionary-order --random-sort | harmful
uniq | read write | -# -cdDiuz -f= -s= -w= --count --repeated --unique --ignore-case --skip-fields= --skip-chars= \
  --check-chars= --group? --all-repeated? --zero-terminated | harmful
shuf | read* | -erz -n= -i= --head-count= --input-range= --echo --repeat --zero-terminated | harmful
tr | text* | -cCdst --complement --delete --squeeze-repeats --truncate-set1
grep egrep fgrep pcregrep | text read* | -# -aEFGHhIiLlnoPqrsTUuvwxyZzbcV -e=text* -f=read -m= -A= -B= -C= \
  -d= -D= --regexp=text* --file=read --max-count= --after-context= --before-context= --context= --include=* \
  --exclude=* --exclude-dir=* --label= --binary-files= --color? --colour? --extended-regexp --fixed-strings \
  --basic-regexp --perl-regexp --ignore-case --no-ignore-case --invert-match --word-regexp --line-regexp --count \
  --files-with-matches --files-without-match --only-matching --quiet --silent --no-messages --byte-offset \
  --with-filename --no-filename --line-number --null --text --recursive --null-data --line-buffered --initial-tab
zgrep bzgrep xzgrep zstdgrep | text read* | -aEFGHhiLlnoqsvwxc -e= -m= -A= -B= -C=
rg | text read* | -aFHIilnNopPqsSUuvwxc0 -e=text* -f=read -g=* -t=* -T=* -A= -B= -C= -m= -M= -j= -r= -E= -d= \
  --regexp=text* --file=read --glob=* --iglob=* --type=* --type-not=* --max-count= --max-depth= --max-filesize= \
  --max-columns= --threads= --replace= --sort= --sortr= --color= --encoding= --after-context= --before-context= \
  --context= --files --type-list --hidden --no-ignore --no-ignore-vcs --no-heading --heading --line-number \
  --no-line-number --count --json --count-matches --files-with-matches --files-without-match --fixed-strings \
  --ignore-case --smart-case --case-sensitive --word-regexp --multiline --multiline-dotall --only-matching --pcre2 \
  --pretty --vimgrep --stats --trim --with-filename --no-filename --invert-match --text --column --quiet \
  --no-messages --passthru --line-regexp --null --unrestricted | harmful
ag | text read* | -iIlLnoQsSvwcHarg -A= -B= -C= -G= -m= --ignore=* --ignore-dir=* --depth= --nocolor --color --group \
  --nogroup --hidden --literal --count --python --py --js --cpp --cc --rust --go --java | harmful
ack | text read* | -ilLnoQsSvwchHgt -A= -B= -C= -m= --ignore-dir=* --nocolor --color --group --nogroup --literal \
  --count --python --py --js --cpp --cc --rust --go --java | harmful
sed gsed | text read* | -nErsuz -e=* -l= --quiet --silent --expression=* --regexp-extended --separate --unbuffered \
  --null-data --line-length= --posix --sandbox -i?!change --in-place?!change -f=exec --file=exec | harmful
awk gawk mawk nawk | text read* | -F= -v=* --field-separator= --assign=* --posix --re-interval -f=exec --file=exec \
  -i=exec --include=exec -o?!change --pretty-print?!change | harmful
jq gojq jaq | text read* | -acCejMnrsSR --indent= --tab --raw-output --compact-output --null-input --slurp \
  --sort-keys --exit-status --raw-input --color-output --monochrome-output --ascii-output --join-output --seq \
  --stream --arg= --argjson= --args --jsonargs | harmful
yq | text read* | -CMPNrnyej -o= -p= -I= --output-format= --input-format= --indent= --prettyPrint --no-colors \
  --raw-output --null-input --exit-status --unwrapScalar | harmful
xmllint | remote* | --noout --format --xpath= --pretty= --nonet --recover --nowarning --encode= --nocdata --noblanks \
  --stream --timing | harmful
xxd | read write | -abBceEiprRuv -c= -l= -s= -g= -o= -n= -R= | harmful
od | read* | -abcdfhiloOsvwx -A= -t=* -N= -j= -w? -S= --format=* --address-radix= --read-bytes= --skip-bytes= \
  --output-duplicates
hexdump hd | read* | -bcCdovx -n= -s= -e=*
nm readelf size | read* | -aACDghlnoprsSuvWdexcIVftBz -t= -T= --defined-only --undefined-only --dynamic --demangle? \
  --extern-only --numeric-sort --print-size --size-sort --radix= --format= --wide --all --headers --sections \
  --symbols --segments --file-header --program-headers --section-headers --relocs --notes --hex-dump=* \
  --string-dump=* --dyn-syms | harmful
strings c++filt | read* | -adfiostw -n= -t= -e= -T= --all --bytes= --radix= --encoding= --print-file-name | harmful
objdump | read* | -CdDfhpPrRstTwxzag -j=* -M=* -m= --section=* --disassemble? --disassemble-all --full-contents \
  --all-headers --private-headers --syms --dynamic-syms --reloc --demangle? --no-show-raw-insn --start-address= \
  --stop-address= --file-headers --section-headers | harmful
addr2line | text* | -aCfipsx -e=read --exe=read -j= --functions --inlines --demangle? | harmful
md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum b3sum cksum sum shasum md5 xxhsum crc32 | read* | \
  -bqrstz -a= -l= --algorithm= --length= --binary --text --tag --zero --quiet
base64 base32 basenc | read* | -dDi -w= --wrap= --decode --ignore-garbage | harmful
iconv | read* | -cls -f= -t= --from-code= --to-code= --list | harmful
jobs | text* | -lnprs
seq | text* | -w -s= -f= --separator= --format= --equal-width
bc | none | -lqsw --mathlib --quiet
factor numfmt expr | text* | -dhz --from= --to= --field= -d= --format= --suffix= --padding= --delimiter= --grouping \
  --header?
yes : true false sleep logname arch tty break continue return shift times caller pwd dirs type echo ulimit \
  umask logout exit help disown bg unalias export declare typeset local readonly alias kill trap test [ [[ let \
  getopts wait unset printf set shopt busybox toybox | text* | | anything
nproc | none | --all --ignore=
cal ncal | text* | -13yjhNbw -m= -d= -A= -B=
figlet toilet fortune tokei scc | maybelist* | -pbdstyg -w= --files --exclude=* -e=* | harmful
pdfinfo | read* | -f= -l= -enc= -meta -box -isodates -rawdates | single harmful
identify | read* | -format= -verbose -ping -quiet | single harmful
ffprobe | read* | -v= -loglevel= -hide_banner -show_entries= -show_format -show_streams -show_chapters -show_error \
  -of= -print_format= -output_format= -select_streams= -i=read -pretty -count_frames | single harmful
mediainfo | read* | --Output=maybe --Full -f --Info-Parameters | harmful
less | text* | -aAcdeEfFgGiIJKlLmMnNqQrRsSuUwWX -p= -P= -j= -x= -z= -y= | harmful
more | text* | -# -cdeflpsu -n= | harmful
most pg | text* | | harmful
zcat gzcat bzcat xzcat lzcat zstdcat lz4cat | read* | -fqv | harmful
zdiff zcmp | read* | -abBiqrsuw | harmful
zipinfo | read text* | -12hlmstvzMTZ
tar gtar bsdtar | none | -tvzjJZa -f= -C= --list --verbose --file= --directory= --gzip --bzip2 --xz --zstd --lzma \
  --full-time --numeric-owner --wildcards --exclude=* --strip-components= --totals | harmful
unzip | read text* | -lvtZzqpcCajX -x=* | harmful
gzip gunzip bzip2 bunzip2 xz unxz lzma unlzma zstd unzstd lz4 unlz4 | read* | -cdltvfqk --stdout --to-stdout \
  --decompress --uncompress --list --test --verbose --quiet --robot | harmful
whoami groups users | none
id | text* | -agGnruzZ --user --group --groups --name --real --zero
uname | none | -asnrvmpio --all --kernel-name --kernel-release --machine --nodename --operating-system --processor
who w last | none | -abdHlmpqrtTuhsiofwxFn -# --count --all
uptime | none | -psV --pretty --since
free | none | -bkmghtlwv --human --mega --giga --kilo --total --si --wide
vmstat iostat mpstat pidstat | text | -adfmnstwhyzNxpkcPA -S= -p= -P=
lscpu lsmem lspci lsusb numastat lsipc lslocks | none | -aexyJbcrPpktvmnDSVnu --json --bytes --all --extended? \
  --parse?
lsblk | maybelist* | -abdDfilmnpPrStTJOzHMxs -o= -e= -I= -x= --json --fs --output= --bytes --nodeps --paths --list \
  --noheadings
lsmod locale lsb_release ruptime sw_vers reset clear tset | text* | -aicrdskm --all --charmaps
getconf infocmp | text* | -a
pgrep pidof | text* | -afilnovwxcsq -u=* -U=* -d= -P=* -t=* -g=* --full --list-name --list-full --exact --count \
  --newest --oldest --delimiter=
pstree | text* | -aAchglnpstTuUZ
ps | text* | -AadefFHjlLMNTvywZmrXcVS -o=* -p=* -u=* -U=* -C=* -g=* -G=* -q=* -s=* -t=* --pid=* --ppid=* --sort= \
  --no-headers --forest --format= --user=* --cols= --headers
top | none | -bcHiSs1 -n= -d= -p=* -u= -o= -w?
ss netstat | text* | -HOnrlaemopsistuwdx0460bZNMzvgcCW -f= --numeric --listening --tcp --udp --all --processes \
  --summary --unix --extended --info --resolve --route --program --programs --interfaces
tput | text* | -T=
nvidia-smi | none | -Lqx -i= -d= --query-gpu= --query-compute-apps= --format=
date gdate | text* | -uRj -d= -f=read -r=list -I? -v=* --date= --reference=list --iso-8601? --rfc-3339= --rfc-email \
  --utc --universal
hostname dnsdomainname domainname nisdomainname | none | -fsiIdAy --fqdn --short --ip-address --all-ip-addresses \
  --domain
hostnamectl | text* | --json= --no-pager --static --pretty --transient
timedatectl | text* | --no-pager --all
localectl | text* | --no-pager
loginctl | text* | --no-pager --all --full
getent | text* | -i --no-idn
dmesg | none | -HTLdektuxrPJ -l= -f= --human --ctime --level= --facility= --decode --kernel --userspace --notime \
  --time-format= --nopager --color? -c!log -C!log --clear!log --read-clear!log -n!kernel -D!kernel -E!kernel -F=read \
  -K=read -w | harmful
sysctl | text* | -aAeNnbqXx --all --names --values --ignore
ip | text* | -4 -6 -0 -o -br -brief -s -d -c -j -p -color -json -details -stats -statistics -oneline -pretty -f= \
  -family= | single
ifconfig | text* | -asv
route arp | none | -naveN46
mount | none | -lhV
findmnt | maybe* | -AaDJlnPruvRbik -o= -t= -T= -S= -M= --output= --json --df --all --list --noheadings --target= \
  --source=
blkid | none | -o= -s=* | harmful
losetup | none | -alnJ --list --all --json --noheadings
ldconfig | none | -p --print-cache
crontab atq | none | | unknown
service rc-service | text*
systemctl > status is-active is-enabled is-failed is-system-running list-units list-unit-files list-timers \
  list-sockets list-jobs list-dependencies show cat help get-default list-machines - | text* | -t= -p=* -n= -la \
  --type= --property=* --state= --all --no-pager --no-legend --full --lines= --failed --value --user --plain
man whatis apropos | text* | -P=program --pager=program -kfwaKR -s= -S= -e= -L= --sections= --where --path | \
  harmful
info | text* | -n= -k= -w --node= --apropos= --where | harmful
cd chdir pushd popd | list* | -PLen -#
hash | none | -rltd -p=hijack
command builtin | text* | -vVp | wrapper =-v =-V
which whereis | text* | -abmsu
read | text* | -ers -p= -t= -n= -N= -d= -a= -u= -i=
readarray mapfile | text* | -t -d= -n= -O= -s= -u=
printenv | text* | -0
xargs gxargs | text* | -0rtxo -I=* -i? -n= -P= -L= -l? -d= -E= -s= -a=read --null --no-run-if-empty --verbose \
  --max-args= --max-procs= --replace? --delimiter= --arg-file=read | wrapper harmful
env | text* | -i0v -u=* -C=list --unset=* --chdir=list --ignore-environment --null -S= --split-string= | wrapper
time gtime | text* | -pv -f= --format= --portability --verbose | wrapper
nohup setsid nice ionice timeout gtimeout stdbuf unbuffer chronic exec eval source . setarch linux64 linux32 taskset \
  chrt catchsegv caffeinate numactl choom | text* | | wrapper anything
dpkg | text* | -lLsSpC --list --listfiles --status --search --print-avail --get-selections --print-architecture \
  --audit
dpkg-query | text* | -WlLsS -f= --show --showformat= --list --status --listfiles --search
dpkg-deb | read* | -cIfW --contents --info --field
apt-cache > policy show search depends rdepends madison showpkg pkgnames stats | text* | -qn -o=aptsetting* \
  --option=aptsetting* -c=exec --config-file=exec
rpm | text* | -qailfRcdp --query --all --info --list --queryformat= --qf= --changelog --requires --provides \
  --whatprovides --last --scripts
brew > list help | text* | --versions
gem > list info help | text* | --versions
pip > list show freeze check help debug | text* | -lfqv --format= --files --local --user --not-required --exclude=* \
  --all --disable-pip-version-check --verbose --quiet
pip > config cache | look text | -v
npm > - ls list ll la root bin prefix explain why query | text* | -gals --depth= --json --long --all --parseable \
  --global --silent --omit= --include= --prod --production | check
npm > config c | look text* | --json -l | check
apt apt-get > list show search policy depends rdepends help | text* | -o=aptsetting* --option=aptsetting* -c=exec \
  --config-file=exec -aqn --installed --upgradable --all-versions --names-only
pkg-config pkgconf | text* | --cflags --libs --libs-only-l --libs-only-L --libs-only-other --cflags-only-I \
  --cflags-only-other --modversion --exists --list-all --static --variable= --print-requires --print-errors \
  --atleast-version= --short-errors
shellcheck | read* | -s= -f= -e=* -S= -o= -C? -W= -i=* --shell= --format= --exclude=* --severity= --color?
gofmt | read* | -l -d -s -e | single harmful
openssl > - | none | | unknown
openssl > version ciphers help list errstr | text* | -a -v -V -d -p -b -o -s -tls1_2 -tls1_3 -digest-commands \
  -cipher-commands -digest-algorithms -cipher-algorithms -commands | single
openssl > dgst md5 sha1 sha256 sha512 x509 crl asn1parse verify | read* | -md5 -sha1 -sha224 -sha256 -sha384 -sha512 \
  -hex -binary -r -c -in=read -inform= -noout -text -subject -issuer -dates -fingerprint -serial -pubkey -purpose \
  -enddate -startdate -email -ext= -nameopt=* -checkend= -modulus -hash -CAfile=read | single harmful
openssl > base64 | read* | -d -e -A -a -in=read | single harmful
docker podman > help - | text*
history | none | -#
"""

# The programs whose `--version` and `--help` read nothing of the project, besides the closed ones.
VERSIONS = words(
    """
    apt apt-get rm rmdir cp mv mkdir touch ln dd tee install split truncate shred chmod chown chgrp mkfs mkfs.*
    mke2fs mount umount swapon shutdown reboot poweroff halt kill pkill killall systemctl journalctl git docker
    podman kubectl python python2 python3 node nodejs perl ruby php lua java javac bash sh zsh dash ksh fish curl
    wget ssh scp rsync nc openssl gpg gcc g++ cc c++ clang clang++ ld as make gmake cmake ninja zip strace gdb vim
    vi nvim nano emacs sqlite3 psql mysql redis-cli tmux screen sudo su crontab useradd usermod passwd iptables ip
    patch csplit mktemp fdisk parted ffmpeg convert magick pip watch env nohup timeout xargs
    """
)
