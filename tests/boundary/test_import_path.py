"""The command `toolcrib` imports nothing from a project's folders, not even what Python itself looks for in vain."""

import subprocess
import sys
from pathlib import Path

START = "import sys; sys.path.append(sys.argv.pop(1)); from toolcrib.cli import main; main()"


def test_what_python_looks_for_in_vain_is_not_taken_from_an_editable_installation(tmp_path: Path) -> None:
    for name in ("org", "nt", "_winapi", "java", "vms_lib", "_wmi", "winreg"):
        (tmp_path / f"{name}.py").write_text(f"raise SystemExit('{name} was loaded')\n")
    command = [sys.executable, "-I", "-c", START, str(tmp_path), "--version"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
