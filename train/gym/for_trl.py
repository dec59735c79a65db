"""Episodes for TRL's `GRPOTrainer(environment_factory=…)` (tried with trl 1.16.0).

There, the public methods of an environment are the model's tools, described by their signatures and
docstrings, and a message without a call ends the roll-out. So the tools of an agent become methods,
and one more, `talk_to_user`, says something to the user and returns the answer. What the model says
last, without a call, is said to the user too; nothing can follow it.

    tasks = TrlTasks(cases)
    GRPOTrainer(model, tasks.reward, train_dataset=Dataset.from_list(tasks.rows),
                environment_factory=tasks.environments, args=…)

No code is made from text: a method is a closure with a signature put on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import orjson

from synth.core.errors import BadInput
from synth.core.types import ToolSpec
from synth.play import Limits
from train.cases import Case, scripted_user
from train.gym.hints import dressed
from train.gym.stepped import Stepped, UserOf, blocking, turn_of

TALK = "talk_to_user"
_TALK_SCHEMA = {
    "type": "object",
    "properties": {"message": {"type": "string", "description": "What you say or ask"}},
    "required": ["message"],
}
_RESERVED = frozenset({"reset", "get_reward", TALK})
_OVER = orjson.dumps({"error": "over", "message": "The conversation is over."}).decode()


class TrlTasks:
    """Tasks as TRL takes them.

    Args:
        cases: the tasks.
        limits: of an episode.
        user: makes the user.

    Raises:
        BadInput: a tool cannot be a method: its name or that of a parameter is none. A case is the
            rest of another episode.
    """

    def __init__(
        self,
        cases: Sequence[Case],
        *,
        limits: Limits | None = None,
        user: UserOf = scripted_user,
    ) -> None:
        make = partial(_start, cases, limits=limits, user=user)
        self.environments: dict[str, Callable[[], Any]] = {}
        """For `environment_factory`: one environment for each agent, whose tools differ."""
        self.rows: list[dict[str, Any]] = []
        """For the dataset: one row a task. The user's first words are added by `reset`."""
        for number, case in enumerate(cases):
            if case.prefix is not None:
                what = "calls that were made before cannot stand in the prompt of this form"
                raise BadInput(what, where=f"case {number}", remedy="play it in Gymnasium's form")
            agent = case.agent
            if agent.key not in self.environments:
                self.environments[agent.key] = _environment(case, make)
            prompt = [
                {"role": "system", "content": agent.system},
                {"role": "user", "content": ""},
            ]
            self.rows.append({"prompt": prompt, "environment": agent.key, "case": number})

    def reward(
        self, completions: Sequence[Any], environments: Sequence[Any], **_: Any
    ) -> list[float | None]:
        """Say the last words of every completion, and return the verdicts as TRL wants them.

        None, where an episode has no verdict, is left out by TRL (since 1.16 of its baseline, too).
        """
        return [
            environment._end(completion)
            for completion, environment in zip(completions, environments, strict=True)
        ]


class _Episode:
    """What the environments of all agents have in common; TRL takes public methods for tools."""

    def __init__(self, make: Callable[[int], Stepped]) -> None:
        self._make = make
        self._episode: Stepped | None = None

    def reset(self, *, case: int, **_: Any) -> str:
        """Begin task number `case`; return the user's first words."""
        self._close()
        self._episode = self._make(case)
        blocking(self._episode.begin())
        return self._heard("user")

    def _say(self, message: Any) -> str:
        if self._episode is None or self._episode.outcome is not None:
            return _OVER
        blocking(self._episode.step(turn_of({"content": message})))
        return self._heard("user")

    def _call(self, name: str, arguments: Mapping[str, Any]) -> str:
        if self._episode is None or self._episode.outcome is not None:
            return _OVER
        call = {"type": "function", "function": {"name": name, "arguments": dict(arguments)}}
        blocking(self._episode.step(turn_of({"tool_calls": [call]})))
        return self._heard("tool")

    def _heard(self, role: str) -> str:
        assert self._episode is not None
        words = [one.content or "" for one in self._episode.news() if one.role == role]
        return words[-1] if words else _OVER

    def _end(self, completion: Any) -> float | None:
        """Say the last words and return the reward; what is not over then ends as it is."""
        if self._episode is None:
            return None
        for said in (_last_words(completion), ""):
            if self._episode.outcome is None:
                blocking(self._episode.step(turn_of(said)))
        assert self._episode.outcome is not None
        return self._episode.outcome.reward

    def _close(self) -> None:
        if self._episode is not None:
            blocking(self._episode.close())


def _last_words(completion: Any) -> str:
    """Return the text that ends a roll-out; calls that were not made any more are none."""
    last = completion[-1] if isinstance(completion, list) and completion else {}
    if not isinstance(last, dict) or last.get("role") != "assistant" or last.get("tool_calls"):
        return ""
    content = last.get("content")
    return content if isinstance(content, str) else ""


def _start(cases: Sequence[Case], number: int, *, limits: Limits | None, user: UserOf) -> Stepped:
    return Stepped(cases[number], seed=number, limits=limits, user=user, who="trl")


def _environment(case: Case, make: Callable[[int], Stepped]) -> Callable[[], Any]:
    specs = {tool.name: tool for tool in case.world.tools()}
    members: dict[str, Any] = {name: _method(specs[name]) for name in case.agent.tools}
    members[TALK] = dressed(
        _talk, TALK, "Say something to the user and return what they answer.", _TALK_SCHEMA
    )
    kind: Any = type("Episode", (_Episode,), members)
    return partial(kind, make)


def _talk(self: _Episode, /, **arguments: Any) -> str:
    return self._say(arguments.get("message"))


def _method(spec: ToolSpec) -> Callable[..., str]:
    if spec.name.startswith("_") or spec.name in _RESERVED:
        raise BadInput(f"a tool called {spec.name!r} cannot be a method", where=spec.name)

    def call(self: _Episode, /, **arguments: Any) -> str:
        return self._call(spec.name, arguments)

    return dressed(call, spec.name, spec.description, spec.parameters)
