"""An episode that is stepped from outside is an episode like any other."""

import asyncio
import dataclasses
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from synth.core import seeds
from synth.core.config import load_config
from synth.core.errors import BudgetSpent, ServerFailed, ToolloomError, UnknownName
from synth.core.protocols import Turn
from synth.core.types import Message, StopReason, ToolCall
from synth.episode import play_and_judge
from synth.pipeline.generate import Goal
from synth.pipeline.job import generate
from synth.pipeline.worlds import open_applications
from synth.play import Limits
from synth.reference import ReferenceAgent
from synth.run import read_episodes, read_plan
from train.cases import planned_cases, scripted_user
from train.gym import stepped
from train.gym.stepped import Stepped, blocking, turn_of


async def played_outside(case, seed, reference):
    episode, agent = Stepped(case, seed=seed), reference(case, seed)
    await episode.begin()
    while episode.outcome is None:
        await episode.step(await agent.turn(episode))
    await episode.close()
    return episode.outcome


async def played_inside(case, seed):
    environment = case.world.environment()
    try:
        return await play_and_judge(
            {tool.name: tool for tool in case.world.tools()},
            task=case.task,
            agent=case.agent,
            environment=environment,
            agent_player=ReferenceAgent(case.task, case.agent, seeds.rng("agent", seed)),
            user_player=scripted_user(case, seed),
            limits=Limits(seconds=None),
            episode=f"{case.task.key}-{seed}",
            seed=seed,
        )
    finally:
        await environment.close()


def say(text):
    return Turn(Message(role="assistant", content=text))


def test_the_same_words_give_the_same_episode_inside_and_outside(cases, reference):
    for seed, case in enumerate(cases):
        outside = asyncio.run(played_outside(case, seed, reference))
        trajectory, verdict = asyncio.run(played_inside(case, seed))
        assert outside.verdict == verdict
        assert outside.reward == 1.0
        assert outside.trajectory.messages == trajectory.messages
        assert outside.trajectory.diff == trajectory.diff
        assert outside.trajectory.players["agent"] == "outside"


def test_news_is_what_others_said_since_it_was_last_asked_for(cases):
    async def go():
        episode = Stepped(cases[0])
        await episode.begin()
        first = episode.news()
        await episode.step(say("What is your telephone number?"))
        second = episode.news()
        await episode.close()
        return first, second

    first, second = asyncio.run(go())
    assert [message.role for message in first] == ["system", "user"]
    assert [message.role for message in second] == ["user"]


def test_results_of_calls_are_news_too(cases):
    tool = cases[0].agent.tools[0]
    call = {"id": "a", "type": "function", "function": {"name": tool, "arguments": {}}}

    async def go():
        episode = Stepped(cases[0])
        await episode.begin()
        episode.news()
        await episode.step(turn_of({"role": "assistant", "tool_calls": [call, call]}))
        found = episode.news(), episode.messages
        await episode.close()
        return found

    news, messages = asyncio.run(go())
    assert [message.role for message in news] == ["tool", "tool"]
    ids = [call.id for call in messages[2].tool_calls]
    assert len(set(ids)) == 2
    assert [message.tool_call_id for message in news] == ids


def test_ids_that_came_before_are_made_new(cases):
    tool = cases[0].agent.tools[0]

    async def go():
        episode = Stepped(cases[0])
        await episode.begin()
        for _ in range(2):
            calls = (ToolCall(id="call_0", name=tool, arguments="{}"),)
            await episode.step(Turn(Message(role="assistant", tool_calls=calls)))
        found = [call.id for m in episode.messages for call in m.tool_calls]
        await episode.close()
        return found

    first, second = asyncio.run(go())
    assert first == "call_0"
    assert second != first


@pytest.mark.parametrize(
    ("said", "stop"),
    [
        ("", StopReason.AGENT_INVALID),
        ({"content": None}, StopReason.AGENT_INVALID),
        ({"tool_calls": "find_guest()"}, StopReason.AGENT_INVALID),
        ({"content": 5}, StopReason.AGENT_INVALID),
        ("Goodbye.", StopReason.USER_DONE),
    ],
)
def test_a_message_that_is_none_is_the_agents_own_failure(cases, said, stop):
    async def go():
        episode = Stepped(cases[0])
        await episode.begin()
        await episode.step(turn_of(said))
        return episode.outcome

    outcome = asyncio.run(go())
    assert outcome.trajectory.stop is stop
    assert outcome.reward == 0.0


def test_a_message_that_was_cut_off_is_not_acted_on(cases):
    async def go():
        episode = Stepped(cases[0])
        await episode.begin()
        await episode.step(turn_of("I will now", cut_off=True))
        return episode.outcome

    assert asyncio.run(go()).trajectory.stop is StopReason.CUT_OFF


def test_the_limits_of_an_episode_hold(cases):
    async def go():
        episode = Stepped(cases[0], limits=Limits(turns=2, seconds=None))
        await episode.begin()
        for _ in range(2):
            await episode.step(say("What is your telephone number?"))
        return episode.outcome

    outcome = asyncio.run(go())
    assert outcome.trajectory.stop is StopReason.MAX_TURNS
    assert outcome.reward == 0.0


class Watched:
    """A world whose environments are counted, and may break."""

    def __init__(self, world, broken=False):
        self._world, self._broken = world, broken
        self.open = 0

    def __getattr__(self, name):
        return getattr(self._world, name)

    def environment(self):
        environment, world = self._world.environment(), self
        self.open += 1
        if self._broken:

            async def reset(seed):
                raise ServerFailed("is gone", where="here", outcome="exited")

            environment.reset = reset
        close = environment.close

        async def counted():
            world.open -= 1
            await close()

        environment.close = counted
        return environment


