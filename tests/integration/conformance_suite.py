"""The official MCP conformance suite: which server scenarios are required, and what it says of a server."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from node_tools import environment, installed, node

PACKAGE, VERSION = "@modelcontextprotocol/conformance", "0.2.0-alpha.12"
STAMP = "-2026-11-21T09-04-33-586Z"
Checks = dict[str, list[dict[str, Any]]]
"""The checks of every scenario that was run, by its name."""

_BOTH = (
    "completion-complete", "tools-list", "tools-call-simple-text", "tools-call-image", "tools-call-audio",
    "tools-call-embedded-resource", "tools-call-mixed-content", "tools-call-error", "tools-call-with-progress",
    "server-sse-multiple-streams", "resources-list", "resources-read-text", "resources-read-binary",
    "resources-templates-read", "prompts-list", "prompts-get-simple", "prompts-get-with-args",
    "prompts-get-embedded-resource", "prompts-get-with-image", "dns-rebinding-protection",
)  # fmt: skip
REQUIRED: dict[str, tuple[str, ...]] = {
    "2025-11-25": (
        *_BOTH, "server-initialize", "logging-set-level", "ping", "tools-call-with-logging", "tools-call-sampling",
        "tools-call-elicitation", "elicitation-sep1034-defaults", "elicitation-sep1330-enums", "resources-subscribe",
        "resources-unsubscribe",
    ),
    "2026-07-28": (
        *_BOTH, "server-stateless", "sep-2164-resource-not-found", "caching", "input-required-result-basic-elicitation",
        "input-required-result-basic-sampling", "input-required-result-basic-list-roots",
        "input-required-result-request-state", "input-required-result-multiple-input-requests",
        "input-required-result-multi-round", "input-required-result-missing-input-response",
        "input-required-result-non-tool-request", "input-required-result-result-type",
        "input-required-result-unsupported-methods", "input-required-result-tampered-state",
        "input-required-result-capability-check", "input-required-result-ignore-extra-params",
        "input-required-result-validate-input",
    ),
}  # fmt: skip
"""The frozen, scored scenarios of each revision; `test_conformance.py` compares them with the suite's own list."""


def _program() -> str:
    return str(installed(PACKAGE, VERSION) / "dist" / "index.js")


def required_by_the_suite(revision: str) -> set[str]:
    """What the suite itself says is required of a server."""
    listed = subprocess.run(
        [node(), _program(), "list", "--requirements", revision], env=environment(), capture_output=True, text=True
    ).stdout
    section = listed.split("Server scenarios")[1].split("Client scenarios")[0]
    return {line.strip(" -") for line in section.splitlines() if line.strip().startswith("- ")}


def ran(url: str, revision: str, folder: Path) -> Checks:
    """Run the scenarios of a revision against a server; about 15 seconds. One that hangs leaves the rest unrun.

    The suite waits 1.5 seconds for some messages. One that warns is run again, alone: that it was late is no finding.
    """
    checks = _run(url, folder, "--requirements", revision)
    for name in [name for name, found in checks.items() if any(check["status"] == "WARNING" for check in found)]:
        checks |= _run(url, folder / name, "--scenario", name, "--spec-version", revision)
    return checks


def _run(url: str, folder: Path, *which: str) -> Checks:
    command = [node(), _program(), "server", "--url", url, *which, "--output-dir", str(folder)]
    with contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run(command, env=environment(), capture_output=True, timeout=180)
    return {  # server-NAME-TIME/checks.json
        path.parent.name.removeprefix("server-")[: -len(STAMP)]: json.loads(path.read_text())
        for path in folder.rglob("checks.json")
    }


def complaints(checks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Failures, and warnings: those say that a SHOULD was not met or that the suite could not try."""
    return [check for check in checks if check["status"] not in ("SUCCESS", "INFO", "SKIPPED")]
