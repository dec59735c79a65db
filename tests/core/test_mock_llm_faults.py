"""Each fault of the mock endpoint sends the bytes that it names: read from plain sockets."""

import json
import re
import socket
import time
from email.utils import parsedate_to_datetime
from pathlib import Path

import pytest

from synth.core.llm.mock.plan import Pace
from synth.core.llm.mock.table import FAULTS
from synth.core.llm.mock.threads import serving


@pytest.fixture(scope="module")
def mock():
    with serving(pace=Pace(pace_s=0.02, stall_s=0.3, retry_after_s=2)) as server:
        yield server


STATUSES = (400, 401, 403, 404, 408, 409, 413, 422, 429, 500, 503, 529)


@pytest.mark.parametrize("status", STATUSES)
def test_a_status_comes_with_an_error_as_endpoints_tell_it(wire, mock, status):
    found, headers, body, end = wire.faulty(mock, f"http_{status}")
    assert (found, end) == (status, "end")
    assert set(json.loads(body)["error"]) == {"message", "type", "param", "code"}
    assert "retry-after" not in headers


@pytest.mark.parametrize("status", [502, 504])
def test_proxies_answer_in_html(wire, mock, status):
    found, headers, body, _ = wire.faulty(mock, f"http_{status}")
    assert (found, headers["content-type"]) == (status, "text/html")
    assert body.startswith(b"<html>")


def test_retry_after_is_told_in_seconds_as_a_date_and_too_long(wire, mock):
    status, headers, _, _ = wire.faulty(mock, "http_429_seconds")
    assert (status, headers["retry-after"]) == (429, "2")
    now = time.time()
    status, headers, _, _ = wire.faulty(mock, "http_429_date")
    then = parsedate_to_datetime(headers["retry-after"]).timestamp()
    assert status == 429
    assert now + 2 <= then <= time.time() + 3.1
    status, headers, _, _ = wire.faulty(mock, "http_429_300")
    assert (status, headers["retry-after"]) == (429, "300")


def test_a_throttled_model_refuses_everybody_until_its_window_is_over(wire, mock):
    first, headers, _, _ = wire.faulty(mock, "throttle_1s")
    second, _, _, _ = wire.faulty(mock, "throttle_1s", seed=5)
    assert (first, second, headers["retry-after"]) == (429, 429, "1")
    assert wire.faulty(mock, "unknown_tool")[0] == 200  # other models answer
    deadline = time.monotonic() + 5
    while wire.faulty(mock, "throttle_1s")[0] == 429:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    entries = [e for e in mock.ledger.entries() if e["model"] == "fault:throttle_1s"]
    assert entries[-1]["at"] - entries[0]["at"] >= 1
    assert [e["fault"] for e in entries[-2:]] == ["throttle_1s", None]


def test_refused_resets_and_refuses_new_connections_while_old_ones_go_on(wire, mock):
    with socket.create_connection(("127.0.0.1", mock.port), timeout=5) as old:
        old.sendall(b"GET /health HTTP/1.1\r\n\r\n")
        assert old.recv(9) == b"HTTP/1.1 "
        raw, end, _ = wire.exchange(mock, {**wire.ask, "model": "fault:refused"})
        assert (raw, end) == (b"", "reset")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", mock.port), timeout=5)
        old.sendall(b"GET /health HTTP/1.1\r\n\r\n")
        assert b'"status":"ok"' in old.recv(4096)
    deadline = time.monotonic() + 5
    while True:
        try:
            assert wire.faulty(mock, "http_500")[0] == 500
            return
        except ConnectionRefusedError:
            assert time.monotonic() < deadline
            time.sleep(0.05)


@pytest.mark.parametrize(("name", "how"), [("reset", "reset"), ("closed", "end")])
@pytest.mark.parametrize("stream", [False, True])
def test_connections_end_before_the_headers_and_in_the_body(wire, mock, name, how, stream):
    more = wire.stream if stream else {}
    ask = {**wire.ask, **more}
    assert wire.exchange(mock, {**ask, "model": f"fault:{name}_before_headers"})[:2] == (b"", how)
    whole, _, _ = wire.exchange(mock, {**ask, "model": f"fault:{name}_mid_body@0"})
    cut, end, _ = wire.exchange(mock, {**ask, "model": f"fault:{name}_mid_body"})
    assert end == how
    head = whole.index(b"\r\n\r\n") + 4
    body = len(whole.replace(b"@0", b"")) - head
    assert head < len(cut) <= head + body // 2 + 1
    cut_head = cut[: cut.index(b"\r\n\r\n")]
    if not stream:
        promised = int(re.search(rb"content-length: (\d+)", cut_head)[1])
        assert len(cut) - head < promised


