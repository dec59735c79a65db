"""Files and folders that cannot be used: one line, what to do, nothing half-written."""

import asyncio
import ctypes
import os
import resource
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from synth import app
from synth.app._endpoints import check_endpoints
from synth.core.config import load_config
from synth.core.errors import BadInput, BadPlace, DiskFull
from synth.core.inputs import read_input, read_text_input

ROOT = str(Path(__file__).parent.parent)
CLINIC = ("--set", "generate.applications=['clinic']", "--set", "generate.agents=2")
LIBC = ctypes.CDLL(None)
DROP, OVERRIDE, SEARCH = 24, 1, 2
FULL = (
    'mkdir -p "$1" && mount -t tmpfs -o size="$2" tmpfs "$1" || exit 99; shift 2; "$@"; echo $?; '
)


def _as_anybody():
    """Let permissions hold for root too (PR_CAPBSET_DROP of CAP_DAC_*)."""
    for capability in (OVERRIDE, SEARCH):
        LIBC.prctl(DROP, capability, 0, 0, 0)


def toolloom(*arguments, prefix=(), before=_as_anybody):
    return subprocess.run(
        [*prefix, sys.executable, "-m", "synth", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
        preexec_fn=before,
        env={**os.environ, "PYTHONPATH": ROOT},
    )


@pytest.fixture
def here(capsys):
    """Run the command in this process, which is much cheaper."""

    def run(*arguments):
        code = app.main([str(argument) for argument in arguments])
        said = capsys.readouterr()
        return subprocess.CompletedProcess(arguments, code, said.out, said.err)

    return run


def one_line(said, code=2):
    assert (said.returncode, len(said.stderr.splitlines())) == (code, 1), said.stderr
    assert "Errno" not in said.stderr
    assert said.stderr.rstrip().endswith(")"), "it says no remedy"
    return said.stderr


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return a workspace with a run that is large enough to fill a small disk."""
    workspace = tmp_path_factory.mktemp("made")
    done = toolloom("--workspace", workspace, "generate", "--accept", 25, *CLINIC)
    assert done.returncode == 0, done.stderr
    return workspace


@pytest.fixture
def read_only(tmp_path):
    folder = tmp_path / "closed"
    folder.mkdir()
    folder.chmod(0o555)
    yield folder
    folder.chmod(0o755)


@pytest.mark.parametrize(
    "line", ["registry stats", "generate --accept 1", "crawl pypi:x", "report", "export", "doctor"]
)
@pytest.mark.parametrize("below", ["", "deeper/still"])
def test_a_workspace_that_is_a_file_is_refused_before_any_work(tmp_path, here, line, below):
    file = tmp_path / "notes.txt"
    file.write_text("mine", encoding="utf-8")
    said = one_line(here("--workspace", file / below, *line.split()))
    assert f"{file}: the workspace is not a folder" in said
    assert "--workspace" in said
    assert file.read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize(
    "line", ["registry stats", "generate --accept 1", "crawl pypi:x", "models fetch smollm2"]
)
def test_a_workspace_without_write_permission_is_named_and_stays_empty(read_only, line):
    said = one_line(toolloom("--workspace", read_only, *line.split()))
    assert f"{read_only}" in said
    assert "no permission to write (change the permissions" in said
    assert list(read_only.iterdir()) == []


def test_a_read_only_workspace_can_still_be_read(made, tmp_path):
    workspace = tmp_path / "shelf"
    assert toolloom("--workspace", made, "registry", "stats").returncode == 0
    shutil.copytree(made, workspace)
    folders = [workspace, *(path for path in workspace.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    try:
        found = toolloom("--workspace", workspace, "registry", "search", "appointment")
        assert (found.returncode, "get_appointment" in found.stdout) == (0, True), found.stderr
        assert toolloom("--workspace", workspace, "report").returncode == 0
        said = one_line(toolloom("--workspace", workspace, "export"))
        assert f"{workspace}/runs/default/dataset: no permission to write" in said
        beside = toolloom("--workspace", workspace, "export", "--to", tmp_path / "beside")
        assert beside.returncode == 0
        assert beside.stderr.startswith("not entered in the registry: ")
        assert sorted(os.listdir(tmp_path / "beside")) == [
            "README.md",
            "train.jsonl",
            "train.parquet",
        ]
    finally:
        for folder in folders:
            folder.chmod(0o755)


def test_an_export_folder_that_cannot_be_written_is_named(made, read_only, tmp_path):
    file = tmp_path / "file"
    file.write_text("", encoding="utf-8")
    for target, says in [
        (read_only, f"{read_only}: no permission to write"),
        (read_only / "new", f"{read_only}/new: no permission to write"),
        (file, f"{file}: a file stands where a folder must be"),
        (file / "new", f"{file}: a file stands where a folder must be"),
    ]:
        assert says in one_line(toolloom("--workspace", made, "export", "--to", target))
    assert list(read_only.iterdir()) == []


def test_a_folder_in_the_place_of_a_data_set_stops_the_export_before_it_replaces_anything(
    made, tmp_path
):
    (tmp_path / "train.jsonl").write_text("old", encoding="utf-8")
    (tmp_path / "train.parquet").mkdir()
    said = one_line(toolloom("--workspace", made, "export", "--to", tmp_path))
    assert f"{tmp_path}/train.parquet: a folder stands where a file must be" in said
    assert (tmp_path / "train.jsonl").read_text(encoding="utf-8") == "old"
    assert sorted(os.listdir(tmp_path)) == ["train.jsonl", "train.parquet"]


def test_a_full_disk_leaves_no_half_an_export(made, tmp_path):
    small = tmp_path / "small"
    script = f'{FULL}find "{small}" -mindepth 1'
    prefix = ("unshare", "-rm", "sh", "-c", script, "sh", str(small), "200k")
    said = toolloom(
        "--workspace", made, "export", "--to", small / "out", prefix=prefix, before=None
    )
    if said.returncode == 99 or "unshare" in said.stderr:
        pytest.skip("no file system can be mounted here")
    assert said.stdout == "1\n", said.stderr
    assert f"{small}/out: no space left on the disk (free some space" in said.stderr
    assert len(said.stderr.splitlines()) == 1


@pytest.mark.parametrize(("blocks", "form"), [(100, "openai"), (8, "parquet")])
def test_a_limit_on_file_sizes_keeps_the_old_data_set(made, tmp_path, blocks, form):
    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (blocks << 10, blocks << 10))

    suffix = {"openai": "jsonl", "parquet": "parquet"}[form]
    (tmp_path / f"train.{suffix}").write_text("old", encoding="utf-8")
    line = ("--workspace", made, "export", "--to", tmp_path, "--format", form)
    said = one_line(toolloom(*line, before=small_files), code=1)
    assert f"{tmp_path}: the file would exceed the largest size" in said
    assert "ulimit -f" in said
    assert os.listdir(tmp_path) == [f"train.{suffix}"]
    assert (tmp_path / f"train.{suffix}").read_text(encoding="utf-8") == "old"


def test_a_full_standard_output_is_one_line(made):
    line = f"exec {sys.executable} -m synth --workspace {made} report > /dev/full"
    said = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
    assert (
        said.stderr == "toolloom report: no space left on the disk (free some space and repeat)\n"
    )
    assert said.returncode == 1


# --- files that are read ---------------------------------------------------------------------

BROKEN = {
    "latin.toml": (
        b"seed = 1 # \xe9t\xe9\n",
        "not UTF-8 text (byte 0xe9 at 11) (save it as UTF-8)",
    ),
    "utf16.toml": ("seed = 1".encode("utf-16"), "not UTF-8 text (byte 0xff at 0)"),
    "zeros.toml": (bytes(50), "not a text file"),
    "huge.toml": (b"#" * (2 << 20), "more than 1 MiB"),
    "deep.toml": (b"a = " + b"[" * 100_000, "nested too deep"),
    "half.toml": (b"[generate", "not TOML: "),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_configuration_that_is_no_text_is_named_with_a_remedy(tmp_path, here, name):
    content, says = BROKEN[name]
    file = tmp_path / name
    file.write_bytes(content)
    workspace = tmp_path / "w"
    said = here("--workspace", workspace, "generate", "--accept", 1, "--config", file)
    assert f"{file}: {says}" in one_line(said)
    assert not workspace.exists()


@pytest.mark.parametrize("line", ["generate --accept 1 --config", "crawl"])
def test_what_cannot_be_read_is_named_with_a_remedy(tmp_path, line):
    locked, folder = tmp_path / "locked.json", tmp_path / "folder.json"
    locked.write_text("{}", encoding="utf-8")
    locked.chmod(0)
    folder.mkdir()
    workspace = ("--workspace", tmp_path / "w")
    for file, says in [
        (locked, "no permission to read it (change its permissions)"),
        (folder, "a folder, not a file"),
        (tmp_path / "gone.json", "there is no such file (check the path)"),
        (locked / "below.json", "there is no such file (check the path)"),
    ]:
        said = one_line(toolloom(*workspace, *line.split(), file))
        assert f"{file}: {says}" in said


def test_a_device_without_an_end_is_not_read_to_its_end():
    with pytest.raises(BadInput, match=r"/dev/zero: more than 1 MiB"):
        read_input(Path("/dev/zero"), most=1 << 20)


def test_a_byte_order_mark_is_no_part_of_a_text(tmp_path):
    file = tmp_path / "windows.toml"
    file.write_bytes(b"\xef\xbb\xbfseed = 1\r\n")
    assert read_text_input(file) == "seed = 1\r\n"


def test_a_nul_in_a_path_is_named():
    with pytest.raises(BadInput, match="null byte"):
        read_input(Path("a\0b"))


def test_a_limit_is_no_bad_input_and_a_file_in_the_way_is():
    assert issubclass(BadPlace, BadInput)
    assert (BadPlace.exit_code, DiskFull.exit_code) == (2, 1)


# --- an endpoint that is not there -----------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("http://127.0.0.1:1/v1", "the connection is refused"),
        ("http://nowhere.invalid/v1", "no machine has that name"),
        ("https://127.0.0.1:99999/v1", "no machine has that name"),
    ],
)
def test_an_endpoint_that_is_not_there_is_named_before_anything_is_played(
    tmp_path, here, monkeypatch, address, why
):
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    model = f"models.agent={{model='m', base_url='{address}', timeout_s=600}}"
    line = ("--workspace", tmp_path / "w", "generate", "--accept", 3, "--set", model)
    said = one_line(here(*line), code=1)
    assert f"models.agent: nobody answers at {address}: {why} (start the endpoint" in said
    assert not (tmp_path / "w").exists()


def test_roles_that_nothing_asks_are_told_in_one_line_and_their_endpoints_left_alone(capsys):
    model = "{model='m', base_url='http://no-such-host.invalid/v1'}"
    settings = [f"models.{role}={model}" for role in ("judge", "world")]
    asyncio.run(check_endpoints(load_config(None, settings)))
    said = capsys.readouterr().err
    assert said.startswith("models.world, models.judge: given, and asked for nothing")
    assert said.count("\n") == 1
    asyncio.run(check_endpoints(load_config(None, [])))
    assert capsys.readouterr().err == ""


def test_an_endpoint_that_is_there_or_slow_or_behind_a_proxy_is_no_error(monkeypatch):
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)

    def check(address):
        at = f"models.user={{model='m', base_url='{address}'}}"
        asyncio.run(check_endpoints(load_config(None, [at])))

    with socket.create_server(("127.0.0.1", 0)) as server:
        check(f"http://127.0.0.1:{server.getsockname()[1]}/v1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    check("http://127.0.0.1:1/v1")
