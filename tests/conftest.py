"""Fixtures of the whole suite, and the wall around it: no socket leaves this machine."""

import asyncio
import contextlib
import socket
import threading

import pytest
from hypothesis import settings

from synth.core.llm.mock.server import MockLLM
from synth.core.store import Workspace

# How busy a machine is fails no test, and the same code passes or fails twice alike. What nobody
# has drawn yet is drawn by `--soak`, where a find stops nobody's work.
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.register_profile("soak", deadline=None, derandomize=False)
_LOCAL = ("127.", "::1", "localhost")


def pytest_addoption(parser):
    """Add `--soak`: run the long checks, and nothing else."""
    parser.addoption("--soak", action="store_true", help="run only what takes long or draws anew")


def pytest_configure(config):
    """Draw the same examples in every run, except in a soak."""
    settings.load_profile("soak" if config.getoption("--soak") else "repeatable")


@pytest.hookimpl(trylast=True)  # after hypothesis has marked its tests
def pytest_collection_modifyitems(config, items):
    """Leave out the long checks; a soak is of these and of what hypothesis draws."""
    wanted = ("soak", "hypothesis") if config.getoption("--soak") else ()

    def chosen(item):
        long = item.get_closest_marker("soak") is not None
        return any(item.get_closest_marker(mark) for mark in wanted) if wanted else not long

    out = [item for item in items if not chosen(item)]
    config.hook.pytest_deselected(items=out)
    items[:] = [item for item in items if chosen(item)]


@pytest.fixture(scope="session")
def empty(tmp_path_factory):
    """The bytes of a registry with nothing in it: applying the schema costs 0.1 s each time."""
    workspace = Workspace(tmp_path_factory.mktemp("empty"))
    with workspace.write():
        pass
    return workspace.database.read_bytes()


@pytest.fixture(autouse=True)
def _no_network(request, monkeypatch):
    """Refuse connections to anything but loopback, unless a test says that it needs the network."""
    if request.node.get_closest_marker("network"):
        return
    connect = socket.socket.connect

    def local_only(self, address):
        host = address[0] if isinstance(address, tuple) else ""
        if self.family in (socket.AF_INET, socket.AF_INET6) and not str(host).startswith(_LOCAL):
            raise AssertionError(f"a test without the network mark connected to {address}")
        return connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", local_only)


@contextlib.contextmanager
def _serving(**options):
    held, ready = {}, threading.Event()

    async def serve():
        async with MockLLM(keep_ledger=False, **options) as mock:
            held["mock"], held["loop"] = mock, asyncio.get_running_loop()
            ready.set()
            await mock.ended.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert ready.wait(20)
    try:
        yield held["mock"]
    finally:
        held["loop"].call_soon_threadsafe(held["mock"].ended.set)
        thread.join(20)


@pytest.fixture(scope="session")
def serving():
    """Serve the shipped endpoint in a thread: what asks it has a loop of its own."""
    return _serving
