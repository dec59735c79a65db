"""Real tools, where the shared catalogs are at hand, and what readers said of them."""

import json
from pathlib import Path

import pytest

from synth.core.mcp.session import Limits
from synth.core.store import Workspace
from tool_registry.catalogs import import_catalog
from tool_registry.crawl import source_of
from tool_registry.source import Bench

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


@pytest.fixture
def workspace(tmp_path):
    """A workspace that is not there yet."""
    return Workspace(tmp_path / "ws")


@pytest.fixture
def bench(workspace):
    """What a crawl of test servers may use: they run confined where the machine can do it."""
    limits = Limits(start_s=10, list_s=10, stop_s=0.2)
    return Bench(cache=workspace.cache / "servers", limits=limits, allow_weaker=True)
