"""The command of a local server, as a start of the host."""

from __future__ import annotations

from pathlib import Path

from toolcrib.policy.starts import Starts
from toolcrib.sources.mcp.config import server_config
from toolcrib.sources.mcp.server_start import start_of


def test_variables_that_load_something_count(tmp_path: Path) -> None:
    env = {"PYTHONPATH": f"/nowhere:{tmp_path}/lib", "NODE_OPTIONS": "--require ./hook.js", "DATA_DIR": "data"}
    for name in ("lib/server.py", "hook.js", "data/rows.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    start = start_of(server_config("a", {"command": "python3", "args": ["-m", "server"], "env": env}), tmp_path)
    assert start is not None and start.words == ("python3", "-m", "server")
    files = Starts([tmp_path]).host_files([start])
    protected = {"lib/server.py": True, "lib/new.py": True, "hook.js": True, "data/rows.csv": False}
    for name, expected in protected.items():
        assert any(each.is_touched_by(str(tmp_path / name)) for each in files) is expected, name
