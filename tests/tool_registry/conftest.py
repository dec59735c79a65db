"""Real tools, where the shared catalogs are at hand, and what readers said of them."""

import json
from pathlib import Path

import pytest

from synth.core.store import Workspace
from tool_registry.catalogs import import_catalog
from tool_registry.crawl import source_of

CATALOG = Path(__file__).parents[3] / "shared" / "data" / "catalogs" / "mcp_tools.jsonl.gz"


@pytest.fixture(scope="session")
def real(tmp_path_factory):
    """A registry of 9,623 real tools. Labels name them, and hold nothing else of them."""
    if not CATALOG.exists():
        pytest.skip("needs the shared catalogs")
    workspace = Workspace(tmp_path_factory.mktemp("real"))
    import_catalog(source_of(str(CATALOG)), str(CATALOG), workspace, lambda *_: None)
    return workspace


@pytest.fixture(scope="session")
def labelled():
    """Read a file of labels."""

    def read(name):
        file = Path(__file__).parent / "data" / f"{name}.jsonl"
        return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]

    return read
