"""Rules tried on calls of the past, and rules drawn from a person's answers."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence

import pytest

from toolcrib.config import load_settings
from toolcrib.hosts.judging import without_walls
from toolcrib.policy.rules.rule_grammar import parse_rule
from toolcrib.policy.rules.rule_history import PastCall, Person, changes, past_call, suggestions
from toolcrib.toolbox import Toolbox
from toolcrib.toolbox.build import build


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Toolbox:
    folder = tmp_path_factory.mktemp("history")
    (folder / "work").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        patch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
        return Toolbox(build(without_walls(load_settings(workspace=folder / "work"), {})))


def call(box: Toolbox, tool: str, arguments: str, person: Person = "", denied: bool = False) -> PastCall:
    found = past_call(box.registry, box.context, "c", tool, arguments, person, denied or person == "no")
    assert found is not None
    return found


def command(box: Toolbox, text: str, person: Person = "") -> PastCall:
    return call(box, "exec", f'{{"command": "{text}"}}', person)


def texts(box: Toolbox, calls: Sequence[PastCall]) -> list[str]:
    return [each.rule.text for each in suggestions(calls, box.policy)]


def test_a_rule_is_tried(box: Toolbox) -> None:
    calls = [command(box, "npm run a"), command(box, "npm run b; rm -rf x"), command(box, "ls"),
             call(box, "mcp__github__get", "{}")]  # fmt: skip
    (found,) = changes(calls, box.policy, [parse_rule("Bash(npm run *)", "allow")])
    assert (found.call, found.before, found.after) == (calls[0], "ask", "allow")
    (found,) = changes(calls, box.policy, [parse_rule("Bash(ls)", "deny")])
    assert (found.before, found.after) == ("allow", "deny")
    (found,) = changes(calls, box.policy, [parse_rule("mcp__github__*", "allow")])
    assert found.call is calls[3]


def test_arguments_that_are_not_there_in_full(box: Toolbox) -> None:
    for text in (None, "", '{"command": "ls', "[]", "1"):
        assert past_call(box.registry, box.context, "c", "exec", text) is None


def test_suggestions_are_few_and_narrow(box: Toolbox) -> None:
    yes = [command(box, f"npm run {name}", "yes") for name in ("lint", "test", "build")]
    assert texts(box, yes) == ["exec(npm run *)"]
    assert texts(box, yes[:1]) == ["exec(=npm run lint)"]  # one call says nothing of others
    no = command(box, "npm run deploy", "no")
    assert sorted(texts(box, [*yes, no])) == [f"exec(=npm run {name})" for name in ("build", "lint", "test")]
    asked = [call(box, "mcp__github__create_issue", f'{{"title": "{n}"}}', "yes") for n in "ab"]
    assert texts(box, asked) == ["mcp__github__create_issue"]


def test_what_was_answered_both_ways_is_not_suggested(box: Toolbox) -> None:
    assert not texts(box, [command(box, "npm run x", "yes"), command(box, "npm run x", "no")])


WORDS = ("npm run lint", "npm run deploy", "npm test", "make all", "make clean", "python a.py", "cargo build --release",
         "docker compose up", "docker compose down", "curl https://a.example.com", "rm -rf build", "./run")  # fmt: skip


def history(box: Toolbox, rng: random.Random, count: int) -> list[PastCall]:
    """Calls of a person who says yes to some kinds of commands always, to others never, and to some now and then."""
    of = {words: rng.choice(("yes", "yes", "no", "mixed")) for words in WORDS}
    found: list[PastCall] = []
    for _ in range(count):
        words = rng.choice(WORDS)
        text = words + rng.choice(["", f" {rng.choice('abcd')}", " --fix", "; rm -rf x", " && ls"])
        said = rng.choice(("yes", "no")) if of[words] == "mixed" else of[words]
        found.append(command(box, text, said))  # type: ignore[arg-type]
    return found


def test_no_suggestion_allows_what_was_ever_denied(box: Toolbox) -> None:
    rng = random.Random(19)
    for _ in range(int(os.environ.get("HISTORIES", "15"))):
        calls = history(box, rng, rng.randrange(5, 40))
        for each in suggestions(calls, box.policy):
            only = box.rules.only([each.rule])
            for one in calls:
                if one.denied:
                    found = only.match(one.tool, one.arguments, one.ctx)
                    assert found is None or found.verdict != "allow", (each.rule.text, one.arguments)


def test_most_questions_are_spared(box: Toolbox) -> None:
    calls = history(box, random.Random(5), 2_000)
    denied = {str(one.arguments) for one in calls if one.denied}
    always = {str(one.arguments) for one in calls if not one.denied} - denied
    spared = {str(one.arguments) for each in suggestions(calls, box.policy) for one in each.calls}
    assert len(spared & always) >= 0.8 * len(always)
