"""The validator: what is no reply is named, what is beyond doubt is repaired and recorded."""

import json

import pytest

from synth.core.llm.reply import BadReply, parse_reply
from synth.core.protocols import Finish

TOOLS = [
    {
        "function": {
            "name": "mow",
            "parameters": {
                "properties": {
                    "jobs": {"type": "array"},
                    "where": {"type": "object"},
                    "note": {"type": "string"},
                }
            },
        }
    }
]


def body(message=None, finish="stop", **rest):
    message = {"content": "hello"} if message is None else message
    choice = {"finish_reason": finish, "message": {"role": "assistant", **message}}
    usage = {"prompt_tokens": 3, "completion_tokens": 1}
    return json.dumps({"model": "m", "choices": [choice], "usage": usage, **rest}).encode()


def read(message=None, finish="stop", **rest):
    return parse_reply(body(message, finish, **rest), "here", tools=TOOLS)


def call(arguments, identifier="x", name="mow"):
    function = {"name": name, "arguments": arguments}
    return {"id": identifier, "type": "function", "function": function}


def calls(*raw):
    return read({"content": None, "tool_calls": list(raw)}, "tool_calls")


@pytest.mark.claim("a16")
@pytest.mark.claim("f-body")
@pytest.mark.parametrize(
    ("data", "says", "outcome"),
    [
        (b"", "the reply is empty", "malformed"),
        (b"<html>busy</html>", "not JSON: b'<html>", "malformed"),
        (b'{"choices": [', "not JSON", "malformed"),
        (b"[" * 100_000, "not JSON", "malformed"),
        (b"[1]", "not an object", "malformed"),
        (body(choices=None), "no choices", "malformed"),
        (body(choices=[]), "no choices", "malformed"),
        (body(choices=["x"]), "no choices", "malformed"),
        (b'{"choices": null, "detail": "warming\\nup"}', "warming\\nup", "malformed"),
        (body(error={"message": "over\nloaded"}), "a 200 with an error: over loaded", "malformed"),
        (body(choices=[{"finish_reason": "stop", "message": None}]), "no message", "malformed"),
        (body({"content": ["x"]}), "content is not text", "malformed"),
        (body({"content": 5}), "content is not text", "malformed"),
        (body({"tool_calls": "x"}), "tool_calls is not a list", "malformed"),
        (body({"tool_calls": [5]}), "call 0 has no function", "malformed"),
        (body({"tool_calls": [call("{}", name=" ")]}), "call 0 has no name", "malformed"),
        (body({"tool_calls": [call([1])]}), "call 0 has no argument text", "malformed"),
        (body(finish=None), "does not say why it ended", "incomplete"),
        (body(finish="error"), "broke the reply off: error", "incomplete"),
        (body({"content": ""}), "neither text nor a call", "empty"),
        (body({"content": " \n"}), "neither text nor a call", "empty"),
        (body({"content": None, "reasoning_content": "hm"}), "neither text nor", "empty"),
    ],
)
def test_what_is_no_reply_is_named(data, says, outcome):
    with pytest.raises(BadReply) as caught:
        parse_reply(data, "here")
    assert says in str(caught.value)
    assert caught.value.outcome == outcome
    assert "\n" not in str(caught.value)


@pytest.mark.claim("f-body")
def test_a_reply_of_no_use_still_tells_what_it_cost():
    with pytest.raises(BadReply) as caught:
        parse_reply(body(choices=None), "here")
    assert (caught.value.usage.prompt_tokens, caught.value.usage.completion_tokens) == (3, 1)


@pytest.mark.claim("l01")
@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (None, (None, None, None)),
        ({}, (None, None, None)),
        ({"prompt_tokens": 0, "completion_tokens": 0}, (0, 0, None)),
        ({"prompt_tokens": "7", "completion_tokens": True}, (None, None, None)),
        ({"prompt_tokens": -1, "completion_tokens": 2.0}, (None, None, None)),
        (
            {
                "prompt_tokens": 9,
                "completion_tokens": 1,
                "prompt_tokens_details": {"cached_tokens": 4},
            },
            (9, 1, 4),
        ),
    ],
)
def test_unknown_usage_is_unknown_and_never_zero(usage, expected):
    found = read(usage=usage).usage
    assert (found.prompt_tokens, found.completion_tokens, found.cached_tokens) == expected


@pytest.mark.parametrize(
    ("finish", "expected"),
    [
        ("stop", Finish.STOP),
        ("eos", Finish.STOP),
        ("function_call", Finish.TOOL_CALLS),
        ("max_tokens", Finish.LENGTH),
        ("safety", Finish.CONTENT_FILTER),
        ("end_of_story", "end_of_story"),
    ],
)
def test_words_for_the_end_are_brought_to_one(finish, expected):
    assert read(finish=finish).finish == expected


@pytest.mark.claim("a25")
@pytest.mark.parametrize("content", [None, "", "half a sen"])
def test_what_a_filter_withheld_is_an_outcome_and_of_no_use(content):
    reply = read({"content": content}, "content_filter")
    assert (reply.finish, reply.usable, reply.message.content) == (
        Finish.CONTENT_FILTER,
        False,
        content,
    )


