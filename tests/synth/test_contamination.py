"""What a benchmark asks is found in a dataset, with its place; what everybody says is not."""

import json
import subprocess
import sys

import pytest

from synth.benchmarks import read_benchmark
from synth.contamination import Item, call_of, find
from synth.core.errors import BadInput, BadRow

ASKED = (
    "You received your parcel last week and now wish to swap the blue kettle in it for the steel "
    "one with the longer cord"
)


def row(name, said="Hello there, what is new?", calls=(), tools=()):
    made = [
        {"id": f"c{n}", "type": "function",
         "function": {"name": tool, "arguments": json.dumps(arguments)}}
        for n, (tool, arguments) in enumerate(calls)
    ]  # fmt: skip
    return {
        "id": name,
        "messages": [
            {"role": "system", "content": ASKED},  # what users say is compared, and no prompt
            {"role": "user", "content": said},
            {"role": "assistant", "content": "", "tool_calls": made},
        ],
        "tools": json.dumps([{"type": "function", "function": {"name": tool}} for tool in tools]),
    }


def others(count=40):
    """Return rows that say much the same, as rows of one dataset do."""
    return [
        row(f"other{n}", f"Hi, I would like to know what the state of my order number {n} is now.")
        for n in range(count)
    ]


def kinds(hits):
    return [(hit.row, hit.item, hit.kind) for hit in hits]


def test_a_text_of_a_benchmark_is_found_whatever_stands_around_it():
    item = Item("b#1", prompts=(ASKED,))
    hits = find([*others(), row("mine", f"Well, look: {ASKED.upper()}! Can you?")], [item])
    assert kinds(hits) == [("mine", "b#1", "prompt")]
    assert hits[0].score == 1.0
    assert hits[0].span == ASKED.casefold()


def test_half_of_a_text_is_a_hit_and_a_few_words_are_none():
    item = Item("b#1", prompts=(ASKED,))
    words = ASKED.split()
    assert kinds(find([row("a", " ".join(words[:17]))], [item])) == [("a", "b#1", "prompt")]
    assert find([row("a", " ".join(words[:9]))], [item]) == []


def test_a_short_text_is_found_as_a_whole_only():
    item = Item("b#1", prompts=("Find the largest prime factor",))
    assert kinds(find([row("a", "Please find the largest prime factor of 12.")], [item]))
    assert find([row("a", "Please find the largest prime number.")], [item]) == []
    assert find([row("a", "What is it?")], [Item("b#2", prompts=("What is it?",))]) == []


def test_what_many_rows_say_tells_nothing():
    said = "Hi, I would like to know what the state of my order number"
    item = Item("b#1", prompts=(said,))
    assert find(others(), [item]) == []
    assert len(find(others(1), [item])) == 1


def test_words_that_all_items_share_count_less_than_their_own():
    shared = "can you provide me with a list of all the things that"
    beasts = ("zebra", "quagga", "okapi", "eland", "kudu", "gnu", "oryx", "addax")
    own = [" ".join(f"{beast}{n}" for beast in beasts) for n in range(50)]
    items = [Item(f"b#{n}", prompts=(f"{shared} {words}",)) for n, words in enumerate(own)]
    assert find([row("a", f"{shared} trains carry")], items) == []
    said = f"of all the things that {own[7]}"
    assert kinds(find([row("a", said)], items)) == [("a", "b#7", "prompt")]


def test_identifiers_are_found_unless_they_are_everywhere():
    item = Item("b#1", values=frozenset({"#W2378156", "credit_card_9513926"}))
    hits = find([*others(), row("mine", calls=[("show", {"order": ["#W2378156"]})])], [item])
    assert [(hit.row, hit.kind, hit.span) for hit in hits] == [("mine", "value", "#W2378156")]
    every = [row(f"r{n}", calls=[("show", {"order": "#W2378156"})]) for n in range(30)]
    assert find(every, [item]) == []


def test_toolsets_are_found_by_names_that_say_something():
    telling = Item("b#1", tools=frozenset({"exchange_delivered_items", "cancel_pending_order"}))
    usual = Item("b#2", tools=frozenset({"get_order", "get_user", "calculate"}))
    both = [row("a", tools=["exchange_delivered_items", "cancel_pending_order", "get_order",
                            "get_user", "calculate"])]  # fmt: skip
    assert kinds(find(both, [telling, usual])) == [("a", "b#1", "tools")]


