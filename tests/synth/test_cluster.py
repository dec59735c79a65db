"""Which cluster workers run on: addresses that are none, and what killed owners left behind."""

import os
import re
import socket
import time

import pytest

from synth.core.errors import ToolloomError
from synth.core.locks import lock_folder

cluster = pytest.importorskip("synth.pipeline.cluster")
OLD_S = 10 * cluster.STALE_S


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("127.0.0.1:1", "no connection: .*refused"),
        ("[127.0.0.1]:1", "no connection: .*refused"),
        ("ray://127.0.0.1:10001", "ray:// is not meant: give HOST:PORT"),
    ],
)
def test_an_address_without_a_cluster_is_named_at_once(monkeypatch, address, says):
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(ToolloomError, match=f"RAY_ADDRESS={re.escape(address)}: .*{says}"):
        cluster.Cluster(1)


def test_an_address_of_the_sixth_version_is_found():
    with socket.socket(socket.AF_INET6) as listening:
        try:
            listening.bind(("::1", 0))
        except OSError:
            pytest.skip("this machine has no ::1")
        listening.listen()
        port = listening.getsockname()[1]
        cluster._check(f"[::1]:{port}")
        cluster._check(f"::1:{port}")


def aged(folder, seconds):
    """Make a folder as old as that."""
    (folder / "session").mkdir(parents=True)
    (folder / "session" / "log").write_text("…")
    then = time.time() - seconds
    os.utime(folder, (then, then))
    return folder


def test_folders_of_killed_owners_are_removed_and_no_others(tmp_path):
    def left(name, seconds, locked=True):
        folder = aged(tmp_path / name, seconds)
        if locked:
            os.close(lock_folder(folder, "cluster"))
            then = time.time() - seconds
            os.utime(folder, (then, then))
        return folder

    killed = [left(f"toolloom-ray-{n}", OLD_S) for n in range(2)]
    lives, target = left("toolloom-ray-lives", OLD_S), left("other", OLD_S)
    lock = lock_folder(lives, "cluster")
    os.utime(lives, (time.time() - OLD_S,) * 2)
    link = tmp_path / "toolloom-ray-link"
    link.symlink_to(target)
    kept = [lives, target, link, left("toolloom-ray-new", 1)]
    kept.append(left("toolloom-ray-of-somebody", OLD_S, locked=False))
    cluster._sweep(tmp_path)
    os.close(lock)
    assert not any(folder.exists() for folder in killed)
    assert all((folder / "session" / "log").exists() for folder in kept)


def test_what_ray_says_of_a_death_is_a_line_without_names():
    told = (
        "The actor died unexpectedly before finishing this task.\n\tclass_name: Worker\n"
        "\tactor_id: 0123\n\tpid: 7\nThe actor is dead because its worker process has died. "
        "Worker exit type: SYSTEM_ERROR\n" + "More. " * 200
    )
    error = cluster.ray.exceptions.RayActorError("0123", told)
    said = cluster.said(error)
    assert said.startswith("its worker process has died. Worker exit type: SYSTEM_ERROR More.")
    assert len(said) == 400
    assert cluster.said(cluster.ray.exceptions.RayError("lost\n  it")) == "lost it"
