"""OpenAPI: make tools from the operations of an API description."""

from .calling import Api
from .document import OpenApiDocument, OpenApiError
from .operations import server_url
from .tools import api_tools

__all__ = ["Api", "OpenApiDocument", "OpenApiError", "api_tools", "server_url"]
