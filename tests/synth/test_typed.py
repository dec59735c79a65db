"""What a person types as the agent: a call, words, a wish, or one line that says what is wrong."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synth.core.errors import BadInput
from synth.core.types import Provenance, ToolSpec
from synth.typed import WISHES, Call, Say, Wish, read, signature


def tool(name, required=(), **properties):
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }
    return ToolSpec(
        name=name, description="", parameters=parameters, provenance=Provenance(source="test")
    )


TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
TOOLS = {
    spec.name: spec
    for spec in (
        tool("find_guest", ["email"], email=TEXT),
        tool(
            "book_rooms",
            ["rooms"],
            rooms={"type": "array"},
            nights=NUMBER,
            late={"type": "boolean"},
            note=TEXT,
            rate={"type": ["number", "null"]},
            status={"type": "string", "enum": ["open", "paid"]},
            free={},
        ),
        tool("search", [], title=TEXT),
    )
}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("find_guest email=ann@x.org", Call("find_guest", {"email": "ann@x.org"})),
        ("  find_guest   email=5 ", Call("find_guest", {"email": "5"})),
        ("find_guest email=O'Brien", Call("find_guest", {"email": "O'Brien"})),
        ("find_guest email=", Call("find_guest", {"email": ""})),
        ("find_guest email=a=b", Call("find_guest", {"email": "a=b"})),
        ('find_guest email="a \\"b\\" c"', Call("find_guest", {"email": 'a "b" c'})),
        ("find_guest email='a \"b\" c'", Call("find_guest", {"email": 'a "b" c'})),
        ('find_guest {"email": "x"}', Call("find_guest", {"email": "x"})),
        (
            '{"name": "find_guest", "arguments": {"email": "x"}}',
            Call("find_guest", {"email": "x"}),
        ),
        ('{"name": "search"}', Call("search", {})),
        (
            'book_rooms rooms=["1", 2] nights=3 late=true rate=null free=x note="two words"',
            Call(
                "book_rooms",
                {
                    "rooms": ["1", 2], "nights": 3, "late": True, "rate": None, "free": "x",
                    "note": "two words",
                },
            ),
        ),
        ("book_rooms rooms=[] rate=1.5", Call("book_rooms", {"rooms": [], "rate": 1.5})),
        ("search", Call("search", {})),
        ("search title=x", Call("search", {"title": "x"})),
        ("search for me", Say("search for me")),
        ("Which booking do you mean?", Say("Which booking do you mean?")),
        ("hello", Say("hello")),
        ("It is done: B7=ok", Say("It is done: B7=ok")),
        ("5 EUR", Say("5 EUR")),
        ("find_guest, please", Say("find_guest, please")),
        ("/say find_guest email=x", Say("find_guest email=x")),
        ("/tools", Wish("tools")),
        ("/tools  search ", Wish("tools", "search")),
    ],
)  # fmt: skip
def test_a_line_means_one_thing(line, expected):
    assert read(line, TOOLS) == expected


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("find_guset email=x", "did you mean find_guest"),
        ("find_gust", "did you mean find_guest"),
        ("no_such_thing", "/tools lists them"),
        ('{"name": "finder", "arguments": {}}', "there is no tool 'finder'"),
        ("find_guest", "find_guest needs email (find_guest email=text)"),
        ("find_guest {}", "needs email"),
        ("find_guest ann@x.org", "'ann@x.org' is no key=value (find_guest email=text)"),
        ("find_guest mail=x", "no parameter 'mail'"),
        ('find_guest {"mail": 1}', "no parameter 'mail'"),
        ('find_guest {"email"', "no JSON"),
        ('find_guest email="x', "the value does not end"),
        ('find_guest email="x"y=z', "is no key=value"),
        ("find_guest email=x email=y", "email is given twice"),
        ("book_rooms rooms=[1 nights=2", "rooms: no JSON"),
        ("book_rooms rooms=x", "rooms takes [...], not 'x'"),
        ("book_rooms rooms=[] nights=two", "nights takes integer, not 'two'"),
        ("book_rooms rooms=[NaN]", "rooms: no JSON"),
        ('find_guest email="\\ud800"', "a value cannot be sent"),
        ("book_rooms rooms=" + "[" * 100_000, "rooms: no JSON"),
        ("{", "no JSON"),
        ('{"x": 1}', "this JSON is no call"),
        ('{"name": "search", "arguments": []}', "this JSON is no call"),
        ("/polcy", "did you mean /policy"),
        ("/xyz", "known: /help"),
        ("/say", "/say TEXT"),
    ],
)
def test_what_is_wrong_is_told_with_what_would_be_right(line, says):
    with pytest.raises(BadInput) as caught:
        read(line, TOOLS)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_tool_is_described_as_it_is_typed():
    assert signature(TOOLS["book_rooms"]) == (
        "book_rooms rooms=[...] [nights=integer] [late=boolean] [note=text] [rate=number|null] "
        "[status=open|paid] [free=JSON]"
    )


@given(st.text(max_size=40) | st.sampled_from(["find_guest ", "book_rooms rooms=", "{", "/"]))
def test_any_line_is_read_or_refused(line):
    try:
        typed = read(line, TOOLS)
    except BadInput:
        return
    if isinstance(typed, Say):
        assert typed.text in line
    elif isinstance(typed, Wish):
        assert typed.name in WISHES
    else:
        assert typed.name in TOOLS


VALUES = {
    "rooms": st.lists(st.text(max_size=5) | st.integers(), max_size=3),
    "note": st.text(max_size=20),
    "nights": st.integers(),
    "late": st.booleans(),
}


@given(st.fixed_dictionaries({"rooms": VALUES.pop("rooms")}, optional=VALUES))
def test_every_call_can_be_typed_in_each_of_the_three_forms(arguments):
    call = Call("book_rooms", arguments)
    text = json.dumps(arguments)
    pairs = " ".join(f"{key}={json.dumps(value)}" for key, value in arguments.items())
    assert read(f"book_rooms {text}", TOOLS) == call
    assert read(f'{{"name": "book_rooms", "arguments": {text}}}', TOOLS) == call
    assert read(f"book_rooms {pairs}", TOOLS) == call
