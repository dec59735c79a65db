"""Prompts and answers of the embedded model, without a model."""

import asyncio
import json

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulators.users.model import STOP, ModelUser
from synth.core.errors import BadInput, ModelFailed
from synth.core.llm.local import calibrate, probability_of_yes, weak_note, weak_players, weakness
from synth.core.llm.local.agent import (
    agent_turns,
    answer_schema,
    read_answer,
    respond_name,
    stuck,
)
from synth.core.llm.local.script import read_line, script_prompt
from synth.core.llm.scripted import ScriptedLLM
from synth.core.protocols import ChatRequest, Reply, UserView
from synth.core.types import Message, Persona, ToolCall, Usage


def tool(name, properties=None, required=(), description="Does something."):
    parameters = {"type": "object", "properties": properties or {}, "required": list(required)}
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


FREEZE = tool(
    "freeze_card",
    {
        "card": {"type": "string", "description": "number of\n the card"},
        "reason": {"enum": ["lost", "stolen"]},
        "days": {"type": "array", "items": {"type": "integer"}},
    },
    ["card", "reason"],
)
BALANCE = tool("get_balance", {"account": {"type": "string"}}, ["account"])
ARGUMENTS = st.dictionaries(
    st.text(max_size=5),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=9),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    ),
    max_size=4,
)


def answer(name, arguments):
    return json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)


@given(st.text(min_size=1, max_size=20), ARGUMENTS, st.booleans())
def test_a_written_call_is_read_back_with_the_exact_text_of_its_arguments(name, arguments, ascii):
    said = json.dumps(arguments, ensure_ascii=ascii, indent=1)
    text = f' {{"name": {json.dumps(name)},\n "arguments": {said} }}\n'
    message, finish = read_answer(text, "stop", respond=f"{name}_")
    assert finish == "tool_calls"
    assert message.tool_calls == (ToolCall(id="call_0", name=name, arguments=said),)


@given(st.text(max_size=60) | st.text('{}[]",:namearguments 1', max_size=60))
def test_what_is_no_answer_is_kept_as_text_under_its_own_name(text):
    message, finish = read_answer(text, "stop", "respond")
    assert finish == "unreadable"
    assert message.content == text
    assert not message.tool_calls


def test_words_come_as_words_and_a_cut_answer_is_neither_said_nor_done():
    whole = answer("respond", {"message": "It is 12.50 €."})
    assert read_answer(whole, "stop", "respond")[0].content == "It is 12.50 €."
    for end in range(len(whole)):
        message, finish = read_answer(whole[:end], "length", "respond")
        assert (finish, message.content, message.tool_calls) == ("length", whole[:end], ())
        assert read_answer(whole[:end], "stop", "respond")[1] == "unreadable"


@pytest.mark.parametrize(
    "text",
    [
        answer("respond", {"message": 7}),
        answer("respond", {}),
        '{"name": "a", "arguments": [1]}',
        '{"name": "a", "arguments": {}} and more',
        '{"name": "\\ud83", "arguments": {}}',
        '{"name": "a", "arguments": ' + '{"a":' * 100_000,
    ],
)
def test_answers_of_the_wrong_shape_are_unreadable(text):
    assert read_answer(text, "stop", "respond")[1] == "unreadable"


def test_the_schema_takes_calls_of_the_tools_and_words_and_nothing_else():
    takes = jsonschema_rs.validator_for(answer_schema([FREEZE, BALANCE], "respond")).is_valid
    assert takes({"name": "get_balance", "arguments": {"account": "A"}})
    assert takes({"name": "freeze_card", "arguments": {"card": "C", "reason": "lost"}})
    assert takes({"name": "respond", "arguments": {"message": "Hello"}})
    assert not takes({"name": "respond", "arguments": {"message": ""}})
    assert not takes({"name": "get_balance", "arguments": {"card": "C", "reason": "lost"}})
    assert not takes({"name": "freeze_card", "arguments": {"card": "C", "reason": "bored"}})
    assert not takes({"name": "other", "arguments": {}})


def test_a_tool_called_respond_keeps_its_name():
    tools = [tool("respond", {"ticket": {"type": "integer"}}, ["ticket"])]
    assert respond_name(tools) == "respond_to_user"
    takes = jsonschema_rs.validator_for(answer_schema(tools, respond_name(tools))).is_valid
    assert takes({"name": "respond", "arguments": {"ticket": 3}})
    assert takes({"name": "respond_to_user", "arguments": {"message": "Hi"}})
    turns = agent_turns([{"role": "assistant", "content": "Hi"}], tools)
    assert turns[-1]["content"] == '{"name": "respond_to_user", "arguments": {"message": "Hi"}}'


