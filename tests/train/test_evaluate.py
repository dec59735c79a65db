"""Episodes of the model in real environments: token in, token out, judged by the program."""

import asyncio
import json

import pytest

from simulators.sql.engine import Engine as ApplicationEngine
from simulators.sql.load import load_application
from simulators.sql.world import SqlWorld
from simulators.users.scripted import ScriptedUser
from synth.agents import agents_for
from synth.core.errors import NotSuitable, ToolloomError
from synth.core.seeds import rng
from synth.core.types import StopReason, TaskKind
from synth.judge import judge
from synth.play import Limits, play
from synth.reference import ReferenceAgent
from synth.tasks import sample_task
from train.agent import EnginePlayer, SharedSampler
from train.cases import Case
from train.engine import Drawn, Sampling
from train.evaluate import Table, evaluate, play_cases, wilson
from train.rl import EpisodeRollouts, RlConfig, train_rl

GREEDY = Sampling(stop=(2,), max_tokens=400, temperature=0)
KINDS = (TaskKind.LOOKUP, TaskKind.SINGLE_WRITE, TaskKind.UNSERVED, TaskKind.MISSING_FACT)


def table(renderer, **options):
    """Where to play; the tokenizer is tiny, so conversations are long."""
    return Table(renderer, user=user, **{"context": 30_000, **options})


def user(case, seed):
    return ScriptedUser(case.task.request, rng("user", case.task.key))


async def reference(case):
    """The messages of an accepted episode of the reference agent."""
    environment = case.world.environment()
    trajectory = await play(
        task=case.task,
        agent=case.agent,
        environment=environment,
        agent_player=ReferenceAgent(case.task, case.agent, rng(case.task.key), None),
        user_player=user(case, 0),
        limits=Limits(),
        episode="e",
        seed=0,
    )
    tools = {tool.name: tool for tool in case.world.tools()}
    verdict = await judge(case.task, case.agent, trajectory, environment, tools)
    assert verdict.passed, verdict.reason
    return [message.openai() for message in trajectory.messages]


async def sampled_cases(world):
    (agent,) = agents_for(world, 1, 0, size=(14, 14))
    cases = []
    for kind in KINDS:
        for seed in range(40):
            try:
                task = await sample_task(world, agent, kind, seed, rng("task", seed))
            except NotSuitable:
                continue
            cases.append(Case(task, agent, world))
            break
    return cases


@pytest.fixture(scope="module")
def cases():
    world = SqlWorld(ApplicationEngine(load_application("hotel")))
    found = asyncio.run(sampled_cases(world))
    assert len(found) == len(KINDS)
    return found


def tools_of(case):
    specs = {tool.name: tool.openai() for tool in case.world.tools()}
    return [specs[name] for name in case.agent.tools]


class Recital:
    """An engine that goes on as one of the recorded conversations does."""

    version = 7

    def __init__(self, renderer, conversations):
        self.rendered = [renderer.render(messages, tools) for messages, tools in conversations]
        self.stop = renderer.stop_id
        self.batches = []

    def sample(self, prompts, sampling, seeds):
        self.batches.append(len(prompts))
        out = []
        for prompt in prompts:
            (whole,) = [r for r in self.rendered if r.ids_T[: len(prompt)] == list(prompt)]
            ids = whole.ids_T[len(prompt) :]
            ids = ids[: ids.index(self.stop) + 1]
            out.append(Drawn(ids, [-0.5] * len(ids), "stop", self.version))
        return out


@pytest.fixture(scope="module")
def recital(cases, renderer):
    messages = [asyncio.run(reference(case)) for case in cases]
    return Recital(renderer, [(m, tools_of(case)) for m, case in zip(messages, cases, strict=True)])


