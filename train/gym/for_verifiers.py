"""Tasks as an environment of verifiers: `vf.MultiTurnEnv` (tried with verifiers 0.1.14).

Its loop asks the model; ours answers. Tools run with our own validation, the user speaks where the
model does not call, and the reward is our verdict.

    environment = verifiers_env(cases)
    environment.evaluate_sync(client, model="…", num_examples=20)

An episode without a verdict has the reward NaN and an `error`: their rubrics would turn an
exception into 0. Leave rows with an `error` out before you take a mean.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import orjson

from synth.core.errors import BadInput
from synth.core.optional import package
from synth.core.types import Message
from synth.play import Limits
from train.cases import Case, scripted_user
from train.gym.stepped import Stepped, UserOf, turn_of

EPISODE = "toolloom_episode"
"""Where the state of a roll-out keeps its episode."""


def dataset_rows(cases: Sequence[Case]) -> list[dict[str, Any]]:
    """Return a row for each task: the prompt as the scripted user begins, and which tools.

    `info` is JSON text: a column of objects would be padded with what other rows have.

    Raises:
        BadInput: a case begins where something else is to be done first.
    """
    rows = []
    for number, case in enumerate(cases):
        specs = {tool.name: tool for tool in case.world.tools()}
        tools = [specs[name].openai()["function"] for name in case.agent.tools]
        if case.prefix is not None and not case.prefix.agents_turn:
            what = "what is kept ends where it is not the agent's turn"
            raise BadInput(what, where=f"case {number}", remedy="fork at `random` or `last-good`")
        prompt = [message.openai() for message in case.opening()]
        facts = {"case": number, "application": case.world.name, "kind": case.task.blueprint.kind}
        info = orjson.dumps({**facts, "tool_defs": tools}).decode()
        rows.append({"prompt": prompt, "answer": "", "info": info})
    return rows


def verifiers_env(
    cases: Sequence[Case],
    *,
    limits: Limits | None = None,
    user: UserOf = scripted_user,
    **settings: Any,
) -> Any:
    """Return the tasks as a `vf.Environment`.

    Args:
        cases: the tasks.
        limits: of an episode; verifiers' own limit of turns is off.
        user: makes the user; their first words should be the task's request, which is the prompt.
        **settings: of `vf.MultiTurnEnv`.

    Raises:
        BadInput: verifiers or datasets is not installed.
    """
    vf, datasets = package("verifiers"), package("datasets")
    rows = datasets.Dataset.from_list(dataset_rows(cases))
    table = _Table(cases, limits, user, vf)

    async def verdict(state: Any) -> float:
        return _reward(state)

    members = {
        "setup_state": lambda self, state: table.begin(state),
        "env_response": lambda self, messages, state, **_: table.answer(messages[-1], state),
        "leave": vf.cleanup(_leave),
    }
    kind: Any = type("ToolloomEnv", (vf.MultiTurnEnv,), members)
    return kind(
        dataset=rows, eval_dataset=rows, rubric=vf.Rubric(funcs=[verdict]), max_turns=-1, **settings
    )


class _Table:
    """Where the roll-outs of one environment are played."""

    def __init__(self, cases: Sequence[Case], limits: Limits | None, user: UserOf, vf: Any) -> None:
        self._cases, self._limits, self._user, self._vf = cases, limits, user, vf

    async def begin(self, state: Any) -> None:
        """Begin the episode of a roll-out."""
        number = state["info"]["case"]
        episode = Stepped(
            self._cases[number],
            seed=number,
            limits=self._limits,
            user=self._user,
            who=f"verifiers:{state['model']}",
        )
        state[EPISODE] = episode
        await episode.begin()
        episode.news()  # is in the prompt
        self._check(episode)

    async def answer(self, said: Any, state: Any) -> list[Any]:
        """Return what user or tools answer to a message of the model."""
        episode: Stepped = state[EPISODE]
        cut_off = bool(state["trajectory"][-1].get("is_truncated"))
        await episode.step(turn_of(_message(said), cut_off=cut_off))
        self._check(episode)
        news = [self._theirs(message) for message in episode.news()]
        if episode.outcome is not None:
            state["final_env_response"] = news
        return news

    def _theirs(self, message: Message) -> Any:
        if message.role == "tool":
            return self._vf.ToolMessage(
                content=message.content or "", tool_call_id=message.tool_call_id
            )
        return self._vf.UserMessage(content=message.content)

    def _check(self, episode: Stepped) -> None:
        if episode.outcome is not None and episode.outcome.reward is None:
            raise self._vf.InfraError(episode.outcome.verdict.reason)


def _message(said: Any) -> dict[str, Any]:
    """Return a message of theirs in the OpenAI shape; theirs has the calls flat."""
    raw = said if isinstance(said, dict) else said.model_dump()
    calls = [
        {
            "id": call["id"],
            "type": "function",
            "function": {"name": call["name"], "arguments": call["arguments"]},
        }
        for call in raw.get("tool_calls") or ()
    ]
    return {"content": raw.get("content"), "tool_calls": calls}


def _reward(state: Any) -> float:
    episode: Stepped | None = state.get(EPISODE)
    outcome = episode.outcome if episode is not None else None
    reward = outcome.reward if outcome is not None else None
    return math.nan if reward is None else reward


async def _leave(self: Any, state: Any) -> None:
    """Give back what a roll-out holds that was broken off."""
    episode: Stepped | None = state.get(EPISODE)
    if episode is not None:
        await episode.close()