def test_calls_of_a_solution_are_found_in_their_order():
    first, second = ("find_user", {"name": "Yu", "zip": "19122"}), ("swap", {"a": "1", "b": "2"})
    item = Item("b#1", calls=(call_of(*first), call_of(*second)))
    hits = find([row("a", calls=[("look", {}), first, ("look", {}), second])], [item])
    assert [(hit.kind, hit.score) for hit in hits] == [("calls", 1.0)]
    assert find([row("a", calls=[second, ("look", {})])], [item])[0].score == 0.5
    assert find([row("a", calls=[("swap", {"a": "1", "b": "3"})])], [item]) == []


# --- benchmarks ------------------------------------------------------------------------------


def write(path, value, lines=False):
    text = "\n".join(map(json.dumps, value)) if lines else json.dumps(value)
    path.write_text(text)
    return str(path)


def test_shapes_of_benchmarks_are_known(tmp_path):
    tau2 = {"id": "7", "user_scenario": {"instructions": {"reason_for_call": ASKED, "x": "short"}},
            "evaluation_criteria": {"actions": [
                {"name": "swap", "arguments": {"order_id": "#W2378156", "n": 1}}]}}  # fmt: skip
    (item,) = read_benchmark(write(tmp_path / "tasks.json", [tau2]))
    assert item.source == "tasks.json#7"
    assert item.prompts == (ASKED,)
    assert item.values == {"#W2378156"}
    assert item.calls == (call_of("swap", {"n": 1, "order_id": "#W2378156"}),)
    bfcl = {"id": "p_0", "question": [[{"role": "user", "content": ASKED}]],
            "function": [{"name": "spotify.play"}]}  # fmt: skip
    truth = {"id": "p_0", "ground_truth": [{"spotify.play": {"artist": ["A", "B"], "n": [2, ""],
                                                            "unset": [""]}}]}  # fmt: skip
    asked, answer = read_benchmark(write(tmp_path / "b.json", [bfcl, truth], lines=True))
    assert (asked.prompts, asked.tools) == ((ASKED,), {"spotify.play"})
    assert answer.calls == (call_of("spotify.play", {"artist": "A", "n": 2}),)
    (rows,) = read_benchmark(write(tmp_path / "r.jsonl", [row("a", ASKED)], lines=True))
    assert rows.prompts == (ASKED,)
    (other,) = read_benchmark(write(tmp_path / "o.json", {"deep": [{"text": ASKED}, 3, None]}))
    assert other.prompts == (ASKED,)
    assert len(list(read_benchmark(str(tmp_path)))) == 5


def test_what_is_no_benchmark_is_one_clear_line(tmp_path):
    (tmp_path / "bad.json").write_text("{nonsense")
    for where, told in (
        (str(tmp_path / "bad.json"), "neither JSON nor JSON Lines"),
        (str(tmp_path / "none.json"), "no such file"),
    ):
        with pytest.raises(BadInput) as caught:
            list(read_benchmark(where))
        assert told in str(caught.value)
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadRow):
        list(read_benchmark(str(tmp_path / "empty")))


def test_the_command_names_row_item_and_words(tmp_path):
    mine = write(tmp_path / "mine.jsonl", [row("good"), row("bad", ASKED)], lines=True)
    bench = write(tmp_path / "bench.json", [{"id": "q1", "text": ASKED}])
    command = [sys.executable, "-m", "synth", "contamination", mine, "--against", bench]
    told = json.loads(subprocess.check_output([*command, "--json"], timeout=120))
    assert (told["rows"], told["contaminated"], told["by_kind"]) == (2, 1, {"prompt": 1})
    assert told["hits"][0]["row"] == "bad"
    assert told["hits"][0]["item"] == "bench.json#q1"
    nothing = subprocess.run(command[:-2], capture_output=True, text=True, timeout=120, check=False)
    assert nothing.returncode == 2
    assert "against what?" in nothing.stderr
