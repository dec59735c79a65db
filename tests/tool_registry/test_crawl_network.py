"""Real servers from real registries; skipped with a reason where those are out of reach."""

import asyncio
import shutil
import subprocess
import sys

import pytest

from synth.core.mcp.session import McpSession, ServerLaunch
from synth.core.store import Workspace
from tool_registry import browse
from tool_registry.crawl import crawl


def reaches(command):
    try:
        done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return "" if done.returncode == 0 else done.stderr.decode(errors="replace")[-200:]


@pytest.mark.network
def test_a_server_from_pypi_is_installed_listed_and_can_be_called(tmp_path):
    ask = [sys.executable, "-m", "pip", "index", "versions", "mcp-server-time"]
    if why := reaches(ask):
        pytest.skip(f"no Python package index in reach: {why}")
    workspace = Workspace(tmp_path)
    report = asyncio.run(crawl(["pypi:mcp-server-time"], workspace=workspace))
    (server,) = report.servers
    assert (server.outcome, server.tools) == ("ok", 2), server.reason
    assert server.version
    assert server.latest
    found = browse.show(workspace, "get_current_time")
    assert found["server"] == "pypi:mcp-server-time"
    assert found["versions"][0]["provenance"]["version"] == server.version
    assert found["about_server"]["licence"] == "MIT"

    async def ask_time():
        launch = ServerLaunch(argv=server.argv, readable=(tmp_path,))
        async with McpSession(launch) as session:
            return await session.call_tool("get_current_time", {"timezone": "UTC"})

    assert '"timezone": "UTC"' in asyncio.run(ask_time())["content"][0]["text"]


@pytest.mark.network
def test_a_server_from_npm_is_installed_without_scripts_and_listed(tmp_path):
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed")
    name = "@modelcontextprotocol/server-memory"
    if why := reaches([npm, "view", name, "version"]):
        pytest.skip(f"no npm registry in reach: {why}")
    workspace = Workspace(tmp_path)
    (server,) = asyncio.run(crawl([f"npm:{name}"], workspace=workspace)).servers
    assert (server.outcome, server.tools) == ("ok", 9), server.reason
    found = browse.show(workspace, "create_entities")
    assert found["versions"][0]["effect"] == "write"
    (attempt,) = found["crawls"]
    assert attempt["network"] is False
    assert attempt["package_version"] == attempt["latest_version"] == server.version
