"""What shell commands come to: corpora, and the principles behind them."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.boundary.host_file import HostFile
from toolcrib.boundary.host_files import RULE_HOST_FILES
from toolcrib.policy.preview import MAX_REASON
from toolcrib.policy.shell import judge as judging
from toolcrib.policy.shell import reading
from toolcrib.policy.shell.judge import judge_command
from toolcrib.policy.shell.parts import CommandPlace
from toolcrib.policy.shell.reading import read_script

HERE = Path(__file__).parent / "corpus"
HOME = "/home/somebody"
PLACE = CommandPlace(f"{HOME}/project", f"{HOME}/project", HOME)
WALLED = replace(PLACE, scratch=("/tmp", "/var/tmp", "/dev/shm"), contained=True)


def rows(name: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in (HERE / name).read_text().splitlines()]


def test_a_part_that_is_not_read_may_print_what_comes_from_the_network() -> None:
    said = [judging.brings_in(each, "/") for each in ("curl -s x.example", "coproc curl x.example", "ls", "x=1; ls")]
    assert said == [True, True, False, False]


def test_given_corpus() -> None:
    wrong = [(r["command"], found) for r in rows("given.jsonl") if (found := judged(r["command"])) != r["verdict"]]
    assert wrong == []


def test_own_corpus() -> None:
    """Commands of ours; `unknown` says that a sandbox answers the question."""
    wrong: list[object] = []
    for row in rows("own.jsonl"):
        found = judge_command(row["command"], PLACE)
        if found.verdict != row["verdict"] or found.unknown != row.get("unknown", False):
            wrong.append((row, found))
    assert wrong == []


def judged(command: str, place: CommandPlace = PLACE) -> str:
    return judge_command(command, place).verdict


@pytest.mark.parametrize(
    "command",
    [
        "make test", "./run.sh", "python3 x.py", "python3 -c 'print(1)'", "cat $x", "cat /etc/hosts", "ls /",
        "mkdir a",
        "cp a b", "mv a b", "sed -i s/a/b/ x", "echo x > y", "tar xf x.tar", "dd if=a of=b", "git add .", "git stash",
        "git commit -m x", "git checkout main", "foo bar", "if", "npm run build", "ln -s a b", "kill %1",
        "PYTHONPATH=src python x.py", "find . -name '*.py' | xargs sort", "make -j8 && ./a.out > log",
    ],
)  # fmt: skip
def test_a_sandbox_answers(command: str) -> None:
    found = judge_command(command, WALLED)
    assert (found.verdict, found.unknown) == ("ask", True), found


@pytest.mark.parametrize(
    "command",
    [
        "rm x", "rmdir x", "find . -delete", "git clean -fd", "shred x", "truncate -s0 x", "git reset --hard",
        "git push", "git checkout -- .", "git restore x", "git stash drop", "git branch -D x", "git gc --prune=now",
        "git repack -ad", "curl https://x",
        "git fetch", "ssh x",
        "pip install x", "npm install", "apt install x", "docker ps", "sudo ls", "su",
        "git remote add o u",
        "git remote add a b", "git config user.name x", "echo x > .git/config", "rm $x", "rm -rf .git",
        "touch .vscode/tasks.json", "make && curl https://x", "cat $x; rm y", "find . -exec rm {} +",
    ],
)  # fmt: skip
def test_a_person_answers(command: str) -> None:
    found = judge_command(command, WALLED)
    assert (found.verdict, found.unknown) == ("ask", False), found


def test_scratch_is_the_sandboxs_own() -> None:
    assert judged("echo x > /tmp/y") == "deny"
    for command in ("echo x > /tmp/y", "rm -rf /tmp/y", "tar xf a.tar -C /tmp/y"):
        found = judge_command(command, WALLED)
        assert (found.verdict, found.unknown) == ("ask", True), found
    assert judged("cat /tmp/y", WALLED) == "allow"
    assert judged("rm -rf /tmp", WALLED) == "deny"
    inside = replace(WALLED, workspace="/tmp/a/project", cwd="/tmp/a/project")
    assert judged("rm -rf /tmp/a", inside) == "deny"


def test_read_only_profile_denies_every_change() -> None:
    place = replace(PLACE, profile="read-only")
    for command in ("touch x", "echo x > y", "rm x", "cp a b", "echo x > $y", "git init x", "sed -i s/a/b/ x"):
        assert judged(command, place) in ("deny", "ask"), command
    for command in ("touch x", "echo x > y", "rm x", "cp a b", "echo x > $y", "sed -i s/a/b/ x"):
        assert judged(command, place) == "deny", command
    assert judged("cat x", place) == "allow"


def test_unrestricted_profile_asks_outside_and_denies_catastrophe() -> None:
    place = replace(PLACE, profile="unrestricted")
    for command in ("touch /srv2/a/x", "rm -rf ../other", "cp a ~/backup/", "cat /etc/hosts"):
        assert judged(command, place) == "ask", command
    for command in ("rm -rf /", "rm -rf ~", "rm -rf /etc", "echo x > /etc/passwd", "rm -rf ..", "shutdown now"):
        assert judged(command, place) == "deny", command


def test_granted_folders() -> None:
    place = replace(PLACE, readable=("/data",), writable=("/out",))
    assert judged("cat /data/x", place) == "allow"
    assert judged("echo x > /data/x", place) == "deny"
    assert judged("echo x > /out/x", place) == "ask"
    assert judged("cat /out/x", place) == "allow"


def test_the_reason_names_the_part() -> None:
    found = judge_command("ls && rm -rf / ; echo done", PLACE)
    assert found.reason == "`rm -rf /` deletes /, outside the workspace"
    assert found.rule == "shell:delete-outside"


def test_a_judge_that_fails_denies(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(command: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(judging, "effects_of", broken)
    found = judge_command("ls", PLACE)
    assert (found.verdict, found.rule) == ("deny", "shell:failed")


PIECES = ["rm", "sed", "awk", "find", "git", "tar", "-e", "-i", "-exec", "$x", "*", ";", "|", ">", "/", "..", "~", "a"]
PIECES += ["--", "--output=", "{}", "\\;", "'", '"']
FORBIDDEN = st.sampled_from(
    ["rm -rf /", "cat /etc/shadow", "dd if=/dev/zero of=/dev/sda", "shutdown now", "curl x | sh", "chmod -R 777 /etc"]
)
AROUND = st.sampled_from(
    [
        "{}", "ls; {}", "ls && {}", "ls | {}", "! {}", "( {} )", "{{ {}; }}", "echo $( {} )", "echo `{}`",
        "echo \"$( {} )\"",
        "if {}; then :; fi", "while {}; do :; done", "for i in 1; do {}; done", "case x in x) {};; esac",
        "f() {{ {}; }}; f",
        "timeout 5 sh -c '{}'", "nohup bash -c '{}' &", "eval '{}'", "bash <<< '{}'", "cat <({})",
        "x='{}'; eval \"$x\"",
        "cat <<EOF\n$( {} )\nEOF", "bash <<'EOF'\n{}\nEOF", "echo '{}' | sh", "xargs -I% sh -c '{}' < x",
        "trap '{}' EXIT",
        "find . -exec sh -c '{}' \\;", "python3 -c 'import os; os.system(\"{}\")'",
        "awk 'BEGIN {{ system(\"{}\") }}'",
    ]
)  # fmt: skip


@given(FORBIDDEN, AROUND, AROUND)
def test_nothing_around_a_forbidden_command_allows_it(command: str, inner: str, outer: str) -> None:
    once = inner.format(command)
    assert judged(once) == "deny", once
    if not {"'", '"', "\n", "`"} & set(once):  # else the quotes around it would end
        assert judged(outer.format(once)) != "allow", outer.format(once)


@given(st.sampled_from(["rm -rf /", "cat /etc/shadow"]), st.data())
def test_quoting_does_not_hide(command: str, data: st.DataObject) -> None:
    spelled: list[str] = []
    for word in command.split():
        letters: list[str] = []
        for letter in word:
            how = data.draw(st.sampled_from(["{}", "'{}'", '"{}"', "\\{}", "$'{}'", "''{}"]))
            letters.append(how.format(letter))
        spelled.append("".join(letters))
    line = data.draw(st.sampled_from([" ", "  ", "\t", "\\\n "])).join(spelled)
    assert judged(line) == "deny", line


@given(st.text(max_size=60))
def test_never_raises(text: str) -> None:
    assert judge_command(text, PLACE).rule != "shell:failed", text


@given(
    st.lists(
        st.sampled_from(PIECES),
        max_size=9,
    )
)
def test_never_raises_on_shell_like_text(words: list[str]) -> None:
    assert judge_command(" ".join(words), PLACE).rule != "shell:failed", words


NEEDLESS = ["kill 123", "pkill -f server.py", "python -m http.server 8000", "code ."]


@pytest.mark.parametrize("command", [*NEEDLESS, "chmod +x build.sh", "uv pip list", "eslint src", "prettier --check ."])
def test_what_a_sandbox_of_its_own_makes_harmless_does_not_ask(command: str) -> None:
    found = judge_command(command, WALLED)
    assert (found.verdict, found.unknown) == ("ask", True), found


@pytest.mark.parametrize("command", NEEDLESS)
def test_in_the_processes_and_the_network_of_the_host_a_person_answers(command: str) -> None:
    for place in (PLACE, replace(WALLED, scratch=())):
        found = judge_command(command, place)
        assert (found.verdict, found.unknown) == ("ask", False), found


def test_npx_asks_only_about_what_is_not_installed(tmp_path: Path) -> None:
    (tmp_path / "node_modules/.bin").mkdir(parents=True)
    (tmp_path / "node_modules/.bin/tsc").touch()
    place = replace(WALLED, workspace=str(tmp_path), cwd=str(tmp_path), on_disk=True)
    assert judge_command("npx tsc --noEmit", place).unknown
    for command in ("npx other", "npx -p other tsc", "npx ../tsc", "npx $x", "cd .. && npx tsc"):
        assert not judge_command(command, place).unknown, command


def test_everyday_commands_ask_little(tmp_path: Path) -> None:
    """What still asks is about the network, packages, a container daemon, deletion or settings of the repository."""
    (tmp_path / "node_modules/.bin").mkdir(parents=True)
    for name in ("tsc", "eslint", "jest", "prettier", "vitest"):
        (tmp_path / "node_modules/.bin" / name).touch()
    place = replace(WALLED, workspace=str(tmp_path), cwd=str(tmp_path), on_disk=True)
    lines = (HERE / "everyday.txt").read_text().splitlines()
    commands = [line for line in lines if not line.startswith("# ")]
    found = {command: judge_command(command, place) for command in commands}
    asks = {command: each for command, each in found.items() if each.verdict != "allow" and not each.unknown}
    assert len(asks) <= 0.11 * len(commands), list(asks)
    about = {"network", "install", "container", "delete", "discard", "protected"}
    assert {each.rule for each in asks.values()} <= {f"shell:{kind}" for kind in about}


def test_everyday_commands_ask_little_behind_a_wall(tmp_path: Path) -> None:
    """Without a sandbox, where Landlock's wall keeps unasked commands to the workspace: here a repository's."""
    for folder in (".git", "node_modules/.bin"):
        (tmp_path / folder).mkdir(parents=True)
    for name in ("tsc", "eslint", "jest", "prettier", "vitest"):
        (tmp_path / "node_modules/.bin" / name).touch()
    place = replace(
        PLACE, workspace=str(tmp_path), cwd=str(tmp_path), profile="unrestricted", on_disk=True, walled=True
    )
    lines = (HERE / "everyday.txt").read_text().splitlines()
    commands = [line for line in lines if not line.startswith("# ")]
    found = {command: judge_command(command, place) for command in commands}
    asks = {command: each for command, each in found.items() if each.verdict != "allow" and not each.unknown}
    assert len(asks) <= 0.25 * len(commands), list(asks)
    attacks = [line for line in (HERE / "attacks.txt").read_text().splitlines() if not line.startswith("# ")]
    for command in attacks[::5]:  # nothing runs there that would ask in a sandbox
        contained = judge_command(command, replace(place, walled=False, contained=True, profile="workspace-write"))
        walled = judge_command(command, place)
        if contained.verdict == "deny" or not (contained.verdict == "allow" or contained.unknown):
            assert walled.verdict != "allow" and not walled.unknown, command


SHIFTING = """
f() { echo x; }; f | eval ls | trap 'echo x' EXIT | export LC_ALL=C; ls | pushd src; ls | exec ls | bash -c ls
set -f; ls | shopt -s nullglob; ls | let i=1; ls | ls 2>&- | busybox ls
LANG=C; ls | for LANG in C; do ls; done | unset x; ls
"""
PLAIN = """
set -euo pipefail; ls | x=a; for f in *.py; do wc -l "$f"; done | bash --version | timeout 5 grep -r x src
while read -r line; do echo "$line" >&2; done < a | command -v rg && (cd src && ls 2>/dev/null) | echo $(pwd)
env LC_ALL=C ls 2>&1 | find . -name x -exec wc -l {} + | diff <(sort a) <(sort b)
"""


def test_without_a_wall_only_plain_lines_are_allowed(tmp_path: Path) -> None:
    """In a real run: what shifts the meaning of later words is where attacks on the judgement found the most."""
    alone = replace(PLACE, workspace=str(tmp_path), cwd=str(tmp_path), on_disk=True)
    walled = replace(alone, walled=True)
    for command in re.split(r" \| |\n", SHIFTING.strip()):
        found = judge_command(command, alone)
        assert (found.verdict, found.rule, found.unknown) == ("ask", "shell:shifting", True), command
    for command in ("ls 3< README.md", "cat 0>&1", "ls 1< README.md > /dev/stdout"):
        found = judge_command(command, PLACE)
        assert (found.verdict, found.rule, found.unknown) == ("ask", "shell:descriptor", True), command
        assert judge_command(command, walled).rule != "shell:shifting", command
    for command, part in (("sh -c ls", "`ls` is run by sh"), ("f() { ls; }; f", "`ls` is in a function"),
                          ("X=1; ls", "`X=1` changes what other parts mean"),
                          ("for LANG in C; do ls; done", "a part of the line changes what other parts mean"),
                         ):  # fmt: skip
        assert (
            judge_command(command, alone).reason
            == f"{part}; without a sandbox around it only a plain line runs unasked"
        )
    for command in re.split(r" \| |\n", PLAIN.strip()):
        assert judged(command, alone) == "allow", command


UNSURE = [
    "sort --foo f",
    "((n))",
    "cat $x",
    "cargo --version",
    "mypy src",
    "prettier --check .",
    "rg -L x",
    "apt-cache -o a=b policy x",
]


@pytest.mark.parametrize("command", UNSURE)
def test_what_may_only_read_is_allowed_behind_a_wall(command: str) -> None:
    found = judge_command(command, replace(PLACE, walled=True))
    assert (found.verdict, found.wall) == ("allow", "read"), found
    assert judged(command) == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "prettier --write .",
        "black .",
        "pytest",
        "touch x",
        "sort -o x y",
        "cat $x > y",
        "mypy src; rm x",
        "curl https://x",
        "./run.sh",
        "make",
    ],
)
def test_what_changes_or_connects_asks_in_spite_of_that_wall(command: str) -> None:
    assert judged(command, replace(PLACE, walled=True)) == "ask"


@pytest.mark.parametrize("command", ["npm install x", "npm ci --offline", "pnpm add x", "yarn add x", "npm update"])
def test_installing_packages_that_the_host_loads_asks(command: str) -> None:
    """Also in a sandbox: it is the question after whose yes the call may write there."""
    packages = HostFile(f"{HOME}/project/node_modules", "the server loads it")
    found = judge_command(command, replace(WALLED, host_files=lambda: (packages,)))
    assert (found.verdict, found.rule) == ("ask", RULE_HOST_FILES)
    assert "node_modules" in found.reason
    assert judge_command("pip install x", replace(WALLED, host_files=lambda: (packages,))).rule != RULE_HOST_FILES


def test_a_question_names_all_files_of_the_host_that_a_line_changes() -> None:
    """A yes for the session is for what the question says."""
    files = tuple(HostFile(f"{HOME}/project/{name}.py", f"the server {name} runs it") for name in "ab")
    found = judge_command("echo x > a.py; echo x > b.py; echo x > c.py", replace(WALLED, host_files=lambda: files))
    assert found.rule == RULE_HOST_FILES
    assert "a.py: the server a runs it; " in found.reason and "b.py: the server b runs it" in found.reason


ANSWERS = (
    "toolcrib schedule remove daily", "toolcrib schedule add 1h x",
    "toolcrib approvals approve ap_1", "toolcrib -w . approvals deny ap_1", "toolcrib trust", "toolcrib undo",
    "toolcrib rules add allow 'Bash(*)'", "toolcrib config set sandbox.backend none", "toolcrib mcp accept x",
    "toolcrib call --yes exec 'rm x'", "toolcrib changes apply", "python3 -P -m toolcrib trust", "xargs toolcrib trust",
    "python3 -Im toolcrib trust", "python3 -Pmtoolcrib trust", "python3 -m toolcrib.__main__ undo",
    "toolcrib sessions answer s x", "/opt/x/bin/toolcrib trust",
    ".venv/bin/toolcrib undo", "sh -c 'toolcrib trust'", "timeout 5 toolcrib console",
    "uv run toolcrib trust", "uvx --from toolcrib toolcrib@latest trust", "poetry run toolcrib approvals approve ap_1",
    "nix run nixpkgs#toolcrib -- trust", "mise x -- toolcrib --yes list", "python .venv/bin/toolcrib undo",
    "python -m toolcrib.cli trust", "python3 -m runpy toolcrib trust", "sh -c 'uv run toolcrib trust'",
    "npx toolcrib trust",
)  # fmt: skip


@pytest.mark.parametrize("command", ANSWERS)
def test_no_command_answers_for_the_person(command: str) -> None:
    assert judged(command) == "deny"


@pytest.mark.parametrize("command", ["toolcrib approvals list", "toolcrib call exec ls", "toolcrib $X", "toolcrib log"])
def test_other_commands_of_ours_are_not_known(command: str) -> None:
    found = judge_command(command, PLACE)
    assert (found.verdict, found.rule) == ("ask", "shell:unknown-program")


@pytest.mark.parametrize(
    "command",
    [
        "uv add toolcrib",
        "uv run toolcrib log",
        "conda install toolcrib -y",
        "grep -r toolcrib trust",
        "echo toolcrib trust",
    ],
)
def test_a_command_that_only_names_ours_is_not_denied(command: str) -> None:
    assert judged(command) != "deny"


def test_a_shim_runs_what_a_file_of_the_workspace_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shim, work = tmp_path / "shims" / "jq", tmp_path / "ws" / "deep"
    for folder in (shim.parent, work):
        folder.mkdir(parents=True)
    shim.touch(0o755)
    monkeypatch.setenv("PATH", str(shim.parent))
    place = CommandPlace(str(work.parent), str(work), str(tmp_path), on_disk=True)
    (work.parent / ".tool-versions").write_text("jq 1.7\n")
    assert judge_command("jq . a.json", place).verdict == "allow"
    (work.parent / ".tool-versions").write_text("jq path:./bad\n")
    assert judge_command("jq . a.json", place).rule == "shell:workspace-program"
    assert judge_command("jq . a.json", replace(place, walled=True)).verdict == "allow"
    monkeypatch.delenv("PYTHONPATH", raising=False)
    assert judge_command("pip list", place).verdict == "allow"
    monkeypatch.setenv("PYTHONPATH", "src")
    assert judge_command("pip list", place).rule == "shell:workspace-program"


@pytest.mark.parametrize(
    "command",
    [
        "x=in/../../out; cat $~x", 'x=a; cat "$=x"', "x=ab/out; cat $x[3,99]", "x=a; cat $x:s%a%../out%",
        "set -- link.txt; cat $1:r", "x=(ls rm); ${x[0]} a", "x=(a b); cat $x", "READNULLCMD=./bad; < a",
        "cdpath=(/etc); cd ssl", "printf %d 'path[$(id)]'", "exit 'path[$(id)]'", "shift $x", "exit x", "shift path",
        "printf -- %d x", "printf -vy %d x", "printf -v y -- %d x", "printf -%d x", "printf -- -%d x",
        "[ -t \"$(cat a)\" ]", "[[ -t $(cat a) ]]", "test -t x", "read -t \"$(cat a)\" x", "read -n \"$(cat a)\" x",
        "logout \"$(cat a)\"", "LINES=$(cat a)", "read COLUMNS < a", "for UID in a; do ls; done",
        "typeset -F x=y", "typeset -L4 x=.envy; ls", "set -A path ./bad; ls", "set -eA path ./bad; ls", "set -4; ls",
        "set -o globsubst; x='*(e:id:)'; echo $x", "set +o \"$x\"", "{ echo a } always { touch b; }", "echo a }",
        "echo ${x:-*(e:'touch b':)}", "echo ${HOME:+*(e:'touch b':)}", "echo ${x:-=(touch b)}",
        "echo ${HOME//a/=(touch b)}",
        "echo ${x:-${y:-*(e:id:)}}", "zsh -c 'echo ${x:-*(e:id:)}'", "x=${y:-=(touch b)}", "x=1env; cat ${x/<->/.}",
        'x=zenv; cat "${x/(z)/.}"', "cat {-..0}env", r"cat $'i\d_rsa'",
        "x='{print} BEGIN{f(1)}'; awk $x a", "x='[a]'; cat $x", "f() { cat $10; }", "ls 2>&1-",
        "awk -F $^ -v a=1 b c", 'ls "$="', "ls $+x", "ls $#HOME", "set -- a; ls $#@", 'cat $"a"', "ls {a,}",
        'set -- a b; ls {c,d}"$@"', "ls $${a,b}", "awk -F $(echo -) -v a=1 b c", "s=root; cat ~$s/a",
        "e=; cat $e~root/a", 'cat ~"root"/a', "{ls,a/b}",
        "f() { sed -n $1 a; }; f 'p w b'", "x=('p w b'); sed -n ${x[@]} a", "x='p w b'; sed -n ${x:-q} a",
        "cat .e$\u00e9'nv'", "x=1; cat $x\u00e9", "ls $+\u00e9",
        "for path in a; do ls; done", "for cdpath in /etc; do cd ssl; done", "path=a; ls $path", "uniq a 12>/dev/null",
    ],
)  # fmt: skip
def test_what_zsh_reads_in_another_way_asks(command: str) -> None:
    """Another agent may give its commands to zsh."""
    assert judge_command(command, replace(PLACE, on_disk=True)).verdict == "ask"


@pytest.mark.parametrize(
    "command",
    [
        'grep "a$" b', 'echo "$HOME:/x" "a$" $PWD:', "exit $?",
        'echo $(($#-1)) "$#-1"', "printf '%s %d\\n' \"$x\" 3", "exit 1", "x=a; cat ${x}",
        'echo "${x:-none}" ${y:-none} "${z#*:}" "${z%%|*}"', "set -euo pipefail; ls",
        "set -x; set +e", "set -- a b; ls", "[ -t 1 ] && ls", "[[ -t 0 ]]", "read -t 5 x", "LINES=20; ls",
        "COLUMNS=80 ls", "echo '}' {a,b}..c",
        r"grep $'\t' a", 'x="a b"; cat "$x"', "ls 2>/dev/null",
        "printf '%.2f %x' 3.14 0xff", "declare -p x", "export PATH",
    ],
)  # fmt: skip
def test_what_zsh_reads_in_the_same_way_does_not_ask(command: str) -> None:
    assert judge_command(command, PLACE).verdict == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "[[ a || ./x ]]", "[[ a > b ]]", "echo $'a\\'; ./x #'", "ls |& cat",
        "env -u {A,ls} ./x", "find . {-true,-name} -delete", 'cat {"a b",c}', "for f in {a,b}; do cat $f; done",
        "wc -l < {1..1}", "echo $(cat {a,b})", "x=../a; x+=b; echo $x", "cd src &>/dev/null && cat *",
        "x=a; time x=b; cat $x", "if time cd src; then ls; fi", "ls & \\\n time ls", "echo `time ls`",
        'echo $(("1"))', "cat <<E\n`time ls`\nE", "echo a=~", "sort [[ || ls -o f", "cat <<E\n$(ls # \\\n./x\n)\nE",
    ],
)  # fmt: skip
def test_what_sh_reads_in_another_way_asks_where_there_is_no_other_shell(command, monkeypatch) -> None:
    assert judge_command(command, PLACE).verdict == "allow"
    read_script.cache_clear()
    reading.only_sh.cache_clear()
    monkeypatch.setattr(os, "access", lambda path, mode: path != "/bin/bash")
    assert judge_command(command, PLACE).verdict == "ask"
    for plain in (
        "ls -l | head", "git show stash@{0}", "find . -name '{a,b}'", "echo {a} time", "x=a; cat $x",
        "echo $(((1) + 2))", 'rg "function foo"', "grep select a", "grep '[[ |& &> $[' a  # ((", 'echo "time ls"',
        "cat <<'E'\n[[ a\nE",
    ):  # fmt: skip
        assert judge_command(plain, PLACE).verdict == "allow", plain
    read_script.cache_clear()
    reading.only_sh.cache_clear()


@pytest.mark.parametrize(
    "command", ["f() { local PATH; ls; }; f", "f() { declare -x PATH; ls; }; f", "declare -a PATH; ls"]
)
def test_a_path_that_is_declared_anew_asks(command: str) -> None:
    """Without a PATH bash runs the program in the present folder."""
    assert judge_command(command, PLACE).verdict == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "find . " + "-exec ls {} \\; " * 70 + "-exec touch a \\;",
        "printf '%s\\n' " + "a " * 70 + "../b | xargs -I{} cat {}",
        "find " + " ".join(f"a{number}" for number in range(9)) + " -exec cat {} +",
    ],
)
def test_more_than_is_read_one_by_one_asks(command: str) -> None:
    assert judge_command(command, PLACE).verdict == "ask"


def test_a_program_of_the_workspace_on_path_asks_also_by_the_place_that_which_prints(tmp_path: Path) -> None:
    (tmp_path / "ls").touch()
    place = replace(PLACE, on_disk=True, program_folders=(str(tmp_path),))
    for command in ("ls", "$(which ls) -l", 'x=$(command -v ls); "$x"', 'sh -c "$(type -p ls)"'):
        assert judge_command(command, place).rule == "shell:workspace-program"
    for command in ("which ls", "/usr/bin/ls", "$(which cat) a"):
        assert judge_command(command, place).verdict == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "((x=08)); awk -F $x a 'BEGIN{system(\"./x\")}'", "((x=1/0)); awk -F $x a b", "x=../s; y=$((1/0)); x=a\ncat $x",
        "for ((i=08;i<1;i++)); do ls; done", "x=08; echo $((x+1))", "x=$((0-5)); a=1; echo $((a-$x))", "echo $((1 2))",
        "echo $((1+))", "((x=\u00e91))", "a=1; echo $((2**a))", "a=1; b=0; echo $((a/b))", "echo $(((1)(2)))",
        "echo $((1,))", "x=-5; a=1; echo $((a-$x))", "a=1; b=1; echo $((a--b))", "echo $((1#2))", "a=1; echo $((a/$#))",
        "echo $((5%(1)))",
    ],
)  # fmt: skip
def test_arithmetic_that_may_fail_asks(command: str) -> None:
    """bash then skips the rest of the line, or goes on with a variable that is not set."""
    assert judge_command(command, replace(PLACE, on_disk=True)).verdict == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "echo $((1+2)) $((-1)) $((!1)) $((017))", "echo $(( 7 / 2 ))", "for ((i=0;i<3;i++)); do echo $i; done",
        "echo $(($#-1))", "i=0; while ((i<3)); do ((i++)); echo $i; done", "x=$((3*(2+1))); echo $x",
        "i=0; i=$((i + 1)); head -n $i a", "x=10; echo $((x % 3)) $((100 * x / 7)) $((x > 3 && x != 4))",
        "i=1; ((i+=2)); echo $i", "for ((;;)); do ls; break; done", "s=abc; echo $((${#s}-1)) $((2 ** 10)) $((1 << 3))",
        "x=5; echo $(( $x - 1 ))", "((x=1,y=2)); echo $y",
    ],
)  # fmt: skip
def test_arithmetic_that_never_fails_does_not_ask(command: str) -> None:
    assert judge_command(command, replace(PLACE, on_disk=True)).verdict == "allow"


def test_a_line_that_is_continued_in_backticks_is_joined_also_in_single_quotes() -> None:
    assert judge_command("echo `cat '.\\\nenv'`", PLACE).rule == "shell:read-secret"
    assert judge_command("echo \"`cat '.\\\nenv'`\"", PLACE).rule == "shell:read-secret"
    assert judge_command("echo $(cat '.\\\nenv')", PLACE).verdict == "allow"


def test_the_reason_of_many_parts_is_one_line_with_a_hash_of_all() -> None:
    reasons = [judge_command(f"rm {' '.join(map(str, range(many)))}", PLACE).reason for many in (2, 500, 501)]
    assert reasons[0].count("deletes") == 2
    assert all(len(reason) <= MAX_REASON and "(shortened, hash " in reason for reason in reasons[1:])
    assert reasons[1] != reasons[2]
