"""The adapters work with the lowest and with the newest version of their framework that pyproject.toml allows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
NAMES = ["agent-framework", "langchain", "openai-agents", "pydantic-ai", "smolagents"]


@pytest.mark.slow
@pytest.mark.parametrize("newest", [False, True], ids=["lowest", "newest"])
@pytest.mark.parametrize("name", NAMES)
def test_an_adapter_works_with(name: str, newest: bool, tmp_path: Path) -> None:
    wanted = EXTRAS[name] if newest else [re.sub(r">=([\d.]+).*", r"==\1", each) for each in EXTRAS[name]]
    uv = (ROOT / ".tools/uv-path").read_text().strip()
    subprocess.run(
        [uv, "pip", "install", "--quiet", "--python", sys.executable, "--target", tmp_path, *wanted], check=True
    )
    tests = f"tests/adapters/test_{name.replace('-', '_')}.py"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'base'}", tests],
        cwd=ROOT, check=False, text=True, capture_output=True, env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:]