def test_a_call_made_twice_alike_is_not_offered_a_third_time_until_the_customer_speaks():
    def called(*arguments):
        calls = [ToolCall(id="c", name="freeze", arguments=text) for text in arguments]
        return Message(role="assistant", tool_calls=tuple(calls)).openai()

    failed = {"role": "tool", "tool_call_id": "c", "content": "not found"}
    asked = {"role": "user", "content": "Freeze my card."}
    once = [asked, called('{"card": 1}'), failed, called('{"card": 2}'), failed]
    assert stuck(once) == set()
    assert stuck([*once, called('{"card": 1}'), failed]) == {"freeze"}
    assert stuck([*once, called('{"card": 1}'), failed, asked]) == set()


def test_tools_beyond_the_bound_take_any_arguments():
    wide = {f"p{i}": {"type": "integer"} for i in range(40)}
    schema = answer_schema([tool(f"t{i}", wide) for i in range(300)], "respond")
    assert len(json.dumps(schema)) < 200_000
    last = schema["anyOf"][-2]["properties"]
    assert last["name"] == {"enum": ["t299"]}
    assert "properties" not in last["arguments"]


def test_the_conversation_is_told_as_the_answers_it_was_made_of():
    asked = ToolCall(id="c1", name="get_balance", arguments='{"account":"ACC-7"}')
    turns = agent_turns(
        [
            {"role": "system", "content": "You work at a bank."},
            {"role": "user", "content": "Balance of ACC-7?"},
            Message(role="assistant", tool_calls=(asked,)).openai(),
            {"role": "tool", "tool_call_id": "c1", "content": '{"balance": 3}'},
            {"role": "assistant", "content": "3 €"},
            {"role": "user", "content": "Thanks."},
        ],
        [FREEZE, BALANCE],
    )
    assert [turn["role"] for turn in turns] == [
        "system", "user", "assistant", "user", "assistant", "user"
    ]  # fmt: skip
    assert turns[0]["content"].startswith("You work at a bank.\n")
    assert '  reason ("lost" or "stolen")\n' in turns[0]["content"]
    assert "  card (string): number of the card\n" in turns[0]["content"]
    assert "  days (list of integer, optional)\n" in turns[0]["content"]
    assert turns[2]["content"] == '{"name": "get_balance", "arguments": {"account":"ACC-7"}}'
    assert turns[3]["content"] == 'Result of get_balance: {"balance": 3}'
    assert turns[4]["content"] == '{"name": "respond", "arguments": {"message": "3 €"}}'


def test_two_results_are_one_turn_because_templates_want_roles_to_alternate():
    turns = agent_turns(
        [{"role": "tool", "tool_call_id": str(n), "content": str(n)} for n in (1, 2)], [BALANCE]
    )
    assert [turn["role"] for turn in turns] == ["system", "user"]
    assert turns[1]["content"] == "Result of the call: 1\nResult of the call: 2"


# --- the user --------------------------------------------------------------------------------


def test_a_script_ends_where_the_customers_next_line_begins():
    prompt = script_prompt(
        [
            {"role": "system", "content": "You are Ann. You want your balance."},
            {"role": "user", "content": "(You write first.)"},
            {"role": "assistant", "content": "Hi,\nI am Ann."},
            {"role": "user", "content": "How can I\n\nhelp?"},
        ]
    )
    assert prompt.endswith(
        "\nAgent: (You write first.)\nCustomer: Hi, I am Ann.\nAgent: How can I help?\nCustomer:"
    )
    assert "You are Ann. You want your balance." in prompt


def test_the_example_in_the_script_ends_as_model_users_end():
    assert f" {STOP}\n" in script_prompt([])


def test_the_example_in_the_script_was_told_what_model_users_are_told():
    """In other words than the customer's, the example is copied instead of followed (measured)."""
    llm = ScriptedLLM(["Hello"])
    persona = Persona(name="Dana Fox", voice="plain")
    view = UserView(persona, ("move my visit to 4 May",), (), [])
    asyncio.run(ModelUser(llm).turn(view))
    system, first = (message["content"] for message in llm.requests[0].messages)
    script = script_prompt([])
    told = system.partition("Rules:")[0].partition("What you know:")[0].splitlines()
    assert [line for line in told if line not in script.splitlines()] == []
    assert f"\nAgent: {first}\n" in script


