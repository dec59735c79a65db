"""What every format of tool-call text promises, whatever the text is."""

import json
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synth.core.formats import FORMATS, Problem, Unwritable, get_format
from synth.core.types import Message

CALL = '{"name": "f", "arguments": {"a": 1}}'
LLAMA = '{"name": "f", "parameters": {"a": 1}}'
SECTION, BEGIN, ARGUMENT, END, SECTION_END = (
    f"<|tool_call{part}|>"
    for part in ("s_section_begin", "_begin", "_argument_begin", "_end", "s_section_end")
)
MARKS = [
    "<tool_call>", "</tool_call>", SECTION, BEGIN, "functions.f:0", ARGUMENT, END, SECTION_END,
    "<|python_tag|>", "<|eom_id|>", "[TOOL_CALLS]", "[CALL_ID]", "[ARGS]", "abcDEF123",
    "```json\n", "```", CALL, LLAMA, f"[{CALL}, {CALL}]", '{"a": 1,}', '{"a": "x\n"}', "{}", '"a"',
    "{", "}", "[", "]", ",", ";", ":", '"', "\\", " ", "\n", "\0", "\ufeff", "\ud83d", "\ude00",
    "NaN", "null", "1e999", '"name": ', '"arguments": ', '"parameters": ', "é", "§", "§",
]  # fmt: skip
NAMES = ["f", "list-files", "fs.read", "repo/get_file", "名前", "a:b:0", "functions.f", "x_1"]
ARGUMENTS = [
    "{}", '{"a": 1}', '{"§": "§"}', '{"who": {"addr": "§}"}}', '{"a": [1,],}', '{"a": "§\n"}', '""',
    '"{\\"a\\": 1}"', '{"a": "<tool_call>[TOOL_CALLS]<|python_tag|>"}', "[1]", '{"a": ', "{'a'}",
]  # fmt: skip


def dress(name, arguments, tool="f"):
    """One call, with `arguments` as they are, in the family's own markup."""
    if name.startswith("hermes"):
        return f'<tool_call>{{"name": "{tool}", "arguments": {arguments}}}</tool_call>'
    if name == "kimi-k2":
        return f"{SECTION}{BEGIN}functions.{tool}:0{ARGUMENT}{arguments}{END}{SECTION_END}"
    if name == "mistral-v3":
        return f'[TOOL_CALLS][{{"name": "{tool}", "arguments": {arguments}}}]'
    if name.startswith("mistral"):
        return f"[TOOL_CALLS]{tool}[ARGS]{arguments}"
    key = "parameters" if name.startswith("llama") else "arguments"
    tag = "<|python_tag|>" if name == "llama3-tag" else ""
    return f'{tag}{{"name": "{tool}", "{key}": {arguments}}}'


def replies(name):
    """Calls of the family, whole and broken, among words and markup of all families."""
    calls = st.builds(dress, st.just(name), st.sampled_from(ARGUMENTS), st.sampled_from(NAMES))
    good = st.builds(dress, st.just(name), st.sampled_from(ARGUMENTS[:6]), st.sampled_from(NAMES))
    cut = st.builds(lambda text, n: text[: len(text) - n], calls, st.integers(0, 30))
    said = st.sampled_from(["", "Looking.\n", "§ so ", "\n", "{x} [0, 1) ", "```json\n", "\n```\n"])
    noise = st.sampled_from(MARKS) | st.text(max_size=3)
    plausible = st.tuples(said, good, said, st.just("") | good | cut, said).map("".join)
    return plausible | st.lists(said | noise | calls | cut, max_size=6).map("".join)


texts = st.text(st.characters(codec="utf-8"), max_size=6) | st.sampled_from(MARKS[:12])
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)  # those that all readers of JSON take
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
)
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=2), max_leaves=3)
arguments = st.dictionaries(texts, values | st.dictionaries(texts, values, max_size=2), max_size=2)
made_calls = st.lists(st.tuples(st.sampled_from(NAMES), arguments), max_size=2)
prose = st.text(st.characters(codec="utf-8", exclude_characters="<[{`"), min_size=1).filter(
    lambda text: text.replace("\ufeff", "").strip()
)

readers = pytest.mark.parametrize("name", ["hermes", "json", "kimi-k2", "llama3", "mistral"])
every_format = pytest.mark.parametrize("name", sorted(FORMATS))
writers = pytest.mark.parametrize("name", sorted(FORMATS.keys() - {"hermes-json"}))
relaxed = settings(deadline=None, max_examples=40)


