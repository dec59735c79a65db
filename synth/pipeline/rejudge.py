"""Runs judged again without playing them: by today's rubric and program, and by a model beside it.

What is written lies in the run's folder under `judged/`: `rows.jsonl`, one line for each thing that
was judged (an episode, or a mutant of an accepted one), `report.json`, and the journal of replies.
The program judges anew each time, since it may be another one by now; what a model said is kept,
so a judging that was interrupted goes on and no model is asked twice. The run's verdicts stay.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from synth.calibration import Answer, Share, calibration, drift, position_effect
from synth.core import jsonl
from synth.core.canonical import content_key
from synth.core.config import Config
from synth.core.errors import BadInput, ToolloomError
from synth.core.llm.journal import Journal
from synth.core.llm.open import OpenModels
from synth.core.seeds import rng
from synth.core.types import Agent, JudgedCheck, Task, ToolSpec, Trajectory, Verdict
from synth.harmless import harmless
from synth.judge.tools import excused
from synth.judge.verdict import judge
from synth.mutate import mutants
from synth.panel import OVERALL, ModelJudge, Opinion, prompt_key
from synth.pipeline.export import run_tools
from synth.pipeline.replay import Stage
from synth.rubrics import rubric_for
from synth.run import Episode, Planned, Written, agent_of

ROLE = "judge"
Told = Callable[[int, str], None]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is judged, and how."""

    limit: int | None = None
    """Episodes at most, in the order of the plan; None is all."""
    mutants: bool = False
    """Whether spoilt copies of accepted episodes are judged, too."""
    criteria: bool = False
    """Whether a model is asked for each criterion, beside the whole."""
    votes: int = 1
    pairs: bool = False
    """Whether a model also chooses between a spoilt copy and its original, in both orders."""
    concurrency: int = 8


@dataclass(frozen=True, slots=True)
class Case:
    """One thing to judge."""

    name: str
    """The episode, or `EPISODE~FAULT` of a mutant."""
    task: Task
    agent: Agent
    trajectory: Trajectory
    stored: Verdict | None
    """What the run says of it; None of a mutant."""
    tools: Mapping[str, ToolSpec]
    planned: Planned
    episode: Episode


async def rejudge(
    folder: Path,
    config: Config,
    wanted: Wanted,
    workspace: Path,
    *,
    tell: Told = lambda done, note: None,
    ended: Callable[[], bool] = lambda: False,
) -> dict[str, Any]:
    """Judge the finished episodes of a run again; return the report.

    Args:
        folder: of the run.
        config: `models.judge` is asked where it is given; `budget` holds.
        wanted: what is judged.
        workspace: where crawled servers and fetched models are.
        tell: hears how many are done.
        ended: says whether to end early; the report is of what is there.

    Raises:
        BadInput: the run has no finished episode.
        ModelFailed: a model gave no reply.
        BudgetSpent: it may not be asked any more.
    """
    place = folder / "judged"
    place.mkdir(exist_ok=True)
    how = _how(config, wanted)
    judges = config.models.judge.model if config.models.judge else None
    done = {row["name"]: row for row in _rows(place) if row["how"] == how}
    names: list[str] = []
    with closing(Journal(place)) as journal, jsonl.Appender(place / "rows.jsonl") as out:
        models = _models(config, journal, workspace / "cache" / "models")
        async with Stage(folder, workspace, "judge") as stage:
            work = _Work(iter(_cases(folder, wanted)), stage, models, wanted)

            def note(name: str, row: dict[str, Any]) -> bool:
                """Take what was judged; return whether to go on."""
                names.append(name)
                row |= {"how": how, "judge": judges}
                if row != done.get(name):
                    done[name] = row
                    out.append(row)
                tell(len(names), name)
                return not ended()

            await work.all(done, note)
    if not names:
        what = "the run has no finished episode"
        raise BadInput(what, where=str(folder), remedy="repeat the command that made it")
    report = summary(done[name] for name in names)
    report["model"] = judges
    report["drift"] = _drift(place, judges, [done[name] for name in names])
    jsonl.write_atomic(place / "report.json", orjson.dumps(report, option=orjson.OPT_INDENT_2))
    return report


