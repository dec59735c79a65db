"""`toolloom play`: a whole episode by piped lines, and in a terminal."""

import json
import os
import pty
import select
import subprocess
import sys
import time

import pytest

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
    assert {call["whose"] for call in failed["calls"]} == {"reference"}
    calls = [f"{call['tool']} {json.dumps(call['arguments'])}" for call in failed["calls"]]
    lines = "\n".join(["find_guest", *calls, "It is done as you wished.", "not heard any more"])
    second = played(lines, "--kind", "single_write")
    said = second.stdout.decode()
    assert (second.returncode, second.stderr) == (0, b"")
    assert "find_guest needs email (find_guest email=text)" in said
    assert "passed: accepted (the conversation ended: user_done)" in said
    assert "not heard any more" not in said
    assert all(f"=     {call.split()[0]} " in said for call in calls)


def test_bytes_that_are_no_text_and_escapes_do_no_harm():
    done = played(b"\xff\xfe\x1b[2J?\n/policy\n/done\n", "--kind", "lookup", "--index", "1")
    assert done.returncode == 0
    assert b"\x1b" not in done.stdout
    assert b"Hotel Aurelia" in done.stdout
    assert b"failed: " in done.stdout


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
