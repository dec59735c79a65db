"""The meeting desk of a company: what its writes do, and what they refuse."""

import pytest


@pytest.fixture(name="calendar")
def _calendar(desk_of):
    return desk_of("calendar", 1)


PRESENT = (
    "SELECT id, grade FROM employees WHERE id NOT IN (SELECT employee_id FROM absences) ORDER BY id"
)


def test_a_new_meeting_stands_in_the_calendar_of_everybody_invited(calendar):
    host, guest = (row["id"] for row in calendar.query(f"{PRESENT} LIMIT 2", {}))
    meeting = {"title": "Wharf repair", "day": "2026-10-01", "starts": "10:15", "minutes": 45}
    made = calendar.done("schedule_meeting", organiser_id=host, **meeting, room_id="R09",
        employee_ids=[guest],
    )  # fmt: skip
    assert made["ends"] == "11:00"
    (entry,) = calendar.done("list_calendar", employee_id=guest, day="2026-10-01")["result"]
    assert (entry["id"], entry["attendance"], entry["response"]) == (
        made["id"],
        "optional",
        "pending",
    )
    again = {**meeting, "title": "Another", "starts": "10:45"}
    other = {"room_id": "R09", "employee_ids": [host]}
    assert calendar.refused("schedule_meeting", organiser_id=guest, **again, **other) == (
        "room_taken"
    )


def test_moving_a_meeting_asks_everybody_again(calendar):
    meeting = calendar.one(
        "SELECT m.id, i.id AS invitation FROM meetings m JOIN invitations i ON i.meeting_id = m.id "
        "WHERE m.status = 'planned' AND i.response = 'accepted' AND m.organiser_id NOT IN "
        "(SELECT employee_id FROM absences) ORDER BY m.id",
    )
    later = {"day": "2026-10-02", "starts": "09:15", "minutes": 30}
    moved = calendar.done("move_meeting", meeting_id=meeting["id"], **later)
    assert (moved["day"], moved["starts"], moved["ends"]) == ("2026-10-02", "09:15", "09:45")
    answers = calendar.done("list_attendees", meeting_id=meeting["id"])["result"]
    assert {row["response"] for row in answers} == {"pending"}
    assert (
        calendar.refused("move_meeting", meeting_id=meeting["id"], day="2026-10-03", starts="09:15")
        == "weekend"
    )


def test_cancelling_a_meeting_pays_its_catering_back_and_frees_the_equipment(calendar):
    meeting = calendar.one(
        "SELECT m.id, e.department_id AS department FROM meetings m "
        "JOIN employees e ON e.id = m.organiser_id WHERE m.status = 'planned' "
        "AND m.room_id IS NOT NULL AND NOT EXISTS "
        "(SELECT 1 FROM catering_orders c WHERE c.meeting_id = m.id) ORDER BY m.id",
    )
    left = calendar.done("get_department", department_id=meeting["department"])["budget_left"]
    ordered = calendar.done("order_catering", meeting_id=meeting["id"], menu_id="N4", portions=3)
    assert ordered["amount"] == 3 * 1980
    assert (
        calendar.done("get_department", department_id=meeting["department"])["budget_left"]
        == left - 5940
    )
    assert calendar.done("cancel_meetings", meeting_ids=[meeting["id"]]) == {"cancelled": 1}
    assert (
        calendar.done("get_department", department_id=meeting["department"])["budget_left"] == left
    )
    assert (
        calendar.query(
            "SELECT 1 FROM equipment_bookings WHERE meeting_id = :id", {"id": meeting["id"]}
        )
        == []
    )
    assert calendar.refused("cancel_meetings", meeting_ids=[meeting["id"]]) == "not_planned"


def test_no_more_equipment_is_lent_than_there_is(calendar):
    meeting = calendar.one(
        "SELECT m.id, m.day FROM meetings m WHERE m.status = 'planned' AND m.room_id IS NOT NULL "
        "AND NOT EXISTS (SELECT 1 FROM equipment_bookings b WHERE b.meeting_id = m.id) ORDER BY id",
    )
    (leads,) = calendar.done("list_equipment", day=meeting["day"], name="extension")["result"]
    wanted = {"equipment_id": leads["id"], "quantity": 2}
    calendar.done("reserve_equipment", meeting_id=meeting["id"], items=[wanted])
    (after,) = calendar.done("list_equipment", day=meeting["day"], name="extension")["result"]
    assert after["unreserved"] == leads["unreserved"] - 2
    loop = {"equipment_id": "Q7", "quantity": 2}
    assert calendar.refused("reserve_equipment", meeting_id=meeting["id"], items=[loop]) == (
        "not_available"
    )
