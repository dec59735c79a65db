"""The folder of a live server as a value."""

import contextlib
import hashlib
import json
import os
import socket
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulators.live.folder import MAX_DEPTH, MAX_ENTRIES, MAX_FILE, Link, Tree
from synth.core.errors import BadRow, ServerFailed
from synth.core.mcp.disk import remove

NAMES = st.text("abcä \\'\n\udcff", min_size=1, max_size=4)
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)


def valid(files):
    """Drop files that another file's path needs as a folder."""
    return {
        path: content
        for path, content in files.items()
        if not any(other.startswith(f"{path}/") for other in files)
    }


TREES = st.dictionaries(PATHS, st.none() | st.binary(max_size=40), max_size=8).map(
    lambda files: Tree.of(valid(files))
)


def fault(root):
    with pytest.raises(ServerFailed) as caught:
        Tree.scan(root, server="files")
    assert "files: left" in str(caught.value)
    return caught.value.outcome


@pytest.mark.claim("a27")
@settings(max_examples=60, deadline=None)
@given(TREES)
def test_a_tree_survives_packing_and_the_disk(tmp_path_factory, tree):
    root = tmp_path_factory.mktemp("tree")
    assert Tree.unpack(tree.pack()) == tree
    tree.write(root)
    assert Tree.scan(root, server="files") == tree


@settings(max_examples=60, deadline=None)
@given(TREES, TREES)
def test_equal_diffs_mean_equal_folders_and_writing_replaces_everything(
    tmp_path_factory, one, other
):
    assert (one.diff(other) == ()) == (one == other)
    root = tmp_path_factory.mktemp("tree")
    one.write(root)
    other.write(root)
    found = Tree.scan(root, server="files")
    assert found == other
    assert found.diff(one) == other.diff(one)


def test_a_diff_says_what_changed_and_nothing_else():
    before = Tree.of({"a/keep": "k", "a/old": "1\n", "gone": b"\xff\0"})
    after = Tree.of({"a/keep": "k", "a/old": "2\n", "new": None})

    def row(path, content, **more):
        sha = hashlib.sha256(content).hexdigest()
        return {"path": path, "size": len(content), "sha256": sha} | more

    assert [json.loads(line) for line in after.diff(before)] == [
        ["files", "delete", row("gone", b"\xff\0"), None],
        ["files", "update", row("a/old", b"1\n", text="1\n"), row("a/old", b"2\n", text="2\n")],
        ["folders", "insert", None, {"path": "new"}],
    ]


def test_a_name_that_is_no_text_is_told_apart_from_its_escape():
    raw, escape = os.fsdecode(b"\xff"), "\\xff"
    assert Tree.of({raw: "x"}).diff(Tree({})) != Tree.of({escape: "x"}).diff(Tree({}))


def test_a_file_in_place_of_a_folder_is_a_deletion_and_an_insertion():
    lines = Tree.of({"a": "x"}).diff(Tree.of({"a": None}))
    assert [line.split(",")[:2] for line in lines] == [
        ['["files"', '"insert"'],
        ['["folders"', '"delete"'],
    ]


def test_large_texts_are_told_by_hash_alone():
    (line,) = Tree.of({"a": "x" * 4097}).diff(Tree({}))
    assert '"size":4097' in line
    assert '"text"' not in line


@pytest.mark.parametrize("target", ["/etc/passwd", "..", "a/../../x", "deep/../.."])
def test_a_link_that_points_outside_is_refused(tmp_path, target):
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to(target)
    assert fault(tmp_path) == "escaped"


@pytest.mark.claim("b12")
def test_a_link_that_leaves_through_another_link_is_refused(tmp_path):
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/up").symlink_to("../..")
    (tmp_path / "out").symlink_to("a/b/up/../x")
    assert fault(tmp_path) == "escaped"


def test_links_that_stay_inside_are_kept_without_the_path_of_the_machine(tmp_path):
    Tree.of({"a/file": "x"}).write(tmp_path)
    (tmp_path / "a/one").symlink_to("file")
    (tmp_path / "a/two").symlink_to(tmp_path / "a/file")
    tree = Tree.scan(tmp_path, server="files")
    assert tree.entries["a/one"] == tree.entries["a/two"] == Link("file")
    assert Tree.unpack(tree.pack()) == tree
    other = tmp_path / "copy"
    other.mkdir()
    tree.write(other)
    assert (other / "a/two").read_text(encoding="utf-8") == "x"


def test_what_is_neither_file_nor_folder_is_refused(tmp_path):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        assert fault(tmp_path) == "invalid"


def test_sizes_counts_and_depth_are_bounded(tmp_path):
    with (tmp_path / "big").open("wb") as file:
        file.truncate(MAX_FILE)
    assert fault(tmp_path) == "oversize"
    (tmp_path / "big").unlink()
    for number in range(9):
        with (tmp_path / str(number)).open("wb") as file:
            file.truncate(MAX_FILE - 1)
    assert fault(tmp_path) == "oversize"


def test_too_many_files_and_too_deep_folders_are_refused(tmp_path):
    (tmp_path / "many").mkdir()
    for number in range(MAX_ENTRIES):
        (tmp_path / "many" / str(number)).touch()
    assert fault(tmp_path) == "oversize"
    remove(tmp_path / "many")
    (tmp_path / "/".join("d" * (MAX_DEPTH + 2))).mkdir(parents=True)
    assert fault(tmp_path) == "oversize"


