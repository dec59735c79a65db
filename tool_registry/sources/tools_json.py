"""`tools:FILE`: one's own tools as the `tools` list of a chat request, or `{"tools": […]}`.

OpenAI's two forms (with and without `function` around it) and Anthropic's `input_schema` are read.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from synth.core.errors import BadInput
from synth.core.inputs import read_input
from synth.core.mcp.wire import parse
from tool_registry.entries import mcp_entry
from tool_registry.source import Listing, Target, Written

_FORM = '[{"type": "function", "function": {"name": "…", "description": "…", "parameters": {…}}}]'


class ToolsJson:
    """Tools of a user, as models are given them."""

    name = "tools-json"
    example = "tools:FILE"

    def claims(self, text: str) -> bool:
        """Say whether `text` is for this source."""
        return text.startswith("tools:")

    def read(self, text: str) -> Iterable[Written]:
        """Return the one server that stands for the file."""
        path = Path(text.removeprefix("tools:")).expanduser()
        document = parse(read_input(path))
        tools = document.get("tools") if isinstance(document, dict) else document
        if not isinstance(tools, list):
            raise BadInput("no list of tools in it", where=str(path), remedy=f"write {_FORM}")
        listing = Listing(tools=[mcp_entry(tool) for tool in tools])
        return [Written(Target(server=f"tools:{path}", source=self.name), listing)]


SOURCE = ToolsJson()
