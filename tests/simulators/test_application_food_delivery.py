"""What the writes of the food delivery application do, read back through its own tools."""

import pytest


@pytest.fixture(name="desk")
def _desk(desk_of):
    return desk_of("food_delivery")


def credit(desk, order):
    sql = "SELECT c.credit FROM customers c JOIN orders o ON o.customer_id = c.id WHERE o.id = :id"
    return desk.query(sql, {"id": order})[0]["credit"]


def test_an_order_costs_its_dishes_and_delivery_less_the_voucher_which_is_then_used(desk):
    buyer = desk.one(
        "SELECT c.id, a.id AS address, v.id AS voucher, v.amount FROM customers c "
        "JOIN addresses a ON a.customer_id = c.id JOIN vouchers v ON v.customer_id = c.id "
        "WHERE c.plan = 'basic' AND v.status = 'active' AND v.minimum_order <= 8400",
    )
    order = {
        "customer_id": buyer["id"],
        "restaurant_id": "R04",
        "items": [{"dish_id": "M018", "quantity": 2}],
        "address_id": buyer["address"],
        "payment": "card",
    }
    dish = desk.one("SELECT price, restaurant_id FROM dishes WHERE id = 'M018'")
    assert dish == {"price": 4200, "restaurant_id": "R04"}
    placed = desk.done("place_order", **order, tip=500, voucher_id=buyer["voucher"])
    assert (placed["subtotal"], placed["delivery_fee"], placed["tip"]) == (8400, 899, 500)
    assert placed["total"] == 8400 + 899 + 500 - buyer["amount"]
    assert desk.done("get_order", order_id=placed["id"])["total"] == placed["total"]
    again = desk.refused("place_order", **order, voucher_id=buyer["voucher"])
    assert (again, desk.broken()) == ("voucher_not_applicable", [])


def test_an_order_below_the_minimum_or_with_a_dish_of_another_restaurant_is_not_placed(desk):
    buyer = desk.one("SELECT customer_id AS id, id AS address FROM addresses")
    order = {"customer_id": buyer["id"], "address_id": buyer["address"], "payment": "card"}
    little = {"restaurant_id": "R04", "items": [{"dish_id": "M018", "quantity": 1}]}
    mixed = {"restaurant_id": "R01", "items": [{"dish_id": "M018", "quantity": 1}]}
    assert desk.refused("place_order", **order, **little) == "below_minimum"
    assert desk.refused("place_order", **order, **mixed) == "bad_items"


def test_a_cancelled_order_gives_the_credit_and_the_voucher_back(desk):
    order = desk.one(
        "SELECT o.id, o.customer_id, v.id AS voucher FROM orders o JOIN vouchers v "
        "ON v.customer_id = o.customer_id WHERE o.status NOT IN ('delivered', 'cancelled') "
        "AND o.voucher_id IS NULL AND v.status = 'active' AND v.minimum_order <= o.subtotal "
        "ORDER BY o.payment DESC",
    )
    desk.done("apply_voucher", order_id=order["id"], voucher_id=order["voucher"])
    before = credit(desk, order["id"])
    cancelled = desk.done("cancel_order", order_id=order["id"])
    returned = cancelled["total"] if cancelled["payment"] == "credit" else 0
    assert credit(desk, order["id"]) == before + returned
    vouchers = desk.done("list_vouchers", customer_id=order["customer_id"])["result"]
    assert {row["id"]: row["status"] for row in vouchers}[order["voucher"]] == "active"
    assert desk.refused("cancel_order", order_id=order["id"]) == "order_closed"
    assert desk.broken() == []


def test_refunded_dishes_become_credit_once(desk):
    item = desk.one(
        "SELECT i.id, i.order_id, i.quantity * i.unit_price AS price FROM order_items i "
        "JOIN orders o ON o.id = i.order_id WHERE o.status = 'delivered' AND NOT EXISTS "
        "(SELECT 1 FROM refunds b WHERE b.order_id = o.id) AND o.discount = 0",
    )
    before = credit(desk, item["order_id"])
    refund = {"order_id": item["order_id"], "order_item_ids": [item["id"]], "method": "credit"}
    assert desk.done("refund_items", **refund, reason="cold")["amount"] == item["price"]
    assert credit(desk, item["order_id"]) == before + item["price"]
    listed = desk.done("list_order_items", order_id=item["order_id"])["result"]
    assert {row["id"]: row["refunded"] for row in listed}[item["id"]] is True
    assert desk.refused("refund_items", **refund, reason="cold") == "already_refunded"
    assert desk.broken() == []


def test_a_higher_tip_is_taken_from_the_credit_an_order_was_paid_with(desk):
    order = desk.one(
        "SELECT o.id, o.tip, o.total FROM orders o JOIN customers c ON c.id = o.customer_id "
        "WHERE o.status NOT IN ('delivered', 'cancelled') AND o.payment = 'credit' "
        "AND c.credit BETWEEN 100 AND 99999",
    )
    before = credit(desk, order["id"])
    raised = desk.done("set_tip", order_id=order["id"], tip=order["tip"] + 100)
    assert raised["total"] == order["total"] + 100
    assert credit(desk, order["id"]) == before - 100
    assert desk.refused("set_tip", order_id=order["id"], tip=order["tip"] + 100) == "same_tip"
    assert desk.broken() == []


def test_an_address_is_deleted_only_when_nothing_is_on_its_way_there(desk):
    busy = desk.one(
        "SELECT address_id AS id FROM orders WHERE status NOT IN ('delivered', 'cancelled')",
    )
    assert desk.refused("remove_address", address_id=busy["id"]) == "order_under_way"
    idle = desk.one(
        "SELECT id, customer_id FROM addresses WHERE id NOT IN (SELECT address_id FROM orders "
        "WHERE status NOT IN ('delivered', 'cancelled'))",
    )
    desk.done("remove_address", address_id=idle["id"])
    left = desk.done("list_addresses", customer_id=idle["customer_id"])["result"]
    assert idle["id"] not in [row["id"] for row in left]
    assert desk.refused("remove_address", address_id=idle["id"]) == "already_removed"
