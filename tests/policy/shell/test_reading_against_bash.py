"""What was read compared with what bash runs: random texts over the shell's own signs, and random valid scripts.

Every program that bash starts must be among the commands, with words that allow its arguments, or there must be a
problem. So a known word that is wrong fails as surely as a command that was missed.
"""

from __future__ import annotations

import random
import shlex
import subprocess
from pathlib import Path

import pytest

from toolcrib.policy.shell.reading import read_script

from .oracle import covers, run

if not Path("/bin/bash").exists():
    pytest.skip("needs bash", allow_module_level=True)

SIGNS = [
    "a", "b", "rm", "ls", " ", " ", " ", "\n", ";", "&&", "||", "|", "&", "(", ")", "{ ", "}", "$(", ")", "`", "'", '"',
    "<<E\n", "E\n", "<<'E'\n", "<<-E\n", "\tE\n", "$x", "${x}", "x=", "x=rm ", "y+=b", "if ", "; then ", "; fi",
    "for x in a b", "; do ", "; done", "while ", "until ", "case a in ", "a) ", ";; ", "esac", "[[ ", " ]]", "((", "))",
    "$((", "${x:-", "}", "${x#", "#", " #", "\\", "\\\n", "! ", "time ", " >f", " <f", " 2>&1", " &>f", " |& ", " <<<",
    "<(", ">(", "$'", '$"', "\t", "*", "~", "{a,b}", "{1..3}", "..", ",", "{", "eval ", "function f ", "f() ", "f",
    "cd d", "export x=b ", "read x ", "local x=c ", "1", "=", "+", "[", "]", "-", "\\'", '\\"', "$", "x", "else ",
    "elif ", "coproc ", "select x in a", "set -- a b; ", "$1", "$@", '"$@"', "shift ", "\\x41", "declare ", "x=(a b) ",
    "${x[0]}", "${x[@]}", "alias a=b\n", "shopt -s extglob\n", "@(a|b)", "!(a)", "unset x ", "a[1]=", "$[", "\r", "\\n",
    "IFS=a ", "printf -v x %s b", "trap 'a b' EXIT", "\\$(a)", "/", "return ", "break ", "continue ", "command ",
    "builtin ", "exec ", "source /dev/stdin", "env ", "\v", "\xa0", "\u2028", "'a'", "$'\\x41'", "${x//a/b}", "=~ ",
]  # fmt: skip

COMMANDS = [
    "a", "b c", "rm -rf /", "'a' b", "a\\ b c", "$x", '"$x" a', "${x} b", "x=1", "x=rm", "y=$x", "x=$y z=$x a $x",
    "x+=b", "a $y", 'eval "$x $y"', "eval 'a; b'", "cd d", "cd ..", "f", "f a", "g 'b c' d", "a $1", 'b "$@"',
    "a {b,c{d,e}}", "{a,b}", "a $'x\\x41\\n'", "a `b`", "a $(b c)", 'a "$(b)"', "$(echo a b)", "a ${x:-b c}",
    "a ${x:-$(b)}", "a ${x:+$(b)}", "read x", "read x <<< 'a b'", "export x=b", "unset x", "a <<< $(b)", "a > f",
    "a <(b) ", "x=$(echo rm)", "IFS=: ", "set -- a b", "shift", "a $((1+$(b)))", "((x=1))", "[[ a == $(b) ]]",
    "[[ -v 'x[$(a)]' ]]", "a[$(b)]=1", 'x=(a b); "${x[@]}"', "trap 'a b' EXIT", "return", "break", "continue",
    "local x=2", "a ${x#r} ${x%m} ${x/r/b} ${x:0:1} ${x^^}", "a ~ ~/x x=~ -x=~ x=a:~/b", "$x$y", "a${x}b",
    "printf -v x '%s' a", "x=a y=$x", "! cd d", "time a", "a\\\nb", "for z in $x; do a $z; done", "a $#",
    "echo rm a | source /dev/stdin", ". /dev/stdin <<< 'a b'", "command a b", "a \"x\"'y'z", "a $x''", "a ''$z",
    'a $"b"', "a #b", "a b#c", "alias q=a", "mapfile x <<< a", "getopts ab x", "let x=1", "a $x*", 'a \\"',
    'a "\\$x\\\\"', "a '$x'", "a ${#x}", "a ${!x}", "x=y; y=a", "${x:=b}", "a ${z:=b}", "OLDPWD=/ ; a $PWD", "a $HOME",
    "HOME=/h; a ~", "true && x=2", "false || x=3", "exit", "readonly x", "declare -i x", "x='a  b'", "x='*'",
    "x='{a,b}'", "x=a:b", 'a "${x[@]}" $*', "unset -f f", "exec a", "declare -A m", "x=' a '",
    "a {1..3}{,x} {b..d}", "{a,'b c'}",
]  # fmt: skip


