"""What a fulfilment house does to orders, robots, stock, counts and returns."""

import json

import pytest

from simulators.sql.engine import Engine
from simulators.sql.load import load_application


@pytest.fixture(scope="module")
def engine():
    return Engine(load_application("warehouse"))


@pytest.fixture
def warehouse(engine):
    environment = engine.environment()
    environment.reset_now(0)
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


def broken(environment, engine):
    return [what for what, sql in engine.application.never.items() if environment.query(sql, {})]


def on_hand(environment, product):
    return done(environment, "get_product", product_id=product)["on_hand"]


PRODUCT = (
    "SELECT p.id, p.merchant_id AS merchant, s.quantity FROM products p JOIN stock s "
    "ON s.product_id = p.id WHERE p.zone = 'ambient' AND s.quantity > 20"
)


def create(environment, found, quantity):
    return done(
        environment,
        "create_order",
        merchant_id=found["merchant"],
        lines=[{"product_id": found["id"], "quantity": quantity}],
        city="Sopot",
        service="express",
    )


def test_a_picked_order_takes_its_goods_and_a_robot_and_gives_both_back(warehouse, engine):
    found = one(warehouse, PRODUCT)
    before = on_hand(warehouse, found["id"])
    order = create(warehouse, found, 7)
    assert order["fee"] == 2490 + 7 * 85
    robot = one(
        warehouse,
        "SELECT name, battery FROM robots WHERE status = 'idle' AND zone = 'ambient' "
        "ORDER BY battery DESC, id",
    )
    picked = done(warehouse, "start_picking", order_id=order["id"])
    assert (picked["robot"], picked["battery"]) == (robot["name"], robot["battery"] - 9)
    assert on_hand(warehouse, found["id"]) == before - 7
    assert broken(warehouse, engine) == []
    assert refused(warehouse, "change_order", order_id=order["id"], city="Toruń") == "not_new"
    done(warehouse, "cancel_orders", merchant_id=found["merchant"], order_ids=[order["id"]])
    assert on_hand(warehouse, found["id"]) == before
    status = one(warehouse, "SELECT status FROM robots WHERE name = :name", name=robot["name"])
    assert status == {"status": "idle"}
    assert broken(warehouse, engine) == []


def test_no_order_is_picked_without_a_robot_whose_battery_lasts(warehouse):
    order = create(warehouse, one(warehouse, PRODUCT), 1)
    while warehouse.query(
        "SELECT 1 FROM robots WHERE status = 'idle' AND zone = 'ambient' AND battery >= 30", {}
    ):
        done(warehouse, "start_picking", order_id=order["id"])
        order = create(warehouse, one(warehouse, PRODUCT), 1)
    assert refused(warehouse, "start_picking", order_id=order["id"]) == "no_robot"


def test_more_than_is_on_hand_can_be_neither_sent_nor_written_off(warehouse, engine):
    found = one(warehouse, PRODUCT)
    everything = on_hand(warehouse, found["id"])
    line = {"product_id": found["id"], "quantity": everything + 1}
    order = {"merchant_id": found["merchant"], "city": "Sopot", "service": "standard"}
    assert refused(warehouse, "create_order", lines=[line], **order) == "not_on_hand"
    twice = [{"product_id": found["id"], "quantity": 1}] * 2
    assert refused(warehouse, "create_order", lines=twice, **order) == "product_twice"
    loss = {"product_id": found["id"], "reason": "expired"}
    assert refused(warehouse, "write_off", quantity=everything + 1, **loss) == "bin_short"
    done(warehouse, "write_off", quantity=4, **loss)
    assert on_hand(warehouse, found["id"]) == everything - 4
    assert broken(warehouse, engine) == []


def test_only_inspected_returns_come_back_into_stock_and_only_once(warehouse, engine):
    back = one(warehouse, "SELECT id, product_id, quantity FROM returns WHERE status = 'inspected'")
    before = on_hand(warehouse, back["product_id"])
    done(warehouse, "settle_return", return_id=back["id"], outcome="restocked")
    assert on_hand(warehouse, back["product_id"]) == before + back["quantity"]
    code = refused(warehouse, "settle_return", return_id=back["id"], outcome="sent_back")
    assert code == "not_inspected"
    awaited = one(warehouse, "SELECT id FROM returns WHERE status = 'expected'")["id"]
    code = refused(warehouse, "settle_return", return_id=awaited, outcome="disposed")
    assert code == "not_inspected"
    assert broken(warehouse, engine) == []


def test_a_count_is_booked_once_for_a_working_day(warehouse):
    found = one(
        warehouse,
        "SELECT id, merchant_id FROM products WHERE id NOT IN "
        "(SELECT product_id FROM counts WHERE status = 'booked')",
    )
    count = {"merchant_id": found["merchant_id"], "product_ids": [found["id"]]}
    assert refused(warehouse, "book_counts", day="2026-03-14", **count) == "no_working_day"
    assert done(warehouse, "book_counts", day="2026-03-16", **count)["result"][0]["day"] == (
        "2026-03-16"
    )
    assert refused(warehouse, "book_counts", day="2026-03-17", **count) == "already_booked"
