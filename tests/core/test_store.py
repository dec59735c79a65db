"""The registry file: short transactions, other processes, damage, full disks."""

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import duckdb
import pytest

from synth.core.errors import (
    DiskFull,
    StoreDamaged,
    StoreLocked,
    ToolloomError,
    WrongWorkspace,
)
from synth.core.store import MIGRATIONS, Workspace, insert

ROOT = Path(__file__).parent.parent.parent
WRITE = """
import sys, time
from synth.core.store import Workspace, insert
workspace = Workspace(sys.argv[1])
"""


@pytest.fixture
def python():
    """Run code that imports the store in another process; ends it at the end of the test."""
    started = []

    def start(code, *arguments):
        command = [sys.executable, "-c", WRITE + code, *map(str, arguments)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def categories(workspace):
    with workspace.read() as con:
        return [row[0] for row in con.execute("FROM categories ORDER BY 1").fetchall()]


def add(con, *names):
    return insert(con, "categories", ({"category": name, "description": None} for name in names))


def files(workspace):
    return sorted(path.name for path in workspace.path.iterdir())


def test_a_new_folder_answers_like_an_empty_registry(fresh):
    assert not fresh.path.exists()
    assert categories(fresh) == []
    assert files(fresh) == ["registry.duckdb"]


def test_making_a_workspace_touches_nothing(fresh):
    assert fresh.runs.name == "runs"
    assert not fresh.path.exists()


def test_a_block_is_stored_whole_or_not_at_all(workspace):
    with workspace.write() as con:
        add(con, "kept")

    def failing():
        with workspace.write() as con:
            add(con, "lost")
            raise ValueError("something of the caller's")

    with pytest.raises(ValueError, match="of the caller's"):
        failing()
    assert categories(workspace) == ["kept"]


def test_errors_of_a_query_stay_what_they_are(workspace):
    with workspace.write() as con, pytest.raises(duckdb.CatalogException):
        con.execute("SELECT * FROM no_such_table")
    with pytest.raises(duckdb.ConstraintException), workspace.write() as con:
        add(con, "twice", "twice")


@pytest.mark.parametrize(
    "query",
    [
        "DELETE FROM categories",
        "CREATE TABLE x (i INTEGER)",
        "COPY categories TO '{}/out.csv'",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM glob('/*')",
        "ATTACH '{}/other.duckdb'",
        "SET enable_external_access = true",
        "INSTALL httpfs",
        "EXPORT DATABASE '{}/out'",
    ],
)
def test_a_reader_writes_nothing_and_reaches_no_other_file(workspace, tmp_path, query):
    with workspace.read() as con, pytest.raises(duckdb.Error):
        con.execute(query.format(tmp_path)).fetchall()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ws"]


# --- other processes -------------------------------------------------------------------------


@pytest.mark.claim("k08")
def test_a_lock_held_elsewhere_names_process_command_and_remedy(workspace, python):
    holder = python(
        "with workspace.write():\n print('open', flush=True)\n time.sleep(60)", workspace.path
    )
    assert holder.stdout.readline() == b"open\n"
    for opening in (workspace.read, workspace.write):
        with pytest.raises(StoreLocked) as failure, opening():
            pass
        text = str(failure.value)
        assert f"process {holder.pid} ({sys.executable} -c" in text
        assert f"kill {holder.pid}" in text
        assert str(workspace.database) in text


def test_a_lock_is_waited_for(workspace, python):
    code = "with workspace.write() as con:\n print('open', flush=True)\n time.sleep(0.5)"
    holder = python(code, workspace.path)
    assert holder.stdout.readline() == b"open\n"
    patient = Workspace(workspace.path, wait_s=30)
    with patient.write() as con:
        add(con, "mine")
    assert categories(workspace) == ["mine"]


@pytest.mark.claim("k08")
def test_many_processes_read_at_once(workspace, python):
    with workspace.write() as con:
        add(con, "seen")
    other = python(
        "with workspace.read():\n print('open', flush=True)\n time.sleep(60)", workspace.path
    )
    assert other.stdout.readline() == b"open\n"
    assert categories(workspace) == ["seen"]


def test_reading_inside_a_write_of_the_same_process_is_told_apart(workspace):
    inside = pytest.raises(StoreLocked, match="already open in this process")
    with workspace.write(), inside, workspace.read():
        pass


def test_threads_of_one_process_write_in_turn(workspace):
    patient = Workspace(workspace.path, wait_s=30)

    def work(number):
        with patient.write() as con:
            add(con, f"c{number}")

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert categories(workspace) == [f"c{n}" for n in range(6)]


def test_what_was_acknowledged_survives_kill_9_and_what_was_not_does_not(workspace, python):
    code = """
def fill(con, word):
    rows = ({"category": f"{word}{n}", "description": "x" * 100} for n in range(500))
    insert(con, "categories", rows)
with workspace.write() as con:
    fill(con, "kept")
with workspace.write() as con:
    fill(con, "lost")
    print("now", flush=True)
    time.sleep(60)
"""
    process = python(code, workspace.path)
    assert process.stdout.readline() == b"now\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    names = categories(workspace)
    assert len(names) == 500
    assert all(name.startswith("kept") for name in names)


# --- other versions, damage, full disks ------------------------------------------------------


def test_every_migration_is_applied_once_and_in_order(fresh):
    for _ in range(2):
        with fresh.write():
            pass
    with fresh.read() as con:
        numbers = con.execute("SELECT number FROM migrations ORDER BY applied, number").fetchall()
    assert numbers == [(n,) for n in range(1, len(list(MIGRATIONS.glob("*.sql"))) + 1)]


def test_an_older_workspace_is_brought_up_to_date_by_a_reader(fresh):
    fresh.path.mkdir()
    with duckdb.connect(str(fresh.database)) as con:
        con.execute((MIGRATIONS / "0001_registry.sql").read_text(encoding="utf-8"))
        con.execute("CREATE TABLE migrations (number INTEGER PRIMARY KEY, applied TIMESTAMP)")
        con.execute("INSERT INTO migrations VALUES (1, now())")
        con.execute("INSERT INTO categories VALUES ('old', NULL)")
    with fresh.read() as con:
        assert con.execute("SELECT count(*) FROM tool_usage").fetchall() == [(0,)]
    assert categories(fresh) == ["old"]


@pytest.mark.parametrize("opening", ["read", "write"])
def test_a_newer_workspace_is_refused_untouched(workspace, opening):
    with workspace.write() as con:
        con.execute("INSERT INTO migrations VALUES (999, now())")
    before = workspace.database.read_bytes()
    refused = pytest.raises(WrongWorkspace, match="schema 999")
    with refused as failure, getattr(workspace, opening)():
        pass
    assert failure.value.exit_code == 2
    assert workspace.database.read_bytes() == before


@pytest.mark.claim("k10")
@pytest.mark.parametrize("damage", ["garbage", "cut", "header", "log"])
def test_a_damaged_registry_is_kept_aside_and_the_next_command_works(workspace, damage, python):
    with workspace.write() as con:
        add(con, *(f"c{n}" for n in range(2000)))
    data = workspace.database.read_bytes()
    log = workspace.database.with_name("registry.duckdb.wal")
    if damage == "garbage":
        workspace.database.write_bytes(b"hello" * 5000)
    elif damage == "cut":
        workspace.database.write_bytes(data[:10_000])
    elif damage == "header":
        workspace.database.write_bytes(data[:5000] + bytes([data[5000] ^ 1]) + data[5001:])
    else:
        process = python(
            "import duckdb, os\ncon = duckdb.connect(str(workspace.database))\n"
            "con.execute(\"INSERT INTO categories SELECT 'k' || i, 'd' FROM range(100) t(i)\")\n"
            "os.kill(os.getpid(), 9)",
            workspace.path,
        )
        process.wait()
        text = bytearray(log.read_bytes())
        text[len(text) // 2] ^= 1
        log.write_bytes(text)
    broken = workspace.database.read_bytes()
    with pytest.raises(StoreDamaged, match=r"kept as registry\.duckdb\.damaged-1"):
        categories(workspace)
    kept = workspace.path / "registry.duckdb.damaged-1"
    assert kept.read_bytes() == broken
    assert kept.with_name(f"{kept.name}.wal").exists() is (damage == "log")
    assert not log.exists()
    assert categories(workspace) == []


@pytest.mark.claim("k09")
@pytest.mark.parametrize("cut", [1, 50, 1000])
def test_a_log_that_was_cut_off_loses_the_last_blocks_and_nothing_else(workspace, cut, python):
    with workspace.write() as con:
        add(con, "a")
    process = python(
        "import duckdb, os\ncon = duckdb.connect(str(workspace.database))\n"
        "for n in range(40):\n"
        "    con.execute('INSERT INTO categories VALUES (?, NULL)', [f'b{n:02}' + 'x' * 60])\n"
        "os.kill(os.getpid(), 9)",
        workspace.path,
    )
    process.wait()
    log = workspace.database.with_name("registry.duckdb.wal")
    log.write_bytes(log.read_bytes()[:-cut])
    kept = [name[:3] for name in categories(workspace)]
    assert kept == ["a", *(f"b{n:02}" for n in range(len(kept) - 1))]
    assert 40 - cut // 60 - 2 <= len(kept) - 1 < 40
    with workspace.write() as con:  # and it goes on
        add(con, "z")
    assert [name[:3] for name in categories(workspace)] == [*kept, "z"]
    assert not list(workspace.path.glob("*.damaged*"))


def test_a_query_that_only_talks_of_damage_moves_nothing(workspace):
    with workspace.read() as con, pytest.raises(duckdb.Error):
        con.execute("SELECT error('Corrupt database file: computed checksum')").fetchall()
    assert files(workspace) == ["registry.duckdb"]


def test_an_empty_file_left_by_a_full_disk_is_no_damage(fresh):
    fresh.path.mkdir()
    fresh.database.write_bytes(b"")
    assert categories(fresh) == []


def test_a_full_disk_is_named_and_nothing_of_the_block_remains(workspace, python):
    with workspace.write() as con:
        add(con, "kept")
    size = workspace.database.stat().st_size
    code = f"""
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, ({size + 300_000}, {size + 300_000}))
from synth.core.errors import DiskFull
try:
    with workspace.write() as con:
        for n in range(50):
            names = ((f"{{n}}-{{i}}", str(i * n) * 300) for i in range(2000))
            insert(con, "categories", ({{"category": c, "description": d}} for c, d in names))
except DiskFull as error:
    print("full:", error, flush=True)
"""
    out, errors = python(code, workspace.path).communicate(timeout=60)
    assert out.startswith(b"full: "), errors.decode()[-2000:]
    assert b"nothing of this step was stored" in out
    assert categories(workspace) == ["kept"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_is_named(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(ToolloomError, match="ermission"):
        categories(Workspace(tmp_path / "ws"))


def test_a_path_below_a_file_is_named(tmp_path):
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(ToolloomError, match=str(tmp_path)) as failure:
        categories(Workspace(tmp_path / "file" / "ws"))
    assert not isinstance(failure.value, (StoreDamaged, DiskFull))


TABLES = """
servers tools tool_versions tool_sightings rejects crawls categories applications tool_edges
search_words search_tools toolsets agents agent_tools tasks criteria runs run_tools plans episodes
steps verdicts exports export_rows training_runs checkpoints evaluations migrations
near_duplicates map_points ancestry
"""


def test_the_registry_has_the_tables_that_something_writes_and_no_others(workspace):
    with workspace.read() as con:
        query = "SELECT table_name, estimated_size FROM duckdb_tables()"
        counts = dict(con.execute(query).fetchall())
    assert set(counts) == set(TABLES.split())
    assert {name for name, rows in counts.items() if rows} == {"migrations"}
    written = "".join(
        path.read_text(encoding="utf-8")
        for folder in ("synth", "tool_registry")
        for path in (ROOT / folder).rglob("*.py")
    )
    assert [t for t in counts if not re.search(rf'INTO {t}\b|\(con, "{t}"|"{t}": ', written)] == []


def test_long_statements_draw_no_bar_where_results_are_printed(workspace):
    for opened in (workspace.write, workspace.read):
        with opened() as con:
            assert con.execute("SELECT current_setting('enable_progress_bar')").fetchone() == (
                False,
            )
