"""The person's editor is never a program that tools could have written."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolcrib.cli.editor import in_editor
from toolcrib.policy.starts import Starts


@pytest.mark.parametrize(
    "editor", ["{ws}/tools/ed", "tools/ed", "./tools/ed -w", "sh {ws}/tools/ed", "sh -c 'tools/ed x'"]
)
@pytest.mark.parametrize("there", [True, False])
def test_an_editor_in_the_workspace_is_not_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], editor: str, there: bool
) -> None:
    ws, marker = tmp_path / "ws", tmp_path / "marker"
    program = (ws if there else tmp_path / "own") / "tools" / "ed"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\ntouch '{marker}'\n")
    program.chmod(0o755)
    ws.mkdir(exist_ok=True)
    monkeypatch.chdir(program.parent.parent)
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", editor.format(ws=program.parent.parent))
    text = in_editor(Starts((ws,)), "{}", "arguments.json", "nothing was approved")
    if there:
        assert text is None and not marker.exists()
        assert "tools may write" in capsys.readouterr().err
    elif "-c" not in editor:
        assert text == "{}" and marker.exists()


def test_the_text_lies_where_no_tool_reaches_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TMPDIR may be a folder of the workspace: a command in the background could change what the person approves."""
    ws, editor, seen = tmp_path / "ws", tmp_path / "ed", tmp_path / "seen"
    (ws / "tmp").mkdir(parents=True)
    editor.write_text(f"#!/bin/sh\necho \"$1\" >> '{seen}'\n")
    editor.chmod(0o755)
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", str(editor))
    monkeypatch.setattr("tempfile.tempdir", str(ws / "tmp"))
    assert in_editor(Starts((ws,)), "{}", "a.json", "x") == in_editor(Starts(), "{}", "a.json", "x") == "{}"
    where = seen.read_text().splitlines()
    assert [line.startswith(f"{ws}/") for line in where] == [False, True]
