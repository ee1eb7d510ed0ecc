"""OpenAPI: operations of an API description become tools."""
