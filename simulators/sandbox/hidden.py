"""Tests that an agent never saw, run on what it left: the ground truth of coding tasks.

They run in a copy, in a room of their own, by a program that the folder cannot replace: Python is
isolated from the folder until `unittest` is loaded, and only what this program says in the end
counts, behind a word that nobody could know before. A module that ends the process, prints what
tests print, or stands in the way of `unittest` makes tests fail and not pass.

Not kept out: code of the folder that looks through the memory of the process that it shares with
the tests. Tests of what strangers' programs do had better start them as programs.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace

from simulators.live.folder import Tree
from simulators.sandbox.run import Bounds, python, run
from simulators.sandbox.state import State
from synth.core.errors import ServerFailed

FOLDER = "hidden_tests"
"""Where the tests are laid in the copy; whatever the agent has there is not."""
_MAX_SAID = 16_000
_RUNNER = f"""
import json, os, sys, unittest
def main(say=os.write, leave=os._exit, dumps=json.dumps, right=dict(vars(unittest.TestCase))):
    word = sys.stdin.readline().strip()
    sys.path[:0] = [os.getcwd(), os.path.join(os.getcwd(), {FOLDER!r})]
    held = {{}}
    class Result(unittest.TestResult):
        def startTest(self, test):
            super().startTest(test)
            held[test.id()] = None
        def addSuccess(self, test):
            held[test.id()] = held[test.id()] is None
        def addSubTest(self, test, subtest, error):
            super().addSubTest(test, subtest, error)
            if error is not None:
                held[test.id()] = False
    result = Result()
    unittest.TestLoader().discover({FOLDER!r}, "test_*.py", {FOLDER!r}).run(result)
    wrong = result.errors + result.failures
    if right != dict(vars(unittest.TestCase)):
        wrong.append((None, "unittest itself was changed"))
    tests = {{name: bool(value) for name, value in held.items()}}
    found = [not wrong and bool(tests) and all(tests.values()), tests, [text for _, text in wrong]]
    say(1, ("\\n" + word + dumps(found) + "\\n").encode())
    leave(0)
main()
"""


@dataclass(frozen=True, slots=True)
class Tested:
    """What came of the hidden tests."""

    passed: bool
    """There were some, and every one of them ran and held."""
    tests: Mapping[str, bool]
    """Name -> whether it held; empty where they did not come to an end."""
    said: str
    """Tracebacks of those that did not hold, or what was printed instead of a result."""


async def run_hidden_tests(
    snapshot: bytes,
    hidden: Mapping[str, bytes],
    *,
    seconds: float = 60.0,
    bounds: Bounds | None = None,
) -> Tested:
    """Run hidden tests on a snapshot of a `SandboxEnvironment`, which stays as it is.

    Args:
        snapshot: of the environment.
        hidden: path -> content of `unittest` modules, `test_*.py`.
        seconds: wall time that all of them have.
        bounds: what they may take up.

    Raises:
        BadRow: it is no snapshot of a sandbox.
        NoConfinement: this machine cannot confine a command.
    """
    bounds = bounds or Bounds()
    state = State.unpack(snapshot)
    word = secrets.token_hex(16)
    try:
        ran = await run(
            [python(), "-I", "-c", _RUNNER],
            State(_with_tests(state.tree, hidden), state.steps, state.step),
            seconds=seconds,
            given=word.encode() + b"\n",
            bounds=replace(bounds, shown=2 * bounds.output),  # a result is not cut
        )
    except ServerFailed as error:
        return Tested(False, {}, f"The tests {error.what}.")
    _, mark, after = ran.output.rpartition(f"\n{word}")
    try:
        passed, tests, wrong = json.loads(after if mark and not ran.ended else "")
    except ValueError:  # it did not come so far, or something was said behind its back
        why = f"ended: {ran.ended}" if ran.ended else f"exit code {ran.status}"
        said = f"The tests came to no result ({why}).\n{ran.output[:_MAX_SAID]}"
        return Tested(False, {}, said.strip())
    return Tested(passed, tests, "\n".join(wrong)[:_MAX_SAID].strip())


def _with_tests(tree: Tree, hidden: Mapping[str, bytes]) -> Tree:
    """Return a folder with the tests, and with nothing else in their place."""
    kept = {
        path: entry
        for path, entry in tree.entries.items()
        if path != FOLDER and not path.startswith(f"{FOLDER}/")
    }
    laid = Tree.of({f"{FOLDER}/{path}": content for path, content in hidden.items()})
    modes = {path: mode for path, mode in tree.modes.items() if path in kept}
    return Tree({**kept, **laid.entries}, modes)
