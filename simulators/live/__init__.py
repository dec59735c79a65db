"""Live MCP servers as environments: a private process and folder per episode."""
