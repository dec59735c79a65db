"""The disk of a server: measured while it runs, empty afterwards."""

import os

import pytest

from synth.core.mcp.disk import MAX_DEPTH, excess, private_folder, remove

PLENTY = {"most_bytes": 1 << 30, "most_files": 1 << 20}


def nested(root, depth):
    """Make folders deeper than any path can name."""
    here = os.open(root, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("a" * 20, dir_fd=here)
        below = os.open("a" * 20, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("leaf", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)


def test_space_and_files_of_all_folders_count_together_and_each_once(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one / "deep", two):
        folder.mkdir(parents=True)
        (folder / "file").write_bytes(bytes(1 << 20))
    folders = [one, one / "deep", two, two]
    assert excess(folders, **PLENTY) == ""
    assert excess(folders, most_bytes=1 << 20, most_files=100) == "writes more than 1 MiB"
    assert excess([two], most_bytes=3 << 20, most_files=100) == ""
    assert excess(folders, most_bytes=1 << 30, most_files=3) == ""
    assert excess(folders, most_bytes=1 << 30, most_files=2) == "writes more than 2 files"


def test_a_hole_is_no_space_and_a_link_is_not_followed(tmp_path):
    with (tmp_path / "hole").open("wb") as file:
        file.truncate(1 << 40)
    (tmp_path / "away").symlink_to("/usr")
    assert excess([tmp_path], most_bytes=1 << 20, most_files=2) == ""


def test_what_is_gone_takes_nothing_and_what_is_too_deep_is_too_much(tmp_path):
    assert excess([tmp_path / "gone"], **PLENTY) == ""
    nested(tmp_path, MAX_DEPTH + 1)
    assert excess([tmp_path], **PLENTY) == f"nests more than {MAX_DEPTH} folders"


def test_a_folder_is_removed_however_deep_and_whatever_its_permissions(tmp_path):
    with private_folder() as folder:
        nested(folder, 1_200)
        (folder / "shut/inner").mkdir(parents=True)
        (folder / "shut/inner").chmod(0)
        (folder / "shut").chmod(0)
        (folder / "link").symlink_to(tmp_path)
        os.mkfifo(folder / "pipe")
    assert not folder.exists()
    assert tmp_path.is_dir()
    remove(folder)
    remove(folder / "below")


def test_a_link_in_place_of_the_folder_is_not_followed(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "mine")
    with pytest.raises(OSError, match="directory"):
        remove(tmp_path / "link")
    assert (tmp_path / "mine").is_dir()
