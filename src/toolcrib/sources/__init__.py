"""Other people's tools: MCP servers, commands, plugins, OpenAPI."""
