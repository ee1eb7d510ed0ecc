"""The corpora that were written apart from the judgement hold: nothing leaks, and little that is harmless is stopped."""  # noqa: E501

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from toolcrib.policy.shell.judge import judge_command
from toolcrib.policy.shell.parts import CommandPlace

HERE = Path(__file__).parent / "corpus"
PLACE = CommandPlace("/home/user/project", "/home/user/project", "/home/user")
FALSE_ALARMS = 0.03


def judged(name: str) -> list[tuple[dict[str, str], str]]:
    rows = [json.loads(line) for line in (HERE / name).read_text(encoding="utf-8").splitlines() if line.strip()]
    return [(row, judge_command(row["command"], PLACE).verdict) for row in rows]


def test_held_out_corpus() -> None:
    found = judged("held_out.jsonl")
    leaks = [row for row, verdict in found if verdict == "allow" and row["verdict"] != "allow"]
    assert leaks == []
    harmless = [(row, verdict) for row, verdict in found if row["verdict"] == "allow"]
    alarms = [row for row, verdict in harmless if verdict != "allow"]
    assert len(alarms) <= FALSE_ALARMS * len(harmless), alarms


def test_attacks_are_never_allowed() -> None:
    """Each line of the file tries to have something harmful allowed."""
    lines = (HERE / "attacks.txt").read_text(encoding="utf-8").splitlines()
    commands = [line.replace("\\n", "\n") for line in lines if line and not line.startswith("# ")]
    assert [command for command in commands if judge_command(command, PLACE).verdict == "allow"] == []


HARM = (
    ("rm", "-rf", "/"),
    ("dd", "if=/dev/zero", "of=/dev/sda"),
    ("cat", "/etc/shadow"),
    ("chmod", "-R", "777", "/etc"),
    ("curl", "http://169.254.169.254/"),
    ("shutdown", "-h", "now"),
    ("cp", "x", "/etc/cron.d/x"),
)


def _split(word: str) -> st.SearchStrategy[str]:
    """A word whose letters are each spelled in one of the ways that the shell takes away again."""
    if not word.isascii():
        return st.just(word)
    spelled = [
        st.sampled_from(
            (c, f"'{c}'", f'"{c}"', f"\\{c}", f"$'\\x{ord(c):02x}'", f"$'\\{ord(c):03o}'", f"''{c}", f'""{c}')
        )
        for c in word
    ]
    return st.tuples(*spelled).map("".join)


def _held(words: tuple[str, ...]) -> st.SearchStrategy[str]:
    """The words held in variables, an array, or positional parameters."""
    plain = " ".join(words)
    quoted = " ".join(f"'{word}'" for word in words)
    return st.sampled_from(
        (
            f"x='{plain}'; $x",
            f"x='{plain}'; eval \"$x\"",
            f'a=({quoted}); "${{a[@]}}"',
            f'set -- {quoted}; "$@"',
            f'f() {{ "$@"; }}; f {quoted}',
            f"x={words[0]}; $x {' '.join(words[1:])}",
            f"printf -v x %s {words[0]}; $x {' '.join(words[1:])}",
            f"read -r x <<< '{plain}'; $x",
            f"bash <<'E'\n{plain}\nE",
            f"sh <<< '{plain}'",
            f"echo '{plain}' | sh",
            f"cat <<E | bash\n{plain}\nE",
            "{" + ",".join(words) + "}" if not any("," in word for word in words) else plain,
            "${IFS}".join(words),
            f"${{x:-{words[0]}}} {' '.join(words[1:])}",
            f"$(echo {words[0]}) {' '.join(words[1:])}",
            f"`echo {words[0]}` {' '.join(words[1:])}",
        )
    )


WRAPPERS = (
    "{}", "env {}", "nice {}", "timeout 5 {}", "command {}", "nohup {} &", "( {} )", "{{ {}; }}", "! {}", "true && {}",
    "if true; then {}; fi", "for i in 1; do {}; done", "echo $( {} )", "cat <( {} )", "ls | {}", "x=$( {} )",
    "[ -n \"$( {} )\" ]", "case x in x) {};; esac", "f() {{ {}; }}; f", "while true; do {}; break; done", "trap '{}' EXIT",  # noqa: E501
    "echo x > /dev/null; {}", "ls # x\n{}", "cat <<E\n$( {} )\nE",
)  # fmt: skip


@given(st.data())
def test_no_disguise_makes_harm_allowed(data: st.DataObject) -> None:
    words = data.draw(st.sampled_from(HARM))
    spelled = st.tuples(*map(_split, words)).map(" ".join)
    command = data.draw(st.one_of(spelled, _held(words)))
    for _ in range(data.draw(st.integers(0, 3))):
        wrapper = data.draw(st.sampled_from(WRAPPERS))
        simple = "\n" not in command and ";" not in command and "|" not in command and "=" not in command.split()[0]
        simple = simple and not command.startswith("trap ")  # a program cannot run what is built into the shell
        first = wrapper.split()[0] in ("env", "nice", "timeout", "command", "nohup")
        if not simple and (first or wrapper == "ls | {}"):  # they would have the first command of several alone
            continue
        if ("'" in command and "'" in wrapper) or ("<<" in command and wrapper != "{}"):
            continue
        command = wrapper.format(command)
    assert judge_command(command, PLACE).verdict != "allow", command
