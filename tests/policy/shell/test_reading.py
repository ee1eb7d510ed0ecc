"""What a command line may run, found and spelled out."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib.policy.shell.parts import Command, Script
from toolcrib.policy.shell.reading import MAX_LENGTH, read_script

from .oracle import matches

CWD, HOME = "/ws", "/home/u"


def read(text: str) -> Script:
    return read_script(text, CWD, HOME)


def argv(command: Command) -> list[str | None]:
    """A command's words, None for one that is not known."""
    return [word.text for word in command.words]


def run(text: str) -> list[list[str | None]]:
    """The words of every command of a text that reads without a problem."""
    script = read(text)
    assert {problem.rule for problem in script.problems} <= {"shell:other-shell"}
    return [argv(command) for command in script.commands if command.words]


def last(text: str) -> list[str | None]:
    return run(text)[-1]


RM = ["rm", "-rf", "/"]


@pytest.mark.parametrize(
    "text",
    [
        "rm -rf /",
        "r''m -rf /",
        'r"m" -r\\f "/"',
        "\\rm -rf /",
        "$'rm' $'-\\x72f' $'\\57'",
        "$'\\162\\155' -rf $'\\u002f'",
        '$"rm" -rf /',
        "rm${IFS}-rf$IFS/",
        "rm$IFS-rf$IFS/",
        "{rm,-rf,/}",
        "X=rm; $X -rf /",
        "X='rm -rf /'; $X",
        "X='rm -rf /'; eval $X",
        "X=r Y=m; $X$Y -rf /",
        "X=rm; ${X:=b} -rf /; ${X=b} -rf /",
        'X=rm; ${X} -rf "${Y:-/}"; Y=/; ${X:-ls} -rf ${Y}',
        'set -- rm -rf /; "$@"',
        "set -- / rm; $2 -rf $1",
        "$(echo rm) -rf /",
        "`echo rm` -rf /",
        "$(printf %s rm) -rf /",
        "for x in /; do rm -rf $x; done",
        "f() { rm -rf $1; }; f /",
        "function f { rm -rf /; }; f",
        "export X=/; rm -rf $X",
        "sh -c 'rm -rf /'",
        "bash -xec 'rm -rf \"$0\"' /",
        "bash -c -e 'rm -rf $1' _ /",
        "X=/ bash -c 'rm -rf $X'",
        "echo 'rm -rf /' | sh",
        "bash <<< 'rm -rf /'",
        "bash <<'E'\nrm -rf /\nE",
        "cat <<E | sh -s\nrm -rf /\nE",
        "bash <(echo rm -rf /)",
        "source /dev/stdin <<< 'rm -rf /'",
        ". <(printf 'rm -rf /')",
        "eval 'eval \"rm -rf /\"'",
        "env -S 'rm -rf /'",
        "env -i X=1 rm -rf /",
        "env - A=b rm -rf /",
        "sudo -u root -- rm -rf /",
        "sudo -s rm -rf /",
        "su root -c 'rm -rf /'",
        "su -c 'rm -rf /' root",
        "timeout -k 5 -s KILL 10 rm -rf /",
        "nice -n 5 ionice -c3 nohup rm -rf /",
        "nice -5 rm -rf /",
        "stdbuf -oL rm -rf /",
        "flock -n /tmp/l rm -rf /",
        "flock /tmp/l -c 'rm -rf /'",
        "command -p rm -rf /",
        "builtin command rm -rf /",
        "exec -a ls rm -rf /",
        "time -p rm -rf /",
        "/usr/bin/time -o f rm -rf /",
        "! rm -rf /",
        "busybox rm -rf /",
        "busybox sh -c 'rm -rf /'",
        "/usr/bin/env /bin/sh -c 'rm -rf /'",
        "coreutils --coreutils-prog=rm -rf /",
        "/lib64/ld-linux-x86-64.so.2 rm -rf /",
        "watch -n1 'rm -rf /'",
        "xargs rm -rf / < f",
        "echo / | xargs rm -rf",
        "echo / | xargs -I{} rm -rf {}",
        "find . -exec rm -rf / \\;",
        "trap 'rm -rf /' EXIT",
        "ls & rm -rf /",
        "if false; then rm -rf /; fi",
        "while rm -rf /; do :; done",
        "case x in y) rm -rf /;; esac",
        "for ((i=0;i<1;i++)); do rm -rf /; done",
        "echo $(( a[$(rm -rf /)] ))",
        "x[$(rm -rf /)]=1",
        "echo ${x:-$(rm -rf /)}",
        'echo "${x:-`rm -rf /`}"',
        "cat <<E\n$(rm -rf /)\nE",
        "cat <<E\n${x:-y} `rm -rf /`\nE",
        "echo <(rm -rf /) >(ls)",
        "echo a\\\n#b; rm -rf /",
        "echo $((rm -rf /); ls)",
        "echo 'a' # it's\nrm -rf /",
        "cat <<-E\n\ta\n\tE\nrm -rf /",
        "cat <<E; rm -rf /\nE",
        "f() if :; then rm -rf /; fi; f",
        "unused() { rm -rf /; }",
        "{ echo 'rm -rf /'; } | bash",
        "exec <<< 'rm -rf /'; bash",
        "rm(){ :; }; command rm -rf /",
        "cat() { rm -rf /; }; cat f",
        "rm -rf / $x",
    ],
)
def test_every_spelling_of_a_command_is_found(text: str) -> None:
    script = read(text)
    assert not any(problem.rule.startswith("shell:syntax") for problem in script.problems)
    assert any(argv(command)[:3] == RM for command in script.commands), script


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("echo 'rm -rf /'", ["echo", "rm -rf /"]),
        ("echo \"a b\"'c d'e\\ f", ["echo", "a bc de f"]),
        ("echo ''", ["echo", ""]),
        ("echo ~ ~/x a=~ --x=~ '~' \\~", ["echo", "/home/u", "/home/u/x", "a=/home/u", "--x=~", "~", "~"]),
        ('echo $HOME "$PWD"', ["echo", "/home/u", "/ws"]),
        (
            "echo {1..3} {a,b}{c,d} {01..2} {x} a{b",
            ["echo", "1", "2", "3", "ac", "ad", "bc", "bd", "01", "02", "{x}", "a{b"],
        ),
        ("x='a  b'; echo $x \"$x\"", ["echo", "a", "b", "a  b"]),
        ("IFS=:; x=a:b::c; echo $x", ["echo", None]),
        ("x=abc; echo ${x/b/d} ${#x} ${x%c} ${x:1:1} ${x^}", ["echo", *[None] * 5]),
        ("x=a/b; echo ${x/a\\/b/} ${x/'a/b'/} ${x##'*'} ${x##\\*} \"${x##\"*\"}\"", ["echo", *[None] * 5]),
        ("x=a/b; p='*'; s=b; echo ${x##$p} ${x/$x/} ${x%\"$s\"}", ["echo", *[None] * 3]),
        ("echo $x '$x' \"\\$x\"", ["echo", None, "$x", "$x"]),
        ("echo *.py", ["echo", None]),
        ("echo '*' \\*", ["echo", "*", "*"]),
        ("echo ~root", ["echo", None]),
        ("x=1; x=$(date); echo $x", ["echo", None]),
        ("x=1; readonly x; echo $x", ["echo", None]),
        ("x=1; (x=2); echo $x", ["echo", "1"]),
        ("x=1; x=2 true; echo $x", ["echo", "1"]),
        ("x=1; x=2 | true; echo $x", ["echo", "1"]),
        ("x=1; if true; then x=2; fi; echo $x", ["echo", None]),
        ("x=1; true && x=2; echo $x", ["echo", None]),
        ("x=1; read x; echo $x", ["echo", None]),
        ('x=1; eval "$y"; echo $x', ["echo", None]),
        ("x=1; . ./f; echo $x", ["echo", None]),
        ("x=1; ((x++)); echo $x", ["echo", None]),
        ("x=1; printf -v x %s b; echo $x", ["echo", None]),
        ("x=1; f() { x=2; }; f; echo $x", ["echo", None]),
    ],
)
def test_words(text: str, words: list[str | None]) -> None:
    assert last(text) == words


