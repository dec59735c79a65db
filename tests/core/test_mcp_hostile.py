"""Servers that misbehave: each bounded in time and memory, ended with all it started."""

import asyncio
import json
import os
import socket
import sys
import time
import uuid
from pathlib import Path

import pytest

from synth.core.errors import ServerFailed
from synth.core.mcp.session import Limits, McpSession, RpcError, ServerLaunch
from synth.core.sandbox.confine import ProcessLimits, tier

SERVERS = Path(__file__).parent.parent / "servers"
LIMITS = Limits(start_s=15, list_s=15, call_s=15, stop_s=0.2, noise_bytes=4 << 20)
GOOD = ["good_0", "good_1", "good_2"]
CONFINED = tier() != "rlimits"


def launch(mode, *arguments, **more):
    argv = (sys.executable, "-I", "-S", str(SERVERS / "hostile.py"), mode, *map(str, arguments))
    return ServerLaunch(argv=argv, readable=(SERVERS,), name=mode, allow_weaker=True, **more)


def healthy():
    argv = (sys.executable, "-I", "-S", str(SERVERS / "healthy.py"))
    return ServerLaunch(argv=argv, readable=(SERVERS,), name="healthy", allow_weaker=True)


def run(coroutine):
    return asyncio.run(coroutine)


async def listed(mode, *arguments, limits=LIMITS, **more):
    """Return the session and its list; the session is closed."""
    session = McpSession(launch(mode, *arguments, **more), limits)
    async with session:
        tools = await session.list_tools()
    return session, tools


def processes_with(token):
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if token.encode() in command and int(entry.name) != os.getpid():
            found.append(command)
    return found


def peak_memory():
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.split("VmHWM:")[1].split()[0]) << 10


@pytest.fixture
def token():
    """A word in the command line of a server and its children; nothing with it may survive."""
    word = uuid.uuid4().hex
    yield word
    deadline = time.monotonic() + 5
    while processes_with(word) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert processes_with(word) == []


@pytest.fixture
def bounded_memory():
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")  # forget the peak so far
    before = peak_memory()
    yield
    assert peak_memory() - before < 64 << 20


@pytest.mark.parametrize(
    ("mode", "flag"),
    [
        ("noise", "noise"),
        ("bad_utf8", "noise"),
        ("broken_lines", "noise"),
        ("byte_order_mark", None),
        ("carriage_returns", None),
        ("batch", None),
        ("text_id", None),
        ("future_protocol", None),
        ("ignores_the_end", None),
        ("replies_twice_and_early", "stray_reply"),
        ("same_cursor", "cursor_loop"),
    ],
)
def test_a_server_that_is_only_odd_is_listed_and_flagged(mode, flag, token):
    session, tools = run(listed(mode, token))
    assert [tool["name"] for tool in tools][:3] == GOOD
    assert session.flags == ({flag} if flag else set())


@pytest.mark.claim("b02")
@pytest.mark.claim("b07")
@pytest.mark.parametrize(
    ("mode", "outcome", "words"),
    [
        ("endless_line", "oversize", "a line exceeds 1 MiB"),
        ("notifies_without_end", "oversize", "floods its output"),
        ("asks_without_end", "oversize", "floods its output"),
        ("half_frame", "timeout", "no answer to initialize within 0.5 s"),
        ("trickle", "timeout", "no answer to initialize"),
        ("silent", "timeout", "no answer to initialize"),
        ("wrong_id", "timeout", "no answer to initialize"),
        ("spins", "timeout", "no answer to initialize"),
        ("dies", "exited", "exited with status 3: config error: NOTES_API_KEY is not set"),
        ("dies_in_list", "exited", "exited with status 0"),
        ("result_is_a_list", "invalid", "the result of initialize is not an object"),
        ("no_tools", "invalid", "no list of tools"),
        ("rpc_error", "rpc_error", "error -32603: fetch failed"),
        ("error_is_text", "rpc_error", "error None: no"),
    ],
)
def test_a_server_that_cannot_be_listed_fails_in_time_with_one_word(
    mode, outcome, words, token, bounded_memory
):
    start_s = 0.5 if outcome == "timeout" else 10
    limits = Limits(line_bytes=1 << 20, start_s=start_s, stop_s=0.1, noise_bytes=4 << 20)
    begun = time.monotonic()
    with pytest.raises(ServerFailed) as failure:
        run(listed(mode, token, limits=limits))
    assert time.monotonic() - begun < 12
    assert failure.value.outcome == outcome
    assert words in str(failure.value)
    assert str(failure.value).startswith(f"{mode}: ")


