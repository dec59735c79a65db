"""What the tools of the personnel desk keep true: leave days, seats, claims and workloads."""

import pytest


@pytest.fixture(name="hr")
def _hr(desk_of):
    return desk_of("hr")


def days_used(environment, employee, kind="annual"):
    (balance,) = environment.done("get_leave_balances", employee_id=employee, kind=kind)["result"]
    return balance["used"]


def free_employee(environment):
    """Return who has neither leave nor a course from 12 to 27 October, and days left."""
    return environment.one(
        "SELECT b.employee_id AS id FROM leave_balances b WHERE leave_type_id = 'T1' "
        "AND entitled - used >= 6 AND NOT EXISTS (SELECT 1 FROM leave_requests r "
        "WHERE r.employee_id = b.employee_id AND r.last_day >= '2026-10-05') "
        "AND NOT EXISTS (SELECT 1 FROM enrolments n JOIN sessions s ON s.id = n.session_id "
        "WHERE n.employee_id = b.employee_id AND s.ends >= '2026-10-05')",
    )["id"]


def latest_leave(environment, employee):
    sql = "SELECT id FROM leave_requests WHERE employee_id = :who ORDER BY id DESC"
    return environment.one(sql, who=employee)


def test_leave_over_a_weekend_takes_its_working_days_and_gives_them_back(hr):
    who = free_employee(hr)
    before = days_used(hr, who)
    leave = {"leave_type_id": "T1", "first_day": "2026-10-15", "last_day": "2026-10-20"}
    asked = hr.done("request_leave", employee_id=who, **leave)
    assert (asked["days"], asked["status"]) == (4, "pending")
    assert days_used(hr, who) == before + 4
    assert hr.refused("request_leave", employee_id=who, **leave) == "overlapping_leave"
    row = hr.one("SELECT id FROM leave_requests WHERE employee_id = :who ORDER BY id DESC", who=who)
    hr.done("withdraw_leave", leave_request_ids=[row["id"]])
    assert days_used(hr, who) == before
    assert hr.refused("withdraw_leave", leave_request_ids=[row["id"]]) == "not_withdrawable"


def test_leave_of_a_weekend_is_refused(hr):
    weekend = {"leave_type_id": "T1", "first_day": "2026-10-17", "last_day": "2026-10-18"}
    who = free_employee(hr)
    assert hr.refused("request_leave", employee_id=who, **weekend) == "no_working_days"


def test_moved_leave_keeps_its_working_days_and_waits_for_approval_again(hr):
    who = free_employee(hr)
    before = days_used(hr, who)
    leave = {"leave_type_id": "T1", "first_day": "2026-10-12", "last_day": "2026-10-16"}
    hr.done("request_leave", employee_id=who, **leave)
    row = hr.one("SELECT id FROM leave_requests WHERE employee_id = :who ORDER BY id DESC", who=who)
    moved = hr.done("move_leave", leave_request_id=row["id"], first_day="2026-10-21")
    assert (moved["last_day"], moved["days"], moved["status"]) == ("2026-10-27", 5, "pending")
    assert days_used(hr, who) == before + 5


def test_a_course_keeps_its_seats_and_nobody_takes_it_twice(hr):
    session = hr.one(
        "SELECT s.id, s.training_id, s.starts, s.ends, e.id AS who FROM sessions s, employees e "
        "WHERE s.starts > today() AND s.place <> 'online' AND (SELECT count(*) FROM enrolments n "
        "WHERE n.session_id = s.id AND n.status = 'enrolled') < s.seats "
        "AND NOT EXISTS (SELECT 1 FROM enrolments n JOIN sessions o ON o.id = n.session_id "
        "WHERE n.employee_id = e.id AND (o.training_id = s.training_id OR o.ends > today())) "
        "AND NOT EXISTS (SELECT 1 FROM leave_requests r WHERE r.employee_id = e.id "
        "AND r.first_day <= s.ends AND r.last_day >= s.starts)",
    )

    def free():
        listed = hr.done("list_course_sessions", training_id=session["training_id"])["result"]
        return next(row["free_seats"] for row in listed if row["id"] == session["id"])

    seats, seat = free(), {"employee_id": session["who"], "session_id": session["id"]}
    assert hr.refused("book_course_travel", **seat, means="train", nights=1) == "not_enrolled"
    hr.done("enrol_in_course", **seat)
    assert free() == seats - 1
    assert hr.refused("enrol_in_course", **seat) == "already_taken"
    assert (
        hr.refused(
            "request_leave",
            employee_id=session["who"],
            leave_type_id="T4",
            first_day=session["starts"],
            last_day=session["ends"],
        )
        == "course_at_that_time"
    )
    hr.done("book_course_travel", **seat, means="train", nights=1)
    taken = hr.done("list_enrolments", employee_id=session["who"], status="enrolled")["result"]
    enrolment = next(row["id"] for row in taken if row["session_id"] == session["id"])
    hr.done("cancel_enrolment", enrolment_id=enrolment)
    assert free() == seats
    assert hr.query("SELECT 1 FROM trips WHERE enrolment_id = :id", {"id": enrolment}) == []


def test_the_ceiling_of_a_category_is_the_most_that_can_be_claimed(hr):
    who = hr.one("SELECT id FROM employees")["id"]
    claim = {"category_id": "C01", "merchant": "Kafé Sør", "day": "2026-09-10", "proof": "receipt"}
    assert hr.refused("submit_expense", employee_id=who, amount=90001, **claim) == "above_ceiling"
    hr.done("submit_expense", employee_id=who, amount=90000, **claim)
    listed = hr.done("list_expenses", employee_id=who, merchant="kafé sør")["result"]
    assert [(row["amount"], row["status"]) for row in listed] == [(90000, "submitted")]
    again = hr.refused("submit_expense", employee_id=who, amount=90000, **claim)
    assert again == "already_claimed"


def test_a_workload_changes_once_and_the_salary_follows_it(hr):
    contract = hr.one(
        "SELECT id, full_time_salary FROM employees WHERE workload = 100 "
        "AND id NOT IN (SELECT employee_id FROM workload_changes)",
    )
    change = {"employee_id": contract["id"], "workload": 60, "first_day": "2026-11-01"}
    assert hr.done("change_workload", **change)["later_salary"] == (
        contract["full_time_salary"] * 60 // 100
    )
    assert hr.done("get_contract", employee_id=contract["id"])["later_workload"] == 60
    assert hr.refused("change_workload", **change) == "change_pending"
