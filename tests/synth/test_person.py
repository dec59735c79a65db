"""A person as the agent: the same loop and judge, and what was typed wrongly costs nothing."""

import asyncio

import pytest

from simulators.users.scripted import ScriptedUser
from synth.core.config import Limits, load_config
from synth.core.seeds import rng
from synth.core.types import Effect, PlannedCall, Step, StopReason, TaskKind, ToolCall, ToolResult
from synth.episode import play_and_judge
from synth.person import FAREWELL, Compared, Person, compare
from synth.pipeline.compose import Composer
from synth.pipeline.worlds import open_applications
from synth.reference import ReferenceAgent

(WORLD,) = open_applications(["clinic"]).values()


class Desk:
    """Types what is on a list, and keeps what it is shown."""

    def __init__(self, typed):
        self.typed, self.shown = list(typed), []

    def ask(self):
        return self.typed.pop(0) if self.typed else None

    def show(self, kind, text):
        self.shown.append((kind, text))

    def of(self, kind):
        return [text for one, text in self.shown if one == kind]


@pytest.fixture(name="cases", scope="module")
def _cases():
    """One task of every kind."""

    async def draw():
        found = {}
        for kind in TaskKind:
            composer = Composer(
                load_config(None, [f"generate.mix={{{kind}=1}}"]), {"clinic": WORLD}
            )
            planned = await composer.planned(0)
            found[kind] = planned, composer.agent("clinic", planned.agent)
            await composer.close()
        return found

    return asyncio.run(draw())


def play(case, agent_player, turns=30):
    planned, agent = case

    async def run():
        environment = WORLD.environment()
        try:
            return await play_and_judge(
                {tool.name: tool for tool in WORLD.tools()},
                task=planned.task,
                agent=agent,
                environment=environment,
                agent_player=agent_player,
                user_player=ScriptedUser(planned.task.request, rng(planned.seed, "user")),
                limits=Limits(turns=turns, seconds=None),
                episode=planned.episode,
                seed=planned.seed,
            )
        finally:
            await environment.close()

    return asyncio.run(run())


def reference_lines(case):
    """What the reference agent says and does in this episode, as a person would type it."""
    planned, agent = case
    trajectory, verdict = play(case, ReferenceAgent(planned.task, agent, rng(1, "agent")))
    assert verdict.passed
    typed = []
    for message in trajectory.messages:
        if message.role == "assistant":
            typed += [f"/say {message.content}"] * bool(message.content)
            typed += [f"{call.name} {call.arguments}" for call in message.tool_calls]
    return typed


@pytest.mark.parametrize("kind", TaskKind)
def test_who_types_the_reference_solution_passes(cases, kind):
    case = cases[kind]
    desk = Desk(["/polcy", "", *reference_lines(case), "too late"])
    trajectory, verdict = play(case, Person(desk, "policy"))
    assert (verdict.passed, trajectory.stop) == (True, StopReason.USER_DONE)
    assert trajectory.players["agent"] == "person"
    assert desk.typed == ["too late"]
    rows = compare(case[0].task.blueprint.solution, trajectory.steps)
    assert {row.whose for row in rows} <= {"both"}
    assert len(desk.of("problem")) == 1
    assert len(desk.of("result")) == sum(step.by == "agent" for step in trajectory.steps)
    said = [message.content for message in trajectory.messages if message.role == "user"]
    assert desk.of("user") == said[: len(desk.of("user"))]
    assert len(desk.of("user")) >= len(said) - 1  # the goodbye needs no answer


@pytest.mark.parametrize("kind", [TaskKind.SINGLE_WRITE, TaskKind.LOOKUP, TaskKind.FORBIDDEN])
def test_who_types_nothing_fails_and_the_user_is_let_go(cases, kind):
    trajectory, verdict = play(cases[kind], Person(Desk([]), "policy"))
    assert (verdict.passed, trajectory.stop) == (False, StopReason.USER_DONE)
    assert trajectory.messages[2].content == FAREWELL
    rows = compare(cases[kind][0].task.blueprint.solution, trajectory.steps)
    assert {row.whose for row in rows} == {"reference"}


def test_what_is_wished_for_is_shown_and_is_no_turn(cases):
    name = cases[TaskKind.LOOKUP][1].tools[0]
    desk = Desk(["/policy", "/tools", f"/tools {name}", "/tools nobody", "/help", "/done"])
    trajectory, _ = play(cases[TaskKind.LOOKUP], Person(desk, "What you must."))
    policy, every, single, helped = desk.of("note")
    assert policy == "What you must."
    assert all(f"\n{tool} " in f"\n{every} " for tool in cases[TaskKind.LOOKUP][1].tools[1:3])
    assert single.splitlines()[0].split()[0] == name
    assert "/policy" in helped
    assert desk.of("problem") == ["there is no tool 'nobody' (/tools lists them)"]
    assert desk.of("agent") == [FAREWELL]
    assert [m.role for m in trajectory.messages] == ["system", "user", "assistant", "user"]


def test_the_conversation_so_far_can_be_seen_again(cases):
    (planned, agent), name = cases[TaskKind.LOOKUP], cases[TaskKind.LOOKUP][1].tools[0]
    desk = Desk(["What is your name?", f'/say {name} {{"x": 1}}?', "/said", "/done"])
    trajectory, _ = play((planned, agent), Person(desk, ""))
    assert desk.of("agent") == ["What is your name?", f'{name} {{"x": 1}}?', FAREWELL]
    assert desk.of("user").count(planned.task.request) == 2
    assert trajectory.stop is StopReason.USER_DONE


def test_a_call_that_the_tool_refuses_is_a_call(cases):
    planned, agent = cases[TaskKind.SINGLE_WRITE]
    tool = next(t for t in WORLD.tools() if t.name in agent.tools and t.parameters["required"])
    wrong = " ".join(f"{name}=[]" for name in tool.parameters["required"])
    desk = Desk([f"{tool.name} {wrong}", "/done"])
    trajectory, _ = play((planned, agent), Person(desk, ""))
    assert [step.result.error.code for step in trajectory.steps] == ["invalid_arguments"]
    assert "invalid_arguments" in desk.of("error")[0]


def step(name, arguments, ok=True):
    call = ToolCall(id="1", name=name, arguments=arguments)
    return Step(message=1, call=call, result=ToolResult(ok=ok, content="{}"), effect=Effect.READ)


def test_calls_are_compared_by_tool_and_arguments_and_counted():
    def planned(tool, arguments):
        return PlannedCall(tool=tool, arguments=arguments, group=0, effect=Effect.READ)

    solution = [planned("a", {"x": 1, "y": 2}), planned("b", {"x": 1}), planned("b", {"x": 1})]
    steps = [
        step("c", "{}"),
        step("b", '{"x": 1}'),
        step("b", '{"x": true}'),
        step("a", '{"y": 2, "x": 1}'),
        step("b", '{"x": 1}', ok=False),
        step("c", "{}"),
    ]
    assert compare(solution, steps) == [
        Compared("both", "a", {"x": 1, "y": 2}),
        Compared("both", "b", {"x": 1}),
        Compared("reference", "b", {"x": 1}),
        Compared("yours", "c", {}),
        Compared("yours", "b", {"x": True}),
        Compared("yours", "c", {}),
    ]
