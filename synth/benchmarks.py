"""Items of public benchmarks, from their files and packages; nothing of them is kept.

Known are the tasks of tau2-bench, the questions and answers of BFCL, and rows of datasets with
`messages`; of anything else in JSON, every text of some length counts as a prompt.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import orjson

from synth.contamination import Item, call_of, codes, words_of
from synth.core.errors import BadRow
from synth.core.inputs import read_input
from synth.core.optional import package

PACKAGES: Mapping[str, tuple[str, str]] = {"bfcl": ("bfcl_eval", "--no-deps bfcl-eval")}
"""Name -> package with the data, and what pip installs."""
MOST = 1 << 30
"""Bytes of a file."""
_TEXT = 8
"""Words from which a text of an unknown shape counts as a prompt."""


def read_benchmark(where: str) -> Iterator[Item]:
    """Yield the items of a benchmark.

    Args:
        where: a file or a folder of JSON and JSON Lines, or a name of `PACKAGES`.

    Raises:
        BadInput: it is not there, or the package is not installed.
        BadRow: a file holds no JSON.
    """
    if where in PACKAGES:
        name, install = PACKAGES[where]
        package(name, install)
        with resources.as_file(resources.files(name) / "data") as folder:
            yield from _of_folder(folder)
        return
    path = Path(where)
    yield from _of_folder(path) if path.is_dir() else _of_file(path)


def _of_folder(folder: Path) -> Iterator[Item]:
    files = sorted(p for p in folder.rglob("*") if p.suffix in (".json", ".jsonl"))
    if not files:
        raise BadRow("no .json or .jsonl file in it", where=str(folder))
    for path in files:
        yield from _of_file(path)


def _of_file(path: Path) -> Iterator[Item]:
    for number, row in enumerate(_rows(path)):
        if isinstance(row, dict):
            name = row.get("id", row.get("task_id", number))
            try:
                yield _item(f"{path.name}#{name}", row)
            except (KeyError, TypeError, AttributeError):  # of another shape than it looked
                yield Item(f"{path.name}#{name}", prompts=tuple(_texts(row)))


def _rows(path: Path) -> list[Any]:
    data = read_input(path, most=MOST)
    try:
        whole = orjson.loads(data)
    except orjson.JSONDecodeError:
        try:
            return [orjson.loads(line) for line in data.splitlines() if line.strip()]
        except orjson.JSONDecodeError as error:
            what = f"neither JSON nor JSON Lines: {error}"
            raise BadRow(what, where=str(path), remedy="name a file of the benchmark") from error
    if isinstance(whole, dict):
        tasks = whole.get("tasks")
        return tasks if isinstance(tasks, list) else [whole]
    return whole if isinstance(whole, list) else []


def _item(source: str, row: Mapping[str, Any]) -> Item:
    if "evaluation_criteria" in row:
        return _tau2(source, row)
    if "ground_truth" in row:
        return _answer(source, row["ground_truth"])
    if "function" in row and "question" in row:
        names = frozenset(function["name"] for function in row["function"])
        asked = _messages(row["question"])
        return Item(source, prompts=tuple(asked), tools=names)
    if "messages" in row:
        return Item(source, prompts=tuple(_messages(row["messages"])))
    return Item(source, prompts=tuple(_texts(row)))


def _tau2(source: str, row: Mapping[str, Any]) -> Item:
    actions = row["evaluation_criteria"].get("actions") or []
    calls = tuple(call_of(a["name"], a["arguments"]) for a in actions)
    values = frozenset(code for a in actions for code in codes(a["arguments"]))
    return Item(source, tuple(_texts(row["user_scenario"])), values=values, calls=calls)


def _answer(source: str, truth: Any) -> Item:
    """Read an answer of BFCL: of the values that are right for an argument, the first."""
    calls = []
    for call in truth:
        for name, arguments in call.items():
            first = {key: values[0] for key, values in arguments.items() if values != [""]}
            calls.append(call_of(name, first))
    return Item(source, calls=tuple(calls))


def _messages(value: Any) -> Iterator[str]:
    """Yield what users say in messages, however they are nested."""
    if isinstance(value, list):
        for item in value:
            yield from _messages(item)
    elif isinstance(value, dict) and value.get("role") == "user":
        content = value.get("content")
        yield from [content] if isinstance(content, str) else []


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if len(words_of(value)) >= _TEXT:
            yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
