"""What the writes of the ride-hailing application do, read back through its own tools."""

import pytest


@pytest.fixture(name="desk")
def _desk(desk_of):
    return desk_of("ride_hailing")


def balance(desk, rider):
    return desk.one("SELECT balance FROM riders WHERE id = :rider", rider=rider)["balance"]


def test_a_scheduled_ride_costs_what_was_quoted_and_the_wallet_pays_it_at_once(desk):
    rider = desk.one("SELECT id, balance FROM riders WHERE balance > 100000")
    way = {"pickup_id": "L01", "dropoff_id": "L12", "category_id": "G2"}
    quote = desk.done("get_quote", **way)
    assert (quote["kilometres"], quote["fare"]) == (22, 5000 + 22 * 1700)
    ride = {"rider_id": rider["id"], **way, "day": "2026-12-01", "time": "17:30", "passengers": 2}
    booked = desk.done("schedule_ride", **ride, payment="wallet")
    assert booked["fare"] == quote["fare"]
    assert balance(desk, rider["id"]) == rider["balance"] - quote["fare"]
    again = desk.refused("schedule_ride", **ride | {"time": "18:00"}, payment="card")
    assert (again, desk.broken()) == ("overlapping_ride", [])


def test_cancelling_a_scheduled_ride_brings_the_fare_back_free_of_charge(desk):
    ride = desk.one(
        "SELECT id, rider_id, fare FROM rides WHERE status = 'scheduled' AND payment = 'wallet'",
    )
    before = balance(desk, ride["rider_id"])
    (cancelled,) = desk.done("cancel_rides", ride_ids=[ride["id"]])["result"]
    assert (cancelled["status"], cancelled["cancellation_fee"]) == ("cancelled", 0)
    assert balance(desk, ride["rider_id"]) == before + ride["fare"]
    assert desk.refused("cancel_rides", ride_ids=[ride["id"]]) == "ride_started"
    assert desk.broken() == []


@pytest.mark.parametrize(("membership", "share"), [("regular", 1), ("gold", 0)])
def test_only_gold_members_cancel_for_nothing_once_a_driver_is_assigned(desk, membership, share):
    ride = desk.one(
        "SELECT r.id, c.cancellation_fee AS fee FROM rides r JOIN riders u ON u.id = r.rider_id "
        "JOIN categories c ON c.id = r.category_id WHERE r.status = 'assigned' "
        "AND u.membership = :membership",
        membership=membership,
    )
    (cancelled,) = desk.done("cancel_rides", ride_ids=[ride["id"]])["result"]
    assert cancelled["cancellation_fee"] == ride["fee"] * share
    assert desk.broken() == []


def test_another_destination_changes_the_fare_and_the_wallet_by_the_difference(desk):
    ride = desk.one(
        "SELECT r.id, r.rider_id, r.fare FROM rides r JOIN riders u ON u.id = r.rider_id "
        "WHERE r.status = 'scheduled' AND r.payment = 'wallet' AND r.pickup_id <> 'L19' "
        "AND r.dropoff_id <> 'L19' AND u.balance > 130000",
    )
    before = balance(desk, ride["rider_id"])
    changed = desk.done("change_destination", ride_id=ride["id"], dropoff_id="L19")
    assert changed["dropoff"] == "Kempegowda Airport"
    assert balance(desk, ride["rider_id"]) == before + ride["fare"] - changed["fare"]
    again = desk.refused("change_destination", ride_id=ride["id"], dropoff_id="L19")
    assert (again, desk.broken()) == ("same_place", [])


def test_a_dispute_is_refunded_into_the_wallet_once_and_up_to_the_fare(desk):
    dispute = desk.one(
        "SELECT q.id, r.rider_id, r.fare FROM disputes q JOIN rides r ON r.id = q.ride_id "
        "WHERE q.status = 'open'",
    )
    before = balance(desk, dispute["rider_id"])
    refund = {"dispute_id": dispute["id"]}
    too_much = desk.refused("refund_dispute", **refund, amount=dispute["fare"] + 1)
    assert too_much == "exceeds_fare"
    assert desk.done("refund_dispute", **refund, amount=5000)["refund"] == 5000
    assert balance(desk, dispute["rider_id"]) == before + 5000
    assert desk.refused("refund_dispute", **refund, amount=5000) == "not_open"
    assert desk.broken() == []


def test_a_lost_thing_is_returned_only_once_it_was_found(desk):
    found = desk.one("SELECT id FROM lost_items WHERE status = 'found'")
    wanted = {"place_id": "L03", "day": "2026-11-09"}
    arranged = desk.done("arrange_return", lost_item_id=found["id"], **wanted)
    assert (arranged["return_place"], arranged["return_day"]) == (
        "Majestic Bus Station",
        "2026-11-09",
    )
    ride = desk.one("SELECT id FROM rides WHERE status = 'completed'")
    reported = desk.done("report_lost_item", ride_id=ride["id"], item="a trombone")
    code = desk.refused("arrange_return", lost_item_id=reported["id"], **wanted)
    assert (code, desk.broken()) == ("not_found_yet", [])
