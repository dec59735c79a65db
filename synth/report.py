"""What came of a run: yield funnel and shape of what was accepted, computed from its files."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import orjson

from synth.agents import agent_stats
from synth.core.errors import BadRow
from synth.core.imagined import Drift, drift_lines
from synth.core.llm.ledger import at_least
from synth.core.protocols import World
from synth.core.types import Fault, Trajectory
from synth.gate import DECOYS
from synth.reasons import meaning
from synth.run import Episode, Planned, Run, Written

UNFINISHED = "it is going on, or was interrupted; the command that began it goes on with it"
"""What the report of a run says that has not come to its end."""
MOST_REASONS, MOST_CHARACTERS = 5, 200
"""Of errors of the infrastructure: how many are shown, and how much of each."""


def run_report(run: Run | Written, used: int, worlds: Mapping[str, World]) -> dict[str, Any]:
    """Return the report of the first `used` places of a run's plan.

    Args:
        run: the run.
        used: how many places.
        worlds: the run's worlds by name; their agents are compared with what they offer. Agents of
            others are not described.

    Every count is recomputed from the plan and the episodes, so that a resumed run and an
    uninterrupted one report the same.
    """
    tally = _Tally()
    for planned in islice(run.plan, used):
        tally.add(planned, run.episodes.get(planned.episode), run.failures.get(planned.episode, []))
    faults = tally.faults
    return {
        "run": run.path.name,
        "fingerprint": run.fingerprint,
        "agents": len({key for keys in tally.agents.values() for key in keys}),
        "agents_by_application": _variety(run, tally.agents, worlds),
        "tasks": len(tally.tasks),
        "candidates": used + tally.given_up.total(),
        "given_up": dict(tally.given_up.most_common()),
        "decoys": {name: tally.decoys[name] for name in DECOYS if name in tally.decoys},
        "episodes": tally.episodes,
        "accepted": tally.accepted,
        "rejected_by_reason": dict(tally.rejected.most_common()),
        "faults_by_owner": dict(faults.most_common()),
        "failed_by": {str(Fault.AGENT): tally.rejected.total()}
        | {str(owner): faults[str(owner)] for owner in Fault if owner is not Fault.AGENT},
        "infrastructure": dict(tally.errors.most_common(MOST_REASONS)),
        "by_try": tally.by_try,
        "not_needed": len(run.plan) - used,
        "by_application": dict(sorted(tally.shares["world"].items())),
        "by_kind": dict(sorted(tally.shares["kind"].items())),
        "by_language": dict(sorted(tally.shares["language"].items())),
        "by_voice": dict(sorted(tally.shares["voice"].items())),
        "played_by": dict(tally.players),
        "accepted_shape": tally.shape(),
    } | ({"imagined": tally.drift.figures()} if tally.drift.episodes else {})


class _Tally:
    """Adds up the places of a plan, one after the other."""

    def __init__(self) -> None:
        self.episodes = self.accepted = 0
        self.given_up: Counter[str] = Counter()
        self.rejected: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.players: Counter[str] = Counter()
        self.tasks: set[str] = set()
        self.agents: dict[str, dict[str, None]] = {}
        self.decoys: dict[str, dict[str, int]] = {}
        self.by_try = {name: {"episodes": 0, "accepted": 0} for name in ("first", "retried")}
        self.shares: dict[str, dict[str, dict[str, int]]] = {
            name: {} for name in ("world", "kind", "language", "voice")
        }
        self._calls: list[int] = []
        self._messages: list[int] = []
        self._tools: set[tuple[str, str]] = set()
        self._real = 0
        self.drift = Drift()

    def add(self, planned: Planned, episode: Episode | None, failures: Sequence[str]) -> None:
        """Add a place, its finished episode if any, and how the infrastructure broke it before.

        Broken episodes that were played again may be other than the rest: a harder task is
        longer, and meets a failure more often.
        """
        self.given_up.update(planned.rejected)
        self.tasks.add(episode.trajectory.task if episode else planned.task.key)
        self.agents.setdefault(planned.world, {})[planned.agent] = None
        for name, (tried, failed) in planned.decoys.items():
            row = self.decoys.setdefault(name, {"tried": 0, "failed": 0})
            row["tried"] += tried
            row["failed"] += failed
        if episode is not None:
            self._add_episode(planned, episode, retried=bool(failures))
        elif failures:
            self.episodes += 1
            self.faults[str(Fault.INFRASTRUCTURE)] += 1
            self.errors[_plain(failures[-1])] += 1

    def _add_episode(self, planned: Planned, episode: Episode, *, retried: bool) -> None:
        verdict = episode.verdict
        passed = bool(verdict.passed)
        self.episodes += 1
        self.accepted += passed
        if episode.imagined is not None:
            self.drift.add(episode.imagined)
        if not passed and verdict.broken_by:
            self.faults[str(verdict.broken_by)] += 1
        elif not passed:
            self.rejected[verdict.reason] += 1
        names = {
            "world": planned.world,
            "kind": str(planned.task.blueprint.kind),
            "language": planned.task.persona.language,
            "voice": planned.task.persona.voice,
        }
        rows = [
            self.shares[what].setdefault(name, {"episodes": 0, "accepted": 0})
            for what, name in names.items()
        ]
        for row in (*rows, self.by_try["retried" if retried else "first"]):
            row["episodes"] += 1
            row["accepted"] += passed
        players = sorted(episode.trajectory.players.items())
        self.players.update(f"{role}: {who}" for role, who in players)
        if passed:
            self._add_shape(episode.trajectory)

    def _add_shape(self, trajectory: Trajectory) -> None:
        self._calls.append(len(trajectory.steps))
        self._messages.append(len(trajectory.messages))
        self._tools.update((trajectory.world, step.call.name) for step in trajectory.steps)
        self._real += trajectory.real

    def shape(self) -> dict[str, Any]:
        """Describe accepted conversations: lengths, calls, tools."""
        if not self.accepted:
            return {"calls": None, "messages": None, "tools_called": None, "real": None}
        return {
            "calls": _lengths(self._calls),
            "messages": _lengths(self._messages),
            "tools_called": len(self._tools),
            "real": self._real,
        }


def _lengths(counts: Sequence[int]) -> dict[str, float]:
    return {"median": median(counts), "mean": round(sum(counts) / len(counts), 2)}


def _plain(error: str) -> str:
    """Return an error without its numbers: what differs in them only is one."""
    return re.sub(r"\d+(\.\d+)?", "#", error)[:MOST_CHARACTERS]


def _variety(
    run: Run | Written, agents: Mapping[str, Iterable[str]], worlds: Mapping[str, World]
) -> dict[str, dict[str, Any]]:
    """Say how various the agents of each world are."""
    out = {}
    for name, keys in sorted(agents.items()):
        if name not in worlds:
            continue
        stats = agent_stats([run.agents[key] for key in keys], worlds[name])
        out[name] = {
            "agents": stats.agents,
            "near_duplicates": stats.near_duplicates,
            "behaviours": stats.behaviours,
            "toolsets": stats.toolsets.distinct,
            "toolset_sizes": {str(size): n for size, n in stats.toolsets.sizes.items()},
            "toolset_overlap": list(stats.toolsets.overlap),
            "tools_unused": list(stats.toolsets.unused),
        }
    return out


_SHOWN = frozenset(
    {"run", "accepted", "episodes", "candidates", "given_up", "tasks", "agents"}
    | {"rejected_by_reason", "faults_by_owner", "decoys"}
    | {"agents_by_application", "by_application", "by_kind"}
)


def read_report(run: Path) -> dict[str, Any]:
    """Return `report.json` of a run folder, or what came so far of a run that is not finished.

    The latter has neither costs nor a description of the agents, and says in `gave_up` that it is
    not the end.

    Raises:
        BadInput: it is no run folder.
        BadRow: a file is damaged.
    """
    file, remedy = run / "report.json", "repeat the command that made it"
    if not file.exists():
        written = Written(run)
        report = run_report(written, len(written.plan), {})
        return report | {"gave_up": UNFINISHED, "remedy": remedy}
    try:
        report = dict(orjson.loads(file.read_bytes()))
    except (ValueError, TypeError) as error:
        raise BadRow(f"not a run's report: {error}", where=str(file), remedy=remedy) from error
    if missing := sorted(_SHOWN - report.keys()):
        raise BadRow(f"{', '.join(missing)} missing", where=str(file), remedy=remedy)
    return report


def funnel_lines(report: Mapping[str, Any]) -> list[str]:
    """Return the report as lines of text: the yield funnel, widest stage first, and the costs."""
    lines = [
        f"run {report['run']}: {report['accepted']} accepted of {report['episodes']} episodes",
        *([f"  not finished: {report['gave_up']}"] if report.get("gave_up") else []),
        "",
        "yield",
        f"  candidates      {report['candidates']:>7}",
        *_indented(report["given_up"], "given up"),
        f"  tasks admitted  {report['tasks']:>7}   ({report['agents']} agents)",
        f"  episodes        {report['episodes']:>7}",
        *_rejected_lines(report["rejected_by_reason"]),
        *_indented(report["faults_by_owner"], "no verdict"),
        f"  accepted        {report['accepted']:>7}",
        *_failed_lines(report),
    ]
    if report["decoys"]:  # forks are of tasks that have passed the gate
        lines += ["", "decoys at the gate   tried    failed"]
    lines += [
        f"  {name:<16}{row['tried']:>8}{row['failed']:>10}"
        for name, row in report["decoys"].items()
    ]
    if report["agents_by_application"]:
        lines += ["", "agents            distinct  toolsets  near-alike  tools unused"]
    lines += [
        f"  {name:<16}{row['agents']:>8}{row['toolsets']:>10}{row['near_duplicates']:>12}"
        f"{len(row['tools_unused']):>14}"
        for name, row in report["agents_by_application"].items()
    ]
    for title in ("application", "kind", "language"):
        lines += _share_lines(title, report.get(f"by_{title}", {}))
    if report.get("imagined"):
        lines += drift_lines(report["imagined"])
    return lines + _audit_lines(report) + _cost_lines(report)


def _audit_lines(report: Mapping[str, Any]) -> list[str]:
    """Return what a sample of the accepted episodes says of the judge."""
    found = report.get("audit")
    if not found or not found["originals"]["of"]:
        return []
    mutants, orders, again = found["mutants"], found["orders"], found["originals"]
    lines = [
        "",
        f"audit of {again['of']} accepted episodes: {again['count']} fail when judged again; of "
        f"{mutants['of']} spoilt copies, in {len(found['kinds'])} ways, {mutants['count']} pass",
        *(f"  passed: {name}" for name in found["missed"]),
    ]
    if orders["of"]:
        said = f"  of {orders['of']} with several calls, {orders['count']} pass in another order"
        lines.append(f"{said} as well")
    return lines


def _share_lines(title: str, shares: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Return how episodes of each sort fared; nothing of languages where all are English."""
    if title == "language" and shares.keys() <= {"en"}:
        return []
    return [
        "",
        f"{title:<18}episodes  accepted",
        *(f"  {name:<16}{row['episodes']:>8}{row['accepted']:>10}" for name, row in shares.items()),
    ]


