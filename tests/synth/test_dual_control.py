"""Episodes in which the user has to act: played, judged, written down, replayed, exported."""

import asyncio
import json
import random

import orjson
import pytest

from simulators.users.model import ModelUser
from simulators.users.scripted import ScriptedUser
from synth.core.config import Limits, load_config
from synth.core.llm.scripted import ScriptedLLM
from synth.core.protocols import Reply, Turn
from synth.core.seeds import rng
from synth.core.types import Effect, Fault, Fork, Message, StopReason, ToolCall, ToolResult, Usage
from synth.dataset import dataset_row
from synth.episode import play_and_judge
from synth.fork import calls_in, cut, places
from synth.gate import admit
from synth.harmless import harmless
from synth.judge.form import form_problem, record_problem
from synth.judge.replay import replay_problem
from synth.judge.verdict import judge
from synth.mutate import mutants
from synth.person import compare
from synth.pipeline.compose import Composer
from synth.pipeline.worlds import open_applications
from synth.reference import ErrorRates, ReferenceAgent
from synth.run import Episode
from synth.tasks import difficulty
from synth.transcript import transcript
from train.cases import Case
from train.gym.stepped import Stepped

APPLICATIONS = ["clinic", "hotel", "smart_home"]
WORLDS = open_applications(APPLICATIONS)
HELD = {
    name: {tool.name for tool in world.environment().user_tools()} for name, world in WORLDS.items()
}


@pytest.fixture(name="plans", scope="module")
def _plans():
    """Three admitted tasks of each application, with their agents."""

    async def draw():
        found = []
        for name, world in WORLDS.items():
            composer = Composer(load_config(None, ["generate.mix={user_act=1}"]), {name: world})
            planned = [await composer.planned(index) for index in range(3)]
            found += [(p, composer.agent(name, p.agent)) for p in planned]
            await composer.close()
        return found

    return asyncio.run(draw())


def picked(plans, *, reads):
    """Return a case whose user has to look at something (or to change something)."""
    return next(
        (planned, agent)
        for planned, agent in plans
        if [c.effect is Effect.READ for c in acts_of(planned)] == [reads]
    )


def acts_of(planned):
    return [call for call in planned.task.blueprint.solution if call.by == "user"]


def play(case, agent_player=None, user_player=None, prefix=None, **limits):
    planned, agent = case
    world = WORLDS[planned.world]

    async def run():
        environment = world.environment()
        try:
            return await play_and_judge(
                {tool.name: tool for tool in world.tools()},
                task=planned.task,
                agent=agent,
                environment=environment,
                agent_player=agent_player or ReferenceAgent(planned.task, agent, rng(1, "agent")),
                user_player=user_player or ScriptedUser(planned.task.request, rng(1, "user")),
                limits=Limits(seconds=None, **limits),
                episode=planned.episode,
                seed=planned.seed,
                prefix=prefix,
            )
        finally:
            await environment.close()

    return asyncio.run(run())


class Says:
    """Plays a list of messages, text or calls, and notes what it was shown."""

    who = "says"

    def __init__(self, role, *said):
        self.role, self.said, self.seen = role, list(said), []

    async def turn(self, view):
        self.seen.append((list(view.messages), list(view.tools)))
        said = self.said.pop(0) if len(self.said) > 1 else self.said[0]
        if isinstance(said, str):
            return Turn(Message(role=self.role, content=said), done=said.endswith("Goodbye."))
        calls = tuple(
            ToolCall(id=f"c{len(self.seen)}", name=name, arguments=orjson.dumps(values).decode())
            for name, values in said
        )
        return Turn(Message(role=self.role, tool_calls=calls))


def lookups(planned):
    """Return what the reference does before it needs the user, as messages of `Says`."""
    calls = planned.task.blueprint.solution
    before = calls[: calls.index(acts_of(planned)[0])]
    return [[(call.tool, call.arguments)] for call in before]


def request(planned):
    (call,) = acts_of(planned)
    acts = planned.task.blueprint.acts
    return next(a for a in acts if (a.tool, a.arguments) == (call.tool, call.arguments)).words


