"""The control desk of smart homes: what its writes do, and what they refuse."""

import pytest


@pytest.fixture(name="home")
def _home(desk_of):
    return desk_of("smart_home", 1)


def test_a_device_switched_on_adds_to_the_draw_and_never_beyond_the_limit(home):
    device = home.one(
        "SELECT d.id, d.home_id, d.watts FROM devices d WHERE d.state = 'off' AND d.online "
        "AND d.watts < 100 ORDER BY d.id",
    )
    before = home.done("get_home", home_id=device["home_id"])
    home.done("switch_devices", state="on", device_ids=[device["id"]])
    after = home.done("get_home", home_id=device["home_id"])
    assert after["draw_in_watts"] == before["draw_in_watts"] + device["watts"]
    assert home.refused("switch_devices", state="on", device_ids=[device["id"]]) == "no_change"
    limited = home.one(
        "SELECT h.id, h.max_watts, sum(d.watts) AS watts FROM homes h JOIN devices d "
        "ON d.home_id = h.id WHERE d.state = 'on' GROUP BY h.id HAVING sum(d.watts) > 1500",
    )
    assert home.done("set_energy_limits", home_id=limited["id"], max_watts=limited["watts"])
    assert home.refused(
        "set_energy_limits", home_id=limited["id"], max_watts=limited["watts"] - 1
    ) == ("below_present_draw")
    further = home.one(
        "SELECT id FROM devices WHERE home_id = :home AND state = 'off' AND online ORDER BY id",
        home=limited["id"],
    )
    assert home.refused("switch_devices", state="on", device_ids=[further["id"]]) == "power_limit"


def test_a_scene_that_was_saved_switches_its_devices_when_it_runs(home):
    lamps = home.query(
        "SELECT id, home_id, state FROM devices d WHERE online AND kind = 'light' AND (SELECT "
        "count(*) FROM devices o WHERE o.home_id = d.home_id AND o.online AND o.kind = 'light') "
        "> 1 "
        "ORDER BY home_id, id LIMIT 2",
        {},
    )
    wanted = [
        {"device_id": lamp["id"], "state": "off" if lamp["state"] == "on" else "on"}
        for lamp in lamps
    ]
    scene = home.done("create_scene", home_id=lamps[0]["home_id"], name="Snow day", actions=wanted)
    assert scene["device_count"] == 2
    ran = home.done("run_scene", scene_id=scene["id"])["result"]
    assert {row["id"]: row["state"] for row in ran} == {w["device_id"]: w["state"] for w in wanted}
    again = {"home_id": lamps[0]["home_id"], "name": "snow day", "actions": wanted}
    assert home.refused("create_scene", **again) == "scene_exists"


def test_nobody_leaves_a_home_with_an_open_door_and_no_door_opens_behind_them(home):
    place = home.one(
        "SELECT h.id FROM homes h JOIN locks l ON l.home_id = h.id WHERE h.mode = 'home' "
        "AND l.state = 'unlocked' AND NOT EXISTS (SELECT 1 FROM locks o WHERE o.home_id = h.id "
        "AND o.battery < 5) ORDER BY h.id",
    )
    assert home.refused("set_mode", home_id=place["id"], mode="away") == "door_open"
    doors = home.done("list_locks", home_id=place["id"])["result"]
    still_open = [door["id"] for door in doors if door["state"] == "unlocked"]
    home.done("lock_doors", lock_ids=still_open)
    home.done("set_mode", home_id=place["id"], mode="away")
    on = home.done("list_devices", home_id=place["id"], state="on")["result"]
    assert {device["kind"] for device in on} <= {"heater"}
    assert home.refused("unlock_door", lock_id=still_open[0]) == "home_is_away"


def test_a_guest_code_is_active_until_it_is_revoked(home):
    lock = home.one(
        "SELECT l.id, l.home_id FROM locks l WHERE NOT EXISTS "
        "(SELECT 1 FROM guest_codes g WHERE g.lock_id = l.id) ORDER BY l.id",
    )
    guest = {"guest": "Reto Bieri", "phone": "+41 77 111 22 33"}
    days = {"first_day": "2026-01-23", "last_day": "2026-01-25"}
    code = home.done("create_guest_code", lock_id=lock["id"], **guest, **days)
    assert (code["status"], code["last_day"]) == ("active", "2026-01-25")
    assert home.refused("create_guest_code", lock_id=lock["id"], **guest, **days) == "code_exists"
    home.done("revoke_guest_codes", guest_code_ids=[code["id"]])
    listed = home.done("list_guest_codes", home_id=lock["home_id"], guest="bieri")["result"]
    assert [row["status"] for row in listed] == ["revoked"]
