"""What a model is asked that plays a tool: the page, the form of the reply, the repairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from simulators.imagined.excerpt import excerpt
from simulators.imagined.patch import Call, Refused, Shape, State
from simulators.imagined.results import OURS, Result
from synth.core.prompts import prompts, quoted
from synth.core.protocols import LLM, ChatRequest, Finish, Reply, Sampler
from synth.core.types import Effect, ToolSpec

PROMPTS = "simulators.imagined.prompts"
PROGRAM = "twin/1"
"""Who plays where no model does."""
NEW_KEYS = 3
"""Keys offered for new rows of each table."""
_SAID = 2_000
"""Characters of a refused reply that the model is shown again."""


NO_CALL = Call("", {})


@dataclass(frozen=True, slots=True)
class Asked(ChatRequest):
    """A request with what it is about, for players that are programs."""

    what: Call = NO_CALL
    state: bytes = b""
    """A snapshot from before the call."""


@dataclass(frozen=True, slots=True)
class Scene:
    """What does not change from call to call.

    Args:
        summary: what the service is.
        clock: its own time; None where it has none.
        excerpt: tokens of rows that a model is shown.
    """

    summary: str
    clock: str | None
    excerpt: int = 2_000


class Asker:
    """Asks a model for what a call does.

    Args:
        llm: the model.
        scene: the service.
        sampler: how its tokens are drawn.
    """

    def __init__(self, llm: LLM, scene: Scene, sampler: Sampler) -> None:
        self._llm, self._scene, self._sampler = llm, scene, sampler
        self.who = llm.name
        if llm.name != PROGRAM:
            self.who = f"model:{llm.name}@world/{prompt_key()} ({sampler})"

    def page(
        self,
        spec: ToolSpec,
        result: Result,
        what: Call,
        state: State,
        log: Sequence[Any],
    ) -> Asked:
        """Return the request for a call."""
        shown = excerpt(
            state, {"user": what.user, **what.arguments}, self._scene.excerpt, result.concerns
        )
        reads = spec.effect is Effect.READ
        names = [name for name in shown.tables if result.tables is None or name in result.tables]
        shapes = [] if reads else [state.shapes[name] for name in names]
        load = prompts(PROMPTS)
        system = load.render("rules", summary=quoted(self._scene.summary), clock=self._scene.clock)
        page = load.render(
            "call",
            effect="reads" if reads else "writes",
            tool=quoted(_told(spec)),
            result=form(result.schema),
            errors=_errors(result),
            tables=[_table(shape, state) for shape in shapes],
            log=quoted(log) if log else "",
            rows=quoted(shown.rows),
            hidden=", ".join(f"{count} of {name}" for name, count in shown.hidden.items()),
            call=quoted({"tool": spec.name, "arguments": what.arguments}),
            user=quoted(what.user) if what.by_user else "",
        )
        return Asked(
            [{"role": "system", "content": system}, {"role": "user", "content": page}],
            sampler=self._sampler,
            response_format=_format(reply_schema(result, shapes, state, reads=reads)),
            what=what,
            state=state.snapshot(),
        )

    async def ask(self, request: Asked) -> Reply:
        """Return the model's reply; raises as `LLM.complete` does."""
        return await self._llm.complete(request)


def prompt_key() -> str:
    """Return what changes when a prompt does."""
    load = prompts(PROMPTS)
    return "-".join(load.hash(name)[:6] for name in ("rules", "call", "repair"))


def text_of(reply: Reply) -> str:
    """Return what a reply says.

    Raises:
        Refused: it was cut off or withheld.
    """
    if reply.finish == Finish.LENGTH:
        raise Refused("cut_off", "it was cut off at the limit of tokens; write less")
    if not reply.usable:
        raise Refused("withheld", f"there is none ({reply.finish})")
    return reply.message.content or ""


def again(request: Asked, said: str, refused: Refused) -> Asked:
    """Return the request to mend a reply."""
    why = prompts(PROMPTS).render("repair", why=quoted(refused.why))
    talk = [
        *request.messages,
        {"role": "assistant", "content": said[:_SAID]},
        {"role": "user", "content": why},
    ]
    return Asked(
        talk,
        sampler=request.sampler,
        response_format=request.response_format,
        what=request.what,
        state=request.state,
    )


# --- the form of a reply ---------------------------------------------------------------------


def reply_schema(
    result: Result, shapes: Sequence[Shape], state: State, *, reads: bool
) -> dict[str, Any]:
    """Return the JSON Schema of a whole reply."""
    done = result.schema or {"type": "object"}
    observation = {"anyOf": [dict(done), result.error_schema()]}
    if reads:
        return _object({"observation": observation}, ["observation"])
    changes = [_change(shape, state.fresh(shape.name, NEW_KEYS)) for shape in shapes]
    patch = {"type": "array", "items": {"anyOf": changes} if changes else {}, "maxItems": 8}
    return _object({"patch": patch, "observation": observation}, ["patch", "observation"])


def _change(shape: Shape, fresh: Sequence[str]) -> dict[str, Any]:
    columns = {name: schema for name, schema in shape.columns.items() if name != "id"}
    return _object(
        {
            "op": {"enum": ["insert", "update", "delete"]},
            "table": {"const": shape.name},
            "id": {"type": "string", "maxLength": 40, "description": f"new: {', '.join(fresh)}"},
            "values": _object(columns, []),
        },
        ["op", "table", "id"],
    )


def _object(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _format(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "world", "schema": schema}}


# --- words -----------------------------------------------------------------------------------


def _told(spec: ToolSpec) -> dict[str, Any]:
    properties = spec.parameters.get("properties", {})
    parameters = {
        name: schema.get("description", "") if isinstance(schema, Mapping) else ""
        for name, schema in properties.items()
    }
    return {"name": spec.name, "description": spec.description, "parameters": parameters}


def _errors(result: Result) -> str:
    if result.codes is None:
        return "a short word in snake_case"
    declared = [f"{code} ({quoted(said)})" for code, said in sorted(result.codes.items())]
    return ", ".join([*declared, *sorted(OURS - result.codes.keys())])


def _table(shape: Shape, state: State) -> dict[str, str]:
    columns = []
    for name, schema in shape.columns.items():
        target = shape.references.get(name)
        columns.append(f"{name} {form(schema)}" + (f" (key of {target})" if target else ""))
    fresh = ", ".join(state.fresh(shape.name, NEW_KEYS))
    return {"name": shape.name, "columns": ", ".join(columns), "fresh": fresh}


def form(schema: Mapping[str, Any] | None) -> str:
    """Return a JSON Schema in few words: `{"result": [{"id": string or null}]}`."""
    if not schema:
        return "any JSON object"
    if "const" in schema:
        return quoted(schema["const"])
    if "enum" in schema:
        return "|".join(quoted(word) for word in schema["enum"])
    if isinstance(properties := schema.get("properties"), Mapping):
        inside = ", ".join(f"{quoted(name)}: {form(one)}" for name, one in properties.items())
        return f"{{{inside}}}"
    if isinstance(items := schema.get("items"), Mapping):
        return f"[{form(items)}, …]"
    kinds = schema.get("type", "any")
    return kinds if isinstance(kinds, str) else " or ".join(kinds)
