"""Every tier is tried with a positive control: a sandbox that fails to start looks secure."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from synth.core.sandbox.confine import (
    NoConfinement,
    ProcessLimits,
    command_line,
    confine,
    hidden_places,
    probe,
    tier,
)

ROOT = Path(__file__).parent.parent.parent
WHY_NOT = {kind: probe(kind) for kind in ("bwrap", "unshare")}
TIERS = [kind for kind, why in WHY_NOT.items() if not why]
needs_namespaces = pytest.mark.skipif(not TIERS, reason="this machine offers no namespaces")
PREFIXES = [Path(sys.prefix), Path(sys.base_prefix), ROOT]


@pytest.fixture(params=["bwrap", "unshare"])
def kind(request):
    if request.param not in TIERS:
        pytest.skip(f"{request.param} does not work here: {WHY_NOT[request.param]}")
    return request.param


def run(kind, folder, code, *arguments, network=False, readable=(), limits=None):
    argv = [sys.executable, "-I", "-S", "-c", code, *map(str, arguments)]
    shown = [*PREFIXES, *readable]
    command = command_line(kind, argv, [folder], network, shown, None, limits)
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False, env={})


def answer(kind, folder, code, *arguments, **options):
    done = run(kind, folder, code, *arguments, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_positive_control_runs(kind, tmp_path):
    code = "open('here', 'w').write('x'); import os; print(6 * 7, os.getcwd())"
    assert answer(kind, tmp_path, code) == f"42 {tmp_path}"
    assert (tmp_path / "here").read_text(encoding="utf-8") == "x"


@pytest.mark.parametrize("place", ["/", "/etc", "/usr", "/dev", "/proc/sys/kernel", "/home", "~"])
def test_no_other_folder_is_writable(kind, tmp_path, place):
    code = "import sys; open(sys.argv[1] + '/written', 'w')"
    done = run(kind, tmp_path, code, os.path.expanduser(place).rstrip("/"))
    assert done.returncode == 1
    assert "Error" in done.stderr.splitlines()[-1]


def test_temporary_files_are_private(kind, tmp_path):
    code = "import os; open('/tmp/note', 'w').write('x'); print(sorted(os.listdir('/tmp')))"
    listed = answer(kind, tmp_path, code)
    assert "note" in listed
    assert not Path("/tmp/note").exists()


def test_homes_are_empty_but_for_what_is_shown(kind, tmp_path, monkeypatch):
    home = tmp_path / "home"
    for name in ("secret", "shown"):
        (home / name).mkdir(parents=True)
        (home / name / "file").write_text(name, encoding="utf-8")
    monkeypatch.setenv("HOME", str(home))
    assert str(home) in hidden_places()
    work = tmp_path / "work"
    work.mkdir()
    code = (
        "import os, sys; print(os.listdir(sys.argv[1]), open(sys.argv[1] + '/shown/file').read())"
    )
    assert answer(kind, work, code, home, readable=[home / "shown"]) == "['shown'] shown"


def test_what_is_shown_is_read_only(kind, tmp_path):
    shown = tmp_path / "shown"
    work = tmp_path / "work"
    shown.mkdir()
    work.mkdir()
    code = "import sys; open(sys.argv[1] + '/x', 'w')"
    assert "Read-only file system" in run(kind, work, code, shown, readable=[shown]).stderr


def test_links_lead_nowhere_new(kind, tmp_path):
    outside, work = tmp_path / "outside", tmp_path / "work"
    outside.mkdir()
    work.mkdir()
    (work / "link").symlink_to(outside)
    run(kind, work, "open('link/x', 'w')")
    assert list(outside.iterdir()) == []


def test_no_process_but_its_own_is_seen_or_signalled(kind, tmp_path):
    code = """
import os, sys
print(len([n for n in os.listdir("/proc") if n.isdigit()]))
try:
    os.kill(int(sys.argv[1]), 0)
    print("reached")
except OSError as error:
    print(type(error).__name__)
"""
    count, reached = answer(kind, tmp_path, code, os.getpid()).split()
    assert int(count) <= 2
    assert reached == "ProcessLookupError"


@pytest.mark.parametrize("network", [True, False])
def test_the_network_is_there_only_when_asked_for(kind, tmp_path, network):
    code = "import socket; print([n for _, n in socket.if_nameindex()])"
    seen = answer(kind, tmp_path, code, network=network)
    outer = str([name for _, name in __import__("socket").if_nameindex()])
    assert seen == (outer if network else "['lo']")


def test_the_private_loopback_works(kind, tmp_path):
    code = """