def test_an_episode_that_is_left_gives_its_environment_back(cases):
    world = Watched(cases[0].world)
    case = dataclasses.replace(cases[0], world=world)

    async def go():
        episode = Stepped(case)
        await episode.begin()
        held = world.open
        await episode.close()
        await episode.close()
        return held, episode.outcome

    assert asyncio.run(go()) == (1, None)
    assert world.open == 0


def test_an_environment_that_breaks_gives_no_reward(cases):
    case = dataclasses.replace(cases[0], world=Watched(cases[0].world, broken=True))

    async def go():
        episode = Stepped(case)
        await episode.begin()
        return episode

    episode = asyncio.run(go())
    assert episode.outcome.reward is None
    assert episode.outcome.verdict.reason == "fault:environment"
    assert episode.tools == ()


def test_steps_out_of_place_are_told(cases):
    async def early():
        await Stepped(cases[0]).step(say("Hello?"))

    async def late():
        episode = Stepped(cases[0])
        await episode.begin()
        await episode.step(say("Goodbye."))
        await episode.step(say("Hello?"))

    async def twice():
        episode = Stepped(cases[0])
        await episode.begin()
        try:
            await episode.begin()
        finally:
            await episode.close()

    async def closed():
        episode = Stepped(cases[0])
        await episode.begin()
        await episode.close()
        await episode.step(say("Hello?"))

    async def at_once():
        episode = Stepped(cases[0])
        await episode.begin()
        try:
            await asyncio.gather(*(episode.step(say("What is your name?")) for _ in range(2)))
        finally:
            await episode.close()

    for wrong, told in (
        (early, "not begun"),
        (late, "is over"),
        (twice, "began before"),
        (closed, "was closed"),
        (at_once, "busy"),
    ):
        with pytest.raises(ToolloomError, match=told):
            asyncio.run(wrong())


def test_an_episode_broken_off_by_a_budget_says_so_and_takes_nothing_more(cases):
    def costly(case, seed):
        class Costly:
            who = "costly"

            async def turn(self, view):
                if view.messages:
                    raise BudgetSpent("5 of 5 requests are made")
                return Turn(Message(role="user", content=case.task.request))

        return Costly()

    world = Watched(cases[0].world)

    async def go():
        episode = Stepped(dataclasses.replace(cases[0], world=world), user=costly)
        await episode.begin()
        with pytest.raises(BudgetSpent, match="5 of 5"):
            await episode.step(say("What is your name?"))
        for _ in range(2):
            with pytest.raises(ToolloomError, match="broken off: 5 of 5"):
                await asyncio.wait_for(episode.step(say("Hello?")), 5)
        await episode.close()
        return episode

    assert asyncio.run(go()).outcome is None
    assert world.open == 0


def test_a_broken_user_is_nobodys_reward(cases):
    def silent(case, seed):
        class Silent:
            who = "silent"

            async def turn(self, view):
                raise RuntimeError("no voice")

        return Silent()

    async def go():
        episode = Stepped(cases[0], user=silent)
        await episode.begin()
        return episode.outcome

    outcome = asyncio.run(go())
    assert outcome.reward is None
    assert "no voice" in outcome.trajectory.error


def test_waiting_callers_may_have_a_loop_of_their_own(cases):
    async def inside_a_loop():
        episode = Stepped(cases[0])
        blocking(episode.begin())
        blocking(episode.step(say("Goodbye.")))
        return episode.outcome.reward

    assert asyncio.run(inside_a_loop()) == 0.0


def test_threads_that_begin_at_once_meet_in_one_loop(monkeypatch):
    together = threading.Barrier(8)

    async def where():
        return asyncio.get_running_loop()

    def first(_):
        together.wait()
        return blocking(where())

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            for _ in range(20):
                made = {}
                monkeypatch.setattr(stepped, "_loops", made)
                assert len(set(pool.map(first, range(8)))) == 1
                (loop,) = made.values()
                loop.call_soon_threadsafe(loop.stop)
                while loop.is_running():
                    time.sleep(0.001)
                loop.close()
    finally:
        sys.setswitchinterval(before)


def test_the_cases_of_a_run_are_its_plan_and_play_as_they_were_played(tmp_path, reference):
    config = load_config(None, ["generate.applications=['hotel']", "generate.agents=2"])
    folder, worlds = tmp_path / "runs" / "r", open_applications(["hotel"])
    asyncio.run(generate(config, folder, tmp_path, Goal(episodes=3)))
    planned = list(read_plan(folder))
    found = planned_cases(folder, worlds)
    assert [case.task for case in found] == [row.task for row in planned]
    assert [case.agent.key for case in found] == [row.agent for row in planned]
    assert {id(case.world) for case in found} == {id(worlds["hotel"])}
    played = {row.trajectory.task: row.trajectory for row in read_episodes(folder)}
    for case in found:
        outcome = asyncio.run(played_outside(case, 0, reference))
        assert outcome.reward == 1.0
        assert outcome.trajectory.messages[0] == played[case.task.key].messages[0]
    with pytest.raises(UnknownName, match="hotel"):
        planned_cases(folder, open_applications(["library"]))


def test_no_adapter_needs_a_trainer_or_the_package_it_is_for():
    modules = "stepped", "for_gymnasium", "for_trl", "for_verifiers"
    code = (
        "import sys\n"
        + "".join(f"import train.gym.{name}\n" for name in modules)
        + "print(sorted({'torch', 'openai', 'gymnasium', 'trl', 'verifiers'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
