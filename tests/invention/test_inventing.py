"""Evolution by a model over HTTP: what is kept, what is dropped, and what a kill costs."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from synth.core import jsonl
from synth.core.config import Budget, ModelConfig, Models
from synth.core.errors import BudgetSpent, ModelFailed
from synth.core.llm.scripted import ScriptedLLM
from synth.core.protocols import Sampler
from synth.core.store import Workspace
from synth.pipeline.candidates import Field, Kept, kept_in, plan
from synth.pipeline.evolve import Goal, How, enter, evolve
from synth.pipeline.inventing import TOKENS, ask_for, examined
from tool_registry.invention.asking import WAYS, invent
from tool_registry.invention.form import Sketch

SEED, COUNT = 5, 12


def as_json(application):
    return application.model_dump_json(by_alias=True).encode()


def spoilt(replies, number, wish):
    """Return what the model says in turn for a candidate, and how that ends: the rule, or None."""
    if wish.parent is not None:
        tables = list(wish.parent.seed)
        return [replies.counting(tables[number % len(tables)])], None
    good = replies.other(number)
    own = {"category": f"field {'abcdefghijkl'[number]}"} if wish.way == "new_category" else {}
    bad = replies.with_sql("DELETE FROM sheds")
    ways = [
        ([good | own], None),
        ([bad | own, good | own], None),
        ([bad | own] * 3, "unsound"),
        (["I cannot help with that."] * 3, "form"),
        ([replies.with_words("The counter of a workshop that repairs bicycles.") | own] * 3,
         "copied_words"),
        ([replies.other(0) | own], "duplicate"),
    ]  # fmt: skip
    return ways[number % len(ways)]


@pytest.fixture(scope="module")
def rehearsed(replies, tmp_path_factory):
    """The conversations of the first candidates, as rows that the shipped endpoint repeats."""
    workspace = tmp_path_factory.mktemp("rehearsed")
    known = Field(workspace)
    known.open_to_all = True
    rows, ends = [], {}
    for candidate in plan(Kept(), known, SEED, 0)[:COUNT]:
        wish = ask_for(candidate, known.around(candidate, Kept())).wish
        said, ends[candidate.number] = spoilt(replies, candidate.number, wish)
        said = [one if isinstance(one, str) else json.dumps(one) for one in said]
        llm = ScriptedLLM(said)

        async def look(made, wish=wish):
            return examined(as_json(made), as_json(wish.parent) if wish.parent else None)

        asyncio.run(invent(llm, Sampler(), wish, look))
        last = {"role": "assistant", "content": said[len(llm.requests) - 1]}
        rows.append({"messages": [*llm.requests[-1].messages, last]})
    path = tmp_path_factory.mktemp("script") / "evolver.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path, ends


def how(url, **more):
    config = ModelConfig(model="mock", base_url=url, key_env=None, timeout_s=20)
    return How(processes=1, models=Models(evolver=config), **more)


class Enough:
    """Ends an evolution after so many candidates."""

    def __init__(self, workspace, count):
        self.folder, self.count = workspace / "evolved", count

    def __call__(self):
        return (self.folder / "applications.jsonl").exists() and done(self.folder) >= self.count


def done(folder):
    names = ("applications.jsonl", "eliminated.jsonl")
    return sum(
        (folder / name).read_bytes().count(b"\n") for name in names if (folder / name).exists()
    )


def rows_of(workspace):
    folder = workspace / "evolved"
    both = [*jsonl.read(folder / "applications.jsonl"), *jsonl.read(folder / "eliminated.jsonl")]
    return {row["number"]: row for row in both if row["number"] < COUNT}


@pytest.fixture(scope="module")
def invented(serving, rehearsed, tmp_path_factory):
    """A workspace that a model evolved over HTTP, and what the endpoint was asked."""
    workspace = tmp_path_factory.mktemp("invented")
    script, ends = rehearsed
    with serving(script=script) as mock:
        evolve(
            workspace, Goal(10_000), run_seed=SEED, how=how(mock.url, concurrency=1),
            ended=Enough(workspace, COUNT),
        )  # fmt: skip
        requests = mock.ledger.requests
    return workspace, ends, requests


@pytest.mark.claim("k2-evolution")
def test_each_candidate_ends_as_its_replies_deserve(invented):
    workspace, ends, _ = invented
    rows = rows_of(workspace)
    found = {number: row.get("rule") for number, row in rows.items()}
    assert found == ends
    assert {"unsound", "form", "copied_words", "duplicate", None} <= set(found.values())
    assert any(row["repaired"] for row in rows.values() if "document" in row)
    assert {row["steps"][0]["kind"] for row in rows.values()} > {"breadth"}


def test_the_plan_asks_for_new_applications_and_for_changes(tmp_path):
    known = Field(tmp_path)
    known.open_to_all = True
    plans = [c for seed in range(3) for c in plan(Kept(), known, seed, 0)]
    wishes = [ask_for(c, known.around(c, Kept())).wish for c in plans]
    assert {wish.way for wish in wishes} == set(WAYS)
    assert all((wish.parent is None) == (WAYS[wish.way].form is Sketch) for wish in wishes)
    assert all(set(wish.shown) <= set(wish.parent.tools) for wish in wishes if wish.parent)


def test_the_registry_says_which_model_and_prompt_made_a_tool(invented):
    workspace, _, _ = invented
    store = Workspace(workspace)
    enter(store)
    kept = [row for row in rows_of(workspace).values() if "document" in row]
    with store.read() as con:
        for row in kept:
            (found,) = con.execute(
                "SELECT operator, model, prompt, parents FROM ancestry WHERE application = ?",
                [row["application"]],
            ).fetchall()
            step = row["steps"][0]
            assert found[:3] == (step["operator"], "openai:mock", step["prompt"])
            assert list(found[3]) == [*row["parents"], *row["inspired"]]


def test_a_killed_evolution_goes_on_to_the_same_files(serving, invented, rehearsed, tmp_path):
    with serving(script=rehearsed[0], latency_s=0.1) as mock:
        command = [sys.executable, "-m", "synth", "--workspace", str(tmp_path), "evolve"]
        settings = {"model": "mock", "base_url": mock.url, "timeout_s": 20}
        options = ["--to", "10000", "--seed", str(SEED), "--processes", "1", "--concurrency", "1"]
        for key, value in settings.items():
            options += ["--set", f"models.evolver.{key}={value}"]
        process = subprocess.Popen(
            command + options, stderr=subprocess.DEVNULL, start_new_session=True
        )
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and not done(tmp_path / "evolved"):
            time.sleep(0.02)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        before = done(tmp_path / "evolved")
        assert 1 <= before < COUNT
        evolve(
            tmp_path, Goal(10_000), run_seed=SEED, how=how(mock.url, concurrency=1),
            ended=Enough(tmp_path, COUNT),
        )  # fmt: skip
        requests = mock.ledger.requests
    assert rows_of(tmp_path) == rows_of(invented[0])
    assert requests <= invented[2] + 1  # nothing twice but what was under way


def test_asking_for_several_at_once_gives_the_same_files(serving, invented, rehearsed, tmp_path):
    with serving(script=rehearsed[0]) as mock:
        evolve(
            tmp_path, Goal(10_000), run_seed=SEED, how=how(mock.url, concurrency=5),
            ended=Enough(tmp_path, COUNT),
        )  # fmt: skip
    assert rows_of(tmp_path) == rows_of(invented[0])


def test_an_outage_ends_it_and_it_goes_on(serving, invented, rehearsed, tmp_path):
    with serving(script=rehearsed[0]) as mock:
        evolve(
            tmp_path, Goal(10_000), run_seed=SEED, how=how(mock.url, concurrency=1),
            ended=Enough(tmp_path, 4),
        )  # fmt: skip
        url = mock.url
    before = done(tmp_path / "evolved")
    with pytest.raises(ModelFailed):
        evolve(tmp_path, Goal(10_000), run_seed=SEED, how=how(url, concurrency=1))
    assert done(tmp_path / "evolved") == before
    with serving(script=rehearsed[0]) as mock:
        evolve(
            tmp_path, Goal(10_000), run_seed=SEED, how=how(mock.url, concurrency=1),
            ended=Enough(tmp_path, COUNT),
        )  # fmt: skip
    assert rows_of(tmp_path) == rows_of(invented[0])


def test_a_budget_ends_it_and_counts_what_was_spent_before(serving, rehearsed, tmp_path):
    with serving(script=rehearsed[0]) as mock:
        limited = how(mock.url, concurrency=1, budget=Budget(requests=3))
        with pytest.raises(BudgetSpent):
            evolve(tmp_path, Goal(10_000), run_seed=SEED, how=limited)
        assert mock.ledger.requests == 3
        before = done(tmp_path / "evolved")
        with pytest.raises(BudgetSpent):
            evolve(tmp_path, Goal(10_000), run_seed=SEED, how=limited)
        assert mock.ledger.requests == 3
    assert done(tmp_path / "evolved") == before == 2
    assert kept_in(tmp_path / "evolved").done == 2


def test_a_whole_application_fits_into_a_reply_unless_the_user_says_otherwise(invented):
    rows = jsonl.read(invented[0] / "evolved" / "calls-0.jsonl")
    assert {row["asked"]["most"][1] for row in rows if "asked" in row} == {TOKENS}


@contextlib.contextmanager
def refusing(status, code):
    """Serve an endpoint that refuses every prompt."""

    class Refusing(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            body = json.dumps({"error": {"code": code, "message": f"refused: {code}"}}).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(20)


def test_a_prompt_that_is_filtered_costs_a_candidate_and_a_wrong_key_ends_it(tmp_path):
    with refusing(400, "content_filter") as url:
        evolve(
            tmp_path, Goal(10_000), run_seed=SEED, how=how(url, concurrency=1),
            ended=Enough(tmp_path, 2),
        )  # fmt: skip
    assert {row["rule"] for row in rows_of(tmp_path).values()} == {"withheld"}
    before = done(tmp_path / "evolved")
    with refusing(401, "invalid_api_key") as url, pytest.raises(ModelFailed):
        evolve(tmp_path, Goal(10_000), run_seed=SEED, how=how(url, concurrency=1))
    assert done(tmp_path / "evolved") == before
