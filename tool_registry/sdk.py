"""What the official MCP client makes of a tool.

The SDK checks a whole answer against the protocol's types. One tool that breaks them costs its
client the server's whole list, so whoever uses the server with it must know; we keep such a tool
and flag it.
"""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError


def sdk_rejects(raw: dict[str, Any]) -> bool:
    """Say whether the SDK's client would refuse a `tools/list` answer that holds this tool.

    Args:
        raw: an entry of the list, as the server wrote it; not nested too deep.
    """
    # Importing the protocol's types takes a second, and only a crawl needs them.
    from mcp_types.methods import parse_server_result
    from mcp_types.version import LATEST_HANDSHAKE_VERSION

    try:
        parse_server_result("tools/list", LATEST_HANDSHAKE_VERSION, {"tools": [raw]})
    except ValidationError:
        return True
    return False
