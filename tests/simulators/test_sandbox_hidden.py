"""Hidden tests decide, and nothing that an agent leaves in the folder decides instead of them."""

import asyncio

import pytest

from simulators.live.folder import Tree
from simulators.sandbox.environment import SandboxEnvironment
from simulators.sandbox.hidden import run_hidden_tests
from simulators.sandbox.project import example, example_names
from simulators.sandbox.run import Bounds, why_not
from simulators.sandbox.state import State
from synth.core.errors import BadInput, BadRow

WHY_NOT = asyncio.run(why_not())
pytestmark = pytest.mark.skipif(WHY_NOT != "", reason=f"this machine makes no rooms: {WHY_NOT}")
HIDDEN = {
    "test_it.py": b"import unittest\nimport it\nclass T(unittest.TestCase):\n"
    b"    def test_one(self): self.assertEqual(it.one(), 1)\n"
    b"    def test_two(self):\n"
    b"        for n in (1, 2):\n"
    b"            with self.subTest(n=n): self.assertEqual(it.double(n), 2 * n)\n"
}
RIGHT = "def one(): return 1\ndef double(n): return 2 * n\n"
WRONG = "def one(): return 2\ndef double(n): return 2\n"
NAMES = ("test_it.T.test_one", "test_it.T.test_two")


def judged(files, hidden=HIDDEN, **more):
    return asyncio.run(run_hidden_tests(State(Tree.of(files)).pack(), hidden, **more))


@pytest.mark.parametrize("name", example_names())
def test_an_example_fails_as_it_is_and_passes_with_its_solution(name):
    project = example(name)

    async def run():
        environment = SandboxEnvironment(lambda seed: project)
        await environment.reset(0)
        before = await environment.snapshot()
        for path, content in project.solution.items():
            given = {"path": path, "content": content.decode()}
            assert (await environment.call("write_file", given)).ok
        after = await environment.snapshot()
        found = [await run_hidden_tests(state, project.hidden) for state in (before, after)]
        return found, await environment.snapshot() == after

    (failed, passed), untouched = asyncio.run(run())
    assert (failed.passed, passed.passed, untouched) == (False, True, True)
    assert set(failed.tests) == set(passed.tests)
    assert len(passed.tests) >= 4
    assert all(passed.tests.values())
    assert any(failed.tests.values())  # what worked before is tested too
    assert "AssertionError" in failed.said


def test_each_test_has_its_own_result():
    assert judged({"it.py": RIGHT}).tests == dict.fromkeys(NAMES, True)
    found = judged({"it.py": RIGHT.replace("2 * n", "2")})
    assert (found.passed, found.tests) == (False, dict(zip(NAMES, (True, False), strict=True)))
    assert "(n=2)" in found.said or "2 != 4" in found.said


FAKE = "import contextlib, os, sys, unittest, json\n"
ANYTHING = WRONG + FAKE + "unittest.TestCase.assertEqual = lambda *a: None\n"


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"it.py": "def one(: return 1"},
        {"it.py": "import os\nos._exit(0)"},
        {"it.py": "raise SystemExit(0)"},
        {"it.py": "print('Ran 2 tests in 0.000s\\n\\nOK'); print('[true, {\"a\": true}, []]')"},
        {"it.py": ANYTHING},
        {"it.py": ANYTHING + "import builtins\nbuiltins.all = lambda found: True"},
        {"it.py": ANYTHING + "import __main__\n__main__.differs = lambda *a: False"},
        {
            "it.py": WRONG + FAKE + "f = lambda self, first, second, msg=None: None\n"
            "unittest.TestCase.assertEqual.__code__ = f.__code__"
        },
        {
            "it.py": WRONG + FAKE + "@contextlib.contextmanager\ndef deaf(*a, **k):\n"
            "    with contextlib.suppress(BaseException): yield\n"
            "unittest.case._Outcome.testPartExecutor = deaf"
        },
        {
            "it.py": WRONG + FAKE + "g = contextlib._GeneratorContextManager\n"
            "g.__exit__ = lambda *a: True"
        },
        {
            "it.py": WRONG + FAKE + "class T(unittest.TestCase):\n    def test_a(self): pass\n"
            "give = lambda *a: unittest.TestSuite([T('test_a')])\n"
            "sys.modules['test_it'].load_tests = give"
        },
        {"it.py": WRONG + FAKE + "unittest.TestSuite.run = lambda self, result: result"},
        {
            "it.py": WRONG
            + FAKE
            + "json.JSONEncoder.encode = lambda *a: '[true, {\"a\": true}, []]'"
        },
        {"it.py": WRONG + FAKE + "w = os.write\nos.write = lambda f, b: w(f, b'[true, {}, []]')"},
        {"it.py": WRONG + FAKE + "unittest.TestCase.run = lambda self, r: r.addSuccess(self)"},
        {"it.py": WRONG + "import __main__\nif hasattr(__main__, 'word'): print(__main__.word)"},
        {"it.py": WRONG + "import atexit\natexit.register(print, 'OK')"},
        {"it.py": WRONG + FAKE + "raise unittest.SkipTest('all is well')"},
        {"it.py": WRONG, "unittest.py": "def main(): pass", "json.py": "", "sitecustomize.py": "1"},
        {"it.py": WRONG, "test_it.py": "import os; os._exit(0)"},
        {"it.py": WRONG, "usercustomize.py": "import os; os._exit(0)", "os.py": "", "sys.py": ""},
    ],
)
def test_nothing_passes_that_does_not_do_what_is_tested(files):
    found = judged(files)
    assert found.passed is False
    assert not found.tests or not all(found.tests.values()) or "unittest itself" in found.said


