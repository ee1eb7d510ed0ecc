"""The pictures of the console's page: the page shows those that the script takes, and the script takes them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "scripts" / "console_screenshots.py"
KEPT = {path.stem for path in (ROOT / "docs" / "console").glob("*.png")}


def test_each_picture_is_shown_and_no_other() -> None:
    page = (ROOT / "docs" / "console.md").read_text()
    taken = set(re.findall(r'take\("([\w-]+)"\)', SCRIPT.read_text())) | {"jobs", "schedules"}  # these two in a loop
    assert set(re.findall(r"\(console/([\w-]+)\.png\)", page)) == KEPT == taken


@pytest.mark.slow
@pytest.mark.integration
@pytest.mark.timeout(400)
def test_the_script_takes_them(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, str(SCRIPT), str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert {path.stem for path in tmp_path.glob("*.png")} == KEPT
    for path in tmp_path.glob("*.png"):
        with Image.open(path) as picture:
            assert picture.size in ((1000, 760), (360, 760)), path
            assert len(picture.convert("RGB").getcolors(1 << 20)) > 8, path  # it is not empty
