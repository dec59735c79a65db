"""Play the agent yourself, against the scripted user, and see the verdict.

The task, the user, the environment and the judge are those of generation; only the agent is you.
Lines may come from a pipe as well. /help says what can be typed.

toolloom play hotel
toolloom play hotel --kind forbidden --seed 3 --index 1
toolloom play my_app.yaml < lines.txt
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import select
import signal
import sys
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, TextIO

from synth.app._show import line, lines
from synth.core.canonical import canonical
from synth.core.errors import BadInput
from synth.core.types import TaskKind

if TYPE_CHECKING:
    from synth.core.config import Config
    from synth.core.protocols import World
    from synth.core.types import Task, Trajectory, Verdict
    from synth.person import Compared, Kind
    from synth.run import Planned

_MARKS = {"user": "user", "agent": "you", "call": "call", "result": "  ←", "error": "  ←!"}
_STYLES = {
    "user": "bold cyan",
    "agent": "bold green",
    "call": "yellow",
    "result": "dim",
    "error": "red",
    "note": "none",
    "problem": "red",
    "yes": "green",
    "no": "bold red",
}
_WIDTH = 5
MAX_LINE = 64 << 10
"""Bytes of a line that is typed or piped; a longer one is not heard."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("application", help="name of an installed application, or a YAML file")
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="decides tasks and users (default: 0)"
    )
    parser.add_argument(
        "--kind", choices=list(TaskKind), help="kind of task (default: as they are generated)"
    )
    parser.add_argument(
        "--index", type=int, default=0, metavar="I", help="which task of the seed (default: 0)"
    )


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Play one episode, and return its verdict.

    Raises:
        BadInput: a number is out of range, or the application has no task of that kind.
        UnknownName: no such application; close names are suggested.
        BadApplication: the file is wrong.
    """
    if not 0 <= arguments.index < 1 << 31:
        raise BadInput("--index must be between 0 and 2147483647")

    from synth.core.config import load_config
    from synth.pipeline.worlds import open_applications

    settings = [f"seed={arguments.seed}"]
    settings += [f"generate.mix={{{arguments.kind}=1}}"] if arguments.kind else []
    config = load_config(None, settings)
    (world,) = open_applications([arguments.application]).values()
    desk = Terminal(sys.stderr if arguments.json else sys.stdout)
    task, trajectory, verdict = asyncio.run(_play(config, world, arguments.index, desk))
    desk.tell_what_is_left()
    return _judged(desk, task, trajectory, verdict)


async def _play(
    config: Config, world: World, index: int, desk: Terminal
) -> tuple[Task, Trajectory, Verdict]:
    from simulators.users.scripted import ScriptedUser
    from synth.core.seeds import rng
    from synth.episode import play_and_judge
    from synth.person import Person
    from synth.pipeline.compose import Composer

    # Typing blocks the loop, so Ctrl-C must reach it as it reaches any program that reads a line.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    composer = Composer(config, {world.name: world})
    try:
        planned = await composer.planned(index)
        agent = composer.agent(world.name, planned.agent)
    finally:
        await composer.close()
    desk.show("note", _welcome(world, planned, len(agent.tools)))
    environment = world.environment()
    try:
        trajectory, verdict = await play_and_judge(
            {tool.name: tool for tool in world.tools()},
            task=planned.task,
            agent=agent,
            environment=environment,
            agent_player=Person(desk, world.policy().strip()),
            user_player=ScriptedUser(planned.task.request, rng(planned.seed, "user")),
            limits=config.generate.limits.model_copy(update={"seconds": None}),
            episode=planned.episode,
            seed=planned.seed,
        )
    finally:
        await environment.close()
        await world.close()
    return planned.task, trajectory, verdict


def _welcome(world: World, planned: Planned, tools: int) -> str:
    clock = f", {world.clock.replace('T', ' ')}" if world.clock else ""
    return (
        f"{world.name}{clock}: you are the agent, with {tools} tools; the user is "
        f"{planned.task.persona.name}.\n/policy  /tools  /help"
    )


class Terminal:
    """A `synth.person.Desk`: colours in a terminal, plain lines elsewhere.

    Args:
        out: where things are shown.
    """

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._piped = None if sys.stdin.isatty() else Piped(sys.stdin.fileno())
        self._rich: Any = None
        if self._piped is None:
            import readline  # noqa: F401  # from here on, `input` has a history and can be edited
        if out.isatty():
            from rich.console import Console

            self._rich = Console(file=out, highlight=False)

    def show(self, kind: Kind, text: str) -> None:
        """Show something in its colour, who said it in front."""
        self.write(_STYLES[kind], text, _MARKS.get(kind, ""))

    def write(self, style: str, text: str, mark: str = "") -> None:
        """Show text in a style, `mark` in front of its first line."""
        margin = " " * (_WIDTH + 1) if mark else ""
        shown = lines(text).replace("\n", f"\n{margin}")
        shown = f"{mark:<{_WIDTH}} {shown}" if mark else shown
        if self._rich is None:
            self._out.write(f"{shown}\n")
        else:
            self._rich.print(shown, style=style, markup=False, soft_wrap=True)
        self._out.flush()

    def ask(self) -> str | None:
        """Return the next line that is typed; a piped one is shown as if it had been."""
        while True:
            typed = self._typed() if self._piped is None else self._piped.line()
            if typed is None:
                return None
            if len(typed) <= MAX_LINE:
                break
            self.show("problem", f"a line of more than {MAX_LINE >> 10} KiB is not heard")
        text = typed.decode("utf-8", errors="replace")
        if self._piped is not None:
            self.write("none", f"> {line(text)}")
        return text

    def _typed(self) -> bytes | None:
        try:
            return input("> ").encode("utf-8", errors="replace")
        except EOFError:
            self.write("none", "")
            return None

    def tell_what_is_left(self) -> None:
        """Say how many lines came too late, so that nobody takes them for heard."""
        count = self._piped.waiting() if self._piped is not None else 0
        if count:
            late = "1 line was" if count == 1 else f"{count} lines were"
            self.show("problem", f"\n{late} not heard: the conversation had ended")


class Piped:
    """Lines from a pipe or a file, however long and however many.

    Args:
        descriptor: where they are read.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._held, self._over = descriptor, b"", False

    def line(self) -> bytes | None:
        """Return the next line; of one above `MAX_LINE` only that much is true."""
        cut: bytes | None = None
        while b"\n" not in self._held:
            if len(self._held) > MAX_LINE:  # its rest is read and forgotten
                cut, self._held = cut or self._held, b""
            if not self._more():
                break
        found, end, self._held = self._held.partition(b"\n")
        if not (found or end or cut):
            return None
        return cut or found

    def waiting(self) -> int:
        """Return how many lines there are by now, without waiting for any; blank ones are none."""
        while len(self._held) <= MAX_LINE and select.select([self._descriptor], [], [], 0)[0]:
            if not self._more():
                break
        late, self._held = self._held.split(b"\n"), b""
        return sum(1 for one in late if one.strip())

    def _more(self) -> bool:
        """Read what there is, waiting for something; False at the end."""
        chunk = b"" if self._over else os.read(self._descriptor, MAX_LINE)
        self._over = not chunk
        self._held += chunk
        return not self._over