@pytest.mark.claim("a25")
def test_a_refusal_in_the_words_of_the_api_is_an_outcome():
    reply = read({"content": None, "refusal": "I cannot help."})
    assert (reply.finish, reply.message.content, reply.usable) == (
        Finish.REFUSAL,
        "I cannot help.",
        False,
    )


def test_a_reply_cut_off_by_its_limit_may_be_empty():
    assert read({"content": None}, "length").finish == Finish.LENGTH


def test_missing_and_duplicate_ids_are_replaced_by_unique_ones():
    reply = calls(
        call("{}", "call_1"), call("{}", None), call("{}", "call_1"), call("{}", ""), call("{}", 7)
    )
    ids = [one.id for one in reply.message.tool_calls]
    assert ids[0] == "call_1"
    assert len(set(ids)) == 5
    assert all(ids)
    assert reply.repairs == ("missing_id", "duplicate_id")


@pytest.mark.claim("a09")
@pytest.mark.claim("a10")
@pytest.mark.parametrize(
    ("raw", "text", "repairs"),
    [
        ('{"note": "x"}', '{"note": "x"}', ()),
        ("", "{}", ("no_arguments",)),
        (None, "{}", ("no_arguments",)),
        ({"note": "é"}, '{"note": "é"}', ("arguments_as_object",)),
        ('"{\\"note\\": \\"x\\"}"', '{"note": "x"}', ("arguments_as_text",)),
        ('{"jobs": "[{\\"t\\": 1}]"}', '{"jobs": [{"t": 1}]}', ("double_encoded",)),
        ('{"where": "{}", "note": "[1]"}', '{"where": {}, "note": "[1]"}', ("double_encoded",)),
        ('{"note": "[1]"}', '{"note": "[1]"}', ()),
        ('{"jobs": "[1"}', '{"jobs": "[1"}', ()),
        ('{"jobs": "[NaN]"}', '{"jobs": "[NaN]"}', ()),
        ('{"jobs": [1], }', '{"jobs": [1], }', ()),
        ('{"note": NaN}', '{"note": NaN}', ()),
        ('{"cut": "of', '{"cut": "of', ()),
        ('"only text"', '"only text"', ()),
    ],
)
def test_arguments_are_repaired_only_where_they_have_one_meaning(raw, text, repairs):
    reply = calls(call(raw))
    assert reply.message.tool_calls[0].arguments == text
    assert reply.repairs == repairs


def test_odd_tool_names_survive():
    names = ["get-weather.daily", "a/b:c", "größe"]
    reply = calls(*(call("{}", str(n), name) for n, name in enumerate(names)))
    assert [one.name for one in reply.message.tool_calls] == names


def test_sixty_calls_are_sixty_calls():
    assert len(calls(*(call("{}", str(n)) for n in range(60))).message.tool_calls) == 60


@pytest.mark.claim("a27")
@pytest.mark.claim("f-text")
@pytest.mark.parametrize(
    ("escape", "kept", "repairs"),
    [
        ("\\ud83c\\udf89", "\U0001f389", ()),
        ("\\ud83c", "\ufffd", ("lone_surrogate",)),
        ("\\udf89\\ud83c", "\ufffd\ufffd", ("lone_surrogate",)),
        ("\\u0000", "\ufffd", ("nul",)),
        ("\\ufeff", "", ("bom",)),
        ("\\u202e", "\u202e", ()),
    ],
)
def test_what_no_file_can_keep_is_replaced_and_recorded(escape, kept, repairs):
    raw = body({"content": "MARKx"}).replace(b"MARK", escape.encode())
    reply = parse_reply(raw, "here")
    assert (reply.message.content, reply.repairs) == (f"{kept}x", repairs)


def test_a_byte_order_mark_before_the_json_does_no_harm():
    assert parse_reply(b"\xef\xbb\xbf" + body(), "here").message.content == "hello"


def test_thoughts_between_tags_are_reasoning():
    reply = read({"content": "<think>I see.</think>\n\nYes."})
    assert (reply.message.content, reply.message.reasoning) == ("Yes.", "I see.")
    assert reply.repairs == ("think_tags",)


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_reasoning_is_kept_apart_from_content(name):
    reply = read({"content": "Yes.", name: "I see."})
    assert (reply.message.content, reply.message.reasoning) == ("Yes.", "I see.")


def test_content_in_parts_is_joined():
    reply = read({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]})
    assert (reply.message.content, reply.repairs) == ("ab", ("content_parts",))


def test_log_probabilities_are_read_by_place():
    place = {
        "token": "Yes",
        "logprob": -0.1,
        "top_logprobs": [{"token": "Yes", "logprob": -0.1}, {"token": "No", "logprob": -2.5}],
    }
    choice = {
        "finish_reason": "stop",
        "message": {"content": "Yes"},
        "logprobs": {"content": [place]},
    }
    assert read(choices=[choice]).logprobs == ({"Yes": -0.1, "No": -2.5},)
    assert read().logprobs is None


@pytest.mark.claim("a17")
def test_an_endpoint_may_be_trusted_not_to_say_why_it_ended():
    reply = parse_reply(body(finish=None), "here", must_finish=False)
    assert reply.finish == Finish.STOP