@pytest.mark.parametrize("place", ["TMPDIR", "HOME"])
def test_a_server_that_fills_the_disk_with_small_files_is_ended(token, place):
    limits = Limits(start_s=30, stop_s=0.1, disk_bytes=16 << 20, disk_files=2_000)
    with pytest.raises(ServerFailed, match="fills_the_disk: writes more than") as failure:
        run(listed("fills_the_disk", token, place, limits=limits))
    assert failure.value.outcome == "oversize"
    assert not processes_with(token)


def test_a_server_that_closes_its_output_and_stays_is_ended(token):
    with pytest.raises(ServerFailed) as failure:
        run(listed("closes_output", token, limits=Limits(start_s=2.0, stop_s=0.1)))
    # bubblewrap keeps a copy of the output open, so there it only falls silent
    assert failure.value.outcome == ("timeout" if tier() == "bwrap" else "exited")


@pytest.mark.claim("b02")
def test_a_missing_program_is_named():
    async def go():
        async with McpSession(ServerLaunch(argv=("no-such-program-here",))):
            pass

    with pytest.raises(ServerFailed, match="no such program 'no-such-program-here'") as failure:
        run(go())
    assert failure.value.outcome == "exited"


@pytest.mark.claim("b01")
def test_children_of_a_server_end_with_it_even_in_their_own_session(token):
    _, tools = run(listed("leaves_children", token))
    assert [tool["name"] for tool in tools] == GOOD


def test_memory_of_a_server_is_limited(token):
    limits = Limits(start_s=20, process=ProcessLimits(memory_bytes=128 << 20))
    with pytest.raises(ServerFailed, match="MemoryError") as failure:
        run(listed("takes_memory", token, limits=limits))
    assert failure.value.outcome == "exited"


def test_processor_time_of_a_server_is_limited(token):
    limits = Limits(start_s=20, process=ProcessLimits(cpu_s=1))
    with pytest.raises(ServerFailed) as failure:
        run(listed("spins", token, limits=limits))
    assert failure.value.outcome == "exited"


@pytest.mark.claim("b04")
def test_all_pages_are_read():
    session, tools = run(listed("three_pages"))
    assert [tool["name"] for tool in tools] == [f"tool_{n}" for n in range(6)]
    assert session.flags == set()


@pytest.mark.claim("b05")
@pytest.mark.parametrize(
    ("mode", "limits", "count", "flag"),
    [
        ("endless_cursor", Limits(pages=7), 7, "too_many_pages"),
        ("endless_cursor", Limits(tools=5), 5, "too_many_tools"),
        ("empty_pages", Limits(), 0, "cursor_loop"),
        ("huge_list", Limits(tools=100), 100, "too_many_tools"),
    ],
)
def test_a_list_without_end_is_cut_and_flagged(mode, limits, count, flag):
    session, tools = run(listed(mode, limits=limits))
    assert len(tools) == count
    assert session.flags == {flag}


@pytest.mark.claim("b07")
def test_a_legal_line_of_300_kilobytes_is_read():
    _, tools = run(listed("long_legal_line"))
    assert len(tools) == 100
    assert all(len(tool["description"]) == 3000 for tool in tools)


def test_null_entries_and_bad_schemas_do_not_cost_the_rest():
    _, tools = run(listed("bad_among_good"))
    assert len(tools) == 12
    assert [t["name"] for t in tools if isinstance(t, dict) and t.get("name") in GOOD][:3] == [
        "good_0",
        "good_1",
        "good_1",
    ]


def test_one_tool_nested_100_000_deep_does_not_cost_the_rest(bounded_memory):
    _, tools = run(listed("deep_json", limits=Limits(list_s=20)))
    assert [tool["name"] for tool in tools] == [*GOOD, "deep"]
    assert "toolloom: nested too deep" in json.dumps(tools[3])


def test_numbers_that_json_does_not_know_are_kept():
    _, tools = run(listed("odd_numbers"))
    schema = tools[0]["inputSchema"]["properties"]["n"]
    assert schema["maximum"] == int("9" * 40)
    assert schema["default"] != schema["default"]
    assert tools[0]["description"] == "\ud800 lone"


def test_requests_of_the_server_are_refused_and_ping_is_answered():
    session, tools = run(listed("asks_the_client"))
    assert json.loads(tools[0]["description"]) == [{}, -32601, -32601, -32601]
    assert session.flags == {"server_request"}