class _Work:
    """Judges cases, several at once where a model is asked.

    Args:
        cases: one after the other, so that few are in memory.
        stage: the worlds of the run.
        models: has the role `judge`; None where programs judge alone.
        wanted: what is judged.
    """

    def __init__(
        self, cases: Iterator[Case], stage: Stage, models: OpenModels | None, wanted: Wanted
    ) -> None:
        self._cases, self._stage, self._models, self._wanted = cases, stage, models, wanted
        self._alone = asyncio.Lock()

    async def all(
        self, done: Mapping[str, Mapping[str, Any]], note: Callable[[str, dict[str, Any]], bool]
    ) -> None:
        """Judge all; `note` takes each and says whether to go on. `done` has what models said."""

        async def one_after_another() -> None:
            for case in self._cases:
                if not note(case.name, await self._row(case, done.get(case.name))):
                    return

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._wanted.concurrency if self._models else 1):
                    group.create_task(one_after_another())
        except* ToolloomError as errors:
            raise errors.exceptions[0] from None
        finally:
            if self._models:
                await self._models.close()

    async def _row(self, case: Case, before: Mapping[str, Any] | None) -> dict[str, Any]:
        verdict, idle = await self._program(case)
        row: dict[str, Any] = {
            "name": case.name,
            "fault": case.name.partition("~")[2] or None,
            "stored": None if case.stored is None else case.stored.passed,
            "program": verdict.passed,
            "harmless": idle,
            "reason": verdict.reason,
            "results": {one.id: one.passed for one in verdict.results},
            "length": sum(len(message.content or "") for message in case.trajectory.messages),
            "model": {},
        }
        # What broke, or what the user spoilt, is no question for anybody.
        if self._models is None or verdict.passed is None or not shows(case):
            return row
        if before is not None and before["model"]:
            row |= {name: before[name] for name in ("model", "pair") if name in before}
        else:
            panel = self._panel(case)
            row["model"] = {name: said.row() async for name, said in self._said(case, panel)}
            if self._wanted.pairs and case.stored is None:
                original = case.episode.trajectory
                row["pair"] = list(await panel.prefer(case.task, original, case.trajectory))
        return row

    async def _program(self, case: Case) -> tuple[Verdict, bool]:
        """Return the program's verdict, and whether a mutant that passes does the task after all.

        Worlds are shared, and a program does not wait: one after the other is as fast.
        """
        async with self._alone, self._stage.set_for(case.episode, case.planned) as environment:
            verdict = await judge(case.task, case.agent, case.trajectory, environment, case.tools)
            passed = case.stored is None and bool(verdict.passed)
            idle = passed and await harmless(case.trajectory, case.task, environment)
        if case.episode.imagined is not None:
            verdict = excused(verdict, case.episode.imagined)
        return verdict, idle

    def _panel(self, case: Case) -> ModelJudge:
        assert self._models is not None
        llm = self._models.bound(ROLE, case.name.replace("/", "_"))
        return ModelJudge(llm, self._models.sampler(ROLE), self._wanted.votes)

    async def _said(self, case: Case, panel: ModelJudge) -> AsyncIterator[tuple[str, Opinion]]:
        yield OVERALL, await panel.overall(case.task, case.trajectory)
        for one in case.task.rubric.criteria():
            if self._wanted.criteria or isinstance(one.check, JudgedCheck):
                yield one.id, await panel.criterion(case.task, case.trajectory, one)


def shows(case: Case) -> bool:
    """Say whether a dialogue shows what is to be judged; what only the record tells is unseen."""
    return case.stored is not None or case.trajectory.messages != case.episode.trajectory.messages


def _models(config: Config, journal: Journal, weights: Path) -> OpenModels | None:
    if config.models.judge is None:
        return None
    alone = type(config.models)(judge=config.models.judge)
    return OpenModels(alone, budget=config.budget, journal=journal, folders=[weights])


def _how(config: Config, wanted: Wanted) -> str:
    """Return what decides a row beside what is judged."""
    model = config.models.judge
    asked = [model.model, model.temperature, model.top_p, prompt_key()] if model else None
    more = ["pairs"] if wanted.pairs else []
    return content_key([asked, wanted.votes, wanted.criteria, *more], digits=12)


