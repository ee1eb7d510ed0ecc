"""What another server says reaches our clients without secrets."""

from __future__ import annotations

from mcp.shared.exceptions import MCPError
from mcp_types import LoggingMessageNotificationParams

from toolcrib.policy.secrets.redact import Redactor
from toolcrib.serve.sanitize import sanitize_error, sanitize_model

NAMED = {"SecretAccessKey": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYzzzzzzKEYq"}


def test_what_a_name_says_to_be_a_secret_is_hidden_in_logs_and_errors() -> None:
    redact = Redactor().redact
    logged = sanitize_model(LoggingMessageNotificationParams(level="info", data=NAMED), redact)
    assert logged.data == sanitize_error(MCPError(1, "x", NAMED), redact).error.data
    assert logged.data == {"SecretAccessKey": "wJal***KEYq"}
