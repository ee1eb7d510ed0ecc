"""List calls by which code in other languages deletes, writes, runs commands or opens connections: data."""

from __future__ import annotations

import re

# The effects of Python's own modules, by dotted name; the first argument is the path or command.
PYTHON_CALLS: dict[str, str] = {
    name: role
    for names, role in {
        "os.system os.popen subprocess.run subprocess.call subprocess.check_call subprocess.check_output "
        "subprocess.Popen "
        "subprocess.getoutput subprocess.getstatusoutput commands.getoutput "
        "asyncio.create_subprocess_shell platform.popen": "shell",
        "pty.spawn": "spawn-shell",
        "os.execl os.execle os.execlp os.execv os.execve os.execvp os.execvpe os.posix_spawn os.spawnl "
        "os.spawnv os.spawnlp os.spawnvp": "exec",
        "os.remove os.unlink os.rmdir os.removedirs shutil.rmtree os.truncate": "delete",
        "os.mkdir os.makedirs os.mknod os.mkfifo": "create",
        "os.rename os.renames os.replace shutil.move": "both",
        "shutil.copy shutil.copy2 shutil.copyfile shutil.copytree": "copy",
        "os.chmod os.chown os.lchown shutil.chown": "modify",
        "os.link os.symlink": "link",
        "os.listdir os.scandir os.walk glob.glob os.stat": "list",
        "os.kill os.killpg": "kill",
        "os.setuid os.setgid os.seteuid os.setreuid os.setresuid": "setuid",
    }.items()
    for name in names.split()
}

# Methods of pathlib's paths.
PATH_METHODS = {
    "unlink": "delete",
    "rmdir": "delete",
    "write_text": "write",
    "write_bytes": "write",
    "read_text": "read",
    "read_bytes": "read",
    "touch": "create",
    "mkdir": "create",
    "rename": "move",
    "replace": "move",
    "chmod": "modify",
}

FETCH = re.compile(
    r"urlopen|requests\.get|urllib|https?://|fetch\s*\(|Net::HTTP|LWP|file_get_contents\s*\(\s*['\"]http|socket",
    re.IGNORECASE,
)
HIDES = re.compile(
    r"b64decode|b32decode|b16decode|fromhex|unhexlify|decompress|marshal|rot.?13|a85decode|b85decode|bytes\(\s*\[|chr\(|fromCharCode|atob|"
    r"base64|unpack\b|\[::-1\]|reverse|gzinflate|str_rot13|codecs\.decode|hex2bin|Buffer\.from|MIME::Base64|Base64\.decode",
)
REVERSE = re.compile(
    r"IO::Socket|Socket\b.*connect|TCPSocket|fsockopen|net\.(?:connect|Socket|createConnection)|socket\.tcp|sockaddr_in|/inet/",
    re.DOTALL,
)

_S = r"\s*\(?\s*(?:['\"]([^'\"\n]*)['\"]|`([^`\n]*)`)"


def _compiled(*rows: tuple[str, str]) -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple((re.compile(pattern, re.DOTALL if "(?s" in pattern else 0), role) for pattern, role in rows)


