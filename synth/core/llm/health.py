"""What an endpoint can really do: a dozen small questions before hours of generation.

Servers accept `tools` and never call one, take `seed` and ignore it, return calls as text. Each
ability is tried and seen; what could not be tried is None, which is not "no".
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import orjson

from synth.core.config import ModelConfig, Models
from synth.core.errors import ModelFailed
from synth.core.formats import FORMATS
from synth.core.llm.open import OpenModels
from synth.core.protocols import ChatRequest, Reply, Sampler
from synth.core.schemas import validator

PROBES = 5
ENOUGH = 0.8
"""Share of the tool calls asked for that must come and be valid."""
NEEDED: dict[str, tuple[str, ...]] = {
    "agent": ("tools",),
    "world": ("json",),
    "evolver": ("json",),
}
"""What a role cannot do without; every role must be reachable."""
ABILITIES = ("tools", "json", "logprobs", "seed", "stream", "usage")
_CITIES = ("Oslo", "Lima", "Cairo", "Quito", "Hanoi", "Turin", "Perth", "Kyoto", "Accra", "Minsk")
_RANDOM = "Write one random word of at least eight letters, and nothing else."


def _tool(name: str, description: str, **properties: Mapping[str, Any]) -> dict[str, Any]:
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


_TOOLS = (
    _tool(
        "get-weather.daily",  # names with dots and hyphens must survive
        "Weather of a city for some days from today.",
        city={"type": "string", "description": "Name of the city"},
        days={"type": "integer", "minimum": 1, "maximum": 14},
    ),
    _tool(
        "book_table",
        "Book a table in a restaurant.",
        restaurant={"type": "string"},
        guests={"type": "integer", "minimum": 1},
    ),
    _tool("convert_money", "Convert an amount to euros.", amount={"type": "number"}),
)
_WANTED = str(_TOOLS[0]["function"]["name"])


@dataclass(slots=True)
class Health:
    """What was found out about the model of one role."""

    role: str
    model: str
    endpoint: str
    error: str = ""
    """Why it could not be reached; empty if it was."""
    probes: int = 0
    """Tool calls asked for."""
    called: int = 0
    """Of those, answered by a call of any tool."""
    valid: int = 0
    """Of those, a tool that was on offer, with arguments that its schema allows."""
    right: int = 0
    """Of those, the tool and the city that were asked for: how able the model is."""
    abilities: dict[str, bool | None] = field(default_factory=lambda: dict.fromkeys(ABILITIES))
    """Ability -> whether it is there; None where it could not be tried."""
    latency_s: float | None = None
    """Median of a reply."""
    hint: str = ""

    @property
    def missing(self) -> list[str]:
        """Return what the role needs and does not have."""
        if self.error:
            return ["reachable"]
        return [name for name in NEEDED.get(self.role, ()) if self.abilities[name] is not True]

    def row(self) -> dict[str, Any]:
        """Return it as data."""
        return {**asdict(self), "reachable": not self.error, "missing": self.missing}


async def check(
    role: str, config: ModelConfig, *, probes: int = PROBES, folders: Sequence[Path] = ()
) -> Health:
    """Try what the model of one role can do.

    Args:
        role: who it plays.
        config: the model.
        probes: tool calls to ask for.
        folders: where weights of models in this process lie.

    Raises:
        BadConfig: the model cannot be opened at all.
    """
    health = Health(role, config.model, config.base_url or "default")
    models = OpenModels(Models.model_validate({role: config}), folders=folders)
    for endpoint in models.endpoints.values():
        health.endpoint = endpoint.name
    try:
        await _Examination(models, role, health).run(probes)
    except ModelFailed as error:
        health.error = str(error)
    finally:
        await models.close()
    if role in models and not health.error and models.endpoints:
        health.abilities["stream"] = await _can(_streams(role, config))
    return health


class _Examination:
    def __init__(self, models: OpenModels, role: str, health: Health) -> None:
        self._llm = models.bound(role, "check")
        self._health = health
        self._took: list[float] = []

    async def run(self, probes: int) -> None:
        """Ask everything.

        Raises:
            ModelFailed: it does not even answer a plain question.
        """
        found = self._health.abilities
        first = await self._ask("Answer with the word: ready", Sampler(0.0, max_tokens=200))
        found["usage"] = None not in (first.usage.prompt_tokens, first.usage.completion_tokens)
        found["tools"] = await _can(self._calls_tools(probes))
        found["json"] = await _can(self._writes_json())
        found["logprobs"] = await _can(self._tells_logprobs())
        found["seed"] = await _can(self._repeats())
        self._health.latency_s = round(median(self._took), 3)

    async def _ask(self, text: str, sampler: Sampler, **settings: Any) -> Reply:
        start = time.perf_counter()
        messages = [{"role": "user", "content": text}]
        reply = await self._llm.complete(ChatRequest(messages, sampler=sampler, **settings))
        self._took.append(time.perf_counter() - start)
        return reply

    async def _calls_tools(self, probes: int) -> bool:
        schemas = {
            tool["function"]["name"]: validator(tool["function"]["parameters"]) for tool in _TOOLS
        }
        for number in range(probes):
            city, days = _CITIES[number % len(_CITIES)], number % 13 + 2
            text = f"What will the weather be like in {city} for the next {days} days?"
            reply = await self._ask(text, Sampler(0.0, max_tokens=500), tools=_TOOLS)
            self._health.probes += 1
            calls = reply.message.tool_calls
            self._health.called += bool(calls)
            if not calls:
                self._health.hint = self._health.hint or _hint(reply.message.content or "")
                continue
            name, value = calls[0].name, calls[0].value or {}
            valid = name in schemas and schemas[name].is_valid(value)
            self._health.valid += valid
            self._health.right += valid and name == _WANTED and value["city"] == city
        return self._health.valid >= ENOUGH * probes

    async def _writes_json(self) -> bool:
        text = 'Write a JSON object with the members "city" (a text) and "people" (a number).'
        reply = await self._ask(
            text, Sampler(0.0, max_tokens=200), response_format={"type": "json_object"}
        )
        with suppress(orjson.JSONDecodeError):
            return isinstance(orjson.loads(reply.message.content or ""), dict)
        return False

    async def _tells_logprobs(self) -> bool:
        reply = await self._ask("Say yes.", Sampler(0.0, max_tokens=5), top_logprobs=2)
        return bool(reply.logprobs and reply.logprobs[0])

    async def _repeats(self) -> bool:
        """Say whether one seed gives one text; a model without chance in it does as well."""
        sampler = Sampler(1.0, max_tokens=50, seed=4711)
        first, second = [await self._ask(_RANDOM, sampler) for _ in range(2)]
        return first.message.content == second.message.content


async def _streams(role: str, config: ModelConfig) -> bool:
    streaming = config.model_copy(update={"stream": True})
    models = OpenModels(Models.model_validate({role: streaming}))
    try:
        messages = [{"role": "user", "content": "Answer with the word: ready"}]
        reply = await models.bound(role, "check-stream").complete(ChatRequest(messages))
        return "not_streamed" not in reply.repairs
    finally:
        await models.close()


async def _can(trial: Awaitable[bool]) -> bool | None:
    """Return what a trial says; False where the endpoint refuses it, None where it cannot tell."""
    try:
        return await trial
    except ModelFailed as error:
        return False if error.outcome == "rejected" else None


def _hint(text: str) -> str:
    """Return a setting that would make calls of this text, if it holds any."""
    for name, family in FORMATS.items():
        parsed = family.parse(text)
        if parsed.problem is None and parsed.calls:
            return f'calls come as text: set tool_calls = "{name}"'
    return ""
