"""Random lines, run for real in each shell that is here: what ran and what was written is what was read.

Each program that ran must be among the commands, in its folder and with its arguments, and each file that was made
among the redirections, or there must be a problem. Where the verdict is `allow` without a wall, nothing but
harmless programs ran and no file was made.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolcrib.policy.shell.judge import judge_command
from toolcrib.policy.shell.parts import CommandPlace
from toolcrib.policy.shell.reading import read_script

from .shell_lines import HARMLESS, UNKNOWN, Lines
from .shells import KNOWN, SHELLS, Ground, Ran, missed

BASH, ZSH = "bash", "zsh"
LOCALES = st.sampled_from(["C.UTF-8", "C"])
_checks = settings(deadline=None, suppress_health_check=[*HealthCheck])


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Ground:
    return Ground(tmp_path_factory.mktemp("ground"))


@st.composite
def lines(draw: st.DrawFn) -> str:
    return Lines(lambda several: draw(st.sampled_from(several))).line()


def shell_is_here(shell: str) -> None:
    if shell not in SHELLS:
        pytest.skip(f"{shell} is not installed")


def unseen(text: str, shell: str, ground: Ground, locale: str) -> list[object]:
    """What a shell did with a line and the judge did not see. zsh is only promised where the verdict is `allow`."""
    work, home = str(ground.work), str(ground.folder / "home")
    sh = shell not in (BASH, ZSH)
    script = read_script(text, work, home, sh=sh)
    allowed = judge_command(text, CommandPlace(work, work, home, on_disk=True), sh=sh).verdict == "allow"
    if not allowed and (script.problems or shell == ZSH):
        return []
    ran = ground.run(shell, text, locale)
    found = missed(script, ran) if not script.problems else []
    return [*found, *harm(ran)] if allowed else found


def harm(ran: Ran) -> list[object]:
    return [*(each for each in ran.programs if each[1][0] not in HARMLESS), *ran.files]


@pytest.mark.parametrize("shell", KNOWN)
def test_shells_do_what_was_read(shell: str, ground: Ground) -> None:
    shell_is_here(shell)

    @settings(_checks, max_examples=50)
    @given(lines(), LOCALES)
    def check(text: str, locale: str) -> None:
        assert unseen(text, shell, ground, locale) == []

    check()


@pytest.mark.slow
@pytest.mark.parametrize("shell", KNOWN)
def test_shells_do_what_was_read_in_many_lines(shell: str, ground: Ground) -> None:
    shell_is_here(shell)

    @settings(_checks, max_examples=1_000)
    @given(lines(), LOCALES)
    def check(text: str, locale: str) -> None:
        assert unseen(text, shell, ground, locale) == []

    check()


def test_the_lines_are_worth_running(ground: Ground) -> None:
    """Most of them are read, many are allowed, and many run something."""
    rng = random.Random(3)
    texts = [Lines(rng.choice).line() for _ in range(150)]
    work = str(ground.work)
    place = CommandPlace(work, work, work, on_disk=True)
    read = [text for text in texts if not read_script(text, work, work).problems]
    assert len(read) > 30
    assert sum(judge_command(text, place).verdict == "allow" for text in texts) > 8
    ran = [ground.run(BASH, text) for text in read[:30]]
    assert sum(bool(each.programs) for each in ran) > 15


@pytest.mark.parametrize("shell", SHELLS)
def test_what_was_not_read_is_missed(shell: str, ground: Ground) -> None:
    """The test itself: a program, an argument, a folder and a file that are not in the script are found."""
    work = str(ground.work)

    def seen(read: str, ran: str) -> bool:
        return not missed(read_script(read, work, work), ground.run(shell, ran))

    assert seen("ls $x; cd d && ls 'a b' >f", "ls a; cd d && ls 'a b' >f")
    pairs = [("ls", "ls; mark"), ("ls a", "ls b"), ("ls; cd d", "cd d; ls"), ("ls >f", "ls >g"), ("ls", "ls; >f")]
    assert [pair for pair in pairs if seen(*pair)] == []
    assert {*HARMLESS} & {*UNKNOWN} == set()