ASKING = {
    "test_one.py": b"import unittest, it\nclass T(unittest.TestCase):\n    def test(self): pass\n",
    "test_two.py": b"import subprocess, unittest\nclass T(unittest.TestCase):\n"
    b"    def test(self):\n"
    b"        self.assertEqual(subprocess.check_output(['python', 'it.py']), b'12345')\n",
}
"""Tests of which one asks a program."""
LOOKING = """
import glob, os, re
for file in [*glob.glob("/tmp/**", recursive=True), f"/proc/{os.getppid()}/mem"]:
    try: found = open(file, "rb").read(1 << 20)
    except OSError: continue
    if wanted := re.search(rb"b'(\\d{5})'", found): os.write(1, wanted[1])
"""


@pytest.mark.parametrize(
    "files",
    [
        {"it.py": "", "subprocess.py": "def check_output(*a): return b'12345'"},
        {"it.py": LOOKING},
        {"it.py": "import glob\nfor f in glob.glob('**/test_*', recursive=True): "
                  "open(f, 'w').write('import unittest\\nclass T(unittest.TestCase):\\n"
                  "  def test(self): pass\\n')"},
    ],
)  # fmt: skip
def test_a_program_can_neither_read_nor_replace_the_tests_or_what_they_stand_on(files):
    found = judged(files, ASKING)
    assert found.tests == {"test_one.T.test": True, "test_two.T.test": False}
    assert judged({"it.py": "print(12345, end='')"}, ASKING).passed


def test_code_that_imports_or_warns_as_it_likes_passes():
    modest = "import asyncio, builtins, contextlib, unittest.mock, warnings\nbuiltins._ = str\n"
    modest += "unittest.IsolatedAsyncioTestCase\nwarnings.warn('x')\n"
    assert judged({"it.py": modest + RIGHT}).passed


def test_a_folder_keeps_its_own_tests_to_itself():
    own = {"it.py": RIGHT, "test_it.py": "raise ValueError", "hidden_tests/test_it.py": "1 / 0"}
    assert judged(own).tests == dict.fromkeys(NAMES, True)


@pytest.mark.parametrize(
    "hidden", [{"data.txt": b""}, {"a/test_b.py": b""}, {"test_b.py": b"\xff"}]
)
def test_what_is_no_module_of_tests_is_refused(hidden):
    with pytest.raises(BadInput, match="no module of hidden tests"):
        judged({}, hidden)


def test_without_tests_nothing_has_passed():
    assert judged({"it.py": RIGHT}, {}).passed is False
    assert judged({"it.py": RIGHT}, {"test_none.py": b""}).passed is False


def test_tests_that_do_not_end_or_flood_have_not_passed_and_a_long_result_is_whole():
    slow = judged({"it.py": "import time\ntime.sleep(600)"}, seconds=1.0)
    assert (slow.passed, slow.said) == (False, "The tests came to no result (ended: time).")
    flood = judged({"it.py": RIGHT + "while True: print('x' * 1000)"}, bounds=Bounds(output=9_999))
    assert (flood.passed, "ended: output" in flood.said) == (False, True)
    full = judged({"it.py": "for n in range(9): open(str(n), 'wb').truncate(4_000_000)\n" + RIGHT})
    assert (full.passed, "more than" in full.said) == (False, True)
    many = b"".join(b"    def test_%d_%s(self): pass\n" % (n, b"x" * 150) for n in range(200))
    tests = {"test_many.py": b"import unittest\nclass T(unittest.TestCase):\n" + many}
    assert len(judged({}, tests).tests) == 200


def test_what_is_no_snapshot_is_refused():
    with pytest.raises(BadRow):
        asyncio.run(run_hidden_tests(b"{}\n[]", HIDDEN))
