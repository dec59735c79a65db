"""Servers over HTTP that misbehave: each bounded in time and memory, told apart in words."""

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from synth.core.errors import ServerFailed
from synth.core.mcp.session import Limits, McpSession, ServerAddress, ServerLaunch

SERVERS = Path(__file__).parent.parent / "servers"
GOOD = ["good_0", "good_1", "good_2"]
LIMITS = Limits(
    line_bytes=1 << 20, noise_bytes=4 << 20, list_bytes=2 << 20, start_s=8, list_s=8, stop_s=0.2
)
SECRET = "sk-this-must-stay-here"


class Http:
    """The hostile server, in a process of its own."""

    def __init__(self, port):
        self.port = port

    def url(self, mode, path="mcp"):
        return f"http://127.0.0.1:{self.port}/{mode}/{path}"

    def log(self, mode):
        """Return [method, message, headers] of each request that a mode had."""
        with urllib.request.urlopen(self.url("log")) as response:
            return [entry[1:] for entry in json.load(response) if entry[0] == mode]


@pytest.fixture(scope="module")
def http():
    command = [sys.executable, "-I", "-S", str(SERVERS / "hostile_http.py")]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    yield Http(int(process.stdout.readline()))
    process.stdin.close()
    process.stdout.close()
    assert process.wait(timeout=10) == 0


def healthy():
    argv = (sys.executable, "-I", "-S", str(SERVERS / "healthy.py"))
    return ServerLaunch(argv=argv, readable=(SERVERS,), name="healthy", allow_weaker=True)


async def listed(address, limits=LIMITS):
    session = McpSession(address, limits)
    async with session:
        tools = await session.list_tools()
    return session, tools


def run(url, *, limits=LIMITS, **more):
    return asyncio.run(listed(ServerAddress(url, name="it", **more), limits))


def peak_memory():
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.split("VmHWM:")[1].split()[0]) << 10


@pytest.fixture
def bounded_memory():
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")  # forget the peak so far
    before = peak_memory()
    yield
    assert peak_memory() - before < 64 << 20


@pytest.mark.parametrize(
    ("mode", "flag"),
    [
        ("plain", None),
        ("events", None),
        ("answers_and_streams_on", None),
        ("older", None),
        ("packed", None),
        ("redirects_with_a_slash", None),
        ("busy_for_a_moment", None),
        ("resumed_stream", "server_request"),
        ("asks_the_client", "server_request"),
        ("bad_bytes", "noise"),
        ("same_cursor", "cursor_loop"),
    ],
)
def test_a_server_that_is_only_odd_is_listed_and_flagged(http, mode, flag):
    session, tools = run(http.url(mode))
    assert [tool["name"] for tool in tools][:3] == GOOD
    assert session.flags == ({flag} if flag else set())


STARTING = "no answer to initialize within 0.5 s"
FAULTS = {
    "silent": ("timeout", STARTING),
    "slow_headers": ("timeout", STARTING),
    "slow_body": ("timeout", STARTING),
    "stream_without_answer": ("timeout", STARTING),
    "endless_body": ("oversize", "a body exceeds 1 MiB"),
    "endless_event": ("oversize", "an event exceeds 1 MiB"),
    "endless_data_lines": ("oversize", "floods its stream"),
    "endless_comments": ("oversize", "floods its stream"),
    "endless_notifications": ("oversize", "floods its output"),
    "endless_requests": ("oversize", "floods its output"),
    "gzip_bomb": ("oversize", "a body exceeds 1 MiB"),
    "packed_without_end": ("invalid", "no answer to the request"),
    "giant_header": ("invalid", "does not speak HTTP as it must"),
    "headers_without_end": ("invalid", "does not speak HTTP as it must"),
    "login_page": ("invalid", "answers with a web page; is that a login?"),
    "plain_text": ("invalid", "answers with 'text/plain', neither JSON nor events"),
    "not_utf8": ("invalid", "no answer to the request"),
    "broken_json": ("invalid", "no answer to the request"),
    "nested_deep": ("invalid", "the result of initialize is not an object"),
    "wrong_id": ("invalid", "no answer to the request"),
    "stream_that_ends": ("invalid", "its stream ended without an answer"),
    "cut_body": ("invalid", "breaks off in the middle of its answer"),
    "false_gzip": ("invalid", "cannot be unpacked"),
    "unasked_packing": ("invalid", "packs its answers with 'br', which nobody asked for"),
    "not_http": ("invalid", "does not speak HTTP as it must"),
    "hangs_up": ("unreachable", "breaks the connection off"),
    "odd_session": ("invalid", "its session id is no visible ASCII"),
    "session_ends": ("missing", "the session has ended (HTTP 404)"),
    "error_in_words": ("invalid", "answers with a status (HTTP 422): no \x1b[31mkey"),
    "older_elsewhere": ("missing", "takes no messages at this address (HTTP 405)"),
    "status_204": ("invalid", "has nothing to say (HTTP 204)"),
    "status_303": ("invalid", "sends us elsewhere for a page (HTTP 303)"),
    "status_401": ("denied", "wants credentials (HTTP 401)"),
    "status_403": ("denied", "forbids it (HTTP 403)"),
    "status_404": ("missing", "there is nothing at this address"),
    "status_410": ("missing", "is gone for good (HTTP 410)"),
    "status_429": ("busy", "has had too many requests (HTTP 429)"),
    "status_500": ("broken", "fails (HTTP 500)"),
    "status_503": ("busy", "is not available now (HTTP 503)"),
    "redirects_in_a_circle": ("invalid", "redirects more than 3 times"),
    "redirects_to_metadata": ("unsafe", "leads to 169.254.169.254, a link-local address"),
    "redirects_to_private": ("unsafe", "leads to 10.0.0.1, an address of no public host"),
    "redirects_to_mapped": ("unsafe", "leads to ::ffff:7f00:1, which is this machine"),
    "redirects_to_decimal": ("invalid", "leads to an address that makes no sense"),
    "redirects_to_other_port": ("unsafe", "redirects to this machine"),
    "redirects_to_no_encryption": ("unsafe", "not over https"),
    "redirects_to_file": ("unsafe", "not an address of a server"),
    "redirects_to_user": ("unsafe", "must not hold a user or password"),
}  # fmt: skip


