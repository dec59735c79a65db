"""Calls that never reach the environment: of tools that are not there, or that nobody can read."""

from __future__ import annotations

from collections.abc import Collection

import orjson

from synth.core.types import CallError, ToolCall, ToolResult


def refusal(call: ToolCall, tools: Collection[str]) -> ToolResult | None:
    """Return the error of a call that never reaches the environment, or None.

    Args:
        call: what an agent wrote.
        tools: names of the tools it has.
    """
    if call.name in tools:
        return unreadable(call)
    known = ", ".join(sorted(tools)) or "none"
    return _failed("unknown_tool", f"No tool {call.name!r}. Tools: {known}.")


def unreadable(call: ToolCall) -> ToolResult | None:
    """Return the error of a call whose arguments nobody can read, or None.

    Args:
        call: what an agent or a user wrote.
    """
    if call.value is not None:
        return None
    return _failed("invalid_arguments", "The arguments are not a JSON object.")


def _failed(code: str, message: str) -> ToolResult:
    error = CallError(code=code, message=message)
    content = orjson.dumps({"error": error.code, "message": error.message}).decode()
    return ToolResult(ok=False, content=content, error=error)
