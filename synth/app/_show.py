"""What people see: results on stdout; progress, a bar or plain lines, on stderr.

Names and messages of servers, models and files are strangers' words. Nothing of them reaches a
terminal but through here, where control characters, marks of writing direction and line breaks
inside of a line become visible escapes.
"""

from __future__ import annotations

import json
import re
import shlex
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Protocol

from synth.core import unseen
from synth.core.errors import ToolloomError

_UNSAFE = re.compile(
    f"[\r{unseen.CONTROL}{unseen.INVISIBLE}{unseen.SEPARATORS}{unseen.SURROGATES}]"
)
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
            sys.stderr.write(f"{self.title}: {done:g}{of} {line(note)} ({seconds:.0f} s)\n")
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
            TextColumn("{task.fields[note]}", markup=False),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self.progress.add_task(title, total=None, note="")
        self._last = 0.0

    def update(self, done: float, total: float | None = None, note: str = "") -> None:
        now = time.monotonic()
        if now - self._last >= _REDRAW_EVERY_S or done == total:
            self._last = now
            self.progress.update(self._task, completed=done, total=total, note=line(note))


def lines(text: str) -> str:
    """Return a text of several lines that no terminal acts upon."""
    return _UNSAFE.sub(_escaped, text)


def line(text: str) -> str:
    """Return a text as one line that no terminal acts upon; a line break becomes a space."""
    first, *others = text.splitlines() or [""]
    parts = [first.rstrip(), *(other.strip() for other in others)]
    return lines(" ".join(part for part in parts if part))


def command(argv: Sequence[str]) -> str:
    """Return a command line as one line; words are quoted where it takes that to tell them."""
    return _UNSAFE.sub(_escaped, shlex.join(argv)).replace("\n", "\\n")


def json_text(text: str) -> str:
    """Return JSON whose strings hold escapes of JSON instead of what a terminal acts upon."""
    return _UNSAFE.sub(lambda found: json.dumps(found[0])[1:-1], text)


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


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
        say(f"not entered in the registry: {error}")


def say(text: str) -> None:
    """Write one line for people to stderr."""
    sys.stderr.write(line(text) + "\n")
    sys.stderr.flush()


def hand_over(text: str) -> None:
    """Write what is for programs: as it is to a file or a pipe, harmless to a terminal."""
    seen = sys.stdout.isatty()
    sys.stdout.write(lines(text.replace("\r\n", "\n")) if seen else text)


def show(text: str) -> None:
    """Write the result of a command for people to stdout, in as many lines as it has."""
    sys.stdout.write(lines(text if text.endswith("\n") else text + "\n"))
