"""llama.cpp in this process: started, asked, stopped. The one file that imports `xllamacpp`.

The package always opens a listener. Ours is a Unix socket in a private folder that is removed
as soon as the model is loaded: no port, and nothing on the disk that a stranger could connect to.
Requests go through `handle_…` calls on threads of our own.
"""

from __future__ import annotations

import asyncio
import atexit
import gc
import importlib
import os
import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from synth.core.config import LOCAL
from synth.core.errors import BadConfig, ModelFailed

_BATCH = 128
"""Prompt tokens computed between two looks at the deadline."""
_CHECK_S = 300.0
"""Seconds a loaded model has for its first token: a busy machine is no broken model."""
_LONGEST_SOCKET = 90
"""A Unix socket's path holds 107 bytes, and not on every system."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What one loaded model may use."""

    context: int = 8192
    """Tokens of one conversation, its replies included."""
    slots: int = 1
    """Conversations computed at once; each has a context of its own."""
    threads: int = 1
    cache_mib: int = 256
    """Most memory for prompts that may come again."""


@dataclass(slots=True)
class Generated:
    """What came back."""

    text: str = ""
    finish: str = ""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    logprobs: list[Mapping[str, float]] = field(default_factory=list)


class _Run:
    """One request on its way; `stop` ends it at the next token or part of the prompt."""

    def __init__(self, seconds: float) -> None:
        self.stop = False
        self.out = Generated()
        self.problem = ""
        self.late = False
        self._seconds = seconds
        self._until: float | None = None

    def begin(self) -> None:
        """Start the clock: waiting for a free slot is not the model's fault."""
        self._until = time.monotonic() + self._seconds

    def take(self, chunk: Any) -> bool:
        """Keep a piece; return True to end the generation."""
        if self._until is not None and time.monotonic() > self._until:
            self.problem = f"no end within {self._seconds:g} s of computing"
            self.stop = self.late = True
        if self.stop or not isinstance(chunk, Mapping):
            return self.stop
        if "error" in chunk:
            self.problem = str(dict(chunk["error"]).get("message"))[:300]
            return True
        for choice in chunk.get("choices") or ():
            self._take_choice(choice)
        if usage := chunk.get("usage"):
            self.out.prompt_tokens = usage.get("prompt_tokens")
            self.out.completion_tokens = usage.get("completion_tokens")
            details = usage.get("prompt_tokens_details") or {}
            self.out.cached_tokens = details.get("cached_tokens")
        return False

    def _take_choice(self, choice: Mapping[str, Any]) -> None:
        self.out.text += choice.get("text") or (choice.get("delta") or {}).get("content") or ""
        self.out.finish = choice.get("finish_reason") or self.out.finish
        for token in (choice.get("logprobs") or {}).get("content") or ():
            others = token.get("top_logprobs") or ()
            found = {token["token"]: token["logprob"]}
            self.out.logprobs.append(found | {o["token"]: o["logprob"] for o in others})


