"""What a person reads of a command line: every part, the worst first, nothing that moves the rest about."""

import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.policy.shell.summary import MAX_LINES, code_of, data_of, links_of, summary


def lines(command):
    return summary(command, "/w", "/home/u")


def test_every_part_has_its_line_and_the_worst_comes_first():
    found = lines("ls src; echo hi > out.txt; curl -s https://example.com/a; rm -rf build")
    assert any(line.startswith("`ls src`: lists src") for line in found)
    assert any("writes to out.txt" in line for line in found)
    assert any("reaches the network: https://example.com/a" in line for line in found)
    assert any("deletes build" in line for line in found)
    assert found[-1].startswith("`ls src`")


def test_what_a_wrapper_runs_is_a_part():
    assert any("deletes x" in line for line in lines("env A=1 sh -c 'rm -rf x'"))


def test_a_danger_among_many_parts_is_not_cut():
    found = lines("; ".join(f"cat {n}.txt" for n in range(200)) + "; sudo rm -rf /")
    assert len(found) == MAX_LINES + 1
    assert "rm -rf /" in "\n".join(found[:3])
    assert "more parts" in found[-1]


@pytest.mark.parametrize("danger", ["rm -rf src", "git push --force", "chmod 777 key", "unheard-of x"])
def test_no_danger_is_behind_many_others_of_another_kind(danger):
    """The line is cut in the middle, and the parts said that those without a line do less."""
    web = [f"curl https://h{n}.example" for n in range(80)]
    found = lines("; ".join([*web[:40], danger, *web[40:]]))
    assert any(line.startswith(f"`{danger}`") for line in found)
    assert len(found) == MAX_LINES + 1 and found[-1] == "… and 56 more parts like these"


def test_of_many_parts_those_without_harm_are_counted():
    found = lines("; ".join(f"echo {n}" for n in range(200)) + "; rm -rf build")
    assert "deletes build" in found[0]
    assert found[3:] == ["… and 198 more parts that do less"]


def test_what_cannot_be_read_says_so():
    assert lines("echo 'unfinished")[0].startswith("! ")


def test_the_same_part_is_said_once():
    assert len(lines("ls; ls; ls")) == 1


@given(st.text(max_size=200))
def test_never_fails_and_never_moves_the_rest_about(command):
    for line in lines(command):
        assert line.isprintable()


FILES = {
    "deploy.sh": "echo good", "bin/run": "echo good", "app/main.py": "import helper", "app/helper.py": "x = 1",
    "top.py": "import util", "util.py": "x = 1", "Makefile": "all:", "package.json": "{}", "notes.txt": "n",
    "app/__main__.py": "1", "Dockerfile": "FROM x", "c.txt": "1",
    "a.js": "1", "in/Makefile": "include more.mk", "in/more.mk": "X=1", "in/package.json": "{}", "in/m.py": "x = 1",
}  # fmt: skip
RUN = {
    "sh deploy.sh": "deploy.sh", "./deploy.sh now": "deploy.sh", "bash -x ./deploy.sh": "deploy.sh",
    ". ./deploy.sh": "deploy.sh", "ls && sudo sh deploy.sh": "deploy.sh", "bin/run": "bin/run",
    "cd bin && ./run": "bin/run", "python3 app/main.py": "app/helper.py", "python3 top.py": "util.py",
    "python3 -m util": "util.py", "make all": "Makefile", "npm run build": "package.json", "node a.js": "a.js",
    "timeout 5 sh deploy.sh": "deploy.sh", "sh -c 'sh deploy.sh'": "deploy.sh",
    "sh < deploy.sh": "deploy.sh", "cat deploy.sh | sh": "deploy.sh", "sh dep*.sh": "deploy.sh",
    'eval "$(<deploy.sh)"': "deploy.sh", 'bash -c "$(cat deploy.sh)"': "deploy.sh", "cp deploy.sh y; sh y": "deploy.sh",
    "while read l; do $l; done < deploy.sh": "deploy.sh", "find bin -name run -exec sh {} \\;": "bin/run",
    "make -C in": "in/more.mk", "make -f in/Makefile -I in": "in/Makefile", "npm --prefix=in run x": "in/package.json",
    "PYTHONPATH=in python3 -m m": "in/m.py", "PATH=$PWD/bin:$PATH run": "bin/run",
    "PATH=$PWD/bin:$PATH; run": "bin/run", "export PATH=$PWD/bin:$PATH; ls; run": "bin/run",
    "export NODE_OPTIONS='-r ./a.js'; node -e 1": "a.js",
    "pip install ./in": "in/m.py", "pip install -r deploy.sh": "deploy.sh",
    "python3 app": "app/__main__.py", "python3 -c 'import util'": "util.py", "node a": "a.js",
    "node -r ./a -e 1": "a.js", "perl -Iapp -MA -e 1": "app/helper.py", "make -I in all": "in/more.mk",
    "docker build .": "Dockerfile", "uvicorn app.main:app": "app/main.py",
    "npx tsx a.js": "a.js", "cat c.txt | sh -s deploy.sh": "c.txt",
    'rm -r -- app "$(cat deploy.sh)"': "deploy.sh", "x=$(<deploy.sh); rm -r app $x": "deploy.sh",
    "read x < deploy.sh; rm -r app $x": "deploy.sh", "rm $(ls in)": "in/m.py", "grep -rh . in | sh": "in/m.py",
    "cp -r in out; sh out/x": "in/m.py",
    "python3 link": "app/__main__.py", "sed s/x/y/ c.txt > new.sh; sh new.sh": "c.txt",
}  # fmt: skip


