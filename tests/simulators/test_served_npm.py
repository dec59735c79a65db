"""`toolloom serve` driven by the client from npm, the one that most agent programs are built on."""

import asyncio
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from simulators.served.episode import offer
from simulators.served.http import served_http
from simulators.sql.engine import Engine
from simulators.sql.load import load_application
from simulators.sql.world import SqlWorld

LIBRARY = Path(__file__).parent / "data" / "library.yaml"
SCRIPT = Path(__file__).parent.parent / "servers" / "npm_client.mjs"


@pytest.fixture(name="script")
def _script(tmp_path):
    """The client's program, where it finds the package."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("npm is not installed")
    line = [npm, "install", "--ignore-scripts", "--no-audit", "--no-fund"]
    try:
        done = subprocess.run(
            [*line, "@modelcontextprotocol/sdk@1"],
            cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        pytest.skip("npm does not come to an end")
    if done.returncode:
        pytest.skip(f"npm cannot install the client: {done.stderr[-200:]}")
    return Path(shutil.copy(SCRIPT, tmp_path))


@pytest.mark.network
def test_the_client_from_npm_plays_over_both_transports(script):
    world = SqlWorld(Engine(load_application(LIBRARY)))
    twin = world.environment()
    twin.reset_now(7)
    own = twin.call_now("lend_book", {"book_id": "B1", "member_id": "M001"})
    stdio = [sys.executable, "-m", "synth", "serve", str(LIBRARY), "--seed", "7"]

    async def run():
        async with served_http(offer(world, seed=7)) as (url, episodes):
            process = await asyncio.create_subprocess_exec(
                "node", str(script), url, *stdio, stdout=subprocess.PIPE
            )
            said, _ = await asyncio.wait_for(process.communicate(), 120)
            assert process.returncode == 0
            assert episodes.keys == ()
            return json.loads(said)

    for seen in asyncio.run(run()).values():
        assert seen["server"] == "toolloom-library"
        assert seen["instructions"] == world.policy().strip()
        assert [t["name"] for t in seen["tools"]][:-1] == [t.name for t in world.tools()]
        assert seen["tools"][0]["annotations"]["readOnlyHint"] is True
        assert "toolloom://diff" in seen["resources"]
        assert seen["lent"]["structuredContent"] == json.loads(own.content)
        assert seen["failed"]["isError"] is True
        assert "invalid_arguments" in seen["failed"]["content"][0]["text"]
        assert seen["unknown"] == -32602
        assert json.loads(seen["diff"]) == [json.loads(line) for line in twin.diff_now()]
        assert (seen["startedOver"]["structuredContent"]["starts"], seen["after"]) == (2, "[]")