def test_a_model_that_says_what_the_reference_agent_says_passes(cases, renderer, recital):
    recital.batches.clear()
    told = []
    found = asyncio.run(
        evaluate(
            recital,
            cases,
            table(renderer),
            sampling=GREEDY,
            progress=lambda done, total, m: told.append((done, total, m["pass_rate"])),
        )
    )
    assert (found.application, found.n, found.passed, found.unscored) == ("hotel", 4, 4, 0)
    assert found.pass_rate == 1.0
    assert found.interval == pytest.approx((0.5101, 1.0), abs=1e-4)
    assert found.faults == {}
    assert found.by_reason == {"accepted": 4}
    assert found.by_kind == {str(kind): (1, 1) for kind in KINDS}
    assert found.calls == found.calls_ok > 4
    assert told == [(4, 4, 1.0)]
    # One generation step serves every episode that goes on.
    assert recital.batches[0] == 4
    assert recital.batches == sorted(recital.batches, reverse=True)


def test_the_token_record_is_the_rendering_with_sampled_tokens_trained(cases, renderer, recital):
    place = table(renderer)
    played = asyncio.run(play_cases(recital, cases, place, GREEDY, seed=[0, 1, 2, 3]))
    for one, whole in zip(played, recital.rendered, strict=True):
        row = one.player.row()
        # What the user says last is never shown to the model.
        assert row.ids == whole.ids_T[: len(row.ids)]
        assert list(row.weights) == whole.weights_T[: len(row.ids)]
        assert sum(whole.weights_T[len(row.ids) :]) == 0
        assert len(one.player.logprobs) == sum(row.weights)
        assert one.trajectory.players["agent"] == "model:engine@7"
        assert one.reward == 1.0


class Fixed:
    """An engine that always says the same."""

    version = 0

    def __init__(self, renderer, text, finish="stop"):
        self.ids = renderer.encode_content(text) + [renderer.stop_id] * (finish == "stop")
        self.finish = finish

    def sample(self, prompts, sampling, seeds):
        return [Drawn(list(self.ids), [0.0] * len(self.ids), self.finish, 0) for _ in prompts]


@pytest.mark.parametrize(
    ("text", "finish", "reason"),
    [
        ('<tool_call>{"name": "find_guest", "arguments": {</tool_call>', "stop",
         "unusable:broken_json"),
        ('<tool_call>{"name": 1, "arguments": {}}</tool_call>', "stop", "unusable:bad_name"),
        ("I am still thinking", "length", "unusable:cut_off"),
    ],
)  # fmt: skip
def test_an_unusable_reply_is_the_models_own_failure(cases, renderer, text, finish, reason):
    engine = Fixed(renderer, text, finish)
    place = table(renderer)
    found = asyncio.run(evaluate(engine, cases, place, sampling=GREEDY))
    assert found.by_reason == {reason: 4}
    assert (found.passed, found.pass_rate, found.unscored) == (0, 0.0, 0)


def test_a_reply_cut_off_at_the_limit_is_kept_and_nothing_in_it_is_done(cases, renderer):
    whole = '<tool_call>{"name": "list_rooms", "arguments": {}}</tool_call>'
    engine = Fixed(renderer, whole, "length")
    (one,) = asyncio.run(play_cases(engine, cases[:1], table(renderer), GREEDY, seed=[0]))
    assert one.trajectory.stop is StopReason.CUT_OFF
    assert one.trajectory.messages[-1].content == whole
    assert one.trajectory.steps == ()
    assert (one.reward, one.reason) == (0.0, "unusable:cut_off")
    assert sum(one.player.row().weights) == len(engine.ids)  # learned from all the same


def test_idle_talk_fails_every_task(cases, renderer):
    place = table(renderer)
    engine = Fixed(renderer, "Hello! I have done everything.")
    found = asyncio.run(evaluate(engine, cases, place, sampling=GREEDY))
    assert (found.n, found.passed) == (4, 0)


def longest_prompt(cases, renderer):
    return max(
        len(
            renderer.prompt(
                [
                    {"role": "system", "content": case.agent.system},
                    {"role": "user", "content": case.task.request},
                ],
                tools_of(case),
            )
        )
        for case in cases
    )


def test_a_conversation_that_outgrows_the_context_is_the_models_own_failure(
    cases, renderer, recital
):
    room = longest_prompt(cases, renderer) + GREEDY.max_tokens + 8
    found = asyncio.run(evaluate(recital, cases, table(renderer, context=room), sampling=GREEDY))
    assert found.by_reason["unusable:context_full"] + found.passed == found.n == 4
    assert found.by_reason["unusable:context_full"] > 0


