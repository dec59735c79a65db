"""The sandbox: what agents do in it, what is kept, and that two runs of it are alike."""

import asyncio
import dataclasses
import functools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulators.live.folder import MAX_ENTRIES, MAX_FILE, Link, Tree
from simulators.sandbox import files
from simulators.sandbox.environment import SandboxEnvironment
from simulators.sandbox.project import Project, example, example_names, shipped
from simulators.sandbox.run import PLACE, why_not
from simulators.sandbox.state import State
from synth.core.errors import BadRow, ToolloomError

WHY_NOT = asyncio.run(why_not())
rooms = pytest.mark.skipif(WHY_NOT != "", reason=f"this machine makes no rooms: {WHY_NOT}")
PROJECT = Project("p", "", {"a.txt": b"one\ntwo\n", "src/m.py": b"x = 1\n"}, {}, {})


def played(*calls, project=PROJECT):
    """Return the environment after some calls, and what they came to."""

    async def run():
        environment = SandboxEnvironment(lambda seed: project)
        await environment.reset(0)
        return environment, [await environment.call(name, given) for name, given in calls]

    return asyncio.run(run())


def bash(command, **more):
    return "run_bash", {"command": command, **more}


def changes(environment):
    """Return the diff: path -> row, None where it is gone."""
    rows = map(json.loads, asyncio.run(environment.diff()))
    return {(after or before)["path"]: after for _, _, before, after in rows}


# --- running -------------------------------------------------------------------------------------


@rooms
def test_a_command_works_in_the_folder_and_its_changes_are_the_diff():
    environment, (first, second, third) = played(
        bash("cat a.txt; rm a.txt; mkdir -p new/deep; echo 'echo hi' > new/deep/run; exit 3"),
        bash("chmod 750 new/deep/run; ln -s ../src/m.py new/link; new/deep/run; pwd; ls /tmp"),
        ("run_python", {"code": "import src.m\nprint(src.m.x + 1, end='')\nraise SystemExit(2)"}),
    )
    assert (first.ok, first.content) == (True, "one\ntwo\n[exit code 3]")
    assert second.content == f"hi\n{PLACE}\nproject\n[exit code 0]"
    assert third.content == "2\n[exit code 2]"
    found = changes(environment)
    assert set(found) == {"a.txt", "new", "new/deep", "new/deep/run", "new/link"}
    assert found["a.txt"] is None
    assert (found["new/deep/run"]["text"], found["new/deep/run"]["mode"]) == ("echo hi\n", "0750")
    assert found["new/link"]["target"] == "../src/m.py"


@rooms
def test_what_was_undone_is_no_change_and_what_only_a_run_had_is_not_kept():
    environment, results = played(
        bash("mv a.txt b.txt; echo more >> b.txt; touch /tmp/note; export A=1; cd src; mkfifo f"),
        bash("head -n 2 b.txt > a.txt; rm b.txt; ls /tmp src; echo A=$A; pwd"),
    )
    assert results[1].content == f"/tmp:\nproject\n\nsrc:\nm.py\nA=\n{PLACE}\n[exit code 0]"
    assert asyncio.run(environment.diff()) == ()


@rooms
def test_a_later_edit_is_newer_than_an_earlier_build_though_times_are_fixed():
    """Python takes compiled code for current by time and size of its source, make by time."""
    edit = {"path": "src/m.py", "old_text": "x = 1", "new_text": "x = 2"}
    show = bash("python -c 'import src.m; print(src.m.x)'; [ src/m.py -nt built ] && echo newer")
    _, results = played(bash("python -m compileall -q src; touch built"), show, ("edit_file", edit),
                        show)  # fmt: skip
    assert results[1].content == "1\n[exit code 1]"
    assert results[3].content == "2\nnewer\n[exit code 0]"


