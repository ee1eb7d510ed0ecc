"""The official MCP conformance suite against our client: every required scenario of both revisions.

One scenario at a time: all at once, as the suite would run them, is thirty programs that import the SDK on two cores.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from node_tools import environment, installed, node

pytestmark = [pytest.mark.integration, pytest.mark.slow]

PACKAGE, VERSION = "@modelcontextprotocol/conformance", "0.2.0-alpha.12"
CLIENT = Path(__file__).parent / "conformance_client.py"

# The scenarios that are required (frozen, scored) of a client: 18 and 32.
BOTH = [
    "tools_call",
    "auth/metadata-default",
    "auth/metadata-var1",
    "auth/metadata-var2",
    "auth/metadata-var3",
    "auth/basic-cimd",
    "auth/scope-from-www-authenticate",
    "auth/scope-from-scopes-supported",
    "auth/scope-omitted-when-undefined",
    "auth/scope-step-up",
    "auth/scope-retry-limit",
    "auth/token-endpoint-auth-basic",
    "auth/token-endpoint-auth-post",
    "auth/token-endpoint-auth-none",
    "auth/pre-registration",
]
REQUIRED = {
    "2025-11-25": [
        *BOTH,
        "initialize",
        "elicitation-sep1034-client-defaults",
        "sse-retry",
    ],
    "2026-07-28": [
        *BOTH,
        "request-metadata",
        "auth/resource-mismatch",
        "auth/offline-access-scope",
        "auth/offline-access-not-supported",
        "auth/authorization-server-migration",
        "auth/iss-supported",
        "auth/iss-not-advertised",
        "auth/iss-supported-missing",
        "auth/iss-wrong-issuer",
        "auth/iss-unexpected",
        "auth/iss-normalized",
        "auth/metadata-issuer-mismatch",
        "sep-2322-client-request-state",
        "http-standard-headers",
        "http-custom-headers",
        "http-invalid-tool-headers",
        "json-schema-ref-no-deref",
    ],
}


def test_these_are_all() -> None:
    assert {revision: len(set(names)) for revision, names in REQUIRED.items()} == {"2025-11-25": 18, "2026-07-28": 32}


@pytest.mark.parametrize(("revision", "scenario"), [(r, name) for r, names in REQUIRED.items() for name in names])
def test_scenario(revision: str, scenario: str, tmp_path: Path) -> None:
    suite = installed(PACKAGE, VERSION) / "dist" / "index.js"
    done = subprocess.run(
        [
            node(), str(suite), "client", "--command", f"{sys.executable} {CLIENT}", "--scenario", scenario,
            "--spec-version", revision, "--timeout", "120000", "--output-dir", str(tmp_path),
        ],
        env=environment(), capture_output=True, text=True, timeout=180,
    )  # fmt: skip
    checks = [check for path in tmp_path.rglob("checks.json") for check in json.loads(path.read_text())]
    said = "".join(path.read_text()[-3000:] for path in tmp_path.rglob("stderr.txt"))
    assert checks, done.stderr[-3000:]
    assert [check for check in checks if check["status"] == "FAILURE"] == [], said
