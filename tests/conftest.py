"""Fixtures of the whole suite, and the wall around it: no socket leaves this machine."""

import socket

import pytest
from hypothesis import settings

settings.register_profile("patient", deadline=None)  # how busy a machine is fails no test
settings.load_profile("patient")
_LOCAL = ("127.", "::1", "localhost")


def pytest_addoption(parser):
    """Add `--soak`: run the long checks, and nothing else."""
    parser.addoption("--soak", action="store_true", help="run only what takes long")


def pytest_collection_modifyitems(config, items):
    """Leave out the long checks, or all but them."""
    wanted = config.getoption("--soak")
    out = [item for item in items if (item.get_closest_marker("soak") is not None) != wanted]
    config.hook.pytest_deselected(items=out)
    items[:] = [item for item in items if item not in set(out)]


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
