"""What the dataset card says of variety and licences is counted right."""

import orjson

from synth.core.types import Effect, Provenance, ToolSpec
from synth.variety import licences, variety


def row(application, said, *calls, shown=("find", "book")):
    called = [{"function": {"name": name}} for name in calls]
    tools = [{"function": {"name": name}} for name in shown]
    messages = [
        {"role": "user", "content": said},
        {"role": "assistant", "content": "Nothing of this is counted here.", "tool_calls": called},
    ]
    return {"application": application, "messages": messages, "tools": orjson.dumps(tools).decode()}


def test_sequences_differ_by_order_and_application_and_words_by_four():
    rows = [
        row("inn", "I want a room now", "find", "book"),
        row("inn", "i WANT a room", "find", "book"),
        row("inn", "two words", "book", "find"),
        row("ship", "", "find", "book"),
        row("ship", ""),
    ]
    # "i want a room" twice and "want a room now" once: three runs of four words, two different.
    assert variety(rows) == {"sequences": 4, "distinct": 2, "grams": 3}


def test_a_licence_counts_the_tools_shown_once_and_says_where_none_is_declared():
    def tool(name, licence):
        source = Provenance(source="x", licence=licence)
        return ToolSpec(
            name=name,
            description=name,
            parameters={"type": "object"},
            effect=Effect.READ,
            provenance=source,
        )

    tools = {
        "inn": {"find": tool("find", "MIT"), "book": tool("book", None), "off": tool("off", "GPL")},
        "ship": {"find": tool("find", "MIT")},
    }
    rows = [row("inn", ""), row("inn", ""), row("ship", "", shown=("find",))]
    assert licences(rows, tools) == {"MIT": 2, "not declared": 1}
