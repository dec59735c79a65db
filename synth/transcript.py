"""An episode as people read it: who said what, what each call did, and the verdict."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from synth.core.types import Agent, Effect, Step, Task, Trajectory, Verdict
from synth.run import Episode

Speaker = Literal["user", "act", "agent", "call", "event", "result", "error", "verdict"]


class Line(NamedTuple):
    """One line of a transcript."""

    speaker: Speaker
    text: str


def transcript(episode: Episode, task: Task, *, longest: int = 400) -> list[Line]:
    """Return an episode as lines: system prompt left out, and of the verdict what decided it.

    Args:
        episode: what was played and judged.
        task: its rubric says which criteria decide.
        longest: texts are cut after so many characters.
    """
    lines = [Line(s, _cut(text, longest)) for s, text in _spoken(episode.trajectory)]
    minor = {c.id for c in task.rubric.criteria() if c.level == "should"}
    return lines + [Line("verdict", _cut(t, 120)) for t in _judged(episode.verdict, minor)]


def _spoken(trajectory: Trajectory) -> Iterator[Line]:
    steps = {step.call.id: step for step in trajectory.steps if step.by == "agent"}
    for place, message in enumerate(trajectory.messages):
        for act in trajectory.steps:
            if act.by == "user" and act.message == place:
                yield Line("act", f"{act.call.name}({act.call.arguments})")
                yield from _came_of(act)
        if message.role == "user":
            yield Line("user", message.content or "")
        elif message.role == "assistant":
            if message.content:
                yield Line("agent", message.content)
            for call in message.tool_calls:
                yield Line("call", f"{call.name}({call.arguments})")
                step = steps.get(call.id)
                if step is not None:
                    yield from _came_of(step)


def _came_of(step: Step) -> Iterator[Line]:
    for one in step.result.happened:
        yield Line("event", f"before that, after {one.second // 60} min: {one.text}")
    mark = "" if step.effect is Effect.READ else f"[{step.effect}] "
    yield Line("result" if step.result.ok else "error", mark + step.result.content)


def _judged(verdict: Verdict, minor: set[str]) -> Iterator[str]:
    word = {True: "passed", False: "rejected", None: "not judged"}[verdict.passed]
    yield f"{word}: {verdict.reason}"
    for result in verdict.results:
        if result.id in minor:
            continue
        mark = {True: "yes", False: "no", None: "not judged"}[result.passed]
        yield f"{result.id}: {mark} ({result.evidence})"


def markdown(episode: Episode, task: Task, agent: Agent) -> str:
    """Return an episode as a section of a Markdown page.

    Text of models and tools is shown in a fenced block longer than any fence inside it, so that
    nothing in it can become markup.
    """
    names = {
        "user": "user  ",
        "act": "user →",
        "agent": "agent ",
        "call": "  →   ",
        "event": "  *   ",
        "result": "  ←   ",
    }
    names |= {"error": "  ←!  ", "verdict": "judge "}
    body = "\n".join(f"{names[line.speaker]} {line.text}" for line in transcript(episode, task))
    fence = "`" * max(3, _longest_run(body, "`") + 1)
    head = (
        f"### {task.blueprint.kind} in {agent.application}\n\n"
        f"{task.persona.voice} user, {agent.behaviour.name} agent with {len(agent.tools)} tools, "
        f"episode `{episode.trajectory.episode}`\n"
    )
    return f"{head}\n{fence}text\n{body}\n{fence}\n"


def _cut(text: str, longest: int) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= longest else flat[: longest - 1] + "…"


def _longest_run(text: str, character: str) -> int:
    longest = run = 0
    for c in text:
        run = run + 1 if c == character else 0
        longest = max(longest, run)
    return longest
