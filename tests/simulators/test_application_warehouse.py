"""What a fulfilment house does to orders, robots, stock, counts and returns."""

import pytest


@pytest.fixture(name="warehouse")
def _warehouse(desk_of):
    return desk_of("warehouse")


def on_hand(environment, product):
    return environment.done("get_product", product_id=product)["on_hand"]


PRODUCT = (
    "SELECT p.id, p.merchant_id AS merchant, s.quantity FROM products p JOIN stock s "
    "ON s.product_id = p.id WHERE p.zone = 'ambient' AND s.quantity > 20"
)


def create(environment, found, quantity):
    return environment.done(
        "create_order",
        merchant_id=found["merchant"],
        lines=[{"product_id": found["id"], "quantity": quantity}],
        city="Sopot",
        service="express",
    )


def test_a_picked_order_takes_its_goods_and_a_robot_and_gives_both_back(warehouse):
    found = warehouse.one(PRODUCT)
    before = on_hand(warehouse, found["id"])
    order = create(warehouse, found, 7)
    assert order["fee"] == 2490 + 7 * 85
    robot = warehouse.one(
        "SELECT name, battery FROM robots WHERE status = 'idle' AND zone = 'ambient' "
        "ORDER BY battery DESC, id",
    )
    picked = warehouse.done("start_picking", order_id=order["id"])
    assert (picked["robot"], picked["battery"]) == (robot["name"], robot["battery"] - 9)
    assert on_hand(warehouse, found["id"]) == before - 7
    assert warehouse.broken() == []
    assert warehouse.refused("change_order", order_id=order["id"], city="Toruń") == "not_new"
    warehouse.done("cancel_orders", merchant_id=found["merchant"], order_ids=[order["id"]])
    assert on_hand(warehouse, found["id"]) == before
    status = warehouse.one("SELECT status FROM robots WHERE name = :name", name=robot["name"])
    assert status == {"status": "idle"}
    assert warehouse.broken() == []


def test_no_order_is_picked_without_a_robot_whose_battery_lasts(warehouse):
    order = create(warehouse, warehouse.one(PRODUCT), 1)
    while warehouse.query(
        "SELECT 1 FROM robots WHERE status = 'idle' AND zone = 'ambient' AND battery >= 30", {}
    ):
        warehouse.done("start_picking", order_id=order["id"])
        order = create(warehouse, warehouse.one(PRODUCT), 1)
    assert warehouse.refused("start_picking", order_id=order["id"]) == "no_robot"


def test_more_than_is_on_hand_can_be_neither_sent_nor_written_off(warehouse):
    found = warehouse.one(PRODUCT)
    everything = on_hand(warehouse, found["id"])
    line = {"product_id": found["id"], "quantity": everything + 1}
    order = {"merchant_id": found["merchant"], "city": "Sopot", "service": "standard"}
    assert warehouse.refused("create_order", lines=[line], **order) == "not_on_hand"
    twice = [{"product_id": found["id"], "quantity": 1}] * 2
    assert warehouse.refused("create_order", lines=twice, **order) == "product_twice"
    loss = {"product_id": found["id"], "reason": "expired"}
    assert warehouse.refused("write_off", quantity=everything + 1, **loss) == "bin_short"
    warehouse.done("write_off", quantity=4, **loss)
    assert on_hand(warehouse, found["id"]) == everything - 4
    assert warehouse.broken() == []


def test_only_inspected_returns_come_back_into_stock_and_only_once(warehouse):
    back = warehouse.one("SELECT id, product_id, quantity FROM returns WHERE status = 'inspected'")
    before = on_hand(warehouse, back["product_id"])
    warehouse.done("settle_return", return_id=back["id"], outcome="restocked")
    assert on_hand(warehouse, back["product_id"]) == before + back["quantity"]
    code = warehouse.refused("settle_return", return_id=back["id"], outcome="sent_back")
    assert code == "not_inspected"
    awaited = warehouse.one("SELECT id FROM returns WHERE status = 'expected'")["id"]
    code = warehouse.refused("settle_return", return_id=awaited, outcome="disposed")
    assert code == "not_inspected"
    assert warehouse.broken() == []


def test_a_count_is_booked_once_for_a_working_day(warehouse):
    found = warehouse.one(
        "SELECT id, merchant_id FROM products WHERE id NOT IN "
        "(SELECT product_id FROM counts WHERE status = 'booked')",
    )
    count = {"merchant_id": found["merchant_id"], "product_ids": [found["id"]]}
    assert warehouse.refused("book_counts", day="2026-03-14", **count) == "no_working_day"
    assert warehouse.done("book_counts", day="2026-03-16", **count)["result"][0]["day"] == (
        "2026-03-16"
    )
    assert warehouse.refused("book_counts", day="2026-03-17", **count) == "already_booked"