class Engine:
    """One loaded model, shared by everybody who opened the same file with the same settings.

    Args:
        path: a `.gguf` file.
        settings: what it may use.

    Raises:
        BadConfig: the package is not installed.
        ModelFailed: the file does not load, or the loaded model does not answer.
    """

    def __init__(self, path: Path, settings: Settings) -> None:
        self.path, self.settings = path, settings
        self._server: Any = _start(path, settings)
        self._runs: set[_Run] = set()
        self._pool = ThreadPoolExecutor(settings.slots, thread_name_prefix="local-model")
        self._check()

    async def generate(
        self, door: Literal["chat", "text"], body: Mapping[str, Any], seconds: float
    ) -> Generated:
        """Compute a reply on a thread of the pool.

        When the caller is cancelled, the computation ends at its next token.

        Args:
            door: `chat` for messages, `text` for a bare prompt.
            body: the request in the OpenAI shape.
            seconds: of computing, before it is ended; waiting for a slot does not count.

        Raises:
            ModelFailed: no reply in time, or the request was refused.
        """
        run = _Run(seconds)
        try:
            future = self._pool.submit(self._generate, run, door, body)
        except RuntimeError as error:
            raise ModelFailed("the model is closed", where=str(self.path)) from error
        try:
            return await asyncio.wrap_future(future)
        finally:
            run.stop = True

    def _generate(self, run: _Run, door: str, body: Mapping[str, Any]) -> Generated:
        handle = getattr(
            self._server, "handle_chat_completions" if door == "chat" else "handle_completions"
        )
        progress = {"stream": True, "stream_options": {"include_usage": True}}
        self._runs.add(run)
        run.begin()
        try:
            answer = handle({**body, **progress, "return_progress": True}, run.take)
        except (ValueError, TypeError, RuntimeError) as error:
            raise ModelFailed(str(error)[:300], where=str(self.path), outcome="rejected") from error
        finally:
            self._runs.discard(run)
        if isinstance(answer, Mapping):
            run.take(answer)
        if run.problem:
            raise ModelFailed(
                run.problem,
                where=str(self.path),
                remedy="raise timeout_s, or lower max_tokens" if run.late else "",
                outcome="timeout" if run.late else "rejected",
            )
        if not run.out.finish:
            raise ModelFailed(
                "the generation was stopped", where=str(self.path), outcome="incomplete"
            )
        return run.out

    def _check(self) -> None:
        try:
            self._generate(_Run(_CHECK_S), "text", {"prompt": "1 2 3", "max_tokens": 1})
        except ModelFailed as error:
            self.close()
            raise ModelFailed(
                f"the loaded model does not answer: {error.what}", where=str(self.path)
            ) from error

    def close(self) -> None:
        """End what is running, and free the memory. Harmless when called twice."""
        for run in tuple(self._runs):
            run.stop = True
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._server = None
        gc.collect()  # the wrapper ends the server when it goes, and may be held by a cycle


def _start(path: Path, settings: Settings) -> Any:
    # Threads that spin while they wait cost 14 times the work on a busy machine (measured).
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    try:
        package = importlib.import_module("xllamacpp")
    except ImportError as error:
        raise BadConfig(
            "the embedded engine is not installed",
            where=f"{LOCAL}{path.name}",
            remedy="pip install 'toolloom[local]'",
        ) from error
    folder = Path(tempfile.mkdtemp(prefix="toolloom-"))
    if len(str(folder)) > _LONGEST_SOCKET:
        folder.rmdir()
        folder = Path(tempfile.mkdtemp(prefix="toolloom-", dir="/tmp"))
    try:
        return package.Server(_parameters(package, path, settings, folder / "s.sock"))
    except RuntimeError as error:
        raise ModelFailed(
            "llama.cpp cannot load it",
            where=str(path),
            remedy="is the file whole, of a kind it knows, and smaller than the free memory?",
        ) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _parameters(package: Any, path: Path, settings: Settings, socket: Path) -> Any:
    parameters = package.CommonParams()
    parameters.model.path = str(path)
    parameters.hostnames, parameters.port = [str(socket)], 0
    parameters.api_keys = [secrets.token_hex(16)]
    parameters.n_parallel = settings.slots
    parameters.n_ctx = settings.context * settings.slots
    parameters.cpuparams.n_threads = settings.threads
    parameters.cpuparams_batch.n_threads = settings.threads
    parameters.n_batch = parameters.n_ubatch = _BATCH
    parameters.cache_ram_mib = settings.cache_mib
    parameters.n_threads_http = 1
    parameters.ui = parameters.warmup = False
    parameters.verbosity = -1
    return parameters


# --- one engine for a file, however many roles it plays ---------------------------------------

_lock = threading.Lock()
_open: dict[tuple[Path, Settings], tuple[Engine, int]] = {}


def acquire(path: Path, settings: Settings) -> Engine:
    """Return the engine of a file, loaded unless it is already; `release` gives it back.

    Raises:
        BadConfig: the package is not installed.
        ModelFailed: the file does not load.
    """
    key = (path.resolve(), settings)
    with _lock:
        engine, users = _open.get(key, (None, 0))
        engine = engine or Engine(key[0], settings)
        _open[key] = (engine, users + 1)
        return engine


def release(engine: Engine) -> None:
    """Give an engine back; the last one to do so closes it."""
    key = (engine.path, engine.settings)
    with _lock:
        held, users = _open.get(key, (None, 0))
        if held is not engine:
            return
        if users > 1:
            _open[key] = (engine, users - 1)
            return
        del _open[key]
    engine.close()


@atexit.register
def _close_all() -> None:
    """End what nobody gave back: a server that is alive at exit would be torn down at random."""
    with _lock:
        engines = [engine for engine, _ in _open.values()]
        _open.clear()
    for engine in engines:
        engine.close()