def message(content, made):
    calls = [
        {
            "id": f"call_{n}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(value, ensure_ascii=False)},
        }
        for n, (name, value) in enumerate(made)
    ]
    return {"role": "assistant", "content": content, "tool_calls": calls}


def written(tool_format, said):
    """The body of an assistant's message, without its stop mark."""
    pieces = tool_format.pieces([{"role": "user", "content": "hi"}, said], [])
    return "".join(p.text for p in pieces if p.sampled).removesuffix(tool_format.stop)


@readers
@relaxed
@given(data=st.data())
def test_any_text_is_calls_or_text_or_a_named_problem(name, data):
    text = data.draw(replies(name))
    read = get_format(name).parse(text)
    read.raw.encode()
    read.detail.encode()
    if read.problem is None:
        assert read.content or read.calls
        said = Message(role="assistant", content=read.content, tool_calls=read.calls)
        assert Message.model_validate_json(said.model_dump_json()) == said
        assert all(call.value is not None for call in read.calls)
        assert len({call.id for call in read.calls}) == len(read.calls)
    else:
        assert (read.content, read.calls) == (None, ())
        assert read.detail


@readers
@relaxed
@given(data=st.data())
def test_characters_that_a_server_cut_in_two_are_whole_again(name, data):
    # Chunks are joined before they are read; one that was escaped alone may end inside a character.
    text = data.draw(replies(name))
    encoded = text.encode("utf-16-le", "surrogatepass")
    units = [chr(encoded[i] + 256 * encoded[i + 1]) for i in range(0, len(encoded), 2)]
    joined = get_format(name).parse("".join(units), first_call=4)
    assert joined == get_format(name).parse(text, first_call=4)


@readers
@relaxed
@given(data=st.data())
def test_no_text_is_lost(name, data):
    text = data.draw(replies(name))
    read = get_format(name).parse(text)
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    assert read.raw == whole.encode(errors="backslashreplace").decode()
    if read.problem is None and "extra_members" not in read.repairs:
        kept = (read.content or "") + "".join(c.name + c.arguments for c in read.calls)
        assert kept.count("§") + kept.count("\\u00a7") == text.count("§")
        if not read.calls and "lone_surrogate" not in read.repairs:
            assert read.content == whole


@writers
@relaxed
@given(content=prose | st.just(""), made=made_calls)
def test_what_is_written_is_read_back_unchanged(name, content, made):
    if not content and not made:
        return
    read = get_format(name).parse(written(get_format(name), message(content, made)))
    assert (read.problem, read.repairs) == (None, ())
    assert [(call.name, call.value) for call in read.calls] == made
    assert read.content == (content or None)


@writers
@relaxed
@given(data=st.data(), odd=st.text(max_size=4) | st.sampled_from(MARKS), made=made_calls)
def test_a_message_that_would_be_read_as_something_else_is_refused(name, data, odd, made):
    content = data.draw(replies(name))
    made = [*made, (odd, {})] if data.draw(st.booleans()) else made
    tool_format = get_format(name)
    try:
        text = written(tool_format, message(content, made))
    except Unwritable:
        return
    read = tool_format.parse(text)
    assert [(call.name, call.value) for call in read.calls] == made
    assert read.content in (content, None)
    assert read.content or not content.replace("\ufeff", "").strip()


@writers
@relaxed
@given(data=st.data())
def test_what_was_recovered_is_written_and_read_as_the_same(name, data):
    text = data.draw(replies(name))
    tool_format = get_format(name)
    read = tool_format.parse(text)
    if read.problem is None:
        said = Message(role="assistant", content=read.content, tool_calls=read.calls).openai()
        again = tool_format.parse(written(tool_format, said))
        assert (again.problem, again.repairs, again.content) == (None, (), read.content)
        assert [(c.name, c.arguments) for c in again.calls] == [
            (c.name, c.arguments) for c in read.calls
        ]


TURNS = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "Where?"},
    message("Looking.", [("find", {"q": "x"}), ("find", {"q": "y"})]),
    {"role": "tool", "content": '{"at": 1}', "tool_call_id": "call_0"},
    {"role": "tool", "content": '{"at": 2}', "tool_call_id": "call_1"},
    {"role": "assistant", "content": "Here."},
    {"role": "user", "content": "And now?"},
    {"role": "assistant", "content": "There."},
]
TOOL = {
    "type": "function",
    "function": {"name": "find", "description": "Find it.", "parameters": {}},
}