# (a pattern whose last group is the path or command, a role or kind)
PATTERNS: dict[str, tuple[tuple[re.Pattern[str], str], ...]] = {
    "node": _compiled(
        (
            r"\b(?:rm|rmSync|rmdir|rmdirSync|unlink|unlinkSync|truncate|truncateSync|remove|removeSync|emptyDirSync|rimraf(?:\.sync)?)\s*\(\s*(?:['\"]([^'\"\n]*)['\"]|`([^`\n]*)`)",
            "delete",
        ),
        (
            r"\b(?:writeFile|writeFileSync|appendFile|appendFileSync|createWriteStream|copyFileSync|openSync)\s*\(\s*(?:['\"]([^'\"\n]*)['\"]|`([^`\n]*)`)",
            "write",
        ),
        (
            r"\b(?:readFile|readFileSync|createReadStream|readlinkSync)\s*\(\s*(?:['\"]([^'\"\n]*)['\"]|`([^`\n]*)`)",
            "read",
        ),
        (r"\b(?:chmod|chmodSync|chown|chownSync)\s*\(\s*['\"]([^'\"\n]*)['\"]", "modify"),
        (
            r"\b(?:exec|execSync|spawn|spawnSync|execFile|execFileSync|fork)\s*\(\s*(?:['\"]([^'\"\n]*)['\"]|`([^`\n]*)`)",
            "shell",
        ),
        (
            r"\b(?:spawn|spawnSync|execFile|execFileSync)\s*\(\s*['\"](?:/usr)?(?:/bin/)?(?:ba|da|z)?sh['\"]",
            "spawn-shell",
        ),
        (r"\bprocess\.kill\s*\(\s*-?[01]\b", "kill-all"),
        (r"\b(?:https?|net|dgram|dns)['\"]\)|\bfetch\s*\(", "network"),
    ),
    "perl": _compiled(
        (r"\bsystem" + _S, "shell"),
        (r"\bexec" + _S, "shell"),
        (r"`([^`\n]+)`", "shell"),
        (r"\bqx\s*[{(/\[|!]([^})/\]|!]*)", "shell"),
        (r"\bunlink" + _S, "delete"),
        (r"\b(?:rmdir|rmtree|remove_tree)" + _S, "delete"),
        (r"\bunlink\s+(?:glob|<)\s*\(?['\"]?([^'\">)]*)", "delete"),
        (r"\bopen\s*\(?[^,]+,\s*['\"]\s*(?:\+?>>?|\+<)\s*['\"]\s*,\s*['\"]([^'\"]*)", "write"),
        (r"\bopen\s*\(?[^,]+,\s*['\"]\s*\+?>>?\s*([^'\"]+)", "write"),
        (r"\bopen\s*\(?[^,]+,\s*['\"]\s*\|\s*([^'\"]+)", "shell"),
        (r"\bopen\s*\(?[^,]+,\s*['\"]\s*([^'\"|]+)\|\s*['\"]", "shell"),
        (r"\bopen\s*\(?[^,]+,\s*['\"]\s*<?\s*['\"]?\s*,?\s*['\"]?([^'\"<>|,]+)", "read"),
        (r"\bchmod\s*\(?\s*\d+\s*,\s*['\"]([^'\"]*)", "modify"),
        (r"\bkill\s*\(?\s*['\"]?-?\w+['\"]?\s*,\s*-?[01]\b", "kill-all"),
        (r"\b(?:setuid|POSIX::setuid|\$<\s*=|\$>\s*=)", "setuid"),
    ),
    "ruby": _compiled(
        (r"\b(?:system|exec|spawn|IO\.popen|Open3\.\w+)" + _S, "shell"),
        (r"`([^`\n]+)`", "shell"),
        (r"%x\s*[{(\[|]([^})\]|]*)", "shell"),
        (r"\b(?:FileUtils\.)?(?:rm_rf|rm_r|rm_f|rm|rmtree|remove_dir|remove_entry\w*)" + _S, "delete"),
        (r"\b(?:File|Dir)\.(?:delete|unlink|rmdir|truncate)" + _S, "delete"),
        (r"\b(?:File|IO)\.(?:write|binwrite)" + _S, "write"),
        (r"\bFile\.open\s*\(?\s*['\"]([^'\"]*)['\"]\s*,\s*['\"][wa]", "write"),
        (r"\b(?:File|IO)\.(?:read|binread|readlines|foreach|open)" + _S, "read"),
        (r"\bFile\.chmod\s*\(?\s*\w+\s*,\s*['\"]([^'\"]*)", "modify"),
        (r"\bProcess\.kill\s*\(?[^,]+,\s*-?[01]\b", "kill-all"),
        (r"\brequire\s*['\"](?:socket|net/\w+|open-uri)|URI\.open", "network"),
    ),
    "php": _compiled(
        (r"\b(?:system|exec|shell_exec|passthru|popen|proc_open|pcntl_exec)" + _S, "shell"),
        (r"`([^`\n]+)`", "shell"),
        (r"\b(?:unlink|rmdir)" + _S, "delete"),
        (r"\b(?:file_put_contents|touch|mkdir)" + _S, "write"),
        (r"\bfopen\s*\(\s*['\"]([^'\"]*)['\"]\s*,\s*['\"][waxc]", "write"),
        (r"\b(?:file_get_contents|readfile|file|fopen|include|require)" + _S, "read"),
        (r"\bchmod" + _S, "modify"),
        (r"\b(?:curl_init|fsockopen|stream_socket_client)\b", "network"),
    ),
    "lua": _compiled(
        (r"\bos\.execute" + _S, "shell"),
        (r"\bio\.popen" + _S, "shell"),
        (r"\bos\.remove" + _S, "delete"),
        (r"\bos\.rename" + _S, "move"),
        (r"\bio\.open\s*\(?\s*['\"]([^'\"]*)['\"]\s*,\s*['\"][wa]", "write"),
        (r"\bio\.(?:open|lines)" + _S, "read"),
    ),
    "python": _compiled(
        (r"\b(?:os\.system|os\.popen|subprocess\.\w+)" + _S, "shell"),
        (r"\b(?:rmtree|remove|unlink|rmdir)" + _S, "delete"),
        (r"\bpty\.spawn\b", "spawn-shell"),
    ),
    "awk": _compiled(
        (r"\bsystem\s*\(\s*\"((?:[^\"\\]|\\.)*)\"", "shell"),
        (r"\"((?:[^\"\\]|\\.)+)\"\s*\|\s*getline", "shell"),
        (r"\|&?\s*\"((?:[^\"\\]|\\.)+)\"", "shell"),
        (r"\bprintf?\b[^;}\n>]*>>?\s*\"((?:[^\"\\]|\\.)+)\"", "write"),
        (r"\bgetline\s*(?:[A-Za-z_]\w*\s*)?<\s*\"((?:[^\"\\]|\\.)+)\"", "read"),
        (r"/inet\d?/(?:tcp|udp)/", "reverse-shell"),
        (r"@(?:load|include)\b", "execute"),
        (r"\bENVIRON\b", "unknown"),
    ),
}
