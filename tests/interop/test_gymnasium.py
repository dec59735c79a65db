"""Gymnasium's form, with and without the package."""

import asyncio
import math
import pickle

import pytest

from synth.core.errors import BadInput, ServerFailed, ToolloomError
from synth.core.types import Message
from train.gym.for_gymnasium import ResetStep, gymnasium_env
from train.gym.stepped import turn_of


def play(environment, agent_of, seed):
    """Play an episode by the reference agent; return what the steps gave, and the last message."""
    observation, _ = environment.reset(seed=seed)
    number = seed % len(environment.cases)
    agent = agent_of(environment.cases[number], seed)
    steps = []
    while not steps or not (steps[-1][1] or steps[-1][2]):
        view = View([_message(m) for m in observation["messages"]])
        turn = asyncio.run(agent.turn(view))
        observation, *rest = environment.step(turn.message.openai())
        steps.append(tuple(rest))
    return steps, observation


class View:
    def __init__(self, messages):
        self.messages, self.tools = messages, ()


def _message(raw):
    if raw["role"] == "assistant":
        return turn_of(raw).message
    return Message(role=raw["role"], content=raw["content"], tool_call_id=raw.get("tool_call_id"))


def test_an_episode_ends_with_the_verdict_as_reward(cases, reference):
    environment = ResetStep(cases)
    for seed in range(len(cases)):
        steps, _ = play(environment, reference, seed)
        assert [reward for reward, *_ in steps[:-1]] == [0.0] * (len(steps) - 1)
        reward, terminated, truncated, info = steps[-1]
        assert (reward, terminated, truncated) == (1.0, True, False)
        assert info["reason"] == "accepted"
        assert info["verdict"]["passed"] is True
    environment.close()


def test_an_agent_that_does_nothing_gets_nothing(cases):
    environment = ResetStep(cases)
    environment.reset(seed=0)
    _, reward, terminated, truncated, info = environment.step("Goodbye.")
    assert (reward, terminated, truncated) == (0.0, True, False)
    assert info["passed"] is False


def test_an_observation_is_what_the_agent_may_see_and_nothing_else(cases):
    environment = ResetStep(cases)
    observation, _ = environment.reset(seed=0)
    task, agent = cases[0].task, cases[0].agent
    assert observation["messages"][0] == {"role": "system", "content": agent.system}
    assert observation["messages"][1]["role"] == "user"
    assert [tool["function"]["name"] for tool in observation["tools"]] == list(agent.tools)
    assert task.rubric.criteria()[0].text not in str(observation)
    environment.close()


def test_seeds_name_tasks_and_the_tasks_after_them(cases):
    environment = ResetStep(cases)

    def drawn(seed, count=5):
        found = [environment.reset(seed=seed)[1]["task"]]
        return found + [environment.reset()[1]["task"] for _ in range(count)]

    assert drawn(3)[0] == cases[3].task.key
    assert drawn(3 + len(cases))[0] == cases[3].task.key
    assert drawn(3) == drawn(3)
    assert drawn(3)[1:] != drawn(4)[1:]
    assert environment.reset(options={"task": 2})[1]["task"] == cases[2].task.key
    environment.close()


@pytest.mark.parametrize("options", [{"task": 99}, {"task": -1}, {"task": "a"}, {"tusk": 1}])
def test_options_that_mean_nothing_are_told(cases, options):
    with pytest.raises(BadInput, match=r"no task|no such option"):
        ResetStep(cases).reset(options=options)


def test_steps_without_an_episode_are_told(cases):
    environment = ResetStep(cases)
    with pytest.raises(ToolloomError, match="reset"):
        environment.step("Hello?")
    environment.reset(seed=0)
    environment.step("Goodbye.")
    with pytest.raises(ToolloomError, match="reset"):
        environment.step("Hello?")
    environment.close()
    environment.close()
    with pytest.raises(BadInput, match="no tasks"):
        ResetStep([]).reset()


def test_an_episode_without_a_verdict_is_truncated_and_its_reward_is_no_number(cases):
    def deaf(case, seed):
        class Deaf:
            who = "deaf"

            async def turn(self, view):
                if len(view.messages):
                    raise ServerFailed("is gone", where="the user", outcome="exited")
                from synth.core.protocols import Turn

                return Turn(Message(role="user", content="Hello."))

        return Deaf()

    environment = ResetStep(cases, user=deaf)
    environment.reset(seed=0)
    _, reward, terminated, truncated, info = environment.step("What can I do for you?")
    assert math.isnan(reward)
    assert (terminated, truncated, info["passed"]) == (False, True, None)
    assert info["reason"] == "fault:user"


def test_an_episode_that_breaks_before_the_first_message_is_told_by_the_first_step(cases):
    def absent(case, seed):
        class Absent:
            who = "absent"

            async def turn(self, view):
                raise ServerFailed("is gone", where="the user", outcome="exited")

        return Absent()

    environment = ResetStep(cases, user=absent)
    _, info = environment.reset(seed=0)
    assert info["reason"] == "fault:user"
    _, reward, terminated, truncated, _ = environment.step("Hello?")
    assert math.isnan(reward)
    assert (terminated, truncated) == (False, True)


def test_without_gymnasium_one_line_says_how_to_get_it(cases, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "gymnasium", None)
    with pytest.raises(BadInput, match="pip install gymnasium"):
        gymnasium_env(cases)


# --- the real package ----------------------------------------------------------------------------


@pytest.fixture
def gym():
    return pytest.importorskip("gymnasium", reason="gymnasium is not installed")


@pytest.fixture
def registered(gym, cases):
    gym.register("toolloom/Tasks-v0", entry_point="train.gym.for_gymnasium:gymnasium_env")
    yield gym.make("toolloom/Tasks-v0", cases=lambda: cases)
    gym.registry.pop("toolloom/Tasks-v0")


def test_gymnasiums_own_checker_finds_nothing(registered):
    from gymnasium.utils.env_checker import check_env

    check_env(registered.unwrapped)  # what it would only warn of is an error here


def test_through_gymnasiums_wrappers_the_reward_is_our_verdict(registered, cases, reference):
    registered.cases = cases
    for seed in range(len(cases)):
        steps, observation = play(registered, reference, seed)
        assert steps[-1][:3] == (1.0, True, False)
        assert observation in registered.observation_space


def test_spaces_of_all_environments_are_equal_and_can_be_sent_to_other_processes(gym, cases):
    one, two = gymnasium_env(cases), gymnasium_env(lambda: cases[:1])
    for name in ("action_space", "observation_space"):
        mine, theirs = getattr(one, name), getattr(two, name)
        assert mine == theirs
        assert hash(mine) == hash(theirs)
        again = pickle.loads(pickle.dumps(mine))
        assert again == mine
        mine.seed(3)
        again.seed(3)
        assert again.sample() == mine.sample()
        assert mine.sample() in again
    assert one.action_space != one.observation_space
    assert one.action_space != gym.spaces.Discrete(2)


def test_gymnasiums_vectors_hold_several_tasks_at_once(gym, cases):
    several = gym.vector.SyncVectorEnv(
        [lambda number=number: gymnasium_env(cases[number:]) for number in range(2)]
    )
    observations, _ = several.reset(seed=[0, 0])
    assert len(observations) == 2
    several.close()
