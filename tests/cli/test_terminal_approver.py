"""The queue of questions at the terminal: one at a time, in the order in which their calls came."""

import asyncio

import pytest

from toolcrib.cli import show
from toolcrib.cli import terminal_approver as module
from toolcrib.cli.terminal_approver import TerminalApprover
from toolcrib.core.errors import ToolError
from toolcrib.policy.requests import ApprovalRequest


def request(number):
    return ApprovalRequest(
        f"ap_{number}", "c", "wipe", "destructive", {"path": str(number)}, f"wipe {number}", "it asks", "wipe", "d",
        None, float(number), 4e9,
    )  # fmt: skip


@pytest.fixture
def asked(monkeypatch, capsys):
    """Lines that a person types, by turn; what is shown is kept."""
    shown = []
    typed = asyncio.Queue()

    async def line(self, prompt):
        return await typed.get()

    monkeypatch.setenv("TERM", "dumb")  # lines, not keys
    monkeypatch.setattr(TerminalApprover, "_line", line)
    monkeypatch.setattr(module, "_forget_typed_ahead", lambda: None)
    monkeypatch.setattr(module, "present", lambda r, number, of: shown.append((r.id, number, of)))
    return shown, typed


async def test_the_oldest_is_asked_first_and_each_says_how_many_there_are(asked):
    shown, typed = asked
    door = TerminalApprover()
    tasks = [asyncio.ensure_future(door(request(number))) for number in (2, 3, 1)]
    for answer in ("y", "n", "y"):
        typed.put_nowait(answer)
    decisions = await asyncio.gather(*tasks)
    assert shown == [("ap_1", 1, 3), ("ap_2", 2, 3), ("ap_3", 3, 3)]
    assert [decision.approve for decision in decisions] == [False, True, True]
    typed.put_nowait("y")
    await door(request(4))
    assert shown[-1] == ("ap_4", 1, 1)


async def test_a_closed_terminal_is_no_answer(asked, monkeypatch):
    async def closed(self, prompt):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(TerminalApprover, "_line", closed)
    assert await TerminalApprover()(request(1)) is None


async def test_one_that_was_answered_elsewhere_leaves_the_queue(asked, capsys):
    shown, typed = asked
    door = TerminalApprover()
    tasks = [asyncio.ensure_future(door(request(number))) for number in (1, 2, 3)]
    while not shown:
        await asyncio.sleep(0.01)
    tasks[1].cancel()  # never shown
    tasks[0].cancel()
    await asyncio.gather(*tasks[:2], return_exceptions=True)
    assert capsys.readouterr().err.count("no longer waits") == 1
    typed.put_nowait("y")
    assert (await tasks[2]).approve
    assert [ident for ident, _, _ in shown] == ["ap_1", "ap_3"]


async def test_only_what_is_offered_is_taken(asked, capsys):
    _, typed = asked
    for answer in ("a", "s later", "yes please", "e {", "e [1]", "\n", "e {}"):
        typed.put_nowait(answer)
    decision = await TerminalApprover()(request(1))
    assert (decision.approve, decision.arguments, decision.scope) == (True, {}, "once")
    assert capsys.readouterr().err.count("Please answer with one key: y yes, n no, ") == 4


async def test_a_tool_asks_until_an_option_is_meant(asked):
    _, typed = asked
    door = TerminalApprover()
    for line in ("x\n", "\n", "dec\n", "accept\n", " some text \n"):
        typed.put_nowait(line)
    assert await door.ask("Which?", ("accept", "decline")) == "decline"
    assert await door.ask("Which?", ("accept", "accept all")) == "accept"
    assert await door.ask("What?") == "some text"
    typed.put_nowait("")
    with pytest.raises(ToolError):
        await door.ask("What?")


async def test_an_option_cannot_look_like_a_question_of_ours(monkeypatch):
    shown = []

    async def line(self, prompt):
        shown.append(prompt)
        return "1\n"

    monkeypatch.setattr(TerminalApprover, "_line", line)
    monkeypatch.setattr(module, "_forget_typed_ahead", lambda: None)
    await TerminalApprover().ask("Which?", ("a]\r\x1b[2Kexec wants to run\nRun it? [y]es", "b"))
    assert shown == ["[a]\\r\\x1b[2Kexec wants to run\\nRun it? [y]es / b] "]


def test_the_words_that_a_diff_changes_are_marked(monkeypatch, capsys):
    monkeypatch.setattr(show, "coloured", lambda stream: True)
    monkeypatch.setattr(show, "wrapped", lambda line, words, margin: [line[:8], line[8:]])  # a narrow terminal
    module.preview("@@ -1 +1 @@\n-total = net + tax\n+total = gross + tax")
    shown = capsys.readouterr().err.replace("\x1b[36m  │ \x1b[0m", "").replace("\x1b[0m", "|").splitlines()
    assert shown[2:] == [
        "\x1b[31m-total =|", "\x1b[31m |\x1b[31;7mnet|\x1b[31m + tax|",
        "\x1b[32m+total =|", "\x1b[32m |\x1b[32;7mgross|\x1b[32m + tax|",
    ]  # fmt: skip
