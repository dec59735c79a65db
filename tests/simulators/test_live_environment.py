"""Live servers as environments: what is promised when they behave, and when they do not."""

import asyncio
import contextlib
import json
import os
import random
import runpy
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pytest

from simulators.check import check_environment
from simulators.live.environment import LiveEnvironment
from simulators.live.files import EFFECTS, FileWorld
from simulators.live.folder import Tree
from simulators.live.host import HostPool, LiveServer
from simulators.live.office import office
from synth.core.errors import ServerFailed
from synth.core.mcp.session import Limits
from synth.core.sandbox.confine import ProcessLimits, tier
from synth.core.types import Effect, Provenance, ToolSpec

pytestmark = pytest.mark.claim("k2-real")

SERVER = Path(__file__).with_name("live_server.py")
COMMAND = (sys.executable, "-I", "-S", str(SERVER), "{work}")
SPECS = tuple(
    ToolSpec(
        name=tool["name"],
        description=tool["description"],
        parameters=tool["inputSchema"],
        effect=EFFECTS.get(tool["name"], Effect.UNKNOWN),
        provenance=Provenance(source="test"),
    )
    for tool in runpy.run_path(str(SERVER))["listing"]()
)
PROCESS = ProcessLimits(file_bytes=6 << 20)
LIMITS = Limits(
    start_s=30,
    call_s=15,
    stop_s=0.2,
    noise_bytes=1 << 20,
    disk_bytes=48 << 20,
    disk_files=4_000,
    process=PROCESS,
)
confined = pytest.mark.skipif(tier() == "rlimits", reason="this machine cannot confine a process")


def server(*options, probes=True, limits=LIMITS):
    world = FileWorld([*COMMAND, *options], SPECS)
    return LiveServer(
        name="files",
        argv=(*COMMAND, *options),
        paths=world.server.paths,
        scrub=world.server.scrub,
        probes=world.server.probes if probes else None,
        readable=(SERVER.parent,),
        allow_weaker=True,
        limits=limits,
    )


def office_tree(seed):
    return office(seed).tree()


@contextlib.asynccontextmanager
async def running(*options, seed=1, pool=None, **how):
    environment = LiveEnvironment(server(*options, **how), SPECS, office_tree, pool=pool)
    try:
        await environment.reset(seed)
        yield environment
    finally:
        await environment.close()


