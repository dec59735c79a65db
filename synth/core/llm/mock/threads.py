"""The endpoint in a thread of its own, for code that has no event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Unpack

from synth.core.llm.mock.server import MockLLM, Options


@contextmanager
def serving(**options: Unpack[Options]) -> Iterator[MockLLM]:
    """Serve until the end of the block; options as `MockLLM` takes them.

    Raises:
        ToolloomError: the endpoint cannot start.
    """
    mock = MockLLM(**options)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="mock-llm", daemon=True)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(mock.__aenter__(), loop).result()
        try:
            yield mock
        finally:
            asyncio.run_coroutine_threadsafe(mock.__aexit__(None, None, None), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
