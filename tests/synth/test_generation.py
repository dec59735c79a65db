"""The whole of generation on the real applications: what is kept is proven, again, here."""

import asyncio
import json
from collections import Counter

import duckdb
import pandas
import pytest

from synth.core.config import load_config
from synth.core.protocols import run_call
from synth.core.seeds import rng
from synth.core.store import Workspace
from synth.core.types import StateCheck, StopReason, TaskKind
from synth.dataset import COLUMNS
from synth.harmless import harmless
from synth.judge import judge
from synth.mutate import KINDS, mutants
from synth.pipeline.export import export, run_tools
from synth.pipeline.generate import Goal
from synth.pipeline.job import generate
from synth.pipeline.worlds import open_applications
from synth.run import read_agents, read_episodes, read_plan

ACCEPTED = 1000


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    return tmp_path_factory.mktemp("generation")


@pytest.fixture(scope="module")
def run(workspace):
    folder = workspace / "runs" / "big"
    asyncio.run(generate(load_config(), folder, workspace, Goal(accept=ACCEPTED)))
    return folder


@pytest.fixture(scope="module")
def accepted(run):
    plan = list(read_plan(run))
    episodes = {e.trajectory.episode: e for e in read_episodes(run)}
    agents = {agent.key: agent for agent in read_agents(run)}
    pairs = [(planned, episodes[planned.episode]) for planned in plan]
    return [(p, agents[p.agent], e) for p, e in pairs if e.verdict.passed][:ACCEPTED]


@pytest.fixture(scope="module")
def worlds():
    return open_applications()


def test_exactly_the_wanted_number_is_accepted_and_the_report_says_so(run, accepted):
    report = json.loads((run / "report.json").read_bytes())
    assert report["accepted"] == len(accepted) == ACCEPTED
    assert report["episodes"] == ACCEPTED + sum(report["rejected_by_reason"].values())
    assert report["faults_by_owner"] == {}
    assert set(report["by_kind"]) == {str(kind) for kind in TaskKind}
    assert len(report["by_application"]) >= 3
    assert 0.02 < 1 - ACCEPTED / report["episodes"] < 0.25, "the judge has something to reject"


@pytest.mark.claim("k2-state")
def test_accepted_trajectories_replay_to_identical_bytes_and_the_same_final_state(accepted, worlds):
    environments = {name: world.environment() for name, world in worlds.items()}

    async def replay(planned, trajectory):
        environment = environments[planned.world]
        await environment.reset(planned.task.blueprint.state_seed)
        for step in trajectory.steps:
            user, call = planned.task.blueprint.user, step.call
            result = await run_call(environment, step.by, user, call.name, call.value or {})
            assert result.content.encode() == step.result.content.encode()
        assert await environment.diff() == trajectory.diff

    for planned, _, episode in accepted:
        asyncio.run(replay(planned, episode.trajectory))
    assert len(accepted) == ACCEPTED


@pytest.mark.claim("k2-filter")
def test_the_final_state_of_every_accepted_episode_is_the_one_its_task_wanted(accepted):
    for planned, _, episode in accepted:
        assert episode.trajectory.stop is StopReason.USER_DONE
        checks = [c.check for c in planned.task.rubric.success if isinstance(c.check, StateCheck)]
        for check in checks:
            assert episode.trajectory.diff in check.diffs


@pytest.mark.claim("k2-solvable")
def test_the_solution_passes_and_doing_nothing_fails_for_every_kind_and_application(
    accepted, worlds, run
):
    """Played here by a player of our own, without the gate."""
    tools = run_tools(run)
    seen = Counter()
    for planned, agent, episode in accepted:
        place = (planned.world, planned.task.blueprint.kind)
        if seen[place] >= 4:
            continue
        seen[place] += 1
        environment = worlds[planned.world].environment()
        shown = tools[planned.world]
        gold = asyncio.run(judge(planned.task, agent, episode.trajectory, environment, shown))
        assert gold.passed is True, gold
        idle = _idle(episode.trajectory)
        verdict = asyncio.run(judge(planned.task, agent, idle, environment, shown))
        assert verdict.passed is False, (planned.task.blueprint.kind, verdict)
    assert set(seen) == {(name, kind) for name, world in worlds.items() for kind in world.kinds()}


