"""What a person reads of a command line: every part, the worst first, nothing that moves the rest about."""

from hypothesis import given
from hypothesis import strategies as st

from toolcrib.policy.shell.summary import MAX_LINES, summary


def lines(command):
    return summary(command, "/w", "/home/u")


def test_every_part_has_its_line_and_the_worst_comes_first():
    found = lines("ls src; echo hi > out.txt; curl -s https://example.com/a; rm -rf build")
    assert any(line.startswith("`ls src`: lists src") for line in found)
    assert any("writes out.txt" in line for line in found)
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


def test_what_cannot_be_read_says_so():
    assert lines("echo 'unfinished")[0].startswith("! ")


def test_the_same_part_is_said_once():
    assert len(lines("ls; ls; ls")) == 1


@given(st.text(max_size=200))
def test_never_fails_and_never_moves_the_rest_about(command):
    for line in lines(command):
        assert line.isprintable()