_LOOK = """
import os, time, random, unittest
print(hash("text"), id(object()), os.getpid(), os.uname().nodename, os.getuid(), os.umask(0))
print(time.tzname, sorted(os.environ), os.environ["PATH"].split(":")[0])
print([(n, os.stat(n).st_mtime, os.stat(n).st_ino) for n in os.listdir(".")])
unittest.main(argv=["x"], exit=False)
"""


@rooms
def test_two_runs_of_the_same_are_alike_as_far_as_they_can_be():
    _, (first,) = played(("run_python", {"code": _LOOK}))
    _, (second,) = played(("run_python", {"code": _LOOK}))
    assert first == second
    assert "sandbox 1000 18" in first.content  # 18: the umask 022
    assert "('UTC', 'UTC')" in first.content
    assert "Ran 0 tests in 0.000s" in first.content


@rooms
def test_a_failed_call_leaves_everything_as_it_was():
    environment, (slow, endless, large, missing) = played(
        bash("echo x > new; sleep 60", timeout=1),
        bash("rm a.txt; yes"),
        bash("for i in 1 2 3 4 5 6 7 8 9; do truncate -s 4000000 f$i; done"),
        ("edit_file", {"path": "none", "old_text": "a", "new_text": "b"}),
    )
    codes = [result.error.code for result in (slow, endless, large, missing)]
    assert codes == ["time", "output", "not_kept", "not_found"]
    assert json.loads(slow.content)["message"].startswith("It did not end within 1 seconds")
    assert asyncio.run(environment.diff()) == ()


@rooms
def test_a_call_that_is_cancelled_ends_its_processes_and_changes_nothing():
    async def run():
        environment = SandboxEnvironment(lambda seed: PROJECT)
        await environment.reset(0)
        calling = asyncio.create_task(environment.call(*bash("rm a.txt; sleep 4321")))
        await asyncio.sleep(0.5)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        return await environment.diff(), (await environment.call(*bash("echo on"))).content

    assert asyncio.run(run()) == ((), "on\n[exit code 0]")


@rooms
def test_a_snapshot_holds_all_and_a_fork_goes_its_own_way():
    async def run():
        one = SandboxEnvironment(lambda seed: PROJECT)
        await one.reset(0)
        await one.call(*bash("echo 1 > n; chmod 700 n src; ln -s nowhere l"))
        state = await one.snapshot()
        twin = await one.fork()
        await twin.call("write_file", {"path": "n", "content": "2"})
        other = SandboxEnvironment(lambda seed: PROJECT)
        await other.reset(0)
        await other.restore(state)
        states = [await e.snapshot() == state for e in (one, twin, other)]
        shown = await other.call(*bash("stat -c '%a %Y %N' n src l a.txt"))
        with pytest.raises(BadRow):
            await other.restore(state.replace(b'"step":1', b'"step":null'))
        return states, shown.content, await one.diff() == await other.diff()

    states, shown, same = asyncio.run(run())
    assert states == [True, False, True]
    assert shown == (
        "700 1772442001 'n'\n700 1772442000 'src'\n777 1772442001 'l' -> 'nowhere'\n"
        "644 1772442000 'a.txt'\n[exit code 0]"
    )
    assert same


def test_without_reset_there_is_nothing_to_work_on():
    with pytest.raises(ToolloomError, match="reset comes first"):
        asyncio.run(SandboxEnvironment().call("list_files", {}))


# --- files ---------------------------------------------------------------------------------------

TREE = Tree(
    {
        **Tree.of({"a.txt": "1\n2\n3\n", "d/e/f": b"\xff", "d/g": "gg"}).entries,
        "in": Link("d/../d/e"),
        "abs": Link(f"{PLACE}/d"),
        "out": Link("/etc/passwd"),
        "up": Link("../../etc"),
        "loop": Link("loop"),
    }
)


