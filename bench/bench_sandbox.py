"""What the sandbox costs: files are a value in this process, commands run in a room of their own.

CPU of this process and of all that it started and saw end, as everywhere where tools run elsewhere.
"""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bench_environments import Row, Script, Watch, _row, _us, _walk

from simulators.live.folder import Tree
from simulators.sandbox.environment import SandboxEnvironment
from simulators.sandbox.hidden import run_hidden_tests
from simulators.sandbox.project import shipped
from simulators.sandbox.run import why_not
from simulators.sandbox.state import State

SANDBOX: Mapping[str, Sequence[tuple[str, Mapping[str, Any], bool]]] = {
    "files": (
        ("read_file", {"path": "slugs.py"}, True),
        ("write_file", {"path": "new.py", "content": "x = 1\n"}, False),
    ),
    "bash": (("run_bash", {"command": "cat slugs.py > copy.py"}, False),),
    "python": (("run_python", {"code": "import slugs; open('found', 'w').write('x')"}, False),),
}
"""Calls of one episode each."""


def _cpu_s() -> float:
    """Return the CPU time of this process and of those that it waited for."""
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def rows() -> Iterator[Row]:
    """Yield what the kinds of calls cost."""
    reason = asyncio.run(why_not())
    for name, calls in SANDBOX.items() if not reason else ():
        watch = Watch(_cpu_s)
        asyncio.run(_walk(SandboxEnvironment(), [Script(7, calls)], watch, 15))
        yield _row(f"sandbox: {name}", watch)
    if reason:
        yield "sandbox", "not run", f"this machine makes no rooms: {reason}"
        return
    watch, project = Watch(_cpu_s), shipped(7)
    state = State(Tree.of(project.files)).pack()
    for _ in range(5):
        asyncio.run(watch.of("tests", run_hidden_tests(state, project.hidden)))
    tests = f"{len(project.hidden)} file of hidden tests {_us(watch.middle('tests'))}"
    yield "sandbox: hidden tests", "-", tests
