"""A run's export, read by the libraries of others and taken back: it says what the run says."""

import json

import duckdb
import orjson
import pytest

from synth import app
from synth.conversation import told
from synth.dataset import EXPORTERS, dataset_rows
from synth.pipeline.export import export, run_tools

FORMATS = [name for name in EXPORTERS.names() if not name.startswith("preference")]
PARQUET = ("parquet", "verl")
PADS = ("anthropic", "trl")
"""Formats with free objects in JSON Lines: a reader that makes structs of them pads them."""


@pytest.fixture(
    scope="module", params=[120, pytest.param(10_000, marks=pytest.mark.soak)], ids=["few", "many"]
)
def exported(request, tmp_path_factory):
    """A run in all formats: episode -> what it says; format -> file and its episodes."""
    workspace = tmp_path_factory.mktemp("elsewhere")
    line = ["generate", "--accept", str(request.param), "--set=generate.agents=40"]
    assert app.main(["--workspace", str(workspace), *line]) == 0
    run = workspace / "runs" / "default"
    written = export(run, workspace / "out", formats=FORMATS, limit=None)
    source = {row["id"]: told(row) for row in dataset_rows(run, run_tools(run), request.param)}
    assert len(source) == request.param
    files = dict(zip(FORMATS, written["episodes"].items(), strict=True))
    for name in ("openai", "parquet", "trl", "anthropic", "hermes", "kimi-k2", "verl"):
        assert written["left_out"][files[name][0]] == {}
    return source, files


def by_datasets(path, kind, cache):
    datasets = pytest.importorskip("datasets")
    return datasets.load_dataset(kind, data_files=path, split="train", cache_dir=str(cache))


def by_pandas(path, kind, _):
    pandas = pytest.importorskip("pandas")
    if kind == "json":
        frame = pandas.read_json(path, lines=True, dtype=False)
    else:
        pytest.importorskip("pyarrow")
        frame = pandas.read_parquet(path, dtype_backend="pyarrow")
    return frame.to_dict("records")


def by_pyarrow(path, kind, _):
    parquet = pytest.importorskip("pyarrow.parquet")
    lines = pytest.importorskip("pyarrow.json")
    whole = lines.ReadOptions(block_size=1 << 28)
    table = lines.read_json(path, whole) if kind == "json" else parquet.read_table(path)
    return table.to_pylist()


def by_duckdb(path, kind, _):
    found = duckdb.sql(f"SELECT * FROM read_{kind}('{path}')")
    return [dict(zip(found.columns, row, strict=True)) for row in found.fetchall()]


READERS = [by_datasets, by_pandas, by_pyarrow, by_duckdb]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", FORMATS)
def test_what_another_library_reads_is_what_the_run_says(exported, name, reader, tmp_path):
    source, files = exported
    path, episodes = files[name]
    if name in PADS and reader in (by_pyarrow, by_duckdb):
        pytest.skip("reads free objects as structs and pads them; `parquet` has none")
    kind = "parquet" if name in PARQUET else "json"
    rows = list(reader(path, kind, tmp_path))
    assert [row["id"] for row in rows] == episodes
    for row in rows:
        assert told(EXPORTERS.get(name).decode(row)) == source[row["id"]]


TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}{{ '\n' + m.content }}"
    "{% if loop.first and tools %}{{ '\n\n<tools>\n' }}"
    "{% for t in tools %}{{ (t | tojson) + '\n' }}{% endfor %}</tools>{{ '\nend' }}{% endif %}"
    "{% for c in m.tool_calls or [] %}{% if m.content or not loop.first %}{{ '\n' }}{% endif %}"
    '<tool_call>{"name": {{ c.function.name | tojson }}, "arguments": '
    "{{ c.function.arguments | tojson }}}</tool_call>{% endfor %}<|im_end|>{{ '\n' }}{% endfor %}"
)
"""ChatML with tools in the first message, as model cards have it; read back as Hermes text."""


def test_what_a_chat_template_writes_of_trl_rows_is_what_the_run_says(exported):
    rendering = pytest.importorskip("transformers.utils.chat_template_utils")
    source, files = exported
    path, episodes = files["trl"]
    with open(path, "rb") as lines:
        rows = [orjson.loads(line) for line in lines]
    assert [row["id"] for row in rows] == episodes
    for row in rows:
        texts, _ = rendering.render_jinja_template(
            [row["messages"]], tools=json.loads(row["tools"]), chat_template=TEMPLATE
        )
        back = EXPORTERS.get("hermes").decode({"text": texts[0]})
        assert told(back) == source[row["id"]]