@pytest.mark.claim("b12")
@pytest.mark.parametrize(
    ("path", "leads"),
    [
        ("a.txt", "a.txt"), ("./d//e/", "d/e"), (f"{PLACE}/a.txt", "a.txt"), (".", ""), ("/", None),
        (PLACE, ""), ("..", None), ("../project/a.txt", "a.txt"), ("d/../../x", None),
        ("/tmp/../tmp/project/d", "d"), ("in/f", "d/e/f"), ("abs/g", "d/g"), ("in/../g", "d/g"),
        ("out", None), ("up/shadow", None), ("loop", None), ("a.txt/b", None), ("new/x", "new/x"),
        ("/etc/passwd", None), ("/tmp/projects", None),
    ],
)  # fmt: skip
def test_a_path_leads_where_it_would_on_a_disk_and_never_out(path, leads):
    if leads is None:
        with pytest.raises(files.Refused) as caught:
            files.resolve(TREE, path)
        assert caught.value.code in ("outside", "not_found")
    else:
        assert files.resolve(TREE, path) == leads


@given(st.lists(st.sampled_from(["..", ".", "d", "e", "in", "up", "abs", "loop", "out", "x", ""])))
def test_no_path_leads_to_something_above_the_folder(parts):
    try:
        inside = files.resolve(TREE, "/".join(parts))
    except files.Refused:
        return
    assert ".." not in inside.split("/")
    assert not inside.startswith("/")
    assert not isinstance(TREE.entries.get(inside), Link)


