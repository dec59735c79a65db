"""Conversations from elsewhere, judged as far as a conversation alone allows.

What needs no state is judged by programs: the form, the calls against the schemas of their tools,
identifiers that nobody ever said. What happened behind the tools cannot be known here: it is left
open, never counted as done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from pydantic import ValidationError

from synth.core.errors import BadRow
from synth.core.formats import Unwritable
from synth.core.inputs import json_lines
from synth.core.types import (
    Agent,
    Behaviour,
    Effect,
    Message,
    Provenance,
    Step,
    StopReason,
    TaskKind,
    ToolCall,
    ToolResult,
    ToolSpec,
    Trajectory,
)
from synth.exporters import sharegpt
from synth.judge.evidence import Evidence
from synth.judge.form import form_problem
from synth.judge.rules import rule_problem


@dataclass(frozen=True, slots=True)
class Brought:
    """A conversation and its tools."""

    place: str
    """File and line."""
    trajectory: Trajectory
    agent: Agent
    tools: Mapping[str, ToolSpec]


@dataclass(frozen=True, slots=True)
class Found:
    """What programs say of a conversation."""

    passed: bool | None
    """False where something is wrong; None otherwise, since the state is not known."""
    reason: str
    evidence: str = ""


def read_brought(path: Path) -> list[Brought]:
    """Read conversations in the OpenAI or the ShareGPT form, one a line.

    Args:
        path: JSON Lines; `messages` and `tools`, or `conversations`, `system` and `tools`, which
            may be a list or its text.

    Raises:
        BadRow: a line is neither; names file and line.
    """
    found = []
    for number, row in json_lines(path, kind=BadRow):
        place = f"{path}:{number}"
        try:
            found.append(_brought(row, place))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            what = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
            raise BadRow(what, where=place) from error
        except (KeyError, TypeError, ValueError, AttributeError, Unwritable) as error:
            what = f"not a conversation: {type(error).__name__}: {error}"
            remedy = "`messages` and `tools` as OpenAI has them, or `conversations` as ShareGPT"
            raise BadRow(what[:300], where=place, remedy=remedy) from error
    if not found:
        raise BadRow("there is no conversation in it", where=str(path))
    return found


def programs(brought: Brought) -> Found:
    """Return what programs say of a conversation."""
    problem = form_problem(brought.trajectory, brought.agent)
    if problem is not None:
        return Found(False, f"format:{problem[0]}", problem[1])
    if brought.trajectory.steps and not brought.tools:
        return Found(None, "not_judged:tools", "the file does not say which tools there were")
    evidence = Evidence(brought.trajectory)
    broken = rule_problem(brought.trajectory, brought.agent, brought.tools, evidence)
    if broken is not None:
        return Found(False, f"rule:{broken[0]}", broken[1])
    return Found(None, "not_judged:state")


# --- reading ---------------------------------------------------------------------------------


def _brought(row: Mapping[str, Any], place: str) -> Brought:
    if "conversations" in row:
        tools = row.get("tools") or "[]"
        text = tools if isinstance(tools, str) else orjson.dumps(tools).decode()
        row = sharegpt.EXPORTER.decode({"system": "", "closing": "", **row, "tools": text})
    tools = row.get("tools") or []
    listed = orjson.loads(tools) if isinstance(tools, str) else tools
    specs = {spec.name: spec for spec in map(_spec, listed)}
    messages = [_message(message) for message in row["messages"]]
    if not messages or messages[0].role != "system":
        messages = [Message(role="system", content="-"), *messages]
    agent = Agent(
        application="brought",
        system=messages[0].content or "",
        tools=tuple(specs),
        behaviour=Behaviour(name="unknown"),
    )
    return Brought(place, _trajectory(messages, place), agent, specs)


def _spec(tool: Mapping[str, Any]) -> ToolSpec:
    function = tool.get("function", tool)
    return ToolSpec(
        name=function["name"],
        description=function.get("description") or "",
        parameters=function.get("parameters") or {"type": "object", "properties": {}},
        provenance=Provenance(source="brought"),
    )


def _message(message: Mapping[str, Any]) -> Message:
    calls = tuple(
        ToolCall(
            id=call["id"],
            name=call["function"]["name"],
            arguments=_text(call["function"]["arguments"]),
        )
        for call in message.get("tool_calls") or ()
    )
    role = {"developer": "system", "function": "tool"}.get(message["role"], message["role"])
    content = message.get("content")
    if isinstance(content, list):
        content = "".join(part["text"] for part in content)
    return Message(
        role=role, content=content, tool_calls=calls, tool_call_id=message.get("tool_call_id")
    )


def _text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode()


def _trajectory(messages: Sequence[Message], place: str) -> Trajectory:
    results = {m.tool_call_id: m.content or "" for m in messages if m.role == "tool"}
    steps = tuple(
        Step(
            message=index,
            call=call,
            result=ToolResult(ok=True, content=results.get(call.id, "")),
            effect=Effect.UNKNOWN,
        )
        for index, message in enumerate(messages)
        for call in message.tool_calls
    )
    return Trajectory(
        episode=place,
        task="",
        agent="",
        world="brought",
        kind=TaskKind.LOOKUP,
        real=True,
        seed=0,
        messages=tuple(messages),
        steps=steps,
        diff=(),
        stop=StopReason.USER_DONE,
        players={},
    )