@pytest.mark.parametrize(
    "text",
    [f'a=(i j); set -- k l; echo "{word}"' for word in ("${@#q}", "${@:1}", "${!a[@]}", "${x:-$@}", "${a[@]}")]
    + ["declare -A m", "local x=1", "readonly x; x=2", "declare -i x; x=1+1", "export -f f"],
)
def test_lists_and_attributes_ask_and_are_not_computed(text: str) -> None:
    assert "shell:other-shell" in {problem.rule for problem in read(text).problems}


def test_a_loop_forgets_what_its_body_changes() -> None:
    assert ["echo", None] in run("x=1; while a; do echo $x; x=2; done")
    assert last("x=1; while a; do x=2; done; echo $x") == ["echo", None]
    assert last("for x in a b; do :; done; echo $x") == ["echo", "b"]
    assert last("for x in a b; do y=$x; break; done; echo $y") == ["echo", None]


def test_an_unknown_word_keeps_its_start() -> None:
    command = read("find / ~ -exec rm {} +").commands
    starts = [c.words[1].start for c in command if c.name == "rm"]
    assert starts == ["/", "/home/u"]
    (command,) = read("rm /etc/$x").commands
    assert command.words[1].parts == ("/etc/", None)
    assert command.words[1].many


@pytest.mark.parametrize(
    ("text", "cwds"),
    [
        ("cd /a && ls", ["/a"]),
        ("cd /a; ls", ["/a", "/ws"]),
        ("cd a || exit 1; ls", ["/ws/a"]),
        ("cd a || ls", ["/ws"]),
        ("! cd a && ls", ["/ws/a", "/ws"]),
        ("(cd /a); ls", ["/ws"]),
        ("cd /a | ls", ["/ws"]),
        ("cd $x && ls", [None]),
        ("cd && ls", ["/home/u"]),
        ("cd - && ls", [None]),
        ("cd .. && ls", ["/"]),
        ("pushd /a && ls", ["/a"]),
        ("popd && ls", [None]),
        ("if a; then cd /a; else cd /b; fi && ls", ["/a", "/ws", "/b"]),
        ("env -C /a ls", ["/a"]),
        ("eval 'cd /a' && ls", ["/a", "/ws"]),
        ("bash -c 'cd /a'; ls", ["/ws"]),
        ("HOME=/x; cd && ls", ["/x"]),
        ("cd /a && cd b && ls", ["/a/b"]),
        ("while a; do cd x; done; ls", [None]),
    ],
)
def test_directories(text: str, cwds: list[str | None]) -> None:
    found = [command.cwd for command in read(text).commands if command.name == "ls"]
    assert sorted(map(str, found)) == sorted(map(str, cwds))