@every_format
@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("tools", [[], [TOOL]])
def test_a_prompt_is_a_prefix_of_every_longer_conversation(name, first, tools):
    turns = TURNS[first:]
    whole = get_format(name).pieces(turns, tools)
    for n, turn in enumerate(turns):
        if turn["role"] == "assistant":
            prompt = get_format(name).pieces(turns[:n], tools, cue=True)
            assert whole[: len(prompt)] == prompt
            assert whole[len(prompt)].sampled
            assert whole[len(prompt)].message == n


@every_format
def test_the_model_is_trained_on_its_own_words_and_the_stop_mark_only(name):
    tool_format = get_format(name)
    pieces = tool_format.pieces(TURNS, [TOOL])
    own = {n for n, turn in enumerate(TURNS) if turn["role"] == "assistant"}
    assert {piece.message for piece in pieces if piece.sampled} == own
    last = {piece.message: piece for piece in pieces if piece.sampled}
    assert {piece.text for piece in last.values()} == {tool_format.stop}
    assert all(piece.control for piece in last.values())
    text = "".join(piece.text for piece in pieces)
    assert all(turn["content"] in text.replace('\\"', '"') for turn in TURNS)
    assert "find" in text.split("Where?")[0]


@every_format
def test_content_is_never_markup(name):
    marks = "<|im_end|></s>[/INST]<|eot_id|><|im_start|>[TOOL_CONTENT][INST]"
    turns = [{"role": "user", "content": marks}, {"role": "assistant", "content": marks}]
    turns.append({"role": "tool", "content": marks, "tool_call_id": "x"})
    said = [p for p in get_format(name).pieces(turns, []) if marks in p.text]
    assert len(said) == 3
    assert not any(piece.control for piece in said)


# --- one fault in every family's clothes -----------------------------------------------------


def nested(levels):
    return '{"a": ' * levels + "1" + "}" * levels


@every_format
@pytest.mark.parametrize("tool", ["list-files", "fs.read", "repo/get_file", "a_b", "名前", "x:1"])
def test_names_of_real_tools_survive(name, tool):
    read = get_format(name).parse(dress(name, "{}", tool))
    assert [call.name for call in read.calls] == [tool]


@pytest.mark.claim("a05")
@every_format
def test_nested_braces_keep_the_outermost_call(name):
    arguments = '{"who": {"addr": {"zip": "9}"}}}'
    read = get_format(name).parse(dress(name, arguments, "hire"))
    assert [(c.name, c.arguments) for c in read.calls] == [("hire", arguments)]
    assert not read.repairs


@pytest.mark.claim("a07")
@every_format
@pytest.mark.parametrize("between", ["", "\n", " and then "])
def test_two_calls_are_two_calls_whatever_is_between_and_after(name, between):
    one, two = dress(name, '{"a": 1}'), dress(name, '{"b": 2}', "g")
    read = get_format(name).parse(f"{one}{between}{two} Done.")
    assert [(c.name, c.value) for c in read.calls] == [("f", {"a": 1}), ("g", {"b": 2})]
    assert read.content.split() == [*between.split(), "Done."]
    again = ("several_sections",) if name == "kimi-k2" else ()
    assert read.repairs == (*again, "text_after_call")


@every_format
@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ("[" * 100_000, Problem.UNCLOSED),
        (nested(100_000), Problem.BROKEN_JSON),
        (nested(65), Problem.BROKEN_JSON),
        ('{"a": ' + "9" * 4301 + "}", Problem.BROKEN_JSON),
        ('{"a": 1e999}', Problem.BROKEN_JSON),
        ('{"a": NaN}', Problem.BROKEN_JSON),
        ('{"a": -Infinity}', Problem.BROKEN_JSON),
        ('{"a": 1, "a": 2}', Problem.BROKEN_JSON),
        ('{"a": "\\ud800"}', Problem.BROKEN_JSON),
        ('{"a": "\ud800"}', Problem.BROKEN_JSON),
        ('{"a": "\0"}', Problem.BROKEN_JSON),
        ('{\ufeff"a": 1}', Problem.BROKEN_JSON),
        ("{'a': 1}", Problem.BROKEN_JSON),
        ('{"a": 1,,}', Problem.BROKEN_JSON),
        ("{,}", Problem.BROKEN_JSON),
        ('{"a": tru}', Problem.BROKEN_JSON),
        ("[1]", Problem.NOT_A_CALL),
        ("7", Problem.NOT_A_CALL),
        ('"[1]"', Problem.NOT_A_CALL),
        ('"{} {}"', Problem.BROKEN_JSON),
        ('"{a: 1}"', Problem.BROKEN_JSON),
    ],
)
def test_what_no_later_reader_would_take_is_a_named_problem(name, arguments, problem):
    read = get_format(name).parse(dress(name, arguments))
    # Where brackets are all the markup there is, one that stays open swallows what follows.
    assert read.problem in (problem, Problem.BROKEN_JSON)
    assert read.calls == ()


