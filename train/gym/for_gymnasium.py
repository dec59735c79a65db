"""Episodes in Gymnasium's form: `reset(seed=, options=)` and `step(action)`.

`ResetStep` has the form and needs no package; `gymnasium_env` is the same as a `gymnasium.Env`,
which its wrappers and its checker want (tried with gymnasium 1.4.0).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from synth.core import seeds
from synth.core.errors import BadInput, ToolloomError
from synth.core.optional import package
from synth.play import Limits
from train.cases import Case, scripted_user
from train.gym.stepped import Stepped, UserOf, blocking, turn_of

Observation = dict[str, Any]
"""`messages` and `tools` as the chat-completions API takes them; new objects every time."""


class ResetStep:
    """One episode at a time; an action is one assistant message.

    An action is text for the user, or a message in the OpenAI shape (`content`, `tool_calls`). The
    user plays inside. The reward is 0.0 until the end, and then the verdict (1.0 or 0.0), with
    `terminated`. An episode that something other than the agent broke has no verdict: its reward
    is NaN, it is `truncated`, and `info["reason"]` says who. Leave it out of means and losses.

    Args:
        cases: the tasks; `reset(seed=n)` plays number `n` modulo their count. Without a seed,
            `reset` plays a task drawn from the last seed (at first 0). Or a function that makes
            the cases when the first is wanted.
        limits: of an episode.
        user: makes the user.
    """

    metadata: dict[str, Any] = {"render_modes": []}

    def __init__(
        self,
        cases: Sequence[Case] | Callable[[], Sequence[Case]],
        *,
        limits: Limits | None = None,
        user: UserOf = scripted_user,
    ) -> None:
        self._cases, self._limits, self._user = cases, limits, user
        self._seed = self._resets = 0
        self._episode: Stepped | None = None
        self._tools = b"[]"
        self._told = False
        """The end was told by `step`: it is told once."""

    @property
    def cases(self) -> Sequence[Case]:
        """The tasks."""
        if callable(self._cases):
            self._cases = self._cases()
        if not self._cases:
            raise BadInput("there are no tasks to play")
        return self._cases

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode.

        Args:
            seed: names the task and the user's words.
            options: `task` is the number of a task to play instead of the one that `seed` names.

        Raises:
            BadInput: no such task.
        """
        self.close()
        self._told = False
        if seed is None:
            self._resets += 1
            number = seeds.seed("reset", self._seed, self._resets)
        else:
            number, self._seed, self._resets = seed, seed, 0
        case = self._case(number, dict(options or {}))
        self._episode = Stepped(case, seed=number, limits=self._limits, user=self._user)
        blocking(self._episode.begin())
        self._tools = orjson.dumps([tool.openai() for tool in self._episode.tools])
        blueprint = case.task.blueprint
        facts = {"task": case.task.key, "application": blueprint.world, "kind": str(blueprint.kind)}
        return self._observation(), facts | self._result()[3]

    def step(
        self, action: str | Mapping[str, Any]
    ) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Say one message.

        Raises:
            ToolloomError: no episode is under way.
        """
        if self._episode is None or self._told:
            raise ToolloomError("no episode is under way", remedy="call reset first")
        if self._episode.outcome is None:  # it may have broken before anybody could speak
            blocking(self._episode.step(turn_of(action)))
        reward, terminated, truncated, info = self._result()
        self._told = terminated or truncated
        return self._observation(), reward, terminated, truncated, info

    def close(self) -> None:
        """End the episode, if one is under way. Harmless when called twice."""
        if self._episode is not None:
            blocking(self._episode.close())
            self._episode = None

    def _case(self, number: int, options: dict[str, Any]) -> Case:
        task = options.pop("task", None)
        if options:
            raise BadInput(f"no such option: {', '.join(sorted(options))}", remedy="task")
        if task is None:
            return self.cases[number % len(self.cases)]
        if type(task) is not int or not 0 <= task < len(self.cases):
            raise BadInput(f"there is no task {task!r}", remedy=f"0 to {len(self.cases) - 1}")
        return self.cases[task]

    def _observation(self) -> Observation:
        assert self._episode is not None
        messages = [message.openai() for message in self._episode.messages]
        return {"messages": messages, "tools": orjson.loads(self._tools)}

    def _result(self) -> tuple[float, bool, bool, dict[str, Any]]:
        outcome = self._episode.outcome if self._episode is not None else None
        if outcome is None:
            return 0.0, False, False, {}
        verdict, reward = outcome.verdict, outcome.reward
        info = {
            "passed": verdict.passed,
            "reason": verdict.reason,
            "stop": str(outcome.trajectory.stop),
            "verdict": verdict.model_dump(mode="json"),
        }
        if reward is None:
            return math.nan, False, True, info
        return reward, True, False, info


def gymnasium_env(
    cases: Sequence[Case] | Callable[[], Sequence[Case]],
    *,
    limits: Limits | None = None,
    user: UserOf = scripted_user,
) -> Any:
    """Return `ResetStep` as a `gymnasium.Env`; the arguments are the same.

    It can be an entry point (`gymnasium.register`); `make` copies arguments deeply, so give it a
    function there and not the cases.

    Raises:
        BadInput: gymnasium is not installed.
    """
    gym = package("gymnasium")
    from train.gym.spaces import Actions, Observations

    class Form(ResetStep):
        def reset(
            self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
        ) -> tuple[Observation, dict[str, Any]]:
            gym.Env.reset(self, seed=seed)
            return super().reset(seed=seed, options=options)

    members = {"action_space": Actions(), "observation_space": Observations()}
    return type("ToolloomEnv", (Form, gym.Env), members)(cases, limits=limits, user=user)