WORD_PIECES = [
    "a", "bc", "-rf", "/", ".", "1", "=", ":", ",", "%", "@", "^", "+", "''", '""', "'x y'",
    '"x  y"', "'a\"b'", "'$x'", '"$x"',
    "$x", "${x}", '"${x}"', "\\ ", "\\'", "\\\"", "\\$", "\\\\", "\\\n", "$'\\n'", "$'\\x41\\x4'",
    "$'\\101\\60'", "$'\\u00e9'",
    "$'\\U1F600'", "$'\\cA\\e'", "$'a\\'b'", "$'\\z\\\"'", '$"q"', "{a,b}", "{1..3}", "{3..1}",
    "{a..c}", "{01..03}", "{1..9..4}",
    "{a,{b,c}}", "{,x}", "{x}", "{", "}", "{}", "{a,b", "{a..b", "{'a b',c}", "{$x,y}", "~", "~/",
    "~x", "x=~", "x=a:~", "x:~",
    "$IFS", "${IFS}", '"$IFS"', "$s", '"$s"', "$e", '"$e"', "${s#a}", "${s%d}", "${s/b/z}",
    "${s:1}", "${s:1:2}", "${s^}", "${s^^}",
    "${#s}", "${n,,}", "${e:-d}", "${e-d}", "${s:+p}", "${e:+p}", "${!r}", "$(echo v w)", '"$(echo v w)"', "`echo q`",
    "$(printf '%s,' 1 2)", "#", "é", "!", "[", "]", "[x", "*", "?", "'*'", "\\*", '"\\$x"',
    '"\\a\\\\"', "${a[0]}", '"${a[@]}"',
    "${a[@]}", "$(( 1 ))", "${c}", '"${c}"', "$((", "$", "$%", "${s:-'q r'}", '"${e:-q r}"', "${e:-q r}", "{b..d},",
]  # fmt: skip
SETUP = "x=v s='ab cd' e= n=QR r=s c='p:q *'"


@pytest.mark.parametrize("words", [300, pytest.param(20_000, marks=pytest.mark.slow)])
def test_known_words_are_bashs_own(words: int) -> None:
    """Words made of pieces of every kind of quoting and expansion, many to a process."""
    rng = random.Random(9)
    texts = ["".join(rng.choices(WORD_PIECES, k=rng.randint(1, 6))) for _ in range(words)]
    known: list[tuple[str, list[str]]] = []
    for text in texts:
        for ifs in ("", "IFS=: ", "IFS= "):
            full = f"{SETUP} {ifs}\nput {text}"
            script = read_script(full, "/", "/home/u")
            argv = [word.text for word in script.commands[-1].words] if not script.problems else [None]
            if None not in argv and argv[:1] == ["put"]:  # a comment that ends in a backslash makes a second line
                known.append((full, [text for text in argv if text is not None]))
    assert len(known) > words * 2 // 3
    batch = "".join(f"( eval {shlex.quote(full)} ) 2>/dev/null; printf '\\2\\0'\n" for full, _ in known)
    result = subprocess.run(
        ["/bin/bash", "-s"],
        input=f"put() {{ printf '%s\\0' put \"$@\"; }}\n{batch}".encode(),
        env={"HOME": "/home/u", "LC_ALL": "C.UTF-8", "PATH": "/nonexistent"},
        cwd="/",
        capture_output=True,
        check=True,
    )
    answers = result.stdout.decode().split("\2\0")
    for (full, argv), answer in zip(known, answers, strict=False):
        assert answer.split("\0")[:-1] == argv, full


def text_of_signs(rng: random.Random) -> str:
    return "".join(rng.choice(SIGNS) for _ in range(rng.randint(1, 14)))


def script(rng: random.Random, depth: int = 0) -> str:
    """A valid script. A function never calls itself: FUNCNEST bounds it, but forks multiply."""
    kind = rng.randint(0, 22 if depth < 3 else 5)
    if kind <= 5:
        return rng.choice(COMMANDS)
    form = [
        "{}; {}", "{}\n{}", "{} && {}", "{} || {}", "{} | {}", "( {} )", "{{ {}; }}", "if {}; then {}; else {}; fi",
        "for x in a b $y; do {}; done", "while {}; do {}; break; done", "case $x in rm) {};; *) {};; esac",
        "f() {{ {}; }}; {}", "g() {{ {}; }}\n{}; {}", "{} & {}", "{}; {}; {}", "a <<E\n$x $({})\nE\n{}", "x=$({}); {}",
    ][kind - 6]  # fmt: skip
    return form.format(*(script(rng, depth + 1) for _ in range(3)))


def compare(texts: list[str], directory: Path) -> int:
    """How many texts ran something; fails at the first that ran what was not told."""
    ran = 0
    for text in texts:
        found = read_script(text, str(directory / "work"), "/home/u")
        if found.problems or "\0" in text:
            continue
        vectors = run(text, directory)
        ran += bool(vectors)
        for argv in vectors:
            assert covers(found, argv), (text, argv, found.commands)
    return ran


def test_random_signs(tmp_path: Path) -> None:
    rng = random.Random(7)
    assert compare([text_of_signs(rng) for _ in range(800)], tmp_path) > 32


def test_random_scripts(tmp_path: Path) -> None:
    rng = random.Random(8)
    assert compare([script(rng) for _ in range(100)], tmp_path) > 25


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_many_random_texts(tmp_path: Path, seed: int) -> None:
    rng = random.Random(100 + seed)
    assert compare([text_of_signs(rng) for _ in range(20_000)], tmp_path) > 100
    assert compare([script(rng) for _ in range(2_000)], tmp_path) > 100
