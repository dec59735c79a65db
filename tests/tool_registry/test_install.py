"""Installers: told where to look, bounded, with chosen variables only; secrets recognised."""

import asyncio
import os
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synth.core.errors import ServerFailed
from tool_registry import install, secrets


def run(*argv, limit_s=20.0, env=None):
    return asyncio.run(install.run_installer(argv, limit_s=limit_s, env=env))


def test_what_pip_is_told_uv_is_told_too():
    text = "\n".join(
        [
            ":env:.cert='/certs/own.pem'",
            "global.cert='/certs/all.pem'",
            "global.index-url='https://index.example/simple'",
            "global.extra-index-url='https://one.example https://two.example'",
            "install.find-links='/wheels'",
            "global.constraint='/c.txt'",
            "freeze.timeout='10'",
            "global.broken=(",
        ]
    )
    index = install.parse_pip_config(text)
    assert index == install.PythonIndex(
        index="https://index.example/simple",
        extra=("https://one.example", "https://two.example"),
        links=("/wheels",),
        constraints=("/c.txt",),
        certificate="/certs/own.pem",
    )
    options, env = install.uv_options(index)
    assert options == ["--index-strategy", "unsafe-best-match", "--constraint", "/c.txt"]
    assert env == {
        "UV_INDEX_URL": "https://index.example/simple",
        "UV_EXTRA_INDEX_URL": "https://one.example https://two.example",
        "UV_FIND_LINKS": "/wheels",
        "SSL_CERT_FILE": "/certs/own.pem",
    }


def test_a_credential_in_an_address_is_in_no_argument():
    secret = "https://me:hunter2@index.example/simple"
    index = install.PythonIndex(index=secret, extra=(secret,), links=(secret,))
    options, env = install.uv_options(index)
    assert "hunter2" not in " ".join(options)
    assert [name for name, value in env.items() if "hunter2" in value] == [
        "UV_INDEX_URL",
        "UV_EXTRA_INDEX_URL",
        "UV_FIND_LINKS",
    ]


@pytest.mark.skipif(install.uv() is None, reason="uv is not installed")
def test_uv_itself_reads_the_addresses_from_the_environment(tmp_path):
    """A folder without wheels and an index that refuses: uv says which address it asked."""
    index = install.PythonIndex(index="http://me:hunter2@127.0.0.1:9/own/simple")
    options, env = install.uv_options(index)
    command = [install.uv(), "pip", "install", "--no-cache", "--target", str(tmp_path), *options]
    done = run(*command, "nothing", env=env | {"UV_HTTP_RETRIES": "0"})
    assert done.status != 0
    assert "127.0.0.1:9/own/simple" in done.output
    assert "hunter2" not in done.output


@pytest.mark.parametrize("text", ["", "nonsense", "ERROR: no pip"])
def test_nothing_configured_means_no_options(text):
    assert install.uv_options(install.parse_pip_config(text)) == ([], {})


