"""Whatever runs in the sandbox stays in it, takes no more than it may, and ends with the call."""

import argparse
import asyncio
import json
import os
import time
from pathlib import Path

import pytest

from simulators.live.folder import MAX_ENTRIES, MAX_FILE, MAX_TOTAL, Tree
from simulators.sandbox import run as sandbox_run
from simulators.sandbox.environment import SandboxEnvironment
from simulators.sandbox.project import Project
from simulators.sandbox.run import Bounds, bash, python, run, why_not
from simulators.sandbox.state import State
from synth.app import doctor
from synth.core.errors import ToolloomError
from synth.core.sandbox import room
from synth.core.sandbox.confine import NoConfinement

WHY_NOT = asyncio.run(why_not())
pytestmark = pytest.mark.skipif(WHY_NOT != "", reason=f"this machine makes no rooms: {WHY_NOT}")
REPOSITORY = Path(sandbox_run.__file__).parents[2]
BPF = {"x86_64": 321, "aarch64": 280}.get(os.uname().machine)
PROJECT = Project("p", "", {"a.txt": b"a\n"}, {}, {})


def ran(command, *, seconds=20.0, **bounds):
    """Run a command of bash, or code of Python, in a new folder."""
    is_python = command.lstrip().startswith("import")
    argv = [python() if is_python else bash(), "-c", command]
    return asyncio.run(run(argv, State(Tree({})), seconds=seconds, bounds=Bounds(**bounds)))


def alive(mark):
    """Return the processes of this machine that have `mark` in their command line."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (entry / "cmdline").read_bytes():
                found.append(entry.name)
        except OSError:
            continue
    return found


# --- taking too much -----------------------------------------------------------------------------

_BOMB = """
import os, time
started = 0
try:
    while started < 500:
        if os.fork() == 0:
            time.sleep(60)
        started += 1
except BlockingIOError:
    print("refused", started < 20)
"""


def test_a_fork_bomb_is_refused_its_processes_and_none_of_them_is_left():
    assert ran(_BOMB, processes=20).output == "refused True\n"
    done = ran("b98761() { b98761 | b98761 & }; b98761; sleep 98761", seconds=1.0, processes=30)
    assert done.ended == "time"
    assert alive("98761") == []


def test_output_without_end_is_ended_soon_and_little_of_it_is_shown():
    begun = time.monotonic()
    done = ran("import os\nwhile True: os.write(1, b'x' * 100_000)", output=1 << 18, shown=1_000)
    assert done.ended == "output"
    assert 1_000 <= len(done.output) < 1_100
    assert "characters left out" in done.output
    assert time.monotonic() - begun < 15.0


def test_the_disk_is_bounded_in_bytes_and_in_files_and_a_file_in_its_size():
    done = ran(
        "for i in {1..15}; do head -c 4000000 /dev/zero > f$i || break; done; rm f*; echo $i"
    )
    assert "No space left on device" in done.output
    assert int(done.output.splitlines()[-1]) <= MAX_TOTAL // 4_000_000 + 3
    done = ran("import os\nfor n in range(5000): open(str(n), 'w').close()")
    assert "No space left on device" in done.output
    assert len(done.state.tree.entries) == MAX_ENTRIES
    done = ran("head -c 6000000 /dev/zero > big; stat -c %s big; head -c 9 big > big2; mv big2 big")
    assert done.output.splitlines()[-1] == str(MAX_FILE - 1)
    assert len(done.state.tree.entries["big"]) == 9


def test_memory_is_bounded_for_one_process_and_for_all_of_them_and_without_an_owner_there_is_none():
    assert "MemoryError" in ran("import os\nbytearray(1 << 30)", process_memory=256 << 20).output
    many = "import os, time\n[os.fork() for _ in 'ab']\nb = b'x' * (50 << 20)\ntime.sleep(30)"
    assert ran(many, memory=120 << 20).ended == "memory"
    shared = "import mmap\nmmap.mmap(-1, 1 << 32)"
    assert "Cannot allocate memory" in ran(shared).output
    ownerless = (
        "import ctypes, os\nlibrary = ctypes.CDLL(None, use_errno=True)\n"
        f"library.syscall({BPF}, 0, bytes(120), 120)\nprint(ctypes.get_errno(), "
        "library.shmget(0, 4096, 0o1600), library.semget(0, 32000, 0o600), "
        "library.msgget(0, 0o600),"
        "library.syscall(425, 64, bytes(256)), library.syscall(447, 0))\n"
        "try: os.memfd_create('x')\nexcept PermissionError: print('refused')"
    )
    assert ran(ownerless).output == "1 -1 -1 -1 -1 -1\nrefused\n"


_GIVEN_BACK = """
import mmap, time
zero = open("/dev/zero", "r+b")
held = mmap.mmap(WHERE, 60 << 20)
for at in range(0, 60 << 20, 1 << 20):
    held[at : at + (1 << 20)] = b"x" * (1 << 20)
    held.madvise(mmap.MADV_DONTNEED, at, 1 << 20)