import socket
listener = socket.create_server(("127.0.0.1", 0))
socket.create_connection(listener.getsockname(), timeout=5).close()
print("connected")
"""
    assert answer(kind, tmp_path, code) == "connected"


@pytest.mark.parametrize(
    "attempt",
    [
        "import ctypes; libc = ctypes.CDLL(None, use_errno=True); "
        "print(libc.umount2(sys.argv[1].encode(), 2))",
        "import ctypes; libc = ctypes.CDLL(None, use_errno=True); "
        "print(libc.mount(b'tmpfs', b'/etc', b'tmpfs', 0, b''))",
    ],
    ids=["umount", "mount"],
)
def test_no_capability_is_left(kind, tmp_path, attempt):
    assert answer(kind, tmp_path, "import sys; " + attempt, hidden_places()[0]) == "-1"


def test_limits_hold(kind, tmp_path):
    limits = ProcessLimits(file_bytes=1000, memory_bytes=256 << 20, cpu_s=1)
    done = run(kind, tmp_path, "open('f', 'wb', 0).write(b'x' * 5000)", limits=limits)
    assert (tmp_path / "f").stat().st_size == 1000, done.stderr
    done = run(kind, tmp_path, "bytearray(1 << 30)", limits=limits)
    assert done.stderr.strip().endswith("MemoryError")
    done = run(kind, tmp_path, "while True: pass", limits=limits)
    assert done.returncode != 0


def test_everything_ends_when_the_starter_is_killed(kind, tmp_path):
    starter = (
        "import subprocess, sys, time; from pathlib import Path; sys.path.insert(0, sys.argv[3]);"
        "from synth.core.sandbox.confine import command_line;"
        "argv = [sys.executable, '-I', '-S', '-c', 'import time; open(\"up\", \"w\"); "
        "time.sleep(60)'];"
        "shown = [Path(sys.prefix), Path(sys.base_prefix), Path(sys.argv[3])];"
        "subprocess.Popen(command_line(sys.argv[1], argv, [Path(sys.argv[2])], False, shown, None,"
        " None), env={'MARKER': sys.argv[2]}); time.sleep(60)"
    )
    command = [sys.executable, "-c", starter, kind, str(tmp_path), str(ROOT)]
    process = subprocess.Popen(command)
    deadline = time.monotonic() + 20
    while not (tmp_path / "up").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert marked(tmp_path)
    process.send_signal(signal.SIGKILL)
    process.wait()
    while marked(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert marked(tmp_path) == []


def marked(folder):
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if f"MARKER={folder}".encode() in (entry / "environ").read_bytes():
                found.append(entry.name)
        except OSError:
            continue
    return found


def test_a_command_that_cannot_be_confined_is_not_started(kind, tmp_path):
    argv = [sys.executable, "-I", "-S", "-c", "open('started', 'w')"]
    absent = tmp_path / "absent"
    command = command_line(kind, argv, [tmp_path], False, PREFIXES, absent, None)
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={})
    assert done.returncode != 0
    assert "absent" in done.stderr
    assert not (tmp_path / "started").exists()


@needs_namespaces
def test_the_best_tier_is_the_first_that_holds():
    assert tier() == TIERS[0]
    assert "sees the network" in probe("rlimits")


@needs_namespaces
def test_a_machine_without_namespaces_refuses_unless_the_risk_is_accepted(tmp_path):
    """Inside our own sandbox no namespace can be made: such a machine without leaving this one."""
    code = """
import sys
sys.path[:0] = sys.argv[1:]
from pathlib import Path
from synth.core.sandbox.confine import NoConfinement, confine, tier
print(tier())
try:
    confine([sys.executable], writable=Path("."), network=False)
except NoConfinement as error:
    print(error)
import subprocess
command = confine(
    [sys.executable, "-I", "-S", "-c", "print(6 * 7)"],
    writable=Path("."), network=False, allow_weaker=True,
)
print(subprocess.run(command, capture_output=True, text=True).stdout)
"""
    packages = [path for path in sys.path if path.endswith("site-packages")]
    kind, refusal, ran = answer("unshare", tmp_path, code, ROOT, *packages).splitlines()[:3]
    assert kind == "rlimits"
    assert "neither bubblewrap nor user namespaces" in refusal
    assert "install bubblewrap" in refusal
    assert ran == "42"


def test_a_refusal_is_an_error_of_ours():
    assert NoConfinement("what").exit_code == 1
    assert confine.__doc__