def _idle(trajectory):
    """An agent that says that all is done, and did nothing."""
    system, request = trajectory.messages[:2]
    done = request.model_copy(update={"role": "assistant", "content": "All done, goodbye!"})
    bye = request.model_copy(update={"content": "Thanks."})
    return trajectory.model_copy(
        update={"messages": (system, request, done, bye), "steps": (), "diff": ()}
    )


@pytest.mark.claim("k2-filter")
def test_the_judge_rejects_every_planted_fault_and_no_original(accepted, worlds, run):
    """500 originals, 500 mutants; mutants that prove harmless by execution are discarded."""
    tools = run_tools(run)
    environments = {name: world.environment() for name, world in worlds.items()}
    caught, discarded, missed, wronged, judged = Counter(), 0, [], [], 0

    async def audit():
        nonlocal discarded, judged
        for planned, agent, episode in accepted:
            if judged >= 500 and sum(caught.values()) >= 500:
                break
            environment = environments[planned.world]
            shown = tools[planned.world]
            original = await judge(planned.task, agent, episode.trajectory, environment, shown)
            judged += 1
            if not original.passed:
                wronged.append((planned.episode, original.reason))
            for name, mutant in mutants(
                episode.trajectory, planned.task, rng("mutant", planned.episode)
            ):
                if await harmless(mutant, planned.task, environment):
                    discarded += 1
                    continue
                verdict = await judge(planned.task, agent, mutant, environment, shown)
                if verdict.passed is False:
                    caught[name] += 1
                else:
                    missed.append((name, planned.episode))

    asyncio.run(audit())
    total = sum(caught.values()) + len(missed)
    assert judged >= 500
    assert total >= 500
    assert missed == []
    assert wronged == []
    assert set(caught) <= set(KINDS)
    assert len(caught) >= 12
    assert discarded <= 0.1 * (total + discarded), (discarded, total)


# --- the dataset -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def dataset(run, workspace):
    folder = workspace / "dataset"
    export(run, folder, formats=("openai", "parquet"), limit=200)
    return folder


@pytest.fixture(scope="module")
def source(dataset):
    return [json.loads(line) for line in (dataset / "train.jsonl").read_bytes().splitlines()]


def _without_nulls(row):
    messages = []
    for message in row["messages"]:
        kept = {key: value for key, value in dict(message).items() if value is not None}
        if "tool_calls" in kept:
            kept["tool_calls"] = [
                {**dict(call), "function": dict(call["function"])} for call in kept["tool_calls"]
            ]
        messages.append(kept)
    return {**row, "messages": messages}


def test_rows_have_the_documented_columns_and_text_where_shapes_differ(source):
    assert len(source) == 200
    for row in source:
        assert list(row) == list(COLUMNS)
        assert all(
            isinstance(json.loads(row[c]), (list, dict)) for c in ("tools", "players", "criteria")
        )


def test_duckdb_reads_the_same_rows_from_jsonl_and_parquet(dataset, source):
    with duckdb.connect() as con:
        for name in ("train.jsonl", "train.parquet"):
            relation = con.sql(f"SELECT * FROM '{dataset / name}'")
            rows = [dict(zip(relation.columns, row, strict=True)) for row in relation.fetchall()]
            assert [_without_nulls(row) for row in rows] == source


def test_pandas_reads_the_same_rows(dataset, source):
    for frame in (
        pandas.read_json(dataset / "train.jsonl", lines=True, dtype=False),
        pandas.read_parquet(dataset / "train.parquet"),
    ):
        rows = [_plain(row) for row in frame.to_dict("records")]
        assert [_without_nulls(row) for row in rows] == source


