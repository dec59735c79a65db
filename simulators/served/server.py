"""An environment in the words of the Model Context Protocol (2025-11-25 and 2026-07-28).

Tools are the environment's, with their schema; what each does to the world is told in annotations.
A failed call is a result with `isError` and the very text that agents see in our own episodes; an
object comes as structured content too. A tool that does not exist, and a broken environment, are
errors of the protocol, as the specification has it.

The policy is the server's `instructions`, because clients show these to their model, and a
resource, because instructions are cut short by some. Resources:

    toolloom://policy     what the agent must keep to
    toolloom://diff       the net change of the state so far: a JSON array, one changed row a line
    toolloom://episode    seed, how often it began, calls so far

To start over is a tool, `toolloom_start_over`, and not a resource: reading must change nothing,
and clients read resources unasked to fill a context, while most models cannot read any by
themselves. Tools are what every client has, and people can switch off a single one there. Its name
has only the characters that every model's API takes. An agent that is to be measured should not
have it (`--no-start-over`); a new session is a new episode either way, and `toolloom://episode`
says how often one began.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

import orjson
from mcp import MCPError, types
from mcp.server import Server
from mcp.server.context import ServerRequestContext

from simulators.served.episode import MAX_SEED, START_OVER, Episode
from synth.core.errors import ToolloomError
from synth.core.types import Effect, ToolResult, ToolSpec

POLICY, DIFF, EPISODE = "toolloom://policy", "toolloom://diff", "toolloom://episode"
NO_RESOURCE = -32002
"""The specification's code for a resource that does not exist, up to 2025-11-25."""
_Context = ServerRequestContext[Episode]
_HINTS = {
    Effect.READ: types.ToolAnnotations(
        read_only_hint=True, destructive_hint=False, idempotent_hint=True
    ),
    Effect.WRITE: types.ToolAnnotations(read_only_hint=False, destructive_hint=False),
    Effect.DESTRUCTIVE: types.ToolAnnotations(read_only_hint=False, destructive_hint=True),
    Effect.UNKNOWN: types.ToolAnnotations(),
}
_START_OVER = types.Tool(
    name=START_OVER,
    title="Start over",
    description=(
        "Not part of the application: undo everything and begin this episode again, in the same "
        "state or, with a seed, in another one. For who runs the episode, not for its agent."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "seed": {
                "type": "integer",
                "minimum": 0,
                "maximum": MAX_SEED,
                "description": "Names the state to begin with; default: the present one",
            }
        },
        "additionalProperties": False,
    },
    annotations=types.ToolAnnotations(
        read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False
    ),
)
_RESOURCES = (
    types.Resource(
        name="policy",
        uri=POLICY,
        description="What the agent must keep to",
        mime_type="text/markdown",
    ),
    types.Resource(
        name="diff",
        uri=DIFF,
        description="Net change of the state since the episode began",
        mime_type="application/json",
    ),
    types.Resource(
        name="episode",
        uri=EPISODE,
        description="Seed, how often the episode began, calls so far",
        mime_type="application/json",
    ),
)


def mcp_server(played: Episode) -> Server[Episode]:
    """Return the server of one episode, for any number of connections to it."""

    @asynccontextmanager
    async def lent(_: Server[Episode]) -> AsyncIterator[Episode]:
        yield played

    return Server(
        f"toolloom-{played.offer.name}",
        version=version("toolloom"),
        title=played.offer.name.replace("_", " "),
        instructions=played.offer.policy or None,
        lifespan=lent,
        on_list_tools=_list_tools,
        on_call_tool=_call_tool,
        on_list_resources=_list_resources,
        on_list_resource_templates=_list_templates,
        on_read_resource=_read_resource,
    )


