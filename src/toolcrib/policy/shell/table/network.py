"""Describe programs that connect to other machines."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..effects import Effect, of_options, of_role, plain
from ..sorting import SortedWords, cut, literal
from .spec import program
from .wordlist import words

_EXEC_SSH = re.compile(
    r"(?:proxycommand|localcommand|permitlocalcommand|knownhostscommand|proxyusefdpass|include|match)\b", re.IGNORECASE
)


def _curl(call: SortedWords) -> Iterator[Effect]:
    yield from plain(call)
    if call.has("-O", "--remote-name", "--remote-name-all", "-J"):
        yield Effect("create", literal("./x"))
    for word in call.values("-F", "--form"):
        at = re.search(r"=[@<]", word.start)
        if at:
            end = re.sub(r";.*", "", word.start[at.end() :]) if len(word.parts) == 1 else None
            yield from of_role("send", literal(end) if end is not None else cut(word, at.end()))
    for word in call.values("--unix-socket", "--abstract-unix-socket"):
        kind = "escape" if re.search(r"(?:docker|podman|containerd|crio)\.sock", word.start) else "process"
        yield Effect(kind, word)
    if not call.operands and not call.values("--url") and call.command.args and not call.has("-K", "--config"):
        yield Effect("network")


def _wget(call: SortedWords) -> Iterator[Effect]:
    yield from plain(call)
    if not call.has("-O", "--output-document", "--spider"):
        yield Effect(
            "create",
            call.values("-P", "--directory-prefix")[0] if call.has("-P", "--directory-prefix") else literal("./x"),
        )


def _ssh(call: SortedWords) -> Iterator[Effect]:
    """ssh: a remote command runs on the other machine; the programs in options run on this one."""
    if [word.text for word in call.command.args] == ["-V"]:
        return
    yield from _ssh_options(call)
    yield Effect("network", call.operands[0] if call.operands else None)


def _ssh_options(call: SortedWords) -> Iterator[Effect]:
    yield from of_options(call)
    for word in call.values("-o"):
        start = "".join(part or "" for part in word.parts)
        if _EXEC_SSH.match(start.strip()):
            value = re.split(r"[=\s]", start.strip(), maxsplit=1)
            if len(value) > 1 and value[1].strip().lower() in ("none", "no"):
                continue
            yield Effect("shell", literal(value[-1]))
            yield Effect("hijack", word, "makes ssh run a program")


def _scp(call: SortedWords) -> Iterator[Effect]:
    yield from _ssh_options(call)
    yield from plain(call)
    yield Effect("network")


def _rsync(call: SortedWords) -> Iterator[Effect]:
    yield from plain(call)
    dest = call.operands[-1] if len(call.operands) > 1 else None
    deletes = call.has("--del", "--delete") or any(name.startswith("--delete") for name in call.unlisted)
    if dest is not None and deletes and not re.match(r"[\w.@-]+:|rsync://", dest.start):
        yield Effect("delete", dest)
    if call.has("--remove-source-files"):
        for word in call.operands[:-1]:
            yield Effect("delete", word)


def _nc(call: SortedWords) -> Iterator[Effect]:
    yield from of_options(call)
    if call.has("-e", "-c", "--exec", "--sh-exec", "--lua-exec"):
        yield Effect("reverse-shell")
    yield Effect("network", call.operands[0] if call.operands else None)


def _socat(call: SortedWords) -> Iterator[Effect]:
    yield from of_options(call)
    for word in call.operands:
        text = "".join(part or "" for part in word.parts)
        if re.match(r"(?:exec|system|shell)\b", text, re.IGNORECASE):
            yield Effect("reverse-shell", word)
        match = re.match(r"(?:open|create|gopen|file):([^,]*)", text, re.IGNORECASE)
        if match:
            yield Effect("write", literal(match[1]))
    yield Effect("network")


_OPENSSL_KNOWN = words(
    """
    version dgst md5 sha1 sha256 sha512 x509 verify asn1parse rand list help ciphers crl req prime speed errstr
    base64 enc pkey rsa ec
    """
)


def _openssl(call: SortedWords) -> Iterator[Effect]:
    """openssl: digests and inspection print; a few sub-commands use the network, and any may write with -out."""
    first = call.operands[0].text if call.operands else None
    yield from plain(call, "text maybe*")
    if first in ("s_client", "s_server", "s_time", "ocsp"):
        target = next((w for name in ("-connect", "-host", "-url") for w in call.values(name)), None)
        yield Effect("network", target)
    elif first not in _OPENSSL_KNOWN:
        yield Effect("unknown", None, "is a use of openssl that is not known here", "shell:unknown-use")
    if first in ("speed", "prime"):
        yield Effect("unknown", None, "computes for a long time", "shell:endless")
    if first in ("req", "rand", "pkey", "rsa", "ec") and not call.has("-noout", "-out"):
        yield Effect("unknown", None, "makes or prints keys", "shell:unknown-use")


def _gpg(call: SortedWords) -> Iterator[Effect]:
    if call.has(
        "--verify", "--list-keys", "-k", "--list-public-keys", "--fingerprint", "--list-packets", "--list-sigs"
    ):
        yield from plain(call)
        return
    if call.has("--export-secret-keys", "--export-secret-subkeys", "--export-ssh-key"):
        yield Effect("secret", None, "exports private keys")
    if call.has("--recv-keys", "--send-keys", "--search-keys", "--refresh-keys", "--fetch-keys"):
        yield Effect("network")
    yield from plain(call)
    yield Effect("unknown", None, "works with private keys", "shell:unknown-use")


_CURL = """
-o=write --output=write --output-dir=write -O --remote-name --remote-name-all -J --remote-header-name -T=send
--upload-file=send -d=data --data=data --data-binary=data --data-ascii=data --data-urlencode=data --json=data
--data-raw= -F= --form= --form-string= -K=read --config=read -E=read --cert=read --key=read --cacert=
--capath= -b=maybe --cookie=maybe -c=write --cookie-jar=write -D=write --dump-header=write --trace=write
--trace-ascii=write --stderr=write --libcurl=write --etag-save=write --etag-compare=read --hsts=write
--alt-svc=write --netrc-file=read -n!secret --netrc!secret --unix-socket= --abstract-unix-socket= -x=network
--proxy=network --socks5=network --socks4=network --socks4a=network --socks5-hostname=network
--preproxy=network --connect-to=network --resolve=network --doh-url=network --url=url -H= --header=dataheader
--proxy-header= -A= --user-agent= -e= --referer= -u= --user= -U= --proxy-user= -X= --request= -m= --max-time=
--connect-timeout= --retry= --retry-delay= --retry-max-time= -w= --write-out= -r= --range= -C= --continue-at=
-z= --time-cond= -Q= --quote= -P= --ftp-port= --interface= --limit-rate= -y= -Y= --max-redirs= --max-filesize=
--ciphers= --tls-max= --oauth2-bearer= --pinnedpubkey= --local-port= --engine=program --random-file=read
--egd-file=read --url-query= --variable= --expand-output=write --expand-url=url --dns-servers=network -t=
--telnet-option= --create-dirs -L -s -S -f -k -I -i -v -g -G -N -R -l -a -# --aws-sigv4= --delegation=
--proto= --proto-default= --crlfile=read --pubkey=read --cert-type= --key-type= --pass= --mail-from=
--mail-rcpt= --noproxy= --keepalive-time=
""".replace("=dataheader", "=data")

_WGET = """
-O=write --output-document=write -o=write --output-file=write -a=write --append-output=write -P=write
--directory-prefix=write -i=read --input-file=read --post-file=send --body-file=send --post-data= --body-data=
--method= --header= -U= --user-agent= --referer= --load-cookies=read --save-cookies=write
--use-askpass=program -e=unknown --execute=unknown --config=exec --warc-file=write --warc-cdx=write -t=
--tries= -T= --timeout= -w= --wait= -Q= --quota= -l= --level= -A= -R= --accept= --reject= -D= -I= -X= -B=url
--base=url --user= --password= --http-user= --http-password= --ca-certificate=read --certificate=read
--private-key=read --bind-address= --limit-rate= --spider --rejected-log=write --hsts-file=write
--egd-file=read --random-file=read --unlink --preferred-location= --default-page= --proxy-user=
--no-check-certificate -q -c -r -N -p -k -m -nc -nv -b -F -E -H -L --delete-after --max-redirect=
--compression= --content-disposition -S -V
"""

PROGRAMS = {
    "curl": program("url*", _CURL, handler=_curl),
    "wget wget2": program("url*", _WGET, handler=_wget),
    "aria2c axel httpie http https xh lynx w3m links elinks youtube-dl yt-dlp httrack": program(
        "url*",
        "-o=write --output=write --out=write -d=write --dir=write -O=write --download -i=read "
        "--input-file=read --on-download-complete=program "
        "--exec=shell --cmd-file=exec --conf-path=exec",
        "network",
    ),
    "ssh slogin autossh sshpass mosh": program(
        "host text*",
        "-o= -F=exec -i= -l= -p= -L= -R= -D= -W= -J= -w= -E=write -S= -c= -m= -b= -B= -e= -I=program -O= -Q= -t -N -f",
        handler=_ssh,
        wrapper=False,
    ),
    "scp": program(
        "remote* remotewrite", "-o= -F=exec -i= -S=program -P= -J= -l= -c= -D=program -X= -r -p -q -C", handler=_scp
    ),
    "sftp": program("network text*", "-o= -F=exec -i= -S=program -b=exec -P= -D=program -s=program -J=", handler=_scp),
    "ssh-copy-id": program("network*", "-i= -o= -p="),
    "ssh-keygen": program("unknown*", "-f=write -D=program -s=read -l -t= -b= -C= -N= -P= -w=program", "unknown"),
    "ssh-add ssh-agent ssh-keyscan": program("network*", "", "network"),
    "rsync": program(
        "remote* remotewrite",
        "-e=program --rsh=program --rsync-path=program --files-from=names --exclude-from=read "
        "--include-from=read --exclude= --include= "
        "--filter= -f= --log-file=write --password-file=read --backup-dir=write --partial-dir= "
        "--temp-dir=write -T=write --link-dest=list --compare-dest=list "
        "--copy-dest=list --port= --bwlimit= --timeout= --chmod= --chown= --out-format= --max-size= "
        "--min-size= --delete --del --remove-source-files "
        "--early-input=read --write-batch=write --read-batch=read --only-write-batch=write "
        "--daemon!network --config=exec -B= -M= --remote-option=",
        handler=_rsync,
    ),
    "nc ncat netcat nc.openbsd nc.traditional": program(
        "host text*",
        "-e= -c= --exec= --sh-exec= --lua-exec= -p= -s= -w= -q= -i= -X= -x= -l -u -n -v -z -k -o=write",
        handler=_nc,
    ),
    "socat": program(
        "text*", "-lf=write -W= -L=write -r=write -R=write -t= -T= -b= -u -U -d -v -x", handler=_socat, single=True
    ),
    "telnet ftp lftp tftp rlogin rsh rcp finger whois dig nslookup host drill ping ping6 fping hping3 "
    "traceroute traceroute6 tracepath mtr "
    "nmap masscan zmap arping tcpdump tshark wireshark ngrep dumpcap ettercap sqlmap hydra nikto "
    "gobuster ngrok cloudflared localtunnel "
    "smbclient rpcclient ldapsearch snmpwalk showmount iperf iperf3 speedtest speedtest-cli mail "
    "mailx sendmail mutt msmtp swaks "
    "exim exim4 postqueue irssi weechat telegram-send croc magic-wormhole wormhole ipfs "
    "transmission-cli qrcp bore chisel tailscale": program(
        "network*",
        "-w=write -z=program -e=shell -c=shell -oN=write -oX=write --script=exec -f=read -s= -p= -r=read "
        "-C=program -n= -W= -i= -t= -a=read -A=read",
        "network",
    ),
    "openssl": program(
        "text maybe*",
        "-in=read -out=write -inkey=read -key=read -keyout=write -CAfile=read -cert=read -engine=program "
        "-provider=program -provider-path=exec "
        "-config=exec -CAstore=remote -crl_download!network "
        "-connect= -host= -url= -noout -text -passin= -pass= -k= -K= -iv= -md= -days= -subj= "
        "-sign=read -verify=read -signature=read -rand=read "
        "-writerand=write -sess_out=write -port= -servername= -kfile=read -file=read",
        handler=_openssl,
        single=True,
    ),
    "gpg gpg2": program(
        "maybe*",
        "-o=write --output=write --verify --list-keys -k --list-public-keys --fingerprint --list-packets "
        "--list-sigs --export-secret-keys "
        "--export-secret-subkeys --export-ssh-key --recv-keys --send-keys --search-keys --refresh-keys "
        "--fetch-keys --photo-viewer=program --exec-path=program "
        "--agent-program=program --dirmngr-program=program --homedir=read --keyserver=",
        handler=_gpg,
    ),
    "age minisign signify cosign rage sops": program("unknown*", "-o=write -i=read", "unknown"),
    # clouds and code hosts
    "gh glab hub": program("maybe*", "-F=maybe -f=maybe", "network"),
    "aws gcloud gsutil az kubectl oc helm doctl heroku flyctl fly vercel netlify wrangler firebase "
    "terraform tofu terragrunt pulumi ansible "
    "ansible-playbook vagrant packer rclone s3cmd mc b2 restic borg eksctl minikube kind k3s k9s "
    "nomad consul serverless sls cdk sam railway "
    "supabase linode-cli hcloud oci ibmcloud salt puppet chef": program(
        "maybe*", "-f=maybe --from-file=maybe -o= --output=", "network"
    ),
    "psql mysql mariadb mongosh mongo redis-cli clickhouse-client cqlsh influx mysqldump pg_dump "
    "pg_dumpall pg_restore mongodump sqlcmd": program(
        "text*", "-o=write --output=write -f=read -h= -U= -d= -c=", "network"
    ),
}
