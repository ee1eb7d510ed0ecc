"""Path patterns: as git reads a .gitignore, and whose folder they belong to."""

import os
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib.core.errors import ConfigError
from toolcrib.policy.rules import file_patterns
from toolcrib.policy.rules.file_patterns import File, file_pattern, ignores_case, parse_glob


def glob(spec, wide=False):
    return parse_glob(spec, "/w", "/cfg", "/home/me", wide=wide)


@pytest.mark.parametrize(
    ("spec", "path", "fits"),
    [
        ("src/**", "/w/src/a/b.py", True),
        ("src/**", "/w/src", False),
        ("src", "/w/src/a/b.py", True),
        ("src", "/w/deep/src/a", True),
        ("src/*.py", "/w/src/a.py", True),
        ("src/*.py", "/w/src/a/b.py", False),
        ("src/*.py", "/w/lib/src/a.py", False),
        ("*.py", "/w/a/b/c.py", True),
        (".env", "/w/a/.env", True),
        ("./.env", "/w/.env", True),
        ("./.env", "/w/a/.env", False),
        ("**/.env", "/w/.env", True),
        ("/x.md", "/cfg/x.md", True),
        ("/x.md", "/w/x.md", False),
        ("//etc/**", "/etc/passwd", True),
        ("//etc", "/etc", True),
        ("//", "/anything", True),
        ("~/.ssh/**", "/home/me/.ssh/id", True),
        ("~", "/home/me/.ssh/id", True),
        ("~/.ssh/**", "/w/.ssh/id", False),
        (".", "/w/a", True),
        (".", "/v", False),
        ("./", "/w/a", True),
        ("../other/**", "/other/a", True),
        ("**", "/w/a/b", True),
        ("src", "/wsrc", False),
        ("a", "/elsewhere/a", False),
    ],
)
def test_a_pattern_belongs_to_its_folder(spec, path, fits):
    assert glob(spec).match(path) is fits


def test_a_rule_that_refuses_reads_a_leading_dot_slash_at_any_depth():
    assert glob("./.env", wide=True).match("/w/a/.env")
    assert not glob("./.env").match("/w/a/.env")


def test_a_trailing_slash_means_directories():
    assert not glob("build/").match("/w/build")
    assert glob("build/").match("/w/build", is_dir=True)
    assert glob("build/").match("/w/build/a")


@pytest.mark.parametrize("spec", ["!a", "a[", "a\\", "[[:nope:]]", "a\0b", " "])
def test_what_would_never_match_is_an_error(spec):
    with pytest.raises(ConfigError):
        glob(spec)


def test_links_are_followed_in_the_folder_and_in_the_plain_parts(tmp_path):
    (tmp_path / "real" / "in").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "ws").symlink_to("real")
    pattern = parse_glob("//" + str(tmp_path)[1:] + "/link/in/*.txt", "/w", "/w", "/h")
    assert not pattern.match(str(tmp_path / "real/in/a.txt"))
    assert pattern.real(follow=True).match(str(tmp_path / "real/in/a.txt"))
    assert not pattern.real(follow=False).match(str(tmp_path / "real/in/a.txt"))
    below = parse_glob("in/**", str(tmp_path / "ws"), "/w", "/h")
    assert below.real(follow=False).match(str(tmp_path / "real/in/a.txt"))


def test_no_pattern_is_slow():
    assert not glob("**/" + "*a" * 200 + "b").match("/w/" + "a" * 4000)
    assert not glob("**/a/" * 100 + "b").match("/w/" + "a/" * 400 + "a")


# Against git itself

_piece = st.sampled_from(["a", "b", "c", "*", "**", "?", "[ab]", "[!a]", "[a-c]", "[z-a]", "\\*", "\\a", ".", "x", " "])


def _plain_stars(text):
    """No `.` or `..`; and no `a**`, of which git cuts the plain beginning off and so reads another pattern."""
    return text.strip(". ") and "**" not in text


_segment = st.lists(_piece, min_size=1, max_size=4).map("".join).filter(_plain_stars) | st.just("**")
_pattern = st.builds(
    lambda front, parts, back: front + "/".join(parts) + back,
    st.sampled_from(["", "", "/"]),
    st.lists(_segment, min_size=1, max_size=4),
    st.sampled_from(["", "", "/"]),
)
_path = st.lists(
    st.sampled_from(["a", "b", "c", "ab", "abc", "ax", "*", ".a", "x", "z", "a b"]), min_size=1, max_size=4
)


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    root = tmp_path_factory.mktemp("repository")
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    subprocess.run(["git", "init", "-q"], cwd=root, check=True, env=env)
    return root, env


@settings(max_examples=25, deadline=None)
@given(pattern=_pattern, paths=st.lists(_path, min_size=20, max_size=60, unique_by=tuple))
def test_the_same_paths_are_meant_as_by_git(repository, pattern, paths):
    root, env = repository
    (root / ".gitignore").write_text(pattern + "\n")
    names = ["/".join(path) for path in paths]
    asked = subprocess.run(
        ["git", "check-ignore", "--no-index", "-z", "--stdin"],
        cwd=root, env=env, input="\0".join(names).encode(), capture_output=True,
    )  # fmt: skip
    assert asked.returncode in (0, 1), asked.stderr
    meant = set(asked.stdout.decode().split("\0")) - {""}
    compiled = parse_glob(pattern, "/r", "/r", "/h")
    found = {name for name in names if compiled.match(f"/r/{name}")}
    assert found == meant, pattern


@given(st.text(max_size=30))
def test_any_text_is_a_pattern_or_a_configuration_error(text):
    try:
        glob(text).match("/w/a/b")
    except ConfigError:
        pass


def test_case_does_not_count_where_the_file_system_ignores_it(tmp_path, monkeypatch):
    work = tmp_path / "Work"
    (work / "Notes").mkdir(parents=True)
    assert not ignores_case(str(work))  # as on nearly every file system of Linux
    ignores_case.cache_clear()
    monkeypatch.setattr(os.path, "lexists", lambda path: path.casefold() == f"{work}/notes".casefold())
    assert ignores_case(str(work))
    monkeypatch.undo()
    home = str(tmp_path)

    def pattern(spec, allow=False):
        return file_pattern(spec, str(work), str(work), home, allow=allow)

    for spec, path in (("private/**", "PRIVATE/x"), ("Private/[A-C]*", "private/bx"), ("*.PEM", "a/b.pem")):
        one = File(f"{str(work).upper()}/{path}", f"{work}/{path}", "read")
        assert pattern(spec).refuses(one) and not pattern(spec, allow=True).allows(one)
    assert pattern("a/b/**").reaches_below(f"{work}/A")
    monkeypatch.setattr(file_patterns, "ignores_case", lambda folder: False)
    assert not pattern("private/**").refuses(File(f"{work}/PRIVATE/x", f"{work}/PRIVATE/x", "read"))
    ignores_case.cache_clear()
