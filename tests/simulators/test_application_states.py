"""What the writes of the shipped applications do, and that no seeded state breaks a promise."""

import pytest

from simulators.sql.load import applications


def test_promises_hold_in_states_that_no_lint_has_played(desk_of):
    for name in applications():
        desk = desk_of(name)
        for seed in range(100, 105):
            desk.reset(seed)
            assert desk.broken() == [], f"{name}, seed {seed}"


# --- bank ------------------------------------------------------------------------------------


def test_a_transfer_lowers_the_balance_by_its_amount_and_is_listed(desk_of):
    bank = desk_of("bank")
    account = bank.one(
        "SELECT a.id, a.balance, p.id AS payee FROM accounts a JOIN payees p "
        "ON p.customer_id = a.customer_id WHERE a.status = 'open' AND a.balance > 50000",
    )
    sent = bank.done(
        "send_transfer", account_id=account["id"], payee_id=account["payee"], amount=12345
    )
    assert sent["balance_after"] == account["balance"] - 12345
    listed = bank.done("list_transactions", account_id=account["id"], since="2026-05-13")
    assert (sent["id"], 12345) in [(row["id"], row["amount"]) for row in listed["result"]]
    assert bank.broken() == []


def test_a_refunded_fee_returns_to_the_account_and_only_once(desk_of):
    bank = desk_of("bank")
    fee = bank.one(
        "SELECT t.id, t.amount, a.balance FROM transactions t JOIN accounts a "
        "ON a.id = t.account_id WHERE t.kind = 'fee' AND t.status = 'booked'",
    )
    assert bank.done("refund_fee", transaction_id=fee["id"])["balance_after"] == (
        fee["balance"] + fee["amount"]
    )
    assert bank.refused("refund_fee", transaction_id=fee["id"]) == "already_refunded"
    assert bank.broken() == []


@pytest.mark.parametrize(
    ("reason", "wanted", "fee"), [("damaged", True, 1500), ("damaged", False, 0), ("lost", True, 0)]
)
def test_only_the_replacement_of_a_damaged_card_costs_something(desk_of, reason, wanted, fee):
    bank = desk_of("bank")
    card = bank.one(
        "SELECT k.id, a.id AS account, a.balance FROM cards k JOIN accounts a "
        "ON a.id = k.account_id WHERE k.status = 'active'",
    )
    blocked = bank.done("block_card", card_id=card["id"], reason=reason, order_replacement=wanted)
    assert (blocked["status"], blocked["replacement_ordered"], blocked["fee"]) == (
        "blocked",
        wanted,
        fee,
    )
    assert bank.done("get_account", account_id=card["account"])["balance"] == card["balance"] - fee
    assert bank.broken() == []


# --- clinic ----------------------------------------------------------------------------------


def test_moving_an_appointment_swaps_the_slots(desk_of):
    clinic = desk_of("clinic")
    visit = clinic.one(
        "SELECT a.id, a.slot_id AS before, f.id AS after FROM appointments a "
        "JOIN slots s ON s.id = a.slot_id JOIN slots f ON f.doctor_id = s.doctor_id "
        "WHERE a.status = 'booked' AND f.status = 'free' AND f.day >= today()",
    )
    clinic.done("reschedule_appointment", appointment_id=visit["id"], slot_id=visit["after"])
    status = {row["id"]: row["status"] for row in clinic.query("SELECT id, status FROM slots", {})}
    assert (status[visit["before"]], status[visit["after"]]) == ("free", "taken")
    assert clinic.broken() == []


def test_a_booked_and_cancelled_appointment_leaves_the_slot_free(desk_of):
    clinic = desk_of("clinic")
    free = clinic.one(
        "SELECT s.id, p.id AS patient FROM slots s, patients p WHERE s.status = 'free' "
        "AND s.day > today() AND NOT EXISTS (SELECT 1 FROM appointments a JOIN slots b "
        "ON b.id = a.slot_id WHERE a.patient_id = p.id AND b.doctor_id = s.doctor_id)",
    )
    booking = {"patient_id": free["patient"], "slot_id": free["id"], "kind": "check_up"}
    booked = clinic.done("book_appointment", **booking)
    assert clinic.refused("book_appointment", **booking) == "slot_taken"
    clinic.done("cancel_appointments", appointment_ids=[booked["id"]])
    assert clinic.done("book_appointment", **booking)["day"] == booked["day"]


# --- hotel -----------------------------------------------------------------------------------


def test_changing_the_length_of_a_stay_changes_departure_and_price(desk_of):
    hotel = desk_of("hotel")
    stay = hotel.one(
        "SELECT b.id, t.rate FROM bookings b JOIN room_types t ON t.id = b.room_type_id "
        "WHERE b.status = 'confirmed' AND b.rate_plan = 'flexible' AND b.nights > 2",
    )
    changed = hotel.done("change_stay", booking_id=stay["id"], nights=2)
    assert changed["price"] == 2 * stay["rate"]
    assert hotel.query(
        "SELECT days_between(:a, :d) AS n", {"a": changed["arrival"], "d": changed["departure"]}
    ) == [{"n": 2}]


def test_a_bill_counts_what_is_charged_and_what_is_paid(desk_of):
    hotel = desk_of("hotel")
    stay = hotel.one("SELECT id FROM bookings WHERE status = 'confirmed'")
    before = hotel.done("get_bill", booking_id=stay["id"])
    taken = {
        row["extra_id"]
        for row in hotel.query("SELECT extra_id FROM charges WHERE booking_id = :id", stay)
    }
    extra = next(e for e in ("E03", "E04", "E05", "E08") if e not in taken)
    (charge,) = hotel.done("add_extras", booking_id=stay["id"], extra_ids=[extra])["result"]
    added = hotel.done("get_bill", booking_id=stay["id"])
    assert added["balance"] == before["balance"] + charge["amount"]
    hotel.done("settle_charges", booking_id=stay["id"], charge_ids=[charge["id"]], method="card")
    assert hotel.done("get_bill", booking_id=stay["id"])["balance"] == before["balance"]


def test_points_pay_charges_and_are_used_up(desk_of):
    hotel = desk_of("hotel")
    charge = hotel.one(
        "SELECT h.id, h.booking_id, h.amount, g.id AS guest, g.points FROM charges h "
        "JOIN bookings b ON b.id = h.booking_id JOIN guests g ON g.id = b.guest_id "
        "WHERE h.status = 'open' AND g.points >= h.amount",
    )
    hotel.done(
        "settle_charges",
        booking_id=charge["booking_id"],
        charge_ids=[charge["id"]],
        method="points",
    )
    left = hotel.one("SELECT points FROM guests WHERE id = :guest", guest=charge["guest"])
    assert left["points"] == charge["points"] - charge["amount"]