def test_an_installer_sees_where_to_fetch_from_and_no_other_secret(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example")
    monkeypatch.setenv("UV_INDEX", "https://index.example")
    code = "import os; print(sorted(os.environ))"
    done = run(sys.executable, "-c", code, env={"EXTRA": "1"})
    assert done.status == 0
    assert "OPENAI_API_KEY" not in done.output
    for name in ("HTTPS_PROXY", "UV_INDEX", "PATH", "EXTRA"):
        assert name in done.output


def test_an_installer_that_hangs_is_killed_with_its_children(tmp_path):
    code = (
        "import subprocess, sys, time; from pathlib import Path;"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']);"
        f"Path({str(tmp_path)!r}, 'pid').write_text(str(child.pid)); time.sleep(60)"
    )
    begun = time.monotonic()
    with pytest.raises(ServerFailed, match="not done within 1 s") as failure:
        run(sys.executable, "-c", code, limit_s=1.0)
    assert failure.value.outcome == "install_failed"
    assert time.monotonic() - begun < 10
    child = int((tmp_path / "pid").read_text(encoding="utf-8"))
    deadline = time.monotonic() + 5
    while _alive(child) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not _alive(child)


def _alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_an_installer_that_is_not_there_is_named():
    with pytest.raises(ServerFailed, match="no-such-installer"):
        run("no-such-installer")


def test_of_endless_output_the_end_is_kept():
    done = run(sys.executable, "-c", "print('x' * 1_000_000); print('the end')")
    assert len(done.output) == 20_000
    assert done.output.endswith("the end\n")


def test_a_folder_is_held_by_one_at_a_time(tmp_path):
    order = []

    async def one(name):
        async with install.exclusive(tmp_path / "sub" / "x"):
            order.append(f"{name} in")
            await asyncio.sleep(0.05)
            order.append(f"{name} out")

    async def both():
        await asyncio.gather(one("a"), one("b"))

    asyncio.run(both())
    assert order == ["a in", "a out", "b in", "b out"]


@settings(max_examples=40, deadline=None)
@given(st.text(min_size=1, max_size=30), st.text(max_size=10))
def test_folder_names_never_leave_their_folder(package, version):
    name = install.folder_name(package, version)
    assert os.path.basename(name) == name
    assert "@" in name  # so it is neither "." nor ".."


def test_without_an_index_the_newest_complete_installation_counts(tmp_path):
    for version, complete in (("1.0", True), ("1.1+mcp-2", True), ("1.2", False)):
        folder = tmp_path / f"scope--x@{version}"
        folder.mkdir()
        if complete:
            (folder / install.DONE).write_text("{}", encoding="utf-8")
        os.utime(folder, (len(version), len(version)))
    assert install.newest_kept(tmp_path, "@scope/x") == "1.1"
    assert install.newest_kept(tmp_path, "y") is None


# --- secrets ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("GITHUB_TOKEN", "x"),
        ("GITHUB_PERSONAL_ACCESS_TOKEN", "x"),
        ("OPENAI_API_KEY", "x"),
        ("apiKey", "x"),
        ("DB_PASSWORD", "x"),
        ("AWS_SECRET_ACCESS_KEY", "x"),
        ("MDB_MCP_CONNECTION_STRING", "x"),
        ("GITHUB_PAT", "x"),
        ("SENTRY_DSN", "x"),
        ("ANYTHING", "ghp_abcdef"),
        ("ANYTHING", "sk-abcdef"),
        ("ANYTHING", "Bearer abc"),
        ("ANYTHING", "eyJhbGciOi"),
        ("DATABASE_URL", "postgres://me:pw@host/db"),
    ],
)
def test_credentials_are_recognised_and_replaced(name, value):
    replaced = secrets.without_secrets({name: value})[name]
    assert replaced in (secrets.DUMMY, secrets.DUMMY_URL)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LOG_LEVEL", "debug"),
        ("ALLOWED_DIR", "/data"),
        ("MONKEY", "banana"),
        ("URL", "https://x/y"),
    ],
)
def test_other_variables_stay(name, value):
    assert secrets.without_secrets({name: value}) == {name: value}


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (["--token", "abc", "/data"], ("--token", secrets.DUMMY, "/data")),
        (["--api-key=abc"], (f"--api-key={secrets.DUMMY}",)),
        (["--access-token", "--verbose"], ("--access-token", "--verbose")),
        (["sk-abc"], (secrets.DUMMY,)),
        (["postgresql://u:p@h/db"], ("postgresql://h/db",)),
        (["--db-path", "{work}/x.db"], ("--db-path", "{work}/x.db")),
    ],
)
def test_credentials_in_a_command_line_are_replaced(given, kept):
    assert secrets.without_secret_arguments(given) == kept


def test_the_variables_a_message_asks_for_are_found():
    said = "Error: set SLACK_BOT_TOKEN and SLACK_TEAM_ID (see MODULE_NOT_FOUND, README)"
    assert secrets.variables_in(said) == ["SLACK_BOT_TOKEN", "SLACK_TEAM_ID"]
