"""Random command lines over the shell's whole syntax, around programs that only note that they ran.

The lines hold no slash and no `command -p`: with `shells.run` they reach nothing but such programs and a folder of
theirs. A function calls no function, so that nothing multiplies.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

HARMLESS, UNKNOWN = ("head", "ls", "wc"), ("mark", "tag")
Choose = Callable[[Sequence[str]], str]

_SPACES = [" "] * 40 + ["  ", "\t", " \\\n", "\\\n"]
_LITERALS = ["a", "b", "-n", "-", "x=1", "#", "a#b", "!", "%", "^", "{}", "[", "]", ",", ":", "=", "é", "1", "+", "}"]
_QUOTES = [
    "''", '""', "'a b'", '"a  b"', "'#'", "'$x'", '"\'"', "'\"'", "\\'", '\\"', "\\ ", "\\\\", "\\$", "\\`", "\\#",
    "\\;", "$'\\n'", "$'\\''", "$'\\x41'", "$'\\101'", "$'a\\\\'", '"\\""', '"\\`"', '"\\a"', "\\\n", "\\a", "'\\'",
    '"\\\\"', '"\\$x"', "'; mark '", '"; mark #"', "'$(mark)'", '"\\$(mark)"', '"\\`mark\\`"', "'`mark`'", "'\nmark\n'",
    '"\nmark\n"', "\\$\\(mark\\)", "$'\\'; mark #'", "\"'; mark '\"", "'\"; mark \"'", "$'\\nmark\\n'", '"\\\nmark"',
    '"\'$(tag)\'"', '"a\\"; mark \\""', "'.\\\n,'", '".\\\n,"', "'\\\n'", "\\\\\n", "'\\\\\n'", '"\\\\\n"',
    "'.\\\\\\\n,'", "'\\`'", "'\\$x'", "'\\\"'",
]  # fmt: skip
_VALUES = [
    "$x", "$y", '"$x"', "${x}", '"${y}"', "$1", '"$@"', "$*", "$#", "$?", "$$", "${x-a}", "${x:-a b}", '"${x:-a}"',
    "${x:+b}", "${x:=a}", '"${x#a}"', '"${x%%b}"', "${#x}", "$IFS", "${IFS}", "$xa", "$x$y", "~", "*", "?", "[ab]",
    "{a,b}", "{1..3}", "{$x,b}", "$((1))", "$((x=1))", "$", "${x:-'a'}", '"${x-"a"}"', "$((1<2))", "$(( ( 1 ) ))",
    "${x:-\\}}", '"${x:-$(tag)}"', "${x:-\"; mark \"}", "${x:-'}'}", "$(( (1) + 2 ))", '"$((1))"', "'a'$x", "$x'a'",
    "${x:-#}", "${x:- # }", "$((08))", "$((x/0))", "$((x+1))", "$((y-$x))", "$((1 +))", "${x?}",
]  # fmt: skip
_RARE = [
    *"'\"`(){}\r\v\xa0\u2028\x01", "$'", '$"', '$"a"', "@(a|b)", "!(a)", "*(a)", "{a,}", "{a..c}", "$(())", "$+", "$^x",
    "$=x", "${x/a/b}", "${x:1}", "${x^^}", "${!x}", "$[1]", "${x[0]}", '"${x[@]}"', "$((x[1]))", "\"${x:-'a'}\"",
    "$(<f)", "${x:-{a,b}}", "~a", "$-", "$!", "$'\\cA'", "$'\\u00e9'", "a\\\r", "{v}>f", "$[$(mark)]", "${x@P}",
    "${x:$(mark)}", "{a..b..2}", "$((\"1\"))", "$(('1'))", "~+", "~-", "${x#'}'}", "\"${x#'}'}\"", "${1+\"$@\"}",
    '"$*"', "$@", "\"${x:-\"a b\"}\"", "x=~:a", "a=~", "\\}", "${x:-`mark`}", "$\\\n{x}", "<<EOF", "${x:-${y:-b}}",
    "${x:-\"}\"}",
]  # fmt: skip
_TARGETS = ["f", "f", "g", '"f"', "$x", "${x:-g}", "'a b'", "f\\ g", "&1", "&2", "é", "1", "f'g'", '"$x"', "f#"]
_REDIRECTS = [">", ">>", "<", "2>", "2>>", ">|", "&>", ">&", "1>", "0<", "x>", "2 >"]
_RARE_REDIRECTS = ["<>", "&>>", "<&", "3>", "12>", "{v}>", ">&-", "2>&-;"]
_SIGNS = [
    "'", '"', "`", "\\", "\n", "\\\n", ";", "&", "|", "(", ")", "{", "}", "$", "$(", "((", "))", "$((", "#", " #", " ",
    "!", "<", ">", "<<", "<<<", "<(", "=", "*", "?", "[", "]", "~", "\r", "\t", "\x01", "\x7f", "\xa0", "é", "a", "x",
    ";;", "&&", "||", "|&", "esac", "done", "fi", "do", "then", "in", "case", "time", "!", "$'", '$"', "EOF", "\nEOF\n",
    "[[", "]]", "-",
]  # fmt: skip
_LISTS = [
    "C", "C", "C", "C; C", "C\nC", "C && C", "C || C", "C | C", "C & C", "C; C; C", "C # 'a\nC", "C # ; mark\nC",
    "C;\nC\n", "C #\\\nC", "x=W; C", "x=W\nC", "f() { C; }; C; f W", "f() ( C ); f", "cd d && C", "cd d; C",
    "x=W y=W; C", "C <<EOF; C\nW B\nEOF\nC", "C\\\n; C", "x=$(C)\nC", "set -- W W; C",
    "C <<EOF && C <<D\n'\nEOF\nmark\nD\nC", "C <<'EOF'\n`mark`\n\nEOF\nC", "C # `\nC # `", "C # $(\nC",
    "C <<EOF\n\\\nEOF\nmark\nEOF\nC", "C <<EOF\nmark\\\nEOF\nEOF\nC", 'C <<EOF\n"$(C)"\nEOF\nC', "x=1; ((x=W)); M $x W",
    "x=W; y=$((x=1/0)); x=b\nM $x", "((x=08)); M -n $x W", "x=W; C $((08)); x=b\nM $x", "x=2; y=$((x-1)); M $x $y",
    "((x++)); M $x a", "x=W; (: ${u?}; C); M $x", "for ((x=0;x<08;x++)); do C; done; M $x W",
]  # fmt: skip
_RARE_LISTS = [
    "C |& C", "alias a=M\nC\na W", "alias M=M\nM W", "shopt -s extglob\nC", "IFS=a; C", "y=(W W); C",
    "function f { C; }\nf W", "C; cd -; C", "cd ..; C", "alias 'a=M W '\na b", "set -f; C", "unset x; C", "read x; C",
    "trap 'M a' EXIT; C", "eval 'M a' W; C", "exec >f; C", "set -o posix; C", "shopt -s expand_aliases\nalias a=M\na",
    "cd d; cd ..; C", "cd W; C", "export x=W; C", "local x=W; C", "M() { C; }; M W", "M() { C; }\nM W\nC",
    "f() { C; }\nunset -f f\nf W", "C <<EOF\nW $(mark)", "C <<EOF\nW B", "set -- W W\nC \"$@\" $1", "shift; C",
    "x=W; unset x; C $x", "echo W | { read x; C $x; }", "x=`C`; C", "C; } ; C", "C && { C; C; } || C", "return; C",
    "exit; C", "break; C", "C; wait; C", "set +f; C", "set -e; C", "f() { return; C; }; f; C",
    "f() { set -- W; C $1; }; f a; C $1",
]  # fmt: skip
_COMMANDS = [
    "C", "C", "C", "C", "( L )", "{ L; }", "! C", "if L; then L; fi", "if L; then L; else L; fi", "(L)",
    "while C; do L; break; done", "for x in W W; do L; done", "case W in W) L;; esac",
    "case W in (a|W) L;; *) C ;; esac", "until ! C; do L; break; done", "{ L; } >F", "( L ) <<EOF\nW\nEOF\n",
    "C <<EOF\nW $(L)\nEOF\n", "C <<'EOF'\nW `mark`\nEOF\n", "C <<-EOF\n\tW\n\tEOF\n", "C <<\\EOF\n$(mark)\nEOF\n",
    'C <<"E D"\nW\nE D\n', "C <<EOF | C\n`B`\nEOF\n", "C <<< W", "C $(case a in (a) L;; esac)", "C $( ( L ) )",
    'C "$(L)"', "C `B`", 'C "`B`"', "C $(L # )\n)", "C ${x:-$(L)}", "sh -c 'M W'", "C $(\nL\n)", "M {a,$(C)}", "x=W C",
    "x=$(C) C", "echo W | C", "C $(C \\) W )", "C $((1 + $(C)))", "M $'W'", 'M "W"', "M 'W'", 'M "${x:-W}"',
    "M ${x:-W}", "M ${x#W}", "[[ W == W ]]", "[[ W && C ]]", "[[ W =~ W ]]", "((x=1))", "C <(L)", "M W # W\n",
    "M W; # W\n", "M W;# '\n", "M `C # W`", "M $(C;#)\n)",
]  # fmt: skip
_RARE_COMMANDS = [
    "time C", "((L))", "[[ W > F ]]", "((x[W]))", "(( W ))", "coproc C", "select x in W; do L; done",
    "for ((i=0;i<1;i++)); do L; done", "C <<E <<D\nW\nE\n$(C)\nD\n", "C $(case a in a) L;; esac)", "C $((L) )",
    "C $((L); C)", "C >(L)", 'sh -c "M W"', "C $(C <<EOF\nW\nEOF\n)", "x[$(C)]=W", "x+=W C", "$(echo M) W",
    "`echo M` W", "$x W", "C $[$(C)]", "command M W", "builtin C", "exec M W", "M W; f() { C; } >F; f", "{M,W} W",
    "! ! C", "for x; do C; done", "case a in a) C ;& b) C;; esac", "C <<$x\nW\n$x\n", "C <<`a`\nW\n`a`\n",
    "if C; then L; fi >F <F", "case esac in (esac) L;; esac", "case W in #W\n W) L;; esac",
    "case W in W) L # W\n;; *) C;; esac", "for in in W W; do L; done", "for x\nin W; do L; done", "for x in W; { L; }",
    "time -p C", "time -- C", "! time C", "C | time C", "C <<'EO'F\n$(mark)\nEOF\n", "C <<EO\\\nF\nW\nEOF\n",
    "C << EOF\nW\nEOF\n", "C $(C <<EOF)\nW\nEOF\n", "C \"$(C <<EOF\n)\nEOF\n)\"", "C `C <<EOF\nW\nEOF\n`",
    "C <<EOF `L`\nW\nEOF\n", "C 2>&1 | C", "C <<EOF $(\nC\n)\nW\nEOF\n", "[[ W == @(a|W) ]]", "[[ ( W ) ]]",
    "[[ -n W || ! W ]] && C", "if ! C; then :; elif C; then L; fi", "while C; do break; L; done", "( C; exit; C )",
    "M W &", "{ C & }; C", "C &\nC", "case W in W|W) L;& *) C;; esac", "case $x in \"W\") L;; esac", "(( 1 )) && C",
    "((1) ); C", "( (L) ; C )", "$( C )", "`C`", "$(M) W", "M $(( $(C) + `C` ))", "M \"`M \\\"W\\\"`\"",
    "M `M \\`C\\``", "M \"$(M \"W\")\"", "M $'a\\'' W", "M $(M ')' W)", "M $(M \")\" W)", "M $(M \\) W)",
    "M $(M # )\n W)",
]  # fmt: skip

_STARTS = [
    "ls", "ls ", "wc a", 'ls "', "ls '", "ls $(ls ", "ls `ls ", "ls <<EOF\n", "ls <<'EOF'\n", "ls # ",
    "case a in a) ls ", "if ls; then ls ", "ls ${x:-", "(ls ", "{ ls ", 'ls "$(ls ', "ls $((1", "ls <<EOF; ls ",
    "ls | ls", "ls \\",
]  # fmt: skip
_MARKS = ["mark", "mark", " mark ", ";mark;", "\nmark\n", "$(mark)", "`mark`"]


class Lines:
    """A source of lines. `choose` picks one of several: a random generator's, or that of a hypothesis strategy."""

    def __init__(self, choose: Choose) -> None:
        self.choose = choose
        self.unknown = self.number(0, 0, 1) == 1
        self.plain = self.number(0, 1) == 1  # with words that are known, and nothing written: most are allowed

    def line(self) -> str:
        """A line, sometimes with a few signs put in or cut out at random; or signs alone around a program."""
        if self.number(0, 0, 0, 1):
            return self.choose(_STARTS) + self.signs() + self.choose(_MARKS) + self.signs()
        text = self.list(self.number(1, 2, 3))
        for _ in range(self.number(0, 0, 0, 0, 1, 1, 2)):
            at = self.number(*range(len(text) + 1))
            text = text[:at] + self.choose(["", *_SIGNS]) + text[at + self.number(0, 0, 1, 2) :]
        return text

    def signs(self) -> str:
        return "".join(self.choose(_SIGNS) for _ in range(self.number(*range(6))))

    def number(self, *numbers: int) -> int:
        return int(self.choose([str(each) for each in numbers]))

    def form(self, forms: Sequence[str], depth: int) -> str:
        """One of the forms: L is a list, C a command, W a word, M a program, B a list in backticks, F a file."""
        return re.sub(r"\b[LCWMBF]\b", lambda found: self.part(found[0], depth - 1), self.choose(forms))

    def part(self, sign: str, depth: int) -> str:
        match sign:
            case "L":
                return self.list(depth)
            case "C":
                return self.command(depth)
            case "B":
                return self.list(depth).replace("\\", "\\\\").replace("`", "\\`")
            case "W":
                return self.word(depth)
            case "M":
                return self.program()
            case _:
                return self.choose(_TARGETS)

    def program(self) -> str:
        return self.choose([*HARMLESS, *HARMLESS, *UNKNOWN] if self.unknown else HARMLESS)

    def rarely(self) -> bool:
        return self.number(*range(30)) == 7

    def list(self, depth: int) -> str:
        if depth <= 0:
            return self.simple(depth)
        return self.form(_RARE_LISTS if self.rarely() else _LISTS, depth)

    def command(self, depth: int) -> str:
        if depth <= 0:
            return self.simple(depth)
        return self.form(_RARE_COMMANDS if self.rarely() else _COMMANDS, depth)

    def simple(self, depth: int) -> str:
        names = ["M"] * 12 + ["'M'", "\\M", '"M"', "M''", "M --", "echo"]
        names += [] if self.plain else ["M\\\n", "x=W M", "x=W"]
        parts = [self.form(["${y:-M}", "!M", "$x M"] if self.rarely() else names, depth)]
        parts += [self.word(depth) for _ in range(self.number(0, 1, 1, 2))]
        if not self.plain and self.number(0, 0, 0, 0, 1):
            operator = self.choose(_RARE_REDIRECTS if self.rarely() else _REDIRECTS)
            redirect = operator + self.choose(["", "", " ", "\\\n"]) + self.choose(_TARGETS)
            parts.insert(self.number(*range(len(parts) + 1)), redirect)
        return "".join(part + self.choose(_SPACES) for part in parts[:-1]) + parts[-1]

    def word(self, depth: int) -> str:
        made = ""
        for _ in range(self.number(1, 1, 1, 2, 2, 3)):
            kinds = [_LITERALS, _LITERALS, _QUOTES, _QUOTES, _LITERALS if self.plain else _VALUES]
            made += self.choose(_RARE if self.rarely() else kinds[self.number(0, 1, 2, 3, 4)])
        if depth > 0 and self.number(0, 0, 0, 0, 1):
            made += self.form(["$(L)", "`B`", '"$(L)"', "<(C)", "${x:-`B`}", "$((`B`))", "$(( $(C) ))", '"`B`"'], depth)
        return made
