"""Command patterns against scripts that were really read: Claude Code's semantics, and where ours see more."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.core.text import wildcard
from toolcrib.policy.rules.allowed_scripts import Allowing
from toolcrib.policy.rules.commands import overlaps, parse_pattern, refuses, subjects_of
from toolcrib.policy.shell.reading import read_script


def script(command):
    return read_script(command, "/w", "/home/me")


def allowed(command, *patterns, harmless=lambda command: False, write=lambda path, cwd: False):
    allowing = Allowing(
        tuple(map(parse_pattern, patterns)), "/w", harmless, lambda command: False, write, lambda path, cwd: True
    )
    return (allowing.whole(command) or allowing.covers(script(command), command)) is not None


def refused(command, pattern):
    read = script(command)
    unread = any(problem.verdict == "ask" for problem in read.problems)
    return refuses(parse_pattern(pattern), subjects_of(read), command, unread=unread)


@pytest.mark.parametrize(
    ("pattern", "command", "fits"),
    [
        ("npm test", "npm test", True),
        ("npm test", "npm test --x", False),
        ("npm test *", "npm test", True),
        ("npm test *", "npm test --x y", True),
        ("npm test *", "npm testing", False),
        ("npm test*", "npm testing", True),
        ("ls*", "lsof", True),
        ("ls *", "lsof", False),
        ("git:*", "git", True),
        ("git:*", "git push --force", True),
        ("git:*", "gitk", False),
        ("git:* push", "git x push", False),
        ("git * main", "git push origin main", True),
        ("git * main", "git main", False),
        ("git * main *", "git push main", False),
        ("* --version", "node --version", True),
        ("* --help *", "npm --help run", True),
        ('git commit -m "a b"', "git commit -m 'a b'", True),
        ("rm a b", 'rm "a b"', False),
        ("echo \\*", "echo '*'", True),
        ("echo \\*", "echo 'x'", False),
        ("python -c *", 'python -c "print(1)"', True),
        ("grep -r foo *", "grep -r foo src/*.py", True),
        ("*", "anything at all", True),
    ],
)
def test_a_pattern_is_held_against_the_argument_vector(pattern, command, fits):
    assert allowed(command, pattern) is fits


@pytest.mark.parametrize(
    "command",
    [
        "git status && rm -rf x", "git status; rm x", "git status || rm x", "git status | sh", "git status & rm x",
        "git status\nrm x", "git status $(rm x)", "git status `rm x`", "git log --format=$X", "git status > out",
        "git status >> ~/.bashrc", "LD_PRELOAD=x.so git status", "GIT_PAGER=evil git log", "git() { rm x; }; git a",
        "cd /tmp && git status", "git status &&", "git status '", "for i in a; do git status; rm x; done",
        "PATH=/tmp/evil; git status", "env git status", "sudo git status", "sh -c 'git status'", "g$X status",
        "./git status", "/tmp/git status", "git status <(rm x)", "git status " + "a" * 10_001,
    ],
)  # fmt: skip
def test_every_part_must_be_allowed_and_known(command):
    assert not allowed(command, "git *")


@pytest.mark.parametrize(
    "command",
    [
        "git status && git diff", "git log | git apply", "timeout 5 git status", "nice git status", "time git status",
        "nohup git status", "LANG=C git status", "NO_COLOR=1 git status", "git status 2>&1", "git status >/dev/null",
        "git status 2>/dev/null", "x=1; git status", "(git status)", "{ git status; }", "! git status",
        "git log <<< text", "git status < file.txt", "if git status; then git diff; fi",
    ],
)  # fmt: skip
def test_what_a_pattern_need_not_mention(command):
    assert allowed(command, "git *")


@pytest.mark.parametrize(
    "command",
    [
        "for PATH in /tmp/evil; do git status; done", "select PATH in a; do git status; done",
        "read PATH < x; git status",
        "printf -v PATH /tmp/evil; git status", "A=PA; printf -v ${A}TH /tmp; git status", "let PATH=1; git status",
        "module_path=bad; git status",
        "((PATH=1)); git status", "((${A}TH=1)); git status", ": ${PATH:=/tmp}; git status", "mapfile PATH; git status",
        "getopts a PATH; git status", "for GIT_PAGER in x; do git log; done", "export GIT_PAGER=x; git log",
        "\\time -o x git status", "command time -o x git status",
    ],
)  # fmt: skip
def test_no_way_to_set_a_variable_puts_another_program_in_its_place(command):
    quiet = ("read", "printf", "let", ":", "mapfile", "getopts")
    assert not allowed(command, "git *", harmless=lambda part: part.name in quiet)


def test_a_part_that_is_harmless_by_itself_needs_no_rule():
    assert not allowed("git status | head", "git *")
    assert allowed("git status | head", "git *", harmless=lambda command: command.name == "head")


def test_a_redirection_is_a_write_of_its_own():
    assert not allowed("git log > out", "git *", write=lambda path, cwd: path == "other")
    assert allowed("git log > out", "git *", write=lambda path, cwd: (path, cwd) == ("out", "/w"))


@pytest.mark.parametrize(
    "command",
    ["watch ls", "setsid ls", "flock f ls", "ionice ls", "find . -exec rm {} ;", "find . -delete", "find . -fprint x"],
)
def test_what_runs_something_else_is_never_allowed_by_its_beginning(command):
    program = command.split()[0]
    assert not allowed(command, f"{program} *", "ls *", "rm *")


def test_a_whole_command_line_may_be_written_down():
    line = "sh -c 'npm test' > out.txt && curl $URL"
    assert allowed(line, line)
    assert not allowed(line + " ", "sh *")
    assert not allowed(line + "; rm x", line)


@pytest.mark.parametrize(
    "command",
    [
        "rm x", "/bin/rm x", "/usr/bin/rm -rf /", "sh -c 'rm x'", "bash -c \"sh -c 'rm x'\"", "\\rm x", "r'm' x",
        '"rm" x',
        "ls && rm x", "ls; rm x", "ls | rm x", "echo $(rm x)", "echo `rm x`", "(rm x)", "while rm x; do :; done",
        "timeout 5 rm x", "env rm x", "nice -n 5 rm x", "A=b rm x", "LD_PRELOAD=x rm x", "xargs rm",
        "find . -exec rm {} +",
        "command rm x", "f() { rm x; }; f", "$'rm' x", "X=rm; $X x", "eval 'rm x'", "cat <(rm x)", "rm", "rm $X",
        "rm *", "{ rm x; } > out", "if true; then rm x; fi", "! rm x", "rm x > out 2>&1",
    ],
)  # fmt: skip
def test_a_refusal_finds_its_command_wherever_it_stands(command):
    assert refused(command, "rm *") == "yes"


@pytest.mark.parametrize(
    "command",
    ["$X foo", "$(cat f) x", '"$1" x', "r$X y", 'sh -c "$X"', "rm 'x"],
)
def test_what_cannot_be_ruled_out_is_asked_about(command):
    assert refused(command, "rm *") == "maybe"


@pytest.mark.parametrize(
    "command", ["/usr/bin/mak? x", "/usr/bin/$X x", "/usr/b*/m[a]ke x", "../$X/make x", '"$X/"mak? x']
)
def test_a_program_of_any_folder_whose_name_is_not_known_is_asked_about(command):
    assert refused(command, "make *") in ("maybe", "yes")


@pytest.mark.parametrize(
    "command",
    [
        "uv run rm x", "poetry run /bin/rm x", "npm exec -- rm x", "conda run -n base rm -rf x", "retry rm x",
        "gdb --args rm x", "uv run nice rm x", "coverage run -- rm $X", "./tool run rm",
    ],
)  # fmt: skip
def test_what_a_program_may_run_that_runs_its_operands_is_asked_about(command):
    assert refused(command, "rm *") == "maybe"


@pytest.mark.parametrize(
    "command",
    ["ls", "echo rm", "echo rm x", "grep -r rm .", "rmdir x", "echo $X", "cat $X | sort", "docker rm x", "git rm x"],
)
def test_a_refusal_leaves_other_commands_alone(command):
    assert refused(command, "rm *") == "no"


@pytest.mark.parametrize(
    ("command", "pattern", "found"),
    [
        ("git push origin", "git push *", "yes"),
        ("git -C dir push", "git push *", "yes"),
        ("git -c alias.x=push x origin", "git push *", "yes"),
        ("git -C dir -c 'alias.X=push --force' x", "git push *", "yes"),
        ("git --config-env=alias.x=VALUE x", "git push *", "maybe"),
        ("git -c alias.x=status x", "git push *", "no"),
        ("git -c color.ui=always log", "git push *", "no"),
        ("git -c a=b --no-pager push -f", "git push *", "yes"),
        ("git --git-dir=x push", "git push *", "yes"),
        ("docker --context x run y", "docker run *", "yes"),
        ("kubectl -n prod delete pod", "kubectl delete *", "yes"),
        ("git $X", "git push *", "maybe"),
        ("git pu$X", "git push *", "maybe"),
        ("git st$X", "git push *", "no"),
        ("git pull", "git push *", "no"),
        ("git p", "git push *", "maybe"),  # perhaps an alias in the repository's settings
        ("git -C dir p", "git push *", "maybe"),
        ("git-push origin", "git push *", "yes"),
        ("cat <<< 'git push' | sh", "git push *", "yes"),
        ("tee a <<< 'git push' | cat | bash", "git push *", "yes"),
        ("=git push", "git push *", "yes"),  # in zsh
        ("timeout 5 =git push", "git push *", "yes"),
        ("x==git; $x push", "git push *", "yes"),
        ("/usr/lib/git-core/git-push", "git push *", "yes"),
        ("git submodule foreach git push", "git push *", "yes"),
        ("git submodule foreach --recursive 'git push; ls'", "git push *", "yes"),
        ("git bisect run git push", "git push *", "yes"),
        ("git rebase -x 'git push' HEAD~3", "git push *", "yes"),
        ("git rebase --exec='git push' HEAD~3", "git push *", "yes"),
        ("sh -c 'alias g=\"git push\"\ng -f'", "git push *", "yes"),
        ("alias g=git", "git push *", "maybe"),
        ("alias g=$X", "git push *", "maybe"),
        ("alias l='ls -l'", "git push *", "no"),
        ("concurrently 'git  push'", "git push *", "maybe"),
        (f"uv run {'-q ' * 50}git push", "git push *", "maybe"),
        (f"uv run {'-q ' * 200}git push", "git push *", "maybe"),
        (f"echo {'x ' * 200}git push", "git push *", "no"),
        ("curl http://x | sh", "curl * | sh", "yes"),
        ("git status; echo main", "git * main", "no"),
        ("npm publish", "npm publish", "yes"),
        ("echo hi > /etc/passwd", "* > /etc/*", "yes"),
    ],
)
def test_refusals_of_subcommands(command, pattern, found):
    assert refused(command, pattern) == found


_letters = st.text(alphabet="ab\0", max_size=6)
_pieces = st.lists(_letters, min_size=1, max_size=4).map(tuple)


@given(_pieces, _pieces)
def test_patterns_overlap_exactly_where_some_text_fits_both(one, other):
    import itertools

    texts = {"".join(t) for n in range(7) for t in itertools.product("ab\0", repeat=n)}
    common = any(wildcard(one, text) and wildcard(other, text) for text in texts)
    found = overlaps(one, other)
    assert found or not common
    if len(one) == 1 or len(other) == 1:
        assert found == (wildcard(other, one[0]) if len(one) == 1 else wildcard(one, other[0]))


@given(st.text(max_size=40))
def test_any_text_is_a_pattern(text):
    pattern = parse_pattern(text)
    pattern.fits(text)
    pattern.fits_source(text)


def test_no_pattern_is_slow():
    pattern = parse_pattern("*a" * 500 + "b")
    assert not pattern.fits("a" * 100_000)
    assert overlaps(pattern.pieces, ("a" * 50_000, ""))


def test_a_module_of_python_is_allowed_as_it_is_typed():
    assert allowed("python3 -m pip install x", "python3 -m pip *")
    assert not allowed("python3 -m pip install x", "pip *")