def test_a_prompt_that_does_not_fit_is_no_failure_of_a_model_that_never_spoke(
    cases, renderer, recital
):
    place = table(renderer, context=800)
    found = asyncio.run(evaluate(recital, cases, place, sampling=GREEDY))
    assert (found.n, found.unscored, found.faults) == (0, 4, {"infrastructure": 4})
    (one,) = asyncio.run(play_cases(recital, cases[:1], place, GREEDY, seed=[0]))
    assert "tokens, the context room for 400" in one.trajectory.error
    assert (one.reward, one.player.row().ids) == (None, [])


class BrokenWorld:
    """A world whose environments break at the first call, or at a later reset."""

    name, real = "broken", False

    def __init__(self, world, resets=None):
        self.world, self.resets = world, resets

    def tools(self):
        return self.world.tools()

    def environment(self):
        environment = self.world.environment()

        async def call(name, arguments):
            raise ToolloomError("the disk is gone")

        reset, left = environment.reset, self.resets

        async def reset_some_times(seed):
            nonlocal left
            if left == 0:
                raise KeyError("no more")
            left -= 1
            await reset(seed)

        if self.resets is None:
            environment.call = call
        else:
            environment.reset = reset_some_times
        return environment


def test_an_episode_that_the_infrastructure_broke_is_in_no_rate(cases, renderer, recital):
    broken = [Case(case.task, case.agent, BrokenWorld(case.world)) for case in cases[:2]]
    place = table(renderer)
    found = asyncio.run(evaluate(recital, broken, place, sampling=GREEDY))
    assert (found.n, found.unscored, found.pass_rate) == (0, 2, None)
    assert (found.interval, found.faults, found.by_reason) == (None, {"environment": 2}, {})


def test_an_episode_that_the_judge_broke_is_in_no_rate(cases, renderer, recital):
    odd = [Case(case.task, case.agent, BrokenWorld(case.world, resets=1)) for case in cases[:1]]
    found = asyncio.run(evaluate(recital, [*odd, *cases[1:]], table(renderer), sampling=GREEDY))
    assert (found.n, found.passed, found.unscored) == (3, 3, 1)
    assert found.faults == {"judge": 1}


class LiveWorld:
    """A world that says it is real."""

    name, real = "live", True

    def __init__(self, world):
        self.world = world
        self.resets = 0

    def tools(self):
        return self.world.tools()

    def environment(self):
        environment = self.world.environment()
        reset = environment.reset

        async def counted(seed):
            self.resets += 1
            await reset(seed)

        environment.reset = counted
        return environment


def test_episodes_on_live_worlds_are_replayed_too(cases, renderer, recital):
    world = LiveWorld(cases[0].world)
    live = [Case(case.task, case.agent, world) for case in cases]
    found = asyncio.run(evaluate(recital, live, table(renderer), sampling=GREEDY))
    assert (found.n, found.passed) == (4, 4)
    assert world.resets == 8


@pytest.mark.parametrize(
    ("passed", "n", "interval"),
    [
        (0, 0, None),
        (0, 12, (0.0, 0.2425)),
        (5, 24, (0.0924, 0.4047)),
        (12, 12, (0.7575, 1.0)),
        (50, 100, (0.4038, 0.5962)),
    ],
)
def test_the_interval_of_a_rate_is_wilsons(passed, n, interval):
    found = wilson(passed, n)
    assert found is None if interval is None else found == pytest.approx(interval, abs=1e-4)


def test_an_engine_that_breaks_is_no_verdict_but_an_error(cases, renderer):
    class Broken:
        version = 0

        def sample(self, prompts, sampling, seeds):
            raise MemoryError("too much")

    with pytest.raises(MemoryError, match="too much"):
        asyncio.run(evaluate(Broken(), cases, table(renderer), sampling=GREEDY))


def test_waves_are_finished_and_the_time_is_kept(cases, renderer, recital):
    place = table(renderer, width=2)
    assert asyncio.run(evaluate(recital, cases, place, sampling=GREEDY)).n == 4
    short = evaluate(recital, cases, place, sampling=GREEDY, seconds=0.0)
    assert asyncio.run(short).n == 2