# --- the reference and the scripted user -------------------------------------------------------


def test_who_asks_the_user_to_act_passes(plans):
    for case in plans:
        planned, _ = case
        trajectory, verdict = play(case)
        assert (verdict.passed, verdict.reason) == (True, "accepted"), planned.world
        done = [step for step in trajectory.steps if step.by == "user"]
        assert [(s.call.name, s.call.value) for s in done] == [
            (c.tool, c.arguments) for c in acts_of(planned)
        ]
        for step in done:
            assert trajectory.messages[step.message].role == "user"
            assert trajectory.messages[step.message - 1].role == "assistant"
            assert (step.state is None) == (step.effect is Effect.READ)
        assert trajectory.diff in planned.task.blueprint.diffs


def test_the_agent_sees_the_users_words_and_nothing_else_of_it(plans):
    for planned, agent in plans:
        reference = ReferenceAgent(planned.task, agent, rng(1, "agent"))
        seen = []

        class Watched:
            who = "watched"

            async def turn(self, view, reference=reference, seen=seen):
                seen.append((tuple(view.messages), {tool.name for tool in view.tools}))
                return await reference.turn(view)

        trajectory, _ = play((planned, agent), Watched())
        held = HELD[planned.world]
        shown = [*(m for messages, _ in seen for m in messages), *trajectory.messages]
        assert not any(tools & held for _, tools in seen)
        assert not {c.name for m in shown for c in m.tool_calls} & held
        acted = [s for s in trajectory.steps if s.by == "user"]
        assert acted
        results = {m.content for m in shown if m.role == "tool"}
        assert not any(step.result.content in results for step in acted)
        assert all(m.role == "assistant" for m in shown if m.tool_calls)


def test_tools_of_users_are_offered_by_no_door(plans):
    for planned, agent in plans:
        world, held = WORLDS[planned.world], HELD[planned.world]
        assert not held & {tool.name for tool in world.tools()}
        assert not held & set(agent.tools)
        assert not held & {tool.name for tool in world.environment().tools()}
        stepped = Stepped(Case(planned.task, agent, world))

        async def begin(stepped=stepped):
            await stepped.begin()
            await stepped.close()
            return {tool.name for tool in stepped.tools}

        assert asyncio.run(begin()) == set(agent.tools)


def test_a_task_counts_what_the_user_does_and_compares_only_what_the_agent_does(plans):
    planned, _ = case = picked(plans, reads=False)
    trajectory, _ = play(case)
    blueprint = planned.task.blueprint
    without = blueprint.model_copy(
        update={"solution": tuple(c for c in blueprint.solution if c.by == "agent")}
    )
    assert difficulty(blueprint) - difficulty(without) >= 2
    rows = compare(blueprint.solution, trajectory.steps)
    assert {row.whose for row in rows} == {"both"}
    assert len(rows) == len(without.solution)


def test_the_gate_plays_with_both_hands_and_fails_an_agent_that_does_not_ask(plans):
    for planned, agent in plans:
        world = WORLDS[planned.world]
        tools = {tool.name: tool for tool in world.tools()}
        admission = asyncio.run(admit(planned.task, agent, world.environment(), tools))
        assert admission.accepted
        assert admission.killed["noop"]
        assert admission.killed["dropped_call"]
        if any(call.effect is not Effect.READ for call in acts_of(planned)):
            assert admission.killed["wrong_order"]


# --- hostile and hasty agents --------------------------------------------------------------------


def test_an_agent_that_calls_a_users_tool_gets_the_ordinary_refusal(plans):
    planned, _ = case = picked(plans, reads=False)
    (act,) = acts_of(planned)
    agent = Says("assistant", [(act.tool, act.arguments)], "It is done. Goodbye.")
    trajectory, verdict = play(case, agent)
    (step,) = trajectory.steps
    assert (step.by, step.result.error.code, step.state) == ("agent", "unknown_tool", None)
    assert f"No tool {act.tool!r}" in step.result.content
    assert act.tool not in step.result.content.split("Tools:")[1]
    assert (verdict.passed, verdict.reason, verdict.fault) == (False, "rule:unknown_tool", None)
    assert trajectory.diff == ()


