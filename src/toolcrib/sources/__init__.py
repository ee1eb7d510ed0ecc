"""Tools from other sources: MCP servers, commands, plugins, OpenAPI."""
