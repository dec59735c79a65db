"""What the desk of a university does to courses, seats, exams and fees."""

import pytest


@pytest.fixture(name="campus")
def _campus(desk_of):
    return desk_of("campus")


FREE = (
    "SELECT s.id AS student, s.balance, t.id AS stream, t.course_id AS course, c.tuition "
    "FROM students s JOIN streams t ON t.semester = '2026-S2' JOIN courses c ON c.id = t.course_id "
    "WHERE t.capacity - t.reserved - (SELECT count(*) FROM enrolments e "
    "WHERE e.stream_id = t.id AND e.status = 'enrolled') = 1 AND NOT EXISTS "
    "(SELECT 1 FROM enrolments e JOIN streams d ON d.id = e.stream_id WHERE e.student_id = s.id "
    "AND (d.course_id = t.course_id OR d.weekday = t.weekday AND d.time = t.time))"
)


def test_the_last_seat_of_a_stream_is_charged_and_then_the_stream_is_full(campus):
    free = campus.one(FREE)
    made = campus.done("enrol_in_stream", student_id=free["student"], stream_id=free["stream"])
    assert (made["tuition"], made["due"]) == (free["tuition"], "2026-08-19")
    balance = campus.one("SELECT balance FROM students WHERE id = :id", id=free["student"])
    assert balance == {"balance": free["balance"] + free["tuition"]}
    assert campus.done("get_stream", stream_id=free["stream"])["free_seats"] == 0
    other = campus.one(
        "SELECT id FROM students WHERE id NOT IN (SELECT student_id FROM enrolments e "
        "JOIN streams t ON t.id = e.stream_id WHERE t.course_id = :course)",
        course=free["course"],
    )
    code = campus.refused("enrol_in_stream", student_id=other["id"], stream_id=free["stream"])
    assert code == "stream_full"
    assert campus.broken() == []


def test_who_drops_courses_owes_nothing_for_them_and_sits_none_of_their_exams(campus):
    both = campus.query(
        "SELECT e.id, e.student_id FROM enrolments e WHERE e.status = 'enrolled' "
        "AND e.enrolled_on < today() AND e.student_id = (SELECT n.student_id FROM exam_entries n "
        "JOIN exams x ON x.id = n.exam_id JOIN streams t ON t.course_id = x.course_id "
        "JOIN enrolments d ON d.stream_id = t.id AND d.student_id = n.student_id "
        "WHERE n.status = 'registered' AND d.enrolled_on < today() ORDER BY n.id LIMIT 1)",
        {},
    )
    student, ids = both[0]["student_id"], [row["id"] for row in both][:3]
    campus.done("drop_courses", student_id=student, enrolment_ids=ids)
    fees = campus.query("SELECT status FROM fees WHERE enrolment_id = :id", {"id": ids[0]})
    assert {row["status"] for row in fees} <= {"cancelled", "refunded"}
    assert campus.broken() == []
    assert campus.refused("drop_courses", student_id=student, enrolment_ids=ids) == "not_enrolled"


def test_a_due_date_is_put_off_once(campus):
    fee = campus.one("SELECT id FROM fees WHERE status = 'open' AND NOT extended AND due > today()")
    moved = campus.done("extend_due_date", fee_id=fee["id"], new_due="2026-10-01")
    assert moved["due"] == "2026-10-01"
    again = campus.refused("extend_due_date", fee_id=fee["id"], new_due="2026-10-02")
    assert again == "already_extended"


def test_fees_that_are_paid_leave_the_balance(campus):
    open_fees = campus.query(
        "SELECT id, student_id, amount FROM fees WHERE status = 'open' AND student_id = "
        "(SELECT student_id FROM fees WHERE status = 'open' GROUP BY student_id "
        "HAVING count(*) > 1 ORDER BY student_id LIMIT 1) ORDER BY id",
        {},
    )[:2]
    student = open_fees[0]["student_id"]
    before = campus.one("SELECT balance FROM students WHERE id = :id", id=student)["balance"]
    ids = [fee["id"] for fee in open_fees]
    campus.done("pay_fees", student_id=student, fee_ids=ids, method="card")
    after = campus.one("SELECT balance FROM students WHERE id = :id", id=student)["balance"]
    assert before - after == sum(fee["amount"] for fee in open_fees)
    assert campus.broken() == []
    assert campus.refused("pay_fees", student_id=student, fee_ids=ids, method="card") == "not_open"


def test_nobody_waits_for_a_stream_with_free_seats_or_leaves_a_list_twice(campus):
    free = campus.one(FREE)
    code = campus.refused("join_waiting_list", student_id=free["student"], stream_id=free["stream"])
    assert code == "seats_left"
    entry = campus.one("SELECT id FROM waitlist_entries WHERE status = 'waiting'")["id"]
    assert campus.done("leave_waiting_list", waitlist_entry_id=entry)["status"] == "left"
    assert campus.refused("leave_waiting_list", waitlist_entry_id=entry) == "not_waiting"