def test_an_agent_that_does_not_ask_fails(plans):
    planned, _ = case = picked(plans, reads=False)
    write = planned.task.blueprint.solution[-1]
    agent = Says(
        "assistant", *lookups(planned), [(write.tool, write.arguments)], "I have done it all."
    )
    trajectory, verdict = play(case, agent)
    assert not trajectory.steps[-1].result.ok
    assert (verdict.passed, verdict.reason) == (False, "state")


def test_an_agent_that_makes_up_what_only_the_user_can_read_is_not_grounded(plans):
    planned, _ = case = picked(plans, reads=True)
    write = planned.task.blueprint.solution[-1]
    agent = Says(
        "assistant", *lookups(planned), [(write.tool, write.arguments)], "I have done it all."
    )
    trajectory, verdict = play(case, agent)
    assert trajectory.diff in planned.task.blueprint.diffs
    assert (verdict.passed, verdict.reason) == (False, "rule:ungrounded")


def test_what_the_user_does_is_not_counted_against_the_agents_calls(plans):
    planned, _ = case = picked(plans, reads=False)
    own = sum(call.by == "agent" for call in planned.task.blueprint.solution)
    assert play(case, calls=own)[1].passed
    assert play(case, calls=own - 1)[0].stop is StopReason.MAX_CALLS


# --- users who do otherwise ----------------------------------------------------------------------


def test_a_user_who_acts_unasked_leaves_no_verdict_even_where_the_state_is_right(plans):
    planned, _ = case = picked(plans, reads=False)
    (act,), write = acts_of(planned), planned.task.blueprint.solution[-1]
    agent = Says(
        "assistant",
        *lookups(planned),
        "What else should I know?",
        [(write.tool, write.arguments)],
        "I have done that for you.",
    )
    user = Says(
        "user", planned.task.request, [(act.tool, act.arguments)], "Nothing.", "Thanks. Goodbye."
    )
    trajectory, verdict = play(case, agent, user)
    assert trajectory.diff in planned.task.blueprint.diffs
    assert (verdict.passed, verdict.fault, verdict.reason) == (None, Fault.USER, "fault:user")
    assert f"called {act.tool}" in verdict.results[0].evidence
    assert "nobody asked for" in verdict.results[0].evidence


def test_a_user_who_changes_something_else_unasked_is_at_fault_for_the_state(plans):
    planned, _ = case = picked(plans, reads=False)
    (act,), world = acts_of(planned), WORLDS[planned.world]
    agent = ReferenceAgent(planned.task, case[1], rng(1, "agent"))
    other = next(
        (a.tool, a.arguments)
        for a in planned.task.blueprint.acts
        if (a.tool, a.arguments) != (act.tool, act.arguments)
        and succeeds(world, planned, a.tool, a.arguments)
    )
    user = Says(
        "user",
        planned.task.request,
        [(act.tool, act.arguments), other],
        "I did that, and more.",
        "Yes, please.",
        "Thanks. Goodbye.",
    )
    trajectory, verdict = play(case, agent, user)
    if dict.fromkeys(s.effect for s in trajectory.steps if s.call.name == other[0]) == {
        Effect.READ: None
    }:
        assert verdict.passed  # looking at something changes nothing
    else:
        assert (verdict.passed, verdict.fault) == (None, Fault.USER)


def succeeds(world, planned, tool, arguments):
    environment = world.environment()
    environment.reset_now(planned.task.blueprint.state_seed)
    return environment.act_now(planned.task.blueprint.user, tool, arguments).ok


def test_a_user_who_will_not_do_what_was_asked_is_at_fault(plans):
    planned, _ = case = picked(plans, reads=False)
    agent = Says(
        "assistant",
        *lookups(planned),
        f"Could you please {request(planned)}?",
        "Then I cannot do it, sorry.",
    )
    user = Says("user", planned.task.request, "No, I would rather not.", "All right. Goodbye.")
    _, verdict = play(case, agent, user)
    assert (verdict.passed, verdict.fault) == (None, Fault.USER)
    said = "\n".join(result.evidence for result in verdict.results)
    assert f"state, but the user was asked to {request(planned)}, and did not" in said