def test_all_of_standard_error_is_read_and_only_its_end_kept(bounded_memory):
    session, tools = run(listed("floods_stderr", limits=Limits(stderr_bytes=100)))
    assert [tool["name"] for tool in tools] == GOOD
    assert len(session.stderr_tail) <= 100
    assert session.stderr_tail.endswith("the last words\n")


@pytest.mark.claim("b16")
def test_nothing_of_our_environment_or_home_reaches_a_server(tmp_path, monkeypatch):
    secret = uuid.uuid4().hex
    home = tmp_path / "home"
    home.mkdir()
    (home / "credentials").write_text(f"file-{secret}", encoding="utf-8")
    monkeypatch.setenv("OPENAI_API_KEY", f"variable-{secret}")
    monkeypatch.setenv("HOME", str(home))
    _, tools = run(listed("reads_secrets", home / "credentials"))
    seen = tools[0]["description"]
    assert "TOOLLOOM_SERVER" in seen  # it did look
    assert f"variable-{secret}" not in seen
    if CONFINED:
        assert secret not in seen
        assert "credentials" not in seen.replace("home/credentials", "")


@pytest.mark.skipif(not CONFINED, reason="this machine offers no namespaces")
def test_a_server_has_no_network_unless_asked_for():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        _, closed = run(listed("uses_the_network", port))
        _, opened = run(listed("uses_the_network", port, network=True))
    assert json.loads(closed[0]["description"]) == {"interfaces": ["lo"], "connected": False}
    assert json.loads(opened[0]["description"])["connected"] is True


@pytest.mark.skipif(not CONFINED, reason="this machine offers no namespaces")
def test_a_server_writes_only_where_it_may(tmp_path):
    work, outside = tmp_path / "work", tmp_path / "outside"
    work.mkdir()
    outside.mkdir()
    limits = Limits(process=ProcessLimits(file_bytes=1 << 20))
    _, tools = run(listed("writes_everywhere", outside, "/", writable=work, limits=limits))
    written = json.loads(tools[0]["description"])
    assert written[0] == "."
    assert len(written) == 3  # its folder, its home, its temporary folder
    assert (work / "written-by-server").exists()
    assert (work / "big").stat().st_size == 1 << 20
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("mode", ["endless_line", "notifies_without_end", "broken_lines", "spins"])
def test_a_neighbour_is_served_while_another_misbehaves(mode, token):
    async def go():
        bad = asyncio.create_task(listed(mode, token, limits=Limits(start_s=1, stop_s=0.1)))
        worst = 0.0
        async with McpSession(healthy()) as session:
            for _ in range(20):
                begun = time.monotonic()
                await session.call_tool("add_note", {"text": "x"})
                worst = max(worst, time.monotonic() - begun)
        await asyncio.gather(bad, return_exceptions=True)
        return worst

    assert run(go()) < 2.0


def test_a_healthy_server_is_called_and_says_who_it_is():
    async def go():
        async with McpSession(healthy()) as session:
            first = await session.call_tool("add_note", {"text": "milk"})
            second = await session.call_tool("list_notes", {})
            with pytest.raises(RpcError):
                await session._request("no/such", {}, 2)
            third = await session.call_tool("add_note", {"text": "bread"})
            return session, first, second, third

    session, first, second, third = run(go())
    assert first == {"content": [{"type": "text", "text": "1 notes"}], "isError": False}
    assert second["content"][0]["text"] == '["milk"]'
    assert third["content"][0]["text"] == "2 notes"
    assert session.server_info == {"name": "healthy", "version": "1.0"}
    assert (session.protocol, session.instructions) == ("2025-11-25", "Take notes.")


def test_a_closed_session_says_so_and_closes_twice():
    async def go():
        session = await McpSession(healthy()).open()
        await session.close()
        await session.close()
        await session.list_tools()

    with pytest.raises(ServerFailed, match="the session is closed"):
        run(go())


def test_a_cancelled_session_leaves_no_process(token):
    async def go():
        task = asyncio.create_task(listed("silent", token, limits=Limits(stop_s=0.1)))
        await asyncio.sleep(0.3)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run(go())


def test_many_sessions_leave_no_file_descriptor_and_no_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)

    async def go():
        await asyncio.gather(*(listed("dies") for _ in range(8)), return_exceptions=True)
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(2):
            await asyncio.gather(*(listed("dies") for _ in range(8)), return_exceptions=True)
        return len(os.listdir("/proc/self/fd")) - before

    assert run(go()) == 0
    assert list(tmp_path.iterdir()) == []