@pytest.mark.claim("b02")
@pytest.mark.claim("b07")
@pytest.mark.parametrize("mode", FAULTS)
def test_a_server_that_cannot_be_listed_fails_in_time_with_one_word(http, mode, bounded_memory):
    outcome, words = FAULTS[mode]
    limits = LIMITS if outcome != "timeout" else Limits(start_s=0.5, stop_s=0.2)
    begun = time.monotonic()
    with pytest.raises(ServerFailed) as failure:
        run(http.url(mode), limits=limits)
    assert time.monotonic() - begun < 8
    assert (failure.value.outcome, words in str(failure.value)) == (outcome, True), failure.value
    assert "secret" not in str(failure.value)


def test_every_mode_of_the_hostile_server_is_met():
    told = {"endless_cursor", "huge_pages", "echoes_what_it_was_sent", "poisons", "changes"}
    odd = {
        "plain", "events", "answers_and_streams_on", "older", "packed", "redirects_with_a_slash",
        "busy_for_a_moment", "resumed_stream", "asks_the_client", "bad_bytes", "same_cursor",
    }  # fmt: skip
    command = "import hostile_http; print(*hostile_http.MODES)"
    known = subprocess.check_output([sys.executable, "-c", command], cwd=SERVERS, text=True)
    assert set(known.split()) == told | odd | set(FAULTS)


@pytest.mark.claim("b05")
@pytest.mark.parametrize(
    ("mode", "limits", "count", "flag"),
    [
        ("endless_cursor", Limits(pages=7), 7, "too_many_pages"),
        ("endless_cursor", Limits(tools=5), 5, "too_many_tools"),
        ("huge_pages", LIMITS, 3, "list_cut"),
    ],
)
def test_a_list_without_end_is_cut_and_flagged(http, mode, limits, count, flag):
    session, tools = run(http.url(mode), limits=limits)
    assert (len(tools), session.flags) == (count, {flag})


def test_requests_of_the_server_are_refused_and_ping_is_answered(http):
    run(http.url("asks_the_client"))
    said = [m for _, m, _ in http.log("asks_the_client") if isinstance(m, dict) and "id" in m]
    assert {m["id"]: m.get("result", m.get("error", {}).get("code")) for m in said} == {
        "s0": {}, "s1": -32601, "s2": -32601, "s3": -32601,
    }  # fmt: skip


def test_a_session_is_named_with_each_message_and_ended(http):
    run(http.url("plain"), headers={"Authorization": f"Bearer {SECRET}"})
    asked = http.log("plain")[-4:]
    assert [(method, message) for method, message, _ in asked] == [
        ("POST", "initialize"),
        ("POST", "notifications/initialized"),
        ("POST", "tools/list"),
        ("DELETE", {}),
    ]
    assert [h.get("Mcp-Session-Id") for _, _, h in asked] == [None, *["the-session"] * 3]
    assert [h.get("MCP-Protocol-Version") for _, _, h in asked] == [None, *["2025-11-25"] * 3]
    assert {h["Authorization"] for _, _, h in asked} == {f"Bearer {SECRET}"}
    assert {h["Accept"] for _, _, h in asked[:3]} == {"application/json, text/event-stream"}


