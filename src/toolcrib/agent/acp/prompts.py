"""Reads what an editor sends: the parts of a prompt, and the MCP servers that a session should have."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

from acp import RequestError

from ...core.errors import ConfigError
from ...sources.mcp.config import ServerConfig, server_config
from ..history import IMAGE_TYPES, Content, Image, Text, file_text

MAX_PROMPT = 1 << 20
"""Characters of the texts of one prompt."""


def invalid(text: str) -> RequestError:
    """Return the error for parameters that cannot be used; editors show the message."""
    return RequestError(-32602, text)


def read_prompt(parts: Sequence[Any]) -> tuple[str, list[Content]]:
    """Return the words of a prompt, and its images and the texts of files. Raises RequestError for what the agent does
    not take."""
    texts: list[str] = []
    files: list[Content] = []
    for part in parts:
        match part.type:
            case "text":
                texts.append(part.text)
            case "image":
                files.append(_image(part.data, part.mime_type))
            case "resource_link":
                texts.append(f"[{part.name}]({_place(part.uri)})")
            case "resource":
                files.append(_resource(part.resource))
            case kind:
                raise invalid(f"this agent takes text, images and resources, not {kind}")
    text = "\n\n".join(texts).encode(errors="replace").decode()
    size = len(text) + sum(len(file.text) for file in files if isinstance(file, Text))
    if size > MAX_PROMPT:
        raise invalid(f"the prompt has {size:,} characters; at most {MAX_PROMPT:,} are taken: name files in it")
    if not text.strip() and not files:
        raise invalid("the prompt is empty")
    return text, files


def _resource(resource: Any) -> Content:
    text: str | None = getattr(resource, "text", None)
    if text is None:
        return _image(resource.blob, resource.mime_type or "")
    return file_text(_place(resource.uri), text.encode(errors="replace").decode())


def _image(data: str, mime_type: str) -> Image:
    if mime_type not in (types := IMAGE_TYPES.values()):
        known = ", ".join(dict.fromkeys(types))
        raise invalid(f"{mime_type or 'a file without a type'} is not taken; images are {known}")
    try:
        return Image(base64.b64decode(data, validate=True), mime_type)
    except (binascii.Error, ValueError):
        raise invalid("the data of an image is not base64") from None


def _place(uri: str) -> str:
    """Return the path of a file: address, any other address as it is."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return uri
    return unquote(parts.path) if parts.scheme == "file" and parts.netloc in ("", "localhost") else uri


def read_servers(given: Sequence[Any] | None) -> list[ServerConfig]:
    """Return the settings of the MCP servers of an editor: nothing that they say of themselves is trusted.

    Raises RequestError.
    """
    return [_server(server) for server in given or ()]


def _server(server: Any) -> ServerConfig:
    kind = getattr(server, "type", "stdio")
    values: dict[str, Any]
    if kind == "stdio":
        values = {"command": server.command, "args": server.args, "env": {v.name: v.value for v in server.env}}
    elif kind in ("http", "sse"):
        values = {"url": server.url, "transport": kind, "headers": {h.name: h.value for h in server.headers}}
    else:
        raise invalid(f"the MCP server {server.name!r} is of the type {kind!r}; stdio, http and sse can be used")
    try:
        return server_config(server.name, {**values, "trust": "none"})
    except (ConfigError, ValueError) as error:
        raise invalid(f"the MCP server {server.name!r} cannot be used: {error}") from None
