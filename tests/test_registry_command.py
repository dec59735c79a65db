"""`toolloom registry` as it is typed."""

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("sklearn")
ROOT = Path(__file__).parent.parent


def toolloom(workspace, *arguments):
    command = [sys.executable, "-m", "synth", "--workspace", str(workspace), *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_near_duplicates_of_what_was_crawled_are_listed_without_a_map(tmp_path):
    rows = [
        {"server": server, "tool": tool, "description": text, "inputSchema": {}}
        for server in ("one", "two")
        for tool, text in (("get_song", f"Get the song of an album, {server}."), (server, "Rain."))
    ]
    catalog = tmp_path / "songs.jsonl"
    catalog.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    toolloom(tmp_path / "w", "crawl", str(catalog))
    names = [f"catalog:{catalog}#{server}/get_song" for server in ("one", "two")]
    found = list(
        csv.reader(io.StringIO(toolloom(tmp_path / "w", "registry", "duplicates", "--csv")))
    )
    assert found[0] == ["cluster", "tool", "similarity"]
    assert [row[1] for row in found[1:]] == names
    assert {row[0] for row in found[1:]} == {names[0]}
    told = json.loads(toolloom(tmp_path / "w", "registry", "duplicates", "--json", "--limit", "1"))
    assert (told["clusters"], len(told["rows"]), told["truncated"]) == (1, 1, True)
