"""The embedded model plays whole episodes: as agent, as user, and as a judge of yes and no.

    python bench/bench_local_model.py PATH.gguf [--episodes 50] [--application bank]
        [--roles agent,user,judge] [--seed 0] [--json FILE]

As agent it meets the scripted user, as user the reference agent, which makes no mistakes here: what
fails is the model's doing. Episodes run one after another on one thread; seconds are CPU seconds of
this process, loading left out. The judge is asked about right and wrong answers made from the same
tasks, half of them to fit the threshold and half to measure it. Hours at full length.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

from simulators.users.model import ModelUser
from simulators.users.scripted import ScriptedUser
from synth.core.config import Limits, load_config
from synth.core.llm.local import LocalModel, calibrate, open_local
from synth.core.protocols import LLM, ChatRequest, Reply, Sampler
from synth.core.seeds import rng
from synth.core.types import Trajectory, Verdict
from synth.episode import play_and_judge
from synth.mistakes import ErrorRates
from synth.pipeline.compose import Composer
from synth.pipeline.generate import reference_player
from synth.pipeline.worlds import open_applications
from synth.players import ModelAgent
from synth.run import Planned

COMPUTING_S = 600.0
LIMITS = Limits(turns=12, calls=10, seconds=None)
AGENT = Sampler(temperature=0.0, max_tokens=400)
USER = Sampler(temperature=0.4, max_tokens=120)


class Shown:
    """The model, with every reply printed as it comes."""

    def __init__(self, model: LocalModel) -> None:
        self.name, self._model = model.name, model

    async def complete(self, request: ChatRequest) -> Reply:
        """Return the model's reply."""
        cpu = time.process_time()
        reply = await self._model.complete(request)
        said = [f"{call.name}({call.arguments})" for call in reply.message.tool_calls]
        used = f"{reply.usage.prompt_tokens} ({reply.usage.cached_tokens} known)"
        print(f"    {used} + {reply.usage.completion_tokens} tokens, ", end="")
        print(f"{time.process_time() - cpu:.1f} s:", reply.message.content or said, flush=True)
        return reply


class Tally:
    """What came of the episodes of one role."""

    def __init__(self, role: str) -> None:
        self.role = role
        self.cpu = self.wall = 0.0
        self.turns = self.passed = self.episodes = 0
        self.tokens: Counter[str] = Counter()
        self.stops: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()

    def add(self, trajectory: Trajectory, verdict: Verdict) -> None:
        """Count one episode."""
        self.episodes += 1
        self.passed += verdict.passed is True
        self.stops[trajectory.stop.value] += 1
        if not verdict.passed:
            self.faults[(verdict.fault or trajectory.fault or "agent")] += 1
            self.reasons[trajectory.error or verdict.reason] += 1
        speaker = "assistant" if self.role == "agent" else "user"
        self.turns += sum(message.role == speaker for message in trajectory.messages)
        if used := trajectory.usage.get(self.role):
            self.tokens["prompt"] += used.prompt_tokens or 0
            self.tokens["cached"] += used.cached_tokens or 0
            self.tokens["written"] += used.completion_tokens or 0

    def report(self) -> dict[str, Any]:
        """Return the figures."""
        return {
            "episodes": self.episodes,
            "passed": self.passed,
            "stops": dict(self.stops),
            "faults by owner": {str(owner): count for owner, count in self.faults.items()},
            "reasons": dict(self.reasons.most_common(10)),
            "turns": self.turns,
            "CPU seconds a turn": round(self.cpu / max(1, self.turns), 2),
            "wall seconds": round(self.wall, 1),
            "tokens": dict(self.tokens),
        }