@pytest.mark.parametrize("command", RUN)
def test_the_files_that_a_command_runs_are_named_with_their_hash(command: str, tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "link").symlink_to("app")

    def line() -> str:
        return code_of(command, str(tmp_path), "/home/me", [str(tmp_path)])

    before = line()
    assert before.startswith(("it runs code of ", "it may run or obey ")) and line() == before
    (tmp_path / "notes.txt").write_text("other")
    assert line() == before
    (tmp_path / RUN[command]).write_text("evil")
    assert line() != before


@pytest.mark.parametrize("command", ["rm -r app", "git push origin deploy.sh", "curl -T notes.txt https://x.org", "ls"])
def test_a_command_that_runs_no_file_of_the_workspace_names_none(command: str, tmp_path: Path) -> None:
    (tmp_path / "deploy.sh").write_text("x")
    assert code_of(command, str(tmp_path), "/home/me", [str(tmp_path)]) == ""


TO_A_LINK = [
    "rm -r build tmp/x", "rm -r build tmp/*", "rm build/x; rm tmp/x", "cd tmp && rm x", "find build tmp/ -delete",
    "for each in build tmp; do rm $each/x; done", "curl -T tmp/x https://x.org", "rm build/x > tmp/x",
    "mytool build tmp/x", "mytool --dir=tmp",
]  # fmt: skip


@pytest.mark.parametrize("command", TO_A_LINK)
def test_where_links_lead_is_said_of_every_path(command: str, tmp_path: Path) -> None:
    def line() -> str:
        return links_of(command, str(tmp_path), "/home/me", [str(tmp_path)])

    for name in ("build", "src", "cache"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x").touch()
    (tmp_path / "tmp").symlink_to("cache")
    assert line() == "tmp leads to cache"
    (tmp_path / "tmp").unlink()
    (tmp_path / "tmp").symlink_to("src")
    assert line() == "tmp leads to src"
    (tmp_path / "tmp").unlink()
    assert line() == ""


def test_many_links_are_bound_by_a_hash(tmp_path: Path) -> None:
    for number in range(9):
        (tmp_path / f"link{number}").symlink_to("src")
    line = links_of("rm link*/x link?", str(tmp_path), "/home/me", [str(tmp_path)])
    assert re.search(r"leads to src and 4 more links \(hash [0-9a-f]{40}\)$", line)


def test_a_hash_is_too_long_to_make_two_files_with_the_same(tmp_path: Path) -> None:
    (tmp_path / "deploy.sh").write_text("x")
    line = code_of("sh deploy.sh", str(tmp_path), "/home/me", [str(tmp_path)])
    assert re.fullmatch(r"it runs code of deploy\.sh \(hash [0-9a-f]{40}\)", line)


def test_a_pipe_is_named_as_what_can_give_anything(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "deploy.sh")
    line = code_of("sh deploy.sh", str(tmp_path), "/home/me", [str(tmp_path)])
    assert line.startswith("it runs code of deploy.sh (no regular file: it can give anything) (hash ")


def test_a_file_with_another_name_is_named_first(tmp_path: Path) -> None:
    for name in "abcde":
        (tmp_path / name).write_text("x")
    os.link(tmp_path / "e", tmp_path / "other")
    line = code_of("sh a; sh b; sh c; sh d; sh e", str(tmp_path), "/home/me", [str(tmp_path)])
    assert line.startswith("it runs code of e (has 2 names: it changes with the others), a, b and 2 more (hash ")


SENT = [
    "curl -T c.txt https://x.org", "curl -d @c.txt https://x.org", "curl -F a=@c.txt https://x.org",
    "curl -d @- https://x.org < c.txt", "cat c.txt | curl -d @- https://x.org", "wget --post-file=c.txt https://x.org",
    "scp c.txt x.org:", "scp c* x.org:", "rsync -a app x.org:y", "tar c app | ssh x.org tar x",
    "gh gist create c.txt", "aws s3 cp c.txt s3://b/", "aws s3 sync app s3://b/", "http POST x.org f@c.txt",
    "curl -b c.txt https://x.org", "kubectl create -f c.txt", "psql -h x.org -f c.txt", "curl -T link/../../c.txt https://x.org",
    "curl -F x=@link/../../c.txt https://x.org",
]  # fmt: skip


@pytest.mark.parametrize("command", SENT)
def test_the_files_that_a_command_sends_are_named_with_their_hash(command: str, tmp_path: Path) -> None:
    (tmp_path / "app" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to("app/deep")
    for name in ("c.txt", "app/a", "notes.txt"):
        (tmp_path / name).write_text("x")

    def line() -> str:
        return data_of(command, str(tmp_path), "/home/me", [str(tmp_path)])

    before = line()
    assert before.startswith("it may send ") and line() == before
    (tmp_path / "notes.txt").write_text("other")
    assert line() == before
    (tmp_path / ("app/a" if "app" in command else "c.txt")).write_text("evil")
    assert line() != before


@pytest.mark.parametrize(
    "command",
    [
        "cat c.txt",
        "curl https://x.org",
        "curl -o c.txt https://x.org",
        "git push",
        "git push x.org c.txt",
        "rsync -a . x.org:",
        "scp /etc/x x.org:",
    ],
)
def test_a_command_that_sends_no_file_names_none(command: str, tmp_path: Path) -> None:
    (tmp_path / "c.txt").touch()
    assert data_of(command, str(tmp_path), "/home/me", [str(tmp_path)]) == ""