NESTED = functools.reduce(lambda inner, _: [inner], range(5_000), [])


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (("read_file", {"path": "src"}), "not_a_file"),
        (("read_file", {"path": "."}), "not_a_file"),
        (("read_file", {"path": "none"}), "not_found"),
        (("read_file", {"path": "a.txt", "first_line": 3}), "not_found"),
        (("read_file", {"path": "/etc/passwd"}), "outside"),
        (("write_file", {"path": "src", "content": ""}), "not_a_file"),
        (("write_file", {"path": "a.txt/b", "content": ""}), "not_found"),
        (("write_file", {"path": "x" * 300, "content": ""}), "too_large"),
        (("write_file", {"path": "d/" * 40 + "f", "content": ""}), "too_large"),
        (("write_file", {"path": "f", "content": "ü" * (MAX_FILE // 2)}), "too_large"),
        (("edit_file", {"path": "a.txt", "old_text": "o", "new_text": ""}), "not_unique"),
        (("edit_file", {"path": "a.txt", "old_text": "three", "new_text": ""}), "not_found"),
        (("list_files", {"path": "a.txt"}), "not_a_folder"),
        (("run_bash", {"command": "a\0b"}), "invalid_arguments"),
        (("run_bash", {"command": NESTED}), "invalid_arguments"),
        (("run_bash", {"command": "a", "timeout": 10**6}), "invalid_arguments"),
        (("write_file", {"path": "f", "content": "\ud800"}), "invalid_arguments"),
    ],
)
def test_what_cannot_be_done_is_told_and_changes_nothing(call, code):
    environment, (result,) = played(call)
    assert (result.ok, result.error.code, json.loads(result.content)["error"]) == (
        False, code, code,
    )  # fmt: skip
    assert asyncio.run(environment.diff()) == ()


def test_files_are_read_listed_written_and_edited_without_a_run():
    environment, results = played(
        ("list_files", {}),
        ("read_file", {"path": "a.txt"}),
        ("read_file", {"path": "a.txt", "lines": 1}),
        ("write_file", {"path": "x/y.txt", "content": "ü\nü\n"}),
        ("edit_file", {"path": "a.txt", "old_text": "two\n", "new_text": "2"}),
        ("list_files", {"path": "x"}),
    )
    assert [result.content for result in results] == [
        "a.txt  8 bytes\nsrc/\nsrc/m.py  6 bytes", "one\ntwo\n", "one\n[1 more lines]\n",
        f"{PLACE}/x/y.txt: 6 bytes", f"{PLACE}/a.txt: 5 bytes", "y.txt  6 bytes",
    ]  # fmt: skip
    found = changes(environment)
    assert {path: row.get("text") for path, row in found.items()} == {
        "x": None, "x/y.txt": "ü\nü\n", "a.txt": "one\n2",
    }  # fmt: skip


def test_lines_are_those_of_programs_and_a_number_is_whole_however_it_is_written():
    project = dataclasses.replace(PROJECT, files={"a": "a\fb\u2028c\nd\r\ne".encode()})
    _, (second, rest) = played(
        ("read_file", {"path": "a", "first_line": 2.0, "lines": 1.0}),
        ("read_file", {"path": "a", "first_line": 3}),
        project=project,
    )
    assert (second.content, rest.content) == ("d\r\n[1 more lines]\n", "e")


def test_a_list_and_a_file_that_are_long_are_cut_and_say_so():
    many = {f"{number:04}": b"" for number in range(600)}
    project = dataclasses.replace(PROJECT, files={**many, "wide": b"x" * 70_000})
    _, (listed, wide) = played(
        ("list_files", {}), ("read_file", {"path": "wide"}), project=project
    )  # fmt: skip
    assert listed.content.splitlines()[-2:] == ["0499  0 bytes", "[101 more]"]
    assert wide.error.code == "too_large"


# --- state and projects --------------------------------------------------------------------------

_NAMES = st.text(st.characters(exclude_characters="/\0"), min_size=1, max_size=4)
_FOLDERS = st.dictionaries(_NAMES.filter(lambda n: n not in (".", "..")), st.binary(max_size=4))


@given(_FOLDERS, _FOLDERS, st.integers(0, 3))
def test_a_state_that_is_packed_comes_back_and_remembers_what_changed_when(one, two, mode):
    first = State(Tree.of(one))
    modes = dict.fromkeys(list(two)[:mode], 0o600)
    second = first.then(Tree(Tree.of(two).entries, modes))
    assert State.unpack(second.pack()) == second
    assert set(second.steps) == {path for path in two if one.get(path) != two[path]}
    assert set(second.steps.values()) <= {1}
    third = second.then(second.tree)
    assert (third.steps, third.step) == (second.steps, 2)


@pytest.mark.parametrize(
    ("tree", "why"),
    [
        (Tree({"../x": b""}), "no path"),
        (Tree({"/etc/x": b""}), "no path"),
        (Tree({"a": None, "a//b": b""}), "no path"),
        (Tree({"": b""}), "no path"),
        (Tree({"a\0b": b""}), "no path"),
        (Tree({"ü" * 128: b""}), "no path"),
        (Tree.of({"d/" * 40 + "f": b""}), "no path"),
        (Tree({"a/b": b""}), "in no folder"),
        (Tree({"a": b"", "a/b": b""}), "in no folder"),
        (Tree({"a": Link("b\0c")}), "leads nowhere"),
        (Tree({"a": Link("")}), "leads nowhere"),
        (Tree({str(number): b"" for number in range(MAX_ENTRIES + 1)}), "too large"),
        (Tree({"a": bytes(MAX_FILE)}), "too large"),
    ],
)
def test_a_snapshot_of_a_folder_that_cannot_be_is_refused(tree, why):
    with pytest.raises(BadRow, match=why):
        State.unpack(State(tree).pack())


@pytest.mark.parametrize(("steps", "step"), [(2, 1), (-1, 1), (1.5, 2), (0, 1 << 40), (True, 1)])
def test_a_snapshot_with_steps_that_cannot_be_is_refused(steps, step):
    with pytest.raises(BadRow, match="steps"):
        State.unpack(State(Tree({"a": b""}), {"a": steps}, step).pack())


def test_every_example_is_some_seeds_and_begins_with_its_files():
    assert {shipped(seed).name for seed in range(7, 7 + len(example_names()))} == {
        "ledger", "slugs",
    }  # fmt: skip
    for name in example_names():
        project = example(name)
        assert set(project.solution) <= set(project.files)
        assert not set(project.hidden) & set(project.files)
        assert all(path.startswith("test_") for path in project.hidden)
