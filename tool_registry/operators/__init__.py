"""Operators of evolution: one file each defines `OPERATOR`; see `tool_registry.operator`."""