time.sleep(30)
"""
_ASIDE = "import socket, time\nheld = [socket.socketpair() for _ in range(90)]\ntime.sleep(30)"


@pytest.mark.parametrize(
    "code",
    [
        _GIVEN_BACK.replace("WHERE", "-1"),
        _GIVEN_BACK.replace("WHERE", "zero.fileno()"),
        _ASIDE,
    ],
    ids=["shared", "zero", "sockets"],
)
def test_memory_that_is_not_resident_counts_too(code):
    assert ran(code, memory=60 << 20).ended == "memory"


def test_time_is_bounded_whatever_a_program_does_against_it():
    stubborn = "trap '' TERM INT HUP; python -c 'while True: pass' & while :; do sleep 98762; done"
    begun = time.monotonic()
    assert ran(stubborn, seconds=0.7).ended == "time"
    assert time.monotonic() - begun < 8.0
    assert alive("98762") == []


def test_nothing_goes_on_after_the_call():
    orphan = "import os, time; os.fork() or os.setsid() or os.fork() or time.sleep(98763)"
    leave = (
        "setsid nohup sleep 98763 > /dev/null 2>&1 & (sleep 98763 &) ; exec 3>&1; "
        f"python -c '{orphan}' & sleep 0.1; echo left"
    )
    begun = time.monotonic()
    assert ran(leave).output == "left\n"
    assert time.monotonic() - begun < 10.0
    assert alive("98763") == []


# --- reaching out --------------------------------------------------------------------------------


def test_nothing_is_written_elsewhere(tmp_path):
    places = f"/ /etc /usr /dev /home /root /var {tmp_path} {REPOSITORY} /proc/sys/kernel /tmp/.."
    done = ran(f"for p in {places}; do echo x 2>/dev/null > $p/toolloom_was_here && echo $p; done")
    assert done.output == ""
    assert not Path("/toolloom_was_here").exists()
    assert list(tmp_path.iterdir()) == []


def test_secrets_of_this_machine_are_not_there(tmp_path, monkeypatch):
    secret = tmp_path / "secret"
    secret.write_text("hush", encoding="utf-8")
    monkeypatch.setenv("TOOLLOOM_SECRET", "hush")
    here = Path(__file__)
    places = (
        f"/etc/shadow {secret} {here} {sandbox_run.__file__} ~/.ssh /proc/1/environ /proc/1/mem"
    )
    done = ran(f"for p in {places}; do cat $p && echo $p is there; done 2>/dev/null; env; "
               "cat /proc/self/environ /proc/1/cmdline")  # fmt: skip
    assert "is there" not in done.output
    assert "hush" not in done.output
    assert "toolloom" not in done.output.lower()
    assert str(REPOSITORY) not in done.output
    assert not any(name in done.output for name in ("HOME=/root", "VIRTUAL_ENV", "PYTHONPATH"))


def test_our_packages_and_their_hidden_tests_are_not_to_be_found():
    names = ("simulators", "synth", "train", "orjson", "pytest")
    code = f"import importlib.util as u, os\nprint([n for n in {names} if u.find_spec(n)])\n"
    files = [str(path) for path in (REPOSITORY / "simulators" / "sandbox").rglob("*")]
    found = ran(f"{code}print([f for f in {files} if os.path.exists(f)])")
    assert found.output == "[]\n[]\n"


def test_a_link_out_of_the_folder_is_kept_and_leads_nobody_there(tmp_path):
    (tmp_path / "secret").write_text("hush", encoding="utf-8")

    async def play():
        environment = SandboxEnvironment(lambda seed: PROJECT)
        await environment.reset(0)
        make = f"ln -s {tmp_path} out; ln -s {tmp_path}/secret file; ln -s /etc/passwd p; cat file"
        results = [await environment.call("run_bash", {"command": make})]
        for path in ("out/secret", "file", "p", "out"):
            results.append(await environment.call("read_file", {"path": path}))
            given = {"path": path if path != "out" else "out/new", "content": "x"}
            results.append(await environment.call("write_file", given))
        again = await environment.call("run_bash", {"command": "readlink out; cat out/secret"})
        return results, again.content

    results, again = asyncio.run(play())
    assert "No such file" in results[0].content
    assert {result.error.code for result in results[1:]} == {"outside"}
    assert again.startswith(f"{tmp_path}\n")
    assert "hush" not in again
    assert [file.name for file in tmp_path.iterdir()] == ["secret"]


def test_no_parent_is_killed_and_nobody_else_is_seen():
    done = ran(
        "kill -9 1; kill -9 -1; kill -9 $PPID; kill -9 " + str(os.getpid()) + "; "
        "ls -d /proc/[0-9]* | wc -l; grep -E 'CapEff|NoNewPrivs|Seccomp:' /proc/self/status; "
        "unshare -U true; mount -t tmpfs t /tmp; echo on"
    )
    lines = done.output.splitlines()
    assert lines[-1] == "on"
    assert int(next(line for line in lines if line.isdigit())) <= 4
    assert {"CapEff:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"} <= set(lines)


def test_there_is_no_network_but_ones_own_and_no_device_but_the_harmless():
    done = ran(
        "import os, socket\n"
        "print([n for _, n in socket.if_nameindex()])\n"
        "with socket.create_server(('127.0.0.1', 0)) as own:\n"
        "    socket.create_connection(own.getsockname(), timeout=5).close()\n"
        "try: socket.create_connection(('192.0.2.1', 80), timeout=5)\n"
        "except OSError as error: print(error.errno)\n"
        "print(sorted(set(os.listdir('/dev')) - {'tty', 'full'}), os.listdir('/sys'))"
    )
    devices = ["fd", "null", "random", "shm", "stderr", "stdin", "stdout", "urandom", "zero"]
    assert done.output.splitlines() == ["['lo']", "101", f"{devices} []"]


def test_what_is_no_file_is_left_out_and_a_name_that_is_no_text_is_kept():
    async def play():
        environment = SandboxEnvironment(lambda seed: PROJECT)
        await environment.reset(0)
        odd = "import os, socket\nsocket.socket(socket.AF_UNIX).bind('s')\nos.mkfifo('f')\n"
        odd += "os.mkdir(b'\\xff')\nopen(b'\\xff/\\xfe\\n', 'w').write('x')\nos.chmod(b'\\xff', 0)"
        await environment.call("run_python", {"code": odd})
        await environment.restore(await environment.snapshot())
        shown = await environment.call("list_files", {})
        seen = await environment.call(
            "run_bash", {"command": "chmod 700 $'\\xff'; ls -bR; cat */*"}
        )
        return await environment.diff(), shown.content, seen.content

    diff, shown, seen = asyncio.run(play())
    rows = [json.loads(line)[3] for line in diff]
    assert [(row["path"], row["raw"]) for row in rows] == [
        ("\\xff/\\xfe\n", "ff2ffe0a"), ("\\xff", "ff"),
    ]  # fmt: skip
    assert shown == "a.txt  2 bytes\n\\xff/\n\\xff/\\xfe\n  1 bytes"
    assert "\\377:\n\\376\\n\n" in seen
    assert seen.endswith("x\n[exit code 0]")


def test_a_room_that_cannot_be_made_is_an_error_that_says_why(monkeypatch):
    monkeypatch.setattr(sandbox_run, "PLACE", "/proc/project")
    with pytest.raises(NoConfinement, match="not started"):
        ran("true")


def test_doctor_says_why_a_machine_makes_no_rooms(monkeypatch, tmp_path):
    arguments = argparse.Namespace(json=True, workspace=tmp_path)
    assert doctor.run(arguments)["rooms"] == "ready"
    monkeypatch.setattr(sandbox_run, "PLACE", "/proc/project")
    said = doctor.run(arguments)["rooms"]
    assert said.startswith("none for commands of coding agents: ")
    assert "/proc/project" in said


def test_a_command_that_is_not_started_is_an_error_and_not_a_folder_that_was_lost():
    with pytest.raises(NoConfinement, match="not started"):
        asyncio.run(run(["/none"], State(Tree({"a": b"a"})), seconds=5.0))
    with pytest.raises(NoConfinement, match="null"):
        asyncio.run(run([bash(), "-c", "ls"], State(Tree({"a\0": b""})), seconds=5.0))


def test_a_room_that_does_not_come_to_its_end_is_nobodys_verdict(monkeypatch):
    monkeypatch.setattr(sandbox_run, "_GRACE_S", -19.5)
    with pytest.raises(ToolloomError, match="neither began nor ended"):
        ran("sleep 98764", seconds=20.0)
    assert alive("98764") == []


def test_a_machine_whose_calls_are_not_known_starts_nothing(monkeypatch):
    monkeypatch.setattr(room, "MACHINES", {})
    with pytest.raises(OSError, match="are not known"):
        room._refuse_ownerless_memory()
