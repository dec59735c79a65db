"""`toolloom train` and `toolloom eval` as people meet them: refusals, a crash, what is said."""

import json
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest

from synth import app
from synth.app.eval import page
from synth.app.train import _prepared
from synth.core.errors import BadInput
from train.data import conversation
from train.evaluate import Evaluation


def row(number, words):
    return {
        "id": f"r{number}",
        "messages": [
            {"role": "system", "content": "You answer with numbers and nothing else, please."},
            {"role": "user", "content": f"What comes after {number}?"},
            {"role": "assistant", "content": " ".join(str(number + n) for n in range(words))},
        ],
        "tools": "[]",
    }


def write(path, rows):
    path.write_text("".join(json.dumps(one) + "\n" for one in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("eval --application hotl", "did you mean 'hotel'"),
        ("eval --application hotel --model smolm2", "did you mean 'smollm2'"),
        ("eval --application hotel --model no/such.gguf", "no model at 'no/such.gguf'"),
        ("train rl --application clinik", "did you mean 'clinic'"),
        ("train rl --application clinic --model timy", "did you mean 'tiny'"),
        ("train sft --dataset nowhere.jsonl", "nowhere.jsonl: the dataset cannot be read"),
        ("train sft --dataset {empty}", "the dataset has no rows"),
        ("models fetch smolm2", "did you mean 'smollm2'"),
    ],
)
def test_what_cannot_be_is_refused_before_torch_is_loaded(tmp_path, capsys, line, says):
    empty = tmp_path / "empty.jsonl"
    empty.write_text("\n\n", encoding="utf-8")
    words = line.format(empty=empty).split()
    assert app.main(["--workspace", str(tmp_path), *words]) == 2
    said = capsys.readouterr().err
    assert says in said
    assert len(said.splitlines()) == 1


def test_a_refusal_loads_neither_torch_nor_the_registry(tmp_path):
    code = (
        "import sys, synth.app\n"
        "code = synth.app.main(sys.argv[1:])\n"
        "print([name for name in ('torch', 'transformers', 'duckdb') if name in sys.modules])\n"
        "sys.exit(code)"
    )
    words = ["--workspace", str(tmp_path), "eval", "--application", "hotl"]
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "[]\n")


class Desk:
    """As much of the command's desk as reading a dataset takes."""

    def __init__(self, loaded, renderer):
        self.engine = SimpleNamespace(model=loaded.model)
        self.renderer = renderer


def conversations(rows):
    return [conversation(one, where=f"d.jsonl:{n}") for n, one in enumerate(rows, 1)]


def test_rows_that_do_not_fit_are_counted_with_the_reason(loaded, renderer, tmp_path, capsys):
    mute = row(5, 1)
    mute["messages"][-1]["weight"] = 0
    rows = conversations([row(1, 3), row(2, 1000), row(3, 4), row(4, 1000), mute])
    loaded.model.config.max_position_embeddings = 500
    prepared = _prepared(rows, Desk(loaded, renderer), tmp_path / "d.jsonl")
    assert (len(prepared.rows), prepared.left_out) == (2, {"too_long": 2, "nothing_to_learn": 1})
    said = "3 of 5 rows are left out: 1 without a word of the assistant's to learn, "
    assert capsys.readouterr().err == said + "2 longer than 500 tokens\n"
    with pytest.raises(BadInput, match="learn from none of the 1 rows: 1 longer than 500 tokens"):
        _prepared(rows[1:2], Desk(loaded, renderer), tmp_path / "d.jsonl")


def test_killed_fine_tuning_goes_on_with_the_same_command_and_says_so(processes, tmp_path):
    dataset = write(tmp_path / "d.jsonl", [row(n, 30) for n in range(120)])
    command = ["toolloom", "--workspace", tmp_path, "train", "sft", "--dataset", dataset]
    command += ["--model", "tiny", "--json", "--set", "train.checkpoint_s=0"]
    command += ["--set", "train.sft.tokens=8000"]
    folder, log = tmp_path / "checkpoints" / "sft", tmp_path / "log"

    def written():
        return any(folder.glob("step-*"))

    code = processes.run(log, *command, kill_when=written)
    assert code == -signal.SIGKILL, log.read_text()
    (kept,) = folder.glob("step-*")
    begun = json.loads((kept / "cursor.json").read_text())["step"]
    log.unlink()
    assert processes.run(log, *command) == 0, log.read_text()
    *told, result = log.read_text().splitlines()
    report = json.loads(result)
    assert f"going on: step {begun} of {report['steps']} is in {kept}" in told
    assert 0 < begun == report["resumed_from"] < report["steps"]
    assert report["loss_after"] < report["loss_first"]
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [one["step"] for one in rows] == list(range(1, report["steps"] + 1))
    assert [path.name for path in folder.glob("*-*")] == [f"step-{report['steps']:06d}"]


def result(**changed):
    figures = {
        "application": "hotel",
        "n": 24,
        "passed": 5,
        "interval": (0.0924, 0.4047),
        "by_reason": {"state": 19, "accepted": 5},
        "unscored": 3,
        "faults": {"environment": 2, "judge": 1},
        "by_kind": {},
        "calls": 0,
        "calls_ok": 0,
        "seconds": 1.0,
    }
    return Evaluation(**(figures | changed))


def test_an_evaluation_is_told_with_its_interval_and_who_broke_what():
    assert page("m", result()) == [
        "m on hotel: 5 of 24 passed (21 %; 95 % interval 9 to 40 %)",
        "    19 state      the final state is not the one that was wanted",
        "     5 accepted",
        "3 without a verdict, in no rate; broken by: environment 2, judge 1",
    ]


def test_an_evaluation_without_a_verdict_has_no_rate():
    nothing = result(n=0, passed=0, interval=None, by_reason={}, faults={"judge": 3})
    assert page("m", nothing) == [
        "m on hotel: 0 of 0 passed",
        "3 without a verdict, in no rate; broken by: judge 3",
    ]


def test_reinforcement_by_command_leaves_a_model_and_no_nan(tmp_path, capsys):
    settings = ["train.rl.iterations=1", "train.rl.tasks=1", "train.rl.k=2"]
    line = ["train", "rl", "--application", "clinic", "--model", "tiny"]
    line += [f"--set={setting}" for setting in settings]
    for told in ("", "the run is finished, nothing is trained: iteration 1 of 1 is in"):
        assert app.main(["--workspace", str(tmp_path), "--json", *line]) == 0
        said = capsys.readouterr()
        report = json.loads(said.out, parse_constant=lambda name: pytest.fail(name))
        assert told in said.err
        assert report["checkpoint"] == str(tmp_path / "checkpoints" / "rl" / "step-000001")
        assert report["history"][0]["reward_high"] < 1.0
    text = (tmp_path / "checkpoints" / "rl" / "metrics.jsonl").read_text()
    assert json.loads(text)["unscored"] == 0