# --- the verdict -----------------------------------------------------------------------------


def _judged(desk: Terminal, task: Task, trajectory: Trajectory, verdict: Verdict) -> dict[str, Any]:
    """Show the verdict beside the reference solution, and return all of it as plain data."""
    from synth.person import compare

    word = {True: "passed", False: "failed", None: "no verdict"}[verdict.passed]
    style = _STYLES["yes" if verdict.passed else "no"]
    desk.write(style, f"\n{word}: {verdict.reason} (the conversation ended: {trajectory.stop})")
    texts = {criterion.id: criterion.text for criterion in task.rubric.criteria()}
    for result in verdict.results:
        mark = {True: "yes", False: "no", None: "?"}[result.passed]
        told = texts.get(result.id, result.id)
        evidence = in_words(result.evidence, chain(*task.blueprint.diffs, trajectory.diff))
        desk.write(_STYLES.get(mark, "none"), f"{told} ({evidence})", mark)
    compared = compare(task.blueprint.solution, trajectory.steps)
    _differences(desk, compared)
    return {
        "episode": trajectory.episode,
        "kind": task.blueprint.kind,
        "passed": verdict.passed,
        "reason": verdict.reason,
        "stop": trajectory.stop,
        "criteria": {result.id: result.passed for result in verdict.results},
        "calls": [row._asdict() for row in compared],
        "diff": list(trajectory.diff),
    }


def _differences(desk: Terminal, compared: Sequence[Compared]) -> None:
    """Show the calls of the reference solution, and which of them were made."""
    if not compared:
        desk.write("none", "\nThe reference solution makes no call, and neither did you.")
        return
    desk.write("none", "\nCalls: = yours and the reference's, - only its, + only yours")
    marks = {"both": ("=", "green"), "reference": ("-", "red"), "yours": ("+", "yellow")}
    for row in compared:
        mark, style = marks[row.whose]
        desk.write(style, f"{row.tool} {canonical(row.arguments)}", mark)


def in_words(evidence: str, changes: Iterable[str]) -> str:
    """Return evidence of a judge, told in words where it quotes a change of the state.

    Args:
        evidence: `missing ["bookings","update",{...},{...}]`, `unexpected [...]`, or anything else.
        changes: lines of diffs; the quote is one of them, cut short where it is long.
    """
    from synth.judge.evidence import quote

    told = {"missing": "not done: ", "unexpected": "done unasked: "}
    kind, _, quoted = evidence.partition(" ")
    whole = next((change for change in changes if quote(change) == quoted), None)
    return evidence if whole is None or kind not in told else told[kind] + _change(whole)


def _change(row: str) -> str:
    """Return one line of a diff in words: `bookings B0036: status from "open" to "closed"`."""
    table, kind, before, after = json.loads(row)
    before, after = before or {}, after or {}
    which = f"{table} {before.get('id', after.get('id', ''))}".rstrip()
    if kind == "delete":
        return f"{which} deleted"
    fields = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    if kind == "insert":
        said = [f"{name} {canonical(after[name])}" for name in fields if name != "id"]
        return f"{which} created: {', '.join(said)}"
    pairs = [(name, *(canonical(row.get(name)) for row in (before, after))) for name in fields]
    return f"{which}: {', '.join(f'{name} from {old} to {new}' for name, old, new in pairs)}"
