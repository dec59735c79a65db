"""A thousand tools of real servers, as they were listed."""

import gzip
import json
from collections import Counter
from pathlib import Path

import jsonschema_rs
import pytest

from synth.core.types import Provenance
from tool_registry.normalize import Accepted, Rejected, normalize, normalize_list
from tool_registry.scrub import suspicions

DATA = Path(__file__).parents[3] / "shared" / "data"
LIVE = DATA / "mcp_live"
CATALOGUE = DATA / "catalogs" / "mcp_tools.jsonl.gz"
needs_live = pytest.mark.skipif(not LIVE.is_dir(), reason=f"no recorded lists in {LIVE}")
needs_catalogue = pytest.mark.skipif(not CATALOGUE.is_file(), reason=f"no {CATALOGUE}")


@pytest.fixture(scope="module")
def lists():
    out = {}
    for path in sorted(LIVE.glob("*.json")):
        document = json.loads(path.read_text(encoding="utf-8"))
        if document.get("tools"):
            where = Provenance(source=f"{document['registry']}:{document['package']}")
            out[path.stem] = normalize_list(document["tools"], where)
    return out


@needs_live
def test_every_tool_of_48_live_servers_is_usable(lists):
    found = [tool for tools in lists.values() for tool in tools]
    assert len(lists) == 48
    assert len(found) == 1036
    assert [tool for tool in found if isinstance(tool, Rejected)] == []


@needs_live
def test_most_live_tools_say_themselves_what_they_do(lists):
    found = [tool.spec for tools in lists.values() for tool in tools]
    sources = Counter(spec.effect_source for spec in found)
    assert sources["annotated"] > 750
    assert sources["unknown"] < 100
    assert sum(spec.returns is not None for spec in found) > 400


@needs_live
def test_guesses_from_names_mostly_agree_with_annotations(lists):
    """Reads are told from writes: the guess that matters for simulators."""
    agree = total = 0
    for tools in lists.values():
        for tool in tools:
            if tool.spec.effect_source != "annotated":
                continue
            guess = normalize({"name": tool.name}, tool.spec.provenance)
            if guess.spec.effect != "unknown":
                total += 1
                agree += (guess.spec.effect == "read") == (tool.spec.effect == "read")
    assert total > 650
    assert agree / total > 0.93


@needs_live
def test_live_schemas_build_validators_and_names_are_valid(lists):
    for tools in lists.values():
        for tool in tools:
            jsonschema_rs.validator_for(tool.spec.parameters)
        names = [tool.spec.name for tool in tools]
        assert len(set(names)) == len(names)


@needs_catalogue
def test_of_the_catalogued_tools_hardly_any_is_unusable_and_the_reasons_are_told():
    found = Counter()
    suspicious = 0
    with gzip.open(CATALOGUE, "rt", encoding="utf-8") as file:
        for number, line in enumerate(file):
            row = json.loads(line)
            if number % 12:
                continue  # every twelfth is enough, and quick
            suspicious += suspicions(row["description"])
            raw = {
                "name": row["tool"],
                "description": row["description"],
                "inputSchema": row["inputSchema"],
            }
            tool = normalize(raw, Provenance(source="catalogue"))
            found["ok" if isinstance(tool, Accepted) else tool.reason] += 1
    assert found["ok"] > 790
    assert set(found) <= {"ok", "invalid_schema", "dangling_ref"}
    assert found.total() - found["ok"] < 6
    assert suspicious < 0.005 * found.total()  # a review queue that a person can read
