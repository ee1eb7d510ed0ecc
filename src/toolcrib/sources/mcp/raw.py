"""One request to a server, and its answer as it came: the SDK's session throws all of it away for one wrong field."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcp.client import ClientSession
    from mcp.shared.dispatcher import ProgressFnT

    from .listed import Json


async def send_raw(session: ClientSession, request: Any, progress: ProgressFnT | None = None) -> Json:
    """Send a request of the SDK's, as `ClientSession.send_request` does (stamps, headers), and give the result unread.

    Raises MCPError as that does.
    """
    data: Json = request.model_dump(by_alias=True, mode="json", exclude_none=True)
    options: Any = {}
    session._stamp(data, options)  # pyright: ignore[reportPrivateUsage]
    if progress is not None:
        options["on_progress"] = progress
    return await session._dispatcher.send_raw_request(  # pyright: ignore[reportPrivateUsage]
        data["method"], data.get("params"), options
    )
