"""`toolloom play`: a whole episode by piped lines, and in a terminal."""

import json
import os
import pty
import re
import select
import subprocess
import sys
import time

import pytest

from synth.app.play import MAX_LINE, Piped, in_words
from synth.core.canonical import canonical
from synth.judge.evidence import quote

COMMAND = [sys.executable, "-m", "synth", "play", "hotel"]


def played(lines, *more):
    return subprocess.run(
        [*COMMAND, *more],
        input=lines.encode() if isinstance(lines, str) else lines,
        capture_output=True,
        timeout=120,
        check=False,
    )


def test_nothing_typed_fails_and_the_reference_solution_passes():
    first = played("", "--kind", "single_write", "--json")
    failed = json.loads(first.stdout)
    assert (first.returncode, failed["passed"], failed["reason"]) == (0, False, "state")
    assert b"failed: state" in first.stderr
    assert re.search(rb"\(not done: \w+ \w+(: \w+ from .+ to | created: | deleted\))", first.stderr)
    assert b'"update"' not in first.stderr
    assert {call["whose"] for call in failed["calls"]} == {"reference"}
    calls = [f"{call['tool']} {json.dumps(call['arguments'])}" for call in failed["calls"]]
    lines = "\n".join(["find_guest", *calls, "It is done as you wished."])
    lines += "\ntyped too late\n\nand so was this"
    second = played(lines, "--kind", "single_write")
    said = second.stdout.decode()
    assert (second.returncode, second.stderr) == (0, b"")
    assert "find_guest needs email (find_guest email=text)" in said
    assert "passed: accepted (the conversation ended: user_done)" in said
    assert "typed too late" not in said
    assert "\n2 lines were not heard: the conversation had ended\n" in said
    assert all(f"=     {call.split()[0]} " in said for call in calls)


def test_bytes_that_are_no_text_and_escapes_do_no_harm():
    done = played(b"\xff\xfe\x1b[2J?\n/policy\n/done\n", "--kind", "lookup", "--index", "1")
    assert done.returncode == 0
    assert b"\x1b" not in done.stdout
    assert b"Hotel Aurelia" in done.stdout
    assert b"failed: " in done.stdout


def test_a_line_that_is_too_long_is_told_and_the_next_one_is_heard():
    long = "x" * (MAX_LINE + 1) + "\n" + "ü" * MAX_LINE + "\n" + "y" * 5_000_000
    done = played(f"{long}\n/done\n{long}", "--kind", "lookup")
    assert done.returncode == 0
    assert done.stdout.count(b"a line of more than 64 KiB is not heard") == 3
    assert b"xxx" not in done.stdout
    assert b"> /done\n" in done.stdout
    assert b"lines were not heard: the conversation had ended" in done.stdout


def test_lines_that_came_too_late_are_counted_without_waiting_for_more():
    reading, writing = os.pipe()
    piped = Piped(reading)
    os.write(writing, b"one\ntwo\n \nthree\nunfin")
    assert (piped.line(), piped.waiting(), piped.waiting()) == (b"one", 3, 0)
    os.close(writing)
    assert (piped.line(), piped.line()) == (None, None)
    os.close(reading)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (["t", "update", {"id": "A", "n": 1, "s": "x"}, {"id": "A", "n": 2, "s": "x"}],
         't A: n from 1 to 2'),
        (["t", "update", {"id": "A"}, {"id": "A", "s": "x"}], 't A: s from null to "x"'),
        (["t", "insert", None, {"id": "A", "n": 1, "s": "ü"}], 't A created: n 1, s "ü"'),
        (["t", "delete", {"id": "A", "n": 1}, None], "t A deleted"),
        (["files", "delete", {"path": "a"}, None], "files deleted"),
    ],
)  # fmt: skip
def test_a_change_that_a_verdict_quotes_is_told_in_words(row, words):
    line = canonical(row)
    assert in_words(f"missing {line}", [line]) == f"not done: {words}"
    assert in_words(f"unexpected {line}", ["[]", line]) == f"done unasked: {words}"
    long = canonical([*row[:3], {**(row[3] or {}), "text": "y" * 5_000}])
    assert "y" * 100 in in_words(f"missing {quote(long)}", [long]) or row[1] == "delete"
    for other in ("nothing", "missing", f"missing {line}x", "3 calls succeeded", line):
        assert in_words(other, [line]) == other


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("--kind impossible", "invalid choice"),
        ("--index -1", "--index must be between 0"),
        ("--seed 99999999999999999999", "--set seed"),
    ],
)
def test_bad_options_are_refused(line, says):
    done = played("", *line.split())
    assert done.returncode == 2
    assert says in done.stderr.decode()
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize(("end", "code"), [(b"/done\n", 0), (b"\x03", 130), (b"\x04", 0)])
def test_in_a_terminal_it_has_colours_a_prompt_and_ends_with_ctrl_c_or_ctrl_d(end, code):
    above, below = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, "--kind", "lookup"],
        stdin=below, stdout=below, stderr=below, start_new_session=True,
        preexec_fn=lambda: __import__("fcntl").ioctl(0, __import__("termios").TIOCSCTTY, 0),
        env={**os.environ, "TERM": "xterm-256color"},
    )  # fmt: skip
    os.close(below)
    seen, asked = b"", 0.0
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if select.select([above], [], [], 0.5)[0]:
            try:
                seen += os.read(above, 4096)
            except OSError:  # its end is closed
                break
        # Again after a while: between the prompt and the reading, readline hears no signal.
        elif seen.rstrip().endswith(b">") and time.monotonic() > asked + 2.0:
            os.write(above, end)
            asked = time.monotonic()
    os.close(above)
    assert process.wait(timeout=30) == code, seen.decode()
    assert b"\x1b[1;36m" in seen
    assert (b"the conversation ended" in seen) == (code == 0)
