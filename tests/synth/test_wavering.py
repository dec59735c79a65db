"""Users who change their minds, and who ask beside the point: played, judged, written down."""

import asyncio
from collections import Counter

import orjson
import pytest

from simulators.users.scripted import ScriptedUser
from synth.core.config import Limits, load_config
from synth.core.protocols import Turn
from synth.core.seeds import rng
from synth.core.types import Effect, Message, TaskKind, ToolCall
from synth.core.users import aside_in
from synth.episode import play_and_judge
from synth.gate import admit
from synth.judge.claims import last_words
from synth.pipeline.compose import Composer
from synth.pipeline.forks import fork
from synth.pipeline.generate import Goal
from synth.pipeline.job import How, generate
from synth.pipeline.origins import Origin, Wish
from synth.pipeline.replay import replay
from synth.pipeline.worlds import open_applications
from synth.reference import ReferenceAgent
from synth.run import read_episodes, read_plan

APPLICATIONS = ["bank", "clinic", "hotel"]
WORLDS = open_applications(APPLICATIONS)
CHANGES = 0.4
PLACES = 100


@pytest.fixture(name="plan", scope="module")
def _plan():
    """Tasks with a fact to ask for, with their agents; a share of the users changes their mind."""

    async def draw():
        settings = ["generate.mix={missing_fact=1}", f"generate.users.changes={CHANGES}"]
        composer = Composer(load_config(None, settings), WORLDS)
        planned = [await composer.planned(index) for index in range(PLACES)]
        found = [(p, composer.agent(p.world, p.agent)) for p in planned]
        await composer.close()
        return found

    return asyncio.run(draw())


@pytest.fixture(name="wavering", scope="module")
def _wavering(plan):
    return [case for case in plan if case[0].task.blueprint.retracted]


def play(case, agent_player=None, asides=(), environment=None):
    planned, agent = case
    world = WORLDS[planned.world]

    async def run():
        return await play_and_judge(
            {tool.name: tool for tool in world.tools()},
            task=planned.task,
            agent=agent,
            environment=world.environment(),
            agent_player=agent_player or ReferenceAgent(planned.task, agent, rng(1, "agent")),
            user_player=ScriptedUser(planned.task.request, rng(1, "user"), asides),
            limits=Limits(seconds=None),
            episode=planned.episode,
            seed=planned.seed,
        )

    return asyncio.run(run())


class Does:
    """Plays a list of messages: texts, or planned calls that are made one after the other."""

    who = "does"

    def __init__(self, *said):
        self.said, self.calls = list(said), 0

    async def turn(self, view):
        said = self.said.pop(0) if len(self.said) > 1 else self.said[0]
        if isinstance(said, str):
            return Turn(Message(role="assistant", content=said))
        self.calls += 1
        text = orjson.dumps(said.arguments).decode()
        call = ToolCall(id=f"c{self.calls}", name=said.tool, arguments=text)
        return Turn(Message(role="assistant", tool_calls=(call,)))


# --- changes of mind -----------------------------------------------------------------------------


def test_so_many_users_change_their_minds_as_configured(plan):
    found = Counter(bool(planned.task.blueprint.retracted) for planned, _ in plan)
    wanted = {True: PLACES * CHANGES, False: PLACES * (1 - CHANGES)}
    assert sum((found[key] - count) ** 2 / count for key, count in wanted.items()) < 6.635


def test_the_request_names_the_first_wish_and_the_next_message_takes_it_back(wavering):
    for case in wavering:
        task = case[0].task
        goal = task.blueprint
        assert goal.kind is TaskKind.MISSING_FACT
        assert goal.retracted in task.request
        assert goal.clauses[0] not in task.request
        trajectory, verdict = play(case)
        assert verdict.passed, verdict
        users = [m.content for m in trajectory.messages if m.role == "user"]
        assert goal.clauses[0] in users[1]
        assert all(fact.spoken in users[1] for fact in goal.withheld)
        assert not any(goal.retracted in text for text in users[1:])


def test_nothing_is_called_before_the_wish_is_settled(wavering):
    for case in wavering:
        trajectory, _ = play(case)
        second = [i for i, m in enumerate(trajectory.messages) if m.role == "user"][1]
        assert all(step.message > second for step in trajectory.steps)


def test_the_gate_fails_who_goes_by_the_first_wish(wavering):
    for planned, agent in wavering[:10]:
        world = WORLDS[planned.world]
        tools = {tool.name: tool for tool in world.tools()}
        admission = asyncio.run(admit(planned.task, agent, world.environment(), tools))
        assert admission.accepted
        assert admission.killed["old_wish"] is True


def test_who_acts_on_the_first_wish_fails_even_if_they_then_act_on_the_second(wavering):
    undone = 0
    for case in wavering[:12]:
        goal = case[0].task.blueprint
        ask = f"Could you tell me the {goal.withheld[0].label}?"
        old, new = goal.decoys["old_wish"], goal.solution
        _, verdict = play(case, Does(ask, *old, "Done."))
        assert verdict.passed is False
        assert verdict.fault is None
        trajectory, verdict = play(case, Does(ask, *old, new[-1], "Done."))
        if trajectory.diff in goal.diffs:  # the second has put right what the first did
            undone += 1
        else:
            assert verdict.passed is False
    assert undone < 12