def test_a_folder_that_was_replaced_by_a_link_is_refused(tmp_path):
    (tmp_path / "root").symlink_to("/etc")
    with pytest.raises(ServerFailed, match="gone or was replaced") as caught:
        Tree.scan(tmp_path / "root", server="files")
    assert caught.value.outcome == "invalid"


def test_a_folder_without_permissions_is_removed():
    base = Path(tempfile.mkdtemp())
    root = base / "root"
    root.mkdir()
    Tree.of({"a/b/file": "x"}).write(root)
    with ordinary_user(base):
        (root / "a/b").chmod(0)
        (root / "a").chmod(0)
        with pytest.raises(PermissionError):
            list((root / "a").iterdir())
        remove(root)
        remove(root)
        assert not root.exists()
    base.rmdir()


@contextlib.contextmanager
def ordinary_user(folder):
    """Permissions do not bind root: where tests run as root, be nobody for a while."""
    if os.geteuid() != 0:
        yield
        return
    for path in (folder, *folder.rglob("*")):
        os.chown(path, 65_534, 65_534)
    os.seteuid(65_534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize(
    "data", [b"", b"[]", b'["tree/0",[]]', b'["tree/1",[["YQ==","cat",""]]]', b'["tree/1",[["?"]]]']
)
def test_what_is_no_snapshot_is_refused_in_one_line(data):
    with pytest.raises(BadRow, match="not a snapshot of a folder"):
        Tree.unpack(data)


def test_everything_written_has_fixed_times_and_rights_whatever_was_there_before(tmp_path):
    tree = Tree.of({"a/b": "x", "c": "y", "d/e": "z"})
    old = os.umask(0o077)
    try:
        tree.write(tmp_path)
    finally:
        os.umask(old)
    (tmp_path / "a/b").chmod(0o777)
    (tmp_path / "a").chmod(0o777)
    os.utime(tmp_path / "c", (1, 1))
    (tmp_path / "d/link").hardlink_to(tmp_path / "d/e")
    untouched = (tmp_path / "d").stat().st_ino
    tree.write(tmp_path)
    assert (tmp_path / "d").stat().st_ino == untouched
    assert Tree.scan(tmp_path, server="files") == tree
    found = [path.stat() for path in (tmp_path, *tmp_path.rglob("*"))]
    assert {entry.st_mtime for entry in found} == {1_772_442_000.0}
    assert {entry.st_mode & 0o777 for entry in found} == {0o644, 0o755}
    assert [entry.st_nlink for entry in found if entry.st_mode & 0o111 == 0] == [1, 1, 1]


def test_writing_never_follows_a_link_that_a_server_left(tmp_path):
    outside, root = tmp_path / "outside", tmp_path / "root"
    outside.mkdir()
    root.mkdir()
    (outside / "b").write_text("mine", encoding="utf-8")
    (root / "a").symlink_to(outside)
    (root / "c").symlink_to(outside / "b")
    (root / "gone").symlink_to(outside)
    tree = Tree.of({"a/b": "x", "c": "y"})
    tree.write(root)
    assert Tree.scan(root, server="files") == tree
    assert [(p.name, p.read_text(encoding="utf-8")) for p in outside.iterdir()] == [("b", "mine")]


def test_permissions_count_where_they_are_unusual(tmp_path):
    base = Tree.of({"a/run.sh": "x", "b": None, "c": "y"})
    base.write(tmp_path)
    assert Tree.scan(tmp_path, server="files") == base
    (tmp_path / "a/run.sh").chmod(0o4755)
    (tmp_path / "b").chmod(0o700)
    (tmp_path / "new").touch()
    (tmp_path / "new").chmod(0o600)
    after = Tree.scan(tmp_path, server="files")
    assert dict(after.modes) == {"a/run.sh": 0o4755, "b": 0o700, "new": 0o600}
    rows = [json.loads(line) for line in after.diff(base)]
    assert [(table, kind, new["path"], new["mode"]) for table, kind, _, new in rows] == [
        ("files", "insert", "new", "0600"),
        ("files", "update", "a/run.sh", "4755"),
        ("folders", "update", "b", "0700"),
    ]
    assert not any("mode" in old for _, _, old, _ in rows if old)
    assert Tree.unpack(after.pack()) == after
    base.write(tmp_path)
    assert Tree.scan(tmp_path, server="files") == base
    after.write(tmp_path)
    assert Tree.scan(tmp_path, server="files") == after


@pytest.mark.parametrize("mode", ["420", 0o100644, -1, True, 1.5])
def test_a_snapshot_with_impossible_permissions_is_refused(mode):
    packed = json.loads(Tree.of({"a": "x"}).pack())
    packed[1][0][3] = mode
    with pytest.raises(BadRow, match="not a snapshot"):
        Tree.unpack(json.dumps(packed).encode())


def test_a_folder_whose_rights_were_taken_is_made_anew():
    tree = Tree.of({"a/b": b"x", "c": b"y"})
    with tempfile.TemporaryDirectory() as root:
        os.chmod(root, 0o777)
        child = os.fork()
        if child == 0:  # rights bind nobody but an ordinary user
            with contextlib.suppress(PermissionError):
                os.setuid(65_534)
            inner = Path(root) / "tree"
            inner.mkdir()
            tree.write(inner)
            (inner / "a").chmod(0)
            try:
                tree.write(inner)
                os._exit(0 if (inner / "a" / "b").read_bytes() == b"x" else 1)
            except OSError:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
