"""Command lines are read as people expect: options before and after, repeated, mistyped, numbers, `--`."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib.cli.app import COMMANDS, ROOT
from toolcrib.cli.exit_codes import Usage
from toolcrib.cli.options import Options
from toolcrib.cli.reader import Argument, CliCommand, CommandGroup, Option, group, parameters_of, read

from .conftest import Cli


def grown(
    options: Options,
    name: Annotated[str, Argument("NAME", help="A name.")],
    rest: Annotated[list[str] | None, Argument("REST", help="More.")] = None,
    count: Annotated[int, Option("--count", "-c", minimum=1, help="How many.")] = 3,
    label: Annotated[list[str] | None, Option(help="A label, 100 % free.")] = None,
    color: Annotated[Literal["red", "blue"] | None, Option(help="Which.")] = None,
    dry: Annotated[bool, Option("--dry", "-n", help="Not really.")] = False,
) -> None:
    """Grow things.

    Two paragraphs, 50 % each.
    """
    FOUND.update(locals())


Ident = Annotated[str, Argument("ID", help="Which.")]


def every(options: Options, deep: Annotated[bool, Option("--deep", help="Deeper.")] = False) -> None:
    """List things."""
    FOUND.update(locals())


def one(
    options: Options, ident: Annotated[str, Argument("ID")], deep: Annotated[bool, Option(help="Deep.")] = False
) -> None:
    """Show a thing."""
    FOUND.update(locals())


FOUND: dict[str, Any] = {}
TREE = CommandGroup(
    every,
    "Things.",
    {"grow": "Grow things.", "things": "Things."},
    {
        "grow": CliCommand(grown, without=("json",)),
        "things": group(every, "Things.", {"list": CliCommand(every), "show": CliCommand(one)}, otherwise="show"),
    }.__getitem__,
)


def found(*words: str) -> dict[str, Any]:
    FOUND.clear()
    read(TREE, "tool", words)()
    return dict(FOUND)


def refused(*words: str) -> str:
    with pytest.raises(Usage) as caught:
        found(*words)
    return str(caught.value)


def test_defaults_are_those_of_the_function() -> None:
    expected = {"name": "a", "rest": None, "count": 3, "label": None, "color": None, "dry": False}
    assert found("grow", "a") == {"options": Options(), **expected}


def test_options_stand_anywhere() -> None:
    got = found("-w", "/x", "grow", "-n", "a", "--count", "5", "b", "--mode=observer", "c", "-y")
    assert (got["name"], got["rest"], got["count"], got["dry"]) == ("a", ["b", "c"], 5, True)
    assert got["options"] == Options(workspace="/x", mode="observer", yes=True)


def test_the_last_value_counts_and_a_list_is_repeated() -> None:
    assert found("--mode", "observer", "grow", "a", "--mode", "autonomous")["options"].mode == "autonomous"
    assert found("grow", "a", "-c", "1", "-c", "2")["count"] == 2
    assert found("grow", "a", "--label", "x", "--label=y")["label"] == ["x", "y"]


def test_short_options_are_joined() -> None:
    got = found("grow", "a", "-nyc5", "-w/tmp")
    assert (got["dry"], got["count"], got["options"]) == (True, 5, Options(workspace="/tmp", yes=True))


def test_after_two_dashes_every_word_is_an_argument() -> None:
    assert found("grow", "-n", "--", "-a", "--count", "--", "x")["rest"] == ["--count", "--", "x"]
    assert found("grow", "a", "-")["rest"] == ["-"]


def test_negative_numbers_are_values_and_words() -> None:
    assert "smallest value is 1" in refused("grow", "a", "--count", "-5")
    assert found("grow", "a", "-5", "-0.5")["rest"] == ["-5", "-0.5"]
    assert found("grow", "a", "--label", "-5", "--label=-x")["label"] == ["-5", "-x"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["gorw"], "no command 'gorw'; did you mean grow?"),
        (["things", "xyz", "x"], "no command 'xyz'; there are: list"),
        (["grow", "ls", "-la"], "no option -la; what belongs together is quoted: 'ls -la'"),
        (["grow", "-la", "ls"], "no option -la\n"),
        (["grow", "a", "--color", "blu"], "it can be red or blue, not 'blu'; did you mean blue?"),
        (["grow", "a", "--cuont", "1"], "no option --cuont; did you mean --count?"),
        (["grow", "a", "--coun=1"], "did you mean --count?"),
        (["grow"], "NAME is missing"),
        (["grow", " "], "NAME is empty"),
        (["grow", "-w", "", "a"], "--workspace/-w: it is empty"),
        (["--config=", "grow", "a"], "--config: it is empty"),
        (["grow", "a", "-c", "many"], "'many' is not a whole number"),
        (["grow", "a", "-c", "9999999999"], "'9999999999' is too large"),
        (["grow", "a", "-c", "0"], "smallest value is 1"),
        (["grow", "a", "--color", "green"], "it can be red or blue, not 'green'"),
        (["grow", "a", "--label", "-x"], "is written with ="),
        (["grow", "a", "--dry=1"], "--dry"),
        (["grow", "a", "--json"], "no option --json"),
        (["--json", "grow", "a"], "--json has no meaning"),
        (["things", "--deep", "list", "x"], "unexpected argument 'x'"),
        (["--deep", "grow", "a"], "--deep has no meaning"),
    ],
)
def test_mistakes_are_named(words: list[str], says: str) -> None:
    error = refused(*words)
    assert says in error
    assert "--help`" in error


def test_a_group_has_options_a_default_and_commands() -> None:
    assert found("things", "--deep")["deep"] is True
    assert found("things", "--deep", "list")["deep"] is True  # given before, it counts for the command
    assert found("things", "t1")["ident"] == "t1"
    assert found("things", "-y", "show", "t1", "--json")["options"] == Options(yes=True, json=True)


def test_help_pages_name_everything(capsys: pytest.CaptureFixture[str]) -> None:
    read(TREE, "tool", ["grow", "--help"])()
    text = capsys.readouterr().out
    for part in (
        "NAME [REST ...]",
        "Grow things.",
        "50 % each",
        "100 % free",
        "May be repeated",
        "red|blue",
        "Default: 3",
    ):
        assert part in text
    assert "--workspace DIR" in text
    assert "--json" not in text
    read(TREE, "tool", ["-h"])()
    assert "  grow    Grow things." in capsys.readouterr().out


def test_help_comes_before_faults_of_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    read(TREE, "tool", ["grow", "--help"])()
    assert "usage: tool grow" in capsys.readouterr().out


def _leaves(command: CliCommand | CommandGroup) -> list[CliCommand | CommandGroup]:
    if isinstance(command, CliCommand):
        return [command]
    return [command, *(leaf for name in command.summaries for leaf in _leaves(command.load(name)))]


def test_every_declaration_is_whole() -> None:
    for command in _leaves(ROOT):
        parameters = parameters_of(command)
        assert len({p.name for p in parameters}) == len(parameters)
        flags = [flag for p in parameters for flag in p.flags]
        assert len(set(flags)) == len(flags)
        assert all(p.mark.help for p in parameters), command
        assert not [p.name for p in parameters if p.default and "Default:" in p.mark.help], "the page says it itself"
        assert isinstance(command, CliCommand) or all(text.endswith(".") for text in command.summaries.values())
        words = [p for p in parameters if not p.flags]
        assert not any(p.repeated for p in words[:-1])


WORDS = [
    *COMMANDS, "read_file", "path=a", "k:=1", "5", "-1", "--", "-", "", "x y", "-x y", "--json", "--json={}", "--js",
    "--search", "--limit=3", "--limit=x", "-n", "-o", "-ojson", "-w", "-w/tmp", "--mode=assistant", "-y", "-yn",
    "--nope", "\x00", "%",
]  # fmt: skip


@given(st.lists(st.sampled_from(WORDS), max_size=7))
@settings(max_examples=300, deadline=None)
def test_any_line_is_read_or_a_usage_error(words: list[str]) -> None:
    with contextlib.suppress(Usage):
        read(ROOT, "toolcrib", words)


def loaded_by(cli: Cli, *args: str) -> set[str]:
    """The modules that a command line has loaded, in a process of its own."""
    code = (
        "import sys\nfrom toolcrib.cli import main\n"
        f"try: main({list(args)!r})\nexcept SystemExit as end: assert not end.code, end.code\n"
        "import json; print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=cli.work, env=cli.env
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stderr.splitlines()[-1]))