def processes_of(work):
    """Return the processes whose command line names the folder of a server."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if str(work).encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found


def leftovers():
    return set(Path(tempfile.gettempdir()).glob("toolloom-live-*"))


async def script(environment):
    """Do a bit of everything; return all that can be observed."""
    seen = []
    for name, arguments in (
        ("list_directory", {"path": "/data"}),
        ("list_directory", {"path": "notes/"}),
        ("search_files", {"path": "/data", "pattern": "**/*.csv"}),
        ("read_multiple_files", {"paths": ["/data/README.txt", "/data/contacts/suppliers.csv"]}),
        ("get_file_info", {"path": "/data/README.txt"}),
        ("create_directory", {"path": "/data/new/sub"}),
        ("write_file", {"path": "/data/new/sub/a.txt", "content": "see /data/notes\n"}),
        ("move_file", {"source": "/data/new/sub/a.txt", "destination": "/data/b.txt"}),
        ("move_file", {"source": "/data/b.txt", "destination": "/data/README.txt"}),
        ("read_text_file", {"path": "/data/../etc/passwd"}),
        ("read_text_file", {"path": "../../etc/passwd"}),
        ("edit_file", {"path": "/data/b.txt", "edits": [{"oldText": "see", "newText": "look"}]}),
        ("edit_file", {"path": "/data/b.txt", "edits": [{"oldText": "none", "newText": ""}]}),
    ):
        result = await environment.call(name, arguments)
        seen.append((name, result.ok, result.content))
    return seen, await environment.diff(), await environment.snapshot()


def test_two_runs_in_two_places_agree_byte_for_byte_and_name_no_path_of_the_machine():
    async def once():
        async with running() as environment:
            return await script(environment)

    first, second = asyncio.run(once()), asyncio.run(once())
    assert first == second
    results, diff, _ = first
    assert [ok for _, ok, _ in results] == [True] * 8 + [False, False, False, True, False]
    assert results[0][2].startswith("[FILE] README.txt\n[DIR] archive")
    assert "/data/contacts/suppliers.csv" in results[2][2]
    assert "accessed: Mon Mar 02 2026 09:00:00" in results[4][2]
    assert results[9][2].endswith("directories: /etc/passwd not in /data")
    text = json.dumps(results) + "".join(diff)
    assert tempfile.gettempdir() not in text.replace("/etc/passwd", "")
    assert "toolloom" not in text


def test_the_diff_is_what_happened_on_disk_and_content_is_never_rewritten():
    async def scenario():
        async with running() as environment:
            _, diff, _ = await script(environment)
            return diff

    kinds = [
        [*json.loads(line)[:2], json.loads(line)[3]["path"]] for line in asyncio.run(scenario())
    ]
    assert kinds == [
        ["files", "insert", "b.txt"],
        ["folders", "insert", "new"],
        ["folders", "insert", "new/sub"],
    ]


def test_undone_changes_leave_no_diff_and_reads_never_do():
    async def scenario():
        async with running() as environment:
            await environment.call("read_text_file", {"path": "/data/README.txt"})
            assert await environment.diff() == ()
            await environment.call("move_file", {"source": "/data/todo", "destination": "/data/x"})
            assert len(await environment.diff()) > 2
            await environment.call("move_file", {"source": "/data/x", "destination": "/data/todo"})
            return await environment.diff()

    assert asyncio.run(scenario()) == ()


def test_the_same_seed_gives_the_same_folder_warm_or_fresh():
    async def scenario(*, probes):
        async with running(seed=3, probes=probes) as environment:
            first = await environment.snapshot()
            await environment.call("write_file", {"path": "/data/x", "content": "x"})
            await environment.reset(4)
            other = await environment.snapshot()
            await environment.reset(3)
            assert await environment.diff() == ()
            pool = environment._pool
            return first, other, await environment.snapshot(), pool.started, pool.reused

    first, other, again, started, reused = asyncio.run(scenario(probes=True))
    assert (first == again, first == other, started, reused) == (True, False, 1, 2)
    fresh, _, _, started, reused = asyncio.run(scenario(probes=False))
    assert (fresh == first, started, reused) == (True, 3, 0)


def test_a_warm_server_that_answers_from_its_memory_is_replaced():
    async def scenario():
        async with running("--cache", seed=1) as environment:
            await environment.reset(2)
            path = office(2).todos[0].path
            result = await environment.call("read_text_file", {"path": f"/data/{path}"})
            return result.content, environment._pool.started

    assert asyncio.run(scenario()) == (office(2).todos[0].text(), 2)


def test_snapshots_and_forks_are_independent_and_count_from_the_reset():
    async def scenario():
        async with running() as environment:
            await environment.call("write_file", {"path": "/data/one", "content": "1"})
            state = await environment.snapshot()
            twin = await environment.fork()
            try:
                await twin.call("write_file", {"path": "/data/two", "content": "2"})
                await environment.call("write_file", {"path": "/data/three", "content": "3"})
                await environment.restore(state)
                return len(await environment.diff()), len(await twin.diff())
            finally:
                await twin.close()

    assert asyncio.run(scenario()) == (1, 2)


def test_a_live_environment_keeps_the_contract_of_every_environment():
    calls = [
        ("read_text_file", {"path": "/data/README.txt"}),
        ("create_directory", {"path": "/data/new"}),
        ("write_file", {"path": "/data/new/a.txt", "content": "x"}),
        ("read_text_file", {"path": "/data/missing"}),
        ("move_file", {"source": "/data/todo", "destination": "/data/new/todo"}),
        ("list_directory", {"path": "/data/new"}),
        ("get_file_info", {"path": "/data/new/a.txt"}),
    ]
    specs = [spec for spec in SPECS if spec.name != "misbehave"]
    pool = HostPool(server(), keep=2)

    async def scenario():
        def make():
            return LiveEnvironment(pool.server, specs, office_tree, pool=pool)

        try:
            return await check_environment(make, calls), pool.started
        finally:
            await pool.close()

    problems, started = asyncio.run(scenario())
    assert problems == []
    assert started == 2


def test_calls_that_the_schema_refuses_never_reach_the_server():
    async def scenario():
        async with running() as environment:
            wrong = [
                await environment.call("misbehave", {}),
                await environment.call("misbehave", {"how": 1}),
                await environment.call("misbehave", {"how": "\ud800"}),
                await environment.call("misbehave", {"how": "noise", "who": 1}),
                await environment.call("misbehave", None),
                await environment.call("nothing", {}),
            ]
            alive = await environment.call("list_directory", {"path": "/data"})
            return [result.error.code for result in wrong], wrong[1].content, alive.ok

    codes, content, alive = asyncio.run(scenario())
    assert codes == ["invalid_arguments"] * 5 + ["unknown_tool"]
    assert json.loads(content)["error"]["message"] == 'how: 1 is not of type "string"'
    assert alive


def test_a_call_that_fails_half_way_is_undone():
    async def scenario():
        async with running() as environment:
            await environment.call("write_file", {"path": "/data/kept", "content": "x"})
            result = await environment.call("misbehave", {"how": "half"})
            return result, await environment.diff(), environment._pool.started

    result, diff, started = asyncio.run(scenario())
    assert (result.ok, result.error.code, result.content) == (
        False,
        "tool_error",
        "gave up half way",
    )
    assert [json.loads(line)[3]["path"] for line in diff] == ["kept"]
    assert started == 1


def test_protocol_errors_are_failed_calls_without_the_servers_inner_workings():
    async def scenario():
        async with running() as environment:
            internal = await environment.call("misbehave", {"how": "internal"})
            params = await environment.call("misbehave", {"how": "params"})
            return internal, params

    internal, params = asyncio.run(scenario())
    assert (internal.error.code, "boom" in internal.content) == ("tool_fault", False)
    assert (params.error.code, params.error.message) == ("invalid_arguments", "how is wrong")


@pytest.mark.claim("a27")
@pytest.mark.parametrize(
    ("how", "content"), [("noise", "done"), ("surrogate", "?"), ("binary", "done")]
)
def test_oddities_that_harm_nobody_are_tolerated(how, content):
    async def scenario():
        async with running() as environment:
            result = await environment.call("misbehave", {"how": how})
            return result.ok, result.content, await environment.diff()

    ok, said, diff = asyncio.run(scenario())
    assert (ok, said) == (True, content)
    assert len(diff) == (how == "binary")


def test_a_change_of_permissions_is_a_change():
    async def scenario():
        async with running() as environment:
            assert (await environment.call("misbehave", {"how": "executable"})).ok
            return await environment.diff()

    (line,) = asyncio.run(scenario())
    table, kind, before, after = json.loads(line)
    assert (table, kind, after["path"], after["mode"]) == ("files", "update", "README.txt", "0755")
    assert "mode" not in before


def test_what_a_server_makes_has_the_same_permissions_on_every_machine():
    async def scenario():
        before = os.umask(0o077)
        try:
            async with running() as environment:
                await environment.call("write_file", {"path": "/data/a", "content": "x"})
                await environment.call("create_directory", {"path": "/data/b"})
                return await environment.diff()
        finally:
            os.umask(before)

    assert [json.loads(line)[3].get("mode") for line in asyncio.run(scenario())] == [None, None]


FAULTS = {
    "die": ("exited", "files: exited with status 3"),
    "die_talking": ("exited", "lost /data"),
    "hang": ("timeout", "no answer to tools/call"),
    "flood": ("oversize", "floods its output"),
    "link": ("escaped", "'passwords' is a link that points outside its folder"),
    "link_up": ("escaped", "'up' is a link that points outside its folder"),
    "fifo": ("invalid", "'pipe' is neither a file nor a folder"),
    "many": ("oversize", "more than 2000 files"),
    "big": ("oversize", "'big' has 4194304 bytes or more"),
    "crowd": ("oversize", "files: writes more than 4000 files"),
    "pile": ("oversize", "files: writes more than 48 MiB"),
    "pile_elsewhere": ("oversize", "files: writes more than 48 MiB"),
    "delve": ("oversize", "files: nests more than 100 folders"),
}


@pytest.mark.parametrize("how", FAULTS)
def test_a_server_that_breaks_down_is_a_named_fault_and_leaves_nothing_behind(how):
    outcome, words = FAULTS[how]
    before = leftovers()

    async def scenario():
        patience = replace(LIMITS, call_s=1.5 if how == "hang" else 15)
        async with running(limits=patience) as environment:
            work = environment._host.work
            with pytest.raises(ServerFailed) as caught:
                await environment.call("misbehave", {"how": how})
            with pytest.raises(ServerFailed, match="failed earlier in this episode"):
                await environment.call("list_directory", {"path": "/data"})
            with pytest.raises(ServerFailed):
                await environment.diff()
            await environment.reset(1)
            assert (await environment.call("list_directory", {"path": "/data"})).ok
            assert await environment.diff() == ()
            assert not work.exists()
            assert processes_of(work) == []
            return caught.value, environment._host.work

    error, work = asyncio.run(scenario())
    assert error.outcome == outcome
    assert words in str(error)
    assert str(Path(tempfile.gettempdir()) / "toolloom") not in str(error)
    assert processes_of(work) == []
    assert leftovers() <= before


@confined
def test_a_server_can_write_nowhere_but_into_its_folder():
    async def scenario():
        async with running() as environment:
            result = await environment.call("misbehave", {"how": "outside"})
            assert os.listdir(environment._host.base) == ["data"]
            return result.content

    content = asyncio.run(scenario())
    # Beside its folder it may see a scratch space of its own, which is not this machine's.
    assert "toolloom-escaped" not in content
    assert not Path("/etc/toolloom-escaped").exists()


def test_children_of_a_server_end_with_it():
    async def scenario():
        async with running() as environment:
            await environment.call("misbehave", {"how": "daemon"})
            work = environment._host.work
            assert len(processes_of(work)) >= 2
            return work

    work = asyncio.run(scenario())
    assert processes_of(work) == []
    assert not work.exists()


def test_a_folder_made_unreadable_does_not_survive_its_episode():
    async def scenario():
        async with running() as environment:
            with contextlib.suppress(ServerFailed):  # root may read what others may not
                await environment.call("misbehave", {"how": "locked"})
            await environment.reset(2)
            assert await environment.diff() == ()
            return environment._host.base

    assert not asyncio.run(scenario()).exists()


def test_a_server_that_does_not_start_is_a_named_fault():
    async def scenario():
        broken = LiveServer(
            name="broken", argv=(sys.executable, "-c", "raise SystemExit(3)"), allow_weaker=True
        )
        environment = LiveEnvironment(broken, SPECS, office_tree)
        with pytest.raises(ServerFailed) as caught:
            await environment.reset(1)
        await environment.close()
        return caught.value

    before = leftovers()
    error = asyncio.run(scenario())
    assert (error.outcome, error.where) == ("exited", "broken")
    assert leftovers() <= before


def test_a_call_before_the_reset_is_refused():
    async def scenario():
        environment = LiveEnvironment(server(), SPECS, office_tree)
        with pytest.raises(ServerFailed, match="call reset first"):
            await environment.call("list_directory", {"path": "/data"})
        await environment.close()
        await environment.close()

    asyncio.run(scenario())


def test_a_cancelled_call_makes_the_process_unusable():
    async def scenario():
        async with running() as environment:
            first = environment._host
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await environment.call("misbehave", {"how": "hang"})
            await environment.reset(1)
            return first is environment._host, first.work.exists()

    assert asyncio.run(scenario()) == (False, False)


def test_a_pool_serves_episodes_side_by_side_and_ends_every_process():
    async def scenario():
        pool = HostPool(server(), keep=1)
        environments = [LiveEnvironment(pool.server, SPECS, office_tree, pool=pool) for _ in "ab"]
        for number, environment in enumerate(environments):
            await environment.reset(number)
        works = [environment._host.work for environment in environments]
        await environments[0].call("write_file", {"path": "/data/only-here", "content": "x"})
        assert [len(await environment.diff()) for environment in environments] == [1, 0]
        await environments[0].close()
        await environments[0].reset(7)
        assert (pool.started, environments[0]._host.work) == (2, works[0])
        await pool.close()
        assert [processes_of(work) for work in works] == [[], []]
        for environment in environments:
            await environment.close()
        assert not any(work.exists() for work in works)

    asyncio.run(scenario())


def test_a_warm_process_of_a_finished_loop_is_not_used_again():
    pool = HostPool(server(), keep=1)

    async def scenario():
        async with running(pool=pool) as environment:
            result = await environment.call("list_directory", {"path": "/data"})
            return result.ok, environment._host.work

    first = asyncio.run(scenario())
    second = asyncio.run(scenario())
    asyncio.run(pool.close())
    assert (first[0], second[0], pool.started) == (True, True, 2)
    assert not first[1].exists()
    assert not second[1].exists()


FORGETFUL = """
import asyncio, json, sys
from pathlib import Path
from simulators.live.environment import LiveEnvironment
from simulators.live.folder import Tree
from simulators.live.host import LiveServer