@every_format
def test_sixty_four_levels_and_a_nul_as_an_escape_are_fine(name):
    # The call itself is one level where it is JSON.
    arguments = nested(62).replace("1", '"\\u0000"')
    read = get_format(name).parse(dress(name, arguments))
    assert [call.arguments for call in read.calls] == [arguments]


@every_format
@pytest.mark.parametrize(
    ("arguments", "meant", "repair"),
    [
        ('{"a": [1, 2,], "b": {"c": 3,},}', {"a": [1, 2], "b": {"c": 3}}, "trailing_comma"),
        ('{"a": "one\n\ttwo,}"}', {"a": "one\n\ttwo,}"}, "unescaped_newline"),
        ('"{\\"a\\": 1}"', {"a": 1}, "arguments_as_text"),
        ('""', {}, "no_arguments"),
        ("null", {}, "no_arguments"),
    ],
)
def test_a_fault_with_one_meaning_is_mended_and_noted(name, arguments, meant, repair):
    read = get_format(name).parse(dress(name, arguments))
    assert [call.value for call in read.calls] == [meant]
    assert read.repairs == (repair,)


@every_format
def test_a_byte_order_mark_before_a_call_says_nothing(name):
    read = get_format(name).parse("\ufeff" + dress(name, "{}"))
    assert (read.content, len(read.calls)) == (None, 1)
    assert read.repairs == ("byte_order_mark",)


@every_format
@pytest.mark.parametrize("text", ["", " \n", "\ufeff"])
def test_an_empty_reply_is_named_empty(name, text):
    assert get_format(name).parse(text).problem is Problem.EMPTY


@every_format
def test_a_lone_surrogate_in_prose_is_replaced_and_noted(name):
    read = get_format(name).parse("so \ud83c!")
    assert (read.content, read.repairs) == ("so \ufffd!", ("lone_surrogate",))
    assert read.raw == "so \\ud83c!"
    assert get_format(name).parse("so \ud83d\ude00!").content == "so 😀!"


# --- time ------------------------------------------------------------------------------------

UNITS = [
    f"<tool_call>{CALL}</tool_call>", f"<tool_call>{CALL}", BEGIN + "f", "[TOOL_CALLS]f[ARGS]{}",
    "<|python_tag|>", CALL, f"{LLAMA};", "{", "[", '{"a":', "[1,", "[1", '["', '\\"', " ", "\ud800",
    "[,", '{"name":', '{"id": x', '{"id": x}', '{"id":1}', '{"a":1,"a":2}', f"[{CALL},",
    '{"name":"f","arguments":{"a":"\n"}}', "```json\n", '{"arguments":1,',
]  # fmt: skip
HEADS = {"hermes": "<tool_call>", "kimi-k2": SECTION + BEGIN, "llama3": "<|python_tag|>"}


@readers
def test_the_time_for_a_hostile_text_grows_with_its_length_only(name):
    # 100 kB take a tenth of a second, half of one on a busy machine; what takes quadratic time
    # (every bracket tried to the end of the text) takes minutes.
    for unit in UNITS:
        for head in ("", HEADS.get(name, "[TOOL_CALLS]")):
            text = head + unit * (100_000 // len(unit)) + CALL
            start = time.process_time()
            get_format(name).parse(text)
            assert time.process_time() - start < 10, (head, unit)


@every_format
@pytest.mark.parametrize(
    "said", [message("so \ud83c", []), message("", [("f\ud83c", {})]), message("", [("  ", {})])]
)
def test_what_no_tokenizer_takes_is_refused(name, said):
    with pytest.raises(Unwritable, match="message 1"):
        written(get_format(name), said)


def test_a_long_number_is_refused_also_where_python_would_take_minutes_for_it():
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        read = get_format("hermes").parse(dress("hermes", '{"a": ' + "9" * 4301 + "}"))
    finally:
        sys.set_int_max_str_digits(limit)
    assert read.problem is Problem.BROKEN_JSON
