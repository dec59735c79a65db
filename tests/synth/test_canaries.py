"""Nothing that decides reaches whoever plays: canaries in rubric, solution and hidden facts."""

import asyncio
import itertools
import json

import pytest

from simulators.users.model import ModelUser
from synth.core.config import Limits, load_config
from synth.core.llm.scripted import ScriptedLLM
from synth.core.types import Criterion, Fact, JudgedCheck, Message, OutputValue, TaskKind, ToolCall
from synth.episode import play_and_judge
from synth.pipeline.compose import Composer
from synth.pipeline.worlds import open_applications
from synth.players import ModelAgent

pytestmark = pytest.mark.claim("k2-rubrics")
BIRD = "CANARY-7f3a"
"""Begins every planted text: what follows says where it was planted."""
(WORLD,) = open_applications(["clinic"]).values()


@pytest.fixture(name="cases", scope="module")
def _cases():
    async def draw():
        found = {}
        for kind in TaskKind:
            config = load_config(None, [f"generate.mix={{{kind}=1}}"])
            composer = Composer(config, {"clinic": WORLD})
            planned = await composer.planned(0)
            found[kind] = planned.task, composer.agent("clinic", planned.agent)
            await composer.close()
        return found

    return asyncio.run(draw())


def with_canaries(task):
    """Plant a canary in every part of a task that only the judge and the gate may read."""
    blueprint, rubric = task.blueprint, task.rubric

    def marked(calls, where):
        return tuple(
            call.model_copy(update={"arguments": {**call.arguments, "note": f"{BIRD} {where}"}})
            for call in calls
        )

    fact = Fact(name="secret", label="secret word", value=f"{BIRD} fact", spoken=f"{BIRD} fact")
    output = OutputValue(label=f"{BIRD} label", type="text", value=f"{BIRD} value")
    extra = Criterion(
        id=f"{BIRD} id",
        text=f"{BIRD} text",
        level="should",
        check=JudgedCheck(question=f"{BIRD} question?"),
    )
    changes = {
        "withheld": (*blueprint.withheld, fact),
        "solution": marked(blueprint.solution, "solution"),
        "diffs": (*blueprint.diffs, (f"{BIRD} diff",)),
        "outputs": (*blueprint.outputs, output),
        "rule": f"{BIRD} rule",
        "decoys": {"wrong_entity": marked(blueprint.solution, "decoy")},
    }
    told = [c.model_copy(update={"text": f"{BIRD} {c.text}"}) for c in rubric.success]
    return task.model_copy(
        update={
            "blueprint": blueprint.model_copy(update=changes),
            "rubric": rubric.model_copy(
                update={"success": tuple(told), "checkpoints": (*rubric.checkpoints, extra)}
            ),
        }
    )


def prompts_of(task, agent):
    """Play an episode of two models; return all that each was sent."""
    tool = next(name for name in agent.tools)
    call = ToolCall(id="c1", name=tool, arguments="{}")
    agents = ScriptedLLM(
        [
            Message(role="assistant", content="What exactly do you need?"),
            Message(role="assistant", tool_calls=(call,)),
            "Is there anything else?",
            "Goodbye.",
        ]
    )
    manners = itertools.cycle(("please", "thank you", "if you can", "as soon as possible"))
    users = ScriptedLLM(lambda request: f"{task.blueprint.clauses[0]}, {next(manners)}.")
    critic = ScriptedLLM(lambda request: "7")
    user = ModelUser(users, critic=critic, candidates=2)

    async def run():
        environment = WORLD.environment()
        try:
            return await play_and_judge(
                {spec.name: spec for spec in WORLD.tools()},
                task=task,
                agent=agent,
                environment=environment,
                agent_player=ModelAgent(agents),
                user_player=user,
                limits=Limits(turns=4, seconds=None),
                episode="e",
                seed=1,
            )
        finally:
            await environment.close()

    trajectory, _ = asyncio.run(run())
    assert len(agents.requests) == 4, trajectory.error
    assert users.requests
    assert critic.requests
    return [sent(llm) for llm in (agents, users, critic)]


def sent(llm):
    parts = ((r.messages, r.tools, r.response_format) for r in llm.requests)
    return json.dumps(list(parts), ensure_ascii=False, default=dict)


@pytest.mark.parametrize("kind", TaskKind)
def test_no_rubric_solution_or_hidden_fact_is_in_what_a_player_is_sent(cases, kind):
    task, agent = cases[kind]
    for_agent, for_user, for_critic = prompts_of(with_canaries(task), agent)
    assert BIRD not in for_agent
    # The user knows the fact that is told when asked for, and no more.
    for text in (for_user, for_critic):
        assert f"{BIRD} fact" in for_user
        assert BIRD not in text.replace(f"{BIRD} fact", "")


@pytest.mark.parametrize("kind", TaskKind)
def test_the_rubrics_own_words_are_in_no_prompt(cases, kind):
    task, agent = cases[kind]
    sent_to = prompts_of(task, agent)
    for criterion in task.rubric.criteria():
        said = [criterion.text]
        if isinstance(criterion.check, JudgedCheck):
            said.append(criterion.check.question)
        assert not any(json.dumps(words)[1:-1] in text for words in said for text in sent_to)


def test_a_leak_would_be_seen(cases):
    """The check itself: an agent whose system prompt holds the rubric is caught."""
    task, agent = cases[TaskKind.SINGLE_WRITE]
    marked = with_canaries(task)
    telling = agent.model_copy(
        update={"system": f"{agent.system}\n{marked.rubric.success[0].text}"}
    )
    assert BIRD in prompts_of(marked, telling)[0]