@pytest.mark.parametrize("wrong", ["agents", "arguments", "nobodys"])
def test_a_users_call_of_what_is_not_theirs_is_refused_and_is_the_users_fault(plans, wrong):
    planned, _ = case = picked(plans, reads=False)
    (act,) = acts_of(planned)
    write = planned.task.blueprint.solution[-1]
    call, code = {
        "agents": ((write.tool, write.arguments), "unknown_tool"),
        "arguments": ((act.tool, {"nonsense": 1}), "invalid_arguments"),
        "nobodys": (("fly", {}), "unknown_tool"),
    }[wrong]
    agent = Says(
        "assistant",
        *lookups(planned),
        f"Could you please {request(planned)}?",
        "Then I cannot do it, sorry.",
    )
    user = Says("user", planned.task.request, [call], "That did not work.", "I see. Goodbye.")
    trajectory, verdict = play(case, agent, user)
    step = next(step for step in trajectory.steps if step.by == "user")
    assert (step.result.ok, step.result.error.code) == (False, code)
    assert trajectory.diff == ()
    assert (verdict.passed, verdict.fault) == (None, Fault.USER)
    # What the user did is shown to the user, the error included.
    calls, result = user.seen[2][0][-2:]
    assert calls.tool_calls[0].name == call[0]
    assert result.content == step.result.content


def test_a_user_who_does_nothing_but_call_their_tools_ends_the_episode(plans):
    planned, _ = case = picked(plans, reads=True)
    (act,) = acts_of(planned)
    user = Says("user", planned.task.request, [(act.tool, act.arguments)])
    trajectory, verdict = play(case, None, user)
    assert (trajectory.stop, trajectory.fault) == (StopReason.ERROR, Fault.USER)
    assert "more than 12 times" in trajectory.error
    assert verdict.passed is None


def test_a_user_has_no_tools_in_other_tasks():
    composer = Composer(load_config(None, ["generate.mix={lookup=1}"]), {"hotel": WORLDS["hotel"]})
    planned = asyncio.run(composer.planned(0))
    case = planned, composer.agent("hotel", planned.agent)
    user = Says("user", [("read_key_card", {})])
    trajectory, _ = play(case, None, user)
    assert (trajectory.fault, trajectory.steps) == (Fault.USER, ())
    assert "the user has no tools" in trajectory.error
    assert user.seen[0][1] == []


# --- a model as the user -------------------------------------------------------------------------


def replying(*replies):
    """Return a model that says texts, or makes calls of one tool each."""
    usage = Usage(prompt_tokens=1, completion_tokens=1)
    made = []
    for number, reply in enumerate(replies):
        if isinstance(reply, str):
            message = Message(role="assistant", content=reply)
        else:
            name, arguments = reply
            call = ToolCall(id=f"x{number}", name=name, arguments=arguments)
            message = Message(role="assistant", content="One moment.", tool_calls=(call,))
        finish = "tool_calls" if message.tool_calls else "stop"
        made.append(Reply(message, finish, "m", usage))
    return ScriptedLLM(made)


