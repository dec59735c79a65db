"""Seeded images on disk: the same as fresh ones, whatever happened to the files."""

import pytest

from simulators.sql.engine import Engine
from simulators.sql.load import load_application
from synth.core.application import Application

HOTEL = load_application("hotel")


@pytest.fixture(name="fresh", scope="module")
def _fresh():
    return Engine(HOTEL).seeded(3)


def test_an_image_read_from_disk_is_the_one_that_was_made(tmp_path, fresh):
    assert Engine(HOTEL, tmp_path).seeded(3) == fresh
    (file,) = tmp_path.iterdir()
    written = file.stat().st_mtime_ns
    assert Engine(HOTEL, tmp_path).seeded(3) == fresh
    assert file.stat().st_mtime_ns == written


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:-1],
        lambda data: data[:40] + bytes([data[40] ^ 1]) + data[41:],
        lambda data: (
            data[: len(data) // 2]
            + bytes([data[len(data) // 2] ^ 128])
            + data[len(data) // 2 + 1 :]
        ),
    ],
    ids=["empty", "cut", "head", "middle"],
)
def test_a_damaged_file_is_made_again(tmp_path, fresh, damage):
    Engine(HOTEL, tmp_path).seeded(3)
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    assert Engine(HOTEL, tmp_path).seeded(3) == fresh
    assert file.read_bytes() == whole


def test_another_seed_and_another_version_of_an_application_are_other_files(
    tmp_path, workshop_file
):
    for clock, seed in (("2026-03-02", 3), ("2026-03-02", 4), ("2027-03-02", 3)):
        workshop_file["clock"] = f"{clock}T09:00:00"
        Engine(Application.model_validate(workshop_file), tmp_path).seeded(seed)
    assert len(list(tmp_path.iterdir())) == 3
