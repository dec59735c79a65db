"""Progress for people: a bar on a terminal, plain lines elsewhere; always on stderr."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Protocol

from synth.core.errors import ToolloomError

_LINE_EVERY_S = 5.0
_REDRAW_EVERY_S = 0.1


class Bar(Protocol):
    """What a long job tells about itself."""

    def update(self, done: float, total: float | None = None, note: str = "") -> None:
        """Show `done` of `total` (None: unknown) and a short note."""


class _Lines:
    """Plain lines, at most one in five seconds, for logs and pipes."""

    def __init__(self, title: str) -> None:
        self.title, self._started, self._last = title, time.monotonic(), time.monotonic()

    def update(self, done: float, total: float | None = None, note: str = "") -> None:
        now = time.monotonic()
        if now - self._last >= _LINE_EVERY_S:
            self._last = now
            of = f"/{total:g}" if total else ""
            seconds = now - self._started
            sys.stderr.write(f"{self.title}: {done:g}{of} {note} ({seconds:.0f} s)\n")
            sys.stderr.flush()


class _Rich:
    """A bar, redrawn at most ten times a second however often it is updated."""

    def __init__(self, title: str) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self.progress.add_task(title, total=None, note="")
        self._last = 0.0

    def update(self, done: float, total: float | None = None, note: str = "") -> None:
        now = time.monotonic()
        if now - self._last >= _REDRAW_EVERY_S or done == total:
            self._last = now
            self.progress.update(self._task, completed=done, total=total, note=note)


@contextmanager
def bar(title: str) -> Iterator[Bar]:
    """Show a long job while it runs."""
    if sys.stderr.isatty():
        shown = _Rich(title)
        with shown.progress:
            yield shown
    else:
        yield _Lines(title)


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Give a function that says whether Ctrl-C was pressed: the job ends where it can go on later.

    A second Ctrl-C ends it at once.

    Raises:
        KeyboardInterrupt: at the end of the block, where it was pressed.
    """
    pressed = threading.Event()

    def note(number: int, frame: FrameType | None) -> None:
        if pressed.is_set():
            raise KeyboardInterrupt
        pressed.set()
        say("ending after this step; Ctrl-C again ends at once")

    if threading.current_thread() is not threading.main_thread():
        yield pressed.is_set  # only the main thread hears signals
        return
    before = signal.signal(signal.SIGINT, note)
    try:
        yield pressed.is_set
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed.is_set():
        raise KeyboardInterrupt


@contextmanager
def afterwards() -> Iterator[None]:
    """Enter in the registry what is already done: where that fails, say so and go on."""
    try:
        yield
    except ToolloomError as error:
        say(f"not entered in the registry: {' '.join(str(error).split())}")


def say(line: str) -> None:
    """Write one line for people to stderr."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def show(text: str) -> None:
    """Write the result of a command for people to stdout."""
    sys.stdout.write(text if text.endswith("\n") else text + "\n")
