"""Dataset rows as conversations to learn from; a row that does not validate names file and line."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from synth.core.errors import BadInput, BadRow
from synth.core.formats import Unwritable
from train.batches import Row
from train.renderer import Renderer


class _Function(BaseModel):
    name: str = Field(min_length=1)
    arguments: str


class _Call(BaseModel):
    id: str
    function: _Function


class _Message(BaseModel):
    role: Literal["system", "user", "assistant", "tool"]
    content: str | None = None
    tool_calls: list[_Call] | None = None
    tool_call_id: str | None = None
    weight: float = Field(default=1.0, ge=0)


class _Tool(BaseModel):
    class Declared(BaseModel):
        name: str = Field(min_length=1)
        description: str | None = None
        parameters: dict[str, Any] | None = None

    function: Declared


class _RowIn(BaseModel):
    """What a row must have; everything else it carries is left alone."""

    model_config = ConfigDict(extra="ignore")

    id: str
    messages: list[_Message] = Field(min_length=1)
    tools: str = "[]"
    application: str = ""
    kind: str = ""

    @model_validator(mode="after")
    def _coherent(self) -> _RowIn:
        asked: set[str] = set()
        for n, message in enumerate(self.messages):
            if message.tool_calls and message.role != "assistant":
                raise ValueError(f"messages.{n}: a {message.role} message makes tool calls")
            asked.update(call.id for call in message.tool_calls or ())
            if message.role == "tool" and message.tool_call_id not in asked:
                raise ValueError(
                    f"messages.{n}.tool_call_id: no earlier call has the id "
                    f"{message.tool_call_id!r}"
                )
        if not any(message.role == "assistant" for message in self.messages):
            raise ValueError("messages: no assistant message, so nothing to learn")
        return self


@dataclass(frozen=True, slots=True)
class Conversation:
    """One row, validated."""

    id: str
    messages: tuple[Mapping[str, Any], ...]
    """OpenAI shape."""
    tools: tuple[Mapping[str, Any], ...]
    application: str
    kind: str
    where: str
    """file:line, for messages about it."""


def conversation(row: Mapping[str, Any], *, where: str) -> Conversation:
    """Validate one row.

    Args:
        row: a row of a dataset: `id`, `messages`, `tools` (JSON text), and more that is ignored.
        where: file:line of the row.

    Raises:
        BadRow: it says where and what.
    """
    try:
        read = _RowIn.model_validate(row)
        tools = _tools(read.tools)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = ".".join(map(str, first["loc"]))
        said = first["msg"].removeprefix("Value error, ")
        raise BadRow(f"{path}: {said}" if path else said, where=where) from None
    except ValueError as error:
        raise BadRow(f"tools: not the JSON text of a list of tools: {error}", where=where) from None
    return Conversation(
        read.id,
        tuple(_plain(message) for message in read.messages),
        tools,
        read.application,
        read.kind,
        where,
    )


def _tools(text: str) -> tuple[Mapping[str, Any], ...]:
    tools = json.loads(text)
    if not isinstance(tools, list):
        raise ValueError(f"found {type(tools).__name__}")
    for tool in tools:
        _Tool.model_validate(tool)
    return tuple(tools)


def _plain(message: _Message) -> Mapping[str, Any]:
    out = message.model_dump(exclude_none=True)
    for call in out.get("tool_calls", ()):
        call["type"] = "function"
    return out


def read_conversations(path: str | Path) -> list[Conversation]:
    """Read a dataset (JSON Lines; blank lines are skipped).

    Raises:
        BadInput: there is no such file.
        BadRow: a line is not JSON or not a row; `where` is file:line.
    """
    try:
        lines = Path(path).read_bytes().splitlines()
    except OSError as error:
        raise BadInput(f"the dataset cannot be read: {error.strerror}", where=str(path)) from error
    out = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise BadRow(f"not JSON: {error}", where=where) from None
        out.append(conversation(row, where=where))
    return out


@dataclass(frozen=True, slots=True)
class Prepared:
    """Rows ready to learn from."""

    rows: tuple[Row, ...]
    agents: tuple[str, ...]
    """For each row, the part that rows of one agent share: system prompt and tools."""
    left_out: Mapping[str, int]
    """Why rows were left out: `too_long`, `nothing_to_learn`. Nothing is ever cut short."""


def prepare(
    conversations: Iterable[Conversation], renderer: Renderer, *, longest: int = 4096
) -> Prepared:
    """Render conversations.

    Args:
        conversations: validated rows.
        renderer: of the model that learns.
        longest: most tokens of a row; longer ones are left out and counted.

    Raises:
        BadRow: a conversation the model's format has no text for.
    """
    rows: list[Row] = []
    agents: list[str] = []
    left_out: Counter[str] = Counter()
    for one in conversations:
        try:
            rendered = renderer.render(one.messages, one.tools)
        except Unwritable as error:
            raise BadRow(str(error), where=one.where) from None
        row = Row(rendered.ids_T, rendered.weights_T)
        if len(row.ids) > longest:
            left_out["too_long"] += 1
        elif not row.trained():
            left_out["nothing_to_learn"] += 1
        else:
            rows.append(row)
            agents.append(agent_of(one.messages, one.tools))
    return Prepared(tuple(rows), tuple(agents), dict(left_out))


def agent_of(messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> str:
    """Return what rows of one agent have in common, as one string."""
    system = messages[0].get("content") if messages[0]["role"] == "system" else ""
    return f"{system}\x1f{json.dumps(tools, sort_keys=True)}"