def test_a_model_user_is_given_the_tools_and_what_it_can_do_with_them(plans):
    planned, _ = case = picked(plans, reads=True)
    (act,) = acts_of(planned)
    llm = replying(
        planned.task.request,
        (act.tool, json.dumps({"nonsense": 1})),
        (act.tool, json.dumps(act.arguments)),
        f"It says {list(planned.task.blueprint.solution[-1].arguments.values())[1]}.",
        "Yes, please go on.",
        "Thank you. ###DONE###",
    )
    agent = Says(
        "assistant",
        *lookups(planned),
        f"Could you please {request(planned)} and tell me what it says?",
        [(planned.task.blueprint.solution[-1].tool, planned.task.blueprint.solution[-1].arguments)],
        "I have done that for you.",
    )
    trajectory, verdict = play(case, agent, ModelUser(llm))
    assert verdict.passed, verdict
    first, second, third, fourth = llm.requests[:4]
    assert first.tools == ()
    assert {tool["function"]["name"] for tool in second.tools} == HELD[planned.world]
    assert request(planned) in second.messages[0]["content"]
    assert third.messages[-2]["role"] == "assistant"
    assert third.messages[-2]["tool_calls"][0]["function"]["name"] == act.tool
    assert "invalid_arguments" in third.messages[-1]["content"]
    assert fourth.messages[-1] == {
        "role": "tool",
        "tool_call_id": "user_2",
        "content": next(s.result.content for s in trajectory.steps if s.call.id == "user_2"),
    }
    assert [s.result.ok for s in trajectory.steps if s.by == "user"] == [False, True]
    assert not any("One moment" in (m.content or "") for m in trajectory.messages)
    assert trajectory.usage["user"] == Usage(
        prompt_tokens=len(llm.requests), completion_tokens=len(llm.requests)
    )


# --- the record ----------------------------------------------------------------------------------


def tampered(trajectory, **changes):
    """Return the trajectory with its user's calls changed."""
    steps = [s.model_copy(update=changes) if s.by == "user" else s for s in trajectory.steps]
    return trajectory.model_copy(update={"steps": tuple(steps)})


def test_a_record_of_the_users_call_that_was_tampered_with_is_found(plans):
    planned, agent = case = picked(plans, reads=False)
    trajectory, _ = play(case)
    assert form_problem(trajectory, agent) is None
    moved = tampered(trajectory, message=2)
    assert form_problem(moved, agent)[0] == "record"
    handed = tampered(trajectory, by="agent")
    assert form_problem(handed, agent)[0] == "record"
    dropped = trajectory.model_copy(
        update={"steps": tuple(s for s in trajectory.steps if s.by == "agent")}
    )
    environment, blueprint = WORLDS[planned.world].environment(), planned.task.blueprint

    def replayed(one):
        return asyncio.run(replay_problem(one, environment, blueprint.state_seed, blueprint.user))

    assert replayed(trajectory) is None
    assert replayed(dropped) is not None
    (step,) = [s for s in trajectory.steps if s.by == "user"]
    told = tampered(trajectory, result=step.result.model_copy(update={"content": '{"x":1}'}))
    assert step.call.name in replayed(told)
    # Who was at fault is read from these.
    for change in ({"effect": Effect.READ}, {"state": None}, {"state": "0" * 20}):
        assert "has another effect, error or state" in replayed(tampered(trajectory, **change))
    garbled = step.model_copy(
        update={
            "call": ToolCall(id="user_2", name=step.call.name, arguments="{"),
            "result": ToolResult(ok=True, content='{"done":true}'),
            "state": None,
        }
    )
    at = trajectory.steps.index(step) + 1
    steps = (*trajectory.steps[:at], garbled, *trajectory.steps[at:])
    assert replayed(trajectory.model_copy(update={"steps": steps})).startswith(step.call.name)


def test_the_users_calls_are_numbered_and_stand_where_they_were_made(plans):
    trajectory, _ = play(case := picked(plans, reads=False))
    (step,) = [s for s in trajectory.steps if s.by == "user"]
    last = len(trajectory.messages) - 1
    assert trajectory.messages[last].role == "user"
    wrong = [tampered(trajectory, message=last)]  # after all that the agent had said by the end
    for name in ("user_2", "", trajectory.steps[0].call.id):
        wrong.append(tampered(trajectory, call=step.call.model_copy(update={"id": name})))
    for one in wrong:
        assert form_problem(one, case[1])[0] == "record"
        assert record_problem(one) is not None


