"""What came of a run: yield funnel and shape of what was accepted, computed from its files."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

import orjson

from synth.agents import agent_stats
from synth.core.errors import BadInput, BadRow
from synth.core.llm.ledger import at_least
from synth.core.protocols import World
from synth.core.types import Agent, Fault
from synth.gate import DECOYS
from synth.run import Episode, Planned, Run

MOST_REASONS, MOST_CHARACTERS = 5, 200
"""Of errors of the infrastructure: how many are shown, and how much of each."""


def run_report(run: Run, used: int, worlds: Mapping[str, World]) -> dict[str, Any]:
    """Return the report of the first `used` places of a run's plan.

    Args:
        run: the run.
        used: how many places.
        worlds: the run's worlds by name; their agents are compared with what they offer.

    Every count is recomputed from the plan and the episodes, so that a resumed run and an
    uninterrupted one report the same.
    """
    plan = run.plan[:used]
    pairs = [(p, run.episodes[p.episode]) for p in plan if p.episode in run.episodes]
    passed = [(p, e) for p, e in pairs if e.verdict.passed]
    given_up: Counter[str] = Counter()
    for planned in plan:
        given_up.update(planned.rejected)
    failed, faults = _failures(e for _, e in pairs)
    broken = [p for p in plan if p.episode in run.failures and p.episode not in run.episodes]
    if broken:
        faults[str(Fault.INFRASTRUCTURE)] += len(broken)
    return {
        "run": run.path.name,
        "fingerprint": run.fingerprint,
        "agents": len({p.agent for p in plan}),
        "agents_by_application": _variety(run, plan, worlds),
        "tasks": len({p.task.key for p in plan}),
        "candidates": len(plan) + sum(given_up.values()),
        "given_up": dict(given_up.most_common()),
        "decoys": _decoys(plan),
        "episodes": len(pairs) + len(broken),
        "accepted": len(passed),
        "rejected_by_reason": dict(failed.most_common()),
        "faults_by_owner": dict(faults.most_common()),
        "failed_by": {str(Fault.AGENT): sum(failed.values())}
        | {str(owner): faults[str(owner)] for owner in Fault if owner is not Fault.AGENT},
        "infrastructure": _reasons(run.failures[p.episode][-1] for p in broken),
        "by_try": _by_try(pairs, run.failures),
        "not_needed": len(run.plan) - len(plan),
        "by_application": _shares(pairs, "world"),
        "by_kind": _shares(pairs, "kind"),
        "by_voice": _shares(pairs, "voice"),
        "played_by": dict(_players(e for _, e in pairs)),
        "accepted_shape": _shape([e for _, e in passed]),
    }


def _failures(episodes: Iterable[Episode]) -> tuple[Counter[str], Counter[str]]:
    failed: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    for episode in episodes:
        verdict = episode.verdict
        if verdict.passed:
            continue
        if verdict.broken_by:
            faults[str(verdict.broken_by)] += 1
        else:
            failed[verdict.reason] += 1
    return failed, faults


def _reasons(errors: Iterable[str]) -> dict[str, int]:
    """Return the commonest errors; what differs in numbers only is one."""
    counts = Counter(re.sub(r"\d+(\.\d+)?", "#", error)[:MOST_CHARACTERS] for error in errors)
    return dict(counts.most_common(MOST_REASONS))


def _by_try(
    pairs: Iterable[tuple[Planned, Episode]], failures: Mapping[str, Any]
) -> dict[str, dict[str, int]]:
    """Tell episodes that were played again from others: they may be other than those.

    A harder task is longer, and meets a failure more often.
    """
    out = {name: {"episodes": 0, "accepted": 0} for name in ("first", "retried")}
    for planned, episode in pairs:
        row = out["retried" if planned.episode in failures else "first"]
        row["episodes"] += 1
        row["accepted"] += bool(episode.verdict.passed)
    return out


def _variety(
    run: Run, plan: Iterable[Planned], worlds: Mapping[str, World]
) -> dict[str, dict[str, Any]]:
    """Say how various the agents of each world are."""
    agents: dict[str, dict[str, Agent]] = {}
    for planned in plan:
        agents.setdefault(planned.world, {})[planned.agent] = run.agents[planned.agent]
    out = {}
    for name, found in sorted(agents.items()):
        stats = agent_stats(list(found.values()), worlds[name])
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


def _decoys(plan: Iterable[Planned]) -> dict[str, dict[str, int]]:
    """Add up what the gate tried, and how often rubrics failed it."""
    out: dict[str, dict[str, int]] = {}
    for planned in plan:
        for name, (tried, failed) in planned.decoys.items():
            row = out.setdefault(name, {"tried": 0, "failed": 0})
            row["tried"] += tried
            row["failed"] += failed
    return {name: out[name] for name in DECOYS if name in out}


def _shares(pairs: Iterable[tuple[Planned, Episode]], what: str) -> dict[str, dict[str, int]]:
    out: dict[str, dict[str, int]] = {}
    for planned, episode in pairs:
        name = {
            "world": planned.world,
            "kind": str(planned.task.blueprint.kind),
            "voice": planned.task.persona.voice,
        }[what]
        row = out.setdefault(name, {"episodes": 0, "accepted": 0})
        row["episodes"] += 1
        row["accepted"] += bool(episode.verdict.passed)
    return dict(sorted(out.items()))


def _players(episodes: Iterable[Episode]) -> Counter[str]:
    return Counter(
        f"{role}: {who}" for e in episodes for role, who in sorted(e.trajectory.players.items())
    )


def _shape(episodes: list[Episode]) -> dict[str, Any]:
    """Describe accepted conversations: lengths, calls, tools."""
    if not episodes:
        return {"calls": None, "messages": None, "tools_called": None, "real": None}
    calls = [len(e.trajectory.steps) for e in episodes]
    messages = [len(e.trajectory.messages) for e in episodes]
    tools = {(e.trajectory.world, s.call.name) for e in episodes for s in e.trajectory.steps}
    return {
        "calls": {"median": median(calls), "mean": round(sum(calls) / len(calls), 2)},
        "messages": {"median": median(messages), "mean": round(sum(messages) / len(messages), 2)},
        "tools_called": len(tools),
        "real": sum(e.trajectory.real for e in episodes),
    }


_SHOWN = frozenset(
    {"run", "accepted", "episodes", "candidates", "given_up", "tasks", "agents"}
    | {"rejected_by_reason", "faults_by_owner", "decoys"}
    | {"agents_by_application", "by_application", "by_kind"}
)


def read_report(run: Path) -> dict[str, Any]:
    """Return `report.json` of a run folder.

    Raises:
        BadInput: the run is not finished.
        BadRow: the file is damaged.
    """
    file, remedy = run / "report.json", "repeat its generate command"
    if not file.exists():
        raise BadInput("the run is not finished", where=str(run), remedy=remedy)
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
        *_indented(report["rejected_by_reason"], "rejected"),
        *_indented(report["faults_by_owner"], "no verdict"),
        f"  accepted        {report['accepted']:>7}",
        *_failed_lines(report),
        "",
        "decoys at the gate   tried    failed",
    ]
    lines += [
        f"  {name:<16}{row['tried']:>8}{row['failed']:>10}"
        for name, row in report["decoys"].items()
    ]
    lines += ["", "agents            distinct  toolsets  near-alike  tools unused"]
    lines += [
        f"  {name:<16}{row['agents']:>8}{row['toolsets']:>10}{row['near_duplicates']:>12}"
        f"{len(row['tools_unused']):>14}"
        for name, row in report["agents_by_application"].items()
    ]
    for title, key in (("application", "by_application"), ("kind", "by_kind")):
        lines += ["", f"{title:<18}episodes  accepted"]
        lines += [
            f"  {name:<16}{row['episodes']:>8}{row['accepted']:>10}"
            for name, row in report[key].items()
        ]
    return lines + _cost_lines(report)


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
