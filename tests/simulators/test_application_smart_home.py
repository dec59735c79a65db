"""The control desk of smart homes: what its writes do, and what they refuse."""

import json

from simulators.sql.engine import Engine
from simulators.sql.load import load_application

_engines = []


def desk():
    if not _engines:
        _engines.append(Engine(load_application("smart_home")))
    environment = _engines[0].environment()
    environment.reset_now(1)
    return environment


def one(environment, sql, **values):
    return environment.query(f"{sql} LIMIT 1", values)[0]


def done(environment, tool, **arguments):
    result = environment.call_now(tool, arguments)
    assert result.ok, result.content
    return json.loads(result.content)


def refused(environment, tool, **arguments):
    result = environment.call_now(tool, arguments)
    assert not result.ok
    return result.error.code


def test_a_device_switched_on_adds_to_the_draw_and_never_beyond_the_limit():
    home = desk()
    device = one(
        home,
        "SELECT d.id, d.home_id, d.watts FROM devices d WHERE d.state = 'off' AND d.online "
        "AND d.watts < 100 ORDER BY d.id",
    )
    before = done(home, "get_home", home_id=device["home_id"])
    done(home, "switch_devices", state="on", device_ids=[device["id"]])
    after = done(home, "get_home", home_id=device["home_id"])
    assert after["draw_in_watts"] == before["draw_in_watts"] + device["watts"]
    assert refused(home, "switch_devices", state="on", device_ids=[device["id"]]) == "no_change"
    limited = one(
        home,
        "SELECT h.id, h.max_watts, sum(d.watts) AS watts FROM homes h JOIN devices d "
        "ON d.home_id = h.id WHERE d.state = 'on' GROUP BY h.id HAVING sum(d.watts) > 1500",
    )
    assert done(home, "set_energy_limits", home_id=limited["id"], max_watts=limited["watts"])
    assert refused(
        home, "set_energy_limits", home_id=limited["id"], max_watts=limited["watts"] - 1
    ) == ("below_present_draw")
    further = one(
        home,
        "SELECT id FROM devices WHERE home_id = :home AND state = 'off' AND online ORDER BY id",
        home=limited["id"],
    )
    assert refused(home, "switch_devices", state="on", device_ids=[further["id"]]) == "power_limit"


def test_a_scene_that_was_saved_switches_its_devices_when_it_runs():
    home = desk()
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
    scene = done(home, "create_scene", home_id=lamps[0]["home_id"], name="Snow day", actions=wanted)
    assert scene["device_count"] == 2
    ran = done(home, "run_scene", scene_id=scene["id"])["result"]
    assert {row["id"]: row["state"] for row in ran} == {w["device_id"]: w["state"] for w in wanted}
    again = {"home_id": lamps[0]["home_id"], "name": "snow day", "actions": wanted}
    assert refused(home, "create_scene", **again) == "scene_exists"


def test_nobody_leaves_a_home_with_an_open_door_and_no_door_opens_behind_them():
    home = desk()
    place = one(
        home,
        "SELECT h.id FROM homes h JOIN locks l ON l.home_id = h.id WHERE h.mode = 'home' "
        "AND l.state = 'unlocked' AND NOT EXISTS (SELECT 1 FROM locks o WHERE o.home_id = h.id "
        "AND o.battery < 5) ORDER BY h.id",
    )
    assert refused(home, "set_mode", home_id=place["id"], mode="away") == "door_open"
    doors = done(home, "list_locks", home_id=place["id"])["result"]
    still_open = [door["id"] for door in doors if door["state"] == "unlocked"]
    done(home, "lock_doors", lock_ids=still_open)
    done(home, "set_mode", home_id=place["id"], mode="away")
    on = done(home, "list_devices", home_id=place["id"], state="on")["result"]
    assert {device["kind"] for device in on} <= {"heater"}
    assert refused(home, "unlock_door", lock_id=still_open[0]) == "home_is_away"


def test_a_guest_code_is_active_until_it_is_revoked():
    home = desk()
    lock = one(
        home,
        "SELECT l.id, l.home_id FROM locks l WHERE NOT EXISTS "
        "(SELECT 1 FROM guest_codes g WHERE g.lock_id = l.id) ORDER BY l.id",
    )
    guest = {"guest": "Reto Bieri", "phone": "+41 77 111 22 33"}
    days = {"first_day": "2026-01-23", "last_day": "2026-01-25"}
    code = done(home, "create_guest_code", lock_id=lock["id"], **guest, **days)
    assert (code["status"], code["last_day"]) == ("active", "2026-01-25")
    assert refused(home, "create_guest_code", lock_id=lock["id"], **guest, **days) == "code_exists"
    done(home, "revoke_guest_codes", guest_code_ids=[code["id"]])
    listed = done(home, "list_guest_codes", home_id=lock["home_id"], guest="bieri")["result"]
    assert [row["status"] for row in listed] == ["revoked"]