def test_what_a_shell_reads_is_told() -> None:
    *_, shell = read("curl -s x | tee f | sh").commands
    assert shell.stdin is not None
    assert shell.stdin.text is None
    assert [feeder.name for feeder in shell.stdin.feeders] == ["tee"]
    assert shell.stdin.feeders[0].stdin is not None
    *_, source = read('. /dev/stdin <<< "$(curl x)"').commands
    assert source.stdin is not None
    assert [feeder.name for feeder in source.stdin.feeders] == ["curl"]
    unknown = read('bash -c "$(curl x)"').commands[-1]
    assert unknown.name is None
    assert unknown.via == ("bash",)


@pytest.mark.parametrize(
    "text", ["sudo sh -c 'ls ~'", "su - bob -c 'ls ~'", "env -i sh -c 'ls ~'", "env -u HOME sh -c 'ls $HOME'"]
)
def test_another_users_home_is_not_known(text: str) -> None:
    assert last(text) == ["ls", None]


def test_via_names_the_wrappers_outside_in() -> None:
    inner = read("sudo env nice sh -c 'ls'").commands[-1]
    assert inner.name == "ls"
    assert inner.via == ("sudo", "env", "nice", "sh")


def test_redirections_and_background() -> None:
    (command,) = read("a 2>>f <g &>h >&2 &").commands
    assert [(r.op, r.fd, r.target.text if r.target else None) for r in command.redirects] == [
        (">>", 2, "f"),
        ("<", None, "g"),
        ("&>", None, "h"),
        (">&", None, "2"),
    ]
    assert command.background
    group, inner = read("{ a; } > f").commands
    assert group.words == ()
    assert group.redirects[0].target is not None
    assert inner.redirects == ()