def test_a_user_who_cannot_know_which_thing_is_meant_is_not_at_fault(plans):
    planned, _ = case = next(
        (planned, agent)
        for planned, agent in plans
        if acts_of(planned)[0].arguments and len(planned.task.blueprint.acts) > 1
        if acts_of(planned)[0].effect is not Effect.READ
    )
    (act,) = acts_of(planned)
    words = [a.words for a in planned.task.blueprint.acts if a.tool == act.tool]
    asks = [f"Could you please {' or '.join(words)}?", f"Could you please {request(planned)}?"]
    verdicts = []
    for ask in asks:
        agent = Says("assistant", *lookups(planned), ask, "Then I cannot do it, sorry.")
        user = Says("user", planned.task.request, "Which one do you mean?", "I see. Goodbye.")
        verdicts.append(play(case, agent, user)[1])
    assert [(v.passed, v.fault) for v in verdicts] == [(False, None), (None, Fault.USER)]


def test_no_mutant_touches_what_the_user_did(plans):
    for planned, agent in plans:
        trajectory, _ = play((planned, agent))
        world = WORLDS[planned.world]
        tools = {tool.name: tool for tool in world.tools()}
        acts = [(s.call, s.result) for s in trajectory.steps if s.by == "user"]
        found = mutants(trajectory, planned.task, random.Random(1))
        assert len(found) >= 4
        for name, mutant in found:
            kept = [s for s in mutant.steps if s.by == "user"]
            assert [(s.call, s.result) for s in kept] == acts[: len(kept)]
            assert name == "early_claim" or len(kept) == len(acts)
            assert all(mutant.messages[s.message].role == "user" for s in kept)
            assert not asyncio.run(harmless(mutant, planned.task, world.environment()))
            environment = world.environment()
            verdict = asyncio.run(judge(planned.task, agent, mutant, environment, tools))
            assert not verdict.passed, name


def test_a_row_for_training_holds_no_call_of_the_user(plans):
    for planned, agent in plans:
        trajectory, verdict = play((planned, agent))
        row = dataset_row(
            planned, agent, Episode(trajectory=trajectory, verdict=verdict), tools="[]"
        )
        called = {c["function"]["name"] for m in row["messages"] for c in m.get("tool_calls", ())}
        assert not called & HELD[planned.world]
        assert [m["role"] for m in row["messages"]] == [m.role for m in trajectory.messages]
        results = [m["content"] for m in row["messages"] if m["role"] == "tool"]
        own = [step.result.content for step in trajectory.steps if step.by == "agent"]
        assert results == own


def test_people_read_who_did_what(plans):
    planned, _ = case = picked(plans, reads=False)
    trajectory, verdict = play(case)
    lines = transcript(Episode(trajectory=trajectory, verdict=verdict), planned.task)
    at = next(i for i, line in enumerate(lines) if line.speaker == "act")
    (act,) = acts_of(planned)
    assert lines[at].text.startswith(f"{act.tool}(")
    assert [line.speaker for line in lines[at - 1 : at + 3]] == ["agent", "act", "result", "user"]


def test_mistakes_of_the_reference_are_its_own(plans):
    planned, agent = picked(plans, reads=True)
    names = {act.tool for act in acts_of(planned)}
    for mistake in ("false_claim", "invalid_argument", "ungrounded_argument", "dropped_call"):
        rates = ErrorRates(**{mistake: 1.0})
        for number in range(3):
            player = ReferenceAgent(planned.task, agent, rng(number, "agent"), rates)
            trajectory, verdict = play((planned, agent), player)
            assert not verdict.passed, mistake
            assert not names & {c.name for m in trajectory.messages for c in m.tool_calls}
            assert all(s.result.ok for s in trajectory.steps if s.by == "user")


def test_an_episode_goes_on_from_any_place_before_and_after_the_users_act(plans):
    case = picked(plans, reads=False)
    whole, _ = play(case)
    acted = next(step for step in whole.steps if step.by == "user")
    kept = places(whole)
    assert min(kept) < acted.message < max(kept)
    for place in kept:
        fork = Fork(run="r", episode="e", messages=place, calls=calls_in(whole, place))
        prefix = cut(whole, fork)
        assert any(s.by == "user" for s in prefix.steps) is (place > acted.message)
        again, verdict = play(case, prefix=prefix)
        assert verdict.passed
        assert (again.messages, again.steps, again.diff) == (
            whole.messages,
            whole.steps,
            whole.diff,
        )
