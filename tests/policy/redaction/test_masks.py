"""The way back: a mask is never written over its secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolcrib import Toolbox
from toolcrib.policy.secrets.redact import Redactor

from .samples import CONTEXTS, PEM, TOKENS

redactor = Redactor()


@pytest.mark.parametrize("secret", [*TOKENS.values(), PEM, *(around.format(key) for around, key in CONTEXTS.values())])
def test_each_mask_is_known_again(secret: str) -> None:
    current = f"first = 1\nkey = {secret}\nlast = 2\n"
    assert redactor.lost_by(current, redactor.redact(current).replace("last", "end"))
    assert redactor.lost_by(current, current.replace("last", "end")) is None
    assert redactor.lost_by(current, "first = 1\n") is None


def test_a_mask_that_the_file_holds_is_text() -> None:
    current = f"see {redactor.redact(TOKENS['github'])}\n{TOKENS['github']}\n"
    assert redactor.lost_by(current, current + "more\n") is None
    assert redactor.lost_by("a *** b", "a *** c") is None


async def test_file_tools_refuse_and_edits_beside_it_work(tmp_path: Path) -> None:
    key = TOKENS["github"]
    mask = redactor.redact(key)
    file = tmp_path / "app.conf"
    async with Toolbox.open(tmp_path) as box:
        file.write_text(f"name = a\nkey = {key}\nsize = 1\n")
        head = "*** Begin Patch\n*** Update File: app.conf"
        calls = [
            ("write_file", {"path": "app.conf", "content": f"name = b\nkey = {mask}\nsize = 1\n"}),
            ("edit_file", {"path": "app.conf", "old_text": "name = a", "new_text": f"name = {mask}"}),
            ("edit_file", {"path": "app.conf", "old_text": f"key = {mask}", "new_text": "key = 1"}),
            ("apply_patch", {"patch": f"{head}\n key = {mask}\n-size = 1\n+size = 2\n*** End Patch"}),
        ]
        for name, arguments in calls:
            output = await box.call(name, arguments)
            assert output.is_error and "is in the text" in output.for_llm, output
        good = await box.call("edit_file", {"path": "app.conf", "old_text": "size = 1", "new_text": "size = 2"})
        assert not good.is_error
        assert file.read_text() == f"name = a\nkey = {key}\nsize = 2\n"
        assert not (await box.call("write_file", {"path": "notes.txt", "content": f"the key is {mask}"})).is_error