async def main():
    folder, *argv = sys.argv[1:]
    server = LiveServer(
        name="files", argv=tuple(argv), readable=(Path(folder),), allow_weaker=True
    )
    environment = LiveEnvironment(server, [], lambda seed: Tree.of({"a": "x"}))
    await environment.reset(0)
    print(environment._host.work)

asyncio.run(main())
"""


def test_a_program_that_forgets_to_close_leaves_neither_process_nor_folder():
    command = [sys.executable, "-W", "ignore", "-c", FORGETFUL, str(SERVER.parent), *COMMAND]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    work = Path(done.stdout.strip())
    assert work.name == "data"
    assert not work.parent.exists()
    deadline = time.monotonic() + 10
    while processes_of(work) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert processes_of(work) == []


def test_arguments_are_paths_only_where_a_server_says_so():
    async def scenario(paths):
        kind = replace(server(probes=False), paths=paths)
        environment = LiveEnvironment(kind, SPECS, lambda seed: Tree.of({"a": "x"}))
        await environment.reset(0)
        try:
            for path, content in (("/data/b", "/data/a\nmore"), ("/data/c", "/data/a")):
                await environment.call("write_file", {"path": path, "content": content})
            return [json.loads(line)[3]["text"] for line in await environment.diff()]
        finally:
            await environment.close()

    assert asyncio.run(scenario(frozenset({"path"}))) == ["/data/a\nmore", "/data/a"]
    guessed = asyncio.run(scenario(None))
    assert guessed[0] == "/data/a\nmore"


def test_random_writes_agree_with_a_model_of_the_folder():
    """Against a dictionary: whatever is written, moved or refused, the diff tells the same."""

    async def scenario():
        rng = random.Random(5)
        names = ["a", "b", "c/d", "c"]
        async with running(seed=2) as environment:
            base = office_tree(2)
            model = dict(base.entries)
            for _ in range(40):
                name, other = rng.choice(names), rng.choice(names)
                text = rng.choice(["", "x\n", "äö"])
                if rng.random() < 0.6:
                    call = ("write_file", {"path": f"/data/{name}", "content": text})
                else:
                    paths = {"source": f"/data/{name}", "destination": f"/data/{other}"}
                    call = ("move_file", paths)
                result = await environment.call(*call)
                if result.ok and call[0] == "write_file":
                    model[name] = text.encode()
                elif result.ok:
                    model[other] = model.pop(name)
                assert await environment.diff() == Tree(model).diff(base)

    asyncio.run(scenario())


def test_the_server_sees_nothing_of_our_environment():
    os.environ["TOOLLOOM_TEST_SECRET"] = "x"
    try:
        launch = server().launch(Path("/tmp/w"))
    finally:
        del os.environ["TOOLLOOM_TEST_SECRET"]
    assert launch.env == {}
    assert launch.argv[-1] == "/tmp/w"
    assert (launch.network, launch.writable) == (False, Path("/tmp/w"))