def _rejected_lines(counts: Mapping[str, int]) -> list[str]:
    """Return each reason with what it means."""
    width = max(map(len, counts), default=0)
    return [
        f"    {count:>7} rejected: {reason:<{width}}   {meaning(reason)}".rstrip()
        for reason, count in counts.items()
    ]


def _indented(counts: Mapping[str, int], word: str) -> list[str]:
    return [f"    {count:>7} {word}: {reason}" for reason, count in counts.items()]


def _failed_lines(report: Mapping[str, Any]) -> list[str]:
    """Return who failed, and how episodes fared that were played again; nothing if nobody did."""
    owners = report.get("failed_by", {})
    lines = []
    if any(owners.values()):
        shares = ", ".join(f"{owner} {count}" for owner, count in owners.items())
        lines += ["", f"failed by: {shares}"]
        lines += _indented(report["infrastructure"], "without a result")
    tries = report.get("by_try", {})
    if tries and tries["retried"]["episodes"]:
        shown = (
            f"{name} {row['accepted']} of {row['episodes']}"
            for name, row in (("at first try", tries["first"]), ("retried", tries["retried"]))
        )
        lines.append(f"accepted: {', '.join(shown)}")
    return lines


def _cost_lines(report: Mapping[str, Any]) -> list[str]:
    """Return what each role spent on each model; nothing where no model played."""
    cost = report.get("cost")
    if not cost:
        return []
    rows = [(f"{row['role']} {row['model']}", row) for row in cost["by_role"]]
    width = max(len("in all"), *(len(name) for name, _ in rows)) + 2
    heads = ("calls", "requests", "tokens in", "tokens out", "money")
    lines = ["", f"{'cost':<{width + 2}}" + "".join(f"{head:>14}" for head in heads)]
    for name, row in (*rows, ("in all", cost["total"])):
        shown = {"complete": row["complete"]}
        figures = (
            f"{row['calls']:,}",
            f"{row['attempts']:,}",
            at_least(row["prompt_tokens"], **shown),
            at_least(row["completion_tokens"], **shown),
            at_least(row["money"], digits=4, **shown),
        )
        lines.append(f"  {name:<{width}}" + "".join(f"{figure:>14}" for figure in figures))
    total, accepted = cost["total"], report["accepted"]
    if total["unknown"]:
        lines.append(f"  of {total['unknown']:,} requests nobody told the tokens")
    if accepted and total["money"] is not None:
        share = at_least(total["money"] / accepted, complete=total["complete"], digits=6)
        lines.append(f"  an accepted episode: {share}")
    return lines


def report_page(report: Mapping[str, Any]) -> str:
    """Return the report as a page for people, in Markdown."""
    text = "\n".join(funnel_lines(report)).replace("```", "` ` `")
    who = "".join(
        f"- {player}: {count} episodes\n" for player, count in report["played_by"].items()
    )
    return f"# Run {report['run']}\n\n```\n{text}\n```\n\n## Who played\n\n{who}"