async def play_role(
    role: str, model: LLM, composer: Composer, episodes: int, *, show: bool
) -> dict[str, Any]:
    """Play the first episodes of the plan with the model in one role."""
    tally = Tally(role)
    reference = reference_player(ErrorRates.uniform(0.0))
    for index in range(episodes):
        planned = await composer.planned(index)
        agent = composer.agent(planned.world, planned.agent)
        environment = composer.worlds[planned.world].environment()
        cpu, wall = time.process_time(), time.perf_counter()
        trajectory, verdict = await play_and_judge(
            composer.tools[planned.world],
            task=planned.task,
            agent=agent,
            environment=environment,
            agent_player=ModelAgent(model, AGENT) if role == "agent" else reference(planned, agent),
            user_player=ModelUser(model, USER) if role == "user" else _scripted(planned),
            limits=LIMITS,
            episode=planned.episode,
            seed=planned.seed,
        )
        tally.cpu += time.process_time() - cpu
        tally.wall += time.perf_counter() - wall
        await environment.close()
        tally.add(trajectory, verdict)
        print(f"{role} {index}: {trajectory.kind} {trajectory.stop} {verdict.reason}", flush=True)
        if show:
            _print(trajectory)
    return tally.report()


def _scripted(planned: Planned) -> ScriptedUser:
    return ScriptedUser(planned.task.request, rng(planned.seed, "user"))


def _print(trajectory: Trajectory) -> None:
    for message in trajectory.messages[1:]:
        calls = [f"{call.name}({call.arguments})" for call in message.tool_calls]
        print(f"    {message.role}: {(message.content or '')[:300]} {' '.join(calls)}")
    if trajectory.error:
        print("    error:", trajectory.error)


async def judge_role(model: LocalModel, composer: Composer, tasks: int) -> dict[str, Any]:
    """Ask whether a call serves a request: the right one, and one of another task."""
    planned = [await composer.planned(index) for index in range(tasks)]
    with_calls = [p.task for p in planned if p.task.blueprint.solution]
    examples: list[tuple[float, bool]] = []
    cpu = time.process_time()
    for number, task in enumerate(with_calls):
        other = with_calls[(number + 1) % len(with_calls)]
        for made, right in ((task, True), (other, False)):
            calls = [f"{c.tool}({json.dumps(c.arguments)})" for c in made.blueprint.solution]
            question = (
                f"A customer wrote: {task.request}\nThe agent did: {'; '.join(calls)}\n"
                "Did the agent do what this customer asked for?"
            )
            request = ChatRequest([{"role": "user", "content": question}])
            examples.append((await model.probability_of_yes(request), right))
    seconds = (time.process_time() - cpu) / max(1, len(examples))
    # Neighbours hold one of each label, so both halves do.
    fitted = calibrate(e for number, e in enumerate(examples) if number // 2 % 2 == 0)
    held = [e for number, e in enumerate(examples) if number // 2 % 2]
    wins = [yes > no for (yes, _), (no, _) in zip(examples[::2], examples[1::2], strict=True)]
    return {
        "questions": len(examples),
        "threshold": round(fitted.threshold, 3),
        "accuracy, fitted": round(fitted.accuracy, 3),
        "accuracy, held out": round(sum(fitted.passes(p) is y for p, y in held) / len(held), 3),
        "accuracy at one half": round(sum((p >= 0.5) is y for p, y in examples) / len(examples), 3),
        "right above wrong": round(sum(wins) / len(wins), 3),
        "CPU seconds a question": round(seconds, 2),
    }


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Return the figures of all wanted roles."""
    settings = [f"seed={options.seed}", "generate.states=2", "generate.agents=8"]
    composer = Composer(load_config(None, settings), open_applications([options.application]))
    figures: dict[str, Any] = {}
    for role in options.roles.split(","):
        model = open_local(f"local:{options.model}", role=role, timeout_s=COMPUTING_S)
        seen = Shown(model) if options.show else model
        figures["model"] = model.name.partition("/")[0] + f" ({model.weak or 'not weak'})"
        if role == "judge":
            figures[role] = await judge_role(model, composer, max(4, options.episodes))
        else:
            figures[role] = await play_role(
                role, seen, composer, options.episodes, show=options.show
            )
        await model.close()
    await composer.close()
    return figures


def main() -> None:
    """Read the options, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("model", help="PATH.gguf, or the name of fetched weights")
    parser.add_argument("--episodes", type=int, default=50)
    parser.add_argument("--application", default="bank")
    parser.add_argument("--roles", default="agent,user,judge")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", action="store_true", help="print what was said")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    figures = asyncio.run(measure(options))
    text = json.dumps(figures, indent=1, default=str)
    print(text)
    if options.json:
        options.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