def _rows(place: Path) -> Iterator[dict[str, Any]]:
    path = place / "rows.jsonl"
    return iter(jsonl.read(path)) if path.exists() else iter(())


def _cases(folder: Path, wanted: Wanted) -> Iterator[Case]:
    run, tools, seen = Written(folder), run_tools(folder), 0
    for planned in run.plan:
        episode = run.episodes.get(planned.episode)
        if episode is None:
            continue
        if seen == wanted.limit:
            return
        seen += 1
        task = planned.task.model_copy(update={"rubric": rubric_for(planned.task.blueprint)})
        agent = agent_of(planned, run.agents, folder)
        known = tools[planned.world]
        case = Case(
            planned.episode, task, agent, episode.trajectory, episode.verdict, known,
            planned, episode,
        )  # fmt: skip
        yield case
        if wanted.mutants and episode.verdict.passed:
            chance = rng("rejudge", planned.episode)
            for fault, spoilt in mutants(episode.trajectory, task, chance):
                name = f"{planned.episode}~{fault}"
                yield Case(name, task, agent, spoilt, None, known, planned, episode)


# --- the report ------------------------------------------------------------------------------


def summary(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what judging again brought.

    Args:
        rows: as they are written.

    Returns:
        `episodes`, `passed`, `reasons`; `changed`: those whose verdict is another than the run's;
        `mutants`: fault -> those that the program let through, the harmless left out; `judges`:
        what the model was asked -> its calibration against the program; `pairs`: how often it
        chose by place between an original and its spoilt copy, and else the original.
    """
    found = list(rows)
    own = [row for row in found if row["fault"] is None]
    changed = [
        {"episode": row["name"], "was": row["stored"], "is": row["program"], "why": row["reason"]}
        for row in own
        if row["stored"] != row["program"]
    ]
    return {
        "episodes": len(own),
        "passed": sum(row["program"] is True for row in own),
        "changed": changed,
        "reasons": dict(Counter(row["reason"] for row in own).most_common()),
        "mutants": _mutants(row for row in found if row["fault"]),
        "pairs": _pairs(found),
        "judges": {name: calibration(given) for name, given in sorted(_answers(found).items())},
    }


def _drift(
    place: Path, model: str | None, rows: Iterable[Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Return earlier judge -> how the answers on the whole differ from this one's."""
    mine = {row["name"]: row["model"][OVERALL]["met"] for row in rows if OVERALL in row["model"]}
    others: dict[str, dict[str, bool | None]] = defaultdict(dict)
    for row in _rows(place) if mine else ():
        other, said = row.get("judge"), row["model"].get(OVERALL)
        if said and other not in (None, model) and row["name"] in mine:
            others[other][row["name"]] = said["met"]
    return {
        other: drift((met, mine[name]) for name, met in answers.items())
        for other, answers in sorted(others.items())
    }


def _pairs(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return how originals fare beside their spoilt copies; None where nobody was asked."""
    given = [tuple(row["pair"]) for row in rows if row.get("pair") and not row["harmless"]]
    if not given:
        return None
    steady = [pair for pair in given if None not in pair and pair[0] != pair[1]]
    right = sum(pair[0] == "first" for pair in steady)
    return position_effect(given) | {
        "unanswered": Share(sum(None in pair for pair in given), len(given)).row(),
        "original": Share(right, len(steady)).row(),
    }


def _mutants(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    by_fault: dict[str, list[bool]] = defaultdict(list)
    for row in rows:
        if not row["harmless"]:
            by_fault[row["fault"]].append(row["program"] is True)
    return {
        fault: Share(sum(passed), len(passed)).row() for fault, passed in sorted(by_fault.items())
    }


def _answers(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[Answer]]:
    """Return the model's answers beside the program's, by what was asked."""
    found: dict[str, list[Answer]] = defaultdict(list)
    for row in rows:
        for name, opinion in row["model"].items():
            truth = row["program"] if name == OVERALL else row["results"].get(name)
            if truth is not None and not row["harmless"]:
                kind = name.partition("_")[0]
                found[kind].append(Answer(truth, opinion["met"], row["length"]))
    return found
