"""MCP servers as a source of tools. `McpServers` is `box.mcp`. The SDK is loaded when the first server is needed."""