@pytest.mark.parametrize(
    "text",
    [
        ":(){ :|:& };:",
        "f() { f | f; }; f",
        "f() { f & }; f",
        "f() { g; }; g() { f & }; f",
        "bomb() { bomb | bomb & }",
        "f() { echo $(f); }; f",
    ],
)
def test_fork_bombs(text: str) -> None:
    assert [(problem.verdict, problem.rule) for problem in read(text).problems] == [("deny", "shell:fork-bomb")]


def test_recursion_over_directories_is_none() -> None:
    assert read('walk() { for x in "$1"/*; do [ -d "$x" ] && walk "$x"; done; }; walk .').problems == ()


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("a &&", "shell:syntax"),
        ("(a", "shell:syntax"),
        ("a 'b", "shell:syntax"),
        ("if a; then b", "shell:syntax"),
        ("a ;; b", "shell:syntax"),
        ("${ rm x; }", "shell:syntax"),
        ("a ${x@P}", "shell:syntax"),
        *(
            (f'a "{word}"', "shell:other-shell")
            for word in ('${x:-"$"(b)}', '${x+"a$""(b)"}', '${x:-"$y"z}', '${x:-"$"[b]}')
        ),
        ('cat <<E\n${x:-"$"(b)}\nE', "shell:other-shell"),
        ("a" * (MAX_LENGTH + 1), "shell:long"),
        ("( " * 200 + "a" + " )" * 200, "shell:nesting"),
        ("$(" * 5000, "shell:nesting"),
        ("a \x00 b", "shell:control"),
        ("a \r", "shell:control"),
        ("a \u202e b", "shell:control"),
        ("rm\xa0x", "shell:control"),
        ("a \ud800", "shell:control"),
        ("echo {1..100000000}", "shell:size"),
        ("echo {a..e}", "shell:rare"),
        ("case x in x) a;& *) b;; esac", "shell:rare"),
        ("for x; do a; done", "shell:rare"),
        *((text, "shell:syntax") for text in ("a\\\nb", "i\\\nf a", "a $\\\nb", "a &\\\n& b", "`a |\\\n| b`")),
        ("f() { a; }; x && f() { b; }; f", "shell:syntax"),
        ("echo " + "{a,b}" * 20, "shell:size"),
        ("sh -c \"echo \\$'\\''; rm x; '\"", "shell:dialect"),
        *((f"false && {text} | grep ')); rm x; #')", "shell:pattern") for text in ("echo $((a)", "((a)")),
        ("set -k; ls A=b", "shell:options"),
    ],
)
def test_what_cannot_be_read_is_asked_about(text: str, rule: str) -> None:
    problems = read(text).problems
    assert rule in [problem.rule for problem in problems]
    assert {problem.verdict for problem in problems} == {"ask"}


def test_commands_before_a_broken_line_are_told() -> None:
    script = read("rm -rf /\n(")
    assert argv(script.commands[0]) == RM
    assert script.problems


@pytest.mark.parametrize(
    "text",
    [
        "x=aaaaaaaaaa; " + "x=$x$x; " * 60 + "echo $x",
        "".join(f"for a{n} in 1 2 3 4 5 6 7 8; do " for n in range(10)) + ":" + "; done" * 10,
        "; ".join(f"f{n}() {{ f{n + 1}; f{n + 1}; }}" for n in range(20)) + "; f20() { a; }; f0",
        "[" * 9000,
        "a " + "{" * 3000,
        "while a; do " * 10 + "x=1" + "; done" * 10,
    ],
)
def test_hostile_shapes_end(text: str) -> None:
    assert isinstance(read(text), Script)


@given(st.text(max_size=60))
@settings(max_examples=300, deadline=None)
def test_no_text_raises(text: str) -> None:
    assert isinstance(read_script.__wrapped__(text, CWD, HOME), Script)


# Obfuscations