def test_slow_headers_stall_and_then_answer(wire, mock):
    raw, end, times = wire.exchange(mock, {**wire.ask, "model": "fault:slow_headers"})
    assert end == "end"
    assert times[0] >= 0.3
    assert json.loads(wire.split(raw)[2])["choices"][0]["finish_reason"] == "tool_calls"


def test_a_trickle_is_the_whole_reply_in_many_pieces(wire, mock):
    raw, end, times = wire.exchange(mock, {**wire.ask, "model": "fault:trickle"})
    assert end == "end"
    assert len(times) > 20
    assert times[-1] > 0.5
    assert json.loads(wire.split(raw)[2])["choices"][0]["finish_reason"] == "tool_calls"


def test_an_endless_body_goes_on_and_is_never_wrong(wire, mock):
    raw, end, _ = wire.exchange(mock, {**wire.ask, "model": "fault:endless_body"}, enough=400)
    assert end == "enough"
    assert b"application/json" in raw
    assert set(raw[raw.index(b"\r\n\r\n") :]) <= set(b" \r\n10")
    raw, end, _ = wire.exchange(
        mock, {**wire.ask, "model": "fault:endless_body", "stream": True}, enough=400
    )
    assert end == "enough"
    assert raw.count(b": wait\n\n") > 10


BODIES = {
    "error_in_200": lambda body: json.loads(body).keys() == {"error"},
    "html_in_200": lambda body: body.startswith(b"<!doctype html>"),
    "empty_body": lambda body: body == b"",
    "cut_json": lambda body: body.startswith(b'{"id"') and not body.endswith(b"}"),
    "bom": lambda body: body.startswith(b'\xef\xbb\xbf{"id"'),
    "choices_null": lambda body: b'"choices":null' in body,
    "choices_empty": lambda body: b'"choices":[]' in body,
    "message_null": lambda body: b'"message":null' in body,
    "message_empty": lambda body: b'"message":{"role":"assistant","content":null}' in body,
    "content_null": lambda body: b'"content":null,"tool_calls":[{' in body,
    "id_empty": lambda body: b'"tool_calls":[{"id":"",' in body,
    "id_missing": lambda body: b'"tool_calls":[{"type":"function","function"' in body,
    "arguments_empty": lambda body: b'"arguments":""' in body,
    "arguments_null": lambda body: b'"arguments":null' in body,
    "arguments_object": lambda body: b'"arguments":{"city":' in body,
    "arguments_text": lambda body: rb'"arguments":"\"{\\\"city' in body,
    "unknown_tool": lambda body: b'"name":"no_such_tool"' in body,
    "finish_unknown": lambda body: b'"finish_reason":"eos!"' in body,
    "finish_null": lambda body: b'"finish_reason":null' in body,
    "usage_missing": lambda body: (
        b'"usage"' not in body and b'"finish_reason":"tool_calls"' in body
    ),
    "surrogate": lambda body: (
        rb'"content":"Let\ud83c me' in body and rb"{\"note\":\"\ud83c\"" in body
    ),
    "nul": lambda body: rb'"content":"Let\u0000 me' in body and rb"{\"note\":\"\\u0000\"" in body,
    "invisible": lambda body: "Let\u200b\u202e\u2066\ufeff\u00ad me".encode() in body,
}


@pytest.mark.parametrize("name", BODIES)
def test_a_body_holds_what_the_fault_names(wire, mock, name):
    status, headers, body, end = wire.faulty(mock, name)
    assert (status, end) == (200, "end")
    assert int(headers["content-length"]) == len(body)
    assert BODIES[name](body), body


