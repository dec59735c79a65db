"""What an energy supplier's service does to meters, tariffs, bills, plans and moves."""

import pytest


@pytest.fixture(name="energy")
def _energy(desk_of):
    return desk_of("energy")


def test_a_reading_becomes_the_last_one_and_none_below_it_is_taken(energy):
    manual = energy.one(
        "SELECT c.id, max(r.value) AS last FROM contracts c JOIN meters m ON m.id = c.meter_id "
        "JOIN readings r ON r.contract_id = c.id WHERE m.reading = 'manual' "
        "AND c.status = 'active' GROUP BY c.id",
    )
    value = manual["last"] + 250
    sent = energy.done("submit_reading", contract_id=manual["id"], value=value, day="2026-11-15")
    assert (sent["value"], sent["day"]) == (value, "2026-11-15")
    assert energy.done("get_contract", contract_id=manual["id"])["last_reading"] == value
    code = energy.refused("submit_reading", contract_id=manual["id"], value=value - 1)
    assert code == "below_last"
    again = {"contract_id": manual["id"], "value": value + 1, "day": "2026-11-15"}
    assert energy.refused("submit_reading", **again) == "not_after_last"


def test_a_plan_is_paid_to_the_last_oere_and_then_its_bills_are(energy):
    bill = energy.one(
        "SELECT b.id, b.amount, c.customer_id FROM bills b JOIN contracts c "
        "ON c.id = b.contract_id WHERE b.status = 'open' AND b.amount % 3 <> 0",
    )
    plan = energy.done(
        "create_plan",
        customer_id=bill["customer_id"],
        bill_ids=[bill["id"]],
        instalments=3,
        first_due="2026-11-30",
    )
    assert plan["total"] == bill["amount"]
    paid = [energy.done("pay_instalment", plan_id=plan["id"], method="swish") for _ in range(3)]
    assert sum(part["amount"] for part in paid) == bill["amount"]
    assert [part["next_due"] for part in paid] == ["2026-12-30", "2027-01-30", None]
    assert paid[-1]["status"] == "completed"
    assert energy.done("get_bill", bill_id=bill["id"])["status"] == "paid"
    assert energy.broken() == []
    code = energy.refused("pay_instalment", plan_id=plan["id"], method="swish")
    assert code == "plan_completed"


def test_a_fixed_price_starts_a_term_and_a_manual_meter_gets_no_night_tariff(energy):
    contract = energy.one(
        "SELECT c.id FROM contracts c JOIN meters m ON m.id = c.meter_id "
        "WHERE m.reading = 'manual' AND m.commodity = 'electricity' "
        "AND c.status = 'active' AND c.tariff_id <> 'T03'",
    )["id"]
    changed = energy.done("change_tariff", contract_id=contract, tariff_id="T03")
    assert (changed["unit_price"], changed["fixed_until"]) == (139, "2027-11-17")
    code = energy.refused("change_tariff", contract_id=contract, tariff_id="T02")
    assert code == "remote_meter_needed"
    code = energy.refused("change_tariff", contract_id=contract, tariff_id="T08")
    assert code == "unsuitable_tariff"


def test_a_move_holds_its_address_until_it_is_called_off(energy):
    moves = energy.query(
        "SELECT id, contract_id, meter_id FROM moves WHERE status = 'booked' ORDER BY id LIMIT 2",
        {},
    )
    first, second = moves
    assert energy.refused("end_contract", contract_id=first["contract_id"], last_day="2026-12-31")
    assert energy.done("cancel_move", move_id=second["id"])["status"] == "cancelled"
    target = {"contract_id": second["contract_id"], "day": "2026-12-05"}
    code = energy.refused("schedule_move", meter_id=first["meter_id"], **target)
    assert code == "not_vacant"
    booked = energy.done("schedule_move", meter_id=second["meter_id"], **target)
    assert booked["day"] == "2026-12-05"
    assert energy.broken() == []


def test_bills_are_paid_once_and_only_by_their_customer(energy):
    bill = energy.one(
        "SELECT b.id, b.amount, c.customer_id FROM bills b JOIN contracts c "
        "ON c.id = b.contract_id WHERE b.status = 'open'",
    )
    mine = {"bill_ids": [bill["id"]], "method": "card"}
    other = energy.one("SELECT id FROM customers WHERE id <> :id", id=bill["customer_id"])["id"]
    assert energy.refused("pay_bills", customer_id=other, **mine) == "other_customer"
    paid = energy.done("pay_bills", customer_id=bill["customer_id"], **mine)
    assert paid["result"][0]["amount"] == bill["amount"]
    assert energy.refused("pay_bills", customer_id=bill["customer_id"], **mine) == "not_open"
    assert energy.broken() == []