def as_tool(spec: ToolSpec, *, real: bool = False) -> types.Tool:
    """Return a tool as clients list it.

    Args:
        spec: the tool.
        real: its environment reaches out of itself.
    """
    returns = spec.returns if (spec.returns or {}).get("type") == "object" else None
    return types.Tool(
        name=spec.name,
        description=spec.description,
        input_schema=spec.parameters,
        output_schema=returns,
        annotations=_HINTS[spec.effect].model_copy(update={"open_world_hint": real}),
    )


def as_result(result: ToolResult) -> types.CallToolResult:
    """Return what a call came to as clients get it: the text to the letter, and its object."""
    value = _object(result.content) if result.ok else None
    return types.CallToolResult(
        content=[types.TextContent(text=result.content)],
        structured_content=value,
        is_error=not result.ok,
    )


def _object(text: str) -> dict[str, Any] | None:
    if not text.startswith("{"):
        return None
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


# --- what clients ask ------------------------------------------------------------------------


async def _list_tools(
    ctx: _Context, params: types.PaginatedRequestParams | None
) -> types.ListToolsResult:
    _only_page(params)
    played = ctx.lifespan_context
    tools = [as_tool(spec, real=played.environment.real) for spec in played.tools()]
    return types.ListToolsResult(tools=tools + [_START_OVER] * played.offer.start_over)


async def _call_tool(ctx: _Context, params: types.CallToolRequestParams) -> types.CallToolResult:
    played, arguments = ctx.lifespan_context, params.arguments or {}
    try:
        if params.name == START_OVER and played.offer.start_over:
            return as_result(await _start_over(played, arguments))
        result = await played.call(params.name, arguments)
    except ToolloomError as error:
        raise MCPError(types.INTERNAL_ERROR, str(error)) from error
    if result.error is not None and result.error.code == "unknown_tool":
        raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name[:100]}")
    return as_result(result)


async def _start_over(played: Episode, arguments: dict[str, Any]) -> ToolResult:
    seed = arguments.get("seed")
    right = seed is None or (type(seed) is int and 0 <= seed <= MAX_SEED)
    if not right or set(arguments) - {"seed"}:
        message = f"The only argument is a seed, an integer from 0 to {MAX_SEED}."
        content = json.dumps({"error": "invalid_arguments", "message": message})
        return ToolResult(ok=False, content=content)
    await played.start_over(seed)
    return ToolResult(ok=True, content=json.dumps(played.facts()))


async def _list_resources(
    _: _Context, params: types.PaginatedRequestParams | None
) -> types.ListResourcesResult:
    _only_page(params)
    return types.ListResourcesResult(resources=list(_RESOURCES))


async def _list_templates(
    _: _Context, params: types.PaginatedRequestParams | None
) -> types.ListResourceTemplatesResult:
    _only_page(params)
    return types.ListResourceTemplatesResult(resource_templates=[])


async def _read_resource(
    ctx: _Context, params: types.ReadResourceRequestParams
) -> types.ReadResourceResult:
    played, uri = ctx.lifespan_context, str(params.uri)
    known = next((one for one in _RESOURCES if one.uri == uri), None)
    if known is None:
        raise MCPError(NO_RESOURCE, "Resource not found", {"uri": uri[:200]})
    try:
        text = await _text(uri, played)
    except ToolloomError as error:
        raise MCPError(types.INTERNAL_ERROR, str(error)) from error
    contents = types.TextResourceContents(uri=uri, mime_type=known.mime_type, text=text)
    return types.ReadResourceResult(contents=[contents])


async def _text(uri: str, played: Episode) -> str:
    if uri == POLICY:
        return played.offer.policy
    if uri == EPISODE:
        return json.dumps(played.facts())
    # The lines are canonical JSON, equal exactly where the states are: not written anew.
    changes = await played.diff()
    return "[\n" + ",\n".join(changes) + "\n]" if changes else "[]"


def _only_page(params: types.PaginatedRequestParams | None) -> None:
    if params is not None and params.cursor is not None:
        raise MCPError(types.INVALID_PARAMS, "There is only one page.")