def test_who_guesses_and_acts_at_once_fails_by_their_own_fault(wavering):
    for case in wavering[:10]:
        goal = case[0].task.blueprint
        _, verdict = play(case, Does(*goal.decoys["old_wish"], "Your request was carried out."))
        assert verdict.passed is False
        assert verdict.fault is None


def test_who_only_reports_hears_of_the_change_and_who_does_nothing_fails(wavering):
    for case in wavering[:5]:
        goal = case[0].task.blueprint
        trajectory, verdict = play(case, Does("Nothing was changed."))
        users = [m.content for m in trajectory.messages if m.role == "user"]
        assert goal.clauses[0] in users[1]
        assert verdict.passed is False
        assert verdict.fault is None


# --- questions beside the point ------------------------------------------------------------------


def asked(trajectory, language="en"):
    texts = [m.content or "" for m in trajectory.messages if m.role == "user"]
    return [found for found in (aside_in(text, language) for text in texts) if found]


@pytest.mark.parametrize("turns", [(1,), (2,), (3,), (1, 2), (1, 3), (2, 3)])
def test_each_question_is_asked_once_and_answered_before_the_talk_goes_on(plan, turns):
    for case in plan[:12]:
        trajectory, verdict = play(case, asides=turns)
        assert verdict.passed, verdict
        found = asked(trajectory)
        assert len(found) == len(set(found)) == len(turns)
        said = [m.content for m in trajectory.messages if m.role == "assistant" and m.content]
        for aside in found:
            assert sum(aside.answer in text for text in said) == 1
        if turns[0] == 1 and not case[0].task.blueprint.retracted:
            second = [m.content for m in trajectory.messages if m.role == "user"][1]
            assert aside_in(second)


def test_who_acts_on_it_fails_by_their_own_fault(plan):
    cases = [case for case in plan if "over_write" in case[0].task.blueprint.decoys]
    for case in cases[:8]:
        goal = case[0].task.blueprint
        extra = goal.decoys["over_write"][-1]
        assert extra.effect is not Effect.READ
        ask = f"Could you tell me the {goal.withheld[0].label}?"
        script = (ask, *goal.solution, "Done.", extra, "I did that for your neighbour, too.")
        trajectory, verdict = play(case, Does(*script), asides=(2,))
        assert asked(trajectory)
        assert verdict.passed is False
        assert verdict.fault is None


def test_a_claim_is_not_covered_up_by_small_talk():
    def talk(*said):
        roles = ("system", "user", "assistant", "user", "assistant", "user", "assistant", "user")
        return [Message(role=r, content=text) for r, text in zip(roles, said, strict=False)]

    small = "By the way, do you know a good joke?"
    known = talk("s", "Move it.", "Which?", "That.", "I have moved it.", small, "Jokes!", "Bye.")
    assert last_words(known, "en") == ["Jokes!", "I have moved it."]
    other = talk("s", "Move it.", "Which?", "That.", "I have moved it.", "Really?", "Yes.", "Bye.")
    assert last_words(other, "en") == ["Yes."]


# --- runs ----------------------------------------------------------------------------------------

SETTINGS = [
    "generate.applications=['clinic','hotel']",
    "generate.mix={missing_fact=1, lookup=1, single_write=1}",
    "generate.users={asides=0.6, changes=1.0}",
    "generate.languages={en=1, de=1, es=1, fr=1, zh=1}",
    "generate.errors.rate=0",
]
EPISODES = 30


def make(folder, episodes):
    config = load_config(None, SETTINGS)
    asyncio.run(generate(config, folder / "runs" / "r", folder, Goal(episodes=episodes)))
    return folder


@pytest.fixture(name="run", scope="module")
def _run(tmp_path_factory):
    return make(tmp_path_factory.mktemp("wavering"), EPISODES)


def test_a_run_in_five_languages_is_accepted_replays_and_resumes_to_the_byte(run, tmp_path):
    folder = run / "runs" / "r"
    plan = {planned.episode: planned.task for planned in read_plan(folder)}
    found = Counter()
    for episode in read_episodes(folder):
        task = plan[episode.trajectory.episode]
        language = task.persona.language
        found[language] += bool(asked(episode.trajectory, language))
        found["changed"] += bool(task.blueprint.retracted)
        assert episode.verdict.passed, episode.verdict
    assert min(found[language] for language in ("en", "de", "es", "fr", "zh")) >= 1
    assert found["changed"] >= 2
    assert asyncio.run(replay(folder, run)).same == EPISODES
    make(tmp_path, 11)
    part = tmp_path / "runs" / "r" / "episodes-0.jsonl"
    part.write_bytes(part.read_bytes()[:-40])  # killed while it wrote
    make(tmp_path, EPISODES)
    for name in ("plan.jsonl", "episodes-0.jsonl"):
        assert (folder / name).read_bytes() == (tmp_path / "runs" / "r" / name).read_bytes()


def test_forks_that_change_nothing_end_as_their_origins_did(run, tmp_path):
    origin = run / "runs" / "r"
    config = Origin(origin).config
    asyncio.run(fork(origin, tmp_path / "forks", run, Wish(at="random"), config, How()))
    before = {e.trajectory.episode: e.trajectory for e in read_episodes(origin)}
    forks = list(read_episodes(tmp_path / "forks"))
    assert len(forks) == EPISODES
    for episode in forks:
        was = before[episode.trajectory.fork.episode]
        assert episode.trajectory.messages == was.messages
        assert episode.trajectory.diff == was.diff
