"""Tests that an agent never saw, run on what it left: the ground truth of coding tasks.

They run in a room of their own, by a program that the folder cannot replace. They never lie on a
disk there, so that what they start can neither read nor write them; the standard library comes
before the folder; and only what this program says in the end counts, behind a word that nobody
could know before. It holds its own names of all that it uses, and compares in the end what decides
(`unittest` and what that stands on) with what it was. A module that ends the process, prints what
tests print, or stands in the way of `unittest` makes tests fail and not pass.

Not kept out: objects of the folder that equal everything, and code of it that looks through the
memory of the process that it shares with the tests. Tests of what strangers' programs do had better
start them as programs.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace

from simulators.sandbox.run import Bounds, python, run
from simulators.sandbox.state import State
from synth.core.errors import BadInput, ServerFailed

_MODULE = re.compile(r"test_\w+\.py", re.ASCII)
_MAX_SAID = 16_000
_RUNNER = """
import builtins, contextlib, ctypes, json, linecache, os, sys, types, unittest
from json.encoder import encode_basestring_ascii as quote
from os import _exit, write
from traceback import format_exc
def look():
    held = {}
    for module in deciding:
        own = [c for c in vars(module).values() if isinstance(c, type) and c.__module__ in names]
        for place in [module, *own]:
            for key, value in list(vars(place).items()):
                inner = getattr(value, "__func__", value)
                parts = [value, *(getattr(inner, name, None) for name in function)]
                for cell in getattr(inner, "__closure__", None) or ():
                    parts.append(cell.cell_contents)
                held[place, key] = parts
    return held
def differs(before, after):
    for what, parts in before.items():
        now = after.get(what, ())
        if len(now) != len(parts) or not all(a is b for a, b in zip(parts, now)):
            return True
    return any(isinstance(p, type) or key in known for p, key in after.keys() - before.keys())
def cases(found):
    if not isinstance(found, unittest.TestSuite):
        return [found]
    return [case for part in found for case in cases(part)]
def main(scope):
    for name in [name for name in scope if not name.startswith("__")]:
        del scope[name]
    given = json.loads(sys.stdin.read())
    ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
    before, held, wrong = look(), {}, []
    sys.path.append(os.getcwd())
    class Result(unittest.TestResult):
        def addSuccess(self, test):
            held[test.id()] = held[test.id()] is None
        def addSubTest(self, test, subtest, error):
            super().addSubTest(test, subtest, error)
            if error is not None:
                held[test.id()] = False
    result, loader = Result(), unittest.TestLoader()
    for name, text in given["tests"].items():
        module = sys.modules[name] = types.ModuleType(name)
        file = module.__file__ = name + ".py"
        linecache.cache[file] = len(text), None, text.splitlines(True), file
        try:
            exec(compile(text, file, "exec", dont_inherit=True), vars(module))
            vars(module).pop("load_tests", None)
            found = loader.loadTestsFromModule(module)
        except BaseException:
            held[name] = False
            wrong.append(format_exc())
        else:
            held.update((case.id(), None) for case in cases(found))
            found.run(result)
    wrong += [text for _, text in result.errors + result.failures]
    if differs(before, look()):
        wrong.append("unittest itself was changed")
    passed = not wrong and bool(held) and all(value is True for value in held.values())
    word = {True: "true", False: "false"}
    tests = ", ".join(quote(name) + ": " + word[value is True] for name, value in held.items())
    said = "[%s, {%s}, [%s]]" % (word[passed], tests, ", ".join(map(quote, wrong)))
    write(1, ("\\n" + given["word"] + said + "\\n").encode())
    _exit(0)
names = {name for name in sys.modules if name.split(".")[0] in ("unittest", "contextlib")}
deciding = [builtins, *(sys.modules[name] for name in names)]
function = "__code__", "__defaults__", "__kwdefaults__"
known = frozenset(vars(builtins))
own = {**globals(), "__builtins__": dict(vars(builtins))}
for name in "look", "differs", "cases", "main":
    own[name] = types.FunctionType(own[name].__code__, own)
own["main"](globals())
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
        hidden: name -> content of `unittest` modules, `test_*.py`; `load_tests` is not asked.
        seconds: wall time that all of them have.
        bounds: what they may take up.

    Raises:
        BadRow: it is no snapshot of a sandbox.
        BadInput: something hidden is no such module.
        NoConfinement: this machine cannot confine a command.
    """
    bounds, word = bounds or Bounds(), secrets.token_hex(16)
    given = {"word": word, "tests": _sources(hidden)}
    try:
        ran = await run(
            [python(), "-I", "-c", _RUNNER],
            State.unpack(snapshot),
            seconds=seconds,
            given=json.dumps(given).encode(),
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


def _sources(hidden: Mapping[str, bytes]) -> dict[str, str]:
    """Return the text of each module by its name."""
    found = {}
    for path, content in sorted(hidden.items()):
        try:
            text = content.decode()
        except UnicodeDecodeError:
            text = ""
        if not _MODULE.fullmatch(path) or (content and not text):
            what = f"{path!r} is no module of hidden tests"
            raise BadInput(what, where="sandbox", remedy="test_NAME.py in UTF-8, in no folder")
        found[path.removesuffix(".py")] = text
    return found
