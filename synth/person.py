"""A person as the agent of an episode: one more `AgentPlayer`, with a desk instead of a model."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

from synth.core.canonical import canonical
from synth.core.errors import BadInput
from synth.core.protocols import AgentView, Turn
from synth.core.types import Message, PlannedCall, Step, ToolCall, ToolSpec
from synth.typed import WISHES, Call, Say, Wish, read, signature

FAREWELL = "That is all from my side. Goodbye."
"""Said for a person who has nothing more to say."""
Kind: TypeAlias = Literal["user", "agent", "call", "result", "error", "note", "problem"]
HELP = """\
You are the agent. What you type is said to the user, unless it is a call of one of your tools:
  TOOL key=value key="a longer value"     or TOOL {"key": "value"}
A question keeps the user talking; whatever else you say is taken for your report, and they leave.
"""


class Desk(Protocol):
    """Where the person sits."""

    def show(self, kind: Kind, text: str) -> None:
        """Show something; it may have several lines."""

    def ask(self) -> str | None:
        """Return the next line that is typed; None when there will be none."""


class Person:
    """Plays the agent of one episode by what a person types.

    What is typed wrongly is told in one line and costs nothing; a call that the tool refuses is a
    call, as it is for a model.

    Args:
        desk: where the person sits.
        policy: shown when asked for.
    """

    who = "person"

    def __init__(self, desk: Desk, policy: str) -> None:
        self._desk, self._policy = desk, policy
        self._seen = 1  # the system prompt is for models; its policy is shown when asked for
        self._calls = 0

    async def turn(self, view: AgentView) -> Turn:
        """Show what came since the last turn, and return what the person does."""
        for message in view.messages[self._seen :]:
            self._hear(message)
        self._seen = len(view.messages) + 1  # one's own words need no showing
        return Turn(self._typed(view))

    def _hear(self, message: Message) -> None:
        text = message.content or ""
        if message.role == "tool":
            self._desk.show("error" if text.startswith('{"error"') else "result", text)
        else:
            self._desk.show("user", text)

    def _typed(self, view: AgentView) -> Message:
        tools = {spec.name: spec for spec in view.tools}
        while True:
            line = self._desk.ask()
            if line is not None and not line.strip():
                continue
            try:
                typed = Wish("done") if line is None else read(line, tools)
                if typed == Wish("done"):
                    typed = Say(FAREWELL)
                    self._desk.show("agent", FAREWELL)
                if not isinstance(typed, Wish):
                    return self._message(typed)
                self._grant(typed, view, tools)
            except BadInput as error:
                self._desk.show("problem", str(error))

    def _message(self, typed: Say | Call) -> Message:
        if isinstance(typed, Say):
            return Message(role="assistant", content=typed.text)
        self._calls += 1
        text = json.dumps(typed.arguments, ensure_ascii=False)
        call = ToolCall(id=f"call_{self._calls}", name=typed.name, arguments=text)
        return Message(role="assistant", tool_calls=(call,))

    def _grant(self, wish: Wish, view: AgentView, tools: dict[str, ToolSpec]) -> None:
        """Show what the person wants to see."""
        if wish.name == "policy":
            self._desk.show("note", self._policy)
        elif wish.name == "tools":
            self._desk.show("note", "\n".join(_about(wish.of, tools)))
        elif wish.name == "said":
            for message in view.messages[1:]:
                self._again(message)
        else:
            wishes = "\n".join(f"  /{name:<8}{text}" for name, text in WISHES.items())
            self._desk.show("note", HELP + wishes)

    def _again(self, message: Message) -> None:
        if message.role != "assistant":
            self._hear(message)
        elif message.content:
            self._desk.show("agent", message.content)
        for call in message.tool_calls:
            self._desk.show("call", f"{call.name} {call.arguments}")


def _about(name: str, tools: dict[str, ToolSpec]) -> Iterator[str]:
    """Describe one tool in full, or each in two lines."""
    if name and name not in tools:
        raise BadInput(f"there is no tool {name!r}", remedy="/tools lists them")
    for spec in [tools[name]] if name else tools.values():
        yield signature(spec)
        yield f"    {spec.description}"
        if name:
            for parameter, schema in spec.parameters.get("properties", {}).items():
                yield f"    {parameter}: {schema.get('description', '')}"


# --- afterwards ------------------------------------------------------------------------------


class Compared(NamedTuple):
    """A call of the reference solution, of the person, or of both."""

    whose: Literal["both", "reference", "yours"]
    tool: str
    arguments: dict[str, Any]


def compare(solution: Sequence[PlannedCall], steps: Iterable[Step]) -> list[Compared]:
    """Return the calls of both sides: the reference's in their order, then those only you made.

    Calls are the same where tool and arguments are; a call made twice counts twice. What failed,
    and what the user did, is left out.
    """
    own = (step for step in steps if step.by == "agent" and step.result.ok)
    mine = [(step.call.name, step.call.value or {}) for step in own]
    left = Counter(_identity(*call) for call in mine)
    rows = []
    for planned in (planned for planned in solution if planned.by == "agent"):
        identity = _identity(planned.tool, planned.arguments)
        whose: Literal["both", "reference"] = "both" if left[identity] else "reference"
        left[identity] -= whose == "both"
        rows.append(Compared(whose, planned.tool, planned.arguments))
    for tool, arguments in reversed(mine):
        if left[_identity(tool, arguments)] > 0:
            left[_identity(tool, arguments)] -= 1
            rows.insert(len(solution), Compared("yours", tool, arguments))
    return rows


def _identity(tool: str, arguments: dict[str, Any]) -> tuple[str, str]:
    return tool, canonical(arguments)