def test_a_stream_that_ended_goes_on_where_it_was(http):
    run(http.url("resumed_stream"))
    gets = [h["Last-Event-ID"] for method, _, h in http.log("resumed_stream") if method == "GET"]
    assert gets[-2:] == ["event-1", "event-2"]


def test_the_older_transport_is_spoken_at_once_where_asked(http):
    run(http.url("older"), older=True)
    asked = [(method, message) for method, message, _ in http.log("older")]
    first = len(asked) - 1 - asked[::-1].index(("GET", {}))
    assert ("POST", "initialize") in asked[first:]
    assert first == 0 or asked[first - 1] != ("POST", "initialize")


@pytest.mark.claim("b02")
def test_nobody_at_an_address_and_a_name_without_host_are_told_apart(monkeypatch):
    with pytest.raises(ServerFailed, match="it: cannot be reached") as failure:
        run("http://127.0.0.1:9/mcp")
    assert failure.value.outcome == "unreachable"
    with pytest.raises(ServerFailed, match="it: there is no such host") as failure:
        run("https://no-such-host.invalid/mcp")
    assert failure.value.outcome == "unreachable"


def resolve(monkeypatch, *answers):
    """Let the name `public.example` mean each of `answers` in turn, then the last."""
    real, left = socket.getaddrinfo, list(answers)

    def found(host, port, *more, **options):
        if host != "public.example":
            return real(host, port, *more, **options)
        address = left.pop(0) if len(left) > 1 else left[0]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr(socket, "getaddrinfo", found)


@pytest.mark.claim("b-net")
@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("127.0.0.1", "which is this machine"),
        ("0.0.0.0", "which is this machine"),
        ("192.168.1.1", "an address of no public host"),
        ("100.64.0.1", "an address of no public host"),
        ("224.0.0.1", "an address of no public host"),
        ("169.254.169.254", "a link-local address"),
    ],
)
def test_a_public_name_with_a_private_address_is_refused(http, monkeypatch, address, words):
    resolve(monkeypatch, address)
    with pytest.raises(ServerFailed, match=f"leads to {address}, {words}") as failure:
        run(f"https://public.example:{http.port}/mcp")
    assert failure.value.outcome == "unsafe"


@pytest.mark.claim("b16")
def test_nothing_of_our_environment_goes_with_a_request(http, monkeypatch, tmp_path):
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password hunter2\n")
    (tmp_path / ".netrc").chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    _, tools = run(http.url("echoes_what_it_was_sent"))
    seen = tools[0]["description"]
    assert "Accept" in seen
    assert "Authorization" not in seen
    assert "hunter2" not in seen


def test_a_wait_longer_than_the_time_left_is_not_begun(http):
    begun = time.monotonic()
    with pytest.raises(ServerFailed, match="too many requests"):
        run(http.url("status_429"))
    assert time.monotonic() - begun < 3
    assert len([1 for method, *_ in http.log("status_429") if method == "POST"]) <= 2


@pytest.mark.parametrize("mode", ["endless_body", "endless_comments", "endless_requests", "silent"])
def test_a_neighbour_is_served_while_another_misbehaves(http, mode):
    async def go():
        limits = Limits(start_s=1, stop_s=0.1)
        bad = asyncio.create_task(listed(ServerAddress(http.url(mode)), limits))
        worst = 0.0
        async with McpSession(healthy()) as session:
            for _ in range(20):
                begun = time.monotonic()
                await session.call_tool("add_note", {"text": "x"})
                worst = max(worst, time.monotonic() - begun)
        await asyncio.gather(bad, return_exceptions=True)
        return worst

    assert asyncio.run(go()) < 2.0


@pytest.mark.claim("b01")
def test_sessions_leave_no_task_and_no_connection(http):
    async def go():
        for mode in ("plain", "silent", "older", "endless_event"):
            limits = Limits(line_bytes=1 << 20, start_s=0.5, stop_s=0.2)
            await asyncio.gather(
                listed(ServerAddress(http.url(mode)), limits), return_exceptions=True
            )
        await asyncio.sleep(0.1)
        return len(asyncio.all_tasks()), len(os.listdir("/proc/self/fd"))

    first, again = asyncio.run(go()), asyncio.run(go())
    assert first[0] == again[0] == 1
    assert first[1] == again[1]


def test_an_older_server_that_wants_its_messages_elsewhere_is_refused(http):
    with pytest.raises(ServerFailed, match="wants its messages sent to another host") as failure:
        run(http.url("older_elsewhere"), older=True, headers={"Authorization": SECRET})
    assert failure.value.outcome == "unsafe"