ARGUMENTS = {
    "arguments_inner_text": lambda text, sound: (
        {name: json.loads(value) for name, value in json.loads(text).items()} == json.loads(sound)
    ),
    "arguments_cut": lambda text, sound: text == sound[:-1],
    "arguments_comma": lambda text, sound: text == sound[:-1] + ",}",
    "arguments_nan": lambda text, sound: text == '{"city": NaN}',
    "arguments_twice": lambda text, sound: text.count('"city":') == 2 and json.loads(text),
    "arguments_1mb": lambda text, sound: len(text) > 1 << 20 and json.loads(text)["days"],
    "finish_length_in_call": lambda text, sound: text == sound[: len(sound) // 2 + 1],
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments_are_broken_in_the_way_that_the_fault_names(wire, mock, name, stream):
    _, _, body, _ = wire.faulty(mock, name, **(wire.stream if stream else {}))
    if stream:
        deltas = [choice["delta"] for choice in wire.choices(body)]
        calls = [call for delta in deltas for call in delta.get("tool_calls", ())]
        text = "".join(call["function"]["arguments"] for call in calls)
    else:
        call = json.loads(body)["choices"][0]["message"]["tool_calls"][0]
        text = call["function"]["arguments"]
    assert ARGUMENTS[name](text, wire.arguments(mock))


def test_calls_come_twice_under_one_id_and_in_crowds(wire, mock):
    twice = json.loads(wire.faulty(mock, "id_duplicate")[2])["choices"][0]["message"]["tool_calls"]
    assert len(twice) == 2
    assert twice[0]["id"] == twice[1]["id"]
    many = json.loads(wire.faulty(mock, "many_calls")[2])["choices"][0]["message"]["tool_calls"]
    assert len({call["id"] for call in many}) == 60


def test_texts_are_cut_and_filtered(wire, mock):
    cut = json.loads(wire.faulty(mock, "finish_length")[2])["choices"][0]
    assert cut["finish_reason"] == "length"
    assert cut["message"] == {"role": "assistant", "content": "Let me loo"}
    empty = json.loads(wire.faulty(mock, "finish_content_filter")[2])["choices"][0]
    assert empty["finish_reason"] == "content_filter"
    assert empty["message"] == {"role": "assistant", "content": ""}


def test_servers_disagree_about_reasoning_in_the_history(wire, mock):
    said = {"role": "assistant", "content": "Hm."}
    start, more = wire.ask["messages"][0], {"role": "user", "content": "And now?"}
    plain = [start, said, more]
    thought = [start, {**said, "reasoning_content": "I think."}, more]
    found = {
        (name, kind): wire.faulty(mock, name, messages=messages)[0]
        for name in ("needs_reasoning", "forbids_reasoning")
        for kind, messages in (("plain", plain), ("thought", thought))
    }
    assert found == {
        ("needs_reasoning", "plain"): 400,
        ("needs_reasoning", "thought"): 200,
        ("forbids_reasoning", "plain"): 200,
        ("forbids_reasoning", "thought"): 400,
    }


# --- the table -------------------------------------------------------------------------------


@pytest.mark.claim("f-all")
def test_every_fault_is_in_a_test_here_and_says_what_it_is():
    here = "".join(
        page.read_text("utf-8") for page in Path(__file__).parent.glob("test_mock_llm_*")
    )
    untested = [
        name
        for name in FAULTS
        if not re.search(rf"\b{name}\b", here)
        and name not in {f"http_{status}" for status in (*STATUSES, 502, 504)}
        and name.removeprefix("reset_").removeprefix("closed_")
        not in ("before_headers", "mid_body")
        and not name.startswith("throttle_")
    ]
    assert not untested
    assert all(fault.about for fault in FAULTS.values())


def test_a_fault_can_befall_the_first_attempts_only(wire, mock):
    found = [
        wire.exchange(
            mock,
            {**wire.ask, "model": "fault:http_503@2"},
            headers=f"X-Toolloom-Call: e/agent/0\r\nX-Toolloom-Attempt: {attempt}\r\n",
        )[0][9:12]
        for attempt in range(4)
    ]
    assert found == [b"503", b"503", b"200", b"200"]


def test_a_fault_of_calls_makes_a_call_wherever_there_are_tools_and_none_elsewhere(wire, mock):
    called = {"role": "assistant", "content": None, "tool_calls": [
        {"id": "c", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}}
    ]}  # fmt: skip
    result = {"role": "tool", "tool_call_id": "c", "content": "{}"}
    later = wire.faulty(mock, "unknown_tool", messages=[*wire.ask["messages"], called, result])
    assert b"no_such_tool" in later[2]
    without = wire.faulty(mock, "unknown_tool", tools=[])
    assert json.loads(without[2])["choices"][0]["finish_reason"] == "stop"
    assert mock.ledger.entries()[-1]["fault"] is None


def test_an_unknown_fault_is_the_request_s_fault(wire, mock):
    status, _, body, _ = wire.faulty(mock, "no_such_fault")
    assert status == 400
    assert "no_such_fault" in json.loads(body)["error"]["message"]