def _word(text: str) -> st.SearchStrategy[str]:
    """A word spelled in pieces, each quoted in its own way."""

    def spell(cut: list[int], styles: list[int]) -> str:
        bounds = sorted({0, len(text), *(at % (len(text) + 1) for at in cut)})
        out = ""
        for index, (start, end) in enumerate(pairwise(bounds)):
            piece = text[start:end]
            style = styles[index % len(styles)]
            out += [
                piece,
                f"'{piece}'",
                f'"{piece}"',
                "".join(f"\\{char}" for char in piece),
                "$'" + "".join(f"\\x{ord(char):02x}" for char in piece) + "'",
                "$'" + "".join(f"\\{ord(char):03o}" for char in piece) + "'",
                "$'" + "".join(f"\\u{ord(char):04x}" for char in piece) + "'",
                f"$(echo {piece})" if index == 0 or piece[0] != "-" else piece,
                f"`printf %s '{piece}'`",
                f"''{piece}\"\"",
                "\\\n".join(piece) if len(piece) > 1 else piece,
                f'$"{piece}"',
            ][style]
        return out

    return st.builds(
        spell, st.lists(st.integers(0, 9), max_size=3), st.lists(st.integers(0, 11), min_size=1, max_size=4)
    )


_GAP = st.sampled_from([" ", "\t", "  ", "$IFS", "${IFS}", " \\\n "])
_PLAIN_RM = st.tuples(_word("rm"), _GAP, _word("-rf"), _GAP, _word("/")).map("".join)
_BASE = st.one_of(
    _PLAIN_RM,
    st.sampled_from(["{rm,-rf,/}", "X='rm -rf /'; $X", "set -- rm -rf /; $@"]),
)


def _quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


_NESTS = [
    lambda text: f"bash -c {_quote(text)}",
    lambda text: f"eval {_quote(text)}",
    lambda text: f"( {text} )",
    lambda text: f"{{ {text}\n}}",
    lambda text: f"echo $( {text} )",
    lambda text: f'echo "$( {text} )"',
    lambda text: f"if :; then {text}\nfi",
    lambda text: f"for i in 1 2; do {text}\ndone",
    lambda text: f"while :; do {text}\nbreak; done",
    lambda text: f"case a in a) {text}\n;; esac",
    lambda text: f"f() {{ {text}\n}}; f",
    lambda text: f"ls | {{ {text}\n}}",
    lambda text: f"{text} &",
    lambda text: f"ls && {{ {text}\n}}",
    lambda text: f"cat <<E\n$( {text}\n)\nE",
    lambda text: f"bash <<'END'\n{text}\nEND",
    lambda text: f"echo {_quote(text)} | env bash -s" if "\\" not in text else f"ls; {text}",
    lambda text: f"cat < <( {text} )",
    lambda text: f"trap {_quote(text)} EXIT",
    lambda text: f"env -u X timeout 5 bash -c {_quote(text)}",
    lambda text: f"find / -exec bash -c {_quote(text)} \\;",
    lambda text: f"[[ -n $( {text} ) ]]",
    lambda text: f"x=$( {text} )",
    lambda text: f"# it's\n{text}",
    lambda text: f"echo a\\\n#\n{text}",
    lambda text: f"x=${{y:-$( {text} )}}",
]


@given(_BASE, st.lists(st.sampled_from(_NESTS), max_size=3))
@settings(max_examples=400, deadline=None)
def test_no_spelling_and_no_nesting_hides_a_command(text: str, nests: list[object]) -> None:
    for nest in nests:
        assert callable(nest)
        text = nest(text)
    script = read_script.__wrapped__(text, CWD, HOME)
    found = any(matches(command, ["rm", "-rf", "/"]) for command in script.commands)
    assert found or script.problems, text


def test_quoted_arguments_are_no_word_where_there_are_none() -> None:
    script = read_script('f() { b "$@"; }; f', "/", "/home/u")
    assert [[word.text for word in command.words] for command in script.commands if command.name == "b"] == [["b"]]


_TRAP = "cat <<X\nrm -rf foo\nX\n"  # a command, once what is before it has taken the first line