def test_episodes_that_leave_do_not_hold_up_the_others(renderer):
    async def scene():
        engine = Fixed(renderer, "x")
        sampler = SharedSampler(engine, GREEDY, players=3)
        first = asyncio.create_task(sampler.draw([1], seed=0))
        second = asyncio.create_task(sampler.draw([2], seed=0))
        await asyncio.sleep(0)
        assert not first.done()
        sampler.leave()
        return await asyncio.gather(first, second)

    assert len(asyncio.run(asyncio.wait_for(scene(), 5))) == 2


def test_reinforcement_on_episodes_logs_rewards_and_learns_from_differing_groups(
    cases, engine, renderer, tmp_path
):
    # An untrained model fails everything: no signal, no step, and the figures say so.
    place = table(renderer, limits=Limits(turns=2, calls=2))
    rollouts = EpisodeRollouts(cases, place, Sampling(stop=(renderer.stop_id,), max_tokens=3))
    config = RlConfig(iterations=1, tasks=2, k=2)
    result = asyncio.run(train_rl(engine, rollouts, config, tmp_path))
    (figures,) = [json.loads(x) for x in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert figures["samples"] == 4
    assert figures["reward"] == result.reward_first == 0.0
    assert figures["zero_signal"] == 1.0
    assert engine.version == 0


def test_a_task_drawn_twice_in_an_iteration_is_not_played_alike_twice(cases, renderer):
    seen = []

    class Watched(Fixed):
        def sample(self, prompts, sampling, seeds):
            seen.extend(seeds)
            return super().sample(prompts, sampling, seeds)

    place = table(renderer, limits=Limits(turns=1, calls=1))
    rollouts = EpisodeRollouts(cases, place, GREEDY)
    groups = asyncio.run(rollouts(Watched(renderer, "x"), [1, 1], 3, temperature=1.0, seed=5))
    assert [len(group) for group in groups] == [3, 3]
    assert len(set(seen)) == 6


def test_the_order_of_a_batch_is_not_who_asked_first(renderer):
    class Watched(Fixed):
        def sample(self, prompts, sampling, seeds):
            self.seen = list(zip(prompts, seeds, strict=True))
            return [Drawn([*prompt], [], "stop", 0) for prompt in prompts]

    async def scene(order):
        engine = Watched(renderer, "x")
        sampler = SharedSampler(engine, GREEDY, players=3)
        drawn = await asyncio.gather(*(sampler.draw([n], seed=n) for n in order))
        return engine.seen, [one.ids for one in drawn]

    one, other = asyncio.run(scene([3, 1, 2])), asyncio.run(scene([2, 3, 1]))
    assert one[0] == other[0]
    assert (one[1], other[1]) == ([[3], [1], [2]], [[2], [3], [1]])


def test_the_key_of_rollouts_is_of_the_tasks_and_of_how_they_are_played(cases, renderer):
    def key(cases=cases, sampling=GREEDY, **options):
        return EpisodeRollouts(cases, table(renderer, **options), sampling).key()

    assert key() == key()
    others = [key(cases[:3]), key(context=999), key(limits=Limits(turns=3))]
    others.append(key(sampling=Sampling(stop=(2,), max_tokens=3)))
    assert len({key(), *others}) == 5


def test_a_player_counts_calls_through_the_dialogue(renderer):
    sampler = SharedSampler(
        Fixed(renderer, '<tool_call>{"name": "f", "arguments": {}}</tool_call>'),
        GREEDY,
        players=1,
    )
    player = EnginePlayer(sampler, renderer, seed=0)

    async def two_turns():
        from synth.core.protocols import AgentView
        from synth.core.types import Message

        messages = [Message(role="user", content="go")]
        first = (await player.turn(AgentView(messages, ()))).message
        result = Message(role="tool", content="{}", tool_call_id=first.tool_calls[0].id)
        second = (await player.turn(AgentView([*messages, first, result], ()))).message
        return first.tool_calls[0].id, second.tool_calls[0].id

    assert asyncio.run(two_turns()) == ("call_0", "call_1")