def _plain(value):
    """Arrays of arrow-backed columns as lists."""
    if hasattr(value, "tolist") and not isinstance(value, str):
        value = value.tolist()
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def test_datasets_reads_the_same_rows(dataset, source, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    import datasets

    for name, kind in (("train.jsonl", "json"), ("train.parquet", "parquet")):
        loaded = datasets.load_dataset(
            kind, data_files=str(dataset / name), split="train", cache_dir=str(tmp_path / kind)
        )
        assert [_without_nulls(row) for row in loaded] == source


CHATML = (
    "{% if tools %}<|im_start|>system\n{{ tools | tojson }}<|im_end|>\n{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
    "{% if m.tool_calls %}{% for c in m.tool_calls %}<tool_call>{{ c.function | tojson }}"
    "</tool_call>{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
)


def test_a_chat_template_renders_every_row(source):
    transformers = pytest.importorskip("transformers")
    from tokenizers import Tokenizer, models

    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE()))
    tokenizer.chat_template = CHATML
    for row in source:
        text = tokenizer.apply_chat_template(
            row["messages"], tools=json.loads(row["tools"]), tokenize=False
        )
        assert text.count("<|im_start|>") == len(row["messages"]) + 1
        assert text.count("<tool_call>") == sum(
            len(m.get("tool_calls", ())) for m in row["messages"]
        )


def test_the_card_tells_how_the_data_came_to_be(dataset, run):
    card = (dataset / "README.md").read_text(encoding="utf-8")
    report = json.loads((run / "report.json").read_bytes())
    assert report["fingerprint"] in card
    assert "200 conversations" in card
    assert "reference" in card
    rows = [json.loads(line) for line in (dataset / "train.jsonl").read_bytes().splitlines()]
    sequences = {
        (
            r["application"],
            *(c["function"]["name"] for m in r["messages"] for c in m.get("tool_calls", ())),
        )
        for r in rows
    }
    assert f"| different sequences of calls | {len(sequences)} |" in card
    assert "| licences of the tools shown | not declared: " in card
    level = rows[0]["difficulty"]
    assert f"| {level} | {sum(r['difficulty'] == level for r in rows)} |" in card


# --- the registry ----------------------------------------------------------------------------


@pytest.mark.claim("k2-specs")
def test_one_query_says_which_rows_used_a_tool_and_from_where_a_row_came(run, workspace):
    store = Workspace(workspace)
    with store.read() as con:
        used = con.execute(
            "SELECT count(DISTINCT episode) FROM tool_usage "
            "WHERE tool = 'application:bank/send_transfer' AND version = 1 AND calls > 0"
        ).fetchall()[0][0]
        direct = con.execute(
            "SELECT count(DISTINCT s.episode) FROM steps s JOIN episodes e USING (run, episode) "
            "WHERE e.world = 'bank' AND s.name = 'send_transfer'"
        ).fetchall()[0][0]
        assert used == direct > 10
        origin = con.execute(
            "SELECT DISTINCT server FROM row_origin WHERE episode = "
            "(SELECT episode FROM episodes WHERE world = 'bank' LIMIT 1)"
        ).fetchall()
        assert origin == [("application:bank",)]
        counts = con.execute("SELECT count(*), count(*) FILTER (passed) FROM verdicts").fetchall()
    report = json.loads((run / "report.json").read_bytes())
    assert counts[0][1] >= report["accepted"]


@pytest.mark.claim("d08")
@pytest.mark.claim("k2-users")
def test_users_never_say_an_identifier_they_were_not_given(accepted):
    for planned, _, episode in accepted:
        known = planned.task.request + " ".join(
            fact.spoken
            for fact in (
                *planned.task.blueprint.opening,
                *planned.task.blueprint.withheld,
                *planned.task.blueprint.background,
            )
        )
        secret = {
            value
            for call in planned.task.blueprint.solution
            for name, value in call.arguments.items()
            if name.endswith("_id") and isinstance(value, str)
        }
        spoken = " ".join(m.content or "" for m in episode.trajectory.messages if m.role == "user")
        assert not [value for value in secret if value in spoken and value not in known]
