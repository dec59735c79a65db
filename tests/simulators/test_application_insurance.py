"""What the writes of the insurance application do, read back through its own tools."""

import pytest


@pytest.fixture(name="desk")
def _desk(desk_of):
    return desk_of("insurance")


def test_a_payout_is_what_was_approved_less_the_deductible_and_is_made_once(desk):
    claim = desk.one(
        "SELECT c.id, c.approved_amount, p.deductible, p.policyholder_id AS owner FROM claims c "
        "JOIN policies p ON p.id = c.policy_id WHERE c.status = 'approved' "
        "AND c.approved_amount > p.deductible",
    )
    paid = desk.done("release_payout", claim_id=claim["id"], method="check")
    assert paid["amount"] == claim["approved_amount"] - claim["deductible"]
    listed = desk.done("list_payouts", policyholder_id=claim["owner"], since="2026-02-17")
    assert (paid["id"], paid["amount"]) in [(row["id"], row["amount"]) for row in listed["result"]]
    again = desk.refused("release_payout", claim_id=claim["id"], method="check")
    assert (again, desk.broken()) == ("not_approved", [])


def test_an_approval_within_the_deductible_pays_nothing(desk):
    claim = desk.one(
        "SELECT c.id FROM claims c JOIN policies p ON p.id = c.policy_id "
        "WHERE c.status = 'approved' AND c.approved_amount <= p.deductible",
    )
    code = desk.refused("release_payout", claim_id=claim["id"], method="direct_deposit")
    assert code == "below_deductible"


def test_a_higher_deductible_lowers_the_premium_but_not_the_invoices_that_are_out(desk):
    policy = desk.one(
        "SELECT p.id, r.base_premium FROM policies p JOIN products r ON r.id = p.product_id "
        "WHERE p.status = 'active' AND p.deductible = 25000 AND r.max_deductible = 100000",
    )
    before = desk.done("list_invoices", policy_id=policy["id"])
    changed = desk.done("change_deductible", policy_id=policy["id"], deductible=100000)
    assert changed["premium"] == policy["base_premium"] * 78 // 100
    assert desk.done("get_policy", policy_id=policy["id"])["premium"] == changed["premium"]
    assert desk.done("list_invoices", policy_id=policy["id"]) == before
    again = desk.refused("change_deductible", policy_id=policy["id"], deductible=100000)
    assert again == "same_deductible"


def test_an_inspection_takes_a_time_of_the_assessor_until_its_claim_is_withdrawn(desk):
    claim = desk.one(
        "SELECT c.id, a.id AS assessor FROM claims c JOIN policies p ON p.id = c.policy_id "
        "JOIN products r ON r.id = p.product_id JOIN assessors a ON a.specialty = r.line "
        "WHERE c.status = 'submitted' AND c.filed < today()",
    )
    day = "2026-05-04"
    wanted = {"assessor_id": claim["assessor"], "day": day}

    def free():
        return [row["time"] for row in desk.done("list_free_times", **wanted)["result"]]

    desk.done("schedule_inspection", claim_id=claim["id"], time="11:00", **wanted)
    assert desk.done("get_claim", claim_id=claim["id"])["status"] == "in_review"
    assert free() == ["09:00", "13:30", "15:30"]
    desk.done("withdraw_claims", claim_ids=[claim["id"]])
    assert "11:00" in free()
    assert desk.refused("withdraw_claims", claim_ids=[claim["id"]]) == "claim_closed"
    assert desk.broken() == []


def test_no_claim_exceeds_the_cover_or_comes_from_another_product(desk):
    policy = desk.one(
        "SELECT p.id, k.id AS coverage, k.max_amount FROM policies p JOIN coverages k "
        "ON k.product_id = p.product_id WHERE p.status = 'active' AND p.product_id = 'PR3'",
    )
    claim = {"policy_id": policy["id"], "incident_date": "2026-02-17"}
    most = {"coverage_id": policy["coverage"], "amount": policy["max_amount"]}
    assert desk.refused("file_claim", **claim, coverage_id="K24", amount=5000) == "not_covered"
    above = {**most, "amount": policy["max_amount"] + 1}
    assert desk.refused("file_claim", **claim, **above) == "amount_too_high"
    assert desk.done("file_claim", **claim, **most)["amount"] == policy["max_amount"]
    assert desk.refused("file_claim", **claim, **most) == "already_claimed"


def test_paid_invoices_are_no_longer_due_and_not_paid_twice(desk):
    invoice = desk.one("SELECT id, policy_id FROM invoices WHERE status = 'overdue'")
    desk.done("pay_invoices", invoice_ids=[invoice["id"]], method="card")
    listed = desk.done("list_invoices", policy_id=invoice["policy_id"], status="paid")["result"]
    assert {row["id"]: row["paid_on"] for row in listed}[invoice["id"]] == "2026-02-17"
    again = desk.refused("pay_invoices", invoice_ids=[invoice["id"]], method="card")
    assert (again, desk.broken()) == ("nothing_due", [])