@pytest.mark.parametrize(
    ("text", "sure"),
    [
        (f"bash <<'E'\nhead -c 8\n{_TRAP}E", False),
        (f"bash <<'E'\nexec 2>&1\nenv cut -d : -f 1 | cat\n{_TRAP}E", False),
        (f"bash <<'E'\nexec 3<&0 </dev/null; head -c 8 <&3\n{_TRAP}E", False),
        ("bash <<'E'\nexec <x.sh\nE", False),
        ("bash <<'E'\ncmp f\nE", False),
        (f"bash <<'E'\nwhile read x; do break; done\n{_TRAP}E", False),
        (f"bash <<'E'\nhead -c 8 /dev/../dev/stdin\n{_TRAP}E", False),
        (f"{{ head -c 8 </dev/stdin; bash; }} <<'E'\n{_TRAP}E", False),
        ("bash <<'E'\nls\nE", False),
        ("echo ls | sh", False),
        ("{ head -n 1; sort; } <<E\nb\nE", True),
        ("echo x | bash -c 'head -n 1'", True),
    ],
)
def test_a_script_on_the_input_of_a_shell_is_a_problem_as_its_commands_may_take_parts_of_it(
    text: str, sure: bool
) -> None:
    assert (read(text).problems == ()) == sure


def test_what_is_left_of_a_shared_input_is_not_known() -> None:
    assert last(f"{{ head -c 8; x=$(cat); eval \"$x\"; }} <<'E'\n{_TRAP}E") == [None]
    assert last("x=$(echo 'rm -rf /' | cat); eval \"$x\"") == RM
    for text in (
        "{ head -c 1; xargs cat; } <<< a/etc/passwd",
        "echo a/etc/passwd | while head -c 1; do xargs cat; done",
        "echo a/etc/passwd | echo $(head -c 1) $(xargs cat)",
        "f() { head -c 1; xargs cat; }; f <<< a/etc/passwd",
        "exec <<< a/etc/passwd; head -c 1; xargs cat",
        "bash -c 'head -c 1; xargs cat' <<< a/etc/passwd",
        "find . -exec head -c 1 \\; -exec xargs cat \\; <<< a/etc/passwd",
    ):
        assert ["cat", None] in [argv(command) for command in read(text).commands], text
    assert last("echo a/etc/passwd | xargs cat") == ["cat", "a/etc/passwd"]


@pytest.mark.parametrize(
    "text", ["a[$(" * 22 + "ls" + ")]" * 22, "echo " + ("$((ls " * 11 + " b) | cat)" * 11 + " ") * 40]
)
def test_what_is_read_in_a_second_way_is_read_twice_and_not_twice_at_each_level(text: str) -> None:
    begun = time.process_time()
    assert read(text).commands
    assert time.process_time() - begun < 2


@pytest.mark.parametrize(
    ("text", "sure"),
    [("read v\n", False), ("cat\n", False), ("exec <f\n", False), ("alias ls=rm\n", False), ("ls() { rm x; }\n", False),
     ("cat <<X\n", False), ("cat <<X\nit's\nX\n", False), ("!!:s/echo //\n", False), ("^echo ^^\n", False),
     ("x=..; : ${u:?}; x=a\nls $x\n", False),
     ("unlin\tx\n", False), ("bind '\"q\": \"rm\"'\n", False), ("cd src; [ ! -e x ] && ls y\n", True)],
)  # fmt: skip
def test_what_a_shell_gets_as_input_can_change_what_the_next_input_means(text: str, sure: bool) -> None:
    assert (read_script(text, CWD, HOME, typed=True).problems == ()) == sure
    assert read_script(text, CWD, HOME).problems == ()


@pytest.mark.parametrize(
    "text", ["declare -n r=PATH; ls", "declare -i x=1+1", 'declare -a c="$(cat f)"', "typeset -u x=a", "export -n X"]
)
def test_what_attributes_make_of_a_value_is_not_computed(text: str) -> None:
    assert "shell:evaluated" in {problem.rule for problem in read(text).problems}


@pytest.mark.parametrize("text", ["set -^ a; $@ rm x", "set -o no a; $@ rm x", "set -^ --; $@ rm x"])
def test_set_that_fails_changes_no_arguments(text: str) -> None:
    assert read(text).commands[-1].words[0].many
    assert argv(read("set -eu -o pipefail a; $@ b").commands[-1]) == ["a", "b"]
