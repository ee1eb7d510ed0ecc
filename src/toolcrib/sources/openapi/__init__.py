"""OpenAPI: operations of an API description become tools."""

from .calling import Api
from .document import Document, OpenApiError
from .operations import server_url
from .tools import api_tools

__all__ = ["Api", "Document", "OpenApiError", "api_tools", "server_url"]
