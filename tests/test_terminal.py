"""What strangers wrote reaches a terminal as text: nothing moves, reorders or fakes a line."""

import ast
import json
import os
import pty
import re
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from synth.app._show import command, json_text, line, lines

ROOT = Path(__file__).parent.parent
HOSTILE = ROOT / "tests" / "servers" / "hostile.py"
TRICKS = "\x1b[2J\x1b]0;title\x07\x9b31m\u202egnp\u2066\u200b\ud800\x00\x7f\u2028[/red] [bold]"
TEXTS = st.text(st.characters(codec=None), max_size=60)
BIDI = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


def acts(text):
    """Return the characters of `text` that a terminal acts upon."""
    return [
        c
        for c in text
        if unicodedata.category(c) in ("Cc", "Zl", "Zp", "Cs")
        or unicodedata.bidirectional(c) in BIDI
    ]


@given(TEXTS)
@example(TRICKS)
def test_one_line_stays_one_line_without_anything_that_acts(text):
    assert set(acts(line(text))) <= {"\t"}
    assert set(acts(lines(text))) <= {"\t", "\n"}
    line(text).encode()


@given(TEXTS)
@example(TRICKS)
def test_json_holds_the_same_value_in_harmless_characters(text):
    shown = json_text(json.dumps({"text": text}, ensure_ascii=False))
    assert acts(shown) == []
    assert json.loads(shown) == {"text": text}


@given(st.lists(TEXTS, min_size=1))
@example(["sh", "-c", "a\nb"])
def test_a_command_line_is_one_line(argv):
    assert set(acts(command(argv))) <= {"\t"}


def test_what_is_harmless_is_shown_as_it_is():
    text = "naïve Überprüfung 日本 عربى 👩\u200d🚀 — 3 < 4"
    assert (line(text), lines(text)) == (text, text)
    assert line("  a \n  b\r\n\n") == "  a b"
    assert line("\x1b[31mred\u202e") == "\\x1b[31mred\\u202e"
    assert command(["python", "a b", "x\ny"]) == "python 'a b' 'x\\ny'"


def test_nothing_is_written_but_where_it_is_made_harmless():
    found = {
        str(path.relative_to(ROOT))
        for folder in ("synth", "tool_registry", "simulators", "train")
        for path in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if _writes(node)
    }
    assert found == {"synth/app/__init__.py", "synth/app/_show.py"}


def _writes(node):
    """Say whether a call prints, or writes to a standard stream."""
    if not isinstance(node, ast.Call):
        return False
    called = ast.unparse(node.func)
    return (
        called == "print"
        or re.fullmatch(r"sys\.(stdout|stderr)\.write(lines)?", called) is not None
    )


# --- through the command ---------------------------------------------------------------------


@pytest.fixture
def evil(tmp_path):
    """Return an mcp.json whose names, arguments and errors all hold tricks."""
    name = f"na\nme {TRICKS}".replace("\ud800", "")
    args = ["-I", "-S", str(HOSTILE), "coloured_error", "a\nb", "\x1b[31m"]
    path = tmp_path / "mcp.json"
    servers = {name: {"command": sys.executable, "args": args}}
    path.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    return path


def toolloom(tmp_path, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "synth", "--workspace", str(tmp_path / "w"), *map(str, arguments)],
        capture_output=True,
        timeout=120,
        check=False,
        cwd=ROOT,
    )


def test_a_crawl_shows_one_line_of_each_kind_and_each_name_once(tmp_path, evil):
    said = toolloom(tmp_path, "crawl", evil, "--allow-weaker")
    shown, failed = said.stdout.decode(), said.stderr.decode()
    assert set(acts(shown + failed)) == {"\n"}
    server, reason, ran = shown.splitlines()
    assert server.startswith(f"mcp.json:{evil}#na me \\x1b[2J")
    assert reason.strip() == "error 7: first second \\x1b[31m\\u202e[/red]"
    assert ran.endswith("coloured_error 'a\\nb' '\\x1b[31m'")
    assert failed.count(str(evil)) == 1
    assert len(failed.splitlines()) == 1


def test_the_registry_shows_what_was_crawled_harmlessly(tmp_path, evil):
    toolloom(tmp_path, "crawl", evil, "--allow-weaker")
    query = "SELECT server, reason, argv FROM crawls"
    for options in ([], ["--json"]):
        said = toolloom(tmp_path, "registry", "sql", query, *options)
        assert b"first" in said.stdout
        assert set(acts((said.stdout + said.stderr).decode())) <= {"\n"}


def test_rows_for_programs_are_harmless_on_a_terminal_and_whole_in_a_pipe(tmp_path, evil):
    toolloom(tmp_path, "crawl", evil, "--allow-weaker")
    query = ["registry", "sql", "SELECT reason FROM crawls", "--csv"]
    piped = toolloom(tmp_path, *query).stdout
    assert b"\x1b[31m" in piped
    assert piped.startswith(b"reason\r\n")
    said, code = on_terminal(tmp_path, query, "stdout")
    assert code == 0
    assert b"\x1b[31m" not in said
    assert b"\\x1b[31m" in said


def on_terminal(tmp_path, arguments, stream):
    """Run the command with one of its streams on a terminal; return what it said there."""
    ours, theirs = pty.openpty()
    start = (sys.executable, "-m", "synth", "--workspace", str(tmp_path / "w"))
    process = subprocess.Popen(
        [*start, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        cwd=ROOT,
        env={**os.environ, "TERM": "xterm"},
        **{"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, stream: theirs},
    )
    os.close(theirs)
    said = b""
    while True:
        try:
            said += os.read(ours, 65536)
        except OSError:  # Linux says so when the other end is closed
            break
    os.close(ours)
    return said, process.wait()


def test_a_bar_on_a_terminal_takes_notes_literally(tmp_path, evil):
    said, code = on_terminal(tmp_path, ["crawl", evil, "--allow-weaker"], "stderr")
    assert code == 3
    assert b"Traceback" not in said
    assert b"\x1b[2J" not in said
    assert b"\x1b]0;title" not in said
    assert said.rstrip().endswith(b"error 7: first second \\x1b[31m\\u202e[/red]")