@pytest.mark.parametrize(
    ("made", "line"),
    [
        (" My number is 7.", "My number is 7."),
        (" Customer: Yes.\nAgent: Good.", "Yes."),
        ("\n", ""),
        (f" Bye. {STOP}", f"Bye. {STOP}"),
    ],
)
def test_a_line_of_the_script_is_one_line_without_a_name(made, line):
    assert read_line(made) == line


# --- the judge -------------------------------------------------------------------------------


def sure(**logprobs):
    message = Message(role="assistant", content="x")
    return ScriptedLLM([Reply(message, "length", "m", Usage(), logprobs=(logprobs,))], "m")


def probability(llm):
    request = ChatRequest([{"role": "user", "content": "Is it?"}])
    return asyncio.run(probability_of_yes(llm, request))


def test_yes_in_all_its_spellings_counts_against_no():
    tokens = {"Yes": -1.0, " yes": -2.0, "No": -1.5, "Maybe": -0.1}
    weights = {token: 2.718281828459045**value for token, value in tokens.items()}
    yes = weights["Yes"] + weights[" yes"]
    assert probability(sure(**tokens)) == pytest.approx(yes / (yes + weights["No"]))


def test_the_question_ends_with_the_request_for_one_word():
    llm = sure(Yes=-0.1)
    probability(llm)
    (request,) = llm.requests
    assert request.messages[-1]["content"] == "Is it?\nAnswer with one word, Yes or No."
    assert (request.sampler.max_tokens, request.sampler.temperature) == (1, 0.0)
    assert request.top_logprobs == 20


def test_an_answer_that_is_neither_is_a_failure_of_the_model():
    with pytest.raises(ModelFailed, match="neither yes nor no"):
        probability(sure(Perhaps=-0.01))
    with pytest.raises(ModelFailed, match="no log-probabilities"):
        probability(ScriptedLLM(["Yes"]))


def test_the_threshold_is_fitted_where_a_lenient_judge_parts_right_from_wrong():
    found = calibrate([(0.95, True), (0.8, True), (0.7, False), (0.6, False)])
    assert found.threshold == pytest.approx(0.75)
    assert (found.accuracy, found.yes, found.no) == (1.0, 2, 2)
    assert found.passes(0.76)
    assert not found.passes(0.74)


PAIRS = st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=2, max_size=30)


@given(PAIRS.filter(lambda pairs: len({label for _, label in pairs}) == 2))
def test_no_threshold_parts_the_examples_better_than_the_fitted_one(pairs):
    found = calibrate(pairs)

    def accuracy(threshold):
        right = {True: 0, False: 0}
        for probability, label in pairs:
            right[label] += (probability >= threshold) is label
        return (right[True] / found.yes + right[False] / found.no) / 2

    assert found.accuracy == pytest.approx(accuracy(found.threshold))
    tried = [0.0, 1.1, *(probability for probability, _ in pairs)]
    assert found.accuracy >= max(map(accuracy, tried)) - 1e-9


def test_a_threshold_needs_examples_of_both():
    with pytest.raises(BadInput, match="all yes or all no"):
        calibrate([(0.5, True)])


# --- what a weak model made ------------------------------------------------------------------


def test_a_weak_player_is_known_by_its_name_in_the_row():
    assert weakness(1_500_000_000) is None
    assert weakness(134_515_008) == "weak: 135M parameters"
    players = {
        "agent": "model:local:m/tools@1 (weak: 135M parameters) (temperature=0.6, top_p=1)",
        "user": "scripted/1",
        "judge": "model:openai:large (temperature=0)",
    }
    assert weak_players(players) == {"agent": "weak: 135M parameters"}


def test_a_card_tells_which_roles_weak_models_played_and_how_often():
    weak = {"agent": "model:local:m/tools@1 (weak: 135M parameters)", "user": "scripted/1"}
    strong = {"agent": "reference/1", "user": "scripted/1"}
    assert weak_note([strong]) == ""
    assert weak_note([weak, strong, weak]) == (
        "Weak models played in these 3 rows: agent of 2 (weak: 135M parameters)."
    )
